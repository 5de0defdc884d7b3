// Attention: the weighted mean of values by the similarity of queries and keys.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// scaled_dot_product_attention(q [batch..., l, e], k [batch..., s, e], v [batch..., s, f], mask?) = softmax(q k^T *
/// scale) v. attrs.keepdim: causal. Query i sees keys up to i, l = s (attrs.integer 0) or the first queries and keys
/// aligned (1), or up to i + s - l, the last ones aligned (2). The mask broadcasts to [batch..., l, s]: bool (true is
/// seen) or added to the scores. A query that sees nothing gets zeros. attrs.value is the scale, 0 stands for 1 /
/// sqrt(e). Vaswani et al. 2017.
struct ScaledDotProductAttention {
  static constexpr OpInfo info{.name = "scaled_dot_product_attention", .arity = -1, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
