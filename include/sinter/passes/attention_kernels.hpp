// AttentionForKernels: attention as back ends with kernels for it want to be asked. And the two operations that it
// becomes, which stand in no other graphs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/attention.hpp>

#include <functional>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// scaled_dot_product_attention_with_levels(q, k, v, mask?): the attention, and of each query the level that its
/// weights are exponentials above: [batch..., l, 1] f32, or [batch..., l, 2] where a mask is added. The last batch axis
/// of k and v may be a part of q's, each of which serves as many of q's.
struct AttentionWithLevels {
  static constexpr OpInfo info{
      .name = "scaled_dot_product_attention_with_levels", .arity = -1, .kind = OpKind::composite};
  static constexpr auto attributes = ScaledDotProductAttention::attributes;
  static void infer(const InferArgs& args, TypeList& out);
};

/// scaled_dot_product_attention_gradient_with_levels(q, k, v, out, dout, levels, mask?): the gradients by q, k and v,
/// those by k and v of each of q's heads.
struct AttentionGradientWithLevels {
  static constexpr OpInfo info{
      .name = "scaled_dot_product_attention_gradient_with_levels", .arity = -1, .kind = OpKind::composite};
  static constexpr auto attributes = ScaledDotProductAttention::attributes;
  static void infer(const InferArgs& args, TypeList& out);
};

}  // namespace ops

/// Attention whose gradients are in the same graph leaves them the levels of its queries, which are not computed again
/// then. Keys and values that are stretched to groups of heads are read in place.
struct AttentionForKernels {
  /// Composites that a back end computes whole; all or nothing is changed, for a back end that has not both operations.
  std::function<bool(const Graph& graph, const Node& node)> keep;
  std::string_view name() const { return "attention for kernels"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
