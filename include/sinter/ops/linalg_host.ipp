// Row-major matrices in place. Pivots, errors and blocks are ours, products and orthogonal decompositions are Eigen's.
#pragma once

#include <sinter/ops/linalg_host.hpp>

#include <sinter/base/eigen.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/linalg_small.hpp>
#include <sinter/ops/linalg_svd.hpp>
#include <sinter/ops/linalg_vals.hpp>
#include <sinter/ops/small_symmetric_eigen.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

namespace eigen = base_detail::eigen;
template <class T>
using RowMatrix = eigen::Matrix<T, eigen::Dynamic, eigen::Dynamic, eigen::RowMajor>;
template <class T>
using ColumnMatrix = eigen::Matrix<T, eigen::Dynamic, eigen::Dynamic>;
/// Part of a row-major matrix.
template <class T>
using RowBlock = eigen::Map<RowMatrix<T>, 0, eigen::OuterStride<>>;

template <class T>
RowBlock<T> block_at(T* first, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return {first, rows, columns, eigen::OuterStride<>(stride)};
}

/// Rows and columns of the matrices of a view, and how many there are.
struct Matrices {
  explicit Matrices(const HostView& view) : rows(view.shape[-2].value()), columns(view.shape[-1].value()) {
    for (int i = 0; i + 2 < view.shape.rank(); ++i) count *= view.shape[i].value();
  }
  std::int64_t rows, columns, count = 1;
  std::int64_t size() const { return rows * columns; }
};

/// What the op was recorded with, of extents that were symbols then: results have room for so many steps.
inline void require_made_steps(const HostCall& call, std::string_view op, Dim made, std::int64_t rows,
                               std::int64_t columns) {
  if (made.value() == std::min(rows, columns)) return;
  throw ShapeError(op, "the operand is " + call.in[0].shape.text() + ", steps are " + made.text(), call.where,
                   "steps are the lesser extent");
}

/// Calls f(T{}) with the dtype's type.
template <class F>
void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::f64) f(double{});
  else f(float{});
}

/// Nanoseconds for `work` multiplications: what decides whether threads are worth it.
inline double estimated_nanoseconds(double work) { return 30 + work / 2; }

SINTER_DECL std::string matrix_text(std::int64_t number, const Shape& shape) {
  if (shape.rank() <= 2) return "the matrix";
  Shape batches(shape.dims().first(as_index(shape.rank() - 2))), index = batches;
  for (int axis = batches.rank() - 1; axis >= 0; --axis) {
    const std::int64_t extent = batches[axis].value();
    index.set(axis, number % extent);
    number /= extent;
  }
  return "matrix " + index.text() + " of " + batches.text();
}

inline std::string_view name_of(FactorUse use, std::string_view factor) {
  switch (use) {
    case FactorUse::unchecked:
    case FactorUse::factor:
    case FactorUse::complex_factor: return factor;
    case FactorUse::solve:
    case FactorUse::complex_solve: return "solve";
    case FactorUse::inv:
    case FactorUse::complex_inv: return "inv";
  }
  __builtin_unreachable();
}
/// The number of a row of the matrix that was given, from 1.
inline std::int32_t row_of(FactorUse use, std::int32_t number) {
  return use >= FactorUse::complex_factor ? (number + 1) / 2 : number;
}

SINTER_DECL void throw_singular(FactorUse use, std::int64_t matrix, std::int32_t pivot, const Shape& shape,
                                Location where) {
  const std::string name(name_of(use, "lu_factor"));
  throw LinalgError(name,
                    matrix_text(matrix, shape) + " is singular: pivot " + std::to_string(row_of(use, pivot)) + " is 0",
                    where, name + "_ex tells it by info; lstsq and pinv take matrices of any rank");
}
SINTER_DECL void throw_not_positive_definite(FactorUse use, std::int64_t matrix, std::int32_t order, const Shape& shape,
                                             Location where) {
  throw LinalgError(name_of(use, "cholesky"),
                    matrix_text(matrix, shape) + " is not positive definite: its leading minor of order " +
                        std::to_string(row_of(use, order)) + " is not positive",
                    where, "cholesky_ex tells it by info; where rounding is the cause, add a little to the diagonal");
}
SINTER_DECL void throw_no_result(std::string_view op, std::int64_t matrix, NoResult reason, const Shape& shape,
                                 Location where) {
  const bool is_finite = reason == NoResult::not_converged;
  throw LinalgError(
      op, matrix_text(matrix, shape) + (is_finite ? " did not converge" : " has elements that are not finite"), where,
      is_finite ? "scale it" : "nan_to_num replaces NaN and infinities");
}

/// The first matrix that has no result, or -1.
inline std::int64_t first_failed(const HostView& info) {
  const auto* values = info.as<std::int32_t>();
  const auto* found = std::find_if(values, values + info.numel, [](std::int32_t value) { return value != 0; });
  return found == values + info.numel ? -1 : found - values;
}

// ---- Cholesky

/// The lower factor in place of the lower triangle; gives 0, or the order of the first minor that is not positive.
template <class T>
std::int32_t cholesky_of_small(T* a, std::int64_t n, std::int64_t stride) {
  for (std::int64_t j = 0; j < n; ++j) {
    T* row = a + j * stride;
    T square = row[j];
    for (std::int64_t k = 0; k < j; ++k) square -= row[k] * row[k];
    if (!(square > 0)) return static_cast<std::int32_t>(j + 1);
    const T root = row[j] = std::sqrt(square);
    for (std::int64_t i = j + 1; i < n; ++i) {
      T* below = a + i * stride;
      T sum = below[j];
      for (std::int64_t k = 0; k < j; ++k) sum -= below[k] * row[k];
      below[j] = sum / root;
    }
  }
  return 0;
}

template <class T>
std::int32_t cholesky_in_place(T* a, std::int64_t n) {
  constexpr std::int64_t block = 48;
  if (n <= block) return cholesky_of_small(a, n, n);
  for (std::int64_t k = 0; k < n; k += block) {
    const std::int64_t width = std::min(block, n - k), rest = n - k - width;
    T* corner = a + k * n + k;
    if (const std::int32_t order = cholesky_of_small(corner, width, n); order != 0)
      return order + static_cast<std::int32_t>(k);
    if (rest == 0) break;
    const auto diagonal = block_at(corner, width, width, n);
    auto below = block_at(corner + width * n, rest, width, n);
    auto trailing = block_at(corner + width * n + width, rest, rest, n);
    diagonal.template triangularView<eigen::Lower>().transpose().template solveInPlace<eigen::OnTheRight>(below);
    trailing.template selfadjointView<eigen::Lower>().rankUpdate(below, T(-1));
  }
  return 0;
}

/// From so many on, lanes are worth it.
inline bool is_small_batch(const Matrices& of, std::int64_t columns = 1) {
  constexpr std::int64_t least_count = 8;
  return of.count >= least_count && of.rows >= 1 && of.rows <= most_small_rows && columns >= 1 &&
         columns <= most_small_columns;
}

template <class T>
void cholesky_of_all(HostCall& call) {
  const Matrices of(call.in[0]);
  const std::int64_t n = of.columns;
  if (is_small_batch(of))
    return compute_small_batch<T>({.use = SmallUse::cholesky,
                                   .a = call.in[0].as<T>(),
                                   .out = call.out[0].as<T>(),
                                   .info = call.out[1].as<std::int32_t>(),
                                   .n = n},
                                  of.count);
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  parallel_for(of.count, estimated_nanoseconds(cube / 3), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = call.in[0].as<T>() + i * of.size();
      T* to = call.out[0].as<T>() + i * of.size();
      for (std::int64_t row = 0; row < n; ++row) {
        std::copy_n(from + row * n, row + 1, to + row * n);
        std::fill_n(to + row * n + row + 1, n - row - 1, T(0));
      }
      call.out[1].as<std::int32_t>()[i] = cholesky_in_place(to, n);
    }
  });
}

// ---- LU

template <class T>
void exchange_rows(T* a, std::int64_t row, std::int64_t other, std::int64_t columns) {
  if (row != other) std::swap_ranges(a + row * columns, a + (row + 1) * columns, a + other * columns);
}

/// By what pivots are chosen; of complex numbers as LAPACK does.
template <class T>
T pivot_size(T x) {
  return std::abs(x);
}
template <class T>
T pivot_size(std::complex<T> x) {
  return std::abs(x.real()) + std::abs(x.imag());
}

template <class T>
void subtract_product(T& to, T a, T b) {
  to -= a * b;
}
/// In parts: the operator would ask for NaN and infinities at each product.
template <class T>
void subtract_product(std::complex<T>& to, std::complex<T> a, std::complex<T> b) {
  to = {to.real() - (a.real() * b.real() - a.imag() * b.imag()),
        to.imag() - (a.real() * b.imag() + a.imag() * b.real())};
}

/// Factors columns [k, k + width) of rows from k on, exchanging whole rows.
template <class T>
void lu_of_panel(T* a, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t width, std::int32_t* pivots,
                 std::int32_t& info) {
  for (std::int64_t j = k; j < k + width; ++j) {
    std::int64_t pivot = j;
    for (std::int64_t i = j + 1; i < m; ++i)
      if (pivot_size(a[i * n + j]) > pivot_size(a[pivot * n + j])) pivot = i;
    pivots[j] = static_cast<std::int32_t>(pivot + 1);
    exchange_rows(a, j, pivot, n);
    const T* row = a + j * n;
    if (row[j] == T(0)) {
      if (info == 0) info = static_cast<std::int32_t>(j + 1);
      continue;
    }
    for (std::int64_t i = j + 1; i < m; ++i) {
      T* below = a + i * n;
      const T factor = below[j] /= row[j];
      for (std::int64_t column = j + 1; column < k + width; ++column)
        subtract_product(below[column], factor, row[column]);
    }
  }
}

/// Gives info: 0, or the first pivot, from 1, that is 0.
template <class T>
std::int32_t lu_in_place(T* a, std::int64_t m, std::int64_t n, std::int32_t* pivots) {
  std::int32_t info = 0;
  const std::int64_t steps = std::min(m, n), block = steps <= 32 ? steps : 32;
  for (std::int64_t k = 0; k < steps; k += block) {
    const std::int64_t width = std::min(block, steps - k), below = m - k - width, beside = n - k - width;
    lu_of_panel(a, m, n, k, width, pivots, info);
    if (beside == 0) continue;
    T* corner = a + k * n + k;
    auto right = block_at(corner + width, width, beside, n);
    block_at(corner, width, width, n).template triangularView<eigen::UnitLower>().solveInPlace(right);
    if (below > 0)
      block_at(corner + width * n + width, below, beside, n).noalias() -=
          block_at(corner + width * n, below, width, n) * right;
  }
  return info;
}

template <class T>
void lu_of_all(HostCall& call) {
  const Matrices of(call.in[0]);
  require_made_steps(call, "lu_factor", call.out[1].shape[-1], of.rows, of.columns);
  const std::int64_t steps = std::min(of.rows, of.columns);
  const double work = static_cast<double>(of.size()) * static_cast<double>(steps);
  parallel_for(of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* to = call.out[0].as<T>() + i * of.size();
      std::copy_n(call.in[0].as<T>() + i * of.size(), of.size(), to);
      call.out[2].as<std::int32_t>()[i] =
          lu_in_place(to, of.rows, of.columns, call.out[1].as<std::int32_t>() + i * steps);
    }
  });
}

// ---- triangular systems

/// Small systems: rows of x from the first to the last, or the other way.
template <class T, class Element>
void substitute(const Element& a, T* x, std::int64_t n, std::int64_t columns, Triangular kind) {
  const bool is_forward = kind.upper == kind.transposed;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = is_forward ? step : n - 1 - step;
    T* row = x + i * columns;
    const std::int64_t first = is_forward ? 0 : i + 1, last = is_forward ? i : n;
    for (std::int64_t j = first; j < last; ++j) {
      const T factor = a(i, j);
      const T* other = x + j * columns;
      for (std::int64_t c = 0; c < columns; ++c) row[c] -= factor * other[c];
    }
    if (kind.unit) continue;
    const T pivot = a(i, i);
    for (std::int64_t c = 0; c < columns; ++c) row[c] /= pivot;
  }
}

template <unsigned part, class A, class X>
void solve_triangle(const A& a, X& x) {
  a.template triangularView<part>().solveInPlace(x);
}
template <class A, class X>
void solve_by_part(const A& a, X& x, bool is_upper, bool is_unit) {
  if (is_upper) is_unit ? solve_triangle<eigen::UnitUpper>(a, x) : solve_triangle<eigen::Upper>(a, x);
  else is_unit ? solve_triangle<eigen::UnitLower>(a, x) : solve_triangle<eigen::Lower>(a, x);
}

template <class T>
void triangular_solve_in_place(const T* a, T* x, std::int64_t n, std::int64_t columns, Triangular kind) {
  if (n <= 16) {
    if (kind.transposed) substitute([&](std::int64_t i, std::int64_t j) { return a[j * n + i]; }, x, n, columns, kind);
    else substitute([&](std::int64_t i, std::int64_t j) { return a[i * n + j]; }, x, n, columns, kind);
    return;
  }
  auto values = block_at(x, n, columns, columns);
  if (kind.transposed) {
    const eigen::Map<const ColumnMatrix<T>> turned(a, n, n);
    solve_by_part(turned, values, !kind.upper, kind.unit);
  } else {
    const eigen::Map<const RowMatrix<T>> straight(a, n, n);
    solve_by_part(straight, values, kind.upper, kind.unit);
  }
}

template <class T>
void triangular_solve_of_all(HostCall& call, Triangular kind) {
  const Matrices of(call.in[0]), given(call.in[1]);
  if (is_small_batch(of, given.columns))
    return compute_small_batch<T>({.use = SmallUse::triangular,
                                   .a = call.in[0].as<T>(),
                                   .b = call.in[1].as<T>(),
                                   .out = call.out[0].as<T>(),
                                   .n = of.rows,
                                   .columns = given.columns,
                                   .transposed = kind.transposed,
                                   .upper = kind.upper,
                                   .unit = kind.unit},
                                  of.count);
  const double work = static_cast<double>(of.size()) * static_cast<double>(given.columns) / 2;
  parallel_for(of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* x = call.out[0].as<T>() + i * given.size();
      std::copy_n(call.in[1].as<T>() + i * given.size(), given.size(), x);
      if (given.size() > 0)
        triangular_solve_in_place(call.in[0].as<T>() + i * of.size(), x, of.rows, given.columns, kind);
    }
  });
}

// ---- small systems

template <class T>
void small_solve_of_all(HostCall& call, std::atomic<std::int64_t>* first_failure) {
  using Op = ops::SmallSolve;
  const Matrices of(call.in[0]);
  const ops::SmallResult made = call.attrs[Op::made];
  const bool has_right_side = made == ops::SmallResult::solution;
  compute_small_batch<T>({.use = has_right_side                      ? SmallUse::solve
                                 : made == ops::SmallResult::inverse ? SmallUse::inverse
                                                                     : SmallUse::determinant,
                          .a = call.in[0].as<T>(),
                          .b = has_right_side ? call.in[1].as<T>() : nullptr,
                          .out = call.out[0].as<T>(),
                          .first_failure = first_failure,
                          .n = of.rows,
                          .columns = has_right_side ? call.in[1].shape[-1].value() : 0,
                          .transposed = call.attrs[Op::transposed]},
                         of.count);
}

// ---- orthogonal decompositions: in double whatever T is, which is exact to the last digits of f32, and half the code;
// but for eigenvalues of large matrices (symmetric_eigen.ipp)

template <class T>
ColumnMatrix<double> widened(const T* from, std::int64_t rows, std::int64_t columns) {
  return eigen::Map<const RowMatrix<T>>(from, rows, columns).template cast<double>();
}
template <class T, class M>
void narrow_to(T* to, const M& from) {
  eigen::Map<RowMatrix<T>>(to, from.rows(), from.cols()) = from.template cast<T>();
}

template <class T>
void qr_of_all(HostCall& call, QrMode mode) {
  const Matrices of(call.in[0]);
  if (mode != QrMode::complete)
    require_made_steps(call, "qr", call.out[mode == QrMode::r ? 0 : 1].shape[-2], of.rows, of.columns);
  const bool has_q = mode != QrMode::r;
  const std::int64_t steps = std::min(of.rows, of.columns), inner = mode == QrMode::complete ? of.rows : steps;
  const double work =
      2 * static_cast<double>(of.rows) * static_cast<double>(of.columns + inner) * static_cast<double>(steps);
  parallel_for(of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    eigen::HouseholderQR<ColumnMatrix<double>> decomposition(of.rows, of.columns);
    RowMatrix<double> wide(of.rows, inner);
    for (std::int64_t i = begin; i < end; ++i) {
      eigen::Map<RowMatrix<T>> r(call.out[has_q ? 1 : 0].template as<T>() + i * inner * of.columns, inner, of.columns);
      if (steps > 0) {
        decomposition.compute(widened(call.in[0].as<T>() + i * of.size(), of.rows, of.columns));
        r.setZero();
        for (std::int64_t row = 0; row < steps; ++row)
          for (std::int64_t column = row; column < of.columns; ++column)
            r(row, column) = static_cast<T>(decomposition.matrixQR()(row, column));
      } else {
        r.setZero();
      }
      if (!has_q) continue;
      wide.setIdentity();
      if (steps > 0) wide.applyOnTheLeft(decomposition.householderQ().setLength(steps));
      narrow_to(call.out[0].as<T>() + i * of.rows * inner, wide);
    }
  });
}

/// Whether each number is finite; a decomposition that iterates would not end, or give anything, on others.
template <class T>
bool is_finite(const T* values, std::int64_t count) {
  return std::all_of(values, values + count, [](T value) { return is_finite_number(value); });
}
/// The first failed matrix among those that threads report.
class FirstFailed {
 public:
  void note(std::int64_t matrix) {
    std::int64_t known = first_.load();
    while (matrix < known && !first_.compare_exchange_weak(known, matrix)) {}
  }
  bool any() const { return first_.load() != none; }
  std::int64_t matrix() const { return first_.load(); }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first_{none};
};

template <class T>
void svd_of_all(HostCall& call, SvdVectors vectors) {
  const Matrices of(call.in[0]);
  const bool has_vectors = vectors != SvdVectors::none;
  require_made_steps(call, "svd", call.out[has_vectors ? 1 : 0].shape[-1], of.rows, of.columns);
  const std::int64_t steps = std::min(of.rows, of.columns);
  const std::int64_t left = vectors == SvdVectors::full ? of.rows : steps;
  const std::int64_t right = vectors == SvdVectors::full ? of.columns : steps;
  const double work = 20 * static_cast<double>(of.size()) * static_cast<double>(steps);
  FirstFailed failed;
  parallel_for(of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    WideSvd decomposition;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = call.in[0].as<T>() + i * of.size();
      T* u = call.out[0].as<T>() + i * of.rows * left;
      T* s = call.out[has_vectors ? 1 : 0].template as<T>() + i * steps;
      if (steps == 0) {
        if (!has_vectors) continue;
        eigen::Map<RowMatrix<T>>(u, of.rows, left).setIdentity();
        eigen::Map<RowMatrix<T>>(call.out[2].as<T>() + i * right * of.columns, right, of.columns).setIdentity();
        continue;
      }
      if (!is_finite(from, of.size())) {
        failed.note(i);
        continue;
      }
      if (!decomposition.compute(widened(from, of.rows, of.columns), vectors)) failed.note(i);
      narrow_to(s, decomposition.values().transpose());
      if (!has_vectors) continue;
      narrow_to(u, decomposition.left());
      narrow_to(call.out[2].as<T>() + i * right * of.columns, decomposition.right().transpose());
    }
  });
  if (!failed.any()) return;
  const std::int64_t matrix = failed.matrix();
  const bool finite = is_finite(call.in[0].as<T>() + matrix * of.size(), of.size());
  throw_no_result("svd", matrix, finite ? NoResult::not_converged : NoResult::not_finite, call.in[0].shape, call.where);
}

template <class T>
void eigh_of_all(HostCall& call, bool values_only) {
  const Matrices of(call.in[0]);
  const std::int64_t n = of.columns;
  const double work = 5 * static_cast<double>(of.size()) * static_cast<double>(n);
  FirstFailed failed;
  const auto is_lower_finite = [&](std::int64_t matrix) {
    const T* from = call.in[0].as<T>() + matrix * of.size();
    for (std::int64_t row = 0; row < n; ++row)
      if (!is_finite(from + row * n, row + 1)) return false;
    return true;
  };
  parallel_for(n == 0 ? 0 : of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (!is_lower_finite(i) || !eigh_of_one<T>(call.in[0].as<T>() + i * of.size(), n, call.out[0].as<T>() + i * n,
                                                 values_only ? nullptr : call.out[1].as<T>() + i * of.size()))
        failed.note(i);
  });
  if (failed.any())
    throw_no_result("eigh", failed.matrix(),
                    is_lower_finite(failed.matrix()) ? NoResult::not_converged : NoResult::not_finite, call.in[0].shape,
                    call.where);
}

}  // namespace ops_detail

namespace ops {
using ops_detail::visit_floating;

SINTER_DECL void SmallSolve::run_on_host(HostCall& call) {
  using ops_detail::SmallFailure;
  const bool is_checked = call.attrs[use] != FactorUse::unchecked;
  std::atomic<std::int64_t> first_failure = SmallFailure::none;
  visit_floating(call.in[0].dtype, [&](auto zero) {
    ops_detail::small_solve_of_all<decltype(zero)>(call, is_checked ? &first_failure : nullptr);
  });
  if (!is_checked || first_failure == SmallFailure::none) return;
  const SmallFailure failed = SmallFailure::at(first_failure);
  ops_detail::throw_singular(call.attrs[use], failed.matrix, failed.pivot, call.in[0].shape, call.where);
}

SINTER_DECL void Cholesky::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype, [&](auto zero) { ops_detail::cholesky_of_all<decltype(zero)>(call); });
  const std::int64_t failed = ops_detail::first_failed(call.out[1]);
  if (call.attrs[use] == FactorUse::unchecked || failed < 0) return;
  ops_detail::throw_not_positive_definite(call.attrs[use], failed, call.out[1].as<std::int32_t>()[failed],
                                          call.in[0].shape, call.where);
}

SINTER_DECL void LuFactor::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype, [&](auto zero) { ops_detail::lu_of_all<decltype(zero)>(call); });
  const std::int64_t failed = ops_detail::first_failed(call.out[2]);
  if (call.attrs[use] == FactorUse::unchecked || failed < 0) return;
  ops_detail::throw_singular(call.attrs[use], failed, call.out[2].as<std::int32_t>()[failed], call.in[0].shape,
                             call.where);
}

SINTER_DECL void LuPermutation::run_on_host(HostCall& call) {
  const std::int64_t steps = call.in[0].shape[-1].value(), length = call.out[0].shape[-1].value();
  for (std::int64_t i = 0; length > 0 && i < call.out[0].numel / length; ++i) {
    const std::int32_t* pivots = call.in[0].as<std::int32_t>() + i * steps;
    std::int64_t* order = call.out[0].as<std::int64_t>() + i * length;
    for (std::int64_t row = 0; row < length; ++row) order[row] = row;
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t other = pivots[step] - 1;
      if (step >= length || other < 0 || other >= length)
        throw IndexError("lu_solve",
                         "pivot " + std::to_string(pivots[step]) + " names no row of " + std::to_string(length),
                         call.where, "pivots are those of lu_factor: they count from 1");
      std::swap(order[step], order[other]);
    }
  }
}

SINTER_DECL void TriangularSolve::run_on_host(HostCall& call) {
  const ops_detail::Triangular kind{call.attrs[upper], call.attrs[transposed], call.attrs[unit]};
  visit_floating(call.in[0].dtype, [&](auto zero) { ops_detail::triangular_solve_of_all<decltype(zero)>(call, kind); });
}

SINTER_DECL void Qr::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype, [&](auto zero) { ops_detail::qr_of_all<decltype(zero)>(call, call.attrs[mode]); });
}

SINTER_DECL void Svd::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype,
                 [&](auto zero) { ops_detail::svd_of_all<decltype(zero)>(call, call.attrs[vectors]); });
}

SINTER_DECL void Eigh::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype,
                 [&](auto zero) { ops_detail::eigh_of_all<decltype(zero)>(call, call.attrs[values_only]); });
}

}  // namespace ops
SINTER_NAMESPACE_END
