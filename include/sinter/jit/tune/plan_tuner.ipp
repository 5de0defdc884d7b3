// The cut of a graph into kernels, measured: whole plans on the call's own inputs.
#pragma once

#include <sinter/jit/tune/plan_tuner.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/debug/minify.hpp>  // example_inputs
#include <sinter/jit/tune/timing.hpp>
#include <sinter/jit/tune/tuner.ipp>  // keys
#include <sinter/ops/host_function.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/plan_choices.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {
namespace tuner_detail {

/// Whether runs beside those of calls would be noticed: effects happen once for each call, and functions of the user
/// are called by no one else.
inline bool may_run_again(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    if (node.op->kind == OpKind::effect || node.op == &op_info<ops::PureCallback> || node.op == &op_info<ops::Custom>)
      return false;
    return std::all_of(node.attrs.bodies.begin(), node.attrs.bodies.end(),
                       [](const auto& body) { return may_run_again(*body); });
  });
}

/// Kernels, what they read and write, and the nodes that they come from: what a schedule's numbers mean.
inline void add_plan(KeyWriter& key, const Plan& plan, std::span<const std::int64_t> sizes, std::string& classes) {
  for (const PlanStep& step : plan.steps()) {
    key.add_list(step.name, [&](char letter) { key.add(letter); });
    key.add_list(step.nodes, [&](std::int32_t node) { key.add(node); });
    key.add_list(step.operands, [&](const BufferRef& operand) { key.add(operand.kind).add(operand.index); });
    if (step.host) {
      for (const auto& body : step.host->bodies) add_plan(key, *body, sizes, classes);
      continue;
    }
    key.add(step.kernel);
    classes += class_of(step.kernel, sinter::bind(step.geometry, sizes)) + ";";
  }
  key.add_list(plan.groups(), [&](const StepRange& group) { key.add(group.first).add(group.end); });
  key.add(plan.runs_as_one() && plan.kernel_count() > 1);
  if (plan.host_part() != nullptr) add_plan(key, *plan.host_part(), sizes, classes);
  if (plan.parts() == nullptr) return;
  for (const PartitionPlan::Part& part : plan.parts()->parts)
    if (part.plan != nullptr) add_plan(key, *part.plan, sizes, classes);
}
inline std::string plan_key(const Graph& graph, const PlanOptions& options, std::span<const std::int64_t> sizes) {
  PlanOptions sketch = options;
  sketch.with_code = false;
  KeyWriter key;
  std::string classes;
  add_plan(key, *build_plan(graph, sketch), sizes, classes);
  key.add(options.precision);
  key.add_list(classes, [&](char letter) { key.add(letter); });
  return SINTER_VERSION_STRING "; " + machine_of(*options.backends.front()) + "; plan of " +
         std::to_string(graph.nodes().size()) + " nodes; " + hex_of(key.bytes());
}

/// Leaves one of those that give the same plan, and gives the key of the first.
inline std::string drop_equal(std::vector<Schedule>& candidates, const Graph& graph, const PlanOptions& options,
                              std::span<const std::int64_t> sizes) {
  std::vector<std::string> keys;
  if (candidates.size() < 2) return {};
  std::erase_if(candidates, [&](const Schedule& schedule) {
    PlanOptions own = options;
    if (!follow(own, schedule)) return true;
    std::string key = plan_key(graph, own, sizes);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return true;
    keys.push_back(std::move(key));
    return false;
  });
  return keys.front();
}

/// A run of a plan on values, as a launch: it is timed as kernels are.
class PlanRun final : public Launch {
 public:
  PlanRun(std::shared_ptr<const Plan> plan, std::span<const Ref<TensorImpl>> inputs)
      : plan_(std::move(plan)), inputs_(inputs) {}
  void run(void* const*) override {
    results_.clear();  // their memory is used again
    results_ = execute(*plan_, inputs_);
  }
  const std::vector<Ref<TensorImpl>>& results() const { return results_; }
  void drop_results() { results_.clear(); }

 private:
  std::shared_ptr<const Plan> plan_;
  std::span<const Ref<TensorImpl>> inputs_;
  std::vector<Ref<TensorImpl>> results_;
};

/// What time_of() asks of operands.
struct PlanOperands {
  Device device;
  void* const* bases() const { return nullptr; }
  bool is_on_host() const { return device == Device::cpu(); }
  void wait() const {
    if (!is_on_host()) device_memory(device, "max_autotune").synchronise(device);
  }
};

inline std::vector<std::byte> bytes_of(const TensorImpl& value) {
  std::vector<std::byte> bytes(as_index(value.type.shape.numel().value() * size_of(value.type.dtype)));
  if (bytes.empty()) return bytes;
  if (value.type.device == Device::cpu()) std::memcpy(bytes.data(), value.data(), bytes.size());
  else
    device_memory(value.type.device, "max_autotune")
        .copy(bytes.data(), Device::cpu(), value.data(), value.type.device, bytes.size());
  return bytes;
}
inline bool are_same(const std::vector<Ref<TensorImpl>>& a, const std::vector<Ref<TensorImpl>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Ref<TensorImpl>& x, const Ref<TensorImpl>& y) {
    if (x->storage.get() == y->storage.get()) return x->offset == y->offset;  // views of an input or a constant
    return x->is_dense() && y->is_dense() && bytes_of(*x) == bytes_of(*y);
  });
}

/// Whether the plan can run on these: they are ready, and have the types that it has at these sizes.
inline bool fit(std::span<const Ref<TensorImpl>> values, const Graph& graph, const PlanOptions& options,
                std::span<const std::int64_t> sizes) {
  if (values.size() != graph.inputs().size()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Type& wanted = graph.type(graph.inputs()[i]);
    const Type& type = values[i]->type;
    const bool has_layout = i < options.input_strides.size() && !options.input_strides[i].empty();
    if (!values[i]->is_ready() || type.dtype != wanted.dtype || type.device != wanted.device ||
        type.shape.rank() != wanted.shape.rank() || (!has_layout && !values[i]->is_dense()))
      return false;
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      if (type.shape[axis].value() != wanted.shape[axis].evaluate(sizes) ||
          (has_layout &&
           values[i]->strides[as_index(axis)] != options.input_strides[i][as_index(axis)].evaluate(sizes)))
        return false;
  }
  return true;
}
/// The plans, the default's first, that `may_go_on` leaves time for, each of which has run.
template <class F>
Field plans_of(const Graph& graph, const PlanOptions& options, const std::vector<Schedule>& candidates,
               std::span<const Ref<TensorImpl>> inputs, const F& may_go_on) {
  Field field;
  std::vector<Ref<TensorImpl>> expected;
  for (const Schedule& schedule : candidates) {
    if (!may_go_on()) break;
    PlanOptions own = options;
    if (!follow(own, schedule)) continue;
    auto run = std::make_unique<PlanRun>(build_plan(graph, own), inputs);
    run->run(nullptr);
    if (field.candidates.empty()) {
      expected = run->results();
      run->run(nullptr);  // what differs from run to run would reject all others
    }
    if (!are_same(run->results(), expected)) {
      field.rejected += (field.rejected.empty() ? "" : ", ") + schedule.text();
      ++field.rejections;
      if (field.candidates.empty()) break;
      continue;
    }
    run->drop_results();
    field.candidates.push_back({schedule, std::move(run)});
  }
  return field;
}
}  // namespace tuner_detail

SINTER_DECL void Tuner::report_plan(const std::string& text) const {
  if (is_logged("autotune")) note("autotune", request_.where.text() + ": the cut into kernels: " + text + progress());
}

SINTER_DECL Schedule Tuner::choose_plan(const Graph& graph, const PlanOptions& options,
                                        const std::vector<Schedule>& candidates, const std::string& key) {
  if (const std::optional<std::string> known = runtime_detail::find_tuning(key)) {
    const std::string_view text = runtime_detail::schedule_in(*known);
    const std::optional<Schedule> schedule = parse_schedule(text);
    if (schedule && std::find(candidates.begin(), candidates.end(), *schedule) != candidates.end()) {
      runtime_detail::count_tuning({.plans_found = 1});
      report_plan(std::string(text) + ", which was measured before");
      return *schedule;
    }
  }
  try {
    return measure_plans(graph, options, candidates, key);
  } catch (const Error& error) {
    report_plan("default, for it cannot be measured: " + std::string(error.what()));
  } catch (const std::bad_alloc&) { report_plan("default, for there is no memory to measure it with"); }
  measures_ = true;
  return {};
}

SINTER_DECL Schedule Tuner::measure_plans(const Graph& graph, const PlanOptions& options,
                                          const std::vector<Schedule>& candidates, const std::string& key) {
  using namespace tuner_detail;
  const auto leave_default = [&](const std::string& why) {
    report_plan("default, for " + why);
    return Schedule{};
  };
  std::vector<Ref<TensorImpl>> inputs = request_.values;
  if (inputs.empty())
    for (const Tensor& value : example_inputs(graph)) inputs.push_back(value.impl());
  if (!fit(inputs, graph, options, sizes_)) return leave_default("inputs of these layouts are not made up");
  if (spent_ >= seconds_) return leave_default("no time is left (Options::tune_seconds)");
  const TimelineSpan span("compile", "measure plans");
  const Measuring alone;
  if (!alone.has_begun()) return leave_default("another thread measures, and this one holds what fork() waits for");
  const auto start = Clock::now();
  const double before = spent_, limit = seconds_ - spent_;
  const auto may_go_on = [&] {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    spent_ = before + elapsed;
    return elapsed < limit;
  };
  measures_ = false;
  Field field = plans_of(graph, options, candidates, inputs, may_go_on);
  measures_ = true;
  const PlanOperands operands{options.backends.front()->device()};
  int done = 0, launches = 1;
  if (field.candidates.size() > 1) {
    launches = launches_in_a_sample(*field.candidates[0].launch, operands);
    done = time_in_turns(field.candidates, operands, launches, may_go_on);
  }
  may_go_on();
  runtime_detail::count_tuning({.rejected = field.rejections});
  if (field.candidates.size() < 2 || done < 3) {
    report_plan(field.rejected.empty() ? "default, for the time did not suffice (Options::tune_seconds)"
                                       : "default; other bits: " + field.rejected);
    return {};
  }
  Candidate& fastest = fastest_of(field.candidates);
  const Candidate& winner = winner_of(field.candidates, fastest, operands, launches);
  may_go_on();
  has_measured_ = true;
  runtime_detail::keep_tuning(key, winner.schedule.text() + "; " + digits(winner.time(), 4) + " s");
  runtime_detail::count_tuning({.plans_measured = 1, .plans_gained = &winner != field.candidates.data()});
  report_plan(result_text(field, winner, fastest) +
              (request_.values.empty() ? "; on made-up inputs" : "; on the call's inputs"));
  return winner.schedule;
}

SINTER_DECL std::shared_ptr<const Plan> tuned_plan(const Graph& graph, const PlanOptions& options,
                                                   TuneRequest request) {
  using namespace tuner_detail;
  constexpr double part_for_plans = 0.25;
  std::vector<std::int64_t> sizes;
  for (const SymbolInfo& symbol : graph.symbols()) sizes.push_back(symbol.hint);
  if (!fit(request.values, graph, options, sizes)) request.values.clear();
  const bool is_one_plan = is_on_host(graph, options.output_devices);
  const auto tuner = std::make_shared<Tuner>(std::move(request), sizes);
  PlanOptions tuned = options;
  tuned.choose_schedule = [tuner, is_one_plan](Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry,
                                               std::span<const BufferRef> operands) {
    // The inputs of a part have numbers of their own.
    return tuner->choose(backend, kernel, geometry, is_one_plan ? operands : std::span<const BufferRef>());
  };
  std::vector<Schedule> candidates = may_run_again(graph) ? plan_schedules(graph, options) : std::vector<Schedule>();
  const std::string key = drop_equal(candidates, graph, options, sizes);
  if (candidates.size() < 2) return build_plan(graph, tuned);
  tuner->leave_for_plans(part_for_plans);
  std::shared_ptr<const Plan> standard = build_plan(graph, tuned);
  tuner->leave_for_plans(0);
  const Schedule winner = tuner->choose_plan(graph, tuned, candidates, key);
  if (winner.empty() || !follow(tuned, winner)) return standard;
  tuner->begin_again();
  return build_plan(graph, tuned);
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
