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

/// An element stands in all products from its own on. One product is formed, that leaves the first two zeros out, and
/// the shares of the products that hold none, one and two of them are summed each by itself. Before the second zero
/// these sums are divided by the element; a zero is left out of them; the zeros that are among the others are
/// multiplied to them. Those factors are 0, but make second derivatives hold.
SINTER_DECL ValList Cumprod::vjp(const VjpArgs& a) {
  using ops_detail::scan_along;
  const Val x = a.in[0];
  const bool exclusive = a.attrs[ops_detail::is_exclusive];
  const Val is_zero = eq(x, 0), counted = cast(is_zero, DType::i64),
            up_to = scan_along(a, op_info<Cumsum>, counted, false);
  const Val in_product = exclusive ? scan_along(a, op_info<Cumsum>, counted, true) : up_to;
  const Val is_first = logical_and(is_zero, eq(up_to, 1)), is_second = logical_and(is_zero, eq(up_to, 2));
  const Val share = a.dout * scan_along(a, op_info<Cumprod>, where(logical_or(is_first, is_second), 1, x), exclusive);
  const Val none = full_like(share, 0), divisor = where(is_zero, 1, x);
  const auto sum_with = [&](double zeros) {
    return scan_along(a, op_info<Cumsum>, where(eq(in_product, zeros), share, none), exclusive, true);
  };
  const auto zero_where = [&](Val is_it) { return sum(where(is_it, x, full_like(x, 0)), a.attrs.axes, kept); };
  const auto times = [](Val zero, Val slope) {  // 0, also where the slope has overflown
    return where(lt(abs(slope), std::numeric_limits<double>::infinity()), zero * slope, full_like(slope, 0));
  };
  const Val with_none = sum_with(0), with_one = sum_with(1), with_two = sum_with(2), first = zero_where(is_first);
  const Val at_first = with_one + where(is_nan(with_two), with_two, times(zero_where(is_second), with_two));
  const Val beside = times(first, with_one / divisor);
  const Val after = where(is_second, times(first, with_two), where(eq(up_to, 1), beside, none));
  return {where(eq(up_to, 0), with_none / divisor + beside, where(is_first, at_first, after))};
}

SINTER_DECL ValList Cummax::vjp(const VjpArgs& a) { return ops_detail::extremum_scan_vjp(a); }
SINTER_DECL ValList Cummin::vjp(const VjpArgs& a) { return ops_detail::extremum_scan_vjp(a); }

}  // namespace ops
SINTER_NAMESPACE_END
