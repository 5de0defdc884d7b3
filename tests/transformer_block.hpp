// A block of GPT-2's size in bf16 beside the same one in f32.
#pragma once

#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <vector>

namespace sinter_test {

constexpr std::int64_t block_features = 768, block_heads = 12, block_tokens = 128, block_batch = 2;

/// Gains, shifts and weights: two normalisations, queries with keys and values, what leaves attention, up and down.
inline std::vector<sinter::Tensor> block_parameters(sinter::Device device) {
  using namespace sinter;
  constexpr std::int64_t d = block_features;
  const TensorOptions on{.device = device};
  const auto weight = [&](std::int64_t in, std::int64_t out) {
    return randn({in, out}, on) * (1 / std::sqrt(static_cast<double>(in)));
  };
  return {ones({d}, on) + randn({d}, on) * 0.1, randn({d}, on) * 0.1, weight(d, 3 * d), weight(d, d),
          ones({d}, on) + randn({d}, on) * 0.1, randn({d}, on) * 0.1, weight(d, 4 * d), weight(4 * d, d)};
}
inline sinter::Tensor block_of(sinter::Tensor x, const std::vector<sinter::Tensor>& p) {
  using namespace sinter;
  constexpr std::int64_t d = block_features;
  const Tensor mixed = matmul(layer_norm(x, {d}, p[0], p[1]), p[2]);
  const auto heads = [&](std::int64_t part) {
    const Tensor rows = mixed(all, all, slice(part * d, (part + 1) * d));
    return transpose(reshape(rows, {block_batch, block_tokens, block_heads, d / block_heads}), 1, 2);
  };
  const Tensor attended = scaled_dot_product_attention(heads(0), heads(1), heads(2), {.causal = true});
  x = x + matmul(reshape(transpose(attended, 1, 2), {block_batch, block_tokens, d}), p[3]);
  return x + matmul(gelu(matmul(layer_norm(x, {d}, p[4], p[5]), p[6])), p[7]);
}
/// The length of a - b by that of b.
inline double distance_by_length(const sinter::Tensor& a, const sinter::Tensor& b) {
  using namespace sinter;
  const Tensor wide = b.to(DType::f64), off = a.to(DType::f64) - wide;
  return std::sqrt(item<double>(sum(square(off))) / item<double>(sum(square(wide))));
}

inline void check_block_in_bf16(sinter::Device device) {
  using namespace sinter;
  manual_seed(3);
  const Tensor x = randn({block_batch, block_tokens, block_features}, {.device = device});
  const std::vector<Tensor> wide = block_parameters(device);
  std::vector<Tensor> narrow;
  for (const Tensor& w : wide) narrow.push_back(w.to(DType::bf16));
  auto block = jit::compile(block_of);
  CHECK(distance_by_length(block(x.to(DType::bf16), narrow), block(x, wide)) < 1e-2);
  auto slopes = jit::compile([](Tensor in, const std::vector<Tensor>& p) {
    return jit::grad([&](Tensor at) { return sum(square(block_of(at, p).to(DType::f32))); })(in);
  });
  CHECK(distance_by_length(slopes(x.to(DType::bf16), narrow), slopes(x, wide)) < 2e-2);
}

}  // namespace sinter_test
