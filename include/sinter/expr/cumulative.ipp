// Records scans; converts dtypes that they do not take.
#pragma once

#include <sinter/expr/cumulative.hpp>

#include <sinter/expr/functions.ipp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/ops/cumulative.hpp>

#include <limits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

template <class Op>
Tensor cumulative(const In& x, int axis, CumulativeOptions options) {
  Ref<TensorImpl> value = x.tensor();
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(normalise_axis(axis, value->type.shape.rank(), Op::info.name, x.where));
  attrs.set(ops_detail::is_exclusive, options.exclusive);
  attrs.set(ops_detail::is_reversed, options.reverse);
  return record<Op>({Leaf(std::move(value))}, std::move(shared), x.where);
}
/// bool by way of i32: the numbers that stand for nothing are below and above 0 and 1.
template <class Op>
Tensor cumulative_extremum(const In& x, int axis, CumulativeOptions options) {
  const Tensor given(x.tensor());
  if (given.dtype() != DType::bool_) return cumulative<Op>(In(given, x.where), axis, options);
  const Tensor numbers = cast(In(given, x.where), DType::i32);
  return cumulative<Op>(In(numbers, x.where), axis, options) > 0;
}

/// Neighbours along an axis: the elements from the second on, and those up to the last but one.
struct Neighbours {
  Tensor later, earlier;
};
inline Neighbours neighbours(const Tensor& x, int axis, Location where) {
  if (is_at_most(x.shape()[axis], 0)) return {x, x};  // none
  const Dim count = x.shape()[axis] - Dim(1);
  return {narrow(In(x, where), axis, 1, count), narrow(In(x, where), axis, 0, count)};
}

/// Whole numbers are taken as floating ones: areas have halves.
inline Tensor heights(const In& y) { return Tensor(as_floating(y.tensor(), y.where)); }
/// The areas between neighbours, for widths that broadcast.
inline Tensor trapezoids(const Tensor& y, const Tensor& widths, int axis, Location where) {
  const Neighbours sides = neighbours(y, axis, where);
  return (sides.later + sides.earlier) * (widths / 2);
}
inline Tensor trapezoids(const Tensor& y, double dx, int axis, Location where) {
  const Neighbours sides = neighbours(y, axis, where);
  return (sides.later + sides.earlier) * (dx / 2);
}
/// Whole numbers whose differences are right: those of u8 would wrap. The bits of a u64 give those below 2^63.
inline Tensor as_signed(const Tensor& x, Location where) {
  return is_integer(x.dtype()) ? Tensor(cast(In(x, where), DType::i64)) : x;
}
/// The places' distances. Places of one axis stand along the axis of y.
inline Tensor widths_of(const Tensor& places, const Tensor& y, int axis, std::string_view op, Location where) {
  const bool is_one_axis = places.rank() == 1;
  if (places.rank() == 0 || !(places.shape()[is_one_axis ? 0 : axis] == y.shape()[axis]) ||
      (!is_one_axis && places.rank() != y.rank()))
    throw ShapeError(op, "y is " + y.shape().text() + ", its places are " + places.shape().text(), where,
                     "give a place for each element of axis " + std::to_string(axis) + ", or for each of y");
  const Neighbours sides = neighbours(as_signed(places, where), is_one_axis ? 0 : axis, where);
  const Tensor widths = sides.later - sides.earlier;
  if (!is_one_axis) return widths;
  Shape along;
  for (int i = 0; i < y.rank(); ++i) along.push_back(i == axis ? widths.shape()[0] : Dim(1));
  return widths.reshape(along);
}

/// Differences taken over and over, until no element is left.
inline Tensor differences(Tensor x, int axis, int times, Location where) {
  for (; times > 0 && !is_at_most(x.shape()[axis], 0); --times) {
    const Neighbours sides = neighbours(x, axis, where);
    if (x.dtype() == DType::bool_) x = sides.later != sides.earlier;
    else x = sides.later - sides.earlier;
  }
  return x;
}

/// What is joined with x along an axis; a number is one element.
inline Tensor end_of(const Tensor& x, const In& given, int axis, Location where) {
  const bool is_number = !given.leaf.value;
  const Tensor end = is_number ? cast(given, promote_weak(x.dtype(), given.leaf.kind)) : Tensor(given.tensor());
  if (end.rank() > 0) return end;
  Shape one = x.shape();
  one.set(axis, 1);
  return expand(In(end, where), one);
}
}  // namespace expr_detail
SINTER_DECL Tensor diff(const In& x, DiffOptions options) {
  const Tensor given(x.tensor());
  if (options.times < 0)
    throw UserError("diff", "differences are taken " + std::to_string(options.times) + " times", x.where);
  const int axis = normalise_axis(options.axis, given.rank(), "diff", x.where);
  if (options.times == 0) return given;
  std::vector<Tensor> parts;
  if (options.prepend) parts.push_back(expr_detail::end_of(given, *options.prepend, axis, x.where));
  parts.push_back(given);
  if (options.append) parts.push_back(expr_detail::end_of(given, *options.append, axis, x.where));
  return expr_detail::differences(parts.size() == 1 ? given : concat(parts, axis, x.where), axis, options.times,
                                  x.where);
}

/// Sums of twice as many elements at each step (Hillis and Steele 1986).
SINTER_DECL Tensor logcumsumexp(const In& x, int axis) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Tensor out(expr_detail::as_floating(x.tensor(), x.where));
  axis = normalise_axis(axis, out.rank(), "logcumsumexp", x.where);
  const Dim extent = out.shape()[axis];
  for (int step = 1; !expr_detail::is_at_most(extent, step); step *= 2) {
    std::vector<std::pair<int, int>> widths(as_index(out.rank()));
    widths[as_index(axis)] = {step, -step};
    out = logaddexp(out, pad(In(out, x.where), widths, -infinity), x.where);
  }
  return out;
}

namespace expr_detail {
inline int gradient_axis(const Tensor& values, int axis, Location where) {
  axis = normalise_axis(axis, values.rank(), "gradient", where);
  if (is_at_most(values.shape()[axis], 1))
    throw ShapeError("gradient", "axis " + std::to_string(axis) + " of " + values.shape().text() + " is too short",
                     where, "it needs two elements");
  return axis;
}
/// The derivatives between neighbours, with those inside given: at both ends there is one neighbour.
inline Tensor with_ends(const Tensor& slopes, const Tensor& inside, int axis, Location where) {
  const auto slope_at = [&](Dim i) { return narrow(In(slopes, where), axis, i, 1); };
  return concat({slope_at(0), inside, slope_at(slopes.shape()[axis] - Dim(1))}, axis, where);
}
}  // namespace expr_detail
SINTER_DECL Tensor gradient(const In& x, double spacing, int axis) {
  const Tensor values(expr_detail::as_floating(x.tensor(), x.where));
  axis = expr_detail::gradient_axis(values, axis, x.where);
  const Tensor slopes = diff(In(values, x.where), axis) / spacing;
  // Without the element itself, which may be infinite.
  const Dim count = values.shape()[axis] - Dim(2);
  const Tensor over_two = narrow(In(values, x.where), axis, 2, count) - narrow(In(values, x.where), axis, 0, count);
  return expr_detail::with_ends(slopes, over_two / (2 * spacing), axis, x.where);
}
/// The slope of the parabola through three places: each neighbour's slope weighted by the distance of the other one.
SINTER_DECL Tensor gradient(const In& x, const In& at, int axis) {
  const Tensor values(expr_detail::as_floating(x.tensor(), x.where)), places(at.tensor());
  axis = expr_detail::gradient_axis(values, axis, x.where);
  if (places.rank() == 0) {
    const Tensor slopes = gradient(In(values, x.where), 1, axis) / places;
    return cast(In(slopes, x.where), values.dtype());
  }
  if (places.rank() != 1)
    throw ShapeError("gradient", "x is " + values.shape().text() + ", its places are " + places.shape().text(), x.where,
                     "give a place for each element of axis " + std::to_string(axis));
  const Tensor widths = expr_detail::widths_of(places, values, axis, "gradient", x.where);
  const Tensor slopes = diff(In(values, x.where), axis) / widths;
  const expr_detail::Neighbours slope = expr_detail::neighbours(slopes, axis, x.where);
  const expr_detail::Neighbours width = expr_detail::neighbours(widths, axis, x.where);
  const Tensor inside = (slope.earlier * width.later + slope.later * width.earlier) / (width.earlier + width.later);
  return expr_detail::with_ends(slopes, inside, axis, x.where);
}
SINTER_DECL std::vector<Tensor> gradients(const In& x, Axes axes, std::vector<double> spacings) {
  const Tensor values(x.tensor());
  const In given(values, x.where);
  const IntVector all_axes = expr_detail::reduced_axes({}, values.rank(), "gradients", x.where);
  const IntVector& list = axes.empty() ? all_axes : axes.list();
  if (spacings.size() > 1 && spacings.size() != list.size())
    throw UserError("gradients",
                    std::to_string(spacings.size()) + " spacings for " + std::to_string(list.size()) + " axes", x.where,
                    "one for each axis, or one for all");
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double spacing = spacings.empty() ? 1 : spacings[spacings.size() == 1 ? 0 : i];
    out.push_back(gradient(given, spacing, static_cast<int>(list[i])));
  }
  return out;
}

SINTER_DECL Tensor trapezoid(const In& y, double dx, int axis) {
  const Tensor values = expr_detail::heights(y);
  axis = normalise_axis(axis, values.rank(), "trapezoid", y.where);
  return sum(In(expr_detail::trapezoids(values, dx, axis, y.where), y.where), axis);
}
SINTER_DECL Tensor trapezoid(const In& y, const In& at, int axis) {
  const Tensor values = expr_detail::heights(y), places(at.tensor());
  axis = normalise_axis(axis, values.rank(), "trapezoid", y.where);
  const Tensor widths = expr_detail::widths_of(places, values, axis, "trapezoid", y.where);
  return sum(In(expr_detail::trapezoids(values, widths, axis, y.where), y.where), axis);
}
SINTER_DECL Tensor cumulative_trapezoid(const In& y, double dx, int axis) {
  const Tensor values = expr_detail::heights(y);
  axis = normalise_axis(axis, values.rank(), "cumulative_trapezoid", y.where);
  return cumsum(In(expr_detail::trapezoids(values, dx, axis, y.where), y.where), axis);
}
SINTER_DECL Tensor cumulative_trapezoid(const In& y, const In& at, int axis) {
  const Tensor values = expr_detail::heights(y), places(at.tensor());
  axis = normalise_axis(axis, values.rank(), "cumulative_trapezoid", y.where);
  const Tensor widths = expr_detail::widths_of(places, values, axis, "cumulative_trapezoid", y.where);
  return cumsum(In(expr_detail::trapezoids(values, widths, axis, y.where), y.where), axis);
}

SINTER_DECL Tensor cumsum(const In& x, int axis, CumulativeOptions options) {
  return expr_detail::cumulative<ops::Cumsum>(expr_detail::counted(x), axis, options);
}
SINTER_DECL Tensor cumprod(const In& x, int axis, CumulativeOptions options) {
  return expr_detail::cumulative<ops::Cumprod>(expr_detail::counted(x), axis, options);
}
SINTER_DECL Tensor cummax(const In& x, int axis, CumulativeOptions options) {
  return expr_detail::cumulative_extremum<ops::Cummax>(x, axis, options);
}
SINTER_DECL Tensor cummin(const In& x, int axis, CumulativeOptions options) {
  return expr_detail::cumulative_extremum<ops::Cummin>(x, axis, options);
}

SINTER_NAMESPACE_END
