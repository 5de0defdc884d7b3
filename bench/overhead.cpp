// What Sinter costs besides the arithmetic: guarded calls, recording, loops inside a call, compilation.
#include "compiled.hpp"

#include <string>
#include <tuple>
#include <utility>

using namespace sinter;
using benchmark::State;

namespace {

constexpr auto multiply_add = [](Tensor x, Tensor y, Tensor z) { return x * y + z; };

const Tensor& small(int which) { return bench::noise({16}, which); }

// ---- calls ----------------------------------------------------------------------------------------------------------

void add_calls() {
  bench::add("guarded call, 3 tensors/16/f32", [](State& state) {
    auto f = jit::compile(multiply_add);
    const Tensor &x = small(0), &y = small(1), &z = small(2);
    bench::time_alone(state, [&] { benchmark::DoNotOptimize(f(x, y, z)); });
    bench::set_limit(state, 100e-9);
  });
  bench::add("guarded call, reduce_overhead/16/f32", [](State& state) {
    auto f = jit::compile(multiply_add, {.mode = jit::Mode::reduce_overhead});
    const Tensor &x = small(0), &y = small(1), &z = small(2);
    bench::time_alone(state, [&] { benchmark::DoNotOptimize(f(x, y, z)); });
    bench::set_limit(state, 100e-9);
  });
  bench::add("guarded call, a Variable updated in place/16/f32", [](State& state) {
    Variable p(ones({16}));
    auto step = jit::compile([=](Tensor g, Scalar rate) { p -= rate * g; });
    const Tensor& gradient = small(0);
    bench::time_alone(state, [&] { step(gradient, 0.1f); });
  });
}

/// One function that all threads of the benchmark call, each with tensors of its own. Google Benchmark makes the
/// threads: what they share must not slow them down.
template <class F>
void call_from_threads(State& state, const F& f) {
  const Tensor x = ones({16}), y = ones({16}), z = ones({16});
  eval({x, y, z});
  for (int i = 0; i < 100; ++i) benchmark::DoNotOptimize(f(x, y, z));
  for (auto _ : state) benchmark::DoNotOptimize(f(x, y, z));
  state.counters["calls"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void add_calls_from_threads() {
  const auto add = [](const char* name, auto f) {
    benchmark::RegisterBenchmark(name, [f](State& state) { call_from_threads(state, f); })
        ->ThreadRange(1, 2)
        ->UseRealTime();
  };
  add("guarded calls of one function/16/f32", jit::compile(multiply_add));
  const Variable v(ones({16})), u(ones({16}));
  add("guarded calls reading two Variables/16/f32",
      jit::compile([=](Tensor x, Tensor y, Tensor z) { return x * v + y * u + z; }));
}

// ---- recording ------------------------------------------------------------------------------------------------------

/// The values are dropped, so that nothing is computed.
void add_recording() {
  bench::add("recorded op, statement of one/16/f32", [](State& state) {
    const Tensor &a = small(0), &b = small(1);
    bench::time_alone(state, [&] { benchmark::DoNotOptimize(Tensor(a + b)); });
    bench::set_limit(state, 30e-9);
  });
  bench::add("recorded op, statement of four/16/f32", [](State& state) {
    const Tensor &a = small(0), &b = small(1), &c = small(2);
    bench::time_alone(state, [&] { benchmark::DoNotOptimize(Tensor(exp(a * b + c) - a)); }, 4);
    bench::set_limit(state, 15e-9);
  });
}

// ---- loops inside one call ------------------------------------------------------------------------------------------

constexpr int rounds = 10000;

/// Nanoseconds of one round: a plan of its own, run without going back to the caller.
template <class F, class... A>
void add_loop(const std::string& name, double limit, F f, const A&... args) {
  bench::add(name + ", 10,000 rounds/16/f32", [=](State& state) {
    auto loop = jit::compile(f);
    bench::time_alone(state, [&] { benchmark::DoNotOptimize(loop(args...)); }, rounds);
    bench::set_limit(state, limit);
  });
}

void add_loops() {
  const Tensor &a = small(0), &slices = bench::noise({rounds, 16});
  add_loop(
      "fori_loop, y * 0.5 + 1", 30e-9,
      [](Tensor x) { return jit::fori_loop(0, rounds, [](Scalar, Tensor y) { return y * 0.5f + 1; }, x); }, a);
  const auto counted = [](Tensor x) {
    const auto goes_on = [](Tensor, Tensor k) { return k < rounds; };
    const auto body = [](Tensor y, Tensor k) { return std::tuple{y * 0.5f + 1, k + 1}; };
    return std::get<0>(jit::while_loop(goes_on, body, x, zeros({}, {.dtype = DType::i64})));
  };
  add_loop("while_loop with a counter", 50e-9, counted, a);
  const auto scanned = [](Tensor x, Tensor xs) {
    return jit::scan([](Tensor c, Tensor e) { return std::tuple{c * 0.9f + e, c}; }, x, xs);
  };
  add_loop("scan, c * 0.9 + x", 40e-9, scanned, a, slices);
  const auto gradient = [](Tensor x, Tensor xs) {
    const auto last = [&](Tensor start) {
      return sum(jit::scan([](Tensor c, Tensor e) { return std::tuple{c * 0.9f + e, std::tuple{}}; }, start, xs).first);
    };
    return jit::grad(last)(x);
  };
  add_loop("gradient of a scan", 100e-9, gradient, a, slices);
}

// ---- compilation ----------------------------------------------------------------------------------------------------

/// From trace to code in a warm process with every cache dropped before.
template <class F, class... A>
void add_compilation(const std::string& name, double limit, F f, const A&... args) {
  bench::add("compile " + name + ", trace to code", [=](State& state) {
    auto compiled = jit::compile(f);
    while (state.KeepRunning()) {
      jit::reset();
      compiled.warm_up(args...);
      state.SetIterationTime(compiled.stats().compile_ms * 1e-3);
    }
    bench::set_limit(state, limit);
  })->Unit(benchmark::kMicrosecond);
}

void add_compilations() {
  const Tensor &x = bench::noise({64, 256}), &w = bench::noise({256, 128}), &bias = bench::noise({128});
  add_compilation("x*y+z", 50e-6, multiply_add, small(0), small(1), small(2));
  add_compilation("softmax", 50e-6, [](Tensor t) { return softmax(t, 1); }, x);
  add_compilation(
      "linear+gelu", 100e-6, [](Tensor t, Tensor v, Tensor z) { return gelu(matmul(t, v) + z); }, x, w, bias);
}

// ---- reading values -------------------------------------------------------------------------------------------------

/// Newton's method for square roots; each round of its loop reads a value, which is a cut.
Tensor newton(Tensor v, Tensor target, Scalar tolerance) {
  Tensor error = abs(v * v - target);
  for (int round = 0; round < 50; ++round) {
    if (!(item(sum(error)) > tolerance)) break;
    v = v - (v * v - target) / (2 * v);
    error = abs(v * v - target);
  }
  return v;
}

void trace_tree_row(State& state) {
  auto root = jit::compile(newton);
  auto f = jit::compile(multiply_add);
  const Tensor start = ones({16}), target = full({16}, 2.f);
  eval({start, target});
  for (int i = 0; i < 2; ++i) benchmark::DoNotOptimize(root(start, target, 1e-4f));
  const Tensor &x = small(0), &y = small(1), &z = small(2);
  bench::alternate(
      state, "guarded call", [&] { benchmark::DoNotOptimize(root(start, target, 1e-4f)); },
      [&] { benchmark::DoNotOptimize(f(x, y, z)); }, root.stats().segments);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  add_calls();
  add_calls_from_threads();
  add_recording();
  add_loops();
  add_compilations();
  bench::add("trace tree, per segment of a Newton loop/16/f32", trace_tree_row);
  return bench::run(argc, argv);
}
