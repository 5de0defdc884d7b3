// Costs of kernels, and the spans of their runs.
#pragma once

#include <sinter/runtime/watch.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/kernel/cost.hpp>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

SINTER_DECL StepCost cost_of(const PlanStep& step, std::span<const std::int64_t> symbols) {
  StepCost cost;
  if (!step.host) {
    const KernelCost counted = cost_of(step.kernel, sinter::bind(step.geometry, symbols));
    cost.bytes = static_cast<std::int64_t>(counted.bytes_read + counted.bytes_written);
    cost.flops = static_cast<std::int64_t>(counted.flops + counted.special);
    return cost;
  }
  for (const Type& type : step.host->types) {
    std::int64_t count = size_of(type.dtype);
    for (Dim extent : type.shape) count *= extent.evaluate(symbols);
    cost.bytes += count;
  }
  return cost;
}

SINTER_DECL std::string lines_of(const PlanStep& step) {
  std::vector<std::string> lines;
  for (const Location& where : step.where) {
    std::string line = where.text();
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
  return text;
}

SINTER_DECL ListenToSteps::ListenToSteps(StepListener& listener)
    : before_(std::exchange(runtime_detail::step_listener(), &listener)) {
  base_detail::watchers.fetch_add(base_detail::one_watcher);
}
SINTER_DECL ListenToSteps::~ListenToSteps() {
  base_detail::watchers.fetch_sub(base_detail::one_watcher);
  runtime_detail::step_listener() = before_;
}

namespace runtime_detail {
SINTER_DECL const Plan& plan_of(const Plan& plan, const PlanStep& step) {
  const auto has = [&](const Plan& owner) {
    const PlanStep *const first = owner.steps().data(), *const end = first + owner.steps().size();
    return !std::less<>()(&step, first) && std::less<>()(&step, end);
  };
  if (!has(plan))
    for (const PlanStep& call : plan.steps())
      if (call.host && call.host->is_call && has(*call.host->bodies[0])) return *call.host->bodies[0];
  return plan;
}

SINTER_DECL WatchedStep::WatchedStep(const Plan& plan, const PlanStep& step, std::span<const std::int64_t> symbols,
                                     const StepCost& cost, DeviceMemory* memory)
    : plan_(plan),
      step_(step),
      symbols_(symbols),
      cost_(cost),
      device_(plan.device()),
      memory_(memory),
      listener_(step_listener()),
      before_(timeline::current_task()),
      exceptions_(std::uncaught_exceptions()),
      waits_(waits_for_steps()),
      is_logged_(has_instruction_log()) {
  if (waits_ && memory_ != nullptr) memory_->drain(device_);
  if (listener_ != nullptr) listener_->begin(step);
  begin_ = timeline_now();
  if (!has_timeline()) return;
  if (memory_ != nullptr && !step.host && !step.runs_on_host) launch_ = TrackedLaunch(*memory_, device_);
  timeline::current_task() = {step.name, timeline::thread_number(), begin_};
  timeline::begin_range(step.name);
  has_range_ = true;
}
SINTER_DECL WatchedStep::~WatchedStep() {
  if (waits_ && memory_ != nullptr) memory_->drain(device_);
  const std::int64_t end = timeline_now();
  const bool has_failed = std::uncaught_exceptions() > exceptions_;
  if (has_range_) timeline::end_range();
  try {
    if (listener_ != nullptr) listener_->end(step_, runs_on(), cost_, end - begin_);
    if (has_timeline()) record(end, has_failed);
    if (is_logged_) log_instruction({plan_of(plan_, step_), step_, symbols_, runs_on(), begin_, end, has_failed});
  } catch (...) {
    // no memory for the record: it is lost
  }
  timeline::current_task() = before_;
}
SINTER_DECL void WatchedStep::record(std::int64_t end, bool has_failed) {
  JsonFields fields;
  fields.add("kernel", step_.host ? std::string_view("host operation") : name(step_.kernel.kind));
  fields.add("backend", step_.backend).add("device", runs_on().text());
  fields.add("bytes", static_cast<long long>(cost_.bytes)).add("flops", static_cast<long long>(cost_.flops));
  fields.add("line", lines_of(step_));
  if (has_failed) fields.add("failed", true);
  // A GPU's kernel is only enqueued here, unless somebody waits for it.
  const bool is_enqueued = memory_ != nullptr && !waits_ && !step_.host && !step_.runs_on_host;
  timeline::complete(is_enqueued ? "launch" : step_.host ? "host" : "kernel", step_.name, begin_, end, fields);
  launch_.finish(step_.name, std::move(fields));
}

SINTER_DECL WatchedGroup::WatchedGroup(std::vector<GroupMember> members, Device device)
    : members_(std::move(members)),
      spent_(members_.size()),
      name_("group of " + std::to_string(members_.size()) + " kernels"),
      device_(device),
      listener_(step_listener()),
      before_(timeline::current_task()),
      exceptions_(std::uncaught_exceptions()) {
  for (const GroupMember& member : members_) names_.push_back(member.step->name);
  begin_ = timeline_now();
  if (!has_timeline()) return;
  timeline::current_task() = {name_, timeline::thread_number(), begin_};
  timeline::begin_range(name_);
  has_range_ = true;
}
SINTER_DECL WatchedGroup::~WatchedGroup() {
  const std::int64_t end = timeline_now();
  if (has_range_) timeline::end_range();
  try {
    std::int64_t all = 0;
    for (const std::int64_t each : spent_) all += each;
    for (std::size_t i = 0; listener_ != nullptr && i < members_.size(); ++i) {
      const double share = all > 0 ? static_cast<double>(spent_[i]) / static_cast<double>(all) : 0;
      listener_->begin(*members_[i].step);
      listener_->end(*members_[i].step, device_, *members_[i].cost,
                     static_cast<std::int64_t>(share * static_cast<double>(end - begin_)));
    }
    if (has_timeline()) record(end);
  } catch (...) {
    // no memory for the record: it is lost
  }
  timeline::current_task() = before_;
}
SINTER_DECL void WatchedGroup::record(std::int64_t end) const {
  JsonFields fields;
  StepCost cost;
  std::string kernels;
  for (const GroupMember& member : members_) {
    cost.bytes += member.cost->bytes;
    cost.flops += member.cost->flops;
    kernels += (kernels.empty() ? "" : ", ") + member.step->name;
  }
  fields.add("kernel", "group").add("backend", members_.front().step->backend).add("device", device_.text());
  fields.add("bytes", static_cast<long long>(cost.bytes)).add("flops", static_cast<long long>(cost.flops));
  fields.add("line", lines_of(*members_.front().step)).add("kernels", kernels);
  if (std::uncaught_exceptions() > exceptions_) fields.add("failed", true);
  timeline::complete("kernel", name_, begin_, end, fields);
}
}  // namespace runtime_detail

SINTER_NAMESPACE_END
