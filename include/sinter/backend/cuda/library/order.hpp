// Orderings on the GPU: sort, topk, elements of the order, searchsorted, by kernels of ours.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Null: it is no ordering, or one that the host computes.
std::unique_ptr<Launch> bind_order(Gpu& gpu, const BoundOp& op, const StepContext& step);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
