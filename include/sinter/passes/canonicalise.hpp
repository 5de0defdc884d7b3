// One spelling of each thing, so that later rules need one pattern and equal values look equal: literals to the right,
// comparisons as lt and le, subtraction of a literal as addition, squares as products, views that change nothing
// removed, and broadcasting left to the elementwise op. Exact: no result changes by a bit.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/rewrite.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Canonicalise {
  std::string_view name() const { return "canonicalise"; }
  Graph operator()(const Graph& graph) const;
};

namespace rewrite {
/// The rules, for passes that keep what they make canonical.
void add_canonical_rules(RuleSet& rules);
}  // namespace rewrite

SINTER_NAMESPACE_END
