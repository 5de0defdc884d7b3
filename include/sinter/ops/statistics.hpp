// What is built of reductions: mean, variance, any and all, the number of elements; and positions of extremes.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/scalar_fold.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// The extent as a number, i64 of rank 0: what an extent becomes where it is computed with. The operand may be any
/// value; it says where the number is.
struct Extent {
  static constexpr OpInfo info{.name = "extent", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr OpAttr<Dim> extent{"extent", 0};
  static constexpr auto attributes = attribute_list(extent);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
};

/// The product of the operand's extents along attrs.axes, as a scalar of attrs.dtype. Known extents become a `full`.
struct ElementCount {
  static constexpr OpInfo info{.name = "element_count", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr auto attributes = attribute_list(attr::axes, attr::dtype);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return {ops_detail::batch_along_axes(a).value, false}; }
};

/// The sum over attrs.axes, divided by the number of elements along them. Floating dtypes.
struct Mean {
  static constexpr OpInfo info{.name = "mean", .arity = 1, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// The sum of squared deviations from the mean, divided by the number of elements less the correction (0: that of
/// a population).
struct Var {
  static constexpr OpInfo info{.name = "var", .arity = 1, .kind = OpKind::composite};
  static constexpr OpAttr<double> correction{"correction", 0};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim, correction);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// Whether some element is not zero.
struct Any {
  static constexpr OpInfo info{.name = "any", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// Whether no element is zero.
struct All {
  static constexpr OpInfo info{.name = "all", .arity = 1, .kind = OpKind::composite, .has_gradient = false};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// Position (i64) of the first largest element; NaN counts as largest. Along several axes it counts through them, the
/// last one fastest.
struct Argmax {
  static constexpr OpInfo info{
      .name = "argmax", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::fold)};
  static Type infer(const InferArgs& args);
  static ScalarFold fold(DType value, PositionOrder order) { return argmax_fold(value, order); }
};

/// Position (i64) of the first smallest element; NaN counts as smallest. Along several axes as argmax.
struct Argmin {
  static constexpr OpInfo info{
      .name = "argmin", .arity = 1, .kind = OpKind::reduction, .reduction = static_cast<std::uint8_t>(Prim::fold)};
  static Type infer(const InferArgs& args);
  static ScalarFold fold(DType value, PositionOrder order) { return argmin_fold(value, order); }
};

}  // namespace ops
SINTER_NAMESPACE_END
