// Where the largest element of each window is.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// Position (i64) of the largest element over attrs.axes, the last ones, through which it counts, the last one fastest:
/// the first of equal ones, and where NaN is among them, the last NaN.
struct WindowArgmax {
  static constexpr OpInfo info{.name = "window_argmax", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
