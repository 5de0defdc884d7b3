// Plan: a graph made runnable. Steps in order (compiled kernels with symbolic geometry), buffers by reference, one
// arena. Immutable and symbolic: a Frame binds it to extents. Shared by all threads; keeps its idle frames.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/kernel/memory_plan.hpp>
#include <sinter/passes/rematerialise.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/runtime/fusion_choices.hpp>
#include <sinter/runtime/host_ops.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct PlanOptions {
  /// Tried in order for each kernel; all for one device. On the CPU the last must accept everything.
  std::vector<Backend*> backends;
  /// For what the host computes of a graph on another device.
  std::vector<Backend*> host_backends = {};
  /// Those of a device, for the parts of a graph (partition.hpp). Null: the lists above are all there is.
  std::function<std::vector<Backend*>(Device)> find_backends = nullptr;
  /// A kernel that no back end of the device takes is run by the host instead, on copies of its operands; else it is an
  /// error.
  bool allow_fallback = false;
  /// Enqueue a run's launches as one, where the back end can (CUDA graphs).
  bool as_one = false;
  /// Where each output is wanted; empty: where its type says. See partition.hpp.
  std::vector<Device> output_devices = {};
  /// What products of f32 matrices may be computed in.
  MatmulPrecision precision = MatmulPrecision::f32;
  /// false: one kernel per node, nothing recomputed.
  bool fuse = true;
  /// The schedule of a kernel; null: each back end's own. The operands are of the whole graph's plan; none are given
  /// for kernels of a sub-graph, or of a part of a graph on several devices.
  std::function<Schedule(Backend&, const Kernel&, const SymbolicGeometry&, std::span<const BufferRef>)>
      choose_schedule = nullptr;
  /// Independent kernels run as one launch (docs/design/horizontal_fusion.md), and products take in epilogues.
  bool horizontal = true, epilogues = true;
  /// Values that several kernels read may be computed by each of them; those of the nodes `kept` are not, and nothing
  /// that reads the nodes `cut` joins their kernels. Nodes of the graph as one device plans it (PlanSubject, in
  /// partition_plan.hpp); a graph on several devices has none.
  bool recompute = true;
  std::vector<std::int32_t> kept = {}, cut = {};
  /// The same of nodes of a sub-graph: of each loop's body, say, by its place among those of the graph's nodes, where
  /// one that several nodes share counts once. Sub-graphs of sub-graphs have none.
  struct BodyCuts {
    std::int32_t body = -1;
    std::vector<std::int32_t> kept = {}, cut = {};
  };
  std::vector<BodyCuts> body_cuts = {};
  void set(FusionChoices choices) {
    fuse = choices.fuse;
    horizontal = choices.horizontal;
    epilogues = choices.epilogues;
  }
  /// false: no kernel is compiled; the plan says what memory it would take and cannot run.
  bool with_code = true;
  /// Outputs never share memory with inputs, constants or each other.
  bool own_outputs = false;
  /// Strides of each input, in elements; an empty list (or no entry) means row-major without gaps.
  std::vector<std::vector<Dim>> input_strides;
  /// Inputs whose buffer may be taken over by an output when the caller allows it at a call: 0 never, 2 before 1.
  std::vector<std::uint8_t> may_donate;
};

/// How an output is delivered.
struct PlanOutput {
  Type type;
  /// output: a buffer that the caller gives, number `index` (this output's own, or that of an earlier one with the same
  /// value); input, constant: a view of that.
  BufferKind source = BufferKind::output;
  std::int32_t index = -1;
  Dim offset;                                                  // views: elements from the start of what is viewed
  SmallVector<Dim, max_rank> strides;                          // row-major for fresh outputs
  std::int32_t donor = -1;                                     // the input whose pointer may be given as this output's
  tensor_detail::Maker maker = tensor_detail::Maker::unknown;  // its operation and line
  bool outlives_failure = false;  // no step fails once its memory is written: it may be memory that others hold
};

struct PlanStep {
  std::string name;                 // "fused_mul_add_tanh"
  std::vector<std::int32_t> nodes;  // of the graph
  std::vector<Location> where;      // the users' lines they come from
  std::vector<Location> takes;      // those of the operations that read or write at positions given as data
  std::string_view taker = "take";  // the name of these operations
  std::string backend;              // that took it
  std::string declined;             // what those before it said
  bool runs_on_host = false;        // though the plan is of another device, which declined it
  Kernel kernel;                    // empty for host operations
  SymbolicGeometry geometry;
  std::shared_ptr<const Executable> executable;
  std::optional<HostOp> host;
  SmallVector<BufferRef, 8> operands;
  std::size_t host_inputs() const { return host->inputs; }
  bool is_plain_copy = false;  // moves elements to the same places: nothing to do in the same memory
  bool may_fail = false;       // an index may be out of range
};

/// What a plan was made of, for explain(): the graph whose nodes PlanStep::nodes numbers, and how it was to be planned.
struct PlanOrigin {
  Graph graph;
  PlanOptions options;
};

/// What a kernel must at least do, whatever code it becomes: `bytes` has each element that it reads or writes once
/// (views of one operand count as the largest of them), `flops` each arithmetic operation on floating-point numbers
/// once, and two for each multiply-add; exp and its like count as one.
struct StepCost {
  std::int64_t bytes = 0, flops = 0;
};

class Frame;
class Plan;
struct PartitionPlan;  // partition_plan.hpp

struct IdleFrames;
/// Gives the frame back to the idle ones it came from; null: destroys it.
struct FrameReturn {
  IdleFrames* idle = nullptr;
  void operator()(Frame* frame) const noexcept;
};
/// A frame in use by the thread that took it; the plan must outlive it.
using FrameLease = std::unique_ptr<Frame, FrameReturn>;

/// The idle frames of one thread, the one used last first.
struct alignas(64) IdleFrames {
  static constexpr std::size_t capacity = 4;
  std::array<Frame*, capacity> frames{};
  ~IdleFrames();
};

class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::span<const Type> inputs() const { return inputs_; }
  std::span<const PlanOutput> outputs() const { return outputs_; }
  std::span<const PlanStep> steps() const { return steps_; }
  /// Neighbouring steps that need nothing of each other and run as one launch where their work is worth threads.
  std::span<const StepRange> groups() const { return groups_; }
  std::span<const ArenaSlot> slots() const { return slots_; }
  /// What the arena is for: intermediate values, and the line of its last step.
  tensor_detail::Maker arena_maker() const { return arena_maker_; }
  std::span<const PlanNumber> numbers() const { return numbers_; }
  std::span<const Ref<TensorImpl>> constants() const { return constants_; }
  const std::vector<SymbolInfo>& symbols() const { return symbols_; }
  /// Its steps, and those of its parts.
  std::size_t kernel_count() const;
  /// As that, where a group counts once.
  std::size_t launch_count() const;
  std::int64_t arena_bytes(std::span<const std::int64_t> symbols) const;
  /// Where its kernels run and its arena lies.
  Device device() const { return backend_ != nullptr ? backend_->device() : Device::cpu(); }
  bool runs_as_one() const { return runs_as_one_; }
  /// PlanOptions::allow_fallback, on a device other than the CPU.
  bool allows_fallback() const { return allows_fallback_; }
  /// The back end of a plan on a device other than the CPU.
  Backend* backend() const { return backend_; }
  /// What the host computes before a plan on another device runs. Null: nothing.
  const Plan* host_part() const { return host_part_.get(); }
  /// What each output of the host part is: an output of the plan, or, as ~i, number i of those that the plan takes as
  /// inputs after its own.
  std::span<const std::int32_t> host_outputs() const { return host_outputs_; }
  /// The plans of the parts of a graph on several devices. Then it has no steps of its own.
  const PartitionPlan* parts() const { return parts_.get(); }
  std::size_t host_numbers() const { return host_numbers_; }
  /// Number of the graph's output that the steps mean by output `index`.
  std::size_t output_number(std::size_t index) const {
    return device_outputs_.empty() ? index : as_index(device_outputs_[index]);
  }
  /// As arena_bytes, with those of the sub-graphs that it runs, each once: every plan has a frame of its own.
  std::int64_t held_bytes(std::span<const std::int64_t> symbols) const;
  /// At the sizes it was made with.
  std::int64_t held_bytes() const;

  /// A frame bound to these symbol values (one per symbol of the graph), from this thread's idle ones if there is one.
  FrameLease acquire_frame(std::span<const std::int64_t> symbols) const;
  /// This thread's idle ones; null for a thread without a number.
  IdleFrames* idle_frames() const { return idle_.get(); }

  /// Whether it has a product of f32 matrices, in its parts and the sub-graphs that it runs too: then
  /// PlanOptions::precision matters.
  bool depends_on_precision() const;

  /// Null: it was made in another way than from a graph.
  const PlanOrigin* origin() const { return origin_.get(); }
  /// "148 x fused_mul_add": the steps of one of groups(), each name once.
  std::string name_of(StepRange group) const;
  std::shared_ptr<const PlanOrigin> shared_origin() const { return origin_; }
  /// Steps, their kernels and buffers, for explain().
  std::string text() const;

 private:
  friend std::shared_ptr<const Plan> build_plan(const Graph& graph, const PlanOptions& options);
  friend MemoryTimeline timeline_of(const Graph& graph, const PlanOptions& options);
  friend class PartitionPlanner;
  friend class PlanBuilder;

  std::vector<Type> inputs_;
  std::vector<PlanOutput> outputs_;
  std::vector<PlanStep> steps_;
  std::vector<StepRange> groups_;
  std::vector<ArenaSlot> slots_;
  tensor_detail::Maker arena_maker_ = tensor_detail::Maker::unknown;
  std::vector<PlanNumber> numbers_;
  std::vector<Ref<TensorImpl>> constants_;
  std::vector<SymbolInfo> symbols_;
  std::vector<std::string> input_names_;
  Backend* backend_ = nullptr;
  bool runs_as_one_ = false, allows_fallback_ = false;
  std::shared_ptr<const PartitionPlan> parts_;
  std::shared_ptr<const Plan> host_part_;
  std::vector<std::int32_t> host_outputs_;
  std::vector<std::int32_t> device_outputs_;  // numbers of the graph's outputs
  std::size_t host_numbers_ = 0;
  std::shared_ptr<const PlanOrigin> origin_;
  PerThread<IdleFrames> idle_;
};

/// The first of the back ends that computes the node's operation whole.
struct IntrinsicOf {
  Intrinsic intrinsic = nullptr;
  const Backend* backend = nullptr;
};
IntrinsicOf find_intrinsic(const Graph& graph, const Node& node, std::span<Backend* const> backends,
                           MatmulPrecision precision);

/// Fuses, lowers and compiles a graph of primitive ops, and of composites that a back end computes whole; others are
/// decomposed.
std::shared_ptr<const Plan> build_plan(const Graph& graph, const PlanOptions& options);
/// Two steps of a plan that a value goes between, and why fusion left them apart.
struct PlanBorder {
  std::int32_t from = -1, to = -1;  // steps
  std::string value, why;           // "exp at train.cpp:41"
};
/// Those of the plan's own steps. Fuses its graph once more; none where the origin is not known.
std::vector<PlanBorder> borders_of(const Plan& plan);
/// When the plan of a graph on the host would run its nodes and what it would hold, symbols at their hints. Compiles
/// nothing.
MemoryTimeline timeline_of(const Graph& graph, const PlanOptions& options);

SINTER_NAMESPACE_END

#include <sinter/runtime/frame.hpp>
