// What the parameters of a function say about numbers that it is called with: `int`, `bool` and enums are static,
// everything else takes them as Scalars. Knows functions and their types alone.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
class Tensor;
namespace expr_detail {

/// The parameters of a function, where there is one list of them: not of generic lambdas.
template <class F>
struct Signature {
  static constexpr bool is_known = false;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const> {
  static constexpr bool is_known = true;
  static constexpr bool is_mutable = false;  // it changes its own object
  using Parameters = std::tuple<P...>;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> : Signature<R (C::*)(P...) const> {
  static constexpr bool is_mutable = true;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (C::*)(P...) const> {};
template <class R, class... P>
struct Signature<R (*)(P...)> : Signature<R (std::tuple<P...>::*)(P...) const> {};
template <class F>
  requires requires { &F::operator(); }
struct Signature<F> : Signature<decltype(&F::operator())> {};
/// A function made of another one, which takes what that takes.
template <class F>
  requires requires { typename F::TakesArgumentsOf; }
struct Signature<F> : Signature<typename F::TakesArgumentsOf> {};

/// Does parameter I of a function with a known signature take a C++ number as a Scalar?
template <class F, std::size_t I>
consteval bool takes_scalar() {
  if constexpr (I < std::tuple_size_v<typename Signature<F>::Parameters>) {
    using P = std::remove_cvref_t<std::tuple_element_t<I, typename Signature<F>::Parameters>>;
    return !std::is_arithmetic_v<P> && !std::is_enum_v<P>;
  } else {
    return false;
  }
}

/// Is a T, as argument I of a function with a known signature, given for a Tensor, and does not become one?
template <class F, std::size_t I, class T>
consteval bool is_no_tensor_for() {
  if constexpr (Signature<F>::is_known) {
    if constexpr (I < std::tuple_size_v<typename Signature<F>::Parameters>) {
      using P = std::remove_cvref_t<std::tuple_element_t<I, typename Signature<F>::Parameters>>;
      return std::is_same_v<P, Tensor> && !std::is_convertible_v<const T&, Tensor>;
    }
  }
  return false;
}

/// What a call f(t...) of a constant function gives, without const and reference. Where there is no such call it says
/// why; `type` is there so that little else is said.
template <class F, class... T>
struct CallResult {
  static constexpr bool is_mutable = std::is_invocable_v<F&, const T&...>;
  static constexpr bool takes_places = std::is_invocable_v<F&, T&...> || std::is_invocable_v<F&, T...>;
  static_assert(!is_mutable,
                "sinter: a mutable lambda, or a function object whose operator() is not const, changes state of its "
                "own; a traced function runs once and its code many times, so the state would stay: take it as an "
                "argument and return the new one, or hold it in a Variable");
  static_assert(is_mutable || !takes_places,
                "sinter: a traced function takes its arguments by value or const reference; return the new value "
                "instead");
  static_assert(is_mutable || takes_places || std::is_member_function_pointer_v<F>,
                "sinter: the function does not take these arguments: numbers reach it as Scalar (as they are where the "
                "parameter is an integer, bool or enum), all tensors as Tensor");
  using type = Tensor;
};
template <class F, class... T>
  requires std::is_invocable_v<const F&, const T&...>
struct CallResult<F, T...> {
  using type = std::remove_cvref_t<std::invoke_result_t<const F&, const T&...>>;
};
/// Of arguments in a tuple.
template <class F, class Arguments>
struct CallResultOf;
template <class F, class... T>
struct CallResultOf<F, std::tuple<T...>> : CallResult<F, T...> {};

}  // namespace expr_detail
SINTER_NAMESPACE_END
