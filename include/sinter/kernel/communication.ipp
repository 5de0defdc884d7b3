// Steps that communicate, as collectives do: a program whose gradients are summed over ranks has them under way while
// it computes the next ones. A part of the memory planner.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/memory_plan.hpp>
#include <sinter/kernel/step_queue.ipp>
#include <sinter/ops/host_function.hpp>

#include <algorithm>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

enum class Beside : bool { no, yes };

/// Does the group communicate? Beside::yes: on a device, beside its kernels.
inline bool communicates(const FusionGraph& nodes, const FusionGroup& group, Beside beside) {
  if (!group.is_host) return false;
  const Node* const node = nodes.graph_node(group.members[0].node);
  return node != nullptr && ops_detail::communicates(node->attrs) &&
         (beside == Beside::no || ops_detail::runs_on_devices(node->attrs));
}

/// What communicates runs first, with the kernels that do nothing but put its operand together, and what reads the
/// results last. `before`: groups that must run earlier.
inline void mark_communication(const FusionGraph& nodes, const Fusion& fusion, std::span<const LoweredKernel> kernels,
                               std::span<const SmallVector<std::int32_t, 8>> before, std::span<StepUse> uses) {
  SmallVector<std::int32_t, 32> urgent;
  for (std::size_t g = 0; g < uses.size(); ++g)
    if (communicates(nodes, fusion.groups[g], Beside::no)) urgent.push_back(static_cast<std::int32_t>(g));
  if (urgent.empty()) return;
  std::vector<SmallVector<std::int32_t, 8>> after(uses.size());
  for (std::size_t g = 0; g < uses.size(); ++g)
    for (const std::int32_t earlier : before[g]) after[as_index(earlier)].push_back(static_cast<std::int32_t>(g));
  for (const std::int32_t g : urgent)
    for (const std::int32_t reader : after[as_index(g)]) uses[as_index(reader)].is_patient = true;
  while (!urgent.empty()) {
    const auto g = as_index(urgent.back());
    urgent.pop_back();
    if (uses[g].is_urgent) continue;
    uses[g].is_urgent = true;
    for (const std::int32_t maker : before[g]) {
      const auto& users = after[as_index(maker)];
      const bool is_assembly =
          !fusion.groups[as_index(maker)].is_host && kernels[as_index(maker)].kernel.kind == KernelKind::pointwise;
      if (is_assembly &&
          std::all_of(users.begin(), users.end(), [&](std::int32_t user) { return uses[as_index(user)].is_urgent; }))
        urgent.push_back(maker);
    }
  }
}

/// What runs beside the kernels has its memory until somebody waits for it, who reads a result; else to the end.
/// `last`: per root, the last step that touches it.
template <class RootOf>
void hold_what_is_communicated(const FusionGraph& nodes, const Fusion& fusion, std::span<const StepUse> uses,
                               std::span<const std::int32_t> order, const RootOf& root_of,
                               std::vector<std::int32_t>& last) {
  const auto is_beside = [&](std::int32_t g) { return communicates(nodes, fusion.groups[as_index(g)], Beside::yes); };
  for (std::size_t step = 0; step < order.size(); ++step) {
    if (!is_beside(order[step])) continue;
    const StepUse& use = uses[as_index(order[step])];
    const auto waits = [&](std::int32_t later) {
      if (is_beside(later)) return false;
      for (const std::int32_t node : uses[as_index(later)].reads)
        for (const std::int32_t result : use.writes)
          if (root_of(node) == root_of(result)) return true;
      return false;
    };
    std::size_t end = step;
    while (end + 1 < order.size() && !waits(order[end])) ++end;
    for (const auto* touched : {&use.reads, &use.writes})
      for (const std::int32_t node : *touched) {
        std::int32_t& known = last[as_index(root_of(node))];
        known = std::max(known, static_cast<std::int32_t>(end));
      }
  }
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
