// From users' operands to factorisations: dtypes, batches, sides and triangles by transposing.
#pragma once

#include <sinter/expr/linalg.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/linalg_complex.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/linalg.hpp>

#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace linalg {
namespace detail {

using expr_detail::Term;
using Results = std::vector<Term>;

/// All results of an op of one operand.
template <class Op>
Results apply_all(const Term& x, SharedAttrs attrs) {
  std::array<Leaf, 1> leaves{Leaf(x.value.impl())};
  Results results;
  for (Ref<TensorImpl>& value : record_shared_results(op_info<Op>, leaves, std::move(attrs), x.where))
    results.emplace_back(Tensor(std::move(value)), x.where);
  return results;
}
template <class Op>
Term apply_pair(const Term& a, const Term& b, SharedAttrs attrs) {
  return {expr_detail::record<Op>({Leaf(a.value.impl()), Leaf(b.value.impl())}, std::move(attrs), a.where), a.where};
}

using complex_matrices::adjoint;
inline bool has_parts(const Term& x) { return is_complex(x.dtype()); }

/// The operand as f32, f64, c64 or c128, with a matrix in its last axes.
inline Term matrices(const In& x, std::string_view op) {
  const Term t = expr_detail::floating(x);
  if (t.dtype() != DType::f32 && t.dtype() != DType::f64 && !has_parts(t))
    throw DTypeError(op, "a is " + std::string(name(t.dtype())) + ", it must be f32, f64, c64 or c128", x.where,
                     "cast it: a.to(DType::f32)");
  if (t.rank() < 2) throw ShapeError(op, "a is " + t.shape().text() + ", matrices (..., m, n) are required", x.where);
  return t;
}
inline Term square_matrices(const In& x, std::string_view op) {
  const Term t = matrices(x, op);
  const Shape shape = t.shape();
  if (!(shape[-1] == shape[-2]))
    throw ShapeError(op, "a is " + shape.text() + ", square matrices (..., n, n) are required", x.where);
  return t;
}
inline Term transposed(const Term& x) { return {transpose(x, -2, -1), x.where}; }
inline Term transposed_if(bool is_wanted, const Term& x) { return is_wanted ? transposed(x) : x; }
inline Term product(const Term& a, const Term& b) { return {matmul(a, b), a.where}; }
inline Shape batch_of(const Term& x, int matrix_axes = 2) {
  const Shape shape = x.shape();
  return Shape(shape.dims().first(as_index(shape.rank() - matrix_axes)));
}
inline Dim rows_of(const Term& x) { return x.shape()[-2]; }
inline Dim columns_of(const Term& x) { return x.shape()[-1]; }
inline Shape followed_by(Shape batch, std::initializer_list<Dim> dims) {
  for (Dim dim : dims) batch.push_back(dim);
  return batch;
}
inline Dim least_extent(const Term& x) {
  const Dim rows = rows_of(x), columns = columns_of(x);
  return identical(rows, columns) || expr_detail::is_at_most(rows, columns) ? rows : columns;
}
/// (n, n), for every matrix of the batch.
inline Term identity(const Term& like, Dim n) {
  const Term one(eye(n, {.dtype = like.dtype(), .device = like.value.device()}, like.where), like.where);
  return {expand(one, followed_by(batch_of(like), {n, n})), like.where};
}

/// Operands of one dtype, with batches that are equal; vectors on the right side as columns.
struct System {
  Term a, b;
  bool is_vector = false;
};
inline System system_of(const In& a, const In& b, bool is_square, std::string_view op) {
  const DType dtype = promote(expr_detail::floating(a).dtype(), expr_detail::floating(b).dtype(), op, a.where);
  System out{{cast(a, dtype), a.where}, {cast(b, dtype), a.where}};
  matrices(out.a, op);
  if (is_square) square_matrices(out.a, op);
  const Shape of_a = out.a.shape(), of_b = out.b.shape();
  out.is_vector = of_b.rank() == 1 ||
                  (of_b.rank() + 1 == of_a.rank() && of_b == Shape(of_a.dims().first(as_index(of_a.rank() - 1))));
  if (out.is_vector) out.b = {unsqueeze(out.b, -1), a.where};
  if (out.b.rank() < 2) throw ShapeError(op, "b is " + of_b.text() + ", a vector or matrices are required", a.where);
  return out;
}
inline void require_size(const System& s, bool is_left, std::string_view op) {
  if (!is_left && s.is_vector)
    throw ShapeError(op, "a is " + s.a.shape().text() + ", b is a vector, and x a = b is asked for", s.a.where,
                     "give the vector a second axis: unsqueeze(b, 0)");
  if (!(rows_of(s.a) == (is_left ? rows_of(s.b) : columns_of(s.b))))
    throw ShapeError(op, "a is " + s.a.shape().text() + ", b is " + s.b.shape().text(), s.a.where,
                     is_left ? "b must have as many rows as a" : "b must have as many columns as a");
}
inline void broadcast_batches(System& s, std::string_view op) {
  const Shape batch = broadcast(batch_of(s.a), batch_of(s.b), op, s.a.where);
  s.a = {expand(s.a, followed_by(batch, {rows_of(s.a), columns_of(s.a)})), s.a.where};
  s.b = {expand(s.b, followed_by(batch, {rows_of(s.b), columns_of(s.b)})), s.a.where};
}
/// `solve(a, b)` on operands of equal batches. One matrix for a batch of right sides is one system of more columns.
template <class F>
Term solved(System s, bool is_left, std::string_view op, const F& solve) {
  require_size(s, is_left, op);
  if (!is_left) s.b = transposed(s.b);
  const Shape shape = s.b.shape();
  Term x = s.b;
  if (s.a.rank() == 2 && shape.rank() > 2) {
    const Term columns(movedim(s.b, -2, 0), s.a.where);
    Shape joined{shape[-2]}, apart{shape[-2]};
    joined.push_back(shape.numel() == Dim(0) ? Dim(0) : Dim(-1));
    for (int i = 0; i < shape.rank(); ++i)
      if (i != shape.rank() - 2) apart.push_back(shape[i]);
    const Term flat(reshape(columns, joined), s.a.where);
    x = {movedim(Term(reshape(solve(s.a, flat), apart), s.a.where), 0, -2), s.a.where};
  } else {
    broadcast_batches(s, op);
    x = solve(s.a, s.b);
  }
  if (!is_left) x = transposed(x);
  return s.is_vector ? Term(squeeze(x, -1), x.where) : x;
}

inline SharedAttrs lu_attrs(const Term& a, FactorUse use) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::LuFactor::use, use);
  attrs.set(ops::LuFactor::steps, least_extent(a));
  return shared;
}
inline Results lu_of(const Term& a, FactorUse use) {
  if (has_parts(a)) return complex_matrices::lu_of(a, least_extent(a), use);
  return apply_all<ops::LuFactor>(a, lu_attrs(a, use));
}
inline Term permutation_of(const Term& pivots, Dim rows) {
  SharedAttrs shared;
  shared.edit().set(ops::LuPermutation::rows, rows);
  return apply_all<ops::LuPermutation>(pivots, std::move(shared))[0];
}
/// Row permutation[i] of x as row i; and the other way.
inline Term permuted_rows(const Term& x, const Term& permutation) {
  if (has_parts(x)) {
    const auto [re, im] = complex_matrices::parts_of(x);
    return complex_matrices::whole(permuted_rows(re, permutation), permuted_rows(im, permutation));
  }
  const int axis = x.rank() - 2;
  return apply_pair<ops::Take>(x, permutation,
                               Attrs{.axes = {axis}}.with(ops::Take::shared, axis).with(ops::Take::inner, 0));
}
inline Term rows_put_back(const Term& x, const Term& permutation) {
  if (has_parts(x)) {
    const auto [re, im] = complex_matrices::parts_of(x);
    return complex_matrices::whole(rows_put_back(re, permutation), rows_put_back(im, permutation));
  }
  const int axis = x.rank() - 2;
  SharedAttrs attrs = Attrs{.axes = {axis}}
                          .with(ops::Scatter::shared, axis)
                          .with(ops::Scatter::inner, 0)
                          .with(ops::Scatter::combine, Combine::none);
  const Tensor base = zeros_like(x);
  return {expr_detail::record<ops::Scatter>({Leaf(base.impl()), Leaf(permutation.value.impl()), Leaf(x.value.impl())},
                                            std::move(attrs), x.where),
          x.where};
}
inline Term solve_general(const Term& a, const Term& b, bool is_transposed, FactorUse use) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::Solve::transposed, is_transposed);
  attrs.set(ops::Solve::use, use);
  return apply_pair<ops::Solve>(a, b, std::move(shared));
}
struct TriangleKind {
  bool upper = false, transposed = false, unit = false;
};
inline Term solve_triangle(const Term& a, const Term& b, TriangleKind kind) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::TriangularSolve::upper, kind.upper);
  attrs.set(ops::TriangularSolve::transposed, kind.transposed);
  attrs.set(ops::TriangularSolve::unit, kind.unit);
  return apply_pair<ops::TriangularSolve>(a, b, std::move(shared));
}

/// For real matrices that stand for complex ones.
inline FactorUse complex_use(FactorUse use) {
  switch (use) {
    case FactorUse::factor: return FactorUse::complex_factor;
    case FactorUse::solve: return FactorUse::complex_solve;
    case FactorUse::inv: return FactorUse::complex_inv;
    case FactorUse::unchecked:
    case FactorUse::complex_factor:
    case FactorUse::complex_solve:
    case FactorUse::complex_inv: return use;
  }
  __builtin_unreachable();
}

inline Results cholesky_of(const In& a, CholeskyOptions options, FactorUse use, std::string_view op) {
  const Term t = square_matrices(a, op);
  SharedAttrs shared;
  shared.edit().set(ops::Cholesky::use, has_parts(t) ? complex_use(use) : use);
  if (has_parts(t)) {
    const Term lower = options.upper ? adjoint(t) : t;
    Results results = apply_all<ops::Cholesky>(complex_matrices::hermitian_in_turn(lower), std::move(shared));
    const Term factor = complex_matrices::from_in_turn(results[0]);
    return {options.upper ? adjoint(factor) : factor, complex_matrices::row_in_turn(results[1])};
  }
  Results results = apply_all<ops::Cholesky>(transposed_if(options.upper, t), std::move(shared));
  results[0] = transposed_if(options.upper, results[0]);
  return results;
}
/// solve_general, of complex operands by real ones.
inline Term solve_any(const Term& a, const Term& b, bool is_transposed, FactorUse use) {
  if (!has_parts(a)) return solve_general(a, b, is_transposed, use);
  const Term matrix = complex_matrices::in_turn(complex_matrices::parts_of(transposed_if(is_transposed, a)));
  const Term right = complex_matrices::with_rows_in_turn(complex_matrices::parts_of(b));
  return complex_matrices::from_rows_in_turn(solve_general(matrix, right, false, complex_use(use)));
}
inline Term solve_general_side(const In& a, const In& b, bool is_left, FactorUse use, std::string_view op) {
  return solved(system_of(a, b, true, op), is_left, op,
                [&](const Term& x, const Term& y) { return solve_any(x, y, !is_left, use); });
}
inline Term inverse_of(const In& a, FactorUse use, std::string_view op) {
  const Term given = square_matrices(a, op);
  if (!has_parts(given)) return solve_general(given, identity(given, rows_of(given)), false, use);
  const Term t = complex_matrices::in_turn(complex_matrices::parts_of(given));
  return complex_matrices::from_in_turn(solve_general(t, identity(t, rows_of(t)), false, complex_use(use)));
}
/// What lu_factor says of the matrices.
inline Tensor info_of(const In& a, std::string_view op) {
  const Term t = square_matrices(a, op);
  if (!has_parts(t)) return lu_of(t, FactorUse::unchecked)[2];
  // Of the same matrix as the solution, which is factored once.
  return complex_matrices::row_in_turn(
      lu_of(complex_matrices::in_turn(complex_matrices::parts_of(t)), FactorUse::unchecked)[2]);
}
/// solve_triangle for either triangle, of complex operands too.
inline Term solve_any_triangle(const Term& a, const Term& b, TriangleKind kind) {
  if (!has_parts(a)) return solve_triangle(a, b, kind);
  return complex_matrices::solve_triangle(transposed_if(kind.transposed, a), b,
                                          {.upper = kind.upper != kind.transposed, .unit = kind.unit});
}

inline Results svd_of(const Term& a, SvdVectors vectors) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::Svd::vectors, vectors);
  attrs.set(ops::Svd::steps, least_extent(a));
  return apply_all<ops::Svd>(a, std::move(shared));
}
inline Term singular_values(const Term& a) {
  if (has_parts(a)) return complex_matrices::svd_of(a, least_extent(a), false)[1];
  return svd_of(a, SvdVectors::none)[0];
}

inline Results qr_of(const Term& a, sinter::QrMode mode) {
  if (has_parts(a)) return complex_matrices::qr_of(a, least_extent(a), mode);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::Qr::mode, mode);
  attrs.set(ops::Qr::steps, least_extent(a));
  return apply_all<ops::Qr>(a, std::move(shared));
}
inline Tensor nothing_like(const Term& x) {
  return zeros(Shape{0}, {.dtype = x.dtype(), .device = x.value.device()}, x.where);
}

/// atol and rtol, as numbers of the operand's dtype.
struct Tolerances {
  Term absolute, relative;
};
inline Tolerances tolerances_of(const Term& given, RankOptions options) {
  const Term a = has_parts(given) ? Term(real(given), given.where) : given;
  const auto number = [&](double value) {
    return Term(full({}, value, {.dtype = a.dtype(), .device = Device::cpu()}, a.where), a.where);
  };
  const bool has_standard = !options.rtol && !(options.atol.value_or(0) > 0);
  const double epsilon = a.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
  const Term rows = expr_detail::count_of(a, {a.rank() - 2}), columns = expr_detail::count_of(a, {a.rank() - 1});
  return {number(options.atol.value_or(0)),
          has_standard ? expr_detail::apply<ops::Maximum>(rows, columns) * epsilon : number(options.rtol.value_or(0))};
}
/// Whether each singular value (in descending order, along the last axis) counts.
inline Term counts(const Term& s, const Tolerances& tolerances) {
  const Term largest(expr_detail::part_of(s, s.rank() - 1, 0, 1, s.where), s.where);
  return expr_detail::apply<ops::Gt>(
      s, expr_detail::apply<ops::Maximum>(tolerances.absolute, tolerances.relative * largest));
}
inline bool is_empty(Dim extent) { return extent.is_static() && extent.value() == 0; }

}  // namespace detail

// ---- Cholesky

SINTER_DECL Tensor cholesky(const In& a, CholeskyOptions options) {
  return detail::cholesky_of(a, options, FactorUse::factor, "cholesky")[0];
}
SINTER_DECL CholeskyEx cholesky_ex(const In& a, CholeskyOptions options) {
  const detail::Results results = detail::cholesky_of(a, options, FactorUse::unchecked, "cholesky_ex");
  return {results[0], results[1]};
}
SINTER_DECL Tensor cholesky_solve(const In& b, const In& factor, CholeskyOptions options) {
  const In a(Tensor(factor.tensor()), b.where);
  return detail::solved(detail::system_of(a, b, true, "cholesky_solve"), true, "cholesky_solve",
                        [&](const detail::Term& f, const detail::Term& y) {
                          const bool upper = options.upper;
                          if (detail::has_parts(f)) {
                            const detail::Term turned = detail::adjoint(f);
                            const auto half = detail::solve_any_triangle(upper ? turned : f, y, {});
                            return detail::solve_any_triangle(upper ? f : turned, half, {.upper = true});
                          }
                          const auto half = detail::solve_triangle(f, y, {.upper = upper, .transposed = upper});
                          return detail::solve_triangle(f, half, {.upper = upper, .transposed = !upper});
                        });
}
SINTER_DECL Tensor cholesky_inverse(const In& factor, CholeskyOptions options) {
  const detail::Term f = detail::square_matrices(factor, "cholesky_inverse");
  return cholesky_solve(detail::identity(f, detail::rows_of(f)), f, options);
}

// ---- LU, solving, inverses, determinants

SINTER_DECL Lu lu(const In& a) {
  const detail::Term t = detail::matrices(a, "lu");
  const Dim k = detail::least_extent(t), m = detail::rows_of(t);
  const detail::Results results = detail::lu_of(t, FactorUse::unchecked);
  const detail::Term packed = results[0], order = detail::permutation_of(results[1], m);
  const int rank = t.rank();
  const detail::Term left(expr_detail::part_of(packed, rank - 1, 0, k, a.where), a.where);
  const detail::Term right(expr_detail::part_of(packed, rank - 2, 0, k, a.where), a.where);
  const detail::Term one(eye(m, k, 0, {.dtype = t.dtype(), .device = t.value.device()}, a.where), a.where);
  const Tensor row =
      reshape(In(arange(m, {.dtype = DType::i64, .device = t.value.device()}, a.where), a.where), {m, 1});
  const Tensor p = cast(In(Tensor(row == unsqueeze(order, -2)), a.where), t.dtype());
  return {p, detail::Term(tril(left, -1), a.where) + one, triu(right)};
}
SINTER_DECL LuFactors lu_factor(const In& a) {
  const detail::Results results = detail::lu_of(detail::matrices(a, "lu_factor"), FactorUse::factor);
  return {results[0], results[1]};
}
SINTER_DECL LuFactorEx lu_factor_ex(const In& a) {
  const detail::Results results = detail::lu_of(detail::matrices(a, "lu_factor_ex"), FactorUse::unchecked);
  return {results[0], results[1], results[2]};
}
SINTER_DECL Tensor lu_solve(const In& lu, const In& pivots, const In& b, LuSolveOptions options) {
  using detail::Term;
  const Term packed = detail::square_matrices(lu, "lu_solve"), given(Tensor(pivots.tensor()), lu.where);
  if (given.dtype() != DType::i32)
    throw DTypeError("lu_solve", "pivots are " + given.value.impl()->type.text() + ", i32 is required", lu.where,
                     "give both results of lu_factor");
  if (given.rank() + 1 != packed.rank() || !(given.shape()[-1] == detail::rows_of(packed)))
    throw ShapeError("lu_solve", "pivots are " + given.value.impl()->type.text() + ", lu is " + packed.shape().text(),
                     lu.where, "give both results of lu_factor");
  const Dim n = detail::rows_of(packed);
  const Term order = detail::permutation_of(given, n);
  const bool is_transposed = options.left == options.adjoint;
  const auto solve = [&](const Term& factors, const Term& y) {
    const Term f = options.adjoint ? Term(conj(factors), lu.where) : factors;
    const Term rows(expand(order, detail::followed_by(detail::batch_of(f), {n})), lu.where);
    if (!is_transposed) {
      const Term half = detail::solve_any_triangle(f, detail::permuted_rows(y, rows), {.unit = true});
      return detail::solve_any_triangle(f, half, {.upper = true});
    }
    const Term half = detail::solve_any_triangle(f, y, {.upper = true, .transposed = true});
    return detail::rows_put_back(detail::solve_any_triangle(f, half, {.transposed = true, .unit = true}), rows);
  };
  return detail::solved(detail::system_of(packed, b, true, "lu_solve"), options.left, "lu_solve", solve);
}

SINTER_DECL Tensor solve(const In& a, const In& b, SolveOptions options) {
  return detail::solve_general_side(a, b, options.left, FactorUse::solve, "solve");
}
SINTER_DECL SolveEx solve_ex(const In& a, const In& b, SolveOptions options) {
  return {detail::solve_general_side(a, b, options.left, FactorUse::unchecked, "solve_ex"),
          detail::info_of(a, "solve_ex")};
}
SINTER_DECL Tensor solve_triangular(const In& a, const In& b, SolveTriangularOptions options) {
  const detail::TriangleKind kind{options.upper, !options.left, options.unitriangular};
  return detail::solved(
      detail::system_of(a, b, true, "solve_triangular"), options.left, "solve_triangular",
      [&](const detail::Term& x, const detail::Term& y) { return detail::solve_any_triangle(x, y, kind); });
}
SINTER_DECL Tensor inv(const In& a) { return detail::inverse_of(a, FactorUse::inv, "inv"); }
SINTER_DECL InvEx inv_ex(const In& a) {
  return {detail::inverse_of(a, FactorUse::unchecked, "inv_ex"), detail::info_of(a, "inv_ex")};
}
SINTER_DECL Tensor det(const In& a) {
  const detail::Term t = detail::square_matrices(a, "det");
  if (!detail::has_parts(t)) return expr_detail::apply<ops::Det>(t);
  return complex_matrices::from_pairs(complex_matrices::results_of<ops::ComplexDet>(t)[0]);
}
SINTER_DECL Slogdet slogdet(const In& a) {
  using detail::Term;
  const Term t = detail::square_matrices(a, "slogdet");
  if (detail::has_parts(t)) {
    const detail::Results found = complex_matrices::results_of<ops::ComplexLogDet>(t);
    return {complex_matrices::from_pairs(found[0]), found[1]};
  }
  const detail::Results lu = detail::lu_of(t, FactorUse::unchecked);
  const Term pivots = lu[1], diagonal(sinter::diagonal(lu[0], 0, -2, -1), a.where);
  const TensorOptions integers{.dtype = DType::i32, .device = t.value.device()};
  const Term step(arange(detail::rows_of(t), integers, a.where), a.where);
  const Term exchanges(sum(In(cast(pivots != step + 1, DType::i32), a.where), -1), a.where);
  const Term is_odd(
      cast(expr_detail::apply<ops::Rem>(
               exchanges, Term(full({}, 2, {.dtype = DType::i32, .device = Device::cpu()}, a.where), a.where)),
           t.dtype()),
      a.where);
  const Term signs = expr_detail::apply<ops::Sign>(diagonal);
  const Term sign = (1.0 - 2.0 * is_odd) * Term(prod(signs, -1), a.where);
  return {sign, sum(expr_detail::apply<ops::Log>(expr_detail::absolute(diagonal)), -1)};
}

// ---- orthogonal decompositions

SINTER_DECL Qr qr(const In& a, QrMode mode) {
  const detail::Term t = detail::matrices(a, "qr");
  const detail::Results results = detail::qr_of(t, static_cast<sinter::QrMode>(mode));
  if (mode == QrMode::r) return {detail::nothing_like(t), results[0]};
  return {results[0], results[1]};
}

/// The product is I - V T V^H with T = (I + diag(tau) S)^-1 diag(tau), S the part of V^H V above its diagonal
/// (Schreiber and Van Loan 1989).
SINTER_DECL Tensor householder_product(const In& a, const In& tau) {
  using detail::Term;
  const Term given = detail::matrices(a, "householder_product");
  const DType common = promote(given.dtype(), tau.tensor()->type.dtype, "householder_product", a.where);
  const Term t(cast(given, common), a.where);
  const Term factors(cast(tau, t.dtype()), a.where);
  const Shape shape = t.shape();
  const Dim m = shape[-2], n = shape[-1];
  if (!expr_detail::is_at_most(n, m))
    throw ShapeError("householder_product", "a is " + shape.text() + ", as many rows as columns are required", a.where);
  if (factors.rank() + 1 != t.rank() || !expr_detail::is_at_most(factors.shape()[-1], n))
    throw ShapeError("householder_product", "a is " + shape.text() + ", tau is " + factors.shape().text(), a.where,
                     "tau has one number for each reflection, at most as many as a has columns");
  const Dim k = factors.shape()[-1];
  const TensorOptions like{.dtype = t.dtype(), .device = t.value.device()};
  const Term below(tril(Term(expr_detail::part_of(t, t.rank() - 1, 0, k, a.where), a.where), -1), a.where);
  const Term v = below + Term(eye(m, k, 0, like, a.where), a.where), turned = detail::adjoint(v);
  const Term scale(unsqueeze(factors, -1), a.where);
  const Term scaled = scale * Term(triu(detail::product(turned, v), 1), a.where);
  const Term first(narrow(turned, -1, 0, n), a.where);
  const Term inner = detail::solve_any_triangle(scaled, scale * first, {.upper = true, .unit = true});
  return Term(eye(m, n, 0, like, a.where), a.where) - detail::product(v, inner);
}

SINTER_DECL Svd svd(const In& a, SvdOptions options) {
  const detail::Term t = detail::matrices(a, "svd");
  if (detail::has_parts(t)) {
    const detail::Results parts = complex_matrices::svd_of(t, detail::least_extent(t), options.full_matrices);
    return {complex_matrices::from_pairs(parts[0]), parts[1], complex_matrices::from_pairs(parts[2])};
  }
  const detail::Results results = detail::svd_of(t, options.full_matrices ? SvdVectors::full : SvdVectors::thin);
  return {results[0], results[1], results[2]};
}
SINTER_DECL Tensor svdvals(const In& a) { return detail::singular_values(detail::matrices(a, "svdvals")); }

namespace detail {
inline Eigh complex_eigh(const Term& t, EighOptions options) {
  const Results found = complex_matrices::results_of<ops::ComplexEigh>(options.upper ? adjoint(t) : t);
  return {found[0], complex_matrices::from_pairs(found[1])};
}
}  // namespace detail
SINTER_DECL Eigh eigh(const In& a, EighOptions options) {
  const detail::Term t = detail::square_matrices(a, "eigh");
  if (detail::has_parts(t)) return detail::complex_eigh(t, options);
  const detail::Results results = detail::apply_all<ops::Eigh>(detail::transposed_if(options.upper, t), {});
  return {results[0], results[1]};
}
SINTER_DECL Tensor eigvalsh(const In& a, EighOptions options) {
  const detail::Term t = detail::square_matrices(a, "eigvalsh");
  if (detail::has_parts(t)) return detail::complex_eigh(t, options).eigenvalues;
  SharedAttrs shared;
  shared.edit().set(ops::Eigh::values_only, true);
  return detail::apply_all<ops::Eigh>(detail::transposed_if(options.upper, t), std::move(shared))[0];
}

SINTER_DECL Eig eig(const In& a) {
  const detail::Term t = detail::square_matrices(a, "eig");
  const detail::Results found = complex_matrices::results_of<ops::Eig>(t);
  return {complex_matrices::from_pairs(found[0]), complex_matrices::from_pairs(found[1])};
}
SINTER_DECL Tensor eigvals(const In& a) {
  const detail::Term t = detail::square_matrices(a, "eigvals");
  return complex_matrices::from_pairs(complex_matrices::results_of<ops::Eig>(t)[0]);
}

// ---- by singular values

SINTER_DECL Tensor matrix_rank(const In& a, RankOptions options) {
  const detail::Term t = detail::matrices(a, "matrix_rank");
  if (detail::is_empty(detail::rows_of(t)) || detail::is_empty(detail::columns_of(t)))
    return zeros(detail::batch_of(t), {.dtype = DType::i64, .device = t.value.device()}, a.where);
  const detail::Term counted = detail::counts(detail::singular_values(t), detail::tolerances_of(t, options));
  return sum(In(cast(counted, DType::i64), a.where), -1);
}
SINTER_DECL Tensor pinv(const In& a, RankOptions options) {
  const detail::Term t = detail::matrices(a, "pinv");
  const Dim m = detail::rows_of(t), n = detail::columns_of(t);
  if (detail::is_empty(m) || detail::is_empty(n))
    return zeros(detail::followed_by(detail::batch_of(t), {n, m}), {.dtype = t.dtype(), .device = t.value.device()},
                 a.where);
  const detail::Tolerances tolerances = detail::tolerances_of(t, options);
  const detail::Term matrix = detail::has_parts(t) ? complex_matrices::embedded(t) : t;
  SharedAttrs shared;
  shared.edit().set(ops::Pinv::steps, detail::least_extent(matrix));
  const detail::Term found(
      expr_detail::record<ops::Pinv>(
          {Leaf(matrix.value.impl()), Leaf(tolerances.absolute.value.impl()), Leaf(tolerances.relative.value.impl())},
          std::move(shared), a.where),
      a.where);
  return detail::has_parts(t) ? complex_matrices::from_embedded(found, n, m) : found;
}

namespace detail {
/// By QR of a, or of its transpose: x = r^-1 q^T b, x = q r^-T b.
inline Term full_rank_solution(const Term& a, const Term& b) {
  const bool is_tall = identical(rows_of(a), columns_of(a)) || expr_detail::is_at_most(columns_of(a), rows_of(a));
  const Results parts = qr_of(transposed_if(!is_tall, a), sinter::QrMode::reduced);
  if (is_tall) return solve_triangle(parts[1], product(transposed(parts[0]), b), {.upper = true});
  return product(parts[0], solve_triangle(parts[1], b, {.upper = true, .transposed = true}));
}
}  // namespace detail

SINTER_DECL Lstsq lstsq(const In& a, const In& b, LstsqOptions options) {
  using detail::Term;
  detail::System s = detail::system_of(a, b, false, "lstsq");
  detail::require_size(s, true, "lstsq");
  detail::broadcast_batches(s, "lstsq");
  const Shape batch = detail::batch_of(s.a);
  Term x = s.b;
  const bool has_parts = detail::has_parts(s.a);
  Tensor rank, values = detail::nothing_like(has_parts ? Term(real(s.a), a.where) : s.a);
  if (options.driver == LstsqDriver::gels) {
    x = has_parts ? complex_matrices::from_half(detail::full_rank_solution(complex_matrices::embedded(s.a),
                                                                           complex_matrices::half_embedded(s.b)),
                                                detail::columns_of(s.a))
                  : detail::full_rank_solution(s.a, s.b);
    rank = expand(In(detail::least_extent(s.a), a.where), batch);
  } else {
    const RankOptions tolerances{.rtol = options.rcond};
    x = detail::product(Term(pinv(s.a, tolerances), a.where), s.b);
    values = svdvals(s.a);
    rank = matrix_rank(s.a, tolerances);
  }
  const Term rest = detail::product(s.a, x) - s.b;
  const Tensor residuals = sum(expr_detail::squared(has_parts ? expr_detail::absolute(rest) : rest), -2);
  if (!s.is_vector) return {x, residuals, rank, values};
  return {squeeze(x, -1), squeeze(In(residuals, a.where), -1), rank, values};
}

}  // namespace linalg
SINTER_NAMESPACE_END
