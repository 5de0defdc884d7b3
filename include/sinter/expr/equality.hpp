// operator== and operator!= of everything that acts like a tensor. C++20 also tries `b == a` for `a == b`: were one
// operand converted to learn the user's line and the other taken as it is, either order would be better in one operand,
// and the two ambiguous. So every operand that is no expression is converted, in both places, and the order as written
// wins.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

template <class T>
concept UnfinishedExpr = is_expr<std::remove_cvref_t<T>>;
template <class T>
concept TensorHandle = TensorLike<T> && !UnfinishedExpr<T>;

/// A Tensor or a Variable, with the place it was written.
struct LocatedTensor {
  Leaf leaf;
  Location where;
  template <TensorHandle T>
  LocatedTensor(T&& operand, Location at = std::source_location::current())
      : leaf(tensor_detail::hold<T>(std::forward<T>(operand), at)), where(at) {}
};
/// A number, a Dim or a std::complex, with the place it was written.
struct LocatedNumber {
  Leaf leaf;
  Location where;
  template <NumberLike T>
  LocatedNumber(T&& operand, Location at = std::source_location::current())
      : leaf(tensor_detail::hold<T>(std::forward<T>(operand), at)), where(at) {}
};
/// Any of them.
struct LocatedOperand {
  Leaf leaf;
  Location where;
  template <TensorOperand T>
    requires(!UnfinishedExpr<T>)
  LocatedOperand(T&& operand, Location at = std::source_location::current())
      : leaf(tensor_detail::hold<T>(std::forward<T>(operand), at)), where(at) {}
};

}  // namespace expr_detail

Expr<ops::Eq, Leaf, Leaf> operator==(expr_detail::LocatedTensor a, expr_detail::LocatedOperand b);
Expr<ops::Eq, Leaf, Leaf> operator==(expr_detail::LocatedNumber a, expr_detail::LocatedTensor b);
Expr<ops::Ne, Leaf, Leaf> operator!=(expr_detail::LocatedTensor a, expr_detail::LocatedOperand b);
Expr<ops::Ne, Leaf, Leaf> operator!=(expr_detail::LocatedNumber a, expr_detail::LocatedTensor b);

// Where both operands are expressions, the line is that of the first.
#define SINTER_EQUALITY_OPERATOR(symbol, Op)                                                             \
  template <expr_detail::UnfinishedExpr L>                                                               \
  auto operator symbol(L&& a, expr_detail::LocatedOperand b)->Expr<Op, tensor_detail::held_t<L>, Leaf> { \
    using Result = Expr<Op, tensor_detail::held_t<L>, Leaf>;                                             \
    return Result(b.where, tensor_detail::hold<L>(std::forward<L>(a), b.where), std::move(b.leaf));      \
  }                                                                                                      \
  template <expr_detail::UnfinishedExpr R>                                                               \
  auto operator symbol(expr_detail::LocatedOperand a, R&& b)->Expr<Op, Leaf, tensor_detail::held_t<R>> { \
    using Result = Expr<Op, Leaf, tensor_detail::held_t<R>>;                                             \
    return Result(a.where, std::move(a.leaf), tensor_detail::hold<R>(std::forward<R>(b), a.where));      \
  }                                                                                                      \
  template <expr_detail::UnfinishedExpr L, expr_detail::UnfinishedExpr R>                                \
  auto operator symbol(L&& a, R&& b)->Expr<Op, tensor_detail::held_t<L>, tensor_detail::held_t<R>> {     \
    return tensor_detail::make_expr<Op>(a.where(), std::forward<L>(a), std::forward<R>(b));              \
  }
SINTER_EQUALITY_OPERATOR(==, ops::Eq)
SINTER_EQUALITY_OPERATOR(!=, ops::Ne)
#undef SINTER_EQUALITY_OPERATOR

SINTER_NAMESPACE_END
