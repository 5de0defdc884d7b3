// Reductions by one scalar primitive: sum, prod, amax, amin. attrs.axes are normalised and ascending; attrs.keepdim
// leaves extents of 1. What is built of reductions is in statistics.hpp.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// The dtype is kept; bool is refused, because a count does not fit it.
struct Sum {
  static constexpr OpInfo info{
      .name = "sum", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::reduce_add)};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a) { return {unreduce(a.dout, a.attrs.axes, a.in[0].shape())}; }
};

/// The gradient is that of the product of the other elements, also where one of them is zero. Not so its own
/// derivative: second derivatives hold only where no reduced element is zero.
struct Prod {
  static constexpr OpInfo info{
      .name = "prod", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::reduce_mul)};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
};

/// The largest element; NaN wins. Equal elements share the gradient.
struct Amax {
  static constexpr OpInfo info{
      .name = "amax", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::reduce_max)};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
};

/// The smallest element; NaN wins. Equal elements share the gradient.
struct Amin {
  static constexpr OpInfo info{
      .name = "amin", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::reduce_min)};
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
