// Triangles by comparing row and column numbers.
#pragma once

#include <sinter/expr/matrices.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/recording.hpp>

#include <cmath>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
/// Column number minus row number, of a matrix of these extents.
inline Tensor columns_past_rows(Dim rows, Dim columns, Device device, Location where) {
  const TensorOptions integers{.dtype = DType::i64, .device = device};
  const Tensor row = reshape(In(arange(rows, integers, where), where), Shape{rows, 1});
  return arange(columns, integers, where) - row;
}
inline Tensor zero_like(const Tensor& x, Location where) {
  return zeros({}, {.dtype = x.dtype(), .device = Device::cpu()}, where);
}
enum class Triangle : bool { lower, upper };
inline Tensor triangle(const In& x, int diagonal, Triangle kept, std::string_view op) {
  const Tensor whole(x.tensor());
  if (whole.rank() < 2)
    throw ShapeError(op, "x is " + whole.shape().text() + ", a matrix is required", x.where,
                     "the last two axes are rows and columns");
  const Tensor past = columns_past_rows(whole.shape()[-2], whole.shape()[-1], whole.device(), x.where);
  const Tensor is_kept = kept == Triangle::lower ? Tensor(past <= diagonal) : Tensor(past >= diagonal);
  return where(is_kept, whole, zero_like(whole, x.where), x.where);
}
inline Tensor triangle_indices(std::int64_t rows, std::int64_t columns, int diagonal, Triangle kept,
                               std::string_view op) {
  if (rows < 0 || columns < 0)
    throw ShapeError(op, std::to_string(rows) + " rows and " + std::to_string(columns) + " columns", {});
  std::vector<std::int64_t> at[2];
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      if (kept == Triangle::lower ? j - i > diagonal : j - i < diagonal) continue;
      at[0].push_back(i);
      at[1].push_back(j);
    }
  const Dim count = at[0].size();
  at[0].insert(at[0].end(), at[1].begin(), at[1].end());
  return copy_of(at[0], {2, count});
}
}  // namespace expr_detail

SINTER_DECL Tensor expr_detail::ones_on_diagonal(Dim n, Dim m, int diagonal, TensorOptions options, Location where) {
  expr_detail::checked_device(options.device, "eye", where);
  const Tensor past = expr_detail::columns_past_rows(n, m, options.device, where);
  return cast(In(Tensor(past == diagonal), where), options.dtype_or(DType::f32));
}
SINTER_DECL Tensor tril(const In& x, int diagonal) {
  return expr_detail::triangle(x, diagonal, expr_detail::Triangle::lower, "tril");
}
SINTER_DECL Tensor triu(const In& x, int diagonal) {
  return expr_detail::triangle(x, diagonal, expr_detail::Triangle::upper, "triu");
}

SINTER_DECL Tensor diag_embed(const In& x, int offset, int a, int b) {
  const Tensor vectors(x.tensor());
  if (vectors.rank() == 0) throw ShapeError("diag_embed", "x is (), a last axis is required", x.where);
  const int rank = vectors.rank() + 1;
  a = normalise_axis(a, rank, "diag_embed", x.where);
  b = normalise_axis(b, rank, "diag_embed", x.where);
  if (a == b) throw IndexError("diag_embed", "axis " + std::to_string(a) + " is named twice", x.where);
  const int before = offset > 0 ? offset : 0, after = offset < 0 ? -offset : 0;
  std::vector<std::pair<int, int>> widths(as_index(rank - 1));
  widths.back() = {before, after};
  const Tensor rows = offset == 0 ? vectors : pad(In(vectors, x.where), widths);  // by column
  const Dim size = rows.shape()[-1];
  const Tensor past = expr_detail::columns_past_rows(size, size, vectors.device(), x.where);
  const Tensor matrices =
      where(past == offset, unsqueeze(In(rows, x.where), -2), expr_detail::zero_like(vectors, x.where), x.where);
  return movedim(In(matrices, x.where), {-2, -1}, {a, b});
}
SINTER_DECL Tensor diag(const In& x, int offset) {
  const Tensor whole(x.tensor());
  if (whole.rank() == 1) return diag_embed(In(whole, x.where), offset);
  if (whole.rank() == 2) return diagonal(In(whole, x.where), offset);
  throw ShapeError("diag", "x is " + whole.shape().text() + ", a vector or a matrix is required", x.where,
                   "diagonal and diag_embed take further axes");
}
SINTER_DECL Tensor diagflat(const In& x, int offset) { return diag_embed(In(ravel(x), x.where), offset); }
SINTER_DECL Tensor trace(const In& x, int offset, int a, int b) {
  return sum(In(diagonal(x, offset, a, b), x.where), -1);
}
SINTER_DECL Tensor tril_indices(std::int64_t rows, std::int64_t columns, int diagonal) {
  return expr_detail::triangle_indices(rows, columns, diagonal, expr_detail::Triangle::lower, "tril_indices");
}
SINTER_DECL Tensor triu_indices(std::int64_t rows, std::int64_t columns, int diagonal) {
  return expr_detail::triangle_indices(rows, columns, diagonal, expr_detail::Triangle::upper, "triu_indices");
}
SINTER_DECL Tensor vander(const In& x, int columns, PowerOrder order) {
  const Tensor vector(x.tensor());
  if (vector.rank() != 1 || columns < 0)
    throw ShapeError("vander",
                     "x is " + vector.shape().text() + " and has " + std::to_string(columns) +
                         " columns; a vector and "
                         "a number of columns are required",
                     x.where);
  const TensorOptions options{.dtype = DType::i64, .device = vector.device()};
  Tensor powers = arange(Dim(columns), options, x.where);
  if (order == PowerOrder::decreasing) powers = columns - 1 - powers;
  return pow(unsqueeze(In(vector, x.where), 1), cast(In(powers, x.where), vector.dtype()), x.where);
}

SINTER_DECL Tensor full_like(const In& x, const Scalar& value) {
  const Ref<TensorImpl> like = x.tensor();
  return full(like->type.shape, value, {.dtype = like->type.dtype, .device = like->type.device}, x.where);
}
SINTER_DECL Tensor rand_like(const In& x) {
  const Ref<TensorImpl> like = x.tensor();
  return rand(like->type.shape, {.dtype = like->type.dtype, .device = like->type.device}, x.where);
}
SINTER_DECL Tensor randn_like(const In& x) {
  const Ref<TensorImpl> like = x.tensor();
  return randn(like->type.shape, {.dtype = like->type.dtype, .device = like->type.device}, x.where);
}
SINTER_DECL Tensor logspace(double start, double stop, Dim count, double base, TensorOptions options, Location where) {
  const Tensor exponent = linspace(start, stop, count, {.dtype = DType::f64, .device = options.device}, where);
  return cast(In(Tensor(pow(full({}, base, {.dtype = DType::f64, .device = Device::cpu()}, where), exponent)), where),
              options.dtype_or(DType::f32));
}

namespace expr_detail {
SINTER_DECL Tensor arange_of_numbers(double start, double stop, double step, TensorOptions options, Location where) {
  if (step == 0) throw ShapeError("arange", "step is 0", where);
  const double count = std::ceil((stop - start) / step);
  if (!(std::abs(count) <= 0x1p60) || !is_finite_number(start) || !is_finite_number(step))
    throw ShapeError("arange",
                     "from " + std::to_string(start) + " to " + std::to_string(stop) + " by " + std::to_string(step) +
                         " has no number of elements",
                     where, "start, stop and step must be finite");
  const Dim length = static_cast<std::int64_t>(std::max(count, 0.0));
  const Tensor position = arange(length, {.dtype = DType::f64, .device = options.device}, where);
  return cast(In(Tensor(position * step + start), where), options.dtype_or(DType::f32));
}
}  // namespace expr_detail

SINTER_NAMESPACE_END
