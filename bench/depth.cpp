// What depth costs: compiling and calling 48 equal transformer layers, beside one layer and beside the whole graph without
// regions.
#include "measure.hpp"
#include "row.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace sinter;

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
    layers.push_back({weight(width, 3 * width), weight(width, width), weight(width, 4 * width), weight(4 * width, width), ones({width}), zeros({width}), ones({width}), zeros({width})});
    const Layer& p = layers.back();
    eval({p.wqkv, p.wo, p.w1, p.w2, p.g1, p.b1, p.g2, p.b2});
  }
  return layers;
}

/// Median of cold compiles (every cache dropped before), in microseconds.
template <class F>
double compile_us(const F& f, const Tensor& x, const std::vector<Layer>& layers) {
  auto g = jit::compile(f);
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) {
    jit::reset();
    g.warm_up(x, layers);
    times.push_back(g.stats().compile_ms * 1e3);
  }
  return bench::median(times);
}

template <class F>
void print_rows(const std::string& name, const F& f, const Tensor& x) {
  const auto one = make_layers(1), many = make_layers(48);
  const double single = compile_us(f, x, one), deep = compile_us(f, x, many);
  bench::print({.name = "compile 48 layers, " + name, .shape = "2x16x128", .dtype = "f32", .ours = deep, .unit = "us", .peer = "one layer", .peer_value = single, .limit = 1.5 * single});
  auto shallow = jit::compile(f), whole = jit::compile(f);
  bench::keep(shallow(x, one)), bench::keep(whole(x, many));
  const double call_one = bench::measure([&] { bench::keep(shallow(x, one)); }), call_many = bench::measure([&] { bench::keep(whole(x, many)); });
  bench::print({.name = "call of 48 layers, per layer, " + name, .shape = "2x16x128", .dtype = "f32", .ours = call_many / 48 * 1e6, .unit = "us", .peer = "one layer", .peer_value = call_one * 1e6});
}

/// Steady state: calls of one body, against the whole graph as one plan.
template <class F>
void print_whole_graph_row(const std::string& name, const F& f, const Tensor& x) {
  const auto layers = make_layers(48);
  auto calls = jit::compile(f), whole = jit::compile(f);
  const Tensor y = calls(x, layers);
  Context::get().outlines = false;
  const Tensor z = whole(x, layers);
  Context::get().outlines = true;
  bench::require_close(to_vector<float>(y), to_vector<float>(z), 1e-3, name);
  const bench::Pair pair = bench::compare([&] { bench::keep(calls(x, layers)); }, [&] { bench::keep(whole(x, layers)); });
  bench::print({.name = "call of 48 layers, " + name, .shape = "2x16x128", .dtype = "f32", .ours = pair.ours * 1e6, .unit = "us", .peer = "whole graph", .peer_value = pair.peer * 1e6,
                .compile_ms = whole.stats().compile_ms});
}

}  // namespace

int main() {
  set_thread_count(1);
  Tensor x = randn({2, 16, width});
  eval(x);
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
  print_rows("blocks found", found, x);
  print_rows("jit::region", marked, x);
  print_whole_graph_row("blocks found", found, x);
  print_whole_graph_row("jit::region", marked, x);
  print_rows("blocks found, gradients", gradient_of(found), x);
  print_rows("jit::region, gradients", gradient_of(marked), x);
}
