// What depth costs: compiling and calling 48 equal transformer layers, beside one layer and beside the whole graph
// without regions.
#include "compiled.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

struct Layer {
  Tensor wqkv, wo, w1, w2, g1, b1, g2, b2;
};
constexpr std::int64_t width = 128;

Tensor transformer_layer(Tensor x, const Layer& p) {
  const Dim batch = x.size(0), tokens = x.size(1);
  auto [q, k, v] = split<3>(matmul(layer_norm(x, {width}, p.g1, p.b1), p.wqkv), -1);
  auto heads = [&](const Tensor& t) { return transpose(reshape(t, {batch, tokens, 4, width / 4}), 1, 2); };
  Tensor attended = scaled_dot_product_attention(heads(q), heads(k), heads(v), {.causal = true});
  Tensor h = x + matmul(reshape(transpose(attended, 1, 2), {batch, tokens, width}), p.wo);
  return h + matmul(gelu(matmul(layer_norm(h, {width}, p.g2, p.b2), p.w1)), p.w2);
}

/// Scaled as an initialiser does: larger weights drive the derivative of gelu into subnormal numbers, which Intel's
/// processors compute some hundred cycles slower.
Tensor weight(std::int64_t in, std::int64_t out) { return randn({in, out}) / std::sqrt(static_cast<float>(in)); }

std::vector<Layer> make_layers(int count) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    layers.push_back({.wqkv = weight(width, 3 * width),
                      .wo = weight(width, width),
                      .w1 = weight(width, 4 * width),
                      .w2 = weight(4 * width, width),
                      .g1 = ones({width}),
                      .b1 = zeros({width}),
                      .g2 = ones({width}),
                      .b2 = zeros({width})});
    const Layer& p = layers.back();
    eval({p.wqkv, p.wo, p.w1, p.w2, p.g1, p.b1, p.g2, p.b2});
  }
  return layers;
}

/// Seconds of a compilation with every cache dropped before.
template <class F>
double cold_compile_seconds(const F& compiled, const Tensor& x, const std::vector<Layer>& layers) {
  jit::reset();
  compiled.warm_up(x, layers);
  return compiled.stats().compile_ms * 1e-3;
}

template <class F>
void compile_row(State& state, const F& f) {
  const Tensor& x = bench::noise({2, 16, width});
  const auto one = make_layers(1), many = make_layers(48);
  auto shallow = jit::compile(f), deep = jit::compile(f);
  bench::alternate_seconds(
      state, "one layer", [&] { return cold_compile_seconds(deep, x, many); },
      [&] { return cold_compile_seconds(shallow, x, one); });
  bench::set_limit(state, 1.5 * state.counters["peer_seconds"]);
}

/// A layer of 48 beside one layer alone.
template <class F>
void call_per_layer_row(State& state, const F& f) {
  const Tensor& x = bench::noise({2, 16, width});
  const auto one = make_layers(1), many = make_layers(48);
  jit::reset();
  auto shallow = jit::compile(f), deep = jit::compile(f);
  bench::alternate(
      state, "one layer", [&] { benchmark::DoNotOptimize(deep(x, many)); },
      [&] { benchmark::DoNotOptimize(shallow(x, one)); }, 48);
}

/// Steady state: calls of one body, against the whole graph as one plan.
template <class F>
void call_row(State& state, const F& f) {
  const Tensor& x = bench::noise({2, 16, width});
  const auto layers = make_layers(48);
  jit::reset();
  auto calls = jit::compile(f), whole = jit::compile(f);
  const Tensor y = calls(x, layers);
  Context::get().outlines = false;
  const Tensor z = whole(x, layers);
  Context::get().outlines = true;
  if (!bench::agree(state, to_vector<float>(y), to_vector<float>(z), 1e-3)) return;
  bench::alternate(
      state, "whole graph", [&] { benchmark::DoNotOptimize(calls(x, layers)); },
      [&] { benchmark::DoNotOptimize(whole(x, layers)); });
}

template <class F>
void add_rows(const std::string& blocks, const F& f) {
  const std::string shape = "/2x16x128/f32";
  bench::add("compile 48 layers, " + blocks + shape, [f](State& state) {
    compile_row(state, f);
  })->Unit(benchmark::kMicrosecond);
  bench::add("call of 48 layers, per layer, " + blocks + shape, [f](State& state) {
    call_per_layer_row(state, f);
  })->Unit(benchmark::kMicrosecond);
}

template <class F>
void add_whole_graph_row(const std::string& blocks, const F& f) {
  bench::add("call of 48 layers, " + blocks + "/2x16x128/f32", [f](State& state) {
    call_row(state, f);
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  const auto found = [](Tensor h, const std::vector<Layer>& layers) {
    for (const Layer& p : layers) h = transformer_layer(h, p);
    return h;
  };
  const auto layer = jit::region(transformer_layer);
  const auto marked = [layer](Tensor h, const std::vector<Layer>& layers) {
    for (const Layer& p : layers) h = layer(h, p);
    return h;
  };
  const auto gradient_of = [](const auto& f) {
    return [f](Tensor h, const std::vector<Layer>& layers) {
      return jit::grad<1>([f](Tensor y, const std::vector<Layer>& ps) { return sum(f(y, ps)); })(h, layers);
    };
  };
  add_rows("blocks found", found);
  add_rows("jit::region", marked);
  add_whole_graph_row("blocks found", found);
  add_whole_graph_row("jit::region", marked);
  add_rows("blocks found, gradients", gradient_of(found));
  add_rows("jit::region, gradients", gradient_of(marked));
  return bench::run(argc, argv);
}
