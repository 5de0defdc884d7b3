// Special functions: of the normal distribution, gamma and Bessel functions, sinc. Their formulas are in
// special_math.hpp.
#pragma once

#include <sinter/ops/activation.hpp>
#include <sinter/ops/special_math.hpp>
#include <sinter/ops/val_ops.hpp>

#include <cstdint>
#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// 1 - erf(x), with all its digits where that is small.
struct Erfc {
  static constexpr OpInfo info{.name = "erfc", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::erfc(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (-2 * std::numbers::inv_sqrtpi * exp(-square(a.in[0])))}; }
};

/// e^(x^2) erfc(x): what erfc is without its fall.
struct Erfcx {
  static constexpr OpInfo info{.name = "erfcx", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::erfcx(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (2 * (a.in[0] * a.out - std::numbers::inv_sqrtpi))}; }
};

/// The distribution function of the standard normal distribution.
struct Ndtr {
  static constexpr OpInfo info{.name = "ndtr", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::normal_distribution(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (apply(op_info<Gauss>, {a.in[0]}) * root_of_half_turn)}; }
  static constexpr double root_of_half_turn = 0.39894228040143267794;  // 1 / sqrt(2 pi)
};

/// Its logarithm, also where it is no number any more.
struct LogNdtr {
  static constexpr OpInfo info{.name = "log_ndtr", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::log_normal_distribution(s, x); }
  /// The density divided by the distribution; of negative x both without their fall. Each side is given numbers of its
  /// own alone, so that its derivatives are finite elsewhere.
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], is_low = lt(x, 0), low = where(is_low, x, 0), high = where(is_low, 0, x);
    const Val below = 0.79788456080286535588 / apply(op_info<Erfcx>, {low * -0.70710678118654752440});
    const Val above = apply(op_info<Gauss>, {high}) * Ndtr::root_of_half_turn / apply(op_info<Ndtr>, {high});
    return {a.dout * where(is_low, below, above)};
  }
};

/// The inverse of the distribution function of the standard normal distribution.
struct Ndtri {
  static constexpr OpInfo info{.name = "ndtri", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue p) { return ops_detail::normal_quantile(s, p); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (exp(square(a.out) / 2) * 2.50662827463100050242)}; }
};

/// Hurwitz's zeta function, of an order above 1 and q > 0. There is no derivative by the order.
struct Zeta {
  static constexpr OpInfo info{.name = "zeta", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue order, ScalarValue q) { return ops_detail::zeta(s, order, q); }
  static ValList vjp(const VjpArgs& a) {
    return {Val{}, -(a.dout * a.in[0] * apply(op_info<Zeta>, {a.in[0] + 1, a.in[1]}))};
  }
};

/// The inverse of erf, of numbers in [-1, 1].
struct Erfinv {
  static constexpr OpInfo info{.name = "erfinv", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::erf_inverse(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (exp(square(a.out)) / (2 * std::numbers::inv_sqrtpi))}; }
};

/// The derivative of digamma of attrs.order, at least 1.
struct Polygamma {
  static constexpr OpInfo info{.name = "polygamma", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static constexpr OpAttr<std::int64_t> order{"order", 0, 1};
  static constexpr auto attributes = attribute_list(order);
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, const Attrs& attrs) {
    return ops_detail::polygamma(s, x, static_cast<int>(attrs[order]));
  }
  static ValList vjp(const VjpArgs& a) {
    return {a.dout * apply(op_info<Polygamma>, {a.in[0]}, Attrs{}.with(order, a.attrs[order] + 1))};
  }
};

/// The derivative of lgamma.
struct Digamma {
  static constexpr OpInfo info{.name = "digamma", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::digamma(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * apply(op_info<Polygamma>, {a.in[0]})}; }
};

/// log |gamma(x)|.
struct Lgamma {
  static constexpr OpInfo info{.name = "lgamma", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::lgamma(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * apply(op_info<Digamma>, {a.in[0]})}; }
};

/// sin(pi x) / (pi x), 1 at 0.
struct Sinc {
  static constexpr OpInfo info{.name = "sinc", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::sinc(s, x); }
  /// (cos(pi x) - sinc(x)) / x; near 0, where that cancels, its series.
  static ValList vjp(const VjpArgs& a) {
    constexpr double p = std::numbers::pi * std::numbers::pi;
    const Val x = a.in[0], is_near = lt(abs(x), 0.1), z = square(where(is_near, x, 0)), far = where(is_near, 1, x);
    const Val series =
        x * (-p / 3 + z * (p * p / 30 +
                           z * (-p * p * p / 840 + z * (p * p * p * p / 45360 - z * (p * p * p * p * p / 3991680)))));
    return {a.dout * where(is_near, series, (cos(far * std::numbers::pi) - apply(op_info<Sinc>, {far})) / far)};
  }
};

struct I1;
/// The modified Bessel function of order 0, and that by e^|x|; and those of order 1.
struct I0 {
  static constexpr OpInfo info{.name = "i0", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::i0(s, x); }
  static ValList vjp(const VjpArgs& a);
};
struct I1 {
  static constexpr OpInfo info{.name = "i1", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::i1(s, x); }
  /// I0 - I1 / x, 1/2 at 0.
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], is_zero = eq(x, 0), quotient = a.out / where(is_zero, 1, x);
    return {a.dout * (apply(op_info<I0>, {x}) - where(is_zero, 0.5, quotient))};
  }
};
inline ValList I0::vjp(const VjpArgs& a) { return {a.dout * apply(op_info<I1>, {a.in[0]})}; }

struct I1e;
struct I0e {
  static constexpr OpInfo info{.name = "i0e", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::i0e(s, x); }
  static ValList vjp(const VjpArgs& a);
};
struct I1e {
  static constexpr OpInfo info{.name = "i1e", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::i1e(s, x); }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], is_zero = eq(x, 0), quotient = a.out / where(is_zero, 1, x);
    return {a.dout * (apply(op_info<I0e>, {x}) - where(is_zero, 0.5, quotient) - sign(x) * a.out)};
  }
};
inline ValList I0e::vjp(const VjpArgs& a) {
  return {a.dout * (apply(op_info<I1e>, {a.in[0]}) - sign(a.in[0]) * a.out)};
}

}  // namespace ops
SINTER_NAMESPACE_END
