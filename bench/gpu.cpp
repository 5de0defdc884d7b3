// Compiled functions on a GPU: bandwidth of memory-bound kernels against a plain copy, products, a training step, and what
// a call and a first call cost. SINTER_GPU_PEERS names a file that bench/gpu_peers.py wrote in the same session: lines of
// "name peer value unit", from which the best peer of each row is taken. Prints nothing where there is no GPU.
//
// `bench_gpu --first NAME` prints the milliseconds of one first call; the program runs itself so, in processes of their own.
#include <sinter/sinter.hpp>

#include "measure.hpp"
#include "row.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string_view>

using namespace sinter;

#ifdef SINTER_CUDA
namespace {

const Device gpu = Device::cuda(0);

struct Peer {
  std::string name;
  double value = bench::absent;
};

/// The best of each row: most GB/s or TFLOP/s, fewest us.
std::map<std::string, Peer> read_peers() {
  std::map<std::string, Peer> best;
  const char* path = std::getenv("SINTER_GPU_PEERS");
  if (path == nullptr) return best;
  std::ifstream file(path);
  std::string row, peer, unit;
  double value = 0;
  while (file >> row >> peer >> value >> unit) {
    std::replace(row.begin(), row.end(), '~', ' ');
    Peer& known = best[row];
    const bool is_rate = unit.find('/') != std::string::npos;
    if (known.name.empty() || (is_rate ? value > known.value : value < known.value)) known = {peer, value};
  }
  return best;
}

/// Seconds of one call, from events on the device around several.
double device_seconds(const std::function<void()>& call) {
  for (int i = 0; i < 3; ++i) call();
  cuda::synchronize();
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    constexpr int calls = 8;
    cuda::Event start, end;
    start.record();
    for (int k = 0; k < calls; ++k) call();
    end.record();
    times.push_back(start.elapsed_ms(end) / 1e3 / calls);
  }
  return bench::median(times);
}

/// Seconds that the calling thread spends in one call; the device keeps up.
double host_seconds(const std::function<void()>& call) {
  for (int i = 0; i < 100; ++i) call();
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    cuda::synchronize();
    times.push_back(bench::time_slice(call, 100));
  }
  return bench::median(times);
}

std::map<std::string, Peer> peers;

void report(bench::Row row) {
  if (row.dtype.empty()) row.dtype = "f32";
  row.device = "cuda";
  if (const auto found = peers.find(row.name); found != peers.end()) row.peer = found->second.name, row.peer_value = found->second.value;
  bench::print(row);
}

/// Ends the program where the GPU and the CPU disagree.
void require_same(const Tensor& on_gpu, const Tensor& on_cpu, const char* name) {
  bench::require_close(to_vector<float>(on_gpu), to_vector<float>(on_cpu), 2e-4, name);
}

Tensor noise(std::initializer_list<Dim> shape) { return randn(Shape(shape), {.device = gpu}); }

/// A memory-bound function of tensors: first checked on small ones, then timed. `bytes` is what it must move.
template <class F, class... Large>
void bandwidth(const char* name, const char* shape, double copy, double bytes, F function, std::initializer_list<Tensor> small, const Large&... large) {
  auto compiled = jit::compile(function);
  const std::vector<Tensor> few(small);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    require_same(compiled(few[i]...), compiled(few[i].to(Device::cpu())...), name);
  }(std::make_index_sequence<sizeof...(Large)>{});
  const double start = bench::now();
  bench::keep(compiled(large...));
  cuda::synchronize();
  const double first = (bench::now() - start) * 1e3;
  const double seconds = device_seconds([&] { bench::keep(compiled(large...)); });
  report({.name = name, .shape = shape, .ours = bytes / seconds * 1e-9, .unit = "GB/s", .limit = copy, .compile_ms = first});
}

void memory_bound_rows() {
  constexpr std::int64_t n = std::int64_t{1} << 27, rows = 16384, columns = 8192;
  const double bytes = 4.0 * n;
  const Tensor x = noise({n}), y = noise({n}), z = noise({n});
  const Tensor matrix = noise({rows, columns}), other = noise({rows, columns}), weight = noise({columns}), bias = noise({columns});
  for (const Tensor* t : {&x, &y, &z, &matrix, &other, &weight, &bias}) eval(*t);
  auto negate = jit::compile([](Tensor a) { return Tensor(-a); });
  const double copy = 2 * bytes / device_seconds([&] { bench::keep(negate(x)); }) * 1e-9;
  bandwidth("chain", "2^27", copy, 4 * bytes, [](Tensor a, Tensor b, Tensor c) { return Tensor(gelu(a * b + c) * a - tanh(b)); },
            {noise({1003}), noise({1003}), noise({1003})}, x, y, z);
  bandwidth("softmax", "16384x8192", copy, 2 * bytes, [](Tensor a) { return softmax(a, 1); }, {noise({33, 1024})}, matrix);
  bandwidth("add+layernorm", "16384x8192", copy, 3 * bytes, [](Tensor a, Tensor r, Tensor w, Tensor b) { return layer_norm(a + r, w.shape(), w, b); },
            {noise({33, 1024}), noise({33, 1024}), noise({1024}), noise({1024})}, matrix, other, weight, bias);
  bandwidth("row sum", "16384x8192", copy, bytes, [](Tensor a) { return sum(a, 1); }, {noise({33, 1025})}, matrix);
  bandwidth("column sum of squares", "16384x8192", copy, bytes, [](Tensor a) { return sum(a * a, 0); }, {noise({1025, 34})}, matrix);
  bandwidth("sum", "2^27", copy, bytes, [](Tensor a) { return sum(a); }, {noise({100003})}, x);
}

void product_row(const char* name, std::int64_t m, std::int64_t k, std::int64_t n, MatmulPrecision precision = MatmulPrecision::f32) {
  const Tensor x = noise({m, k}), w = noise({k, n}), b = noise({n});
  for (const Tensor* t : {&x, &w, &b}) eval(*t);
  auto compiled = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(gelu(matmul(a, c) + d)); }, {.matmul_precision = precision});
  const Tensor few[] = {noise({130, 99}), noise({99, 260}), noise({260})};
  const Tensor there = compiled(few[0], few[1], few[2]), here = compiled(few[0].to(Device::cpu()), few[1].to(Device::cpu()), few[2].to(Device::cpu()));
  bench::require_close(to_vector<float>(there), to_vector<float>(here), precision == MatmulPrecision::tf32 ? 5e-2 : 2e-4, name);
  const double seconds = device_seconds([&] { bench::keep(compiled(x, w, b)); });
  report({.name = name, .shape = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n), .ours = 2e-12 * static_cast<double>(m * k) * static_cast<double>(n) / seconds,
          .unit = "TFLOP/s"});
}

/// A layer of a network, with its bias by the library and in a kernel of its own.
void epilogue_rows(std::int64_t m, std::int64_t k, std::int64_t n) {
  const Tensor x = noise({m, k}), w = noise({k, n}), b = noise({n});
  for (const Tensor* t : {&x, &w, &b}) eval(*t);
  const auto row = [&](const char* name, cuda::ProductPolicy policy, auto&& function) {
    cuda::set_product_policy(policy);
    auto compiled = jit::compile(function);
    const double seconds = device_seconds([&] { bench::keep(compiled(x, w, b)); });
    report({.name = name, .shape = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n), .ours = 2e-12 * static_cast<double>(m * k) * static_cast<double>(n) / seconds,
            .unit = "TFLOP/s"});
  };
  using Policy = cuda::ProductPolicy;
  row("linear, bias by the library", Policy::library, [](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
  row("linear, bias in a kernel", Policy::library_then_kernel, [](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
  row("linear, generated", Policy::fma, [](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
  row("linear, as measured", Policy::measured, [](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
  row("linear+relu, by the library and a kernel", Policy::library, [](Tensor a, Tensor c, Tensor d) { return Tensor(relu(matmul(a, c) + d)); });
  row("linear+relu, as measured", Policy::measured, [](Tensor a, Tensor c, Tensor d) { return Tensor(relu(matmul(a, c) + d)); });
}

/// The generated kernel on tensor cores beside the library.
void tensor_rows() {
  using Policy = cuda::ProductPolicy;
  const auto row = [](const std::string& name, Policy policy, std::int64_t n, DType dtype, MatmulPrecision precision) {
    const Tensor x = noise({n, n}).to(dtype), w = noise({n, n}).to(dtype), b = noise({n}).to(dtype);
    for (const Tensor* t : {&x, &w, &b}) eval(*t);
    const bool is_layer = dtype == DType::f32;
    cuda::set_product_policy(policy);
    auto compiled = jit::compile([=](Tensor a, Tensor c, Tensor d) { return is_layer ? Tensor(gelu(matmul(a, c) + d)) : matmul(a, c); }, {.matmul_precision = precision});
    const double seconds = device_seconds([&] { bench::keep(compiled(x, w, b)); });
    cuda::set_product_policy(Policy::measured);
    report({.name = name, .shape = std::to_string(n) + "x" + std::to_string(n) + "x" + std::to_string(n), .dtype = dtype == DType::f64 ? "f64" : "f32",
            .ours = 2e-12 * static_cast<double>(n * n) * static_cast<double>(n) / seconds, .unit = "TFLOP/s"});
  };
  row("matmul f64", Policy::measured, 4096, DType::f64, MatmulPrecision::f32);
  row("linear+gelu in tf32, large", Policy::measured, 8192, DType::f32, MatmulPrecision::tf32);
  for (const auto& [suffix, policy] : {std::pair{", generated", Policy::tensor_cores}, {", library", Policy::library}}) {
    row(std::string("matmul f64") + suffix, policy, 4096, DType::f64, MatmulPrecision::f32);
    row(std::string("linear+gelu in tf32") + suffix, policy, 4096, DType::f32, MatmulPrecision::tf32);
    row(std::string("linear+gelu in tf32, small") + suffix, policy, 1024, DType::f32, MatmulPrecision::tf32);
    row(std::string("linear+gelu in tf32, large") + suffix, policy, 8192, DType::f32, MatmulPrecision::tf32);
    row(std::string("linear+gelu in tf32x3") + suffix, policy, 4096, DType::f32, MatmulPrecision::tf32x3);
  }
}

struct Network {
  Variable w1{randn({784, 256}, {.device = gpu}) * 0.03f, "w1"}, b1{zeros({256}, {.device = gpu}), "b1"};
  Variable w2{randn({256, 10}, {.device = gpu}) * 0.06f, "w2"}, b2{zeros({10}, {.device = gpu}), "b2"};
};

auto training_step(jit::Mode mode = jit::Mode::default_) {
  return jit::compile([](const Network& n, Tensor in, Tensor target, Scalar rate) {
    auto [loss, gradients] = jit::value_and_grad([&](const Network& m) {
      Tensor error = matmul(relu(matmul(in, m.w1) + m.b1), m.w2) + m.b2 - target;
      return mean(error * error);
    })(n);
    auto update = [&, &g = gradients](const Variable& v) { v -= rate * g[v]; };
    update(n.w1), update(n.b1), update(n.w2), update(n.b2);
    return loss;
  }, {.mode = mode});
}

/// Kernel by kernel, or as a graph.
void training_row(jit::Mode mode) {
  const bool is_graph = mode == jit::Mode::reduce_overhead;
  const Network net;
  const Tensor x = noise({128, 784}), y = noise({128, 10});
  for (const Tensor* t : {&x, &y}) eval(*t);
  auto step = training_step(mode);
  const float first = item<float>(step(net, x, y, 0.05));
  for (int i = 0; i < 50; ++i) bench::keep(step(net, x, y, 0.05));
  if (!(item<float>(step(net, x, y, 0.05)) < first)) std::printf("the training step does not learn\n"), std::exit(1);
  const double seconds = device_seconds([&] { bench::keep(step(net, x, y, 0.01)); });
  report({.name = is_graph ? "MLP training step, graphs" : "MLP training step", .shape = "128x784x256x10", .ours = seconds * 1e6, .unit = "us"});
  const double host = host_seconds([&] { bench::keep(step(net, x, y, 0.01)); });
  report({.name = is_graph ? "host cost of a training step, graphs" : "host cost of a training step", .shape = "128x784x256x10", .ours = host * 1e6, .unit = "us"});
}

void call_row() {
  const Tensor x = noise({16}), y = noise({16}), m = noise({16, 16});
  for (const Tensor* t : {&x, &y, &m}) eval(*t);
  auto f = jit::compile([](Tensor a, Tensor b) { return Tensor(a * b + a); });
  report({.name = "host cost of a call", .shape = "16", .ours = host_seconds([&] { bench::keep(f(x, y)); }) * 1e6, .unit = "us"});
  auto four = [](Tensor a) { return matmul(matmul(matmul(matmul(a, a), a), a), a); };
  auto plain = jit::compile(four), graph = jit::compile(four, {.mode = jit::Mode::reduce_overhead});
  report({.name = "host cost of a call, four kernels", .shape = "16x16", .ours = host_seconds([&] { bench::keep(plain(m)); }) * 1e6, .unit = "us"});
  report({.name = "host cost of a call, graph", .shape = "16x16", .ours = host_seconds([&] { bench::keep(graph(m)); }) * 1e6, .unit = "us"});
}

// ---- first calls --------------------------------------------------------------------------------------------------------

/// Milliseconds of a first call, until the device is done. Driver, NVRTC and the pool have been in use.
template <class F, class... Args>
double first_call_ms(F& function, const Args&... args) {
  eval(Tensor(noise({64}) + 1));
  cuda::synchronize();
  const double start = bench::now();
  bench::keep(function(args...));
  cuda::synchronize();
  return (bench::now() - start) * 1e3;
}

struct FirstCall {
  const char* name;
  double (*ms)();
};
constexpr FirstCall first_calls[] = {
    {"chain", [] {
       const Tensor x = ones({1 << 20}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a, Tensor b, Tensor c) { return Tensor(gelu(a * b + c) * a - tanh(b)); });
       return first_call_ms(f, x, x, x);
     }},
    {"softmax", [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a) { return softmax(a, 1); });
       return first_call_ms(f, x);
     }},
    {"add+layernorm", [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu}), w = ones({8192}, {.device = gpu});
       eval(x), eval(w);
       auto f = jit::compile([](Tensor a, Tensor r, Tensor s, Tensor b) { return layer_norm(a + r, s.shape(), s, b); });
       return first_call_ms(f, x, x, w, w);
     }},
    {"column sum of squares", [] {
       const Tensor x = ones({1024, 8192}, {.device = gpu});
       eval(x);
       auto f = jit::compile([](Tensor a) { return sum(a * a, 0); });
       return first_call_ms(f, x);
     }},
    {"linear+gelu", [] {
       const Tensor x = ones({512, 512}, {.device = gpu}), b = ones({512}, {.device = gpu});
       eval(x), eval(b);
       auto f = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(gelu(matmul(a, c) + d)); });
       return first_call_ms(f, x, x, b);
     }},
    {"MLP training step", [] {
       const Network net;
       const Tensor x = ones({128, 784}, {.device = gpu}), y = ones({128, 10}, {.device = gpu});
       for (const Tensor& t : {x, y, net.w1.value(), net.w2.value(), net.b1.value(), net.b2.value()}) eval(t);
       auto step = training_step();
       return first_call_ms(step, net, x, y, 0.05);
     }},
};

/// What another process of this program measures; it keeps machine code in `cache`.
double in_new_process(const std::string& program, const std::string& name, const std::string& cache) {
  const std::string command = "SINTER_CACHE_DIR='" + cache + "' '" + program + "' --first '" + name + "'";
  std::FILE* output = popen(command.c_str(), "r");
  double ms = bench::absent;
  const bool is_read = output != nullptr && std::fscanf(output, "%lf", &ms) == 1;
  if (output == nullptr || pclose(output) != 0 || !is_read) std::fprintf(stderr, "%s failed\n", command.c_str()), std::exit(1);
  return ms;
}

/// Cold: nothing is known. Warm: a new process finds the machine code on disk.
void first_call_rows(const std::string& program) {
  for (const FirstCall& first : first_calls) {
    std::vector<double> cold, warm;
    for (int i = 0; i < 3; ++i) {
      const std::string cache = (std::filesystem::temp_directory_path() / ("sinter_first_call_" + std::to_string(i))).string();
      std::filesystem::remove_all(cache);
      cold.push_back(in_new_process(program, first.name, cache));
      warm.push_back(in_new_process(program, first.name, cache));
      std::filesystem::remove_all(cache);
    }
    report({.name = std::string(first.name) + ", first call", .ours = bench::median(cold), .unit = "ms"});
    report({.name = std::string(first.name) + ", first call, code on disk", .ours = bench::median(warm), .unit = "ms"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::is_available()) return std::fprintf(stderr, "no GPU: %s\n", cuda::why_unavailable().c_str()), 0;
  if (argc == 3 && std::string_view(argv[1]) == "--first") {
    for (const FirstCall& first : first_calls)
      if (std::string_view(first.name) == argv[2]) return std::printf("%.3f\n", first.ms()), 0;
    return std::fprintf(stderr, "no first call is named %s\n", argv[2]), 2;
  }
  peers = read_peers();
  first_call_rows(std::filesystem::read_symlink("/proc/self/exe").string());
  call_row();
  training_row(jit::Mode::default_);
  training_row(jit::Mode::reduce_overhead);
  memory_bound_rows();
  product_row("linear+gelu", 4096, 4096, 4096);
  product_row("linear+gelu, small", 1024, 1024, 1024);
  product_row("linear+gelu in tf32x3", 4096, 4096, 4096, MatmulPrecision::tf32x3);
  product_row("linear+gelu in tf32", 4096, 4096, 4096, MatmulPrecision::tf32);
  product_row("linear+gelu in tf32, small", 1024, 1024, 1024, MatmulPrecision::tf32);
  epilogue_rows(4096, 4096, 4096);
  tensor_rows();
}
#else
int main() { std::fprintf(stderr, "built without the CUDA back end\n"); }
#endif
