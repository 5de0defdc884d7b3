// Gathers, and reductions over bags.
#pragma once

#include <sinter/expr/embedding.hpp>

#include <sinter/expr/recording.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {
/// Which of the indices are the padding row, with an axis for the features.
inline Tensor is_padding(const In& indices, const Tensor& table, std::int64_t row, std::string_view op) {
  const Dim rows = table.shape()[0];
  const Dim place = row < 0 ? rows + Dim(row) : Dim(row);
  if (!is_at_most(0, place) || !is_at_most(place + Dim(1), rows))
    throw IndexError(op, "padding_idx " + std::to_string(row) + " is no row of " + table.shape().text(), indices.where);
  return unsqueeze(In(Tensor(Tensor(indices.tensor()) == place), indices.where), -1);
}
}  // namespace expr_detail

SINTER_DECL Tensor linear(const In& x, const In& weight) {
  const Tensor matrix(weight.tensor());
  const Tensor value(x.tensor());
  if (matrix.rank() != 2 || value.rank() == 0 || !(value.shape()[-1] == matrix.shape()[1]))
    throw ShapeError("linear", "x is " + value.shape().text() + ", weight is " + matrix.shape().text(), x.where,
                     "x must be (..., in) and weight (out, in)");
  return matmul(In(value, x.where), In(transpose(In(matrix, x.where), 0, 1), x.where));
}
SINTER_DECL Tensor linear(const In& x, const In& weight, const In& bias) {
  const Tensor product = linear(x, weight);
  const Tensor added(bias.tensor());
  if (added.rank() > 1 || (added.rank() == 1 && !(added.shape()[0] == product.shape()[-1])))
    throw ShapeError("linear", "bias is " + added.shape().text() + ", the product is " + product.shape().text(),
                     x.where, "bias must be (out,)");
  return product + added;
}

SINTER_DECL Tensor embedding(const In& indices, const In& table, EmbeddingOptions options) {
  const Tensor rows(table.tensor());
  const Tensor found = take(In(rows, indices.where), indices, 0);
  if (!options.padding_idx) return found;
  const Tensor is_padding = expr_detail::is_padding(indices, rows, *options.padding_idx, "embedding");
  return where(is_padding, stop_gradient(found), found, indices.where);
}

SINTER_DECL Tensor embedding_bag(const In& indices, const In& table, EmbeddingBagOptions options) {
  constexpr std::string_view op = "embedding_bag";
  const Location at = indices.where;
  const Tensor places(indices.tensor()), rows(table.tensor());
  if (places.rank() != 2 || rows.rank() != 2)
    throw ShapeError(op, "indices are " + places.shape().text() + ", table is " + rows.shape().text(), at,
                     "indices must be (bags, length) and the table (n, d)");
  if (options.mode > BagMode::max)
    throw UserError(
        op, "mode has the value " + std::to_string(static_cast<int>(options.mode)) + ", which is no BagMode", at);
  Tensor found = take(In(rows, at), In(places, at), 0);  // (bags, length, d)
  if (options.weights) {
    if (options.mode != BagMode::sum)
      throw UserError(op, "weights are given, and the mode is not sum", at, "weights are those of a sum: BagMode::sum");
    if (!(options.weights->shape() == places.shape()))
      throw ShapeError(op, "weights are " + options.weights->shape().text() + ", indices are " + places.shape().text(),
                       at, "one weight for each index is required");
    found = found * unsqueeze(In(*options.weights, at), -1);
  }
  Tensor counts = ones({places.shape()[0], places.shape()[1], 1}, {.dtype = DType::bool_, .device = rows.device()}, at);
  if (options.padding_idx) counts = !expr_detail::is_padding(In(places, at), rows, *options.padding_idx, op);
  const bool is_max = options.mode == BagMode::max;
  const double neutral = is_max ? -std::numeric_limits<double>::infinity() : 0;
  const bool is_masked = options.padding_idx.has_value();
  const Tensor masked = is_masked ? Tensor(where(counts, found, neutral, at)) : found;
  if (is_max) {
    const Tensor largest = amax(In(masked, at), 1);
    if (!is_masked) return largest;
    return where(any(In(counts, at), 1), largest, 0.0, at);
  }
  const Tensor total = sum(In(masked, at), 1);
  if (options.mode == BagMode::sum) return total;
  const Tensor number = cast(In(sum(In(counts, at), 1), at), total.dtype());
  return total / maximum(number, 1.0);
}

SINTER_NAMESPACE_END
