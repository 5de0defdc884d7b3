// See the headers.
#pragma once

#include <sinter/jit/disabled_call.hpp>
#include <sinter/jit/escape.hpp>

#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL void throw_disabled(std::string_view what, Location where, std::string_view fix) { throw TraceError("disable", what, where, fix); }

SINTER_DECL EagerResults call_eagerly(Trace& trace, const std::shared_ptr<const EagerCall>& call, std::span<const Ref<TensorImpl>> operands) {
  if (WholeGraph::is_required())
    throw_disabled("a function that is not to be traced is called in code that belongs into the graph whole (allow_in_graph)", call->where, "call it outside, and pass its result in");
  for (const auto& operand : operands)
    if (Trace::find(operand->trace) == nullptr)
      throw_disabled("a traced tensor is used outside the trace it belongs to", call->where, "return it from the compiled function instead of storing it in a captured variable");
  return trace.call_eagerly(call, operands);
}

SINTER_DECL Ref<TensorImpl> eager_result(const Ref<TensorImpl>& value, Location where) {
  Ref<TensorImpl> result = dense_value(In(Tensor(value), where), "disable");
  if (result->tape.load(std::memory_order_relaxed) == TapeState::none) return result;
  return TensorImpl::make_ready(result->type, result->storage, result->offset, &result->strides);
}

SINTER_DECL bool has_same_elements(const Ref<TensorImpl>& a, const Ref<TensorImpl>& b) {
  if (a == b) return true;
  if (!identical(a->type, b->type)) return false;
  if (!a->is_dense() || !b->is_dense() || a->type.device != Device::cpu()) return true;
  return std::memcmp(a->data(), b->data(), static_cast<std::size_t>(a->type.shape.numel().value() * size_of(a->type.dtype))) == 0;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
