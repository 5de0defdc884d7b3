// Which attention has its gradients in the graph, and which keys are stretched.
#pragma once

#include <sinter/passes/attention_kernels.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// Keys or values of all heads of q, of the type of those that may serve several.
inline Type of_all_heads(const Type& q, Type keys) {
  const int rank = q.shape.rank();
  if (rank >= 3 && keys.shape.rank() == rank && ops_detail::is_one(keys.shape[-3]))
    keys.shape.set(rank - 3, q.shape[-3]);
  return keys;
}
/// The operands of the attention whose operands are these, the mask last.
inline std::vector<Type> attention_types(std::span<const Type> in, bool has_mask) {
  std::vector<Type> types{in[0], of_all_heads(in[0], in[1]), of_all_heads(in[0], in[2])};
  if (has_mask) types.push_back(in.back());
  return types;
}

class AttentionPreparer {
 public:
  using Keep = std::function<bool(const Graph& graph, const Node& node)>;
  AttentionPreparer(const Graph& graph, const Keep& keep) : graph_(graph), keep_(keep), plans_(graph.nodes().size()) {
    for (std::size_t id = 0; id < plans_.size(); ++id) plan(id);
    for (std::size_t id = 0; id < plans_.size(); ++id) plan_gradient(id);
  }
  Graph run() const;

 private:
  using Attention = ops::ScaledDotProductAttention;
  using Gradient = ops::ScaledDotProductAttentionGradient;
  struct Plan {
    Value k, v;               // in the place of the node's
    bool is_kept = false;     // by a kernel
    bool is_changed = false;  // of attention: a gradient wants its levels, or keys are read in place
  };

  /// The value that is stretched along the last batch axis alone, or the same.
  Value shared_by_heads(Value value) const {
    const Node& node = graph_.node(value);
    const Shape& whole = graph_.type(value).shape;
    if (node.op != &op_info<ops::Expand> || whole.rank() < 3) return value;
    const Shape& own = graph_.type(node.inputs[0]).shape;
    if (own.rank() != whole.rank() || !ops_detail::is_one(own[-3])) return value;
    for (int axis = 0; axis < whole.rank(); ++axis)
      if (axis != whole.rank() - 3 && !identical(own[axis], whole[axis])) return value;
    return node.inputs[0];
  }
  void plan(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.op != &op_info<Attention> || node.types[0].device == Device::cpu() || !keep_(graph_, node)) return;
    Plan& own = plans_[id];
    own = {node.inputs[1], node.inputs[2], true, false};
    const Value k = shared_by_heads(own.k), v = shared_by_heads(own.v);
    if (k == own.k || v == own.v) return;
    own = {k, v, true, true};
  }
  void plan_gradient(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.op != &op_info<Gradient> || node.attrs[Gradient::packing] != Gradient::Packing::whole) return;
    const std::size_t forward = as_index(node.inputs[3].node);
    if (!plans_[forward].is_kept || !is_gradient_of(node, graph_.nodes()[forward]) || !keep_(graph_, node)) return;
    plans_[forward].is_changed = true;
    plans_[id] = plans_[forward];
  }
  /// Has the gradient the operands and attributes of the attention whose result it reads?
  static bool is_gradient_of(const Node& gradient, const Node& attention) {
    const bool has_mask = attention.inputs.size() == 4;
    return gradient.inputs.size() == (has_mask ? 6U : 5U) &&
           std::equal(attention.inputs.begin(), attention.inputs.begin() + 3, gradient.inputs.begin()) &&
           (!has_mask || attention.inputs[3] == gradient.inputs[5]) &&
           gradient.attrs[Attention::causal] == attention.attrs[Attention::causal] &&
           gradient.attrs[Attention::scale] == attention.attrs[Attention::scale] &&
           gradient.attrs[Attention::empty_rows] == attention.attrs[Attention::empty_rows];
  }

  const Graph& graph_;
  const Keep& keep_;
  std::vector<Plan> plans_;
};

inline Graph AttentionPreparer::run() const {
  if (std::none_of(plans_.begin(), plans_.end(), [](const Plan& own) { return own.is_changed; })) return graph_;
  GraphBuilder builder(graph_);
  builder.reserve(graph_.nodes().size());
  std::vector<Value> moved(graph_.nodes().size());
  const auto at = [&](Value v) {
    const Value to = moved[as_index(v.node)];
    return Value{to.node, to.result + v.result};
  };
  std::vector<std::int32_t> changed;
  for (std::size_t id = 0; id < plans_.size(); ++id) {
    const Node& node = graph_.nodes()[id];
    const Plan& own = plans_[id];
    Values inputs;
    for (const Value v : node.inputs) inputs.push_back(at(v));
    if (!own.is_changed) {
      moved[id] = builder.copy(node, inputs);
      continue;
    }
    inputs[1] = at(own.k);
    inputs[2] = at(own.v);
    const bool is_gradient = node.op == &op_info<Gradient>;
    if (is_gradient) {
      const Value levels{inputs[3].node, inputs[3].result + 1};
      if (inputs.size() == 6) inputs.push_back(inputs[5]);
      else inputs.push_back(levels);
      inputs[5] = levels;
    }
    Attrs attrs;
    attrs.set(Attention::causal, node.attrs[Attention::causal]);
    attrs.set(Attention::scale, node.attrs[Attention::scale]);
    attrs.set(Attention::empty_rows, node.attrs[Attention::empty_rows]);
    const OpInfo& op = is_gradient ? op_info<ops::AttentionGradientWithLevels> : op_info<ops::AttentionWithLevels>;
    moved[id] = builder.add(op, inputs, std::move(attrs), node.where);
    changed.push_back(moved[id].node);
  }
  std::vector<Value> outputs;
  for (const Value v : graph_.outputs()) outputs.push_back(at(v));
  const Graph after = builder.finish(outputs);
  const bool are_all_kept = std::all_of(changed.begin(), changed.end(),
                                        [&](std::int32_t id) { return keep_(after, after.nodes()[as_index(id)]); });
  return are_all_kept ? Dce{}(after) : graph_;
}

}  // namespace passes_detail

namespace ops {
SINTER_DECL void AttentionWithLevels::infer(const InferArgs& args, TypeList& out) {
  const bool has_mask = args.in.size() == 4;
  const std::vector<Type> types = passes_detail::attention_types(args.in, has_mask);
  Type result = ScaledDotProductAttention::infer({types, args.attrs, args.op, args.where}), levels = result;
  levels.dtype = DType::f32;
  levels.shape.set(levels.shape.rank() - 1, has_mask && types[3].dtype != DType::bool_ ? 2 : 1);
  out.push_back(std::move(result));
  out.push_back(std::move(levels));
}

SINTER_DECL Type AttentionGradientWithLevels::infer(const InferArgs& args) {
  std::vector<Type> types = passes_detail::attention_types(args.in, args.in.size() == 7);
  types.insert(types.begin() + 3, args.in.begin() + 3, args.in.begin() + 5);
  return ScaledDotProductAttentionGradient::infer({types, args.attrs, args.op, args.where});
}
}  // namespace ops

SINTER_DECL Graph AttentionForKernels::operator()(const Graph& graph) const {
  const auto has_attention = [](const Node& node) { return node.op == &op_info<ops::ScaledDotProductAttention>; };
  if (keep == nullptr || std::none_of(graph.nodes().begin(), graph.nodes().end(), has_attention)) return graph;
  return passes_detail::AttentionPreparer(graph, keep).run();
}

SINTER_NAMESPACE_END
