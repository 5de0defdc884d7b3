// Products, and what is made of them, on one thread and on two. Their peers are frameworks (tools/bench --peers
// torch,jax; BENCH_WORKERS=2 for two), which have rows of the same names. Two threads need two cores that nobody else
// uses.
#include "compiled.hpp"
#include "shapes.hpp"

#include <string>

using namespace sinter;
using benchmark::State;

namespace {

/// The compiled function against the same operations one by one.
template <class F, class... A>
void row(State& state, int workers, double flops, F f, const A&... args) {
  set_thread_count(workers);
  jit::reset();
  auto compiled = jit::compile(f);
  const Tensor ours = cast(compiled(args...), DType::f32), one_by_one = cast(f(args...), DType::f32);
  eval({ours, one_by_one});
  if (!bench::agree(state, ours.data<float>(), one_by_one.data<float>(), 2e-2)) return;
  bench::time_alone(state, [&] { benchmark::DoNotOptimize(compiled(args...)); });
  bench::count_flops(state, flops);
}

constexpr auto plain = [](Tensor a, Tensor b) { return matmul(a, b); };

void add_rows(int workers) {
  const std::string end = "/workers:" + std::to_string(workers);
  const auto add = [&](const std::string& name, auto body) {
    bench::add(name + end, [workers, body](State& state) { body(state, workers); })->Unit(benchmark::kMicrosecond);
  };
  for (const bench::Product& p : bench::shared_products) {
    add("matmul/" + p.text() + "/f32", [p](State& state, int threads) {
      row(state, threads, p.flops(), plain, bench::noise({p.m, p.k}), bench::noise({p.k, p.n}, 1));
    });
    add("matmul + bias + gelu/" + p.text() + "/f32", [p](State& state, int threads) {
      const auto layer = [](Tensor x, Tensor w, Tensor c) { return gelu_tanh(matmul(x, w) + c); };
      row(state, threads, p.flops(), layer, bench::noise({p.m, p.k}), bench::noise({p.k, p.n}, 1),
          bench::noise({p.n}, 2));
    });
    add("matmul/" + p.text() + "/bf16", [p](State& state, int threads) {
      const Tensor a = cast(bench::noise({p.m, p.k}), DType::bf16), b = cast(bench::noise({p.k, p.n}, 1), DType::bf16);
      eval({a, b});
      row(state, threads, p.flops(), plain, a, b);
    });
  }
  for (const bench::Product& p : bench::batched_products)
    add("batched matmul/" + p.text() + "/f32", [p](State& state, int threads) {
      row(state, threads, p.flops(), plain, bench::noise({p.batch, p.m, p.k}), bench::noise({p.batch, p.k, p.n}, 1));
    });
  for (const bench::Convolution& c : bench::shared_convolutions)
    add("conv2d/" + c.text() + "/f32", [c](State& state, int threads) {
      row(
          state, threads, c.flops(),
          [padding = c.padding()](Tensor x, Tensor w) { return conv2d(x, w, {.padding = padding}); },
          bench::noise({c.n, c.c, c.h, c.w}), bench::noise({c.o, c.c, c.size, c.size}, 1));
    });
}

}  // namespace

int main(int argc, char** argv) {
  for (int workers : {1, 2}) add_rows(workers);
  return bench::run(argc, argv);
}
