// What else the plan of a graph could be: values written once or computed again, kernels cut in two, products without
// what follows them. Which is faster is for others to measure.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/runtime/plan.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN

/// How else the graph could be cut into kernels and these enqueued, the way of `options` (the empty schedule) first: a
/// dozen at most, and none that changes what is rounded or the order of a sum. None but that where fusion is off. Nodes
/// are those of plan_subject(), or of its sub-graphs; of a graph that is planned in parts none is named.
std::vector<Schedule> plan_schedules(const Graph& graph, const PlanOptions& options);
/// Whether kernels keep the same values in memory as before, of those that have other bits there than in registers, and
/// reduce in the same order, those of sub-graphs too. None of plan_schedules() is one that does not.
bool keeps_bits(const Graph& graph, const PlanOptions& options, const Schedule& schedule);
/// Whether the same back ends compute the same nodes in both plans of one graph, each by one of them. Where another
/// takes a node, since the first declines its kernel, functions that are not exactly rounded have other bits.
bool have_equal_backends(const Plan& a, const Plan& b);
/// Follows one of these. False, and nothing has changed: it is none of a plan.
bool follow(PlanOptions& options, const Schedule& schedule);

SINTER_NAMESPACE_END
