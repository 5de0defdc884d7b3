// The tracer: stand-ins for arguments and Variables, hints and guards for symbols.
#pragma once

#include <sinter/jit/function.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void ArgList::variable(const Variable& x) {
  VariableSlot* slot = x.slot().get();
  add_value(slot->peek(reading_), LeafKind::variable, slot);
}

SINTER_DECL Tensor* ArgList::given_up(const TensorImpl* value) const {
  int uses = 0;
  for (const ArgLeaf& leaf : leaves_) uses += leaf.impl == value;
  if (uses != 1) return nullptr;
  for (Tensor* handle : given_)
    if (handle->impl().get() == value) return handle;
  return nullptr;
}

SINTER_DECL void ArgList::make_ready(TensorImpl* impl) { evaluate({&impl, 1}, "compiled call", {}); }

SINTER_DECL FunctionTrace::FunctionTrace(std::string_view name, std::span<const ArgLeaf> args, GuardSet specs)
    : Trace(name), args_(args), guards_(std::move(specs)), outer_scope_(SymbolScope::current()) {
  SymbolScope::current() = this;
  for (const SymbolSource& source : guards_.symbols) hints_.push_back(jit::value_of(source, args));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const LeafSpec& spec = guards_.leaves[i];
    Ref<TensorImpl> stand_in;
    if (spec.kind == LeafKind::scalar) {
      DType dtype = spec.number_kind == DTypeClass::floating ? DType::f64 : DType::i64;
      stand_in = placeholder({dtype, Device::cpu(), {}});
      stand_in->is_weak = true;
    } else if (spec.kind != LeafKind::fixed) {
      if (spec.same_slot_as >= 0) {
        stand_in = stand_ins_[static_cast<std::size_t>(spec.same_slot_as)];
      } else {
        Type type{spec.dtype, spec.device, {}};
        for (std::size_t axis = 0; axis < spec.rank; ++axis) type.shape.push_back(spec.extents[axis]);
        stand_in = placeholder(type);
        stand_in->strides = spec.strides;
      }
    }
    if (spec.kind == LeafKind::variable && spec.same_slot_as < 0) {
      // Shared with whoever else holds the Variable; the caller's handle keeps it alive during the trace.
      variables_.push_back({std::shared_ptr<VariableSlot>(std::shared_ptr<void>(), args[i].slot), static_cast<std::int32_t>(i), stand_in, {}, {}});
    }
    stand_ins_.push_back(std::move(stand_in));
  }
}

SINTER_DECL FunctionTrace::~FunctionTrace() { SymbolScope::current() = outer_scope_; }

SINTER_DECL Ref<TensorImpl> FunctionTrace::next_leaf() { return stand_ins_[next_++]; }

SINTER_DECL Ref<TensorImpl> FunctionTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  for (const VariableRead& read : variables_)
    if (read.slot.get() == slot.get()) return read.assigned ? read.assigned : read.stand_in;
  VariableRead read;
  read.slot = slot;
  read.seen = slot->value();
  read.stand_in = placeholder(read.seen->type);
  variables_.push_back(read);
  return read.stand_in;
}

SINTER_DECL void FunctionTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) {
  static_cast<void>(read_variable(slot));
  for (VariableRead& read : variables_)
    if (read.slot.get() == slot.get()) read.assigned = value;
}

SINTER_DECL void FunctionTrace::note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) {
  for (const DimGuard& known : guards_.dims)
    if (known.relation == relation && identical(known.lhs, lhs) && identical(known.rhs, rhs)) return;
  const Statement asked_by = Trace::current() != nullptr ? Trace::current()->statement : Statement{};
  guards_.dims.push_back({relation, lhs, rhs, outcome, asked_by.op, asked_by.where});
}

}  // namespace jit
SINTER_NAMESPACE_END
