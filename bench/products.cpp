// Products and what is made of them, convolution and attention, against Eigen: one thread each, in the same run.
#include "compiled.hpp"
#include "eigen_peers.hpp"

using namespace sinter;
using benchmark::State;

namespace {

const float* data(const Tensor& x) { return x.data<float>().data(); }

constexpr auto plain = [](Tensor a, Tensor b) { return matmul(a, b); };

void matmul_row(State& state, const bench::Product& p) {
  const Tensor &a = bench::noise({p.m, p.k}), &b = bench::noise({p.k, p.n}, 1);
  bench::Matrix out(p.m, p.n);
  bench::compare(
      state, {"Eigen", 1e-3, bench::elements(out)}, plain, [&] { bench::multiply(p, data(a), data(b), out.data()); }, a,
      b);
  bench::count_flops(state, p.flops());
}

/// Operands rounded to bf16, against the same product in f32; as `linear` has it, where B lies transposed.
void narrow_row(State& state, const bench::Product& p, bool is_linear) {
  const Tensor a = cast(bench::noise({p.m, p.k}), DType::bf16),
               b = cast(is_linear ? bench::noise({p.n, p.k}, 1) : bench::noise({p.k, p.n}, 1), DType::bf16);
  const Tensor wide_a = cast(a, DType::f32), wide_b = cast(b, DType::f32);
  eval({a, b, wide_a, wide_b});
  const auto multiply = jit::compile(
      [is_linear](Tensor x, Tensor y) { return is_linear ? matmul(x, transpose(y, 0, 1)) : matmul(x, y); });
  const Tensor ours = cast(multiply(a, b), DType::f32), theirs = multiply(wide_a, wide_b);
  eval({ours, theirs});
  if (!bench::agree(state, ours.data<float>(), theirs.data<float>(), 1e-2)) return;
  bench::alternate(
      state, "f32", [&] { benchmark::DoNotOptimize(multiply(a, b)); },
      [&] { benchmark::DoNotOptimize(multiply(wide_a, wide_b)); });
  bench::count_flops(state, p.flops());
}

void batched_row(State& state, const bench::Product& p) {
  const Tensor &a = bench::noise({p.batch, p.m, p.k}), &b = bench::noise({p.batch, p.k, p.n}, 1);
  bench::Matrix out(p.batch * p.m, p.n);
  bench::compare(
      state, {"Eigen", 1e-3, bench::elements(out)}, plain, [&] { bench::multiply(p, data(a), data(b), out.data()); }, a,
      b);
  bench::count_flops(state, p.flops());
}

void layer_row(State& state, const bench::Product& p) {
  const Tensor &a = bench::noise({p.m, p.k}), &b = bench::noise({p.k, p.n}, 1), &bias = bench::noise({p.n}, 2);
  bench::Matrix out(p.m, p.n);
  const auto peer = [&] {
    bench::multiply(p, data(a), data(b), out.data());
    bench::add_bias_and_relu(p, data(bias), out.data());
  };
  bench::compare(
      state, {"Eigen", 1e-3, bench::elements(out)}, [](Tensor x, Tensor w, Tensor c) { return relu(matmul(x, w) + c); },
      peer, a, b, bias);
  bench::count_flops(state, p.flops());
}

void convolution_row(State& state, const bench::Convolution& c) {
  const Tensor &images = bench::noise({c.n, c.c, c.h, c.w}), &weights = bench::noise({c.o, c.c, c.size, c.size}, 1);
  bench::Matrix out(c.n * c.o, c.h * c.w);
  bench::ConvolutionByProduct peer(c);
  bench::compare(
      state, {"Eigen", 1e-3, bench::elements(out)},
      [padding = c.padding()](Tensor x, Tensor w) { return conv2d(x, w, {.padding = padding}); },
      [&] { peer(data(images), data(weights), out.data()); }, images, weights);
  bench::count_flops(state, c.flops());
}

/// As a user writes it who does not know of scaled_dot_product_attention.
Tensor attention_by_hand(Tensor q, Tensor k, Tensor v, bool is_causal) {
  const std::int64_t tokens = q.size(-2).value();
  Tensor scores = matmul(q, transpose(k, -2, -1)) / std::sqrt(static_cast<float>(q.size(-1).value()));
  if (is_causal) {
    const Tensor position = arange(tokens);
    scores = where(unsqueeze(position, 1) >= position, scores, -std::numeric_limits<float>::infinity());
  }
  return matmul(softmax(scores, -1), v);
}

template <class F>
void attention_row(State& state, const bench::Attention& size, F f) {
  const auto argument = [&](int which) {
    return bench::noise({size.batch, size.heads, size.tokens, size.width}, which);
  };
  const Tensor q = argument(0), k = argument(1), v = argument(2);
  bench::Matrix out(size.batch * size.heads * size.tokens, size.width);
  bench::compare(
      state, {"Eigen", 1e-3, bench::elements(out)}, f,
      [&] { bench::attend(size, data(q), data(k), data(v), out.data()); }, q, k, v);
  bench::count_flops(state, size.flops());
}

void add_attention(const bench::Attention& size) {
  const std::string name = std::string("attention") + (size.is_causal ? ", causal" : ""),
                    shape = "/" + size.text() + "/f32";
  bench::add(name + shape, [size](State& state) {
    attention_row(state, size, [causal = size.is_causal](Tensor q, Tensor k, Tensor v) {
      return scaled_dot_product_attention(q, k, v, {.causal = causal});
    });
  });
  bench::add(name + ", by hand" + shape, [size](State& state) {
    attention_row(state, size, [causal = size.is_causal](Tensor q, Tensor k, Tensor v) {
      return attention_by_hand(q, k, v, causal);
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  benchmark::AddCustomContext("Eigen", bench::eigen_version());
  for (const bench::Product& p : bench::products) {
    bench::add("matmul/" + p.text() + "/f32", [p](State& state) { matmul_row(state, p); });
    bench::add("matmul + bias + relu/" + p.text() + "/f32", [p](State& state) { layer_row(state, p); });
  }
  for (const bench::Product& p : bench::products) {
    if (p.flops() < 4e6) continue;
    bench::add("matmul/" + p.text() + "/bf16", [p](State& state) { narrow_row(state, p, false); });
    bench::add("linear/" + p.text() + "/bf16", [p](State& state) { narrow_row(state, p, true); });
  }
  for (const bench::Product& p : bench::batched_products)
    bench::add("batched matmul/" + p.text() + "/f32", [p](State& state) { batched_row(state, p); });
  for (const bench::Convolution& c : bench::convolutions)
    bench::add("conv2d/" + c.text() + "/f32", [c](State& state) { convolution_row(state, c); });
  for (const bench::Attention& size : bench::attentions) add_attention(size);
  return bench::run(argc, argv);
}
