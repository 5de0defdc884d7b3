// What bypasses the tracer: functions that are not to be traced, and functions that must be traced whole. Wrappers that
// are called like what they wrap.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/jit/call/disabled_call.hpp>
#include <sinter/jit/call/stance.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What disable() returns. Calls of up to four arguments know their line.
template <class F>
class Disabled {
 public:
  Disabled(F f, bool is_recursive, Location where) : f_{std::make_shared<const F>(std::move(f)), is_recursive, where} {}

  template <class... A>
    requires std::invocable<const F&, A...>
  using result_t = jit_detail::disabled_result_t<std::invoke_result_t<const F&, A...>>;

  template <class G = F>
    requires std::invocable<const G&>
  jit_detail::disabled_result_t<std::invoke_result_t<const G&>> operator()(
      Location at = std::source_location::current()) const {
    return call(at);
  }
  template <class A>
  result_t<A> operator()(A&& a, Location at = std::source_location::current()) const {
    return call(at, std::forward<A>(a));
  }
  template <class A, class B>
  result_t<A, B> operator()(A&& a, B&& b, Location at = std::source_location::current()) const {
    return call(at, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
  result_t<A, B, C> operator()(A&& a, B&& b, C&& c, Location at = std::source_location::current()) const {
    return call(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class D>
  result_t<A, B, C, D> operator()(A&& a, B&& b, C&& c, D&& d, Location at = std::source_location::current()) const {
    return call(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d));
  }
  template <class A, class B, class C, class D, class... More>
    requires(sizeof...(More) > 0)
  result_t<A, B, C, D, More...> operator()(A&& a, B&& b, C&& c, D&& d, More&&... more) const {
    return call(f_.where, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d),
                std::forward<More>(more)...);
  }

 private:
  template <class... A>
  result_t<A...> call(Location at, A&&... args) const {
    Trace* trace = current_trace();
    if (SINTER_UNLIKELY(trace != nullptr))
      return jit_detail::call_in_trace<result_t<A...>>(*trace, f_, at, std::forward<A>(args)...);
    const StanceGuard stance(jit_detail::stance_inside(f_.is_recursive));
    return std::invoke(*f_.function, std::forward<A>(args)...);
  }

  jit_detail::DisabledFunction<F> f_;
};

struct DisableOptions {
  bool recursive = true;  // false: compiled functions that it calls are compiled as elsewhere
};

/// A function that is never traced or compiled, nor are the compiled functions that it calls. Called inside a compiled
/// function it breaks the graph: it runs on values, once in each call, and what it returns (Tensors, Scalars, structs
/// of them, C++ values) comes back as input of the rest. C++ values that it returns are guarded by value. Capture by
/// reference only what outlives the compiled function. Throws TraceError inside grad, vmap and the bodies of cond and
/// loops where a value of theirs reaches it, and under Options::fullgraph.
template <class F>
Disabled<std::decay_t<F>> disable(F&& f, DisableOptions options = {},
                                  Location where = std::source_location::current()) {
  return {std::forward<F>(f), options.recursive, where};
}

/// The value of a C++ object that a traced function reads from elsewhere (captured by reference, a member, a global),
/// as a guard: each call reads it again, and runs what was compiled for the value that it has. The object must outlive
/// the compiled function. Of types that can be compared; outside of traces it is the object's value.
template <class T>
  requires std::copy_constructible<T> && std::equality_comparable<T>
T watch(const T& object, Location where = std::source_location::current()) {
  if (current_trace() == nullptr) return object;
  return disable([address = std::addressof(object)] { return *address; }, {}, where)(where);
}
template <class T>
T watch(const T&& temporary, Location where = {}) = delete;  // it is gone when the next call reads it

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

/// A function that belongs into the graph of whoever calls it, whole: reading a value of the trace inside it is an
/// error with the line, as `fullgraph` makes it for a whole function. Everything else is traced through, as any
/// function is.
template <class F>
AllowedInGraph<std::decay_t<F>> allow_in_graph(F&& f) {
  return AllowedInGraph<std::decay_t<F>>(std::forward<F>(f));
}

}  // namespace jit
SINTER_NAMESPACE_END
