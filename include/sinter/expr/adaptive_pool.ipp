// Windows of unequal lengths: as many elements as the longest has are read for each, and those beyond its end left out.
#pragma once

#include <sinter/expr/adaptive_pool.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

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
inline Tensor adaptive_max_along(const Tensor& x, int axis, Dim size, Location at) {
  if (identical(x.shape()[axis], size)) return x;
  if (is_multiple(x.shape()[axis], size)) return amax(In(equal_windows(x, axis, size, at), at), axis + 1);
  const UnequalWindows seen = unequal_windows(x, axis, size, at);
  constexpr double least = -std::numeric_limits<double>::infinity();
  return amax(In(Tensor(where(seen.counts, seen.elements, least, at)), at), axis + 1);
}

template <class F>
Tensor adaptive_pool(const In& x, const Shape& size, std::string_view op, F&& along) {
  Tensor value(x.tensor());
  const Shape shape = value.shape();
  if (size.rank() < 1 || size.rank() >= shape.rank())
    throw ShapeError(op, "x is " + shape.text() + ", the size is " + size.text(), x.where,
                     "one extent for each of the last axes is required");
  if (!is_floating(value.dtype()))
    throw DTypeError(op, "x is " + value.impl()->type.text() + ", it must be floating", x.where,
                     "cast it to a floating dtype first: cast(x, DType::f32)");
  for (int i = 0; i < size.rank(); ++i) {
    const int axis = shape.rank() - size.rank() + i;
    const Dim wanted = size[i].is_static() && size[i].value() == -1 ? shape[axis] : size[i];
    if (!is_at_most(1, wanted) || !is_at_most(1, shape[axis]))
      throw ShapeError(op,
                       "axis " + std::to_string(axis) + " of " + shape.text() + " is to have extent " + wanted.text(),
                       x.where, "both must be at least 1");
    value = along(value, axis, wanted, x.where);
  }
  return value;
}

}  // namespace expr_detail

SINTER_DECL Tensor adaptive_avg_pool(const In& x, const Shape& size) {
  return expr_detail::adaptive_pool(x, size, "adaptive_avg_pool", expr_detail::adaptive_mean_along);
}
SINTER_DECL Tensor adaptive_max_pool(const In& x, const Shape& size) {
  return expr_detail::adaptive_pool(x, size, "adaptive_max_pool", expr_detail::adaptive_max_along);
}
SINTER_DECL Tensor lp_pool2d(const In& x, double p, std::int64_t size, std::int64_t stride) {
  if (!(p > 0)) throw UserError("lp_pool2d", "p is " + std::to_string(p) + ", it must be positive", x.where);
  const Tensor value(x.tensor());
  const Tensor powers = p == 2 ? Tensor(square(value)) : Tensor(pow(value, p));
  const Tensor total = avg_pool2d(In(powers, x.where), size, stride) * static_cast<double>(size * size);
  const Tensor is_zero = total == 0,
               positive = where(is_zero, 1.0, total);  // the derivative of a root at 0 is infinite
  return where(is_zero, 0.0, p == 2 ? Tensor(sqrt(positive)) : Tensor(pow(positive, 1 / p)));
}

SINTER_NAMESPACE_END
