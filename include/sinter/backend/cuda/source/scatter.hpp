// Scatters as CUDA C, as their loop nest says. Deterministic: each element of the target is changed by one thread, in
// the order of the kernel, or by atomics where the order does not show. Knows kernels with their numbers; no plans.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// A launch checks all indices; what is out of range goes to the fault record, and then nothing changes.
void write_scatter(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
