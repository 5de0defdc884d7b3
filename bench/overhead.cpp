// What Sinter costs besides the arithmetic: guarded calls, recording, compilation.
#include "measure.hpp"
#include "row.hpp"

#include <sinter/sinter.hpp>

using namespace sinter;

int main() {
  set_thread_count(1);
  Tensor a = randn({16}), b = randn({16}), c = randn({16});
  eval({a, b, c});
  auto f = jit::compile([](Tensor x, Tensor y, Tensor z) { return x * y + z; });
  bench::keep(f(a, b, c));
  double call = bench::measure([&] { bench::keep(f(a, b, c)); });
  bench::print({.name = "guarded call, 3 tensors of 16 floats", .shape = "16", .dtype = "f32", .ours = call * 1e9, .unit = "ns", .limit = 100});

  // Recording without running: the values are dropped, so nothing is computed.
  double one = bench::measure([&] { bench::keep(Tensor(a + b)); });
  bench::print({.name = "recorded op, statement of one", .shape = "16", .dtype = "f32", .ours = one * 1e9, .unit = "ns", .limit = 30});
  double four = bench::measure([&] { bench::keep(Tensor(exp(a * b + c) - a)); });
  bench::print({.name = "recorded op, statement of four", .shape = "16", .dtype = "f32", .ours = four * 1e9 / 4, .unit = "ns", .limit = 15});

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
}
