// Types and derivatives of factorisations of complex matrices. Gradients are d/d(re) + i d/d(im), PyTorch's convention:
// where formulas for real matrices have a transpose, these have the conjugate transpose.
#pragma once

#include <sinter/ops/linalg_complex.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/linalg_vals.hpp>

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
    const Val size = re * re + im * im;  // x / conj(gap) = x gap / |gap|^2
    const Parts divided{(turned.re * re - turned.im * im) / size, (turned.re * im + turned.im * re) / size};
    middle = choose(diagonal, on_diagonal, divided);
  }
  return {pairs_of(adjoint_solve(v, product(middle, vh)))};
}

SINTER_DECL void ComplexSvd::infer(const InferArgs& args, TypeList& out) {
  complex_parts::require_pairs_of_matrices(args, false);
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
