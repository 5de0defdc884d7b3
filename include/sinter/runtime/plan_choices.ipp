// Of a plan that is built without code: which values are computed again, and where kernels could be cut.
#pragma once

#include <sinter/runtime/plan_choices.hpp>

#include <sinter/runtime/plan.ipp>  // PlanBuilder

#include <algorithm>
#include <limits>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
inline constexpr std::size_t most_cuts = 8;
inline constexpr std::int64_t least_cut_bytes = 4096;  // less is in the first cache, whoever wrote it

/// A value that could be written. `rank`: the kind of gain that is to be hoped for, the best first.
struct PossibleCut {
  int rank = 0;
  std::int64_t bytes = 0;  // that are read and written more
  ScheduleStep step;
};
}  // namespace runtime_detail

SINTER_DECL std::vector<Schedule> PlanBuilder::other_schedules() const {
  using enum ScheduleAction;
  std::vector<runtime_detail::PossibleCut> cuts;
  const auto add = [&](int node, ScheduleAction action, int rank) {
    const std::int32_t number = nodes_[node].graph_node;
    if (number < 0 || number > std::numeric_limits<std::uint16_t>::max()) return;
    // In registers such values are f32: in memory they would be other ones.
    if (is_floating(nodes_[node].dtype) && size_of(nodes_[node].dtype) < 4) return;
    const ScheduleStep step{.action = action, .number = static_cast<std::uint16_t>(number)};
    const bool is_known = std::any_of(cuts.begin(), cuts.end(), [&](const auto& cut) { return cut.step == step; });
    if (!is_known) cuts.push_back({rank, nodes_.estimate_bytes(node), step});
  };
  bool has_recomputed = false, has_epilogue = false;
  for (const FusionGroup& group : fusion_.groups) {
    if (group.is_host) continue;
    std::int64_t largest = 0;
    for (const FusionMember& member : group.members) largest = std::max(largest, nodes_.estimate_bytes(member.node));
    if (largest < runtime_detail::least_cut_bytes) continue;
    has_epilogue = has_epilogue || (group.contraction >= 0 && group.members.size() > 1);
    for (const FusionMember& member : group.members)
      for (const std::int32_t input : nodes_[member.node].inputs) {
        const int base = nodes_.base_of(input);
        if (nodes_[base].kind == NodeKind::map && nodes_[base].is_inlined &&
            nodes_.estimate_bytes(base) >= runtime_detail::least_cut_bytes) {
          has_recomputed = true;
          add(base, store, 0);
        }
        const auto read = std::find_if(group.members.begin(), group.members.end(),
                                       [&](const FusionMember& each) { return each.node == base; });
        if (read == group.members.end() || fusion_.is_stored[as_index(base)]) continue;
        if (base == group.contraction) add(base, cut, 1);
        else if (group.is_multipass && member.is_after_reduction != read->is_after_reduction) add(base, cut, 2);
        else if (group.has_reduction && nodes_[member.node].kind == NodeKind::reduce) add(base, cut, 3);
      }
  }
  std::sort(cuts.begin(), cuts.end(), [](const auto& a, const auto& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.bytes != b.bytes ? a.bytes > b.bytes : a.step.number < b.step.number;
  });
  std::vector<Schedule> schedules;
  if (has_epilogue) schedules.push_back({{.action = epilogues, .number = 0}});
  if (has_recomputed) schedules.push_back({{.action = recompute, .number = 0}});
  if (!plan_->groups_.empty()) schedules.push_back({{.action = horizontal, .number = 0}});
  for (std::size_t i = 0; i < cuts.size() && i < runtime_detail::most_cuts; ++i) schedules.push_back({cuts[i].step});
  return schedules;
}

SINTER_DECL std::vector<Schedule> plan_schedules(const Graph& graph, const PlanOptions& options) {
  std::vector<Schedule> schedules{Schedule{}};
  if (!options.fuse) return schedules;
  if (is_on_host(graph, options.output_devices) && !runtime_detail::has_foreign_composite(graph, options.backends)) {
    PlanOptions sketch = options;
    sketch.with_code = false;
    PlanBuilder builder(graph, sketch);
    builder.run();
    for (Schedule& schedule : builder.other_schedules()) schedules.push_back(std::move(schedule));
    return schedules;
  }
  // The parts of a graph number nodes for themselves: only what needs no number.
  using enum ScheduleAction;
  for (const auto& [action, is_on] : {std::pair(epilogues, options.epilogues), std::pair(recompute, options.recompute),
                                      std::pair(horizontal, options.horizontal), std::pair(graphs, options.as_one)})
    if (is_on) schedules.push_back({{.action = action, .number = 0}});
  return schedules;
}

SINTER_DECL bool follow(PlanOptions& options, const Schedule& schedule) {
  using enum ScheduleAction;
  PlanOptions changed = options;
  for (const ScheduleStep& step : schedule.steps()) {
    if (step.axis >= 0) return false;
    if (step.action == store) changed.kept.push_back(step.number);
    else if (step.action == cut) changed.cut.push_back(step.number);
    else if (step.number != 0) return false;
    else if (step.action == epilogues) changed.epilogues = false;
    else if (step.action == recompute) changed.recompute = false;
    else if (step.action == horizontal) changed.horizontal = false;
    else if (step.action == graphs) changed.as_one = false;
    else return false;
  }
  options = std::move(changed);
  return true;
}

SINTER_NAMESPACE_END
