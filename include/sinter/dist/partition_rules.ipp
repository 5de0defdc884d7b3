// The table of rules. A rule adds choices; those whose extents cannot be divided are left out when they are added.
#pragma once

#include <sinter/dist/partition_rules.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/dist/laid_out.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

SINTER_DECL bool Choice::divides() const {
  return std::any_of(in.begin(), in.end(), is_part) || std::any_of(out.begin(), out.end(), is_part);
}
SINTER_DECL bool NodeOnAxis::divides(Dim extent) const { return identical(extent % Dim(size), Dim(0)); }
SINTER_DECL bool NodeOnAxis::divides_unequally(Dim extent) const { return extent.is_static() && extent.value() > size; }
SINTER_DECL bool NodeOnAxis::is_scale(std::size_t operand) const {
  const DType dtype = dtype_in(operand);
  const Node* from = &graph.node(node.inputs[operand]);
  while (from->op == &op_info<ops::Expand> || from->op == &op_info<ops::Reshape>) from = &graph.node(from->inputs[0]);
  const double value = from->op == &op_info<ops::Full> ? tensor_detail::rounded(from->attrs.value, dtype) : 0;
  return is_floating(dtype) && value != 0 && is_finite_number(value);
}

/// What a rule adds to.
class ChoiceList {
 public:
  explicit ChoiceList(const NodeOnAxis& of) : n(of) {}
  const NodeOnAxis& n;
  std::vector<Choice> choices{};

  int rank_in(std::size_t operand = 0) const { return n.in[operand].rank(); }
  int rank_out() const { return n.out[0].rank(); }
  std::size_t operands() const { return n.in.size(); }
  void add(std::vector<Share> in, std::vector<Share> out) {
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] == summand && !has_sums(n.node.types[i].dtype)) return;
    if (can_divide(in, out)) choices.push_back({std::move(in), std::move(out)});
  }
  /// Unequal parts are those of one extent alone: where it becomes another one, as in reshape, they would not meet.
  bool can_divide(const std::vector<Share>& in, const std::vector<Share>& out) const {
    Dim common = 0;
    bool is_uneven = false, is_one = true;
    const auto can = [&](Share share, const Shape& shape, std::uint32_t uneven) {
      if (!is_part(share)) return true;
      const Dim extent = shape[share];
      if ((uneven >> share & 1) != 0) return false;
      is_one &= identical(common, Dim(0)) || identical(common, extent);
      common = extent;
      if (n.divides(extent)) return true;
      is_uneven = true;
      return n.divides_unequally(extent);
    };
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!can(in[i], n.in[i], n.uneven_in[i])) return false;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!can(out[i], n.out[i], n.uneven_out[i])) return false;
    return !is_uneven || is_one;
  }
  /// The same share of all operands, and of all results.
  void add_all(int in, int out) {
    add(std::vector<Share>(operands(), static_cast<Share>(in)),
        std::vector<Share>(n.out.size(), static_cast<Share>(out)));
  }
  /// f(a + b) = f(a) + f(b) in the operands that are summands.
  void add_linear(std::vector<Share> in) { add(std::move(in), {summand}); }
  /// Parts of a sum in 16 bits or fewer would be rounded, and might overflow.
  static bool has_sums(DType dtype) { return dtype != DType::bool_ && !is_half(dtype); }
  bool is_reduced(int axis, int rank) const {
    const IntVector& axes = n.node.attrs.axes;
    return std::any_of(axes.begin(), axes.end(),
                       [&](std::int64_t listed) { return (listed < 0 ? listed + rank : listed) == axis; });
  }
  int first_axis(int rank) const {
    const auto axis = static_cast<int>(n.node.attrs.axes[0]);
    return axis < 0 ? axis + rank : axis;
  }
};

namespace partition_rules {

constexpr Share share(int axis) { return static_cast<Share>(axis); }

/// An operand whose extent is 1 where the result's is not is whole.
inline void elementwise(ChoiceList& list) {
  const auto& n = list.n;
  for (int axis = 0; axis < list.rank_out(); ++axis) {
    std::vector<Share> in;
    bool is_known = true;
    for (const Shape& shape : n.in) {
      const int own = axis - (list.rank_out() - shape.rank());
      const bool has_axis = own >= 0 && identical(shape[own], n.out[0][axis]);
      is_known &= own < 0 || has_axis || identical(shape[own], Dim(1));
      in.push_back(has_axis ? share(own) : whole);
    }
    if (is_known) list.add(std::move(in), {share(axis)});
  }
}
/// Linear in all operands together.
inline void linear(ChoiceList& list) {
  elementwise(list);
  list.add_linear(std::vector<Share>(list.operands(), summand));
}
/// Linear in each operand.
inline void product(ChoiceList& list) {
  elementwise(list);
  const bool is_exact = is_integer(list.n.node.types[0].dtype);  // integers wrap
  if (is_exact || list.n.is_scale(1)) list.add_linear({summand, whole});
  if (is_exact || list.n.is_scale(0)) list.add_linear({whole, summand});
}
/// Quotients of integers are rounded.
inline void quotient(ChoiceList& list) {
  elementwise(list);
  if (is_floating(list.n.node.types[0].dtype) && list.n.is_scale(1)) list.add_linear({summand, whole});
}
inline void select(ChoiceList& list) {
  elementwise(list);
  list.add_linear({whole, summand, summand});
}
/// What is rounded is the sum, not its parts: a sum passes casts that round nothing. Sums of integers wrap, those of
/// wider ones elsewhere.
inline void cast(ChoiceList& list) {
  elementwise(list);
  const DType from = list.n.dtype_in(), to = list.n.node.types[0].dtype;
  const bool is_wider = is_floating(from) && is_floating(to) && size_of(to) >= size_of(from);
  const bool is_same_ring = is_integer(from) && is_integer(to) && size_of(to) == size_of(from);
  if (is_wider || is_same_ring) list.add_linear({summand});
}

template <Share when_divided>
void reduction(ChoiceList& list) {
  const int rank = list.rank_in();
  const bool keeps = list.n.node.attrs.keepdim;
  for (int axis = 0, to = 0; axis < rank; ++axis) {
    if (!list.is_reduced(axis, rank)) list.add_all(axis, to++);
    else {
      to += keeps ? 1 : 0;
      if (when_divided == summand || (when_divided != whole && list.n.node.types[0].dtype != DType::bool_))
        list.add_all(axis, when_divided);
    }
  }
  if (when_divided == summand) list.add_linear({summand});
}

/// The axes that are not worked along stay as they are.
inline void along_axes(ChoiceList& list) {
  const int rank = list.rank_in();
  for (int axis = 0; axis < rank; ++axis)
    if (!list.is_reduced(axis, rank)) list.add_all(axis, axis);
}
/// Matrices in the last two axes.
inline void matrices(ChoiceList& list) {
  const int rank = list.rank_in();
  for (const Shape& shape : list.n.in)
    if (shape.rank() != rank) return;
  for (int axis = 0; axis + 2 < rank; ++axis) list.add_all(axis, axis);
}
inline void same_axes(ChoiceList& list) {
  for (int axis = 0; axis < list.rank_out() && axis < list.rank_in(); ++axis) list.add_all(axis, axis);
  list.add_linear({summand});
}

inline void permute(ChoiceList& list) {
  for (int axis = 0; axis < list.rank_out(); ++axis) {
    const auto from = static_cast<int>(list.n.node.attrs.axes[as_index(axis)]);
    list.add_all(from < 0 ? from + list.rank_in() : from, axis);
  }
  list.add_linear({summand});
}
/// An axis survives where as many elements are before it in both shapes.
inline void reshape(ChoiceList& list) {
  const Shape &from = list.n.in[0], &to = list.n.out[0];
  Dim before = 1;
  for (int i = 0; i < from.rank(); ++i) {
    Dim before_result = 1;
    for (int k = 0; k < to.rank(); ++k) {
      if (identical(before, before_result) && !identical(from[i], Dim(1)) && !identical(to[k], Dim(1)))
        list.add_all(i, k);
      before_result *= to[k];
    }
    before *= from[i];
  }
  list.add_linear({summand});
}
inline void expand(ChoiceList& list) {
  elementwise(list);
  list.add_linear({summand});
}
inline void slice(ChoiceList& list) {
  const Attrs& attrs = list.n.node.attrs;
  const Shape& starts = attrs[ops::Slice::starts];
  for (int axis = 0; axis < list.rank_in(); ++axis)
    if (identical(list.n.in[0][axis], list.n.out[0][axis]) && identical(starts[axis], Dim(0)) &&
        attrs[ops::Slice::steps][as_index(axis)] == 1)
      list.add_all(axis, axis);
  list.add_linear({summand});
}
inline void update_slice(ChoiceList& list) {
  const Attrs& attrs = list.n.node.attrs;
  for (int axis = 0; axis < list.rank_in(); ++axis)
    if (identical(list.n.in[0][axis], list.n.in[1][axis]) && identical(attrs[ops::UpdateSlice::starts][axis], Dim(0)) &&
        attrs[ops::UpdateSlice::steps][as_index(axis)] == 1)
      list.add_all(axis, axis);
  list.add_linear({summand, summand});
}
inline void windows(ChoiceList& list) {
  along_axes(list);
  list.add_linear({summand});
}
inline void concat(ChoiceList& list) {
  along_axes(list);
  list.add_linear(std::vector<Share>(list.operands(), summand));
}

inline void matmul(ChoiceList& list) {
  const int rank = list.rank_out(), row = rank - 2, column = rank - 1;
  for (int axis = 0; axis + 2 < rank; ++axis) list.add_all(axis, axis);
  list.add({share(row), whole}, {share(row)});
  list.add({whole, share(column)}, {share(column)});
  list.add({share(column), share(row)}, {summand});
  list.add_linear({summand, whole});
  list.add_linear({whole, summand});
}
/// Batch axes are divided: the first `batched` operands have them all, others (a mask) broadcast to them.
inline void attention_batch(ChoiceList& list, std::size_t batched) {
  const int rank = list.rank_in(0);
  for (int axis = 0; axis + 2 < rank; ++axis) {
    std::vector<Share> in;
    bool is_known = true;
    for (std::size_t i = 0; i < list.operands(); ++i) {
      const int own = axis - (rank - list.rank_in(i));
      const bool has_axis = own >= 0 && identical(list.n.in[i][own], list.n.out[0][axis]);
      is_known &= has_axis || (i >= batched && (own < 0 || identical(list.n.in[i][own], Dim(1))));
      in.push_back(has_axis ? share(own) : whole);
    }
    if (is_known) list.add(std::move(in), std::vector<Share>(list.n.out.size(), share(axis)));
  }
}
inline void attention(ChoiceList& list) { attention_batch(list, 3); }
inline void attention_gradient(ChoiceList& list) { attention_batch(list, 5); }  // those packed by batch
/// x [n, c, ...], weight [o, c, ...] -> [n, o, ...].
inline void convolution(ChoiceList& list) {
  list.add({0, whole}, {0});
  if (list.n.node.attrs[ops::Convolution::groups] == 1) {
    list.add({whole, 0}, {1});
    list.add({1, 1}, {summand});
  }
  list.add_linear({summand, whole});
  list.add_linear({whole, summand});
}
/// x [n, c, ...], gradient [o, n, ...] -> [o, c, ...].
inline void convolution_weight_gradient(ChoiceList& list) {
  list.add({0, 1}, {summand});
  if (list.n.node.attrs[ops::ConvolutionWeightGradient::groups] == 1) {
    list.add({whole, 0}, {0});
    list.add({1, whole}, {1});
  }
  list.add_linear({summand, whole});
  list.add_linear({whole, summand});
}

/// Where table and index share no axes: x[..., index, ...].
inline void take(ChoiceList& list) {
  const Attrs& attrs = list.n.node.attrs;
  const int axis = list.first_axis(list.rank_in());
  const auto shared = static_cast<int>(attrs[ops::Take::shared]), index_rank = list.rank_in(1);
  for (int i = 0; i < shared; ++i) list.add({share(i), share(i)}, {share(i)});
  if (attrs[ops::Take::inner] == 0) {
    for (int i = shared; i < list.rank_in(); ++i)
      if (i != axis) list.add({share(i), whole}, {share(i < axis ? i : i + index_rank - shared - 1)});
    for (int i = shared; i < index_rank; ++i) list.add({whole, share(i)}, {share(axis + i - shared)});
  }
  list.add_linear({summand, whole});
}
inline void scatter(ChoiceList& list) {
  const Attrs& attrs = list.n.node.attrs;
  const int axis = list.first_axis(list.rank_in());
  const auto shared = static_cast<int>(attrs[ops::Scatter::shared]), index_rank = list.rank_in(1);
  for (int i = 0; i < shared; ++i) list.add({share(i), share(i), share(i)}, {share(i)});
  if (attrs[ops::Scatter::inner] != 0) return;
  for (int i = shared; i < list.rank_in(); ++i)
    if (i != axis) list.add({share(i), whole, share(i < axis ? i : i + index_rank - shared - 1)}, {share(i)});
}
/// Rows that are added to zeros: those of each rank, and then together.
inline void scatter_add(ChoiceList& list) {
  const int axis = list.first_axis(list.rank_out()), index_rank = list.rank_in(0);
  for (int i = 0; i < index_rank; ++i) list.add({share(i), share(axis + i)}, {summand});
  for (int i = 0; i < list.rank_out(); ++i)
    if (i != axis) list.add({whole, share(i < axis ? i : i + index_rank - 1)}, {share(i)});
  list.add_linear({whole, summand});
}

/// What is made of nothing is made in parts at once; zeros are also the sum of zeros.
inline void full(ChoiceList& list) {
  for (int axis = 0; axis < list.rank_out(); ++axis) list.add({}, {share(axis)});
  const Attrs& attrs = list.n.node.attrs;
  if (attrs.value == 0 && attrs.integer == 0) list.add_linear({});
}
inline void empty(ChoiceList& list) {
  for (int axis = 0; axis < list.rank_out(); ++axis) list.add({}, {share(axis)});
}

using Rule = void (*)(ChoiceList& list);
struct Row {
  const OpInfo* op;
  Rule rule;
};
inline const Row* find(const OpInfo& op) {
  static constexpr Row rows[] = {
      {&op_info<ops::Full>, full},
      {&op_info<ops::Empty>, empty},
      {&op_info<ops::Add>, linear},
      {&op_info<ops::Sub>, linear},
      {&op_info<ops::Neg>, linear},
      {&op_info<ops::StopGradient>, linear},
      {&op_info<ops::LaidOut>, linear},
      {&op_info<ops::Cast>, cast},
      {&op_info<ops::Mul>, product},
      {&op_info<ops::Div>, quotient},
      {&op_info<ops::Where>, select},
      {&op_info<ops::Complex>, linear},
      {&op_info<ops::Real>, linear},
      {&op_info<ops::Imag>, linear},
      {&op_info<ops::ViewAsReal>, same_axes},
      {&op_info<ops::ViewAsComplex>, same_axes},
      {&op_info<ops::Gcd>, elementwise},
      {&op_info<ops::Bessel>, elementwise},
      {&op_info<ops::IncompleteGamma>, elementwise},
      {&op_info<ops::PoissonSample>, elementwise},
      {&op_info<ops::GammaSample>, elementwise},
      {&op_info<ops::GammaSlope>, elementwise},
      {&op_info<ops::BinomialSample>, elementwise},
      {&op_info<ops::To>, same_axes},
      {&op_info<ops::Sum>, reduction<summand>},
      {&op_info<ops::Amax>, reduction<largest>},
      {&op_info<ops::Amin>, reduction<smallest>},
      {&op_info<ops::Prod>, reduction<whole>},
      {&op_info<ops::Argmax>, reduction<whole>},
      {&op_info<ops::Argmin>, reduction<whole>},
      {&op_info<ops::Cumsum>, along_axes},
      {&op_info<ops::Cumprod>, along_axes},
      {&op_info<ops::Cummax>, along_axes},
      {&op_info<ops::Cummin>, along_axes},
      {&op_info<ops::Sort>, along_axes},
      {&op_info<ops::Topk>, along_axes},
      {&op_info<ops::Flip>, along_axes},
      {&op_info<ops::Fourier>, along_axes},
      {&op_info<ops::Cholesky>, matrices},
      {&op_info<ops::MatrixExp>, matrices},
      {&op_info<ops::TriangularSolve>, matrices},
      {&op_info<ops::Permute>, permute},
      {&op_info<ops::Reshape>, reshape},
      {&op_info<ops::Expand>, expand},
      {&op_info<ops::Slice>, slice},
      {&op_info<ops::UpdateSlice>, update_slice},
      {&op_info<ops::Windows>, windows},
      {&op_info<ops::Concat>, concat},
      {&op_info<ops::Matmul>, matmul},
      {&op_info<ops::ScaledDotProductAttention>, attention},
      {&op_info<ops::ScaledDotProductAttentionGradient>, attention_gradient},
      {&op_info<ops::AttentionGradients>, attention_gradient},
      {&op_info<ops::Convolution>, convolution},
      {&op_info<ops::ConvolutionWeightGradient>, convolution_weight_gradient},
      {&op_info<ops::Take>, take},
      {&op_info<ops::Scatter>, scatter},
      {&op_info<ops::ScatterAdd>, scatter_add},
  };
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == &op; });
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace partition_rules

SINTER_DECL bool has_partition_rule(const OpInfo& op) {
  return partition_rules::find(op) != nullptr || op.kind == OpKind::elementwise;
}
SINTER_DECL bool is_divided_whole(const Node& node) {
  using Gradient = ops::ScaledDotProductAttentionGradient;
  if (node.op == &op_info<Gradient> && node.attrs[Gradient::packing] != Gradient::Packing::batch) return false;
  return node.op->kind == OpKind::composite && partition_rules::find(*node.op) != nullptr;
}

/// Which of the gradients that lie end to end a slice of them takes; -1 for other nodes.
inline int gradient_taken(const Graph& graph, const Node& node, const Node& packed) {
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

SINTER_DECL Graph split_attention_gradients(const Graph& graph) {
  using Gradient = ops::ScaledDotProductAttentionGradient;  // those packed by batch are divided as they are
  const auto is_packed = [](const Node& node) {
    return node.op == &op_info<Gradient> && node.attrs[Gradient::packing] != Gradient::Packing::batch;
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_packed)) return graph;
  std::vector<std::uint8_t> is_split(graph.nodes().size(), 1);  // all of its readers take one gradient each
  for (const Node& node : graph.nodes())
    for (const Value v : node.inputs)
      if (is_packed(graph.node(v)) && gradient_taken(graph, node, graph.node(v)) < 0) is_split[as_index(v.node)] = 0;
  for (const Value v : graph.outputs()) is_split[as_index(v.node)] = 0;
  GraphBuilder builder(graph);
  std::vector<std::int32_t> moved;
  std::vector<Value> taken(graph.nodes().size());  // in the new graph: the gradient that a slice is the elements of
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values inputs;
    for (const Value v : node.inputs) inputs.push_back({moved[as_index(v.node)], v.result});
    const Value from = node.inputs.empty() ? Value{} : node.inputs[0];
    if (is_packed(node) && is_split[id] != 0) {
      moved.push_back(builder.add(op_info<ops::AttentionGradients>, inputs, node.attrs, node.where).node);
    } else if (from && is_packed(graph.node(from)) && is_split[as_index(from.node)] != 0) {
      taken[id] = {inputs[0].node, gradient_taken(graph, node, graph.node(from))};
      moved.push_back(
          builder.add(op_info<ops::Reshape>, {taken[id]}, Attrs{.shape = node.types[0].shape}, node.where).node);
    } else if (from && node.op == &op_info<ops::Reshape> && taken[as_index(from.node)] &&
               identical(builder.type(taken[as_index(from.node)]).shape, node.types[0].shape)) {
      const Value gradient = taken[as_index(from.node)];
      moved.push_back(builder.add(op_info<ops::Reshape>, {gradient}, node.attrs, node.where).node);
    } else {
      moved.push_back(builder.copy(node, inputs).node);
    }
  }
  std::vector<Value> outputs;
  for (const Value v : graph.outputs()) outputs.push_back({moved[as_index(v.node)], v.result});
  return builder.finish(outputs);
}

SINTER_DECL std::vector<Choice> choices_of(const NodeOnAxis& node) {
  ChoiceList list(node);
  list.choices.push_back({std::vector<Share>(node.in.size(), whole), std::vector<Share>(node.out.size(), whole)});
  const OpInfo& op = *node.node.op;
  if (op.is_random || node.out.empty()) return std::move(list.choices);
  if (const auto* row = partition_rules::find(op)) row->rule(list);
  else if (op.kind == OpKind::elementwise) partition_rules::elementwise(list);
  return std::move(list.choices);
}

SINTER_DECL Attrs attributes_of_part(const Node& node, std::span<const Shape> in, const Shape& out) {
  Attrs attrs = node.attrs;
  const OpInfo* op = node.op;
  if (op == &op_info<ops::Reshape> || op == &op_info<ops::Expand> || op == &op_info<ops::Full> ||
      op == &op_info<ops::Empty> || op == &op_info<ops::ScatterAdd> || op == &op_info<ops::ConvolutionWeightGradient>)
    attrs.shape = out;
  if (op != &op_info<ops::Slice>) return attrs;
  Shape ends = attrs[ops::Slice::ends];
  for (int axis = 0; axis < out.rank(); ++axis)
    if (identical(in[0][axis], out[axis])) ends.set(axis, out[axis]);
  attrs.set(ops::Slice::ends, ends);
  return attrs;
}

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
