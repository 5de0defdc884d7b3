// Elementary functions of complex numbers by real ones of their parts. Branch cuts, signs of zeros and the accuracy
// near them are those of Kahan, "Branch Cuts for Complex Elementary Functions" (1987); division is Smith's. Where a
// formula would divide by 0 in a branch that is not taken, it divides by 1 there, so that derivatives stay finite. The
// square root, logarithm and area tangent hold up to the limits of the range; the inverses of sine and cosine are meant
// for numbers whose square is finite. Included by .ipp files alone.
#pragma once

#include <sinter/expr/complex.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/complex.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace complex_detail {

using expr_detail::apply;
using expr_detail::apply_number_first;
using expr_detail::leaf_of;
using expr_detail::Term;
using expr_detail::where_of;

/// A tensor of complex numbers as its parts; of real numbers, which have no imaginary part, as one.
struct Number {
  Term re;
  std::optional<Term> im;

  /// Parts of dtype `part`.
  static Number of(const In& x, DType part) {
    if (!x.leaf.value) return {Term(cast(x, part), x.where), {}};  // a number of C++ keeps its digits
    const Tensor value(x.tensor());
    const auto in_dtype = [&](const Tensor& of) { return Term(cast(In(of, x.where), part), x.where); };
    if (!sinter::is_complex(value.dtype())) return {in_dtype(value), {}};
    return {in_dtype(sinter::real(In(value, x.where))), in_dtype(sinter::imag(In(value, x.where)))};
  }
  static Number of(const In& x) { return of(x, real_part_of(x.leaf.value->type.dtype)); }
  static Number zero(Location where) { return {Term(In(0.0, where)), {}}; }

  Term imaginary() const { return im ? *im : Term(zeros_like(In(re)), re.where); }
  Tensor tensor() const { return complex(In(re), In(imaginary())); }
};

inline Term number_like(const Term& x, double value) {
  return {sinter::full({}, value, {.dtype = x.dtype(), .device = Device::cpu()}, x.where), x.where};
}

// ---- arithmetic

inline Number add(const Number& a, const Number& b) {
  if (!a.im || !b.im) return {a.re + b.re, a.im ? a.im : b.im};
  return {a.re + b.re, *a.im + *b.im};
}
inline Number negative(const Number& a) { return {-a.re, a.im ? std::optional(-*a.im) : a.im}; }
inline Number subtract(const Number& a, const Number& b) { return add(a, negative(b)); }
inline Number multiply(const Number& a, const Number& b) {
  if (!a.im) return {a.re * b.re, b.im ? std::optional(a.re * *b.im) : b.im};
  if (!b.im) return {a.re * b.re, *a.im * b.re};
  return {a.re * b.re - *a.im * *b.im, a.re * *b.im + *a.im * b.re};
}
inline Number scaled(const Number& a, double by) { return {a.re * by, a.im ? std::optional(*a.im * by) : a.im}; }
inline Number divide(const Number& a, const Number& b) {
  if (!b.im) return {a.re / b.re, a.im ? std::optional(*a.im / b.re) : a.im};
  const Term is_flat = apply<ops::Le>(expr_detail::absolute(*b.im), expr_detail::absolute(b.re));
  const Term large = where_of(is_flat, b.re, *b.im), small = where_of(is_flat, *b.im, b.re);
  const Term ratio = small / large, scale = large + small * ratio;
  const Term im = a.imaginary();
  return {where_of(is_flat, a.re + im * ratio, a.re * ratio + im) / scale,
          where_of(is_flat, im - a.re * ratio, im * ratio - a.re) / scale};
}
inline Number squared(const Number& z) {
  const Term re = z.re, im = z.imaginary();
  return {(re - im) * (re + im), re * im * 2.0};
}
inline Number inverse(const Number& z) { return divide({number_like(z.re, 1), {}}, z); }
/// i z and -i z.
inline Number turned_left(const Number& z) { return {-z.imaginary(), z.re}; }
inline Number turned_right(const Number& z) { return {z.imaginary(), -z.re}; }
inline Number plus_one(const Number& z) { return {z.re + 1.0, z.im}; }
inline Number one_less(const Number& z) { return {1.0 - z.re, -z.imaginary()}; }

// ---- absolute value, angle, comparison

/// Its derivative at 0 is 0.
inline Term absolute_value(const Number& z) {
  const Term im = z.imaginary();
  const Term is_zero = both(z.re == 0.0, im == 0.0);
  return where_of(is_zero, 0.0, apply<ops::Hypot>(where_of(is_zero, 1.0, z.re), im));
}
inline Term angle_of(const Number& z) { return apply<ops::Atan2>(z.imaginary(), z.re); }
inline Term equal(const Number& a, const Number& b) { return both(a.re == b.re, a.imaginary() == b.imaginary()); }
inline Term not_equal(const Number& a, const Number& b) { return either(a.re != b.re, a.imaginary() != b.imaginary()); }
inline Term is_nan(const Number& z) { return either(z.re != z.re, z.imaginary() != z.imaginary()); }
inline Term is_infinite(const Number& z) { return either(apply<ops::IsInf>(z.re), apply<ops::IsInf>(z.imaginary())); }
inline Term is_finite(const Number& z) { return both(apply<ops::IsFinite>(z.re), apply<ops::IsFinite>(z.imaginary())); }

// ---- roots, exponentials, logarithms, powers

inline double largest_of(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
}
/// Is a part beyond the limit?
inline Term is_beyond(const Term& re, const Term& im, double limit) {
  return either(limit < expr_detail::absolute(re), limit < expr_detail::absolute(im));
}

/// The part without cancellation is a root of (|z| + |x|) / 2; the other one is y over twice that. Both are smooth on
/// the axes: signs are factors, so that no derivative is that of an absolute value at 0. Numbers whose absolute value
/// would overflow are quartered first.
inline Number square_root(const Number& z) {
  const Term given = z.imaginary(), is_large = is_beyond(z.re, given, largest_of(z.re.dtype()) / 4);
  const Term scale = where_of(is_large, 0.25, number_like(z.re, 1)),
             unscale = where_of(is_large, 2.0, number_like(z.re, 1));
  const Number x{z.re * scale, given * scale};
  const Term is_right = 0.0 <= x.re, sign = apply_number_first<ops::Copysign>(1.0, given);
  const Term half = apply<ops::Sqrt>(absolute_value(x) * 0.5 + where_of(is_right, x.re, -x.re) * 0.5);
  const Term quotient = *x.im / (where_of(half == 0.0, 1.0, half) * 2.0);
  const Term other = where_of(apply<ops::IsInf>(given), given, quotient);
  return {where_of(is_right, half, other * sign) * unscale, where_of(is_right, other, half * sign) * unscale};
}
inline Number inverse_root(const Number& z) { return inverse(square_root(z)); }
/// size * sin(im), which is 0 on the real axis also where the size overflows.
inline Term times_sine(const Term& size, const Term& im) {
  const double largest = largest_of(size.dtype());
  const Term finite = apply<ops::ClampToNumbers>(size, -largest, largest);
  return where_of(im == 0.0, finite, size) * apply<ops::Sin>(im);
}
/// size * cos(im). Of an infinite size on the real axis the derivative by im is 0, as that of each finite size.
inline Term times_cosine(const Term& size, const Term& im) {
  const Term is_flat = both(im == 0.0, apply<ops::IsInf>(size));
  return where_of(is_flat, size, where_of(is_flat, 1.0, size) * apply<ops::Cos>(im));
}
inline Number exponential(const Number& z) {
  const Term size = apply<ops::Exp>(z.re), im = z.imaginary();
  return {times_cosine(size, im), times_sine(size, im)};
}
inline Number exponential_of_two(const Number& z) { return exponential(scaled(z, std::numbers::ln2)); }
/// Near the unit circle log |z| is that of 1 + (|z|^2 - 1), which does not round to 1 first.
inline Number logarithm(const Number& z) {
  const Term im = z.imaginary(), size = apply<ops::Hypot>(z.re, im), is_near = both(0.5 < size, size < 2.0);
  const Term excess = where_of(is_near, (z.re - 1.0) * (z.re + 1.0) + im * im, 0.0);
  const Term far = apply<ops::Log>(where_of(is_near, 1.0, size));
  return {where_of(is_near, apply<ops::Log1p>(excess) * 0.5, far), angle_of(z)};
}
/// The same of 1 + z, whose square less 1 is x (x + 2) + y^2.
inline Number logarithm_of_one_more(const Number& z) {
  const Term re = z.re + 1.0, im = z.imaginary(), size = apply<ops::Hypot>(re, im);
  const Term is_near = both(0.5 < size, size < 2.0);
  const Term excess = where_of(is_near, z.re * (z.re + 2.0) + im * im, 0.0);
  const Term far = apply<ops::Log>(where_of(is_near, 1.0, size));
  return {where_of(is_near, apply<ops::Log1p>(excess) * 0.5, far), apply<ops::Atan2>(im, re)};
}
/// e^z - 1: e^x cos y - 1 is (e^x - 1) cos y - 2 sin^2(y / 2). On the right, where it may overflow, the size is that of
/// the real part, so that no derivative of an exponential is multiplied by 0 alone.
inline Number exponential_less_one(const Number& z) {
  const Term im = z.imaginary(), half = apply<ops::Sin>(im * 0.5), less_one = apply<ops::Expm1>(z.re);
  const Term is_left = z.re < 0.0;
  const Term size = where_of(is_left, apply<ops::Exp>(where_of(is_left, z.re, 0.0)), less_one + 1.0);
  return {times_cosine(less_one, im) - half * half * 2.0, times_sine(size, im)};
}
inline Number logarithm_of_two(const Number& z) { return scaled(logarithm(z), std::numbers::log2e); }
inline Number logarithm_of_ten(const Number& z) { return scaled(logarithm(z), std::numbers::log10e); }
/// 1 / (1 + e^-z), and e^z / (1 + e^z) on the left: no exponential overflows.
inline Number logistic(const Number& z) {
  const Term im = z.imaginary(), is_right = 0.0 <= z.re;
  const Number t = exponential({where_of(is_right, -z.re, z.re), where_of(is_right, -im, im)});
  const Number right = inverse(plus_one(t)), left = multiply(t, right);
  return {where_of(is_right, right.re, left.re), where_of(is_right, *right.im, *left.im)};
}

/// Larger whole exponents go through the logarithm.
inline constexpr double most_multiplied = 64;
inline Number whole_power(const Number& z, int n, Location where) {
  if (n < 0) return inverse(whole_power(z, -n, where));
  Number result{Term(ones_like(In(z.re)), where), {}}, factor = z;
  bool is_first = true;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) result = std::exchange(is_first, false) ? factor : multiply(result, factor);
    if (n > 1) factor = squared(factor);
  }
  return result;
}
/// e^(w log z). Of zero: 1 for w = 0, else 0 where the real part of w is positive.
inline Number power(const Number& z, const Number& w) {
  const Term is_zero = equal(z, Number::zero(z.re.where));
  const Number nonzero{where_of(is_zero, 1.0, z.re), z.imaginary()};
  const Number result = exponential(multiply(w, logarithm(nonzero)));
  const Term one = number_like(z.re, 1), nothing = number_like(z.re, 0),
             nan = number_like(z.re, std::numeric_limits<double>::quiet_NaN());
  const Term of_zero = where_of(equal(w, Number::zero(z.re.where)), one, where_of(nothing < w.re, nothing, nan));
  return {where_of(is_zero, of_zero, result.re), where_of(is_zero, of_zero * 0.0, result.imaginary())};
}

// ---- angles and hyperbolic functions

inline Number hyperbolic_sine(const Number& z) {
  const Term im = z.imaginary();
  return {apply<ops::Sinh>(z.re) * apply<ops::Cos>(im), times_sine(apply<ops::Cosh>(z.re), im)};
}
inline Number hyperbolic_cosine(const Number& z) {
  const Term im = z.imaginary();
  return {apply<ops::Cosh>(z.re) * apply<ops::Cos>(im), times_sine(apply<ops::Sinh>(z.re), im)};
}
/// (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y). Beyond the limit the result is +-1, and sinh would overflow.
inline Number hyperbolic_tangent(const Number& z) {
  const double limit = z.re.dtype() == DType::f64 ? 300 : 40;
  const Term x = apply<ops::ClampToNumbers>(z.re, -limit, limit), y = z.imaginary();
  const Term s = apply<ops::Sinh>(x), c = apply<ops::Cos>(y);
  const Term scale = s * s + c * c;
  return {s * apply<ops::Cosh>(x) / scale, apply<ops::Sin>(y) * c / scale};
}
inline Number sine(const Number& z) { return turned_right(hyperbolic_sine(turned_left(z))); }
inline Number cosine(const Number& z) { return hyperbolic_cosine(turned_left(z)); }
inline Number tangent(const Number& z) { return turned_right(hyperbolic_tangent(turned_left(z))); }

/// sin(pi z) / (pi z); where |z| < 0.1, so that derivatives keep their digits, its series 1 - w / 3! + w^2 / 5! - ...
/// of w = (pi z)^2, to w^6.
inline Number cardinal_sine(const Number& z) {
  const Term im = z.imaginary(), is_near = z.re * z.re + im * im < 0.01;
  const Number turn = scaled({where_of(is_near, 1.0, z.re), where_of(is_near, 0.0, im)}, std::numbers::pi);
  const Number quotient = divide(sine(turn), turn);
  const Number small = scaled({where_of(is_near, z.re, 0.0), where_of(is_near, im, 0.0)}, std::numbers::pi);
  const Number w = squared(small);
  Number series = one_less(scaled(w, 1.0 / (12 * 13)));
  for (int n = 5; n > 0; --n) series = one_less(scaled(multiply(w, series), 1.0 / (2 * n * (2 * n + 1))));
  return {where_of(is_near, series.re, quotient.re), where_of(is_near, *series.im, *quotient.im)};
}

/// Im(conj(a) b).
inline Term crossed(const Number& a, const Number& b) { return a.re * b.imaginary() - a.imaginary() * b.re; }

inline Number arc_sine(const Number& z) {
  const Number minus = square_root(one_less(z)), plus = square_root(plus_one(z));
  return {apply<ops::Atan2>(z.re, minus.re * plus.re - *minus.im * *plus.im), apply<ops::Asinh>(crossed(minus, plus))};
}
inline Number arc_cosine(const Number& z) {
  const Number minus = square_root(one_less(z)), plus = square_root(plus_one(z));
  return {apply<ops::Atan2>(minus.re, plus.re) * 2.0, apply<ops::Asinh>(crossed(plus, minus))};
}
inline Number area_cosine(const Number& z) {
  const Number minus = square_root({z.re - 1.0, z.imaginary()}), plus = square_root(plus_one(z));
  return {apply<ops::Asinh>(minus.re * plus.re + *minus.im * *plus.im), apply<ops::Atan2>(*minus.im, plus.re) * 2.0};
}
/// Where squares would overflow: 1 / z + i pi / 2 with the sign of y, as far as the dtype can tell.
inline Number far_area_tangent(const Number& z, const Term& is_far) {
  const Term im = z.imaginary(), is_at_infinity = is_infinite(z);
  const Term is_taken = both(is_far, apply<ops::Not>(is_at_infinity));
  const Term x = where_of(is_taken, z.re, 1.0), size = apply<ops::Hypot>(x, where_of(is_taken, im, 0.0));
  return {where_of(is_at_infinity, apply_number_first<ops::Copysign>(0.0, z.re), x / size / size),
          apply<ops::Copysign>(number_like(z.re, std::numbers::pi / 2), im)};
}
inline Number area_tangent(const Number& z) {
  const Term is_far = is_beyond(z.re, z.imaginary(), std::sqrt(largest_of(z.re.dtype())) / 4);
  const Term x = where_of(is_far, 0.0, z.re), y = where_of(is_far, 0.0, z.imaginary()), below = 1.0 - x, square = y * y;
  const Term size = apply<ops::Log1p>(x * 4.0 / (below * below + square)) * 0.25;
  const Term turn = apply<ops::Atan2>(y * 2.0, below * (x + 1.0) - square) * 0.5;
  const Number far = far_area_tangent(z, is_far);
  return {where_of(is_far, far.re, size), where_of(is_far, far.imaginary(), turn)};
}
inline Number area_sine(const Number& z) { return turned_right(arc_sine(turned_left(z))); }
inline Number arc_tangent(const Number& z) { return turned_right(area_tangent(turned_left(z))); }

}  // namespace complex_detail
SINTER_NAMESPACE_END
