// Placeholders, Variables and the end of a transform's trace.
#pragma once

#include <sinter/autodiff/transform_trace.hpp>

#include <algorithm>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

SINTER_DECL Ref<TensorImpl> TransformTrace::parameter(const Ref<TensorImpl>& value, const Type& type) {
  placeholders_.push_back(placeholder(type));
  placeholders_.back()->is_weak = value->is_weak;
  values_.push_back(value);
  return placeholders_.back();
}

SINTER_DECL Ref<TensorImpl> TransformTrace::variable_parameter(const std::shared_ptr<VariableSlot>& slot,
                                                               const Ref<TensorImpl>& value, const Type& type) {
  Ref<TensorImpl> placeholder = parameter(value, type);
  read_.emplace_back(slot, placeholder);
  return placeholder;
}

SINTER_DECL Ref<TensorImpl> TransformTrace::read_outside(const std::shared_ptr<VariableSlot>& slot) const {
  const Ref<TensorImpl> value = outer() != nullptr ? outer()->read_variable(slot) : slot->value();
  return slot->gradient() != nullptr ? tape_leaf(value, slot) : value;
}

SINTER_DECL Ref<TensorImpl> TransformTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  for (const auto& [known, value] : assigned_)
    if (known == slot) return value;
  for (const auto& [known, value] : read_)
    if (known == slot) return value;
  return read_outside(slot);
}

SINTER_DECL void TransformTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot,
                                                 const Ref<TensorImpl>& value) {
  for (auto& [known, latest] : assigned_) {
    if (known != slot) continue;
    latest = value;
    return;
  }
  assigned_.emplace_back(slot, value);
}

SINTER_DECL std::uint64_t TransformTrace::read_value(const Ref<TensorImpl>& value, std::string_view op,
                                                     Location where) {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (!identical(placeholders_[i]->type, values_[i]->type)) return Trace::read_value(value, op, where);
  std::vector<Ref<TensorImpl>> outputs{value};
  Capture captured = capture(outputs, placeholders_,
                             {.trace = id(),
                              .ready = ReadyLeaf::input,
                              .finds_kept = true,
                              .is_leaf = [this](const TensorImpl& known) { return outside_.contains(&known); },
                              .stops_gradients = true});
  for (std::size_t i = 0; i < captured.kept.size(); ++i) {
    outputs.push_back(captured.kept[i]);
    captured.outputs.push_back(captured.kept_values[i]);
  }
  std::vector<Ref<TensorImpl>> operands = std::move(captured.inputs);
  std::copy(values_.begin(), values_.end(), operands.begin());
  for (Ref<TensorImpl>& operand : operands)
    if (auto known = outside_.find(operand.get()); known != outside_.end()) operand = known->second.second;
  Graph graph = captured.finish();
  RecordingInto outside(outer());
  std::vector<Ref<TensorImpl>> results = replay(graph, operands);
  for (std::size_t i = 0; i < outputs.size(); ++i) outside_[outputs[i].get()] = {outputs[i], results[i]};
  return read_bits(results[0], op, where);
}

SINTER_DECL EagerResults TransformTrace::call_eagerly(const std::shared_ptr<const EagerCall>& call,
                                                      std::span<const Ref<TensorImpl>> operands) {
  for (const auto& operand : operands)
    if (operand->trace == id())
      throw TraceError(
          "disable",
          "a value that '" + std::string(name()) +
              "' follows reaches a function that is not to be traced, which has no derivative and no batched form",
          call->where,
          "call it outside of '" + std::string(name()) + "', or make it a jit::custom_op with a derivative");
  if (outer() == nullptr) return call->run(operands, {});
  RecordingInto outside(outer());
  return outer()->call_eagerly(call, operands);
}

SINTER_DECL TracedCall TransformTrace::end(OpenTrace trace, std::span<const Ref<TensorImpl>> results) {
  TracedCall call;
  std::vector<Ref<TensorImpl>> outputs(results.begin(), results.end());
  for (const auto& [slot, value] : trace->assigned_) {
    call.assigned.push_back(slot);
    outputs.push_back(value);
  }
  Capture captured = capture(
      outputs, trace->placeholders_,
      {.trace = trace->id(), .ready = ReadyLeaf::input, .last_effect = trace->last_effect(), .stops_gradients = true});
  call.graph = captured.finish();
  call.operands = std::move(captured.inputs);
  std::copy(trace->values_.begin(), trace->values_.end(), call.operands.begin());
  call.parameters = trace->placeholders_.size();
  call.results = results.size();
  return call;
}

SINTER_DECL void assign_outside(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) {
  if (Trace* outside = Trace::current()) {
    outside->note_assignment(slot, value);
    return;
  }
  slot->set(value_to_store(*slot, value));
}

SINTER_DECL std::vector<Ref<TensorImpl>> replay_call(const TracedCall& call, const Graph& graph,
                                                     std::span<const Ref<TensorImpl>> more) {
  std::vector<Ref<TensorImpl>> operands = call.operands;
  operands.insert(operands.end(), more.begin(), more.end());
  std::vector<Ref<TensorImpl>> values = replay(graph, operands);
  for (std::size_t i = 0; i < call.assigned.size(); ++i) assign_outside(call.assigned[i], values[call.results + i]);
  return values;
}

SINTER_DECL Ref<TensorImpl> checked_derivative(Ref<TensorImpl> value, const Type& type, std::string_view op,
                                               const std::string& what, Location where) {
  if (!(value->type.shape == type.shape))
    throw ShapeError(op, what + " is " + value->type.text() + ", it must have the shape of " + type.text(), where);
  if (value->type.dtype == type.dtype) return value;
  if (!is_differentiable(value->type.dtype) && !value->is_weak)
    throw DTypeError(op, what + " is " + value->type.text() + ", it must be floating as " + type.text() + " is", where,
                     "cast it to a floating dtype");
  return cast(In(Tensor(std::move(value)), where), type.dtype).impl();
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
