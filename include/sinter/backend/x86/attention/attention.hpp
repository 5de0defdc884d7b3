// Attention without its scores: query blocks walk over the keys a step at a time, and only what one step needs is
// stored.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// For scaled_dot_product_attention of f32 and f64; null for other nodes.
///
/// What it computes, for each query by itself: keys are taken in steps of attention_step, in order. A step's scores are
/// sums as of any product; m is the greatest score so far, and what was summed up before is scaled by exp(old m - m)
/// when it grows. The weights exp(score - m) of a step are added up over 64 lanes, which are combined in halves, and
/// the step's weights by its values are one block of a product. Segments of attention_segment keys are computed apart
/// and combined pairwise, as blocks of BlockOrder::pairwise. At the end the sum is divided by that of the weights.
/// Neither blocks of queries nor threads enter.
Intrinsic attention_intrinsic(const Graph& graph, const Node& node, Isa isa);

inline constexpr std::int64_t attention_step = 256, attention_segment = 1024;

}  // namespace x86
SINTER_NAMESPACE_END
