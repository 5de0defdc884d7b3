// Drops results of nodes with sub-graphs that nobody reads, and operands that their sub-graphs do not read: what a loop
// keeps for a derivative that is not asked for, captures that only an unused result needs. The op's own rule says what
// is removed.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Prune {
  static constexpr std::string_view name = "prune";
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
