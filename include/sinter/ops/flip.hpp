// Axes in opposite order.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// Element i of each of attrs.axes is element n - 1 - i of the operand. A gather; its derivative is a flip again.
struct Flip {
  static constexpr OpInfo info{.name = "flip", .arity = 1, .kind = OpKind::composite, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a) { return {apply(op_info<Flip>, {a.dout}, a.attrs)}; }
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

}  // namespace ops
SINTER_NAMESPACE_END
