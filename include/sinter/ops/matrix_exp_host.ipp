// Exponentials by the Pade approximant of order 13 with scaling and squaring, in double.
#pragma once

#include <sinter/ops/matrix_exp_host.hpp>

#include <sinter/base/number_kind.hpp>
#include <sinter/ops/linalg_host.ipp>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Coefficients of the numerator of the Pade approximant of order 13 (Higham 2005, table 2.3 and (2.3)).
inline constexpr std::array<double, 14> pade_13{64764752532480000.,
                                                32382376266240000.,
                                                7771770303897600.,
                                                1187353796428800.,
                                                129060195264000.,
                                                10559470521600.,
                                                670442572800.,
                                                33522128640.,
                                                1323241920.,
                                                40840800.,
                                                960960.,
                                                16380.,
                                                182.,
                                                1.};

/// In double whatever T is: the squarings lose digits.
template <class T>
void exponential(const T* from, T* to, std::int64_t n) {
  using Matrix = RowMatrix<double>;
  Matrix a = eigen::Map<const RowMatrix<T>>(from, n, n).template cast<double>();
  const double norm = a.cwiseAbs().colwise().sum().maxCoeff();
  if (!is_finite_number(norm)) {
    std::fill_n(to, n * n, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  constexpr double largest = 5.371920351148152;  // theta_13: no scaling is needed below
  const int halvings = norm > largest ? std::max(0, std::ilogb(norm / largest) + 1) : 0;
  a *= std::ldexp(1.0, -halvings);
  const auto& b = pade_13;
  const Matrix one = Matrix::Identity(n, n), a2 = a * a, a4 = a2 * a2, a6 = a4 * a2;
  const Matrix high = b[13] * a6 + b[11] * a4 + b[9] * a2;
  const Matrix odd = a * (a6 * high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one);
  const Matrix even_high = b[12] * a6 + b[10] * a4 + b[8] * a2;
  const Matrix even = a6 * even_high + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one;
  Matrix below = even - odd, result = even + odd;
  std::vector<std::int32_t> pivots(as_index(n));
  lu_in_place(below.data(), n, n, pivots.data());
  for (std::int64_t i = 0; i < n; ++i) exchange_rows(result.data(), i, std::int64_t{pivots[as_index(i)]} - 1, n);
  triangular_solve_in_place(below.data(), result.data(), n, n, {.unit = true});
  triangular_solve_in_place(below.data(), result.data(), n, n, {.upper = true});
  for (int i = 0; i < halvings; ++i) result = (result * result).eval();
  eigen::Map<RowMatrix<T>>(to, n, n) = result.template cast<T>();
}

template <class T>
void exponential_of_all(HostCall& call) {
  const Matrices of(call.in[0]);
  const double work = 12 * static_cast<double>(of.size()) * static_cast<double>(of.columns);
  parallel_for(of.columns == 0 ? 0 : of.count, estimated_nanoseconds(work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      exponential(call.in[0].as<T>() + i * of.size(), call.out[0].as<T>() + i * of.size(), of.columns);
  });
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL void MatrixExp::run_on_host(HostCall& call) {
  visit_floating(call.in[0].dtype, [&](auto zero) { ops_detail::exponential_of_all<decltype(zero)>(call); });
}

}  // namespace ops
SINTER_NAMESPACE_END
