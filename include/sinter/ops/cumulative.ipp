// Shape rules and derivatives of scans.
#pragma once

#include <sinter/ops/cumulative.hpp>

#include <sinter/ops/leaf.hpp>
#include <sinter/ops/reduction.hpp>

#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline Type infer_scan(const InferArgs& args) {
  first_axis(args);
  if (args.in[0].dtype == DType::bool_)
    throw DTypeError(args.op, "the operand is " + args.in[0].text() + ", a number is required", args.where,
                     "cast it first: cast(x, DType::i64)");
  return with_shape(args, args.in[0].shape);
}

/// Another scan along the same axis. `is_opposite`: from the other end.
inline Val scan_along(const VjpArgs& a, const OpInfo& op, Val x, bool exclusive, bool is_opposite = false) {
  Attrs attrs{.axes = a.attrs.axes};
  attrs.set(is_exclusive, exclusive);
  attrs.set(is_reversed, a.attrs[is_reversed] != is_opposite);
  return apply(op, {x}, std::move(attrs));
}

/// Each gradient goes to the element that was the extreme there: the one where the scan last took a new value.
inline ValList extremum_scan_vjp(const VjpArgs& a) {
  const Val x = a.in[0];
  const Shape shape = x.shape();
  const int axis = static_cast<int>(a.attrs.axes[0]);
  const Val reached = a.attrs[is_exclusive] ? scan_along(a, *a.out.builder->node(a.out.value).op, x, false) : a.out;
  const Val is_extreme = logical_or(eq(x, reached), is_nan(x));
  const Val place = iota(x, shape, axis, DType::i64);
  // Reversed, later places come first: the extreme is the least one that was met.
  const bool reversed = a.attrs[is_reversed];
  const std::int64_t none = reversed ? std::numeric_limits<std::int64_t>::max() : -1;
  const Val met = where(is_extreme, place, integer_number(place, none));
  const Val found = scan_along(a, reversed ? op_info<ops::Cummin> : op_info<ops::Cummax>, met, a.attrs[is_exclusive]);
  const Val is_there = logical_and(ge(found, 0), lt(found, element_count(x, {axis}, DType::i64)));
  const Val from = where(is_there, found, integer_number(place, 0));
  // One index over all elements, as gradients are added along one axis.
  const Shape flat{shape.numel()};
  const Val own = reshape(iota(x, flat, 0, DType::i64), shape);
  IntVector inner;
  for (int i = axis + 1; i < shape.rank(); ++i) inner.push_back(i);
  const Val stride = element_count(x, inner, DType::i64);
  const Val index = reshape(own + (from - place) * stride, flat);
  const Val share = reshape(where(is_there, a.dout, full_like(a.dout, 0)), flat);
  return {reshape(scatter_add(index, share, flat, 0), shape)};
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Cumsum::infer(const InferArgs& args) { return ops_detail::infer_scan(args); }
SINTER_DECL Type Cumprod::infer(const InferArgs& args) { return ops_detail::infer_scan(args); }
SINTER_DECL Type Cummax::infer(const InferArgs& args) { return ops_detail::infer_scan(args); }
SINTER_DECL Type Cummin::infer(const InferArgs& args) { return ops_detail::infer_scan(args); }

SINTER_DECL Batched Cumsum::batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
SINTER_DECL Batched Cumprod::batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
SINTER_DECL Batched Cummax::batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
SINTER_DECL Batched Cummin::batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }

SINTER_DECL ValList Cumsum::vjp(const VjpArgs& a) {
  return {ops_detail::scan_along(a, op_info<Cumsum>, a.dout, a.attrs[ops_detail::is_exclusive], true)};
}

/// An element stands in all products from its own on. They are divided by it; the first zero itself is left out of
/// them. From a zero on they are 0 for the elements beside it, but their derivatives by that zero are not: hence the
/// products of the result, and those without the second zero.
SINTER_DECL ValList Cumprod::vjp(const VjpArgs& a) {
  using ops_detail::scan_along;
  const Val x = a.in[0];
  const bool exclusive = a.attrs[ops_detail::is_exclusive];
  const Val is_zero = eq(x, 0);
  const Val zeros = scan_along(a, op_info<Cumsum>, cast(is_zero, DType::i64), false);
  const Val zeros_in_product = exclusive ? scan_along(a, op_info<Cumsum>, cast(is_zero, DType::i64), true) : zeros;
  const Val is_first = logical_and(is_zero, eq(zeros, 1)), is_second = logical_and(is_zero, eq(zeros, 2));
  const Val others = scan_along(a, op_info<Cumprod>, where(is_first, 1, x), exclusive);
  const Val beside_second = scan_along(a, op_info<Cumprod>, where(is_second, 1, x), exclusive);
  const Val none = full_like(others, 0), is_clear = eq(zeros_in_product, 0);
  const auto finite = [&](Val product) {  // what is NaN or infinite behind a zero counts for nothing
    return where(lt(abs(product), std::numeric_limits<double>::infinity()), product, none);
  };
  const auto later = [&](Val products) { return scan_along(a, op_info<Cumsum>, a.dout * products, exclusive, true); };
  const Val before = later(where(is_clear, others, finite(a.out)));
  const Val at_zero = later(where(is_clear, none, others));
  const Val at_second = later(where(le(zeros_in_product, 1), none, finite(beside_second)));
  const Val beside = before / where(is_zero, 1, x);
  return {where(is_zero, where(is_first, at_zero, where(is_second, at_second, none)), beside)};
}

SINTER_DECL ValList Cummax::vjp(const VjpArgs& a) { return ops_detail::extremum_scan_vjp(a); }
SINTER_DECL ValList Cummin::vjp(const VjpArgs& a) { return ops_detail::extremum_scan_vjp(a); }

}  // namespace ops
SINTER_NAMESPACE_END
