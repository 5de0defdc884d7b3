// How takes and scatters are recorded, and indices of several axes joined into one. Only .ipp files include it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/recording.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// How an index lies to a table: see ops::Take.
struct GatherAxes {
  int axis = 0, shared = 0, inner = 0;
  bool in_range = false;  // no index can be out of range
};

inline Tensor record_take(const Tensor& x, const Tensor& index, GatherAxes axes, Location where) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(axes.axis);
  attrs.set(ops::Take::shared, axes.shared);
  attrs.set(ops::Take::inner, axes.inner);
  if (axes.in_range) attrs.set(ops::Take::in_range, true);
  return record<ops::Take>({Leaf(x.impl()), Leaf(index.impl())}, std::move(shared), where);
}

inline Tensor record_scatter(const Tensor& x, const Tensor& index, const Tensor& value, GatherAxes axes,
                             Combine combine, Location where) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(axes.axis);
  attrs.set(ops::Scatter::shared, axes.shared);
  attrs.set(ops::Scatter::inner, axes.inner);
  if (axes.in_range) attrs.set(ops::Scatter::in_range, true);
  attrs.set(ops::Scatter::combine, combine);
  const Tensor values = cast(In(value, where), x.dtype());
  return record<ops::Scatter>({Leaf(x.impl()), Leaf(index.impl()), Leaf(values.impl())}, std::move(shared), where);
}

/// Indices that were computed, with negative ones counted from the end; what is out of range stays what it was, for the
/// error.
inline Tensor counted_from_start(const Ref<TensorImpl>& indices, Dim extent, Location where) {
  const Tensor given(indices);
  if (!is_integer(given.dtype())) return given;  // refused by the op
  const Tensor from_end = cast(In(Tensor(given + extent), where), given.dtype());
  return sinter::where((given < 0) & (from_end >= 0), from_end, given, where);
}

/// Indices of neighbouring axes as one of these axes joined.
struct JoinedIndex {
  Tensor index;
  int axis = 0, count = 1;
  Shape joined(const Shape& shape) const {
    Shape out;
    Dim extent = 1;
    for (int i = 0; i < count; ++i) extent *= shape[axis + i];
    for (int i = 0; i < axis; ++i) out.push_back(shape[i]);
    out.push_back(extent);
    for (int i = axis + count; i < shape.rank(); ++i) out.push_back(shape[i]);
    return out;
  }
};

/// The index itself where each is in [0, extent), else an IndexError when it runs.
inline Tensor checked(const Tensor& index, Dim extent, Location where) {
  const Shape shape = index.shape();
  const Dim count = shape.numel();
  const Tensor flat = reshape(In(index, where), Shape{count});
  const Tensor table = expand(In(reshape(In(flat, where), Shape{count, 1}), where), Shape{count, extent});
  return reshape(In(record_take(table, flat, {.axis = 1, .shared = 1}, where), where), shape);
}

/// What one axis is indexed by: a tensor, or all of it.
struct AxisEntry {
  bool is_all = false;
  Tensor index;
  bool has_axes() const { return !is_all && index.rank() > 0; }
};

/// The entries of the axes from `axis` on of a tensor of this shape. Index tensors broadcast against each other, and
/// their axes stand where the first of them does; between those with axes of their own no axis is taken whole.
inline JoinedIndex join_entries(const Shape& shape, int axis, std::span<const AxisEntry> entries, std::string_view op,
                                Location where) {
  JoinedIndex out;
  out.axis = axis;
  out.count = static_cast<int>(entries.size());
  if (entries.size() == 1) {
    out.index = counted_from_start(entries[0].index.impl(), shape[axis], where);
    return out;
  }
  Shape common;
  int first = -1, last = -1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].is_all) continue;
    const Tensor& index = entries[i].index;
    if (!is_integer(index.dtype()))
      throw DTypeError(op, "an index tensor is " + std::string(name(index.dtype())), where,
                       "i32 or i64 is required; for a mask use where or masked_fill");
    common = broadcast(common, index.shape(), op, where);
    if (!entries[i].has_axes()) continue;
    if (first < 0) first = static_cast<int>(i);
    last = static_cast<int>(i);
  }
  for (int i = first; i < last; ++i)
    if (i >= 0 && entries[as_index(i)].is_all)
      throw IndexError(op, "index tensors stand apart, with a slice between them", where,
                       "index with one after the other: x(all, i)(j), or permute the axes");
  int rank = common.rank();
  for (const AxisEntry& entry : entries) rank += entry.is_all ? 1 : 0;
  int at = 0;  // the axis of the joined index where an entry begins
  const int begins = static_cast<int>(std::count_if(entries.begin(), entries.begin() + std::max(first, 0),
                                                    [](const AxisEntry& entry) { return entry.is_all; }));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const AxisEntry& entry = entries[i];
    const Dim extent = shape[axis + static_cast<int>(i)];
    if (static_cast<int>(i) == first) at = begins + common.rank();
    Shape place(IntVector(as_index(rank), 1));
    Tensor good;
    if (entry.is_all) {
      place.set(at++, extent);
      good = arange(extent, {.dtype = DType::i64, .device = entries.front().index.device()}, where);
    } else {
      const Shape own = entry.index.shape();
      for (int k = 0; k < own.rank(); ++k) place.set(begins + common.rank() - own.rank() + k, own[k]);
      good = checked(cast(In(counted_from_start(entry.index.impl(), extent, where), where), DType::i64), extent, where);
    }
    const Tensor spread = reshape(In(good, where), place);
    out.index = i == 0 ? spread : Tensor(out.index * extent + spread);
  }
  return out;
}

/// Index tensors side by side.
inline JoinedIndex join_indices(const Shape& shape, int axis, std::span<const Tensor> indices, std::string_view op,
                                Location where) {
  std::vector<AxisEntry> entries;
  for (const Tensor& index : indices) entries.push_back({.is_all = false, .index = index});
  return join_entries(shape, axis, entries, op, where);
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
