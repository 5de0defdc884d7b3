// Fourier transforms of tensors on a GPU, by cuFFT.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Null: it is no transform, or there is no cuFFT.
std::unique_ptr<Launch> bind_fourier(Gpu& gpu, const BoundOp& op, const StepContext& step);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
