// Windows of unequal lengths: as many elements as the longest has are read for each, and those beyond its end left out.
#pragma once

#include <sinter/expr/adaptive_pool.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/ops/conv.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// x with the axis as (windows, elements), what counts of them, and how many do.
struct UnequalWindows {
  Tensor elements, counts, lengths;
};
inline UnequalWindows unequal_windows(const Tensor& x, int axis, Dim size, Location at) {
  const Dim extent = x.shape()[axis];
  const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
  const Tensor window = arange(size, integers, at);
  const Tensor start = floor_divide(Tensor(window * extent), size);
  const Tensor end = floor_divide(Tensor((window + 1) * extent + (size - Dim(1))), size);
  const Dim longest = (extent + size - Dim(1)) / size + Dim(1);
  const Tensor place = unsqueeze(In(start, at), 1) + arange(longest, integers, at);
  Shape column{size, longest};
  for (int i = axis + 1; i < x.rank(); ++i) column.push_back(1);
  const Tensor is_within = place < unsqueeze(In(end, at), 1);
  const Tensor inside = minimum(place, extent - Dim(1));
  Shape row{size};
  for (int i = axis + 1; i < x.rank(); ++i) row.push_back(1);
  return {take(In(x, at), In(inside, at), axis), reshape(In(is_within, at), column),
          reshape(In(Tensor(end - start), at), row)};
}
inline bool is_multiple(Dim extent, Dim of) {
  return extent.is_static() && of.is_static() && of.value() > 0 && extent.value() % of.value() == 0;
}
/// The axis as (size, extent / size).
inline Tensor equal_windows(const Tensor& x, int axis, Dim size, Location at) {
  return unflatten(In(x, at), axis, Shape{size, x.shape()[axis] / size});
}

SINTER_DECL Tensor adaptive_mean_along(const Tensor& x, int axis, Dim size, Location at) {
  if (identical(x.shape()[axis], size)) return x;
  if (is_multiple(x.shape()[axis], size)) return mean(In(equal_windows(x, axis, size, at), at), axis + 1);
  const UnequalWindows seen = unequal_windows(x, axis, size, at);
  const Tensor total = sum(In(Tensor(where(seen.counts, seen.elements, 0.0, at)), at), axis + 1);
  return total / cast(In(seen.lengths, at), x.dtype());
}
/// Of equal elements the first one has the gradient.
inline Tensor largest_of_windows(const Tensor& windows, int axis, Location at) {
  if (windows.shape()[axis].is_static())
    return record<ops::WindowMax>({Leaf(windows.impl())}, Attrs{.axes = {axis}}, at);
  const Tensor place = argmax(In(windows, at), axis, Keep::yes);
  return squeeze(In(take_along_axis(In(windows, at), In(place, at), axis), at), axis);
}
inline Tensor adaptive_max_along(const Tensor& x, int axis, Dim size, Location at) {
  if (identical(x.shape()[axis], size)) return x;
  if (is_multiple(x.shape()[axis], size)) return largest_of_windows(equal_windows(x, axis, size, at), axis + 1, at);
  const UnequalWindows seen = unequal_windows(x, axis, size, at);
  constexpr double least = -std::numeric_limits<double>::infinity();
  return largest_of_windows(where(seen.counts, seen.elements, least, at), axis + 1, at);
}

/// Where along the axis the largest element of each window is.
inline Tensor places_of_largest(const Tensor& x, int axis, Dim size, Location at) {
  const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
  Shape column{size};
  for (int i = axis + 1; i < x.rank(); ++i) column.push_back(1);
  const Tensor window = reshape(In(arange(size, integers, at), at), column);
  const Tensor start = floor_divide(Tensor(window * x.shape()[axis]), size);
  if (is_multiple(x.shape()[axis], size)) return argmax(In(equal_windows(x, axis, size, at), at), axis + 1) + start;
  const UnequalWindows seen = unequal_windows(x, axis, size, at);
  constexpr double least = -std::numeric_limits<double>::infinity();
  return argmax(In(Tensor(where(seen.counts, seen.elements, least, at)), at), axis + 1) + start;
}

/// The size with -1 as what the axis has; checked.
inline Shape adaptive_size(const In& x, const Shape& size, std::string_view op) {
  const Tensor value(x.tensor());
  const Shape shape = value.shape();
  if (size.rank() < 1 || size.rank() >= shape.rank())
    throw ShapeError(op, "x is " + shape.text() + ", the size is " + size.text(), x.where,
                     "one extent for each of the last axes is required");
  if (!is_floating(value.dtype()))
    throw DTypeError(op, "x is " + value.impl()->type.text() + ", it must be floating", x.where,
                     "cast it to a floating dtype first: cast(x, DType::f32)");
  Shape out;
  for (int i = 0; i < size.rank(); ++i) {
    const int axis = shape.rank() - size.rank() + i;
    const Dim wanted = size[i].is_static() && size[i].value() == -1 ? shape[axis] : size[i];
    if (!is_at_most(1, wanted) || !is_at_most(1, shape[axis]))
      throw ShapeError(op,
                       "axis " + std::to_string(axis) + " of " + shape.text() + " is to have extent " + wanted.text(),
                       x.where, "both must be at least 1");
    out.push_back(wanted);
  }
  return out;
}
/// The last axis comes first: of equal elements the first in row-major order counts.
template <class F>
Tensor adaptive_pool(const In& x, const Shape& size, std::string_view op, F&& along) {
  const Shape wanted = adaptive_size(x, size, op);
  Tensor value(x.tensor());
  const int first = value.rank() - wanted.rank();
  for (int i = wanted.rank(); i-- > 0;) value = along(value, first + i, wanted[i], x.where);
  return value;
}

}  // namespace expr_detail

SINTER_DECL Tensor adaptive_avg_pool(const In& x, const Shape& size) {
  const Tensor given(x.tensor());
  if (given.dtype() == DType::f16)  // a sum may be beyond its range, where the mean is not
    return cast(In(adaptive_avg_pool(In(cast(In(given, x.where), DType::f32), x.where), size), x.where), DType::f16);
  return expr_detail::adaptive_pool(x, size, "adaptive_avg_pool", expr_detail::adaptive_mean_along);
}
SINTER_DECL Tensor adaptive_max_pool(const In& x, const Shape& size) {
  return expr_detail::adaptive_pool(x, size, "adaptive_max_pool", expr_detail::adaptive_max_along);
}
/// The last axis comes first: of equal elements the first in row-major order is found.
SINTER_DECL Ordered adaptive_max_pool_with_indices(const In& x, const Shape& size) {
  const Location at = x.where;
  const Shape wanted = expr_detail::adaptive_size(x, size, "adaptive_max_pool_with_indices");
  Tensor value(x.tensor()), index;
  const Shape shape = value.shape();
  Dim below = 1;  // elements in a step along the axis
  for (int axis = shape.rank() - 1; axis >= shape.rank() - wanted.rank(); --axis) {
    const Dim extent = wanted[axis - shape.rank() + wanted.rank()];
    const Tensor place = expr_detail::places_of_largest(value, axis, extent, at);
    value = take_along_axis(In(value, at), In(place, at), axis);
    const Tensor steps = place * below;
    index = axis + 1 == shape.rank() ? steps : Tensor(steps + take_along_axis(In(index, at), In(place, at), axis));
    below = below * shape[axis];
  }
  return {value, index};
}
SINTER_DECL Tensor lp_pool2d(const In& x, double p, std::int64_t size, std::int64_t stride) {
  if (!(p > 0)) throw UserError("lp_pool2d", "p is " + std::to_string(p) + ", it must be positive", x.where);
  const Tensor value(x.tensor());
  if (value.dtype() == DType::f16)
    return cast(In(lp_pool2d(In(cast(In(value, x.where), DType::f32), x.where), p, size, stride), x.where), DType::f16);
  const Tensor powers = p == 2 ? Tensor(square(value)) : Tensor(pow(value, p));
  const Tensor total = avg_pool2d(In(powers, x.where), size, stride) * static_cast<double>(size * size);
  const Tensor is_zero = total == 0,
               positive = where(is_zero, 1.0, total);  // the derivative of a root at 0 is infinite
  return where(is_zero, 0.0, p == 2 ? Tensor(sqrt(positive)) : Tensor(pow(positive, 1 / p)));
}

SINTER_NAMESPACE_END
