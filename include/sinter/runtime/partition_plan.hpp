// The plan of a partitioned graph. On one device it is that device's plan, with what the host computes before it. Else
// it has a plan for each part, the copies between them, and the order of both; its frame holds the parts' frames and
// the memory of what crosses. Must not know how graphs are cut.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/partition.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct PartitionPlan {
  struct Part {
    std::shared_ptr<const Plan> plan;           // null: nothing to do
    std::vector<std::int32_t> inputs, outputs;  // as of PartitionPart
    Device device;
  };
  /// Runs a part, or copies into a value.
  struct Action {
    bool is_copy = false;
    std::int32_t index = -1;
  };
  std::vector<PartitionValue> values;  // constants lie where they are read
  std::vector<Part> parts;
  std::vector<Action> actions;

  std::int64_t held_bytes(std::span<const std::int64_t> symbols) const;
  std::string text() const;
};

class PartitionFrame {
 public:
  PartitionFrame(const PartitionPlan& plan, std::span<const std::int64_t> symbols);
  ~PartitionFrame();
  PartitionFrame(const PartitionFrame&) = delete;
  PartitionFrame& operator=(const PartitionFrame&) = delete;

  /// As Frame::run.
  void run(std::span<void* const> inputs, std::span<void* const> outputs);
  /// As Frame::prepare.
  void prepare();
  std::size_t bytes() const { return held_; }

 private:
  /// Memory belongs to one queue of its device at a time.
  struct Queue {
    Device device;
    DeviceMemory* memory = nullptr;
    std::uint64_t first = 0, last = 0;
  };
  void follow_queues();
  void copy(const PartitionValue& value, std::size_t index);
  void run_part(std::size_t index, std::span<void* const> inputs);

  const PartitionPlan* plan_;
  std::vector<std::unique_ptr<Frame>> frames_;  // by part
  std::vector<Ref<Storage>> memory_;            // by value, of those that lie in no memory of the caller
  std::vector<std::size_t> bytes_;              // by value
  std::vector<void*> places_;                   // by value, in this run
  std::vector<void*> in_, out_;
  std::vector<Queue> queues_;
  std::size_t held_ = 0;
};

/// What one plan is made of: the graph whose nodes its steps number, and how it is planned.
struct PlanSubject {
  Graph graph;
  PlanOptions options;
};
/// The graph, on the device of `options.backends`, as its plan has it: less the composites that no back end computes
/// whole, and with what is better done in front of a loop there.
Graph device_graph(const Graph& graph, const PlanOptions& options);
/// That of the device's plan, where the graph needs one device; nothing where it is planned in parts.
std::optional<PlanSubject> plan_subject(const Graph& graph, const PlanOptions& options);
/// The plan of a graph on the device of `options.backends`, whatever its types say; single elements among its inputs
/// may lie on the host.
std::shared_ptr<Plan> build_part_plan(const Graph& graph, const PlanOptions& options);
/// Cuts the graph, and plans its parts.
std::shared_ptr<const Plan> build_partition_plan(const Graph& graph, const PlanOptions& options);

SINTER_NAMESPACE_END
