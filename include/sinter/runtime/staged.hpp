// The plan of a graph on several devices: a plan for each part, the copies between them, and the order of both. Its
// frame holds the parts' frames and the memory of what crosses. Must not know how graphs are cut.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/runtime/stages.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct StagedPlan {
  struct Part {
    std::shared_ptr<const Plan> plan;           // null: nothing to do
    std::vector<std::int32_t> inputs, outputs;  // as of StagePart
    Device device;
  };
  /// Runs a part, or copies into a value.
  struct Action {
    bool is_copy = false;
    std::int32_t index = -1;
  };
  std::vector<StageValue> values;  // constants lie where they are read
  std::vector<Part> parts;
  std::vector<Action> actions;

  std::int64_t held_bytes(std::span<const std::int64_t> symbols) const;
  std::string text() const;
};

class StagedFrame {
 public:
  StagedFrame(const StagedPlan& plan, std::span<const std::int64_t> symbols);
  ~StagedFrame();
  StagedFrame(const StagedFrame&) = delete;
  StagedFrame& operator=(const StagedFrame&) = delete;

  /// As Frame::run.
  void run(std::span<void* const> inputs, std::span<void* const> outputs);
  std::size_t bytes() const { return held_; }

 private:
  /// Memory belongs to one queue of its device at a time.
  struct Queue {
    Device device;
    DeviceMemory* memory = nullptr;
    std::uint64_t first = 0, last = 0;
  };
  void follow_queues();
  void copy(const StageValue& value, std::size_t index);
  void run_part(std::size_t index, std::span<void* const> inputs);

  const StagedPlan* plan_;
  std::vector<std::unique_ptr<Frame>> frames_;  // by part
  std::vector<Ref<Storage>> memory_;            // by value, of those that lie in no memory of the caller
  std::vector<std::size_t> bytes_;              // by value
  std::vector<void*> places_;                   // by value, in this run
  std::vector<void*> in_, out_;
  std::vector<Queue> queues_;
  std::size_t held_ = 0;
};

/// Cuts the graph, and plans its parts. The plan has the graph's inputs and outputs, and no steps of its own.
std::shared_ptr<const Plan> build_staged_plan(const Graph& graph, const PlanOptions& options);

SINTER_NAMESPACE_END
