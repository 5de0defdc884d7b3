// Looking through a graph for devices.
#pragma once

#include <sinter/runtime/graph_devices.hpp>

#include <algorithm>
#include <vector>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Device first_device_of(const Graph& graph, std::span<const Device> wanted) {
  Device found;
  runtime_detail::for_each_device(graph, wanted, [&](Device device) {
    if (found == Device::cpu()) found = device;
  });
  return found;
}

SINTER_DECL bool is_on_host(const Graph& graph, std::span<const Device> wanted) {
  return !runtime_detail::has_transfers_in_calls(graph) && first_device_of(graph, wanted) == Device::cpu() &&
         !runtime_detail::has_transfers(graph);
}

SINTER_DECL Graph with_inputs_on(const Graph& body, Device device) {
  GraphBuilder builder(body);
  std::vector<Value> made(body.nodes().size());
  const auto moved = [&](Value v) {
    return Value{made[as_index(v.node)].node, made[as_index(v.node)].result + v.result};
  };
  for (Value v : body.inputs()) {
    const Node& node = body.node(v);
    Type type = node.types[0];
    type.device = device;
    made[as_index(v.node)] = builder.input(type, node.attrs[input_name], node.where);
  }
  for (std::size_t i = 0; i < body.nodes().size(); ++i) {
    if (made[i]) continue;
    Values inputs;
    for (Value v : body.nodes()[i].inputs) inputs.push_back(moved(v));
    made[i] = builder.copy(body.nodes()[i], inputs);
  }
  std::vector<Value> outputs;
  for (Value v : body.outputs()) outputs.push_back(moved(v));
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
