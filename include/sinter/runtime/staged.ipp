// Planning the parts, and running them in turn.
#pragma once

#include <sinter/runtime/staged.hpp>

#include <sinter/base/index.hpp>
#include <sinter/runtime/frame.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Copies as late as somebody reads them: one to the host waits for the device.
inline std::vector<StagedPlan::Action> actions_of(const Stages& stages) {
  std::vector<StagedPlan::Action> actions;
  std::vector<std::uint8_t> is_there(stages.values.size());
  const auto fetch = [&](std::int32_t number) {
    std::vector<std::int32_t> chain;
    for (std::int32_t i = number; i >= 0 && !is_there[as_index(i)]; i = stages.values[as_index(i)].from) {
      if (stages.values[as_index(i)].source != StageValue::Source::copy) break;
      chain.push_back(i);
    }
    for (; !chain.empty(); chain.pop_back()) {
      actions.push_back({true, chain.back()});
      is_there[as_index(chain.back())] = 1;
    }
  };
  for (std::size_t part = 0; part < stages.parts.size(); ++part) {
    for (const std::int32_t input : stages.parts[part].inputs)
      if (input >= 0) fetch(input);
    actions.push_back({false, static_cast<std::int32_t>(part)});
  }
  for (const std::int32_t output : stages.outputs) fetch(output);
  return actions;
}

/// The constant on the device, once for all runs, on whatever queue they are.
inline Ref<TensorImpl> constant_on(const StageValue& value) {
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

/// Fills in a plan whose work is done by its parts.
struct StagedPlanBuilder {
  const Graph& graph;
  const PlanOptions& options;
  Stages stages;
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  std::shared_ptr<StagedPlan> staged = std::make_shared<StagedPlan>();

  std::shared_ptr<const Plan> run() {
    for (StageValue& value : stages.values)
      if (value.constant) value.constant = runtime_detail::constant_on(value);
    for (const StagePart& part : stages.parts) staged->parts.push_back(plan_part(part));
    staged->actions = runtime_detail::actions_of(stages);
    std::erase_if(staged->actions, [&](const StagedPlan::Action& action) {
      return !action.is_copy && staged->parts[as_index(action.index)].plan == nullptr;
    });
    for (Value v : graph.inputs()) {
      plan->inputs_.push_back(graph.type(v));
      plan->input_names_.push_back(graph.node(v).attrs.text);
    }
    plan->symbols_ = graph.symbols();
    for (std::size_t j = 0; j < stages.outputs.size(); ++j) add_output(j);
    staged->values = std::move(stages.values);
    plan->staged_ = staged;
    return plan;
  }

  StagedPlan::Part plan_part(const StagePart& part) const {
    StagedPlan::Part made{nullptr, part.inputs, part.outputs, part.device};
    if (part.is_empty()) return made;
    PlanOptions of = options;
    of.backends = backends_on(part.device);
    of.host_backends = part.device == Device::cpu() ? std::vector<Backend*>{} : backends_on(Device::cpu());
    of.output_devices.assign(part.outputs.size(), part.device);
    of.own_outputs = true;
    of.may_donate = {};
    of.input_strides.clear();
    for (const std::int32_t input : part.inputs)
      of.input_strides.push_back(input < 0 && as_index(~input) < options.input_strides.size()
                                     ? options.input_strides[as_index(~input)]
                                     : std::vector<Dim>{});
    made.plan = build_plan(part.graph, of);
    return made;
  }
  std::vector<Backend*> backends_on(Device device) const {
    if (options.find_backends) return options.find_backends(device);
    for (const std::vector<Backend*>* list : {&options.backends, &options.host_backends})
      if (!list->empty() && list->front()->device() == device) return *list;
    throw InternalError("plan: no back ends for " + device.text());
  }

  void add_output(std::size_t j) {
    const auto number = stages.outputs[j];
    const StageValue& value = stages.values[as_index(number)];
    PlanOutput output;
    output.type = value.type;
    output.strides = dense_dim_strides(value.type.shape);
    if (value.source == StageValue::Source::input) {
      const auto input = as_index(value.from);
      output.source = BufferKind::input;
      output.index = value.from;
      if (input < options.input_strides.size() && !options.input_strides[input].empty())
        output.strides = SmallVector<Dim, max_rank>(options.input_strides[input]);
    } else if (value.source == StageValue::Source::constant) {
      output.source = BufferKind::constant;
      output.index = static_cast<std::int32_t>(plan->constants_.size());
      plan->constants_.push_back(value.constant);
    } else {
      output.index = value.output;
    }
    plan->outputs_.push_back(std::move(output));
  }
};

SINTER_DECL std::shared_ptr<const Plan> build_staged_plan(const Graph& graph, const PlanOptions& options) {
  StageOptions how{options.output_devices, options.own_outputs, nullptr};
  how.is_dense = [&](std::int32_t input) {
    const auto i = as_index(input);
    return i >= options.input_strides.size() || options.input_strides[i].empty();
  };
  return StagedPlanBuilder{graph, options, cut_into_stages(graph, how)}.run();
}

namespace runtime_detail {
inline std::int64_t bytes_of(const StageValue& value, std::span<const std::int64_t> symbols) {
  return value.type.shape.numel().evaluate(symbols) * size_of(value.type.dtype);
}
/// Lies in memory of the frame.
inline bool is_held(const StageValue& value) {
  return value.output < 0 && (value.source == StageValue::Source::part || value.source == StageValue::Source::copy);
}
}  // namespace runtime_detail

SINTER_DECL std::int64_t StagedPlan::held_bytes(std::span<const std::int64_t> symbols) const {
  std::int64_t total = 0;
  for (const StageValue& value : values)
    if (runtime_detail::is_held(value)) total += runtime_detail::bytes_of(value, symbols);
  for (const Part& part : parts)
    if (part.plan) total += part.plan->held_bytes(symbols);
  return total;
}

SINTER_DECL std::string StagedPlan::text() const {
  const auto value_text = [&](std::int32_t number) {
    if (number < 0) return "input " + std::to_string(~number);
    const StageValue& value = values[as_index(number)];
    if (value.source == StageValue::Source::input) return "input " + std::to_string(value.from);
    return (value.output >= 0 ? "output " + std::to_string(value.output) : "value " + std::to_string(number)) + " " +
           value.type.text();
  };
  std::string text;
  for (const Action& action : actions) {
    if (action.is_copy) {
      const StageValue& value = values[as_index(action.index)];
      text += "copy to " + value.type.device.text() + ": " + value_text(value.from) + " -> " + value_text(action.index);
      text += value.where.text().empty() ? "\n" : " from " + value.where.text() + "\n";
      continue;
    }
    const Part& part = parts[as_index(action.index)];
    text += "part " + std::to_string(action.index) + " on " + part.device.text() + ", takes";
    for (const std::int32_t input : part.inputs) text += " " + value_text(input) + ",";
    text += " gives";
    for (const std::int32_t output : part.outputs) text += " " + value_text(output) + ",";
    text.back() = '\n';
    text += part.plan->text();
  }
  return text;
}

SINTER_DECL StagedFrame::StagedFrame(const StagedPlan& plan, std::span<const std::int64_t> symbols)
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
    const StageValue& value = plan.values[i];
    note_device(value.type.device);
    bytes_.push_back(as_index(std::max<std::int64_t>(0, runtime_detail::bytes_of(value, symbols))));
    if (value.constant) places_[i] = value.constant->data();
    if (!runtime_detail::is_held(value)) continue;
    memory_[i] = Storage::allocate(bytes_[i], value.type.device);
    places_[i] = memory_[i]->data();
    held_ += bytes_[i];
  }
  for (const StagedPlan::Part& part : plan.parts)
    frames_.push_back(part.plan ? std::make_unique<Frame>(*part.plan, symbols) : nullptr);
}

SINTER_DECL StagedFrame::~StagedFrame() {
  for (const Queue& queue : queues_)
    if (SINTER_UNLIKELY(queue.first != queue.last)) queue.memory->drain(queue.device);
}

SINTER_DECL void StagedFrame::follow_queues() {
  for (Queue& queue : queues_) {
    const std::uint64_t now = queue.memory->current_queue(queue.device);
    if (SINTER_LIKELY(now == queue.last)) continue;
    queue.memory->run_after(queue.device, queue.last);
    queue.last = now;
  }
}

SINTER_DECL void StagedFrame::copy(const StageValue& value, std::size_t index) {
  const std::size_t bytes = bytes_[index];
  if (bytes == 0) return;
  const auto from = as_index(value.from);
  const Device to_device = value.type.device, from_device = plan_->values[from].type.device;
  if (to_device == Device::cpu() && from_device == Device::cpu()) {
    std::memcpy(places_[index], places_[from], bytes);
    return;
  }
  device_memory(to_device == Device::cpu() ? from_device : to_device, "to", value.where)
      .copy(places_[index], to_device, places_[from], from_device, bytes);
}

SINTER_DECL void StagedFrame::run_part(std::size_t index, std::span<void* const> inputs) {
  const StagedPlan::Part& part = plan_->parts[index];
  in_.clear();
  out_.clear();
  for (const std::int32_t input : part.inputs)
    in_.push_back(input < 0 ? inputs[as_index(~input)] : places_[as_index(input)]);
  for (const std::int32_t output : part.outputs) out_.push_back(places_[as_index(output)]);
  frames_[index]->run(in_, out_);
}

SINTER_DECL void StagedFrame::run(std::span<void* const> inputs, std::span<void* const> outputs) {
  follow_queues();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const StageValue& value = plan_->values[i];
    if (value.source == StageValue::Source::input) places_[i] = inputs[as_index(value.from)];
    else if (value.output >= 0) places_[i] = outputs[as_index(value.output)];
  }
  for (const StagedPlan::Action& action : plan_->actions) {
    const auto index = as_index(action.index);
    if (action.is_copy) copy(plan_->values[index], index);
    else run_part(index, inputs);
  }
}

SINTER_NAMESPACE_END
