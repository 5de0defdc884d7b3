// The regularised incomplete gamma functions of numbers, in extended precision, so that results of f64 keep their
// digits. A series below a + 1, a continued fraction above (DLMF 8.11.4, 8.9.2), Temme's uniform expansion where a is
// large (DLMF 8.12). Only .ipp files include it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/ops/coefficients.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

using Extended = long double;

/// Coefficients of Temme's expansion: of a^-k eta^n.
inline constexpr std::size_t temme_orders = 8, temme_terms = 28;
using TemmeTable = std::array<std::array<Extended, temme_terms>, temme_orders>;
/// DLMF 8.12.9 to 8.12.12: x / a - 1 as a series in eta gives them all.
constexpr TemmeTable temme_table() {
  constexpr std::size_t count = temme_terms + 2 * temme_orders + 2;
  std::array<Extended, count> alpha{}, row{};
  alpha[1] = 1;
  for (std::size_t n = 2; n < count; ++n) {
    Extended sum = alpha[n - 1];
    for (std::size_t j = 2; j < n; ++j) sum -= static_cast<Extended>(j) * alpha[j] * alpha[n - j + 1];
    alpha[n] = sum / static_cast<Extended>(n + 1);
  }
  for (std::size_t n = 0; n + 2 < count; ++n) row[n] = static_cast<Extended>(n + 2) * alpha[n + 2];
  row[0] = -1.0L / 3;
  const std::array<Extended, count> first = row;
  TemmeTable table{};
  Extended factor = 1;  // (2 k + 1)!! (-1)^k: with alpha[2 k + 1] Stirling's coefficients
  for (std::size_t k = 0; k < temme_orders; ++k) {
    if (k > 0) {
      factor *= -static_cast<Extended>(2 * k + 1);
      const std::size_t known = count - 2 * k - 2;
      for (std::size_t n = 0; n < known; ++n)
        row[n] = factor * alpha[2 * k + 1] * first[n] + static_cast<Extended>(n + 2) * row[n + 2];
    }
    for (std::size_t n = 0; n < temme_terms; ++n) table[k][n] = row[n];
  }
  return table;
}

/// t - log(1 + t) for t > -1.
inline Extended less_log1p(Extended t) {
  if (std::abs(t) > 0.1L) return t - std::log1p(t);
  Extended sum = 0, power = t * t;
  for (int k = 2; k < 40 && std::abs(power) > 1e-21L * std::abs(sum); ++k, power *= -t)
    sum += power / static_cast<Extended>(k);
  return sum;
}
/// (x - a) / a - log(x / a), whose product with a is the exponent of what follows.
inline Extended gamma_exponent(Extended a, Extended x) {
  const Extended t = (x - a) / a;
  return t < -0.5L ? t - std::log(x / a) : less_log1p(t);
}
/// x^a e^-x / gamma(a + 1).
inline Extended gamma_density(Extended a, Extended x) {
  if (a < 10) return std::pow(x, a) * std::exp(-x) / std::tgamma(a + 1);
  const Extended z = 1 / (a * a);
  const Extended stirling =
      (1.0L / 12 -
       z * (1.0L / 360 - z * (1.0L / 1260 - z * (1.0L / 1680 - z * (1.0L / 1188 - z * (691.0L / 360360 - z / 156)))))) /
      a;
  return std::exp(-a * gamma_exponent(a, x) - stirling) / std::sqrt(2 * std::numbers::pi_v<Extended> * a);
}
/// log gamma(1 + a) for 0 <= a < 1, with all digits of f64 near 0.
inline Extended log_gamma_above_1(Extended a) {
  if (a >= 0.5L) return std::log(std::tgamma(1 + a));
  Extended sum = 0;
  for (std::size_t i = std::size(coefficients_f64::gamma_middle); i-- > 0;)
    sum = sum * a + static_cast<Extended>(coefficients_f64::gamma_middle[i]);
  return a * sum - std::log1p(a);
}

/// The lower function below a + 1.
inline Extended lower_gamma_series(Extended a, Extended x) {
  Extended sum = 1, term = 1;
  for (Extended n = a + 1; term > 1e-20L * sum; n += 1) sum += term *= x / n;
  return sum * gamma_density(a, x);
}
/// The upper function above a + 1: Lentz's way through the fraction.
inline Extended upper_gamma_fraction(Extended a, Extended x) {
  Extended b = x + 1 - a, c = std::numeric_limits<Extended>::max(), d = 1 / b, value = d;
  for (int i = 1; i < 100000; ++i) {
    const Extended numerator = static_cast<Extended>(-i) * (static_cast<Extended>(i) - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    value *= c * d;
    if (std::abs(c * d - 1) < 1e-19L) break;
  }
  return value * a * gamma_density(a, x);
}
/// The upper function for small a and x: 1 less the lower one would cancel.
inline Extended upper_gamma_near_0(Extended a, Extended x) {
  const Extended power = a * std::log(x) - log_gamma_above_1(a);
  Extended sum = 0, term = 1;
  for (int k = 1; k < 60 && std::abs(term) > 1e-21L; ++k) {
    term *= -x / static_cast<Extended>(k);
    sum += term / (a + static_cast<Extended>(k));
  }
  return -std::expm1(power) - std::exp(power) * a * sum;
}
/// For large a: half of erfc, and a series. `is_upper` says which of the two functions.
inline Extended temme_gamma(Extended a, Extended x, bool is_upper) {
  static constexpr TemmeTable table = temme_table();
  const Extended exponent = gamma_exponent(a, x), size = std::sqrt(2 * exponent), eta = x < a ? -size : size;
  Extended series = 0;
  for (std::size_t k = temme_orders; k-- > 0;) {
    Extended sum = 0;
    for (std::size_t n = temme_terms; n-- > 0;) sum = sum * eta + table[k][n];
    series = series / a + sum;
  }
  const Extended rest = series * std::exp(-a * exponent) / std::sqrt(2 * std::numbers::pi_v<Extended> * a);
  const Extended side = is_upper ? eta : -eta;
  return std::erfc(side * std::sqrt(a / 2)) / 2 + (is_upper ? rest : -rest);
}

/// P(a, x), or Q(a, x) = 1 - P(a, x).
inline double incomplete_gamma(double a, double x, bool is_upper) {
  if (is_nan_number(a) || is_nan_number(x) || a < 0 || x < 0 || (a == 0 && x == 0) ||
      (is_infinite_number(a) && is_infinite_number(x)))
    return std::numeric_limits<double>::quiet_NaN();
  if (x == 0 || is_infinite_number(a)) return is_upper ? 1 : 0;
  if (a == 0 || is_infinite_number(x)) return is_upper ? 0 : 1;
  const Extended wide = a, at = x;
  if (a > 200 && x > 0.35 * a && x < 2.3 * a) return static_cast<double>(temme_gamma(wide, at, is_upper));
  if (a < 1 && x < 1.1)
    return static_cast<double>(is_upper ? upper_gamma_near_0(wide, at) : lower_gamma_series(wide, at));
  const bool is_low = at < wide + 1;
  const Extended value = is_low ? lower_gamma_series(wide, at) : upper_gamma_fraction(wide, at);
  return static_cast<double>(is_low == is_upper ? 1 - value : value);
}
/// The derivative of P by x: x^(a - 1) e^-x / gamma(a).
inline double incomplete_gamma_slope(double a, double x) {
  if (is_nan_number(a) || is_nan_number(x) || a < 0 || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 || is_infinite_number(a) || is_infinite_number(x)) return 0;
  if (x == 0) return a < 1 ? std::numeric_limits<double>::infinity() : a == 1 ? 1 : 0;
  const Extended wide = a, at = x;
  return static_cast<double>(gamma_density(wide, at) * wide / at);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
