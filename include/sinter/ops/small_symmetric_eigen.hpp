// Eigenvalues and vectors of a symmetric matrix of up to three rows, in double: Jacobi's rotations (Golub and Van Loan,
// section 8.5), of which two rows need one, in variables alone; and which way is taken for how many rows.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/symmetric_eigen.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

template <int n>
class SmallSymmetric {
 public:
  /// Of the lower triangle of `a` [n, n], whose elements are finite.
  template <class T>
  explicit SmallSymmetric(const T* a) {
    double largest = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) largest = std::max(largest, std::abs(static_cast<double>(a[i * n + j])));
    std::frexp(largest, &exponent_);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        const double element = static_cast<double>(a[std::max(i, j) * n + std::min(i, j)]);
        a_[i][j] = exponent_ == 0 ? element : std::ldexp(element, -exponent_);
        v_[i][j] = i == j ? 1 : 0;
      }
  }
  /// False: rotations did not end.
  bool run() {
    constexpr int most_sweeps = 50;  // convergence is quadratic: five are many
    for (int sweep = 0; sweep < most_sweeps; ++sweep) {
      bool is_diagonal = true;
      for (int p = 0; p < n; ++p)
        for (int q = p + 1; q < n; ++q) {
          if (is_negligible(p, q)) continue;
          is_diagonal = false;
          rotate(p, q);
        }
      if (is_diagonal) return true;
    }
    return false;
  }
  /// Ascending; `vectors` [n, n], the columns, unless null.
  template <class T>
  void write(T* values, T* vectors) const {
    int order[n];
    for (int i = 0; i < n; ++i) order[i] = i;
    std::sort(order, order + n, [&](int i, int j) { return a_[i][i] < a_[j][j] || (a_[i][i] == a_[j][j] && i < j); });
    for (int j = 0; j < n; ++j) {
      values[j] = static_cast<T>(std::ldexp(a_[order[j]][order[j]], exponent_));
      if (vectors == nullptr) continue;
      for (int i = 0; i < n; ++i) vectors[i * n + j] = static_cast<T>(v_[i][order[j]]);
    }
  }

 private:
  /// Below the rounding of what stands on the diagonal beside it, so that small eigenvalues are found, too.
  bool is_negligible(int p, int q) const {
    const double size = std::abs(a_[p][q]);
    return size == 0 ||
           (std::abs(a_[p][p]) + size == std::abs(a_[p][p]) && std::abs(a_[q][q]) + size == std::abs(a_[q][q]));
  }
  void rotate(int p, int q) {
    const double theta = (a_[q][q] - a_[p][p]) / (2 * a_[p][q]);
    const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
    const double c = 1 / std::sqrt(t * t + 1), s = t * c, moved = t * a_[p][q];
    a_[p][p] -= moved;
    a_[q][q] += moved;
    a_[p][q] = a_[q][p] = 0;
    for (int k = 0; k < n; ++k) {
      if (k != p && k != q) {
        const double x = a_[k][p], y = a_[k][q];
        a_[k][p] = a_[p][k] = c * x - s * y;
        a_[k][q] = a_[q][k] = s * x + c * y;
      }
      const double x = v_[k][p], y = v_[k][q];
      v_[k][p] = c * x - s * y;
      v_[k][q] = s * x + c * y;
    }
  }

  double a_[n][n], v_[n][n];
  int exponent_ = 0;
};

template <int n, class T>
bool small_symmetric_eigen(const T* a, T* values, T* vectors) {
  SmallSymmetric<n> matrix(a);
  const bool has_ended = matrix.run();
  matrix.write(values, vectors);
  return has_ended;
}

/// Few rows of f32 are worked on in double, which costs little then and keeps all digits.
template <class T>
bool eigh_of_larger(const T* a, std::int64_t n, T* values, T* vectors) {
  return symmetric_eigen(a, n, values, vectors);
}
template <>
inline bool eigh_of_larger(const float* a, std::int64_t n, float* values, float* vectors) {
  constexpr std::int64_t largest_in_double = 64;
  if (n > largest_in_double) return symmetric_eigen(a, n, values, vectors);
  const std::vector<double> wide(a, a + n * n);
  std::vector<double> wide_values(as_index(n)), wide_vectors(as_index(vectors == nullptr ? 0 : n * n));
  const bool has_ended =
      symmetric_eigen(wide.data(), n, wide_values.data(), vectors == nullptr ? nullptr : wide_vectors.data());
  const auto narrow = [](double x) { return static_cast<float>(x); };
  std::transform(wide_values.begin(), wide_values.end(), values, narrow);
  if (vectors != nullptr) std::transform(wide_vectors.begin(), wide_vectors.end(), vectors, narrow);
  return has_ended;
}
template <class T>
bool eigh_of_one(const T* a, std::int64_t n, T* values, T* vectors) {
  switch (n) {
    case 2: return small_symmetric_eigen<2>(a, values, vectors);
    case 3: return small_symmetric_eigen<3>(a, values, vectors);
    default: return eigh_of_larger(a, n, values, vectors);
  }
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
