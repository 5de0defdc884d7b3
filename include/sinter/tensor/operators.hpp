// Operators of everything that acts like a tensor, and how they learn the user's line: they are hidden friends whose
// tensor-side operand is a Located<Self>, a non-deduced parameter whose converting constructor takes the location as a
// default argument. Result types are Exprs, which the expr layer completes. == and != are in expr/equality.hpp.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/tensor/dim.hpp>
#include <sinter/tensor/leaf.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

class Tensor;
class Variable;
class Scalar;
class Predicate;
/// An elementwise expression whose type is its structure. Each of A is Leaf or an Expr.
template <class Op, class... A>
class Expr;

template <class T>
inline constexpr bool is_expr = false;
template <class Op, class... A>
inline constexpr bool is_expr<Expr<Op, A...>> = true;

/// Tensor, Variable, or an elementwise expression of them.
template <class T>
concept TensorLike = std::same_as<std::remove_cvref_t<T>, Tensor> || std::same_as<std::remove_cvref_t<T>, Variable> ||
                     is_expr<std::remove_cvref_t<T>>;
template <class T>
concept Arithmetic = std::is_arithmetic_v<std::remove_cvref_t<T>>;
/// What may stand beside a tensor: a C++ number, a Scalar, or a Dim; and a std::complex, and a Predicate.
template <class T>
concept ScalarLike =
    Arithmetic<T> || std::same_as<std::remove_cvref_t<T>, Scalar> || std::same_as<std::remove_cvref_t<T>, Dim>;
template <class T>
concept ComplexNumber = ComplexElement<std::remove_cvref_t<T>>;
template <class T>
concept NumberLike = ScalarLike<T> || ComplexNumber<T> || std::same_as<std::remove_cvref_t<T>, Predicate>;
template <class T>
concept TensorOperand = TensorLike<T> || NumberLike<T>;

namespace tensor_detail {
/// How an operand is held: a temporary Expr by its type, everything else as a Leaf (a named Expr is recorded once).
template <class T>
using held_t =
    std::conditional_t<is_expr<std::remove_cvref_t<T>> && !std::is_lvalue_reference_v<T>, std::remove_cvref_t<T>, Leaf>;

// Makes the held form; defined for each kind of operand by the expr layer.
template <class T>
held_t<T> hold(T&& operand, Location where);
}  // namespace tensor_detail

/// The tensor-side operand of an operator, with the place it was written. Lvalues and temporaries are distinguished so
/// that a named expression becomes a leaf and a temporary is moved.
template <class Self>
struct LocatedLvalue {
  const Self& object;
  Location where;
  template <class U>
    requires(std::same_as<std::remove_cvref_t<U>, Self> && std::is_lvalue_reference_v<U>)
  LocatedLvalue(U&& operand, Location at = std::source_location::current()) : object(operand), where(at) {}
};
template <class Self>
struct LocatedRvalue {
  Self& object;
  Location where;
  template <class U>
    requires(std::same_as<std::remove_cvref_t<U>, Self> && !std::is_lvalue_reference_v<U> && !std::is_const_v<U>)
  LocatedRvalue(U&& operand, Location at = std::source_location::current()) : object(operand), where(at) {}
};

namespace ops {
struct Add;
struct Sub;
struct Mul;
struct Div;
struct Rem;
struct Lt;
struct Gt;
struct Le;
struct Ge;
struct Eq;
struct Ne;
struct And;
struct Or;
struct Xor;
struct Neg;
struct Not;
}  // namespace ops

namespace tensor_detail {
template <class Op, class... T>
auto make_expr(Location where, T&&... operands) -> Expr<Op, held_t<T>...>;
}  // namespace tensor_detail

#define SINTER_BINARY_OPERATOR(symbol, Op)                                                               \
  template <TensorOperand Other>                                                                         \
  friend auto operator symbol(LocatedLvalue<Self> self, Other&& other)                                   \
      ->Expr<Op, tensor_detail::held_t<const Self&>, tensor_detail::held_t<Other>> {                     \
    return tensor_detail::make_expr<Op>(self.where, self.object, std::forward<Other>(other));            \
  }                                                                                                      \
  template <TensorOperand Other>                                                                         \
  friend auto operator symbol(LocatedRvalue<Self> self, Other&& other)                                   \
      ->Expr<Op, tensor_detail::held_t<Self>, tensor_detail::held_t<Other>> {                            \
    return tensor_detail::make_expr<Op>(self.where, std::move(self.object), std::forward<Other>(other)); \
  }                                                                                                      \
  template <NumberLike Other>                                                                            \
  friend auto operator symbol(const Other& other, LocatedLvalue<Self> self)                              \
      ->Expr<Op, tensor_detail::held_t<const Other&>, tensor_detail::held_t<const Self&>> {              \
    return tensor_detail::make_expr<Op>(self.where, other, self.object);                                 \
  }                                                                                                      \
  template <NumberLike Other>                                                                            \
  friend auto operator symbol(const Other& other, LocatedRvalue<Self> self)                              \
      ->Expr<Op, tensor_detail::held_t<const Other&>, tensor_detail::held_t<Self>> {                     \
    return tensor_detail::make_expr<Op>(self.where, other, std::move(self.object));                      \
  }
#define SINTER_UNARY_OPERATOR(symbol, Op)                                                                \
  template <class Tag = Op> /* a template, so that Expr may still be incomplete */                       \
  friend auto operator symbol(LocatedLvalue<Self> self)->Expr<Tag, tensor_detail::held_t<const Self&>> { \
    return tensor_detail::make_expr<Tag>(self.where, self.object);                                       \
  }                                                                                                      \
  template <class Tag = Op>                                                                              \
  friend auto operator symbol(LocatedRvalue<Self> self)->Expr<Tag, tensor_detail::held_t<Self>> {        \
    return tensor_detail::make_expr<Tag>(self.where, std::move(self.object));                            \
  }
/// Comparisons of run-time numbers, inside class Scalar.
#define SINTER_SCALAR_COMPARISON(symbol, comparison)                                                      \
  template <ScalarLike Other>                                                                             \
  friend Predicate operator symbol(LocatedLvalue<Self> self, const Other& other) {                        \
    return tensor_detail::compare(tensor_detail::Comparison::comparison, self.object, other, self.where); \
  }                                                                                                       \
  template <ScalarLike Other>                                                                             \
  friend Predicate operator symbol(LocatedRvalue<Self> self, const Other& other) {                        \
    return tensor_detail::compare(tensor_detail::Comparison::comparison, self.object, other, self.where); \
  }                                                                                                       \
  template <Arithmetic Other>                                                                             \
  friend Predicate operator symbol(const Other& other, LocatedLvalue<Self> self) {                        \
    return tensor_detail::compare(tensor_detail::Comparison::comparison, other, self.object, self.where); \
  }                                                                                                       \
  template <Arithmetic Other>                                                                             \
  friend Predicate operator symbol(const Other& other, LocatedRvalue<Self> self) {                        \
    return tensor_detail::compare(tensor_detail::Comparison::comparison, other, self.object, self.where); \
  }
// && and || cannot short-circuit on tensors; a class that uses this macro has no conversion to bool either.
#define SINTER_TENSOR_OPERATORS       \
  SINTER_BINARY_OPERATOR(+, ops::Add) \
  SINTER_BINARY_OPERATOR(-, ops::Sub) \
  SINTER_BINARY_OPERATOR(*, ops::Mul) \
  SINTER_BINARY_OPERATOR(/, ops::Div) \
  SINTER_BINARY_OPERATOR(%, ops::Rem) \
  SINTER_BINARY_OPERATOR(<, ops::Lt)  \
  SINTER_BINARY_OPERATOR(>, ops::Gt)  \
  SINTER_BINARY_OPERATOR(<=, ops::Le) \
  SINTER_BINARY_OPERATOR(>=, ops::Ge) \
  SINTER_BINARY_OPERATOR(&, ops::And) \
  SINTER_BINARY_OPERATOR(|, ops::Or)  \
  SINTER_BINARY_OPERATOR(^, ops::Xor) \
  SINTER_UNARY_OPERATOR(-, ops::Neg)  \
  SINTER_UNARY_OPERATOR(!, ops::Not)

/// Not available on tensors, for they cannot short-circuit: use & and |.
template <TensorOperand L, TensorOperand R>
  requires(TensorLike<L> || TensorLike<R>)
void operator&&(L&&, R&&) = delete;
template <TensorOperand L, TensorOperand R>
  requires(TensorLike<L> || TensorLike<R>)
void operator||(L&&, R&&) = delete;

SINTER_NAMESPACE_END
