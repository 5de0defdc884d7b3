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
/// results_of_parts(results..., operands...): the results as they are, a rank's parts of those of a partitioned
/// function that have derivatives. The payload has the function. Gradients of all of them go to the operands, the parts
/// that the rank has, by one call. Means nothing once all derivatives have been taken; a pass drops it then, as
/// custom_derivative.
struct ResultsOfParts {
  static constexpr OpInfo info{
      .name = "results_of_parts", .arity = -1, .kind = OpKind::structured, .takes_complex = true};
  static constexpr OpAttr<std::int64_t> results{"results", 0};
  static constexpr auto attributes = attribute_list(results);
  static void infer(const InferArgs& args, TypeList& out);
  static ValList vjp(const VjpArgs& args);
  static void batch(const BatchArgs& args, BatchedList& out);
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
