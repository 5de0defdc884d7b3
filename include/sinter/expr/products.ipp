// Contractions of labelled axes, and matmul under other names.
#pragma once

#include <sinter/expr/products.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/contract.hpp>
#include <sinter/expr/einsum.hpp>
#include <sinter/expr/linalg.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <cmath>
#include <numeric>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
struct PromotedPair {
  Tensor a, b;
};
inline PromotedPair promoted_pair(const In& a, const In& b) {
  const Tensor x = operand_beside(a, b), y = operand_beside(b, a);
  const DType dtype = promote_beside(a, x.dtype(), b, y.dtype(), "product");
  return {cast(In(x, a.where), dtype), cast(In(y, a.where), dtype)};
}
inline std::string pair_text(const Tensor& a, const Tensor& b) {
  return "a is " + a.shape().text() + ", b is " + b.shape().text();
}
inline void require_numbers(const PromotedPair& pair, std::string_view op, Location where) {
  if (pair.a.dtype() == DType::bool_)
    throw DTypeError(op, "operands are bool, numbers are required", where, "cast with .to(DType::i64)");
}
inline void require_ranks(const PromotedPair& pair, int rank_a, int rank_b, std::string_view op,
                          std::string_view wanted, Location where) {
  if (pair.a.rank() == rank_a && pair.b.rank() == rank_b) return;
  throw ShapeError(op, pair_text(pair.a, pair.b), where, std::string(wanted));
}

/// Contracted over these axes in pairs; the others of a come first.
inline Tensor contract_axes(const PromotedPair& pair, const std::vector<int>& axes_of_a,
                            const std::vector<int>& axes_of_b, std::string_view op, Location where) {
  require_numbers(pair, op, where);
  Labelled a{pair.a, std::vector<int>(as_index(pair.a.rank()))}, b{pair.b, std::vector<int>(as_index(pair.b.rank()))};
  std::iota(a.labels.begin(), a.labels.end(), 0);
  std::iota(b.labels.begin(), b.labels.end(), pair.a.rank());
  for (std::size_t i = 0; i < axes_of_a.size(); ++i) {
    const int of_a = axes_of_a[i], of_b = axes_of_b[i];
    if (!(pair.a.shape()[of_a] == pair.b.shape()[of_b]))
      throw ShapeError(op, "sizes differ: " + pair_text(pair.a, pair.b), where,
                       "a.size(" + std::to_string(of_a) + ") must equal b.size(" + std::to_string(of_b) + ")");
    b.labels[as_index(of_b)] = of_a;
  }
  std::vector<int> output;
  for (int label : a.labels)
    if (std::find(axes_of_a.begin(), axes_of_a.end(), label) == axes_of_a.end()) output.push_back(label);
  for (int label : b.labels)
    if (label >= pair.a.rank()) output.push_back(label);
  if (output.size() > as_index(max_rank))
    throw ShapeError(op, pair_text(pair.a, pair.b) + ": the result has " + std::to_string(output.size()) + " axes",
                     where, "rank is limited to " + std::to_string(max_rank));
  return contract({a, b}, output, where);
}
inline std::vector<int> resolved_axes(const Axes& axes, const Tensor& x, std::string_view op, Location where) {
  std::vector<int> out;
  for (std::int64_t axis : axes.list()) {
    out.push_back(normalise_axis(static_cast<int>(axis), x.rank(), op, where));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      throw IndexError(op, "axis " + std::to_string(axis) + " is named twice", where);
  }
  return out;
}
}  // namespace expr_detail

SINTER_DECL Tensor tensordot(const In& a, const In& b, int axes) {
  const auto pair = expr_detail::promoted_pair(a, b);
  if (axes < 0 || axes > pair.a.rank() || axes > pair.b.rank())
    throw ShapeError("tensordot",
                     std::to_string(axes) + " axes are summed over: " + expr_detail::pair_text(pair.a, pair.b), a.where,
                     "both operands must have so many");
  std::vector<int> of_a, of_b;
  for (int i = 0; i < axes; ++i) {
    of_a.push_back(pair.a.rank() - axes + i);
    of_b.push_back(i);
  }
  return expr_detail::contract_axes(pair, of_a, of_b, "tensordot", a.where);
}
SINTER_DECL Tensor tensordot(const In& a, const In& b, Axes axes_of_a, Axes axes_of_b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  const auto of_a = expr_detail::resolved_axes(axes_of_a, pair.a, "tensordot", a.where);
  const auto of_b = expr_detail::resolved_axes(axes_of_b, pair.b, "tensordot", a.where);
  if (of_a.size() != of_b.size())
    throw ShapeError("tensordot",
                     std::to_string(of_a.size()) + " axes of a and " + std::to_string(of_b.size()) + " of b are named",
                     a.where, "axes are summed over in pairs");
  return expr_detail::contract_axes(pair, of_a, of_b, "tensordot", a.where);
}
SINTER_DECL Tensor inner(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  if (pair.a.rank() == 0 || pair.b.rank() == 0) return pair.a * pair.b;
  return expr_detail::contract_axes(pair, {pair.a.rank() - 1}, {pair.b.rank() - 1}, "inner", a.where);
}
SINTER_DECL Tensor outer(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  const Tensor column = reshape(In(pair.a, a.where), Shape{pair.a.numel(), 1});
  return column * reshape(In(pair.b, a.where), Shape{1, pair.b.numel()});
}
SINTER_DECL Tensor dot(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 1, 1, "dot", "two vectors are required; matmul, inner and tensordot take more axes",
                             a.where);
  return expr_detail::contract_axes(pair, {0}, {0}, "dot", a.where);
}
SINTER_DECL Tensor vdot(const In& a, const In& b) {
  return dot(In(flatten(In(conj(a), a.where)), a.where), In(flatten(b), a.where));
}
SINTER_DECL Tensor kron(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  const int rank = std::max(pair.a.rank(), pair.b.rank());
  if (2 * rank > max_rank)
    throw ShapeError("kron", expr_detail::pair_text(pair.a, pair.b), a.where, "at most four axes are possible");
  const int rank_a = pair.a.rank(), rank_b = pair.b.rank();
  Shape shape_a, shape_b, out;
  for (int i = 0; i < rank; ++i) {
    const Dim of_a = i < rank - rank_a ? Dim(1) : pair.a.shape()[i - (rank - rank_a)];
    const Dim of_b = i < rank - rank_b ? Dim(1) : pair.b.shape()[i - (rank - rank_b)];
    shape_a.push_back(of_a);
    shape_a.push_back(1);
    shape_b.push_back(1);
    shape_b.push_back(of_b);
    out.push_back(of_a * of_b);
  }
  const Tensor blocks = reshape(In(pair.a, a.where), shape_a) * reshape(In(pair.b, a.where), shape_b);
  return reshape(In(blocks, a.where), out);
}

SINTER_DECL Tensor cross(const In& a, const In& b, int axis) {
  const auto pair = expr_detail::promoted_pair(a, b);
  const Shape shape = broadcast(pair.a.shape(), pair.b.shape(), "cross", a.where);
  axis = normalise_axis(axis, shape.rank(), "cross", a.where);
  const Tensor x = expand(In(pair.a, a.where), shape), y = expand(In(pair.b, a.where), shape);
  if (!(pair.a.shape()[axis - shape.rank()] == Dim(3)) || !(pair.b.shape()[axis - shape.rank()] == Dim(3)))
    throw ShapeError("cross", expr_detail::pair_text(pair.a, pair.b), a.where,
                     "axis " + std::to_string(axis) + " must have extent 3 in both");
  auto part = [&](const Tensor& of, int i) { return expr_detail::part_of(of, axis, i, i + 1, a.where); };
  std::vector<Tensor> parts;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(part(x, j) * part(y, k) - part(x, k) * part(y, j));
  }
  return concat(parts, axis, a.where);
}

SINTER_DECL Tensor mm(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 2, 2, "mm", "matrices (m, k) and (k, n) are required; matmul takes batches",
                             a.where);
  return matmul(In(pair.a, a.where), In(pair.b, a.where));
}
SINTER_DECL Tensor mv(const In& matrix, const In& vector) {
  const auto pair = expr_detail::promoted_pair(matrix, vector);
  expr_detail::require_ranks(pair, 2, 1, "mv", "a matrix (m, k) and a vector (k) are required", matrix.where);
  return matmul(In(pair.a, matrix.where), In(pair.b, matrix.where));
}
SINTER_DECL Tensor bmm(const In& a, const In& b) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 3, 3, "bmm", "batches (b, m, k) and (b, k, n) are required; matmul broadcasts them",
                             a.where);
  if (!(pair.a.shape()[0] == pair.b.shape()[0]))
    throw ShapeError("bmm", "batch sizes differ: " + expr_detail::pair_text(pair.a, pair.b), a.where,
                     "matmul broadcasts batches of one");
  return matmul(In(pair.a, a.where), In(pair.b, a.where));
}

namespace expr_detail {
/// beta * x + alpha * product, where x broadcasts to the product.
inline Tensor add_product(const In& x, const Tensor& product, AddProductOptions options, std::string_view op) {
  const auto times = [&](const Tensor& of, double factor) {
    return cast(scaled_by(Term(of, x.where), factor), of.dtype());
  };
  const Tensor scaled = options.alpha == 1 ? product : times(product, options.alpha);
  const Tensor added = operand_beside(x, In(product, x.where));
  if (!(broadcast(added.shape(), product.shape(), op, x.where) == product.shape()))
    throw ShapeError(op, "x is " + added.shape().text() + ", the product is " + product.shape().text(), x.where,
                     "x must broadcast to the product");
  if (options.beta == 0) return scaled;
  if (options.beta == 1) return added + scaled;
  return times(added, options.beta) + scaled;
}
}  // namespace expr_detail
SINTER_DECL Tensor addmm(const In& x, const In& a, const In& b, AddProductOptions options) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 2, 2, "addmm", "matrices (m, k) and (k, n) are required", x.where);
  return expr_detail::add_product(x, matmul(In(pair.a, x.where), In(pair.b, x.where)), options, "addmm");
}
SINTER_DECL Tensor addmv(const In& x, const In& matrix, const In& vector, AddProductOptions options) {
  return expr_detail::add_product(x, mv(matrix, vector), options, "addmv");
}
SINTER_DECL Tensor addr(const In& x, const In& a, const In& b, AddProductOptions options) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 1, 1, "addr", "two vectors are required", x.where);
  // Products of bytes beside wider numbers are wider ones.
  const Tensor base(x.tensor());
  const bool has_axes = x.leaf.value && base.rank() > 0;
  const DType dtype = has_axes ? promote(base.dtype(), pair.a.dtype(), "addr", x.where) : pair.a.dtype();
  const auto wide = [&](const Tensor& of) { return In(Tensor(cast(In(of, x.where), dtype)), x.where); };
  return expr_detail::add_product(x, outer(wide(pair.a), wide(pair.b)), options, "addr");
}
SINTER_DECL Tensor baddbmm(const In& x, const In& a, const In& b, AddProductOptions options) {
  return expr_detail::add_product(x, bmm(a, b), options, "baddbmm");
}
SINTER_DECL Tensor addbmm(const In& x, const In& a, const In& b, AddProductOptions options) {
  const auto pair = expr_detail::promoted_pair(a, b);
  expr_detail::require_ranks(pair, 3, 3, "addbmm", "batches (b, m, k) and (b, k, n) are required", x.where);
  // The batch is part of what is summed over: one product of long rows.
  return expr_detail::add_product(x, einsum({"bmk,bkn->mn", x.where}, {pair.a, pair.b}), options, "addbmm");
}

SINTER_DECL Tensor multi_dot(std::span<const Tensor> matrices, Location where) {
  if (matrices.size() < 2)
    throw ShapeError("multi_dot", std::to_string(matrices.size()) + " matrices are given", where, "two are the least");
  DType dtype = matrices[0].dtype();
  for (const Tensor& matrix : matrices) dtype = promote(dtype, matrix.dtype(), "multi_dot", where);
  std::vector<expr_detail::Labelled> chain;
  std::vector<int> output;
  const std::size_t last = matrices.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    const Tensor& matrix = matrices[i];
    const bool is_vector = matrix.rank() == 1 && (i == 0 || i == last), is_row = is_vector && i == 0;
    if (matrix.rank() != 2 && !is_vector)
      throw ShapeError("multi_dot", "operand " + std::to_string(i) + " is " + matrix.shape().text(), where,
                       "matrices are required; only the first and the last may be vectors");
    const int left = static_cast<int>(i);
    std::vector<int> labels = is_row      ? std::vector{left + 1}
                              : is_vector ? std::vector{left}
                                          : std::vector{left, left + 1};
    if (i > 0 && !(matrix.shape()[0] == matrices[i - 1].shape()[-1]))
      throw ShapeError("multi_dot",
                       "inner sizes differ: operand " + std::to_string(i - 1) + " is " +
                           matrices[i - 1].shape().text() + ", operand " + std::to_string(i) + " is " +
                           matrix.shape().text(),
                       where);
    if (i == 0 && !is_vector) output.push_back(left);
    if (i == last && !is_vector) output.push_back(left + 1);
    chain.push_back({cast(In(matrix, where), dtype), std::move(labels)});
  }
  return expr_detail::contract(std::move(chain), output, where);
}
SINTER_DECL Tensor multi_dot(std::initializer_list<Tensor> matrices, Location where) {
  return multi_dot(std::span<const Tensor>(matrices.begin(), matrices.size()), where);
}

SINTER_DECL Tensor matrix_power(const In& x, int power) {
  const Tensor matrix(x.tensor());
  const Shape shape = matrix.shape();
  if (shape.rank() < 2 || !(shape[-1] == shape[-2]))
    throw ShapeError("matrix_power", "x is " + shape.text() + ", square matrices are required", x.where);
  if (power == 0)
    return expand(In(eye(shape[-1], {.dtype = matrix.dtype(), .device = matrix.device()}, x.where), x.where), shape);
  const auto size = static_cast<std::uint32_t>(power);
  std::uint32_t left = power < 0 ? 0U - size : size;
  Tensor square = power < 0 ? linalg::inv(In(matrix, x.where)) : matrix, result;
  for (bool is_first = true;; square = matmul(In(square, x.where), In(square, x.where))) {
    if ((left & 1) != 0) {
      result = is_first ? square : matmul(In(result, x.where), In(square, x.where));
      is_first = false;
    }
    left >>= 1;
    if (left == 0) return result;
  }
}

SINTER_DECL Tensor cdist(const In& a, const In& b, double p) {
  const auto pair = expr_detail::promoted_pair(a, b);
  if (!(p >= 0)) throw UserError("cdist", "p is " + std::to_string(p) + ", it must not be negative", a.where);
  if (!is_floating(pair.a.dtype()))
    throw DTypeError("cdist", "operands are " + std::string(name(pair.a.dtype())) + ", they must be floating", a.where,
                     "cast with .to(DType::f32)");
  if (pair.a.rank() < 2 || pair.b.rank() < 2 || !(pair.a.shape()[-1] == pair.b.shape()[-1]))
    throw ShapeError("cdist", expr_detail::pair_text(pair.a, pair.b), a.where,
                     "rows (..., n, d) and (..., m, d) are required");
  if (pair.a.dtype() == DType::f16) {  // in f32, whose range holds the powers
    const auto wide = [&](const Tensor& x) { return In(cast(In(x, a.where), DType::f32), a.where); };
    return cast(In(cdist(wide(pair.a), wide(pair.b), p), a.where), DType::f16);
  }
  const Tensor gap = unsqueeze(In(pair.a, a.where), -2) - unsqueeze(In(pair.b, a.where), -3);
  if (p == 0) return sum(In(cast(In(Tensor(gap != 0)), gap.dtype()), a.where), -1);
  if (p == 1) return sum(In(abs(gap), a.where), -1);
  if (is_infinite_number(p)) return amax(In(abs(gap), a.where), -1);
  const Tensor total = sum(In(p == 2 ? Tensor(square(gap)) : Tensor(pow(abs(gap), p)), a.where), -1);
  const Tensor is_zero = total == 0,
               positive = where(is_zero, 1.0, total);  // the derivative of a root at 0 is infinite
  return where(is_zero, 0.0, p == 2 ? Tensor(sqrt(positive)) : Tensor(pow(positive, 1 / p)));
}

SINTER_NAMESPACE_END
