// TraceTree: the compiled form of a function that reads values, or calls functions that no trace sees into. A path is
// what one trace saw; it is cut at its reads and those calls into segments. A node of the tree is a segment with its
// plan, and one child for each outcome that was seen; a leaf has the results. Nodes are immutable: a new path copies
// those above it and publishes a new root, so calls follow the tree without a lock. Work goes to the first segment
// whose read needs it; what no read needs moves to the leaves.
#pragma once

#include <sinter/base/per_thread.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/function.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// How many calls went a certain way.
class CallCount {
 public:
  void add() const {
    if (Own* own = own_.get())
      own->calls.store(own->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else others_.fetch_add(1, std::memory_order_relaxed);
  }
  std::int64_t total() const {
    std::int64_t total = others_.load(std::memory_order_relaxed);
    own_.for_each([&](const Own& own) { total += own.calls.load(std::memory_order_relaxed); });
    return total;
  }

 private:
  struct alignas(64) Own {
    std::atomic<std::int64_t> calls{0};  // only its thread adds
  };
  PerThread<Own> own_;
  mutable std::atomic<std::int64_t> others_{0};  // of threads without a place of their own
};

/// A Variable that a segment captured, and what its value must still be.
struct VariableUse {
  std::shared_ptr<VariableSlot> slot;
  Type type;
};

/// What lies between two reads of a path, as it was traced. Ids are those of the path's graph; equal for all paths that
/// share it, because a path's graph is captured read by read.
struct TracedSegment {
  std::int32_t first = 0;  // id of the first node
  std::vector<Node> nodes;
  std::vector<Value>
      outputs;  // the value read, or operands of the eager function; at a leaf, results and then what Variables become
  std::vector<DimGuard> dims;          // asked in it
  std::vector<VariableUse> variables;  // met first in it
  std::string op;                      // that read
  Location where;
  DType dtype = DType::f32;                     // of the value read
  std::shared_ptr<const EagerCall> eager_call;  // called at its end
  std::vector<EagerVariable> eager_variables;   // used before that
  std::shared_ptr<const EagerArrival> arrival;  // of the eager function called before it
  CallCount lazy_calls;                         // that went on lazily after it
};

/// The end of a path.
struct TracedLeaf {
  std::size_t results = 0;
  std::vector<Assignment> assignments;  // outputs after the results
  std::shared_ptr<const void> result_shape;
  mutable std::atomic<std::int64_t> runs{0}, next_check{1};  // the purity check, as in EntryThread
  CallCount calls;
};

struct TracedPath {
  struct Input {
    std::int32_t leaf = -1;              // argument, or
    std::shared_ptr<VariableSlot> slot;  // captured Variable, or
    std::int32_t cut = -1, result = -1;  // of the eager function called there
  };
  Graph graph;
  std::vector<Input> inputs;  // of the graph, by position
  std::vector<std::shared_ptr<const TracedSegment>> segments;
  std::vector<std::uint64_t> outcomes;                             // of the reads
  std::vector<std::shared_ptr<const EagerResults>> eager_results;  // by cut, in this call; null: a read
  std::shared_ptr<const TracedLeaf> leaf;
  std::vector<TensorImpl*> walked;  // values of the trace and what they are in the graph; valid while the trace is
  std::vector<Value> walked_values;
};

/// A compiled segment; equal segments share it.
struct SegmentCode {
  Graph key;
  std::vector<std::vector<Dim>> layouts;  // of the inputs, as in execute.hpp
  std::vector<std::uint8_t> is_number;
  std::vector<std::uint8_t> may_donate;  // at a leaf: PlanOptions::may_donate
  bool is_leaf = false;
  Graph optimised;
  std::shared_ptr<const Plan> plan;
  std::vector<std::uint8_t> is_narrowed;  // inputs that the plan takes as f32
};

struct TreeNode {
  /// A value that later segments take, and its place in the table of the call.
  struct Carried {
    Value value;
    std::int32_t place = -1;
    bool is_made_here = false;
  };
  struct Store {
    std::int32_t output, place;
  };
  struct Child {
    std::uint64_t outcome;
    std::shared_ptr<const TreeNode> node;
  };
  std::int32_t number = 0;  // from 1 on, in the order in which segments came
  std::shared_ptr<const TracedSegment> traced;
  std::shared_ptr<const SegmentCode> code;
  CallEnd end;                         // its plan and inputs; at a leaf also what it delivers
  std::vector<Carried> live;           // after this segment
  std::vector<Store> stores;           // outputs of the plan that are carried
  std::vector<std::int32_t> releases;  // places that nobody reads after this segment
  std::vector<Child> children;
  std::shared_ptr<const TracedLeaf> leaf;

  bool reads_outcome() const { return traced->dtype == DType::bool_; }
  /// Calls that came to it, as far as they have ended.
  std::int64_t calls() const;
};

class TraceTree {
 public:
  struct Limits {
    std::int64_t segments;
    std::int64_t children;        // of a read of an exact value
    std::int64_t bytes = 0;       // that the plan of a segment may hold; 0: any
    bool allow_fallback = false;  // Options::allow_fallback
  };
  struct Version {
    std::shared_ptr<const TreeNode> root;
    std::int32_t places = 0;  // in the table of a call
    HeldValues held;          // on all paths
  };

  TraceTree(const GuardSet& guards, std::string backend, Mode mode, bool fuse, MatmulPrecision precision, Limits limits)
      : guards_(guards),
        backend_(std::move(backend)),
        mode_(mode),
        fuse_(fuse),
        precision_(precision),
        limits_(limits) {}

  const Version* current() const { return current_.load(std::memory_order_acquire); }
  /// The child that this call goes to, or null. `given`: by the eager function at the end of `node`, or null;
  /// `symbols`: their values in this call.
  static const std::shared_ptr<const TreeNode>* child(const TreeNode& node, std::uint64_t outcome,
                                                      const EagerResults* given, std::span<const std::int64_t> symbols,
                                                      std::span<const ArgLeaf> args);
  /// False when the bound forbids another child of this node.
  bool may_grow_at(const TreeNode& node) const;
  struct Inserted {
    std::vector<std::shared_ptr<const TreeNode>> made;  // with code that was made now
    std::shared_ptr<const CallCount> taken;  // counts the calls that go this way; null if the path fits no more
  };
  /// Compiles what is new of a path and publishes it, as far as the bound allows. Callers hold the function's lock.
  Inserted insert(const TracedPath& path, std::span<const std::int64_t> symbols, std::span<const ArgLeaf> args);

  std::int64_t segments() const { return segments_.load(std::memory_order_relaxed); }
  std::int64_t breaks() const { return breaks_.load(std::memory_order_relaxed); }
  std::int64_t kernels() const { return kernels_.load(std::memory_order_relaxed); }
  std::int64_t peak_bytes() const {
    return peak_bytes_.load(std::memory_order_relaxed);
  }  // of the segment that holds most
  std::int64_t paths() const { return paths_.load(std::memory_order_relaxed); }
  /// Calls that went on outside the tree because of its bound.
  std::atomic<std::int64_t> unbounded_calls{0};
  /// The breaks, the tree, and each segment with its graphs, plan and code.
  std::string text() const;
  /// Of all segments: bodies of regions, and calls of them.
  void count_regions(Stats& stats) const;

 private:
  friend class PathCompiler;
  std::shared_ptr<const SegmentCode> code_for(SegmentCode wanted);

  const GuardSet& guards_;
  std::string backend_;
  Mode mode_;
  bool fuse_;
  MatmulPrecision precision_;
  Limits limits_;
  std::atomic<const Version*> current_{nullptr};
  std::vector<std::unique_ptr<const Version>> versions_;  // older ones too, for callers may still follow them
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const SegmentCode>> codes_;
  std::atomic<std::int64_t> segments_{0}, breaks_{0}, kernels_{0}, peak_bytes_{0}, paths_{0};
};

namespace jit_detail {
/// The last result of an effect orders it before the next one; segments keep that order by themselves.
bool is_token(const Graph& graph, Value v);
/// "item reads an exact value at train.cpp:41": why a trace is cut after a segment.
std::string cut_text(std::string_view op, bool is_outcome, const EagerCall* eager, Location where);
/// What SINTER_LOGS asks for about new segments of a function at `where`.
void log_segments(std::span<const std::shared_ptr<const TreeNode>> nodes, const GuardSet& guards, Location where);
/// All segments of the tree, as far as there is one, a segment before those after it.
std::vector<std::shared_ptr<const TreeNode>> nodes_of(const TraceTree& tree);
}  // namespace jit_detail
/// Adds what a path holds.
void add_held(const TracedPath& path, HeldValues& held);
/// The operation in which two traces of a path differ, or "".
std::string path_difference(std::span<const TracedSegment* const> before, const TracedPath& now, Location& where);

}  // namespace jit
SINTER_NAMESPACE_END
