// How a number of the gamma distribution changes with the shape parameter while its probability stays the same: the
// derivative of the quantile, of the numbers themselves where they are reparameterised. In extended precision, of the
// incomplete gamma functions' own series, each differentiated by a. Only .ipp files include it.
#pragma once

#include <sinter/base/number_kind.hpp>
#include <sinter/ops/incomplete_gamma.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// By the recurrence up to 15, then DLMF 5.11.2.
inline Extended digamma_above_0(Extended a) {
  Extended below = 0;
  for (; a < 15; a += 1) below -= 1 / a;
  const Extended z = 1 / (a * a);
  return below + std::log(a) - 0.5L / a -
         z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * 691 / 32760)))));
}

// Each gives d(log x) / da where P(a, x) is kept: -(dP/da) / (x dP/dx).

/// P = x^a e^-x / gamma(a + 1) times a series, whose terms are 1 / ((a + 1) ... (a + n)): both summands have one sign.
inline Extended log_gamma_slope_below(Extended a, Extended log_x) {
  const Extended x = std::exp(log_x);
  Extended sum = 1, term = 1, slope = 0, sum_of_inverses = 0;
  for (Extended n = a + 1; term * (1 + sum_of_inverses) > 1e-20L * sum; n += 1) {
    term *= x / n;
    sum_of_inverses += 1 / n;
    sum += term;
    slope -= term * sum_of_inverses;
  }
  return -(sum * (log_x - digamma_above_0(a + 1)) + slope) / a;
}
/// 1 - P = x^a e^-x / gamma(a) times a continued fraction, by Lentz's way: quotients of its convergents carry
/// derivatives.
inline Extended log_gamma_slope_above(Extended a, Extended log_x) {
  const Extended x = std::exp(log_x);
  Extended b = x + 1 - a, c = b, c_slope = -1, d = 1 / b, d_slope = d * d, value = d, slope = d_slope;
  // The first step of c has no numerator before it: c is b, as if the one before were infinite.
  for (int i = 1; i < 100000; ++i) {
    const auto k = static_cast<Extended>(i);
    const Extended numerator = -k * (k - a);  // whose derivative by a is k; that of b is -1
    b += 2;
    const Extended next_c = i == 1 ? b : b + numerator / c;
    c_slope = i == 1 ? -1 : -1 + (k - numerator * c_slope / c) / c;
    c = next_c;
    const Extended below = b + numerator * d;
    d_slope = -(-1 + k * d + numerator * d_slope) / (below * below);
    d = 1 / below;
    const Extended factor = c * d, factor_slope = c_slope * d + c * d_slope;
    slope = slope * factor + value * factor_slope;
    value *= factor;
    if (std::abs(factor - 1) < 1e-19L && std::abs(value * factor_slope) < 1e-19L * std::abs(slope)) break;
  }
  return value * (log_x - digamma_above_0(a)) + slope;
}
/// Temme's expansion, differentiated: with h the expansion's eta and m = x / a - 1, dh/da = -m / (a h).
inline Extended log_gamma_slope_large(Extended a, Extended x) {
  static constexpr TemmeTable table = temme_table();
  const Extended m = (x - a) / a, size = std::sqrt(2 * gamma_exponent(a, x)), eta = x < a ? -size : size;
  const Extended ratio = eta == 0 ? 1 : m / eta;
  Extended series = 0, change = 0, power = 1;
  for (std::size_t k = 0; k < temme_orders; ++k, power /= a) {
    Extended sum = 0, slope = 0;
    for (std::size_t n = temme_terms; n-- > 0;) {
      slope = slope * eta + sum;
      sum = sum * eta + table[k][n];
    }
    series += sum * power;
    change -= (slope * ratio + static_cast<Extended>(k) * sum) * power / a;
  }
  const Extended z = 1 / (a * a);
  const Extended stirling = (1.0L / 12 - z * (1.0L / 360 - z * (1.0L / 1260 - z / 1680))) / a;
  return std::exp(stirling) * (ratio - eta / 2 + series * (m - eta * eta / 2 - 0.5L / a) + change) / a;
}

/// d(log x) / da of a gamma number x with the shape parameter a; given by its logarithm, as x may be below all numbers.
inline double log_gamma_slope(double a, double log_x) {
  const bool is_infinite = is_infinite_number(log_x);
  if (!(a > 0) || !is_finite_number(a) || is_nan_number(log_x) || (is_infinite && !has_sign_bit(log_x)))
    return std::numeric_limits<double>::quiet_NaN();
  if (is_infinite) return std::numeric_limits<double>::infinity();
  if (log_x > 710) return 0;  // no number of f64 is so large
  const Extended wide = a, at = log_x, x = std::exp(at);
  const bool is_large = a > 200 && x > 0.35L * wide && x < 2.3L * wide;
  const Extended slope = is_large       ? log_gamma_slope_large(wide, x)
                         : x < wide + 1 ? log_gamma_slope_below(wide, at)
                                        : log_gamma_slope_above(wide, at);
  return static_cast<double>(std::min<Extended>(slope, std::numeric_limits<double>::max()));
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
