// Copying of nodes on demand.
#pragma once

#include <sinter/runtime/part_builder.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/leaf.hpp>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

SINTER_DECL PartBuilder::PartBuilder(const Graph& graph, const Partition& partition, PartitionPart& part,
                                     std::function<Value(Value)> resolve, std::function<std::int32_t(Value)> imported)
    : graph_(graph),
      partition_(partition),
      part_(part),
      resolve_(std::move(resolve)),
      imported_(std::move(imported)),
      builder_(graph),
      made_(graph.nodes().size()) {
  for (Value v : graph.inputs()) made_[as_index(v.node)] = builder_.copy(graph.node(v), {});
}

SINTER_DECL Value PartBuilder::copy(Value asked) {
  const Value wanted = resolve_(asked);
  if (const Value known = find(wanted)) return known;
  std::vector<std::int32_t> waiting{wanted.node};
  while (!waiting.empty()) {  // a long chain must not overflow the stack
    const std::int32_t id = waiting.back();
    const Node& node = graph_.node(id);
    Values inputs;
    bool is_complete = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value operand = resolve_(node.inputs[i]);
      Value made = find(operand);
      if (!made && node.op->kind == OpKind::effect && i + 1 == node.inputs.size() && imported_(operand) == elsewhere)
        made = token();
      if (!made) {
        waiting.push_back(operand.node);
        is_complete = false;
      }
      inputs.push_back(made);
    }
    if (!is_complete) continue;
    waiting.pop_back();
    if (!made_[as_index(id)]) made_[as_index(id)] = builder_.copy(node, inputs);
  }
  return find(wanted);
}

/// The value in this part's graph, if it is there or comes from outside.
SINTER_DECL Value PartBuilder::find(Value v) {
  if (const auto known = imports_.find(v); known != imports_.end()) return known->second;
  if (const std::int32_t number = imported_(v); number >= 0) {
    part_.inputs.push_back(number);
    return imports_[v] = builder_.input(partition_.values[as_index(number)].type, {}, graph_.node(v).where);
  }
  const Value made = made_[as_index(v.node)];
  return made ? Value{made.node, made.result + v.result} : Value{};
}

/// What stands for an effect of an earlier part: it has happened.
SINTER_DECL Value PartBuilder::token() {
  if (!token_)
    token_ = builder_.add(op_info<ops::Full>, {}, Attrs{.integer = 1, .dtype = DType::bool_, .has_dtype = true});
  return token_;
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
