// Costs of kernels, and the spans of their runs.
#pragma once

#include <sinter/runtime/watch.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/kernel/facts.hpp>

#include <algorithm>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
inline std::int64_t points_of(const Kernel& kernel, const BoundGeometry& geometry, AxisMask axes) {
  std::int64_t points = 1;
  for (int a = 0; a < kernel.rank(); ++a)
    if ((axes >> a & 1) != 0) points *= geometry.extent[as_index(a)];
  return points;
}

/// Elements that an access touches as `axes` are walked: the places of windows overlap, and elements count once.
inline std::int64_t elements_of(const Kernel& kernel, const BoundGeometry& geometry, std::size_t access,
                                AxisMask index_axes) {
  std::int64_t points = 1, span = 1;
  for (int a = 0; a < kernel.rank(); ++a) {
    const std::int64_t extent = geometry.extent[as_index(a)], stride = stride_of(kernel, geometry, access, a);
    if (stride == 0 && (index_axes >> a & 1) == 0) continue;
    points *= extent;
    span += (extent - 1) * std::abs(stride);
  }
  return index_axes != 0 ? points : std::min(points, span);
}

/// Operations at each point of an instruction.
inline std::int64_t flops_of(const Inst& inst) {
  if (inst.prim == Prim::fold) return 1;
  if (!is_floating(inst.dtype) || reads_memory(inst.prim)) return 0;
  switch (inst.prim) {
    case Prim::immediate:
    case Prim::index:
    case Prim::argument:
    case Prim::select:
    case Prim::convert:
    case Prim::bitcast:
    case Prim::random_bits: return 0;
    case Prim::fma:
    case Prim::contract: return 2;
    default: return is_comparison(inst.prim) ? 0 : 1;
  }
}

inline std::int64_t bytes_of(const Kernel& kernel, const KernelFacts& facts, const BoundGeometry& geometry) {
  std::vector<std::int64_t> read(kernel.operands.size(), 0), written(kernel.operands.size(), 0);
  const auto note = [&](std::vector<std::int64_t>& of, std::size_t access, AxisMask index_axes) {
    std::int64_t& elements = of[kernel.accesses[access].operand];
    elements = std::max(elements, elements_of(kernel, geometry, access, index_axes));
  };
  for (InstId id = 0; id < kernel.body.size(); ++id) {
    const Inst& inst = kernel.body[id];
    if (!reads_memory(inst.prim) || !facts.values[id].is_live) continue;
    note(read, inst.access, inst.prim == Prim::gather ? facts.values[inst.args[0]].axes : AxisMask{0});
  }
  for (const Store& store : kernel.stores) {
    const AxisMask index_axes = store.index == no_inst ? AxisMask{0} : facts.values[store.index].axes;
    note(written, store.access, index_axes);
    if (store.combine != Combine::none) note(read, store.access, index_axes);
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i)
    bytes += (read[i] + written[i]) * size_of(kernel.operands[i].dtype);
  return bytes;
}
}  // namespace runtime_detail

SINTER_DECL StepCost cost_of(const Kernel& kernel, const BoundGeometry& geometry) {
  const KernelFacts facts = facts_of(kernel);
  StepCost cost;
  for (int a = 0; a < kernel.rank(); ++a)
    if (!kernel.is_reduced(a) && geometry.extent[as_index(a)] == 0) return cost;
  cost.bytes = runtime_detail::bytes_of(kernel, facts, geometry);
  for (InstId id = 0; id < kernel.body.size(); ++id) {
    const Inst& inst = kernel.body[id];
    const std::int64_t flops = runtime_detail::flops_of(inst);
    if (flops == 0 || !facts.values[id].is_live) continue;
    AxisMask axes = facts.values[id].axes;
    if (is_reduction(inst.prim) || inst.prim == Prim::fold) {
      axes = static_cast<AxisMask>(axes | facts.reduced);
      for (int k = 0; k < argument_count(kernel, inst); ++k)
        axes = static_cast<AxisMask>(axes | facts.values[inst.args[as_index(k)]].axes);
    }
    cost.flops += flops * runtime_detail::points_of(kernel, geometry, axes);
  }
  return cost;
}

SINTER_DECL StepCost cost_of(const PlanStep& step, std::span<const std::int64_t> symbols) {
  if (!step.host) return cost_of(step.kernel, sinter::bind(step.geometry, symbols));
  StepCost cost;
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
SINTER_DECL WatchedStep::WatchedStep(const PlanStep& step, const StepCost& cost, Device device, DeviceMemory* memory)
    : step_(step),
      cost_(cost),
      device_(device),
      memory_(memory),
      listener_(step_listener()),
      before_(timeline::current_task()),
      exceptions_(std::uncaught_exceptions()) {
  if (listener_ != nullptr) {
    if (memory_ != nullptr) memory_->drain(device);
    listener_->begin(step);
  }
  begin_ = timeline_now();
  if (!has_timeline()) return;
  timeline::current_task() = {step.name, timeline::thread_number(), begin_};
  timeline::begin_range(step.name);
  has_range_ = true;
}
SINTER_DECL WatchedStep::~WatchedStep() {
  if (listener_ != nullptr && memory_ != nullptr) memory_->drain(device_);
  const std::int64_t end = timeline_now();
  if (has_range_) timeline::end_range();
  try {
    if (listener_ != nullptr) listener_->end(step_, runs_on(), cost_, end - begin_);
    if (has_timeline()) record(end);
  } catch (...) {
    // no memory for the record: it is lost
  }
  timeline::current_task() = before_;
}
SINTER_DECL void WatchedStep::record(std::int64_t end) const {
  JsonFields fields;
  fields.add("kernel", step_.host ? std::string_view("host operation") : name(step_.kernel.kind));
  fields.add("backend", step_.backend).add("device", runs_on().text());
  fields.add("bytes", static_cast<long long>(cost_.bytes)).add("flops", static_cast<long long>(cost_.flops));
  fields.add("line", lines_of(step_));
  if (std::uncaught_exceptions() > exceptions_) fields.add("failed", true);
  // A GPU's kernel is only enqueued here, unless somebody waits for it.
  const bool is_enqueued = memory_ != nullptr && listener_ == nullptr && !step_.host && !step_.runs_on_host;
  timeline::complete(is_enqueued ? "launch" : step_.host ? "host" : "kernel", step_.name, begin_, end, fields);
}
}  // namespace runtime_detail

SINTER_NAMESPACE_END
