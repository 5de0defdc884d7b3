// Types and derivatives of factorisations of complex matrices. Gradients are d/d(re) + i d/d(im), PyTorch's convention:
// where formulas for real matrices have a transpose, these have the conjugate transpose.
#pragma once

#include <sinter/ops/linalg_complex.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/linalg_gradients.hpp>
#include <sinter/ops/linalg_vals.hpp>

#include <algorithm>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace linalg_complex_detail {

/// Matrices of complex numbers, or columns of them. Both parts are missing where there is no gradient.
struct Parts {
  Val re, im;
  explicit operator bool() const { return static_cast<bool>(re); }
};
inline Parts operator+(const Parts& a, const Parts& b) { return {a.re + b.re, a.im + b.im}; }
inline Parts operator-(const Parts& a, const Parts& b) { return {a.re - b.re, a.im - b.im}; }
inline Parts operator*(const Parts& a, Val real) { return {a.re * real, a.im * real}; }
inline Parts adjoint(const Parts& a) { return {transpose(a.re), -transpose(a.im)}; }
inline Parts product(const Parts& a, const Parts& b) {
  return {matmul(a.re, b.re) - matmul(a.im, b.im), matmul(a.re, b.im) + matmul(a.im, b.re)};
}
inline Parts choose(Val condition, const Parts& a, const Parts& b) {
  return {where(condition, a.re, b.re), where(condition, a.im, b.im)};
}

inline Parts parts_of(Val pairs) {
  if (!pairs) return {};
  Shape shape = pairs.shape();
  const int last = shape.rank() - 1;
  shape.erase(last);
  return {reshape(slice_axis(pairs, last, 0, 1), shape), reshape(slice_axis(pairs, last, 1, 2), shape)};
}
inline Val pairs_of(const Parts& parts) {
  Shape shape = parts.re.shape();
  const int last = shape.rank();
  shape.push_back(1);
  return apply(op_info<ops::Concat>, {reshape(parts.re, shape), reshape(parts.im, shape)}, Attrs{.axes = {last}});
}
inline Val column(Val x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}
inline Val row(Val x) {
  Shape shape = x.shape();
  shape.insert(shape.rank() - 1, 1);
  return reshape(x, shape);
}
inline Parts column(const Parts& x) { return {column(x.re), column(x.im)}; }
inline Parts row(const Parts& x) { return {row(x.re), row(x.im)}; }

inline Val joined(Val a, Val b, int axis) { return apply(op_info<ops::Concat>, {a, b}, Attrs{.axes = {axis}}); }
/// a^-H b, by [re -im; im re], whose transpose stands for the conjugate transpose.
inline Parts adjoint_solve(const Parts& a, const Parts& b) {
  const int rank = a.re.rank();
  const Dim n = a.re.shape()[-1];
  const Val top = joined(a.re, -a.im, rank - 1), bottom = joined(a.im, a.re, rank - 1);
  Attrs attrs;
  attrs.set(ops::Solve::transposed, true);
  const Val x =
      apply(op_info<ops::Solve>, {joined(top, bottom, rank - 2), joined(b.re, b.im, rank - 2)}, std::move(attrs));
  return {slice_axis(x, rank - 2, 0, n), slice_axis(x, rank - 2, n, n * 2)};
}

/// x with t x = b, where one triangle of t is read. Rows are divided by the diagonal; then rows and columns of both
/// parts take turns, of which a triangle with ones on its diagonal is one again.
struct TriangleOf {
  bool upper = false, unit = false;
};
inline Val in_turn(Val a, Val b, int axis) {
  Shape apart = a.shape(), shape = a.shape();
  apart.insert(axis + 1, 1);
  shape.set(axis, shape[axis] * Dim(2));
  return reshape(joined(reshape(a, apart), reshape(b, apart), axis + 1), shape);
}
inline Val every_second(Val x, int axis, Dim first) {
  Shape apart = x.shape(), shape = x.shape();
  shape.set(axis, shape[axis] / Dim(2));
  apart.set(axis, shape[axis]);
  apart.insert(axis + 1, 2);
  return reshape(slice_axis(reshape(x, apart), axis + 1, first, first + 1), shape);
}
/// x / by. Both are divided by the larger part of `by` first, whose squares could leave the range of the dtype.
inline Parts quotient(const Parts& x, const Parts& by) {
  const Val larger = maximum(abs(by.re), abs(by.im));
  const Parts a{x.re / larger, x.im / larger}, b{by.re / larger, by.im / larger};
  const Val size = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size};
}
inline Parts triangle(const Parts& x, ops_detail::TrianglePart part) {
  return {ops_detail::triangle(x.re, part), ops_detail::triangle(x.im, part)};
}
inline Parts strict_triangle(const Parts& x, bool is_upper) {
  const auto strict = ops_detail::TrianglePart::strictly_lower;
  if (!is_upper) return triangle(x, strict);
  return {transpose(ops_detail::triangle(transpose(x.re), strict)),
          transpose(ops_detail::triangle(transpose(x.im), strict))};
}
inline Parts triangular_solve(const Parts& t, const Parts& b, TriangleOf kind) {
  Parts matrix = t, right = b;
  if (!kind.unit) {
    const Parts diagonal{column(ops_detail::diagonal_of(t.re)), column(ops_detail::diagonal_of(t.im))};
    matrix = quotient(t, diagonal);
    right = quotient(b, diagonal);
  }
  const Parts strict = strict_triangle(matrix, kind.upper);
  const int rows = t.re.rank() - 2, columns = rows + 1;
  const Val whole = in_turn(in_turn(strict.re, -strict.im, columns), in_turn(strict.im, strict.re, columns), rows);
  const Val x =
      ops_detail::triangular_solve(whole, in_turn(right.re, right.im, rows), {.upper = kind.upper, .unit = true});
  return {every_second(x, rows, 0), every_second(x, rows, 1)};
}
/// x with x t^H = b.
inline Parts triangular_solve_right_adjoint(const Parts& t, const Parts& b, TriangleOf kind) {
  return adjoint(triangular_solve(t, adjoint(b), kind));
}
inline Parts block_of(const Parts& x, Dim top, Dim bottom, Dim left, Dim right) {
  const int rank = x.re.rank();
  const auto of = [&](Val part) { return slice_axis(slice_axis(part, rank - 2, top, bottom), rank - 1, left, right); };
  return {of(x.re), of(x.im)};
}
inline Parts joined(const Parts& a, const Parts& b, int axis) {
  return {joined(a.re, b.re, axis), joined(a.im, b.im, axis)};
}
inline Parts zeros_like(const Parts& x) { return {full_like(x.re, 0), full_like(x.im, 0)}; }
/// [gQ + Q M] R^-H, where M is the Hermitian matrix whose lower triangle is that of R gR^H - gQ^H Q.
inline Parts tall_qr_gradient(const Parts& q, const Parts& r, const Parts& dq, const Parts& dr) {
  const Parts mixed = product(r, adjoint(dr)) - product(adjoint(dq), q);
  const Parts strict = triangle(mixed, ops_detail::TrianglePart::strictly_lower);
  Parts whole = strict + adjoint(strict);
  whole.re = whole.re + ops_detail::triangle(mixed.re, ops_detail::TrianglePart::diagonal);
  return triangular_solve_right_adjoint(r, dq + product(q, whole), {.upper = true});
}

inline void require_pairs_of_matrices(const InferArgs& args, bool are_square) {
  const Type& type = args.in[0];
  const Shape& shape = type.shape;
  if (type.dtype != DType::f32 && type.dtype != DType::f64)
    throw DTypeError(args.op, "the operand is " + type.text() + ", it must be f32 or f64", args.where);
  if (shape.rank() < 3 || !(shape[-1] == Dim(2)) || (are_square && !(shape[-2] == shape[-3])))
    throw ShapeError(args.op,
                     "the operand is " + shape.text() + ", " + (are_square ? "square " : "") +
                         "matrices of pairs (..., m, n, 2) are required",
                     args.where);
}
/// As for real matrices (LuFactor).
inline void require_steps(const InferArgs& args, Dim steps) {
  const Dim rows = args.in[0].shape[-3], columns = args.in[0].shape[-2];
  if (!steps.is_static() || !rows.is_static() || !columns.is_static()) return;
  if (steps.value() != std::min(rows.value(), columns.value()))
    throw ShapeError(args.op, "the operand is " + args.in[0].shape.text() + ", steps are " + steps.text(), args.where,
                     "steps are the lesser extent");
}
inline Shape shape_of(const InferArgs& args, std::initializer_list<Dim> after) {
  const Shape& shape = args.in[0].shape;
  Shape out(shape.dims().first(as_index(shape.rank() - 3)));
  for (Dim dim : after) out.push_back(dim);
  return out;
}

}  // namespace linalg_complex_detail

namespace ops {
namespace complex_parts = linalg_complex_detail;
using ops_detail::with_shape;

SINTER_DECL void ComplexLu::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, false);
  complex_parts::require_steps(args, args.attrs[steps]);
  out.push_back(args.in[0]);
  out.push_back(with_shape(args, complex_parts::shape_of(args, {args.attrs[steps]}), DType::i32));
  out.push_back(with_shape(args, complex_parts::shape_of(args, {}), DType::i32));
}
SINTER_DECL void ComplexLu::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
/// That of real matrices (LuFactor) with conjugate transposes.
SINTER_DECL ValList ComplexLu::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  using ops_detail::TrianglePart;
  if (!a.douts[0]) return {Val{}};
  const Parts packed = parts_of(a.outs[0]), given = parts_of(a.douts[0]);
  const Shape shape = packed.re.shape();
  const Dim m = shape[-2], n = shape[-1], k = a.attrs[steps];
  const bool is_tall = !identical(m, k), is_wide = !identical(n, k);
  const int rank = packed.re.rank();
  const Parts square = complex_parts::block_of(packed, 0, k, 0, k), d = complex_parts::block_of(given, 0, k, 0, k);
  const Parts ones_below{ops_detail::triangle(square.re, TrianglePart::unit_lower),
                         ops_detail::triangle(square.im, TrianglePart::strictly_lower)};
  const TriangleOf adjoint_of_lower{.upper = true, .unit = true};
  Parts lower = product(adjoint(ones_below), complex_parts::triangle(d, TrianglePart::strictly_lower));
  Parts upper = product(complex_parts::triangle(d, TrianglePart::upper),
                        adjoint(complex_parts::triangle(square, TrianglePart::upper)));
  Parts below, beside;
  if (is_wide) {
    const Parts d_beside = complex_parts::block_of(given, 0, k, k, n);
    lower = lower - product(d_beside, adjoint(complex_parts::block_of(packed, 0, k, k, n)));
    beside = complex_parts::triangular_solve(adjoint(square), d_beside, adjoint_of_lower);
  }
  if (is_tall) {
    const Parts d_below = complex_parts::block_of(given, k, m, 0, k);
    upper = upper - product(adjoint(complex_parts::block_of(packed, k, m, 0, k)), d_below);
    below = triangular_solve_right_adjoint(square, d_below, {.upper = true});
  }
  const Parts inner = complex_parts::triangle(lower, TrianglePart::strictly_lower) +
                      complex_parts::triangle(upper, TrianglePart::upper);
  Parts gradient = triangular_solve_right_adjoint(
      square, complex_parts::triangular_solve(adjoint(square), inner, adjoint_of_lower), {.upper = true});
  if (is_wide) gradient = complex_parts::joined(gradient, beside, rank - 1);
  if (is_tall) gradient = complex_parts::joined(gradient, below, rank - 2);
  const Val order = ops_detail::permutation_of(a.outs[1], m);
  return {pairs_of({ops_detail::rows_put_back(gradient.re, order), ops_detail::rows_put_back(gradient.im, order)})};
}

SINTER_DECL void ComplexQr::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, false);
  complex_parts::require_steps(args, args.attrs[steps]);
  const Dim rows = args.in[0].shape[-3], columns = args.in[0].shape[-2];
  const Dim inner = args.attrs[mode] == QrMode::complete ? rows : args.attrs[steps];
  if (args.attrs[mode] != QrMode::r) out.push_back(with_shape(args, complex_parts::shape_of(args, {rows, inner, 2})));
  out.push_back(with_shape(args, complex_parts::shape_of(args, {inner, columns, 2})));
}
SINTER_DECL void ComplexQr::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
SINTER_DECL ValList ComplexQr::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  const Shape shape = a.in[0].shape();
  const Dim m = shape[-3], n = shape[-2], k = a.attrs[steps];
  if (a.attrs[mode] == QrMode::r || (a.attrs[mode] == QrMode::complete && !identical(m, k)))
    ops_detail::refuse_qr_derivative(a.attrs[mode], a.where);
  const Parts q = parts_of(a.outs[0]), r = parts_of(a.outs[1]);
  const Parts dq = a.douts[0] ? parts_of(a.douts[0]) : complex_parts::zeros_like(q);
  const Parts dr = a.douts[1] ? parts_of(a.douts[1]) : complex_parts::zeros_like(r);
  if (identical(n, k)) return {pairs_of(complex_parts::tall_qr_gradient(q, r, dq, dr))};
  // a = [x y], R = [u v] with x = Q u and v = Q^H y.
  const Parts dv = complex_parts::block_of(dr, 0, k, k, n), y = complex_parts::block_of(parts_of(a.in[0]), 0, m, k, n);
  const Parts dx = complex_parts::tall_qr_gradient(
      q, complex_parts::block_of(r, 0, k, 0, k), dq + product(y, adjoint(dv)), complex_parts::block_of(dr, 0, k, 0, k));
  return {pairs_of(complex_parts::joined(dx, product(q, dv), q.re.rank() - 1))};
}

SINTER_DECL void ComplexEigh::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, true);
  out.push_back(with_shape(args, complex_parts::shape_of(args, {args.in[0].shape[-2]})));
  out.push_back(args.in[0]);
}
SINTER_DECL void ComplexEigh::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
/// V [gL on the diagonal, V^H gV / (L_j - L_i) beside it] V^H.
SINTER_DECL ValList ComplexEigh::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  const Val l = a.outs[0], dl = a.douts[0];
  const Parts v = parts_of(a.outs[1]), dv = parts_of(a.douts[1]);
  if (!dv) return {dl ? pairs_of(product(v * row(dl), adjoint(v))) : Val{}};
  const Parts inner = product(adjoint(v), dv);
  const Val diagonal = ops_detail::is_on_diagonal(inner.re), zero = number(l, 0);
  const Val gap = reciprocal(where(diagonal, 1, row(l) - column(l)));
  const Parts middle = choose(diagonal, {dl ? row(dl) : zero, zero}, inner * gap);
  return {pairs_of(product(product(v, middle), adjoint(v)))};
}

SINTER_DECL void Eig::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, true);
  out.push_back(with_shape(args, complex_parts::shape_of(args, {args.in[0].shape[-2], 2})));
  out.push_back(args.in[0]);
}
SINTER_DECL void Eig::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
/// V^-H [gL on the diagonal, (V^H gV - V^H V diag(Re(V^H gV))) / conj(L_j - L_i) beside it] V^H: columns of V have norm
/// 1 (Boeddeker et al. 2017).
SINTER_DECL ValList Eig::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  const Parts l = parts_of(a.outs[0]), dl = parts_of(a.douts[0]), v = parts_of(a.outs[1]), dv = parts_of(a.douts[1]);
  if (!dv && !dl) return {Val{}};
  const Parts vh = adjoint(v);
  const Val diagonal = ops_detail::is_on_diagonal(v.re), zero = number(v.re, 0);
  const Parts on_diagonal = dl ? row(dl) : Parts{zero, zero};
  Parts middle = choose(diagonal, on_diagonal, {zero, zero});
  if (dv) {
    const Parts inner = product(vh, dv);
    const Parts turned = inner - product(vh, v) * row(ops_detail::diagonal_of(inner.re));
    const Val re = where(diagonal, 1, row(l.re) - column(l.re)), im = where(diagonal, 0, row(l.im) - column(l.im));
    middle = choose(diagonal, on_diagonal, quotient(turned, {re, -im}));
  }
  return {pairs_of(adjoint_solve(v, product(middle, vh)))};
}

SINTER_DECL void ComplexSvd::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, false);
  complex_parts::require_steps(args, args.attrs[steps]);
  const Dim k = args.attrs[steps], rows = args.in[0].shape[-3], columns = args.in[0].shape[-2];
  const bool full = args.attrs[is_full];
  out.push_back(with_shape(args, complex_parts::shape_of(args, {rows, full ? rows : k, 2})));
  out.push_back(with_shape(args, complex_parts::shape_of(args, {k})));
  out.push_back(with_shape(args, complex_parts::shape_of(args, {full ? columns : k, columns, 2})));
}
SINTER_DECL void ComplexSvd::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
/// That of real matrices with conjugate transposes, and what the phases of the vectors add: i Im(diag(U^H gU)) / S.
SINTER_DECL ValList ComplexSvd::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  const Dim k = a.attrs[steps];
  const auto first = [&](Val x, int axis) { return x ? slice_axis(x, x.rank() + axis, 0, k) : x; };
  const Parts u = parts_of(first(a.outs[0], -2)), vh = parts_of(first(a.outs[2], -3)), v = adjoint(vh);
  const Parts du = parts_of(first(a.douts[0], -2)), dvh = parts_of(first(a.douts[2], -3));
  const Val s = a.outs[1], ds = a.douts[1];
  const Val square = matmul(vh.re, transpose(vh.re)), zero = number(s, 0),
            diagonal = ops_detail::is_on_diagonal(square);
  const Val gap = reciprocal(where(diagonal, 1, (row(s) - column(s)) * (row(s) + column(s))));
  const Val nothing = full_like(square, 0);
  Parts core{where(diagonal, ds ? row(ds) : zero, nothing), nothing};
  if (du) {
    const Parts inner = product(adjoint(u), du), turned = inner - adjoint(inner);
    const Parts beside = turned * gap * row(s), phases{full_like(inner.im, 0), inner.im / row(s)};
    core = core + choose(diagonal, phases, beside);
  }
  if (dvh) {
    const Parts inner = product(vh, adjoint(dvh)), turned = inner - adjoint(inner);
    core = core + choose(diagonal, {nothing, nothing}, turned * gap * column(s));
  }
  Parts gradient = product(product(u, core), vh);
  if (du && !identical(a.in[0].shape()[-3], k))
    gradient = gradient + product((du - product(u, product(adjoint(u), du))) * reciprocal(row(s)), vh);
  if (dvh && !identical(a.in[0].shape()[-2], k))
    gradient = gradient + product(u, (dvh - product(product(dvh, v), vh)) * reciprocal(column(s)));
  return {pairs_of(gradient)};
}

SINTER_DECL Type ComplexDet::infer(const InferArgs& args) {
  complex_parts::require_pairs_of_matrices(args, true);
  return with_shape(args, complex_parts::shape_of(args, {2}));
}
SINTER_DECL Batched ComplexDet::batch(const BatchArgs& args) { return apply(args.op, args.in, args.attrs); }
/// conj(det) a^-H, by factors. A pivot that is 0 stands for a small one, as for real matrices (Det).
SINTER_DECL ValList ComplexDet::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  Attrs attrs;
  attrs.set(ComplexLu::steps, a.in[0].shape()[-2]);
  const ValList factors = ops_detail::apply_results(op_info<ComplexLu>, a.in[0], std::move(attrs));
  Parts lu = parts_of(factors[0]);
  const Parts matrix = parts_of(a.in[0]), given = parts_of(a.dout);
  const int rank = lu.re.rank();
  const bool is_double = a.in[0].dtype() == DType::f64;
  const double epsilon = is_double ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const Val size = sum(abs(matrix.re) + abs(matrix.im), {rank - 2, rank - 1}, kept);
  const Val tiny = where(eq(size, 0), 1, size) * epsilon;
  const Val is_zero = logical_and(eq(lu.re, 0), eq(lu.im, 0));
  const Val is_replaced = logical_and(ops_detail::is_on_diagonal(lu.re), is_zero);
  lu.re = where(is_replaced, tiny, lu.re);
  // a^-H = P^T L^-H U^-H; the product of pivots grows by one factor a step.
  const Val one = ops_detail::identity_like(lu.re), order = ops_detail::permutation_of(factors[1], lu.re.shape()[-1]);
  const Parts half = complex_parts::triangular_solve(adjoint(lu), {one, full_like(one, 0)}, {});
  const Parts turned = complex_parts::triangular_solve(adjoint(lu), half, {.upper = true, .unit = true});
  const Parts inverse{ops_detail::rows_put_back(turned.re, order), ops_detail::rows_put_back(turned.im, order)};
  // By logarithms: products leave the range of f32 where the determinant is in it. The determinant is divided by the
  // size of the matrix, and the inverse multiplied: cofactors are in range where determinants are not. The op's own
  // result has other pivots, in double, which differ from these where a matrix is nearly singular.
  const Val re = ops_detail::diagonal_of(lu.re), im = ops_detail::diagonal_of(lu.im);
  const Val larger = maximum(abs(re), abs(im)), x = re / larger, y = im / larger;
  const Val log_length = sum(log(larger) + log(x * x + y * y) * 0.5, {rank - 2});
  const Val angle = sum(apply(op_info<Atan2>, {im, re}), {rank - 2});
  const Val unit = reshape(where(eq(size, 0), 1, size), angle.shape());
  const Val length = exp(log_length - log(unit)) * ops_detail::permutation_sign(factors[1], re.dtype());
  const Parts conjugate{length * cos(angle), -(length * sin(angle))};
  const Parts factor{given.re * conjugate.re - given.im * conjugate.im,
                     given.re * conjugate.im + given.im * conjugate.re};
  const Val c = column(column(factor.re)), s = column(column(factor.im));
  const Parts sized = inverse * column(column(unit));
  return {pairs_of({sized.re * c - sized.im * s, sized.re * s + sized.im * c})};
}

SINTER_DECL void ComplexLogDet::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, true);
  out.push_back(with_shape(args, complex_parts::shape_of(args, {2})));
  out.push_back(with_shape(args, complex_parts::shape_of(args, {})));
}
SINTER_DECL void ComplexLogDet::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}
/// With d = tr(a^-1 da): the logarithm changes by Re(d), the phase by Im(d). So the gradient is (g + i h) a^-H, where g
/// is that of the logarithm and h = -Im(conj(gradient of sign) sign).
SINTER_DECL ValList ComplexLogDet::vjp(const VjpArgs& a) {
  using namespace complex_parts;
  const Parts sign = parts_of(a.outs[0]), given = parts_of(a.douts[0]), matrix = parts_of(a.in[0]);
  const Val log = a.douts[1];
  if (!given && !log) return {Val{}};
  const Val one = ops_detail::identity_like(matrix.re);
  const Parts inverse = adjoint_solve(matrix, {one, full_like(one, 0)});
  Parts out = log ? inverse * column(column(log)) : Parts{};
  if (given) {
    const Val turn = column(column(given.im * sign.re - given.re * sign.im));  // -Im(conj(given) sign)
    const Parts phase{-inverse.im * turn, inverse.re * turn};
    out = out ? out + phase : phase;
  }
  return {pairs_of(out)};
}

}  // namespace ops
SINTER_NAMESPACE_END
