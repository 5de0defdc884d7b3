// Products with quantised weights, whole: by tensor cores for integers (cuBLASLt), or by a kernel that reads the packed
// weight alone.
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
