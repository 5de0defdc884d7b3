// One run of a graph, as lazy evaluation does it.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/precision.hpp>

#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Runs a graph without symbols once, as lazy evaluation does: op by op at first, fused when it has become hot.
/// `precision` is what products of f32 matrices may be computed in.
std::vector<Ref<TensorImpl>> run_lazily(Graph graph, std::span<const Ref<TensorImpl>> inputs, MatmulPrecision precision,
                                        Fallback fallback);

}  // namespace jit
SINTER_NAMESPACE_END
