// The loop nest of a kernel with its numbers on a device: which axis goes in vectors, which lanes share a row or a
// column, what one thread keeps in registers and a block in shared memory, whether the reduced axes are cut into
// pieces. Decided from the kernel, its schedule and the device alone, so that results are the same in every run. Knows
// no CUDA C.
#pragma once

#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Of a kernel that is elementwise, scatters, or has reductions or scans, and that no other form takes. Its kernel is
/// `bound`'s.
LoopNest build_gpu_nest(const BoundKernel& bound, const GpuNestOptions& options);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
