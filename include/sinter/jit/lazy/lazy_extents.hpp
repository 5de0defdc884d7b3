// Sizes in lazy evaluation: how the graph of a statement at one size, seen again at another, becomes one graph for all
// sizes. Extents of inputs that differ become symbols; everything that is inferred from them follows. Knows no plans
// and no cache.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/guards.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A graph of lazy evaluation, and for which graphs it stands: for itself if it has no symbols.
struct LazyGraph {
  Graph graph;
  std::vector<InputLayout> layouts;
  std::vector<SymbolSource> symbols;  // where each is found; the leaf is an input
  std::vector<DimGuard> questions;    // about symbols, with the answers that the graph relies on

  /// Whether it stands for `other`, which has no symbols; `values` is what the symbols are then.
  bool takes(const LazyGraph& other, SmallVector<std::int64_t, 8>& values) const;
};

/// A graph that stands for `now`, and for other sizes too where those of `known` differ from it. The two differ in
/// extents only, and `now` has no symbols. Nothing if no extent of an input differs, if a size is below 2, or if an
/// operation needs to know the number.
std::optional<LazyGraph> generalised(const LazyGraph& known, const LazyGraph& now);

}  // namespace jit
SINTER_NAMESPACE_END
