// Reading, changing and counting at positions that are data. Indices are i32 or i64; negative ones count from the end,
// and one that is out of range is an IndexError when it runs, before anything changes. What changes a tensor gives a
// new value; where nobody else holds the old one it is made in its memory. Values that meet at one place are combined
// in row-major order of the index, whatever runs it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The element of `x` at the index that `indices` has for its place, along `axis`: out[i, j] = x[indices[i, j], j] for
/// axis 0. Both have the same rank; their other axes broadcast. numpy.take_along_axis, torch.gather.
Tensor take_along_axis(const In& x, const In& indices, int axis);
/// `x` with those elements replaced by `values`, which broadcast to the indices. numpy.put_along_axis.
Tensor put_along_axis(const In& x, const In& indices, const In& values, int axis);
/// The slices of `x` along `axis` at a list of indices. torch.index_select.
Tensor index_select(const In& x, int axis, const In& indices);

/// `x` with out[index[i, j], j] = src[i, j] for axis 0. All have the same rank; the index may be smaller than `src`, of
/// which the first elements are used, and than `x` along other axes. Of several values for a place the last one is
/// taken. `src` may be a number. torch.scatter.
Tensor scatter(const In& x, int axis, const In& index, const In& src);
/// The same, added to what is there. torch.scatter_add.
Tensor scatter_add(const In& x, int axis, const In& index, const In& src);
enum class ScatterReduction : std::uint8_t { sum, prod, mean, amax, amin };
struct ScatterReduceOptions {
  bool include_self = true;  // false: what is there does not count where a value comes in
};
/// The same, combined with what is there. The mean of integers is rounded down. torch.scatter_reduce.
Tensor scatter_reduce(const In& x, int axis, const In& index, const In& src, ScatterReduction reduction,
                      ScatterReduceOptions options = {});

/// `x` with the slices of `source` along `axis`, times `alpha`, added at a list of indices. torch.index_add.
Tensor index_add(const In& x, int axis, const In& indices, const In& source, const Scalar& alpha = 1);
/// `x` with slices replaced by those of `source`; of several for a place the last one is taken. torch.index_copy.
Tensor index_copy(const In& x, int axis, const In& indices, const In& source);
/// `x` with slices filled with a number. torch.index_fill.
Tensor index_fill(const In& x, int axis, const In& indices, const In& value);
struct IndexPutOptions {
  bool accumulate = false;  // add instead of replacing
};
/// `x` with `values` at indices[0][k], indices[1][k], ... of its first axes; the indices broadcast against each other,
/// and `values` to what they name. torch.index_put.
Tensor index_put(const In& x, std::span<const Tensor> indices, const In& values, IndexPutOptions options = {});
Tensor index_put(const In& x, std::initializer_list<Tensor> indices, const In& values, IndexPutOptions options = {});
/// `x` with `values` at positions that count through all its elements; shapes of both are the same. torch.put.
Tensor put(const In& x, const In& indices, const In& values, IndexPutOptions options = {});
/// `x` with slices along `axis` combined with those of `source` at a list of indices. torch.index_reduce.
Tensor index_reduce(const In& x, int axis, const In& indices, const In& source, ScatterReduction reduction,
                    ScatterReduceOptions options = {});
/// `x` where `mask` (bool, of its shape) is false; where it holds, the elements of `source` in row-major order, which
/// has no fewer. torch.masked_scatter.
Tensor masked_scatter(const In& x, const In& mask, const In& source);
/// The index along each axis of a tensor of this shape of the elements at positions that count through all: one tensor
/// for each axis. numpy.unravel_index.
std::vector<Tensor> unravel_index(const In& positions, const Shape& shape);
/// `x` with `value` where `mask` (bool, broadcast) holds. torch.masked_fill.
Tensor masked_fill(const In& x, const In& mask, const In& value);

/// The sums of the slices of `x` along its first axis that have the same number in `ids` ([n], 0 to segments - 1, in
/// any order): [segments, ...]. jax.ops.segment_sum.
Tensor segment_sum(const In& x, const In& ids, Dim segments);
/// A segment without slices has mean NaN (0 for integers, whose means are rounded down), and the neutral element for a
/// minimum and a maximum: an infinity, or the largest and least integer.
Tensor segment_mean(const In& x, const In& ids, Dim segments);
Tensor segment_min(const In& x, const In& ids, Dim segments);
Tensor segment_max(const In& x, const In& ids, Dim segments);

namespace expr_detail {
Tensor occurrences(const In& x, Dim bins);
}  // namespace expr_detail
/// How often each of 0 to bins - 1 occurs among the integers of `x`, of any width: i64 [bins]. Others: IndexError.
/// jax.numpy.bincount with a length.
template <std::convertible_to<Dim> N = Dim>  // a template, for `{}` to mean the options below
Tensor bincount(const In& x, N bins) {
  return expr_detail::occurrences(x, bins);
}
/// The sum of the weights of each, in their dtype.
Tensor bincount(const In& x, Dim bins, const In& weights);
struct BincountOptions {
  Optional<Tensor> weights{};  // of x's shape
  Dim minlength = 0;           // at least so many numbers are counted
};
/// The same of 0 to the largest number there is. Outside of traces alone, for x is evaluated. numpy.bincount.
Tensor bincount(const In& x, BincountOptions options = {});

/// The part of `x` of shape `sizes` that begins at `starts` (numbers, extents, Scalars or tensors of shape ()), one for
/// each axis; starts are moved so that the part lies inside. jax.lax.dynamic_slice.
Tensor dynamic_slice(const In& x, std::initializer_list<Index> starts, const Shape& sizes);
Tensor dynamic_slice(const In& x, std::span<const Index> starts, const Shape& sizes);
/// `x` with such a part replaced by `update`. jax.lax.dynamic_update_slice.
Tensor dynamic_update_slice(const In& x, const In& update, std::initializer_list<Index> starts);
Tensor dynamic_update_slice(const In& x, const In& update, std::span<const Index> starts);

SINTER_NAMESPACE_END
