// The canonical rules.
#pragma once

#include <sinter/base/fork.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/canonicalise.hpp>
#include <sinter/passes/commutative.hpp>

SINTER_NAMESPACE_BEGIN
namespace rewrite {
namespace detail {

inline bool has_operand_type(const Match& m) { return identical(m.type(m[x]), m.type()); }

inline bool is_arithmetic(const Match& m) { return m.type(m[x]).dtype != DType::bool_; }  // bool wraps to 0 and 1

inline bool is_identity_permutation(const Match& m) {
  const IntVector& axes = m.node().attrs.axes;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

inline Value add_negated_literal(Match& m) {
  const auto negated = evaluate(op_info<ops::Neg>, std::array{m.literal(c)}, {}, m.literal(c).dtype);
  if (!negated) return {};
  return m.add(op_info<ops::Add>, {m[x], m.add(op_info<ops::Full>, {}, full_attrs(*negated, Shape()))});
}

/// 2: a literal, 1: a constant, 0: computed.
inline int constness(const GraphBuilder& builder, Value v) {
  const OpInfo* op = builder.node(v).op;
  return op == &op_info<ops::Full> ? 2 : op == &op_info<ops::Constant> ? 1 : 0;
}

inline Value literal_to_the_right(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.inputs.size() != 2 || !passes_detail::is_commutative(*node.op)) return {};
  const Value a = node.inputs[0], b = node.inputs[1];
  if (constness(rewriter.builder(), a) <= constness(rewriter.builder(), b)) return {};
  const Value swapped[] = {b, a};
  return rewriter.add(*node.op, swapped, node.shared_attrs(), node.where);
}

/// Whether the operands' shapes still broadcast to `wanted` when number `i` is rank 0 or has the shape `instead`.
inline bool covers(const GraphBuilder& builder, const Values& operands, std::size_t i, const Shape& instead,
                   const Shape& wanted) {
  for (int axis = 1; axis <= wanted.rank(); ++axis) {
    const Dim extent = wanted[-axis];
    bool is_covered = extent.is_static() && extent.value() == 1;
    int deepest = 0;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const Shape& shape = k == i ? instead : builder.type(operands[k]).shape;
      deepest = std::max(deepest, shape.rank());
      is_covered = is_covered || (shape.rank() >= axis && identical(shape[-axis], extent));
    }
    if (!is_covered || deepest < axis) return false;
  }
  return true;
}

/// Elementwise ops broadcast by themselves: an expanded operand is taken unexpanded, a filled tensor as its number.
inline Value broadcast_implicitly(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.op->kind != OpKind::elementwise || node.inputs.empty()) return {};
  const OpInfo& op = *node.op;
  const Location where = node.where;
  const Shape wanted = node.types[0].shape;
  Values operands = node.inputs;
  bool has_changed = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Node& operand = rewriter.builder().node(operands[i]);
    if (operand.op == &op_info<ops::Expand>) {
      const Value source = operand.inputs[0];
      if (!covers(rewriter.builder(), operands, i, rewriter.builder().type(source).shape, wanted)) continue;
      operands[i] = source;
      has_changed = true;
    } else if (operand.op == &op_info<ops::Full> && operand.types[0].shape.rank() > 0) {
      if (!covers(rewriter.builder(), operands, i, Shape(), wanted)) continue;
      operands[i] = rewriter.literal(*literal_of(rewriter.builder(), operands[i]), where);
      has_changed = true;
    }
  }
  return has_changed ? rewriter.add(op, operands, rewriter.builder().node(value).shared_attrs(), where) : Value{};
}

inline constexpr Rule canonical_rules[] = {
    {"gt-as-lt", call<ops::Gt>(x, y), call<ops::Lt>(y, x)},
    {"ge-as-le", call<ops::Ge>(x, y), call<ops::Le>(y, x)},
    {"sub-literal", call<ops::Sub>(x, c), add_negated_literal},
    {"square", call<ops::Square>(x), call<ops::Mul>(x, x)},
    {"one-over", call<ops::Div>(one, x), call<ops::Reciprocal>(x)},
    {"times-minus-one", call<ops::Mul>(x, minus_one), call<ops::Neg>(x), is_arithmetic},
    {"cast-to-itself", call<ops::Cast>(x), x, has_operand_type},
    {"reshape-to-itself", call<ops::Reshape>(x), x, has_operand_type},
    {"expand-to-itself", call<ops::Expand>(x), x, has_operand_type},
    {"permute-nothing", call<ops::Permute>(x), x, is_identity_permutation},
    {"slice-everything", call<ops::Slice>(x), x, has_operand_type},  // equal extents leave no other start or step
};

inline constexpr GeneralRule canonical_general_rules[] = {
    {"literal-right", literal_to_the_right},
    {"implicit-broadcast", broadcast_implicitly},
};

}  // namespace detail

SINTER_DECL void add_canonical_rules(RuleSet& rules) {
  rules.add(detail::canonical_rules).add(detail::canonical_general_rules);
}

}  // namespace rewrite

SINTER_DECL Graph Canonicalise::operator()(const Graph& graph) const {
  const rewrite::RuleSet& rules = process_object([] {
    auto* set = new rewrite::RuleSet;
    rewrite::add_canonical_rules(*set);
    return set;
  });
  return rewrite::Rewriter(rules, graph).run();
}

SINTER_NAMESPACE_END
