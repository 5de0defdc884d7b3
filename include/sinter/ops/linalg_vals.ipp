// Triangles by comparing row and column numbers; permutations by take and scatter.
#pragma once

#include <sinter/ops/linalg_vals.hpp>

#include <sinter/graph/builder.hpp>
#include <sinter/ops/binary.hpp>
#include <sinter/ops/take.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

SINTER_DECL ValList apply_results(const OpInfo& op, Val x, Attrs attrs) {
  GraphBuilder& builder = *x.builder;
  const Value made = builder.add(op, {&x.value, 1}, std::move(attrs), x.where);
  ValList results;
  for (std::size_t r = 0; r < builder.node(made).types.size(); ++r)
    results.push_back({&builder, {made.node, static_cast<std::int32_t>(r)}, x.where});
  return results;
}

SINTER_DECL Val triangle(Val x, TrianglePart part) {
  const Shape shape = x.shape(), matrix{shape[-2], shape[-1]};
  const Val row = iota(x, matrix, 0, DType::i64), column = iota(x, matrix, 1, DType::i64);
  switch (part) {
    case TrianglePart::lower: return where(ge(row, column), x, 0);
    case TrianglePart::strictly_lower: return where(gt(row, column), x, 0);
    case TrianglePart::upper: return where(le(row, column), x, 0);
    case TrianglePart::lower_half_diagonal: return where(gt(row, column), x, where(eq(row, column), x * 0.5, 0));
    case TrianglePart::diagonal: return where(eq(row, column), x, 0);
    case TrianglePart::unit_lower: {
      const Val zero = number(x, 0);
      return where(gt(row, column), x, where(eq(row, column), number(x, 1), zero));
    }
  }
  __builtin_unreachable();
}

SINTER_DECL Val is_on_diagonal(Val x) {
  const Shape shape = x.shape(), matrix{shape[-2], shape[-1]};
  return eq(iota(x, matrix, 0, DType::i64), iota(x, matrix, 1, DType::i64));
}
SINTER_DECL Val diagonal_of(Val x) { return sum(triangle(x, TrianglePart::diagonal), {x.rank() - 1}); }
SINTER_DECL Val identity_like(Val x) { return expand(cast(is_on_diagonal(x), x.dtype()), x.shape()); }

SINTER_DECL Val triangular_solve(Val a, Val b, Triangular options) {
  Attrs attrs;
  attrs.set(ops::TriangularSolve::upper, options.upper);
  attrs.set(ops::TriangularSolve::transposed, options.transposed);
  attrs.set(ops::TriangularSolve::unit, options.unit);
  return apply(op_info<ops::TriangularSolve>, {a, b}, std::move(attrs));
}
SINTER_DECL Val triangular_solve_right(Val a, Val b, Triangular options) {
  options.transposed = !options.transposed;
  return transpose(triangular_solve(a, transpose(b), options));
}

SINTER_DECL Factors lu_of(Val a, FactorUse use) {
  const Shape shape = a.shape();
  Attrs attrs;
  attrs.set(ops::LuFactor::use, use);
  attrs.set(ops::LuFactor::steps, shape[-1]);
  const ValList results = apply_results(op_info<ops::LuFactor>, a, std::move(attrs));
  return {results[0], results[1], permutation_of(results[1], shape[-2])};
}
SINTER_DECL Val permutation_of(Val pivots, Dim rows) {
  Attrs attrs;
  attrs.set(ops::LuPermutation::rows, rows);
  return apply(op_info<ops::LuPermutation>, {pivots}, std::move(attrs));
}
SINTER_DECL Val permuted_rows(Val x, Val permutation) {
  const int axis = x.rank() - 2;
  return apply(op_info<ops::Take>, {x, permutation},
               Attrs{.axes = {axis}}.with(ops::Take::shared, axis).with(ops::Take::inner, 0));
}
SINTER_DECL Val rows_put_back(Val x, Val permutation) {
  const int axis = x.rank() - 2;
  return apply(op_info<ops::Scatter>, {full_like(x, 0), permutation, x},
               Attrs{.axes = {axis}}
                   .with(ops::Scatter::shared, axis)
                   .with(ops::Scatter::inner, 0)
                   .with(ops::Scatter::combine, Combine::none));
}
SINTER_DECL Val solve_by(const Factors& lu, Val b, bool transposed) {
  if (!transposed) {
    const Val y = triangular_solve(lu.packed, permuted_rows(b, lu.permutation), {.unit = true});
    return triangular_solve(lu.packed, y, {.upper = true});
  }
  const Val y = triangular_solve(lu.packed, b, {.upper = true, .transposed = true});
  return rows_put_back(triangular_solve(lu.packed, y, {.transposed = true, .unit = true}), lu.permutation);
}
SINTER_DECL Val permutation_sign(Val pivots, DType dtype) {
  const Val step = iota(pivots, {pivots.shape()[-1]}, 0, DType::i32);
  const Val exchanges = sum(cast(ne(pivots, step + 1), DType::i32), {pivots.rank() - 1});
  return 1 - 2 * cast(apply(op_info<ops::Rem>, {exchanges, integer_number(exchanges, 2)}), dtype);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
