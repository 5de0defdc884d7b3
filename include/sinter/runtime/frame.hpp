// Frame: a plan bound to extents, with its arena, its launches and their operand pointers. Running it writes the call's
// pointers into prepared places and calls the launches; it allocates nothing. One call at a time.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/dependences.hpp>
#include <sinter/runtime/launch_group.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// An output at the extents of a frame.
struct FrameOutput {
  Type type;
  Strides strides;  // row-major
  std::size_t bytes = 0;
  tensor_detail::Maker maker = tensor_detail::Maker::unknown;
};

/// Room for one call's pointers, so that a call of any size allocates nothing: one of each per input or output.
struct CallPlaces {
  std::vector<void*> inputs;
  std::vector<TensorImpl*> values;  // after the inputs
  std::vector<float> numbers;       // inputs that are numbers
  std::vector<void*> outputs;
};

class PartitionFrame;  // partition_plan.hpp

class Frame {
 public:
  Frame(const Plan& plan, std::span<const std::int64_t> symbols);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  /// `inputs`: first element of each input. `outputs`: memory for each output whose source is its own buffer
  /// (row-major); the others are ignored and may be null. An output may be given its donor's pointer.
  void run(std::span<void* const> inputs, std::span<void* const> outputs);
  /// Makes what runs on this thread need besides: frames of the bodies of control flow, taken or not, and memory of the
  /// launches.
  void prepare();

  bool is_bound_to(std::span<const std::int64_t> symbols) const {
    return symbols_.size() == symbols.size() && std::equal(symbols.begin(), symbols.end(), symbols_.begin());
  }
  std::span<const std::int64_t> symbols() const { return symbols_; }
  std::span<const FrameOutput> outputs() const { return outputs_; }
  /// Every output is a buffer that the caller gives: none views an input or repeats another.
  bool has_only_fresh_outputs() const { return has_only_fresh_outputs_; }
  /// Functions of the user run, which may read Variables, or parts that may fail after others have written.
  bool calls_out() const { return calls_out_; }
  CallPlaces& places() { return places_; }
  std::size_t arena_bytes() const;

 private:
  struct Step {
    Launch* launch;
    std::uint32_t first_operand;
    bool skips_same_memory;  // a plain copy: operands 0 and 1
    const PlanStep* planned;
    std::int32_t group = -1;  // steps of one group have the same number
    /// Of a launch in the place of several: their number and the first of them in members_; a plain one has none.
    std::uint32_t first_member = 0, members = 0;
  };
  /// Neighbouring steps: one enqueue for all, or one after the other.
  struct Segment {
    std::size_t first, end;
    std::unique_ptr<LaunchGroup> group;
    CpuGroup* on_host = nullptr;  // the same, on the CPU
  };
  struct Patch {
    std::uint32_t place;   // in pointers_
    std::uint32_t source;  // number of the input or output
  };

  void bind_steps();
  void add_group(StepRange range, std::span<std::unique_ptr<Launch>> made, std::int32_t group);
  std::unique_ptr<Launch> launch_of(const PlanStep& step, bool is_grouped = false) const;
  void add_step(const PlanStep& step, std::unique_ptr<Launch> launch, std::int32_t group);
  /// The steps of a body, which needs no memory of its own, as steps of this frame on the operands of the call.
  void add_called_steps(const PlanStep& call, const Plan& body, std::int32_t first_group);
  void add_operand(const BufferRef& operand);
  bool is_on_host(const BufferRef& operand) const;
  StepContext context_of(const PlanStep& step) const;
  void run_host_part(std::span<void* const> inputs, std::span<void* const> outputs);
  void follow_queue();
  void make_segments();
  void make_host_segments();
  void run_on_host(const Segment& segment);
  void run_on_host_watched(const Segment& segment, std::span<void* const* const> operands);
  void run_step(const Step& step);
  void run_steps(std::size_t first, std::size_t end);
  /// As that, seen by who watches (watch.hpp).
  void run_steps_watched(std::size_t first, std::size_t end);
  void run_segments();
  void run_steps_beside(IterationQueue& iterations, std::size_t first, std::size_t end);
  MemoryUse use_of(const BufferRef& operand, bool is_written) const;
  void add_uses_of(const PlanStep& step, std::vector<MemoryUse>& uses) const;
  std::vector<MemoryUse> uses_of(const Step& step) const;

  std::vector<std::int64_t> symbols_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::int64_t> slot_bytes_, slot_offsets_;
  std::vector<FrameOutput> outputs_;
  bool has_only_fresh_outputs_ = true, calls_out_ = false;
  CallPlaces places_;
  Ref<Storage> arena_;
  std::unique_ptr<PartitionFrame> parts_;                  // of a plan in parts: then there is nothing else
  std::unique_ptr<Frame> host_part_;                       // of a plan on another device
  std::vector<std::array<std::int64_t, 2>> host_numbers_;  // what it computes for the device: one element in each
  std::vector<void*> host_pointers_;
  DeviceMemory* memory_ = nullptr;                  // of another device
  std::uint64_t arena_queue_ = 0, last_queue_ = 0;  // where the arena was allocated and used last
  const Plan* plan_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Step> steps_, members_;
  std::vector<StepCost> costs_, member_costs_;  // of the steps, once somebody watches
  std::vector<Segment> segments_;               // none: no group
  std::vector<void* const*> group_operands_;    // of each step
  std::vector<void*> pointers_;
  std::vector<Patch> input_patches_, output_patches_;

  /// A launch that runs beside the kernels, and the step that is the first to touch its operands.
  struct Join {
    std::size_t step;
    Launch* launch;
  };
  void find_joins();
  void join_before(std::size_t step);
  void run_all();
  void run_all_and_join();
  std::vector<Join> joins_;    // in the order of `step`; as many steps as there are: at the end
  std::size_t next_join_ = 0;  // of this run
};

SINTER_NAMESPACE_END
