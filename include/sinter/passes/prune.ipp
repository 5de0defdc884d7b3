// From the last node to the first, so that what one node no longer reads is known when the node before it is met.
#pragma once

#include <sinter/passes/prune.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

#include <algorithm>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {
inline bool has_prunable(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->prune != nullptr; });
}

/// What control flow inside the bodies no longer reads may be the last use of an operand, hence the second time.
inline void prune_node(Node& node, std::span<const std::uint8_t> used, SmallVector<std::int32_t, 8>& kept) {
  node.op->prune(PruneArgs{node, used, kept});
  bool nests = false;
  for (const auto& body : node.attrs.bodies) nests = nests || has_prunable(*body);
  if (nests)
    node.edit_attrs([](Attrs& attrs) {
      for (auto& body : attrs.bodies)
        if (has_prunable(*body)) body = std::make_shared<const Graph>(Prune{}(*body));
    });
  if (!nests) return;
  SmallVector<std::int32_t, 8> all;
  node.op->prune(PruneArgs{node, std::vector<std::uint8_t>(node.types.size(), 1), all});
}
}  // namespace passes_detail

SINTER_DECL Graph Prune::operator()(const Graph& graph) const {
  const auto& nodes = graph.nodes();
  if (!passes_detail::has_prunable(graph)) return graph;
  std::vector<std::vector<std::uint8_t>> used(nodes.size());  // by node and result
  std::vector<SmallVector<std::int32_t, 8>> kept(nodes.size());
  std::vector<Node> pruned(nodes.begin(), nodes.end());
  for (std::size_t id = 0; id < nodes.size(); ++id) used[id].assign(nodes[id].types.size(), 0);
  auto use = [&](Value v) { used[as_index(v.node)][as_index(v.result)] = 1; };
  for (Value v : graph.inputs()) use(v);
  for (Value v : graph.outputs()) use(v);
  std::vector<std::uint8_t> is_live(nodes.size(), 0);
  for (std::size_t id = nodes.size(); id-- > 0;) {
    Node& node = pruned[id];
    const bool is_used = std::find(used[id].begin(), used[id].end(), 1) != used[id].end();
    is_live[id] = is_used || node.op->kind == OpKind::effect;
    if (!is_live[id]) continue;
    if (node.op->prune != nullptr) passes_detail::prune_node(node, used[id], kept[id]);
    for (Value v : node.inputs) use(v);
  }
  GraphBuilder builder(graph);
  builder.reserve(nodes.size());
  std::vector<std::int32_t> moved(nodes.size(), -1);
  auto now = [&](Value v) {
    const auto id = as_index(v.node);
    if (kept[id].empty()) return Value{moved[id], v.result};
    const auto place = std::find(kept[id].begin(), kept[id].end(), v.result);
    return Value{moved[id], static_cast<std::int32_t>(place - kept[id].begin())};
  };
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (!is_live[id]) continue;
    Values inputs;
    for (Value v : pruned[id].inputs) inputs.push_back(now(v));
    moved[id] = builder.copy(pruned[id], inputs).node;
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(now(v));
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
