// Ways round the tracer: functions that are not to be traced, and functions that must be traced whole. Wrappers that are
// called like what they wrap.
#pragma once

#include <sinter/graph/record.hpp>
#include <sinter/jit/stance.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// True for a value that exists only while its function is traced.
template <class T>
bool is_traced(const T& argument) {
  if constexpr (std::same_as<T, Tensor>) return argument.impl()->trace != 0 && !argument.is_ready();
  else if constexpr (std::same_as<T, Scalar>) return !argument.is_number();
  else if constexpr (std::same_as<T, Variable>) return is_traced(argument.value());
  else if constexpr (is_expr<T>) return is_traced(Tensor(argument));
  else if constexpr (std::same_as<T, Dim>) return !argument.is_static();
  else if constexpr (requires { argument.begin() != argument.end(); }) {
    for (const auto& item : argument)
      if (is_traced(item)) return true;
    return false;
  } else return false;
}
[[noreturn]] void throw_traced_argument(Location where);
}  // namespace jit_detail

/// What disable() returns.
template <class F>
class Disabled {
 public:
  Disabled(F f, Location where) : f_(std::move(f)), where_(where) {}

  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    if (Trace::current() != nullptr && (jit_detail::is_traced(args) || ...)) jit_detail::throw_traced_argument(where_);
    TracePause pause;
    StanceGuard eager(Stance::force_eager);
    return std::invoke(f_, std::forward<A>(args)...);
  }

 private:
  F f_;
  Location where_;
};

/// A function that is never traced or compiled, nor are the compiled functions that it calls. Inside a traced function it
/// may be called with what does not depend on the trace; it then runs while tracing and its results are constants. Throws
/// TraceError when a traced tensor reaches it.
template <class F>
Disabled<std::decay_t<F>> disable(F&& f, Location where = std::source_location::current()) {
  return {std::forward<F>(f), where};
}

/// What allow_in_graph() returns.
template <class F>
class AllowedInGraph {
 public:
  explicit AllowedInGraph(F f) : f_(std::move(f)) {}

  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    WholeGraph whole;
    return std::invoke(f_, std::forward<A>(args)...);
  }

 private:
  F f_;
};

/// A function that belongs into the graph of whoever calls it, whole: reading a value of the trace inside it is an error
/// with the line, as `fullgraph` makes it for a whole function. Everything else is traced through, as any function is.
template <class F>
AllowedInGraph<std::decay_t<F>> allow_in_graph(F&& f) {
  return AllowedInGraph<std::decay_t<F>>(std::forward<F>(f));
}

}  // namespace jit
SINTER_NAMESPACE_END
