// The backward walk.
#pragma once

#include <sinter/autodiff/reverse.hpp>

#include <sinter/autodiff/call.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace reverse_detail {

/// A call whose derivative needs more than it gives: its body gives that as well, or another call does.
enum class ForwardCalls : std::uint8_t { extended, repeated };

/// One walk over the nodes that were in the builder when it began. Nodes before `first` are followed only if they are
/// among `wrt`: a decomposition depends on older nodes through its operands alone. Blocked values depend on nothing.
class BackwardWalk {
 public:
  BackwardWalk(GraphBuilder& builder, std::int32_t first, std::span<const Value> wrt,
               ForwardCalls calls = ForwardCalls::extended, std::span<const Value> blocked = {})
      : builder_(builder),
        forward_calls_(calls),
        first_(first),
        last_(static_cast<std::int32_t>(builder.graph().nodes().size())),
        wrt_(wrt),
        blocked_(blocked) {
    mark_dependent();
  }

  /// Adds to the gradient of `v`, brought to its type; to that of f8, which nothing computes with, in f32.
  void accumulate(Value v, Val gradient) {
    if (!depends(v) || !is_differentiable(builder_.type(v).dtype)) return;
    const Type type = builder_.type(v);
    const DType held = is_f8(type.dtype) ? DType::f32 : type.dtype;
    gradient = expand(sum_to_shape(cast(gradient, held), type.shape), type.shape);
    Value& sum = gradients_[v];
    sum = sum ? (Val{&builder_, sum, gradient.where} + gradient).value : gradient.value;
  }

  void run() {
    for (std::int32_t id = last_; id-- > first_;) {
      if (!depends_[slot(id)] || builder_.graph().node(id).inputs.empty()) continue;
      const std::size_t results = builder_.graph().node(id).types.size();
      Values gradients;
      bool has_gradient = false;
      for (std::size_t r = 0; r < results; ++r) {
        const Value v{id, static_cast<std::int32_t>(r)};
        auto found = gradients_.find(v);
        gradients.push_back(found == gradients_.end() || is_independent(v) ? Value{} : found->second);
        // The bodies of calls and loops have types of their own.
        if (!builder_.graph().node(id).attrs.bodies.empty()) gradients.back() = as_result(v, gradients.back());
        has_gradient |= static_cast<bool>(gradients.back());
      }
      if (has_gradient) propagate(id, gradients);
    }
  }

  /// The gradient of `v`, if there is one.
  Value gradient(Value v) const {
    auto found = gradients_.find(v);
    return found == gradients_.end() ? Value{} : found->second;
  }
  /// The same as `v` itself has it: of f8 it is rounded.
  Value gradient_of_its_dtype(Value v) const { return as_result(v, gradient(v)); }

 private:
  struct ValueHash {
    std::size_t operator()(Value v) const { return as_index(v.node) * 31 + as_index(v.result); }
  };

  Value as_result(Value v, Value gradient) const {
    if (!gradient || !is_f8(builder_.type(v).dtype)) return gradient;
    return cast(Val{&builder_, gradient, builder_.node(v).where}, builder_.type(v).dtype).value;
  }

  std::size_t slot(std::int32_t id) const { return as_index(id - first_); }

  bool is_independent(Value v) const {
    if (v.node >= first_ && !is_of_wrt_[slot(v.node)]) return false;
    return std::find(wrt_.begin(), wrt_.end(), v) != wrt_.end();
  }

  bool is_blocked(Value v) const { return std::find(blocked_.begin(), blocked_.end(), v) != blocked_.end(); }

  bool depends(Value v) const {
    if (v.node < first_) return is_independent(v);
    return v.node < last_ && depends_[slot(v.node)] && !is_blocked(v);
  }

  void mark_dependent() {
    depends_.assign(as_index(last_ - first_), false);
    for (Value w : wrt_)
      if (w.node >= first_ && w.node < last_) depends_[slot(w.node)] = true;
    is_of_wrt_ = depends_;
    for (std::int32_t id = first_; id < last_; ++id) {
      const OpInfo& op = *builder_.graph().node(id).op;
      const bool has_parts = op.decompose != nullptr && op.has_gradient;
      if (op.vjp == nullptr && !has_parts && !op.is_call) continue;  // no gradient passes
      for (Value in : builder_.graph().node(id).inputs)
        if (depends(in)) depends_[slot(id)] = true;
    }
  }

  std::uint32_t needed_operands(std::span<const Value> inputs) const {
    std::uint32_t needed = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (depends(inputs[i]) && is_differentiable(builder_.type(inputs[i]).dtype))
        needed |= std::uint32_t{1} << (i < 31 ? i : 31);
    return needed;
  }

  void propagate(std::int32_t id, const Values& result_gradients) {
    const Node& node = builder_.graph().node(id);
    const OpInfo& op = *node.op;
    // Copies: the rules add nodes, which moves the nodes.
    const Values inputs = node.inputs;
    const SharedAttrs held = node.shared_attrs();
    const Attrs& attrs = *held;
    const Location where = node.where;
    const std::uint32_t needed = needed_operands(inputs);
    if (needed == 0) return;
    if (op.is_call) return propagate_call(id, result_gradients);
    std::vector<Val> operands;
    for (Value in : inputs) operands.push_back(Val{&builder_, in, where});
    ValList outs, douts;
    for (std::size_t r = 0; r < result_gradients.size(); ++r) {
      outs.push_back(Val{&builder_, Value{id, static_cast<std::int32_t>(r)}, where});
      douts.push_back(result_gradients[r] ? Val{&builder_, result_gradients[r], where} : Val{});
    }
    const Val result = outs[0], gradient = douts[0];
    if (op.vjp != nullptr) {
      ValList grads;
      op.vjp(VjpArgs{operands,
                     result,
                     gradient,
                     attrs,
                     where,
                     needed,
                     {outs.data(), outs.size()},
                     {douts.data(), douts.size()},
                     &backward},
             grads);
      if (grads.empty() && op.decompose != nullptr)  // the rule leaves it to the parts
        return through_decomposition(op, inputs, operands, attrs, where, gradient);
      ensure(grads.size() == inputs.size(), "a derivative rule gives one gradient for each operand");
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (grads[i]) accumulate(inputs[i], grads[i]);
    } else if (op.decompose != nullptr) {
      through_decomposition(op, inputs, operands, attrs, where, gradient);
    }
    // An op with neither is constant almost everywhere (floor, sign) or made to stop gradients.
  }

  /// A call's derivative is a call. Calls of one body share both halves of its derivative.
  void propagate_call(std::int32_t id, const Values& result_gradients) {
    const Node& node = builder_.graph().node(id);
    const Values inputs = node.inputs;
    const Location where = node.where;
    KnownCall key{node.attrs.bodies[0], {}, {}, {}};
    for (Value in : inputs) key.wanted.push_back(depends(in) && is_differentiable(builder_.type(in).dtype));
    for (Value gradient : result_gradients) key.given.push_back(static_cast<bool>(gradient));
    auto known = std::find_if(calls_.begin(), calls_.end(), [&](const KnownCall& k) { return k.serves(key); });
    if (known == calls_.end()) {
      key.derivative = differentiate_call_body(*key.body, key.wanted, key.given);
      known = calls_.insert(calls_.end(), std::move(key));
    }
    ++known->calls;
    const CallDerivative& derivative = known->derivative;
    if (!derivative.backward) return;
    Attrs attrs;
    attrs.set(ops::Region::name, builder_.graph().node(id).attrs[ops::Region::name]);
    attrs.bodies.push_back(derivative.backward);
    const OpInfo& op = *builder_.graph().node(id).op;
    std::int32_t forward = id;
    if (forward_calls_ == ForwardCalls::extended) {
      builder_.extend_call(id, derivative.forward);
    } else {
      Attrs repeated = attrs;
      repeated.bodies[0] = derivative.forward;
      forward = builder_.add(op, inputs, std::move(repeated), where).node;
    }
    std::vector<Value> operands;
    for (std::uint32_t i : derivative.operands) operands.push_back(inputs[i]);
    for (std::uint32_t result : derivative.saved) operands.push_back({forward, static_cast<std::int32_t>(result)});
    for (Value gradient : result_gradients)
      if (gradient) operands.push_back(gradient);
    const Value call = builder_.add(op, operands, std::move(attrs), where);
    for (std::size_t i = 0; i < derivative.gradients.size(); ++i)
      accumulate(inputs[derivative.gradients[i]], Val{&builder_, {call.node, static_cast<std::int32_t>(i)}, where});
  }

  void through_decomposition(const OpInfo& op, const Values& inputs, std::span<const Val> operands, const Attrs& attrs,
                             Location where, Val dout) {
    const auto begin = static_cast<std::int32_t>(builder_.graph().nodes().size());
    const Val decomposed = op.decompose(DecomposeArgs{operands, attrs, where});
    Values wanted;
    for (Value in : inputs)
      if (depends(in)) wanted.push_back(in);
    BackwardWalk inner(builder_, begin, wanted);
    inner.accumulate(decomposed.value, dout);
    inner.run();
    // The same value may be several operands; its gradient is their sum already.
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      bool is_first = true;
      for (std::size_t k = 0; k < i; ++k) is_first = is_first && inputs[k] != inputs[i];
      if (const Value g = inner.gradient(inputs[i]); g && is_first) accumulate(inputs[i], Val{&builder_, g, where});
    }
  }

  struct KnownCall {
    std::shared_ptr<const Graph> body;
    std::vector<std::uint8_t> wanted, given;
    CallDerivative derivative;
    int calls = 0;
    /// Among many calls one that wants less (the first layer, by its input) takes what the others have: a few values
    /// that nobody reads cost less than two more bodies.
    static constexpr int many = 7;
    bool serves(const KnownCall& call) const {
      if (body != call.body || given != call.given) return false;
      if (wanted == call.wanted) return true;
      return calls >= many && std::equal(wanted.begin(), wanted.end(), call.wanted.begin(),
                                         [](std::uint8_t mine, std::uint8_t theirs) { return mine >= theirs; });
    }
  };

  GraphBuilder& builder_;
  ForwardCalls forward_calls_;
  std::vector<KnownCall> calls_;
  std::int32_t first_, last_;
  std::span<const Value> wrt_, blocked_;
  std::vector<bool> depends_, is_of_wrt_;  // node first_ + i on a value of wrt_; it has such a value
  std::unordered_map<Value, Value, ValueHash> gradients_;
};

inline void check_loss(const Graph& forward, int loss_output) {
  ensure(loss_output >= 0 && as_index(loss_output) < forward.outputs().size(), "differentiate: no such output");
  const Value loss = forward.outputs()[as_index(loss_output)];
  const Type& type = forward.type(loss);
  const Location where = forward.node(loss).where;
  if (type.shape.rank() != 0)
    throw ShapeError("grad", "the function must return a scalar; use sum or mean: it returned " + type.text(), where);
  if (!is_floating(type.dtype))
    throw DTypeError("grad", "the function must return a floating scalar: it returned " + type.text(), where,
                     "cast it to a floating dtype");
}

inline void check_wrt(const Graph& forward, std::span<const std::int32_t> wrt_inputs) {
  for (std::int32_t position : wrt_inputs) {
    ensure(position >= 0 && as_index(position) < forward.inputs().size(), "differentiate: no such input");
    const Value input = forward.inputs()[as_index(position)];
    if (!is_differentiable(forward.type(input).dtype))
      throw DTypeError(
          "grad",
          "argument " + std::to_string(position) + " is " + forward.type(input).text() + ", it must be floating",
          forward.node(input).where, "differentiate by floating arguments only");
  }
}

}  // namespace reverse_detail

SINTER_DECL void refuse_unfinished(const Graph& gradient) {
  std::vector<const Graph*> seen;  // calls share bodies
  for (const Node& node : gradient.nodes()) {
    if (node.op->refuse != nullptr) node.op->refuse(node.where);
    for (const auto& body : node.attrs.bodies) {
      if (std::find(seen.begin(), seen.end(), body.get()) != seen.end()) continue;
      seen.push_back(body.get());
      refuse_unfinished(Dce{}(*body));
    }
  }
}

namespace reverse_detail {
inline std::vector<Value> gradients_by_walk(GraphBuilder& builder, std::span<const Value> outputs,
                                            std::span<const Value> douts, std::span<const Value> wrt,
                                            ForwardCalls calls, std::span<const Value> blocked = {}) {
  ensure(outputs.size() == douts.size(), "backward: one gradient for each output is required");
  BackwardWalk walk(builder, 0, wrt, calls, blocked);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    walk.accumulate(outputs[i], Val{&builder, douts[i], builder.node(outputs[i]).where});
  walk.run();
  std::vector<Value> gradients;
  for (Value w : wrt) gradients.push_back(walk.gradient_of_its_dtype(w));
  return gradients;
}
}  // namespace reverse_detail

SINTER_DECL std::vector<Value> backward(GraphBuilder& builder, std::span<const Value> outputs,
                                        std::span<const Value> douts, std::span<const Value> wrt) {
  return reverse_detail::gradients_by_walk(builder, outputs, douts, wrt, reverse_detail::ForwardCalls::extended);
}
SINTER_DECL std::vector<Value> backward_beside(GraphBuilder& builder, std::span<const Value> outputs,
                                               std::span<const Value> douts, std::span<const Value> wrt,
                                               std::span<const Value> blocked) {
  return reverse_detail::gradients_by_walk(builder, outputs, douts, wrt, reverse_detail::ForwardCalls::repeated,
                                           blocked);
}

SINTER_DECL Graph differentiate(const Graph& forward, std::span<const std::int32_t> wrt_inputs, int loss_output) {
  reverse_detail::check_loss(forward, loss_output);
  reverse_detail::check_wrt(forward, wrt_inputs);
  GraphBuilder builder(forward);
  std::vector<Value> inputs;
  for (Value input : forward.inputs()) {
    const Node& node = forward.node(input);
    inputs.push_back(builder.input(forward.type(input), node.attrs[input_name], node.where));
  }
  std::vector<Value> outputs = builder.inline_graph(forward, inputs);
  const Value loss = outputs[as_index(loss_output)];
  const Val seed = number(Val{&builder, loss, builder.node(loss).where}, 1);
  std::vector<Value> wrt;
  for (std::int32_t position : wrt_inputs) wrt.push_back(inputs[as_index(position)]);
  std::vector<Value> gradients = backward(builder, {&loss, 1}, {&seed.value, 1}, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i)
    outputs.push_back(gradients[i] ? gradients[i]
                                   : full_like(Val{&builder, wrt[i], builder.node(wrt[i]).where}, 0).value);
  Graph gradient = Dce{}(builder.finish(outputs));
  refuse_unfinished(gradient);
  return gradient;
}

SINTER_NAMESPACE_END
