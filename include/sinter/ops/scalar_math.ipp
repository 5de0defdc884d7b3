// The formulas. Coefficients and their errors are in coefficients.hpp.
#pragma once

#include <sinter/ops/coefficients.hpp>
#include <sinter/ops/scalar_math.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

using SB = ScalarBuilder;
using SV = ScalarValue;
using Coefficients = std::span<const double>;

inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

inline bool is_double(SV x) { return x.dtype == DType::f64; }
/// What f32 and f64 differ in.
template <class T>
T of(SV x, T f32, T f64) {
  return is_double(x) ? f64 : f32;
}
inline SV horner(SB& s, Coefficients coefficients, SV x) {
  SV sum = s.imm(coefficients.back(), x);
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = s.fma(sum, x, s.imm(coefficients[i], x));
  return sum;
}
inline SV is_nan(SB& s, SV x) { return s.ne(x, x); }
inline SV times(SB& s, SV x, double factor) { return s.mul(x, s.imm(factor, x)); }
inline SV plus(SB& s, SV x, double term) { return s.add(x, s.imm(term, x)); }
inline SV is_less(SB& s, SV x, double limit) { return s.lt(x, s.imm(limit, x)); }
inline SV is_above(SB& s, SV x, double limit) { return s.lt(s.imm(limit, x), x); }
inline SV is_equal(SB& s, SV x, double value) { return s.eq(x, s.imm(value, x)); }
inline SV choose(SB& s, SV condition, double a, SV b) { return s.select(condition, s.imm(a, b), b); }

/// The number nearest to `value` with so few bits that its products with small integers are exact, and the rest of it.
struct SplitConstant {
  double high, low;
};
inline SplitConstant split(SV like, long double value) {
  int exponent = 0;
  const int bits = of(like, 24, 53) - 12;
  const long double fraction = std::frexp(value, &exponent);
  const long double high = std::ldexp(std::round(std::ldexp(fraction, bits)), exponent - bits);
  return {static_cast<double>(high), static_cast<double>(value - high)};
}
inline constexpr long double pi = 3.14159265358979323846264338327950288L,
                             ln_2 = 0.693147180559945309417232121458176568L,
                             log10_2 = 0.301029995663981195213738894724493027L;

// ---- bits -----------------------------------------------------------------------------------------------------------

SINTER_DECL DType bits_of(DType dtype) { return dtype == DType::f32 ? DType::i32 : DType::i64; }
inline SV to_bits(SB& s, SV x) { return s.bitcast(x, bits_of(x.dtype)); }
inline SV from_bits(SB& s, SV bits) { return s.bitcast(bits, bits.dtype == DType::i32 ? DType::f32 : DType::f64); }
inline SV lowest(SB& s, DType bits) {
  return s.imm_int(
      bits == DType::i32 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min(), bits);
}

SINTER_DECL SV has_sign(SB& s, SV x) {
  const SV bits = is_floating(x.dtype) ? to_bits(s, x) : x;
  return s.lt(bits, s.imm_int(0, bits.dtype));
}
SINTER_DECL SV copy_sign(SB& s, SV x, SV sign) {
  const SV a = to_bits(s, x), b = to_bits(s, sign), mask = lowest(s, a.dtype);
  return from_bits(s, s.or_(s.and_(a, s.not_(mask)), s.and_(b, mask)));
}

/// One more or less of the bits leads to the neighbour, away from zero or towards it.
SINTER_DECL SV next_after(SB& s, SV x, SV to) {
  const SV bits = to_bits(s, x), one = s.imm_int(1, bits.dtype), zero = s.imm(0, x);
  const SV grows = s.eq(s.lt(x, to), s.lt(zero, x));
  const SV stepped = from_bits(s, s.select(grows, s.add(bits, one), s.sub(bits, one)));
  const SV from_zero = copy_sign(s, from_bits(s, one), to);
  const SV moved = s.select(s.eq(x, zero), from_zero, stepped);
  return s.select(is_nan(s, x), x, s.select(is_nan(s, to), to, s.select(s.eq(x, to), to, moved)));
}

/// 2^n for integral n within the exponents of normal numbers: adding n to a number whose unit is its last bit puts it
/// there with the bias, and a shift makes it the exponent.
inline SV power_of_two(SB& s, SV n) {
  const SV anchored = plus(s, n, of(n, 0x1.8p23 + 127, 0x1.8p52 + 1023));
  const SV bits = to_bits(s, anchored);
  return from_bits(s, s.shift_left(bits, s.imm_int(of(n, 23, 52), bits.dtype)));
}

SINTER_DECL ScalarParts parts_of(SB& s, SV x) {
  const int mantissa = of(x, 23, 52), bias = of(x, 126, 1022);
  const SV lifts = is_less(s, s.abs(x), of(x, 0x1p-126, 0x1p-1022));
  const SV normal = s.select(lifts, times(s, x, of(x, 0x1p32, 0x1p64)), x);
  const SV bits = to_bits(s, normal);
  const DType integer = bits.dtype;
  const SV field = s.imm_int(of<std::int64_t>(x, 0x7F800000, 0x7FF0000000000000), integer);
  const SV biased = s.shift_right(s.and_(bits, field), s.imm_int(mantissa, integer));
  // As the low bits of 2^mantissa: a subtraction makes it a floating number.
  const std::int64_t anchor = of<std::int64_t>(x, 0x4B000000, 0x4330000000000000);
  const SV exponent = s.sub(
      from_bits(s, s.or_(biased, s.imm_int(anchor, integer))),
      s.select(lifts, s.imm(of(x, 0x1p23, 0x1p52) + bias + of(x, 32, 64), x), s.imm(of(x, 0x1p23, 0x1p52) + bias, x)));
  const SV half = s.imm_int(of<std::int64_t>(x, 0x3F000000, 0x3FE0000000000000), integer);
  const SV fraction = from_bits(s, s.or_(s.and_(bits, s.not_(field)), half));
  const SV is_plain = s.and_(s.ne(x, s.imm(0, x)), is_less(s, s.abs(x), infinite));
  return {s.select(is_plain, fraction, x), s.select(is_plain, exponent, s.imm(0, x))};
}

/// Of a fraction the first product is exact, and the second one rounds.
SINTER_DECL SV scaled(SB& s, SV x, SV n) {
  const ScalarParts parts = parts_of(s, x);
  const double limit = of(x, 200, 1600);
  // Beyond, and also in sums of both, everything has become zero or infinite; NaN does not occur.
  const SV total = s.min(s.imm(limit, x), s.max(s.imm(-limit, x), s.add(parts.exponent, n)));
  const SV half = s.floor(times(s, total, 0.5));
  return s.mul(s.mul(parts.fraction, power_of_two(s, half)), power_of_two(s, s.sub(total, half)));
}

// ---- exponentials and logarithms ------------------------------------------------------------------------------------

/// e^x = 2^n (1 + p), for x within the range in which 2^n is a number or its half is.
struct ExpParts {
  SV n, p;
};
inline ExpParts exp_parts(SB& s, SV x) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV n = s.round(times(s, x, static_cast<double>(1 / ln_2)));
  const SplitConstant ln2 = split(x, ln_2);
  SV r = s.fma(n, s.imm(-ln2.high, x), x);  // exact
  const SV rest = times(s, n, -ln2.low), sum = s.add(r, rest);
  // r and rest as a rounded sum and what it lacks, which joins the small terms.
  const SV low = s.sub(rest, s.sub(sum, r));
  const SV tail = s.fma(s.mul(sum, sum), horner(s, of(x, Coefficients(f::expm1), Coefficients(d::expm1)), sum), low);
  return {n, s.add(sum, tail)};
}

/// 2^n (1 + p) - 1 = 2^n p + (2^n - 1), in halves so that nothing overflows too early.
SINTER_DECL SV expm1(SB& s, SV x) {
  const SV bounded = s.min(s.imm(of(x, 89, 710), x), s.max(s.imm(of(x, -25, -50), x), x));
  const ExpParts e = exp_parts(s, bounded);
  const SV power = power_of_two(s, plus(s, e.n, -1));
  const SV half = s.fma(power, e.p, plus(s, power, -0.5));
  const SV result = s.select(is_equal(s, e.n, 0), e.p, s.add(half, half));
  return s.select(is_equal(s, x, 0), x, result);  // the sign of -0
}

/// What is 0 in the end is not computed: processors take long to multiply to subnormal numbers.
SINTER_DECL SV exp2(SB& s, SV x) {
  const SV vanishes = is_less(s, x, of(x, -150, -1075)), zero = s.imm(0, x);
  const SV bounded = s.select(vanishes, zero, s.min(s.imm(of(x, 130, 1030), x), x));
  const SV n = s.round(bounded), half = s.floor(times(s, n, 0.5));
  const SV fraction = s.exp(times(s, s.sub(bounded, n), static_cast<double>(ln_2)));
  const SV power = s.mul(s.mul(fraction, power_of_two(s, half)), power_of_two(s, s.sub(n, half)));
  return s.select(vanishes, zero, power);
}

/// u = 1 + x is rounded; log(1 + x) = log(u) + (x - (u - 1)) / u to first order.
SINTER_DECL SV log1p(SB& s, SV x) {
  const SV u = plus(s, x, 1), lost = s.sub(x, plus(s, u, -1));
  const SV corrects = s.and_(is_above(s, u, 0), is_less(s, u, infinite));
  const SV sum = s.add(s.log(u), s.select(corrects, s.div(lost, u), s.imm(0, x)));
  return s.select(is_equal(s, u, 1), x, sum);
}

/// x = m 2^n with sqrt(1/2) <= m < sqrt(2), as n and log(m).
inline ScalarPair log_parts(SB& s, SV x) {
  const ScalarParts parts = parts_of(s, x);
  const SV is_low = is_less(s, parts.fraction, 0.70710678118654752440);
  const SV m = s.select(is_low, s.add(parts.fraction, parts.fraction), parts.fraction);
  return {s.select(is_low, plus(s, parts.exponent, -1), parts.exponent), s.log(m)};
}
/// n * unit + log(m) * factor, both constants in two parts.
inline SV log_of_base(SB& s, SV x, long double unit, long double factor) {
  const ScalarPair parts = log_parts(s, x);
  const SplitConstant step = split(x, unit), base = split(x, factor);
  const SV head = times(s, parts.high, step.high);
  const SV low = s.fma(parts.high, s.imm(step.low, x), times(s, parts.low, base.low));
  const SV result = s.add(head, s.fma(parts.low, s.imm(base.high, x), low));
  const SV is_plain = s.and_(is_above(s, x, 0), is_less(s, x, infinite));
  return s.select(is_plain, result, s.log(x));
}
SINTER_DECL SV log2(SB& s, SV x) { return log_of_base(s, x, 1, 1 / ln_2); }
SINTER_DECL SV log10(SB& s, SV x) { return log_of_base(s, x, log10_2, log10_2 / ln_2); }

SINTER_DECL SV softplus(SB& s, SV x) { return s.add(s.max(x, s.imm(0, x)), log1p(s, s.exp(s.neg(s.abs(x))))); }

// ---- angles ---------------------------------------------------------------------------------------------------------

SINTER_DECL SV tan(SB& s, SV x) { return s.div(s.sin(x), s.cos(x)); }

/// asin(r) - r for |r| <= 1/2.
inline SV asin_rest(SB& s, SV r, SV square) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  return s.mul(s.mul(r, square), horner(s, of(r, Coefficients(f::asin), Coefficients(d::asin)), square));
}
/// sqrt(x) and what its rounding took off; x may be 0.
inline ScalarPair extended_sqrt(SB& s, SV x) {
  const SV root = s.sqrt(x), rest = s.fma(s.neg(root), root, x);
  return {root, s.select(is_above(s, x, 0), s.div(rest, s.add(root, root)), s.imm(0, x))};
}

/// Above 1/2: pi/2 - 2 asin(sqrt((1 - a) / 2)).
SINTER_DECL SV asin(SB& s, SV x) {
  const SV a = s.abs(x), is_large = is_above(s, a, 0.5);
  const SV square = s.select(is_large, s.fma(a, s.imm(-0.5, x), s.imm(0.5, x)), s.mul(a, a));
  const ScalarPair root = extended_sqrt(s, square);
  const SV r = s.select(is_large, root.high, a), rest = asin_rest(s, r, square);
  const double half_pi = of(x, static_cast<double>(static_cast<float>(pi / 2)), static_cast<double>(pi / 2));
  // The first difference is exact to a bit of half_pi's last place, and what it loses is put back.
  const SV twice = s.add(r, r), head = s.sub(s.imm(half_pi, x), twice);
  const SV lost = s.sub(s.sub(s.imm(half_pi, x), head), twice);
  const SV small = s.add(rest, root.low);
  const SV tail =
      s.fma(small, s.imm(-2, x), plus(s, lost, static_cast<double>(pi / 2 - static_cast<long double>(half_pi))));
  return copy_sign(s, s.select(is_large, s.add(head, tail), s.add(a, rest)), x);
}

/// 2 asin(sqrt((1 - x) / 2)) above 1/2, pi less that of -x below -1/2, pi/2 - asin(x) between.
SINTER_DECL SV acos(SB& s, SV x) {
  const SV a = s.abs(x), is_large = is_above(s, a, 0.5), is_negative = is_less(s, x, 0);
  const SV square = s.select(is_large, s.fma(a, s.imm(-0.5, x), s.imm(0.5, x)), s.mul(a, a));
  const ScalarPair root = extended_sqrt(s, square);
  const SV r = s.select(is_large, root.high, x), rest = asin_rest(s, r, square);
  const auto near_to = [&](long double value) {
    return of(x, static_cast<double>(static_cast<float>(value)), static_cast<double>(value));
  };
  const auto left = [&](long double value) {
    return static_cast<double>(value - static_cast<long double>(near_to(value)));
  };
  const SV half = s.add(root.high, s.add(rest, root.low)), at_right = s.add(half, half);
  // c - (head + small) with c = pi, head = 2r; or c = pi/2, head = x.
  const SV c = s.select(is_large, s.imm(near_to(pi), x), s.imm(near_to(pi / 2), x));
  const SV c_low = s.select(is_large, s.imm(left(pi), x), s.imm(left(pi / 2), x));
  const SV head = s.select(is_large, s.add(r, r), x),
           small = s.select(is_large, times(s, s.add(rest, root.low), 2), rest);
  const SV difference = s.sub(c, head), lost = s.sub(s.sub(c, difference), head);
  const SV other = s.add(difference, s.add(s.sub(lost, small), c_low));
  return s.select(s.and_(is_large, s.not_(is_negative)), at_right, other);
}

/// head + low + atan(r) for |r| <= 1 and a head of 0 or of at least pi/2 in size.
inline SV plus_atan(SB& s, SV head, SV low, SV r) {
  namespace f = coefficients_f32;
  namespace d = coefficients_f64;
  const SV square = s.mul(r, r);
  const SV rest = s.mul(s.mul(r, square), horner(s, of(r, Coefficients(f::atan), Coefficients(d::atan)), square));
  const SV sum = s.add(head, r), lost = s.sub(r, s.sub(sum, head));
  return s.add(sum, s.add(s.add(lost, low), rest));
}
/// pi/2 and what it lacks: their products with 2 are exact.
inline SplitConstant quarter_turn(SV like) {
  const double high = of(like, static_cast<double>(static_cast<float>(pi / 2)), static_cast<double>(pi / 2));
  return {high, static_cast<double>(pi / 2 - high)};
}

/// The angle of (b, a) from the numbers' sizes and signs, none of them NaN: with t the smaller by the larger, k pi/2
/// plus or minus atan(t).
inline SV angle_of(SB& s, SV a, SV b, SV is_left) {
  const SV zero = s.imm(0, a), one = s.imm(1, a);
  const SV swaps = s.lt(b, a);
  SV larger = s.select(swaps, a, b), smaller = s.select(swaps, b, a);
  // Two infinities are as two ones.
  smaller = s.select(is_equal(s, smaller, infinite), one, s.select(is_equal(s, larger, infinite), zero, smaller));
  larger = s.select(s.or_(is_equal(s, larger, 0), is_equal(s, larger, infinite)), one, larger);
  const SV quotient = s.div(smaller, larger), quarters = s.select(swaps, one, zero);
  const SV k = s.select(is_left, s.sub(s.imm(2, a), quarters), quarters);
  const SplitConstant quarter = quarter_turn(a);
  return plus_atan(s, times(s, k, quarter.high), times(s, k, quarter.low),
                   s.select(s.xor_(swaps, is_left), s.neg(quotient), quotient));
}
/// pi/2 - atan(1 / |x|) where |x| > 1.
SINTER_DECL SV atan(SB& s, SV x) {
  const SV a = s.abs(x), is_large = is_above(s, a, 1), zero = s.imm(0, x);
  const SplitConstant quarter = quarter_turn(x);
  const SV head = s.select(is_large, s.imm(quarter.high, x), zero),
           low = s.select(is_large, s.imm(quarter.low, x), zero);
  return copy_sign(s, plus_atan(s, head, low, s.select(is_large, s.div(s.imm(-1, x), a), a)), x);
}
SINTER_DECL SV atan2(SB& s, SV y, SV x) {
  const SV is_undefined = s.or_(is_nan(s, x), is_nan(s, y)), one = s.imm(1, x);
  const SV a = s.select(is_undefined, one, s.abs(y)), b = s.select(is_undefined, one, s.abs(x));
  return s.select(is_undefined, s.add(x, y), copy_sign(s, angle_of(s, a, b, has_sign(s, x)), y));
}

/// x = n + r, and the sine of pi r changes its sign with odd n.
SINTER_DECL SV sin_pi(SB& s, SV x) {
  const SV n = s.round(x), r = s.sub(x, n);
  const SV is_odd = s.ne(n, times(s, s.floor(times(s, n, 0.5)), 2));
  const SplitConstant half_turn = split(x, pi);
  const SV sine = s.sin(s.fma(r, s.imm(half_turn.high, x), times(s, r, half_turn.low)));
  return s.select(is_odd, s.neg(sine), sine);
}

// ---- hyperbolic functions -------------------------------------------------------------------------------------------

/// With t = e^a - 1: (t + t / (t + 1)) / 2. q = t / 4 does not overflow before the result does.
SINTER_DECL SV sinh(SB& s, SV x) {
  const SV a = s.min(s.abs(x), s.imm(of(x, 89.6, 710.6), x));
  const ExpParts e = exp_parts(s, a);
  const SV power = power_of_two(s, plus(s, e.n, -2));
  const SV q = s.fma(power, e.p, plus(s, power, -0.25));
  const SV half = s.add(q, s.div(q, s.fma(q, s.imm(4, x), s.imm(1, x))));
  const SV is_small = is_less(s, a, of(x, 0x1p-12, 0x1p-26));
  return s.select(is_nan(s, x), x, copy_sign(s, s.select(is_small, a, s.add(half, half)), x));
}
/// (e^a + e^-a) / 2 from e^a / 4. Beside a large one e^-a is nothing, and is kept from getting subnormal.
SINTER_DECL SV cosh(SB& s, SV x) {
  const SV a = s.min(s.abs(x), s.imm(of(x, 89.6, 710.6), x));
  const ExpParts e = exp_parts(s, a);
  const SV power = power_of_two(s, plus(s, e.n, -2));
  const SV quarter = s.fma(power, e.p, power);
  const SV divisor = s.min(quarter, s.imm(of(x, 0x1p60, 0x1p200), x));
  return s.add(s.add(quarter, quarter), s.div(s.imm(0.125, x), divisor));
}

/// log1p(a + a^2 / (1 + sqrt(a^2 + 1))), of large numbers log(a) + log(2).
SINTER_DECL SV asinh(SB& s, SV x) {
  const SV a = s.abs(x), is_large = is_above(s, a, of(x, 0x1p13, 0x1p28));
  const SV bounded = s.select(is_large, s.imm(1, x), a), square = s.mul(bounded, bounded);
  const SV sum = s.add(bounded, s.div(square, plus(s, s.sqrt(plus(s, square, 1)), 1)));
  const SV large = plus(s, s.log(s.select(is_large, a, s.imm(1, x))), static_cast<double>(ln_2));
  return s.select(is_nan(s, x), x, copy_sign(s, s.select(is_large, large, log1p(s, sum)), x));
}
/// With t = x - 1: log1p(t + sqrt(t (t + 2))).
SINTER_DECL SV acosh(SB& s, SV x) {
  const SV is_large = is_above(s, x, of(x, 0x1p13, 0x1p28)), t = plus(s, x, -1);
  const SV bounded = s.select(is_large, s.imm(1, x), t);
  const SV near = log1p(s, s.add(bounded, s.sqrt(s.mul(bounded, plus(s, bounded, 2)))));
  const SV large = plus(s, s.log(s.select(is_large, x, s.imm(1, x))), static_cast<double>(ln_2));
  return choose(s, is_less(s, x, 1), undefined, s.select(is_large, large, near));
}
/// log1p(2a / (1 - a)) / 2.
SINTER_DECL SV atanh(SB& s, SV x) {
  const SV a = s.abs(x), twice = s.add(a, a), gap = s.sub(s.imm(1, x), a);
  const SV below_half = s.fma(twice, s.div(a, gap), twice);
  const SV half = times(s, log1p(s, s.select(is_less(s, a, 0.5), below_half, s.div(twice, gap))), 0.5);
  const SV is_small = is_less(s, a, of(x, 0x1p-13, 0x1p-27));
  return s.select(is_nan(s, x), x,
                  copy_sign(s, s.select(is_small, a, choose(s, is_above(s, a, 1), undefined, half)), x));
}

// ---- roots ----------------------------------------------------------------------------------------------------------

/// e^(log(f) / 3) of the fraction, a step of Newton, and a third of the exponent.
SINTER_DECL SV cbrt(SB& s, SV x) {
  const ScalarParts parts = parts_of(s, s.abs(x));
  const SV third = s.floor(times(s, plus(s, parts.exponent, 0.5), 1.0 / 3));
  const SV rest = s.fma(third, s.imm(-3, x), parts.exponent);  // 0, 1 or 2
  const SV f = s.mul(parts.fraction, s.select(is_equal(s, rest, 0), s.imm(1, x), s.add(rest, rest)));
  const SV guess = s.exp(times(s, s.log(f), 1.0 / 3)), square = s.mul(guess, guess);
  const SV lost = s.fma(guess, guess, s.neg(square));
  const SV error = s.fma(lost, guess, s.fma(square, guess, s.neg(f)));
  const SV root = s.sub(guess, s.div(error, times(s, square, 3)));
  const SV is_plain = s.and_(s.ne(x, s.imm(0, x)), is_less(s, s.abs(x), infinite));
  return s.select(is_plain, copy_sign(s, s.mul(root, power_of_two(s, third)), x), x);
}

/// Of numbers that a power of two has brought where squares neither over- nor underflow.
SINTER_DECL SV hypot(SB& s, SV x, SV y) {
  const SV a = s.abs(x), b = s.abs(y), larger = s.max(a, b), one = s.imm(1, x);
  const double far = of(x, 0x1p60, 0x1p500), shrink = of(x, 0x1p-70, 0x1p-600), lift = of(x, 0x1p120, 0x1p600);
  const SV is_large = is_above(s, larger, far), is_small = is_less(s, larger, 1 / far);
  const SV factor = s.select(is_large, s.imm(shrink, x), s.select(is_small, s.imm(lift, x), one));
  const SV inverse = s.select(is_large, s.imm(1 / shrink, x), s.select(is_small, s.imm(1 / lift, x), one));
  const SV p = s.mul(a, factor), q = s.mul(b, factor);
  const SV big = s.max(p, q), little = s.min(p, q);
  const SV length = s.mul(s.sqrt(s.fma(big, big, s.mul(little, little))), inverse);
  return choose(s, s.or_(is_equal(s, a, infinite), is_equal(s, b, infinite)), infinite, length);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
