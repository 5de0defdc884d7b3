// Placeholders, reads and relations as they come.
#pragma once

#include <sinter/jit/trace/trace.hpp>

#include <sinter/base/index.hpp>
#include <sinter/jit/call/call_gradient.hpp>
#include <sinter/jit/call/purity.hpp>
#include <sinter/jit/trace/live_values.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL FunctionTrace::FunctionTrace(std::string_view name, std::span<const ArgLeaf> args, GuardSet specs,
                                         ReadPolicy policy)
    : Trace(name),
      args_(args),
      policy_(std::move(policy)),
      live_(std::make_unique<LiveValues>(id(), policy_.precision, policy_.fallback)),
      guards_(std::move(specs)),
      outer_scope_(SymbolScope::current()) {
  SymbolScope::current() = this;
  if (is_tape_on()) live_->keep_effects();
  for (const SymbolSource& source : guards_.symbols) hints_.push_back(jit::value_of(source, args));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const LeafSpec& spec = guards_.leaves[i];
    Ref<TensorImpl> made;
    if (spec.kind == LeafKind::scalar) {
      const DType dtype = spec.number_kind == DTypeClass::floating  ? DType::f64
                          : spec.number_kind == DTypeClass::integer ? DType::i64
                                                                    : DType::bool_;
      made = placeholder({dtype, Device::cpu(), {}});
      made->is_weak = true;
    } else if (spec.kind != LeafKind::fixed) {
      if (spec.same_slot_as >= 0) {
        made = placeholders_[as_index(spec.same_slot_as)];
      } else {
        Type type{spec.dtype, spec.device, {}};
        for (std::size_t axis = 0; axis < spec.rank; ++axis) type.shape.push_back(spec.extents[axis]);
        made = placeholder(type);
        made->strides = spec.strides;
        const bool begins_tape = args[i].slot != nullptr && args[i].slot->gradient() != nullptr;
        if (!begins_tape && is_tape_on() && jit_detail::is_on_tape(args[i])) put_on_tape(*made);
      }
    }
    if (spec.kind == LeafKind::variable && spec.same_slot_as < 0) {
      // Shared with whoever else holds the Variable; the caller's handle keeps it alive during the trace.
      variables_.push_back({std::shared_ptr<VariableSlot>(std::shared_ptr<void>(), args[i].slot),
                            static_cast<std::int32_t>(i),
                            made,
                            {},
                            {}});
    }
    placeholders_.push_back(std::move(made));
  }
}

SINTER_DECL FunctionTrace::~FunctionTrace() { SymbolScope::current() = outer_scope_; }

SINTER_DECL Ref<TensorImpl> FunctionTrace::next_leaf() { return placeholders_[next_++]; }

SINTER_DECL Ref<TensorImpl> FunctionTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  for (const VariableRead& read : variables_)
    if (read.slot.get() == slot.get()) return read.assigned ? read.assigned : read.placeholder;
  VariableRead read;
  read.slot = slot;
  read.seen = slot->value();
  read.placeholder = placeholder(read.seen->type);
  if (slot->gradient() == nullptr && is_tape_on() && jit_detail::is_on_tape(*read.seen)) put_on_tape(*read.placeholder);
  variables_.push_back(read);
  return read.placeholder;
}

SINTER_DECL void FunctionTrace::note_assignment(const std::shared_ptr<VariableSlot>& slot,
                                                const Ref<TensorImpl>& value) {
  static_cast<void>(read_variable(slot));
  for (VariableRead& read : variables_)
    if (read.slot.get() == slot.get()) read.assigned = value;
}

SINTER_DECL void FunctionTrace::note_hooks(const std::shared_ptr<VariableSlot>& gradient, std::uint64_t revision) {
  hooks_.push_back({reads_.size(), {gradient, revision}});
}
SINTER_DECL std::vector<jit_detail::HookGuard> FunctionTrace::hooks(std::size_t read) const {
  std::vector<jit_detail::HookGuard> found;
  for (const auto& [reads, guard] : hooks_)
    if (reads == read && jit_detail::hooks_hold({&guard, 1})) found.push_back(guard);
  return found;
}
SINTER_DECL std::vector<jit_detail::HookGuard> FunctionTrace::hooks() const {
  std::vector<jit_detail::HookGuard> found;
  for (const auto& [reads, guard] : hooks_)
    if (jit_detail::hooks_hold({&guard, 1})) found.push_back(guard);
  return found;
}

SINTER_DECL std::uint64_t FunctionTrace::read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) {
  if (auto known = outcomes_.find(value.get()); known != outcomes_.end()) return known->second;
  ReadPoint read;
  read.value = value;
  read.op = std::string(op);
  read.where = where;
  read.dims = guards_.dims.size();
  read.last_effect = last_effect();
  if (reads_.size() < policy_.replay_log.size()) {
    read.outcome = policy_.replay_log[reads_.size()];
  } else if (policy_.beyond == ReadPolicy::Beyond::differs) {
    throw TraceError("compile", "captured value changed at " + std::string(op), where, jit_detail::purity_fix);
  } else if (policy_.beyond == ReadPolicy::Beyond::refuse) {
    throw TraceError(op, "a value is read, which would cut the graph, and Options::fullgraph is set", where,
                     "choose with where(condition, a, b), use jit::cond or jit::while_loop, or return the value and "
                     "read it outside");
  } else {
    give_arguments();
    live_->compute({&value, 1}, last_effect(), hints_);
    read.outcome = element_bits(*live_->at(value));
  }
  outcomes_.emplace(value.get(), read.outcome);
  reads_.push_back(read);
  end_replay();
  return read.outcome;
}

SINTER_DECL void FunctionTrace::end_replay() {
  if (reads_.size() != policy_.replay_log.size() || !policy_.after_replay) return;
  give_arguments();
  policy_.after_replay(*this);
}

SINTER_DECL std::shared_ptr<const EagerResults> FunctionTrace::eager_results(ReadPoint& cut) {
  const std::size_t i = reads_.size();
  if (i < policy_.replay_log.size() && i < policy_.eager_results.size() && policy_.eager_results[i]) {
    if (i < policy_.arrivals.size()) cut.arrival = policy_.arrivals[i];
    return policy_.eager_results[i];
  }
  if (i < policy_.replay_log.size() || policy_.beyond == ReadPolicy::Beyond::differs)
    throw TraceError("compile", "captured value changed at disable", cut.where, jit_detail::purity_fix);
  if (policy_.beyond == ReadPolicy::Beyond::refuse)
    throw TraceError(
        "disable",
        "a function that is not to be traced is called, which would cut the graph, and Options::fullgraph is set",
        cut.where,
        "call it outside the compiled function and pass its result in, or use jit::callback or jit::custom_op, which "
        "stay in the graph");
  give_arguments();
  live_->compute(cut.operands, cut.last_effect, hints_);
  std::vector<Ref<TensorImpl>> operands;
  for (const auto& operand : cut.operands) operands.push_back(own_value(operand));
  std::vector<EagerSection::Use> uses;
  for (const VariableRead& read : variables_) uses.push_back({read.slot.get(), read.assigned != nullptr});
  EagerSection section(uses, *cut.eager_call);
  return std::make_shared<const EagerResults>(cut.eager_call->run(operands, hints_));
}

SINTER_DECL EagerResults FunctionTrace::call_eagerly(const std::shared_ptr<const EagerCall>& call,
                                                     std::span<const Ref<TensorImpl>> operands) {
  ReadPoint cut;
  cut.op = "disable";
  cut.where = call->where;
  cut.dims = guards_.dims.size();
  cut.last_effect = last_effect();
  cut.eager_call = call;
  cut.operands.assign(operands.begin(), operands.end());
  cut.given = eager_results(cut);
  if (cut.arrival == nullptr) {
    std::vector<Dim> extents;  // those of the operands first: they are the likelier ones
    for (const auto& operand : operands)
      extents.insert(extents.end(), operand->type.shape.begin(), operand->type.shape.end());
    for (const auto& argument : placeholders_)
      if (argument) extents.insert(extents.end(), argument->type.shape.begin(), argument->type.shape.end());
    cut.arrival = std::make_shared<const EagerArrival>(EagerArrival::of(*cut.given, extents, hints_));
  }
  const bool reaches_tape = is_tape_on() && std::any_of(operands.begin(), operands.end(), [](const auto& operand) {
                              return operand->tape.load(std::memory_order_relaxed) != TapeState::none;
                            });
  const bool gives_tape = reaches_tape || (is_tape_on() && cut.given->is_on_tape);
  calls_on_tape_ |= gives_tape;
  for (std::size_t i = 0; i < cut.given->values.size(); ++i) {
    Ref<TensorImpl> made = placeholder(cut.arrival->types[i]);
    made->is_weak = cut.arrival->is_weak[i] != 0;
    live_->set(made, cut.given->values[i]);
    if (gives_tape && is_differentiable(made->type.dtype)) put_on_tape(*made);
    cut.placeholders.push_back(std::move(made));
  }
  for (const VariableRead& read : variables_)
    cut.variables.push_back({read.leaf, read.leaf < 0 ? read.slot : nullptr, read.assigned != nullptr});
  EagerResults results = *cut.given;
  results.values = cut.placeholders;
  reads_.push_back(std::move(cut));
  end_replay();
  return results;
}

SINTER_DECL void FunctionTrace::give_arguments() {
  if (!has_arguments_) {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      const ArgLeaf& arg = args_[i];
      if (!placeholders_[i] || guards_.leaves[i].same_slot_as >= 0) continue;
      if (arg.impl != nullptr) {
        live_->set(placeholders_[i], Ref<TensorImpl>::share(arg.impl));
      } else if (arg.kind == LeafKind::scalar) {
        Ref<Storage> storage = Storage::allocate(sizeof(std::int64_t));
        std::memcpy(storage->data(), &arg.integer, sizeof(std::int64_t));
        live_->set(placeholders_[i], TensorImpl::make_ready(placeholders_[i]->type, std::move(storage)));
      } else {
        Ref<Storage> storage = Storage::wrap(arg.data, 0, nullptr);
        lent_.push_back(storage.get());
        live_->set(placeholders_[i], TensorImpl::make_ready(*arg.type, std::move(storage), 0, arg.strides));
      }
    }
    has_arguments_ = true;
  }
  for (const VariableRead& read : variables_)
    if (read.leaf < 0 && !live_->knows(*read.placeholder)) live_->set(read.placeholder, read.seen);
}

SINTER_DECL void FunctionTrace::note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) {
  for (const DimGuard& known : guards_.dims)
    if (known.relation == relation && identical(known.lhs, lhs) && identical(known.rhs, rhs)) return;
  const Statement asked_by = Trace::current() != nullptr ? Trace::current()->statement : Statement{};
  guards_.dims.push_back({relation, lhs, rhs, outcome, asked_by.op, asked_by.where});
}

}  // namespace jit
SINTER_NAMESPACE_END
