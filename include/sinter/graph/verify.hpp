// The verifier: what every graph promises. Runs after each pass when checks are on.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

SINTER_NAMESPACE_BEGIN

/// Throws InternalError naming the node when something is inconsistent: order, arity, result types against the op's
/// rule.
void verify(const Graph& graph);

SINTER_NAMESPACE_END
