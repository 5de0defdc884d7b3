// Derivatives of factorisations. Those of Cholesky, QR and eigenvectors are in Giles 2008 and Walter and Lehmann 2018.
#pragma once

#include <sinter/ops/linalg_gradients.hpp>

#include <sinter/ops/join.hpp>
#include <sinter/ops/linalg_vals.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline Val joined(Val a, Val b, int axis) { return apply(op_info<ops::Concat>, {a, b}, Attrs{.axes = {axis}}); }
/// Rows [top, bottom) and columns [left, right) of matrices.
inline Val block_of(Val x, Dim top, Dim bottom, Dim left, Dim right) {
  const int rank = x.rank();
  return slice_axis(slice_axis(x, rank - 2, top, bottom), rank - 1, left, right);
}
/// Vectors as columns (rows) of extent 1.
inline Val as_column(Val x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}
inline Val as_row(Val x) {
  Shape shape = x.shape();
  shape.insert(shape.rank() - 1, 1);
  return reshape(x, shape);
}
inline Val add_if_there(Val sum, Val x) { return !sum ? x : !x ? sum : sum + x; }
/// Gradient `dout`, or zeros where nobody asks for the result.
inline Val gradient_or_zeros(Val dout, Val out) { return dout ? dout : full_like(out, 0); }

/// The lower triangle, and the same above the diagonal.
inline Val symmetric_from_lower(Val x) {
  return triangle(x, TrianglePart::lower) + transpose(triangle(x, TrianglePart::strictly_lower));
}

/// [gQ + Q sym(R gR^T - gQ^T Q)] R^-T.
SINTER_DECL Val tall_qr_gradient(Val q, Val r, Val dq, Val dr) {
  const Val mixed = matmul(r, transpose(dr)) - matmul(transpose(dq), q);
  return triangular_solve_right(r, dq + matmul(q, symmetric_from_lower(mixed)), {.upper = true, .transposed = true});
}

/// x - x^T, divided by the differences of the squares of singular values.
inline Val turned_by(Val x, Val s) {
  const Val rows = as_column(s), columns = as_row(s), diagonal = is_on_diagonal(x);
  const Val gap = where(diagonal, 1, (columns - rows) * (columns + rows));
  return (x - transpose(x)) / gap;
}

SINTER_DECL Val svd_gradient(Val u, Val s, Val vh, Val du, Val ds, Val dvh) {
  const Val v = transpose(vh);
  Val core = ds ? where(is_on_diagonal(matmul(vh, v)), as_row(ds), 0) : Val{};
  if (du) core = add_if_there(core, turned_by(matmul(transpose(u), du), s) * as_row(s));
  if (dvh) core = add_if_there(core, as_column(s) * turned_by(matmul(vh, transpose(dvh)), s));
  Val gradient = matmul(matmul(u, core), vh);
  const Shape rows = u.shape(), columns = vh.shape();
  if (du && !identical(rows[-1], rows[-2]))
    gradient = gradient + matmul((du - matmul(u, matmul(transpose(u), du))) / as_row(s), vh);
  if (dvh && !identical(columns[-1], columns[-2]))
    gradient = gradient + matmul(u, (dvh - matmul(matmul(dvh, v), vh)) / as_column(s));
  return gradient;
}

SINTER_DECL void refuse_qr_derivative(QrMode mode, Location where) {
  const bool is_r = mode == QrMode::r;
  throw UserError("qr",
                  is_r ? "R alone has no derivative, and a gradient is asked for"
                       : "the complete Q of more rows than columns has no derivative, and a gradient is asked for",
                  where, "QrMode::reduced has one");
}

}  // namespace ops_detail

namespace ops {
using ops_detail::TrianglePart;

/// With P the lower triangle of L^T gL and half its diagonal: the symmetric part of L^-T P L^-1.
SINTER_DECL ValList Cholesky::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  const Val l = a.outs[0];
  if (!a.douts[0]) return {Val{}};
  const Val inner = triangle(matmul(transpose(l), a.douts[0]), TrianglePart::lower_half_diagonal);
  const Val whole = triangular_solve_right(l, triangular_solve(l, inner, {.transposed = true}), {});
  return {(whole + transpose(whole)) * 0.5};
}

/// Of the square part: L^-T [strictly lower of L^T gL, upper of gU U^T] U^-T; what is below it or beside it follows
/// from it by a triangular system, and its gradient goes back through that.
SINTER_DECL ValList LuFactor::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  if (!a.douts[0]) return {Val{}};
  const Val packed = a.outs[0], given = a.douts[0];
  const Shape shape = packed.shape();
  const Dim m = shape[-2], n = shape[-1], k = a.attrs[steps];
  const bool is_tall = !identical(m, k), is_wide = !identical(n, k);
  const int rank = packed.rank();
  const Val square = block_of(packed, 0, k, 0, k), d = block_of(given, 0, k, 0, k);
  Val lower = matmul(transpose(triangle(square, TrianglePart::unit_lower)), triangle(d, TrianglePart::strictly_lower));
  Val upper = matmul(triangle(d, TrianglePart::upper), transpose(triangle(square, TrianglePart::upper)));
  Val below, beside;
  if (is_wide) {
    const Val d_beside = block_of(given, 0, k, k, n);
    lower = lower - matmul(d_beside, transpose(block_of(packed, 0, k, k, n)));
    beside = triangular_solve(square, d_beside, {.transposed = true, .unit = true});
  }
  if (is_tall) {
    const Val d_below = block_of(given, k, m, 0, k);
    upper = upper - matmul(transpose(block_of(packed, k, m, 0, k)), d_below);
    below = triangular_solve_right(square, d_below, {.upper = true, .transposed = true});
  }
  const Val inner = triangle(lower, TrianglePart::strictly_lower) + triangle(upper, TrianglePart::upper);
  Val gradient = triangular_solve_right(square, triangular_solve(square, inner, {.transposed = true, .unit = true}),
                                        {.upper = true, .transposed = true});
  if (is_wide) gradient = joined(gradient, beside, rank - 1);
  if (is_tall) gradient = joined(gradient, below, rank - 2);
  return {rows_put_back(gradient, permutation_of(a.outs[1], m))};
}

/// gb = op(a)^-T gx; ga = -gb x^T, or its transpose, in the triangle that is read.
SINTER_DECL ValList TriangularSolve::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  const Triangular options{a.attrs[upper], a.attrs[transposed], a.attrs[unit]};
  const Val db = triangular_solve(a.in[0], a.dout, {options.upper, !options.transposed, options.unit});
  if (!a.needs(0)) return {Val{}, db};
  const Val product = options.transposed ? matmul(a.out, transpose(db)) : matmul(db, transpose(a.out));
  if (options.unit) {
    const Val strict = options.upper ? transpose(triangle(transpose(product), TrianglePart::strictly_lower))
                                     : triangle(product, TrianglePart::strictly_lower);
    return {-strict, db};
  }
  return {-triangle(product, options.upper ? TrianglePart::upper : TrianglePart::lower), db};
}

SINTER_DECL ValList Qr::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  const Shape shape = a.in[0].shape();
  const Dim m = shape[-2], n = shape[-1], k = a.attrs[steps];
  if (a.attrs[mode] == QrMode::r || (a.attrs[mode] == QrMode::complete && !identical(m, k)))
    refuse_qr_derivative(a.attrs[mode], a.where);
  const Val q = a.outs[0], r = a.outs[1];
  const Val dq = gradient_or_zeros(a.douts[0], q), dr = gradient_or_zeros(a.douts[1], r);
  if (identical(n, k)) return {tall_qr_gradient(q, r, dq, dr)};
  // a = [x y], R = [u v] with x = Q u and v = Q^T y.
  const Val dv = block_of(dr, 0, k, k, n), y = block_of(a.in[0], 0, m, k, n);
  const Val dx = tall_qr_gradient(q, block_of(r, 0, k, 0, k), dq + matmul(y, transpose(dv)), block_of(dr, 0, k, 0, k));
  return {joined(dx, matmul(q, dv), shape.rank() - 1)};
}

/// The vectors of a full SVD beyond the first ones are any orthonormal ones: no gradient comes through them.
SINTER_DECL ValList Svd::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  const SvdVectors made = a.attrs[vectors];
  const Dim k = a.attrs[steps];
  if (made == SvdVectors::none) {
    Attrs attrs = a.attrs;
    attrs.set(vectors, SvdVectors::thin);
    const ValList thin = apply_results(op_info<Svd>, a.in[0], std::move(attrs));
    return {svd_gradient(thin[0], thin[1], thin[2], Val{}, a.dout, Val{})};
  }
  const auto first = [&](Val x, int axis) { return x ? slice_axis(x, x.rank() + axis, 0, k) : x; };
  return {svd_gradient(first(a.outs[0], -1), a.outs[1], first(a.outs[2], -2), first(a.douts[0], -1), a.douts[1],
                       first(a.douts[2], -2))};
}

/// V [gL on the diagonal, V^T gV / (L_j - L_i) beside it] V^T.
SINTER_DECL ValList Eigh::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  ValList full{a.outs[0], a.attrs[values_only] ? Val{} : a.outs[1]};
  const Val dl = a.douts[0], dv = a.attrs[values_only] ? Val{} : a.douts[1];
  if (!full[1]) full = apply_results(op_info<Eigh>, a.in[0]);
  const Val l = full[0], v = full[1];
  if (!dv) return {matmul(v * as_row(dl), transpose(v))};
  const Val inner = matmul(transpose(v), dv), diagonal = is_on_diagonal(inner);
  const Val turned = inner / where(diagonal, 1, as_row(l) - as_column(l));
  return {matmul(matmul(v, where(diagonal, dl ? as_row(dl) : number(inner, 0), turned)), transpose(v))};
}

/// The upper right block of exp([a^T g; 0 a^T]) (Mathias 1996).
SINTER_DECL ValList MatrixExp::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  const Val turned = transpose(a.in[0]);
  const int rank = turned.rank();
  const Dim n = turned.shape()[-1];
  const Val top = joined(turned, a.dout, rank - 1), bottom = joined(full_like(turned, 0), turned, rank - 1);
  return {block_of(apply(op_info<MatrixExp>, {joined(top, bottom, rank - 2)}), 0, n, n, n * 2)};
}

/// gb = a^-T gx; ga = -gb x^T.
SINTER_DECL ValList Solve::vjp(const VjpArgs& a) {
  Attrs attrs = a.attrs;
  attrs.set(transposed, !a.attrs[transposed]);
  // Right sides are others than the identity.
  if (a.attrs[use] == FactorUse::inv) attrs.set(use, FactorUse::solve);
  if (a.attrs[use] == FactorUse::complex_inv) attrs.set(use, FactorUse::complex_solve);
  const Val db = apply(op_info<Solve>, {a.in[0], a.dout}, std::move(attrs));
  if (!a.needs(0)) return {Val{}, db};
  return {-(a.attrs[transposed] ? matmul(a.out, transpose(db)) : matmul(db, transpose(a.out))), db};
}

/// Those of solve, inv and det.
SINTER_DECL ValList SmallSolve::vjp(const VjpArgs& a) {
  Attrs attrs = a.attrs;
  attrs.set(made, SmallResult::solution);
  attrs.set(transposed, !a.attrs[transposed]);
  if (a.attrs[made] == SmallResult::determinant) return Det::vjp(a);
  const Val db = apply(op_info<SmallSolve>, {a.in[0], a.dout}, std::move(attrs));
  const Val da = -(a.attrs[transposed] ? matmul(a.out, transpose(db)) : matmul(db, transpose(a.out)));
  if (a.attrs[made] == SmallResult::inverse) return {da};
  return {a.needs(0) ? da : Val{}, db};
}

/// Golub and Pereyra 1973, in the order of products that is smaller.
SINTER_DECL ValList Pinv::vjp(const VjpArgs& v) {
  const Val a = v.in[0], p = v.out, pt = transpose(p), d = transpose(v.dout);
  if (identical(a.shape()[-2], v.attrs[steps])) {
    const Val k = matmul(d, p), kpt = matmul(k, pt);
    return {-transpose(matmul(p, k)) + kpt - matmul(matmul(a, p), kpt) + matmul(matmul(pt, p), d - matmul(k, a)), Val{},
            Val{}};
  }
  const Val k = matmul(p, d), ptk = matmul(pt, k);
  return {-transpose(matmul(k, p)) + matmul(matmul(d - matmul(a, k), p), pt) + ptk - matmul(matmul(ptk, p), a), Val{},
          Val{}};
}

/// Cofactors are det(a) a^-T. A pivot that is 0 stands for a small one: the product is right up to rounding.
SINTER_DECL ValList Det::vjp(const VjpArgs& a) {
  using namespace ops_detail;
  Factors lu = lu_of(a.in[0], FactorUse::unchecked);
  const int rank = lu.packed.rank();
  const bool is_double = a.in[0].dtype() == DType::f64;
  const double epsilon = is_double ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const Val size = sum(abs(a.in[0]), {rank - 2, rank - 1}, kept);  // of no elements too
  const Val tiny = where(eq(size, 0), 1, size) * epsilon;
  lu.packed = where(logical_and(is_on_diagonal(lu.packed), eq(lu.packed, 0)), tiny, lu.packed);
  const Val diagonal = diagonal_of(lu.packed);
  const Val determinant = prod(diagonal, {rank - 2}) * permutation_sign(lu.pivots, diagonal.dtype());
  return {as_column(as_column(a.dout * determinant)) * solve_by(lu, identity_like(a.in[0]), true)};
}

}  // namespace ops
SINTER_NAMESPACE_END
