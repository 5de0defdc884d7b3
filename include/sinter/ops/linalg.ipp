// Shape rules, batching, and compositions in terms of factorisations.
#pragma once

#include <sinter/ops/linalg.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/host_function.hpp>
#include <sinter/ops/linalg_small.hpp>
#include <sinter/ops/linalg_vals.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// The operand is a batch of matrices of f32 or f64.
inline void require_matrices(const InferArgs& args, std::size_t operand = 0) {
  const Type& type = args.in[operand];
  if (type.dtype != DType::f32 && type.dtype != DType::f64)
    throw DTypeError(args.op, "the operand is " + type.text() + ", it must be f32 or f64", args.where,
                     "cast it: cast(x, DType::f32)");
  if (type.shape.rank() < 2)
    throw ShapeError(args.op, "the operand is " + type.shape.text() + ", matrices (..., m, n) are required",
                     args.where);
}
inline void require_square(const InferArgs& args) {
  require_matrices(args);
  const Shape& shape = args.in[0].shape;
  if (!(shape[-1] == shape[-2]))
    throw ShapeError(args.op, "the operand is " + shape.text() + ", square matrices (..., n, n) are required",
                     args.where);
}
/// What the op was recorded with is the lesser extent of its operand. Symbols were compared then.
inline void require_steps(const InferArgs& args, Dim steps) {
  const Shape& shape = args.in[0].shape;
  if (!steps.is_static() || !shape[-1].is_static() || !shape[-2].is_static()) return;
  if (steps.value() != std::min(shape[-1].value(), shape[-2].value()))
    throw ShapeError(args.op, "the operand is " + shape.text() + ", steps are " + steps.text(), args.where,
                     "steps are the lesser extent");
}
inline bool is_of_inverse(FactorUse use) { return use == FactorUse::inv || use == FactorUse::complex_inv; }
/// A known extent from 1 to `most`.
inline bool is_small(Dim extent, std::int64_t most) {
  return extent.is_static() && extent.value() >= 1 && extent.value() <= most;
}
/// The extents before those of the matrix.
inline Shape batch_of(const Shape& shape, int matrix_axes = 2) {
  return Shape(shape.dims().first(as_index(shape.rank() - matrix_axes)));
}
inline Shape with_dims(Shape batch, std::initializer_list<Dim> dims) {
  for (Dim dim : dims) batch.push_back(dim);
  return batch;
}

}  // namespace ops_detail

namespace ops {
using ops_detail::batch_of;
using ops_detail::most_small_columns;
using ops_detail::most_small_rows;
using ops_detail::require_matrices;
using ops_detail::require_square;
using ops_detail::require_steps;
using ops_detail::with_dims;
using ops_detail::with_shape;

SINTER_DECL void Cholesky::infer(const InferArgs& args, TypeList& out) {
  require_square(args);
  out.push_back(args.in[0]);
  out.push_back(with_shape(args, batch_of(args.in[0].shape), DType::i32));
}
SINTER_DECL void Cholesky::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}

SINTER_DECL void LuFactor::infer(const InferArgs& args, TypeList& out) {
  require_matrices(args);
  require_steps(args, args.attrs[steps]);
  const Shape batches = batch_of(args.in[0].shape);
  out.push_back(args.in[0]);
  out.push_back(with_shape(args, with_dims(batches, {args.attrs[steps]}), DType::i32));
  out.push_back(with_shape(args, batches, DType::i32));
}
SINTER_DECL void LuFactor::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}

SINTER_DECL Type LuPermutation::infer(const InferArgs& args) {
  const Shape& shape = args.in[0].shape;
  if (args.in[0].dtype != DType::i32)
    throw DTypeError(args.op, "the pivots are " + args.in[0].text() + ", i32 is required", args.where);
  if (shape.rank() == 0)
    throw ShapeError(args.op, "the pivots are (), a last axis of min(m, n) is required", args.where);
  return with_shape(args, with_dims(batch_of(shape, 1), {args.attrs[rows]}), DType::i64);
}
SINTER_DECL Batched LuPermutation::batch(const BatchArgs& args) { return apply(args.op, args.in, args.attrs); }

SINTER_DECL Type TriangularSolve::infer(const InferArgs& args) {
  require_square(args);
  require_matrices(args, 1);
  ops_detail::require_same_dtype(args);
  const Shape &a = args.in[0].shape, &b = args.in[1].shape;
  bool fits = a.rank() == b.rank() && a[-1] == b[-2];
  for (int i = 0; fits && i + 2 < a.rank(); ++i) fits = a[i] == b[i];
  if (!fits)
    throw ShapeError(args.op, "a is " + a.text() + ", b is " + b.text(), args.where,
                     "b must have as many rows as a, and the same batch axes");
  return with_shape(args, b);
}
SINTER_DECL Batched TriangularSolve::batch(const BatchArgs& args) {
  return apply(args.op, {ops_detail::with_batch(args, 0), ops_detail::with_batch(args, 1)}, args.attrs);
}

SINTER_DECL void Qr::infer(const InferArgs& args, TypeList& out) {
  require_matrices(args);
  require_steps(args, args.attrs[steps]);
  const Shape &shape = args.in[0].shape, batches = batch_of(shape);
  const Dim inner = args.attrs[mode] == QrMode::complete ? shape[-2] : args.attrs[steps];
  if (args.attrs[mode] != QrMode::r) out.push_back(with_shape(args, with_dims(batches, {shape[-2], inner})));
  out.push_back(with_shape(args, with_dims(batches, {inner, shape[-1]})));
}
SINTER_DECL void Qr::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}

SINTER_DECL void Svd::infer(const InferArgs& args, TypeList& out) {
  require_matrices(args);
  require_steps(args, args.attrs[steps]);
  const Shape &shape = args.in[0].shape, batches = batch_of(shape);
  const SvdVectors made = args.attrs[vectors];
  const Dim k = args.attrs[steps], rows = shape[-2], columns = shape[-1];
  const bool is_full = made == SvdVectors::full;
  if (made != SvdVectors::none) out.push_back(with_shape(args, with_dims(batches, {rows, is_full ? rows : k})));
  out.push_back(with_shape(args, with_dims(batches, {k})));
  if (made != SvdVectors::none) out.push_back(with_shape(args, with_dims(batches, {is_full ? columns : k, columns})));
}
SINTER_DECL void Svd::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}

SINTER_DECL void Eigh::infer(const InferArgs& args, TypeList& out) {
  require_square(args);
  const Shape& shape = args.in[0].shape;
  out.push_back(with_shape(args, with_dims(batch_of(shape), {shape[-1]})));
  if (!args.attrs[values_only]) out.push_back(args.in[0]);
}
SINTER_DECL void Eigh::batch(const BatchArgs& args, BatchedList& results) {
  ops_detail::batch_as_whole(args, args.attrs, results);
}

SINTER_DECL Type MatrixExp::infer(const InferArgs& args) {
  require_square(args);
  return args.in[0];
}
SINTER_DECL Batched MatrixExp::batch(const BatchArgs& args) { return apply(args.op, args.in, args.attrs); }

SINTER_DECL Type SmallSolve::infer(const InferArgs& args) {
  const SmallResult result = args.attrs[made];
  const std::size_t operands = result == SmallResult::solution ? 2 : 1;
  ops_detail::require_count(args, operands, operands);
  require_square(args);
  const Dim rows = args.in[0].shape[-1];
  if (!ops_detail::is_small(rows, most_small_rows))
    throw ShapeError(args.op, "the operand is " + args.in[0].shape.text() + ", 1 to 8 rows are required", args.where,
                     "solve, inv and det take matrices of any extent");
  if (operands == 2 && args.in[1].shape.rank() > 0 && !ops_detail::is_small(args.in[1].shape[-1], most_small_columns))
    throw ShapeError(args.op, "b is " + args.in[1].shape.text() + ", 1 to 16 columns are required", args.where,
                     "solve takes any number of columns");
  if (result == SmallResult::determinant) return with_shape(args, batch_of(args.in[0].shape));
  return operands == 2 ? TriangularSolve::infer(args) : args.in[0];
}
SINTER_DECL Batched SmallSolve::batch(const BatchArgs& args) {
  if (args.in.size() == 1) return apply(args.op, {args.in[0]}, args.attrs);
  return apply(args.op, {ops_detail::with_batch(args, 0), ops_detail::with_batch(args, 1)}, args.attrs);
}

SINTER_DECL Type Solve::infer(const InferArgs& args) { return TriangularSolve::infer(args); }
/// Matrices of all examples are one batch; one matrix for all is factored once.
SINTER_DECL Batched Solve::batch(const BatchArgs& args) {
  if (!args.is_batched(0)) return {};
  return apply(args.op, {args.in[0], ops_detail::with_batch(args, 1)}, args.attrs);
}
SINTER_DECL Val Solve::decompose(const DecomposeArgs& args) {
  if (ops_detail::is_small(args.in[0].shape()[-1], most_small_rows) &&
      ops_detail::is_small(args.in[1].shape()[-1], most_small_columns)) {
    const bool is_inverse = ops_detail::is_of_inverse(args.attrs[use]);
    Attrs attrs;
    attrs.set(SmallSolve::made, is_inverse ? SmallResult::inverse : SmallResult::solution);
    attrs.set(SmallSolve::transposed, args.attrs[transposed]);
    attrs.set(SmallSolve::use, args.attrs[use]);
    if (is_inverse) return apply(op_info<SmallSolve>, {args.in[0]}, std::move(attrs));
    return apply(op_info<SmallSolve>, {args.in[0], args.in[1]}, std::move(attrs));
  }
  return ops_detail::solve_by(ops_detail::lu_of(args.in[0], args.attrs[use]), args.in[1], args.attrs[transposed]);
}

SINTER_DECL Type Pinv::infer(const InferArgs& args) {
  require_matrices(args);
  require_steps(args, args.attrs[steps]);
  for (std::size_t i = 1; i < 3; ++i) {
    ops_detail::require_same_dtype(args, 0, i);
    ops_detail::require_rank(args, i, 0);
  }
  const Shape& shape = args.in[0].shape;
  return with_shape(args, with_dims(batch_of(shape), {shape[-1], shape[-2]}));
}
SINTER_DECL Val Pinv::decompose(const DecomposeArgs& args) {
  Attrs attrs;
  attrs.set(Svd::steps, args.attrs[steps]);
  const ValList parts = ops_detail::apply_results(op_info<Svd>, args.in[0], std::move(attrs));
  const Val s = parts[1];
  const int last = s.rank() - 1;
  const Val cutoff = maximum(args.in[1], args.in[2] * slice_axis(s, last, 0, 1));
  const Val kept_values = gt(s, cutoff), inverse = where(kept_values, reciprocal(where(kept_values, s, 1)), 0);
  Shape row = s.shape();
  row.insert(last, 1);
  return matmul(transpose(parts[2]) * reshape(inverse, row), transpose(parts[0]));
}

SINTER_DECL Type Det::infer(const InferArgs& args) {
  require_square(args);
  return with_shape(args, batch_of(args.in[0].shape));
}
SINTER_DECL Val Det::decompose(const DecomposeArgs& args) {
  if (ops_detail::is_small(args.in[0].shape()[-1], most_small_rows)) {
    Attrs attrs;
    attrs.set(SmallSolve::made, SmallResult::determinant);
    return apply(op_info<SmallSolve>, {args.in[0]}, std::move(attrs));
  }
  const ops_detail::Factors lu = ops_detail::lu_of(args.in[0], FactorUse::unchecked);
  const Val diagonal = ops_detail::diagonal_of(lu.packed);
  return prod(diagonal, {diagonal.rank() - 1}) * ops_detail::permutation_sign(lu.pivots, diagonal.dtype());
}

}  // namespace ops
SINTER_NAMESPACE_END
