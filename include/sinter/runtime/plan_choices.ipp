// Of a plan that is built without code: which values are computed again, where kernels could be cut, and what of that
// would change bits.
#pragma once

#include <sinter/runtime/plan_choices.hpp>

#include <sinter/ops/binary.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/plan.ipp>  // PlanBuilder

#include <algorithm>
#include <compare>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
inline constexpr std::size_t most_cuts = 8;            // with the default and what needs no node there are twelve
inline constexpr std::int64_t least_cut_bytes = 4096;  // less is in the first cache, whoever wrote it

/// A value that could be written. `rank`: the kind of gain that is to be hoped for, the best first.
struct PossibleCut {
  int rank = 0;
  std::int64_t bytes = 0;  // that are read and written more
  ScheduleStep step;
};
struct PossibleCuts {
  std::vector<PossibleCut> cuts{};
  bool has_epilogue = false, has_recomputed = false, has_groups = false;
};
}  // namespace runtime_detail

SINTER_DECL runtime_detail::PossibleCuts PlanBuilder::possible_cuts() const {
  using enum ScheduleAction;
  runtime_detail::PossibleCuts found_cuts;
  found_cuts.has_groups = !plan_->groups_.empty();
  const auto add = [&](int node, ScheduleAction action, int rank) {
    const std::int32_t number = nodes_[node].graph_node;
    if (number < 0 || number > std::numeric_limits<std::uint16_t>::max()) return;
    // In registers such values are f32: in memory they would be other ones.
    if (is_floating(nodes_[node].dtype) && size_of(nodes_[node].dtype) < 4) return;
    const ScheduleStep step{.action = action, .number = static_cast<std::uint16_t>(number)};
    const bool is_known =
        std::any_of(found_cuts.cuts.begin(), found_cuts.cuts.end(), [&](const auto& cut) { return cut.step == step; });
    if (!is_known) found_cuts.cuts.push_back({rank, nodes_.estimate_bytes(node), step});
  };
  for (const FusionGroup& group : fusion_.groups) {
    if (group.is_host) continue;
    std::int64_t largest = 0;
    for (const FusionMember& member : group.members) largest = std::max(largest, nodes_.estimate_bytes(member.node));
    if (largest < runtime_detail::least_cut_bytes) continue;
    found_cuts.has_epilogue = found_cuts.has_epilogue || (group.contraction >= 0 && group.members.size() > 1);
    for (const FusionMember& member : group.members)
      for (const std::int32_t input : nodes_[member.node].inputs) {
        const int base = nodes_.base_of(input);
        if (nodes_[base].kind == NodeKind::map && nodes_[base].is_inlined &&
            nodes_.estimate_bytes(base) >= runtime_detail::least_cut_bytes) {
          found_cuts.has_recomputed = true;
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
  return found_cuts;
}

namespace runtime_detail {
/// The order in which a kernel reduces (kernel.hpp): it follows from the kind, and from its reduced axes.
inline std::string order_of(const Kernel& kernel, const SymbolicGeometry& geometry) {
  std::string text(name(kernel.kind));
  for (int axis = 0; axis < kernel.rank(); ++axis)
    if (kernel.is_reduced(axis)) text += " " + geometry.extent[as_index(axis)].text();
  return text;
}
}  // namespace runtime_detail

SINTER_DECL std::vector<std::string> PlanBuilder::roundings() const {
  std::vector<std::string> found, orders(graph_.nodes().size());
  for (const PlanStep& step : plan_->steps_)
    for (const std::int32_t node : step.nodes)
      if (node >= 0 && !step.host) orders[as_index(node)] += " " + runtime_detail::order_of(step.kernel, step.geometry);
  for (int node = 0; node < nodes_.size(); ++node) {
    const FusionNode& it = nodes_[node];
    if (it.graph_node < 0 || !is_floating(it.dtype)) continue;
    const std::string number = std::to_string(it.graph_node);
    // A product of what is computed on the way may add in another order than one of what is in memory.
    if (it.kind == NodeKind::contract)
      for (const std::int32_t input : it.inputs)
        found.push_back(number + (fusion_.is_stored[as_index(nodes_.base_of(input))] ? " of memory" : " of registers"));
    if (it.kind == NodeKind::reduce || it.kind == NodeKind::scan)
      found.push_back(number + orders[as_index(it.graph_node)]);
    if (!fusion_.is_stored[as_index(node)]) continue;
    const bool is_product = nodes_.graph_node(node)->op == &op_info<ops::Mul> && it.uses == 1;
    if (size_of(it.dtype) < 4 || is_product) found.push_back(number + " stored");
  }
  std::sort(found.begin(), found.end());
  return found;
}

namespace runtime_detail {
/// A graph as its device plans it, without code, and each of its sub-graphs.
struct Sketch {
  explicit Sketch(PlanSubject made) : subject(std::move(made)), builder(subject.graph, subject.options) {
    builder.run();
  }
  PlanSubject subject;
  PlanBuilder builder;
  std::vector<std::unique_ptr<Sketch>> bodies{};  // by number (bodies_of)
};
/// Null: it is planned in parts, or one of its sub-graphs is.
inline std::unique_ptr<Sketch> sketch_whole(const Graph& graph, PlanOptions options) {
  options.with_code = false;
  options.choose_schedule = nullptr;
  std::optional<PlanSubject> subject = plan_subject(graph, options);
  if (!subject) return nullptr;
  auto sketch = std::make_unique<Sketch>(std::move(*subject));
  const Device device = sketch->subject.options.backends.front()->device();
  for (const BodyOf& body : bodies_of(sketch->subject.graph)) {
    const PlanOptions own =
        sketch->builder.body_options(*body.graph, body.carries, static_cast<int>(sketch->bodies.size()));
    std::unique_ptr<Sketch> made = is_planned_as_it_is(*body.graph, device)
                                       ? sketch_whole(*body.graph, own)
                                       : sketch_whole(with_inputs_on(*body.graph, device), own);
    if (made == nullptr) return nullptr;
    sketch->bodies.push_back(std::move(made));
  }
  return sketch;
}

inline void add_roundings(const Sketch& sketch, const std::string& path, std::vector<std::string>& found) {
  for (const std::string& text : sketch.builder.roundings()) found.push_back(path + text);
  for (std::size_t i = 0; i < sketch.bodies.size(); ++i)
    add_roundings(*sketch.bodies[i], path + std::to_string(i) + "/", found);
}
inline std::vector<std::string> roundings_of(const Sketch& sketch) {
  std::vector<std::string> found;
  add_roundings(sketch, "", found);
  return found;
}

/// With what its sub-graphs have: those of its own sub-graphs as steps that name the sub-graph, deeper ones left aside.
inline PossibleCuts cuts_of(const Sketch& sketch, int depth) {
  constexpr std::int64_t expected_iterations = 8;  // a value of a body is written so many times, or more
  PossibleCuts found_cuts = sketch.builder.possible_cuts();
  for (std::size_t i = 0; i < sketch.bodies.size(); ++i) {
    PossibleCuts of_body = cuts_of(*sketch.bodies[i], depth + 1);
    found_cuts.has_epilogue = found_cuts.has_epilogue || of_body.has_epilogue;
    found_cuts.has_recomputed = found_cuts.has_recomputed || of_body.has_recomputed;
    found_cuts.has_groups = found_cuts.has_groups || of_body.has_groups;
    if (depth > 0 || i > std::numeric_limits<std::int8_t>::max()) continue;
    for (PossibleCut& cut : of_body.cuts) {
      if (cut.step.axis >= 0) continue;
      cut.step.axis = static_cast<std::int8_t>(i);
      cut.bytes *= expected_iterations;
      found_cuts.cuts.push_back(cut);
    }
  }
  return found_cuts;
}

inline std::vector<Schedule> other_schedules(const Sketch& sketch) {
  using enum ScheduleAction;
  PossibleCuts found_cuts = cuts_of(sketch, 0);
  std::sort(found_cuts.cuts.begin(), found_cuts.cuts.end(), [](const PossibleCut& a, const PossibleCut& b) {
    return a.rank != b.rank             ? a.rank < b.rank
           : a.bytes != b.bytes         ? a.bytes > b.bytes
           : a.step.axis != b.step.axis ? a.step.axis < b.step.axis
                                        : a.step.number < b.step.number;
  });
  std::vector<Schedule> schedules;
  if (found_cuts.has_epilogue) schedules.push_back({{.action = epilogues, .number = 0}});
  if (found_cuts.has_recomputed) schedules.push_back({{.action = recompute, .number = 0}});
  if (found_cuts.has_groups) schedules.push_back({{.action = horizontal, .number = 0}});
  for (std::size_t i = 0; i < found_cuts.cuts.size() && i < most_cuts; ++i)
    schedules.push_back({found_cuts.cuts[i].step});
  return schedules;
}

/// Of a graph that is planned in parts: has it values that have other bits in memory than in registers, small
/// floating-point ones, and products that only an addition reads, which becomes one operation with them?
inline bool has_values_that_round(const Graph& graph) {
  std::vector<std::int32_t> uses(graph.nodes().size());
  for (const Node& node : graph.nodes())
    for (const Value input : node.inputs) ++uses[as_index(input.node)];
  for (const Value output : graph.outputs()) ++uses[as_index(output.node)];
  const auto is_small = [](const Type& type) { return is_floating(type.dtype) && size_of(type.dtype) < 4; };
  const auto is_product = [&](Value value) {
    const Node& node = graph.node(value);
    return node.op == &op_info<ops::Mul> && uses[as_index(value.node)] == 1 && is_floating(node.types[0].dtype);
  };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    if (std::any_of(node.types.begin(), node.types.end(), is_small)) return true;
    const bool is_sum = node.op == &op_info<ops::Add> || node.op == &op_info<ops::Sub>;
    if (is_sum && std::any_of(node.inputs.begin(), node.inputs.end(), is_product)) return true;
    return std::any_of(node.attrs.bodies.begin(), node.attrs.bodies.end(),
                       [](const auto& body) { return has_values_that_round(*body); });
  });
}
inline bool names_nodes(const Schedule& schedule) {
  return std::any_of(schedule.steps().begin(), schedule.steps().end(),
                     [](const ScheduleStep& step) { return names_node(step.action); });
}
/// Steps that move roundings wherever they apply.
inline bool may_move_roundings(const Schedule& schedule) {
  return schedule.find(ScheduleAction::epilogues).has_value() || schedule.find(ScheduleAction::recompute).has_value();
}
}  // namespace runtime_detail

SINTER_DECL bool keeps_bits(const Graph& graph, const PlanOptions& options, const Schedule& schedule) {
  using namespace runtime_detail;
  PlanOptions other = options;
  if (!follow(other, schedule)) return false;
  const std::unique_ptr<Sketch> standard = sketch_whole(graph, options);
  if (standard == nullptr)
    return !names_nodes(schedule) && (!may_move_roundings(schedule) || !has_values_that_round(graph));
  const std::unique_ptr<Sketch> changed = sketch_whole(graph, other);
  return changed != nullptr && roundings_of(*standard) == roundings_of(*changed);
}

namespace runtime_detail {
/// Which back end computes a node; `path` leads to the plan of a body or of a part.
struct NodeBackend {
  std::string path;
  std::int32_t node = -1;
  std::string_view backend;
  auto operator<=>(const NodeBackend&) const = default;
};
inline void add_backends(const Plan& plan, const std::string& path, std::vector<NodeBackend>& found) {
  for (const PlanStep& step : plan.steps()) {
    for (const std::int32_t node : step.nodes) found.push_back({path, node, step.backend});
    if (!step.host) continue;
    const std::string own = path + (step.nodes.empty() ? "" : std::to_string(step.nodes.front())) + ".";
    for (std::size_t i = 0; i < step.host->bodies.size(); ++i)
      add_backends(*step.host->bodies[i], own + std::to_string(i) + "/", found);
  }
  if (plan.host_part() != nullptr) add_backends(*plan.host_part(), path + "host/", found);
  if (plan.parts() == nullptr) return;
  for (std::size_t i = 0; i < plan.parts()->parts.size(); ++i)
    if (const auto& part = plan.parts()->parts[i].plan)
      add_backends(*part, path + "part" + std::to_string(i) + "/", found);
}
inline std::vector<NodeBackend> backends_of(const Plan& plan) {
  std::vector<NodeBackend> found;
  add_backends(plan, "", found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}
}  // namespace runtime_detail

/// Where one back end computes all of both plans it does not matter which kernels list a node: values that are computed
/// on the way belong to none.
SINTER_DECL bool have_equal_backends(const Plan& a, const Plan& b) {
  const std::vector<runtime_detail::NodeBackend> nodes = runtime_detail::backends_of(a),
                                                 others = runtime_detail::backends_of(b);
  const auto is_of_first = [&](const runtime_detail::NodeBackend& each) { return each.backend == nodes[0].backend; };
  if (!nodes.empty() && std::all_of(nodes.begin(), nodes.end(), is_of_first) &&
      std::all_of(others.begin(), others.end(), is_of_first))
    return true;
  const bool has_two = std::adjacent_find(nodes.begin(), nodes.end(), [](const auto& x, const auto& y) {
                         return x.node == y.node && x.path == y.path;
                       }) != nodes.end();
  return !has_two && nodes == others;
}

SINTER_DECL std::vector<Schedule> plan_schedules(const Graph& graph, const PlanOptions& options) {
  using namespace runtime_detail;
  using enum ScheduleAction;
  std::vector<Schedule> schedules{Schedule{}};
  if (!options.fuse) return schedules;
  const bool is_on_device = options.backends.front()->device() != Device::cpu();
  if (const std::unique_ptr<Sketch> standard = sketch_whole(graph, options)) {
    const std::vector<std::string> roundings = roundings_of(*standard);
    for (Schedule& schedule : other_schedules(*standard)) {
      PlanOptions other = options;
      if (!follow(other, schedule)) continue;
      const std::unique_ptr<Sketch> changed = sketch_whole(graph, other);
      if (changed != nullptr && roundings_of(*changed) == roundings) schedules.push_back(std::move(schedule));
    }
    if (is_on_device && options.as_one) schedules.push_back({{.action = graphs, .number = 0}});
    return schedules;
  }
  // The parts of a graph number nodes for themselves: only what needs no number.
  const bool rounds = has_values_that_round(graph);
  for (const auto& [action, is_on] :
       {std::pair(epilogues, options.epilogues && !rounds), std::pair(recompute, options.recompute && !rounds),
        std::pair(horizontal, options.horizontal), std::pair(graphs, options.as_one)})
    if (is_on) schedules.push_back({{.action = action, .number = 0}});
  return schedules;
}

namespace runtime_detail {
/// Writes down that a node is stored or cut, of the graph or of a sub-graph.
inline void add_node(PlanOptions& options, const ScheduleStep& step) {
  const bool is_stored = step.action == ScheduleAction::store;
  if (step.axis < 0) {
    (is_stored ? options.kept : options.cut).push_back(step.number);
    return;
  }
  auto of = std::find_if(options.body_cuts.begin(), options.body_cuts.end(),
                         [&](const PlanOptions::BodyCuts& each) { return each.body == step.axis; });
  if (of == options.body_cuts.end()) of = options.body_cuts.insert(of, {.body = step.axis});
  (is_stored ? of->kept : of->cut).push_back(step.number);
}
}  // namespace runtime_detail

SINTER_DECL bool follow(PlanOptions& options, const Schedule& schedule) {
  using enum ScheduleAction;
  PlanOptions changed = options;
  for (const ScheduleStep& step : schedule.steps()) {
    if (names_node(step.action)) runtime_detail::add_node(changed, step);
    else if (step.axis >= 0 || step.number != 0) return false;
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
