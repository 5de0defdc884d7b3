// Folding: what is made of literals only becomes a literal. A literal is a `full`: one number in some shape, so folding
// never touches extents and never makes a tensor larger than one number.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/rewrite.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Fold {
  std::string_view name() const { return "fold"; }
  Graph operator()(const Graph& graph) const;
};

namespace rewrite {
/// The rules, for passes that expose literals.
void add_folding_rules(RuleSet& rules);
}  // namespace rewrite

SINTER_NAMESPACE_END
