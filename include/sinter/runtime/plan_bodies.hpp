// The sub-graphs of a graph's nodes, numbered: bodies of loops, branches and regions. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/runtime/graph_devices.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// A sub-graph of a node, and how many of its first inputs are carried from one iteration to the next.
struct BodyOf {
  std::shared_ptr<const Graph> graph;
  std::size_t carries = 0;
};
/// Those of all nodes of a graph, each once.
inline std::vector<BodyOf> bodies_of(const Graph& graph) {
  std::vector<BodyOf> bodies;
  for (const Node& node : graph.nodes())
    for (const auto& body : node.attrs.bodies)
      if (std::none_of(bodies.begin(), bodies.end(), [&](const BodyOf& known) { return known.graph == body; }))
        bodies.push_back({body, ops_detail::carries_of(node)});
  return bodies;
}
inline int body_number(const Graph& graph, const std::shared_ptr<const Graph>& body) {
  const std::vector<BodyOf> bodies = bodies_of(graph);
  const auto place = std::find_if(bodies.begin(), bodies.end(), [&](const BodyOf& each) { return each.graph == body; });
  return static_cast<int>(place - bodies.begin());
}
/// A body for the host, which has no copy on another device.
inline bool is_planned_as_it_is(const Graph& body, Device device) {
  return device == Device::cpu() && is_on_host(body, {});
}
}  // namespace runtime_detail

SINTER_NAMESPACE_END
