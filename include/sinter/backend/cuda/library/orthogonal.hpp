// Orthogonal decompositions on a GPU, by cuSOLVER.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// qr, svd, eigh. Null: it is none of them, or there is no cuSOLVER.
std::unique_ptr<Launch> bind_orthogonal(Gpu& gpu, const BoundOp& op, const StepContext& step);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
