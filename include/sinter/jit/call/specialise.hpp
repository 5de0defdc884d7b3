// Solving what a trace learned about symbols: equalities become substitutions, so that later passes compare dims by
// structure alone.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/guards.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

enum class Divide : bool { no, yes };
/// For each symbol what it is replaced by (itself, another expression, or a number): equalities that are linear in a
/// symbol are solved for it. An equality that says no more than that an extent is a multiple of k becomes a divisor of
/// the symbol (with Divide::yes), so that the graph counts in multiples: reshape(x, {n / 4, 4}) then needs no division.
std::vector<Dim> solve_symbols(GuardSet& guards, std::span<const ArgLeaf> args, Divide divide);
/// Run-time numbers enter as f64. Where a graph only ever uses one as f32, its input becomes f32, so that kernels are
/// not slowed by a wider type; `is_narrowed` tells which inputs are to be given as floats.
Graph narrow_numbers(const Graph& graph, std::span<const std::uint8_t> is_number,
                     std::vector<std::uint8_t>& is_narrowed);

/// The graph with its symbols given to all its sub-graphs, which share them.
Graph share_symbols(const Graph& graph);
/// The graph with symbols replaced in all types and attributes; symbols with a divisor are told what they are now.
Graph substitute_symbols(const Graph& graph, std::span<const Dim> replacement, std::span<const SymbolSource> sources);

}  // namespace jit
SINTER_NAMESPACE_END
