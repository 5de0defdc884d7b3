// What Sinter costs besides the arithmetic: guarded calls, recording, compilation.
#include "measure.hpp"
#include "row.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <thread>
#include <vector>

using namespace sinter;

namespace {
/// Calls per second of all threads together in the best of many windows, shorter than a time slice: other work on the machine
/// only ever takes processors away.
template <class Make>
double calls_per_second(int count, Make&& make_call) {
  double best = 0;
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> ready{0};
    std::vector<double> rates(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        auto call = make_call();
        for (int i = 0; i < 100; ++i) call();
        ++ready;
        while (ready < count) {
        }
        double start = bench::now(), end = start;
        std::size_t calls = 0;
        for (; end - start < 2e-3; end = bench::now())
          for (int i = 0; i < 1000; ++i, ++calls) call();
        rates[static_cast<std::size_t>(t)] = static_cast<double>(calls) / (end - start);
      });
    for (std::thread& thread : threads) thread.join();
    double sum = 0;
    for (double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

/// One function called by one and by two threads: what they share must not slow them down.
template <class F>
void scaling(const char* name, const F& f) {
  auto make_call = [&] {
    Tensor x = ones({16}), y = ones({16}), z = ones({16});
    eval(x), eval(y), eval(z);
    return [&f, x, y, z] { bench::keep(f(x, y, z)); };
  };
  const double one = calls_per_second(1, make_call), two = calls_per_second(2, make_call);
  bench::print({.name = name, .shape = "16", .dtype = "f32", .threads = 2, .ours = two / 1e6, .unit = "Mcalls/s", .peer = "one thread", .peer_value = one / 1e6, .limit = 2 * one / 1e6});
}
}  // namespace

int main() {
  set_thread_count(1);
  Tensor a = randn({16}), b = randn({16}), c = randn({16});
  eval({a, b, c});
  auto f = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; });
  bench::keep(f(a, b, c));
  double call = bench::measure([&] { bench::keep(f(a, b, c)); });
  bench::print({.name = "guarded call, 3 tensors of 16 floats", .shape = "16", .dtype = "f32", .ours = call * 1e9, .unit = "ns", .limit = 100});

  auto kept = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; }, {.mode = jit::Mode::reduce_overhead});
  bench::keep(kept(a, b, c));
  double reused = bench::measure([&] { bench::keep(kept(a, b, c)); });
  bench::print({.name = "guarded call, reduce_overhead", .shape = "16", .dtype = "f32", .ours = reused * 1e9, .unit = "ns", .limit = 100});
  Variable p(ones({16}));
  auto step = jit::compile([=](Tensor g, Scalar rate) { p -= rate * g; });
  step(a, 0.1f);
  double update = bench::measure([&] { step(a, 0.1f); });
  bench::print({.name = "guarded call, a Variable updated in place", .shape = "16", .dtype = "f32", .ours = update * 1e9, .unit = "ns"});
  scaling("guarded calls of one function, 2 threads", f);
  Variable v(ones({16})), u(ones({16}));
  scaling("guarded calls reading two Variables, 2 threads", jit::compile([=](Tensor x, Tensor y, Tensor z) { return x * v + y * u + z; }));

  // Recording without running: the values are dropped, so nothing is computed.
  double one = bench::measure([&] { bench::keep(Tensor(a + b)); });
  bench::print({.name = "recorded op, statement of one", .shape = "16", .dtype = "f32", .ours = one * 1e9, .unit = "ns", .limit = 30});
  double four = bench::measure([&] { bench::keep(Tensor(exp(a * b + c) - a)); });
  bench::print({.name = "recorded op, statement of four", .shape = "16", .dtype = "f32", .ours = four * 1e9 / 4, .unit = "ns", .limit = 15});

  // Loops inside one call: a turn is a plan of its own, run without going back to the caller.
  static constexpr int turns = 10000;
  auto loop = [](const char* name, double limit, auto function, const auto&... args) {
    auto g = jit::compile(function);
    bench::keep(g(args...));
    const double seconds = bench::measure([&] { bench::keep(g(args...)); });
    bench::print({.name = name, .shape = "16", .dtype = "f32", .ours = seconds * 1e9 / turns, .unit = "ns", .limit = limit});
  };
  Tensor slices = randn({turns, 16});
  eval(slices);
  loop("fori_loop of 10,000 turns, y * 0.5 + 1, a turn", 30, [](Tensor x) {
    return jit::fori_loop(0, turns, [](Scalar, Tensor y) { return y * 0.5f + 1; }, x);
  }, a);
  loop("while_loop of 10,000 turns with a counter, a turn", 50, [](Tensor x) {
    return std::get<0>(jit::while_loop([](Tensor, Tensor k) { return k < turns; }, [](Tensor y, Tensor k) { return std::tuple{y * 0.5f + 1, k + 1}; }, x, zeros({}, {.dtype = DType::i64})));
  }, a);
  loop("scan of 10,000 slices, c * 0.9 + x, a turn", 40, [](Tensor x, Tensor xs) {
    return jit::scan([](Tensor c, Tensor e) { return std::tuple{c * 0.9f + e, c}; }, x, xs);
  }, a, slices);
  loop("gradient of a scan of 10,000 slices, a turn", 100, [](Tensor x, Tensor xs) {
    return jit::grad([&](Tensor start) { return sum(jit::scan([](Tensor c, Tensor e) { return std::tuple{c * 0.9f + e, std::tuple{}}; }, start, xs).first); })(x);
  }, a, slices);

  // Compilation from trace to code, warm process, a different function each time would need many types: reset instead.
  auto compile_time = [](const char* name, double limit_us, auto function, const auto&... args) {
    auto g = jit::compile(function);
    std::vector<double> times;
    for (int i = 0; i < 15; ++i) {
      jit::reset();
      g.warm_up(args...);
      times.push_back(g.stats().compile_ms * 1e3);
    }
    bench::print({.name = name, .dtype = "f32", .ours = bench::median(times), .unit = "us", .limit = limit_us});
  };
  Tensor x = randn({64, 256}), w = randn({256, 128}), bias = randn({128});
  eval({x, w, bias});
  compile_time("compile x*y+z, trace to code", 50, [](Tensor p, Tensor q, Tensor r) { return p * q + r; }, a, b, c);
  compile_time("compile softmax, trace to code", 50, [](Tensor t) { return softmax(t, 1); }, x);
  compile_time("compile linear+gelu, trace to code", 100, [](Tensor t, Tensor v, Tensor z) { return gelu(matmul(t, v) + z); }, x, w, bias);

  // A function that reads values: Newton's method, each turn of whose loop is a cut.
  auto root = jit::compile([](Tensor v, Tensor target, Scalar tolerance) {
    Tensor error = abs(v * v - target);
    for (int turn = 0; turn < 50; ++turn) {
      if (!(item(sum(error)) > tolerance)) break;
      v = v - (v * v - target) / (2 * v);
      error = abs(v * v - target);
    }
    return v;
  });
  Tensor start = ones({16}), target = full({16}, 2.f);
  eval({start, target});
  bench::keep(root(start, target, 1e-4f)), bench::keep(root(start, target, 1e-4f));
  const double newton = bench::measure([&] { bench::keep(root(start, target, 1e-4f)); });
  const auto cuts = static_cast<double>(root.stats().segments);
  bench::print({.name = "trace tree, per segment of a Newton loop", .shape = "16", .dtype = "f32", .ours = newton / cuts * 1e9, .unit = "ns", .peer = "guarded call", .peer_value = call * 1e9});
}
