// The rewrite engine: one walk over the graph in which every node, and every node that a rule makes, is rewritten until
// no rule applies. Rules are found by the op at their root, so that the work is linear in the nodes. Must not know any
// rule.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/evaluate.hpp>
#include <sinter/passes/pattern.hpp>

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace rewrite {

class Rewriter;

/// A rewrite that no pattern can say, because it is about a whole kind of ops: gives the value to put in place, or
/// none.
struct GeneralRule {
  std::string_view name;
  Value (*apply)(Rewriter& rewriter, Value value);
};

/// Rules, ready to be looked up. Made once per pass and kept.
class RuleSet {
 public:
  RuleSet& add(std::span<const Rule> rules);
  RuleSet& add(std::span<const GeneralRule> rules);
  std::span<const Rule* const> rules_for(const OpInfo* op) const;
  std::span<const GeneralRule* const> general() const { return general_; }
  /// Names of all rules; tests see by it that each has its cases.
  std::vector<std::string_view> names() const;

 private:
  std::unordered_map<const OpInfo*, std::vector<const Rule*>> by_root_;
  std::vector<const GeneralRule*> general_;
  std::vector<std::string_view> names_;
};

/// Where a pattern was found: what its variables stand for, and the nodes of its ops.
class Match {
 public:
  Match(Rewriter& rewriter, Value root) : rewriter_(rewriter), root_(root) {}

  Value root() const { return root_; }
  /// What variable `pattern` (x, y, c, ...) stands for.
  Value operator[](const Pattern& pattern) const { return bound_[pattern.root().variable]; }
  /// Node of the root, and of the op that is the root's operand number `operand`. Valid until the next add().
  const Node& node() const;
  const Node& operand(std::size_t operand) const;
  const Type& type(Value v) const;
  const Type& type() const { return type(root_); }
  Literal literal(const Pattern& pattern) const;
  /// Adds a node with the location of the root.
  Value add(const OpInfo& op, std::initializer_list<Value> inputs, SharedAttrs attrs = {});

 private:
  friend class Rewriter;
  bool find(const Pattern& pattern, std::size_t part, Value value);

  Rewriter& rewriter_;
  Value root_;
  std::array<Value, 5> bound_{};
};

/// The `full` that a value is a view of, as a number.
std::optional<Literal> literal_of(const GraphBuilder& builder, Value value);
/// Attributes of a `full` of that number.
Attrs full_attrs(const Literal& literal, const Shape& shape);

class Rewriter {
 public:
  Rewriter(const RuleSet& rules, const Graph& graph);
  /// The graph with all rules applied and dead nodes removed.
  Graph run();

  GraphBuilder& builder() { return builder_; }
  const GraphBuilder& builder() const { return builder_; }
  /// Adds a node and rewrites it.
  Value add(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs, Location where);
  /// A rank-0 literal.
  Value literal(const Literal& literal, Location where);

 private:
  Value settle(Value value);
  Value apply(const Rule& rule, Value value);
  Value build(const Pattern& pattern, const Match& match, DType number_dtype);
  Value fit(Value replacement, const Type& wanted, Location where);

  const RuleSet& rules_;
  const Graph& graph_;
  GraphBuilder builder_;
  bool has_changed_ = false;
  int depth_ = 0;
};

}  // namespace rewrite
SINTER_NAMESPACE_END
