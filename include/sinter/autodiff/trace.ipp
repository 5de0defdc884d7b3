// Placeholders, Variables and the end of a transform's trace.
#pragma once

#include <sinter/autodiff/trace.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

SINTER_DECL Ref<TensorImpl> as_value(const Leaf& x) {
  if (x.value) return x.value;
  Ref<Storage> storage = Storage::allocate(sizeof(double));
  *static_cast<double*>(storage->data()) = x.kind == DTypeClass::floating ? x.number : static_cast<double>(x.integer);
  Ref<TensorImpl> value = TensorImpl::make_ready({DType::f64, Device::cpu(), {}}, std::move(storage));
  value->is_weak = true;
  return value;
}

SINTER_DECL Ref<TensorImpl> TransformTrace::parameter(const Ref<TensorImpl>& value, const Type& type) {
  placeholders_.push_back(placeholder(type));
  placeholders_.back()->is_weak = value->is_weak;
  values_.push_back(value);
  return placeholders_.back();
}

SINTER_DECL Ref<TensorImpl> TransformTrace::variable_parameter(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value,
                                                               const Type& type) {
  Ref<TensorImpl> stand_in = parameter(value, type);
  read_.emplace_back(slot, stand_in);
  return stand_in;
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

SINTER_DECL void TransformTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) {
  for (auto& [known, latest] : assigned_) {
    if (known != slot) continue;
    latest = value;
    return;
  }
  assigned_.emplace_back(slot, value);
}

SINTER_DECL TracedCall TransformTrace::end(std::unique_ptr<TransformTrace> trace, std::span<const Ref<TensorImpl>> results) {
  TracedCall call;
  std::vector<Ref<TensorImpl>> outputs(results.begin(), results.end());
  for (const auto& [slot, value] : trace->assigned_) {
    call.assigned.push_back(slot);
    outputs.push_back(value);
  }
  Capture captured = capture(outputs, trace->placeholders_, {.trace = trace->id(), .ready = ReadyLeaf::input, .last_effect = trace->last_effect()});
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
  slot->set(value);
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
