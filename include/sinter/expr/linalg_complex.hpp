// Linear algebra over complex matrices. What is unique is made of real functions of a matrix that stands for the
// complex one, twice as large: [re -im; im re] (least squares, exponentials), or the same with the rows and columns of
// both parts taking turns, of which a triangular matrix is one again (Cholesky, triangular systems), and of which the
// first columns that depend on others are those of the complex matrix (systems, inverses). LU, and what is unique only
// up to phases, is computed as complex numbers (ops/linalg_complex.hpp). Included by .ipp files alone.
#pragma once

#include <sinter/expr/complex.hpp>
#include <sinter/expr/linalg.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/linalg_complex.hpp>

#include <array>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace linalg {
namespace complex_matrices {

using expr_detail::Term;

struct Parts {
  Term re, im;
};
inline Parts parts_of(const Term& z) {
  return {{sinter::real(z), z.where}, {is_complex(z.dtype()) ? sinter::imag(z) : zeros_like(z), z.where}};
}
inline Term whole(const Term& re, const Term& im) { return {sinter::complex(re, im), re.where}; }
inline Term adjoint(const Term& z) { return {transpose(In(conj(z), z.where), -2, -1), z.where}; }
inline Term joined(const Term& a, const Term& b, int axis) {
  return {concat({a.value, b.value}, axis, a.where), a.where};
}
inline Term rows_between(const Term& x, Dim start, Dim end) {
  return {expr_detail::part_of(x, x.rank() - 2, start, end, x.where), x.where};
}
inline Dim extent(const Term& x, int axis) { return x.shape()[axis]; }

// ---- [re -im; im re]

inline Term embedded(const Term& z) {
  const auto [re, im] = parts_of(z);
  return joined(joined(re, -im, -1), joined(im, re, -1), -2);
}
/// [re; im]: the first half of the columns.
inline Term half_embedded(const Term& z) {
  const auto [re, im] = parts_of(z);
  return joined(re, im, -2);
}
inline Term from_half(const Term& x, Dim rows) {
  return whole(rows_between(x, 0, rows), rows_between(x, rows, rows * Dim(2)));
}
/// What [re -im; im re] is of.
inline Term from_embedded(const Term& x, Dim rows, Dim columns) {
  return from_half({expr_detail::part_of(x, x.rank() - 1, 0, columns, x.where), x.where}, rows);
}

// ---- the same with rows, and columns, that take turns

/// The axis before `axis` of both becomes twice as long.
inline Term interleaved(const Term& a, const Term& b, int axis) {
  const int place = a.rank() + axis;  // -1: columns, -2: rows
  Shape shape = a.shape();
  shape.set(place, shape[place] * Dim(2));
  return {reshape(In(stack({a.value, b.value}, place + 1, a.where), a.where), shape), a.where};
}
inline Term with_rows_in_turn(const Parts& z) { return interleaved(z.re, z.im, -2); }
inline Term in_turn(const Parts& z) {
  return interleaved(interleaved(z.re, -z.im, -1), interleaved(z.im, z.re, -1), -2);
}
/// Every second one along an axis (-1, -2), from `first` on.
inline Term every_second(const Term& x, int axis, int first) {
  const int place = x.rank() + axis;
  Shape shape = x.shape();
  const Dim half = shape[place] / Dim(2);
  shape.set(place, half);
  shape.insert(place + 1, 2);
  return {select(In(reshape(x, shape), x.where), place + 1, first), x.where};
}
inline Term from_rows_in_turn(const Term& x) { return whole(every_second(x, -2, 0), every_second(x, -2, 1)); }
inline Term from_in_turn(const Term& x) { return from_rows_in_turn(every_second(x, -1, 0)); }

// ---- functions

struct Triangle {
  bool upper = false, unit = false;
};
/// x with t x = b. Rows are divided by the diagonal, so that what is left has ones there.
inline Term solve_triangle(const Term& t, const Term& b, Triangle kind) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::TriangularSolve::upper, kind.upper);
  attrs.set(ops::TriangularSolve::transposed, false);
  attrs.set(ops::TriangularSolve::unit, true);
  Term scaled = t, right = b;
  if (!kind.unit) {
    const Term diagonal(unsqueeze(In(sinter::diagonal(t, 0, -2, -1), t.where), -1), t.where);
    scaled = t / diagonal;
    right = b / diagonal;
  }
  const Term beside(kind.upper ? triu(scaled, 1) : tril(scaled, -1), t.where);
  const Term matrix = in_turn(parts_of(beside)), columns = with_rows_in_turn(parts_of(right));
  return from_rows_in_turn({expr_detail::record<ops::TriangularSolve>(
                                {Leaf(matrix.value.impl()), Leaf(columns.value.impl())}, std::move(shared), t.where),
                            t.where});
}

/// The real matrix of a Hermitian one. Of the diagonal real parts alone are read; both triangles are there, as the
/// derivative of Cholesky's factorisation is that for symmetric matrices.
inline Term hermitian_in_turn(const Term& z) {
  const auto [re, im] = parts_of(z);
  return in_turn({re, Term(tril(im, -1), z.where) + Term(triu(im, 1), z.where)});
}

/// The number of a row of the complex matrix, from 1 (0 is none), for that of the real one.
inline Term row_in_turn(const Term& number) {
  const Term next(number.value + 1, number.where);
  return {right_shift(next.value, 1, number.where), number.where};
}

/// All results of an op of pairs.
template <class Op>
std::vector<Term> results_of(const Term& z, SharedAttrs attrs = {}) {
  const Term matrix = is_complex(z.dtype()) ? z : whole(z, {zeros_like(z), z.where});
  const Term pairs(view_as_real(matrix), z.where);
  std::array<Leaf, 1> leaves{Leaf(pairs.value.impl())};
  std::vector<Term> results;
  for (Ref<TensorImpl>& value : record_shared_results(op_info<Op>, leaves, std::move(attrs), z.where))
    results.emplace_back(Tensor(std::move(value)), z.where);
  return results;
}
inline Tensor from_pairs(const Term& pairs) { return view_as_complex(pairs); }

inline std::vector<Term> svd_of(const Term& a, Dim steps, bool is_full) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::ComplexSvd::is_full, is_full);
  attrs.set(ops::ComplexSvd::steps, steps);
  return results_of<ops::ComplexSvd>(a, std::move(shared));
}

/// Packed factors (complex), pivots and info.
inline std::vector<Term> lu_of(const Term& a, Dim steps, FactorUse use) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::ComplexLu::use, use);
  attrs.set(ops::ComplexLu::steps, steps);
  std::vector<Term> results = results_of<ops::ComplexLu>(a, std::move(shared));
  results[0] = {from_pairs(results[0]), a.where};
  return results;
}
/// Q (not with QrMode::r) and R.
inline std::vector<Term> qr_of(const Term& a, Dim steps, sinter::QrMode mode) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::ComplexQr::mode, mode);
  attrs.set(ops::ComplexQr::steps, steps);
  std::vector<Term> results = results_of<ops::ComplexQr>(a, std::move(shared));
  for (Term& each : results) each = {from_pairs(each), a.where};
  return results;
}

}  // namespace complex_matrices
}  // namespace linalg
SINTER_NAMESPACE_END
