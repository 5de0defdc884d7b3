// A step that may fail runs before memory of the caller is overwritten, so of several scatters that check their own
// indices only the last may write in place, and none where a take comes later. Where two or more change an input, their
// indices are checked by a step of its own as soon as they are known; what reads or writes at them cannot fail any
// more.
#pragma once

#include <sinter/passes/check_first.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/take.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {
/// An index, and how many places the axis has that it is checked against: a node `checked` once it is made.
struct IndexCheck {
  Value index;
  Dim extent;
  Location where;  // of the first scatter that asks for it
  Value checked;
};

/// Whose indices may be out of range: takes and scatters.
inline bool checks_indices(const Node& node) {
  if (node.op == &op_info<ops::Take>) return !node.attrs[ops::Take::in_range];
  return node.op == &op_info<ops::Scatter> && !node.attrs[ops::Scatter::in_range];
}
/// A scatter that checks its indices, into an input or a view of one.
inline bool may_fail_changing_an_input(const Graph& graph, const Node& node) {
  if (node.op != &op_info<ops::Scatter> || !checks_indices(node)) return false;
  Value base = node.inputs[0];
  while (graph.node(base).op->kind == OpKind::view) base = graph.node(base).inputs[0];
  return graph.node(base).op == &graph_detail::input_op();
}

/// The check of what this take or scatter reads or writes at, one of `checks`; null: it is none of them.
inline IndexCheck* check_of(const Graph& graph, const Node& node, std::vector<IndexCheck>& checks) {
  const Dim extent = graph.type(node.inputs[0]).shape[static_cast<int>(node.attrs.axes[0])];
  for (IndexCheck& check : checks)
    if (check.index == node.inputs[1] && identical(check.extent, extent)) return &check;
  return nullptr;
}

/// Those of all scatters into inputs; none where there are not two.
inline std::vector<IndexCheck> checks_of(const Graph& graph) {
  std::vector<IndexCheck> checks;
  int scatters = 0;
  for (const Node& node : graph.nodes()) {
    if (!may_fail_changing_an_input(graph, node)) continue;
    ++scatters;
    const Dim extent = graph.type(node.inputs[0]).shape[static_cast<int>(node.attrs.axes[0])];
    if (check_of(graph, node, checks) == nullptr) checks.push_back({node.inputs[1], extent, node.where, {}});
  }
  if (scatters < 2) checks.clear();
  return checks;
}
inline void mark_in_range(Node& node) {
  const bool is_take = node.op == &op_info<ops::Take>;
  node.edit_attrs([&](Attrs& attrs) {
    if (is_take) attrs.set(ops::Take::in_range, true);
    else attrs.set(ops::Scatter::in_range, true);
  });
}
}  // namespace passes_detail

SINTER_DECL Graph CheckFirst::operator()(const Graph& graph) const {
  using namespace passes_detail;
  std::vector<IndexCheck> checks = checks_of(graph);
  if (checks.empty()) return graph;
  GraphBuilder builder(graph);
  std::vector<std::int32_t> moved(graph.nodes().size());
  const auto now = [&](Value v) { return Value{moved[as_index(v.node)], v.result}; };
  for (std::size_t id = 0; id < moved.size(); ++id) {
    Node node = graph.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(now(v));
    if (checks_indices(node))
      if (const IndexCheck* check = check_of(graph, node, checks)) {
        inputs[1] = check->checked;
        mark_in_range(node);
      }
    moved[id] = builder.copy(node, inputs).node;
    for (IndexCheck& check : checks) {
      if (as_index(check.index.node) != id) continue;
      const Val index{&builder, now(check.index), check.where};
      check.checked = ops_detail::checked_index(index, index, check.extent).value;
    }
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(now(v));
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
