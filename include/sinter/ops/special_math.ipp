// The formulas of special functions.
#pragma once

#include <sinter/ops/scalar_math.ipp>
#include <sinter/ops/special_math.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// S(u) with d = 1 + b * slope and u = b / d (see coefficients.hpp), and d: Phi(-b) e^(b^2/2) is their quotient, b >=
/// 0.
struct NormalTail {
  SV sum, divisor;
};
inline NormalTail scaled_normal_tail(SB& s, SV b) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV divisor = s.fma(b, s.imm(of(b, 0.25, 1.0 / 6), b), s.imm(1, b));
  const SV u = plus(s, s.div(b, divisor), -of(b, 2.0, 3.5));
  return {horner(s, of(b, Coefficients(f::normal_tail), Coefficients(d::normal_tail)), u), divisor};
}
/// erfc(a) e^(a^2) for a >= 0.
inline SV scaled_erfc(SB& s, SV a) {
  const NormalTail tail = scaled_normal_tail(s, times(s, a, 1.41421356237309504880));
  return s.div(s.add(tail.sum, tail.sum), tail.divisor);
}
/// Phi(-b) for b >= 0. Not by erfc: the square of a rounded b / sqrt(2) would lose digits.
inline SV normal_tail(SB& s, SV b) {
  const SV bounded = s.min(b, s.imm(of(b, 15.0, 39.0), b));
  const NormalTail tail = scaled_normal_tail(s, bounded);
  return s.mul(s.gauss(bounded), s.div(tail.sum, tail.divisor));
}
/// e^(-a^2): the square is rounded, and what that took off scales the result.
inline SV gauss_of_square(SB& s, SV a) {
  const SV square = s.mul(a, a), lost = s.fma(a, a, s.neg(square));
  const SV power = s.exp(s.neg(square));
  return s.fma(s.neg(power), lost, power);
}
/// For a >= 0.
inline SV erfc_of_positive(SB& s, SV a) { return s.mul(gauss_of_square(s, a), scaled_erfc(s, a)); }

/// 1 - erf(x) where that keeps its digits, else from the tail.
SINTER_DECL SV erfc(SB& s, SV x) {
  const SV a = s.min(s.abs(x), s.imm(of(x, 10.5, 27.5), x)), tail = erfc_of_positive(s, a);
  const SV far = s.select(is_less(s, x, 0), s.sub(s.imm(2, x), tail), tail);
  const SV result = s.select(is_less(s, a, 0.45), s.sub(s.imm(1, x), s.erf(x)), far);
  return s.select(is_nan(s, x), x, result);
}

/// 1 / (a sqrt(pi)) times 1 - z + 3 z^2 - 15 z^3 + ... with z = 1 / (2 a^2), for large a (DLMF 7.12.1).
inline SV erfcx_far(SB& s, SV a) {
  static constexpr double series[] = {1, -1, 3, -15, 105, -945, 10395, -135135};
  const SV inverse = s.div(s.imm(1, a), a), z = times(s, s.mul(inverse, inverse), 0.5);
  return s.mul(times(s, inverse, 0.56418958354775628695), horner(s, series, z));
}
/// Of negative x it is 2 e^(x^2) less that of -x.
SINTER_DECL SV erfcx(SB& s, SV x) {
  const double limit = of(x, 9.0, 25.0);
  const SV a = s.abs(x), is_far = is_above(s, a, limit);
  const SV near = scaled_erfc(s, s.select(is_far, s.imm(limit, x), a));
  const SV positive = s.select(is_far, erfcx_far(s, s.select(is_far, a, s.imm(limit, x))), near);
  const SV mirrored = s.sub(s.div(s.imm(2, x), gauss_of_square(s, s.min(a, s.imm(of(x, 9.5, 27.0), x)))), positive);
  const SV result =
      s.select(is_less(s, x, 0), choose(s, is_above(s, a, of(x, 9.4, 26.65)), infinite, mirrored), positive);
  return s.select(is_nan(s, x), x, result);
}

SINTER_DECL SV normal_distribution(SB& s, SV x) {
  const SV tail = normal_tail(s, s.abs(x));
  const SV result = s.select(is_less(s, x, 0), tail, s.sub(s.imm(1, x), tail));
  return s.select(is_nan(s, x), x, result);
}
SINTER_DECL SV log_normal_distribution(SB& s, SV x) {
  const SV a = s.abs(x), scaled = erfcx(s, times(s, a, 0.70710678118654752440));
  const SV low = s.sub(s.log(times(s, scaled, 0.5)), s.mul(times(s, a, 0.5), a));
  const SV result = s.select(is_less(s, x, 0), low, log1p(s, s.neg(normal_tail(s, a))));
  return s.select(is_nan(s, x), x, result);
}

/// A polynomial, and steps of Halley: with d = (erf(y) - a) / erf'(y), y - d / (1 + y d). Near 1 with erfc and 1 - a.
SINTER_DECL SV erf_inverse(SB& s, SV x) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV a = s.abs(x), one = s.imm(1, x), is_far = is_above(s, a, 0.8);
  const SV near =
      s.mul(a, horner(s, of(x, Coefficients(f::erf_inverse_near), Coefficients(d::erf_inverse_near)), s.mul(a, a)));
  const SV rest = s.sub(one, a);  // exact where it is used
  const SV bounded = s.select(s.and_(is_far, is_above(s, rest, 0)), rest, s.imm(0.25, x));
  const SV t = plus(s, s.sqrt(s.neg(s.log(bounded))), -3.5);
  const SV far = horner(s, of(x, Coefficients(f::erf_inverse_far), Coefficients(d::erf_inverse_far)), t);
  SV y = s.select(is_far, far, near);
  for (int step = 0; step < of(x, 1, 2); ++step) {
    const SV gauss = gauss_of_square(s, y);
    const SV above = s.select(is_above(s, a, 0.5), s.sub(rest, s.mul(gauss, scaled_erfc(s, y))), s.sub(s.erf(y), a));
    const SV difference = s.div(times(s, above, 0.88622692545275801365), gauss);  // sqrt(pi) / 2
    y = s.sub(y, s.div(difference, s.fma(y, difference, one)));
  }
  const SV inside = s.select(is_less(s, a, of(x, 0x1p-100, 0x1p-900)), times(s, a, 0.88622692545275801365), y);
  const SV result = choose(s, is_equal(s, a, 1), infinite, choose(s, is_above(s, a, 1), undefined, inside));
  return s.select(is_nan(s, x), x, copy_sign(s, result, x));
}

/// sqrt(2) times the y of which erfc is twice the smaller one of p and 1 - p. The first y has e^(-y^2) / (y sqrt(pi))
/// in the tail, and is near the middle that of erf_inverse; then steps of Halley.
SINTER_DECL SV normal_quantile(SB& s, SV p) {
  const SV one = s.imm(1, p), is_low = is_less(s, p, 0.5), smaller = s.select(is_low, p, s.sub(one, p));
  const SV is_tail = is_less(s, smaller, 0.02);
  const SV rest = s.select(s.and_(is_tail, is_above(s, smaller, 0)), s.add(smaller, smaller), s.imm(0.04, p));
  const SV power = s.neg(s.log(rest)), half_log = times(s, s.log(times(s, power, 3.14159265358979323846)), 0.5);
  SV y = s.sqrt(s.sub(power, half_log));
  for (int step = 0; step < of(p, 2, 3); ++step) {
    const SV above = s.sub(s.div(rest, gauss_of_square(s, y)), scaled_erfc(s, s.min(y, s.imm(27, p))));
    const SV difference = times(s, above, 0.88622692545275801365);  // sqrt(pi) / 2
    y = s.sub(y, s.div(difference, s.fma(y, difference, one)));
  }
  const SV middle = erf_inverse(s, s.select(is_tail, s.imm(0.5, p), s.sub(one, s.add(smaller, smaller))));
  const SV size = times(s, s.select(is_tail, y, middle), 1.41421356237309504880);
  const SV bounded = choose(s, is_equal(s, smaller, 0), infinite, choose(s, is_less(s, smaller, 0), undefined, size));
  return s.select(is_nan(s, p), p, s.select(is_low, s.neg(bounded), bounded));
}

// ---- gamma functions ------------------------------------------------------------------------------------------------

/// (x - 1/2) log(x) - x + log(2 pi) / 2 + S(1/x^2) / x for x >= 8.
inline SV stirling(SB& s, SV x) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV inverse = s.div(s.imm(1, x), x);
  const SV series = horner(s, of(x, Coefficients(f::stirling), Coefficients(d::stirling)), s.mul(inverse, inverse));
  const SV log_x = s.log(x), small = s.fma(series, inverse, s.imm(0.91893853320467274178, x));
  return s.add(s.fma(plus(s, x, -0.5), plus(s, log_x, -1), plus(s, small, -0.5)), s.imm(0, x));
}

/// For x > 0. Around 1 and 2 the zeros are factors: lgamma(2 + t) = t P(t), and lgamma(1 + t) is that less log1p(t); up
/// to 8 a product of x - 1, x - 2, ... leads there.
inline SV lgamma_of_positive(SB& s, SV x) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV one = s.imm(1, x), is_large = is_above(s, x, 8), is_tiny = is_less(s, x, 0.5);
  SV y = s.select(is_large, one, x), product = one;
  for (int i = 0; i < 6; ++i) {
    const SV steps = is_above(s, y, 2.5), below = s.sub(y, one);
    product = s.select(steps, s.mul(product, below), product);
    y = s.select(steps, below, y);
  }
  // y is x below 1/2, whose lgamma is that of 1 + x less log(x); else up to 2.5.
  const SV is_low = is_less(s, y, 1.5);
  const SV t = s.select(is_tiny, y, s.sub(y, s.select(is_low, one, s.imm(2, x))));
  const SV middle = s.mul(t, horner(s, of(x, Coefficients(f::gamma_middle), Coefficients(d::gamma_middle)), t));
  const SV shifted = s.select(is_low, s.sub(middle, log1p(s, t)), middle);
  const SV log_of = s.log(s.select(is_tiny, x, product));
  const SV moderate = s.select(is_tiny, s.sub(shifted, log_of), s.add(shifted, log_of));
  return s.select(is_large, stirling(s, s.select(is_large, x, s.imm(8, x))), moderate);
}
/// Below 0: log(pi / (a |sin(pi a)|)) - lgamma(a) with a = |x|.
SINTER_DECL SV lgamma(SB& s, SV x) {
  const SV a = s.abs(x), positive = lgamma_of_positive(s, a), is_negative = is_less(s, x, 0);
  const SV sine = s.abs(sin_pi(s, a));
  const SV reflected =
      s.sub(s.sub(s.imm(1.1447298858494001741, x), s.log(s.mul(sine, s.select(is_less(s, a, 1e30), a, s.imm(1, x))))),
            positive);
  const SV is_pole = s.and_(is_negative, is_equal(s, sine, 0));
  const SV is_end = s.or_(is_equal(s, a, infinite), is_equal(s, a, 0));
  const SV result = s.select(is_negative, choose(s, is_pole, infinite, reflected), positive);
  // Where reflection multiplies two tiny numbers: -log(a).
  const SV small = s.select(is_less(s, a, of(x, 1e-20, 1e-40)), s.neg(s.log(a)), result);
  return s.select(is_nan(s, x), x, choose(s, is_end, infinite, small));
}

/// log(x) - 1/(2x) - sum B_2k / (2k x^2k) for x >= 10, and psi(x) = psi(x + 1) - 1/x below.
SINTER_DECL SV digamma(SB& s, SV x) {
  static constexpr double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                      1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
  const SV one = s.imm(1, x), zero = s.imm(0, x), is_negative = is_less(s, x, 0);
  const SV a = s.select(is_negative, s.sub(one, x), x);
  SV y = a, sum = zero;
  for (int i = 0; i < 10; ++i) {
    const SV steps = is_less(s, y, 10);
    sum = s.select(steps, s.add(sum, s.div(one, y)), sum);
    y = s.select(steps, s.add(y, one), y);
  }
  const SV inverse = s.div(one, y), square = s.mul(inverse, inverse);
  const SV tail = s.fma(square, horner(s, Coefficients(series), square), times(s, inverse, 0.5));
  const SV positive = s.sub(s.sub(s.log(y), tail), sum);
  // psi(1 - x) - pi / tan(pi x), the tangent of x less the nearest integer.
  const SV r = s.sub(x, s.round(x)), angle = times(s, r, 3.14159265358979323846);
  const SV reflected = s.sub(positive, s.div(s.imm(3.14159265358979323846, x), tan(s, angle)));
  const SV is_pole = s.and_(is_negative, is_equal(s, r, 0));
  const SV result = s.select(is_negative, choose(s, is_pole, undefined, reflected), positive);
  return s.select(is_equal(s, x, 0), copy_sign(s, s.imm(infinite, x), s.neg(x)), result);
}

/// (pi / sin(pi x))^2 - less, with what rounding took from pi, pi x and the quotient.
inline SV squared_cosecant_less(SB& s, SV x, SV less) {
  const SplitConstant half_turn = split(x, pi);
  const SV r = s.sub(x, s.round(x)), high = s.imm(half_turn.high, x), low = times(s, r, half_turn.low);
  const SV angle = s.fma(r, high, low), lost = s.add(s.fma(r, high, s.neg(angle)), low);
  const SV sine = s.sin(angle), rounded = s.imm(3.14159265358979323846, x), ratio = s.div(rounded, sine);
  const SV rest = plus(s, s.fma(s.neg(ratio), sine, rounded), of(x, -8.742277657347586e-8, 1.2246467991473532e-16));
  const SV correction = s.div(s.sub(rest, s.mul(ratio, s.mul(lost, s.cos(angle)))), sine);
  const SV is_far = is_above(s, s.mul(ratio, ratio), of(x, 3e38, 1.7e308));  // also at poles, where the sine is 0
  return s.fma(ratio, ratio, s.select(is_far, s.imm(0, x), s.fma(times(s, ratio, 2), correction, s.neg(less))));
}

/// 1/x + 1/(2x^2) + sum B_2k / x^(2k+1) for x >= 10, and psi'(x) = psi'(x + 1) + 1/x^2 below.
SINTER_DECL SV trigamma(SB& s, SV x) {
  static constexpr double series[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                      5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  const SV one = s.imm(1, x), is_negative = is_less(s, x, 0);
  const SV start = s.select(is_negative, s.sub(one, x), x);
  const SV steps = s.max(s.min(s.ceil(s.sub(s.imm(10, x), start)), s.imm(10, x)), s.imm(0, x));
  const SV inverse = s.div(one, s.add(start, steps)), square = s.mul(inverse, inverse);
  // The small terms first, each of an argument that was rounded once.
  SV positive =
      s.mul(inverse, s.fma(square, horner(s, Coefficients(series), square), s.fma(inverse, s.imm(0.5, x), one)));
  for (int i = 9; i >= 0; --i) {
    const SV term = s.div(one, plus(s, start, i));
    positive = s.select(s.lt(s.imm(i, x), steps), s.fma(term, term, positive), positive);
  }
  return s.select(is_negative, squared_cosecant_less(s, x, positive), positive);
}

/// The derivative of the given order of pi cot(pi x), n! pi^(n+1) times a polynomial of the cotangent: that of c is
/// -(1 + c^2), and terms of one power in two have one sign.
inline SV cotangent_derivative(SB& s, SV x, int order) {
  std::vector<double> terms(as_index(order) + 2);  // of powers of c, divided by n!
  terms[1] = 1;
  double factorial = 1, turns = 3.14159265358979323846;
  for (int n = 1; n <= order; ++n) {
    std::vector<double> next(terms.size());
    for (std::size_t k = 1; k <= as_index(n); ++k) {
      next[k - 1] -= static_cast<double>(k) * terms[k] / n;
      next[k + 1] -= static_cast<double>(k) * terms[k] / n;
    }
    terms = next;
    factorial *= n;
    turns *= 3.14159265358979323846;
  }
  // The distance from the nearest whole number is exact, and so is that from the half beside it.
  const SV r = s.sub(x, s.round(x)), sine = sin_pi(s, r), cosine = sin_pi(s, s.sub(s.imm(0.5, x), s.abs(r)));
  const SV c = s.div(cosine, sine), square = s.mul(c, c);
  SV sum = s.imm(terms[as_index(order) + 1], x);
  for (int k = order - 1; k >= 0; k -= 2) sum = s.fma(sum, square, s.imm(terms[as_index(k)], x));
  if (order % 2 == 0) sum = s.mul(sum, c);
  return times(s, times(s, sum, turns), factorial);
}

/// (-1)^(n+1) n! sum over i of (x + i)^-(n+1): ten terms, and the rest by the formula of Euler and Maclaurin. Of
/// negative x by that of 1 - x (DLMF 5.15.6); at whole ones what it is at 0.
SINTER_DECL SV polygamma(SB& s, SV x, int order) {
  if (order <= 1) return trigamma(s, x);
  const SV is_negative = is_less(s, x, 0), given = x;
  x = s.select(is_negative, s.sub(s.imm(1, x), x), x);
  static constexpr double bernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
  const int power = order + 1;
  double factorial_of_order = order % 2 == 0 ? -1 : 1;
  for (int i = 2; i <= order; ++i) factorial_of_order *= i;
  const SV one = s.imm(1, x);
  // The factor comes first: a power alone would be subnormal where its product is not.
  const auto raised = [&](SV base, int exponent) {
    SV product = times(s, base, factorial_of_order);
    for (int i = 1; i < exponent; ++i) product = s.mul(product, base);
    return product;
  };
  SV y = x, sum = s.imm(0, x);
  for (int i = 1; i <= 12; ++i) {
    sum = s.add(sum, raised(s.div(one, y), power));
    y = plus(s, x, i);  // not y + 1, whose errors would add up where x is large
  }
  const SV inverse = s.div(one, y), square = s.mul(inverse, inverse), of_y = raised(inverse, order);
  // With s = n + 1: 1 / (s - 1) + 1 / (2 y) + sum of B_2k / (2k)! * s (s + 1) ... (s + 2k - 2) / y^2k, times y^-n.
  SV tail = s.fma(inverse, s.imm(0.5, x), s.imm(1.0 / order, x)), step = square;
  double rising = power, factorial = 2;
  for (int k = 1; k <= 7; ++k) {
    tail = s.fma(step, s.imm(bernoulli[k - 1] * rising / factorial, x), tail);
    step = s.mul(step, square);
    rising *= (power + 2.0 * k - 1) * (power + 2.0 * k);
    factorial *= (2.0 * k + 1) * (2.0 * k + 2);
  }
  const SV above = s.select(is_equal(s, x, infinite), s.imm(0, x), s.fma(of_y, tail, sum));
  const SV below = s.sub(order % 2 == 0 ? above : s.neg(above), cotangent_derivative(s, given, order));
  const SV is_pole = s.and_(is_negative, is_equal(s, s.sub(given, s.round(given)), 0));
  return s.select(is_negative, choose(s, is_pole, factorial_of_order < 0 ? -infinite : infinite, below), above);
}

/// Ten terms, and the sum of the others by Euler and Maclaurin (DLMF 25.11.5). Factors are paired, so that none
/// overflows before what it multiplies is 0.
SINTER_DECL SV zeta(SB& s, SV order, SV q) {
  static constexpr double coefficients[] = {1.0 / 12,
                                            -1.0 / 720,
                                            1.0 / 30240,
                                            -1.0 / 1209600,
                                            1.0 / 47900160,
                                            -691.0 / 1307674368000,
                                            1.0 / 74724249600,
                                            -3617.0 / 10670622842880000,
                                            43867.0 / 5109094217170944000};  // B_2k / (2k)!
  const SV one = s.imm(1, q), is_inside = s.and_(is_above(s, q, 0), is_above(s, order, 1));
  const SV exponent = s.neg(s.select(is_inside, order, s.imm(2, q)));
  const SV first = s.select(is_inside, q, one);
  SV y = first, sum = s.imm(0, q);
  for (int i = 1; i <= 10; ++i) {
    sum = s.add(sum, s.pow(y, exponent));
    y = plus(s, first, i);  // not y + 1, whose errors would add up where q is large
  }
  const SV bounded = s.min(s.neg(exponent), s.imm(of(q, 100.0, 400.0), q)), inverse = s.div(one, y);
  SV rising = s.mul(bounded, inverse), tail = s.imm(0.5, q);
  for (int k = 0; k < 9; ++k) {
    tail = s.fma(rising, s.imm(coefficients[k], q), tail);
    const SV next = s.mul(plus(s, bounded, 2 * k + 1), inverse), after = s.mul(plus(s, bounded, 2 * k + 2), inverse);
    rising = s.mul(s.mul(rising, next), after);
  }
  // The integral's part is y / (order - 1), which overflows where y is large and the order below 2: there all is
  // multiplied by order - 1.
  const SV above_one = s.sub(s.neg(exponent), one), scale = s.min(above_one, one);
  tail = s.fma(tail, scale, s.mul(y, s.div(scale, above_one)));
  // y^-order may underflow where its product with the tail does not: half of the exponent at a time.
  const SV half = s.pow(y, times(s, exponent, 0.5)), rest = s.mul(s.mul(half, tail), half);
  const SV near = s.add(s.div(rest, scale), sum);
  const SV inside = choose(s, is_equal(s, q, infinite), 0, near);
  const SV is_pole = s.or_(is_equal(s, order, 1), s.and_(is_above(s, order, 1), is_equal(s, q, 0)));
  return s.select(is_inside, inside, choose(s, is_pole, infinite, s.imm(undefined, q)));
}

// ---- sinc and Bessel functions --------------------------------------------------------------------------------------

SINTER_DECL SV sinc(SB& s, SV x) {
  const SV is_small = is_less(s, s.abs(x), of(x, 0x1p-14, 0x1p-28)), is_end = is_equal(s, s.abs(x), infinite);
  const SV safe = s.select(s.or_(is_small, is_end), s.imm(0.5, x), x);
  const SV quotient = s.div(sin_pi(s, safe), times(s, safe, 3.14159265358979323846));
  return s.select(is_small, s.imm(1, x), choose(s, is_end, 0, quotient));
}

/// The polynomials of a Bessel function: of the square of small arguments, and of the inverse of large ones, there of
/// sqrt(x) e^-x I(x).
struct BesselParts {
  SV near, far, is_far, bounded;
};
inline BesselParts bessel_parts(SB& s, SV a, Coefficients near, Coefficients far) {
  const SV is_far = is_above(s, a, 8), bounded = s.select(is_far, s.imm(1, a), a),
           large = s.select(is_far, a, s.imm(16, a));
  const SV w = plus(s, s.div(s.imm(16, a), large), -1);
  return {horner(s, near, s.mul(bounded, bounded)), s.div(horner(s, far, w), s.sqrt(large)), is_far, bounded};
}
inline BesselParts parts_of_i0(SB& s, SV a) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  return bessel_parts(s, a, of(a, Coefficients(f::i0_near), Coefficients(d::i0_near)),
                      of(a, Coefficients(f::i0_far), Coefficients(d::i0_far)));
}
inline BesselParts parts_of_i1(SB& s, SV a) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  BesselParts parts = bessel_parts(s, a, of(a, Coefficients(f::i1_near), Coefficients(d::i1_near)),
                                   of(a, Coefficients(f::i1_far), Coefficients(d::i1_far)));
  parts.near = s.mul(parts.near, parts.bounded);
  return parts;
}
/// e^a in two factors, for the function overflows later.
inline SV grown(SB& s, SV a, const BesselParts& parts) {
  const SV half = s.exp(times(s, a, 0.5)), far = s.mul(s.mul(parts.far, half), half);
  return choose(s, is_equal(s, a, infinite), infinite, s.select(parts.is_far, far, parts.near));
}
inline SV shrunk(SB& s, SV a, const BesselParts& parts) {
  const SV near = s.mul(parts.near, s.exp(s.neg(a)));
  return choose(s, is_equal(s, a, infinite), 0, s.select(parts.is_far, parts.far, near));
}
SINTER_DECL SV i0(SB& s, SV x) {
  const SV a = s.abs(x);
  return grown(s, a, parts_of_i0(s, a));
}
SINTER_DECL SV i0e(SB& s, SV x) {
  const SV a = s.abs(x);
  return shrunk(s, a, parts_of_i0(s, a));
}
SINTER_DECL SV i1(SB& s, SV x) {
  const SV a = s.abs(x);
  return copy_sign(s, grown(s, a, parts_of_i1(s, a)), x);
}
SINTER_DECL SV i1e(SB& s, SV x) {
  const SV a = s.abs(x);
  return copy_sign(s, shrunk(s, a, parts_of_i1(s, a)), x);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
