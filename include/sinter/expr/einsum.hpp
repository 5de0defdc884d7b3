// Products of tensors by Einstein's summation. The contractions that it lowers to are contract.hpp's.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <initializer_list>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// The first argument of einsum, with the place it was written: "ij,jk->ik".
struct Equation {
  std::string_view text;
  Location where;
  template <class S>
    requires std::is_convertible_v<const S&, std::string_view>
  Equation(const S& equation, Location at = std::source_location::current()) : text(equation), where(at) {}
};

/// Sum over all letters that the result does not name of the products of the operands' elements. A letter stands for an
/// axis, `...` for any number of axes that broadcast; a letter twice in one operand is a diagonal; extents of 1
/// stretch. Without `->` the result has the letters that stand once, in the order of the alphabet, after `...`.
Tensor einsum(Equation equation, std::span<const Tensor> operands);
Tensor einsum(Equation equation, std::initializer_list<Tensor> operands);
namespace tensor_detail {
Tensor einsum_of(Equation equation, std::initializer_list<Tensor> operands);
}  // namespace tensor_detail
template <TensorLike... T>
Tensor einsum(Equation equation, const T&... operands) {
  return tensor_detail::einsum_of(equation, {Tensor(operands)...});
}

SINTER_NAMESPACE_END
