// Along one axis of a mesh: which shares of its operands an operation can work on by itself, and what they give. Each
// op that can has a rule in one table; what has none works on whole operands. Knows neither costs nor collectives.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/attention.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops {
/// attention_gradients(q, k, v, out, dout, mask?): what scaled_dot_product_attention_gradient gives, taken apart again,
/// so that batch and heads can be divided. Stands in plans of partitions alone.
struct AttentionGradients {
  static constexpr OpInfo info{.name = "attention_gradients", .arity = -1, .kind = OpKind::structured};
  static constexpr auto attributes = ScaledDotProductAttention::attributes;
  static void infer(const InferArgs& args, TypeList& out) {
    for (std::size_t i = 0; i < 3; ++i) out.push_back(args.in[i]);
  }
};
}  // namespace ops

namespace dist::partition_detail {

/// Shares of the operands and of the results of a node, along one axis of the mesh.
struct Choice {
  std::vector<Share> in, out;
  bool divides() const;  // the work of the node, between the ranks
};

/// A node as a rank sees it that has its parts along the axes of the mesh before this one.
struct NodeOnAxis {
  const Graph& graph;
  const Node& node;
  std::vector<Shape> in, out;                            // of a rank that has as much as any
  int size;                                              // ranks along this axis
  std::vector<std::uint32_t> uneven_in{}, uneven_out{};  // bit i: axis i is divided already, and not equally

  /// Can the extent be divided equally, whatever its symbols are?
  bool divides(Dim extent) const;
  /// Can it be divided so that no rank is left without?
  bool divides_unequally(Dim extent) const;
  DType dtype_in(std::size_t operand = 0) const { return graph.type(node.inputs[operand]).dtype; }
  /// Are all elements of the operand one finite number other than 0, which is known? Times it, and divided by it, a sum
  /// is the sum of its parts; times 0 or infinity a part may be NaN where the sum is none.
  bool is_scale(std::size_t operand) const;
};

/// All that the node can do; the first needs whole operands. Inputs of the graph have none of their own.
std::vector<Choice> choices_of(const NodeOnAxis& node);
/// Does an op with a rule know what to do with divided operands?
bool has_partition_rule(const OpInfo& op);
/// Composites that have a rule; others are taken apart before they are divided.
bool is_divided_whole(const Node& node);
/// The graph with gradients of attention that are taken apart where they are read as results of their own.
Graph split_attention_gradients(const Graph& graph);
/// The attributes of a node for results of these shapes, and operands of those.
Attrs attributes_of_part(const Node& node, std::span<const Shape> in, const Shape& out);

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
