// The steps: Euclid's, series and continued fractions of Bessel functions, rejection of random numbers.
#pragma once

#include <sinter/ops/host_elementwise.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/gamma_slope.hpp>
#include <sinter/ops/incomplete_gamma.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Operands of one shape and of this dtype, which the result has, too.
inline Type elements_of(const InferArgs& args, DType dtype) {
  for (const Type& type : args.in)
    if (type.dtype != dtype)
      throw DTypeError(args.op, operands_text(args), args.where, "it takes " + std::string(name(dtype)) + " alone");
  for (const Type& type : args.in)
    if (!(type.shape == args.in[0].shape))
      throw ShapeError(args.op, operands_text(args), args.where, "operands have one shape; expand them first");
  return args.in[0];
}
/// A batch is more elements.
inline Batched batch_elements(const BatchArgs& a) {
  std::vector<Val> operands;
  for (std::size_t i = 0; i < a.in.size(); ++i) operands.push_back(with_batch(a, i));
  return apply(a.op, operands, a.attrs);
}
template <class T, class F>
void for_each_element(HostCall& call, double nanoseconds, F&& value_at) {
  T* out = call.out[0].as<T>();
  parallel_for(call.out[0].numel, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = value_at(i);
  });
}

/// Without signs, of which the least i64 has no opposite: the result wraps as the sum of two numbers does.
inline std::int64_t greatest_common_divisor(std::int64_t a, std::int64_t b) {
  const auto size = [](std::int64_t x) {
    return x < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
  };
  std::uint64_t x = size(a), y = size(b);
  while (y != 0) {
    const std::uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<std::int64_t>(x);
}

// ---- Bessel functions of the second kind, modified ------------------------------------------------------------------

/// K_n(x) e^x for x > 25, n of 0 and 1: Hankel's series (DLMF 10.40.2), whose terms fall to e^(-2 x).
inline Extended scaled_bessel_k_far(int order, Extended x) {
  if (is_infinite_number(static_cast<double>(x))) return 0;
  Extended term = 1, sum = 1;
  for (int k = 1; k < 60 && std::abs(term) > 1e-21L; ++k) {
    const auto odd = static_cast<Extended>(2 * k - 1);
    term *= (static_cast<Extended>(4 * order) - odd * odd) / (static_cast<Extended>(8 * k) * x);
    sum += term;
  }
  return sum * std::sqrt(std::numbers::pi_v<Extended> / (2 * x));
}
/// The same for 2 < x <= 25 by Steed's continued fraction of K_1 / K_0 and Temme's sum beside it, which gives K_0
/// (Temme
/// 1975, "On the numerical evaluation of the modified Bessel function of the third kind").
inline Extended scaled_bessel_k_between(int order, Extended x) {
  Extended b = 2 * (1 + x), d = 1 / b, change = d, fraction = d;
  Extended a = -0.25L, factor = 0.25L, earlier = 0, later = 1, weight = 0.25L, sum = 1 + weight * change;
  for (int k = 2; k < 500; ++k) {
    a -= static_cast<Extended>(2 * (k - 1));
    factor *= -a / static_cast<Extended>(k);
    const Extended next = (earlier - b * later) / a;
    earlier = later;
    later = next;
    weight += factor * next;
    b += 2;
    d = 1 / (b + a * d);
    change *= b * d - 1;
    fraction += change;
    sum += weight * change;
    if (std::abs(weight * change) < 1e-20L * sum) break;
  }
  const Extended of_0 = std::sqrt(std::numbers::pi_v<Extended> / (2 * x)) / sum;
  return order == 0 ? of_0 : of_0 * (x + 0.5L - fraction / 4) / x;
}
/// K_n(x) for 0 < x <= 2: power series with logarithms (DLMF 10.31.1).
inline Extended bessel_k_near(int order, Extended x) {
  const Extended z = x * x / 4, log_half = std::log(x / 2);
  Extended digamma = -std::numbers::egamma_v<Extended>, term = 1, sum = 0;  // digamma(k + 1), z^k / (k! (k + n)!)
  for (int k = 0; k < 20 && term > 1e-23L; ++k) {
    const Extended count = static_cast<Extended>(k + 1), next = digamma + 1 / count;
    sum += term * (order == 0 ? digamma - log_half : log_half - (digamma + next) / 2);
    term *= z / (count * (count + static_cast<Extended>(order)));
    digamma = next;
  }
  return order == 0 ? sum : 1 / x + x / 2 * sum;
}
inline double bessel_k(int order, double x, bool is_scaled) {
  if (is_nan_number(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return std::numeric_limits<double>::infinity();
  if (x > 750 && !is_scaled) return 0;  // less than half of the least number
  const Extended wide = x;
  if (x <= 2) return static_cast<double>(bessel_k_near(order, wide) * (is_scaled ? std::exp(wide) : 1));
  const Extended scaled = x > 25 ? scaled_bessel_k_far(order, wide) : scaled_bessel_k_between(order, wide);
  return static_cast<double>(scaled * (is_scaled ? 1 : std::exp(-wide)));
}
/// Of those of the second kind the C library says that negative numbers are poles; they are outside.
inline double bessel(ops::BesselFunction function, double x) {
  using enum ops::BesselFunction;
  switch (function) {
    case j0: return ::j0(x);
    case j1: return ::j1(x);
    case y0: return x < 0 ? std::numeric_limits<double>::quiet_NaN() : ::y0(x);
    case y1: return x < 0 ? std::numeric_limits<double>::quiet_NaN() : ::y1(x);
    case k0: return bessel_k(0, x, false);
    case k1: return bessel_k(1, x, false);
    case k0e: return bessel_k(0, x, true);
    case k1e: return bessel_k(1, x, true);
  }
  return x;
}

// ---- random numbers -------------------------------------------------------------------------------------------------

/// SplitMix64 (Steele, Lea and Flood 2014), started by a uniform number.
class ElementGenerator {
 public:
  explicit ElementGenerator(double uniform) : state_(std::bit_cast<std::uint64_t>(uniform)) {}
  /// In (0, 1).
  double uniform() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (static_cast<double>((z ^ (z >> 31)) >> 12) + 0.5) * 0x1p-52;
  }
  /// Box and Muller 1958; the second number is not kept.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

/// log(k!) by Stirling's series from 10 on. Not std::lgamma, which writes a variable that threads share.
inline double log_factorial(double k) {
  double product = 1;
  for (; k < 10; k += 1) product *= k + 1;
  const double x = k + 1, inverse = 1 / (x * x);
  const double series = (1.0 / 12 - inverse * (1.0 / 360 - inverse * (1.0 / 1260 - inverse / 1680))) / x;
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274178 + series - std::log(product);
}
/// Few are expected: as many as uniform numbers can be multiplied before the product is below e^-rate. Many:
/// transformed rejection with squeeze (PTRS; Hoermann 1993).
inline double poisson_sample(double rate, ElementGenerator random) {
  if (is_nan_number(rate) || rate < 0 || is_infinite_number(rate)) return std::numeric_limits<double>::quiet_NaN();
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double count = 0;
    for (double product = random.uniform(); product > limit; product *= random.uniform()) count += 1;
    return count;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = std::log(rate);
  const double log_inverse_alpha = std::log(1.1239 + 1.1328 / (b - 3.4)), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = random.uniform() - 0.5, v = random.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + log_inverse_alpha - std::log(a / (us * us) + b) <= k * log_rate - rate - log_factorial(k))
      return k;
  }
}
/// Few successes are expected: by the trials between them. Many: transformed rejection with squeeze (BTRS; Hoermann
/// 1993), for p up to 1/2.
inline double binomial_sample_of_half(double n, double p, ElementGenerator random) {
  if (n * p < 10) {
    if (p == 0) return 0;
    double count = 0;
    for (double trials = 0;; count += 1) {
      trials += std::ceil(std::log(random.uniform()) / std::log1p(-p));
      if (trials > n) return count;
    }
  }
  const double spread = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double alpha = (2.83 + 5.1 / b) * spread, log_odds = std::log(p / (1 - p)), mode = std::floor((n + 1) * p);
  const double at_mode = log_factorial(mode) + log_factorial(n - mode);
  for (;;) {
    const double u = random.uniform() - 0.5, v = random.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + n * p + 0.5);
    if (us >= 0.07 && v <= 0.92 - 4.2 / b) return k;
    if (k < 0 || k > n) continue;
    if (std::log(v * alpha / (a / (us * us) + b)) <=
        at_mode - log_factorial(k) - log_factorial(n - k) + (k - mode) * log_odds)
      return k;
  }
}
inline double binomial_sample(double n, double p, ElementGenerator random) {
  if (!(n >= 0) || is_infinite_number(n) || n != std::floor(n) || !(p >= 0 && p <= 1))
    return std::numeric_limits<double>::quiet_NaN();
  return p <= 0.5 ? binomial_sample_of_half(n, p, random) : n - binomial_sample_of_half(n, 1 - p, random);
}
/// A gamma number is `factor` times e^`log_rest`.
struct GammaNumber {
  double factor, log_rest;
};
/// Marsaglia and Tsang 2000; below 1 by way of the next parameter.
inline GammaNumber gamma_sample(double alpha, ElementGenerator random) {
  if (!(alpha > 0) || is_infinite_number(alpha)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const double boost = alpha < 1 ? std::log(random.uniform()) / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, v = root * root * root;
    if (root > 0 && std::log(random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return {d * v, boost};
  }
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Gcd::infer(const InferArgs& args) {
  return ops_detail::elements_of(args, args.in[0].dtype == DType::u64 ? DType::u64 : DType::i64);
}
SINTER_DECL void Gcd::run_on_host(HostCall& call) {
  if (call.in[0].dtype == DType::u64) {
    const auto *a = call.in[0].as<std::uint64_t>(), *b = call.in[1].as<std::uint64_t>();
    ops_detail::for_each_element<std::uint64_t>(call, 100, [=](std::int64_t i) { return std::gcd(a[i], b[i]); });
    return;
  }
  const auto *a = call.in[0].as<std::int64_t>(), *b = call.in[1].as<std::int64_t>();
  ops_detail::for_each_element<std::int64_t>(
      call, 100, [=](std::int64_t i) { return ops_detail::greatest_common_divisor(a[i], b[i]); });
}
SINTER_DECL Batched Gcd::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type Bessel::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void Bessel::run_on_host(HostCall& call) {
  const auto* x = call.in[0].as<double>();
  const BesselFunction which = call.attrs[function];
  ops_detail::for_each_element<double>(call, 100, [=](std::int64_t i) { return ops_detail::bessel(which, x[i]); });
}
/// Those of order 1 by those of order 0 and themselves (DLMF 10.6.2, 10.29.2).
SINTER_DECL ValList Bessel::vjp(const VjpArgs& a) {
  using enum BesselFunction;
  const Val x = a.in[0];
  const auto of = [&](BesselFunction which) { return apply(op_info<Bessel>, {x}, Attrs{}.with(function, which)); };
  switch (a.attrs[function]) {
    case j0: return {-(a.dout * of(j1))};
    case j1: {
      const Val is_zero = eq(x, 0);
      return {a.dout * (of(j0) - where(is_zero, 0.5, a.out / where(is_zero, 1, x)))};
    }
    case y0: return {-(a.dout * of(y1))};
    case y1: return {a.dout * (of(y0) - a.out / x)};
    case k0: return {-(a.dout * of(k1))};
    case k1: return {-(a.dout * (of(k0) + a.out / x))};
    case k0e: return {a.dout * (a.out - of(k1e))};
    case k1e: return {a.dout * (a.out - of(k0e) - a.out / x)};
  }
  return {Val{}};
}
SINTER_DECL Batched Bessel::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type IncompleteGamma::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void IncompleteGamma::run_on_host(HostCall& call) {
  const auto *a = call.in[0].as<double>(), *x = call.in[1].as<double>();
  const IncompleteGammaPart which = call.attrs[part];
  ops_detail::for_each_element<double>(call, 500, [=](std::int64_t i) {
    return which == IncompleteGammaPart::slope
               ? ops_detail::incomplete_gamma_slope(a[i], x[i])
               : ops_detail::incomplete_gamma(a[i], x[i], which == IncompleteGammaPart::upper);
  });
}
SINTER_DECL ValList IncompleteGamma::vjp(const VjpArgs& v) {
  if (v.needs(0))
    throw UserError("igamma", "the derivative by a is asked for", v.where,
                    "there is none but by x: keep a from being differentiated with stop_gradient(a)");
  const Val a = v.in[0], x = v.in[1];
  const IncompleteGammaPart which = v.attrs[part];
  if (which == IncompleteGammaPart::slope) return {Val{}, v.dout * (v.out * ((a - 1) / x - 1))};
  const Val slope = apply(op_info<IncompleteGamma>, {a, x}, Attrs{}.with(part, IncompleteGammaPart::slope));
  return {Val{}, which == IncompleteGammaPart::lower ? v.dout * slope : -(v.dout * slope)};
}
SINTER_DECL Batched IncompleteGamma::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type PoissonSample::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void PoissonSample::run_on_host(HostCall& call) {
  const auto *rate = call.in[0].as<double>(), *start = call.in[1].as<double>();
  ops_detail::for_each_element<double>(call, 100, [=](std::int64_t i) {
    return ops_detail::poisson_sample(rate[i], ops_detail::ElementGenerator(start[i]));
  });
}
SINTER_DECL Batched PoissonSample::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type BinomialSample::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void BinomialSample::run_on_host(HostCall& call) {
  const auto *n = call.in[0].as<double>(), *p = call.in[1].as<double>(), *start = call.in[2].as<double>();
  ops_detail::for_each_element<double>(call, 200, [=](std::int64_t i) {
    return ops_detail::binomial_sample(n[i], p[i], ops_detail::ElementGenerator(start[i]));
  });
}
SINTER_DECL Batched BinomialSample::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type GammaSample::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void GammaSample::run_on_host(HostCall& call) {
  const auto *alpha = call.in[0].as<double>(), *start = call.in[1].as<double>();
  const bool is_logarithm = call.attrs[logarithm];
  ops_detail::for_each_element<double>(call, 100, [=](std::int64_t i) {
    const ops_detail::GammaNumber x = ops_detail::gamma_sample(alpha[i], ops_detail::ElementGenerator(start[i]));
    return is_logarithm ? std::log(x.factor) + x.log_rest : x.factor * std::exp(x.log_rest);
  });
}
/// A number below all of f64 is 0 and stays so.
SINTER_DECL ValList GammaSample::vjp(const VjpArgs& a) {
  const auto slope_at = [&](const Val& log_x) { return apply(op_info<GammaSlope>, {a.in[0], log_x}); };
  if (a.attrs[logarithm]) return {a.dout * slope_at(a.out), Val{}};
  const Val is_zero = eq(a.out, 0), x = where(is_zero, 1, a.out);
  return {where(is_zero, 0, a.dout * x * slope_at(log(x))), Val{}};
}
SINTER_DECL Batched GammaSample::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

SINTER_DECL Type GammaSlope::infer(const InferArgs& args) { return ops_detail::elements_of(args, DType::f64); }
SINTER_DECL void GammaSlope::run_on_host(HostCall& call) {
  const auto *alpha = call.in[0].as<double>(), *log_x = call.in[1].as<double>();
  ops_detail::for_each_element<double>(call, 1000,
                                       [=](std::int64_t i) { return ops_detail::log_gamma_slope(alpha[i], log_x[i]); });
}
SINTER_DECL ValList GammaSlope::vjp(const VjpArgs& a) {
  throw UserError("standard_gamma", "a second derivative by the parameter is asked for", a.where,
                  "there are first ones: keep the gradient from being differentiated with stop_gradient");
}
SINTER_DECL Batched GammaSlope::batch(const BatchArgs& a) { return ops_detail::batch_elements(a); }

}  // namespace ops
SINTER_NAMESPACE_END
