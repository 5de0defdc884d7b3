// Matrices by their diagonals and triangles, and ranges of numbers that are not whole.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
Tensor ones_on_diagonal(Dim n, Dim m, int diagonal, TensorOptions options, Location where);
}  // namespace expr_detail
/// Ones at (i, i + diagonal) of n rows and m columns.
template <std::convertible_to<Dim> N = Dim>  // a template, for `{}` in its place to mean the options of a square one
Tensor eye(Dim n, N m, int diagonal = 0, TensorOptions options = {}, Location where = std::source_location::current()) {
  return expr_detail::ones_on_diagonal(n, m, diagonal, options, where);
}
/// x with zeros above (below) the diagonal (i, i + diagonal) of its last two axes.
Tensor tril(const In& x, int diagonal = 0);
Tensor triu(const In& x, int diagonal = 0);
/// The matrix with this vector on its diagonal; of a matrix its diagonal.
Tensor diag(const In& x, int diagonal = 0);
/// diag of all elements in row-major order.
Tensor diagflat(const In& x, int offset = 0);
/// Vectors along the last axis as diagonals of matrices in the axes `a` and `b` of the result.
Tensor diag_embed(const In& x, int offset = 0, int a = -2, int b = -1);
/// Sum of the diagonal.
Tensor trace(const In& x, int offset = 0, int a = 0, int b = 1);
/// Rows and columns (2, count) of the elements on and below (above) the diagonal, in row-major order; i64.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, int diagonal = 0);
Tensor triu_indices(std::int64_t rows, std::int64_t columns, int diagonal = 0);
/// Powers of a vector as columns: the highest first, or increasing.
enum class PowerOrder : std::uint8_t { decreasing, increasing };
Tensor vander(const In& x, int columns, PowerOrder order = PowerOrder::decreasing);

Tensor full_like(const In& x, const Scalar& value);
Tensor rand_like(const In& x);
Tensor randn_like(const In& x);
/// base^start to base^stop, both included, with equal ratios.
Tensor logspace(double start, double stop, Dim count, double base = 10, TensorOptions options = {},
                Location where = std::source_location::current());

namespace expr_detail {
Tensor arange_of_numbers(double start, double stop, double step, TensorOptions options, Location where);
}  // namespace expr_detail
/// start, start + step, ... below stop (above it where step is negative); one of them is no whole number.
template <Arithmetic A, Arithmetic B, Arithmetic C = int>
  requires(std::floating_point<A> || std::floating_point<B> || std::floating_point<C>)
Tensor arange(A start, B stop, C step = 1, TensorOptions options = {},
              Location where = std::source_location::current()) {
  return expr_detail::arange_of_numbers(static_cast<double>(start), static_cast<double>(stop),
                                        static_cast<double>(step), options, where);
}

SINTER_NAMESPACE_END
