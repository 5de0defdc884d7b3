// Timing the GEMM algorithms of a product on a device: on scratch memory of the operands' sizes, on a stream of its
// own, so that nothing of the user's is read, written or waited for. Knows no steps.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/ready_list.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstddef>
#include <functional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Microseconds of each of `count` candidates for one step: medians of runs that alternate; negative where one fails.
/// `candidate(i)` makes the list of the i-th ready to run, or throws; lists need at most `workspace_bytes`. Throws
/// where there is no room to measure.
std::vector<double> measure(Gpu& gpu, const Kernel& kernel, const StepBinding& binding, std::size_t workspace_bytes,
                            std::size_t count, const std::function<ReadyList&(std::size_t)>& candidate);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
