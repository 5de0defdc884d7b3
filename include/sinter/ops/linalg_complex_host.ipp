// Decompositions of complex matrices by Eigen, in double whatever the dtype is (but for LU, which is that of real
// matrices), matrices of a batch side by side on threads.
#pragma once

#include <sinter/ops/linalg_complex_host.hpp>

#include <sinter/ops/linalg_complex.hpp>
#include <sinter/ops/linalg_host.ipp>

#include <complex>

SINTER_NAMESPACE_BEGIN
namespace linalg_complex_detail {

namespace eigen = base_detail::eigen;
using Complex = std::complex<double>;
using ComplexMatrix = eigen::Matrix<Complex, eigen::Dynamic, eigen::Dynamic>;

template <class T>
ComplexMatrix load_complex(const T* from, std::int64_t rows, std::int64_t columns) {
  ComplexMatrix out(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j, from += 2)
      out(i, j) = {static_cast<double>(from[0]), static_cast<double>(from[1])};
  return out;
}
template <class T, class M>
void store_complex(T* to, const M& from) {
  for (std::int64_t i = 0; i < from.rows(); ++i)
    for (std::int64_t j = 0; j < from.cols(); ++j) {
      *to++ = static_cast<T>(from(i, j).real());
      *to++ = static_cast<T>(from(i, j).imag());
    }
}

/// `decompose(number of the matrix, its numbers)` for each matrix; it says whether it converged. Throws for the first
/// matrix of whose numbers, as far as they are read, some are not finite, or that has no decomposition.
template <class T, class Finite, class F>
void decompose_all(const HostCall& call, std::string_view op, double factor, const Finite& is_finite,
                   const F& decompose) {
  const ComplexMatrices of(call.in[0]);
  if (of.size() == 0) return;
  const double work = factor * static_cast<double>(of.size()) * static_cast<double>(std::min(of.rows, of.columns));
  ops_detail::FirstFailed failed;
  const T* const all = call.in[0].as<T>();
  parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = all + i * of.size();
      if (!is_finite(from) || !decompose(i, load_complex(from, of.rows, of.columns))) failed.note(i);
    }
  });
  if (!failed.any()) return;
  const Shape& pairs = call.in[0].shape;
  const bool was_finite = is_finite(all + failed.matrix() * of.size());
  throw LinalgError(op,
                    ops_detail::matrix_text(failed.matrix(), Shape(pairs.dims().first(as_index(pairs.rank() - 1)))) +
                        (was_finite ? " did not converge" : " has elements that are not finite"),
                    call.where, was_finite ? "scale it" : "nan_to_num replaces NaN and infinities");
}

template <class T>
void complex_lu_of_all(HostCall& call) {
  using Number = std::complex<T>;  // pairs lie in memory as this does
  const ComplexMatrices of(call.in[0]);
  ops_detail::require_made_steps(call, "lu_factor", call.out[1].shape[-1], of.rows, of.columns);
  const std::int64_t elements = of.rows * of.columns, steps = std::min(of.rows, of.columns);
  const double work = 4 * static_cast<double>(elements) * static_cast<double>(steps);
  const auto* const from = reinterpret_cast<const Number*>(call.in[0].as<T>());
  auto* const to = reinterpret_cast<Number*>(call.out[0].as<T>());
  parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(from + i * elements, elements, to + i * elements);
      call.out[2].as<std::int32_t>()[i] =
          ops_detail::lu_in_place(to + i * elements, of.rows, of.columns, call.out[1].as<std::int32_t>() + i * steps);
    }
  });
}

template <class T>
void complex_qr_of_all(HostCall& call, QrMode mode) {
  const ComplexMatrices of(call.in[0]);
  const bool has_q = mode != QrMode::r;
  if (mode != QrMode::complete)
    ops_detail::require_made_steps(call, "qr", call.out[has_q ? 1 : 0].shape[-3], of.rows, of.columns);
  const std::int64_t steps = std::min(of.rows, of.columns), inner = mode == QrMode::complete ? of.rows : steps;
  const double work =
      8 * static_cast<double>(of.rows) * static_cast<double>(of.columns + inner) * static_cast<double>(steps);
  parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    eigen::HouseholderQR<ComplexMatrix> decomposition(of.rows, of.columns);
    for (std::int64_t i = begin; i < end; ++i) {
      ComplexMatrix r = ComplexMatrix::Zero(inner, of.columns), q = ComplexMatrix::Identity(of.rows, has_q ? inner : 0);
      if (steps > 0) {
        decomposition.compute(load_complex(call.in[0].as<T>() + i * of.size(), of.rows, of.columns));
        for (std::int64_t row = 0; row < steps; ++row)
          for (std::int64_t column = row; column < of.columns; ++column)
            r(row, column) = decomposition.matrixQR()(row, column);
        if (has_q) q.applyOnTheLeft(decomposition.householderQ().setLength(steps));
      }
      store_complex(call.out[has_q ? 1 : 0].template as<T>() + i * 2 * inner * of.columns, r);
      if (has_q) store_complex(call.out[0].as<T>() + i * 2 * of.rows * inner, q);
    }
  });
}

/// `store(number of the matrix, 1 or -1 by the exchanges, pivots)` for each matrix.
template <class T, class F>
void pivots_of_all(const HostCall& call, const F& store) {
  const ComplexMatrices of(call.in[0]);
  const double work = static_cast<double>(of.size()) * static_cast<double>(of.rows);
  parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (of.rows == 0) {
        store(i, 1.0, ComplexMatrix(0, 1));
        continue;
      }
      const eigen::PartialPivLU<ComplexMatrix> lu(load_complex(call.in[0].as<T>() + i * of.size(), of.rows, of.rows));
      store(i, static_cast<double>(lu.permutationP().determinant()), ComplexMatrix(lu.matrixLU().diagonal()));
    }
  });
}

}  // namespace linalg_complex_detail

namespace ops {

SINTER_DECL void ComplexLu::run_on_host(HostCall& call) {
  ops_detail::visit_floating(call.in[0].dtype,
                             [&](auto zero) { linalg_complex_detail::complex_lu_of_all<decltype(zero)>(call); });
  const std::int64_t failed = ops_detail::first_failed(call.out[2]);
  if (call.attrs[use] == FactorUse::unchecked || failed < 0) return;
  const Shape& pairs = call.in[0].shape;
  ops_detail::throw_singular(call.attrs[use], failed, call.out[2].as<std::int32_t>()[failed],
                             Shape(pairs.dims().first(as_index(pairs.rank() - 1))), call.where);
}

SINTER_DECL void ComplexQr::run_on_host(HostCall& call) {
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    linalg_complex_detail::complex_qr_of_all<decltype(zero)>(call, call.attrs[mode]);
  });
}

SINTER_DECL void ComplexDet::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    pivots_of_all<T>(call, [&](std::int64_t i, double sign, const ComplexMatrix& pivots) {
      const std::complex<double> determinant = sign * pivots.prod();
      call.out[0].as<T>()[2 * i] = static_cast<T>(determinant.real());
      call.out[0].as<T>()[2 * i + 1] = static_cast<T>(determinant.imag());
    });
  });
}

SINTER_DECL void ComplexEigh::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  const ComplexMatrices of(call.in[0]);
  const std::int64_t n = of.rows;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto is_finite = [n](const T* from) {  // the lower triangle, and real parts of the diagonal
      for (std::int64_t row = 0; row < n; ++row)
        if (!ops_detail::is_finite(from + 2 * row * n, 2 * row + 1)) return false;
      return true;
    };
    decompose_all<T>(call, "eigh", 20, is_finite, [&](std::int64_t i, ComplexMatrix matrix) {
      for (std::int64_t j = 0; j < n; ++j) matrix(j, j) = matrix(j, j).real();
      const eigen::SelfAdjointEigenSolver<ComplexMatrix> solver(matrix);
      for (std::int64_t j = 0; j < n; ++j) call.out[0].as<T>()[i * n + j] = static_cast<T>(solver.eigenvalues()(j));
      store_complex(call.out[1].as<T>() + i * of.size(), solver.eigenvectors());
      return solver.info() == eigen::Success;
    });
  });
}

SINTER_DECL void Eig::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  const ComplexMatrices of(call.in[0]);
  const std::int64_t n = of.rows;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto store = [&](std::int64_t i, const auto& solver) {
      if (solver.info() != eigen::Success) return false;
      store_complex(call.out[0].as<T>() + i * 2 * n, solver.eigenvalues());
      ComplexMatrix vectors = solver.eigenvectors();
      for (std::int64_t j = 0; j < n; ++j) vectors.col(j) /= vectors.col(j).norm();
      store_complex(call.out[1].as<T>() + i * of.size(), vectors);
      return true;
    };
    const auto is_finite = [&](const T* from) { return ops_detail::is_finite(from, of.size()); };
    decompose_all<T>(call, "eig", 50, is_finite, [&](std::int64_t i, const ComplexMatrix& matrix) {
      if (matrix.imag().isZero(0))  // pairs of conjugate eigenvalues stay exactly that
        return store(i, eigen::EigenSolver<ops_detail::ColumnMatrix<double>>(matrix.real()));
      return store(i, eigen::ComplexEigenSolver<ComplexMatrix>(matrix));
    });
  });
}

SINTER_DECL void ComplexSvd::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  const ComplexMatrices of(call.in[0]);
  const std::int64_t k = std::min(of.rows, of.columns);
  ops_detail::require_made_steps(call, "svd", call.out[1].shape[-1], of.rows, of.columns);
  const bool full = call.attrs[is_full];
  const std::int64_t left = 2 * of.rows * (full ? of.rows : k), right = 2 * of.columns * (full ? of.columns : k);
  const unsigned options =
      full ? unsigned{eigen::ComputeFullU} | eigen::ComputeFullV : unsigned{eigen::ComputeThinU} | eigen::ComputeThinV;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (k == 0)  // vectors of nothing, and with `full` any basis of the rest
      for (std::int64_t i = 0; i < of.count; ++i) {
        store_complex(call.out[0].as<T>() + i * left, ComplexMatrix::Identity(of.rows, full ? of.rows : k).eval());
        store_complex(call.out[2].as<T>() + i * right,
                      ComplexMatrix::Identity(full ? of.columns : k, of.columns).eval());
      }
    const auto is_finite = [&](const T* from) { return ops_detail::is_finite(from, of.size()); };
    decompose_all<T>(call, "svd", 60, is_finite, [&](std::int64_t i, const ComplexMatrix& matrix) {
      const eigen::JacobiSVD<ComplexMatrix> svd(matrix, options);
      for (std::int64_t j = 0; j < k; ++j) call.out[1].as<T>()[i * k + j] = static_cast<T>(svd.singularValues()(j));
      store_complex(call.out[0].as<T>() + i * left, svd.matrixU());
      store_complex(call.out[2].as<T>() + i * right, svd.matrixV().adjoint().eval());
      return svd.info() == eigen::Success;
    });
  });
}

SINTER_DECL void ComplexLogDet::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    pivots_of_all<T>(call, [&](std::int64_t i, double exchanges, const ComplexMatrix& pivots) {
      std::complex<double> sign = exchanges;
      double logarithm = 0;
      for (std::int64_t j = 0; j < pivots.rows(); ++j) {
        const std::complex<double> pivot = pivots(j, 0);
        const double size = std::abs(pivot);
        sign = size == 0 ? 0.0 : sign * (pivot / size);
        logarithm += std::log(size);
      }
      call.out[0].as<T>()[2 * i] = static_cast<T>(sign.real());
      call.out[0].as<T>()[2 * i + 1] = static_cast<T>(sign.imag());
      call.out[1].as<T>()[i] = static_cast<T>(logarithm);
    });
  });
}

}  // namespace ops
SINTER_NAMESPACE_END
