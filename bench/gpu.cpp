// Compiled functions on a GPU: bandwidth of memory-bound kernels against a plain copy, products, a training step, and
// what a call and a first call cost. The peers, PyTorch and JAX, have a program of their own (gpu_peers.py).
//
// `bench_gpu --first NAME` prints the milliseconds of one first call; the program runs itself so, in processes of their
// own.
#include "on_gpu.hpp"

#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sinter;
using benchmark::State;

#ifdef SINTER_CUDA
namespace {

using namespace bench::on_gpu;

/// What the calling thread spends in a call; the device keeps up.
void time_on_host(State& state, const std::function<void()>& call) {
  constexpr int calls = 100;
  for (int i = 0; i < calls; ++i) call();
  while (state.KeepRunningBatch(calls)) {
    cuda::synchronize();
    state.SetIterationTime(bench::seconds_of(call, calls));
  }
}

// ---- memory-bound kernels -------------------------------------------------------------------------------------------

constexpr std::int64_t elements = std::int64_t{1} << 27, row_count = 16384, row_length = 8192;
const Extents vector = {elements}, matrix = {row_count, row_length}, row = {row_length};

/// Bytes a second of a plain copy, measured once.
double copy_rate() {
  static const double rate = [] {
    const Tensor x = noise(vector);
    auto negate = jit::compile([](Tensor a) { return Tensor(-a); });
    const auto call = [&] { benchmark::DoNotOptimize(negate(x)); };
    device_seconds(call, 3);
    constexpr int calls = 50;
    return calls * 8.0 * elements / device_seconds(call, calls);
  }();
  return rate;
}

/// Tuned beside default, on these arguments.
template <class F, class... A>
void tuned_call_row(State& state, F function, const jit::Options& options, const A&... arguments) {
  tuned_row(
      state,
      [&](const jit::Options& own) {
        return [compiled = jit::compile(function, own), arguments...]() mutable { return compiled(arguments...); };
      },
      options);
}

/// First checked on the `small` arguments, then timed on those of `extents`. A call must move `passes` times 2^27
/// numbers.
template <class F, class... E>
void bandwidth_row(State& state, double passes, F function, const std::vector<Tensor>& small, const E&... extents) {
  if (bench::is_for_tuned_rows()) return tuned_call_row(state, function, {}, noise(extents)...);
  jit::reset();
  auto checked = jit::compile(function);
  const auto is_right = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return agree(state, checked(small[i]...), checked(small[i].to(Device::cpu())...));
  };
  if (!is_right(std::make_index_sequence<sizeof...(E)>())) return;
  auto compiled = jit::compile(function);  // of its own, so that its sizes are those that are timed
  const auto time = [&](const auto&... large) {
    const double first = bench::seconds_of([&] {
      benchmark::DoNotOptimize(compiled(large...));
      cuda::synchronize();
    });
    time_on_device(state, [&] { benchmark::DoNotOptimize(compiled(large...)); });
    state.counters["compile_ms"] = first * 1e3;
  };
  time(noise(extents)...);
  bench::count_bytes(state, static_cast<std::int64_t>(passes * 4 * elements));
  bench::set_limit(state, copy_rate());
}

void add_memory_bound_rows() {
  bench::add("chain/2^27/f32", [](State& state) {
    const auto chain = [](Tensor a, Tensor b, Tensor c) { return Tensor(gelu(a * b + c) * a - tanh(b)); };
    bandwidth_row(state, 4, chain, {noise({1003}), noise({1003}), noise({1003})}, vector, vector, vector);
  });
  bench::add("softmax/16384x8192/f32", [](State& state) {
    bandwidth_row(state, 2, [](Tensor a) { return softmax(a, 1); }, {noise({33, 1024})}, matrix);
  });
  bench::add("add+layernorm/16384x8192/f32", [](State& state) {
    const auto normalised = [](Tensor a, Tensor r, Tensor w, Tensor b) { return layer_norm(a + r, w.shape(), w, b); };
    bandwidth_row(state, 3, normalised, {noise({33, 1024}), noise({33, 1024}), noise({1024}), noise({1024})}, matrix,
                  matrix, row, row);
  });
  bench::add("row sum/16384x8192/f32", [](State& state) {
    bandwidth_row(state, 1, [](Tensor a) { return sum(a, 1); }, {noise({33, 1025})}, matrix);
  });
  bench::add("column sum of squares/16384x8192/f32", [](State& state) {
    bandwidth_row(state, 1, [](Tensor a) { return sum(a * a, 0); }, {noise({1025, 34})}, matrix);
  });
  bench::add("sum/2^27/f32",
             [](State& state) { bandwidth_row(state, 1, [](Tensor a) { return sum(a); }, {noise({100003})}, vector); });
}

// ---- products -------------------------------------------------------------------------------------------------------

using Policy = cuda::ProductPolicy;

/// How a row's products are made; the policy is the process's, and set back afterwards.
struct ProductOptions {
  MatmulPrecision precision = MatmulPrecision::f32;
  Policy policy = Policy::measured;
  DType dtype = DType::f32;
};

/// A product of square matrices and what follows it, checked on odd sizes, then timed.
template <class F>
void product_row(State& state, std::int64_t n, ProductOptions options, F function) {
  const jit::Options settings = {.matmul_precision = options.precision};
  if (bench::is_for_tuned_rows()) {
    if (options.policy != Policy::measured) return state.SkipWithError("it forces an algorithm");
    return tuned_call_row(state, function, settings, noise({n, n}, options.dtype), noise({n, n}, options.dtype),
                          noise({n}, options.dtype));
  }
  jit::reset();
  cuda::set_product_policy(options.policy);
  auto checked = jit::compile(function, settings);
  const Tensor few[] = {noise({130, 99}, options.dtype), noise({99, 260}, options.dtype), noise({260}, options.dtype)};
  const Tensor there = checked(few[0], few[1], few[2]),
               here = checked(few[0].to(Device::cpu()), few[1].to(Device::cpu()), few[2].to(Device::cpu()));
  const double tolerance = options.precision == MatmulPrecision::tf32 ? 5e-2 : 2e-4;
  if (agree(state, there.to(DType::f32), here.to(DType::f32), tolerance)) {
    const Tensor x = noise({n, n}, options.dtype), w = noise({n, n}, options.dtype), b = noise({n}, options.dtype);
    auto compiled = jit::compile(function, settings);  // of its own, so that its sizes are those that are timed
    time_on_device(state, [&] { benchmark::DoNotOptimize(compiled(x, w, b)); });
    bench::count_flops(state, 2.0 * static_cast<double>(n * n) * static_cast<double>(n));
  }
  cuda::set_product_policy(Policy::measured);
}

template <class F>
void add_product(const std::string& name, std::int64_t n, ProductOptions options, F function) {
  const std::string shape = bench::shape_text({n, n, n}), dtype = options.dtype == DType::f64 ? "f64" : "f32";
  bench::add(name + "/" + shape + "/" + dtype, [=](State& state) { product_row(state, n, options, function); });
}

void add_products() {
  const auto linear_gelu = [](Tensor a, Tensor c, Tensor d) { return Tensor(gelu(matmul(a, c) + d)); };
  const auto linear_relu = [](Tensor a, Tensor c, Tensor d) { return Tensor(relu(matmul(a, c) + d)); };
  const auto linear = [](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); };
  const auto plain = [](Tensor a, Tensor c, Tensor) { return matmul(a, c); };
  constexpr auto tf32 = MatmulPrecision::tf32, tf32x3 = MatmulPrecision::tf32x3;
  for (const auto& [suffix, policy] :
       {std::pair{"", Policy::measured}, {", generated", Policy::tensor_cores}, {", library", Policy::library}}) {
    add_product(std::string("matmul") + suffix, 4096, {.policy = policy, .dtype = DType::f64}, plain);
    for (std::int64_t n : {1024, 4096, 8192})
      add_product(std::string("linear+gelu in tf32") + suffix, n, {.precision = tf32, .policy = policy}, linear_gelu);
    add_product(std::string("linear+gelu in tf32x3") + suffix, 4096, {.precision = tf32x3, .policy = policy},
                linear_gelu);
  }
  for (std::int64_t n : {1024, 4096}) add_product("linear+gelu", n, {}, linear_gelu);
  // A layer with its bias by the library and in a kernel of its own.
  add_product("linear, bias by the library", 4096, {.policy = Policy::library}, linear);
  add_product("linear, bias in a kernel", 4096, {.policy = Policy::library_then_kernel}, linear);
  add_product("linear, generated", 4096, {.policy = Policy::fma}, linear);
  add_product("linear, as measured", 4096, {}, linear);
  add_product("linear+relu, by the library and a kernel", 4096, {.policy = Policy::library}, linear_relu);
  add_product("linear+relu, as measured", 4096, {}, linear_relu);
}

// ---- a training step, calls -----------------------------------------------------------------------------------------

struct Network {
  Variable w1{randn({784, 256}, {.device = gpu}) * 0.03f, "w1"}, b1{zeros({256}, {.device = gpu}), "b1"};
  Variable w2{randn({256, 10}, {.device = gpu}) * 0.06f, "w2"}, b2{zeros({10}, {.device = gpu}), "b2"};
};

auto training_step(const jit::Options& options = {}) {
  return jit::compile(
      [](const Network& n, Tensor in, Tensor target, Scalar rate) {
        auto [loss, gradients] = jit::value_and_grad([&](const Network& m) {
          Tensor error = matmul(relu(matmul(in, m.w1) + m.b1), m.w2) + m.b2 - target;
          return mean(error * error);
        })(n);
        auto update = [&, &g = gradients](const Variable& v) { v -= rate * g[v]; };
        for (const Variable* v : {&n.w1, &n.b1, &n.w2, &n.b2}) update(*v);
        return loss;
      },
      options);
}

/// Kernel by kernel, or as a graph; its time on the device and its share of the host's.
void training_row(State& state, jit::Mode mode, void (*time)(State&, const std::function<void()>&)) {
  const Network net;
  const Tensor x = noise({128, 784}), y = noise({128, 10});
  if (bench::is_for_tuned_rows())
    return tuned_row(
        state,
        [&](const jit::Options& options) {
          return [step = training_step(options), x, y, net]() mutable { return step(net, x, y, 0.01); };
        },
        {.mode = mode}, Results::change);
  auto step = training_step({.mode = mode});
  const float first = item<float>(step(net, x, y, 0.05));
  for (int i = 0; i < 50; ++i) benchmark::DoNotOptimize(step(net, x, y, 0.05));
  if (!(item<float>(step(net, x, y, 0.05)) < first)) {
    bench::has_wrong_result = true;
    return state.SkipWithError("wrong result: the training step does not learn");
  }
  time(state, [&] { benchmark::DoNotOptimize(step(net, x, y, 0.01)); });
}

void add_training_rows() {
  for (const auto& [suffix, mode] : {std::pair{"", jit::Mode::default_}, {", graphs", jit::Mode::reduce_overhead}}) {
    const std::string shape = std::string(suffix) + "/128x784x256x10/f32";
    bench::add("MLP training step" + shape, [mode](State& state) {
      training_row(state, mode, time_on_device);
    })->Unit(benchmark::kMicrosecond);
    bench::add("host cost of a training step" + shape, [mode](State& state) {
      if (!bench::is_left_out(state)) training_row(state, mode, time_on_host);
    })->Unit(benchmark::kMicrosecond);
  }
}

template <class F, class... E>
void add_call(const std::string& name, jit::Mode mode, F function, const E&... extents) {
  const auto body = [=](State& state) {
    auto compiled = jit::compile(function, {.mode = mode});
    const auto time = [&](const auto&... arguments) {
      time_on_host(state, [&] { benchmark::DoNotOptimize(compiled(arguments...)); });
    };
    time(noise(extents)...);
  };
  bench::add(name, body)->Unit(benchmark::kMicrosecond);
}

void add_calls() {
  const auto four = [](Tensor a) { return matmul(matmul(matmul(matmul(a, a), a), a), a); };
  add_call(
      "host cost of a call/16/f32", jit::Mode::default_, [](Tensor a, Tensor b) { return Tensor(a * b + a); },
      Extents{16}, Extents{16});
  add_call("host cost of a call, four kernels/16x16/f32", jit::Mode::default_, four, Extents{16, 16});
  add_call("host cost of a call, graph/16x16/f32", jit::Mode::reduce_overhead, four, Extents{16, 16});
}

// ---- first calls ----------------------------------------------------------------------------------------------------

/// Milliseconds of a first call, until the device is done. Driver, NVRTC and the pool have been in use.
template <class F, class... Args>
double first_call_ms(F& function, const Args&... args) {
  eval(Tensor(noise({64}) + 1));
  cuda::synchronize();
  return 1e3 * bench::seconds_of([&] {
           benchmark::DoNotOptimize(function(args...));
           cuda::synchronize();
         });
}

struct FirstCall {
  const char* name;
  double (*ms)();
};
constexpr FirstCall first_calls[] = {
    {"chain",
     [] {
       const Tensor x = ones({1 << 20}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a, Tensor b, Tensor c) { return Tensor(gelu(a * b + c) * a - tanh(b)); });
       return first_call_ms(f, x, x, x);
     }},
    {"softmax",
     [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a) { return softmax(a, 1); });
       return first_call_ms(f, x);
     }},
    {"add+layernorm",
     [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu}), w = ones({8192}, {.device = gpu});
       eval({x, w});
       auto f = jit::compile([](Tensor a, Tensor r, Tensor s, Tensor b) { return layer_norm(a + r, s.shape(), s, b); });
       return first_call_ms(f, x, x, w, w);
     }},
    {"column sum of squares",
     [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a) { return sum(a * a, 0); });
       return first_call_ms(f, x);
     }},
    {"linear+gelu",
     [] {
       const Tensor x = ones({512, 512}, {.device = gpu}), b = ones({512}, {.device = gpu});
       eval({x, b});
       auto f = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(gelu(matmul(a, c) + d)); });
       return first_call_ms(f, x, x, b);
     }},
    {"MLP training step",
     [] {
       const Network net;
       const Tensor x = ones({128, 784}, {.device = gpu}), y = ones({128, 10}, {.device = gpu});
       for (const Tensor& t : {x, y, net.w1.value(), net.w2.value(), net.b1.value(), net.b2.value()}) eval(t);
       auto step = training_step();
       return first_call_ms(step, net, x, y, 0.05);
     }},
};

/// Seconds of what another process of this program measures; it keeps machine code in `cache`. Negative: it failed.
double first_call_seconds(const std::string& name, const std::string& cache) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "SINTER_CACHE_DIR='" + cache + "' '" + program + "' --first '" + name + "'";
  std::FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return -1;
  double ms = -1;
  const bool is_read = std::fscanf(output, "%lf", &ms) == 1;
  const bool has_succeeded = pclose(output) == 0;
  return is_read && has_succeeded ? ms * 1e-3 : -1;
}

/// Cold: nothing is known. Otherwise a new process finds the machine code on disk.
void first_call_row(State& state, const std::string& name, bool is_cold) {
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / ("sinter_first_call_" + std::to_string(getpid()));
  if (!is_cold) first_call_seconds(name, cache.string());
  while (state.KeepRunning()) {
    if (is_cold) std::filesystem::remove_all(cache);
    const double seconds = first_call_seconds(name, cache.string());
    if (seconds < 0) state.SkipWithError("the process that makes the first call failed");
    state.SetIterationTime(seconds);
  }
  std::filesystem::remove_all(cache);
}

void add_first_calls() {
  constexpr int processes = 5;  // each of which starts the driver: a second and more
  for (const FirstCall& first : first_calls) {
    const std::string name = first.name;
    bench::add(name + ", first call", [name](State& state) { first_call_row(state, name, true); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(processes);
    bench::add(name + ", first call, code on disk", [name](State& state) { first_call_row(state, name, false); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(processes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::is_available()) {
    std::fprintf(stderr, "no GPU, so no rows: %s\n", cuda::why_unavailable().c_str());
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--first") {
    for (const FirstCall& first : first_calls) {
      if (std::string_view(first.name) != argv[2]) continue;
      std::printf("%.3f\n", first.ms());
      return 0;
    }
    std::fprintf(stderr, "no first call is named %s\n", argv[2]);
    return 2;
  }
  benchmark::AddCustomContext("device", "cuda");
  if (!bench::is_for_tuned_rows()) {
    add_first_calls();
    add_calls();
  }
  add_training_rows();
  add_memory_bound_rows();
  add_products();
  return bench::run(argc, argv);
}
#else
int main() { std::fprintf(stderr, "no rows: built without the CUDA back end\n"); }
#endif
