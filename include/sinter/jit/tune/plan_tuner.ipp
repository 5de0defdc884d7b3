// The cut of a graph into kernels, measured: whole plans on the call's own inputs.
#pragma once

#include <sinter/jit/tune/plan_tuner.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/debug/minify.hpp>  // example_inputs
#include <sinter/jit/tune/operands.hpp>
#include <sinter/jit/tune/timing.hpp>
#include <sinter/jit/tune/tuner.ipp>  // keys
#include <sinter/ops/host_function.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/plan_choices.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

/// Has it a loop that goes on as long as values say? With made-up ones it may never end.
inline bool has_open_loop(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return std::string_view(node.op->name).starts_with("while") ||
           std::any_of(node.attrs.bodies.begin(), node.attrs.bodies.end(),
                       [](const auto& body) { return has_open_loop(*body); });
  });
}

/// Of a plan: kernels, and what they read and write, or the nodes that they come from as well, which are what a
/// schedule's numbers mean.
enum class PlanFacts : std::uint8_t { kernels, kernels_and_nodes };
inline void add_plan(KeyWriter& key, const Plan& plan, std::span<const std::int64_t> sizes, PlanFacts facts,
                     std::string& classes) {
  for (const PlanStep& step : plan.steps()) {
    if (step.host || facts == PlanFacts::kernels_and_nodes) {
      key.add_list(step.name, [&](char letter) { key.add(letter); });
      key.add_list(step.nodes, [&](std::int32_t node) { key.add(node); });
    }
    key.add_list(step.operands, [&](const BufferRef& operand) { key.add(operand.kind).add(operand.index); });
    if (step.host) {
      for (const auto& body : step.host->bodies) add_plan(key, *body, sizes, facts, classes);
      continue;
    }
    key.add(step.kernel);
    classes += class_of(step.kernel, sinter::bind(step.geometry, sizes)) + ";";
  }
  key.add_list(plan.groups(), [&](const StepRange& group) { key.add(group.first).add(group.end); });
  key.add(plan.runs_as_one() && plan.kernel_count() > 1);
  if (plan.host_part() != nullptr) add_plan(key, *plan.host_part(), sizes, facts, classes);
  if (plan.parts() == nullptr) return;
  for (const PartitionPlan::Part& part : plan.parts()->parts)
    if (part.plan != nullptr) add_plan(key, *part.plan, sizes, facts, classes);
}
inline std::shared_ptr<const Plan> sketch_of(const Graph& graph, PlanOptions options) {
  options.with_code = false;
  return build_plan(graph, options);
}
inline std::string facts_text(const PlanOptions& options, const Plan& sketch, std::span<const std::int64_t> sizes,
                              PlanFacts facts) {
  KeyWriter key;
  std::string classes;
  add_plan(key, sketch, sizes, facts, classes);
  key.add(options.precision);
  key.add_list(classes, [&](char letter) { key.add(letter); });
  return hex_of(key.bytes());
}
inline std::string plan_key(const Graph& graph, const PlanOptions& options, const Plan& sketch,
                            std::span<const std::int64_t> sizes) {
  return SINTER_VERSION_STRING "; " + machine_of(*options.backends.front()) + "; plan of " +
         std::to_string(graph.nodes().size()) + " nodes; " +
         facts_text(options, sketch, sizes, PlanFacts::kernels_and_nodes);
}
inline bool is_within(std::int64_t budget, const Plan& sketch, const Plan& standard) {
  return budget == 0 || sketch.held_bytes() <= std::max(budget, standard.held_bytes());
}

/// Leaves one of those that give the same plan, and none that holds more than the budget.
inline void drop_equal(std::vector<Schedule>& candidates, const Graph& graph, const PlanOptions& options,
                       std::span<const std::int64_t> sizes, const Plan& standard, std::int64_t budget) {
  std::vector<std::string> keys;
  std::erase_if(candidates, [&](const Schedule& schedule) {
    PlanOptions own = options;
    if (!follow(own, schedule)) return true;
    const std::shared_ptr<const Plan> sketch = sketch_of(graph, own);
    if (!is_within(budget, *sketch, standard)) return true;
    std::string key = facts_text(own, *sketch, sizes, PlanFacts::kernels);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return true;
    keys.push_back(std::move(key));
    return false;
  });
}
inline std::optional<Schedule> stored_schedule(const std::string& key) {
  const std::optional<std::string> known = runtime_detail::find_tuning(key);
  return known ? parse_schedule(runtime_detail::schedule_in(*known)) : std::nullopt;
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

inline std::vector<std::byte> bytes_of(const TensorImpl& value, Compared compared) {
  const std::size_t bytes = as_index(value.type.shape.numel().value() * size_of(value.type.dtype));
  return bytes == 0 ? std::vector<std::byte>() : bytes_at(value.data(), bytes, value.type.device, compared);
}

/// What the default gives, and its bytes.
class ExpectedResults {
 public:
  ExpectedResults() = default;
  explicit ExpectedResults(std::vector<Ref<TensorImpl>> values, Compared compared = Compared::parts)
      : values_(std::move(values)), compared_(compared) {
    for (const Ref<TensorImpl>& value : values_)
      bytes_.push_back(value->is_dense() ? bytes_of(*value, compared_) : std::vector<std::byte>());
  }
  bool are_given_by(const std::vector<Ref<TensorImpl>>& values) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const TensorImpl &x = *values[i], &y = *values_[i];
      if (x.storage.get() == y.storage.get()) {  // views of an input or a constant
        if (x.offset != y.offset) return false;
      } else if (!x.is_dense() || !y.is_dense() || bytes_of(x, compared_) != bytes_[i]) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<Ref<TensorImpl>> values_{};
  Compared compared_ = Compared::parts;
  std::vector<std::vector<std::byte>> bytes_{};
};

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
/// The values with made-up numbers of both signs in the place of floating-point ones: those of a first call may all be
/// zeros. Others may be indices, and stay, and so do layouts with gaps.
inline std::vector<Ref<TensorImpl>> made_up_like(std::span<const Ref<TensorImpl>> values) {
  std::vector<Ref<TensorImpl>> made(values.begin(), values.end());
  for (Ref<TensorImpl>& value : made) {
    const Type& type = value->type;
    const DType part = type.dtype == DType::c64 ? DType::f32 : type.dtype == DType::c128 ? DType::f64 : type.dtype;
    const std::size_t bytes = as_index(type.shape.numel().value() * size_of(type.dtype));
    if ((part != DType::f32 && part != DType::f64 && part != DType::bf16 && part != DType::f16) || !value->is_dense() ||
        bytes == 0)
      continue;
    Ref<Storage> memory = Storage::allocate(bytes, type.device);
    if (type.device != Device::cpu()) fill(memory->data(), bytes, type.device, part, Fill::signed_);
    else fill({static_cast<std::byte*>(memory->data()), bytes}, part, Fill::signed_);
    value = TensorImpl::make_ready(type, std::move(memory));
  }
  return made;
}
inline std::int64_t total_bytes(std::span<const Ref<TensorImpl>> values) {
  std::int64_t bytes = 0;
  for (const Ref<TensorImpl>& value : values) bytes += value->type.shape.numel().value() * size_of(value->type.dtype);
  return bytes;
}

/// Plans of one graph, the default's first, each of which has run and given the default's bits: for these inputs, and
/// for others with made-up numbers where the graph can run on such.
class PlanTrials {
 public:
  PlanTrials(const Graph& graph, const PlanOptions& options, std::span<const Ref<TensorImpl>> inputs,
             std::span<const std::int64_t> sizes)
      : graph_(graph),
        options_(options),
        inputs_(inputs),
        sizes_(sizes),
        most_(static_cast<std::int64_t>(options.backends.front()->device() == Device::cpu() ? most_bytes
                                                                                            : most_device_bytes)) {}

  /// Those that there is time for.
  void run(const std::vector<Schedule>& candidates, const Allowance& time) {
    for (const Schedule& schedule : candidates) {
      if (!time.is_left(field.candidates.empty() ? 1 : part_to_verify(options_.backends.front()->device()))) {
        field.is_late = field.candidates.size() < 2;
        break;
      }
      add(schedule);
      if (field.candidates.empty()) break;  // the default's bits are not the same twice, or it is too large
    }
  }
  /// One more: whether it is in the field now.
  bool add(const Schedule& schedule);
  /// The fastest of those that were timed, or of its steps and those of the next ones in one plan, three at most, as
  /// long as each makes it faster by what is wanted.
  Candidate& combine(const PlanOperands& operands, int launches, const Allowance& time, std::int64_t budget);
  /// A plan of its own, in other memory, that has run once.
  std::unique_ptr<PlanRun> again(const Schedule& schedule) const {
    PlanOptions own = options_;
    ensure(follow(own, schedule), "a cut that was measured is none");
    auto run = std::make_unique<PlanRun>(build_plan(graph_, own), inputs_);
    run->run(nullptr);
    return run;
  }
  Field field;

 private:
  std::int64_t bytes_of_results(const Plan& plan) const;
  void set_standard(PlanRun& run);
  bool is_new(const Schedule& schedule, std::int64_t budget);

  const Graph& graph_;
  const PlanOptions& options_;
  std::span<const Ref<TensorImpl>> inputs_;
  std::span<const std::int64_t> sizes_;
  std::int64_t most_, held_ = 0;  // by frames, which stay, and by results
  std::shared_ptr<const Plan> standard_{};
  std::vector<Ref<TensorImpl>> others_{};
  ExpectedResults expected_{}, expected_of_others_{};
  std::vector<std::string> keys_{};  // of the plans that combinations are compared with
};

inline std::int64_t PlanTrials::bytes_of_results(const Plan& plan) const {
  std::int64_t results = 0;
  for (const PlanOutput& output : plan.outputs()) {
    std::int64_t elements = 1;
    for (const Dim extent : output.type.shape.dims()) elements *= extent.evaluate(sizes_);
    results += elements * size_of(output.type.dtype);
  }
  return results;
}

/// The default has run once.
inline void PlanTrials::set_standard(PlanRun& run) {
  expected_ = ExpectedResults(run.results());
  run.run(nullptr);  // what differs from run to run would reject all others
  if (!has_open_loop(graph_)) {
    try {
      others_ = made_up_like(inputs_);
      expected_of_others_ = ExpectedResults(execute(*standard_, others_));
    } catch (const Error&) { others_.clear(); }  // positions that come of numbers, say
  }
}

inline bool PlanTrials::add(const Schedule& schedule) {
  const bool is_standard = field.candidates.empty();
  PlanOptions own = options_;
  if (!follow(own, schedule)) return false;
  const std::shared_ptr<const Plan> plan = build_plan(graph_, own);
  if (is_standard) standard_ = plan;
  else if (!have_equal_backends(*plan, *standard_)) {
    field.reject(schedule);
    return false;
  }
  const std::int64_t results = bytes_of_results(*plan), bytes = plan->held_bytes(sizes_) + results;
  if (is_standard) {  // it is there twice: to compare with, and to be compared with
    held_ = total_bytes(inputs_) + 2 * results;
    field.is_too_large = held_ + 2 * bytes > most_;
  }
  if (field.is_too_large || held_ + bytes > most_) return false;
  auto run = std::make_unique<PlanRun>(plan, inputs_);
  run->run(nullptr);
  if (is_standard) set_standard(*run);
  if (!expected_.are_given_by(run->results()) ||
      (!others_.empty() && !expected_of_others_.are_given_by(execute(*plan, others_)))) {
    field.reject(schedule);
    return false;
  }
  run->drop_results();
  held_ += bytes;
  field.candidates.push_back({schedule, std::move(run)});
  return true;
}

/// Whether it is said to keep bits, is within the budget, and is another plan than those that there are.
inline bool PlanTrials::is_new(const Schedule& schedule, std::int64_t budget) {
  PlanOptions own = options_;
  if (!follow(own, schedule) || !keeps_bits(graph_, options_, schedule)) return false;
  const std::shared_ptr<const Plan> sketch = sketch_of(graph_, own);
  std::string key = facts_text(own, *sketch, sizes_, PlanFacts::kernels);
  if (!is_within(budget, *sketch, *standard_) || std::find(keys_.begin(), keys_.end(), key) != keys_.end())
    return false;
  keys_.push_back(std::move(key));
  return true;
}

inline constexpr const char* too_large_text =
    "two of its plans, with what they give, are larger than what may be held for this";

/// Both plans are made anew, in other memory, compared as a whole, and timed some time later. Those of the field are
/// gone.
inline bool wins_again(PlanTrials& trials, const Candidate& winner, const PlanOperands& operands, int launches,
                       const Allowance& time) {
  for (Candidate& each : trials.field.candidates) each.launch.reset();
  wait_until_later(std::chrono::steady_clock::now());
  std::unique_ptr<PlanRun> first = trials.again({}), second = trials.again(winner.schedule);
  if (!ExpectedResults(first->results(), Compared::whole).are_given_by(second->results())) return false;
  Candidate standard{{}, std::move(first)}, other{winner.schedule, std::move(second)};
  return gains(other, standard, operands, launches, time);
}

/// The steps of both, unless they say the same twice.
inline std::optional<Schedule> both_of(const Schedule& a, const Schedule& b) {
  Schedule both = a;
  for (const ScheduleStep& step : b.steps()) {
    if (both.steps().size() == Schedule::max_steps ||
        std::find(both.steps().begin(), both.steps().end(), step) != both.steps().end())
      return std::nullopt;
    both = both.with(step);
  }
  return both;
}

inline Candidate& PlanTrials::combine(const PlanOperands& operands, int launches, const Allowance& time,
                                      std::int64_t budget) {
  constexpr std::size_t most_combined = 3, most_tried = 4;
  std::vector<Candidate>& all = field.candidates;
  std::sort(all.begin() + 1, all.end(), [](const Candidate& a, const Candidate& b) { return a.time() < b.time(); });
  std::vector<Schedule> winners;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].time() < all[0].time() * gain_wanted) winners.push_back(all[i].schedule);
  if (winners.size() < 2) return fastest_of(all);
  for (const Schedule& schedule : winners) {
    PlanOptions own = options_;
    if (follow(own, schedule)) keys_.push_back(facts_text(own, *sketch_of(graph_, own), sizes_, PlanFacts::kernels));
  }
  std::size_t best = 1;
  for (std::size_t i = 1, tried = 0; i < winners.size() && tried < most_tried && time.is_left(); ++i) {
    if (all[best].schedule.steps().size() >= most_combined) break;
    const std::optional<Schedule> both = both_of(all[best].schedule, winners[i]);
    if (!both || !is_new(*both, budget)) continue;
    ++tried;
    if (!add(*both)) continue;
    Candidate* const pair[] = {&all[best], &all.back()};
    std::vector<double> known = std::exchange(pair[0]->times, {});
    if (time_in_turns(pair, operands, launches, time) < least_rounds) {
      pair[0]->times = std::move(known);
      all.pop_back();
      break;
    }
    if (pair[1]->time() < pair[0]->time() * gain_wanted) best = all.size() - 1;
  }
  return all[best];
}
}  // namespace tuner_detail

SINTER_DECL void Tuner::report_plan(const std::string& text) const {
  if (is_logged("autotune")) note("autotune", request_.where.text() + ": the cut into kernels: " + text + progress());
}

SINTER_DECL Schedule Tuner::choose_plan(const Graph& graph, const PlanOptions& options,
                                        const std::vector<Schedule>& candidates, const std::string& key) {
  try {
    return measure_plans(graph, options, candidates, key);
  } catch (const Error& error) {
    report_plan("default, for it cannot be measured: " + std::string(error.what()));
  } catch (const std::bad_alloc&) { report_plan("default, for there is no memory to measure it with"); }
  measures_ = true;
  return {};
}

SINTER_DECL bool Tuner::prepare_plans(const Graph& graph, const PlanOptions& options, std::string& why_not) {
  using namespace tuner_detail;
  plan_inputs_ = request_.values;
  if (plan_inputs_.empty()) {
    if (has_open_loop(graph)) {
      why_not = "a while_loop may never end on made-up inputs";
      return false;
    }
    for (const Tensor& value : example_inputs(graph)) plan_inputs_.push_back(value.impl());
  }
  if (fit(plan_inputs_, graph, options, sizes_)) return true;
  why_not = "inputs of these layouts are not made up";
  return false;
}

SINTER_DECL Schedule Tuner::follow_known(const Graph& graph, const PlanOptions& options, const Schedule& winner) {
  using namespace tuner_detail;
  std::string why_not;
  try {
    if (!winner.empty() && prepare_plans(graph, options, why_not)) {
      measures_ = false;
      PlanTrials trials(graph, options, plan_inputs_, sizes_);
      trials.run({Schedule{}, winner}, Allowance(1e9));
      if (trials.field.is_too_large) why_not = too_large_text;
      else if (trials.field.candidates.size() < 2) why_not = "it gives other bits here, or has no memory to run";
    }
  } catch (const Error& error) { why_not = error.what(); } catch (const std::bad_alloc&) {
    why_not = "there is no memory to run it";
  }
  measures_ = true;
  if (!why_not.empty()) {
    runtime_detail::count_tuning({.rejected = 1});
    report_plan("default; " + winner.text() + " was measured before, and is not followed: " + why_not);
    return {};
  }
  runtime_detail::count_tuning({.plans_found = 1});
  report_plan(winner.text() + ", which was measured before");
  return winner;
}

SINTER_DECL Schedule Tuner::measure_plans(const Graph& graph, const PlanOptions& options,
                                          const std::vector<Schedule>& candidates, const std::string& key) {
  using namespace tuner_detail;
  const auto leave_default = [&](const std::string& why) {
    report_plan("default, for " + why);
    return Schedule{};
  };
  if (spent_ >= seconds_) return leave_default("no time is left (Options::tune_seconds)");
  const TimelineSpan span("compile", "measure plans");
  const Measuring alone;
  if (!alone.has_begun()) return leave_default("another thread measures, and this one holds what fork() waits for");
  std::string why_not;
  if (!prepare_plans(graph, options, why_not)) return leave_default(why_not);
  const Allowance time(seconds_ - spent_);
  const PlanOperands operands{options.backends.front()->device()};
  measures_ = false;
  PlanTrials trials(graph, options, plan_inputs_, sizes_);
  trials.run(candidates, time);
  Field& field = trials.field;
  int done = 0, launches = 1;
  if (field.candidates.size() > 1 && drop_slow(field.candidates, operands, time)) {
    launches = launches_in_a_sample(*field.candidates[0].launch, operands);
    done = time_in_turns(field.candidates, operands, launches, time);
  }
  if (done < least_rounds) {
    measures_ = true;
    runtime_detail::count_tuning({.rejected = field.rejections});
    spent_ += time.spent();
    if (field.is_too_large) return leave_default(too_large_text);
    if (!field.rejected.empty()) report_plan("default; other bits: " + field.rejected);
    else report_plan("default, for the time did not suffice (Options::tune_seconds)");
    return {};
  }
  Candidate& fastest = trials.combine(operands, launches, time, request_.memory_budget);
  const Candidate* winner = &winner_of(field.candidates, fastest, operands, launches, time);
  std::string text = result_text(field, *winner, fastest);
  if (winner != field.candidates.data() && !wins_again(trials, fastest, operands, launches, time)) {
    winner = field.candidates.data();
    text = "default, for " + fastest.schedule.text() + " did not win a second time, of " +
           std::to_string(field.candidates.size()) + " schedules";
  }
  measures_ = true;
  runtime_detail::count_tuning({.rejected = field.rejections});
  spent_ += time.spent();
  has_measured_ = true;
  runtime_detail::keep_tuning(key, winner->schedule.text() + "; " + digits(winner->time(), 4) + " s");
  runtime_detail::count_tuning({.plans_measured = 1, .plans_gained = winner != field.candidates.data()});
  report_plan(text + (request_.values.empty() ? "; on made-up inputs" : "; on the call's inputs"));
  return winner->schedule;
}

SINTER_DECL std::shared_ptr<const Plan> tuned_plan(const Graph& graph, const PlanOptions& options,
                                                   TuneRequest request) {
  using namespace tuner_detail;
  constexpr double part_for_plans = 0.25;
  std::vector<std::int64_t> sizes;
  for (const SymbolInfo& symbol : graph.symbols()) sizes.push_back(symbol.hint);
  if (!fit(request.values, graph, options, sizes)) request.values.clear();
  const bool is_one_plan = is_on_host(graph, options.output_devices);
  const std::int64_t budget = request.memory_budget;
  const auto tuner = std::make_shared<Tuner>(std::move(request), sizes);
  PlanOptions tuned = options;
  // What has won as a kernel wins again before it is kept.
  const auto build = [&] {
    std::shared_ptr<const Plan> plan = build_plan(graph, tuned);
    if (tuner->confirm()) return plan;
    tuner->begin_again();
    plan = build_plan(graph, tuned);
    tuner->end_again();
    return plan;
  };
  tuned.choose_schedule = [tuner, is_one_plan](Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry,
                                               std::span<const BufferRef> operands) {
    // The inputs of a part have numbers of their own.
    return tuner->choose(backend, kernel, geometry, is_one_plan ? operands : std::span<const BufferRef>());
  };
  if (!options.fuse || !may_run_again(graph)) return build();
  const std::shared_ptr<const Plan> sketch = sketch_of(graph, options);
  const std::string key = plan_key(graph, options, *sketch, sizes);
  std::optional<Schedule> known = stored_schedule(key);
  if (known && !known->empty()) {
    PlanOptions other = options;
    if (!follow(other, *known) || !keeps_bits(graph, options, *known) ||
        !is_within(budget, *sketch_of(graph, other), *sketch))
      known = std::nullopt;
  }
  std::vector<Schedule> candidates;
  if (!known) {
    candidates = plan_schedules(graph, options);
    drop_equal(candidates, graph, options, sizes, *sketch, budget);
    if (candidates.size() < 2) return build();
    tuner->leave_for_plans(part_for_plans);
  }
  std::shared_ptr<const Plan> standard = build();
  tuner->leave_for_plans(0);
  const Schedule winner =
      known ? tuner->follow_known(graph, tuned, *known) : tuner->choose_plan(graph, tuned, candidates, key);
  if (winner.empty() || !follow(tuned, winner)) return standard;
  tuner->begin_again();
  return build();
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
