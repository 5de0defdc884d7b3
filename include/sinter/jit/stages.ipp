// Stages of an entry.
#pragma once

#include <sinter/jit/stages.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/plan_cost.hpp>
#include <sinter/runtime/partition_plan.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What stages are made of when they are asked for.
struct Stages::Parts {
  std::string backend;
  MatmulPrecision precision = MatmulPrecision::f32;
  Graph specialised, optimised;
  std::shared_ptr<const Plan> plan;  // null: a registered back end runs the graph
  std::vector<std::int64_t> symbols;
};

SINTER_DECL Stages FunctionState::stages(const Entry& entry, std::span<const std::int64_t> symbols) const {
  auto parts = std::make_shared<Stages::Parts>();
  parts->backend = entry.backend.empty() ? options_.backend.name() : entry.backend;
  parts->precision = precision_now();
  parts->specialised = entry.specialised;
  parts->optimised = entry.optimised;
  parts->plan = entry.end.plan;
  parts->symbols.assign(symbols.begin(), symbols.end());
  Stages stages;
  stages.graph_ = entry.traced;
  stages.parts_ = std::move(parts);
  return stages;
}

/// Bodies go through all passes while the pass "bodies" runs, which comes after "outline": what they became is seen in
/// the graph that calls them.
SINTER_DECL std::vector<PassStage> Stages::passes() const {
  std::vector<PassStage> passes;
  std::vector<std::size_t> outlined;
  if (parts_->plan != nullptr)
    jit_detail::run_passes_for(parts_->backend, parts_->specialised, parts_->precision,
                               [&](std::string_view name, const Graph& graph, double) {
                                 if (name == "bodies" && !outlined.empty()) {
                                   passes.resize(outlined.back());
                                   outlined.pop_back();
                                 }
                                 passes.push_back({std::string(name), graph});
                                 if (name == "outline") outlined.push_back(passes.size());
                               });
  passes.push_back({"what is compiled", parts_->optimised});
  std::vector<PassStage> changed;
  for (PassStage& pass : passes)
    if (!structurally_equal(changed.empty() ? parts_->specialised : changed.back().graph, pass.graph))
      changed.push_back(std::move(pass));
  return changed;
}

namespace jit_detail {

/// The kernels of a plan, those of bodies once with the number of their runs.
class KernelList {
 public:
  explicit KernelList(std::span<const std::int64_t> symbols) : symbols_(symbols) {}

  void add(const Plan& plan, std::int64_t times) {
    if (plan.host_part() != nullptr) add(*plan.host_part(), times);
    if (plan.parts() != nullptr)
      for (const PartitionPlan::Part& part : plan.parts()->parts)
        if (part.plan != nullptr) add(*part.plan, times);
    std::vector<Cost> costs;
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      const PlanStep& step = plan.steps()[i];
      if (step.host)
        for (const auto& body : step.host->bodies) add(*body, times);
      if (step.host && step.host->is_call) continue;
      auto known = std::find(steps_.begin(), steps_.end(), &step);
      if (known == steps_.end()) {
        if (costs.empty()) costs = costs_of(plan, symbols_);
        add_step(plan, step, costs[i]);
        known = steps_.end() - 1;
      }
      kernels_[as_index(known - steps_.begin())].runs += times;
    }
  }
  std::vector<KernelStage> take() { return std::move(kernels_); }

 private:
  void add_step(const Plan& plan, const PlanStep& step, const Cost& cost) {
    steps_.push_back(&step);
    KernelStage& kernel = kernels_.emplace_back();
    kernel.name = step.name;
    kernel.backend = step.backend;
    kernel.cost = cost;
    if (step.host && !step.host->bodies.empty()) kernel.cost = {.is_incomplete = true};  // its bodies are in the list
    if (step.executable == nullptr) return;
    kernel.text = step.kernel.text();
    kernel.code = step.executable->listing();
    for (const Backend* backend : backends_for({}, step.runs_on_host ? Device::cpu() : plan.device()))
      if (backend->name() == step.backend)
        for (const Schedule& schedule : backend->schedules(step.kernel))
          kernel.schedules.push_back(schedule.empty() ? "default" : schedule.text());
  }

  std::span<const std::int64_t> symbols_;
  std::vector<const PlanStep*> steps_;
  std::vector<KernelStage> kernels_;
};

}  // namespace jit_detail

SINTER_DECL std::vector<KernelStage> Stages::kernels() const {
  jit_detail::KernelList list(parts_->symbols);
  if (parts_->plan != nullptr) list.add(*parts_->plan, 1);
  return list.take();
}

SINTER_DECL std::string Stages::schedules() const {
  std::string text;
  for (const KernelStage& kernel : kernels()) {
    text += kernel.name + " [" + kernel.backend + "]:";
    for (std::size_t i = 0; i < kernel.schedules.size(); ++i) text += (i == 0 ? " " : "; ") + kernel.schedules[i];
    text += "\n";
  }
  return text;
}

SINTER_DECL std::string Stages::code() const {
  std::string text;
  for (const KernelStage& kernel : kernels())
    if (!kernel.code.empty()) text += "code of " + kernel.name + " [" + kernel.backend + "]:\n" + kernel.code + "\n";
  return text;
}

SINTER_DECL Cost Stages::cost() const {
  Cost cost;
  for (const KernelStage& kernel : kernels()) {
    Cost all = kernel.cost;
    const auto runs = static_cast<double>(kernel.runs);
    all.flops *= runs;
    all.special *= runs;
    all.bytes_read *= runs;
    all.bytes_written *= runs;
    cost += all;
  }
  cost.is_incomplete |= parts_->plan == nullptr;
  return cost;
}

SINTER_DECL std::string Stages::text() const {
  std::string text = "graph:\n" + graph_.text();
  for (const PassStage& pass : passes()) text += "\n" + pass.name + ":\n" + pass.graph.text();
  text += "\nkernels:\n";
  for (const KernelStage& kernel : kernels())
    text += kernel.name + " [" + kernel.backend + "], " + std::to_string(kernel.runs) +
            (kernel.runs == 1 ? " run: " : " runs: ") + kernel.cost.text() + "\n" + kernel.text;
  return text + "\ntogether: " + cost().text() + "\n\n" + code();
}

}  // namespace jit
SINTER_NAMESPACE_END
