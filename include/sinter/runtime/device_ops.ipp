// Both kinds of steps.
#pragma once

#include <sinter/runtime/device_ops.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/graph/recorded_work.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/runtime/device_track.hpp>
#include <sinter/runtime/host_ops.ipp>  // HostLaunch
#include <sinter/runtime/iterations.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// Control flow: the op's own function runs here, and its sub-graphs as plans on the device. Nothing waits but what
/// reads a number: the index of a switch, the condition of a while loop. And functions of the user that enqueue work
/// themselves.
class DeviceControl final : public HostLaunch, public RecordableWork {
 public:
  DeviceControl(const HostOp& op, std::span<const std::int64_t> symbols, const StepContext& step, Device device)
      : HostLaunch(op, symbols),
        memory_(device_memory(device, step.name)),
        device_(device),
        host_operands_(step.host_operands),
        operands_(op.types.size()),
        numbers_(op.inputs),
        name_(step.name),
        runs_beside_(op.bodies.empty() && ops_detail::communicates(*op.attrs)),
        is_recordable_(runs_beside_ && op.is_effect && ops_detail::has_phases(*op.attrs)) {
    for (std::size_t i = 0; i + 1 < op.inputs; ++i) is_recordable_ &= !is_number(i);  // the last one is a token
    for (std::size_t i = 0; i < op.inputs; ++i)
      if (is_number(i)) numbers_[i] = Storage::allocate(bytes_of_number(i), device);
  }

  ~DeviceControl() override { memory_.drop_fork(device_, point_); }

  bool runs_beside() const override { return runs_beside_; }
  void join() override {
    if (std::exchange(is_beside_, false)) memory_.join_fork(device_, point_);
  }
  void run(void* const* operands) override {
    const Iterations iterations(*this);  // ends after the bodies' frames are given back only where one has thrown
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      operands_[i] = operands[i];
      if (!is_number(i)) continue;
      flush_iterations();
      ensure(i < numbers_.size() && views_[i].numel == 1, "device step: an operand on the host is no number");
      operands_[i] = numbers_[i]->data();
      memory_.copy(operands_[i], device_, operands[i], Device::cpu(), bytes_of_number(i));
    }
    given_ = operands;
    try {
      HostLaunch::run(operands_.data());
    } catch (...) {  // part of it may be on the queue
      try {
        end_beside();
      } catch (...) { is_beside_ = false; }  // the device is broken: nothing runs there any more
      throw;
    }
    end_beside();
  }

  TypeKey type() const override { return is_recordable_ ? type_key<RecordableWork>() : nullptr; }
  RecordableWork* recordable() override { return is_recordable_ ? this : nullptr; }
  std::shared_ptr<RecordedSource> source(void* const* operands) override {
    source_ = nullptr;
    run_phase(Phase::look, operands, nullptr);
    return std::move(source_);
  }
  void begin(void* const* operands) override { run_phase(Phase::begin, operands, nullptr); }
  void enqueue(void* const* operands, void* queue) override { run_phase(Phase::enqueue, operands, queue); }
  void addresses(void* const* operands, std::vector<std::uint64_t>& places) const override {
    places.clear();
    for (std::size_t i = 0; i + 1 < operands_.size(); ++i)
      if (i + 1 != numbers_.size()) places.push_back(reinterpret_cast<std::uintptr_t>(operands[i]));  // but for tokens
  }

 private:
  void run_phase(Phase phase, void* const* operands, void* queue) {
    struct Whole {
      explicit Whole(DeviceControl& of) : control(of) {}
      ~Whole() { control.phase_ = Phase::whole; }
      Whole(const Whole&) = delete;
      Whole& operator=(const Whole&) = delete;
      DeviceControl& control;
    } const back(*this);
    phase_ = phase;
    phase_queue_ = queue;
    HostLaunch::run(operands);
  }
  Phase phase() const override { return phase_; }
  void note_source(RecordedSource& source) override { source_ = source.shared_from_this(); }
  Device device() const override { return device_; }

  /// What a loop that throws has not enqueued is forgotten.
  struct Iterations {
    explicit Iterations(DeviceControl& control) : control_(control) {}
    ~Iterations() {
      if (!control_.is_iterating_) return;
      control_.is_iterating_ = false;
      current_iterations() = nullptr;
      control_.iterations_->abandon();
    }
    Iterations(const Iterations&) = delete;
    Iterations& operator=(const Iterations&) = delete;
    DeviceControl& control_;
  };

  void begin_iterations() override {
    if (current_iterations() != nullptr || is_watched() || Context::get().checks) return;
    Backend* const backend = body_plan(0).runs_as_one() ? body_plan(0).backend() : nullptr;
    if (backend == nullptr) return;
    if (iterations_ == nullptr) iterations_ = backend->iterations();
    if (iterations_ == nullptr) return;
    iterations_->begin();
    current_iterations() = iterations_.get();
    is_iterating_ = true;
  }
  /// While the bodies' frames are still held.
  void end_iterations() override {
    if (!is_iterating_) return;
    iterations_->flush();
    is_iterating_ = false;
    current_iterations() = nullptr;
  }

  /// As Iterations, for the two that are recorded.
  Repeated repeat(std::size_t body, std::span<void* const> inputs, std::span<void* const> outputs) override {
    if (current_iterations() != nullptr || is_watched() || Context::get().checks) return Repeated::not_begun;
    Backend* const backend = body_plan(body).runs_as_one() ? body_plan(body).backend() : nullptr;
    if (backend == nullptr) return Repeated::not_begun;
    if (iterations_ == nullptr) iterations_ = backend->iterations();
    if (iterations_ == nullptr || !iterations_->begin_repeat()) return Repeated::not_begun;
    if (parity_ == nullptr) parity_ = Storage::allocate(1, device_);
    current_iterations() = iterations_.get();
    is_iterating_ = true;
    auto& call = static_cast<HostCall&>(*this);
    call.run_body(body, inputs, outputs);
    const bool is_recorded = iterations_->end_half();
    const std::size_t carries = outputs.size() - 1;
    std::vector<void*> next_inputs(inputs.begin(), inputs.end()), next_outputs(outputs.begin(), outputs.end());
    std::swap_ranges(next_outputs.begin(), next_outputs.begin() + static_cast<std::ptrdiff_t>(carries),
                     next_inputs.begin());
    if (is_recorded) call.run_body(body, next_inputs, next_outputs);
    const bool is_repeated = iterations_->repeat(outputs[carries], parity_->data());
    is_iterating_ = false;
    current_iterations() = nullptr;
    if (!is_repeated) return Repeated::once;
    std::uint8_t is_odd = 0;
    memory_.copy(&is_odd, Device::cpu(), parity_->data(), device_, 1);
    return is_odd != 0 ? Repeated::ended_outside : Repeated::ended_inside;
  }

  bool is_number(std::size_t operand) const { return host_operands_.has(operand); }
  /// From the start of its memory: the imaginary part of a complex one comes second.
  std::size_t bytes_of_number(std::size_t operand) const {
    return as_index(offsets_[operand]) + views_[operand].bytes();
  }

  void* place(std::size_t slot, std::size_t bytes) override {
    if (places_.size() <= slot) places_.resize(slot + 1);
    if (!places_[slot] || places_[slot]->bytes() < bytes)
      places_[slot] = Storage::allocate(std::max<std::size_t>(bytes, 1), device_);
    return places_[slot]->data();
  }
  void* device_queue() override {
    if (phase_ == Phase::enqueue) return phase_queue_;
    flush_iterations();
    return memory_.native_queue(device_);
  }
  void* queue_beside() override {
    flush_iterations();
    void* const queue = runs_beside_ ? memory_.fork_queue(device_) : nullptr;
    if (queue == nullptr) return device_queue();
    is_beside_ = true;
    tracked_ = TrackedLaunch(memory_, device_, TrackedLaunch::Queue::beside);
    return queue;
  }
  void end_beside() {
    if (!is_beside_) return;
    point_ = memory_.note_fork(device_, point_);
    tracked_.finish(name_, {});
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    flush_iterations();
    memory_.copy(to, device_, from, device_, bytes);
  }
  const void* on_host(const void* number, std::size_t bytes) override {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (is_number(i) && operands_[i] == number) return given_[i];
    ensure(bytes <= sizeof number_, "control flow: not a number");
    flush_iterations();
    memory_.copy(&number_, Device::cpu(), number, device_, bytes);
    return &number_;
  }

  DeviceMemory& memory_;
  Device device_;
  OperandSet host_operands_;
  std::vector<void*> operands_;
  std::vector<Ref<Storage>> numbers_, places_;  // numbers of the host, where bodies can read them
  void* const* given_ = nullptr;
  std::int64_t number_ = 0;
  std::string name_;
  bool runs_beside_, is_recordable_;
  bool is_beside_ = false;  // in the last run, and nobody has joined it
  Phase phase_ = Phase::whole;
  void* phase_queue_ = nullptr;
  std::shared_ptr<RecordedSource> source_;  // that the function has noted
  void* point_ = nullptr;                   // of the second queue: the end of the last run
  TrackedLaunch tracked_{};
  std::unique_ptr<IterationQueue> iterations_;  // of the loop's runs, which find the graphs of earlier ones there
  Ref<Storage> parity_;                         // of the last loop that ran by itself
  bool is_iterating_ = false;                   // between begin_iterations() and end_iterations()
};

/// A function of the host: waits, copies what it reads to the host, runs it there, and copies the results back.
class HostRoundTrip final : public Launch {
 public:
  HostRoundTrip(const HostOp& op, std::span<const std::int64_t> symbols, const StepContext& step, Device device)
      : memory_(device_memory(device, step.name)),
        device_(device),
        host_operands_(step.host_operands),
        launch_(bind_host_op(op, symbols)),
        inputs_(op.inputs),
        tokens_(op.is_effect ? 1 : 0) {
    for (std::size_t i = 0; i < op.types.size();
         ++i) {  // elements from the start of the operand to the end of the last one
      std::int64_t count = 1;
      for (Dim extent : op.types[i].shape) count *= extent.evaluate(symbols);
      if (i < op.inputs) count += op.offsets[i].evaluate(symbols);
      sizes_.push_back(as_index(count * size_of(op.types[i].dtype)));
      buffers_.emplace_back(sizes_.back() + 16);
      places_.push_back(nullptr);
    }
  }
  void run(void* const* operands) override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const bool is_here = host_operands_.has(i);
      places_[i] = is_here ? operands[i] : buffers_[i].data();
      if (i + tokens_ < inputs_ && !is_here) memory_.copy(places_[i], Device::cpu(), operands[i], device_, sizes_[i]);
    }
    launch_->run(places_.data());
    for (std::size_t i = inputs_; i + tokens_ < buffers_.size(); ++i)
      memory_.copy(operands[i], device_, places_[i], Device::cpu(), sizes_[i]);
  }
  void prepare() override { launch_->prepare(); }

 private:
  DeviceMemory& memory_;
  Device device_;
  OperandSet host_operands_;
  std::unique_ptr<Launch> launch_;
  std::size_t inputs_, tokens_;
  std::vector<std::vector<char>> buffers_;
  std::vector<std::size_t> sizes_;
  std::vector<void*> places_;
};

}  // namespace runtime_detail

SINTER_DECL std::unique_ptr<Launch> bind_device_op(const HostOp& op, std::span<const std::int64_t> symbols,
                                                   const StepContext& step, Device device) {
  if (op.bodies.empty() && !ops_detail::runs_on_devices(*op.attrs))
    return std::make_unique<runtime_detail::HostRoundTrip>(op, symbols, step, device);
  return std::make_unique<runtime_detail::DeviceControl>(op, symbols, step, device);
}

SINTER_NAMESPACE_END
