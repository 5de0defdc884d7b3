// Solving what a trace learned about symbols: equalities become substitutions, so that later stages compare dims by
// structure alone.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/guards.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// For each symbol what it is replaced by (itself, another expression, or a number).
std::vector<Dim> solve_equalities(std::span<const DimGuard> guards, std::size_t symbols);
/// Run-time numbers enter as f64. Where a graph only ever uses one as f32, its input becomes f32, so that kernels are not
/// slowed by a wider type; `is_narrowed` tells which inputs are to be given as floats.
Graph narrow_numbers(const Graph& graph, std::span<const std::uint8_t> is_number, std::vector<std::uint8_t>& is_narrowed);

/// The graph with symbols replaced in all types and attributes.
Graph substitute_symbols(const Graph& graph, std::span<const Dim> replacement);

}  // namespace jit
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/jit/specialise.ipp>
#endif
