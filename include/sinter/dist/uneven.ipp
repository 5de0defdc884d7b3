// Padding to blocks and back.
#pragma once

#include <sinter/dist/uneven.hpp>

#include <sinter/base/index.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/graph/call_context.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

SINTER_DECL std::vector<std::int64_t> part_extents(std::int64_t extent, const Axis& over, Location where) {
  const RankState& state = current_rank();
  std::vector<int> sizes;
  if (!state.mesh.has_axes()) sizes.push_back(axis_size(over, where));
  for (const MeshAxis& axis : state.mesh.axes())
    if (over.names.empty() || std::find(over.names.begin(), over.names.end(), axis.name) != over.names.end())
      sizes.push_back(axis_size(axis.name, where));
  std::vector<std::int64_t> extents{extent};
  for (const int size : sizes) {
    std::vector<std::int64_t> divided;
    for (const std::int64_t each : extents)
      for (int i = 0; i < size; ++i) divided.push_back(part_extent(each, size, i));
    extents = std::move(divided);
  }
  return extents;
}
SINTER_DECL bool are_equal(const std::vector<std::int64_t>& extents) {
  return std::all_of(extents.begin(), extents.end(), [&](std::int64_t each) { return each == extents[0]; });
}
SINTER_DECL std::vector<std::int64_t> uneven_extents(const Tensor& x, int axis, const Axis& over, Location where) {
  const Dim extent = x.size(axis);
  if (extent % Dim(axis_size(over, where)) == 0) return {};
  return part_extents(static_cast<std::int64_t>(extent), over, where);
}

/// This rank's number in the group, as a number: parts have other shapes on other ranks.
inline std::size_t own_index(const Axis& over, Location where) {
  call_context().use(ContextKey::rank);
  const RankState& state = current_rank();
  return as_index(state.index_along(state.mesh, over, where));
}
inline std::int64_t longest(const std::vector<std::int64_t>& extents) {
  return *std::max_element(extents.begin(), extents.end());
}
inline Tensor padded(const Tensor& x, int axis, std::int64_t extent, Location where) {
  Shape more = x.shape();
  more.set(axis, Dim(extent) - more[axis]);
  if (more[axis] == 0) return x;
  return concat({x, zeros(more, {.dtype = x.dtype(), .device = x.device()}, where)}, axis, where);
}

SINTER_DECL Tensor to_blocks(const In& whole, int axis, const std::vector<std::int64_t>& extents) {
  const Tensor x(whole.tensor());
  std::vector<Tensor> blocks;
  std::int64_t begin = 0;
  for (const std::int64_t extent : extents) {
    blocks.push_back(padded(narrow(In(x, whole.where), axis, begin, extent), axis, longest(extents), whole.where));
    begin += extent;
  }
  return concat(std::span<const Tensor>(blocks), axis, whole.where);
}
SINTER_DECL Tensor from_blocks(const In& blocks, int axis, const std::vector<std::int64_t>& extents) {
  const Tensor x(blocks.tensor());
  std::vector<Tensor> parts;
  for (std::size_t r = 0; r < extents.size(); ++r)
    parts.push_back(narrow(In(x, blocks.where), axis, static_cast<std::int64_t>(r) * longest(extents), extents[r]));
  return concat(std::span<const Tensor>(parts), axis, blocks.where);
}
SINTER_DECL Tensor to_block(const In& part, int axis, const Axis& over, const std::vector<std::int64_t>& extents,
                            std::string_view op) {
  const Tensor x(part.tensor());
  const std::int64_t own = extents[own_index(over, part.where)];
  if (!(x.size(axis) == own)) {
    std::int64_t whole = 0;
    for (const std::int64_t each : extents) whole += each;
    throw ShapeError(op,
                     "this rank's part of an axis of " + std::to_string(whole) + " is axis " + std::to_string(axis) +
                         " of " + x.impl()->type.text() + ", and should have " + std::to_string(own),
                     part.where, "dist::shard makes such parts: they differ by one at most, the first are larger");
  }
  return padded(x, axis, longest(extents), part.where);
}
SINTER_DECL Tensor from_block(const In& block, int axis, const Axis& over, const std::vector<std::int64_t>& extents) {
  return narrow(block, axis, 0, extents[own_index(over, block.where)]);
}

SINTER_DECL Tensor exchange_uneven(const In& x, int split_axis, int axis, const Axis& over, std::int64_t extent) {
  const Tensor value(x.tensor());
  const std::vector<std::int64_t> split =
      part_extents(static_cast<std::int64_t>(value.size(split_axis)), over, x.where);
  const std::vector<std::int64_t> joined = part_extents(extent, over, x.where);
  const Tensor block = to_block(x, axis, over, joined, "all_to_all");
  const Tensor blocks = to_blocks(In(block, x.where), split_axis, split);
  const Tensor sent = all_to_all(In(blocks, x.where), split_axis, axis, over);
  const Tensor whole = from_blocks(In(sent, x.where), axis, joined);
  return from_block(In(whole, x.where), split_axis, over, split);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
