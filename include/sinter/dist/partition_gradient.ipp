// Derivatives of divided functions, as divided functions.
#pragma once

#include <sinter/dist/partition_gradient.hpp>

#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/laid_out.hpp>
#include <sinter/dist/partition_search.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/val_ops.hpp>

#include <algorithm>
#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

/// Some outputs of a function that is divided.
class DividedOutputs final : public Payload {
 public:
  DividedOutputs(std::shared_ptr<const DividedFunction> function, std::vector<std::size_t> outputs)
      : function_(std::move(function)), outputs_(std::move(outputs)) {}
  std::string text() const override {
    std::string text = "results";
    for (const std::size_t output : outputs_) text += " " + std::to_string(output);
    return text + " of a partitioned function";
  }
  bool is_a(TypeKey type) const override { return type == type_key<DividedOutputs>(); }
  bool same_as(const Payload& other) const override {
    const auto* divided = payload_cast<DividedOutputs>(&other);
    if (divided == nullptr || divided->outputs_ != outputs_) return false;
    const DividedFunction &a = *function_, &b = *divided->function_;
    if (&a == &b) return true;
    return a.mesh == b.mesh && a.inputs == b.inputs && a.outputs == b.outputs && a.costs == b.costs &&
           structurally_equal(a.graph, b.graph);
  }
  /// Traced again, it has another graph of the same operations.
  bool may_be_retrace_of(const Payload& other) const override {
    const auto* divided = payload_cast<DividedOutputs>(&other);
    if (divided == nullptr || divided->outputs_ != outputs_) return false;
    const DividedFunction &a = *function_, &b = *divided->function_;
    return a.mesh == b.mesh && a.inputs == b.inputs && a.outputs == b.outputs && may_be_retrace(a.graph, b.graph);
  }
  const DividedFunction& function() const { return *function_; }
  const std::vector<std::size_t>& outputs() const { return outputs_; }

 private:
  std::shared_ptr<const DividedFunction> function_;
  std::vector<std::size_t> outputs_;
};

SINTER_DECL std::vector<Ref<TensorImpl>> record_divided(DividedFunction function,
                                                        std::span<const Ref<TensorImpl>> operands) {
  const PartitionPlan plan = plan_partition(prepare_partition(function.graph), function.mesh, function.inputs,
                                            function.outputs, function.costs);
  log_plan(plan);
  std::vector<Ref<TensorImpl>> results;
  {
    const MeshScope scope(function.mesh, function.where);
    results = record_parts(plan, operands, function.where);
  }
  // What happens once cannot be computed again: such functions are differentiated inside alone.
  const auto& nodes = function.graph.nodes();
  const bool is_pure =
      std::none_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op->kind == OpKind::effect; });
  if (!is_pure) return results;
  const auto shared = std::make_shared<const DividedFunction>(std::move(function));
  std::vector<std::size_t> places;
  std::vector<Leaf> leaves;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_differentiable(results[i]->type.dtype)) continue;
    places.push_back(i);
    leaves.emplace_back(results[i]);
  }
  if (places.empty()) return results;
  for (const auto& operand : operands) leaves.emplace_back(operand);
  Attrs attrs;
  attrs.set(ops::ResultsOfParts::results, static_cast<std::int64_t>(places.size()));
  attrs.payload = std::make_shared<DividedOutputs>(shared, places);
  const std::vector<Ref<TensorImpl>> values =
      record_results(op_info<ops::ResultsOfParts>, leaves, std::move(attrs), shared->where);
  for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = values[i];
  return results;
}

/// What is whole where a rank has this part of what was `traced`: a function that was compiled for one size of the
/// batch may be differentiated for another.
inline Type type_of_whole(Type part, const Type& traced, const Shares& shares, const Mesh& mesh) {
  const Shape now = own_part_of_shape(traced.shape, shares, mesh);
  bool is_as_traced = true;
  for (int axis = 0; axis < now.rank(); ++axis) is_as_traced &= identical(now[axis], part.shape[axis]);
  if (is_as_traced) return traced;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (is_part(shares[i])) part.shape.set(shares[i], part.shape[shares[i]] * Dim(mesh.axes()[i].size));
  return part;
}

/// The gradients of some outputs together by the inputs whose positions are in `wrt`, of which those stay that the
/// outputs depend on: a function of the inputs and the outputs' gradients, on whole tensors.
inline DividedFunction gradient_of(const DividedFunction& function, std::span<const std::size_t> outputs,
                                   std::span<const Type> parts, std::vector<std::size_t>& wrt) {
  GraphBuilder builder(function.graph);
  std::vector<Value> inputs, differentiated, douts, by;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Value v = function.graph.inputs()[i];
    inputs.push_back(builder.input(type_of_whole(parts[i], function.graph.type(v), function.inputs[i], function.mesh),
                                   {}, function.where));
  }
  const std::vector<Value> results = builder.inline_graph(function.graph, inputs);
  DividedFunction made{{}, function.mesh, function.inputs, {}, function.costs, function.where};
  for (const std::size_t output : outputs) {
    differentiated.push_back(results[output]);
    douts.push_back(builder.input(builder.type(results[output]), {}, function.where));
    made.inputs.push_back(function.outputs[output]);
  }
  for (const std::size_t i : wrt) by.push_back(inputs[i]);
  const std::vector<Value> gradients = sinter::backward(builder, differentiated, douts, by);
  std::vector<std::size_t> known;
  std::vector<Value> made_outputs;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!gradients[i]) continue;
    known.push_back(wrt[i]);
    made_outputs.push_back(gradients[i]);
    made.outputs.push_back(function.inputs[wrt[i]]);
  }
  wrt = std::move(known);
  made.graph = builder.finish(made_outputs);
  return made;
}

}  // namespace dist::partition_detail

namespace ops {
SINTER_DECL void ResultsOfParts::infer(const InferArgs& args, TypeList& out) {
  const std::int64_t count = args.attrs[results];
  ensure(count > 0 && as_index(count) <= args.in.size(), "results_of_parts: results are required");
  for (std::size_t i = 0; i < as_index(count); ++i) out.push_back(args.in[i]);
}

SINTER_DECL ValList ResultsOfParts::vjp(const VjpArgs& args) {
  using namespace dist::partition_detail;
  using jit::autodiff_detail::OpenTrace;
  using jit::autodiff_detail::TransformTrace;
  ValList out;
  for (std::size_t i = 0; i < args.in.size(); ++i) out.push_back(Val{});
  const auto* divided = payload_cast<DividedOutputs>(args.attrs.payload.get());
  const std::size_t made_before = as_index(args.attrs[results]);
  if (divided == nullptr) return out;
  std::vector<std::size_t> wrt, outputs;
  for (std::size_t i = made_before; i < args.in.size(); ++i)
    if (args.needs(i) && is_differentiable(args.in[i].dtype())) wrt.push_back(i - made_before);
  for (std::size_t i = 0; i < made_before; ++i)
    if (args.douts[i]) outputs.push_back(divided->outputs()[i]);
  if (outputs.empty()) return out;
  GraphBuilder& builder = *args.in[0].builder;
  std::vector<Type> types;
  for (std::size_t i = made_before; i < args.in.size(); ++i) types.push_back(builder.type(args.in[i].value));
  DividedFunction gradient = gradient_of(divided->function(), outputs, types, wrt);
  if (wrt.empty()) return out;

  std::vector<Value> given;
  OpenTrace trace("partition");
  std::vector<Ref<TensorImpl>> parts;
  const auto add_part = [&](const Val& value) {
    given.push_back(value.value);
    const Type type = builder.type(value.value);
    parts.push_back(trace->parameter(trace->placeholder(type), type));
  };
  for (std::size_t i = made_before; i < args.in.size(); ++i) add_part(args.in[i]);
  for (std::size_t i = 0; i < made_before; ++i)
    if (args.douts[i]) add_part(args.douts[i]);
  const std::vector<Ref<TensorImpl>> gradients = record_divided(std::move(gradient), parts);
  const auto call = TransformTrace::end(std::move(trace), gradients);
  for (std::size_t i = call.parameters; i < call.operands.size(); ++i)  // constants of the function
    given.push_back(builder.constant(call.operands[i], args.where));
  const std::vector<Value> made = builder.inline_graph(call.graph, given);
  for (std::size_t i = 0; i < wrt.size(); ++i) out[wrt[i] + made_before] = Val{&builder, made[i], args.where};
  return out;
}

/// The batched operations have derivatives of their own, but none of whole tensors.
SINTER_DECL void ResultsOfParts::batch(const BatchArgs& args, BatchedList& out) {
  Attrs attrs;
  attrs.payload = dist::partition_detail::no_gradient_payload();
  for (std::size_t i = 0; i < as_index(args.attrs[results]); ++i)
    out.push_back(Batched(apply(op_info<LaidOut>, {args.in[i]}, attrs), args.is_batched(i)));
}
}  // namespace ops
SINTER_NAMESPACE_END
