// Cutting sub-graphs, by liveness.
#pragma once

#include <sinter/ops/control_bodies.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/leaf.hpp>

#include <algorithm>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Nodes that the outputs to keep, or effects, depend on.
inline std::vector<bool> live_nodes(const Graph& body, const std::vector<bool>& keeps_output) {
  std::vector<bool> live(body.nodes().size(), false);
  for (std::size_t j = 0; j < body.outputs().size(); ++j)
    if (keeps_output[j]) live[as_index(body.outputs()[j].node)] = true;
  for (std::size_t id = live.size(); id-- > 0;) {
    if (body.nodes()[id].op->kind == OpKind::effect) live[id] = true;
    if (!live[id]) continue;
    for (Value v : body.nodes()[id].inputs) live[as_index(v.node)] = true;
  }
  return live;
}

SINTER_DECL void mark_used_inputs(const Graph& body, const std::vector<bool>& keeps_output, std::vector<bool>& used) {
  const std::vector<bool> live = live_nodes(body, keeps_output);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (live[as_index(body.inputs()[i].node)]) used[i] = true;
}

SINTER_DECL std::shared_ptr<const Graph> cut_body(const Graph& body, const std::vector<bool>& keeps_output,
                                                  const std::vector<bool>& keeps_input) {
  const std::vector<bool> live = live_nodes(body, keeps_output);
  GraphBuilder builder(body);
  std::vector<std::int32_t> moved(body.nodes().size(), -1);
  for (std::size_t i = 0; i < keeps_input.size(); ++i) {
    if (!keeps_input[i]) continue;
    const Node& input = body.node(body.inputs()[i]);
    moved[as_index(body.inputs()[i].node)] = builder.input(input.types[0], input.attrs[input_name], input.where).node;
  }
  for (std::size_t id = 0; id < body.nodes().size(); ++id) {
    const Node& node = body.nodes()[id];
    if (!live[id] || moved[id] >= 0) continue;
    Values operands;
    for (Value v : node.inputs) operands.push_back({moved[as_index(v.node)], v.result});
    moved[id] = builder.copy(node, operands).node;
  }
  std::vector<Value> outputs;
  for (std::size_t j = 0; j < body.outputs().size(); ++j)
    if (keeps_output[j]) outputs.push_back({moved[as_index(body.outputs()[j].node)], body.outputs()[j].result});
  return std::make_shared<const Graph>(builder.finish(outputs));
}

SINTER_DECL void keep_operands(Node& node, std::size_t first, const std::vector<bool>& keeps) {
  Values kept;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (i < first || i - first >= keeps.size() || keeps[i - first]) kept.push_back(node.inputs[i]);
  node.inputs = kept;
}

SINTER_DECL void keep_results(const PruneArgs& args, std::vector<bool> keeps, Tokens tokens) {
  if (tokens == Tokens::one) keeps.push_back(true);
  TypeList types;
  for (std::size_t r = 0; r < keeps.size(); ++r) {
    if (!keeps[r]) continue;
    args.kept_results.push_back(static_cast<std::int32_t>(r));
    types.push_back(args.node.types[r]);
  }
  args.node.types = types;
}

inline const OpInfo* twin_without_effects(const OpInfo& op) {
  if (&op == &op_info<ops::SwitchWithEffects>) return &op_info<ops::Switch>;
  if (&op == &op_info<ops::WhileLoopWithEffects>) return &op_info<ops::WhileLoop>;
  if (&op == &op_info<ops::ScanWithEffects>) return &op_info<ops::Scan>;
  return nullptr;
}

inline bool has_effects(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->kind == OpKind::effect; });
}

/// Control flow whose own bodies have lost their effects is no effect any more.
inline Node without_effects(Node node) {
  const OpInfo* twin = twin_without_effects(*node.op);
  if (twin == nullptr) return node;
  bool keeps = false;
  node.edit_attrs([&](Attrs& attrs) {
    for (auto& body : attrs.bodies) {
      body = std::make_shared<const Graph>(without_effects(*body));
      keeps = keeps || has_effects(*body);
    }
  });
  if (keeps) return node;
  node.op = twin;
  node.inputs.pop_back();
  node.types.pop_back();
  return node;
}

SINTER_DECL Graph without_effects(const Graph& body) {
  if (!has_effects(body)) return body;
  std::vector<bool> live(body.nodes().size(), false);
  for (Value v : body.outputs()) live[as_index(v.node)] = true;
  for (std::size_t id = live.size(); id-- > 0;) {
    const Node& node = body.nodes()[id];
    if (!live[id]) continue;
    const std::size_t operands = node.inputs.size() - (node.op->kind == OpKind::effect ? 1 : 0);  // not the token
    for (std::size_t i = 0; i < operands; ++i) live[as_index(node.inputs[i].node)] = true;
  }
  GraphBuilder builder(body);
  std::vector<std::int32_t> moved(body.nodes().size(), -1);
  auto now = [&](Value v) { return Value{moved[as_index(v.node)], v.result}; };
  for (std::size_t id = 0; id < body.nodes().size(); ++id) {
    if (!live[id] && body.nodes()[id].op->kind != OpKind::leaf) continue;
    const Node node = without_effects(body.nodes()[id]);
    const bool is_effect = node.op->kind == OpKind::effect;
    Values operands;
    for (std::size_t i = 0; i + is_effect < node.inputs.size(); ++i) operands.push_back(now(node.inputs[i]));
    if (is_effect)
      operands.push_back(
          builder.add(op_info<ops::Full>, {}, {.integer = 1, .dtype = DType::bool_, .has_dtype = true}, node.where));
    moved[id] = builder.copy(node, operands).node;
  }
  std::vector<Value> outputs;
  for (Value v : body.outputs()) outputs.push_back(now(v));
  return builder.finish(outputs);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
