// One walk; results of such a node are its first operands, and nobody runs it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/drop_derivatives.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Graph DropDerivatives::operator()(const Graph& graph) const {
  // Ops of upper layers that are their first operands have the attribute that says how many.
  auto is_dropped = [](const Node& node) {
    return node.op->kind == OpKind::structured &&
           node.op->find_attribute(ops::CustomDerivative::results.name) != nullptr;
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_dropped)) return graph;
  GraphBuilder builder(graph);
  std::vector<Values> made(graph.nodes().size());
  auto moved = [&](Value v) { return made[as_index(v.node)][as_index(v.result)]; };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values operands;
    for (Value v : node.inputs) operands.push_back(moved(v));
    if (is_dropped(node)) {
      made[id] = operands;
      continue;
    }
    const std::int32_t copied = builder.copy(node, operands).node;
    for (std::size_t r = 0; r < node.types.size(); ++r) made[id].push_back({copied, static_cast<std::int32_t>(r)});
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(moved(v));
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
