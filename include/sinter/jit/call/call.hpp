// What the typed half of a compiled function (compile.hpp) asks of the untyped one (function.hpp), which it knows by
// name only: to make a call. Of the types a call has, the untyped half knows constants that say how their objects are
// taken apart, and one function that calls the user's.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/value_table.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/jit/partition.hpp>
#include <sinter/jit/stages.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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

class Profile;
namespace jit_detail {
struct Explained;
}  // namespace jit_detail

/// What explain() gives: graph, guards, passes, kernels, memory, code. It keeps what it explains alive.
class Explanation {
 public:
  explicit Explanation(std::string text, std::shared_ptr<const jit_detail::Explained> parts = nullptr)
      : text_(std::move(text)), parts_(std::move(parts)) {}
  const std::string& text() const { return text_; }
  /// The same as one page of HTML that needs nothing else (docs/observing.md); with the measured times of a profile of
  /// the same function, if one is given.
  std::string html() const;
  std::string html(const Profile& profile) const;
  /// Writes the page into a file. Throws UserError where that cannot be written.
  void save_html(const std::string& path, Location where = std::source_location::current()) const;
  void save_html(const std::string& path, const Profile& profile,
                 Location where = std::source_location::current()) const;
  /// The optimised graphs, with a box for each kernel: for Graphviz, and as a picture that needs no program.
  std::string dot() const;
  std::string svg() const;
  /// Null: the call runs uncompiled.
  const jit_detail::Explained* parts() const { return parts_.get(); }
  friend std::ostream& operator<<(std::ostream& out, const Explanation& e);

 private:
  std::string text_;
  std::shared_ptr<const jit_detail::Explained> parts_;
};
/// What differs between two explanations, of two versions of a function say: lines of guards, graphs and kernels that
/// one has and the other has not, "-" before those of `before`, "+" before those of `after`; "" where nothing does.
std::string diff(const Explanation& before, const Explanation& after);
using Symbols = SmallVector<std::int64_t, 8>;

namespace jit_detail {

struct CallRequest;

/// What the types of a call say: one constant for the calls that have them in common.
struct CallTypes {
  const void* tag;  // stands for the types of arguments and result
  const ArgumentType* arguments;
  std::uint32_t count;         // of arguments
  bool is_plain;               // all of them are Tensors, and none is donated
  const tree::Layout* result;  // of the function
  /// Calls the function on copies of the arguments. With a trace, its placeholders are put into them first; the result
  /// is a new object, to be destroyed by the function below.
  void* (*call_on_copies)(const CallRequest& call, FunctionTrace* trace);
  void (*destroy_result)(void* result);
};
/// A call of a compiled function, without types.
struct CallRequest {
  FunctionState& function;
  const CallTypes& types;
  const void* callee;          // the user's function
  void (*invoke)();            // calls that: R (*)(const void* callee, const T&... arguments)
  const void* const* objects;  // the arguments
};

std::shared_ptr<FunctionState> make_function(Options options, Location where);
/// With functions that take the place of plans, for either graph or both.
std::shared_ptr<FunctionState> make_function(Options options, BackendFunction forward, BackendFunction backward,
                                             Location where);
/// An object made of a function, made once for each key and list of numbers.
std::shared_ptr<const void> derived(FunctionState& function, const void* key, const std::vector<std::int64_t>& numbers,
                                    const std::function<std::shared_ptr<const void>()>& make);
/// A function with the same options and compilers, and nothing compiled.
std::shared_ptr<FunctionState> another(const FunctionState& function);
Partition partition(const CallRequest& call);
Location where_of(const FunctionState& function);

/// The call of a function that gives nothing but Tensors: finds or makes the entry that fits and runs it, or the plain
/// function where nothing compiled may run. Variables are written back last. Throws RecompileError where the stance
/// says so.
void call_for_tensors(const CallRequest& call, Ref<TensorImpl>* results);
/// As that, with results in given memory.
void call_into(const CallRequest& call, Targets targets);
/// As that, for results of any type: `shape` is a result of the same type and with the same static parts; a copy of it
/// that is filled is the result of this call.
class OpenCall {
 public:
  explicit OpenCall(const CallRequest& call);
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;
  ~OpenCall();
  const void* shape() const { return shape_; }
  void fill(void* copy);

 private:
  const CallRequest& call_;
  ArgList args_;
  Symbols symbols_;
  const void* shape_ = nullptr;
  std::shared_ptr<const void> owner_{};  // of a shape that is in no entry
  Ref<TensorImpl>* values_ = nullptr;    // null: nothing is to be filled in
  ResultTable results_{};
};

/// Compiles, checks purity and makes what calls of this thread with these arguments need besides the entry.
void warm_up(const CallRequest& call);
Explanation explain(const CallRequest& call);
Stages lower(const CallRequest& call);
Stats stats_of(const FunctionState& function);
void reset(FunctionState& function);
void freeze(FunctionState& function, OnMiss miss);
void unfreeze(FunctionState& function);
bool is_frozen(const FunctionState& function);

/// Names the leaves of the arguments and replaces those of the copies by the trace's placeholders.
void put_placeholders(FunctionTrace& trace, const CallRequest& call, void* const* copies);
/// What is lent as a Tensor, for functions that run uncompiled.
Tensor owned_copy(const Lent& x);
inline Tensor owned_copy(const Borrowed& x) { return copy_of(x); }
/// Memory of a Tensor that nobody else sees.
BorrowedMut as_target(Tensor& x, Location where = {});
}  // namespace jit_detail

/// Forgets every compiled function, kernel and lazy plan. Functions stay usable and compile again when called.
void reset();
/// True while a function is being traced on this thread.
bool is_compiling();

}  // namespace jit
SINTER_NAMESPACE_END
