// The body and its gradient are built as one graph, which is then cut in two.
#pragma once

#include <sinter/autodiff/call.hpp>

#include <sinter/autodiff/reverse.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/cse.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/passes/drop_derivatives.hpp>
#include <sinter/passes/keep_or_recompute.hpp>

SINTER_NAMESPACE_BEGIN
namespace reverse_detail {

/// Cuts the joint graph of a body and its gradient.
class CallCut {
 public:
  CallCut(const Graph& joint, std::size_t results, std::size_t inputs, std::span<const Value> gradients)
      : joint_(joint),
        results_(results),
        inputs_(inputs),
        gradients_(gradients),
        state_(joint.nodes().size(), State::forward) {
    mark_forward();
    mark_backward();
    choose_saved();
  }
  void make(CallDerivative& out) const;

 private:
  enum class State : std::uint8_t { forward, saved, again, backward };  // again: computed in both bodies
  State& state(std::int32_t node) { return state_[as_index(node)]; }
  State state(std::int32_t node) const { return state_[as_index(node)]; }

  bool is_input(std::int32_t node) const { return joint_.node(node).op == &op_info<ops::Input>; }
  /// Needed for the body's own results, or compared there.
  void mark_forward() {
    is_forward_.assign(joint_.nodes().size(), false);
    for (std::size_t i = 0; i < results_; ++i) is_forward_[as_index(joint_.outputs()[i].node)] = true;
    for (std::int32_t id : kept_before_gradients()) is_forward_[as_index(id)] = true;
    for (std::size_t id = joint_.nodes().size(); id-- > 0;)
      if (is_forward_[id])
        for (Value v : joint_.nodes()[id].inputs) is_forward_[as_index(v.node)] = true;
  }
  /// Elements are compared with their own maximum where both are computed, and what was found is saved: the other body
  /// may round the elements otherwise, and would find none.
  bool compares_bits(std::size_t id) const {
    const Node& node = joint_.nodes()[id];
    return (node.op == &op_info<ops::Eq> || node.op == &op_info<ops::Ne>) &&
           is_floating(joint_.type(node.inputs[0]).dtype);
  }
  /// Such comparisons, and effects, of the body itself.
  std::vector<std::int32_t> kept_before_gradients() const {
    std::vector<std::int32_t> found;
    std::vector<bool> is_after(joint_.nodes().size());
    for (Value v : joint_.inputs().subspan(inputs_)) is_after[as_index(v.node)] = true;
    for (std::size_t id = 0; id < joint_.nodes().size(); ++id) {
      for (Value v : joint_.nodes()[id].inputs)
        if (is_after[as_index(v.node)]) is_after[id] = true;
      if (!is_after[id] && (compares_bits(id) || joint_.nodes()[id].op->kind == OpKind::effect))
        found.push_back(static_cast<std::int32_t>(id));
    }
    return found;
  }
  /// Needed for the gradients and for no result.
  void mark_backward() {
    is_needed_.assign(joint_.nodes().size(), false);
    for (Value v : gradients_)
      if (v) is_needed_[as_index(v.node)] = true;
    for (std::size_t id = joint_.nodes().size(); id-- > 0;) {
      if (!is_needed_[id] || is_forward_[id]) continue;
      state_[id] = State::backward;
      for (Value v : joint_.nodes()[id].inputs) is_needed_[as_index(v.node)] = true;
    }
  }
  /// Values of the forward part that the gradients use are saved or computed again, whichever moves less memory. What
  /// is an operand or a result is in memory anyway.
  void choose_saved() {
    const std::size_t count = joint_.nodes().size();
    std::vector<std::uint8_t> is_early(is_forward_.begin(), is_forward_.end()), is_late(count), is_result(count);
    for (std::size_t id = 0; id < count; ++id) is_late[id] = state_[id] == State::backward;
    for (std::size_t i = 0; i < results_; ++i) is_result[as_index(joint_.outputs()[i].node)] = 1;
    const std::vector<Choice> choices = choose_kept(
        {joint_, is_early, is_late,
         [&](Value v) { return (is_result[as_index(v.node)] ? 1 : 2) * cost_of_byte * bytes_of(joint_, v); },
         [&](std::int32_t id) {
           return compares_bits(as_index(id)) ? cost_unlimited
                                              : recompute_cost(joint_, joint_.node(id), Products::kept);
         }});
    for (std::size_t id = 0; id < count; ++id) {
      if (choices[id] == Choice::unneeded) continue;
      is_needed_[id] = true;
      if (joint_.nodes()[id].op->kind != OpKind::leaf)
        state_[id] = choices[id] == Choice::kept ? State::saved : State::again;
    }
  }

  const Graph& joint_;
  std::size_t results_, inputs_;
  std::span<const Value> gradients_;
  std::vector<State> state_;
  std::vector<bool> is_forward_, is_needed_;
};

SINTER_DECL void CallCut::make(CallDerivative& out) const {
  // Forward: the joint graph without what is only for the gradients.
  GraphBuilder forward(joint_), backward(joint_);
  std::vector<Value> in_forward(joint_.nodes().size()), in_backward(joint_.nodes().size());
  const auto moved = [](const std::vector<Value>& map, Value v) {
    return Value{map[as_index(v.node)].node, map[as_index(v.node)].result + v.result};
  };
  for (std::size_t i = 0; i < inputs_; ++i) {
    const std::int32_t node = joint_.inputs()[i].node;
    in_forward[as_index(node)] = forward.input(joint_.type(joint_.inputs()[i]));
    if (!is_needed_[as_index(node)]) continue;
    in_backward[as_index(node)] = backward.input(joint_.type(joint_.inputs()[i]));
    out.operands.push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<Value> forward_outputs, saved;
  for (std::size_t id = 0; id < joint_.nodes().size(); ++id) {
    const Node& node = joint_.nodes()[id];
    if (!is_forward_[id] || node.op == &op_info<ops::Input>) continue;
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(moved(in_forward, v));
    in_forward[id] = forward.copy(node, inputs);
    if (state_[id] != State::saved) continue;
    for (std::size_t r = 0; r < node.types.size(); ++r)
      saved.push_back({static_cast<std::int32_t>(id), static_cast<std::int32_t>(r)});
  }
  for (std::size_t i = 0; i < results_; ++i) forward_outputs.push_back(moved(in_forward, joint_.outputs()[i]));
  std::vector<std::vector<Value>> saved_inputs(joint_.nodes().size());
  for (Value v : saved) {
    std::size_t at = 0;  // what is a result anyway is not given twice
    while (at < results_ && joint_.outputs()[at] != v) ++at;
    if (at == results_) {
      at = forward_outputs.size();
      forward_outputs.push_back(moved(in_forward, v));
    }
    out.saved.push_back(static_cast<std::uint32_t>(at));
    saved_inputs[as_index(v.node)].push_back(backward.input(joint_.type(v)));
  }
  out.forward = std::make_shared<const Graph>(Dce{}(forward.finish(forward_outputs)));
  for (std::size_t i = inputs_; i < joint_.inputs().size(); ++i)  // the gradients of the results
    in_backward[as_index(joint_.inputs()[i].node)] = backward.input(joint_.type(joint_.inputs()[i]));
  const auto backward_value = [&](Value v) {
    const auto& from_saved = saved_inputs[as_index(v.node)];
    return from_saved.empty() ? moved(in_backward, v) : from_saved[as_index(v.result)];
  };
  for (std::size_t id = 0; id < joint_.nodes().size(); ++id) {
    const Node& node = joint_.nodes()[id];
    const bool is_leaf = node.op == &op_info<ops::Constant> && is_needed_[id];
    if (node.op == &op_info<ops::Input> || !(is_leaf || state_[id] == State::backward || state_[id] == State::again))
      continue;
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(backward_value(v));
    in_backward[id] = backward.copy(node, inputs);
  }
  std::vector<Value> outputs;
  for (Value v : gradients_)
    if (v) outputs.push_back(backward_value(v));
  out.backward = std::make_shared<const Graph>(Dce{}(backward.finish(outputs)));
}

}  // namespace reverse_detail

namespace reverse_detail {
/// The graph of a body and its gradient as one, cut in two. `finish` works on it before the cut.
template <class Finish>
CallDerivative cut_derivative(const Graph& body, std::span<const std::uint8_t> wanted,
                              std::span<const std::uint8_t> given, const Finish& finish) {
  GraphBuilder builder(body);
  for (const Node& node : body.nodes()) builder.copy(node, node.inputs);  // ids stay
  std::vector<Value> outputs, douts, wrt;
  CallDerivative out;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] != 0) wrt.push_back(body.inputs()[i]);
  for (std::size_t r = 0; r < given.size(); ++r) {
    if (given[r] == 0) continue;
    outputs.push_back(body.outputs()[r]);
    douts.push_back(builder.input(body.type(body.outputs()[r])));
  }
  const std::vector<Value> found = backward(builder, outputs, douts, wrt);
  std::vector<Value> joint_outputs(body.outputs().begin(), body.outputs().end()), gradients;
  for (std::size_t i = 0, at = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) continue;
    const Value gradient = found[at++];
    if (!gradient) continue;
    out.gradients.push_back(static_cast<std::uint32_t>(i));
    joint_outputs.push_back(gradient);
  }
  if (out.gradients.empty()) {
    out.forward = std::make_shared<const Graph>(body);
    return out;
  }
  const Graph joint = finish(builder.finish(joint_outputs));
  gradients.assign(joint.outputs().begin() + static_cast<std::ptrdiff_t>(body.outputs().size()), joint.outputs().end());
  CallCut(joint, body.outputs().size(), body.inputs().size(), gradients).make(out);
  return out;
}
}  // namespace reverse_detail

SINTER_DECL CallDerivative differentiate_call_body(const Graph& original, std::span<const std::uint8_t> wanted,
                                                   std::span<const std::uint8_t> given) {
  // Composites are opened first, so that their parts are shared between the two halves.
  const Graph body = Cse{}(Decompose{.symbols = Decompose::Symbols::unsolved}(original));
  return reverse_detail::cut_derivative(body, wanted, given, [](const Graph& joint) { return Cse{}(joint); });
}

SINTER_DECL CallDerivative differentiate_program(const Graph& program, std::span<const std::uint8_t> wanted,
                                                 std::span<const std::uint8_t> given) {
  return reverse_detail::cut_derivative(program, wanted, given, [](const Graph& joint) {
    refuse_unfinished(Dce{}(joint));
    return Cse{}(Decompose{}(DropDerivatives{}(joint)));
  });
}

SINTER_NAMESPACE_END
