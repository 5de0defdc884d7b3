// The derivative of a call of a partitioned function, taken from outside: the derivative of the function of whole
// tensors, divided itself. It is made where somebody asks for it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/partition_plan.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/op.hpp>

#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops {
/// result_of_parts(result, operands...) = result, a rank's part of one result of a partitioned function, whose payload
/// has the function. Gradients go to the operands, the parts that the rank has.
struct ResultOfParts {
  static constexpr OpInfo info{.name = "result_of_parts",
                               .arity = -1,
                               .kind = OpKind::composite,
                               .dtypes = DTypeRule::first,
                               .takes_complex = true};
  static Type infer(const InferArgs& args) { return args.in[0]; }
  static Val decompose(const DecomposeArgs& args) { return args.in[0]; }
  static ValList vjp(const VjpArgs& args);
  static Batched batch(const BatchArgs& args);
};
}  // namespace ops

namespace dist::partition_detail {

/// A function of whole tensors, and how its inputs and outputs lie.
struct DividedFunction {
  Graph graph;
  Mesh mesh;
  std::vector<Shares> inputs, outputs;
  MachineCosts costs;
  Location where;
};
/// Records what a rank does by the plan, on its parts.
std::vector<Ref<TensorImpl>> record_parts(const PartitionPlan& plan, std::span<const Ref<TensorImpl>> operands,
                                          Location where);
/// Plans a function and records it; its results have derivatives.
std::vector<Ref<TensorImpl>> record_divided(DividedFunction function, std::span<const Ref<TensorImpl>> operands);

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
