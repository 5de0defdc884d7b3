// A decomposition may name further composites; the pass repeats until a sweep finds none. Constants that composites
// read which stay whole are laid out as these read them.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {

inline constexpr int deepest_decomposition = 16;

inline bool is_decomposed(const Decompose& pass, const Graph& graph, const Node& node) {
  return node.op->kind == OpKind::composite && node.op->decompose != nullptr &&
         (pass.keep == nullptr || !pass.keep(graph, node));
}

/// Products are computed in the dtype that kernels compute in, whose blocks back ends know.
inline bool is_widened(const Decompose& pass, const Graph& graph, const Node& node) {
  return node.op == &op_info<ops::Matmul> && is_narrow(node.types[0].dtype) &&
         (pass.keep == nullptr || !pass.keep(graph, node));
}
inline Val in_dtype(const Val& x, DType dtype) {
  const OpInfo& op = is_narrow(dtype) ? op_info<ops::Narrow> : op_info<ops::Cast>;
  return x.dtype() == dtype ? x : apply(op, {x}, {.dtype = dtype, .has_dtype = true});
}
inline Value widen_product(GraphBuilder& builder, const Node& node, const Values& inputs) {
  const DType dtype = computed_in(node.types[0].dtype);
  const Val product = apply(op_info<ops::Matmul>, {in_dtype(Val{&builder, inputs[0], node.where}, dtype),
                                                   in_dtype(Val{&builder, inputs[1], node.where}, dtype)});
  return in_dtype(product, node.types[0].dtype).value;
}

/// Sums and products of f16 and bf16 at a place are of f32 and rounded once, whoever computes them, in whichever order.
inline bool is_scattered_sum(const Node& node) {
  if (!is_half(node.types[0].dtype)) return false;
  if (node.op == &op_info<ops::ScatterAdd>) return true;
  if (node.op != &op_info<ops::Scatter>) return false;
  const Combine combine = node.attrs[ops::Scatter::combine];
  return combine == Combine::add || combine == Combine::mul;
}
inline Value widen_scatter(GraphBuilder& builder, const Node& node, const Values& inputs) {
  std::vector<Val> operands;
  for (Value v : inputs) {
    const Val operand{&builder, v, node.where};
    operands.push_back(is_half(operand.dtype()) ? in_dtype(operand, DType::f32) : operand);
  }
  return in_dtype(apply(*node.op, operands, node.attrs), node.types[0].dtype).value;
}

/// Is it made of one gradient of the same dtype, which back ends may have: that of the padded image, where the padding
/// is known and uneven?
inline bool is_made_of_gradient(const Node& node) {
  using Op = ops::ConvolutionGradient;
  if (node.op != &op_info<Op> || node.attrs[Op::by] != ops::ConvolutionOperand::image) return false;
  const Shape &low = node.attrs[Op::low], &high = node.attrs[Op::high];
  bool is_uneven = false;
  for (int i = 0; i < low.rank(); ++i) {
    if (!low[i].is_static() || !high[i].is_static()) return false;
    is_uneven |= low[i].value() != high[i].value();
  }
  return is_uneven;
}

/// Of windows: the largest element is one of them, and a cast of all windows is longer than the image. Padding computes
/// nothing, and is seen through by who reads windows; f8 is for memory alone.
inline bool widens_itself(const Node& node) {
  return node.op == &op_info<ops::WindowMax> || node.op == &op_info<ops::MaxPool2d> ||
         node.op == &op_info<ops::WindowSum> || (node.op == &op_info<ops::Pad> && size_of(node.types[0].dtype) == 2);
}

/// What the node is made of; no value where that has another type, and may have. What has f16 and bf16 is made of f32,
/// so that a value between two kernels neither overflows nor loses digits.
inline Value decompose_node(const Decompose& pass, GraphBuilder& builder, const Node& node, const Values& inputs) {
  std::vector<Val> operands;
  const bool widens = is_half(node.types[0].dtype) && !is_made_of_gradient(node) && !widens_itself(node);
  for (Value v : inputs) {
    const Val operand{&builder, v, node.where};
    operands.push_back(widens && is_half(operand.dtype()) ? in_dtype(operand, DType::f32) : operand);
  }
  Val result = node.op->decompose(DecomposeArgs{operands, node.attrs, node.where});
  if (widens && result.dtype() == DType::f32) result = in_dtype(result, node.types[0].dtype);
  if (same_but_device(result.type(), node.types[0]))
    return result.value;  // what is made from nothing may be made anywhere
  if (pass.symbols == Decompose::Symbols::solved)
    throw InternalError(
        std::string(node.op->name) + " decomposes into " + result.type().text() + ", but is " + node.types[0].text(),
        node.where);
  return {};
}

/// One sweep; `has_changed` tells whether it found anything.
inline Graph decompose_once(const Decompose& pass, const Graph& graph, bool& has_changed) {
  GraphBuilder builder(graph);
  builder.reserve(graph.nodes().size() * 2);
  std::vector<Value> moved(graph.nodes().size());
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) {
      const Value to = moved[as_index(v.node)];
      inputs.push_back({to.node, to.result + v.result});
    }
    const Value made = is_decomposed(pass, graph, node) ? decompose_node(pass, builder, node, inputs)
                       : is_widened(pass, graph, node)  ? widen_product(builder, node, inputs)
                       : is_scattered_sum(node)         ? widen_scatter(builder, node, inputs)
                                                        : Value{};
    has_changed |= static_cast<bool>(made);
    moved[id] = made ? made : builder.copy(node, inputs);
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs())
    outputs.push_back({moved[as_index(v.node)].node, moved[as_index(v.node)].result + v.result});
  return builder.finish(outputs);
}

/// An operand that is a constant of the host whose axes are in another order than in memory.
struct PermutedConstant {
  Ref<TensorImpl> constant;
  Shape shape;
  Strides strides{};

  bool operator==(const PermutedConstant&) const = default;
};
/// None where the operand lies row-major, or nobody says that its memory stays as it is.
inline std::optional<PermutedConstant> permuted_constant(const Graph& graph, Value operand) {
  PermutedConstant found;
  found.shape = graph.type(operand).shape;
  std::vector<std::size_t> axes;  // of the value that was reached so far
  for (int i = 0; i < found.shape.rank(); ++i) axes.push_back(as_index(i));
  for (; graph.node(operand).op == &op_info<ops::Permute>; operand = graph.node(operand).inputs[0])
    for (std::size_t& axis : axes) axis = as_index(graph.node(operand).attrs.axes[axis]);
  const Node& node = graph.node(operand);
  if (node.op != &op_info<ops::Constant> || node.types[0].device != Device::cpu() || is_complex(node.types[0].dtype))
    return std::nullopt;
  found.constant = node.attrs.constant;
  const Ref<Storage>& storage = found.constant->storage;
  if (storage == nullptr || !storage->is_ours() || found.shape.numel().value() == 0) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i) found.strides[i] = found.constant->strides[axes[i]];
  const Strides dense = dense_strides(found.shape);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (found.strides[i] != dense[i] && found.shape[static_cast<int>(i)].value() != 1) return found;
  return std::nullopt;
}

/// Whoever computes a composite whole takes operands row-major: of a permuted constant it would be given a copy, made
/// anew at every call, which is no constant to it.
inline Graph lay_out_constants(const Graph& graph) {
  std::vector<std::pair<PermutedConstant, Value>> made;
  const auto is_whole = [](const Node& node) { return node.op->kind == OpKind::composite; };
  const auto reads_permuted = [&](const Node& node) {
    return is_whole(node) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                         [&](Value v) { return permuted_constant(graph, v).has_value(); });
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), reads_permuted)) return graph;
  GraphBuilder builder(graph);
  std::vector<std::int32_t> moved(graph.nodes().size());
  const auto now = [&](Value v) { return Value{moved[as_index(v.node)], v.result}; };
  const auto laid_out = [&](const PermutedConstant& wanted, Location where) {
    for (const auto& [known, value] : made)
      if (known == wanted) return value;
    const Type type{wanted.constant->type.dtype, Device::cpu(), wanted.shape};
    const Tensor copy = expr_detail::copy_strided(type, wanted.constant->data(), wanted.strides);
    return made.emplace_back(wanted, builder.constant(copy.impl(), where)).second;
  };
  for (std::size_t id = 0; id < moved.size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) {
      const auto permuted = is_whole(node) ? permuted_constant(graph, v) : std::nullopt;
      inputs.push_back(permuted ? laid_out(*permuted, node.where) : now(v));
    }
    moved[id] = builder.copy(node, inputs).node;
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(now(v));
  return Dce{}(builder.finish(outputs));
}

}  // namespace passes_detail

SINTER_DECL Graph Decompose::operator()(const Graph& graph) const {
  using namespace passes_detail;
  auto has_composite = [&](const Graph& g) {
    return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& n) {
      return is_decomposed(*this, g, n) || is_widened(*this, g, n) || is_scattered_sum(n);
    });
  };
  Graph current = graph;
  for (int round = 0; has_composite(current); ++round) {
    ensure(round < deepest_decomposition, "a composite op decomposes into itself");
    bool has_changed = false;
    Graph next = decompose_once(*this, current, has_changed);
    if (!has_changed) break;
    current = symbols == Symbols::solved ? std::move(next) : Dce{}(next);  // without the parts of what was kept
  }
  return keep != nullptr && symbols == Symbols::solved ? lay_out_constants(current) : current;
}

SINTER_NAMESPACE_END
