// Functions that order elements along an axis: sort, the k largest, medians and quantiles, and the place of numbers
// among sorted ones. NaN is greater than every number, equal elements keep the order of their positions, and positions
// are i64. Names follow PyTorch and NumPy.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// Elements in an order, and where each of them was along the axis: `auto [values, indices] = sort(x);`
struct Ordered {
  Tensor values, indices;
};

struct SortOptions {
  bool descending = false;  // NaN first, then from the largest to the least
  bool stable = true;       // every sort is; there is nothing faster to choose
};
Ordered sort(const In& x, int axis = -1, SortOptions options = {});
/// The positions alone.
Tensor argsort(const In& x, int axis = -1, SortOptions options = {});
/// Sorted along the first axis, without positions. numpy.msort, torch.msort.
Tensor msort(const In& x);

/// cummax and cummin, and where along the axis these elements are: of equal ones the last.
Ordered cummax_with_indices(const In& x, int axis);
Ordered cummin_with_indices(const In& x, int axis);

struct TopkOptions {
  bool largest = true;  // false: the least
  bool sorted = true;   // the largest (least) one first; false: in the order of x
};
/// The `count` largest elements along an axis. Of equal ones those that come first.
Ordered topk(const In& x, Dim count, int axis = -1, TopkOptions options = {});
/// The element that has `k` - 1 elements before it in ascending order: k counts from 1. torch.kthvalue.
Ordered kthvalue(const In& x, Dim k, int axis = -1, Keep keep = Keep::no);
namespace expr_detail {
Ordered median_along(const In& x, int axis, Keep keep);
Ordered nanmedian_along(const In& x, int axis, Keep keep);
}  // namespace expr_detail
/// The element in the middle, of an even number the lower one; NaN where there is one, which is then the first.
template <std::integral I>
Ordered median(const In& x, I axis, Keep keep = Keep::no) {
  return expr_detail::median_along(x, static_cast<int>(axis), keep);
}
/// Of all elements, and of those along a list of axes (`{0}`, `{0, 1}`; `{}`: all), without their positions.
Tensor median(const In& x);
Tensor median(const In& x, Axes axes, Keep keep = Keep::no);
/// The same of the elements that are not NaN; NaN where there are none.
template <std::integral I>
Ordered nanmedian(const In& x, I axis, Keep keep = Keep::no) {
  return expr_detail::nanmedian_along(x, static_cast<int>(axis), keep);
}
Tensor nanmedian(const In& x);
Tensor nanmedian(const In& x, Axes axes, Keep keep = Keep::no);
/// The element that is there most often, of several the least, and where it is for the last time.
Ordered mode(const In& x, int axis = -1, Keep keep = Keep::no);

/// What a quantile is between two elements: on the line between them, either one, the nearer one (of equally near ones
/// that of even number), the middle.
enum class QuantileInterpolation : std::uint8_t { linear, lower, higher, nearest, midpoint };
struct QuantileOptions {
  QuantileInterpolation interpolation = QuantileInterpolation::linear;
  Keep keep = Keep::no;
};
/// The element at q (from 0 to 1) times the way through the sorted elements along `axes` (none given: all). q is a
/// number or a tensor of shape () or [n]: then the results for each q stand along a new first axis. NaN where there is
/// one.
Tensor quantile(const In& x, const In& q, Axes axes = {}, QuantileOptions options = {});
/// The same of the elements that are not NaN; NaN where there are none.
Tensor nanquantile(const In& x, const In& q, Axes axes = {}, QuantileOptions options = {});

struct SearchOptions {
  bool right = false;         // after equal elements, not before them
  Optional<Tensor> sorter{};  // the positions of the elements in order, of the shape of `sorted`: argsort(sorted)
};
/// For each element of x how many of the last axis of `sorted`, which ascends, come before it (i64): where it would be
/// put in. `sorted` is one row for all, or has a row for each row of x; with a `sorter` it needs no order.
Tensor searchsorted(const In& sorted, const In& x, SearchOptions options = {});
/// The same, as torch.bucketize has it: the boundaries are one row.
Tensor bucketize(const In& x, const In& boundaries, SearchOptions options = {});

struct IsinOptions {
  bool invert = false;  // true where it is not among them
};
/// Whether each element of x is among the elements of `test`. NaN never is.
Tensor isin(const In& x, const In& test, IsinOptions options = {});

SINTER_NAMESPACE_END
