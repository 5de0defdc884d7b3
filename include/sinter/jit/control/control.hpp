// Control flow that stays in the graph: cond, switch_, while_loop, fori_loop and scan, over user functions of tensors,
// Scalars, tuples and structs. The functions are traced on placeholders, once each; what they use from outside becomes
// an operand of the node. Works inside compile() and grad, in each other, and outside any trace.
#pragma once

#include <sinter/autodiff/transforms.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/jit/control/control_trace.hpp>

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct ScanOptions {
  bool reverse = false;      // from the last slice to the first; ys[i] still belongs to xs[i]
  std::int64_t length = -1;  // number of iterations where xs holds no tensor
};

/// A bound of fori_loop: an integer or a Dim (then the loop has a gradient), or a run-time Scalar or integer tensor.
class LoopBound {
 public:
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  LoopBound(I value) : dim_(static_cast<std::int64_t>(value)) {}
  LoopBound(Dim value) : dim_(value) {}
  LoopBound(const Scalar& value, Location where = std::source_location::current());
  LoopBound(const Tensor& value, Location where = std::source_location::current());
  template <class Op, class... A>
  LoopBound(const Expr<Op, A...>& value, Location where = std::source_location::current())
      : LoopBound(Tensor(value), where) {}

  bool is_dim() const { return !value_; }
  Dim dim() const { return dim_; }
  /// The bound as a rank-0 i64 value.
  Tensor tensor() const;

 private:
  Dim dim_ = 0;
  Ref<TensorImpl> value_;
};

namespace control_detail {

/// How a value is held while it goes through a body: numbers are Scalars, expressions and Variables Tensors.
template <class T>
using held_t = autodiff_detail::held_result_t<T>;

/// How a slice is held that is stacked: numbers become Tensors.
template <class T>
struct Stacked {
  using type = std::conditional_t<std::same_as<T, Scalar>, Tensor, T>;
};
template <class... T>
struct Stacked<std::tuple<T...>> {
  using type = std::tuple<typename Stacked<T>::type...>;
};
template <class A, class B>
struct Stacked<std::pair<A, B>> {
  using type = std::pair<typename Stacked<A>::type, typename Stacked<B>::type>;
};
template <class T>
using stacked_t = typename Stacked<held_t<T>>::type;

template <class T>
concept TensorLike =
    std::same_as<T, Tensor> || std::same_as<T, Scalar> || std::same_as<T, Variable> || is_expr<T> || Arithmetic<T>;

/// What a function gave, as the type `To` that is wanted of it.
template <class To, class From>
To hold(const From& value) {
  if constexpr (std::same_as<To, From>) return value;
  else if constexpr (std::same_as<To, Tensor> && TensorLike<From>) return Tensor(In(value, Location()).tensor());
  else if constexpr (std::same_as<To, Scalar> && Arithmetic<From>) return Scalar(value);
  else if constexpr (std::same_as<To, Scalar> && TensorLike<From>) {
    static_assert(tree::always_false<From>,
                  "sinter: a number became a tensor in the body of a loop: start with a Tensor");
    return Scalar();
  } else if constexpr (tree::TupleLike<To> && tree::TupleLike<From>) {
    static_assert(std::tuple_size_v<To> == std::tuple_size_v<From>,
                  "sinter: the function gives another number of values than is wanted of it");
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return To{hold<std::tuple_element_t<I, To>>(std::get<I>(value))...};
    }(std::make_index_sequence<std::tuple_size_v<To>>{});
  } else {
    static_assert(tree::always_false<From>,
                  "sinter: the function gives another structure than is wanted of it: carries keep theirs, and "
                  "branches give the same");
  }
}

template <class A, class B>
struct Common {
  static_assert(std::same_as<A, B> || (TensorLike<A> && TensorLike<B>),
                "sinter: the branches give different structures; return the same tuple or struct from each");
  using type = std::conditional_t<std::same_as<A, B>, A, Tensor>;
};
template <class... A, class... B>
  requires(sizeof...(A) == sizeof...(B) && !std::same_as<std::tuple<A...>, std::tuple<B...>>)
struct Common<std::tuple<A...>, std::tuple<B...>> {
  using type = std::tuple<typename Common<A, B>::type...>;
};

/// Takes a value apart.
template <class T>
BodyValues take_values(const T& value) {
  return values_of_leaves(tree::view_of(value));
}
template <class T>
T filled(T shape, const Ref<TensorImpl>*& values) {
  fill_leaves(tree::part_of(shape), values);
  return shape;
}
template <class F, class... P>
using raw_result_t = typename expr_detail::CallResult<F, P...>::type;

template <class... P>
void insert_all_placeholders(OpenBody& trace, std::tuple<P...>& parameters) {
  std::apply([&](auto&... parts) { (trace.insert_placeholders(tree::part_of(parts)), ...); }, parameters);
}

/// The common type of what several functions give.
template <class... R>
struct CommonOf;
template <class R>
struct CommonOf<R> {
  using type = R;
};
template <class A, class B, class... Rest>
struct CommonOf<A, B, Rest...> : CommonOf<typename Common<A, B>::type, Rest...> {};

/// Traces `f` on placeholders for `parameters`; `shape` receives what it gave, as R.
template <class R, class F, class... P>
TracedBody trace_body(std::string_view op, Location where, const F& f, std::tuple<P...> parameters,
                      std::optional<R>& shape, AssignedVariables& assigned) {
  OpenBody trace(op, where, assigned);
  insert_all_placeholders(trace, parameters);
  trace.add_variables();
  shape.emplace(hold<R>(std::apply(f, std::as_const(parameters))));
  BodyValues results = take_values(*shape);
  const std::size_t count = results.values.size();
  return trace.finish(std::move(results), count);
}

template <class R>
void check_structure() {
  static_assert(!tree::has_variables<R>(),
                "sinter: a body gives Tensors; a Variable among its results or carries would be an alias of its slot");
}

template <class... F, class... P>
auto switch_over(std::string_view op, const In& index, const std::tuple<P...>& args, const F&... branches) {
  using R = typename CommonOf<held_t<raw_result_t<F, P...>>...>::type;
  check_structure<R>();
  std::optional<R> shape;
  TracedBodies bodies;
  AssignedVariables assigned;
  trace_until_settled(assigned, [&] {
    bodies.clear();
    (bodies.add(trace_body<R>(op, index.where, branches, args, shape, assigned)), ...);
  });
  const std::vector<Ref<TensorImpl>> results = record_switch(op, index, bodies, take_values(args), assigned);
  const Ref<TensorImpl>* at = results.data();
  return filled(std::move(*shape), at);
}

/// What a body gives for several carries is a tuple of them, for one the carry itself.
template <class... C>
struct Carries {
  using type = std::tuple<C...>;
};
template <class C>
struct Carries<C> {
  using type = C;
};

template <class C, class B, class... I>
auto while_over(Location where, const C& condition, const B& body, const I&... init) {
  static_assert(std::is_invocable_v<const C&, const held_t<I>&...>,
                "sinter: the condition of a while_loop does not take the carries: it has one parameter for each, a "
                "Scalar where the loop starts with a C++ number, else the type that the loop starts with");
  static_assert(std::is_invocable_v<const B&, const held_t<I>&...>,
                "sinter: the body of a while_loop does not take the carries: it has one parameter for each, a "
                "Scalar where the loop starts with a C++ number, else the type that the loop starts with");
  using R = typename Carries<held_t<I>...>::type;
  check_structure<R>();
  const std::tuple<held_t<I>...> carries{hold<held_t<I>>(init)...};
  const BodyValues first = take_values(carries);
  std::optional<R> shape;
  TracedBody test, iteration;
  AssignedVariables assigned;
  trace_until_settled(assigned,
                      [&] { iteration = trace_body<R>("while_loop", where, body, carries, shape, assigned); });
  {
    OpenBody trace("while_loop", where, assigned);
    auto parameters = carries;
    insert_all_placeholders(trace, parameters);
    trace.add_variables();
    test = trace.finish_condition(In(std::apply(condition, std::as_const(parameters)), where));
  }
  const std::vector<Ref<TensorImpl>> results =
      record_while(where, std::move(test), std::move(iteration), first, assigned);
  const Ref<TensorImpl>* at = results.data();
  return filled(std::move(*shape), at);
}

/// f(carry, slice) -> {carry, y}.
template <class H, class X, class F>
auto scan_over(std::string_view op, Location where, const F& f, const H& init, const X& xs, Dim length,
               bool is_reversed) {
  using Raw = raw_result_t<F, H, X>;
  static_assert(tree::TupleLike<Raw>,
                "sinter: the body of a scan gives two values, the new carry and a slice of the outputs: return "
                "std::tuple{carry, y}");
  static_assert(std::tuple_size_v<Raw> == 2,
                "sinter: the body of a scan gives two values, the new carry and a slice of the outputs: return "
                "std::tuple{carry, y}");
  using Y = stacked_t<std::tuple_element_t<1, Raw>>;
  using R = std::pair<H, Y>;
  check_structure<R>();
  const BodyValues first = take_values(init), slices = take_values(xs);
  std::optional<R> shape;
  TracedBody body;
  AssignedVariables assigned;
  trace_until_settled(assigned, [&] {
    OpenBody trace(op, where, assigned);
    H carry = init;
    X slice = xs;
    trace.insert_placeholders(tree::part_of(carry));
    trace.add_variables();
    trace.insert_placeholders(tree::part_of(slice), true);
    const auto raw = f(std::as_const(carry), std::as_const(slice));
    shape.emplace(hold<H>(std::get<0>(raw)), hold<Y>(std::get<1>(raw)));
    body = trace.finish(take_values(*shape), take_values(shape->first).values.size());
    check_carry_structure(op, take_values(shape->first), first, where);
  });
  const std::vector<Ref<TensorImpl>> results =
      record_scan(op, where, std::move(body), first, slices, {length, is_reversed}, assigned);
  const Ref<TensorImpl>* at = results.data();
  H carry = filled(std::move(shape->first), at);
  return R{std::move(carry), filled(std::move(shape->second), at)};
}

}  // namespace control_detail

/// then_fn(args...) where `pred` holds, else else_fn(args...): one of them runs. pred is one bool: a Tensor, an
/// expression, a comparison of Scalars, or a C++ bool. Both give the same structure and types. Differentiable.
template <class Then, class Else, class... A>
auto cond(const In& pred, const Then& then_fn, const Else& else_fn, const A&... args) {
  const std::tuple<control_detail::held_t<A>...> held{control_detail::hold<control_detail::held_t<A>>(args)...};
  return control_detail::switch_over("cond", pred, held, else_fn, then_fn);
}

/// branches[index](args...); an index below 0 picks the first, one past the end the last. index is one integer. The
/// branches are a tuple of functions, or a list of functions of one type. Differentiable.
template <class... F, class... A>
auto switch_(const In& index, const std::tuple<F...>& branches, const A&... args) {
  static_assert(sizeof...(F) > 0, "sinter: switch_ needs a branch");
  const std::tuple<control_detail::held_t<A>...> held{control_detail::hold<control_detail::held_t<A>>(args)...};
  return std::apply([&](const F&... list) { return control_detail::switch_over("switch_", index, held, list...); },
                    branches);
}
template <class F, class... A>
auto switch_(const In& index, const std::vector<F>& branches, const A&... args) {
  using namespace control_detail;
  const std::tuple<held_t<A>...> held{hold<held_t<A>>(args)...};
  using R = held_t<raw_result_t<F, held_t<A>...>>;
  if (branches.empty()) throw UserError("switch_", "there is no branch", index.where);
  std::optional<R> shape;
  TracedBodies bodies;
  AssignedVariables assigned;
  trace_until_settled(assigned, [&] {
    bodies.clear();
    for (const F& branch : branches) bodies.add(trace_body<R>("switch_", index.where, branch, held, shape, assigned));
  });
  const std::vector<Ref<TensorImpl>> results = record_switch("switch_", index, bodies, take_values(held), assigned);
  const Ref<TensorImpl>* at = results.data();
  return filled(std::move(*shape), at);
}
template <class F, class... A>
auto switch_(const In& index, std::initializer_list<F> branches, const A&... args) {
  return switch_(index, std::vector<F>(branches), args...);
}

/// Carries = init; while (condition(carries...)) carries = body(carries...). Gives the carries: one alone, several as a
/// tuple. A carry keeps its dtype and shape; C++ numbers become Scalars. Has no gradient in reverse mode.
template <class C, class B, class I0>
auto while_loop(const C& condition, const B& body, const I0& init, Location where = std::source_location::current()) {
  return control_detail::while_over(where, condition, body, init);
}
template <class C, class B, class I0, class I1>
auto while_loop(const C& condition, const B& body, const I0& first, const I1& second,
                Location where = std::source_location::current()) {
  return control_detail::while_over(where, condition, body, first, second);
}
template <class C, class B, class I0, class I1, class I2>
auto while_loop(const C& condition, const B& body, const I0& first, const I1& second, const I2& third,
                Location where = std::source_location::current()) {
  return control_detail::while_over(where, condition, body, first, second, third);
}
template <class C, class B, class I0, class I1, class I2, class I3, class... I>
  requires(!std::same_as<I3, Location>)
auto while_loop(const C& condition, const B& body, const I0& first, const I1& second, const I2& third, const I3& fourth,
                const I&... more) {
  return control_detail::while_over(Location(), condition, body, first, second, third, fourth, more...);
}

namespace control_detail {
/// The numbers of the iterations of a loop between bounds that are Dims, where its carries lie.
Tensor loop_numbers(const LoopBound& lower, const LoopBound& upper, const BodyValues& carries, Location where);
/// What a body gets as its number: a Scalar, so that it joins tensors of any dtype.
Scalar loop_number(const Tensor& number);
Tensor plus(const Tensor& number, std::int64_t step, Location where);
Tensor is_before(const Tensor& number, const Tensor& end, Location where);
}  // namespace control_detail

/// carry = init; for each slice x of xs along axis 0: {carry, y} = f(carry, x). Gives {carry, the ys stacked along a
/// new axis 0}. carry, xs and y are tensors, tuples or structs of them (y of std::tuple<>: none). Differentiable; what
/// an iteration needs for the gradient is computed again from the carries, which are kept.
template <class F, class Init, class Xs>
auto scan(const F& f, const Init& init, const Xs& xs, ScanOptions options = {},
          Location where = std::source_location::current()) {
  using namespace control_detail;
  const auto held = hold<held_t<Xs>>(xs);
  const Dim length = scan_length(take_values(held).values, options.length, where);
  return scan_over("scan", where, f, hold<held_t<Init>>(init), held, length, options.reverse);
}

/// carry = init; for k in [lower, upper): carry = body(k, carry). k is a Scalar. With integers or Dims as bounds the
/// loop is a scan and differentiable; with run-time numbers it is a while_loop.
template <class B, class Init>
auto fori_loop(const LoopBound& lower, const LoopBound& upper, const B& body, const Init& init,
               Location where = std::source_location::current()) {
  using namespace control_detail;
  using H = held_t<Init>;
  static_assert(
      std::is_invocable_v<const B&, const Scalar&, const H&>,
      "sinter: the body of a fori_loop takes the number of the iteration, a Scalar, and the carry, of the type "
      "that the loop starts with (a Scalar where that is a C++ number), and is no mutable lambda");
  if (lower.is_dim() && upper.is_dim()) {
    const H start = hold<H>(init);
    const Tensor numbers = loop_numbers(lower, upper, take_values(start), where);
    auto iteration = [&](const H& carry, const Tensor& k) {
      return std::tuple<H, std::tuple<>>{hold<H>(body(loop_number(k), carry)), {}};
    };
    return scan_over("fori_loop", where, iteration, start, numbers, numbers.shape()[0], false).first;
  }
  const Tensor end = upper.tensor();
  auto goes_on = [&](const Tensor& k, const H&) { return is_before(k, end, where); };
  auto iteration = [&](const Tensor& k, const H& carry) {
    const Scalar number = loop_number(plus(k, 0, where));
    return std::tuple<Tensor, H>{plus(k, 1, where), hold<H>(body(number, carry))};
  };
  return std::get<1>(while_over(where, goes_on, iteration, lower.tensor(), hold<H>(init)));
}

}  // namespace jit
SINTER_NAMESPACE_END
