// See the header. Executables that the process holds do not tell what their code was found by: new ones are made.
#pragma once

#include <sinter/runtime/plan_code.hpp>

#include <sinter/base/index.hpp>
#include <sinter/runtime/partition_plan.hpp>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline void compile_step_again(const Plan& plan, const PlanStep& step, std::span<const std::int64_t> hints) {
  if (step.host) {
    for (const auto& body : step.host->bodies) compile_again(*body);
    if (step.host->intrinsic != nullptr) bind_host_op(*step.host, hints);
    return;
  }
  const BoundGeometry geometry = sinter::bind(step.geometry, hints);
  for (int axis = 0; axis < step.kernel.rank(); ++axis)
    if (geometry.extent[as_index(axis)] <= 0) return;
  for (Backend* backend : plan.origin()->options.backends)
    if (backend->name() == step.backend)
      if (const auto made = backend->compile(step.kernel, {}, nullptr)) made->bind(geometry);
}

SINTER_DECL void compile_again(const Plan& plan) {
  if (plan.parts() != nullptr)
    for (const PartitionPlan::Part& part : plan.parts()->parts)
      if (part.plan != nullptr) compile_again(*part.plan);
  if (plan.backend() != nullptr || plan.origin() == nullptr) return;
  std::vector<std::int64_t> hints;
  for (const SymbolInfo& symbol : plan.symbols()) hints.push_back(symbol.hint);
  for (const PlanStep& step : plan.steps()) compile_step_again(plan, step, hints);
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
