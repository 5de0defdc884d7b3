// What the typed half of a compiled function (compile.hpp) asks of the untyped one (function.hpp), which it knows by
// name only: find or make the entry for some arguments, run it, and leave the call to the plain function where nothing
// compiled may run.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/call_journal.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class FunctionState;
class FunctionTrace;

/// Where the results of a call go instead of fresh memory.
using Targets = std::span<const BorrowedMut>;

namespace jit_detail {
/// Its address stands for a list of types. Not const, so that no linker folds two of them into one.
template <class... T>
inline char types_tag = 0;
}  // namespace jit_detail

/// What tracing the user's function once gives.
struct TracedResult {
  std::vector<Ref<TensorImpl>> values;
  std::shared_ptr<const void> shape;
};

/// A reference to the typed half's tracing code; valid for the call it is passed to.
struct TraceFunction {
  void* object;
  TracedResult (*call)(void* object, FunctionTrace& trace);
  template <class F>
  static TraceFunction of(F& f) {
    return {&f, [](void* function, FunctionTrace& trace) { return (*static_cast<F*>(function))(trace); }};
  }
  TracedResult operator()(FunctionTrace& trace) const { return call(object, trace); }
};

namespace jit_detail {
/// Shares an object whose type only `destroy` knows: without it each type of lambda and result would bring its own
/// control block.
std::shared_ptr<const void> share(void* object, void (*destroy)(void* object));
template <class T>
SINTER_COLD void destroy(void* object) {
  delete static_cast<T*>(object);
}
template <class T>
SINTER_COLD std::shared_ptr<const void> share(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  return share(static_cast<void*>(new Plain(std::forward<T>(value))), &destroy<Plain>);
}
}  // namespace jit_detail

/// What the typed half sees of a compiled version.
struct CompiledEntry {
  std::shared_ptr<const void> result_shape;  // the traced result, for its static parts
  std::size_t results = 0;
  bool is_tree = false;  // of a function that reads values: run_tree() runs it
};

using Symbols = SmallVector<std::int64_t, 8>;

namespace jit_detail {

std::shared_ptr<FunctionState> make_function(Options options, Location where);
Location where_of(const FunctionState& function);

/// What becomes of a call: it uses compiled code, is part of the trace that encloses it, or runs the plain function.
enum class CallKind : std::uint8_t { compiled, in_trace, plain };
CallKind kind_of_call(const FunctionState& function);
/// True when no call may use compiled code: SINTER_DISABLE, the stance force_eager, the back end noop.
bool runs_plain(const FunctionState& function);

/// The entry that fits, traced and compiled if there is none; null where the call is to run the plain function (stance,
/// recompile limit). Throws RecompileError where the stance says so.
const CompiledEntry* entry_for(FunctionState& function, const ArgList& args, const TraceFunction& trace,
                               Symbols& symbols);

/// Runs it; `results` receives the values, of which there are as many as the entry says, or the types. Variables are
/// written back last.
void run(FunctionState& function, const CompiledEntry& entry, const ArgList& args,
         std::span<const std::int64_t> symbols, const TraceFunction& trace, Ref<TensorImpl>* results, Targets targets);

/// Room for the values of a call's results; no allocation for a few of them.
class ResultValues {
 public:
  explicit ResultValues(std::size_t count) {
    if (SINTER_UNLIKELY(count > few_.size())) many_ = new Ref<TensorImpl>[count];
  }
  ResultValues(const ResultValues&) = delete;
  ResultValues& operator=(const ResultValues&) = delete;
  ~ResultValues() {
    if (SINTER_UNLIKELY(many_ != nullptr)) delete[] many_;
  }
  Ref<TensorImpl>* data() { return SINTER_LIKELY(many_ == nullptr) ? few_.data() : many_; }

 private:
  std::array<Ref<TensorImpl>, 8> few_;
  Ref<TensorImpl>* many_ = nullptr;
};
/// Of a function that reads values: how many there are depends on the path.
struct TreeValues {
  std::vector<Ref<TensorImpl>> values;
  const void* shape = nullptr;        // the traced result on this path, for its static parts
  std::shared_ptr<const void> owner;  // of a path that is in no tree
  TreeValues();
  ~TreeValues();
};
void run_tree(FunctionState& function, const CompiledEntry& entry, const ArgList& args,
              std::span<const std::int64_t> symbols, const TraceFunction& trace, Targets targets, TreeValues& values);
/// Checks purity and makes what calls of this thread with these arguments need besides the entry.
void warm_up(FunctionState& function, const CompiledEntry& entry, const ArgList& args, const TraceFunction& trace,
             std::span<const std::int64_t> symbols);
Stats stats_of(const FunctionState& function);
void reset(FunctionState& function);

/// An uncompiled call: Variables are as before unless it is kept.
class PlainCall {
 public:
  explicit PlainCall(FunctionState& function);
  void keep() noexcept { journal_.keep(); }

 private:
  CallJournal journal_;
};
/// As that, with results in given memory. Compiled functions that it calls run uncompiled, too, so that all they read
/// is seen.
class PlainCallInto {
 public:
  explicit PlainCallInto(FunctionState& function);
  /// Puts the values of the call into their places, and keeps it.
  void deliver(tree::View result, Targets targets, const ArgList& args);

 private:
  FunctionState& function_;
  StanceGuard eager_;
  CallJournal journal_;
};

/// An argument as the traced function gets it. `names`: where its leaves get their names from; without, it is one leaf.
struct TracedArgument {
  tree::Part value;
  tree::View names;
};
/// Names the leaves of the arguments and replaces them by the trace's placeholders.
void insert_placeholders(FunctionTrace& trace, std::span<const TracedArgument> arguments);
/// The result of a trace; `view` sees what `value` owns.
TracedResult result_of_trace(std::shared_ptr<const void> value, tree::View view);
/// Memory of a Tensor that nobody else sees.
BorrowedMut as_target(Tensor& x, Location where = {});
}  // namespace jit_detail

/// Text of explain(): graph, guards, passes, kernels, memory, code.
class Explanation {
 public:
  explicit Explanation(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }
  friend std::ostream& operator<<(std::ostream& out, const Explanation& e);

 private:
  std::string text_;
};
/// Of the entry that a call uses; null: the call runs uncompiled.
Explanation explain(const CompiledEntry* entry, std::span<const std::int64_t> symbols);

/// Forgets every compiled function, kernel and lazy plan. Functions stay usable and compile again when called.
void reset();
/// True while a function is being traced on this thread.
bool is_compiling();

}  // namespace jit
SINTER_NAMESPACE_END
