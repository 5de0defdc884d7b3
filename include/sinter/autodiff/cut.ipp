// Walks back from the outputs to what is given, then copies what it met.
#pragma once

#include <sinter/autodiff/cut.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

SINTER_DECL CutGraph cut_graph(const Graph& graph, std::span<const Value> outputs, std::span<const Value> last_inputs,
                               const std::function<bool(Value)>& is_given,
                               const std::function<bool(std::int32_t node)>& keeps_effect) {
  CutGraph cut;
  std::vector<std::uint8_t> is_needed(graph.nodes().size(), 0);
  auto is_last = [&](Value v) { return std::find(last_inputs.begin(), last_inputs.end(), v) != last_inputs.end(); };
  auto need = [&](Value v) {
    if (is_last(v)) return;
    if (!is_given(v)) is_needed[as_index(v.node)] = 1;
    else if (std::find(cut.inputs.begin(), cut.inputs.end(), v) == cut.inputs.end()) cut.inputs.push_back(v);
  };
  for (Value v : outputs) need(v);
  for (std::size_t id = 0; keeps_effect && id < graph.nodes().size(); ++id)
    if (graph.nodes()[id].op->kind == OpKind::effect && keeps_effect(static_cast<std::int32_t>(id))) is_needed[id] = 1;
  for (std::size_t id = graph.nodes().size(); id-- > 0;)
    if (is_needed[id])
      for (Value v : graph.nodes()[id].inputs) need(v);
  cut.inputs.insert(cut.inputs.end(), last_inputs.begin(), last_inputs.end());

  GraphBuilder builder(graph);
  std::vector<Value> made;
  for (Value v : cut.inputs) made.push_back(builder.input(graph.type(v), {}, graph.node(v).where));
  std::vector<std::int32_t> copied(graph.nodes().size(), -1);
  auto moved = [&](Value v) {
    const auto input = std::find(cut.inputs.begin(), cut.inputs.end(), v);
    if (input != cut.inputs.end()) return made[as_index(input - cut.inputs.begin())];
    return Value{copied[as_index(v.node)], v.result};
  };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    if (!is_needed[id]) continue;
    Values operands;
    for (Value v : graph.nodes()[id].inputs) operands.push_back(moved(v));
    copied[id] = builder.copy(graph.nodes()[id], operands).node;
  }
  std::vector<Value> results;
  for (Value v : outputs) results.push_back(moved(v));
  cut.graph = builder.finish(results);
  return cut;
}

SINTER_NAMESPACE_END
