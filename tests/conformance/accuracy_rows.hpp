// The elementwise functions and how exact they are: what a user calls, an oracle, and the bounds that docs/numerics.md
// states, in units of the last place. tools/accuracy measures them over all floats, accuracy_test.cpp over a sample.
#pragma once

#include "accuracy_oracles.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace accuracy {

using sinter::Tensor;

/// What errors are relative to at least: nothing but the result, 1, also the logarithm of |x| where x is negative, the
/// larger operand, the height of the waves, or the row's `terms`.
enum class Scale { result, one, logarithm, operands, waves, terms };

struct Row {
  const char* name;
  double f32, f64;  // the bounds
  Tensor (*run)(const Tensor& x, const Tensor& y);
  double (*of_double)(double x, double y, double got);
  long double (*of_long)(long double x, long double y, long double got);
#ifdef ACCURACY_QUAD
  Quad (*of_quad)(Quad x, Quad y, Quad got);
#endif
  Scale scale;
  bool is_binary;
  bool is_of_subnormal;                           // false: the bounds are of normal arguments
  double (*terms)(double x, double y) = nullptr;  // the sum of the magnitudes of what is added up, for Scale::terms

  template <class T>
  bool covers(T x) const {
    return is_of_subnormal || std::fpclassify(x) != FP_SUBNORMAL;
  }

  double floor_at(double x, double y) const {
    switch (scale) {
      case Scale::result: return 0;
      case Scale::one: return 1;
      case Scale::logarithm: return x < -3 ? std::log(-x) : 1;
      case Scale::operands: return std::max(std::abs(x), std::abs(y));
      case Scale::waves: return std::min(1.0, std::sqrt(0.63661977236758134 / std::abs(x)));
      case Scale::terms: return terms(x, y);
    }
    return 0;
  }
  double expected(double x, double y, double got) const { return of_double(x, y, got); }
  long double expected(long double x, long double y, long double got) const { return of_long(x, y, got); }
#ifdef ACCURACY_QUAD
  Quad expected(Quad x, Quad y, Quad got) const { return of_quad(x, y, got); }
#endif
};

template <class Run, class Formula>
Row row(const char* name, double f32, double f64, Run run, Formula formula, Scale scale = Scale::result) {
#ifdef ACCURACY_QUAD
  return {name, f32, f64, run, formula, formula, formula, scale, false, true};
#else
  return {name, f32, f64, run, formula, formula, scale, false, true};
#endif
}
template <class Run, class Formula>
Row row_of_normal(const char* name, double f32, double f64, Run run, Formula formula) {
  Row out = row(name, f32, f64, run, formula);
  out.is_of_subnormal = false;
  return out;
}
template <class Run, class Formula>
Row binary_row(const char* name, double f32, double f64, Run run, Formula formula, Scale scale = Scale::result) {
  Row out = row(name, f32, f64, run, formula, scale);
  out.is_binary = true;
  return out;
}

template <class Run, class Formula>
Row row_of_terms(const char* name, double f32, double f64, Run run, Formula formula, double (*terms)(double, double)) {
  Row out = row(name, f32, f64, run, formula, Scale::terms);
  out.terms = terms;
  return out;
}

using In2 = const Tensor&;

/// The largest and the least normal number of the dtype whose oracle computes in R.
template <class R>
inline constexpr double largest =
    std::is_same_v<R, double> ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
template <class R>
inline constexpr double least_normal =
    std::is_same_v<R, double> ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();

inline void add_elementary(std::vector<Row>& rows) {
  for (const Row& each : {
           row(
               "sqrt", 0.501, 0.501, [](In2 x, In2) { return Tensor(sinter::sqrt(x)); },
               [](auto x, auto, auto) { return accuracy::sqrt(x); }),
           row(
               "rsqrt", 2, 2, [](In2 x, In2) { return Tensor(sinter::rsqrt(x)); },
               [](auto x, auto, auto) { return 1 / accuracy::sqrt(x); }),
           row(
               "cbrt", 1, 1, [](In2 x, In2) { return Tensor(sinter::cbrt(x)); },
               [](auto x, auto, auto) { return accuracy::cbrt(x); }),
           row(
               "exp", 1, 1, [](In2 x, In2) { return Tensor(sinter::exp(x)); },
               [](auto x, auto, auto) { return accuracy::exp(x); }),
           row(
               "exp2", 1, 1, [](In2 x, In2) { return Tensor(sinter::exp2(x)); },
               [](auto x, auto, auto) { return accuracy::exp2(x); }),
           row(
               "expm1", 2, 2, [](In2 x, In2) { return Tensor(sinter::expm1(x)); },
               [](auto x, auto, auto) { return accuracy::expm1(x); }),
           row(
               "log", 1, 1, [](In2 x, In2) { return Tensor(sinter::log(x)); },
               [](auto x, auto, auto) { return accuracy::log(x); }),
           row(
               "log1p", 2, 2, [](In2 x, In2) { return Tensor(sinter::log1p(x)); },
               [](auto x, auto, auto) { return accuracy::log1p(x); }),
           row(
               "log2", 2, 2, [](In2 x, In2) { return Tensor(sinter::log2(x)); },
               [](auto x, auto, auto) { return accuracy::log2(x); }),
           row(
               "log10", 2, 2, [](In2 x, In2) { return Tensor(sinter::log10(x)); },
               [](auto x, auto, auto) { return accuracy::log10(x); }),
           row(
               "sin", 2, 2, [](In2 x, In2) { return Tensor(sinter::sin(x)); },
               [](auto x, auto, auto) { return accuracy::sin(x); }),
           row(
               "cos", 2, 2, [](In2 x, In2) { return Tensor(sinter::cos(x)); },
               [](auto x, auto, auto) { return accuracy::cos(x); }),
           row(
               "tan", 5, 5, [](In2 x, In2) { return Tensor(sinter::tan(x)); },
               [](auto x, auto, auto) { return accuracy::tan(x); }),
           row(
               "asin", 1, 1, [](In2 x, In2) { return Tensor(sinter::asin(x)); },
               [](auto x, auto, auto) { return accuracy::asin(x); }),
           row(
               "acos", 1, 1, [](In2 x, In2) { return Tensor(sinter::acos(x)); },
               [](auto x, auto, auto) { return accuracy::acos(x); }),
           row(
               "atan", 1.5, 1.5, [](In2 x, In2) { return Tensor(sinter::atan(x)); },
               [](auto x, auto, auto) { return accuracy::atan(x); }),
           row(
               "sinh", 3, 3, [](In2 x, In2) { return Tensor(sinter::sinh(x)); },
               [](auto x, auto, auto) { return accuracy::sinh(x); }),
           row(
               "cosh", 3, 3, [](In2 x, In2) { return Tensor(sinter::cosh(x)); },
               [](auto x, auto, auto) { return accuracy::cosh(x); }),
           row(
               "tanh", 2.5, 2.5, [](In2 x, In2) { return Tensor(sinter::tanh(x)); },
               [](auto x, auto, auto) { return accuracy::tanh(x); }),
           row(
               "asinh", 3, 3, [](In2 x, In2) { return Tensor(sinter::asinh(x)); },
               [](auto x, auto, auto) { return accuracy::asinh(x); }),
           row(
               "acosh", 3, 3, [](In2 x, In2) { return Tensor(sinter::acosh(x)); },
               [](auto x, auto, auto) { return accuracy::acosh(x); }),
           row(
               "atanh", 3, 3, [](In2 x, In2) { return Tensor(sinter::atanh(x)); },
               [](auto x, auto, auto) { return accuracy::atanh(x); }),
           row(
               "rad2deg", 1, 1, [](In2 x, In2) { return Tensor(sinter::rad2deg(x)); },
               [](auto x, auto, auto) { return x * 180 / pi<decltype(x)>; }),
           row(
               "deg2rad", 1, 1, [](In2 x, In2) { return Tensor(sinter::deg2rad(x)); },
               [](auto x, auto, auto) { return x * pi<decltype(x)> / 180; }),
       })
    rows.push_back(each);
}

inline void add_activations(std::vector<Row>& rows) {
  for (const Row& each : {
           row(
               "sigmoid", 3, 3, [](In2 x, In2) { return Tensor(sinter::sigmoid(x)); },
               [](auto x, auto, auto) { return accuracy::sigmoid(x); }),
           row(
               "logsigmoid", 3, 3, [](In2 x, In2) { return Tensor(sinter::logsigmoid(x)); },
               [](auto x, auto, auto) { return -accuracy::softplus(-x); }),
           row(
               "softplus", 3, 3, [](In2 x, In2) { return Tensor(sinter::softplus(x)); },
               [](auto x, auto, auto) { return accuracy::softplus(x); }),
           row(
               "silu", 5, 4, [](In2 x, In2) { return Tensor(sinter::silu(x)); },
               [](auto x, auto, auto) { return x == -infinite<decltype(x)>() ? 0 : x * accuracy::sigmoid(x); }),
           row(
               "gelu", 4.5, 4, [](In2 x, In2) { return Tensor(sinter::gelu(x)); },
               [](auto x, auto, auto) { return x == -infinite<decltype(x)>() ? 0 : x * accuracy::ndtr(x); }),
           row(
               "mish", 6, 5, [](In2 x, In2) { return Tensor(sinter::mish(x)); },
               [](auto x, auto, auto) { return x == -infinite<decltype(x)>() ? 0 : accuracy::mish(x); }),
           row_of_terms(
               "gelu_tanh", 4, 4, [](In2 x, In2) { return Tensor(sinter::gelu_tanh(x)); },
               [](auto x, auto, auto got) {
                 const auto y = accuracy::gelu_tanh(x);
                 return x < 0 && y > x * least_normal<decltype(x)> ? got : y;
               },
               [](double x, double) {  // the rounding of the exponent counts as often as the exponent is large
                 return std::abs(accuracy::gelu_tanh(x)) * std::max(1.0, -1.6 * x * (1 + 0.044715 * x * x));
               }),
           row(
               "elu", 3, 3, [](In2 x, In2) { return Tensor(sinter::elu(x)); },
               [](auto x, auto, auto) { return accuracy::elu<decltype(x)>(x, 1, 1); }),
           row(
               "celu(x,1.5)", 3, 3, [](In2 x, In2) { return Tensor(sinter::celu(x, 1.5)); },
               [](auto x, auto, auto) { return accuracy::elu<decltype(x)>(x, 1.5, 1.5); }),
           row(
               "selu", 3, 3, [](In2 x, In2) { return Tensor(sinter::selu(x)); },
               [](auto x, auto, auto) {
                 return 1.0507009873554804934 * accuracy::elu<decltype(x)>(x, 1.6732632423543772848, 1);
               }),
           row(
               "softsign", 2, 2, [](In2 x, In2) { return Tensor(sinter::softsign(x)); },
               [](auto x, auto, auto) {
                 return abs(x) == infinite<decltype(x)>() ? undefined<decltype(x)>() : x / (1 + abs(x));
               }),
           row(
               "hardsigmoid", 1.5, 1.5, [](In2 x, In2) { return Tensor(sinter::hardsigmoid(x)); },
               [](auto x, auto, auto) { return x <= -3  ? 0
                                               : x >= 3 ? 1
                                                        : (x + 3) / 6; }),
           row(
               "hardswish", 2.5, 2.5, [](In2 x, In2) { return Tensor(sinter::hardswish(x)); },
               [](auto x, auto, auto) { return x <= -3  ? 0
                                               : x >= 3 ? x
                                                        : x * (x + 3) / 6; }),
           row(
               "tanhshrink", 2.5, 2.5, [](In2 x, In2) { return Tensor(sinter::tanhshrink(x)); },
               [](auto x, auto, auto) { return x - accuracy::tanh(x); }, Scale::operands),
           row(
               "entr", 2, 2, [](In2 x, In2) { return sinter::entr(x); },
               [](auto x, auto, auto) {
                 using R = decltype(x);
                 return x < 0 ? -infinite<R>() : x == 0 ? R(0) : -x * accuracy::log(x);
               }),
           row(
               "logit", 4, 4, [](In2 x, In2) { return Tensor(sinter::logit(x)); },
               [](auto x, auto, auto) { return accuracy::logit(x); }),
       })
    rows.push_back(each);
}

inline void add_special(std::vector<Row>& rows) {
  for (const Row& each : {
           row(
               "erf", 2, 2, [](In2 x, In2) { return Tensor(sinter::erf(x)); },
               [](auto x, auto, auto) { return accuracy::erf(x); }),
           row(
               "erfc", 6, 6, [](In2 x, In2) { return Tensor(sinter::erfc(x)); },
               [](auto x, auto, auto) { return accuracy::erfc(x); }),
           row(
               "erfcx", 6, 6, [](In2 x, In2) { return Tensor(sinter::erfcx(x)); },
               [](auto x, auto, auto) { return accuracy::erfcx(x); }),
           row(
               "erfinv", 5.5, 5, [](In2 x, In2) { return Tensor(sinter::erfinv(x)); },
               [](auto x, auto, auto got) { return accuracy::erfinv(x, got); }),
           row(
               "ndtr", 6, 6, [](In2 x, In2) { return Tensor(sinter::ndtr(x)); },
               [](auto x, auto, auto) { return accuracy::ndtr(x); }),
           row(
               "log_ndtr", 6, 6, [](In2 x, In2) { return Tensor(sinter::log_ndtr(x)); },
               [](auto x, auto, auto) { return accuracy::log_ndtr(x); }),
           row_of_normal(
               "ndtri", 6, 6, [](In2 x, In2) { return Tensor(sinter::ndtri(x)); },
               [](auto x, auto, auto got) { return accuracy::ndtri(x, got); }),
           row(
               "lgamma", 8, 6, [](In2 x, In2) { return Tensor(sinter::lgamma(x)); },
               [](auto x, auto, auto) { return accuracy::lgamma(x); }, Scale::one),
           row(
               "digamma", 12, 12, [](In2 x, In2) { return Tensor(sinter::digamma(x)); },
               [](auto x, auto, auto) { return accuracy::digamma(x); }, Scale::logarithm),
           row(
               "trigamma", 4, 4, [](In2 x, In2) { return sinter::polygamma(1, x); },
               [](auto x, auto, auto) { return accuracy::trigamma(x); }, Scale::one),
           row(
               "zeta(x,1)", 6, 6, [](In2 x, In2) { return sinter::zeta(x, 1); },
               [](auto x, auto, auto) { return accuracy::zeta<decltype(x)>(x, 1); }),
           row(
               "zeta(3,x)", 6, 6, [](In2 x, In2) { return sinter::zeta(3, x); },
               [](auto x, auto, auto) { return accuracy::zeta<decltype(x)>(3, x); }),
           row(
               "zeta(1.5,x)", 6, 6, [](In2 x, In2) { return sinter::zeta(1.5, x); },
               [](auto x, auto, auto) { return accuracy::zeta<decltype(x)>(1.5, x); }),
           row(
               "zeta(10,x)", 14, 14, [](In2 x, In2) { return sinter::zeta(10, x); },
               [](auto x, auto, auto) { return accuracy::zeta<decltype(x)>(10, x); }),
           row(
               "polygamma(2,x)", 8, 8, [](In2 x, In2) { return sinter::polygamma(2, x); },
               [](auto x, auto, auto got) { return x > 0 ? accuracy::polygamma(2, x) : got; }),
           row(
               "polygamma(5,x)", 14, 14, [](In2 x, In2) { return sinter::polygamma(5, x); },
               [](auto x, auto, auto got) { return x > 0 ? accuracy::polygamma(5, x) : got; }),
           row(
               "multigammaln(x,3)", 6, 6, [](In2 x, In2) { return sinter::multigammaln(x, 3); },
               [](auto x, auto, auto got) { return x > 1 ? accuracy::multigammaln(x, 3) : got; }, Scale::one),
           row(
               "sinc", 5, 5, [](In2 x, In2) { return Tensor(sinter::sinc(x)); },
               [](auto x, auto, auto) { return accuracy::sinc(x); }),
           row(
               "i0", 6, 6, [](In2 x, In2) { return Tensor(sinter::i0(x)); },
               [](auto x, auto, auto) { return bessel_i(0, x); }),
           row(
               "i1", 6, 6, [](In2 x, In2) { return Tensor(sinter::i1(x)); },
               [](auto x, auto, auto) { return bessel_i(1, x); }),
           row(
               "i0e", 5, 5, [](In2 x, In2) { return Tensor(sinter::i0e(x)); },
               [](auto x, auto, auto) { return scaled_bessel_i(0, x); }),
           row(
               "i1e", 5, 5, [](In2 x, In2) { return Tensor(sinter::i1e(x)); },
               [](auto x, auto, auto) { return scaled_bessel_i(1, x); }),
           row(
               "bessel_k0", 1, 1, [](In2 x, In2) { return sinter::bessel_k0(x); },
               [](auto x, auto, auto) { return accuracy::exp(-x) * scaled_bessel_k(0, x); }),
           row(
               "bessel_k1", 1, 1, [](In2 x, In2) { return sinter::bessel_k1(x); },
               [](auto x, auto, auto) { return accuracy::exp(-x) * scaled_bessel_k(1, x); }),
           row(
               "bessel_k0e", 1, 1, [](In2 x, In2) { return sinter::bessel_k0e(x); },
               [](auto x, auto, auto) { return scaled_bessel_k(0, x); }),
           row(
               "bessel_k1e", 1, 1, [](In2 x, In2) { return sinter::bessel_k1e(x); },
               [](auto x, auto, auto) { return scaled_bessel_k(1, x); }),
       })
    rows.push_back(each);
}

#ifdef ACCURACY_QUAD
/// Those that the C library computes for us: its promise, not ours.
inline void add_bessel(std::vector<Row>& rows) {
  for (const Row& each : {
           row(
               "bessel_j0", 1, 10, [](In2 x, In2) { return sinter::bessel_j0(x); },
               [](auto x, auto, auto) { return bessel_j(0, x); }, Scale::waves),
           row(
               "bessel_j1", 1, 10, [](In2 x, In2) { return sinter::bessel_j1(x); },
               [](auto x, auto, auto) { return bessel_j(1, x); }, Scale::waves),
           row(
               "bessel_y0", 1, 10, [](In2 x, In2) { return sinter::bessel_y0(x); },
               [](auto x, auto, auto) { return x < 0 ? undefined<decltype(x)>() : bessel_y(0, x); }, Scale::waves),
           row(
               "bessel_y1", 1, 10, [](In2 x, In2) { return sinter::bessel_y1(x); },
               [](auto x, auto, auto) { return x < 0 ? undefined<decltype(x)>() : bessel_y(1, x); }, Scale::waves),
       })
    rows.push_back(each);
}
#endif

inline void add_binary(std::vector<Row>& rows) {
  for (const Row& each : {
           binary_row(
               "atan2", 2, 2, [](In2 x, In2 y) { return Tensor(sinter::atan2(x, y)); },
               [](auto x, auto y, auto) { return accuracy::atan2(x, y); }),
           binary_row(
               "hypot", 2, 2, [](In2 x, In2 y) { return Tensor(sinter::hypot(x, y)); },
               [](auto x, auto y, auto) { return accuracy::hypot(x, y); }),
           binary_row(
               "fmod", 0, 0, [](In2 x, In2 y) { return Tensor(sinter::fmod(x, y)); },
               [](auto x, auto y, auto) { return accuracy::fmod(x, y); }),
           binary_row(
               "logaddexp", 4, 3, [](In2 x, In2 y) { return Tensor(sinter::logaddexp(x, y)); },
               [](auto x, auto y, auto) { return accuracy::logaddexp(x, y); }, Scale::operands),
           binary_row(
               "xlogy", 2, 2, [](In2 x, In2 y) { return Tensor(sinter::xlogy(x, y)); },
               [](auto x, auto y, auto) { return x == 0 ? 0 : x * accuracy::log(y); }),
           binary_row(
               "xlog1py", 3, 3, [](In2 x, In2 y) { return Tensor(sinter::xlog1py(x, y)); },
               [](auto x, auto y, auto) { return x == 0 ? 0 : x * accuracy::log1p(y); }),
       })
    rows.push_back(each);
}

/// Polynomials of degree 5. Where a power overflows nothing is promised.
inline void add_polynomials(std::vector<Row>& rows) {
  for (const Row& each : {
           row_of_terms(
               "chebyshev_t(5,x)", 6, 6,
               [](In2 x, In2) { return sinter::polynomial(x, sinter::Polynomial::chebyshev_t, 5); },
               [](auto x, auto, auto got) {
                 const auto y = ((16 * x * x - 20) * x * x + 5) * x;
                 return abs(y) < largest<decltype(x)> / 16 ? y : got;
               },
               [](double x, double) { return std::abs(((16 * x * x + 20) * x * x + 5) * x); }),
           row_of_terms(
               "legendre_p(5,x)", 9, 9,
               [](In2 x, In2) { return sinter::polynomial(x, sinter::Polynomial::legendre_p, 5); },
               [](auto x, auto, auto got) {
                 const auto y = ((63 * x * x - 70) * x * x + 15) * x / 8;
                 return abs(y) < largest<decltype(x)> / 16 ? y : got;
               },
               [](double x, double) { return std::abs(((63 * x * x + 70) * x * x + 15) * x / 8); }),
           row_of_terms(
               "hermite_h(5,x)", 6, 6,
               [](In2 x, In2) { return sinter::polynomial(x, sinter::Polynomial::hermite_h, 5); },
               [](auto x, auto, auto got) {
                 const auto y = ((32 * x * x - 160) * x * x + 120) * x;
                 return abs(y) < largest<decltype(x)> / 16 ? y : got;
               },
               [](double x, double) { return std::abs(((32 * x * x + 160) * x * x + 120) * x); }),
           row_of_terms(
               "laguerre_l(3,x)", 8, 8,
               [](In2 x, In2) { return sinter::polynomial(x, sinter::Polynomial::laguerre_l, 3); },
               [](auto x, auto, auto got) {
                 const auto y = ((9 - x) * x - 18) * x / 6 + 1;
                 return abs(y) < largest<decltype(x)> / 16 ? y : got;
               },
               [](double x, double) { return ((9 + std::abs(x)) * std::abs(x) + 18) * std::abs(x) / 6 + 1; }),
       })
    rows.push_back(each);
}

/// What takes operands of its own: `got` is given back where nothing is promised.
inline void add_more_binary(std::vector<Row>& rows) {
  for (const Row& each : {
           binary_row(
               "pow", 2, 2, [](In2 x, In2 y) { return Tensor(sinter::pow(x, y)); },
               [](auto x, auto y, auto) { return accuracy::pow(x, y); }),
           row(
               "pow(1+2^-16,x)", 2, 2, [](In2 x, In2) { return Tensor(sinter::pow(0x1.0001p0, x)); },
               [](auto x, auto, auto) { return accuracy::pow(decltype(x)(0x1.0001p0), x); }),
           binary_row(
               "float_power", 0.6, 2, [](In2 x, In2 y) { return sinter::cast(sinter::float_power(x, y), x.dtype()); },
               [](auto x, auto y, auto) { return accuracy::pow(x, y); }),
           binary_row(
               "logaddexp2", 4, 3, [](In2 x, In2 y) { return Tensor(sinter::logaddexp2(x, y)); },
               [](auto x, auto y, auto) { return accuracy::logaddexp2(x, y); }, Scale::operands),
           binary_row(
               "glu", 4, 4, [](In2 x, In2 y) { return sinter::glu(sinter::stack({x, y}, 0), 0)(0); },
               [](auto x, auto y, auto got) {
                 const auto share = accuracy::sigmoid(y);
                 return share < least_normal<decltype(x)> ? got : x * share;
               }),
           binary_row(
               "prelu", 0.501, 0.501, [](In2 x, In2 y) { return sinter::prelu(sinter::unsqueeze(x, 0), y)(0); },
               [](auto x, auto y, auto) { return x > 0 ? x : x * y; }),
           binary_row(
               "lerp(x,y,0.3)", 1.5, 1.5, [](In2 x, In2 y) { return Tensor(sinter::lerp(x, y, 0.3125)); },
               [](auto x, auto y, auto got) { return abs(y - x) < largest<decltype(x)> ? x + (y - x) * 0.3125 : got; },
               Scale::operands),
           binary_row(
               "addcmul(x,y,0.8)", 1, 1, [](In2 x, In2 y) { return sinter::addcmul(x, y, 0.8125); },
               [](auto x, auto y, auto) { return x + y * 0.8125; }, Scale::operands),
           binary_row(
               "addcdiv(x,y,3)", 1, 1, [](In2 x, In2 y) { return sinter::addcdiv(x, y, 3); },
               [](auto x, auto y, auto) { return x + y / 3; }, Scale::operands),
           binary_row(
               "ldexp", 0.501, 0.501,
               [](In2 x, In2 y) { return Tensor(sinter::ldexp(x, sinter::floor(sinter::clamp(y, -400, 400)))); },
               [](auto x, auto y, auto) {
                 using R = decltype(x);
                 return x * accuracy::exp2(accuracy::floor(y < -400 ? R(-400) : y > 400 ? R(400) : y));
               }),
           binary_row(
               "zeta", 16, 16, [](In2 x, In2 y) { return sinter::zeta(x, y); },
               [](auto x, auto y, auto) { return accuracy::zeta(x, y); }),
           binary_row(
               "igamma", 2, 4, [](In2 x, In2 y) { return sinter::igamma(x, y); },
               [](auto x, auto y, auto got) { return x > 1000 ? got : incomplete_gamma(false, x, y); }),
           binary_row(
               "igammac", 2, 4, [](In2 x, In2 y) { return sinter::igammac(x, y); },
               [](auto x, auto y, auto got) { return x > 1000 ? got : incomplete_gamma(true, x, y); }),
       })
    rows.push_back(each);
}

inline const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> made;
    add_elementary(made);
    add_activations(made);
    add_special(made);
#ifdef ACCURACY_QUAD
    add_bessel(made);
#endif
    add_polynomials(made);
    add_binary(made);
    add_more_binary(made);
    return made;
  }();
  return all;
}

// ---- errors ---------------------------------------------------------------------------------------------------------

/// In units of the last place of T at the larger of |expected| and `floor`; 0 where both are NaN or the same infinity.
template <class T, class Wide>
double error_in_ulps(T got, Wide expected, double floor) {
  using Limits = std::numeric_limits<T>;
  if (got != got || expected != expected) return got != got && expected != expected ? 0 : infinite<double>();
  const T nearest = static_cast<T>(expected);
  if (got == nearest && std::isinf(got)) return 0;
  if (std::isinf(got) || std::isinf(nearest)) {  // one of them: infinity stands one unit after the largest number
    const Wide unit = static_cast<Wide>(std::ldexp(1.0, Limits::max_exponent - Limits::digits)),
               end = static_cast<Wide>(Limits::max()) + unit;
    const Wide seen = !std::isinf(got) ? static_cast<Wide>(got) : got > 0 ? end : -end;
    const Wide apart = seen < expected ? expected - seen : seen - expected;
    return static_cast<double>(apart / unit);
  }
  if constexpr (std::is_same_v<Wide, double>) {  // f32, of which tools/accuracy takes all: by the bits
    const auto exponent =
        static_cast<int>(std::bit_cast<std::uint64_t>(std::max(std::abs(expected), floor)) >> 52) - 1022;
    const int unit = std::max(exponent, Limits::min_exponent) - Limits::digits;
    return std::abs(static_cast<double>(got) - expected) *
           std::bit_cast<double>(static_cast<std::uint64_t>(1023 - unit) << 52);
  }
  int exponent = 0;
  const auto size = std::max(std::abs(static_cast<long double>(expected)), static_cast<long double>(floor));
  std::frexp(std::max(size, static_cast<long double>(Limits::denorm_min())), &exponent);  // of 0 it gives 0
  const int unit = std::max(exponent, Limits::min_exponent) - Limits::digits;
  const Wide difference = (static_cast<Wide>(got) - expected) * (unit < -600 ? Wide(0x1p900) : Wide(1));
  return std::fabs(std::ldexp(static_cast<double>(difference), unit < -600 ? -unit - 900 : -unit));
}

/// The second operand of x: a number of any size, or one of nearly the same size.
template <class T>
T companion(T x, std::uint64_t seed) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  const T any = std::bit_cast<T>(static_cast<Bits>(z));
  if (any != any || std::isinf(any)) return x;
  if (z % 2 == 0 || x != x || std::isinf(x)) return any;
  int exponent = 0;
  const T fraction = std::frexp(any, &exponent);
  std::frexp(x, &exponent);
  return std::ldexp(fraction, exponent + static_cast<int>(z >> 60) - 8);
}

}  // namespace accuracy
