// Formulas, and ops that the host runs in f64 or i64 with conversions around them.
#pragma once

#include <sinter/expr/special.hpp>

#include <sinter/expr/elementwise.ipp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/host_elementwise.hpp>

#include <numbers>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Two integers of one shape as i64 (u64 as it is), and the dtype that results have. A number leaves it to the other
/// operand; beside u64 signed ones lose their sign, on which common divisors do not depend.
struct IntegerPair {
  Term a, b;
  DType dtype;
};
inline IntegerPair integer_pair(const In& a, const In& b, std::string_view op) {
  const Term x(a), y(b);
  if (!is_integer(x.dtype()) || !is_integer(y.dtype()))
    throw DTypeError(op, "a is " + std::string(name(x.dtype())) + ", b is " + std::string(name(y.dtype())), a.where,
                     "it takes integers");
  const Shape shape = broadcast(x.shape(), y.shape(), op, a.where);
  const DType dtype = common_dtype(a, x, b, y, op);
  const DType held = dtype == DType::u64 ? DType::u64 : DType::i64;
  const auto wide = [&](const Term& t) {
    const bool loses_sign = held == DType::u64 && t.dtype() != DType::u64;
    const Term size = loses_sign ? absolute(Term(cast(In(t.value, a.where), DType::i64), a.where)) : t;
    return Term(cast(In(expand(size, shape), a.where), held), a.where);
  };
  return {wide(x), wide(y), dtype};
}

inline Tensor bessel(const In& x, ops::BesselFunction function) {
  const Term given = floating(x), wide(cast(given, DType::f64), x.where);
  Attrs attrs;
  attrs.set(ops::Bessel::function, function);
  const Tensor value(record_op(op_info<ops::Bessel>, {leaf_of(wide)}, std::move(attrs), x.where));
  return cast(In(value, x.where), given.dtype());
}

inline Tensor incomplete_gamma(const In& a, const In& x, ops::IncompleteGammaPart part, std::string_view op) {
  const Term p = floating(operand_beside(a, x)), q = floating(operand_beside(x, a));
  const Shape shape = broadcast(p.shape(), q.shape(), op, a.where);
  const DType dtype = common_dtype(a, p, x, q, op);
  const auto wide = [&](const Term& t) { return Term(cast(In(expand(t, shape), a.where), DType::f64), a.where); };
  Attrs attrs;
  attrs.set(ops::IncompleteGamma::part, part);
  const Tensor value(
      record_op(op_info<ops::IncompleteGamma>, {leaf_of(wide(p)), leaf_of(wide(q))}, std::move(attrs), a.where));
  return cast(In(value, a.where), dtype);
}

/// p_(k+1) of p_k and p_(k-1).
inline Term next_polynomial(Polynomial family, double k, const Term& x, const Term& last, const Term& before) {
  switch (family) {
    case Polynomial::hermite_h: return 2.0 * (x * last) - 2 * k * before;
    case Polynomial::hermite_he: return x * last - k * before;
    case Polynomial::laguerre_l: return ((2 * k + 1 - x) * last - k * before) * (1 / (k + 1));
    case Polynomial::legendre_p: return ((2 * k + 1) * (x * last) - k * before) * (1 / (k + 1));
    default: return 2.0 * (x * last) - before;
  }
}
inline Term first_polynomial(Polynomial family, const Term& x) {
  switch (family) {
    case Polynomial::chebyshev_u:
    case Polynomial::shifted_chebyshev_u:
    case Polynomial::hermite_h: return 2.0 * x;
    case Polynomial::chebyshev_v:
    case Polynomial::shifted_chebyshev_v: return 2.0 * x - 1.0;
    case Polynomial::chebyshev_w:
    case Polynomial::shifted_chebyshev_w: return 2.0 * x + 1.0;
    case Polynomial::laguerre_l: return 1.0 - x;
    default: return x;
  }
}

}  // namespace expr_detail

SINTER_DECL Tensor gcd(const In& a, const In& b) {
  const auto [x, y, dtype] = expr_detail::integer_pair(a, b, "gcd");
  return cast(expr_detail::apply<ops::Gcd>(x, y), dtype);
}
/// Integers divided by 0 give 0: that of two zeros is 0.
SINTER_DECL Tensor lcm(const In& a, const In& b) {
  const auto [x, y, dtype] = expr_detail::integer_pair(a, b, "lcm");
  const expr_detail::Term divisor = expr_detail::apply<ops::Gcd>(x, y);
  const expr_detail::Term multiple = expr_detail::apply<ops::FloorDivide>(x, divisor) * y;
  return cast(dtype == DType::u64 ? multiple : expr_detail::Term(absolute(multiple)), dtype);
}

SINTER_DECL Tensor erfcx(const In& x) { return expr_detail::apply<ops::Erfcx>(expr_detail::floating(x)); }
SINTER_DECL Tensor log_ndtr(const In& x) { return expr_detail::apply<ops::LogNdtr>(expr_detail::floating(x)); }
SINTER_DECL Tensor ndtri(const In& p) { return expr_detail::apply<ops::Ndtri>(expr_detail::floating(p)); }
SINTER_DECL Tensor zeta(const In& order, const In& q) { return expr_detail::on_operands<ops::Zeta>(order, q); }
SINTER_DECL Tensor multigammaln(const In& x, int dimensions) {
  if (dimensions < 1)
    throw UserError("multigammaln", std::to_string(dimensions) + " dimensions", x.where, "there must be 1 or more");
  const expr_detail::Term t = expr_detail::floating(x);
  expr_detail::Term sum = expr_detail::apply<ops::Lgamma>(t);
  for (int i = 1; i < dimensions; ++i) sum = sum + expr_detail::apply<ops::Lgamma>(t - 0.5 * i);
  return sum + 0.25 * dimensions * (dimensions - 1) * 1.14472988584940017414;  // log(pi)
}

SINTER_DECL Tensor igamma(const In& a, const In& x) {
  return expr_detail::incomplete_gamma(a, x, ops::IncompleteGammaPart::lower, "igamma");
}
SINTER_DECL Tensor igammac(const In& a, const In& x) {
  return expr_detail::incomplete_gamma(a, x, ops::IncompleteGammaPart::upper, "igammac");
}

SINTER_DECL Tensor bessel_j0(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::j0); }
SINTER_DECL Tensor bessel_j1(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::j1); }
SINTER_DECL Tensor bessel_y0(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::y0); }
SINTER_DECL Tensor bessel_y1(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::y1); }
SINTER_DECL Tensor bessel_k0(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::k0); }
SINTER_DECL Tensor bessel_k1(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::k1); }
SINTER_DECL Tensor bessel_k0e(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::k0e); }
SINTER_DECL Tensor bessel_k1e(const In& x) { return expr_detail::bessel(x, ops::BesselFunction::k1e); }

SINTER_DECL Tensor polynomial(const In& x, Polynomial family, int degree) {
  using expr_detail::Term;
  if (degree < 0 || degree > 1000)
    throw UserError("polynomial", "the degree is " + std::to_string(degree), x.where, "it goes from 0 to 1000");
  const bool is_shifted = family >= Polynomial::shifted_chebyshev_t && family <= Polynomial::shifted_chebyshev_w;
  const Term given = expr_detail::floating(x), at = is_shifted ? 2.0 * given - 1.0 : given;
  Term before(ones_like(given), x.where), last = expr_detail::first_polynomial(family, at);
  if (degree == 0) return before;
  for (int k = 1; k < degree; ++k) {
    const Term next = expr_detail::next_polynomial(family, k, at, last, before);
    before = last;
    last = next;
  }
  return last;
}

SINTER_NAMESPACE_END
