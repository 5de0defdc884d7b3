// The one interface between the runtime and whatever makes kernels run. Back ends are siblings behind it; nothing
// below `backend/` names one.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/graph/attribute.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/limits.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/precision.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

class Graph;
class HostCall;
class RecordedSource;
struct Attrs;
struct Node;

/// What a launch does, as tasks that take about as long as each other.
struct LaunchWork {
  std::int64_t tasks = 0;  // 0: it is only run whole, and divides itself
  double nanoseconds = 0;  // of all tasks, a guess
};

/// Work of another library between a device's kernels, as collectives are, which graphs can have inside. A run of it is
/// run(), or begin() and then enqueue(), or begin() and then what enqueue() once put on a queue that was recorded, for
/// the same addresses and the same source.
class RecordableWork {
 public:
  virtual ~RecordableWork() = default;
  /// Null: it cannot be recorded now.
  virtual std::shared_ptr<RecordedSource> source(void* const* operands) = 0;
  /// Throws where the run is refused; nothing is enqueued then.
  virtual void begin(void* const* operands) = 0;
  virtual void enqueue(void* const* operands, void* queue) = 0;
  /// Where what it reads and writes lies.
  virtual void addresses(void* const* operands, std::vector<std::uint64_t>& places) const = 0;
};

/// A kernel bound to extents. Made once per Frame; not to be run by two threads at once.
class Launch {
 public:
  virtual ~Launch() = default;
  /// `operands[i]` is the base address of Kernel::operands[i]. Blocks until done (CPU) or enqueues (GPU).
  /// Throws GatherError when an index is out of range; operands it wrote are then unspecified.
  virtual void run(void* const* operands) = 0;
  /// Makes what runs on this thread need besides, so that none of them allocates.
  virtual void prepare() {}
  /// How it can be run beside other launches (launch_group.hpp), with the results of run(). If in tasks, then by
  /// begin_tasks(), run_tasks() on disjoint ranges that together cover all tasks, by any threads, and end_tasks().
  /// Makes what these need.
  virtual LaunchWork work() { return {}; }
  virtual void begin_tasks(void* const*) {}
  virtual void run_tasks(std::int64_t, std::int64_t) {}
  /// Throws as run() does.
  virtual void end_tasks() {}
  /// Tells a back end its own launches, which it can group, from others.
  virtual TypeKey type() const { return nullptr; }
  /// Its work may go to a queue beside that of the kernels: whoever touches its operands afterwards calls join()
  /// before.
  virtual bool runs_beside() const { return false; }
  /// What is enqueued from now on runs after the last run.
  virtual void join() {}
  /// Itself, where its type() is that of RecordableWork.
  virtual RecordableWork* recordable() { return nullptr; }
};

/// A launch of a group, and the numbers of those before it that must be done when it starts. The others may run beside
/// it.
struct GroupedLaunch {
  Launch* launch = nullptr;
  std::vector<std::uint32_t> after;
};

/// Launches of a frame that are enqueued as one. Addresses may differ from run to run.
class LaunchGroup {
 public:
  virtual ~LaunchGroup() = default;
  /// `operands[i]` is what launch i would be given; null: it is left out this time.
  virtual void run(std::span<void* const* const> operands) = 0;
  /// Are there launches in it that are RecordableWork? No queue of iterations takes such a group.
  virtual bool has_work() const { return false; }
};

/// One launch in the place of several. Its operands are theirs, one after the other.
struct MergedLaunch {
  std::unique_ptr<Launch> launch;
  std::vector<std::uint32_t> members;  // which of those that were given, and which outlive it
};

/// Runs of groups, again and again, as the iterations of a loop are: several are enqueued as one. A loop of the same
/// length finds what its last run prepared.
class IterationQueue {
 public:
  virtual ~IterationQueue() = default;
  /// Begins a loop.
  virtual void begin() = 0;
  /// A run of the group, enqueued now or by the next flush(), in this order. What it reads of the host is read now; the
  /// group, its launches and the memory of the device stay until then.
  virtual void add(LaunchGroup& group, std::span<void* const* const> operands) = 0;
  virtual void flush() = 0;
  /// Forgets what is not enqueued.
  virtual void abandon() noexcept = 0;
  // A loop that goes on as long as its iterations leave true at an address, which the device reads by itself:
  // begin_repeat(), what one iteration adds, end_half(), what the next one adds if that was true, repeat().
  /// False: it cannot.
  virtual bool begin_repeat() { return false; }
  virtual bool end_half() { return false; }
  /// Enqueues the loop, which leaves 1 at `parity` where it ends after an odd number of iterations, else 0. False: of
  /// what was added only the first iteration is enqueued.
  virtual bool repeat(const void* /*goes_on*/, void* /*parity*/) { return false; }
};

/// Some of a step's operands; a loop may have any number of them.
class OperandSet {
 public:
  bool has(std::size_t operand) const {
    return operand / 64 < words_.size() && (words_[operand / 64] >> operand % 64 & 1) != 0;
  }
  bool is_empty() const { return words_.empty(); }
  void add(std::size_t operand) {
    while (words_.size() <= operand / 64) words_.push_back(0);
    words_[operand / 64] |= std::uint64_t{1} << operand % 64;
  }
  /// Bit i: operand i. Kernels have no more than 64.
  std::uint64_t of_kernel() const { return words_.empty() ? 0 : words_[0]; }

 private:
  SmallVector<std::uint64_t, 1> words_;
};

/// What a launch is told of the step that it runs, beside numbers.
struct StepContext {
  std::string name;             // "fused_mul_add_tanh"
  std::vector<Location> where;  // the users' lines it comes from
  /// Those in host memory, though the kernel runs on another device. Such operands hold one element that the kernel
  /// reads; the launch must take its value when it is run.
  OperandSet host_operands{};
  /// Constants, whose address and elements stay as long as the launch.
  OperandSet constant_operands{};
  /// Steps beside it may become one launch with it (Backend::merge): code that suits most of them is wanted.
  bool is_grouped = false;
};

/// Compiled code of one kernel under one schedule. Immutable, shared by all frames and threads.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const = 0;
  /// The same for a step of a plan.
  virtual std::unique_ptr<Launch> bind(const BoundGeometry& geometry, const StepContext&) const {
    return bind(geometry);
  }
  virtual std::size_t code_bytes() const { return 0; }
  /// Disassembly or generated source, for explain().
  virtual std::string listing() const { return {}; }
};

/// An operation that a back end computes whole, for operands of these types (extents are known, in the attributes too):
/// the operation's operands, row-major without gaps, then its results. It gives a launch for all of them: whether it
/// can is decided before, by Backend::intrinsic().
using Intrinsic = std::unique_ptr<Launch> (*)(const Attrs& attrs, std::span<const Type> types);
/// Among an intrinsic's attributes, in a place that no op has for its own: what the plan lets products of f32 be
/// computed in. The graph's node does not have it.
inline constexpr OpAttr<MatmulPrecision> planned_precision{"planned_precision", 4, "f32 tf32x3 tf32"};

/// An operation between kernels whose extents are known, those of the attributes too: operands are row-major without
/// gaps, inputs first, then results. It lives as long as the call that gets it.
struct BoundOp {
  void (*run_on_host)(HostCall&);  // the op's own
  const Attrs& attrs;
  std::span<const Type> types;  // of all operands
  std::size_t inputs = 0;
  Location where;
  // The op's, by which a back end knows it: asked for a function's address, the linker would put linear algebra and
  // Fourier transforms into every program.
  std::string_view name{};
  template <class Op>
  bool is() const {
    return name == Op::info.name;
  }
};

/// Makes kernels run. Its functions may be called by several threads at once.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// ISA or GPU, driver, flags: whatever makes two compilations of one kernel differ.
  virtual std::string cache_key() const = 0;
  /// Kernels beyond them are not given to compile().
  virtual Limits limits() const = 0;
  /// Where its kernels run.
  virtual Device device() const { return Device::cpu(); }
  /// The choices that compile() has for a kernel, the default first: for tuning and for tests of all of them.
  virtual std::vector<Schedule> schedules(const Kernel&) const { return {Schedule{}}; }
  /// Null: declined; `why_declined` (if not null) receives the reason, and the next back end is asked.
  virtual std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                                    std::string* why_declined = nullptr) = 0;
  /// How it computes the operation of a graph's node whole, where that beats the kernels of what it is made of. Null:
  /// it does not. The precision is what the plan lets products of f32 be computed in. Launches throw nothing.
  virtual Intrinsic intrinsic(const Graph&, const Node&, MatmulPrecision) const { return nullptr; }
  /// Code is made for the extents by Executable::bind, so that binding many at once is worth it.
  virtual bool compiles_when_bound() const { return false; }
  /// Has launches that say what their work() is, so that independent kernels of a plan on the CPU can share threads.
  virtual bool divides_launches() const { return false; }
  /// May this launch be one of a group?
  virtual bool can_group(const Launch&) const { return false; }
  /// One enqueue for these launches, which outlive the group and are not run beside it.
  virtual std::unique_ptr<LaunchGroup> group(std::vector<GroupedLaunch>) { return nullptr; }
  /// How it runs an operation that no kernel expresses, on its own device. Null: it cannot, and the host computes it
  /// from copies.
  virtual std::unique_ptr<Launch> bind_op(const BoundOp&, const StepContext&) { return nullptr; }
  /// Makes one launch of several of equal code, so that independent kernels of a plan are worth putting side by side.
  virtual bool merges_launches() const { return false; }
  /// Launches in the place of those of the given ones that can be merged, which need nothing of each other.
  virtual std::vector<MergedLaunch> merge(std::span<Launch* const>) { return {}; }
  /// For groups that it has made; used by one thread at a time. Null: each run is enqueued by itself.
  virtual std::unique_ptr<IterationQueue> iterations() { return nullptr; }
};

SINTER_NAMESPACE_END
