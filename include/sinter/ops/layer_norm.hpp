// Normalisation over the last axes.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// layer_norm(x, weight, bias) = (x - mean) / sqrt(var + eps) * weight + bias over attrs.axes, the last axes of
/// x, whose shape weight and bias have. Ba, Kiros and Hinton 2016.
struct LayerNorm {
  static constexpr OpInfo info{.name = "layer_norm", .arity = 3, .kind = OpKind::composite};
  static constexpr OpAttr<double> eps{"eps", 0};
  static constexpr auto attributes = attribute_list(attr::axes, eps);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  /// Of a batch of x only; weights for each example go through the decomposition.
  static Batched batch(const BatchArgs& a) {
    return a.is_batched(1) || a.is_batched(2) ? Batched() : ops_detail::batch_along_axes(a);
  }
};

}  // namespace ops
SINTER_NAMESPACE_END
