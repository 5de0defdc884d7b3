// Decompositions of complex matrices by Eigen, in double whatever the dtype is, matrices of a batch side by side on
// threads.
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
/// matrix that has numbers which are not finite, or no decomposition.
template <class T, class F>
void decompose_all(const HostCall& call, std::string_view op, double factor, const F& decompose) {
  const ComplexMatrices of(call.in[0]);
  if (of.size() == 0) return;
  const double work = factor * static_cast<double>(of.size()) * static_cast<double>(std::min(of.rows, of.columns));
  ops_detail::FirstFailed failed;
  const T* const all = call.in[0].as<T>();
  parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = all + i * of.size();
      if (!ops_detail::is_finite(from, of.size()) || !decompose(i, load_complex(from, of.rows, of.columns)))
        failed.note(i);
    }
  });
  if (!failed.any()) return;
  const Shape& pairs = call.in[0].shape;
  const bool is_finite = ops_detail::is_finite(all + failed.matrix() * of.size(), of.size());
  throw LinalgError(op,
                    ops_detail::matrix_text(failed.matrix(), Shape(pairs.dims().first(as_index(pairs.rank() - 1)))) +
                        (is_finite ? " did not converge" : " has elements that are not finite"),
                    call.where, is_finite ? "scale it" : "nan_to_num replaces NaN and infinities");
}

}  // namespace linalg_complex_detail

namespace ops {

SINTER_DECL void ComplexEigh::run_on_host(HostCall& call) {
  using namespace linalg_complex_detail;
  const ComplexMatrices of(call.in[0]);
  const std::int64_t n = of.rows;
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    decompose_all<T>(call, "eigh", 20, [&](std::int64_t i, const ComplexMatrix& matrix) {
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
    decompose_all<T>(call, "eig", 50, [&](std::int64_t i, const ComplexMatrix& matrix) {
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
    decompose_all<T>(call, "svd", 60, [&](std::int64_t i, const ComplexMatrix& matrix) {
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
  using linalg_complex_detail::Complex;  // not the op of that name
  const ComplexMatrices of(call.in[0]);
  ops_detail::visit_floating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double work = static_cast<double>(of.size()) * static_cast<double>(of.rows);
    parallel_for(of.count, ops_detail::estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Complex sign = 1;
        double logarithm = 0;
        if (of.rows > 0) {
          const eigen::PartialPivLU<ComplexMatrix> lu(
              load_complex(call.in[0].as<T>() + i * of.size(), of.rows, of.rows));
          sign = static_cast<double>(lu.permutationP().determinant());
          for (std::int64_t j = 0; j < of.rows; ++j) {
            const Complex pivot = lu.matrixLU()(j, j);
            const double size = std::abs(pivot);
            sign = size == 0 ? Complex(0) : sign * (pivot / size);
            logarithm += std::log(size);
          }
        }
        call.out[0].as<T>()[2 * i] = static_cast<T>(sign.real());
        call.out[0].as<T>()[2 * i + 1] = static_cast<T>(sign.imag());
        call.out[1].as<T>()[i] = static_cast<T>(logarithm);
      }
    });
  });
}

}  // namespace ops
SINTER_NAMESPACE_END
