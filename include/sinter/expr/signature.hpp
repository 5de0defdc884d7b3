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
  using Parameters = std::tuple<P...>;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> : Signature<R (C::*)(P...) const> {};
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

}  // namespace expr_detail
SINTER_NAMESPACE_END
