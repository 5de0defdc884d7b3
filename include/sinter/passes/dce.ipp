// One backward walk marks, one forward walk copies.
#pragma once

#include <sinter/passes/dce.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Graph Dce::operator()(const Graph& graph) const {
  const auto& nodes = graph.nodes();
  std::vector<std::uint8_t> is_live(nodes.size(), 0);
  for (Value v : graph.inputs()) is_live[as_index(v.node)] = 1;
  for (Value v : graph.outputs()) is_live[as_index(v.node)] = 1;
  std::size_t live = 0;
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (!drops_effects && nodes[id].op->kind == OpKind::effect) is_live[id] = 1;
    if (!is_live[id]) continue;
    ++live;
    for (Value v : nodes[id].inputs) is_live[as_index(v.node)] = 1;
  }
  if (live == nodes.size()) return graph;

  GraphBuilder builder(graph);
  builder.reserve(live);
  std::vector<std::int32_t> moved(nodes.size(), -1);
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (!is_live[id]) continue;
    Values inputs;
    for (Value v : nodes[id].inputs) inputs.push_back({moved[as_index(v.node)], v.result});
    moved[id] = builder.copy(nodes[id], inputs).node;
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back({moved[as_index(v.node)], v.result});
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
