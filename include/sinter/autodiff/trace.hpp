// The typed half of transforms of functions: how parameters and results of any shape are held, and what they are told
// to the untyped half, which knows them as trees of leaves (autodiff/transform_trace.hpp).
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/signature.hpp>
#include <sinter/expr/tree.hpp>

#include <concepts>
#include <functional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

class TransformTrace;

/// Owns a trace. What was opened last ends first.
class OpenTrace {
 public:
  explicit OpenTrace(std::string_view name);
  explicit OpenTrace(TransformTrace* trace) : trace_(trace) {}
  OpenTrace(OpenTrace&& other) noexcept : trace_(std::exchange(other.trace_, nullptr)) {}
  OpenTrace& operator=(OpenTrace&&) = delete;
  ~OpenTrace() {
    if (trace_ != nullptr) end();
  }
  TransformTrace& operator*() const { return *trace_; }
  TransformTrace* operator->() const { return trace_; }

 private:
  void end() noexcept;
  TransformTrace* trace_;
};

/// A number as a weak value of no trace, so that it can be an operand of a replay; values as they are.
Ref<TensorImpl> as_value(const Leaf& x);
/// The values of a result, in order.
std::vector<Ref<TensorImpl>> values_in(tree::View result);
/// Puts values into it.
void fill_values(tree::Part result, const Ref<TensorImpl>* values);
/// Replaces the floating leaves of parameters by placeholders of the trace.
void insert_placeholders(TransformTrace& trace, tree::Part parameter);
/// Placeholders made so far.
std::size_t placeholders_of(const TransformTrace& trace);

/// How a parameter is held while tracing: numbers become Scalars, expressions and complex numbers Tensors.
template <class T>
using parameter_t = std::conditional_t<
    Arithmetic<T>, Scalar,
    std::conditional_t<is_expr<std::remove_cvref_t<T>> || ComplexNumber<T>, Tensor, std::remove_cvref_t<T>>>;

/// An argument, from which that is made.
template <class A>
decltype(auto) held_argument(const A& arg) {
  if constexpr (ComplexNumber<A>) return cast(In(arg, Location()), dtype_of<A>());
  else return (arg);
}

/// Is a number of type A, as argument I of F, a static value?
template <class F, std::size_t I, class A>
consteval bool is_static_number() {
  if constexpr (Arithmetic<A> && expr_detail::Signature<F>::is_known) return !expr_detail::takes_scalar<F, I>();
  else return false;
}
template <class F, class I, class... A>
struct ParametersOf;
template <class F, std::size_t... I, class... A>
struct ParametersOf<F, std::index_sequence<I...>, A...> {
  using type = std::tuple<std::conditional_t<is_static_number<F, I, A>(), A, parameter_t<A>>...>;
  static_assert(
      !(expr_detail::is_no_tensor_for<F, I, parameter_t<A>>() || ...),
      "sinter: this argument is no Tensor, which the function's parameter is: a parameter that takes numbers is "
      "declared Scalar");
};
/// How the arguments of a call of F are held.
template <class F, class... A>
using parameters_t = typename ParametersOf<F, std::index_sequence_for<A...>, A...>::type;

/// How a result is held: expressions and Variables become Tensors, inside pairs and tuples too.
template <class R>
struct Held {
  using type =
      std::conditional_t<is_expr<R> || std::same_as<R, Variable>, Tensor, std::conditional_t<Arithmetic<R>, Scalar, R>>;
  static type make(R&& r) { return type(std::move(r)); }
};
template <class... R>
struct Held<std::tuple<R...>> {
  using type = std::tuple<typename Held<R>::type...>;
  static type make(std::tuple<R...>&& r) {
    return std::apply([](R&... parts) { return type{Held<R>::make(std::move(parts))...}; }, r);
  }
};
template <class A, class B>
struct Held<std::pair<A, B>> {
  using type = std::pair<typename Held<A>::type, typename Held<B>::type>;
  static type make(std::pair<A, B>&& r) {
    return {Held<A>::make(std::move(r.first)), Held<B>::make(std::move(r.second))};
  }
};
template <class R>
using held_result_t = typename Held<std::remove_cvref_t<R>>::type;
/// Calls `f` on the parameters of a tuple.
template <class F, class... T>
SINTER_COLD auto call_held(const F& f, const std::tuple<T...>& parameters) {
  using R = typename expr_detail::CallResult<F, T...>::type;
  return [&]<std::size_t... I>(std::index_sequence<I...>) -> held_result_t<R> {
    if constexpr (std::is_member_pointer_v<F>) return Held<R>::make(R(std::invoke(f, std::get<I>(parameters)...)));
    else if constexpr (std::same_as<held_result_t<R>, R>) return f(std::get<I>(parameters)...);
    else return Held<R>::make(R(f(std::get<I>(parameters)...)));
  }(std::index_sequence_for<T...>{});
}

template <class R>
std::vector<Ref<TensorImpl>> values_of(const R& result) {
  return values_in(tree::view_of(result));
}
template <class R>
SINTER_COLD R with_values(R result, const std::vector<Ref<TensorImpl>>& values) {
  fill_values(tree::part_of(result), values.data());
  return result;
}

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
