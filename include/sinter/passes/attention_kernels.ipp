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

/// The type of keys or values of all heads of q, given that of those that may serve several.
inline Type of_all_heads(const Type& q, Type keys) {
  const int rank = q.shape.rank();
  if (rank >= 3 && keys.shape.rank() == rank) keys.shape.set(rank - 3, q.shape[-3]);
  return keys;
}
/// The operands of the attention whose operands are these, the mask last.
inline std::vector<Type> attention_types(std::span<const Type> in, bool has_mask) {
  std::vector<Type> types{in[0], of_all_heads(in[0], in[1]), of_all_heads(in[0], in[2])};
  if (has_mask) types.push_back(in.back());
  return types;
}

/// Which of the gradients that lie end to end a slice of them takes; -1 for other nodes.
inline int gradient_taken_by(const Graph& graph, const Node& node, const Node& packed) {
  if (node.op != &op_info<ops::Slice> || node.attrs[ops::Slice::steps][0] != 1) return -1;
  Dim start = 0;
  for (int i = 0; i < 3; ++i) {
    const Dim end = start + graph.type(packed.inputs[as_index(i)]).shape.numel(node.where);
    if (identical(node.attrs[ops::Slice::starts][0], start) && identical(node.attrs[ops::Slice::ends][0], end))
      return i;
    start = end;
  }
  return -1;
}

class AttentionPreparer {
 public:
  using Keep = std::function<bool(const Graph& graph, const Node& node)>;
  AttentionPreparer(const Graph& graph, const Keep& keep) : graph_(graph), keep_(keep), plans_(graph.nodes().size()) {
    for (std::size_t id = 0; id < plans_.size(); ++id) plan(id);
    for (std::size_t id = 0; id < plans_.size(); ++id) plan_gradient(id);
    for (const Node& node : graph.nodes())
      for (const Value v : node.inputs)
        if (is_gradient(v) && gradient_taken_by(graph, node, graph.node(v)) < 0) plans_[as_index(v.node)] = {};
    for (const Value v : graph.outputs())
      if (is_gradient(v)) plans_[as_index(v.node)] = {};
    for (const Node& node : graph.nodes())
      if (node.op == &op_info<Gradient> && plans_[as_index(&node - graph.nodes().data())].is_changed)
        plans_[as_index(node.inputs[3].node)].is_changed = true;
  }
  Graph run();

 private:
  using Attention = ops::ScaledDotProductAttention;
  using Gradient = ops::ScaledDotProductAttentionGradient;
  struct Plan {
    bool is_kept = false;     // by a kernel
    bool is_changed = false;  // a gradient wants its levels, or keys are read in place; or it is such a gradient
    bool is_grouped = false;  // keys and values are stretched along the last batch axis
    bool is_merged = false;   // the last two batch axes of what has all heads become one
  };

  bool is_gradient(Value v) const { return graph_.node(v).op == &op_info<Gradient>; }
  /// Is the value stretched along the last batch axis alone?
  bool is_stretched(Value value) const {
    const Node& node = graph_.node(value);
    const Shape& whole = graph_.type(value).shape;
    if (node.op != &op_info<ops::Expand> || whole.rank() < 3) return false;
    const Shape& own = graph_.type(node.inputs[0]).shape;
    if (own.rank() != whole.rank() || !ops_detail::is_one(own[-3])) return false;
    for (int axis = 0; axis < whole.rank(); ++axis)
      if (axis != whole.rank() - 3 && !identical(own[axis], whole[axis])) return false;
    return true;
  }
  /// May two batch axes become one, as far as the mask is concerned?
  bool has_mask_for_all_heads(const Node& attention) const {
    if (attention.inputs.size() == 3) return true;
    const Shape& mask = graph_.type(attention.inputs[3]).shape;
    return mask.rank() < 3 || (ops_detail::is_one(mask[-3]) && (mask.rank() == 3 || ops_detail::is_one(mask[-4])));
  }
  void plan(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.op != &op_info<Attention> || node.types[0].device == Device::cpu() || !keep_(graph_, node)) return;
    const bool is_grouped = is_stretched(node.inputs[1]) && is_stretched(node.inputs[2]);
    plans_[id] = {true, is_grouped, is_grouped,
                  is_grouped && graph_.type(node.inputs[0]).shape.rank() >= 4 && has_mask_for_all_heads(node)};
  }
  void plan_gradient(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.op != &op_info<Gradient> || node.attrs[Gradient::packing] != Gradient::Packing::whole) return;
    const std::size_t forward = as_index(node.inputs[3].node);
    if (!plans_[forward].is_kept || !is_gradient_of(node, graph_.nodes()[forward]) || !keep_(graph_, node)) return;
    plans_[id] = plans_[forward];
    plans_[id].is_changed = true;
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

  Value at(Value v) const {
    const Value to = moved_[as_index(v.node)];
    return {to.node, to.result + v.result};
  }
  Value shaped(Value v, const Shape& shape) {
    if (identical(builder_.type(v).shape, shape)) return v;
    return builder_.add(op_info<ops::Reshape>, {v}, Attrs{.shape = shape}, builder_.node(v).where);
  }
  /// Without axis -3 where heads are merged: as part of the axis before it, or, of what serves all heads, for good.
  enum class Heads : std::uint8_t { all, one };
  Value merged(Value v, const Plan& own, Heads heads) {
    const Shape whole = builder_.type(v).shape;
    if (!own.is_merged || whole.rank() < 3) return v;
    Shape shape;
    for (int axis = 0; axis < whole.rank(); ++axis)
      if (axis != whole.rank() - 3) shape.push_back(whole[axis]);
    if (heads == Heads::all) shape.set(shape.rank() - 3, whole[-4] * whole[-3]);
    return shaped(v, shape);
  }
  Values operands_of(const Node& node, const Plan& own);
  void change(std::size_t id);
  bool take_gradient(std::size_t id);

  const Graph& graph_;
  const Keep& keep_;
  std::vector<Plan> plans_;
  GraphBuilder builder_;
  std::vector<Value> moved_, made_,
      taken_;  // of each node: what it became; what it was made into; a gradient of its own
};

/// q, k and v, and the mask last if there is one.
inline Values AttentionPreparer::operands_of(const Node& node, const Plan& own) {
  const auto keys = [&](Value v) {
    return own.is_grouped ? merged(at(graph_.node(v).inputs[0]), own, Heads::one) : at(v);
  };
  Values operands{merged(at(node.inputs[0]), own, Heads::all), keys(node.inputs[1]), keys(node.inputs[2])};
  const std::size_t mask = node.op == &op_info<Gradient> ? 5 : 3;
  if (node.inputs.size() > mask) operands.push_back(merged(at(node.inputs[mask]), own, Heads::one));
  return operands;
}

inline void AttentionPreparer::change(std::size_t id) {
  const Node& node = graph_.nodes()[id];
  const Plan& own = plans_[id];
  const bool is_gradient = node.op == &op_info<Gradient>;
  Values operands = operands_of(node, own);
  if (is_gradient) {
    const Value forward = made_[as_index(node.inputs[3].node)], mask = operands.back();
    const bool has_mask = operands.size() == 4;
    if (has_mask) operands.pop_back();
    operands.push_back(forward);
    operands.push_back(merged(at(node.inputs[4]), own, Heads::all));
    operands.push_back({forward.node, 1});
    if (has_mask) operands.push_back(mask);
  }
  Attrs attrs;
  attrs.set(Attention::causal, node.attrs[Attention::causal]);
  attrs.set(Attention::scale, node.attrs[Attention::scale]);
  attrs.set(Attention::empty_rows, node.attrs[Attention::empty_rows]);
  const OpInfo& op = is_gradient ? op_info<ops::AttentionGradientWithLevels> : op_info<ops::AttentionWithLevels>;
  made_[id] = builder_.add(op, operands, std::move(attrs), node.where);
  moved_[id] = is_gradient ? made_[id] : shaped(made_[id], node.types[0].shape);
}

/// Slices of gradients that lay end to end, and those in the shape of an operand again.
inline bool AttentionPreparer::take_gradient(std::size_t id) {
  const Node& node = graph_.nodes()[id];
  if (node.inputs.empty()) return false;
  const Value from = node.inputs[0];
  if (is_gradient(from) && plans_[as_index(from.node)].is_changed) {
    const int which = gradient_taken_by(graph_, node, graph_.node(from));
    taken_[id] =
        shaped({made_[as_index(from.node)].node, which}, graph_.type(graph_.node(from).inputs[as_index(which)]).shape);
    moved_[id] = shaped(taken_[id], node.types[0].shape);
    return true;
  }
  if (node.op != &op_info<ops::Reshape> || !taken_[as_index(from.node)]) return false;
  moved_[id] = shaped(taken_[as_index(from.node)], node.types[0].shape);
  return true;
}

inline Graph AttentionPreparer::run() {
  if (std::none_of(plans_.begin(), plans_.end(), [](const Plan& own) { return own.is_changed; })) return graph_;
  builder_ = GraphBuilder(graph_);
  builder_.reserve(graph_.nodes().size());
  moved_.resize(plans_.size());
  made_.resize(plans_.size());
  taken_.resize(plans_.size());
  for (std::size_t id = 0; id < plans_.size(); ++id) {
    if (plans_[id].is_changed) {
      change(id);
    } else if (!take_gradient(id)) {
      Values inputs;
      for (const Value v : graph_.nodes()[id].inputs) inputs.push_back(at(v));
      moved_[id] = builder_.copy(graph_.nodes()[id], inputs);
    }
  }
  std::vector<Value> outputs;
  for (const Value v : graph_.outputs()) outputs.push_back(at(v));
  const Graph after = builder_.finish(outputs);
  const bool are_all_kept =
      std::all_of(made_.begin(), made_.end(), [&](Value made) { return !made || keep_(after, after.node(made)); });
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

SINTER_DECL void AttentionGradientWithLevels::infer(const InferArgs& args, TypeList& out) {
  std::vector<Type> types = passes_detail::attention_types(args.in, args.in.size() == 7);
  for (std::size_t i = 0; i < 3; ++i) out.push_back(types[i]);
  types.insert(types.begin() + 3, args.in.begin() + 3, args.in.begin() + 5);
  ScaledDotProductAttentionGradient::infer({types, args.attrs, args.op, args.where});
}
}  // namespace ops

SINTER_DECL Graph AttentionForKernels::operator()(const Graph& graph) const {
  const auto has_attention = [](const Node& node) { return node.op == &op_info<ops::ScaledDotProductAttention>; };
  if (keep == nullptr || std::none_of(graph.nodes().begin(), graph.nodes().end(), has_attention)) return graph;
  return passes_detail::AttentionPreparer(graph, keep).run();
}

SINTER_NAMESPACE_END
