// Rules that simplify views, reductions, casts and updates: two of a kind become one, and what covers everything or
// nothing goes away. They are part of the pass Simplify.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/passes/rewrite.hpp>

SINTER_NAMESPACE_BEGIN

namespace rewrite {
void add_structure_rules(RuleSet& rules);
}  // namespace rewrite

SINTER_NAMESPACE_END
