// backward(): the tape is captured as a graph, differentiated, and what it does not have yet is recorded after it.
#pragma once

#include <sinter/autodiff/cut.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/tape.hpp>
#include <sinter/autodiff/tape_session.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/compiled_call.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// Where the gradient of a leaf goes. Weak: a value must not keep its Variable's gradient, which may be computed from
/// it. Without a Variable: an argument of a trace that is on the tape outside.
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
  leaf->tape_leaf = new TapeLeaf{slot->gradient_once_required(), slot.get()};  // another thread may require none now
  leaf->tape.store(TapeState::leaf, std::memory_order_release);
  return leaf;
}

SINTER_DECL void put_on_tape(TensorImpl& placeholder) {
  placeholder.tape_leaf = new TapeLeaf;
  placeholder.tape.store(TapeState::leaf, std::memory_order_release);
}

/// What a Variable's gradient goes through before it is added, in the order of registration.
struct GradientHooks {
  ForkSafeMutex mutex;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const jit::GradientFunction>>> list;
  std::uint64_t next = 1;
  std::atomic<std::uint64_t> revision{0};  // of the list, the same for no other list; 0: it is empty
  std::atomic<bool> is_required{true};     // false: the Variable requires none any more, and nothing is added

  /// After each change, under the mutex.
  void renew() {
    static constinit std::atomic<std::uint64_t> last{0};
    revision.store(list.empty() ? 0 : last.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
  }
};

SINTER_DECL const Variable& Variable::requires_grad(bool is_required, Location where) const {
  const TracePause pause;  // it is about the Variable, not about its value in a trace
  const Type type = slot_->value()->type;
  if (is_required && !is_differentiable(type.dtype))
    throw DTypeError("requires_grad", "the Variable is " + type.text() + ", it must be floating", where,
                     "make it of a floating dtype");
  if ((slot_->gradient() != nullptr) == is_required) return *this;
  const Tensor zeros = full(type.shape, 0, {.dtype = type.dtype, .device = type.device}, where);
  static ForkSafeMutex mutex;
  std::scoped_lock lock(mutex);
  if ((slot_->gradient() != nullptr) == is_required) return *this;
  if (slot_->gradient_once_required() == nullptr) {
    auto made =
        std::make_shared<VariableSlot>(zeros.impl(), slot_->name.empty() ? std::string() : slot_->name + ".grad");
    made->hooks = std::make_shared<GradientHooks>();
    slot_->make_gradient(std::move(made));
  }
  const auto& gradient = slot_->gradient_once_required();
  gradient->hooks->is_required.store(is_required, std::memory_order_release);
  gradient->set(zeros.impl());
  slot_->require_gradient(is_required);
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

/// Where the gradient of a leaf is to be added; null: nobody could read it, or the Variable requires none any more.
inline std::shared_ptr<VariableSlot> wanted_gradient(const TapeLeaf& leaf) {
  auto gradient = leaf.gradient.lock();
  return gradient && gradient->hooks->is_required.load(std::memory_order_acquire) ? gradient : nullptr;
}

/// What the loss was computed from: a graph, and for each of its values that is one of the program the value itself.
struct Tape {
  GraphBuilder builder;
  Value loss;
  KnownValues known;
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
    if (state == TapeState::spent || state == TapeState::node)  // or a result of a call that is spent
      throw UserError("backward", "a part of the graph was used up by an earlier backward()", where,
                      "call that one as backward({.keeps_graph = true}), or add the losses and call it once");
    if (state != TapeState::leaf) continue;
    if (value->tape_leaf->variable == nullptr)
      throw UserError(
          "backward",
          "the loss depends on an argument, or on what a disabled function gave, that is on the tape outside of "
          "this function",
          where, "call backward() outside, on what the function returns, or detach the value");
    auto gradient = wanted_gradient(*value->tape_leaf);
    if (!gradient) continue;
    tape.leaves.push_back(v);
    tape.gradients.push_back(std::move(gradient));
  }
  return tape;
}

/// Compiled calls on the tape become their own operations, so that gradients can be differentiated again.
inline void open_calls(Tape& tape) {
  const auto is_compiled = [](const Node& node) { return node.op == &op_info<ops::CompiledCall>; };
  const auto& nodes = tape.builder.graph().nodes();
  if (std::none_of(nodes.begin(), nodes.end(), is_compiled)) return;
  GraphBuilder opened(tape.builder.graph());
  std::vector<std::int32_t> moved;
  const auto now = [&](Value v) { return Value{moved[as_index(v.node)], v.result}; };
  for (const Node& node : nodes) {
    Values operands;
    for (Value v : node.inputs) operands.push_back(now(v));
    if (!is_compiled(node)) {
      moved.push_back(opened.copy(node, operands).node);
      continue;
    }
    const auto* rule = payload_cast<CallRule>(node.attrs.payload.get());
    Attrs attrs;
    attrs.bodies.push_back(rule->forward());
    const std::span<const Value> inputs(operands.begin(), as_index(node.attrs[ops::CompiledCall::inputs]));
    moved.push_back(opened.add(op_info<ops::Region>, inputs, std::move(attrs), node.where).node);
  }
  KnownValues known;
  for (auto& [v, value] : tape.known) known.emplace(now(v), std::move(value));
  tape.known = std::move(known);
  tape.loss = now(tape.loss);
  for (Value& leaf : tape.leaves) leaf = now(leaf);
  tape.builder = std::move(opened);
}

/// Values of the tape forget what they were computed from. A compiled call forgets it for all of its results.
inline void use_up(const KnownValues& known) {
  std::vector<PendingNode*> pending_nodes;  // freed outside the lock
  std::vector<Ref<TensorImpl>> saved;       // likewise
  {
    std::scoped_lock lock(evaluation_mutex());
    for (const auto& [v, value] : known) {
      TapeState node = TapeState::node;
      if (!value->tape.compare_exchange_strong(node, TapeState::spent)) continue;
      if (!value->is_ready() || value->pending_node == nullptr) continue;
      PendingNode* pending_node = std::exchange(value->pending_node, nullptr);
      pending_nodes.push_back(pending_node);
      if (pending_node->op != &op_info<ops::CompiledCall> || std::exchange(pending_node->is_spent, true)) continue;
      for (Leaf& leaf : pending_node->leaves()) saved.push_back(std::move(leaf.value));
    }
  }
  for (PendingNode* pending_node : pending_nodes) release_pending_node(pending_node);
}

}  // namespace jit::autodiff_detail

SINTER_DECL void jit::autodiff_detail::require_gradients(tree::View model, bool is_required) {
  struct Visit final : tree::Reader {
    void tensor(const Tensor&) override {}
    void scalar(const Scalar&) override {}
    void variable(const Variable& x) override {
      if (is_differentiable(x.dtype())) x.requires_grad(is_required);
    }
    bool is_required = true;
  } visit;
  visit.is_required = is_required;
  model.read(visit);
}

SINTER_DECL void jit::autodiff_detail::zero_gradients(tree::View model) {
  struct Visit final : tree::Reader {
    void tensor(const Tensor&) override {}
    void scalar(const Scalar&) override {}
    void variable(const Variable& x) override {
      if (x.slot()->gradient() != nullptr) x.zero_grad();
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

SINTER_DECL std::uint64_t jit::autodiff_detail::add_hook(const Variable& x, GradientFunction hook, Location where) {
  GradientHooks& hooks = *gradient_slot(x, "register_hook", where)->hooks;
  auto shared = std::make_shared<const GradientFunction>(std::move(hook));
  std::scoped_lock lock(hooks.mutex);
  hooks.list.emplace_back(hooks.next, std::move(shared));
  hooks.renew();
  return hooks.next++;
}
SINTER_DECL void jit::autodiff_detail::remove_hook(VariableSlot& variable, std::uint64_t number) {
  std::shared_ptr<const GradientFunction> removed;  // destroyed without the lock
  GradientHooks& hooks = *variable.gradient_once_required()->hooks;
  std::scoped_lock lock(hooks.mutex);
  const auto is_it = [&](const auto& hook) { return hook.first == number; };
  const auto found = std::find_if(hooks.list.begin(), hooks.list.end(), is_it);
  if (found == hooks.list.end()) return;
  removed = std::move(found->second);
  hooks.list.erase(found);
  hooks.renew();
}
SINTER_DECL Location jit::autodiff_detail::recorded_at(const TensorImpl& value) {
  std::scoped_lock lock(evaluation_mutex());
  return value.pending_node != nullptr ? value.pending_node->where : Location{};
}
SINTER_DECL std::uint64_t jit::autodiff_detail::hooks_revision(const VariableSlot& gradient) {
  return gradient.hooks->revision.load(std::memory_order_acquire);
}

namespace jit::autodiff_detail {

/// Of f8, which nothing computes with, by way of f32.
inline Tensor sum_of_gradients(const Tensor& a, const Tensor& b) {
  if (!is_f8(a.dtype())) return a + b;
  return cast(cast(a, DType::f32) + cast(b, DType::f32), a.dtype());
}

/// What one backward() gave for each Variable, by the slot of its gradient.
using FoundGradients = std::vector<std::pair<std::shared_ptr<VariableSlot>, Tensor>>;
inline void add_found(FoundGradients& found, const std::shared_ptr<VariableSlot>& slot, const Tensor& part) {
  const auto known = std::find_if(found.begin(), found.end(), [&](const auto& other) { return other.first == slot; });
  if (known == found.end()) found.emplace_back(slot, part);
  else known->second = sum_of_gradients(known->second, part);
}

/// The gradient as the Variable's hooks want it.
inline Tensor through_hooks(const std::shared_ptr<VariableSlot>& gradient, Tensor value, Location where) {
  std::vector<std::shared_ptr<const GradientFunction>> hooks;
  std::uint64_t revision = 0;
  {
    std::scoped_lock lock(gradient->hooks->mutex);
    for (const auto& [number, hook] : gradient->hooks->list) hooks.push_back(hook);
    revision = hooks_revision(*gradient);
  }
  if (Trace* trace = Trace::current()) trace->note_hooks(gradient, revision);
  for (const auto& hook : hooks) {
    const Type type = value.impl()->type;
    value = (*hook)(value);
    value = Tensor(checked_derivative(value.impl(), type, "register_hook", "what a hook returned", where));
  }
  return value;
}

/// Zeros that nobody has looked at.
inline bool is_literal_zero(const TensorImpl& value) {
  std::scoped_lock lock(evaluation_mutex());  // another thread may be evaluating it
  if (value.state.load(std::memory_order_acquire) != TensorState::pending) return false;
  return value.pending_node->op == &op_info<ops::Full> && value.pending_node->attrs->value == 0;
}

inline Ref<TensorImpl> sum_of(const Ref<TensorImpl>& before, const Tensor& added) {
  return is_literal_zero(*before) ? added.impl() : sum_of_gradients(Tensor(before), added).impl();
}

/// Adds what a backward() found to the gradients of the Variables, all or none. Of threads that add to one gradient at
/// once, each adds to what the others gave.
inline void add_gradients(const FoundGradients& found, Location where) {
  std::vector<Tensor> added;
  std::vector<Ref<TensorImpl>> before, sums;
  for (const auto& [slot, value] : found) {
    added.push_back(through_hooks(slot, value, where));
    before.push_back(read_slot(slot));
    sums.push_back(sum_of(before.back(), added.back()));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::shared_ptr<VariableSlot>& slot = found[i].first;
    if (Trace* trace = Trace::current()) {
      trace->note_assignment(slot, sums[i]);
      continue;
    }
    while (!slot->set_if(*before[i], sums[i])) {
      before[i] = slot->value();
      sums[i] = sum_of(before[i], added[i]);
    }
  }
}

/// The compiled call that gave the loss, and what it holds, or null: something else did, or it is spent.
inline Ref<PendingNode> call_of(const TensorImpl& loss, std::vector<Ref<TensorImpl>>& operands) {
  std::scoped_lock lock(evaluation_mutex());  // another thread may be evaluating it, or using it up
  if (loss.tape.load(std::memory_order_acquire) != TapeState::node || !loss.is_ready()) return {};
  PendingNode* node = loss.pending_node;
  if (node == nullptr || node->op != &op_info<ops::CompiledCall> || node->is_spent) return {};
  for (const Leaf& leaf : std::as_const(*node).leaves()) operands.push_back(leaf.value);
  return Ref<PendingNode>::share(node);
}

/// The usual case: a compiled call of Variables gave the loss itself. Its code is run without a graph around it. False,
/// and nothing is done, where there is more to it.
inline bool backward_of_call(const Ref<TensorImpl>& loss, BackwardOptions options, Location where) {
  std::vector<Ref<TensorImpl>> operands;
  const Ref<PendingNode> node = call_of(*loss, operands);
  if (!node) return false;
  std::vector<Ref<TensorImpl>> douts(node->results);
  std::vector<std::shared_ptr<VariableSlot>> slots;  // per operand
  for (const auto& operand : operands) {
    const TapeState state = operand->tape.load(std::memory_order_acquire);
    if (state == TapeState::node || state == TapeState::spent) return false;
    slots.push_back(state == TapeState::leaf ? wanted_gradient(*operand->tape_leaf) : nullptr);
  }
  if (std::none_of(slots.begin(), slots.end(), [](const auto& slot) { return slot != nullptr; })) return false;
  douts[loss->result] = ready_number(loss->type, 1);
  if (!douts[loss->result]) return false;
  NoGradGuard guard;
  FoundGradients found;
  const auto* rule = payload_cast<CallRule>(node->attrs->payload.get());
  for (const CallRule::Gradient& gradient : rule->run(operands, douts, where))
    if (slots[gradient.operand]) add_found(found, slots[gradient.operand], Tensor(gradient.value));
  add_gradients(found, where);
  if (!options.keeps_graph) use_up({{Value{}, loss}});
  return true;
}

}  // namespace jit::autodiff_detail

SINTER_DECL Tensor jit::detach(const In& x) {
  NoGradGuard guard;
  Ref<TensorImpl> value = x.tensor();
  if (Trace::current() != nullptr) return stop_gradient(Tensor(std::move(value)), x.where);
  return Tensor(value->tape.load(std::memory_order_acquire) == TapeState::none ? value : record_alias(value));
}

SINTER_DECL void jit::backward(const In& loss, BackwardOptions options) {
  using namespace autodiff_detail;
  const Location where = loss.where;
  const Ref<TensorImpl> value = loss.tensor();
  if (is_complex(value->type.dtype))
    throw DTypeError("backward", "the loss is " + value->type.text() + "; a loss is a real number", where,
                     "use real(z), or abs(z) of it");
  if (!is_floating(value->type.dtype) || value->type.shape.rank() != 0)
    throw ShapeError("backward", "the loss is " + value->type.text() + "; a floating scalar is required", where,
                     "use sum or mean of it");
  if (Trace::current() == nullptr && !options.creates_graph && backward_of_call(value, options, where)) return;
  std::optional<NoGradGuard> guard;
  if (!options.creates_graph) guard.emplace();  // gradients are values, not parts of the graph
  Tape tape = read_tape(value, where);
  if (tape.leaves.empty())
    throw UserError("backward", "the loss depends on no Variable that requires a gradient", where,
                    "call requires_grad() of the Variables before the loss is computed");
  if (options.creates_graph) open_calls(tape);
  const Value seed = number(Val{&tape.builder, tape.loss, where}, 1).value;
  std::vector<Value> gradients;
  {
    std::optional<TapeSession> session;
    if (Trace::current() == nullptr && !options.creates_graph) session.emplace(tape.builder, tape.known);
    gradients = sinter::backward(tape.builder, {&tape.loss, 1}, {&seed, 1}, tape.leaves);
  }
  std::vector<Value> outputs;
  for (Value v : gradients)
    if (v) outputs.push_back(v);
  const Graph joint = tape.builder.finish(outputs);
  const CutGraph rest = cut_graph(joint, outputs, {}, [&](Value v) { return tape.known.contains(v); });
  std::vector<Ref<TensorImpl>> operands;
  for (Value v : rest.inputs) operands.push_back(tape.known.at(v));
  const std::vector<Ref<TensorImpl>> values = replay(rest.graph, operands);
  FoundGradients found;
  for (std::size_t i = 0, at = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    add_found(found, tape.gradients[i], Tensor(values[at++]));
  }
  add_gradients(found, where);
  if (!options.keeps_graph && !options.creates_graph) use_up(tape.known);
}

SINTER_NAMESPACE_END
