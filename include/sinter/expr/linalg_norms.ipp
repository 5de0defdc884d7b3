// Norms, powers, and functions of several axes.
#pragma once

#include <sinter/expr/linalg_norms.hpp>

#include <sinter/base/number_kind.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/linalg_complex.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/linalg.hpp>

#include <cmath>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace linalg {
namespace detail {
using expr_detail::Term;

/// The two axes of matrices, resolved.
struct MatrixAxes {
  int rows = 0, columns = 0;
};
inline MatrixAxes matrix_axes(const Term& x, Axes axes, std::string_view op) {
  if (axes.list().size() != 2)
    throw IndexError(op, std::to_string(axes.list().size()) + " axes are named, a matrix has two", x.where);
  const MatrixAxes out{normalise_axis(static_cast<int>(axes.list()[0]), x.rank(), op, x.where),
                       normalise_axis(static_cast<int>(axes.list()[1]), x.rank(), op, x.where)};
  if (out.rows == out.columns) throw IndexError(op, "an axis is named twice", x.where);
  return out;
}
/// What is left of two axes that were reduced at the end.
inline Tensor with_kept_axes(const Term& reduced, MatrixAxes axes, Keep keep) {
  if (keep == Keep::no) return reduced;
  return unsqueeze(reduced, axes.rows < axes.columns ? Axes{axes.rows, axes.columns} : Axes{axes.columns, axes.rows});
}
/// The largest element along an axis; of none it is 0, for norms are not negative.
inline Term largest_or_zero(const Term& x, int axis, Keep keep) {
  const Dim extent = x.shape()[axis];
  const bool has_none = extent.is_static() && extent.value() == 0;
  return {has_none ? sum(x, axis, keep) : amax(x, axis, keep), x.where};
}
/// Sums of |x| along one axis, and the largest (smallest) of them along the other.
inline Tensor extreme_sum(const Term& x, int summed, int other, bool is_largest, Keep keep) {
  const Term sums(sum(expr_detail::absolute(x), summed, Keep::yes), x.where);
  const Term found = is_largest ? largest_or_zero(sums, other, Keep::yes) : Term(amin(sums, other, Keep::yes), x.where);
  return keep == Keep::yes ? Tensor(found) : squeeze(found, {summed, other});
}
inline std::string order_text(NormOrder order) {
  if (order.is_named()) return order.is(MatrixNorm::fro) ? "fro" : "nuc";
  return std::to_string(order.number());
}
}  // namespace detail

SINTER_DECL Tensor vector_norm(const In& x, double order, Axes axes, Keep keep) {
  if (is_nan_number(order)) throw UserError("vector_norm", "the order is NaN", x.where);
  if (order >= 0 || is_infinite_number(order)) return sinter::norm(x, axes, {.p = order, .keep = keep});
  const detail::Term size = expr_detail::absolute(expr_detail::floating(x));
  // The power of a 0 is infinite, and the norm 0: it is left out of the sum, so that derivatives are 0 too, and no NaN.
  const detail::Term is_zero = size == 0.0, has_zero(any(is_zero, axes, keep), x.where);
  const detail::Term powers = expr_detail::apply<ops::Pow>(expr_detail::where_of(is_zero, 1.0, size), order);
  const detail::Term norm = expr_detail::apply<ops::Pow>(expr_detail::sum_of(powers, axes, keep), 1 / order);
  return expr_detail::where_of(has_zero, norm * 0.0, norm);
}

SINTER_DECL Tensor matrix_norm(const In& x, NormOrder order, Axes axes, Keep keep) {
  const detail::Term t = expr_detail::floating(x);
  if (t.rank() < 2)
    throw ShapeError("matrix_norm", "x is " + t.shape().text() + ", matrices are required", x.where,
                     "vector_norm takes vectors");
  const auto [rows, columns] = detail::matrix_axes(t, axes, "matrix_norm");
  if (order.is(MatrixNorm::fro)) return vector_norm(t, 2, {rows, columns}, keep);
  const double p = order.number();
  if (!order.is_named() && std::abs(p) == 1) return detail::extreme_sum(t, rows, columns, p > 0, keep);
  if (!order.is_named() && is_infinite_number(p)) return detail::extreme_sum(t, columns, rows, p > 0, keep);
  if (!order.is_named() && std::abs(p) != 2)
    throw UserError("matrix_norm", "there is no norm of matrices of order " + detail::order_text(order), x.where,
                    "fro, nuc, 1, -1, 2, -2, inf and -inf are");
  const detail::Term s(svdvals(In(movedim(t, {rows, columns}, {-2, -1}), x.where)), x.where);
  const detail::Term found = order.is_named() ? expr_detail::sum_of(s, -1)
                             : p > 0          ? detail::largest_or_zero(s, -1, Keep::no)
                                              : detail::Term(amin(s, -1), x.where);
  return detail::with_kept_axes(found, {rows, columns}, keep);
}

SINTER_DECL Tensor norm(const In& x, NormOrder order, Axes axes, Keep keep) {
  if (!order.is_given()) return vector_norm(x, 2, axes, keep);
  const detail::Term t(x);
  const std::size_t count = axes.empty() ? static_cast<std::size_t>(t.rank()) : axes.list().size();
  if (count == 2) return matrix_norm(t, order, axes.empty() ? Axes{-2, -1} : axes, keep);
  if (count != 1)
    throw ShapeError("norm",
                     "x is " + t.shape().text() + ", and a norm of order " + detail::order_text(order) + " over " +
                         std::to_string(count) + " axes is asked for",
                     x.where, "name one axis (vectors) or two (matrices), or leave the order out");
  if (order.is_named())
    throw UserError("norm", "the order " + detail::order_text(order) + " is one of matrices, one axis is named",
                    x.where);
  return vector_norm(t, order.number(), axes, keep);
}

SINTER_DECL Tensor cond(const In& a, NormOrder order) {
  const detail::Term t = expr_detail::floating(a);
  if (!order.is_named() && std::abs(order.number()) == 2) {
    const detail::Term s(svdvals(t), a.where);
    const detail::Term largest(amax(s, -1), a.where), smallest(amin(s, -1), a.where);
    return order.number() > 0 ? largest / smallest : smallest / largest;
  }
  const InvEx inverse = inv_ex(t);
  const detail::Term is_singular = detail::Term(inverse.info, a.where) != 0.0;
  const detail::Term product = detail::Term(matrix_norm(t, order), a.where) *
                               detail::Term(matrix_norm(In(inverse.inverse, a.where), order), a.where);
  return expr_detail::where_of(is_singular, inf, product);
}

SINTER_DECL Tensor matrix_exp(const In& a) {
  const detail::Term t = expr_detail::floating(a);
  if (!is_complex(t.dtype())) return expr_detail::apply<ops::MatrixExp>(t);
  if (t.rank() < 2 || !(t.shape()[-1] == t.shape()[-2]))
    throw ShapeError("matrix_exp", "a is " + t.shape().text() + ", square matrices (..., n, n) are required", a.where);
  const Dim n = t.shape()[-1];
  return complex_matrices::from_embedded(expr_detail::apply<ops::MatrixExp>(complex_matrices::embedded(t)), n, n);
}

SINTER_DECL Tensor vecdot(const In& x, const In& y, int axis) {
  const detail::Term product = detail::Term(conj(x), x.where) * detail::Term(In(Tensor(y.tensor()), x.where));
  return sum(product, axis);
}
SINTER_DECL Tensor diagonal(const In& a, int offset, int first, int second) {
  return sinter::diagonal(a, offset, first, second);
}

/// By products of neighbours, so that zeros have a derivative.
SINTER_DECL Tensor vander(const In& x, std::optional<Dim> columns) {
  const detail::Term t(x);
  if (t.rank() == 0) throw ShapeError("vander", "x is (), a last axis is required", x.where);
  const Dim count = columns ? *columns : t.shape()[-1];
  Shape ones_shape = t.shape(), rest = t.shape();
  ones_shape.push_back(1);
  if (count < Dim(1)) {
    rest.push_back(0);
    return zeros(rest, {.dtype = t.dtype(), .device = t.value.device()}, x.where);
  }
  rest.push_back(count - 1);
  const Tensor one = ones(ones_shape, {.dtype = t.dtype(), .device = t.value.device()}, x.where);
  const Tensor powers = cumprod(In(expand(In(unsqueeze(t, -1), x.where), rest), x.where), -1);
  return concat({one, cast(In(powers, x.where), t.dtype())}, t.rank(), x.where);
}

SINTER_DECL Tensor tensorinv(const In& a, int ind) {
  const detail::Term t = expr_detail::floating(a);
  const Shape shape = t.shape();
  if (ind < 1 || ind > shape.rank())
    throw ShapeError("tensorinv", "ind is " + std::to_string(ind) + ", a is " + shape.text(), a.where,
                     "it counts the first axes, of which there must be one");
  const Shape first(shape.dims().first(static_cast<std::size_t>(ind)));
  const Shape last(shape.dims().subspan(static_cast<std::size_t>(ind)));
  if (!(first.numel() == last.numel()))
    throw ShapeError("tensorinv",
                     "the product of the first " + std::to_string(ind) + " extents of " + shape.text() +
                         " is not that of the others",
                     a.where);
  Shape result = last;
  for (Dim dim : first) result.push_back(dim);
  return reshape(In(inv(In(reshape(t, {first.numel(), last.numel()}), a.where)), a.where), result);
}

SINTER_DECL Tensor tensorsolve(const In& a, const In& b, Axes axes) {
  detail::Term t = expr_detail::floating(a);
  const detail::Term right = expr_detail::floating(In(Tensor(b.tensor()), a.where));
  std::vector<std::int64_t> to;
  for (std::size_t i = 0; i < axes.list().size(); ++i)
    to.push_back(t.rank() - static_cast<std::int64_t>(axes.list().size()) + static_cast<std::int64_t>(i));
  if (!axes.empty()) t = {movedim(t, axes, to), a.where};
  const Shape shape = t.shape(), given = right.shape();
  const Dim count = given.numel();
  Shape result;
  for (int i = given.rank(); i < shape.rank(); ++i) result.push_back(shape[i]);
  if (shape.rank() < given.rank() || !(result.numel() == count) || !(shape.numel() == count * count))
    throw ShapeError("tensorsolve", "a is " + shape.text() + ", b is " + given.text(), a.where,
                     "the extents of a beyond those of b must have the product of b's");
  const detail::Term matrix(reshape(t, {count, count}), a.where), vector(reshape(right, {count}), a.where);
  return reshape(In(solve(matrix, vector), a.where), result);
}

}  // namespace linalg
SINTER_NAMESPACE_END
