// Elementary functions of complex numbers by real ones of their parts. Branch cuts, signs of zeros and the accuracy near
// them are those of Kahan, "Branch Cuts for Complex Elementary Functions" (1987); division is Smith's. Where a formula
// would divide by 0 in a branch that is not taken, it divides by 1 there, so that derivatives stay finite. Included by
// .ipp files alone.
#pragma once

#include <sinter/expr/complex.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/complex.hpp>

#include <cmath>
#include <numbers>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace complex_detail {

using expr_detail::apply;
using expr_detail::leaf_of;
using expr_detail::Term;
using expr_detail::where_of;

/// A tensor of complex numbers as its parts; of real numbers, which have no imaginary part, as one.
struct Number {
  Term re;
  std::optional<Term> im;

  /// Parts of dtype `part`.
  static Number of(const In& x, DType part) {
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

inline Number square_root(const Number& z) {
  const Term im = z.imaginary();
  const Term half = apply<ops::Sqrt>(absolute_value(z) * 0.5 + expr_detail::absolute(z.re) * 0.5);
  const Term is_zero = half == 0.0;
  const Term other = expr_detail::absolute(im) / (where_of(is_zero, 1.0, half) * 2.0);
  const Term is_right = 0.0 <= z.re;
  return {where_of(is_right, half, other), apply<ops::Copysign>(where_of(is_right, other, half), im)};
}
inline Number inverse_root(const Number& z) { return inverse(square_root(z)); }
inline Number exponential(const Number& z) {
  const Term size = apply<ops::Exp>(z.re), im = z.imaginary();
  return {size * apply<ops::Cos>(im), size * apply<ops::Sin>(im)};
}
inline Number exponential_of_two(const Number& z) { return exponential(scaled(z, std::numbers::ln2)); }
inline Number logarithm(const Number& z) {
  return {apply<ops::Log>(apply<ops::Hypot>(z.re, z.imaginary())), angle_of(z)};
}
inline Number logarithm_of_two(const Number& z) { return scaled(logarithm(z), std::numbers::log2e); }
inline Number logarithm_of_ten(const Number& z) { return scaled(logarithm(z), std::numbers::log10e); }
inline Number logistic(const Number& z) { return inverse(plus_one(exponential(negative(z)))); }

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
  return {apply<ops::Sinh>(z.re) * apply<ops::Cos>(im), apply<ops::Cosh>(z.re) * apply<ops::Sin>(im)};
}
inline Number hyperbolic_cosine(const Number& z) {
  const Term im = z.imaginary();
  return {apply<ops::Cosh>(z.re) * apply<ops::Cos>(im), apply<ops::Sinh>(z.re) * apply<ops::Sin>(im)};
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
inline Number area_tangent(const Number& z) {
  const Term x = z.re, y = z.imaginary(), below = 1.0 - x, square = y * y;
  const Term size = apply<ops::Log1p>(x * 4.0 / (below * below + square)) * 0.25;
  return {size, apply<ops::Atan2>(y * 2.0, below * (x + 1.0) - square) * 0.5};
}
inline Number area_sine(const Number& z) { return turned_right(arc_sine(turned_left(z))); }
inline Number arc_tangent(const Number& z) { return turned_right(area_tangent(turned_left(z))); }

}  // namespace complex_detail
SINTER_NAMESPACE_END
