// Products with quantised weights, of integers of 8 bits and of f8, whole: by tensor cores (cuBLASLt), or by a kernel
// that reads a packed weight alone.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Null: what the product decomposes into is computed.
Intrinsic quantized_intrinsic(Gpu& gpu, const Graph& graph, const Node& node);

}  // namespace cuda
SINTER_NAMESPACE_END
