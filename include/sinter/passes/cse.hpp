// Common subexpression elimination: of nodes that compute the same from the same, one stays. Operands of commutative
// ops count as a set. Effects are never merged, nor is uninitialised memory: each chain of updates wants a base of its
// own. Random ops take their counter as an operand, so that equal nodes draw equal numbers and may be merged.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Cse {
  std::string_view name() const { return "cse"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
