// The scores are taken apart from the softmax inwards.
#pragma once

#include <sinter/passes/recognise_attention.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// Attention as found in a graph.
struct WrittenAttention {
  Value q, k, v, mask;
  bool k_is_transposed = false;  // it is given as [e, s]
  bool hides = false;            // the mask names what is hidden, not what is seen
  bool gives_zeros = false;      // rows that see nothing
  double scale = 1;
  std::vector<double> factors;  // of it, from the softmax inwards
};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph) : graph_(graph), uses_(use_counts(graph)) {}

  std::optional<WrittenAttention> find(const Node& product) {
    found_ = {};
    if (product.op != &op_info<ops::Matmul> || !is_computed_whole(product.types[0].dtype)) return std::nullopt;
    const Value weights = product.inputs[0];
    const Node& softmax = graph_.node(weights);
    if (softmax.op != &op_info<ops::Softmax> || uses_[as_index(weights.node)] != 1) return std::nullopt;
    const Shape& shape = softmax.types[0].shape;
    if (softmax.attrs.axes.size() != 1 || softmax.attrs.axes[0] != shape.rank() - 1) return std::nullopt;
    found_.gives_zeros = softmax.attrs[ops::Softmax::empty_rows] == ops::Softmax::EmptyRows::zeros;
    found_.v = product.inputs[1];
    if (!find_scores(softmax.inputs[0], shape) || !has_batches_alike()) return std::nullopt;
    return scales_in_range(product.types[0].dtype) ? std::optional(found_) : std::nullopt;
  }

 private:
  static bool is_computed_whole(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || is_half(dtype); }

  /// What scores are multiplied by, one number after another as written, stays among the normal numbers of the dtype: a
  /// product of factors that leaves them is not what the factors give.
  bool scales_in_range(DType dtype) const {
    const bool is_double = dtype == DType::f64, is_f16 = dtype == DType::f16;  // bf16 has the range of f32
    constexpr double least_f16 = 0x1p-14, most_f16 = 65504;
    const double least = is_double ? std::numeric_limits<double>::min()
                         : is_f16  ? least_f16
                                   : double{std::numeric_limits<float>::min()};
    const double most = is_double ? std::numeric_limits<double>::max()
                        : is_f16  ? most_f16
                                  : double{std::numeric_limits<float>::max()};
    const auto is_normal = [&](double x) { return std::abs(x) >= least && std::abs(x) <= most; };
    double scale = 1;
    for (std::size_t i = found_.factors.size(); i-- > 0;) {
      scale *= found_.factors[i];
      if (!is_normal(found_.factors[i]) || !is_normal(scale)) return false;
    }
    return is_normal(found_.scale);
  }

  /// The number that a value is, however it is shaped.
  std::optional<double> number_of(Value value) const {
    const Node* node = &graph_.node(value);
    while (node->op == &op_info<ops::Expand> || node->op == &op_info<ops::Reshape>)
      node = &graph_.node(node->inputs[0]);
    if (node->op != &op_info<ops::Full> || !is_floating(node->types[0].dtype)) return std::nullopt;
    return node->attrs.value;
  }
  bool is_hidden(Value value) const { return number_of(value) == -std::numeric_limits<double>::infinity(); }

  /// From a value of the scores' shape that nobody else reads inwards to their product.
  bool find_scores(Value value, const Shape& shape) {
    while (true) {
      const Node& node = graph_.node(value);
      if (uses_[as_index(value.node)] != 1 || !(node.types[0].shape == shape)) return false;
      if (node.op == &op_info<ops::Matmul>) return take_product(node);
      if (node.op == &op_info<ops::Add>) return take_added_mask(node, shape);
      if (node.op == &op_info<ops::Where>) {
        if (!take_mask(node.inputs[0], is_hidden(node.inputs[1]), is_hidden(node.inputs[2]))) return false;
        value = node.inputs[found_.hides ? 2 : 1];
      } else if (const std::optional<double> factor = factor_of(node, value)) {
        found_.scale *= *factor;
        found_.factors.push_back(*factor);
      } else {
        return false;
      }
    }
  }
  /// The number by which a product or quotient scales its other operand, which `value` becomes.
  std::optional<double> factor_of(const Node& node, Value& value) const {
    const bool is_product = node.op == &op_info<ops::Mul>;
    if (!is_product && node.op != &op_info<ops::Div>) return std::nullopt;
    for (std::size_t other = is_product ? 0 : 1; other < 2; ++other)
      if (const std::optional<double> number = number_of(node.inputs[other])) {
        if (!is_finite_number(*number) || *number == 0) return std::nullopt;
        value = node.inputs[1 - other];
        return is_product ? *number : 1 / *number;
      }
    return std::nullopt;
  }
  bool take_mask(Value condition, bool hides_true, bool hides_false) {
    // What scales from outside must leave -inf as it is.
    if (found_.mask || hides_true == hides_false || !(found_.scale > 0)) return false;
    found_.mask = condition;
    found_.hides = hides_true;
    return true;
  }
  bool take_added_mask(const Node& node, const Shape& shape) {
    if (found_.mask || found_.scale != 1) return false;
    const WrittenAttention before = found_;
    for (std::size_t i = 0; i < 2; ++i) {
      found_ = before;
      found_.mask = node.inputs[1 - i];
      if (find_scores(node.inputs[i], shape) && found_.mask == node.inputs[1 - i]) return true;
    }
    return false;
  }
  bool take_product(const Node& product) {
    found_.q = product.inputs[0];
    found_.k = product.inputs[1];
    const Node& k = graph_.node(found_.k);
    found_.k_is_transposed = true;
    if (k.op != &op_info<ops::Permute>) return true;
    const IntVector& axes = k.attrs.axes;
    const std::size_t last = axes.size() - 1;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::size_t from = axis == last ? last - 1 : axis == last - 1 ? last : axis;
      if (axes[axis] != static_cast<std::int64_t>(from)) return true;
    }
    found_.k = k.inputs[0];
    found_.k_is_transposed = false;
    return true;
  }
  bool has_batches_alike() const {
    const Shape &q = graph_.type(found_.q).shape, &k = graph_.type(found_.k).shape, &v = graph_.type(found_.v).shape;
    bool is_alike = k.rank() == q.rank() && v.rank() == q.rank();
    for (int axis = 0; is_alike && axis + 2 < q.rank(); ++axis) is_alike = k[axis] == q[axis] && v[axis] == q[axis];
    if (!is_alike || !found_.mask) return is_alike && !found_.gives_zeros;
    const DType mask = graph_.type(found_.mask).dtype;
    return mask == DType::bool_ || mask == graph_.type(found_.q).dtype;
  }

  const Graph& graph_;
  const std::vector<std::int32_t> uses_;
  WrittenAttention found_;
};

inline Value build_attention(GraphBuilder& builder, const WrittenAttention& found, const std::vector<Value>& moved,
                             Location where) {
  using Op = ops::ScaledDotProductAttention;
  const auto val = [&](Value v) {
    const Value to = moved[as_index(v.node)];
    return Val{&builder, Value{to.node, to.result + v.result}, where};
  };
  ValList operands{val(found.q), val(found.k), val(found.v)};
  if (found.k_is_transposed) operands[1] = transpose(operands[1]);
  if (found.mask) operands.push_back(found.hides ? logical_not(val(found.mask)) : val(found.mask));
  Attrs attrs = Attrs{}.with(Op::scale, found.scale);
  attrs.set(Op::empty_rows, found.gives_zeros ? Op::EmptyRows::zeros : Op::EmptyRows::nan);
  return apply(op_info<Op>, operands, std::move(attrs)).value;
}

}  // namespace passes_detail

namespace passes_detail {

/// Recognised attention that `keep` is not true of stays as it was written; null: none does.
inline Graph recognise_attention(const Graph& graph,
                                 const std::function<bool(const Graph& graph, const Node& node)>& keep,
                                 std::vector<bool> left = {}) {
  const auto has_softmax = [](const Node& node) { return node.op == &op_info<ops::Softmax>; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), has_softmax)) return graph;
  AttentionFinder finder(graph);
  GraphBuilder builder(graph);
  builder.reserve(graph.nodes().size() + 4);
  std::vector<Value> moved(graph.nodes().size());
  std::vector<std::size_t> recognised;
  left.resize(graph.nodes().size(), false);
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    const std::optional<WrittenAttention> found = left[id] ? std::nullopt : finder.find(node);
    if (found) {
      moved[id] = build_attention(builder, *found, moved, node.where);
      recognised.push_back(id);
      continue;
    }
    Values inputs;
    for (Value v : node.inputs) {
      const Value to = moved[as_index(v.node)];
      inputs.push_back({to.node, to.result + v.result});
    }
    moved[id] = builder.copy(node, inputs);
  }
  if (recognised.empty()) return graph;
  std::vector<Value> outputs;
  for (Value v : graph.outputs())
    outputs.push_back({moved[as_index(v.node)].node, moved[as_index(v.node)].result + v.result});
  const Graph changed = builder.finish(outputs);
  bool is_all_kept = true;
  for (const std::size_t id : recognised)
    if (keep && !keep(changed, changed.node(moved[id]))) {
      left[id] = true;
      is_all_kept = false;
    }
  return is_all_kept ? Dce{}(changed) : recognise_attention(graph, keep, std::move(left));
}

}  // namespace passes_detail

SINTER_DECL Graph RecogniseAttention::operator()(const Graph& graph) const {
  return passes_detail::recognise_attention(graph, nullptr);
}

SINTER_NAMESPACE_END
