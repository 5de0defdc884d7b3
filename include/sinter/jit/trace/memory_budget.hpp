// Options::memory_budget: recomputation is added to an optimised graph until its plan holds no more than the budget,
// the cheapest first. Each round lowers the place where most is held (passes/rematerialise.hpp) and measures the plan
// again. Knows no traces and no calls.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/plan.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// The graph, changed where that is needed so that a plan made with `wanted` holds no more than `budget` bytes; as it
/// is if that is 0. Throws UserError naming the lowest peak that was reached.
Graph fit_memory(const Graph& graph, std::int64_t budget, const PlanOptions& wanted, Location where);

}  // namespace jit
SINTER_NAMESPACE_END
