// The loop nest of a scatter with its numbers on a device: whether values come by atomics, a place at a time or in
// order, and who shares a place. Decided from the kernel and its extents alone. Knows no CUDA C.
#pragma once

#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/backend/cuda/source/scatter_bins.hpp>
#include <sinter/backend/cuda/source/scatter_sorted.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The axes of a scatter, by what varies along them. Places collide along `colliding` ones. Along `free` ones elements
/// lie beside each other at a place, along `free_indexed` ones the index varies, too.
struct ScatterAxes {
  explicit ScatterAxes(const BoundKernel& bound);
  AxisList colliding, free, free_indexed, all_free, indexed;
  std::int64_t extent = 0;                 // of the gathered axis
  std::int64_t places = 0, positions = 0;  // of it, and of indices for it, with all that lies around
  std::int64_t inner = 0;                  // elements beside each other at a place

  /// For each place how many positions it has and where they begin, the positions, the number of each within its list,
  /// how many there are, and how many long lists: 4 bytes each.
  std::int64_t list_bytes() const { return 4 * (2 * (places + positions) + 2); }
  /// Values of single elements are sorted themselves, into bins of neighbouring places where places are many; else
  /// positions are.
  bool has_bins() const { return inner == 1 && places > PositionSortShape::most_keys_of_pass; }
  std::int64_t sort_bytes(std::int64_t value_bytes) const {
    return has_bins() ? BinShape(places, positions, value_bytes).workspace_bytes()
                      : PositionSortShape(places, positions, inner == 1 ? value_bytes : 0).workspace_bytes();
  }
};

LoopNest build_scatter_nest(const BoundKernel& bound);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
