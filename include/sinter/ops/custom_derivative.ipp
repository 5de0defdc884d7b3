// Derivative and batching rule of values with a given derivative: both are the sub-graph, inlined or over the batch.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/custom_derivative.hpp>
#include <sinter/ops/reduction.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace ops {

SINTER_DECL void CustomDerivative::infer(const InferArgs& args, TypeList& out) {
  const auto count = as_index(args.attrs[results]);
  ensure(args.attrs.bodies.size() == 1 && args.in.size() >= count && count > 0,
         "custom_derivative: results and a sub-graph are required");
  const std::int64_t given = args.attrs[parameters];
  ensure(given >= 0 && as_index(given) <= args.in.size() - count, "custom_derivative: parameters are operands");
  for (std::int64_t i : args.attrs[differentiated])
    ensure(i >= 0 && i < given, "custom_derivative: gradients are those of parameters");
  for (std::size_t i = 0; i < count; ++i) out.push_back(args.in[i]);
}

SINTER_DECL ValList CustomDerivative::vjp(const VjpArgs& a) {
  const auto made = as_index(a.attrs[results]), given = as_index(a.attrs[parameters]);
  GraphBuilder& builder = *a.in[0].builder;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < given; ++i) operands.push_back(a.in[made + i].value);
  for (std::size_t i = 0; i < made; ++i) operands.push_back(a.outs[i].value);
  for (std::size_t i = 0; i < made; ++i)
    operands.push_back(a.douts[i] ? a.douts[i].value : full_like(a.outs[i], 0).value);
  for (std::size_t i = made + given; i < a.in.size(); ++i) operands.push_back(a.in[i].value);
  const std::vector<Value> gradients = builder.inline_graph(*a.attrs.bodies[0], operands);
  ValList out;
  for (std::size_t i = 0; i < a.in.size(); ++i) out.push_back(Val{});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    out[made + as_index(a.attrs[differentiated][i])] = Val{&builder, gradients[i], a.where};
  return out;
}

/// The derivative of each example; for what is the same in all examples, their sum.
SINTER_DECL void CustomDerivative::batch(const BatchArgs& a, BatchedList& out) {
  const auto count = as_index(a.attrs[results]), given = as_index(a.attrs[parameters]);
  const Graph& body = *a.attrs.bodies[0];
  GraphBuilder batched_body(body);
  std::vector<Batched> inputs;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const bool is_result = i >= given && i < given + 2 * count;  // or the gradient of one
    const bool is_batched = is_result || a.is_batched(i < given ? count + i : i - count);
    Type type = body.type(body.inputs()[i]);
    if (is_batched) type.shape = ops_detail::batched_shape(a.size, type.shape);
    inputs.push_back(Batched(Val{&batched_body, batched_body.input(type, {}, a.where), a.where}, is_batched));
  }
  std::vector<Value> gradients;
  const std::vector<Batched> outputs = a.vectorise(batched_body, body, inputs, a.size);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Val x = outputs[i].value;
    const Val stacked = outputs[i].is_batched ? x : expand(x, ops_detail::batched_shape(a.size, x.shape()));
    gradients.push_back(
        (a.is_batched(count + as_index(a.attrs[differentiated][i])) ? stacked : sum(stacked, {0})).value);
  }
  Attrs attrs = a.attrs;
  attrs.bodies[0] = std::make_shared<const Graph>(batched_body.finish(gradients));
  std::vector<Value> operands;
  for (std::size_t i = 0; i < a.in.size(); ++i)
    operands.push_back((i < count ? ops_detail::with_batch(a, i) : a.in[i]).value);
  GraphBuilder& builder = *a.in[0].builder;
  const Value node = builder.add(a.op, operands, std::move(attrs), a.where);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(Batched(Val{&builder, Value{node.node, static_cast<std::int32_t>(i)}, a.where}));
}

SINTER_DECL Batched Barrier::batch(const BatchArgs& a) {
  if (a.is_batched(0)) return ops_detail::batch_elementwise(a);
  const Val token = reshape(slice_axis(a.in[1], 0, 0, 1), {});  // any example's is right
  return {apply(a.op, {a.in[0], token}), false};
}

}  // namespace ops
SINTER_NAMESPACE_END
