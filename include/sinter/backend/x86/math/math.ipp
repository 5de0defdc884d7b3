// The functions' formulas. Operations are few rather than their dependence short: loops are unrolled and out-of-order
// machines overlap steps. Error figures of the polynomials stand with their coefficients.
#pragma once

#include <sinter/backend/x86/math/coefficients.hpp>
#include <sinter/backend/x86/math/math.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace math_detail {

/// What differs between f32 and f64.
struct Format {
  int mantissa_bits;
  int min_exponent;          // of the least normal number
  double magic;              // 1.5 * 2^mantissa_bits: adding it rounds to an integer, which is then in the low bits
  double exp_highest;        // beyond, exp is infinite
  double tanh_end, erf_end;  // from here on the function is 1
  double gauss_end;          // from here on e^(-x^2/2) is 0
  double tail_slope, tail_centre;                // normal_tail is in a / (1 + a * slope) - centre
  double sin_end;                                // beyond, the quotient by pi is not right to 0.06 any more
  std::uint64_t one, sqrt_half, infinity, sign;  // bits
  std::span<const double> expm1, log, sin, erf, atanh, normal_tail, ln2, ln2_short, pi, two_thirds;
  double log2_e, inverse_pi;

  std::uint64_t mantissa_mask() const { return (std::uint64_t{1} << mantissa_bits) - 1; }
  std::uint64_t magnitude_mask() const { return sign - 1; }
};

inline const Format& format(const MathBuilder& b) {
  namespace s = coefficients_f32;
  namespace d = coefficients_f64;
  static constexpr Format f32{23,           -126,   0x1.8p23,      89,         s::tanh_end,  3.93,           15,
                              1.0 / 4,      2,      5e5,           0x3F800000, 0x3F3504F3,   0x7F800000,     0x80000000,
                              s::expm1,     s::log, s::sin,        s::erf,     s::atanh,     s::normal_tail, s::ln2,
                              s::ln2_short, s::pi,  s::two_thirds, s::log2_e,  s::inverse_pi};
  static constexpr Format f64{52,
                              -1022,
                              0x1.8p52,
                              710,
                              20,
                              5.95,
                              39,
                              1.0 / 6,
                              3.5,
                              1e14,
                              0x3FF0000000000000,
                              0x3FE6A09E667F3BCD,
                              0x7FF0000000000000,
                              0x8000000000000000,
                              d::expm1,
                              d::log,
                              d::sin,
                              d::erf,
                              d::atanh,
                              d::normal_tail,
                              d::ln2,
                              d::ln2_short,
                              d::pi,
                              d::two_thirds,
                              d::log2_e,
                              d::inverse_pi};
  return b.is_double() ? f64 : f32;
}

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The polynomial at x.
inline Vec horner(MathBuilder& b, std::span<const double> coefficients, Vec x) {
  Vec sum = b.imm(coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = b.fma(sum, x, b.imm(coefficients[i]));
  return sum;
}
/// The polynomial at x with the signs of every other coefficient changed, the first one's too: -P(-x).
inline Vec alternating_horner(MathBuilder& b, std::span<const double> coefficients, Vec x) {
  auto coefficient = [&](std::size_t i) { return b.imm(i % 2 == 0 ? -coefficients[i] : coefficients[i]); };
  Vec sum = coefficient(coefficients.size() - 1);
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = b.fma(sum, x, coefficient(i));
  return sum;
}
/// Twice the polynomial at 2x.
inline Vec doubled_horner(MathBuilder& b, std::span<const double> coefficients, Vec x) {
  auto coefficient = [&](std::size_t i) { return b.imm(std::ldexp(coefficients[i], static_cast<int>(i) + 1)); };
  Vec sum = coefficient(coefficients.size() - 1);
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = b.fma(sum, x, coefficient(i));
  return sum;
}

inline Vec magnitude(MathBuilder& b, Vec x) { return b.bit_and(x, b.imm_bits(format(b).magnitude_mask())); }
inline Vec sign_bit(MathBuilder& b, Vec x) { return b.bit_and(x, b.imm_bits(format(b).sign)); }

/// x within [lowest, highest]; NaN stays.
inline Vec clamp(MathBuilder& b, Vec x, double lowest, double highest) {
  return b.max_raw(b.imm(lowest), b.min_raw(b.imm(highest), x));
}

/// An integral float, also (plus a bias) as an integer in the low bits of `biased`.
struct Rounded {
  Vec biased, value;
};
/// x * factor to the nearest integer, below 2^(mantissa_bits - 1) in size.
inline Rounded round_product(MathBuilder& b, Vec x, double factor, int bias = 0) {
  Vec magic = b.imm(format(b).magic + bias);
  Vec biased = b.fma(x, b.imm(factor), magic);
  return {biased, b.sub(biased, magic)};
}

/// x = mantissa * 2^exponent with sqrt(1/2) <= mantissa < sqrt(2), for 0 < x < inf, subnormals included.
struct Decomposed {
  Vec mantissa, exponent;
};
inline Decomposed decompose(MathBuilder& b, Vec x) {
  const Format& f = format(b);
  const int lift = f.mantissa_bits + 1;
  Mask subnormal = b.less(x, b.imm(std::ldexp(1.0, f.min_exponent)));
  Vec normal = b.select(subnormal, b.mul(x, b.imm(std::ldexp(1.0, lift))), x);
  // Moving the mantissa's origin from 1 to sqrt(1/2) carries into the exponent where the mantissa is above sqrt(2).
  Vec bits = b.int_add(normal, b.imm_bits(f.one - f.sqrt_half));
  Vec mantissa = b.int_add(b.bit_and(bits, b.imm_bits(f.mantissa_mask())), b.imm_bits(f.sqrt_half));
  // The biased exponent as the low bits of 2^mantissa_bits: one subtraction makes it a float and takes the bias off.
  const double anchor = std::ldexp(1.0, f.mantissa_bits), bias = 1 - f.min_exponent;
  const std::uint64_t anchor_bits = f.one + (static_cast<std::uint64_t>(f.mantissa_bits) << f.mantissa_bits);
  Vec anchored = b.bit_or(b.shift_right(bits, f.mantissa_bits), b.imm_bits(anchor_bits));
  Vec offset = b.select(subnormal, b.imm(anchor + bias + lift), b.imm(anchor + bias));
  return {mantissa, b.sub(anchored, offset)};
}

/// e^r for |r| <= ln(2)/2.
inline Vec exp_reduced(MathBuilder& b, Vec r) {
  Vec one = b.imm(1);
  return b.fma(r, b.fma(r, horner(b, format(b).expm1, r), one), one);
}

/// sin(x) from x = n * pi + r, given n and its parity (the low bit); of arguments too large for that n in another way.
/// The square is negative, so that the sum keeps the sign of -0.
inline Vec sin_of_remainder(MathBuilder& b, Vec x, Vec n, Vec parity, bool is_cosine) {
  const Format& f = format(b);
  Vec r = x;
  for (double part : f.pi) r = b.fnma(n, b.imm(part), r);
  r = b.bit_xor(r, b.shift_left(parity, b.is_double() ? 63 : 31));
  r = b.remainder_by_pi(r, x, f.sin_end, is_cosine);
  Vec square = b.fnma(r, r, b.imm(0));
  Vec sine = b.fma(b.mul(square, r), alternating_horner(b, f.sin, square), r);
  return b.is_double() ? clamp(b, sine, -1, 1) : sine;  // rounding may lead beyond 1: not for any r of f32 (tested)
}

/// A value as an unevaluated sum of two, high + low.
struct Pair {
  Vec high, low;
};
/// a + c exactly, for |a| >= |c| or a = 0.
inline Pair fast_two_sum(MathBuilder& b, Vec a, Vec c) {
  Vec sum = b.add(a, c);
  return {sum, b.sub(c, b.sub(sum, a))};
}
/// a * c, the low part rounded.
inline Pair multiply(MathBuilder& b, Pair a, Pair c) {
  Vec high = b.mul(a.high, c.high);
  Vec rest = b.fnma(a.high, c.high, high);  // -(exact - high)
  return {high, b.sub(b.fma(a.high, c.low, b.mul(a.low, c.high)), rest)};
}

/// log(mantissa * 2^exponent) to about 1.3 times the precision of a lane. With s = (m - 1) / (m + 1) and z = s^2,
/// log(m) = 2 atanh(s) = 2s + s * z * (2/3 + z * P(z)).
inline Pair extended_log(MathBuilder& b, Decomposed x) {
  const Format& f = format(b);
  Vec one = b.imm(1), m = x.mantissa;
  Vec numerator = b.sub(m, one);
  Vec denominator = b.add(m, one);
  Vec denominator_low = b.sub(m, b.sub(denominator, one));
  Vec inverse = b.div(one, denominator);
  Pair s{b.mul(numerator, inverse), {}};
  Vec rest = b.fnma(s.high, denominator_low, b.fnma(s.high, denominator, numerator));
  s.low = b.mul(rest, inverse);
  Pair z = multiply(b, s, s);
  Pair inner = fast_two_sum(b, b.imm(f.two_thirds[0]), b.mul(z.high, horner(b, f.atanh, z.high)));
  inner.low = b.add(inner.low, b.imm(f.two_thirds[1]));
  Pair tail = multiply(b, s, multiply(b, z, inner));
  Pair head = fast_two_sum(b, b.mul(x.exponent, b.imm(f.ln2_short[0])), b.add(s.high, s.high));
  Pair sum = fast_two_sum(b, head.high, tail.high);
  Vec low = b.fma(x.exponent, b.imm(f.ln2_short[1]), b.fma(b.imm(2), s.low, tail.low));
  return {sum.high, b.add(low, b.add(head.low, sum.low))};
}

/// e^(high + low) for any high, infinite or NaN too; low is small beside high, and finite.
inline Vec extended_exp(MathBuilder& b, Vec high, Vec low) {
  const Format& f = format(b);
  high = b.min_raw(b.imm(f.exp_highest), high);  // scale() makes 0 of what is far below
  Rounded n = round_product(b, high, f.log2_e);
  Vec r = b.fnma(n.value, b.imm(f.ln2[0]), high);
  r = b.add(r, b.fnma(n.value, b.imm(f.ln2[1]), low));
  return b.scale(exp_reduced(b, r), n.value);
}

/// Puts C99's special cases around |x|^y.
inline Vec finish_pow(MathBuilder& b, Vec x, Vec y, Vec power) {
  Vec zero = b.imm(0), one = b.imm(1), inf = b.imm(infinity);
  Mask integral = b.equal(b.trunc(y), y);  // infinities are even integers
  Vec half = b.mul(y, b.imm(0.5));
  Mask odd = b.mask_and(integral, b.mask_not(b.equal(b.trunc(half), half)));
  power = b.bit_xor(power, b.select(odd, sign_bit(b, x), zero));
  Mask negative = b.mask_and(b.less(x, zero), b.less(b.imm(-infinity), x));
  power = b.select(b.mask_and(negative, b.mask_not(integral)), b.imm(not_a_number), power);
  Mask minus_one_to_infinity = b.mask_and(b.equal(x, b.imm(-1)), b.equal(magnitude(b, y), inf));
  Mask unit = b.mask_or(b.mask_or(b.equal(y, zero), b.equal(x, one)), minus_one_to_infinity);
  return b.select(unit, one, power);
}

/// e^(-a^2/2) = fraction * 2^exponent.
struct Scaled {
  Vec fraction, exponent;
};
/// For 0 <= a <= gauss_end. With n = -a^2 / (2 ln 2), rounded, and s = a^2 + 2n ln(2) = -2r it is e^r 2^n. The square
/// is inside a fma with an exact product, so that its rounding, which the exponential would enlarge a^2/2 times, does
/// not occur.
inline Scaled gauss_of(MathBuilder& b, Vec a) {
  const Format& f = format(b);
  Rounded n = round_product(b, b.mul(a, a), -f.log2_e / 2);
  Vec s = b.fma(a, a, b.mul(n.value, b.imm(2 * f.ln2_short[0])));
  s = b.fma(n.value, b.imm(2 * f.ln2_short[1]), s);
  auto coefficient = [&](std::size_t i) {
    return b.imm(std::ldexp(i % 2 == 0 ? f.expm1[i] : -f.expm1[i], -2 - static_cast<int>(i)));
  };
  Vec sum = coefficient(f.expm1.size() - 1);
  for (std::size_t i = f.expm1.size() - 1; i-- > 0;) sum = b.fma(sum, s, coefficient(i));
  return {b.fma(s, b.fma(s, sum, b.imm(-0.5)), b.imm(1)), n.value};
}

/// Phi(-a) = e^(-a^2/2) S(u) / d with d = 1 + a * slope, u = a / d and a smooth S.
inline Vec normal_tail(MathBuilder& b, Vec u) {
  return horner(b, format(b).normal_tail, b.sub(u, b.imm(format(b).tail_centre)));
}
inline Vec tail_divisor(MathBuilder& b, Vec a) { return b.fma(a, b.imm(format(b).tail_slope), b.imm(1)); }
/// u = a / divisor, with what it lacks because both were rounded.
inline Vec exact_quotient(MathBuilder& b, Vec a, Vec divisor) {
  Vec inverse = b.div(b.imm(1), divisor), u = b.mul(a, inverse);
  Vec low = b.fma(a, b.imm(format(b).tail_slope), b.sub(b.imm(1), divisor));
  return b.fma(b.fnma(u, low, b.fnma(u, divisor, a)), inverse, u);
}

/// f32: eight polynomials in the distance from their centres, told apart by three bits. Vector division is what limits
/// the other formula on Intel's processors. Below 1.7 ulp.
inline Vec tanh_by_pieces(MathBuilder& b, Vec x) {
  namespace s = coefficients_f32;
  Vec size = b.min_raw(b.imm(s::tanh_end), magnitude(b, x));
  Vec piece = b.shift_right(b.fma(size, b.imm(s::tanh_scale), b.imm(2)), 22);  // three bits, up to half octaves
  Vec distance = b.sub(size, b.lookup(piece, s::tanh_pieces[0]));
  constexpr std::size_t last = std::size(s::tanh_pieces) - 1;
  Vec sum = b.lookup(piece, s::tanh_pieces[last]);
  for (std::size_t i = last - 1; i > 0; --i) sum = b.fma(sum, distance, b.lookup(piece, s::tanh_pieces[i]));
  return b.or_sign(sum, x);
}

}  // namespace math_detail

/// n = x / ln(2) to the nearest integer, r = x - n ln(2): the first product's remainder is exact.
SINTER_DECL Vec expand_exp(MathBuilder& b, Vec x, Domain domain) {
  using namespace math_detail;
  const Format& f = format(b);
  if (domain == Domain::all) x = b.min_raw(b.imm(f.exp_highest), x);  // scale() makes 0 of what is far below
  Rounded n = round_product(b, x, f.log2_e);
  Vec r = b.fnma(n.value, b.imm(f.ln2[0]), x);
  r = b.fnma(n.value, b.imm(f.ln2[1]), r);
  return b.scale(exp_reduced(b, r), n.value);
}

/// x = (1 + f) 2^e. s = e ln(2) + f is rounded; its error, exact by Fast2Sum's argument, joins the small terms.
SINTER_DECL Vec expand_log(MathBuilder& b, Vec x) {
  using namespace math_detail;
  const Format& f = format(b);
  Decomposed parts = decompose(b, x);
  Vec e = parts.exponent, ln2 = b.imm(f.ln2[0]);
  Vec fraction = b.sub(parts.mantissa, b.imm(1));
  Vec sum = b.fma(e, ln2, fraction);
  Vec low = b.sub(fraction, b.fnma(e, ln2, sum));
  if (b.is_double()) low = b.fma(e, b.imm(f.ln2[1]), low);  // f32's nearest ln(2) is right to 28 bits
  Vec factor = b.fma(fraction, horner(b, f.log, fraction), b.imm(-0.5));
  Vec result = b.add(sum, b.fma(b.mul(fraction, fraction), factor, low));
  result = b.select(b.less(x, b.imm(infinity)), result, x);
  Vec zero = b.imm(0);
  Vec not_positive = b.select(b.less(x, zero), b.imm(not_a_number), b.imm(-infinity));
  return b.select(b.less_equal(x, zero), not_positive, result);
}

SINTER_DECL Vec expand_sin(MathBuilder& b, Vec x) {
  using namespace math_detail;
  Rounded n = round_product(b, x, format(b).inverse_pi);
  return sin_of_remainder(b, x, n.value, n.biased, false);
}

/// cos(x) = sin(x + pi/2) with the odd multiple of pi/2 nearest to x taken off, so that small results stay exact.
SINTER_DECL Vec expand_cos(MathBuilder& b, Vec x) {
  using namespace math_detail;
  const Format& f = format(b);
  Vec magic = b.imm(f.magic + 1);  // the parity is that of n + 1
  Vec biased = b.add(b.fma(x, b.imm(f.inverse_pi), b.imm(-0.5)), magic);
  return sin_of_remainder(b, x, b.add(b.sub(biased, magic), b.imm(0.5)), biased, true);
}

/// f64: tanh(a) = h / (h + 1) with 2h = e^(2a) - 1. a = n ln(2)/2 + r gives h = 2^n (e^(2r) - 1)/2 + (2^n - 1)/2. The
/// denominator's rounding costs too much where h is small; there tanh(a) = h - h tanh(a), with the quotient on the
/// right, shrinks its error by h.
SINTER_DECL Vec expand_tanh(MathBuilder& b, Vec x) {
  using namespace math_detail;
  const Format& f = format(b);
  if (!b.is_double()) return tanh_by_pieces(b, x);
  Vec size = b.min_raw(b.imm(f.tanh_end), magnitude(b, x));
  Rounded n = round_product(b, size, 2 * f.log2_e, 1 - f.min_exponent);
  Vec power = b.shift_left(n.biased, f.mantissa_bits);     // 2^n: the bias makes it an exponent field
  Vec first = b.fnma(n.value, b.imm(f.ln2[0] / 2), size);  // exact
  Vec second = b.mul(n.value, b.imm(-f.ln2[1] / 2));
  Vec r = b.add(first, second);
  Vec reduced = b.add(first, b.fma(b.mul(r, r), doubled_horner(b, f.expm1, r), second));
  Vec h = b.fma(power, reduced, b.fma(power, b.imm(0.5), b.imm(-0.5)));
  Vec quotient = b.div(h, b.add(h, b.imm(1)));
  Vec result = b.select(b.less(h, b.imm(1.0 / 3)), b.fnma(h, quotient, h), quotient);
  return b.or_sign(result, x);
}

/// erfc(a) = (1 - v/8)^8 with a smooth v = a + a P(a). 1 - (1 - v/8)^4 = u/2 = (v - v^2 (3/16 - v/64 + v^2/2048)) / 2
/// loses precision where erf is near 1, but 1 - (1 - u/2)^2 = u - u^2/4 then takes the error away. Small arguments see
/// two roundings that matter; the scaling keeps subnormals.
SINTER_DECL Vec expand_erf(MathBuilder& b, Vec x) {
  using namespace math_detail;
  const Format& f = format(b);
  Vec size = b.min_raw(b.imm(f.erf_end), magnitude(b, x));
  Vec correction = b.mul(size, horner(b, f.erf, size));
  Vec v = b.add(size, correction);
  Vec factor = b.fma(b.fma(v, b.imm(1.0 / 2048), b.imm(-1.0 / 64)), v, b.imm(3.0 / 16));
  Vec u = b.add(size, b.fnma(b.mul(v, v), factor, correction));
  return b.or_sign(b.fnma(u, b.mul(u, b.imm(0.25)), u), x);
}

/// x Phi(x) = max(x, 0) - a Phi(-a) with a = |x|. The maximum keeps the sign of -0 and NaN.
SINTER_DECL Vec expand_gelu(MathBuilder& b, Vec x) {
  using namespace math_detail;
  Vec a = b.min_magnitude(x, format(b).gauss_end);
  Vec u = exact_quotient(b, a, tail_divisor(b, a));
  Scaled gauss = gauss_of(b, a);
  return b.fnma(b.mul(u, normal_tail(b, u)), b.scale(gauss.fraction, gauss.exponent), b.max_raw(b.imm(-0.0), x));
}

/// Phi(x) + x phi(x) is d where x <= 0, else 1 - d, with d = e^(-a^2/2) (S(u) / (1 + a * slope) - a / sqrt(2 pi)).
SINTER_DECL Vec expand_gelu_slope(MathBuilder& b, Vec x) {
  using namespace math_detail;
  Vec a = b.min_magnitude(x, format(b).gauss_end);
  Vec divisor = tail_divisor(b, a);
  Vec tail = b.div(normal_tail(b, b.div(a, divisor)), divisor);
  Vec difference = b.fnma(a, b.imm(0.39894228040143267794), tail);  // 1 / sqrt(2 pi)
  Scaled gauss = gauss_of(b, a);
  Vec eighth = b.mul(b.mul(gauss.fraction, b.imm(0.125)), difference);  // below 1, where the difference goes to -6
  Vec d = b.or_sign(b.scale(magnitude(b, eighth), b.add(gauss.exponent, b.imm(3))), eighth);
  d = b.select(b.less(b.imm(0), x), b.sub(b.imm(1), d), d);
  return b.select(b.is_nan(x), x, d);
}

SINTER_DECL Vec expand_gauss(MathBuilder& b, Vec x) {
  using namespace math_detail;
  Scaled gauss = gauss_of(b, b.min_magnitude(x, format(b).gauss_end));
  return b.select(b.is_nan(x), x, b.scale(gauss.fraction, gauss.exponent));
}

/// e^(y log|x|), the logarithm and the product carried as pairs.
SINTER_DECL Vec expand_pow(MathBuilder& b, Vec x, Vec y) {
  using namespace math_detail;
  const Format& f = format(b);
  Vec size = magnitude(b, x), zero = b.imm(0);
  Pair log = extended_log(b, decompose(b, size));
  log.high = b.select(b.less(size, b.imm(infinity)), log.high, size);
  log.high = b.select(b.equal(size, zero), b.imm(-infinity), log.high);
  Vec high = b.mul(y, log.high);
  Vec rest = b.fnma(y, log.high, high);
  Vec low = b.sub(b.mul(y, log.low), rest);
  // Where the result over- or underflows anyway, low may be NaN.
  low = b.select(b.less(magnitude(b, high), b.imm(2 * f.exp_highest)), low, zero);
  return finish_pow(b, x, y, extended_exp(b, high, low));
}

/// Two correctly rounded steps: below 1.5 ulp.
SINTER_DECL Vec expand_rsqrt(MathBuilder& b, Vec x) { return b.div(b.imm(1), b.sqrt(x)); }

}  // namespace x86
SINTER_NAMESPACE_END
