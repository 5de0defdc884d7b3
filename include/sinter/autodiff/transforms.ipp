// The trace behind grad: capture, differentiate, replay.
#pragma once

#include <sinter/autodiff/transforms.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL Tensor Grads::operator[](const Variable& variable) const {
  for (const auto& [slot, gradient] : entries_)
    if (slot == variable.slot()) return gradient;
  throw UserError("Grads", "no gradient by this variable" + (variable.name().empty() ? std::string() : " '" + variable.name() + "'"), {},
                  "make it part of the parameter that value_and_grad differentiates by");
}

namespace autodiff_detail {

SINTER_DECL void ParameterVisitor::scalar(Scalar& x) {
  Ref<TensorImpl> value = x.leaf().value;
  if (!value) {   // a number becomes a value of no trace, so that it can be an operand of the replay
    Ref<Storage> storage = Storage::allocate(sizeof(double));
    *static_cast<double*>(storage->data()) = x.number();
    value = TensorImpl::make_ready({DType::f64, Device::cpu(), {}}, std::move(storage));
  }
  Ref<TensorImpl> placeholder = trace.parameter(value);
  placeholder->is_weak = true;
  x = Scalar(placeholder);
}

SINTER_DECL Ref<TensorImpl> GradTrace::parameter(const Ref<TensorImpl>& value) {
  placeholders_.push_back(placeholder(value->type));
  values_.push_back(value);
  return placeholders_.back();
}

SINTER_DECL Ref<TensorImpl> GradTrace::variable_parameter(const std::shared_ptr<VariableSlot>& slot) {
  Ref<TensorImpl> stand_in = parameter(read_outside(slot));
  read_.emplace_back(slot, stand_in);
  return stand_in;
}

SINTER_DECL Ref<TensorImpl> GradTrace::read_outside(const std::shared_ptr<VariableSlot>& slot) const {
  if (outer() != nullptr) return outer()->read_variable(slot);
  std::scoped_lock lock(slot->mutex);
  return slot->value;
}

SINTER_DECL Ref<TensorImpl> GradTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  for (const auto& [known, value] : assigned_)
    if (known == slot) return value;
  for (const auto& [known, value] : read_)
    if (known == slot) return value;
  return read_outside(slot);
}

SINTER_DECL void GradTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) {
  for (auto& [known, latest] : assigned_) {
    if (known != slot) continue;
    latest = value;
    return;
  }
  assigned_.emplace_back(slot, value);
}

SINTER_DECL GradTrace::Result GradTrace::finish(std::unique_ptr<GradTrace> trace, const Tensor& loss, Location where) {
  if (!is_floating(loss.dtype()) || loss.rank() != 0)
    throw ShapeError("grad", "the function returned " + loss.impl()->type.text() + "; a floating scalar is required", where, "use sum or mean of it");
  std::vector<Ref<TensorImpl>> outputs{loss.impl()};
  for (const auto& [slot, value] : trace->assigned_) outputs.push_back(value);
  Capture captured = capture(outputs, trace->placeholders_, {.trace = trace->id(), .ready = ReadyLeaf::input});
  std::vector<std::int32_t> wrt(trace->placeholders_.size());
  for (std::size_t i = 0; i < wrt.size(); ++i) wrt[i] = static_cast<std::int32_t>(i);
  Graph gradient = differentiate(captured.finish(), wrt, 0);
  std::vector<Ref<TensorImpl>> operands = std::move(captured.inputs);
  std::copy(trace->values_.begin(), trace->values_.end(), operands.begin());
  auto assigned = std::move(trace->assigned_);
  trace.reset();
  std::vector<Ref<TensorImpl>> results = replay(gradient, operands);
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    if (Trace* outside = Trace::current()) {
      outside->note_assignment(assigned[i].first, results[i + 1]);
    } else {
      std::scoped_lock lock(assigned[i].first->mutex);
      assigned[i].first->value = results[i + 1];
    }
  }
  Result out{Tensor(results[0]), {}};
  for (std::size_t i = assigned.size() + 1; i < results.size(); ++i) out.gradients.emplace_back(results[i]);
  return out;
}

}  // namespace autodiff_detail
}  // namespace jit
SINTER_NAMESPACE_END
