// Attention whole, by kernels of ours that keep no scores in memory.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// For scaled_dot_product_attention of f16, bf16 and f32 with up to 256 features, from sm_80 on, and its gradient with
/// up to 128, of f32 where TF32 is allowed. Null: what the node decomposes into is computed.
Intrinsic attention_intrinsic(Gpu& gpu, const Graph& graph, const Node& node, MatmulPrecision precision);

}  // namespace cuda
SINTER_NAMESPACE_END
