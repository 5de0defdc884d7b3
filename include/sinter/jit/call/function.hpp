// The untyped half of a compiled function: entries (guards + plan + where inputs and outputs go), lookup, and the run
// of one call. The typed half (compile.hpp) only takes arguments apart and puts results together. FunctionState's steps
// are defined by subject: lookup.ipp finds entries, function.ipp makes them, execute.ipp runs them, purity.ipp checks
// them, trace/tree_call.ipp does the same for functions that read values.
#pragma once

#include <sinter/base/code_stats.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/graph/call_context.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/call_gradient.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/jit/call/recompile.hpp>
#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/config/scope.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/runtime/plan.hpp>
#include <sinter/tensor/call_journal.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class FunctionTrace;
class Stages;
struct TracedPath;
class TraceTree;
class TreeCall;
struct SavedProgram;
struct SegmentCode;
/// Code for segments of a trace tree, by the code in whose place it runs.
using SegmentSwaps = std::unordered_map<const SegmentCode*, std::shared_ptr<const SegmentCode>>;
namespace jit_detail {
class BackgroundState;
struct BackgroundWork;
struct CodeInput;
class Snapshot;
struct VersionCode;
}  // namespace jit_detail

/// Room for a call with Variables, places or donated memory, so that it allocates nothing.
struct CallScratch {
  std::vector<Ref<TensorImpl>> assigned;  // new values of Variables
  std::vector<int> claim_of;              // per input of the plan: its Variable among the claims, or -1
  SlotClaims claims;
  std::vector<Tensor*> donated;  // arguments whose memory an output took over
  std::vector<VariableSlot*> slots;
  std::vector<TensorImpl*> values;
  CallScratch(std::size_t outputs, std::size_t inputs) { reserve(outputs, inputs); }
  void reserve(std::size_t outputs, std::size_t inputs) {
    assigned.reserve(outputs);
    claim_of.reserve(inputs);
    claims.reserve(outputs);
    donated.reserve(outputs);
    slots.reserve(outputs);
    values.reserve(outputs);
  }
  void clear() noexcept {
    claims.clear();
    for (auto& value : assigned) value = {};
    donated.clear();
    slots.clear();
    values.clear();
  }
};
/// Memory of a result, kept for later calls (Mode::reduce_overhead). A value that anybody else holds is not used.
struct ResultRing {
  static constexpr std::size_t capacity = 4;
  std::array<Ref<TensorImpl>, capacity> values;
};
/// The sizes that a thread used last with an entry that has symbols: the guards for just these, which are quicker to
/// check than relations are, and what the symbols are then.
struct SizeMemo {
  GuardSet guards;  // leaves alone
  SmallVector<std::int64_t, 8> symbols;
};
/// What one thread keeps of an entry between its calls.
struct alignas(64) EntryThread {
  std::atomic<std::int64_t> runs{0};       // only this thread adds
  std::int64_t next_check = 1;             // of purity: due when `runs` reaches this
  double checking_ms = 0;                  // spent on such checks
  std::vector<const VariableSlot*> slots;  // of the arguments, when they were last found to fit
  std::unique_ptr<SizeMemo> sizes;         // made when the same sizes come twice in a row
  SmallVector<std::int64_t, 8> last_symbols;
  std::unique_ptr<CallScratch> scratch;
  std::vector<ResultRing> rings;  // per result
  IdleFrames* idle = nullptr;     // this thread's, of the plan

  bool is_check_due() const { return runs.load(std::memory_order_relaxed) >= next_check; }
  void count() { runs.store(runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

/// One compiled version of a function.
struct Entry {
  std::shared_ptr<const void> result_shape;  // the traced result, for its static parts
  std::size_t results = 0;
  bool is_tree = false;     // of a function that reads values
  bool is_quick = false;    // see quick_call.hpp
  bool runs_ahead = false;  // operation by operation, until its code is made (Mode::background)
  GuardSet guards;
  CallEnd end;                                        // of a function that reads no value
  HeldValues held;                                    // by the traced graph; of a tree by its first segment
  std::vector<Type> captured_types;                   // what the captured Variables must still be
  const void* types = nullptr;                        // C++ types of arguments and result (types_tag)
  const jit_detail::CallTypes* call_types = nullptr;  // the same, as they are taken apart; null: of an expression
  GraphFunction custom;                               // a registered back end's callable, in place of the plan
  std::vector<Type> custom_outputs;                   // what it must give
  std::shared_ptr<TraceTree> tree;                    // of a function that reads values; then there is no plan
  jit_detail::TapeGuard tape;
  std::shared_ptr<const jit_detail::CallGradient> gradient;  // null: no result is on the tape
  mutable jit_detail::TapeAttrs tape_attrs;
  /// Its results are on the tape, and what a disabled function gave reaches them: calls run the function. Of a tree it
  /// turns out at a call.
  mutable std::atomic<bool> is_plain{false};
  /// A path of a tree puts results on the tape. Or would have, but for the places that they went into: then the entry
  /// serves no calls without. Of a tree it turns out at a call.
  mutable std::atomic<bool> has_taped_path{false}, drops_tape{false};
  bool gives_tape() const {
    return gradient != nullptr || has_taped_path.load(std::memory_order_relaxed) || runs_plain();
  }
  bool runs_plain() const { return is_plain.load(std::memory_order_relaxed) && (tree == nullptr || is_tape_on()); }
  Graph traced, specialised, optimised;  // as traced; what the passes began with, and what they gave
  /// What products of f32 matrices may be computed in, and a bit for each default of the process (matmul_precision())
  /// that the entry serves: all, where the function's own option says it or there is no such product.
  MatmulPrecision precision = MatmulPrecision::f32;
  std::uint8_t precisions = all_precisions;
  double trace_ms = 0, passes_ms = 0, codegen_ms = 0;
  std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
  PerThread<EntryThread> threads;
  mutable std::atomic<std::int64_t> other_runs{0};  // of threads without a place of their own
  std::int64_t runs() const;
  /// Whether code that was traced with certain Variables as arguments serves others. The function may also have
  /// captured one of them, which a trace does not tell; a second trace does, for those places where it is given
  /// another.
  enum class Serves : std::uint8_t { unknown, all_variables, traced_variables };
  mutable std::atomic<Serves> serves{Serves::unknown};
  std::vector<const VariableSlot*> traced_slots;          // of Variables among the arguments
  mutable std::vector<std::atomic<bool>> takes_any_slot;  // per each of them: another Variable there gave the same code
  std::string backend;                                    // that made the code; another than asked for after an error
  const Entry* next = nullptr;                            // older entry
  std::shared_ptr<jit_detail::BackgroundState> background{};  // null: its code was made by a call
  CallContext context{};                                      // that it was traced in
  /// What its code depends on, as CallContext::used. Of a tree it grows with the paths, each time before the path does.
  mutable std::atomic<std::uint32_t> context_used{0};
  /// Does the code serve a call in the context of this thread?
  bool serves_context() const {
    CallContext of_trace = context;
    of_trace.used = context_used.load(std::memory_order_acquire);
    return of_trace.serves(call_context());
  }
};

namespace jit_detail {
/// What explain() says of the entry that a call uses; null: the call runs uncompiled.
Explanation explanation_of(const Entry* entry, std::span<const std::int64_t> symbols, Location where);
}  // namespace jit_detail

/// The typed half's traced result on the path that was taken.
struct TreeResult {
  const void* shape = nullptr;
  std::shared_ptr<const void> owner{};  // of a path that is in no tree
  bool runs_plain = false;              // nothing was delivered: the plain function is to run
};

/// What takes the place of plans: a registered back end, or what aot_function() was given. Empty functions: plans.
struct Compilers {
  BackendFunction forward{}, backward{};
  std::string name{};  // of `forward`, in messages
};

class FunctionState : public std::enable_shared_from_this<FunctionState> {
 public:
  /// Slots of expressions take no stance, and past the limit are evaluated lazily without a message.
  enum class Serves : std::uint8_t { function, expression };
  FunctionState(Options options, Location where, Serves serves = Serves::function, Compilers compilers = {});
  ~FunctionState();

  /// The entry made last, or null.
  const Entry* newest() const { return newest_.load(std::memory_order_acquire); }
  /// The entry that fits, traced and compiled if there is none; null where the call is to run the plain function
  /// (stance, recompile limit). No lock is held and nobody is waited for while the user's function runs: of threads
  /// that compile the same at once, one publishes its entry and the others drop theirs. Throws RecompileError where the
  /// stance says so.
  const Entry* entry_for(const ArgList& args, const TraceFunction& trace, SmallVector<std::int64_t, 8>& symbols);
  /// The entry that fits, or null: as entry_for() where nothing is compiled any more.
  const Entry* compiled_for(const ArgList& args, SmallVector<std::int64_t, 8>& symbols) const {
    return find(args, symbols);
  }
  /// Runs it; `results` receives the values. Variables are written back last.
  void run(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols, const TraceFunction& trace,
           Ref<TensorImpl>* results, Targets targets = {});

  /// The body of that, inline for the guarded call.
  void run_now(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
               const TraceFunction& trace, Ref<TensorImpl>* results, Targets targets);

  /// run_now() for calls whose results are on the tape. With places another entry runs.
  void run_on_tape(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                   Ref<TensorImpl>* results) const;

  /// True when no call may use compiled code: SINTER_DISABLE, the stance force_eager, the back end noop.
  bool runs_plain(jit_detail::ThreadMode mode) const { return context_.is_disabled || is_noop_ || mode.is_eager(); }
  /// True for that, and where a scope of this thread may change what a call does.
  bool is_special(jit_detail::ThreadMode mode) const { return context_.is_disabled || is_noop_ || mode.is_special(); }
  /// From here on nothing is compiled, traced or checked. Throws UserError where nothing is compiled yet.
  void freeze(OnMiss miss);
  void unfreeze();
  bool is_frozen() const { return is_frozen_.load(std::memory_order_relaxed); }
  /// A frozen function that throws at a miss runs nothing uncompiled.
  void check_uncompiled() const;

  void count_plain_call() { plain_calls_.fetch_add(1, std::memory_order_relaxed); }
  /// As run(), for functions that read values: follows the tree, and traces on where it ends.
  TreeResult run_tree(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                      const TraceFunction& trace, ResultPlace results, Targets targets = {});

  /// Puts the values of an uncompiled call into their places.
  void deliver_uncompiled(std::vector<Ref<TensorImpl>> values, Targets targets, const ArgList& args,
                          const CallJournal& journal) const;

  /// Checks purity and makes what calls of this thread with these arguments need besides the entry.
  void warm_up(const Entry& entry, const ArgList& args, const TraceFunction& trace,
               std::span<const std::int64_t> symbols);

  /// Puts code that another thread has made in the place of what an entry runs; the number of calls that it served
  /// before, or -1 where reset() has dropped it.
  std::int64_t swap_in(const Entry* replaced, const jit_detail::BackgroundState& state,
                       const jit_detail::VersionCode& code, runtime_detail::CodeCount made);
  std::int64_t swap_in(const Entry* grown, const jit_detail::BackgroundState& state, const SegmentSwaps& swaps,
                       double ms, runtime_detail::CodeCount made);
  /// The same in the place of what swap_in() has put there, once.
  std::int64_t swap_in_tuned(const jit_detail::BackgroundState& state, const jit_detail::VersionCode& code,
                             runtime_detail::CodeCount made);
  /// Under the lock: an entry that is found before this one.
  void publish_code(const Entry& entry, const jit_detail::VersionCode& code, runtime_detail::CodeCount made);
  /// Waits for all code that is being made in the background. Throws what making it threw.
  void wait_for_code() const;

  Stats stats() const;
  /// What an entry was made of.
  Stages stages(const Entry& entry, std::span<const std::int64_t> symbols) const;
  void reset();
  /// An object made of this function (of its gradient), one for each key and list of numbers; reset() drops it.
  std::shared_ptr<const void> derived(const void* key, const std::vector<std::int64_t>& numbers,
                                      const std::function<std::shared_ptr<const void>()>& make);
  Location where() const { return where_; }
  /// From here on entries are made as the versions of a saved function say. To be called before the first call.
  void use_saved(std::shared_ptr<const SavedProgram> saved) { saved_ = std::move(saved); }
  Mode mode() const { return options_.mode; }
  /// A function of its own with the same options and compilers.
  std::shared_ptr<FunctionState> another() const;
  /// The function with the options that a scope gives it, made once for each.
  std::shared_ptr<FunctionState> in_scope(const ScopeSettings& settings);

 private:
  Fallback fallback() const { return options_.allow_fallback ? Fallback::allowed : Fallback::refused; }
  MatmulPrecision precision_now() const { return options_.matmul_precision.value_or(matmul_precision()); }
  /// The entry serves all precisions only where it does not matter or the option says which.
  void guard_precision(Entry& entry) const;
  /// `unverified`: one that would fit if it serves these Variables, which is not known yet.
  const Entry* find(const ArgList& args, SmallVector<std::int64_t, 8>& symbols,
                    const Entry** unverified = nullptr) const;
  /// Counts a call that nothing fits of a frozen function; throws, or the plain function is to run.
  void count_miss(const ArgList& args);
  const Entry* make_entry(const ArgList& args, const TraceFunction& trace, SmallVector<std::int64_t, 8>& symbols);
  std::unique_ptr<Entry> compile(const ArgList& args, const TraceFunction& trace, GuardSet specs);
  /// An entry for calls that run the plain function, so that their results are on the tape.
  void leave_plain(Entry& entry, const ArgList& args, FunctionTrace& recorder) const;
  void trace_plain(Entry& entry, const ArgList& args, FunctionTrace& recorder, TracedResult result);
  /// Passes and code for a traced entry.
  void generate(Entry& entry, const ArgList& args, Graph traced, std::vector<std::uint8_t> on_tape);
  struct CodeRequest {
    const Graph& graph;  // with what the guards proved about its sizes
    std::span<const Dim> solution;
    std::string_view backend;
  };
  void generate_code(Entry& entry, const ArgList& args, const CodeRequest& request) const;
  jit_detail::CodeInput code_input(Entry& entry, const ArgList& args, const CodeRequest& request) const;
  void put_code(Entry& entry, jit_detail::VersionCode code, std::string_view backend) const;
  jit_detail::BackgroundWork background_work(const Entry& entry) const;
  /// Has the code of a published entry made, where it runs without.
  void submit(const Entry& entry);
  /// Under the lock.
  bool owns(const Entry* entry, const jit_detail::BackgroundState& state) const;
  bool suppresses_errors() const;
  /// The back end, or, where errors are suppressed, one in its place that refuses nothing.
  BackendFunction suppressed_if_wanted(const BackendFunction& compiler) const;
  /// Makes the derivative of a program whose results are on the tape; gives the program that is to be run.
  Graph with_gradient(Entry& entry, const ArgList& args, Graph program, std::vector<std::uint8_t> on_tape) const;
  /// What is decided about a call that no entry fits, under the lock.
  struct Decision {
    const Entry* fitting = nullptr;  // what another thread has made meanwhile; the rest is for where there is none
    bool compiles = false;           // else the plain function runs
    bool is_recompile = false;
    GuardSet specs;             // for the trace
    std::string note, warning;  // for the log, which is a function of the user
  };
  Decision decide(const ArgList& args, Symbols& symbols);
  bool may_compile(const ArgList& args, Decision& decision);
  /// Has no version been compiled for arguments with this pattern of extents 0, 1 and more?
  bool is_first_of_its_sizes(const ArgList& args) const;
  /// Where versions of a function that reads values for calls with places, and for those without, have become two, a
  /// new one is for the call that it was made for alone, whatever paths it comes to have.
  void keep_places_apart(const Entry& made, const ArgList& args) const;
  /// Has no version been compiled for calls with places, or for such without, as this is one?
  bool is_first_of_its_places(const ArgList& args) const;
  /// The newest entry for these C++ types, or null.
  const Entry* newest_of(const void* types) const;
  /// Every guard that they break, of each version.
  std::string all_broken_text(const ArgList& args) const;
  /// The first guard that these arguments break of the entry that they break fewest of, the newest among equals.
  std::optional<Guard> closest_broken(const ArgList& args) const;
  GuardSet choose_specs(const ArgList& args) const;
  /// The specs of the saved version that takes these arguments, if there is one.
  std::optional<GuardSet> saved_specs(const ArgList& args) const;
  /// Counts a call; purity is checked when it is due.
  void count_run(const Entry& entry, EntryThread* thread, const ArgList& args, const TraceFunction& trace) {
    if (SINTER_UNLIKELY(thread == nullptr)) {
      entry.other_runs.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (SINTER_UNLIKELY(thread->is_check_due())) check_purity(entry, *thread, args, trace);
    thread->count();
  }
  void check_purity(const Entry& entry, EntryThread& thread, const ArgList& args, const TraceFunction& trace);
  void grow_tree(Entry& entry, const ArgList& args, FunctionTrace& recorder, TracedResult result);
  /// None: the plain function is to run.
  std::optional<FinishedCall> resume(const Entry& entry, const ArgList& args, const TraceFunction& trace,
                                     TreeCall& call);
  /// How the derivatives of its paths are compiled.
  jit_detail::PlanChoices gradient_choices(const Entry& entry) const;
  /// The path of a trace that has ended, with its tape, and the values of its call.
  TracedPath finished_path(const Entry& entry, const ArgList& args, FunctionTrace& recorder, TracedResult result,
                           FinishedCall& finished) const;
  /// The whole call, traced and computed on the way: a tree that may hold no segment.
  std::optional<FinishedCall> run_untreed(const Entry& entry, const ArgList& args, const TraceFunction& trace);
  void check_path(const Entry& entry, const ArgList& args, const TraceFunction& trace, const TreeCall& call);
  void warm_up_tree(const Entry& entry, const ArgList& args, const TraceFunction& trace,
                    std::span<const std::int64_t> symbols);

  /// Of compiles that end up in an entry.
  void count_code(const runtime_detail::CodeCounting& counting) {
    const runtime_detail::CodeCount made = counting.so_far();
    code_.generated += made.generated;
    code_.loaded += made.loaded;
  }

  const Context& context_ = Context::get();
  Options options_;
  Location where_;
  std::atomic<const Entry*> newest_{nullptr};
  mutable ForkSafeMutex mutex_;                  // of what follows; the user's functions never run under it
  std::vector<std::unique_ptr<Entry>> entries_;  // owned; reset() hands them on, for callers may still run them
  std::int64_t swaps_ = 0;
  std::int64_t compiles_ = 0, recompiles_ = 0, past_calls_ = 0;  // the last: of versions that reset() has dropped
  double compile_ms_ = 0;
  runtime_detail::CodeCount code_;
  MissHistory misses_;
  std::atomic<std::int64_t> plain_calls_{0};
  bool is_noop_ = false;
  std::atomic<bool> is_frozen_{false};
  std::atomic<OnMiss> on_miss_{OnMiss::throws};
  std::atomic<std::int64_t> frozen_misses_{0};
  Serves serves_;
  Compilers given_, compilers_;  // those of aot_function(), and with a registered back end for the others
  struct Derived {
    const void* key;
    std::vector<std::int64_t> numbers;
    std::shared_ptr<const void> object;
  };
  std::vector<Derived> derived_;  // under the lock
  friend class jit_detail::Snapshot;
  std::shared_ptr<const SavedProgram> saved_;  // null: not of a file
};

}  // namespace jit
SINTER_NAMESPACE_END
