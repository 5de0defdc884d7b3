// Algebraic simplification. Every rule holds for NaN, infinities and -0; one that holds for some dtypes only says so in
// its condition. Rules may change how a result is rounded only where the op leaves that open: a power is computed
// within a few units in the last place, and merged sums add in another order. Runs after differentiation, as it drops
// stop_gradient. What it makes is kept canonical and folded, so that one walk reaches the end.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/rewrite.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Simplify {
  std::string_view name() const { return "simplify"; }
  Graph operator()(const Graph& graph) const;
};

namespace rewrite {
/// Rules of scalar algebra. Those of views, reductions and casts are in simplify_structure.hpp.
void add_algebra_rules(RuleSet& rules);
}  // namespace rewrite

SINTER_NAMESPACE_END
