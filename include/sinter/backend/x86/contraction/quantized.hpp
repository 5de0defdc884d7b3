// Products with packed weights of 8 or 4 bits. Few rows: the weight is read once, as it is packed, and each group of it
// is dequantised in registers. Many rows: panels of the weight are dequantised where the product needs them.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// For quantized_matmul of f32 whose groups are multiples of 32 elements. Null for other nodes. Both instruction sets,
/// all units and any number of threads give the same bits.
Intrinsic quantized_intrinsic(const Graph& graph, const Node& node, Isa isa, ProductUnit unit);

}  // namespace x86
SINTER_NAMESPACE_END
