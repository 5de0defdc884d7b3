// Planning the parts, putting their plans together, and running them in turn.
#pragma once

#include <sinter/runtime/partition_plan.hpp>

#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>

#include <sinter/base/index.hpp>
#include <sinter/runtime/frame.hpp>
#include <sinter/runtime/graph_devices.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Copies as late as somebody reads them: one to the host waits for the device.
inline std::vector<PartitionPlan::Action> actions_of(const Partition& partition) {
  std::vector<PartitionPlan::Action> actions;
  std::vector<std::uint8_t> is_there(partition.values.size());
  const auto fetch = [&](std::int32_t number) {
    std::vector<std::int32_t> chain;
    for (std::int32_t i = number; i >= 0 && !is_there[as_index(i)]; i = partition.values[as_index(i)].from) {
      if (partition.values[as_index(i)].source != PartitionValue::Source::copy) break;
      chain.push_back(i);
    }
    for (; !chain.empty(); chain.pop_back()) {
      actions.push_back({true, chain.back()});
      is_there[as_index(chain.back())] = 1;
    }
  };
  for (std::size_t part = 0; part < partition.parts.size(); ++part) {
    for (const std::int32_t input : partition.parts[part].inputs) fetch(input);
    actions.push_back({false, static_cast<std::int32_t>(part)});
  }
  for (const std::int32_t output : partition.outputs) fetch(output);
  return actions;
}

/// The constant on the device, once for all runs, on whatever queue they are.
inline Ref<TensorImpl> constant_on(const PartitionValue& value) {
  if (value.constant->type.device == value.type.device) return value.constant;
  const auto bytes = as_index(value.type.shape.numel().value() * size_of(value.type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, value.type.device);
  const Device other = value.type.device == Device::cpu() ? value.constant->type.device : value.type.device;
  DeviceMemory& memory = device_memory(other, "to", value.where);
  if (bytes > 0)
    memory.copy(storage->data(), value.type.device, value.constant->data(), value.constant->type.device, bytes);
  memory.synchronise(other);
  return TensorImpl::make_ready(value.type, std::move(storage));
}
}  // namespace runtime_detail

class PartitionPlanner {
 public:
  PartitionPlanner(const Graph& graph, const PlanOptions& options, Partition partition)
      : graph_(graph), options_(options), partition_(std::move(partition)) {}

  std::shared_ptr<const Plan> run() {
    if (partition_.is_one_device) join_host_and_device();
    else add_parts();
    return plan_;
  }
  std::optional<PlanSubject> subject() const {
    if (!partition_.is_one_device) return std::nullopt;
    for (const PartitionPart& part : partition_.parts)
      if (part.device != Device::cpu()) return PlanSubject{part.graph, options_of(part)};
    return std::nullopt;
  }

 private:
  PlanOptions options_of(const PartitionPart& part) const;
  std::vector<Backend*> backends_on(Device device) const;
  void join_host_and_device();
  void add_host_part(const PartitionPart& host, const PartitionPart& device);
  void add_parts();
  PlanOutput output_of(const PartitionValue& value);

  const Graph& graph_;
  const PlanOptions& options_;
  Partition partition_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
};

SINTER_DECL std::vector<Backend*> PartitionPlanner::backends_on(Device device) const {
  if (options_.find_backends) return options_.find_backends(device);
  for (const std::vector<Backend*>* list : {&options_.backends, &options_.host_backends})
    if (!list->empty() && list->front()->device() == device) return *list;
  throw InternalError("plan: no back ends for " + device.text());
}

SINTER_DECL PlanOptions PartitionPlanner::options_of(const PartitionPart& part) const {
  const bool is_host = part.device == Device::cpu();
  PlanOptions of = options_;
  of.backends = backends_on(part.device);
  of.host_backends = is_host ? std::vector<Backend*>{} : backends_on(Device::cpu());
  of.own_outputs = part.owns_outputs;
  if (is_host || !partition_.is_one_device) {
    of.may_donate = {};
    of.kept = of.cut = {};  // nodes of another graph
    of.body_cuts = {};
  }
  of.input_strides.resize(part.graph.inputs().size());
  return of;
}

/// The device's plan, which takes what the host computes as inputs after its own.
SINTER_DECL void PartitionPlanner::join_host_and_device() {
  const PartitionPart *host = nullptr, *device = nullptr;
  for (const PartitionPart& part : partition_.parts) (part.device == Device::cpu() ? host : device) = &part;
  plan_ = build_part_plan(device->graph, options_of(*device));
  plan_->inputs_.resize(graph_.inputs().size());
  plan_->input_names_.resize(graph_.inputs().size());
  for (const std::int32_t number : device->outputs)
    plan_->device_outputs_.push_back(partition_.values[as_index(number)].output);
  std::vector<PlanOutput> made(graph_.outputs().size());
  made.swap(plan_->outputs_);
  for (std::size_t i = 0; i < device->outputs.size(); ++i) {
    PlanOutput& output = plan_->outputs_[plan_->output_number(i)] = std::move(made[i]);
    if (output.source == BufferKind::output)
      output.index = static_cast<std::int32_t>(plan_->output_number(as_index(output.index)));
    output.type.device =
        output.source == BufferKind::input ? plan_->inputs_[as_index(output.index)].device : plan_->device();
    if (output.donor >= 0 && plan_->inputs_[as_index(output.donor)].device != plan_->device())
      output.donor = -1;  // a number on the host
  }
  if (host != nullptr && !host->is_empty()) add_host_part(*host, *device);
}

SINTER_DECL void PartitionPlanner::add_host_part(const PartitionPart& host, const PartitionPart& device) {
  plan_->host_part_ = build_part_plan(host.graph, options_of(host));
  plan_->host_numbers_ = device.inputs.size();
  for (std::size_t i = 0; i < host.outputs.size(); ++i) {
    const std::int32_t output = partition_.values[as_index(host.outputs[i])].output;
    if (output < 0) {
      const auto place = std::find(device.inputs.begin(), device.inputs.end(), host.outputs[i]);
      ensure(place != device.inputs.end(), "partition: a number that nobody takes");
      plan_->host_outputs_.push_back(~static_cast<std::int32_t>(place - device.inputs.begin()));
      continue;
    }
    PlanOutput& made = plan_->outputs_[as_index(output)] = plan_->host_part_->outputs()[i];
    made.index = output;
    made.type.device = Device::cpu();
    plan_->host_outputs_.push_back(output);
  }
}

/// A plan whose work is done by its parts.
SINTER_DECL void PartitionPlanner::add_parts() {
  auto parts = std::make_shared<PartitionPlan>();
  for (PartitionValue& value : partition_.values)
    if (value.constant) value.constant = runtime_detail::constant_on(value);
  for (const PartitionPart& part : partition_.parts)
    parts->parts.push_back({part.is_empty() ? nullptr : build_part_plan(part.graph, options_of(part)), part.inputs,
                            part.outputs, part.device});
  parts->actions = runtime_detail::actions_of(partition_);
  std::erase_if(parts->actions, [&](const PartitionPlan::Action& action) {
    return !action.is_copy && parts->parts[as_index(action.index)].plan == nullptr;
  });
  for (Value v : graph_.inputs()) {
    plan_->inputs_.push_back(graph_.type(v));
    plan_->input_names_.push_back(graph_.node(v).attrs[input_name]);
  }
  plan_->symbols_ = graph_.symbols();
  for (const std::int32_t number : partition_.outputs)
    plan_->outputs_.push_back(output_of(partition_.values[as_index(number)]));
  parts->values = std::move(partition_.values);
  plan_->parts_ = std::move(parts);
}

SINTER_DECL PlanOutput PartitionPlanner::output_of(const PartitionValue& value) {
  PlanOutput output;
  output.type = value.type;
  output.strides = dense_dim_strides(value.type.shape);
  if (value.source == PartitionValue::Source::input) {
    const auto input = as_index(value.from);
    output.source = BufferKind::input;
    output.index = value.from;
    if (input < options_.input_strides.size() && !options_.input_strides[input].empty())
      output.strides = SmallVector<Dim, max_rank>(options_.input_strides[input]);
  } else if (value.source == PartitionValue::Source::constant) {
    output.source = BufferKind::constant;
    output.index = static_cast<std::int32_t>(plan_->constants_.size());
    plan_->constants_.push_back(value.constant);
  } else {
    output.index = value.output;
  }
  return output;
}

namespace runtime_detail {
inline PartitionPlanner partition_planner(const Graph& graph, const PlanOptions& options) {
  PartitionOptions how{options.output_devices, options.own_outputs, nullptr};
  how.is_dense = [&](std::int32_t input) {
    const auto i = as_index(input);
    return i >= options.input_strides.size() || options.input_strides[i].empty();
  };
  return PartitionPlanner(graph, options, partition(graph, how));
}
}  // namespace runtime_detail

SINTER_DECL std::shared_ptr<const Plan> build_partition_plan(const Graph& graph, const PlanOptions& options) {
  return runtime_detail::partition_planner(graph, options).run();
}

SINTER_DECL std::optional<PlanSubject> plan_subject(const Graph& graph, const PlanOptions& options) {
  std::optional<PlanSubject> subject = is_on_host(graph, options.output_devices)
                                           ? PlanSubject{graph, options}
                                           : runtime_detail::partition_planner(graph, options).subject();
  if (subject) subject->graph = device_graph(subject->graph, subject->options);
  return subject;
}

namespace runtime_detail {
inline std::int64_t bytes_of(const PartitionValue& value, std::span<const std::int64_t> symbols) {
  return value.type.shape.numel().evaluate(symbols) * size_of(value.type.dtype);
}
/// Lies in memory of the frame.
inline bool is_held(const PartitionValue& value) {
  return value.output < 0 &&
         (value.source == PartitionValue::Source::part || value.source == PartitionValue::Source::copy);
}
}  // namespace runtime_detail

SINTER_DECL std::int64_t PartitionPlan::held_bytes(std::span<const std::int64_t> symbols) const {
  std::int64_t total = 0;
  for (const PartitionValue& value : values)
    if (runtime_detail::is_held(value)) total += runtime_detail::bytes_of(value, symbols);
  for (const Part& part : parts)
    if (part.plan) total += part.plan->held_bytes(symbols);
  return total;
}

SINTER_DECL std::string PartitionPlan::text() const {
  const auto value_text = [&](std::int32_t number) {
    const PartitionValue& value = values[as_index(number)];
    if (value.source == PartitionValue::Source::input) return "input " + std::to_string(value.from);
    return (value.output >= 0 ? "output " + std::to_string(value.output) : "value " + std::to_string(number)) + " " +
           value.type.text();
  };
  std::string text;
  for (const Action& action : actions) {
    if (action.is_copy) {
      const PartitionValue& value = values[as_index(action.index)];
      text += "copy to " + value.type.device.text() + ": " + value_text(value.from) + " -> " + value_text(action.index);
      text += value.where.text().empty() ? "\n" : " from " + value.where.text() + "\n";
      continue;
    }
    const Part& part = parts[as_index(action.index)];
    text += "part " + std::to_string(action.index) + " on " + part.device.text() + ", takes the inputs,";
    for (const std::int32_t input : part.inputs) text += " " + value_text(input) + ",";
    text += " gives";
    for (const std::int32_t output : part.outputs) text += " " + value_text(output) + ",";
    text.back() = '\n';
    text += part.plan->text();
  }
  return text;
}

SINTER_DECL PartitionFrame::PartitionFrame(const PartitionPlan& plan, std::span<const std::int64_t> symbols)
    : plan_(&plan), memory_(plan.values.size()), places_(plan.values.size()) {
  const auto note_device = [&](Device device) {
    if (device == Device::cpu() ||
        std::any_of(queues_.begin(), queues_.end(), [&](const Queue& queue) { return queue.device == device; }))
      return;
    DeviceMemory& memory = device_memory(device, "plan");
    const std::uint64_t queue = memory.current_queue(device);
    queues_.push_back({device, &memory, queue, queue});
  };
  for (std::size_t i = 0; i < plan.values.size(); ++i) {
    const PartitionValue& value = plan.values[i];
    note_device(value.type.device);
    bytes_.push_back(as_index(std::max<std::int64_t>(0, runtime_detail::bytes_of(value, symbols))));
    if (value.constant) places_[i] = value.constant->data();
    if (!runtime_detail::is_held(value)) continue;
    memory_[i] = Storage::allocate(bytes_[i], value.type.device);
    places_[i] = memory_[i]->data();
    held_ += bytes_[i];
  }
  for (const PartitionPlan::Part& part : plan.parts)
    frames_.push_back(part.plan ? std::make_unique<Frame>(*part.plan, symbols) : nullptr);
}

SINTER_DECL PartitionFrame::~PartitionFrame() {
  for (const Queue& queue : queues_)
    if (SINTER_UNLIKELY(queue.first != queue.last)) queue.memory->drain(queue.device);
}

SINTER_DECL void PartitionFrame::prepare() {
  for (const std::unique_ptr<Frame>& frame : frames_)
    if (frame != nullptr) frame->prepare();
}

SINTER_DECL void PartitionFrame::follow_queues() {
  for (Queue& queue : queues_) {
    const std::uint64_t now = queue.memory->current_queue(queue.device);
    if (SINTER_LIKELY(now == queue.last)) continue;
    queue.memory->run_after(queue.device, queue.last);
    queue.last = now;
  }
}

SINTER_DECL void PartitionFrame::copy(const PartitionValue& value, std::size_t index) {
  const std::size_t bytes = bytes_[index];
  if (bytes == 0) return;
  const auto from = as_index(value.from);
  const Device to_device = value.type.device, from_device = plan_->values[from].type.device;
  if (to_device == Device::cpu() && from_device == Device::cpu()) {
    std::memcpy(places_[index], places_[from], bytes);
    return;
  }
  TimelineSpan span("copy", "copy to another device");
  if (span.is_on()) {
    span.fields().add("from", from_device.text()).add("to", to_device.text());
    span.fields().add("bytes", static_cast<long long>(bytes)).add("line", value.where.text());
  }
  device_memory(to_device == Device::cpu() ? from_device : to_device, "to", value.where)
      .copy(places_[index], to_device, places_[from], from_device, bytes);
}

SINTER_DECL void PartitionFrame::run_part(std::size_t index, std::span<void* const> inputs) {
  const PartitionPlan::Part& part = plan_->parts[index];
  in_.assign(inputs.begin(), inputs.end());
  out_.clear();
  for (const std::int32_t input : part.inputs) in_.push_back(places_[as_index(input)]);
  for (const std::int32_t output : part.outputs) out_.push_back(places_[as_index(output)]);
  frames_[index]->run(in_, out_);
}

SINTER_DECL void PartitionFrame::run(std::span<void* const> inputs, std::span<void* const> outputs) {
  follow_queues();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const PartitionValue& value = plan_->values[i];
    if (value.source == PartitionValue::Source::input) places_[i] = inputs[as_index(value.from)];
    else if (value.output >= 0) places_[i] = outputs[as_index(value.output)];
  }
  for (const PartitionPlan::Action& action : plan_->actions) {
    const auto index = as_index(action.index);
    if (action.is_copy) copy(plan_->values[index], index);
    else run_part(index, inputs);
  }
}

SINTER_NAMESPACE_END
