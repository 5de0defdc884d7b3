// Calls of the payload.
#pragma once

#include <sinter/ops/host_function.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL void HostFunction::infer(const InferArgs& args, TypeList& out) const {
  for (const Type& type : args.attrs.types) out.push_back(type);
}

SINTER_DECL ValList HostFunction::vjp(const VjpArgs& args) const {
  throw UserError(name(), "it has no derivative, and a gradient is asked for", args.where,
                  "give it one (.vjp), or keep its operands from being differentiated with stop_gradient");
}

namespace ops_detail {

SINTER_DECL const HostFunction& host_function(const Attrs& attrs) {
  const auto* function = payload_cast<HostFunction>(attrs.payload.get());
  ensure(function != nullptr, "a host operation has lost its function");
  return *function;
}

SINTER_DECL bool runs_on_devices(const Attrs& attrs) {
  const auto* function = payload_cast<HostFunction>(attrs.payload.get());
  return function != nullptr && function->runs_on_devices();
}

SINTER_DECL void run_host_function(HostCall& call) { host_function(call.attrs).run(call, call.in, call.out); }
SINTER_DECL void run_host_effect(HostCall& call) {
  host_function(call.attrs).run(call, call.in.first(call.in.size() - 1), call.out.first(call.out.size() - 1));
}
SINTER_DECL void infer_host_function(const InferArgs& args, TypeList& out) {
  host_function(args.attrs).infer(args, out);
}

SINTER_DECL void infer_host_effect(const InferArgs& args, TypeList& out) {
  InferArgs without_token = args;
  without_token.in = args.in.first(args.in.size() - 1);
  host_function(args.attrs).infer(without_token, out);
  out.push_back({DType::bool_, Device::cpu(), {}});
}

SINTER_DECL ValList host_function_vjp(const VjpArgs& args) { return host_function(args.attrs).vjp(args); }

SINTER_DECL ValList host_effect_vjp(const VjpArgs& args) {
  VjpArgs without_token = args;
  without_token.in = args.in.first(args.in.size() - 1);
  without_token.outs = args.outs.first(args.outs.size() - 1);
  without_token.douts = args.douts.first(args.douts.size() - 1);
  ValList gradients = host_function(args.attrs).vjp(without_token);
  gradients.push_back(Val{});
  return gradients;
}

SINTER_DECL void batch_host_function(const BatchArgs& args, BatchedList& results) {
  host_function(args.attrs).batch(args, results);
}

SINTER_DECL void batch_as_whole(const BatchArgs& args, Attrs attrs, BatchedList& results) {
  GraphBuilder& builder = *args.in[0].builder;
  std::vector<Value> operands;
  for (const Val& operand : args.in) operands.push_back(operand.value);
  const Value made = builder.add(args.op, operands, std::move(attrs), args.where);
  const std::size_t count = builder.node(made).types.size();
  for (std::size_t r = 0; r < count; ++r) {
    const bool is_token = args.op.kind == OpKind::effect && r + 1 == count;
    results.push_back(Batched(Val{&builder, Value{made.node, static_cast<std::int32_t>(r)}, args.where}, !is_token));
  }
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type CustomComposite::infer(const InferArgs& args) {
  const Graph& body = *args.attrs.bodies.at(0);
  return body.type(body.outputs()[as_index(args.attrs[result])]);
}

SINTER_DECL Val CustomComposite::decompose(const DecomposeArgs& args) {
  std::vector<Value> operands;
  for (const Val& operand : args.in) operands.push_back(operand.value);
  GraphBuilder& builder = *args.in[0].builder;
  const std::vector<Value> results = builder.inline_graph(*args.attrs.bodies.at(0), operands);
  return {&builder, results[as_index(args.attrs[result])], args.where};
}

/// The derivative wants all results: the others are nodes like this one.
SINTER_DECL ValList CustomComposite::vjp(const VjpArgs& args) {
  GraphBuilder& builder = *args.in[0].builder;
  std::vector<Value> operands;
  for (const Val& operand : args.in) operands.push_back(operand.value);
  std::vector<Val> outs, gradients;
  for (std::size_t i = 0; i < args.attrs.bodies.at(0)->outputs().size(); ++i) {
    const bool is_this = args.attrs[result] == static_cast<std::int64_t>(i);
    Attrs attrs = args.attrs;
    attrs.set(result, static_cast<std::int64_t>(i));
    outs.push_back(
        is_this
            ? args.out
            : Val{&builder, builder.add(op_info<CustomComposite>, operands, std::move(attrs), args.where), args.where});
    gradients.push_back(is_this ? args.dout : Val{});
  }
  VjpArgs all = args;
  all.outs = outs;
  all.douts = gradients;
  return ops_detail::host_function_vjp(all);
}

}  // namespace ops
SINTER_NAMESPACE_END
