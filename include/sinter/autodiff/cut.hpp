// Cutting a graph in two: the part after given values becomes a graph of its own, with those values as inputs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct CutGraph {
  Graph graph;                // computes the outputs from its inputs
  std::vector<Value> inputs;  // what they are in the whole graph
};

/// The part of `graph` that computes `outputs`. Values for which `is_given` holds become inputs where that part needs
/// them; after them come `last_inputs`, needed or not. Inputs of `graph` must be given. Effects come along where
/// `keeps_effect` holds.
CutGraph cut_graph(const Graph& graph, std::span<const Value> outputs, std::span<const Value> last_inputs,
                   const std::function<bool(Value)>& is_given,
                   const std::function<bool(std::int32_t node)>& keeps_effect = {});

SINTER_NAMESPACE_END
