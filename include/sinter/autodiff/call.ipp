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

#include <algorithm>
#include <map>
#include <set>

SINTER_NAMESPACE_BEGIN
namespace reverse_detail {

/// Cuts the joint graph of a body and its gradient.
class CallCut {
 public:
  /// The first `kept` nodes stay in the forward part, needed or not.
  CallCut(const Graph& joint, std::size_t results, std::size_t inputs, std::span<const Value> gradients,
          std::size_t kept)
      : joint_(joint),
        kept_(kept),
        results_(results),
        inputs_(inputs),
        gradients_(gradients),
        state_(joint.nodes().size(), State::forward) {
    mark_forward();
    mark_backward();
    choose_saved();
    mark_used();
  }
  void make(CallDerivative& out) const;

 private:
  void make_forward(CallDerivative& out, std::span<const Value> saved) const;
  Value token_of_gradient(GraphBuilder& backward, const std::map<Value, Value>& made, const Node& barrier) const;
  enum class State : std::uint8_t { forward, saved, again, backward };  // again: computed in both bodies
  State& state(std::int32_t node) { return state_[as_index(node)]; }
  State state(std::int32_t node) const { return state_[as_index(node)]; }

  bool is_input(std::int32_t node) const { return joint_.node(node).op == &op_info<ops::Input>; }
  /// Needed for the body's own results, or compared there.
  void mark_forward() {
    is_forward_.assign(joint_.nodes().size(), false);
    std::fill_n(is_forward_.begin(), kept_, true);
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
           is_differentiable(joint_.type(node.inputs[0]).dtype);
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

  /// What the backward part reads of nodes whose results are saved.
  void mark_used() {
    for (std::size_t id = 0; id < joint_.nodes().size(); ++id)
      if (state_[id] == State::backward || state_[id] == State::again)
        for (Value v : passes_detail::again_operands(joint_.nodes()[id])) used_.insert(v);
    for (Value v : gradients_)
      if (v) used_.insert(v);
  }

  const Graph& joint_;
  std::size_t kept_, results_, inputs_;
  std::span<const Value> gradients_;
  std::vector<State> state_;
  std::vector<bool> is_forward_, is_needed_;
  std::set<Value> used_;
};

SINTER_DECL Val backward_token(Val value, DType dtype) {
  const Shape shape = value.shape();
  Shape starts = ops_detail::zero_starts(shape.rank()), ends;
  for (Dim extent : shape.dims()) {
    if (ops_detail::is_zero(extent)) return full(value, {}, dtype, 0);  // there is nothing to wait for
    ends.push_back(1);
  }
  return cast(reshape(slice(value, starts, ends, IntVector(as_index(shape.rank()), 1)), {}), dtype);
}

/// The joint graph without what is only for the gradients. What is saved and no result follows those.
SINTER_DECL void CallCut::make_forward(CallDerivative& out, std::span<const Value> saved) const {
  GraphBuilder forward(joint_);
  std::vector<Value> made(joint_.nodes().size());
  const auto moved = [&](Value v) {
    return Value{made[as_index(v.node)].node, made[as_index(v.node)].result + v.result};
  };
  if (kept_ == 0)
    for (std::size_t i = 0; i < inputs_; ++i) {
      const Value input = joint_.inputs()[i];
      made[as_index(input.node)] = forward.input(joint_.type(input));
    }
  for (std::size_t id = 0; id < joint_.nodes().size(); ++id) {
    const Node& node = joint_.nodes()[id];
    if (!is_forward_[id] || (id >= kept_ && node.op == &op_info<ops::Input>)) continue;
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(moved(v));
    made[id] = forward.copy(node, inputs);
  }
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < results_; ++i) outputs.push_back(moved(joint_.outputs()[i]));
  for (Value v : saved) {
    std::size_t at = 0;  // what is a result anyway is not given twice
    while (at < results_ && joint_.outputs()[at] != v) ++at;
    if (at == results_) {
      at = outputs.size();
      outputs.push_back(moved(v));
    }
    out.saved.push_back(static_cast<std::uint32_t>(at));
  }
  const Graph whole = forward.finish(outputs);
  out.forward = std::make_shared<const Graph>(kept_ == 0 ? Dce{}(whole) : whole);
}

/// A number that is known when the first gradient of the results is: the backward part has begun then.
SINTER_DECL Value CallCut::token_of_gradient(GraphBuilder& backward, const std::map<Value, Value>& made,
                                             const Node& barrier) const {
  const Val gradient{&backward, made.at(joint_.inputs()[inputs_]), barrier.where};
  return backward_token(gradient, barrier.types[0].dtype).value;
}

SINTER_DECL void CallCut::make(CallDerivative& out) const {
  GraphBuilder backward(joint_);
  std::map<Value, Value> made;
  const auto keep = [&](std::int32_t id, Value first) {
    for (std::size_t r = 0; r < joint_.node(id).types.size(); ++r)
      made[{id, static_cast<std::int32_t>(r)}] = {first.node, first.result + static_cast<std::int32_t>(r)};
  };
  for (std::size_t i = 0; i < inputs_; ++i) {
    const Value input = joint_.inputs()[i];
    if (!is_needed_[as_index(input.node)]) continue;
    made[input] = backward.input(joint_.type(input));
    out.operands.push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<Value> saved;
  for (Value v : used_)
    if (state(v.node) == State::saved) saved.push_back(v);
  make_forward(out, saved);
  for (Value v : saved) made[v] = backward.input(joint_.type(v));
  for (Value v : joint_.inputs().subspan(inputs_)) made[v] = backward.input(joint_.type(v));  // the results' gradients
  for (std::size_t id = 0; id < joint_.nodes().size(); ++id) {
    const Node& node = joint_.nodes()[id];
    const bool is_leaf = node.op == &op_info<ops::Constant> && is_needed_[id];
    if (node.op == &op_info<ops::Input> || !(is_leaf || state_[id] == State::backward || state_[id] == State::again))
      continue;
    if (state_[id] == State::again && node.op->kind != OpKind::view && !node.inputs.empty())
      out.repeated.push_back({node.op->name, node.types[0], node.where});
    Values inputs;
    for (Value v : passes_detail::again_operands(node)) inputs.push_back(made.at(v));
    if (inputs.size() < node.inputs.size()) {  // a barrier; what it waited for may be in the forward part alone
      const auto token = made.find(node.inputs[1]);
      inputs.push_back(token != made.end() ? token->second : token_of_gradient(backward, made, node));
    }
    keep(static_cast<std::int32_t>(id), backward.copy(node, inputs));
  }
  std::vector<Value> outputs;
  for (Value v : gradients_)
    if (v) outputs.push_back(made.at(v));
  out.backward = std::make_shared<const Graph>(Dce{}(backward.finish(outputs)));
}

}  // namespace reverse_detail

namespace reverse_detail {
struct CutOptions {
  bool keeps_nodes = false;        // the nodes of the body stay in the forward part
  std::span<const Value> stops{};  // with it: no gradient flows through them
};
/// The graph of a body and its gradient as one, cut in two. `finish` works on it before the cut.
template <class Finish>
CallDerivative cut_derivative(const Graph& body, std::span<const std::uint8_t> wanted,
                              std::span<const std::uint8_t> given, const Finish& finish,
                              const CutOptions& options = {}) {
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
  const std::vector<Value> found = options.keeps_nodes ? backward_beside(builder, outputs, douts, wrt, options.stops)
                                                       : backward(builder, outputs, douts, wrt);
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
  const std::size_t kept = options.keeps_nodes ? body.nodes().size() : 0;
  CallCut(joint, body.outputs().size(), body.inputs().size(), gradients, kept).make(out);
  return out;
}
}  // namespace reverse_detail

SINTER_DECL CallDerivative differentiate_call_body(const Graph& original, std::span<const std::uint8_t> wanted,
                                                   std::span<const std::uint8_t> given) {
  // Composites are opened first, so that their parts are shared between the two halves. Products of narrow numbers are
  // not: the gradients of what they are made of would be products of f32.
  const auto is_product = [](const Graph&, const Node& node) { return node.op == &op_info<ops::Matmul>; };
  const Graph body = Cse{}(Decompose{.keep = is_product, .symbols = Decompose::Symbols::unsolved}(original));
  return reverse_detail::cut_derivative(body, wanted, given, [](const Graph& joint) { return Cse{}(joint); });
}

SINTER_DECL CallDerivative differentiate_program(const Graph& program, std::span<const std::uint8_t> wanted,
                                                 std::span<const std::uint8_t> given) {
  return reverse_detail::cut_derivative(program, wanted, given, [](const Graph& joint) {
    refuse_unfinished(Dce{}(joint));
    return Cse{}(Decompose{}(DropDerivatives{}(joint)));
  });
}

SINTER_DECL CallDerivative differentiate_path(const Graph& path, std::span<const std::uint8_t> wanted,
                                              std::span<const std::uint8_t> given, std::span<const Value> stops) {
  const auto finish = [](const Graph& joint) {
    refuse_unfinished(Dce{}(joint));
    return joint;
  };
  CallDerivative out = reverse_detail::cut_derivative(path, wanted, given, finish, {true, stops});
  if (out.backward) out.backward = std::make_shared<const Graph>(Cse{}(Decompose{}(DropDerivatives{}(*out.backward))));
  return out;
}

SINTER_NAMESPACE_END
