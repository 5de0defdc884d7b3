// Walks over the values and the graph of a trace.
#pragma once

#include <sinter/jit/call/traced_tape.hpp>

#include <sinter/autodiff/tape.hpp>
#include <sinter/base/index.hpp>
#include <sinter/jit/call/call_gradient.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL bool is_value_on_tape(const TensorImpl& value) {
  const TapeState state = value.tape.load(std::memory_order_relaxed);
  return is_differentiable(value.type.dtype) && (state == TapeState::node || state == TapeState::leaf);
}

/// A captured Tensor that is on the tape.
inline bool holds_tape(const Node& node) {
  return node.op == &op_info<ops::Constant> && is_on_tape(*node.attrs.constant);
}
SINTER_DECL bool captures_tape(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), holds_tape);
}
SINTER_DECL void refuse_captured_on_tape(const Graph& graph, const TracedResult& result, std::span<const Value> results,
                                         const WalkedValues& walked, Location where) {
  if (!is_tape_on() || !captures_tape(graph)) return;
  std::set<Value> seen;
  for (std::size_t i = 0; i < walked.objects.size(); ++i)  // constants of gradients are not followed
    if (!is_value_on_tape(*walked.objects[i])) seen.insert(walked.values[i]);
  std::vector<std::pair<Value, const Node*>> next;  // with the operation that uses it
  for (std::size_t i = 0; i < results.size(); ++i)
    if (is_value_on_tape(*result.values[i])) next.emplace_back(results[i], nullptr);
  while (!next.empty()) {
    const auto [v, user] = next.back();
    next.pop_back();
    if (!seen.insert(v).second) continue;
    const Node& node = graph.node(v);
    for (Value operand : node.inputs) next.emplace_back(operand, &node);
    if (!holds_tape(node)) continue;
    const Location made = autodiff_detail::recorded_at(*node.attrs.constant);
    throw TraceError(
        user != nullptr ? user->op->name : "compile",
        "a captured Tensor, " + node.types[0].text() + (made.line != 0 ? ", computed at " + made.text() + "," : "") +
            " is on the tape, and captured Tensors are constants of a compiled function: its gradient would be lost",
        user != nullptr ? user->where : where,
        "pass it as an argument, or capture jit::detach(x) where no gradient is wanted");
  }
}

SINTER_DECL std::vector<Value> stopped_values(std::span<TensorImpl* const> walked, std::span<const Value> values,
                                              FunctionTrace& trace) {
  std::vector<Value> stops;
  const auto is_wanted = [&](const TensorImpl& operand) {
    return is_value_on_tape(operand) ||
           std::any_of(trace.variables().begin(), trace.variables().end(),
                       [&](const auto& read) { return read.placeholder.get() == &operand && is_on_tape(*read.slot); });
  };
  for (std::size_t i = 0; i < walked.size(); ++i) {
    const TensorImpl& value = *walked[i];
    if (!is_differentiable(value.type.dtype) || value.tape.load(std::memory_order_relaxed) != TapeState::none) continue;
    for (const Leaf& leaf : value.pending_node->leaves())
      if (leaf.value && is_wanted(*leaf.value)) {
        stops.push_back(values[i]);
        break;
      }
  }
  return stops;
}

SINTER_DECL bool is_on_tape(const TracedResult& result) {
  return std::any_of(result.values.begin(), result.values.end(),
                     [](const auto& value) { return is_value_on_tape(*value); });
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
