// Algebra on values that are being recorded: functions that are formulas of others are written as such, and every node
// has the line of the user's call. What Val is to derivatives, for functions of tensors. Included by .ipp files alone.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cmath>
#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// A tensor, and the line on which the user called.
struct Term {
  Tensor value;
  Location where;

  Term(const In& x) : value(x.tensor()), where(x.where) {}
  Term(Tensor x, Location at) : value(std::move(x)), where(at) {}
  operator In() const { return In(value, where); }
  operator Tensor() const { return value; }
  DType dtype() const { return value.dtype(); }
  Shape shape() const { return value.shape(); }
  int rank() const { return value.rank(); }
};

inline Leaf leaf_of(const Term& x) { return Leaf(x.value.impl()); }
inline Leaf leaf_of(double x) { return Leaf::of(x); }
template <class Op, class... Rest>
Term apply(const Term& first, const Rest&... rest) {
  return {Tensor(record_op(op_info<Op>, {leaf_of(first), leaf_of(rest)...}, {}, first.where)), first.where};
}
template <class Op>
Term apply_number_first(double a, const Term& b) {
  return {Tensor(record_op(op_info<Op>, {Leaf::of(a), leaf_of(b)}, {}, b.where)), b.where};
}

/// An operand of an op that takes tensors. A number of C++ beside f64 or c128 is an f64: as f32 it would lose digits.
inline Term operand_beside(const In& x, const In& other) {
  const bool is_number = !x.leaf.value && x.leaf.kind == DTypeClass::floating;
  if (!is_number || !other.leaf.value) return Term(x);
  const DType dtype = other.leaf.value->type.dtype;
  return dtype == DType::f64 || dtype == DType::c128 ? Term(cast(x, DType::f64), x.where) : Term(x);
}

/// The dtype of two operands that are cast to one, which are x and y by now: a number leaves it to the other operand,
/// and so does a tensor of rank 0 beside one with axes, unless the class that it was given in is higher.
inline DType common_dtype(const In& a, const Term& x, const In& b, const Term& y, std::string_view op) {
  if (!a.leaf.value) return y.dtype();
  if (!b.leaf.value) return x.dtype();
  const bool is_first_single = x.rank() == 0;
  if (is_first_single == (y.rank() == 0)) return promote(x.dtype(), y.dtype(), op, a.where);
  const DTypeClass first = row(a.leaf.value->type.dtype).kind, second = row(b.leaf.value->type.dtype).kind;
  if (is_first_single) return first > second ? x.dtype() : y.dtype();
  return second > first ? y.dtype() : x.dtype();
}

#define SINTER_TERM_OPERATOR(symbol, Op)                                                     \
  inline Term operator symbol(const Term& a, const Term& b) { return apply<ops::Op>(a, b); } \
  inline Term operator symbol(const Term& a, double b) { return apply<ops::Op>(a, b); }      \
  inline Term operator symbol(double a, const Term& b) { return apply_number_first<ops::Op>(a, b); }
SINTER_TERM_OPERATOR(+, Add)
SINTER_TERM_OPERATOR(-, Sub)
SINTER_TERM_OPERATOR(*, Mul)
SINTER_TERM_OPERATOR(/, Div)
SINTER_TERM_OPERATOR(<, Lt)
SINTER_TERM_OPERATOR(<=, Le)
SINTER_TERM_OPERATOR(==, Eq)
SINTER_TERM_OPERATOR(!=, Ne)
#undef SINTER_TERM_OPERATOR
inline Term operator-(const Term& a) { return apply<ops::Neg>(a); }
/// x * factor. Whole numbers by a whole factor stay in their dtype, where they wrap.
inline Term scaled_by(const Term& x, double factor) {
  const bool is_whole = !is_differentiable(x.dtype()) && factor == std::trunc(factor) && std::abs(factor) < 0x1p62;
  if (!is_whole) return x * factor;
  const In number(static_cast<std::int64_t>(factor), x.where);
  return {Tensor(record_op(op_info<ops::Mul>, {leaf_of(x), number.leaf}, {}, x.where)), x.where};
}
inline Term both(const Term& a, const Term& b) { return apply<ops::And>(a, b); }
inline Term either(const Term& a, const Term& b) { return apply<ops::Or>(a, b); }

template <class A, class B>
Term where_of(const Term& condition, const A& a, const B& b) {
  return apply<ops::Where>(condition, a, b);
}
inline Term absolute(const Term& x) { return apply<ops::Abs>(x); }
inline Term squared(const Term& x) { return apply<ops::Square>(x); }
/// The larger of x and a number: at the number the derivative is 0.
inline Term at_least(const Term& x, double low) {
  return apply<ops::ClampToNumbers>(x, low, std::numeric_limits<double>::infinity());
}
inline Term floating(const Term& x) { return {Tensor(as_floating(x.value.impl(), x.where)), x.where}; }
inline Term sum_of(const Term& x, Axes axes = {}, Keep keep = Keep::no) { return {sum(x, axes, keep), x.where}; }
inline Term mean_of(const Term& x, Axes axes = {}, Keep keep = Keep::no) { return {mean(x, axes, keep), x.where}; }
/// f16 as f32: squares and sums of them leave its range long before their roots do.
inline Term wide_for_squares(const Term& x) { return x.dtype() == DType::f16 ? Term(cast(x, DType::f32), x.where) : x; }
/// The number of elements along `axes`, as a number of x's dtype.
inline Term count_of(const Term& x, const IntVector& axes) {
  Attrs attrs{.axes = axes, .dtype = x.dtype(), .has_dtype = true};
  return {Tensor(record_op(op_info<ops::ElementCount>, {leaf_of(x)}, std::move(attrs), x.where)), x.where};
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
