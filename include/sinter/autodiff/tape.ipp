// backward(): the tape is captured as a graph, differentiated, and what it does not have yet is recorded after it.
#pragma once

#include <sinter/autodiff/cut.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/tape.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>

#include <map>

SINTER_NAMESPACE_BEGIN

/// Where the gradient of a leaf goes. Weak: a value must not keep its Variable's gradient, which may be computed from
/// it.
struct TapeLeaf {
  std::weak_ptr<VariableSlot> gradient;
  const VariableSlot* variable = nullptr;  // identity only
};

SINTER_DECL void release_tape_leaf(TapeLeaf* leaf) noexcept { delete leaf; }

SINTER_DECL Ref<TensorImpl> tape_leaf(const Ref<TensorImpl>& value, const std::shared_ptr<VariableSlot>& slot) {
  if (value->tape.load(std::memory_order_acquire) == TapeState::leaf && value->tape_leaf->variable == slot.get())
    return value;
  if (!is_tape_on()) return value;
  Ref<TensorImpl> leaf = record_alias(value);
  leaf->tape_leaf = new TapeLeaf{*slot->gradient(), slot.get()};
  leaf->tape.store(TapeState::leaf, std::memory_order_release);
  return leaf;
}

SINTER_DECL const Variable& Variable::requires_grad(Location where) const {
  const Type type = value().impl()->type;
  if (!is_floating(type.dtype))
    throw DTypeError("requires_grad", "the Variable is " + type.text() + ", it must be floating", where,
                     "make it of a floating dtype");
  const Tensor zeros = full(type.shape, 0, {.dtype = type.dtype, .device = type.device}, where);
  static ForkSafeMutex mutex;
  std::scoped_lock lock(mutex);
  if (slot_->gradient() == nullptr)
    slot_->set_gradient(
        std::make_shared<VariableSlot>(zeros.impl(), slot_->name.empty() ? std::string() : slot_->name + ".grad"));
  return *this;
}

namespace jit::autodiff_detail {

inline const std::shared_ptr<VariableSlot>& gradient_slot(const Variable& x, std::string_view op, Location where) {
  if (const auto* slot = x.slot()->gradient()) return *slot;
  throw UserError(op,
                  "the Variable" + (x.name().empty() ? std::string() : " '" + x.name() + "'") + " requires no gradient",
                  where, "call requires_grad() of it before the loss is computed");
}

inline Ref<TensorImpl> read_slot(const std::shared_ptr<VariableSlot>& slot) {
  Trace* trace = Trace::current();
  return trace != nullptr ? trace->read_variable(slot) : slot->value();
}

/// What the loss was computed from: a graph, and for each of its values that is one of the program the value itself.
struct Tape {
  GraphBuilder builder;
  Value loss;
  std::map<Value, Ref<TensorImpl>> known;
  std::vector<Value> leaves;
  std::vector<std::shared_ptr<VariableSlot>> gradients;  // of the leaves' Variables
};

inline Tape read_tape(const Ref<TensorImpl>& loss, Location where) {
  std::scoped_lock lock(evaluation_mutex());
  Capture captured = capture({&loss, 1}, {}, {.along_tape = true});
  Tape tape;
  tape.loss = captured.outputs[0];
  for (std::size_t i = 0; i < captured.kept.size(); ++i) tape.known.emplace(captured.kept_values[i], captured.kept[i]);
  tape.builder = std::move(captured.builder);
  for (std::size_t i = 0; i < captured.inputs.size(); ++i) {
    const Value v = tape.builder.graph().inputs()[i];
    const Ref<TensorImpl>& value = captured.inputs[i];
    tape.known.emplace(v, value);
    const TapeState state = value->tape.load(std::memory_order_acquire);
    if (state == TapeState::spent)
      throw UserError("backward", "a part of the graph was used up by an earlier backward()", where,
                      "call that one as backward({.keeps_graph = true}), or add the losses and call it once");
    if (state != TapeState::leaf) continue;
    auto gradient = value->tape_leaf->gradient.lock();
    if (!gradient) continue;  // nobody could read it
    tape.leaves.push_back(v);
    tape.gradients.push_back(std::move(gradient));
  }
  return tape;
}

/// Values of the tape forget what they were computed from.
inline void use_up(const std::map<Value, Ref<TensorImpl>>& known) {
  std::vector<PendingNode*> pending_nodes;  // freed outside the lock
  {
    std::scoped_lock lock(evaluation_mutex());
    for (const auto& [v, value] : known) {
      TapeState node = TapeState::node;
      if (!value->tape.compare_exchange_strong(node, TapeState::spent)) continue;
      if (value->is_ready() && value->pending_node != nullptr)
        pending_nodes.push_back(std::exchange(value->pending_node, nullptr));
    }
  }
  for (PendingNode* pending_node : pending_nodes) release_pending_node(pending_node);
}

}  // namespace jit::autodiff_detail

SINTER_DECL void jit::autodiff_detail::require_gradients(tree::View model) {
  struct Visit final : tree::Reader {
    void tensor(const Tensor&) override {}
    void scalar(const Scalar&) override {}
    void variable(const Variable& x) override {
      if (is_floating(x.dtype())) x.requires_grad();
    }
  } visit;
  model.read(visit);
}

SINTER_DECL void jit::autodiff_detail::zero_gradients(tree::View model) {
  struct Visit final : tree::Reader {
    void tensor(const Tensor&) override {}
    void scalar(const Scalar&) override {}
    void variable(const Variable& x) override {
      if (is_floating(x.dtype())) x.zero_grad();
    }
  } visit;
  model.read(visit);
}

SINTER_DECL Tensor Variable::grad(Location where) const {
  return Tensor(jit::autodiff_detail::read_slot(jit::autodiff_detail::gradient_slot(*this, "grad", where)));
}

SINTER_DECL const Variable& Variable::zero_grad(Location where) const {
  const auto& slot = jit::autodiff_detail::gradient_slot(*this, "zero_grad", where);
  const Type type = jit::autodiff_detail::read_slot(slot)->type;
  jit::autodiff_detail::assign_outside(slot,
                                       full(type.shape, 0, {.dtype = type.dtype, .device = type.device}, where).impl());
  return *this;
}

SINTER_DECL void jit::backward(const In& loss, BackwardOptions options) {
  using namespace autodiff_detail;
  const Location where = loss.where;
  const Ref<TensorImpl> value = loss.tensor();
  if (!is_floating(value->type.dtype) || value->type.shape.rank() != 0)
    throw ShapeError("backward", "the loss is " + value->type.text() + "; a floating scalar is required", where,
                     "use sum or mean of it");
  NoGradGuard guard;  // gradients are values, not parts of the graph
  Tape tape = read_tape(value, where);
  if (tape.leaves.empty())
    throw UserError("backward", "the loss depends on no Variable that requires a gradient", where,
                    "call requires_grad() of the Variables before the loss is computed");
  const Value seed = number(Val{&tape.builder, tape.loss, where}, 1).value;
  const std::vector<Value> gradients = sinter::backward(tape.builder, {&tape.loss, 1}, {&seed, 1}, tape.leaves);
  std::vector<Value> outputs;
  for (Value v : gradients)
    if (v) outputs.push_back(v);
  const Graph joint = tape.builder.finish(outputs);
  const CutGraph rest = cut_graph(joint, outputs, {}, [&](Value v) { return tape.known.contains(v); });
  std::vector<Ref<TensorImpl>> operands;
  for (Value v : rest.inputs) operands.push_back(tape.known.at(v));
  const std::vector<Ref<TensorImpl>> values = replay(rest.graph, operands);
  for (std::size_t i = 0, at = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const Tensor sum = Tensor(read_slot(tape.gradients[i])) + Tensor(values[at++]);
    assign_outside(tape.gradients[i], sum.impl());
  }
  if (!options.keeps_graph) use_up(tape.known);
}

SINTER_NAMESPACE_END
