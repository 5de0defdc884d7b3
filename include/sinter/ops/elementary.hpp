// Elementary functions beyond those of unary.hpp: exponentials, logarithms, angles, hyperbolic functions, roots; and
// interpolation. Their formulas are in scalar_math.hpp; derivatives stay finite where the formula's parts would not.
#pragma once

#include <sinter/ops/activation.hpp>
#include <sinter/ops/scalar_math.hpp>
#include <sinter/ops/val_ops.hpp>

#include <limits>
#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// e^x - 1.
struct Expm1 {
  static constexpr OpInfo info{.name = "expm1", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::expm1(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (a.out + 1)}; }
};

/// 2^x; powers are exact.
struct Exp2 {
  static constexpr OpInfo info{.name = "exp2", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::exp2(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * a.out * std::numbers::ln2}; }
};

/// log(1 + x).
struct Log1p {
  static constexpr OpInfo info{.name = "log1p", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::log1p(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (1 + a.in[0])}; }
};

struct Log2 {
  static constexpr OpInfo info{.name = "log2", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::log2(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (a.in[0] * std::numbers::ln2)}; }
};

struct Log10 {
  static constexpr OpInfo info{.name = "log10", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::log10(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (a.in[0] * std::numbers::ln10)}; }
};

struct Tan {
  static constexpr OpInfo info{.name = "tan", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::tan(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (1 + square(a.out))}; }
};

struct Asin {
  static constexpr OpInfo info{.name = "asin", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::asin(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * rsqrt((1 - a.in[0]) * (1 + a.in[0]))}; }
};

struct Acos {
  static constexpr OpInfo info{.name = "acos", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::acos(s, x); }
  static ValList vjp(const VjpArgs& a) { return {-(a.dout * rsqrt((1 - a.in[0]) * (1 + a.in[0])))}; }
};

struct Atan {
  static constexpr OpInfo info{.name = "atan", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::atan(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (1 + square(a.in[0]))}; }
};

/// sqrt(x^2 + y^2) without overflow or underflow between. The derivative at (0, 0) is 0.
struct Hypot {
  static constexpr OpInfo info{.name = "hypot", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) { return ops_detail::hypot(s, x, y); }
  static ValList vjp(const VjpArgs& a) {
    const Val length = where(eq(a.out, 0), 1, a.out);
    return {a.needs(0) ? a.dout * (a.in[0] / length) : Val{}, a.needs(1) ? a.dout * (a.in[1] / length) : Val{}};
  }
};

/// The angle of the point (x, y), in [-pi, pi]: atan2(y, x). The derivative at (0, 0) is 0.
struct Atan2 {
  static constexpr OpInfo info{.name = "atan2", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue y, ScalarValue x) { return ops_detail::atan2(s, y, x); }
  static ValList vjp(const VjpArgs& a) {
    const Val distance = apply(op_info<Hypot>, {a.in[0], a.in[1]}), length = where(eq(distance, 0), 1, distance);
    return {a.needs(0) ? a.dout * (a.in[1] / length / length) : Val{},
            a.needs(1) ? -(a.dout * (a.in[0] / length / length)) : Val{}};
  }
};

struct Cosh;
struct Sinh {
  static constexpr OpInfo info{.name = "sinh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::sinh(s, x); }
  static ValList vjp(const VjpArgs& a);
};

struct Cosh {
  static constexpr OpInfo info{.name = "cosh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::cosh(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * apply(op_info<Sinh>, {a.in[0]})}; }
};
inline ValList Sinh::vjp(const VjpArgs& a) { return {a.dout * apply(op_info<Cosh>, {a.in[0]})}; }

struct Asinh {
  static constexpr OpInfo info{.name = "asinh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::asinh(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / apply(op_info<Hypot>, {a.in[0], number(a.in[0], 1)})}; }
};

/// Of x >= 1.
struct Acosh {
  static constexpr OpInfo info{.name = "acosh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::acosh(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * rsqrt(a.in[0] - 1) * rsqrt(a.in[0] + 1)}; }
};

struct Atanh {
  static constexpr OpInfo info{.name = "atanh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::atanh(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / ((1 - a.in[0]) * (1 + a.in[0]))}; }
};

/// The cube root, of negative numbers too.
struct Cbrt {
  static constexpr OpInfo info{.name = "cbrt", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::cbrt(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (3 * square(a.out))}; }
};

/// log(e^a + e^b).
struct Logaddexp {
  static constexpr OpInfo info{.name = "logaddexp", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) {
    const ScalarValue gap = s.select(s.eq(a, b), s.imm(0, a), s.sub(a, b));  // of equal infinities
    return s.add(s.max(a, b), ops_detail::log1p(s, s.exp(s.neg(s.abs(gap)))));
  }
  static ValList vjp(const VjpArgs& a) { return shares(a, 1); }
  /// Of the operands: sigmoid of how far the one is above the other.
  static ValList shares(const VjpArgs& a, double scale) {
    const Val is_same_infinity =
        logical_and(eq(a.in[0], a.in[1]), eq(abs(a.in[0]), std::numeric_limits<double>::infinity()));
    const Val gap = where(is_same_infinity, 0, a.in[0] - a.in[1]) * scale;
    return {a.needs(0) ? a.dout * sigmoid(gap) : Val{}, a.needs(1) ? a.dout * sigmoid(-gap) : Val{}};
  }
};

/// log2(2^a + 2^b).
struct Logaddexp2 {
  static constexpr OpInfo info{.name = "logaddexp2", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) {
    const ScalarValue gap = s.select(s.eq(a, b), s.imm(0, a), s.sub(a, b));
    const ScalarValue rest = ops_detail::log1p(s, ops_detail::exp2(s, s.neg(s.abs(gap))));
    return s.fma(rest, s.imm(std::numbers::log2e, a), s.max(a, b));
  }
  static ValList vjp(const VjpArgs& a) { return Logaddexp::shares(a, std::numbers::ln2); }
};

/// log(x / (1 - x)), the inverse of sigmoid. Near 1/2 as log1p((2x - 1) / (1 - x)), whose numerator is exact.
struct Logit {
  static constexpr OpInfo info{.name = "logit", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue one = s.imm(1, x), rest = s.sub(one, x);
    const ScalarValue is_middle = s.and_(s.lt(s.imm(0.25, x), x), s.lt(x, s.imm(0.75, x)));
    const ScalarValue near = s.div(s.fma(x, s.imm(2, x), s.imm(-1, x)), rest);
    return s.select(is_middle, ops_detail::log1p(s, near), s.log(s.div(x, rest)));
  }
  static ValList vjp(const VjpArgs& a) {  // NaN outside [0, 1], as logit is there
    const Val product = a.in[0] * (1 - a.in[0]);
    return {a.dout / where(lt(product, 0), std::numeric_limits<double>::quiet_NaN(), product)};
  }
};

/// x log(y), 0 where x is 0 unless y is NaN.
struct Xlogy {
  static constexpr OpInfo info{.name = "xlogy", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) {
    const ScalarValue zero = s.imm(0, x), is_zero = s.and_(s.eq(x, zero), s.eq(y, y));
    return s.select(is_zero, zero, s.mul(x, s.log(y)));
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], y = a.in[1], is_outside = logical_and(eq(x, 0), le(y, 0));
    return {a.needs(0) ? a.dout * where(is_outside, 0, log(where(is_outside, 1, y))) : Val{},
            a.needs(1) ? a.dout * (x / y) : Val{}};
  }
};

/// x log(1 + y), 0 where x is 0 unless y is NaN.
struct Xlog1py {
  static constexpr OpInfo info{.name = "xlog1py", .arity = 2, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue y) {
    const ScalarValue zero = s.imm(0, x), is_zero = s.and_(s.eq(x, zero), s.eq(y, y));
    return s.select(is_zero, zero, s.mul(x, ops_detail::log1p(s, y)));
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], y = a.in[1], is_outside = logical_and(eq(x, 0), le(y, -1));
    return {a.needs(0) ? a.dout * where(is_outside, 0, apply(op_info<Log1p>, {where(is_outside, 0, y)})) : Val{},
            a.needs(1) ? a.dout * (x / (1 + y)) : Val{}};
  }
};

/// a + w (b - a), from the side that is nearer.
struct Lerp {
  static constexpr OpInfo info{.name = "lerp", .arity = 3, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b, ScalarValue w) {
    const ScalarValue gap = s.sub(b, a), one = s.imm(1, a);
    return s.select(s.lt(s.abs(w), s.imm(0.5, a)), s.fma(w, gap, a), s.fma(s.sub(w, one), gap, b));
  }
  static ValList vjp(const VjpArgs& a) {
    return {a.needs(0) ? a.dout * (1 - a.in[2]) : Val{}, a.needs(1) ? a.dout * a.in[2] : Val{},
            a.needs(2) ? a.dout * (a.in[1] - a.in[0]) : Val{}};
  }
};

}  // namespace ops
SINTER_NAMESPACE_END
