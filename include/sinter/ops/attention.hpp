// Attention: the weighted mean of values by the similarity of queries and keys.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// scaled_dot_product_attention(q [batch..., l, e], k [batch..., s, e], v [batch..., s, f], mask?) = softmax(q k^T *
/// scale) v. The mask broadcasts to [batch..., l, s]: bool (true is seen) or added to the scores. A query that sees
/// nothing gets zeros. Vaswani et al. 2017.
struct ScaledDotProductAttention {
  static constexpr OpInfo info{.name = "scaled_dot_product_attention", .arity = -1, .kind = OpKind::composite};
  /// Which keys query i sees: all; those up to i, where l = s is required, or not; or those up to i + s - l.
  enum class Causal : std::uint8_t { no, equal_lengths, from_start, to_end };
  static constexpr OpAttr<Causal> causal{"causal", 0, "no equal_lengths from_start to_end"};
  static constexpr OpAttr<double> scale{"scale", 1};  // 0: 1 / sqrt(e)
  /// What a query gives that a mask lets see nothing.
  enum class EmptyRows : std::uint8_t { zeros, nan };
  static constexpr OpAttr<EmptyRows> empty_rows{"empty_rows", 2, "zeros nan"};
  static constexpr auto attributes = attribute_list(causal, scale, empty_rows);
  /// Whether there may be such queries, and they give zeros.
  static bool gives_zeros(const Attrs& attrs, bool has_mask) {
    return attrs[empty_rows] == EmptyRows::zeros && (has_mask || attrs[causal] == Causal::to_end);
  }
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  /// None, for the decomposition's, but where a kernel may wait for the gradients.
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// scaled_dot_product_attention_gradient(q, k, v, out, dout, mask?): the gradients by q, k and v, given that of the
/// result `out`, one after the other: [numel(q) + numel(k) + numel(v)] or, packed by batch,
/// [batch..., l e + s e + s f].
struct ScaledDotProductAttentionGradient {
  static constexpr OpInfo info{.name = "scaled_dot_product_attention_gradient", .arity = -1, .kind = OpKind::composite};
  enum class Packing : std::uint8_t { whole, batch };
  static constexpr OpAttr<Packing> packing{"packing", 3, "whole batch"};
  static constexpr auto attributes = attribute_list(ScaledDotProductAttention::causal, ScaledDotProductAttention::scale,
                                                    ScaledDotProductAttention::empty_rows, packing);
  /// What kernels that wait for it take on devices; attention of more has the decomposition's gradients.
  static constexpr int most_features = 128;
  /// On the host; fewer keys leave so few scores that products of their matrices are quicker.
  static constexpr int least_host_keys = 128;
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
