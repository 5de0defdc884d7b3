// Fused elementwise and row kernels against Eigen written by hand, both on one thread and in the same run.
#include "compiled.hpp"
#include "eigen_peers.hpp"

using namespace sinter;
using benchmark::State;

namespace {

Eigen::Map<const bench::Array> flat(const Tensor& x) { return {x.data<float>().data(), x.numel().value()}; }

/// `formula` writes the peer's result, given Eigen arrays of the arguments.
template <class F, class Formula, class... A>
void elementwise(State& state, double tolerance, F f, Formula formula, const A&... args) {
  const std::int64_t n = std::get<0>(std::tie(args...)).numel().value();
  bench::Array out(n);
  bench::compare(state, {"Eigen", tolerance, bench::elements(out)}, f, [&] { formula(out, flat(args)...); }, args...);
  bench::count_items(state, n);
}

void add_elementwise_rows() {
  bench::add("exp/65536/f32", [](State& state) {
    elementwise(
        state, 1e-5, [](Tensor x) { return exp(x); }, [](auto& out, auto x) { out = x.exp(); }, bench::noise({65536}));
  });
  bench::add("tanh/65536/f32", [](State& state) {
    elementwise(
        state, 1e-5, [](Tensor x) { return tanh(x); }, [](auto& out, auto x) { out = x.tanh(); },
        bench::noise({65536}));
  });
  bench::add("sin/65536/f32", [](State& state) {
    elementwise(
        state, 1e-5, [](Tensor x) { return sin(x); }, [](auto& out, auto x) { out = x.sin(); }, bench::noise({65536}));
  });
  bench::add("gelu(a*x+b)*c+d/65536/f32", [](State& state) {
    const auto ours = [](Tensor x, Tensor y, Tensor z, Tensor w) {
      auto u = x * y + z;
      return 0.5f * u * (1 + tanh(0.79788456f * (u + 0.044715f * u * u * u))) * w + x;
    };
    const auto peer = [](auto& out, auto x, auto y, auto z, auto w) {
      out = x * y + z;
      out = 0.5f * out * (1 + (0.79788456f * (out + 0.044715f * out * out * out)).tanh()) * w + x;
    };
    elementwise(state, 1e-4, ours, peer, bench::noise({65536}), bench::noise({65536}, 1), bench::noise({65536}, 2),
                bench::noise({65536}, 3));
  });
  for (std::int64_t n : {std::int64_t{1} << 16, std::int64_t{1} << 20, std::int64_t{1} << 24})
    bench::add("multiply-add chain/" + std::to_string(n) + "/f32", [n](State& state) {
      elementwise(
          state, 1e-5, [](Tensor x, Tensor y, Tensor z) { return (x * y + z) * x - y; },
          [](auto& out, auto x, auto y, auto z) { out = (x * y + z) * x - y; }, bench::noise({n}), bench::noise({n}, 1),
          bench::noise({n}, 2));
    });
}

void softmax_row(State& state, bench::Rows size) {
  const Tensor& x = bench::noise({size.count, size.length});
  bench::Matrix out(size.count, size.length);
  bench::compare(
      state, {"Eigen", 1e-5, bench::elements(out)}, [](Tensor t) { return softmax(t, 1); },
      [&] { bench::softmax_of_rows(size, x.data<float>().data(), out.data()); }, x);
  bench::count_items(state, size.elements());
}

void layer_norm_row(State& state, bench::Rows size) {
  const Tensor &x = bench::noise({size.count, size.length}), &weight = bench::noise({size.length}),
               &bias = bench::noise({size.length}, 1);
  const float *in = x.data<float>().data(), *w = weight.data<float>().data(), *b = bias.data<float>().data();
  bench::Matrix out(size.count, size.length);
  bench::compare(
      state, {"Eigen", 1e-4, bench::elements(out)},
      [](Tensor t, Tensor g, Tensor h) { return layer_norm(t, {t.size(1)}, g, h); },
      [&] { bench::layer_norm_of_rows(size, in, w, b, out.data()); }, x, weight, bias);
  bench::count_items(state, size.elements());
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  benchmark::AddCustomContext("Eigen", bench::eigen_version());
  add_elementwise_rows();
  for (const bench::Rows size : bench::row_sizes) {
    bench::add("softmax/" + size.text() + "/f32", [size](State& state) { softmax_row(state, size); });
    bench::add("layer_norm/" + size.text() + "/f32", [size](State& state) { layer_norm_row(state, size); });
  }
  return bench::run(argc, argv);
}
