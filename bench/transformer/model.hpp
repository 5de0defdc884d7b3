// A transformer as GPT-2 has them, and its training step with AdamW: what bench/transformer.cpp and
// transformer/turns.cpp time; distributed/distributed.cpp has a step of its own for the same parameters.
#pragma once

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench::transformer {

using namespace sinter;

struct Extents {
  std::int64_t layers, features, heads, vocabulary, context, sequences;
};
/// What two cores train; GPT-2 of 124 million parameters, which a GPU does.
inline constexpr Extents small{6, 384, 12, 8192, 128, 1}, gpt2{12, 768, 12, 50257, 1024, 8};

struct Block {
  Variable norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias;
  SINTER_FIELDS(norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias)
};
struct Gpt {
  Variable tokens, positions;
  std::vector<Block> blocks;
  Variable norm, shift;
  SINTER_FIELDS(tokens, positions, blocks, norm, shift)
};

inline Gpt make_gpt(const Extents& extents, Device device = Device::cpu()) {
  manual_seed(1);
  const auto normal = [&](std::int64_t rows, std::int64_t columns) {
    return Variable(randn({rows, columns}, {.device = device}) * 0.02);
  };
  const auto vector = [&](std::int64_t length, double value) {
    return Variable(full({length}, value, {.device = device}));
  };
  const std::int64_t d = extents.features;
  Gpt model{normal(extents.vocabulary, d), normal(extents.context, d), {}, vector(d, 1), vector(d, 0)};
  for (std::int64_t i = 0; i < extents.layers; ++i)
    model.blocks.push_back({vector(d, 1), vector(d, 0), normal(d, 3 * d), vector(3 * d, 0), normal(d, d), vector(d, 0),
                            vector(d, 1), vector(d, 0), normal(d, 4 * d), vector(4 * d, 0), normal(4 * d, d),
                            vector(d, 0)});
  jit::requires_grad(model);
  return model;
}

/// Of tokens [sequences, context], as rows [sequences * context, vocabulary].
inline Tensor logits_of(const Extents& extents, const Gpt& model, const Tensor& tokens) {
  const std::int64_t d = extents.features, rows = extents.sequences * extents.context;
  const auto of_heads = [&](const Tensor& y) {
    return transpose(reshape(y, {extents.sequences, extents.context, extents.heads, d / extents.heads}), 1, 2);
  };
  Tensor x = reshape(embedding(tokens, model.tokens) + model.positions, {rows, d});
  for (const Block& block : model.blocks) {
    const Tensor normalised = layer_norm(x, {d}, block.norm_1, block.shift_1);
    auto [q, k, v] = split<3>(matmul(normalised, block.qkv) + block.qkv_bias, 1);
    const Tensor attended = scaled_dot_product_attention(of_heads(q), of_heads(k), of_heads(v), {.causal = true});
    x = x + matmul(reshape(transpose(attended, 1, 2), {rows, d}), block.out) + block.out_bias;
    const Tensor hidden = matmul(layer_norm(x, {d}, block.norm_2, block.shift_2), block.up) + block.up_bias;
    x = x + matmul(gelu_tanh(hidden), block.down) + block.down_bias;
  }
  return matmul(layer_norm(x, {d}, model.norm, model.shift), transpose(model.tokens, 0, 1));
}

/// As PyTorch's AdamW (Loshchilov and Hutter 2019).
class AdamW {
 public:
  explicit AdamW(const Gpt& model) : parameters_(jit::parameters(model)) {
    for (const jit::Parameter& parameter : parameters_) {
      means_.emplace_back(zeros_like(parameter.variable.value()));
      squares_.emplace_back(zeros_like(parameter.variable.value()));
    }
  }
  void step(const Scalar& number) const {
    const jit::NoGradGuard guard;
    const Scalar size = rate / (1 - exp(number * std::log(0.9))), root = sqrt(1 - exp(number * std::log(0.999)));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Variable& w = parameters_[i].variable;
      const Tensor g = w.grad();
      means_[i] = 0.9f * means_[i] + 0.1f * g;
      squares_[i] = 0.999f * squares_[i] + 0.001f * square(g);
      w = w * (1 - rate * 0.01f) - size * means_[i] / (sqrt(squares_[i]) / root + 1e-8f);
    }
  }

 private:
  static constexpr float rate = 1e-4f;
  std::vector<jit::Parameter> parameters_;
  std::vector<Variable> means_, squares_;
};

/// Numbers without a pattern: what is read [sequences, context], and what comes after each [sequences * context].
inline std::pair<Tensor, Tensor> make_text(const Extents& extents, Device device = Device::cpu()) {
  std::vector<std::int64_t> words;
  std::uint32_t state = 12345;
  const std::int64_t count = extents.sequences * extents.context;
  for (std::int64_t i = 0; i <= count; ++i) {
    state = state * 1664525u + 1013904223u;
    words.push_back((state >> 8) % extents.vocabulary);
  }
  const Tensor text = copy_of(words, {count + 1});
  const Tensor read = reshape(text(slice(0, count)), {extents.sequences, extents.context}) + 0;
  const Tensor next = text(slice(1, {})) + 0;
  eval({read, next});
  return {read.to(device), next.to(device)};
}

/// The loss of one step: (read, wanted, the step's number). The model and the optimiser must outlive it.
inline auto training_step(const Extents& extents, const Gpt& model, const AdamW& optimiser,
                          const jit::Options& options = {}) {
  return jit::compile(
      [&extents, &model, &optimiser](Tensor read, Tensor wanted, Scalar number) {
        jit::zero_grad(model);
        Tensor loss = cross_entropy(logits_of(extents, model, read), wanted);
        loss.backward();
        optimiser.step(number);
        return jit::detach(loss);
      },
      options);
}

}  // namespace bench::transformer
