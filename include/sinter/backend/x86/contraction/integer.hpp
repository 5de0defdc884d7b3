// Products of integers of 8 bits, added up exactly in 32: by AMX tiles, AVX512-VNNI or AVX2.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// For integer_matmul_rows. Null for other nodes. All units give the same bits.
Intrinsic integer_intrinsic(const Graph& graph, const Node& node, Isa isa, ProductUnit unit);

}  // namespace x86
SINTER_NAMESPACE_END
