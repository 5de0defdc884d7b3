// Forward mode, halves and matrices out of the reverse walk and the vectoriser.
#pragma once

#include <sinter/autodiff/cut.hpp>
#include <sinter/autodiff/forward.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/vectorise.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/outline.hpp>

SINTER_NAMESPACE_BEGIN
namespace forward_detail {

inline Val val(GraphBuilder& builder, Value v) { return {&builder, v, builder.node(v).where}; }

/// The inputs of `graph` as inputs of the builder.
inline std::vector<Value> copy_inputs(GraphBuilder& builder, const Graph& graph) {
  std::vector<Value> inputs;
  for (Value input : graph.inputs()) {
    const Node& node = graph.node(input);
    inputs.push_back(builder.input(graph.type(input), node.attrs[input_name], node.where));
  }
  return inputs;
}

inline Value zeros_like(GraphBuilder& builder, Value v) {
  // Of the value's type on its device: `full` is made on the CPU, and a number joins operands on any device.
  return full_like(val(builder, v), 0).value;
}

/// A graph that computes the forward values once more, for a derivative: effects have run, and do not run again.
inline Graph derivative_graph(const Graph& graph) {
  const Graph derivative = Dce{.drops_effects = true}(graph);
  for (const Node& node : derivative.nodes())
    if (node.op->kind == OpKind::effect)
      throw UserError("jacobian",
                      "the derivative needs the result of a " + std::string(node.op->name) + ", which would run again",
                      node.where,
                      "make it .pure = true if it has no effects, or put stop_gradient around its result and what "
                      "depends on it; of "
                      "collectives take jit::grad or jit::jvp for each row");
  return derivative;
}

/// Gradients of the first `parameters` inputs for gradients of the outputs, all of which are further inputs.
inline Graph vjp_graph(const Graph& forward, std::size_t parameters, std::size_t results) {
  GraphBuilder builder(forward);
  std::vector<Value> inputs = copy_inputs(builder, forward);
  const std::vector<Value> all = builder.inline_graph(forward, inputs);
  std::vector<Value> outputs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(results)), douts, gradients;
  for (Value output : outputs)
    douts.push_back(builder.input(Type(builder.type(output)), {}, builder.node(output).where));
  const std::span<const Value> wrt(inputs.data(), parameters);
  gradients = backward(builder, outputs, douts, wrt);
  for (std::size_t i = 0; i < parameters; ++i)
    if (!gradients[i]) gradients[i] = zeros_like(builder, wrt[i]);
  return derivative_graph(builder.finish(gradients));
}

/// The unit vectors of `shape`, one after the other along the first axis.
inline Val unit_vectors(GraphBuilder& builder, Value like, Dim count) {
  const Val v = val(builder, like);
  const Val rows = iota(v, {count, count}, 0, DType::i64), columns = iota(v, {count, count}, 1, DType::i64);
  Shape shape{count};
  const Shape of = v.shape();
  for (Dim dim : of.dims()) shape.push_back(dim, v.where);
  return reshape(cast(eq(rows, columns), v.dtype()), shape);
}

inline Shape joined_shape(const Shape& a, const Shape& b, Location where) {
  if (a.rank() + b.rank() > max_rank)
    throw ShapeError("jacobian",
                     "the result is " + a.text() + ", the parameter is " + b.text() + ": together more than " +
                         std::to_string(max_rank) + " axes",
                     where, "flatten one of them");
  Shape shape = a;
  for (Dim dim : b.dims()) shape.push_back(dim);
  return shape;
}

/// One row for each element of the output: gradients of the unit vectors.
inline Value jacobian_by_rows(GraphBuilder& builder, const Graph& vjp, std::span<const Value> inputs, Value output,
                              std::size_t parameter, const Shape& shape) {
  const Dim rows = builder.type(output).shape.numel();
  std::vector<Batched> operands;
  for (Value v : inputs) operands.push_back(Batched(val(builder, v), false));
  operands.push_back(Batched(unit_vectors(builder, output, rows), true));
  const Batched gradient = vectorise(builder, vjp, operands, rows)[parameter];
  Shape stretched{rows};
  for (Dim dim : builder.type(inputs[parameter]).shape.dims()) stretched.push_back(dim);
  return reshape(gradient.is_batched ? gradient.value : expand(gradient.value, stretched), shape).value;
}

/// One column for each element of the parameter: derivatives along the unit vectors.
inline Value jacobian_by_columns(GraphBuilder& builder, const Graph& jvp, std::span<const Value> inputs, Value output,
                                 std::size_t parameter, const Shape& shape) {
  const Dim columns = builder.type(inputs[parameter]).shape.numel();
  std::vector<Batched> operands;
  for (Value v : inputs) operands.push_back(Batched(val(builder, v), false));
  operands.push_back(Batched(unit_vectors(builder, inputs[parameter], columns), true));
  const Batched tangent = vectorise(builder, jvp, operands, columns)[0];
  const Shape result = builder.type(output).shape;
  Shape stretched{columns};
  for (Dim dim : result.dims()) stretched.push_back(dim);
  IntVector order;  // columns last
  for (int i = 0; i < result.rank(); ++i) order.push_back(i + 1);
  order.push_back(0);
  return reshape(permute(tangent.is_batched ? tangent.value : expand(tangent.value, stretched), order), shape).value;
}

/// The derivative of output 0 along a tangent of one parameter, which is a further input.
inline Graph jvp_by_parameter(const Graph& forward, std::size_t parameter) {
  GraphBuilder builder(forward);
  std::vector<Value> inputs = copy_inputs(builder, forward);
  const Value output = builder.inline_graph(forward, inputs)[0];
  const Value tangent = builder.input(Type(builder.type(inputs[parameter])), {}, builder.node(inputs[parameter]).where);
  Value derivative = push_forward(builder, {&output, 1}, {&inputs[parameter], 1}, {&tangent, 1})[0];
  if (!derivative) derivative = zeros_like(builder, output);
  return derivative_graph(builder.finish({&derivative, 1}));
}

inline bool is_by_rows(const Shape& output, const Shape& parameter) {
  const Dim rows = output.numel(), columns = parameter.numel();
  return !(rows.is_static() && columns.is_static()) ||
         rows.value() <= columns.value();  // unknown: no guard for a choice
}

/// Whether the forward half keeps `v` for the backward half, which starts at node `boundary`. Views and what is made
/// from nothing are made again.
inline bool is_kept(const Graph& joint, std::int32_t boundary, Value v) {
  const Node& node = joint.node(v);
  return node.op == &op_info<ops::Input> ||
         (v.node < boundary && !node.inputs.empty() && node.op->kind != OpKind::view);
}

}  // namespace forward_detail

SINTER_DECL std::vector<Value> push_forward(GraphBuilder& builder, std::span<const Value> outputs,
                                            std::span<const Value> wrt, std::span<const Value> tangents) {
  using namespace forward_detail;
  ensure(wrt.size() == tangents.size(), "push_forward: a tangent for each value is required");
  // Gradients by these do not depend on their values, so zeros do.
  std::vector<Value> probed, probes, positions(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_differentiable(builder.type(outputs[i]).dtype)) continue;
    probed.push_back(outputs[i]);
    probes.push_back(
        full(val(builder, outputs[i]), builder.type(outputs[i]).shape, builder.type(outputs[i]).dtype, 0).value);
    positions[i] = probes.back();
  }
  const std::vector<Value> gradients = backward(builder, probed, probes, wrt);
  std::vector<Value> reached, along;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!gradients[i]) continue;
    reached.push_back(gradients[i]);
    along.push_back(tangents[i]);
  }
  const std::vector<Value> derivatives = backward(builder, reached, along, probes);
  std::vector<Value> result(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t k = 0; k < probes.size(); ++k)
      if (positions[i] && probes[k] == positions[i]) result[i] = derivatives[k];
  return result;
}

SINTER_DECL Graph jvp_graph(const Graph& traced, std::size_t parameters, std::size_t results) {
  const Graph forward = inline_calls(traced);
  using namespace forward_detail;
  GraphBuilder builder(forward);
  std::vector<Value> inputs = copy_inputs(builder, forward), tangents;
  for (std::size_t i = 0; i < parameters; ++i)
    tangents.push_back(builder.input(Type(builder.type(inputs[i])), {}, builder.node(inputs[i]).where));
  std::vector<Value> outputs = builder.inline_graph(forward, inputs);
  const std::vector<Value> derivatives =
      push_forward(builder, {outputs.data(), results}, {inputs.data(), parameters}, tangents);
  for (std::size_t i = 0; i < results; ++i)
    outputs.push_back(derivatives[i] ? derivatives[i] : zeros_like(builder, outputs[i]));
  return Dce{}(builder.finish(outputs));
}

SINTER_DECL ForwardBackward split_vjp(const Graph& traced, std::size_t parameters, std::size_t results) {
  const Graph forward = inline_calls(traced);
  using namespace forward_detail;
  GraphBuilder builder(forward);
  std::vector<Value> inputs = copy_inputs(builder, forward);
  const std::vector<Value> outputs = builder.inline_graph(forward, inputs);
  const auto boundary = static_cast<std::int32_t>(builder.graph().nodes().size());
  std::vector<Value> douts;
  for (std::size_t i = 0; i < results; ++i)
    douts.push_back(builder.input(Type(builder.type(outputs[i])), {}, builder.node(outputs[i]).where));
  std::vector<Value> gradients = backward(builder, {outputs.data(), results}, douts, {inputs.data(), parameters});
  for (std::size_t i = 0; i < parameters; ++i)
    if (!gradients[i]) gradients[i] = zeros_like(builder, inputs[i]);
  std::vector<Value> results_and_gradients = outputs;
  results_and_gradients.insert(results_and_gradients.end(), gradients.begin(), gradients.end());
  const Graph joint = builder.finish(results_and_gradients);
  CutGraph backward_half = cut_graph(
      joint, gradients, douts, [&](Value v) { return is_kept(joint, boundary, v); },
      [&](std::int32_t id) { return id >= boundary; });
  std::vector<Value> early = outputs;
  early.insert(early.end(), backward_half.inputs.begin(),
               backward_half.inputs.end() - static_cast<std::ptrdiff_t>(results));
  CutGraph forward_half =
      cut_graph(joint, early, inputs, [](Value) { return false; }, [&](std::int32_t id) { return id < boundary; });
  return {std::move(forward_half.graph), std::move(backward_half.graph)};
}

SINTER_DECL Graph jacobian_graph(const Graph& traced, std::size_t parameters, Location where) {
  const Graph forward = inline_calls(traced);
  using namespace forward_detail;
  GraphBuilder builder(forward);
  std::vector<Value> inputs = copy_inputs(builder, forward);
  std::vector<Value> outputs = builder.inline_graph(forward, inputs);
  Graph vjp;
  for (std::size_t i = 0; i < parameters; ++i) {
    const Shape output = builder.type(outputs[0]).shape, parameter = builder.type(inputs[i]).shape,
                shape = joined_shape(output, parameter, where);
    if (is_by_rows(output, parameter)) {
      if (vjp.outputs().empty()) vjp = vjp_graph(forward, parameters, 1);
      outputs.push_back(jacobian_by_rows(builder, vjp, inputs, outputs[0], i, shape));
    } else {
      outputs.push_back(jacobian_by_columns(builder, jvp_by_parameter(forward, i), inputs, outputs[0], i, shape));
    }
  }
  return Dce{}(builder.finish(outputs));
}

SINTER_NAMESPACE_END
