// The plan of a version in Mode::max_autotune: schedules of its kernels, then its cut into kernels. Knows no calls.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/tune/tuner.hpp>
#include <sinter/runtime/plan.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// The plan of a graph with what was measured to be fastest.
std::shared_ptr<const Plan> tuned_plan(const Graph& graph, const PlanOptions& options, TuneRequest request);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
