// What elementwise functions are, in a precision of which the one that is measured is a small part: double for f32, long
// double or (ACCURACY_QUAD, for tools/accuracy) __float128 for f64. Series, recurrences and Newton's method, written for
// this; nothing of the library. Not for arguments that are NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef ACCURACY_QUAD
#include <quadmath.h>
#define ORACLE_QUAD_FUNCTION(name) \
  inline Quad name(Quad x) { return name##q(x); }
#else
#define ORACLE_QUAD_FUNCTION(name)
#endif

namespace accuracy {

#ifdef ACCURACY_QUAD
using Quad = __float128;
inline Quad pow(Quad x, Quad y) { return powq(x, y); }
inline Quad hypot(Quad x, Quad y) { return hypotq(x, y); }
inline Quad atan2(Quad x, Quad y) { return atan2q(x, y); }
inline Quad fmod(Quad x, Quad y) { return fmodq(x, y); }
inline Quad abs(Quad x) { return fabsq(x); }
inline Quad bessel_j(int n, Quad x) { return n == 0 ? j0q(x) : j1q(x); }
inline Quad bessel_y(int n, Quad x) { return n == 0 ? y0q(x) : y1q(x); }
// The C library has them in long double beyond the standard.
inline long double bessel_j(int n, long double x) { return n == 0 ? ::j0l(x) : ::j1l(x); }
inline long double bessel_y(int n, long double x) { return n == 0 ? ::y0l(x) : ::y1l(x); }
#endif

#define ORACLE_FUNCTION(name)                                     \
  inline double name(double x) { return std::name(x); }           \
  inline long double name(long double x) { return std::name(x); } \
  ORACLE_QUAD_FUNCTION(name)
ORACLE_FUNCTION(exp)
ORACLE_FUNCTION(exp2)
ORACLE_FUNCTION(expm1)
ORACLE_FUNCTION(log)
ORACLE_FUNCTION(log1p)
ORACLE_FUNCTION(log2)
ORACLE_FUNCTION(log10)
ORACLE_FUNCTION(sqrt)
ORACLE_FUNCTION(cbrt)
ORACLE_FUNCTION(sin)
ORACLE_FUNCTION(cos)
ORACLE_FUNCTION(tan)
ORACLE_FUNCTION(asin)
ORACLE_FUNCTION(acos)
ORACLE_FUNCTION(atan)
ORACLE_FUNCTION(sinh)
ORACLE_FUNCTION(cosh)
ORACLE_FUNCTION(tanh)
ORACLE_FUNCTION(asinh)
ORACLE_FUNCTION(acosh)
ORACLE_FUNCTION(atanh)
ORACLE_FUNCTION(erf)
ORACLE_FUNCTION(erfc)
ORACLE_FUNCTION(floor)
ORACLE_FUNCTION(round)
ORACLE_FUNCTION(lgamma)
#undef ORACLE_FUNCTION
#undef ORACLE_QUAD_FUNCTION
inline double abs(double x) { return std::abs(x); }
inline long double abs(long double x) { return std::abs(x); }
inline double pow(double x, double y) { return std::pow(x, y); }
inline long double pow(long double x, long double y) { return std::pow(x, y); }
inline double hypot(double x, double y) { return std::hypot(x, y); }
inline long double hypot(long double x, long double y) { return std::hypot(x, y); }
inline double atan2(double y, double x) { return std::atan2(y, x); }
inline long double atan2(long double y, long double x) { return std::atan2(y, x); }
inline double fmod(double x, double y) { return std::fmod(x, y); }
inline long double fmod(long double x, long double y) { return std::fmod(x, y); }

/// Constants as sums: three doubles hold what __float128 does.
template <class R>
inline const R pi = R(0x1.921fb54442d18p+1) + R(0x1.1a62633145c07p-53) + R(-0x1.f1976b7ed8fbcp-109);
template <class R>
inline const R euler = R(0x1.2788cfc6fb619p-1) + R(-0x1.6cb90701fbfabp-58) + R(-0x1.34a95e3133c51p-112);
template <class R>
R infinite() {
  return static_cast<R>(std::numeric_limits<double>::infinity());
}
template <class R>
R undefined() {
  return static_cast<R>(std::numeric_limits<double>::quiet_NaN());
}
/// Bits of the significand.
template <class R>
inline constexpr int bits = std::is_same_v<R, double>                          ? 53
                            : sizeof(R) < 16 || std::is_same_v<R, long double> ? 64
                                                                               : 113;
template <class R>
R tiny() {
  return R(bits<R> == 53 ? 1e-18 : bits<R> == 64 ? 1e-21 : 1e-36);
}

// ---- activations ----------------------------------------------------------------------------------------------------

template <class R>
R sigmoid(R x) {
  return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
template <class R>
R softplus(R x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
template <class R>
R mish(R x) {
  return x > 60 ? x : x * tanh(softplus(x));
}
template <class R>
R logit(R x) {
  return x < R(0.25) ? log(x) - log1p(-x) : log1p((2 * x - 1) / (1 - x));
}
/// What gelu_tanh is.
template <class R>
R gelu_tanh(R x) {
  const R inner = sqrt(8 / pi<R>) * (x + R(44715) / 1000000 * x * x * x);
  return x < -100 ? R(0) : x * sigmoid(inner);
}
/// x where x > 0, else alpha (e^(x / width) - 1).
template <class R>
R elu(R x, R alpha, R width) {
  return x > 0 ? x : alpha * expm1(x / width);
}
template <class R>
R logaddexp2(R a, R b) {
  const R high = a > b ? a : b;
  return a == b ? a + 1 : high + log1p(exp2(-abs(a - b))) / log(R(2));
}
template <class R>
R logaddexp(R a, R b) {
  const R high = a > b ? a : b;
  return a == b ? a + log(R(2)) : high + log1p(exp(-abs(a - b)));
}

// ---- the normal distribution ----------------------------------------------------------------------------------------

/// e^(x^2) erfc(x); far out its asymptotic series.
template <class R>
R erfcx(R x) {
  if (x < (bits<R> == 53 ? 7 : bits<R> == 64 ? 9 : 60)) return exp(x * x) * erfc(x);
  R sum = 1, term = 1;
  for (int k = 1; k < 40; ++k) {
    const R next = term * -R(2 * k - 1) / (2 * x * x);
    if (abs(next) >= abs(term)) break;
    sum += term = next;
  }
  return sum / (x * sqrt(pi<R>));
}
template <class R>
R ndtr(R x) {
  return erfc(-x * sqrt(R(0.5))) / 2;
}
template <class R>
R log_ndtr(R x) {
  return x < -1 ? log(erfcx(-x * sqrt(R(0.5))) / 2) - x * x / 2 : log1p(-ndtr(-x));
}
/// Newton's steps from `start`, which is near: each squares its error.
template <class R>
R erfinv(R x, R start) {
  if (abs(x) > 1) return undefined<R>();
  if (abs(x) == 1) return x * infinite<R>();
  R y = start;
  for (int step = 0; step < 2; ++step) {
    const R above = x > 0.5 ? (1 - x) - erfc(y) : x < -0.5 ? erfc(-y) - (1 + x) : erf(y) - x;
    y -= above * exp(y * y) * sqrt(pi<R>) / 2;
  }
  return y;
}
template <class R>
R ndtri(R p, R start) {
  if (!(p >= 0 && p <= 1)) return undefined<R>();
  if (p == 0 || p == 1) return p == 0 ? -infinite<R>() : infinite<R>();
  R y = start;
  for (int step = 0; step < 2; ++step) {
    const R above = p < 0.5 ? ndtr(y) - p : (1 - p) - ndtr(-y);
    y -= above / (exp(-y * y / 2) / sqrt(2 * pi<R>));
  }
  return y;
}

// ---- gamma ----------------------------------------------------------------------------------------------------------

/// B(2 k), k from 1 to 12.
template <class R>
R bernoulli(int k) {
  constexpr double fractions[][2] = {{1, 6},       {-1, 30},       {1, 42},       {-1, 30},
                                     {5, 66},      {-691, 2730},   {7, 6},        {-3617, 510},
                                     {43867, 798}, {-174611, 330}, {854513, 138}, {-236364091, 2730}};
  return R(fractions[k - 1][0]) / R(fractions[k - 1][1]);
}
/// Of positive x by the recurrence to 30, then the asymptotic series; of negative x by reflection.
template <class R>
R digamma(R x) {
  if (x == 0) return std::signbit(static_cast<double>(x)) ? infinite<R>() : -infinite<R>();
  if (x < 0) {
    const R rest = x - round(x);
    return rest == 0 && abs(x) >= 1 ? undefined<R>() : digamma(1 - x) - pi<R> / tan(pi<R> * rest);
  }
  R sum = 0;
  for (; x < 30; x += 1) sum -= 1 / x;
  sum += log(x) - 1 / (2 * x);
  R power = 1;
  for (int k = 1; k <= 12; ++k) sum -= bernoulli<R>(k) * (power /= x * x) / R(2 * k);
  return sum;
}
/// base^-order of positive numbers; of small whole orders, and of halves, by products, which are quicker than pow.
template <class R>
R inverse_power(R base, R order) {
  if (!(order <= 16) || 2 * order != floor(2 * order)) return pow(base, -order);
  R product = 1, square = base;
  for (int rest = static_cast<int>(order); rest > 0; rest /= 2, square *= square)
    if (rest % 2 == 1) product *= square;
  return 1 / (order == floor(order) ? product : product * sqrt(base));
}
/// Sum of (q + k)^-order over k, by Euler and Maclaurin from 30 on.
template <class R>
R zeta(R order, R q) {
  if (order == 1 || (q == 0 && order > 1)) return infinite<R>();
  if (order == infinite<R>()) return q < 1 ? infinite<R>() : q == 1 ? R(1) : R(0);
  if (q == infinite<R>()) return order > 1 ? R(0) : undefined<R>();
  if (!(order > 1) || q < 0) return undefined<R>();
  R sum = 0, last = 1;
  if (order > (q + 30) / 2) {  // Euler and Maclaurin's terms would not fall; those of the sum do
    for (int k = 0; last > tiny<R>() * sum || k == 0; ++k) sum += last = pow(q + R(k), -order);
    return sum;
  }
  const R first = inverse_power(q, order);
  if (order >= 1.5 && first * tiny<R>() > 4) return first;  // the others are less than zeta(1.5) = 2.6 together
  const int direct = q >= 30 && order <= q / 2 ? 0 : 30;
  for (int k = 0; k < direct; ++k) sum += k == 0 ? first : inverse_power(q + R(k), order);
  const R x = q + R(direct), power = inverse_power(x, order);
  if (power == 0) return sum;
  sum += x * power / (order - 1) + power / 2;
  R term = order * power / x / 2;
  for (int k = 1; k <= 12 && term > tiny<R>() * sum; ++k) {
    sum += bernoulli<R>(k) * term;
    term *= (order + R(2 * k - 1)) * (order + R(2 * k)) / (R(2 * k + 1) * R(2 * k + 2) * x * x);
  }
  return sum;
}
/// Derivative `order` >= 1 of digamma; of positive x.
template <class R>
R polygamma(int order, R x) {
  R factorial = order % 2 == 0 ? -1 : 1;
  for (int k = 2; k <= order; ++k) factorial *= R(k);
  return factorial * zeta<R>(R(order + 1), x);
}
/// Of positive x, more than (dimensions - 1) / 2.
template <class R>
R multigammaln(R x, int dimensions) {
  R sum = R(dimensions) * R(dimensions - 1) / 4 * log(pi<R>);
  for (int i = 0; i < dimensions; ++i) sum += lgamma(x - R(i) / 2);
  return sum;
}
/// log(gamma(1 + a)), which keeps its digits near 0.
template <class R>
R lgamma_of_1_and(R a) {
  if (a > 0.25) return lgamma(1 + a);
  R sum = -euler<R> * a, power = -a;
  for (int k = 2; k < 70; ++k) sum += (power *= -a) * zeta<R>(R(k), 1) / R(k);
  return sum;
}
/// x^a e^-x / gamma(a + 1). Where a is large x is near it, and a log x - x cancels: Stirling's series.
template <class R>
R incomplete_gamma_factor(R a, R x) {
  if (a < 30) return exp(a * log(x) - x - lgamma_of_1_and(a));
  const R apart = (x - a) / a;
  R sum = 0, power = a;
  for (int k = 1; k <= 12; ++k) {
    sum += bernoulli<R>(k) / (R(2 * k) * R(2 * k - 1) * power);
    power *= a * a;
  }
  return exp(-a * (apart - log1p(apart)) - sum) / sqrt(2 * pi<R> * a);
}
/// The regularised incomplete gamma function from 0 to x (`is_upper`: from x on), of a up to 1000: by Kummer's series
/// below a + 1, by the continued fraction of Legendre above it.
template <class R>
R incomplete_gamma(bool is_upper, R a, R x) {
  if (a < 0 || x < 0 || (a == 0 && x == 0)) return undefined<R>();
  if (x == 0 || a == 0) return is_upper == (x == 0) ? 1 : 0;
  if (x == infinite<R>()) return is_upper ? 0 : 1;
  if (is_upper && x < 1.5 && a < 1) {  // 1 less the lower part would cancel
    R term = 1, sum = 0;
    for (int k = 1; k < 60; ++k) sum += (term *= -x / R(k)) / (a + R(k));
    const R log_power = a * log(x) - lgamma_of_1_and(a);
    return -expm1(log_power) - exp(log_power) * a * sum;
  }
  const R factor = incomplete_gamma_factor(a, x);
  if (x < a + 1) {
    R term = 1, sum = 1;
    for (int k = 1; term > tiny<R>() * sum; ++k) sum += term *= x / (a + R(k));
    return is_upper ? 1 - factor * sum : factor * sum;
  }
  R b = x + 1 - a, c = infinite<R>(), d = 1 / b, fraction = d, change = 0;
  for (int k = 1; abs(change - 1) > tiny<R>() && k < 20000; ++k) {
    const R term = -R(k) * (R(k) - a);
    b += 2;
    d = 1 / (term * d + b);
    c = b + term / c;
    fraction *= change = c * d;
  }
  const R upper = factor * a * fraction;
  return is_upper ? upper : 1 - upper;
}
template <class R>
R trigamma(R x) {
  if (x > 0) return zeta<R>(2, x);
  if (x == -infinite<R>()) return undefined<R>();
  const R rest = x - round(x);
  if (rest == 0) return infinite<R>();
  const R root = pi<R> / sin(pi<R> * rest), square = root * root;
  return square * tiny<R>() > 2 ? square : square - zeta<R>(2, 1 - x);  // which is less than zeta(2) = 1.7
}
template <class R>
R sinc(R x) {
  const R whole = round(x), sign = fmod(whole, R(2)) == 0 ? 1 : -1;
  return x == 0 ? R(1) : abs(x) == infinite<R>() ? R(0) : sign * sin(pi<R> * (x - whole)) / (pi<R> * x);
}

// ---- Bessel functions -----------------------------------------------------------------------------------------------

/// Sum of (x / 2)^(2 k + n) / (k! (k + n)!).
template <class R>
R bessel_i_series(int n, R x) {
  R term = n == 0 ? R(1) : x / 2, sum = term;
  for (int k = 1; term > tiny<R>() * sum; ++k) sum += term *= x * x / 4 / (R(k) * R(k + n));
  return sum;
}
/// e^-x I_n(x) for large x: (1 - (m - 1) / (8 x) + ...) / sqrt(2 pi x) with m = 4 n^2.
template <class R>
R bessel_i_far(int n, R x) {
  R term = 1, sum = 1;
  for (int k = 1; k < 60 && abs(term) > tiny<R>(); ++k)
    sum += term *= -(R(4 * n * n) - R(2 * k - 1) * R(2 * k - 1)) / (R(8 * k) * x);
  return sum / sqrt(2 * pi<R> * x);
}
template <class R>
bool is_far(R x) {
  return x > (bits<R> == 53 ? 25 : bits<R> == 64 ? 40 : 60);
}
/// e^-|x| I_n(x).
template <class R>
R scaled_bessel_i(int n, R x) {
  const R a = abs(x), sign = n == 1 && x < 0 ? -1 : 1;
  if (a == infinite<R>()) return 0;
  return sign * (is_far(a) ? bessel_i_far(n, a) : exp(-a) * bessel_i_series(n, a));
}
template <class R>
R bessel_i(int n, R x) {
  const R a = abs(x), sign = n == 1 && x < 0 ? -1 : 1, half = exp(a / 2);
  if (!is_far(a)) return sign * bessel_i_series(n, a);
  return a > 1e4 ? sign * infinite<R>() : sign * bessel_i_far(n, a) * half * half;
}
/// e^x K_n(x): near 0 the series with logarithms, far out the asymptotic series, else the integral over cosh.
template <class R>
R scaled_bessel_k(int n, R x) {
  if (x < 0) return undefined<R>();
  if (x == 0 || x > 1e30) return x == 0 ? infinite<R>() : sqrt(pi<R> / (2 * x));
  if (x < 1) {
    R harmonic = -euler<R>, term = 1, sum = 0;
    const R half_log = log(x / 2);
    for (int k = 0; k < 30 && term > tiny<R>() / 100; ++k) {
      const R next = harmonic + R(1) / R(k + 1);
      sum += term * (n == 0 ? harmonic - half_log : half_log - (harmonic + next) / 2);
      term *= x * x / 4 / (R(k + 1) * R(k + 1 + n));
      harmonic = next;
    }
    return exp(x) * (n == 0 ? sum : 1 / x + x / 2 * sum);
  }
  if (is_far(x)) {  // that of I_n with all signs alike
    R term = 1, far = 1;
    for (int k = 1; k < 60 && abs(term) > tiny<R>(); ++k)
      far += term *= (R(4 * n * n) - R(2 * k - 1) * R(2 * k - 1)) / (R(8 * k) * x);
    return far * sqrt(pi<R> / (2 * x));
  }
  const R wanted = R(bits<R> == 113  ? 0.05
                     : bits<R> == 64 ? 0.1
                                     : 0.2),
          by_size = R(bits<R> == 53 ? 0.6 : 0.25) / sqrt(x), step = by_size < wanted ? by_size : wanted;
  R sum = R(0.5), last = 1;
  for (int i = 1; last > tiny<R>(); ++i) {
    const R t = step * R(i), half = sinh(t / 2);
    sum += last = exp(-2 * x * half * half) * (n == 0 ? R(1) : cosh(t));
  }
  return sum * step;
}

#ifdef ACCURACY_QUAD
/// x less its whole turns, of floats x >= 2^-4: 1 / (2 pi) has 384 bits here, of which 128 decide. Neither the C
/// library's reduction, which the functions measured may use, nor as slow.
inline double angle_of(double x) {
  constexpr std::uint64_t turns[] = {0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410,
                                     0x7f9458eaf7aef158, 0x6dc91b8e909374b8, 0x01924bba82746487};
  using Fraction = unsigned __int128;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const int exponent = static_cast<int>(bits >> 23) - 150;
  const auto word = [&](int i) { return i < 0 ? Fraction(0) : Fraction(turns[i]); };
  const int first = exponent < 0 ? -1 : exponent / 64, shift = exponent < 0 ? exponent + 64 : exponent % 64;
  Fraction fraction = word(first) << 64 | word(first + 1);
  if (shift > 0) fraction = fraction << shift | word(first + 2) >> (64 - shift);
  fraction *= (bits & 0x7fffff) | 0x800000;
  return static_cast<double>(static_cast<__int128>(fraction)) * (2 * pi<double> * 0x1p-128);
}
/// Hankel's series of the amplitude and the phase of the waves of order n, of floats x > 25, and how J and Y follow.
struct BesselWaves {
  double j, y;
};
inline BesselWaves bessel_waves(int n, double x) {
  double term = 1, even = 1, odd = 0;
  for (int k = 1; k < 30 && std::abs(term) > 1e-18; ++k) {
    term *= (4 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    (k % 2 == 0 ? even : odd) += k % 4 < 2 ? term : -term;
  }
  double s = 0, c = 0;
  ::sincos(angle_of(x), &s, &c);
  const double height = 1 / std::sqrt(pi<double> * x);
  const double cosine = n == 0 ? c + s : s - c, sine = n == 0 ? s - c : -(s + c);
  return {height * (even * cosine - odd * sine), height * (even * sine + odd * cosine)};
}
/// Of f32: near 0 the first terms, far out the waves, else the C library in long double.
inline double bessel_j(int n, double x) {
  const double a = std::abs(x), sign = n == 1 && x < 0 ? -1 : 1;
  if (a == infinite<double>()) return 0;
  if (a < 1e-6) return n == 0 ? 1 - a * a / 4 : x / 2;
  return a > 25 ? sign * bessel_waves(n, a).j : static_cast<double>(bessel_j(n, static_cast<long double>(x)));
}
inline double bessel_y(int n, double x) {
  if (x == infinite<double>()) return 0;
  if (x == 0) return -infinite<double>();
  if (x > 0 && x < 1e-6) {
    const double log_half = std::log(x / 2) + euler<double>;
    return n == 0 ? 2 / pi<double> * log_half : x / pi<double> * (log_half - 0.5) - 2 / (pi<double> * x);
  }
  return x > 25 ? bessel_waves(n, x).y : static_cast<double>(bessel_y(n, static_cast<long double>(x)));
}
#endif

}  // namespace accuracy
