// The search for the step that makes a result wrong.
#pragma once

#include <sinter/jit/debug/bisect.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/passes/planted.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/runtime/plan.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace bisect_detail {
using Results = std::vector<Tensor>;

/// A back end that runs each kernel under one schedule that is given.
class UnderSchedule final : public Backend {
 public:
  UnderSchedule(Backend& target, Schedule schedule) : target_(target), schedule_(std::move(schedule)) {
    static std::atomic<int> made{0};
    key_ = target.cache_key() + " under a schedule, " + std::to_string(made.fetch_add(1));
  }
  std::string_view name() const override { return target_.name(); }
  std::string cache_key() const override { return key_; }
  Limits limits() const override { return target_.limits(); }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule&, std::string* why) override {
    return target_.compile(kernel, schedule_, why);
  }

 private:
  Backend& target_;
  Schedule schedule_;
  std::string key_;
};

/// What the graph gives on these back ends, the passes aside.
inline Results run_on(const Graph& optimised, std::span<const Tensor> inputs, std::vector<Backend*> backends,
                      bool fuse) {
  PlanOptions options = plan_options(optimised, {}, {}, fuse, optimised, matmul_precision());
  if (!backends.empty()) options.backends = std::move(backends);
  const std::shared_ptr<const Plan> plan = build_plan(optimised, options);
  std::vector<Ref<TensorImpl>> values;
  for (const Tensor& input : inputs) values.push_back(dense_value(In(input), "bisect"));
  Results results;
  for (Ref<TensorImpl>& value : execute(*plan, values)) results.emplace_back(std::move(value));
  return results;
}

/// Of all outputs.
inline double distance_of(std::span<const Tensor> found, std::span<const Tensor> wanted) {
  double most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) most = std::max(most, jit_detail::distance(found[i], wanted[i]));
  return most;
}

class Bisector {
 public:
  Bisector(const Graph& graph, std::span<const Tensor> inputs, const BisectOptions& options)
      : graph_(graph), inputs_(inputs), options_(options) {}

  Bisection run() {
    MinifyOptions minifying{.backend = options_.backend, .tolerance = options_.tolerance};
    minifying.budget_seconds = options_.budget_seconds;
    const Results wanted = jit_detail::results_of(graph_, inputs_, "eager");
    const Results found = jit_detail::results_of(graph_, inputs_, options_.backend);
    Bisection out;
    if (!differs(found, wanted)) return out;
    out.difference = distance_of(found, wanted);
    out.smallest = minify(graph_, inputs_, minifying);
    // Bodies are looked into where the fault is not one of calls.
    const Graph whole = inline_calls(graph_);
    const bool is_in_whole = differs(jit_detail::results_of(whole, inputs_, options_.backend), wanted);
    const Graph optimised = find_pass(is_in_whole ? whole : graph_, wanted, out);
    if (out.step == FaultStep::none) find_kernel(optimised, out);
    if (out.step == FaultStep::none) out.step = FaultStep::unknown;
    return out;
  }

 private:
  bool differs(const Results& found, const Results& wanted) const {
    return !jit_detail::difference_of(found, wanted, options_.tolerance).empty();
  }

  /// Runs the passes one by one, each result by plain loops. Gives the graph after all of them.
  Graph find_pass(const Graph& traced, const Results& wanted, Bisection& out) const {
    std::vector<const PipelinePass*> passes;
    for (const PipelinePass& pass : pipeline) passes.push_back(&pass);
    if (const PipelinePass* planted = passes_detail::planted_pass.load()) passes.push_back(planted);
    Graph current = traced;
    PipelineOptions piping;  // as run_passes_for() has them
    if (options_.backend != "eager" && options_.backend != "aot_eager")
      piping.keep = [backends = backends_for(options_.backend, Device::cpu())](const Graph& graph, const Node& node) {
        return find_intrinsic(graph, node, backends, matmul_precision()).intrinsic != nullptr;
      };
    for (const PipelinePass* pass : passes) {
      const Graph before = current;
      current = pass->run(current, piping);
      if (out.step != FaultStep::none || current.shares_nodes_with(before)) continue;
      const Results now = jit_detail::results_of_plain(current, inputs_);
      if (!differs(now, wanted)) continue;
      out.step = FaultStep::pass;
      out.culprit = std::string(pass->name);
      out.difference = distance_of(now, wanted);
    }
    return current;
  }

  /// The part of the graph that one kernel computes, with the values that it reads.
  GraphCase part_of(const Graph& graph, const PlanStep& step, const std::map<Value, Tensor>& values) const {
    GraphBuilder builder(graph);
    GraphCase part;
    std::map<Value, Value> now;
    std::vector<std::int32_t> nodes = step.nodes;
    std::sort(nodes.begin(), nodes.end());
    const auto is_inside = [&](std::int32_t id) { return std::binary_search(nodes.begin(), nodes.end(), id); };
    for (std::int32_t id : nodes) {
      for (Value v : graph.node(id).inputs) {
        if (is_inside(v.node) || now.contains(v)) continue;
        const Node& operand = graph.node(v);
        if (operand.inputs.empty() && operand.op != &graph_detail::input_op()) {  // a literal stays one
          now[v] = builder.copy(operand, {});
          continue;
        }
        now[v] = builder.input(graph.type(v));
        part.inputs.push_back(values.at(v));
      }
      Values operands;
      for (Value v : graph.node(id).inputs) operands.push_back(now.at(v));
      const Value made = builder.copy(graph.node(id), operands);
      for (std::size_t r = 0; r < graph.node(id).types.size(); ++r)
        now[{id, static_cast<std::int32_t>(r)}] = {made.node, static_cast<std::int32_t>(r)};
    }
    std::vector<Value> outputs;
    for (std::int32_t id : nodes)
      if (is_used_outside(graph, id, nodes)) outputs.push_back(now.at({id, 0}));
    if (outputs.empty()) outputs.push_back(now.at({nodes.back(), 0}));
    part.graph = builder.finish(outputs);
    return part;
  }
  static bool is_used_outside(const Graph& graph, std::int32_t id, const std::vector<std::int32_t>& nodes) {
    for (Value v : graph.outputs())
      if (v.node == id) return true;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      if (std::binary_search(nodes.begin(), nodes.end(), static_cast<std::int32_t>(i))) continue;
      for (Value v : graph.nodes()[i].inputs)
        if (v.node == id) return true;
    }
    return false;
  }

  /// Values of all nodes by plain loops.
  std::map<Value, Tensor> all_values(const Graph& graph) const {
    GraphBuilder builder(graph);
    std::vector<Value> places;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      builder.copy(node, node.inputs);
      if (node.op->kind == OpKind::effect) continue;
      for (std::size_t r = 0; r < node.types.size(); ++r)
        places.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)});
    }
    const Results values = jit_detail::results_of_plain(builder.finish(places), inputs_);
    std::map<Value, Tensor> by_place;
    for (std::size_t i = 0; i < places.size(); ++i) by_place.emplace(places[i], values[i]);
    return by_place;
  }

  /// The first kernel of the plan that is wrong by itself, on the values that it should be given.
  void find_kernel(const Graph& optimised, Bisection& out) const {
    const std::vector<Backend*> backends = backends_for(options_.backend);
    PlanOptions planning = plan_options(optimised, options_.backend, {}, true, optimised, matmul_precision());
    const std::shared_ptr<const Plan> plan = build_plan(optimised, planning);
    const std::map<Value, Tensor> values = all_values(optimised);
    for (const PlanStep& step : plan->steps()) {
      if (step.nodes.empty()) continue;
      GraphCase part;
      try {
        part = part_of(optimised, step, values);
      } catch (const Error&) { continue; }  // no graph of its own
      const Results wanted = jit_detail::results_of_plain(part.graph, part.inputs);
      const Results found = run_on(part.graph, part.inputs, backends, true);
      if (!differs(found, wanted)) continue;
      describe(part, step, wanted, out);
      out.difference = distance_of(found, wanted);
      return;
    }
  }

  void describe(const GraphCase& part, const PlanStep& step, const Results& wanted, Bisection& out) const {
    out.culprit = step.name;
    out.where = step.where;
    if (!step.host) out.kernel = step.kernel.text();
    std::vector<Backend*> plain{host_backends().back()};
    out.step = differs(run_on(part.graph, part.inputs, plain, true), wanted) ? FaultStep::fusion : FaultStep::code;
    if (out.step != FaultStep::code) return;
    out.backend = step.backend;
    for (Backend* backend : backends_for(options_.backend)) {
      if (backend->name() != step.backend || step.host) continue;
      for (const Schedule& schedule : backend->schedules(step.kernel)) {
        UnderSchedule only(*backend, schedule);
        const bool is_wrong = differs(run_on(part.graph, part.inputs, {&only, host_backends().back()}, true), wanted);
        const std::string text = schedule.empty() ? "the default" : schedule.text();
        out.schedule += (out.schedule.empty() ? "" : ", ") + text + (is_wrong ? " is wrong" : " is right");
      }
    }
  }

  const Graph& graph_;
  std::span<const Tensor> inputs_;
  const BisectOptions& options_;
};

}  // namespace bisect_detail

namespace jit_detail {
SINTER_DECL std::vector<Tensor> results_of_plain(const Graph& graph, std::span<const Tensor> inputs) {
  return bisect_detail::run_on(run_passes_for("eager", graph, matmul_precision()), inputs, {host_backends().back()},
                               false);
}

SINTER_DECL GraphFunction GraphCatcher::operator()(const Graph& graph, std::span<const Tensor> inputs) const {
  GraphCase seen{graph, {}};
  for (const Tensor& input : inputs) seen.inputs.push_back(copy_of_value(input));
  caught->push_back(std::move(seen));
  return compile_graph(graph, "eager");
}

SINTER_DECL Bisection bisect_cases(const std::vector<GraphCase>& cases, const BisectOptions& options) {
  for (const GraphCase& each : cases)
    if (Bisection found = bisect_graph(each.graph, each.inputs, options); found.step != FaultStep::none) return found;
  return {};
}
}  // namespace jit_detail

SINTER_DECL std::string_view name(FaultStep step) {
  return std::array<std::string_view, 5>{"none", "pass", "fusion", "code", "unknown"}[as_index(step)];
}

SINTER_DECL Bisection bisect_graph(const Graph& graph, std::span<const Tensor> inputs, const BisectOptions& options) {
  check_backend(options.backend, {});
  return bisect_detail::Bisector(graph, inputs, options).run();
}

SINTER_DECL std::string Bisection::text() const {
  if (step == FaultStep::none) return "every step agrees with plain loops\n";
  std::array<char, 48> much{};
  std::snprintf(much.data(), much.size(), "%.3g", difference);
  std::string text =
      "differs from plain loops by " + std::string(much.data()) + " of the largest element, first after ";
  switch (step) {
    case FaultStep::pass: text += "the pass '" + culprit + "'\n"; break;
    case FaultStep::fusion: text += "fusion, in the kernel " + culprit + "\n"; break;
    case FaultStep::code: text += "code generation by " + backend + ", in the kernel " + culprit + "\n"; break;
    case FaultStep::unknown: text += "a step that is right by itself: it takes several together\n"; break;
    case FaultStep::none: break;
  }
  for (const Location& line : where)
    if (line.line != 0) text += "from " + line.text() + "\n";
  if (!schedule.empty()) text += "schedules: " + schedule + "\n";
  if (!kernel.empty()) text += kernel + "\n";
  return text + "shrunk to " + std::to_string(smallest.smallest.operations()) + " operations:\n" + smallest.program();
}

}  // namespace jit
SINTER_NAMESPACE_END
