// Launches of a plan's kernels, and what each is told of its step. `owner` is the plan whose step it is, whose numbers
// its operands have: for a step that stands in the place of a call, that of the body. Knows no frames.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/runtime/fallback.hpp>
#include <sinter/runtime/lasting_operands.hpp>
#include <sinter/runtime/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline bool lies_on_host(const Plan& owner, const BufferRef& operand) {
  const auto index = as_index(operand.index);
  if (operand.kind == BufferKind::number) return true;
  if (operand.kind == BufferKind::constant) return owner.constants()[index]->type.device == Device::cpu();
  return operand.kind == BufferKind::input &&
         (index >= owner.inputs().size() || owner.inputs()[index].device == Device::cpu());
}
/// Memory that was lent to a constant may be written by who lent it.
inline bool is_lasting(const Plan& owner, const BufferRef& operand) {
  if (operand.kind != BufferKind::constant) return false;
  const TensorImpl& value = *owner.constants()[as_index(operand.index)];
  return value.storage != nullptr && value.storage->is_ours();
}
inline StepContext context_of(const Plan& owner, const PlanStep& step) {
  StepContext context{step.name, step.where};
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    if (lies_on_host(owner, step.operands[i])) {
      context.host_operands.add(i);
      if (is_lasting(owner, step.operands[i])) context.constant_operands.add(i);
    }
  return context;
}
/// The step's operation; what a back end of the CPU computes whole hears of its constants.
inline HostOp told_of_constants(const Plan& owner, const PlanStep& step) {
  HostOp op = *step.host;
  if (op.intrinsic == nullptr || owner.backend() != nullptr) return op;
  const auto lasting = static_cast<std::int64_t>(context_of(owner, step).constant_operands.of_kernel());
  if (lasting != 0) op.attrs.edit().set(lasting_operands, lasting);
  return op;
}

/// It ends when its numbers say so: who reads a Variable that is updated after it would wait for all of it.
inline bool is_unbounded_loop(const HostOp& op) { return !op.bodies.empty() && op.name.starts_with("while_loop"); }

/// Whether a function of the user is called, which may read Variables, ranks communicate, or a loop without a bound
/// runs: the step is one, or its bodies have one.
inline bool calls_out(const PlanStep& step) {
  if (!step.host) return step.runs_on_host;
  const HostOp& op = *step.host;
  if (op.is_effect || op.attrs->payload != nullptr || is_unbounded_loop(op)) return true;
  const auto has_one = [](const Plan& plan) {
    return std::any_of(plan.steps().begin(), plan.steps().end(), calls_out);
  };
  return std::any_of(op.bodies.begin(), op.bodies.end(), [&](const std::shared_ptr<const Plan>& body) {
    return body->parts() != nullptr || has_one(*body) || (body->host_part() != nullptr && has_one(*body->host_part()));
  });
}

/// Null: nothing to compute.
inline std::unique_ptr<Launch> bind_kernel(const PlanStep& step, const Plan& owner,
                                           std::span<const std::int64_t> symbols, bool is_grouped = false) {
  const BoundGeometry geometry = sinter::bind(step.geometry, symbols);
  for (int a = 0; a < step.kernel.rank(); ++a)
    if (geometry.extent[as_index(a)] < 0)
      throw ShapeError(step.name,
                       "an intermediate value has the negative extent " + std::to_string(geometry.extent[as_index(a)]) +
                           " for the sizes of this call",
                       step.where.empty() ? Location() : step.where.front());
  for (int a = 0; a < step.kernel.rank(); ++a)
    if (!step.kernel.is_reduced(a) && geometry.extent[as_index(a)] == 0) return nullptr;
  if (step.runs_on_host)
    return bind_host_kernel(step.kernel, geometry, *step.executable, context_of(owner, step), owner.device());
  // On the CPU only products have a use for what is told, and of that for constants.
  if (owner.backend() == nullptr &&
      (step.kernel.kind != KernelKind::contraction ||
       std::none_of(step.operands.begin(), step.operands.end(),
                    [](const BufferRef& operand) { return operand.kind == BufferKind::constant; })))
    return step.executable->bind(geometry);
  StepContext context = context_of(owner, step);
  context.is_grouped = is_grouped;
  return step.executable->bind(geometry, context);
}

/// The body of a call whose steps can stand in the place of the call: kernels that go from operands to results. A frame
/// of its own would cost more than a small kernel takes.
inline const Plan* directly_callable_body(const PlanStep& step) {
  if (!step.host || !step.host->is_call) return nullptr;
  const Plan& body = *step.host->bodies[0];
  if (body.backend() != nullptr || body.parts() != nullptr || !body.slots().empty() || !body.numbers().empty())
    return nullptr;
  for (const PlanStep& inner : body.steps())
    if (inner.host || inner.runs_on_host) return nullptr;
  for (std::size_t i = 0; i < body.outputs().size(); ++i)
    if (body.outputs()[i].source != BufferKind::output || body.outputs()[i].index != static_cast<std::int32_t>(i))
      return nullptr;
  for (Dim offset : step.host->offsets)
    if (!identical(offset, Dim(0))) return nullptr;
  return &body;
}
}  // namespace runtime_detail
SINTER_NAMESPACE_END
