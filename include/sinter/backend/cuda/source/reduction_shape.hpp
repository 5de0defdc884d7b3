// What the loop nest of a reduction says of its threads, and what of a row they keep. Writes nothing.
#pragma once

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// What the loops of a stage say.
inline ThreadShape shape_of(const LoopNest& nest, std::size_t stage, const BoundKernel& bound) {
  ThreadShape shape;
  shape.is_column = !bound.kernel.is_reduced(nest.vector_axis);
  shape.vector_axis = nest.vector_axis;
  shape.width = nest.lanes;
  shape.length = bound.points(bound.reduced);
  shape.items = bound.points(bound.parallel) / (shape.is_column ? shape.width : 1);
  shape.chunk = std::max<std::int64_t>(shape.length, 1);
  for (std::size_t place = stage; place < nest.nodes[stage].end; ++place) {
    if (nest.nodes[place].kind != NestNodeKind::loop) continue;
    const Loop& loop = nest.loop_of(nest.nodes[place]);
    if (loop.mode == LoopMode::grid && (loop.axes & bound.facts.reduced) != 0) shape.chunk = loop.step;
    else if (loop.mode == LoopMode::grid) shape.lanes = loop.lanes;
    if (loop.mode != LoopMode::lanes) continue;
    shape.steps = loop.copies;
    shape.is_resident = loop.range == LoopRange::single;
    shape.is_exact = loop.tail == LoopTail::none;
  }
  const int threads = nest.nodes[stage].count;
  shape.team = std::max(1, int{nest.nodes[stage].axis});
  shape.groups = std::max(1, threads / shape.lanes);
  shape.cluster = std::max(1, shape.lanes / threads);
  shape.splits = std::max<std::int64_t>(1, quotient_up(shape.length, shape.chunk));
  return shape;
}

/// What stands in a loop over lanes.
struct Walk {
  std::vector<InstId> early, values;            // loaded before the first value; computed, or loaded when used
  std::vector<InstId> in_shared;                // loads whose start is kept in shared memory, or fetched from there
  NestNodeKind shared = NestNodeKind::barrier;  // keep or fetch; else neither
  std::vector<InstId> reductions;
  StoreList stores;
  FoldPart part = FoldPart::whole;
  std::size_t loads() const { return early.size() + (shared == NestNodeKind::fetch ? in_shared.size() : 0); }
};
inline Walk read_walk(const LoopNest& nest, std::size_t place) {
  Walk walk;
  if (nest.nodes[place].kind == NestNodeKind::fold) {
    const auto ids = nest.ids_of(nest.nodes[place]);
    walk.reductions.assign(ids.begin(), ids.end());
    walk.part = nest.nodes[place].part;
    ++place;
  }
  nest.for_each_child(place, [&](std::size_t child) {
    const NestNode& node = nest.nodes[child];
    if (node.kind == NestNodeKind::store) walk.stores.push_back(node.first);
    if (node.kind == NestNodeKind::compute) {
      const auto ids = nest.ids_of(node);
      std::vector<InstId>& list = node.axis != 0 ? walk.early : walk.values;
      list.assign(ids.begin(), ids.end());
    }
    const bool is_moved = node.kind == NestNodeKind::keep || node.kind == NestNodeKind::fetch;
    if (!is_moved || nest.buffer_of(node).space != BufferSpace::shared) return;
    walk.shared = node.kind;
    walk.in_shared.push_back(nest.buffer_of(node).value);
  });
  return walk;
}

/// Of the tiles that a row keeps, those that find no room in shared memory are in registers.
inline std::int64_t tiles_in_registers(const LoopNest& nest, const ThreadShape& shape, const Writer& w) {
  std::int64_t tile_bytes = 0, kept = 0;
  for (const Buffer& buffer : nest.buffers) {
    if (buffer.space != BufferSpace::shared) continue;
    tile_bytes += shape.tile() / shape.cluster * size_of(w.bound.inst(buffer.value).dtype);
    kept = buffer.points / shape.tile();
  }
  return kept == 0 ? 0 : std::max<std::int64_t>(0, kept - tiles_in_shared(shape, w.device, tile_bytes));
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
