// Comparisons of finished tensors: not inline, so that users' files are spared both types of expression.
#pragma once

#include <sinter/expr/equality.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Expr<ops::Eq, Leaf, Leaf> operator==(expr_detail::LocatedTensor a, expr_detail::LocatedOperand b) {
  return Expr<ops::Eq, Leaf, Leaf>(a.where, std::move(a.leaf), std::move(b.leaf));
}
SINTER_DECL Expr<ops::Eq, Leaf, Leaf> operator==(expr_detail::LocatedNumber a, expr_detail::LocatedTensor b) {
  return Expr<ops::Eq, Leaf, Leaf>(b.where, std::move(a.leaf), std::move(b.leaf));
}
SINTER_DECL Expr<ops::Ne, Leaf, Leaf> operator!=(expr_detail::LocatedTensor a, expr_detail::LocatedOperand b) {
  return Expr<ops::Ne, Leaf, Leaf>(a.where, std::move(a.leaf), std::move(b.leaf));
}
SINTER_DECL Expr<ops::Ne, Leaf, Leaf> operator!=(expr_detail::LocatedNumber a, expr_detail::LocatedTensor b) {
  return Expr<ops::Ne, Leaf, Leaf>(b.where, std::move(a.leaf), std::move(b.leaf));
}

SINTER_NAMESPACE_END
