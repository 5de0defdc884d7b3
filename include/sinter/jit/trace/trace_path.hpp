// A path: what one trace of a function that reads values saw, cut at the reads into segments. trace_path.ipp makes it
// from a FunctionTrace (trace.hpp), whose members for the end of a trace it defines; trace_tree.hpp puts paths
// together.
#pragma once

#include <sinter/base/per_thread.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/jit/trace/trace.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct PathTape;  // path_gradient.hpp

/// How many calls went a certain way.
class CallCount {
 public:
  void add() const {
    if (Own* own = own_.get())
      own->calls.store(own->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else others_.fetch_add(1, std::memory_order_relaxed);
  }
  /// So that this thread's next add() allocates nothing.
  void prepare() const { own_.get(); }
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
  bool is_on_tape = false;  // a gradient of it was wanted
};

/// What lies between two reads of a path, as it was traced. Ids are those of the path's graph; equal for all paths that
/// share it, because a path's graph is captured read by read.
struct TracedSegment {
  std::int32_t first = 0;  // id of the first node
  std::vector<Node> nodes;
  std::vector<Value>
      outputs;  // the value read, or operands of the eager function; at a leaf, results and then what Variables become
  std::vector<DimGuard> dims;                // asked in it
  std::vector<VariableUse> variables;        // met first in it
  std::vector<jit_detail::HookGuard> hooks;  // of gradients computed in it
  std::string op;                            // that read
  Location where;
  DType dtype = DType::f32;                     // of the value read
  std::shared_ptr<const EagerCall> eager_call;  // called at its end
  bool gives_tape = false;                      // what that gave was on the tape
  std::vector<EagerVariable> eager_variables;   // used before that
  std::shared_ptr<const EagerArrival> arrival;  // of the eager function called before it
  CallCount lazy_calls;                         // that went on lazily behind it
};

/// The end of a path.
struct TracedLeaf {
  std::size_t results = 0;
  std::vector<Assignment> assignments;  // outputs behind the results
  std::shared_ptr<const void> result_shape;
  std::shared_ptr<const PathTape> tape;                      // null: no result is on the tape
  bool drops_tape = false;                                   // results would be, but for the places that they go into
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
  std::shared_ptr<TracedLeaf> leaf;
  std::vector<TensorImpl*> walked;  // values of the trace and what they are in the graph; valid while the trace is
  std::vector<Value> walked_values;
};

/// Adds what a path holds.
void add_held(const TracedPath& path, HeldValues& held);
/// The operation in which two traces of a path differ, or "".
std::string path_difference(std::span<const TracedSegment* const> before, const TracedPath& now, Location& where);

namespace jit_detail {
/// The last result of an effect orders it before the next one; segments keep that order by themselves.
bool is_token(const Graph& graph, Value v);
/// Segments of two traces at the same place.
bool same_traced(const TracedSegment& a, const TracedSegment& b);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
