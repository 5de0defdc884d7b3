// Vectorisation of graphs: from a function of one example to the same function of a batch. Walks the nodes forwards and
// asks each op for its batching rule; the rules sit with the ops, none is here. Values that do not depend on an example
// are computed once.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/op.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Appends `graph` for `size` examples to a builder. `inputs` replace the graph's inputs: batched ones have the batch
/// as their first axis. Gives the graph's outputs. Throws UserError where an op has no batching rule.
std::vector<Batched> vectorise(GraphBuilder& builder, const Graph& graph, std::span<const Batched> inputs, Dim size);

SINTER_NAMESPACE_END
