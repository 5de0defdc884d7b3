// Matching, building replacements, and the walk.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/rewrite.hpp>

#include <bit>

SINTER_NAMESPACE_BEGIN
namespace rewrite {

/// Rules that undo each other would be applied forever; no sound chain of rewrites at one node is this long.
inline constexpr int most_steps_per_node = 64;
inline constexpr int deepest_replacement = 16;

SINTER_DECL RuleSet& RuleSet::add(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    by_root_[rule.from.root().op].push_back(&rule);
    names_.push_back(rule.name);
  }
  return *this;
}
SINTER_DECL RuleSet& RuleSet::add(std::span<const GeneralRule> rules) {
  for (const GeneralRule& rule : rules) {
    general_.push_back(&rule);
    names_.push_back(rule.name);
  }
  return *this;
}
SINTER_DECL std::span<const Rule* const> RuleSet::rules_for(const OpInfo* op) const {
  const auto found = by_root_.find(op);
  return found == by_root_.end() ? std::span<const Rule* const>() : std::span<const Rule* const>(found->second);
}
SINTER_DECL std::vector<std::string_view> RuleSet::names() const { return names_; }

SINTER_DECL std::optional<Literal> literal_of(const GraphBuilder& builder, Value value) {
  const Node& node = builder.node(value);
  if (node.op != &op_info<ops::Full>) return std::nullopt;
  return Literal{node.types[0].dtype, node.attrs.value, node.attrs.integer};
}

SINTER_DECL Attrs full_attrs(const Literal& literal, const Shape& shape) {
  Attrs attrs;
  attrs.shape = shape;
  attrs.dtype = literal.dtype;
  attrs.has_dtype = true;
  if (is_floating(literal.dtype)) attrs.value = literal.real;
  else attrs.integer = literal.integer;
  return attrs;
}

SINTER_DECL const Node& Match::node() const { return rewriter_.builder().node(root_); }
SINTER_DECL const Node& Match::operand(std::size_t operand) const {
  return rewriter_.builder().node(node().inputs[operand]);
}
SINTER_DECL const Type& Match::type(Value v) const { return rewriter_.builder().type(v); }
SINTER_DECL Literal Match::literal(const Pattern& pattern) const {
  return *literal_of(rewriter_.builder(), (*this)[pattern]);
}
SINTER_DECL Value Match::add(const OpInfo& op, std::initializer_list<Value> inputs, SharedAttrs attrs) {
  return rewriter_.add(op, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs), node().where);
}

namespace detail {
/// Floating numbers are compared by bits: 0 is not -0.
inline bool is_number(const Literal& literal, double number) {
  if (is_floating(literal.dtype))
    return std::bit_cast<std::uint64_t>(literal.real) == std::bit_cast<std::uint64_t>(number);
  return std::bit_cast<std::uint64_t>(number) != std::bit_cast<std::uint64_t>(-0.0) &&
         static_cast<double>(literal.integer) == number;
}
}  // namespace detail

SINTER_DECL bool Match::find(const Pattern& pattern, std::size_t part_index, Value value) {
  const Pattern::Part& part = pattern.parts[part_index];
  switch (part.kind) {
    case Pattern::Kind::number: {
      const auto literal = literal_of(rewriter_.builder(), value);
      return literal && detail::is_number(*literal, part.number);
    }
    case Pattern::Kind::literal:
      if (!literal_of(rewriter_.builder(), value)) return false;
      [[fallthrough]];
    case Pattern::Kind::variable: {
      Value& bound = bound_[part.variable];
      if (bound) return bound == value;
      bound = value;
      return true;
    }
    case Pattern::Kind::op: {
      const Node& node = rewriter_.builder().node(value);
      if (node.op != part.op || node.inputs.size() != part.operands || !node.attrs.bodies.empty()) return false;
      for (std::size_t i = 0; i < part.operands; ++i)
        if (!find(pattern, part.operand[i], node.inputs[i])) return false;
      return true;
    }
  }
  __builtin_unreachable();
}

SINTER_DECL Rewriter::Rewriter(const RuleSet& rules, const Graph& graph)
    : rules_(rules), graph_(graph), builder_(graph) {
  builder_.reserve(graph.nodes().size() + graph.nodes().size() / 4 + 8);
}

SINTER_DECL Value Rewriter::add(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs, Location where) {
  const Value made = builder_.add_shared(op, inputs, std::move(attrs), where);
  if (depth_ >= deepest_replacement) return made;
  ++depth_;
  const Value settled = settle(made);
  --depth_;
  return settled;
}

SINTER_DECL Value Rewriter::literal(const Literal& literal, Location where) {
  return builder_.add(op_info<ops::Full>, {}, full_attrs(literal, Shape()), where);
}

SINTER_DECL Value Rewriter::build(const Pattern& pattern, const Match& match, DType number_dtype) {
  const Location where = builder_.node(match.root()).where;
  std::array<Value, 6> made{};
  for (std::size_t i = 0; i < pattern.size; ++i) {
    const Pattern::Part& part = pattern.parts[i];
    if (part.kind == Pattern::Kind::variable || part.kind == Pattern::Kind::literal)
      made[i] = match.bound_[part.variable];
    if (part.kind != Pattern::Kind::op) continue;
    DType dtype =
        number_dtype;  // a number has the dtype of its sibling; a select's condition comes first and does not count
    for (std::size_t k = 0; k < part.operands; ++k)
      if (made[part.operand[k]]) dtype = builder_.type(made[part.operand[k]]).dtype;
    Values operands;
    for (std::size_t k = 0; k < part.operands; ++k) {
      const Pattern::Part& operand = pattern.parts[part.operand[k]];
      if (operand.kind == Pattern::Kind::number)
        made[part.operand[k]] =
            literal(Literal{dtype, operand.number, static_cast<std::int64_t>(operand.number)}, where);
      operands.push_back(made[part.operand[k]]);
    }
    made[i] = add(*part.op, operands, {}, where);
  }
  const Pattern::Part& root = pattern.root();
  if (root.kind == Pattern::Kind::number)
    return literal(Literal{number_dtype, root.number, static_cast<std::int64_t>(root.number)}, where);
  return made[pattern.size - 1u];
}

/// A replacement has the type of what it replaces; a smaller one that broadcasts to it is expanded.
SINTER_DECL Value Rewriter::fit(Value replacement, const Type& wanted, Location where) {
  const Type type = builder_.type(replacement);
  if (same_but_device(type, wanted)) return replacement;  // numbers and what is made from nothing join any device
  if (type.dtype != wanted.dtype || type.shape.rank() > wanted.shape.rank()) return {};
  if (const auto literal = literal_of(builder_, replacement))
    return builder_.add(op_info<ops::Full>, {}, full_attrs(*literal, wanted.shape), where);
  for (int i = 1; i <= type.shape.rank(); ++i) {
    const Dim from = type.shape[-i], to = wanted.shape[-i];
    if (!identical(from, to) && !(from.is_static() && from.value() == 1)) return {};
  }
  Attrs attrs;
  attrs.shape = wanted.shape;
  const Value inputs[] = {replacement};
  return add(op_info<ops::Expand>, inputs, std::move(attrs), where);
}

SINTER_DECL Value Rewriter::apply(const Rule& rule, Value value) {
  Match match(*this, value);
  if (!match.find(rule.from, rule.from.size - 1u, value)) return {};
  if (rule.when != nullptr && !rule.when(match)) return {};
  return rule.to.build != nullptr ? rule.to.build(match) : build(rule.to.pattern, match, builder_.type(value).dtype);
}

SINTER_DECL Value Rewriter::settle(Value value) {
  for (int step = 0; step < most_steps_per_node; ++step) {
    const Node& node = builder_.node(value);
    if (node.types.size() != 1 || node.op->kind == OpKind::effect) return value;
    const std::span<const Rule* const> rules = rules_.rules_for(node.op);
    if (rules.empty() && rules_.general().empty()) return value;
    const Type type = node.types[0];
    const Location where = node.where;
    Value next;
    auto accept = [&](Value candidate) {
      if (candidate) next = fit(candidate, type, where);
      return static_cast<bool>(next) && next != value;
    };
    bool is_rewritten = false;
    for (const Rule* rule : rules)
      if ((is_rewritten = accept(apply(*rule, value)))) break;
    for (std::size_t i = 0; !is_rewritten && i < rules_.general().size(); ++i)
      is_rewritten = accept(rules_.general()[i]->apply(*this, value));
    if (!is_rewritten) return value;
    has_changed_ = true;
    value = next;
  }
  return value;
}

SINTER_DECL Graph Rewriter::run() {
  std::vector<Value> moved(graph_.nodes().size());
  auto move = [&](Value v) {
    const Value to = moved[as_index(v.node)];
    return Value{to.node, to.result + v.result};
  };
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const Node& node = graph_.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(move(v));
    const Value copied = builder_.copy(node, inputs);
    moved[id] =
        node.op == &op_info<ops::Input> || node.op->is_call ? copied : settle(copied);  // no rule is about these
  }
  std::vector<Value> outputs;
  for (Value v : graph_.outputs()) outputs.push_back(move(v));
  Graph done = builder_.finish(outputs);
  return has_changed_ ? Dce{}(done) : graph_;
}

}  // namespace rewrite
SINTER_NAMESPACE_END
