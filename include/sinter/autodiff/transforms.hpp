// Derivatives of functions: grad and value_and_grad, vjp and jvp, jacobian and hessian. The function is traced on
// placeholders, its graph is transformed, and the result is recorded again on the real operands, so that each works
// inside and outside compile(), and on the others. Gradients have the type of the parameter; where a parameter holds
// Variables they come as Grads, indexed by Variable.
#pragma once

#include <sinter/autodiff/trace.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Gradients by Variable: g[net.w1].
class Grads {
 public:
  /// The gradient of `variable`. Throws UserError if the function was not differentiated by it.
  Tensor operator[](const Variable& variable) const;
  std::size_t size() const;
  void add(std::shared_ptr<VariableSlot> slot, Tensor gradient);

 private:
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Tensor>> entries_;
};

/// Numbers of arguments that are chosen at run time. Negative ones count from the end.
class ArgumentNumbers {
 public:
  ArgumentNumbers(std::initializer_list<int> numbers);
  template <IntegerList L>
  ArgumentNumbers(const L& numbers) {
    for (auto number : numbers) numbers_.push_back(static_cast<std::int64_t>(number));
  }
  const IntVector& list() const { return numbers_; }

 private:
  IntVector numbers_;
};

namespace autodiff_detail {

/// What `{}` makes where a list of numbers may stand: the default. No conversion leads here but that of empty braces.
enum class DefaultNumbers : std::uint8_t {};

/// The numbers of a function of `count` arguments, from 0. Throws IndexError for those that it does not have, or has
/// twice.
std::vector<std::size_t> checked_numbers(const ArgumentNumbers& numbers, std::size_t count, Location where);
/// Throws: argument number `argument` is none that a list of arguments may name.
[[noreturn]] void refuse_number(std::size_t argument, const Type* type, Location where);

/// What transforming and replaying a call gives.
struct Derivatives {
  std::vector<Ref<TensorImpl>> results;  // of the function
  std::vector<Tensor> gradients;         // one per parameter, in order
};
/// A call of a function that is differentiated, without types: its parameters are opened, the function is called on
/// them, its result is closed, and the parameters take the gradients.
class GradientCall {
 public:
  explicit GradientCall(Location where);
  GradientCall(const GradientCall&) = delete;
  GradientCall& operator=(const GradientCall&) = delete;
  ~GradientCall();
  TransformTrace& trace() { return *trace_; }
  /// Replaces the floating leaves of a parameter by placeholders.
  void open(tree::Part parameter);
  /// Ends the trace, and puts what the function returned into the result. Its first value is the loss.
  void close(tree::Part result);
  Tensor loss() const { return Tensor(derivatives_.results[0]); }
  std::vector<Tensor>& gradients() { return derivatives_.gradients; }

 private:
  OpenTrace trace_;
  Location where_;
  Derivatives derivatives_{};
};
/// Matrices of the derivatives of results[0].
Derivatives jacobian_call(OpenTrace trace, const Ref<TensorImpl>& result, Location where);

/// The derivatives along tangents (one per parameter) of all results.
struct Tangents {
  std::vector<Ref<TensorImpl>> results, tangents;
};
Tangents jvp_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results, std::vector<Ref<TensorImpl>> tangents,
                  Location where);

/// The backward half of a call.
struct BackwardCall;
const std::vector<Ref<TensorImpl>>& results_of(const BackwardCall& call);
std::shared_ptr<const BackwardCall> vjp_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results, Location where);
std::vector<Tensor> pull_back(const BackwardCall& call, std::vector<Ref<TensorImpl>> gradients, Location where);

/// Replaces the floating leaves of a parameter by the next of `gradients`, in the same order. Those of Variables go to
/// `by_variable`, if it is given.
void put_gradients(tree::Part parameter, const Tensor*& gradients, Grads* by_variable);
/// The floating leaves of tangents.
std::vector<Ref<TensorImpl>> directions_in(tree::View tangents);

/// The gradient of a parameter, made of that.
template <class P>
auto gradient_of(P& parameter, const Tensor*& gradients) {
  if constexpr (std::same_as<P, Variable>) {
    const Tensor gradient = *gradients;
    put_gradients(tree::part_of(parameter), gradients, nullptr);
    return gradient;
  } else if constexpr (tree::has_variables<P>()) {
    Grads grads;
    put_gradients(tree::part_of(parameter), gradients, &grads);
    return grads;
  } else {
    put_gradients(tree::part_of(parameter), gradients, nullptr);
    return std::move(parameter);
  }
}
/// The gradient of one parameter, or a tuple of those of several.
template <class... P>
auto gradients_of(const std::vector<Tensor>& gradients, P&... parameters) {
  const Tensor* next = gradients.data();
  if constexpr (sizeof...(P) == 1) return gradient_of(parameters..., next);
  else return std::tuple{gradient_of(parameters, next)...};  // braces: in order
}

template <std::size_t... Wrt>
using wrt_sequence = std::conditional_t<sizeof...(Wrt) == 0, std::index_sequence<0>, std::index_sequence<Wrt...>>;

/// Runs `f` in a new trace with the parameters Wrt replaced by placeholders; gives the held result.
template <std::size_t... Wrt, class F, class Parameters>
SINTER_COLD auto trace_call(TransformTrace& trace, const F& f, std::index_sequence<Wrt...>, Parameters parameters) {
  (insert_placeholders(trace, tree::part_of(std::get<Wrt>(parameters))), ...);
  return call_held(f, std::as_const(parameters));
}

template <class R>
inline constexpr bool is_single = std::same_as<R, Tensor> || std::same_as<R, Scalar>;

/// The value of a function whose first result is the loss: a Tensor, or the pair or tuple that it returned.
template <class R>
auto value_of(GradientCall& call, R& result) {
  static_assert(is_single<R> || tree::TupleLike<R>,
                "sinter: a differentiated function returns its loss, or a pair or tuple that begins with it");
  call.close(tree::part_of(result));
  if constexpr (is_single<R>) return call.loss();
  else return std::move(result);
}

/// How the gradient of a function of type F is compiled that is compiled itself (jit/gradient_function.hpp).
template <class F>
struct CompiledGradient {
  static constexpr bool is_known = false;
};

template <class F, class Parameters, std::size_t... Wrt>
SINTER_COLD auto traced_gradients(const F& f, Location where, std::index_sequence<Wrt...>, Parameters& parameters) {
  GradientCall call(where);
  (call.open(tree::part_of(std::get<Wrt>(parameters))), ...);
  auto result = call_held(f, parameters);
  auto value = value_of(call, result);
  return std::pair(std::move(value), std::move(call.gradients()));
}
/// The value and a list of the gradients of all floating leaves of the parameters Wrt.
template <class F, class Parameters, std::size_t... Wrt>
auto value_and_gradient_list(const F& f, Location where, std::index_sequence<Wrt...> wrt, Parameters& parameters) {
  if constexpr (CompiledGradient<F>::is_known) {
    if (current_trace() == nullptr)
      return std::apply(
          [&](const auto&... each) { return CompiledGradient<F>::value_and_list(f, where, wrt, each...); }, parameters);
  }
  return traced_gradients(f, where, wrt, parameters);
}
template <class F, class... A, std::size_t... Wrt>
SINTER_COLD auto value_and_gradients(const F& f, Location where, std::index_sequence<Wrt...> wrt, const A&... args) {
  parameters_t<F, A...> parameters{held_argument(args)...};  // before the trace: expressions among them belong outside
  auto [value, gradients] = value_and_gradient_list(f, where, wrt, parameters);
  return std::pair(std::move(value), gradients_of(gradients, std::get<Wrt>(parameters)...));
}

/// Puts a placeholder in the place of argument `number` of a tuple.
template <class Parameters>
void replace_argument(TransformTrace& trace, Parameters& parameters, std::size_t number, Location where) {
  auto replace = [&](auto& parameter, std::size_t i) {
    using P = std::remove_cvref_t<decltype(parameter)>;
    if (i != number) return;
    if constexpr (is_single<P> || std::same_as<P, Variable>) {
      if constexpr (!std::same_as<P, Scalar>)
        if (const Type type{parameter.dtype(), parameter.device(), parameter.shape()}; !is_differentiable(type.dtype))
          refuse_number(i, &type, where);
      insert_placeholders(trace, tree::part_of(parameter));
    } else {
      refuse_number(i, nullptr, where);
    }
  };
  std::apply(
      [&](auto&... each) {
        std::size_t i = 0;
        (replace(each, i++), ...);
      },
      parameters);
}
template <class F, class... A>
auto value_and_listed_gradients(const F& f, Location where, const ArgumentNumbers& wrt, const A&... args) {
  parameters_t<F, A...> parameters{held_argument(args)...};  // before the trace: expressions among them belong outside
  if constexpr (CompiledGradient<F>::is_known) {
    if (current_trace() == nullptr)
      return std::apply(
          [&](const auto&... each) { return CompiledGradient<F>::value_and_listed(f, where, wrt, each...); },
          parameters);
  }
  GradientCall call(where);
  for (std::size_t number : checked_numbers(wrt, sizeof...(A), where))
    replace_argument(call.trace(), parameters, number, where);
  auto result = call_held(f, parameters);
  auto value = value_of(call, result);
  return std::pair(std::move(value), std::move(call.gradients()));
}
template <class F>
struct ValueAndListedGrad {
  using TakesArgumentsOf = F;
  F f;
  ArgumentNumbers wrt;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return value_and_listed_gradients(f, where, wrt, args...);
  }
};
template <class F>
struct ListedGrad {
  using TakesArgumentsOf = F;
  F f;
  ArgumentNumbers wrt;
  Location where;
  template <class... A>
  std::vector<Tensor> operator()(const A&... args) const {
    return value_and_listed_gradients(f, where, wrt, args...).second;
  }
};

template <class F, std::size_t... Wrt>
struct ValueAndGrad {
  using TakesArgumentsOf = F;
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return value_and_gradients(f, where, wrt_sequence<Wrt...>{}, args...);
  }
};
template <class F, std::size_t... Wrt>
struct Grad {
  using TakesArgumentsOf = F;
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return value_and_gradients(f, where, wrt_sequence<Wrt...>{}, args...).second;
  }
};

template <class F, std::size_t... Wrt>
struct Jacobian {
  using TakesArgumentsOf = F;
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return call(wrt_sequence<Wrt...>{}, args...);
  }

 private:
  template <std::size_t... I, class... A>
  auto call(std::index_sequence<I...> wrt, const A&... args) const {
    parameters_t<F, A...> originals{held_argument(args)...};
    static_assert(
        (is_single<std::tuple_element_t<I, parameters_t<F, A...>>> && ...),
        "sinter: jacobian and hessian take the derivative by Tensors; for structs and Variables use vjp or jvp");
    OpenTrace trace("jacobian");
    const auto result = trace_call(*trace, f, wrt, originals);
    static_assert(is_single<std::remove_cvref_t<decltype(result)>>,
                  "sinter: the function given to jacobian returns one Tensor");
    const auto values = values_of(result);
    auto derivatives = jacobian_call(std::move(trace), values[0], where);
    std::size_t at = 0;
    auto next = [&](auto) { return derivatives.gradients[at++]; };
    if constexpr (sizeof...(I) == 1) return next(0);
    else return std::tuple{next(std::integral_constant<std::size_t, I>{})...};
  }
};

}  // namespace autodiff_detail

/// A function that returns {f(args...), gradients by the parameters Wrt (default: the first)}. f must return a floating
/// scalar (shape ()), or a pair or tuple that begins with one: what follows is passed through. One parameter: its
/// gradient; several: a tuple of them.
template <std::size_t... Wrt, class F>
auto value_and_grad(F f, Location where = std::source_location::current()) {
  return autodiff_detail::ValueAndGrad<F, Wrt...>{std::move(f), where};
}
/// As value_and_grad, giving only the gradients.
template <std::size_t... Wrt, class F>
auto grad(F f, Location where = std::source_location::current()) {
  return autodiff_detail::Grad<F, Wrt...>{std::move(f), where};
}

/// The same by parameters that are chosen at run time, each a floating Tensor, Scalar or Variable: a std::vector of
/// their gradients, in the order of `wrt`.
template <class F>
auto value_and_grad(F f, ArgumentNumbers wrt, Location where = std::source_location::current()) {
  return autodiff_detail::ValueAndListedGrad<F>{std::move(f), std::move(wrt), where};
}
template <class F>
auto grad(F f, ArgumentNumbers wrt, Location where = std::source_location::current()) {
  return autodiff_detail::ListedGrad<F>{std::move(f), std::move(wrt), where};
}
/// `{}`: by the first parameter.
template <class F>
auto value_and_grad(F f, autodiff_detail::DefaultNumbers, Location where = std::source_location::current()) {
  return autodiff_detail::ValueAndGrad<F>{std::move(f), where};
}
template <class F>
auto grad(F f, autodiff_detail::DefaultNumbers, Location where = std::source_location::current()) {
  return autodiff_detail::Grad<F>{std::move(f), where};
}

/// The function that vjp gives: from the gradient of a result (of the result's type) to the gradients of all arguments,
/// in their types: that of the only one, or a tuple. May be called any number of times, in the trace where vjp was
/// called.
template <class R, class... P>
class Pullback {
 public:
  Pullback(std::shared_ptr<const autodiff_detail::BackwardCall> call, std::tuple<P...> parameters)
      : call_(std::move(call)), parameters_(std::move(parameters)) {}

  auto operator()(const In& gradient) const
    requires(autodiff_detail::is_single<R>)
  {
    return run({autodiff_detail::as_value(gradient.leaf)}, gradient.where);
  }
  auto operator()(const R& gradient, Location where = std::source_location::current()) const
    requires(!autodiff_detail::is_single<R>)
  {
    return run(autodiff_detail::values_of(gradient), where);
  }

 private:
  auto run(std::vector<Ref<TensorImpl>> gradients, Location where) const {
    const std::vector<Tensor> pulled = autodiff_detail::pull_back(*call_, std::move(gradients), where);
    auto parameters = parameters_;
    return std::apply([&](P&... each) { return autodiff_detail::gradients_of(pulled, each...); }, parameters);
  }
  std::shared_ptr<const autodiff_detail::BackwardCall> call_;
  std::tuple<P...> parameters_;
};

namespace autodiff_detail {
template <class R, class... P>
Pullback<R, P...> pullback_of(std::shared_ptr<const BackwardCall> call, std::tuple<P...> parameters) {
  return {std::move(call), std::move(parameters)};
}
template <class F, class... A>
auto vjp_at(Location where, const F& f, const A&... args) {
  parameters_t<F, A...> originals{held_argument(args)...};
  OpenTrace trace("vjp");
  const auto result = trace_call(*trace, f, std::index_sequence_for<A...>{}, originals);
  using R = std::remove_cvref_t<decltype(result)>;
  auto call = vjp_call(std::move(trace), values_of(result), where);
  R value = with_values(result, results_of(*call));
  return std::pair(std::move(value), pullback_of<R>(std::move(call), std::move(originals)));
}
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class F, class T>
auto as_arguments(const T& primals) {
  if constexpr (is_tuple<T>)
    return std::apply(
        [](const auto&... p) { return parameters_t<F, std::remove_cvref_t<decltype(p)>...>{held_argument(p)...}; },
        primals);
  else return parameters_t<F, T>{held_argument(primals)};
}
}  // namespace autodiff_detail

/// {f(args...), pullback}: reverse mode for results of any shape. The pullback multiplies a gradient of the result by
/// the matrix of derivatives; what it needs of the forward computation is kept as long as it lives.
template <class F, class A>
auto vjp(const F& f, const A& a, Location where = std::source_location::current()) {
  return autodiff_detail::vjp_at(where, f, a);
}
template <class F, class A, class B>
auto vjp(const F& f, const A& a, const B& b, Location where = std::source_location::current()) {
  return autodiff_detail::vjp_at(where, f, a, b);
}
template <class F, class A, class B, class C>
auto vjp(const F& f, const A& a, const B& b, const C& c, Location where = std::source_location::current()) {
  return autodiff_detail::vjp_at(where, f, a, b, c);
}
template <class F, class A, class B, class C, class D>
auto vjp(const F& f, const A& a, const B& b, const C& c, const D& d, Location where = std::source_location::current()) {
  return autodiff_detail::vjp_at(where, f, a, b, c, d);
}

/// {f(primals), its derivative along tangents}: forward mode. Several arguments are given as a std::tuple. Tangents
/// have the types and shapes of the primals; what is no floating leaf is ignored.
template <class F, class P, class T>
auto jvp(const F& f, const P& primals, const T& tangents, Location where = std::source_location::current()) {
  using namespace autodiff_detail;
  auto originals = as_arguments<F>(primals);
  const auto along = as_arguments<F>(tangents);
  static_assert(std::same_as<decltype(originals), std::remove_const_t<decltype(along)>>,
                "sinter: the tangents of jvp have the types of the primals");
  static_assert(!tree::has_variables<decltype(originals)>(), "sinter: jvp takes no Variables; pass variable.value()");
  std::vector<Ref<TensorImpl>> directions = directions_in(tree::view_of(along));
  OpenTrace trace("jvp");
  const auto result =
      trace_call(*trace, f, std::make_index_sequence<std::tuple_size_v<decltype(originals)>>{}, originals);
  const Tangents derivatives = jvp_call(std::move(trace), values_of(result), std::move(directions), where);
  return std::pair(with_values(result, derivatives.results), with_values(result, derivatives.tangents));
}

/// A function that gives the matrix of derivatives of f's result by the parameters Wrt (default: the first), each with
/// the result's shape followed by the parameter's. In reverse mode where the result has no more elements than the
/// parameter, else in forward mode.
template <std::size_t... Wrt, class F>
auto jacobian(F f, Location where = std::source_location::current()) {
  return autodiff_detail::Jacobian<F, Wrt...>{std::move(f), where};
}
/// A function that gives the second derivatives of a scalar function by one parameter (default: the first): the
/// parameter's shape twice.
template <std::size_t Wrt = 0, class F>
auto hessian(F f, Location where = std::source_location::current()) {
  return jacobian<Wrt>(grad<Wrt>(std::move(f), where), where);
}

}  // namespace jit
SINTER_NAMESPACE_END
