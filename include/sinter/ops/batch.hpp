// What batching rules share: shapes, axes and steps that step over the batch, which is the first axis of a batched
// value. Knows no particular op but those without operands, which are made larger instead of stretched.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// `shape` after an axis of extent `first`.
inline Shape batched_shape(Dim first, const Shape& shape) {
  Shape out{first};
  for (Dim dim : shape.dims()) out.push_back(dim);
  return out;
}

/// Axes of one example, counted in a batched value of rank `rank`; negative ones resolved.
inline IntVector axes_past_batch(const IntVector& axes, int rank) {
  IntVector out;
  for (std::int64_t axis : axes) out.push_back(axis < 0 ? axis + rank : axis + 1);
  return out;
}

inline IntVector steps_past_batch(const IntVector& steps) {
  IntVector out{1};
  for (std::int64_t step : steps) out.push_back(step);
  return out;
}

/// Operand `operand` with the batch as its first axis, stretched there if it has none.
Val with_batch(const BatchArgs& args, std::size_t operand);
/// A batched value with extents of 1 after the batch until it has rank `rank`: aligned for broadcasting.
Val with_rank(Val x, int rank);
/// Axis `from` of x at place `to`, the others in their order.
Val move_axis(Val x, int from, int to);

}  // namespace ops_detail
SINTER_NAMESPACE_END
