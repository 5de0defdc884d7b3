// Which devices a graph needs, and a body moved to one. Knows graphs, no kernels and no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <algorithm>
#include <span>

SINTER_NAMESPACE_BEGIN

/// A device other than the host that the graph needs, or the host. `wanted` says where outputs are wanted; empty: where
/// their types say.
Device first_device_of(const Graph& graph, std::span<const Device> wanted);
/// Nothing of the graph concerns another device, and it copies nothing from one to another.
bool is_on_host(const Graph& graph, std::span<const Device> wanted);
/// The body of control flow that runs on a device, where all that it is given lies: numbers, too.
Graph with_inputs_on(const Graph& body, Device device);

namespace runtime_detail {

inline bool is_given(const Node& node) { return node.op->name == "input" || node.op->name == "constant"; }

template <class F>
void for_each_device(const Graph& graph, std::span<const Device> wanted, F&& visit) {
  for (const Node& node : graph.nodes()) {
    if (is_given(node)) visit(node.types[0].device);
    if (node.op->is_transfer) visit(node.attrs.device);
  }
  for (std::size_t j = 0; j < graph.outputs().size(); ++j)
    visit(wanted.empty() ? graph.type(graph.outputs()[j]).device : wanted[j]);
}

inline bool has_transfers(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return node.op->is_transfer; });
}
/// In the body of a call, or of a call in it.
inline bool has_transfers_in_calls(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.op->is_call && (has_transfers(*node.attrs.bodies[0]) || has_transfers_in_calls(*node.attrs.bodies[0]));
  });
}

}  // namespace runtime_detail

SINTER_NAMESPACE_END
