// Outlining: the repeated blocks of a graph (the layers of a network) become calls of one body. Later passes,
// derivatives and code generation then cost one block, whatever the depth. Also the way back. Knows no particular op.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Finds runs of equal blocks by their period. A block is cut where few values cross and where fusion would not join
/// what stands on the two sides: in front of a product or reduction. Graphs without such runs stay as they are.
struct Outline {
  int least_repeats = 3;
  int least_nodes = 2;  // of a block, leaves and literals aside: a single operation has nothing to share
  std::string_view name() const { return "outline"; }
  Graph operator()(const Graph& graph) const;
};

/// The graph with all calls replaced by their bodies.
Graph inline_calls(const Graph& graph);

SINTER_NAMESPACE_END
