// Watching the steps of plans run: for the timeline, and for whoever listens to the steps of its own thread, as
// profiles do. Also what a step costs at given sizes: the memory it must move and the operations it does. Knows plans;
// no device but by its memory.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/instruction_file.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/runtime/device_track.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Of a kernel all operations, whatever they are; of host operations the bytes of their operands.
StepCost cost_of(const PlanStep& step, std::span<const std::int64_t> symbols);

/// The users' lines of a step, "train.cpp:41, train.cpp:43": each once.
std::string lines_of(const PlanStep& step);

/// Is told of the steps that its thread runs, those that steps of control flow run inside them included.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void begin(const PlanStep& step) = 0;
  virtual void end(const PlanStep& step, Device device, const StepCost& cost, std::int64_t nanoseconds) = 0;
  /// Whether steps that could run as one launch are to run one by one, as where something is read around each of them.
  virtual bool needs_steps_alone() const { return false; }
};
/// While it lives, `listener` is told of this thread's steps. The steps of a GPU are waited for, one by one.
class ListenToSteps {
 public:
  explicit ListenToSteps(StepListener& listener);
  ~ListenToSteps();
  ListenToSteps(const ListenToSteps&) = delete;
  ListenToSteps& operator=(const ListenToSteps&) = delete;

 private:
  StepListener* before_;
};

/// One run of a step, as the instruction log tells it.
struct RanStep {
  const Plan& plan;  // whose step it is
  const PlanStep& step;
  std::span<const std::int64_t> symbols;
  Device device;
  std::int64_t begin = 0, end = 0;  // timeline_now()
  bool has_failed = false;
};
/// Writes a line into the instruction log. Defined by the jit layer, which knows scopes.
void log_instruction(const RanStep& ran);

namespace runtime_detail {
inline StepListener*& step_listener() noexcept {
  static thread_local constinit StepListener* listener = nullptr;
  return listener;
}

/// The plan that has the step: this one, or the body of one of its calls, whose steps frames take over.
const Plan& plan_of(const Plan& plan, const PlanStep& step);
/// Are steps waited for one by one, so that their times are known?
inline bool waits_for_steps() noexcept { return step_listener() != nullptr || has_instruction_log(); }

/// One run of one step, seen by who watches.
class WatchedStep {
 public:
  /// `memory`: of the device that runs it; null: the host.
  WatchedStep(const Plan& plan, const PlanStep& step, std::span<const std::int64_t> symbols, const StepCost& cost,
              DeviceMemory* memory);
  ~WatchedStep();
  WatchedStep(const WatchedStep&) = delete;
  WatchedStep& operator=(const WatchedStep&) = delete;

 private:
  void record(std::int64_t end, bool has_failed);
  Device runs_on() const { return step_.runs_on_host ? Device::cpu() : device_; }
  const Plan& plan_;
  const PlanStep& step_;
  std::span<const std::int64_t> symbols_;
  const StepCost& cost_;
  Device device_;  // of the plan
  DeviceMemory* memory_;
  StepListener* listener_;
  timeline::Task before_;
  int exceptions_;
  bool has_range_ = false, waits_ = false, is_logged_ = false;
  TrackedLaunch launch_{};
  std::int64_t begin_;
};

struct GroupMember {
  const PlanStep* step;
  const StepCost* cost;
};
/// One run of steps that run as one, seen by who watches: one span of the timeline, and for listeners each step, with
/// its share of the time.
class WatchedGroup {
 public:
  WatchedGroup(std::vector<GroupMember> members, Device device);
  ~WatchedGroup();
  WatchedGroup(const WatchedGroup&) = delete;
  WatchedGroup& operator=(const WatchedGroup&) = delete;
  std::span<const std::string_view> names() const { return names_; }
  /// Nanoseconds of each step on all threads together, for who runs them to add to.
  std::span<std::int64_t> spent() { return spent_; }

 private:
  void record(std::int64_t end) const;
  std::vector<GroupMember> members_;
  std::vector<std::string_view> names_;
  std::vector<std::int64_t> spent_;
  std::string name_;
  Device device_;
  StepListener* listener_;
  timeline::Task before_;
  int exceptions_;
  bool has_range_ = false;
  std::int64_t begin_;
};
}  // namespace runtime_detail

SINTER_NAMESPACE_END
