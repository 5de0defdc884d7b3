// Complex values become pairs of real ones: each is followed as its two parts from where it is made to where it is
// read, so that operations in a row are real operations, and what they pass on is never put together. A pair is made
// only for what leaves the graph, is viewed as real, or goes to a sub-graph or to the host.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Afterwards complex values are inputs, constants, results of sub-graphs and of the host, and results of
/// view_as_complex; and they are read by view_as_real, sub-graphs, the host and outputs.
struct ComplexToPairs {
  std::string_view name() const { return "complex to pairs"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
