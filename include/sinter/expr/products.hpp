// Products besides matmul and einsum, under the names that PyTorch and NumPy give them, and distances.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>

SINTER_NAMESPACE_BEGIN

/// Summed over the last `axes` axes of a and the first ones of b; or over these axes, in pairs.
Tensor tensordot(const In& a, const In& b, int axes = 2);
Tensor tensordot(const In& a, const In& b, Axes axes_of_a, Axes axes_of_b);
/// Summed over the last axis of both.
Tensor inner(const In& a, const In& b);
/// Each element of a with each of b, both flattened: (a.numel(), b.numel()).
Tensor outer(const In& a, const In& b);
/// Of two vectors; vdot flattens first.
Tensor dot(const In& a, const In& b);
Tensor vdot(const In& a, const In& b);
/// Kronecker product: blocks a[i, j, ...] * b.
Tensor kron(const In& a, const In& b);
/// Of vectors of three along `axis`; other axes broadcast.
Tensor cross(const In& a, const In& b, int axis = -1);
/// [m, k] by [k, n]; [m, k] by [k]; [b, m, k] by [b, k, n].
Tensor mm(const In& a, const In& b);
Tensor mv(const In& matrix, const In& vector);
Tensor bmm(const In& a, const In& b);

struct AddProductOptions {
  double beta = 1;   // of what is added; 0: it is not read, and may be NaN
  double alpha = 1;  // of the product
};
/// beta * x + alpha * product: of matrices, of a matrix and a vector, of two vectors, of batches, and sums of these.
Tensor addmm(const In& x, const In& a, const In& b, AddProductOptions options = {});
Tensor addmv(const In& x, const In& matrix, const In& vector, AddProductOptions options = {});
Tensor addr(const In& x, const In& a, const In& b, AddProductOptions options = {});
Tensor baddbmm(const In& x, const In& a, const In& b, AddProductOptions options = {});
Tensor addbmm(const In& x, const In& a, const In& b, AddProductOptions options = {});

/// Product of matrices in the order of fewest operations; the first and the last may be vectors.
Tensor multi_dot(std::span<const Tensor> matrices, Location where = std::source_location::current());
Tensor multi_dot(std::initializer_list<Tensor> matrices, Location where = std::source_location::current());
/// The product of `power` copies of square matrices; the identity for 0; of the inverses for negative ones.
Tensor matrix_power(const In& x, int power);

/// Distances (sum |a_i - b_j|^p)^(1/p) of the rows of a [..., n, d] from those of b [..., m, d]: [..., n, m]. p = 0
/// counts coordinates that differ, infinity takes the largest difference.
Tensor cdist(const In& a, const In& b, double p = 2);

SINTER_NAMESPACE_END
