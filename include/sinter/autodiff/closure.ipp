// Tracing a function into a graph whose inputs are its arguments and what it captured, and recording that again.
#pragma once

#include <sinter/autodiff/closure.hpp>

#include <sinter/autodiff/transform_trace.hpp>

#include <array>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace autodiff_detail {
struct ClosureGraph {
  TracedCall call;
  std::vector<Tensor> captured;
};

SINTER_DECL std::shared_ptr<const ClosureGraph> end_closure(OpenTrace trace, const Tensor& result, std::string_view op,
                                                            Location where) {
  const std::array<Ref<TensorImpl>, 1> results{result.impl()};
  auto closure = std::make_shared<ClosureGraph>();
  closure->call = TransformTrace::end(std::move(trace), results);
  const TracedCall& call = closure->call;
  if (!call.assigned.empty())
    throw UserError(op, "the function assigns Variable '" + call.assigned[0]->name + "'", where,
                    "assign it outside, and draw random numbers before the call: the function may run any number of "
                    "times");
  for (const Node& node : call.graph.nodes())
    if (node.op->kind == OpKind::effect)
      throw UserError(op, std::string(node.op->name) + " is an effect, and the function may run any number of times",
                      node.where, "move it out of the function");
  for (std::size_t i = call.parameters; i < call.operands.size(); ++i) closure->captured.emplace_back(call.operands[i]);
  return closure;
}

SINTER_DECL Tensor closure_parameter(TransformTrace& trace, const Tensor& like, std::string_view op, Location where) {
  if (!is_differentiable(like.dtype()))
    throw DTypeError(op, "an argument of the function is " + like.impl()->type.text() + ", it must be floating", where,
                     "convert it: x.to(DType::f64)");
  return Tensor(trace.parameter(like.impl()));
}
}  // namespace autodiff_detail

SINTER_DECL const std::vector<Tensor>& Closure::captured() const { return graph_->captured; }
SINTER_DECL Tensor Closure::operator()(const Tensor& x, std::span<const Tensor> captured) const {
  return (*this)(std::span(&x, 1), captured);
}

SINTER_DECL const Type& Closure::result_type() const {
  const Graph& graph = graph_->call.graph;
  return graph.type(graph.outputs()[0]);
}

SINTER_DECL Tensor Closure::operator()(std::span<const Tensor> args, std::span<const Tensor> captured) const {
  std::vector<Ref<TensorImpl>> operands;
  for (const Tensor& x : args) operands.push_back(x.impl());
  for (const Tensor& x : captured) operands.push_back(x.impl());
  ensure(operands.size() == graph_->call.operands.size(),
         "Closure: another number of operands than it was traced with");
  return Tensor(replay(graph_->call.graph, operands)[0]);
}

}  // namespace jit
SINTER_NAMESPACE_END
