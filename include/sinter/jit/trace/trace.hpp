// FunctionTrace: one run of a user's function on symbolic arguments: placeholders for arguments and Variables, hints
// and guards for symbols, and the values that the function reads meanwhile. What the trace of a function that read
// values leaves at its end is in trace_path.hpp.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/call_gradient.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
struct Capture;

namespace jit {

class FunctionTrace;
class LiveValues;
struct TracedLeaf;
struct TracedPath;

/// How a trace answers the reads of values.
struct ReadPolicy {
  /// After the replay log: computed from this call's values, refused (fullgraph), or a sign that the function has
  /// changed.
  enum class Beyond : std::uint8_t { compute, refuse, differs };
  Beyond beyond = Beyond::compute;
  MatmulPrecision precision = MatmulPrecision::f32;                  // of what is computed meanwhile
  Fallback fallback = Fallback::refused;                             // likewise
  std::span<const std::uint64_t> replay_log{};                       // answers of the first reads
  std::vector<std::shared_ptr<const EagerResults>> eager_results{};  // by cut: what eager functions gave in this call
  std::vector<std::shared_ptr<const EagerArrival>> arrivals{};       // by cut: what the tree took them for
  std::function<void(FunctionTrace&)> after_replay{};                // called when the last of them has been given
};
/// A Variable that a function uses before it calls an eager function.
struct EagerVariable {
  std::int32_t leaf = -1;              // an argument, or
  std::shared_ptr<VariableSlot> slot;  // captured
  bool is_assigned = false;
};
/// A value that the function read, or an eager function that it called: the trace is cut here.
struct ReadPoint {
  Ref<TensorImpl> value;
  std::string op;
  Location where;
  std::uint64_t outcome = 0;    // the bits read
  std::size_t dims = 0;         // dim guards noted before
  Ref<TensorImpl> last_effect;  // recorded before
  // Or a function that was called on values:
  std::shared_ptr<const EagerCall> eager_call;
  std::vector<Ref<TensorImpl>> operands, placeholders;  // of its results
  std::shared_ptr<const EagerResults> given;            // in this call
  std::shared_ptr<const EagerArrival> arrival;
  std::vector<EagerVariable> variables;  // used by the function before
};

/// A trace of a user's function on symbolic arguments.
class FunctionTrace : public Trace, public SymbolScope {
 public:
  /// `specs`: what is expected of the arguments, which are symbols and which are numbers (specs_of()).
  FunctionTrace(std::string_view name, std::span<const ArgLeaf> args, GuardSet specs, ReadPolicy policy = {});
  ~FunctionTrace() override;

  /// The placeholder of the next tensor or number, in flattening order; fixed leaves and Variables are passed over.
  Ref<TensorImpl> next_leaf();
  void skip_leaf() { ++next_; }

  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;
  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  void note_hooks(const std::shared_ptr<VariableSlot>& gradient, std::uint64_t revision) override;
  std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) override;
  EagerResults call_eagerly(const std::shared_ptr<const EagerCall>& call,
                            std::span<const Ref<TensorImpl>> operands) override;
  std::int64_t value_of(SymbolId symbol) const override { return hints_[symbol]; }
  void note(DimRelation relation, Dim lhs, Dim rhs, bool outcome) override;

  struct VariableRead {
    std::shared_ptr<VariableSlot> slot;
    std::int32_t leaf = -1;  // argument leaf, or -1: captured by the function
    Ref<TensorImpl> placeholder;
    Ref<TensorImpl> seen;      // value while tracing
    Ref<TensorImpl> assigned;  // latest value given in the trace, or null
  };
  std::span<const Ref<TensorImpl>> placeholders() const { return placeholders_; }
  std::vector<VariableRead>& variables() { return variables_; }
  GuardSet& guards() { return guards_; }
  std::span<const std::int64_t> hints() const { return hints_; }
  const std::vector<ReadPoint>& reads() const { return reads_; }
  /// The hooks that a backward() inside asked for between this read and the one before, or all; without those that the
  /// function itself has registered or removed.
  std::vector<jit_detail::HookGuard> hooks(std::size_t read) const;
  std::vector<jit_detail::HookGuard> hooks() const;
  LiveValues& live() { return *live_; }
  /// This call's values of results and Variables, computed now. Not before the function has returned.
  FinishedCall finish(TracedResult result);
  /// Adds what the derivative of the path needs of this call.
  void finish_tape(const TracedPath& path, FinishedCall& call);
  /// Something that a disabled function gave is on the tape.
  bool calls_on_tape() const { return calls_on_tape_; }
  /// The graph of the path so far, cut at the reads; with a result, the last part gives it and what Variables become.
  TracedPath path(const TracedResult* result);

 private:
  void give_arguments();
  /// After the last cut that the replay log answers: what the tree holds becomes known.
  void end_replay();
  /// What an eager function gave in this call: by the replay log, or by running it now.
  std::shared_ptr<const EagerResults> eager_results(ReadPoint& cut);
  /// The value in this call, as one that may be kept: lent memory is copied.
  Ref<TensorImpl> own_value(const Ref<TensorImpl>& value) const;
  struct PathOutputs;
  /// What the segments are to give; fills the end of the path.
  PathOutputs path_outputs(const TracedResult* result, TracedLeaf& leaf) const;
  /// The graph of it, and what its inputs are. Captured statements that have not run are evaluated.
  Capture capture_path(std::span<const Ref<TensorImpl>> outputs, TracedPath& path) const;
  /// Another result of a node of this trace.
  Ref<TensorImpl> other_result(PendingNode& node, Value v, const Type& type);
  /// Values of a path's graph in this call, from those that are values of the trace.
  std::vector<Ref<TensorImpl>> values_from(const Graph& graph, std::span<const Value> wanted,
                                           const std::map<Value, Ref<TensorImpl>>& traced);

  std::span<const ArgLeaf> args_;
  ReadPolicy policy_;
  std::vector<ReadPoint> reads_;
  std::vector<std::pair<std::size_t, jit_detail::HookGuard>> hooks_;  // with the number of reads before
  std::unordered_map<const TensorImpl*, std::uint64_t> outcomes_;     // a value read twice is read once
  std::unique_ptr<LiveValues> live_;                                  // this call's, while it is traced
  bool has_arguments_ = false;                                        // live_ knows them
  bool calls_on_tape_ = false;
  std::vector<const Storage*> lent_;
  std::size_t next_ = 0;
  std::vector<Ref<TensorImpl>> placeholders_;  // per argument leaf; null for fixed leaves
  std::vector<VariableRead> variables_;
  std::vector<std::int64_t> hints_;
  GuardSet guards_;
  SymbolScope* outer_scope_;
};

}  // namespace jit
SINTER_NAMESPACE_END
