// The nodes that give gradients a path of their own, and the sub-graphs that say which.
#pragma once

#include <sinter/autodiff/custom.hpp>

#include <sinter/autodiff/call.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

/// The floating ones of `results`, with the derivative `body` by `parameters`; `captured` are further inputs of the
/// body.
inline std::vector<Ref<TensorImpl>> record_derivative(std::vector<Ref<TensorImpl>> results,
                                                      std::span<const Ref<TensorImpl>> parameters,
                                                      std::span<const Ref<TensorImpl>> captured, Graph body,
                                                      IntVector with_gradient, Location where) {
  std::vector<Leaf> leaves;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_differentiable(results[i]->type.dtype)) continue;
    places.push_back(i);
    leaves.emplace_back(results[i]);
  }
  for (const auto& value : parameters) leaves.emplace_back(value);
  for (const auto& value : captured) leaves.emplace_back(value);
  Attrs attrs;
  attrs.set(ops::CustomDerivative::results, static_cast<std::int64_t>(places.size()));
  attrs.set(ops::CustomDerivative::parameters, static_cast<std::int64_t>(parameters.size()));
  attrs.set(ops::CustomDerivative::differentiated, with_gradient);
  attrs.bodies.push_back(std::make_shared<const Graph>(std::move(body)));
  const std::vector<Ref<TensorImpl>> values =
      record_results(op_info<ops::CustomDerivative>, leaves, std::move(attrs), where);
  for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = values[i];
  return results;
}

/// The gradients of a graph's inputs, with all of it computed again behind a barrier.
inline Graph recomputing_derivative(const Graph& graph, std::span<const std::size_t> floating_results,
                                    IntVector& with_gradient) {
  GraphBuilder builder(graph);
  std::vector<Value> inputs, again, douts, outputs, wrt;
  for (Value v : graph.inputs()) inputs.push_back(builder.input(graph.type(v), {}, graph.node(v).where));
  for (std::size_t i : floating_results)
    builder.input(graph.type(graph.outputs()[i]));  // the results, which it does not ask for
  for (std::size_t i : floating_results) douts.push_back(builder.input(graph.type(graph.outputs()[i])));
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Val x{&builder, inputs[i], builder.node(inputs[i]).where};
    again.push_back(
        apply(op_info<ops::Barrier>, {x, reverse_detail::backward_token(Val{&builder, douts[0], x.where}, x.dtype())})
            .value);
    if (!is_differentiable(x.dtype())) continue;
    floating.push_back(i);
    wrt.push_back(again.back());
  }
  const std::vector<Value> results = builder.inline_graph(graph, again);
  for (std::size_t i : floating_results) outputs.push_back(results[i]);
  const std::vector<Value> gradients = backward(builder, outputs, douts, wrt);
  std::vector<Value> known;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    known.push_back(gradients[i]);
    with_gradient.push_back(static_cast<std::int64_t>(floating[i]));
  }
  return Dce{}(builder.finish(known));
}

SINTER_DECL std::vector<Ref<TensorImpl>> checkpoint_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results,
                                                         Location where) {
  const TracedCall call = TransformTrace::end(std::move(trace), results);
  for (const Node& node : call.graph.nodes())
    if (node.op->kind == OpKind::effect)
      throw UserError("checkpoint",
                      std::string(node.op->name) + " is an effect, which would happen again in the backward pass",
                      node.where, "move it out of the checkpointed function");
  std::vector<Ref<TensorImpl>> values = replay_call(call, call.graph);
  values.resize(call.results);
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (is_differentiable(values[i]->type.dtype)) floating.push_back(i);
  if (floating.empty()) return values;
  IntVector with_gradient;
  Graph body = recomputing_derivative(call.graph, floating, with_gradient);
  return record_derivative(std::move(values), call.operands, {}, std::move(body), std::move(with_gradient), where);
}

SINTER_DECL std::vector<Ref<TensorImpl>> custom_forward(OpenTrace trace, std::span<const Ref<TensorImpl>> results,
                                                        Location where) {
  const TracedCall call = TransformTrace::end(std::move(trace), results);
  for (std::size_t i = call.parameters; i < call.operands.size(); ++i) {
    const TensorImpl& captured = *call.operands[i];
    const Trace* owner = captured.trace != 0 && !captured.is_ready() ? Trace::find(captured.trace) : nullptr;
    const bool is_differentiated = owner != nullptr && (owner->name() == "grad" || owner->name() == "vjp" ||
                                                        owner->name() == "jvp" || owner->name() == "jacobian");
    if (is_differentiable(captured.type.dtype) && (is_differentiated || captured.tape != TapeState::none))
      throw UserError(
          "custom_vjp", "the function captures " + captured.type.text() + ", which is being differentiated", where,
          "make it an argument, so that the backward function can give its gradient, or stop_gradient it before");
  }
  std::vector<Ref<TensorImpl>> values = replay_call(call, call.graph);
  values.resize(call.results);
  return values;
}

SINTER_DECL std::vector<Ref<TensorImpl>> custom_call(OpenTrace rule, std::size_t parameters,
                                                     std::span<const Ref<TensorImpl>> results,
                                                     std::vector<Ref<TensorImpl>> gradients, Location where) {
  if (gradients.size() != parameters)
    throw UserError("custom_vjp",
                    "the backward function gave " + std::to_string(gradients.size()) + " floating gradients for " +
                        std::to_string(parameters) + " floating arguments",
                    where, "return one for each, in a tuple if there are several arguments");
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = checked_derivative(std::move(gradients[i]), rule->parameter_value(i)->type, "custom_vjp",
                                      "gradient " + std::to_string(i), where);
  const TracedCall call = TransformTrace::end(std::move(rule), gradients);
  if (!call.assigned.empty())
    throw UserError("custom_vjp", "the backward function assigns Variable '" + call.assigned[0]->name + "'", where,
                    "assign it outside of the derivative");
  if (call.parameters == parameters) return {results.begin(), results.end()};  // no floating result
  IntVector with_gradient;
  for (std::size_t i = 0; i < parameters; ++i) with_gradient.push_back(static_cast<std::int64_t>(i));
  const std::span<const Ref<TensorImpl>> operands = call.operands;
  return record_derivative({results.begin(), results.end()}, operands.first(parameters),
                           operands.subspan(call.parameters), call.graph, std::move(with_gradient), where);
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
