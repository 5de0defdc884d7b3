// Operations of a plan that a library computes on the GPU: transforms by cuFFT, factorisations by cuSOLVER and cuBLAS,
// small systems and orderings by kernels of ours. What has neither is computed by the host, from copies.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Null: the host computes it.
std::unique_ptr<Launch> bind_library_op(Gpu& gpu, const BoundOp& op, const StepContext& step);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
