// Basic indexing: from positions and slices to the region that they read, or that an update replaces. indexing.ipp also
// defines what tensor.hpp declares of it: Index, SlotRef and Tensor::at.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <initializer_list>
#include <span>

SINTER_NAMESPACE_BEGIN

/// The part of `x` at `positions`, which may be fewer than its axes.
Tensor index(const In& x, std::span<const Index> positions);
namespace tensor_detail {
/// As they are passed to x(...): those of kind `none` were not given.
Tensor part_of(const In& x, std::initializer_list<const Index*> positions);
}  // namespace tensor_detail
/// `base` with the part at `positions` replaced by `value` (broadcast to that part).
Tensor update(const In& base, std::span<const Index> positions, const In& value);

SINTER_NAMESPACE_END
