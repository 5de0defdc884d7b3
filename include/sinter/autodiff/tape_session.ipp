// What a rule asks for is cut out of the graph so far, recorded and evaluated.
#pragma once

#include <sinter/autodiff/tape_session.hpp>

#include <sinter/autodiff/cut.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

inline TapeSession*& innermost_session() noexcept {
  static thread_local constinit TapeSession* session = nullptr;
  return session;
}

SINTER_DECL TapeSession::TapeSession(GraphBuilder& builder, KnownValues& known) noexcept
    : builder_(builder), known_(known), outer_(std::exchange(innermost_session(), this)) {}
SINTER_DECL TapeSession::~TapeSession() { innermost_session() = outer_; }

SINTER_DECL TapeSession* TapeSession::of(const GraphBuilder& builder) noexcept {
  TapeSession* session = innermost_session();
  return session != nullptr && &session->builder_ == &builder ? session : nullptr;
}

SINTER_DECL Ref<TensorImpl> ready_number(const Type& type, double value) {
  const bool is_known = type.dtype == DType::f32 || type.dtype == DType::f64;
  if (!is_known || type.shape.rank() != 0 || type.device != Device::cpu()) return {};
  Ref<Storage> storage = Storage::allocate(sizeof(double));
  if (type.dtype == DType::f32) *static_cast<float*>(storage->data()) = static_cast<float>(value);
  else *static_cast<double*>(storage->data()) = value;
  return TensorImpl::make_ready(type, std::move(storage));
}
/// The value of a literal number, or null.
inline Ref<TensorImpl> number_of(const Node& node) {
  return node.op == &op_info<ops::Full> ? ready_number(node.types[0], node.attrs.value) : Ref<TensorImpl>();
}

SINTER_DECL std::vector<Ref<TensorImpl>> TapeSession::values(std::span<const Value> wanted) {
  std::vector<Value> missing;
  for (Value v : wanted) {
    if (known_.contains(v)) continue;
    if (Ref<TensorImpl> number = number_of(builder_.node(v))) known_.emplace(v, std::move(number));
    else missing.push_back(v);
  }
  if (!missing.empty()) {
    const CutGraph part = cut_graph(builder_.graph(), missing, {}, [&](Value v) { return known_.contains(v); });
    std::vector<Ref<TensorImpl>> operands;
    for (Value v : part.inputs) operands.push_back(known_.at(v));
    const std::vector<Ref<TensorImpl>> computed = replay(part.graph, operands);
    for (std::size_t i = 0; i < missing.size(); ++i) known_.emplace(missing[i], computed[i]);
  }
  std::vector<Ref<TensorImpl>> values;
  std::vector<TensorImpl*> pending;
  for (Value v : wanted) {
    values.push_back(known_.at(v));
    if (!values.back()->is_ready()) pending.push_back(values.back().get());
  }
  if (!pending.empty()) evaluate(pending, "backward", {});
  return values;
}

SINTER_DECL Value TapeSession::add(Ref<TensorImpl> value, Location where) {
  const Value added = builder_.input(value->type, {}, where);
  known_.emplace(added, std::move(value));
  return added;
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
