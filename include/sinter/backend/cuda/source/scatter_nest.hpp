// The loop nest of a scatter with its numbers on a device: whether values come by atomics, a place at a time or in
// order, and who shares a place. Decided from the kernel and its extents alone. Knows no CUDA C.
#pragma once

#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The axes of a scatter, by what varies along them. Places collide along `colliding` ones. Along `free` ones elements
/// lie beside each other at a place, along `free_indexed` ones the index varies, too.
struct ScatterAxes {
  explicit ScatterAxes(const BoundKernel& bound);
  AxisList colliding, free, free_indexed, all_free, indexed;
};

LoopNest build_scatter_nest(const BoundKernel& bound);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
