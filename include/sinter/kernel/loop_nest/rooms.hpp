// The memory of a nest's buffers, as the interpreter has it. Knows nests; runs none.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/lane_folds.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <array>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// Numbers of a reduction's state: its value, unless that is a fold's.
inline std::size_t state_count(const Kernel& kernel, InstId id) {
  const Inst& inst = kernel.body[id];
  return inst.prim == Prim::fold ? kernel.folds[inst.access].states.size() : 1;
}
inline std::int64_t blocks_of(std::int64_t points) { return (points + row_sum_block - 1) / row_sum_block; }

/// Memory of a Buffer. A cell holds something if its mark is that of the point of the task loops at which it was
/// written, or for a workspace the stage.
struct Room {
  std::array<std::int64_t, max_axes> stride{};
  std::int64_t flat_stride = 0, lane_stride = 1;  // of the reduced axes on a GPU, which are one; of lanes
  std::vector<CellRoom> cells;
  std::vector<std::uint32_t> marks;
};

inline Room make_room(const LoopNest& nest, const BoundGeometry& geometry, const JoinedAxes& reduced,
                      const Buffer& buffer) {
  const Kernel& kernel = *nest.kernel;
  Room room;
  std::int64_t count = 1;
  const AxisMask flat = nest.is_on_gpu ? reduced.mask & buffer.axes : 0;
  if (flat != 0) {
    room.flat_stride = 1;
    count = buffer.space == BufferSpace::workspace ? reduced.pieces() : reduced.length;
  }
  for (int a = kernel.rank() - 1; a >= 0; --a) {
    if (((buffer.axes & ~flat) >> a & 1) == 0) continue;
    const bool has_blocks =
        !nest.is_on_gpu && buffer.space == BufferSpace::workspace && a == nest.vector_axis && kernel.is_reduced(a);
    const std::int64_t extent = geometry.extent[as_index(a)];
    room.stride[as_index(a)] = count;
    count *= has_blocks ? blocks_of(extent) : extent;
  }
  if (!nest.is_on_gpu || (reduced.mask >> nest.vector_axis & 1) == 0)
    room.lane_stride = room.stride[as_index(nest.vector_axis)];
  const bool has_state = kernel.body[buffer.value].prim == Prim::fold;
  room.cells.resize(as_index(count) * (has_state ? 1 + state_count(kernel, buffer.value) : 1));
  room.marks.resize(as_index(count));
  return room;
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
