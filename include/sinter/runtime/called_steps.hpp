// Which steps of repeated blocks a frame will need code for, so that it is made beside that of its own. Knows plans;
// knows no frames.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/host_ops.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/runtime/step_binding.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {
/// The group that each step is in; -1: none.
inline std::vector<std::int32_t> groups_of_steps(const Plan& plan) {
  std::vector<std::int32_t> groups(plan.steps().size(), -1);
  for (std::size_t g = 0; g < plan.groups().size(); ++g) {
    const StepRange range = plan.groups()[g];
    std::fill(groups.begin() + range.first, groups.begin() + range.end, static_cast<std::int32_t>(g));
  }
  return groups;
}

/// A step of a body that a frame will call.
struct CalledStep {
  const Plan* body;
  const PlanStep* step;
  bool is_grouped;
};
/// Those of all bodies for this back end, each body once.
inline void find_called_steps(const Plan& plan, std::vector<const Plan*>& seen, std::vector<CalledStep>& found) {
  for (const PlanStep& call : plan.steps()) {
    if (!call.host || !call.host->is_call) continue;
    const Plan& body = *call.host->bodies[0];
    if (body.backend() != plan.backend() || std::find(seen.begin(), seen.end(), &body) != seen.end()) continue;
    seen.push_back(&body);
    const std::vector<std::int32_t> groups = groups_of_steps(body);
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (const PlanStep& step = body.steps()[i]; !step.host || step.host->intrinsic != nullptr)
        found.push_back({&body, &step, groups[i] >= 0});
    find_called_steps(body, seen, found);
  }
}
/// Code that the back end compiles for the step, and what it measures, it keeps: both are there when the body's own
/// frame is made. What fails is met again there.
inline void compile_ahead(const CalledStep& called, std::span<const std::int64_t> symbols) noexcept {
  try {
    if (called.step->host) bind_host_op(told_of_constants(*called.body, *called.step), symbols);
    else bind_kernel(*called.step, *called.body, symbols, called.is_grouped);
  } catch (...) {}
}
}  // namespace runtime_detail

SINTER_NAMESPACE_END
