// A decomposition may name further composites; the pass repeats until a sweep finds none.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>

#include <algorithm>
#include <utility>

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

/// What the node is made of; no value where that has another type, and may have. What has f16 and bf16 is made of f32,
/// so that a value between two kernels neither overflows nor loses digits.
inline Value decompose_node(const Decompose& pass, GraphBuilder& builder, const Node& node, const Values& inputs) {
  std::vector<Val> operands;
  const bool widens = is_half(node.types[0].dtype) && !is_made_of_gradient(node);
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
                                                        : Value{};
    has_changed |= static_cast<bool>(made);
    moved[id] = made ? made : builder.copy(node, inputs);
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs())
    outputs.push_back({moved[as_index(v.node)].node, moved[as_index(v.node)].result + v.result});
  return builder.finish(outputs);
}

}  // namespace passes_detail

SINTER_DECL Graph Decompose::operator()(const Graph& graph) const {
  using namespace passes_detail;
  auto has_composite = [&](const Graph& g) {
    return std::any_of(g.nodes().begin(), g.nodes().end(),
                       [&](const Node& n) { return is_decomposed(*this, g, n) || is_widened(*this, g, n); });
  };
  Graph current = graph;
  for (int round = 0; has_composite(current); ++round) {
    ensure(round < deepest_decomposition, "a composite op decomposes into itself");
    bool has_changed = false;
    Graph next = decompose_once(*this, current, has_changed);
    if (!has_changed) break;
    current = symbols == Symbols::solved ? std::move(next) : Dce{}(next);  // without the parts of what was kept
  }
  return current;
}

SINTER_NAMESPACE_END
