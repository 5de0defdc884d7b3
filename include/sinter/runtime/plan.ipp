// From a graph to a plan: fusion nodes, fusion, lowering, memory, compilation of each kernel by the first back end that
// takes it.
#pragma once

#include <sinter/runtime/plan.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/graph/pending_node.hpp>  // constants are values, whose counts it defines
#include <sinter/kernel/fusion.hpp>
#include <sinter/kernel/fusion_node.hpp>
#include <sinter/kernel/lowering.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/passes/hoist_products.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/plan_bodies.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// A composite that none of the back ends computes whole.
inline bool has_foreign_composite(const Graph& graph, const PlanOptions& options) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op->kind == OpKind::composite && node.op->run_on_host == nullptr &&
           find_intrinsic(graph, node, options.backends, options.precision).intrinsic == nullptr;
  });
}
struct PossibleCuts;  // plan_choices.ipp
/// From elements of pairs to complex numbers.
inline void count_in_pairs(PlanOutput& output) {
  output.strides.pop_back();
  for (Dim& stride : output.strides) stride = stride / Dim(2);
  output.offset = output.offset / Dim(2);
}
}  // namespace runtime_detail

SINTER_DECL IntrinsicOf find_intrinsic(const Graph& graph, const Node& node, std::span<Backend* const> backends,
                                       MatmulPrecision precision) {
  for (const Backend* backend : backends)
    if (backend->device() == node.types[0].device)
      if (const Intrinsic intrinsic = backend->intrinsic(graph, node, precision)) return {intrinsic, backend};
  return {};
}

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const PlanOptions& options)
      : graph_(graph),
        options_(options),
        limits_(limits_of(options)),
        nodes_(graph, {.fuse = options.fuse,
                       .own_outputs = options.own_outputs,
                       .prologues = options.fuse && limits_.front().prologue_operations > 0,
                       .narrow_products = limits_.front().narrow_products,
                       .input_strides = options.input_strides}) {}

  std::shared_ptr<Plan> run();
  /// After run(). All but the first: plan_choices.ipp.
  MemoryTimeline timeline() const;
  /// What could be cut otherwise, sub-graphs left aside.
  runtime_detail::PossibleCuts possible_cuts() const;
  /// What bits hang on, in words: nodes of the graph that are in memory, of those whose bits differ in registers; which
  /// operands of a product are; the axes along which floating-point numbers are reduced.
  std::vector<std::string> roundings() const;
  std::vector<PlanBorder> borders();
  /// How a sub-graph is planned, by its number in bodies_of().
  PlanOptions body_options(const Graph& body, std::size_t carries, int number) const;

 private:
  static std::vector<Limits> limits_of(const PlanOptions& options) {
    ensure(!options.backends.empty(), "plan: no back end");
    std::vector<Limits> limits;
    for (const Backend* backend : options.backends) limits.push_back(backend->limits());
    if (options.allow_fallback)
      for (const Backend* backend : options.host_backends) limits.push_back(backend->limits());
    return limits;
  }
  FusionOptions fusion_options() const {
    return {options_.fuse, options_.epilogues, limits_, options_.recompute, options_.kept, options_.cut};
  }
  void add_inputs();
  void add_outputs();
  void add_step(std::int32_t group);
  void mark_outputs_that_outlive_failure();
  void compile(PlanStep& step);
  bool keeps_default(const Backend& backend, const Kernel& kernel) const;
  /// False: all declined.
  bool compile_by(PlanStep& step, std::span<Backend* const> backends);
  std::shared_ptr<const Plan> body_plan(const std::shared_ptr<const Graph>& body, std::size_t carries);
  BufferRef buffer_of(const OperandRef& operand) const {
    if (operand.node < 0) return {BufferKind::number, operand.number};
    return memory_.buffer_of[as_index(operand.node)];
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<Limits> limits_;  // of the back ends that are tried
  FusionGraph nodes_;
  Fusion fusion_;
  std::vector<LoweredKernel> kernels_;
  MemoryPlan memory_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  std::vector<std::pair<std::shared_ptr<const Graph>, std::shared_ptr<const Plan>>> bodies_;  // planned so far
};

SINTER_DECL void PlanBuilder::add_inputs() {
  for (Value v : graph_.inputs()) {
    plan_->inputs_.push_back(graph_.type(v));
    plan_->input_names_.push_back(graph_.node(v).attrs[input_name]);
  }
  for (std::int32_t node : memory_.constants) plan_->constants_.push_back(nodes_.graph_node(node)->attrs.constant);
}

SINTER_DECL void PlanBuilder::add_outputs() {
  std::span<const Value> values = graph_.outputs();
  for (std::size_t j = 0; j < values.size(); ++j) {
    const OutputSource& source = nodes_.outputs()[j];
    PlanOutput output;
    output.type = graph_.type(values[j]);
    output.strides = dense_dim_strides(output.type.shape);
    output.donor = memory_.donor[j];
    const bool is_pair = is_complex(output.type.dtype);
    if (output.donor >= 0 && is_complex(plan_->inputs_[as_index(output.donor)].dtype) != is_pair)
      output.donor = -1;  // whose offset counts other elements
    const int same_as = source.same_as;
    if (same_as >= 0) {
      output = plan_->outputs_[as_index(same_as)];
    } else if (source.is_alias) {
      const Layout& layout = *nodes_.layout_of(source.node);
      const BufferRef buffer = memory_.buffer_of[as_index(layout.owner)];
      output.source = buffer.kind;
      output.index = buffer.index;
      output.offset = layout.offset;
      output.strides = layout.strides;
      if (is_complex(output.type.dtype)) runtime_detail::count_in_pairs(output);
    } else {
      output.index = static_cast<std::int32_t>(j);
      output.maker = tensor_detail::maker_of(graph_.node(values[j]).op->name, graph_.node(values[j]).where);
    }
    plan_->outputs_.push_back(std::move(output));
  }
}

/// Of the step that comes next: elementwise kernels that may become one launch have the code that suits them all.
SINTER_DECL bool PlanBuilder::keeps_default(const Backend& backend, const Kernel& kernel) const {
  if (kernel.kind != KernelKind::pointwise || !backend.merges_launches()) return false;
  const auto number = static_cast<std::int32_t>(plan_->steps_.size());
  return std::any_of(plan_->groups_.begin(), plan_->groups_.end(),
                     [&](const StepRange& group) { return group.first <= number && number < group.end; });
}

SINTER_DECL bool PlanBuilder::compile_by(PlanStep& step, std::span<Backend* const> backends) {
  for (Backend* backend : backends) {
    std::string reason = why_not_taken(backend->limits(), step.kernel);
    if (reason.empty()) {
      const Schedule schedule = options_.choose_schedule && !keeps_default(*backend, step.kernel)
                                    ? options_.choose_schedule(*backend, step.kernel, step.geometry, step.operands)
                                    : Schedule();
      step.executable = compiled_kernel(*backend, step.kernel, schedule, &reason);
    }
    if (!step.executable) {
      step.declined += (step.declined.empty() ? "" : "; ") + std::string(backend->name()) + ": " + reason;
      continue;
    }
    step.backend = backend->name();
    return true;
  }
  return false;
}

SINTER_DECL void PlanBuilder::compile(PlanStep& step) {
  const Device device = options_.backends.front()->device();
  if (compile_by(step, options_.backends)) {
    if (!step.declined.empty() && is_logged("kernels"))
      note("kernels", step.name + " runs on " + step.backend + " (" + step.declined + ")");
    return;
  }
  if (device == Device::cpu())
    throw InternalError("no back end takes kernel " + step.name + " (" + step.declined + ")\n" + step.kernel.text());
  const Location where = step.where.empty() ? Location() : step.where.front();
  step.runs_on_host = options_.allow_fallback && compile_by(step, options_.host_backends);
  if (!step.runs_on_host)
    throw DeviceError(step.name, "no back end for " + device.text() + " can run this kernel: " + step.declined, where,
                      "allow the CPU to run it (Options::allow_fallback, SINTER_FALLBACK=1), or compute this part "
                      "there: x.to(Device::cpu())");
  warn("fallback", step.name + (where.file != nullptr ? " [" + where.text() + "]" : "") + " runs on the CPU (" +
                       step.backend + "), its operands are copied there and back: " + step.declined);
}

/// Of the sub-graph with this number. `carries`: as many first inputs come from the iteration before, and nobody reads
/// them afterwards.
SINTER_DECL PlanOptions PlanBuilder::body_options(const Graph& body, std::size_t carries, int number) const {
  PlanOptions options = options_;
  options.own_outputs = true;
  options.output_devices = {};
  options.input_strides = {};
  options.may_donate = {};
  options.kept = options.cut = {};
  options.body_cuts = {};
  if (options_.choose_schedule)
    options.choose_schedule = [choose = options_.choose_schedule](Backend& backend, const Kernel& kernel,
                                                                  const SymbolicGeometry& geometry, const auto&) {
      return choose(backend, kernel, geometry, {});
    };
  for (const PlanOptions::BodyCuts& cuts : options_.body_cuts) {
    if (cuts.body != number) continue;
    options.kept = cuts.kept;
    options.cut = cuts.cut;
  }
  const Device device = options_.backends.front()->device();
  if (runtime_detail::is_planned_as_it_is(body, device)) options.may_donate.assign(carries, 1);
  else options.output_devices.assign(body.outputs().size(), device);
  return options;
}

/// The plan of a sub-graph; steps with the same one share it.
SINTER_DECL std::shared_ptr<const Plan> PlanBuilder::body_plan(const std::shared_ptr<const Graph>& body,
                                                               std::size_t carries) {
  for (const auto& [known, plan] : bodies_)
    if (known == body) return plan;
  const PlanOptions options =
      body_options(*body, carries, options_.body_cuts.empty() ? -1 : runtime_detail::body_number(graph_, body));
  const Device device = options_.backends.front()->device();
  const auto plan = runtime_detail::is_planned_as_it_is(*body, device)
                        ? build_plan(*body, options)
                        : build_plan(with_inputs_on(*body, device), options);
  return bodies_.emplace_back(body, plan).second;
}

namespace runtime_detail {
/// Whether this take gives the indices themselves, checked for a scatter (passes/check_first.ipp).
inline bool checks_for_scatter(const Graph& graph, std::int32_t take) {
  const auto behind_views = [&](Value v) {
    while (graph.node(v).op->kind == OpKind::view) v = graph.node(v).inputs[0];
    return v;
  };
  const Node& node = graph.nodes()[as_index(take)];
  if (node.op != &op_info<ops::Take> || behind_views(node.inputs[0]) != behind_views(node.inputs[1])) return false;
  return std::any_of(graph.nodes().begin() + take, graph.nodes().end(), [&](const Node& user) {
    return user.op == &op_info<ops::Scatter> && user.attrs[ops::Scatter::in_range] &&
           behind_views(user.inputs[1]).node == take;
  });
}
}  // namespace runtime_detail

SINTER_DECL void PlanBuilder::add_step(std::int32_t id) {
  const FusionGroup& group = fusion_.groups[as_index(id)];
  PlanStep step;
  step.name = kernel_name(nodes_, group);
  for (std::int32_t node : prologue_of(nodes_, group)) {
    step.nodes.push_back(nodes_[node].graph_node);
    if (nodes_.graph_node(node)->where.file != nullptr) step.where.push_back(nodes_.graph_node(node)->where);
  }
  for (const FusionMember& member : group.members) {
    const Node* graph_node = nodes_.graph_node(member.node);
    if (graph_node == nullptr) continue;
    step.nodes.push_back(nodes_[member.node].graph_node);
    if (graph_node->where.file != nullptr) step.where.push_back(graph_node->where);
    const bool is_scatter = nodes_[member.node].kind == NodeKind::scatter;
    if (graph_node->op == &op_info<ops::Take> || is_scatter) step.takes.push_back(graph_node->where);
    if (is_scatter) step.taker = graph_node->op->name;
    else if (runtime_detail::checks_for_scatter(graph_, nodes_[member.node].graph_node))
      step.taker = op_info<ops::Scatter>.name;
  }
  if (group.is_host) {
    const int node = group.members[0].node;
    step.host = make_host_op(nodes_, node);
    step.backend = "host";
    if (step.host->run == nullptr) {
      const IntrinsicOf found = find_intrinsic(graph_, *nodes_.graph_node(node), options_.backends, options_.precision);
      if (found.intrinsic == nullptr)
        throw InternalError("kernels: no rule for the op '" + std::string(nodes_.graph_node(node)->op->name) +
                                "'; it must be decomposed before",
                            nodes_.graph_node(node)->where);
      step.host->intrinsic = found.intrinsic;
      if (options_.precision != MatmulPrecision::f32 && found.backend->device() != Device::cpu())
        step.host->attrs.edit().set(planned_precision, options_.precision);
      step.backend = found.backend->name();
      step.name = nodes_.graph_node(node)->op->name;
    }
    for (const std::int32_t input : nodes_[node].inputs)
      step.operands.push_back(memory_.buffer_of[as_index(nodes_.layout_of(input)->owner)]);
    for (const FusionMember& member : group.members) step.operands.push_back(memory_.buffer_of[as_index(member.node)]);
    const std::size_t carries = ops_detail::carries_of(*nodes_.graph_node(node));
    for (const auto& body : step.host->attrs->bodies) step.host->bodies.push_back(body_plan(body, carries));
  } else {
    LoweredKernel& lowered = kernels_[as_index(id)];
    step.is_plain_copy = is_plain_copy(lowered);
    step.may_fail = may_fail(nodes_, group, lowered.kernel);
    for (const OperandRef& operand : lowered.operands) step.operands.push_back(buffer_of(operand));
    step.kernel = std::move(lowered.kernel);
    step.geometry = std::move(lowered.geometry);
    if (options_.with_code) compile(step);
  }
  plan_->steps_.push_back(std::move(step));
}

/// Functions of the host may throw, and gathers do on a bad index.
SINTER_DECL void PlanBuilder::mark_outputs_that_outlive_failure() {
  if (!plan_->slots_.empty()) {
    const bool has_line = !plan_->steps_.empty() && !plan_->steps_.back().where.empty();
    plan_->arena_maker_ = tensor_detail::maker_of("intermediate values of what ends",
                                                  has_line ? plan_->steps_.back().where.back() : Location());
  }
  for (PlanOutput& output : plan_->outputs_) output.outlives_failure = true;
  for (auto step = plan_->steps_.rbegin(); step != plan_->steps_.rend(); ++step) {
    if (step->host ? step->host->intrinsic != nullptr : !step->may_fail) continue;
    for (auto earlier = step; earlier != plan_->steps_.rend(); ++earlier)
      for (const BufferRef& operand : earlier->operands)
        if (operand.kind == BufferKind::output) plan_->outputs_[as_index(operand.index)].outlives_failure = false;
    return;
  }
}

SINTER_DECL std::shared_ptr<Plan> PlanBuilder::run() {
  fusion_ = fuse(nodes_, fusion_options());
  if (is_logged("fusion")) note("fusion", fusion_.text(nodes_));
  for (const FusionGroup& group : fusion_.groups)
    kernels_.push_back(group.is_host ? LoweredKernel{}
                                     : lower(nodes_, fusion_, group, plan_->numbers_, options_.precision));
  PlanOptions kept = options_;
  kept.choose_schedule = nullptr;  // it has chosen
  plan_->origin_ = std::make_shared<const PlanOrigin>(graph_, std::move(kept));
  std::vector<std::int64_t> hints;
  for (const SymbolInfo& symbol : graph_.symbols()) hints.push_back(symbol.hint);
  const Backend& first = *options_.backends.front();
  const StepGrouping grouping = !options_.fuse || !options_.horizontal ? StepGrouping::none
                                : first.divides_launches()             ? StepGrouping::where_it_pays
                                : first.merges_launches()              ? StepGrouping::equal_code
                                                                       : StepGrouping::none;
  memory_ = plan_memory(nodes_, fusion_, kernels_, options_.may_donate, grouping, hints);
  plan_->symbols_ = graph_.symbols();
  plan_->groups_ = memory_.groups;
  plan_->slots_ = memory_.slots;
  add_inputs();
  add_outputs();
  for (std::int32_t group : memory_.order) add_step(group);
  mark_outputs_that_outlive_failure();
  if (Backend* backend = options_.backends.front(); backend->device() != Device::cpu()) {
    plan_->backend_ = backend;
    plan_->runs_as_one_ = options_.as_one;
    plan_->allows_fallback_ = options_.allow_fallback;
  }
  return plan_;
}

SINTER_DECL std::vector<PlanBorder> PlanBuilder::borders() {
  std::vector<std::int32_t> step_of(fusion_.groups.size(), -1);
  for (std::size_t step = 0; step < memory_.order.size(); ++step)
    step_of[as_index(memory_.order[step])] = static_cast<std::int32_t>(step);
  std::vector<PlanBorder> borders;
  for (FusionBorder& border : borders_of(nodes_, fusion_, fusion_options())) {
    std::string value(nodes_.name(border.node));
    const Node* node = nodes_.graph_node(border.node);
    if (node != nullptr && node->where.file != nullptr) value += " at " + node->where.text();
    borders.push_back(
        {step_of[as_index(border.from)], step_of[as_index(border.to)], std::move(value), std::move(border.why)});
  }
  return borders;
}

SINTER_DECL std::vector<PlanBorder> borders_of(const Plan& plan) {
  if (plan.origin() == nullptr || plan.parts() != nullptr) return {};
  PlanOptions options = plan.origin()->options;
  options.with_code = false;
  PlanBuilder builder(plan.origin()->graph, options);
  builder.run();
  return builder.borders();
}

SINTER_DECL MemoryTimeline PlanBuilder::timeline() const {
  MemoryTimeline timeline;
  timeline.step.assign(graph_.nodes().size(), -1);
  timeline.is_stored.assign(graph_.nodes().size(), 0);
  for (std::size_t step = 0; step < memory_.order.size(); ++step) {
    const auto id = as_index(memory_.order[step]);
    for (const FusionMember& member : fusion_.groups[id].members) {
      const std::int32_t graph_node = nodes_[member.node].graph_node;
      if (graph_node < 0) continue;
      timeline.step[as_index(graph_node)] = static_cast<std::int32_t>(step);
      if (fusion_.is_stored[as_index(member.node)]) timeline.is_stored[as_index(graph_node)] = 1;
      if (fusion_.groups[id].is_host) timeline.traffic += nodes_.estimate_bytes(member.node);
    }
    if (fusion_.groups[id].is_host)
      for (std::int32_t input : nodes_[fusion_.groups[id].members[0].node].inputs)
        timeline.traffic += nodes_.estimate_bytes(input);
    for (const OperandRef& operand : kernels_[id].operands)
      if (operand.node >= 0) timeline.traffic += nodes_.estimate_bytes(operand.node);
  }
  std::vector<std::int64_t> hints, held(memory_.order.size() + 1);
  for (const SymbolInfo& symbol : graph_.symbols()) hints.push_back(symbol.hint);
  for (const ArenaSlot& slot : plan_->slots()) {
    held[as_index(slot.first)] += slot.bytes.estimate(hints, Graph::unknown_extent);
    held[as_index(slot.last) + 1] -= slot.bytes.estimate(hints, Graph::unknown_extent);
  }
  std::int64_t now = 0, most = 0;
  for (std::size_t step = 0; step < memory_.order.size(); ++step)
    if ((now += held[step]) > most) most = now, timeline.peak = static_cast<std::int32_t>(step);
  timeline.bytes = plan_->held_bytes(hints);
  return timeline;
}

SINTER_DECL MemoryTimeline timeline_of(const Graph& graph, const PlanOptions& options) {
  ensure(first_device_of(graph, options.output_devices) == Device::cpu(), "timeline: plans of the host only");
  PlanOptions measured = options;
  measured.with_code = false;
  ensure(!runtime_detail::has_foreign_composite(graph, options), "timeline: a composite that is not kept");
  PlanBuilder builder(graph, measured);
  builder.run();
  return builder.timeline();
}

SINTER_DECL Graph device_graph(const Graph& graph, const PlanOptions& options) {
  const bool hoists = options.fuse && options.backends.front()->device() != Device::cpu();
  Graph planned = hoists ? HoistProducts{}(graph) : graph;
  if (!runtime_detail::has_foreign_composite(planned, options)) return planned;
  // Kept for the host, and now on another device: the body of a loop, say.
  return Decompose{[&](const Graph& whole, const Node& node) {
    return find_intrinsic(whole, node, options.backends, options.precision).intrinsic != nullptr;
  }}(planned);
}

SINTER_DECL std::shared_ptr<Plan> build_part_plan(const Graph& graph, const PlanOptions& options) {
  const bool is_as_planned = options.backends.front()->device() == Device::cpu() &&
                             !runtime_detail::has_foreign_composite(graph, options);
  return is_as_planned ? PlanBuilder(graph, options).run() : PlanBuilder(device_graph(graph, options), options).run();
}

SINTER_DECL std::shared_ptr<const Plan> build_plan(const Graph& graph, const PlanOptions& options) {
  const TimelineSpan span("compile", "fusion, lowering and code");
  if (is_on_host(graph, options.output_devices)) return build_part_plan(graph, options);
  return build_partition_plan(graph, options);
}

SINTER_DECL std::int64_t Plan::arena_bytes(std::span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> bytes, offsets;
  for (const ArenaSlot& slot : slots_) bytes.push_back(slot.bytes.evaluate(symbols));
  return place_slots(slots_, bytes, offsets);
}

SINTER_DECL std::size_t Plan::kernel_count() const {
  std::size_t count = steps_.size();
  if (parts_)
    for (const PartitionPlan::Part& part : parts_->parts) count += part.plan ? part.plan->kernel_count() : 0;
  return count;
}

SINTER_DECL std::size_t Plan::launch_count() const {
  std::size_t count = steps_.size();
  for (const StepRange& group : groups_) count -= as_index(group.end - group.first) - 1;
  if (parts_)
    for (const PartitionPlan::Part& part : parts_->parts) count += part.plan ? part.plan->launch_count() : 0;
  return count;
}

SINTER_DECL std::string Plan::name_of(StepRange group) const {
  std::vector<std::pair<std::string_view, int>> names;
  for (std::int32_t step = group.first; step < group.end; ++step) {
    const std::string_view name = steps_[as_index(step)].name;
    const auto known = std::find_if(names.begin(), names.end(), [&](const auto& each) { return each.first == name; });
    if (known == names.end()) names.emplace_back(name, 1);
    else ++known->second;
  }
  std::string text;
  for (const auto& [name, count] : names)
    text += (text.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " x " : "") + std::string(name);
  return text;
}

SINTER_DECL std::int64_t Plan::held_bytes(std::span<const std::int64_t> symbols) const {
  if (parts_) return parts_->held_bytes(symbols);
  std::int64_t total = arena_bytes(symbols);
  std::vector<const Plan*> counted;
  for (const PlanStep& step : steps_) {
    if (!step.host) continue;
    for (const auto& body : step.host->bodies) {
      if (std::find(counted.begin(), counted.end(), body.get()) != counted.end()) continue;
      counted.push_back(body.get());
      total += body->held_bytes(symbols);
    }
  }
  return total;
}

SINTER_DECL std::int64_t Plan::held_bytes() const {
  std::vector<std::int64_t> hints;
  for (const SymbolInfo& symbol : symbols()) hints.push_back(symbol.hint);
  return held_bytes(hints);
}

SINTER_DECL bool Plan::depends_on_precision() const {
  const auto depends = [](const PlanStep& step) {
    if (!step.host) return is_product_of_f32(step.kernel);
    const Type& result = step.host->types[step.host->inputs];
    if (step.host->intrinsic != nullptr && result.dtype == DType::f32 && result.device != Device::cpu()) return true;
    return std::any_of(step.host->bodies.begin(), step.host->bodies.end(),
                       [](const auto& body) { return body->depends_on_precision(); });
  };
  if (parts_)
    for (const PartitionPlan::Part& part : parts_->parts)
      if (part.plan && part.plan->depends_on_precision()) return true;
  return std::any_of(steps_.begin(), steps_.end(), depends) || (host_part_ && host_part_->depends_on_precision());
}

namespace runtime_detail {
inline std::string buffer_text(const BufferRef& buffer) {
  constexpr const char* kinds[] = {"?", "input ", "constant ", "output ", "slot ", "number "};
  return kinds[as_index(buffer.kind)] + std::to_string(buffer.index);
}

inline std::string step_text(const PlanStep& step) {
  std::string text = step.name + " [" + step.backend + "]";
  if (step.runs_on_host) text += " on the cpu, with copies of its operands";
  if (!step.declined.empty()) text += " (" + step.declined + ")";
  std::string lines, last;
  for (const Location& where : step.where) {
    const std::string line = where.text();
    if (line == last || line.empty()) continue;
    lines += (lines.empty() ? "" : ", ") + line;
    last = line;
  }
  if (!lines.empty()) text += " from " + lines;
  text += "\n    reads";
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    if (step.host ? i < step.host_inputs() : !step.kernel.operands[i].written)
      text += " p" + std::to_string(i) + "=" + buffer_text(step.operands[i]) + ",";
  text += " writes";
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    if (step.host ? i >= step.host_inputs() : step.kernel.operands[i].written)
      text += " p" + std::to_string(i) + "=" + buffer_text(step.operands[i]) + ",";
  text.back() = '\n';
  if (step.host) {
    for (const auto& body : step.host->bodies) {
      text += "    body ";
      for (char c : body->text()) {
        text += c;
        if (c == '\n') text += "    ";
      }
      text.resize(text.find_last_not_of(' ') + 1);
    }
    return text;
  }
  text += "    extents";
  for (std::size_t a = 0; a < step.kernel.axes.size(); ++a)
    text += " a" + std::to_string(a) + "=" + step.geometry.extent[a].text();
  text += "\n    ";
  for (char c : step.kernel.text()) {
    text += c;
    if (c == '\n') text += "    ";
  }
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}
}  // namespace runtime_detail

SINTER_DECL std::string Plan::text() const {
  std::string text = host_part_ ? "on the host before it, " + std::to_string(host_numbers_) +
                                      " numbers of its outputs for " + device().text() + ":\n" + host_part_->text()
                                : "";
  if (parts_)
    text += "plan in parts: " + std::to_string(kernel_count()) + " kernels\n" + parts_->text() + "together:\n";
  else
    text += "plan: " + std::to_string(steps_.size()) + " kernels" +
            (groups_.empty() ? "" : " in " + std::to_string(launch_count()) + " launches") + ", " +
            std::to_string(slots_.size()) + " arena slots\n";
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    text += "  input " + std::to_string(i) + (input_names_[i].empty() ? "" : " " + input_names_[i]) + ": " +
            inputs_[i].text() + "\n";
  for (std::size_t i = 0; i < constants_.size(); ++i)
    text += "  constant " + std::to_string(i) + ": " + constants_[i]->type.text() + "\n";
  for (std::size_t i = 0; i < slots_.size(); ++i)
    text += "  slot " + std::to_string(i) + ": " + slots_[i].bytes.text() + " bytes, steps " +
            std::to_string(slots_[i].first) + " to " + std::to_string(slots_[i].last) + "\n";
  for (const StepRange& group : groups_)
    text += "  steps " + std::to_string(group.first) + " to " + std::to_string(group.end - 1) +
            " are one launch: group of " + name_of(group) + ", none of which needs another\n";
  for (std::size_t i = 0; i < steps_.size(); ++i)
    text += "  step " + std::to_string(i) + ": " + runtime_detail::step_text(steps_[i]);
  for (std::size_t j = 0; j < outputs_.size(); ++j) {
    const PlanOutput& output = outputs_[j];
    text += "  output " + std::to_string(j) + ": " + output.type.text();
    if (output.source != BufferKind::output)
      text += " view of " + runtime_detail::buffer_text({output.source, output.index});
    else if (output.index != static_cast<std::int32_t>(j)) text += " same as output " + std::to_string(output.index);
    if (output.donor >= 0) text += " may take over input " + std::to_string(output.donor);
    text += "\n";
  }
  return text;
}

SINTER_NAMESPACE_END
