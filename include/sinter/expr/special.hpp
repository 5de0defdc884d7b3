// Special functions beyond those of elementwise.hpp: of the normal distribution, zeta, Bessel functions, orthogonal
// polynomials; and divisors of integers. Elementwise; operands broadcast, and integers become f32 but in gcd and lcm.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

SINTER_NAMESPACE_BEGIN

/// The greatest common divisor and the least common multiple of integers; not negative, 0 for two zeros (lcm: for one).
Tensor gcd(const In& a, const In& b);
Tensor lcm(const In& a, const In& b);
/// Of two operands of one type, where `using namespace std` is in force too: the templates of <numeric>, which refuse
/// what is no integer after they were chosen, would fit better than the former.
template <TensorLike T>
Tensor gcd(const T& a, const T& b, Location where = std::source_location::current()) {
  return gcd(In(a, where), In(b, where));
}
template <TensorLike T>
Tensor lcm(const T& a, const T& b, Location where = std::source_location::current()) {
  return lcm(In(a, where), In(b, where));
}

/// e^(x^2) erfc(x).
Tensor erfcx(const In& x);
/// log(ndtr(x)), also where that is no number any more.
Tensor log_ndtr(const In& x);
/// The inverse of ndtr.
Tensor ndtri(const In& p);
/// Hurwitz's zeta function: the sum of (q + k)^-order, k from 0. NaN for orders below 1 and negative q. Differentiable
/// by q alone.
Tensor zeta(const In& order, const In& q);
/// The logarithm of the multivariate gamma function of so many dimensions; x > (dimensions - 1) / 2.
Tensor multigammaln(const In& x, int dimensions);

/// The regularised incomplete gamma functions, of a >= 0 and x >= 0 (else NaN): the integral of t^(a - 1) e^-t from 0
/// to x (igammac: from x on), divided by gamma(a). The host computes them, in f64. Differentiable by x alone: asking
/// for the derivative by a is a UserError.
Tensor igamma(const In& a, const In& x);
Tensor igammac(const In& a, const In& x);

// Bessel functions of the first (j) and second (y) kind, and modified ones of the second kind (k), also times e^x. The
// host computes them, in f64. NaN of y and k for negative x. i0, i1, i0e and i1e are in elementwise.hpp.
Tensor bessel_j0(const In& x);
Tensor bessel_j1(const In& x);
Tensor bessel_y0(const In& x);
Tensor bessel_y1(const In& x);
Tensor bessel_k0(const In& x);
Tensor bessel_k1(const In& x);
Tensor bessel_k0e(const In& x);
Tensor bessel_k1e(const In& x);

/// Chebyshev's of four kinds, and these of 2 x - 1; Hermite's as in physics and in probability; Laguerre's; Legendre's.
enum class Polynomial : std::uint8_t {
  chebyshev_t,
  chebyshev_u,
  chebyshev_v,
  chebyshev_w,
  shifted_chebyshev_t,
  shifted_chebyshev_u,
  shifted_chebyshev_v,
  shifted_chebyshev_w,
  hermite_h,
  hermite_he,
  laguerre_l,
  legendre_p
};
/// The polynomial of this degree, at most 1000, by its recurrence.
Tensor polynomial(const In& x, Polynomial family, int degree);

SINTER_NAMESPACE_END
