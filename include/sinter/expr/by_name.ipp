// See the header.
#pragma once

#include <sinter/expr/by_name.hpp>

#include <sinter/expr/handles.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Operands of graphs, effects, and what runs functions are no values of others.
inline bool is_callable(const OpInfo& op) {
  return op.kind != OpKind::leaf && op.kind != OpKind::effect && op.bodies.empty() && op.refuse == nullptr &&
         !op.is_call;
}

inline std::string_view kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::leaf: return "leaf";
    case OpKind::elementwise: return "elementwise";
    case OpKind::reduction: return "reduction";
    case OpKind::view: return "view";
    case OpKind::structured: return "structured";
    case OpKind::composite: return "composite";
    case OpKind::effect: return "effect";
  }
  __builtin_unreachable();
}
inline std::string_view rule_name(const OpInfo& op) {
  if (op.kind != OpKind::elementwise) return "";
  switch (op.dtypes) {
    case DTypeRule::promote: return "promoted";
    case DTypeRule::compare: return "bool";
    case DTypeRule::floating: return "promoted to floating";
    case DTypeRule::logical: return "promoted, not floating";
    case DTypeRule::select: return "promoted, of all but the first";
    case DTypeRule::attribute: return "attribute dtype";
    case DTypeRule::first: return "of the first";
  }
  __builtin_unreachable();
}

/// The name that is nearest to a misspelt one: that of which the fewest letters differ in their places.
inline std::string_view nearest_op(std::string_view wanted) {
  std::string_view best;
  std::size_t fewest = wanted.size() / 2 + 1;
  for (const OpInfo* op : all_ops()) {
    if (!is_callable(*op)) continue;
    std::vector<std::size_t> row(op->name.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::size_t corner = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j + 1 < row.size(); ++j) {
        const std::size_t replaced = corner + (wanted[i] != op->name[j]);
        corner = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
      }
    }
    if (row.back() < fewest) fewest = row.back(), best = op->name;
  }
  return best;
}

inline const OpInfo& callable_op(std::string_view name, Location where) {
  const OpInfo* op = find_op(name);
  if (op != nullptr && is_callable(*op)) return *op;
  const std::string_view near = nearest_op(name);
  throw UserError("call",
                  op == nullptr
                      ? "there is no operation '" + std::string(name) + "'"
                      : "'" + std::string(name) + "' runs functions or has effects; it is no value of tensors",
                  where,
                  op != nullptr  ? "call the function of that name"
                  : near.empty() ? "list_ops() has them all"
                                 : "did you mean '" + std::string(near) + "'? list_ops() has them all");
}

}  // namespace expr_detail

SINTER_DECL std::string OpSignature::text() const {
  std::string out = std::string(name) + "(";
  if (inputs < 0) out += "x...";
  for (int i = 0; i < inputs; ++i) out += (i > 0 ? ", " : "") + std::string(1, "xyzwuvab"[i % 8]);
  out += ")";
  for (const OpAttribute& attribute : attributes)
    out += (&attribute == attributes.data() ? " {" : ", ") + std::string(attribute.name);
  return attributes.empty() ? out : out + "}";
}

SINTER_DECL std::vector<OpSignature> list_ops() {
  std::vector<OpSignature> list;
  for (const OpInfo* op : all_ops()) {
    if (!expr_detail::is_callable(*op)) continue;
    OpSignature& signature = list.emplace_back();
    signature.name = op->name;
    signature.kind = expr_detail::kind_name(op->kind);
    signature.dtype = expr_detail::rule_name(*op);
    signature.inputs = op->arity;
    signature.is_differentiable = op->has_gradient && (op->vjp != nullptr || op->decompose != nullptr);
    for (const AttrInfo& info : op->attributes)
      signature.attributes.push_back({info.name, attribute_description(info)});
  }
  return list;
}

SINTER_DECL std::vector<Tensor> call(std::string_view name, std::span<const In> inputs, std::string_view attributes,
                                     Location where) {
  const OpInfo& op = expr_detail::callable_op(name, where);
  if (op.arity >= 0 && inputs.size() != as_index(op.arity))
    throw UserError(
        "call",
        std::string(name) + " takes " + std::to_string(op.arity) + " inputs, not " + std::to_string(inputs.size()),
        where);
  Attrs attrs = parse_attributes(op, attributes, where);
  if (op.kind == OpKind::reduction && !inputs.empty())
    for (std::int64_t& axis : attrs.axes)
      if (axis < 0) axis += inputs[0].tensor()->type.shape.rank();  // wrong ones stay negative, and are told of
  std::vector<Leaf> leaves;
  for (const In& input : inputs) leaves.push_back(input.leaf);
  std::vector<Tensor> results;
  for (Ref<TensorImpl>& result : record_results(op, leaves, std::move(attrs), where))
    results.emplace_back(std::move(result));
  return results;
}
SINTER_DECL std::vector<Tensor> call(std::string_view name, std::initializer_list<In> inputs,
                                     std::string_view attributes, Location where) {
  return call(name, std::span<const In>(inputs.begin(), inputs.size()), attributes, where);
}

SINTER_NAMESPACE_END
