// The gradients of attention without matrices of scores in memory.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// For scaled_dot_product_attention_gradient of f32 and f64; null for other nodes.
///
/// What it computes: queries are taken in blocks, of gradient_most_rows at most, with all keys that one of them sees.
/// Weights are as softmax has them; keys are then taken in steps of gradient_step. Each element of the gradient by q
/// adds up products over the keys of a step, and steps in order; of those by k and v, products over the queries of a
/// block, blocks in order, and chunks of queries in order. Blocks and chunks come from extents alone.
Intrinsic attention_gradient_intrinsic(const Graph& graph, const Node& node, Isa isa);

inline constexpr std::int64_t gradient_step = 192;  // a multiple of a tile's rows and of a panel's columns
inline constexpr std::int64_t gradient_most_rows = 96, gradient_least_rows = 24;  // multiples of a tile's rows
inline constexpr std::int64_t gradient_score_bytes = 512 * 1024;  // of a block's scores, that stay in L2
inline constexpr std::int64_t gradient_chunk = 512, gradient_most_chunks = 8;

}  // namespace x86
SINTER_NAMESPACE_END
