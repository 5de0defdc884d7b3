// The folding rules. Reductions fold only where the number of elements does not matter.
#pragma once

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/fold.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace rewrite {
namespace detail {

inline Value full_like(Rewriter& rewriter, const Literal& literal, Value value) {
  const Shape shape = rewriter.builder().type(value).shape;
  return rewriter.builder().add(op_info<ops::Full>, {}, full_attrs(literal, shape),
                                rewriter.builder().node(value).where);
}

inline Value fold_elementwise(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.op->kind != OpKind::elementwise || node.inputs.empty()) return {};
  std::vector<Literal> operands;
  for (Value v : node.inputs) {
    if (rewriter.builder().node(v).op != &op_info<ops::Full>) return {};
    operands.push_back(*literal_of(rewriter.builder(), v));
  }
  const auto result = evaluate(*node.op, operands, node.attrs, node.types[0].dtype);
  if (!result) return {};
  return full_like(rewriter, *result, value);
}

/// Every view of equal elements is the same number in another shape.
inline Value fold_view(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.op->kind != OpKind::view) return {};
  const auto literal = literal_of(rewriter.builder(), node.inputs[0]);
  return literal ? full_like(rewriter, *literal, value) : Value{};
}

inline bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Dim extent) { return extent.is_static() && extent.value() == 0; });
}

/// Nothing is read of a value without elements, so it is a literal, and what it was made of may die. A product over
/// nothing is 0. Functions of the user and sub-graphs may do more than compute; they run.
inline Value fold_empty(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  const OpInfo& op = *node.op;
  if (op.kind == OpKind::leaf || op.kind == OpKind::effect || op.is_transfer || op.run_on_host != nullptr ||
      !node.attrs.bodies.empty())
    return {};
  if (&op == &op_info<ops::Full> || node.types.size() != 1 || is_complex(node.types[0].dtype)) return {};
  const bool sums_nothing = &op == &op_info<ops::Matmul> && is_empty(rewriter.builder().type(node.inputs[0]).shape);
  if (!sums_nothing && !is_empty(node.types[0].shape)) return {};
  Attrs attrs = full_attrs(Literal{.dtype = node.types[0].dtype}, node.types[0].shape);
  attrs.device = node.types[0].device;
  return rewriter.builder().add(op_info<ops::Full>, {}, std::move(attrs), node.where);
}

/// Whether a reduction over these extents has at least one element.
inline bool is_surely_nonempty(const Shape& shape, const std::vector<SymbolInfo>& symbols) {
  for (Dim dim : shape.dims()) {
    const std::int64_t symbol = dim.as_symbol();
    const bool is_positive =
        dim.is_static() ? dim.value() > 0
                        : symbol >= 0 && as_index(symbol) < symbols.size() && symbols[as_index(symbol)].min > 0;
    if (!is_positive) return false;
  }
  return true;
}

/// Sums of 0, products of 1, and the largest or smallest of equal elements.
inline Value fold_reduction(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.op->kind != OpKind::reduction) return {};
  const auto literal = literal_of(rewriter.builder(), node.inputs[0]);
  if (!literal || literal->dtype != node.types[0].dtype) return {};
  const auto prim = static_cast<Prim>(node.op->reduction);
  const double number = is_floating(literal->dtype) ? literal->real : static_cast<double>(literal->integer);
  bool is_kept =
      (prim == Prim::reduce_add && number == 0 && !has_sign_bit(number)) || (prim == Prim::reduce_mul && number == 1);
  if (prim == Prim::reduce_min || prim == Prim::reduce_max)
    is_kept = is_surely_nonempty(rewriter.builder().type(node.inputs[0]).shape, rewriter.builder().graph().symbols());
  return is_kept ? full_like(rewriter, *literal, value) : Value{};
}

/// A constant of one element is a literal.
inline Value fold_constant(Rewriter& rewriter, Value value) {
  const Node& node = rewriter.builder().node(value);
  if (node.op != &op_info<ops::Constant>) return {};
  const Type& type = node.types[0];
  if (is_complex(type.dtype) || type.device != Device::cpu() || !type.shape.is_static() ||
      type.shape.numel().value() != 1)
    return {};
  Literal literal;
  literal.dtype = type.dtype;
  visit_dtype(type.dtype, [&](auto zero) {
    decltype(zero) element;
    std::memcpy(&element, node.attrs.constant->data(), sizeof element);
    if (is_floating(type.dtype)) literal.real = static_cast<double>(element);
    else literal.integer = static_cast<std::int64_t>(element);
  });
  return full_like(rewriter, literal, value);
}

inline constexpr GeneralRule folding_rules[] = {
    {"fold-empty", fold_empty},         {"fold-elementwise", fold_elementwise}, {"fold-view", fold_view},
    {"fold-reduction", fold_reduction}, {"fold-constant", fold_constant},
};

}  // namespace detail

SINTER_DECL void add_folding_rules(RuleSet& rules) { rules.add(detail::folding_rules); }

}  // namespace rewrite

SINTER_DECL Graph Fold::operator()(const Graph& graph) const {
  const rewrite::RuleSet& rules = process_object([] {
    auto* set = new rewrite::RuleSet;
    rewrite::add_folding_rules(*set);
    return set;
  });
  return rewrite::Rewriter(rules, graph).run();
}

SINTER_NAMESPACE_END
