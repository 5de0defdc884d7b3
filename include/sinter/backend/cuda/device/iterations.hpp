// Iterations of a loop as few CUDA graphs: each holds so many of them, one after the other, and later loops of the same
// length only pass the parameters that changed. Knows launches and groups, nothing of loops.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

std::unique_ptr<IterationQueue> make_iterations(Gpu& gpu);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
