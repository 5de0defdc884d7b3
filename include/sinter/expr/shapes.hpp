// Other arrangements of the elements that are there: axes moved, cut and merged, parts, diagonals, mirrored and
// repeated tensors. Views where strides allow; functions.hpp has the plain ones (reshape, permute, ...).
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A list of extents or counts of any length, numbers or Dims.
class DimList {
 public:
  DimList(std::initializer_list<Dim> dims);
  DimList(const Shape& shape);
  DimList(std::span<const Dim> dims);
  template <IntegerList L>
  DimList(const L& dims) {
    for (auto dim : dims) add(Dim(dim));
  }
  DimList(const DimList& other);
  DimList& operator=(const DimList&) = delete;
  ~DimList();
  std::span<const Dim> list() const;

 private:
  void add(Dim dim);
  std::vector<Dim> dims_;  // its functions are not made in users' files
};

// Axes.
Tensor ravel(const In& x);
/// Axis `axis` as the axes `shape`, of which one extent may be -1.
Tensor unflatten(const In& x, int axis, const Shape& shape);
/// Axes `from` at the places `to`; the others keep their order.
Tensor movedim(const In& x, Axes from, Axes to);
Tensor swapaxes(const In& x, int a, int b);
Tensor swapdims(const In& x, int a, int b);
Tensor moveaxis(const In& x, Axes from, Axes to);
/// x in the shape of another tensor, with as many elements.
Tensor reshape_as(const In& x, const In& other);
Tensor atleast_1d(const In& x);
Tensor atleast_2d(const In& x);
Tensor atleast_3d(const In& x);

// Broadcasting.
Tensor broadcast_to(const In& x, const Shape& shape);
Tensor expand_as(const In& x, const In& other);
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> parts, Location where = std::source_location::current());
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> parts,
                                      Location where = std::source_location::current());

// Parts.
/// `length` elements of the axis from `start` on.
Tensor narrow(const In& x, int axis, Dim start, Dim length);
/// One index of the axis, which is dropped; negative ones count from the end.
Tensor select(const In& x, int axis, Dim position);
/// Parts of `size` elements of the axis, each `step` after the one before: their number in the axis' place, and their
/// elements as a new last axis. Tensor.unfold; numpy's sliding_window_view with step 1.
Tensor unfold(const In& x, int axis, std::int64_t size, std::int64_t step);
/// x summed over the axes that broadcasting `shape` to x's would add or stretch. Tensor.sum_to_size.
Tensor sum_to_size(const In& x, const Shape& shape);
/// The elements (i, i + offset) of the axes `a` and `b`, as the last axis.
Tensor diagonal(const In& x, int offset = 0, int a = 0, int b = 1);
/// Element i, j, ... is that at offset + i * strides[0] + j * strides[1] + ... of x in row-major order; all of them
/// must lie within x.
Tensor as_strided(const In& x, const Shape& shape, DimList strides, Dim offset = 0);

// Order.
/// Elements of these axes (none given: all) in opposite order.
Tensor flip(const In& x, Axes axes = {});
Tensor fliplr(const In& x);
Tensor flipud(const In& x);
/// Turned by `times` right angles, from the first of the two axes to the second.
Tensor rot90(const In& x, int times = 1, Axes plane = {0, 1});

// Copies side by side.
/// x again and again, counts[i] times along axis i; axes are added in front for further counts.
Tensor repeat(const In& x, DimList counts);
/// As repeat; of fewer counts than axes the first ones are 1.
Tensor tile(const In& x, DimList counts);
/// Each element `count` times, in a row: of the axis, or of all elements in row-major order.
Tensor repeat_interleave(const In& x, Dim count, int axis);
Tensor repeat_interleave(const In& x, Dim count);

SINTER_NAMESPACE_END
