// Gathers, and reductions over bags.
#pragma once

#include <sinter/expr/embedding.hpp>

#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/statistics.hpp>

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

/// Rows of the table; of a largest norm those that are longer, times max_norm / (norm + 1e-7), as PyTorch has it.
inline Tensor rows_at(const In& indices, const Tensor& table, const std::optional<double>& max_norm, double order,
                      std::string_view op) {
  const Location at = indices.where;
  const Tensor found = take(In(table, at), indices, 0);
  if (!max_norm) return found;
  if (!(*max_norm >= 0) || !(order > 0))
    throw UserError(op, "max_norm is " + std::to_string(*max_norm) + ", norm_type is " + std::to_string(order), at,
                    "max_norm must not be negative, and the order of the norm must be positive");
  const Tensor length = norm(In(found, at), -1, {.p = order, .keep = Keep::yes});
  return found * where(length > *max_norm, *max_norm / (length + 1e-7), 1.0, at);
}

/// What becomes of the rows of each bag: those of axis 1, or those that have the number of the bag.
struct Bags {
  std::optional<Tensor> numbers;
  Dim count, segments;  // more segments than bags: what follows the last bag
  Location at;

  Tensor total(const Tensor& x) const {
    if (!numbers) return sum(In(x, at), 1);
    return part_of(segment_sum(In(x, at), In(*numbers, at), segments), 0, 0, count, at);
  }
  Tensor largest(const Tensor& x) const {
    if (!numbers) return amax(In(x, at), 1);
    return part_of(segment_max(In(x, at), In(*numbers, at), segments), 0, 0, count, at);
  }
};
inline Bags bags_of(const Tensor& indices, const EmbeddingBagOptions& options, const Shape& table, std::string_view op,
                    Location at) {
  const int axes = options.offsets ? 1 : 2;
  if (indices.rank() != axes || table.rank() != 2 || (options.offsets && options.offsets->rank() != 1))
    throw ShapeError(op,
                     "indices are " + indices.shape().text() + ", table is " + table.text() +
                         (options.offsets ? ", offsets are " + options.offsets->shape().text() : ""),
                     at, "indices must be (bags, length), or (length) with offsets (bags,), and the table (n, d)");
  if (!options.offsets) {
    if (options.include_last_offset)
      throw UserError(op, "include_last_offset is set, and there are no offsets", at, "give .offsets");
    return {{}, indices.shape()[0], indices.shape()[0], at};
  }
  const Tensor& offsets = *options.offsets;
  if (!is_integer(offsets.dtype()))
    throw DTypeError(op, "offsets are " + std::string(name(offsets.dtype())), at, "i32 or i64 is required");
  const Dim given = offsets.shape()[0];
  if (options.include_last_offset && !is_at_most(1, given))
    throw ShapeError(op, "offsets are " + offsets.shape().text(), at, "the last one is required");
  const Tensor places = arange(indices.shape()[0], {.dtype = offsets.dtype(), .device = indices.device()}, at);
  const Tensor begun = searchsorted(In(offsets, at), In(places, at), {.right = true});
  // What stands before the first bag has no number; -1 would count from the end.
  return {where(begun == 0, Scalar(given), begun - 1, at), options.include_last_offset ? given - Dim(1) : given, given,
          at};
}
}  // namespace expr_detail

SINTER_DECL Tensor linear(const In& x, const In& weight) {
  const Tensor matrix(weight.tensor());
  const Tensor value(x.tensor());
  if (matrix.rank() == 1 && value.rank() != 0 && value.shape()[-1] == matrix.shape()[0])  // one number for each x
    return matmul(In(value, x.where), In(matrix, x.where));
  if (matrix.rank() != 2 || value.rank() == 0 || !(value.shape()[-1] == matrix.shape()[1]))
    throw ShapeError("linear", "x is " + value.shape().text() + ", weight is " + matrix.shape().text(), x.where,
                     "x must be (..., in) and weight (out, in)");
  return matmul(In(value, x.where), In(transpose(In(matrix, x.where), 0, 1), x.where));
}
SINTER_DECL Tensor linear(const In& x, const In& weight, const In& bias) {
  const Tensor product = linear(x, weight);
  const Tensor added(bias.tensor());
  if (added.rank() > 1 || (added.rank() == 1 && (product.rank() == 0 || !(added.shape()[0] == product.shape()[-1]))))
    throw ShapeError("linear", "bias is " + added.shape().text() + ", the product is " + product.shape().text(),
                     x.where, "bias must be (out,)");
  return product + added;
}

SINTER_DECL Tensor embedding(const In& indices, const In& table, EmbeddingOptions options) {
  const Tensor rows(table.tensor());
  const Tensor found = expr_detail::rows_at(indices, rows, options.max_norm, options.norm_type, "embedding");
  if (!options.padding_idx) return found;
  const Tensor is_padding = expr_detail::is_padding(indices, rows, *options.padding_idx, "embedding");
  return where(is_padding, stop_gradient(found), found, indices.where);
}

SINTER_DECL Tensor embedding_bag(const In& indices, const In& table, EmbeddingBagOptions options) {
  constexpr std::string_view op = "embedding_bag";
  const Location at = indices.where;
  const Tensor places(indices.tensor()), rows(table.tensor());
  const expr_detail::Bags bags = expr_detail::bags_of(places, options, rows.shape(), op, at);
  if (options.mode > BagMode::max)
    throw UserError(
        op, "mode has the value " + std::to_string(static_cast<int>(options.mode)) + ", which is no BagMode", at);
  // (bags, length, d) or (length, d)
  Tensor found = expr_detail::rows_at(In(places, at), rows, options.max_norm, options.norm_type, op);
  // A sum may be beyond the range of f16, where the mean is not.
  if (options.mode == BagMode::mean && rows.dtype() == DType::f16) found = cast(In(found, at), DType::f32);
  if (options.weights) {
    if (options.mode != BagMode::sum)
      throw UserError(op, "weights are given, and the mode is not sum", at, "weights are those of a sum: BagMode::sum");
    if (!(options.weights->shape() == places.shape()))
      throw ShapeError(op, "weights are " + options.weights->shape().text() + ", indices are " + places.shape().text(),
                       at, "one weight for each index is required");
    found = found * unsqueeze(In(*options.weights, at), -1);
  }
  Shape column = places.shape();
  column.push_back(1);
  Tensor counts = ones(column, {.dtype = DType::bool_, .device = rows.device()}, at);
  if (options.padding_idx) counts = !expr_detail::is_padding(In(places, at), rows, *options.padding_idx, op);
  const bool is_max = options.mode == BagMode::max;
  const double neutral = is_max ? -std::numeric_limits<double>::infinity() : 0;
  if (options.padding_idx) found = where(counts, found, neutral, at);
  const Tensor number = bags.total(cast(In(counts, at), DType::i64));
  if (is_max) {
    if (!options.offsets && expr_detail::is_at_most(places.shape()[1], 0))
      return zeros({places.shape()[0], rows.shape()[1]}, {.dtype = rows.dtype(), .device = rows.device()}, at);
    const Tensor largest = bags.largest(found);
    // A row of indices has one that counts.
    return options.padding_idx || options.offsets ? Tensor(where(number > 0, largest, 0.0, at)) : largest;
  }
  const Tensor total = bags.total(found);
  if (options.mode == BagMode::sum) return total;
  const Tensor mean = total / maximum(cast(In(number, at), total.dtype()), 1.0);
  return rows.dtype() == DType::f16 ? Tensor(cast(In(mean, at), DType::f16)) : mean;
}

SINTER_NAMESPACE_END
