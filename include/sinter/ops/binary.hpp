// Elementwise arithmetic and logic of two operands, and clamp. Comparisons are in comparison.hpp.
#pragma once

#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

struct Add {
  static constexpr OpInfo info{.name = "add", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.add(a, b); }
  static ValList vjp(const VjpArgs& a) { return {a.dout, a.dout}; }
};

struct Sub {
  static constexpr OpInfo info{.name = "sub", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.sub(a, b); }
  static ValList vjp(const VjpArgs& a) { return {a.dout, a.needs(1) ? -a.dout : Val{}}; }
};

struct Mul {
  static constexpr OpInfo info{.name = "mul", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.mul(a, b); }
  static ValList vjp(const VjpArgs& a) {
    return {a.needs(0) ? a.dout * a.in[1] : Val{}, a.needs(1) ? a.dout * a.in[0] : Val{}};
  }
};

/// The quotient; integers are divided as floating numbers. floor_divide stays in the integers.
struct Div {
  static constexpr OpInfo info{.name = "div", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.div(a, b); }
  static ValList vjp(const VjpArgs& a) {
    // dout / b overflows where b is subnormal, and times a result of 0 is NaN; out / b stays what the derivative is.
    return {a.needs(0) ? a.dout / a.in[1] : Val{}, a.needs(1) ? -(a.dout * (a.out / a.in[1])) : Val{}};
  }
};

/// The quotient rounded down.
struct FloorDivide {
  static constexpr OpInfo info{.name = "floor_divide", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) {
    if (is_floating(a.dtype)) return s.floor(s.div(a, b));
    return s.div(s.sub(a, s.rem(a, b)), b);   // the remainder has the divisor's sign, so this division is exact
  }
};

/// a - b * floor(a / b), exact: has the sign of b, a zero that of a.
struct Rem {
  static constexpr OpInfo info{.name = "rem", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.rem(a, b); }
  static ValList vjp(const VjpArgs& a) {
    return {a.dout, a.needs(1) ? -(a.dout * floor_divide(a.in[0], a.in[1])) : Val{}};
  }
};

/// a to the power b. At b = 0 the derivative by a is 0, and at a = 0, b >= 0 that by b is 0, where the formulas give 0 * inf.
struct Pow {
  static constexpr OpInfo info{.name = "pow", .arity = 2, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.pow(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val base = a.in[0], exponent = a.in[1];
    Val by_base, by_exponent;
    if (a.needs(0)) by_base = a.dout * where(eq(exponent, 0), 0, exponent * pow(base, exponent - 1));
    if (a.needs(1)) by_exponent = a.dout * where(logical_and(eq(base, 0), ge(exponent, 0)), 0, a.out * log(base));
    return {by_base, by_exponent};
  }
};

/// The larger; NaN wins, and +0 is larger than -0. Equal operands share the gradient.
struct Maximum {
  static constexpr OpInfo info{.name = "maximum", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.max(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val shared = where(eq(a.in[0], a.in[1]), a.dout * 0.5, 0);
    return {where(gt(a.in[0], a.in[1]), a.dout, shared), where(lt(a.in[0], a.in[1]), a.dout, shared)};
  }
};

/// The smaller; NaN wins, and -0 is smaller than +0. Equal operands share the gradient.
struct Minimum {
  static constexpr OpInfo info{.name = "minimum", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.min(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val shared = where(eq(a.in[0], a.in[1]), a.dout * 0.5, 0);
    return {where(lt(a.in[0], a.in[1]), a.dout, shared), where(gt(a.in[0], a.in[1]), a.dout, shared)};
  }
};

/// clamp(x, low, high) = min(max(x, low), high).
struct Clamp {
  static constexpr OpInfo info{.name = "clamp", .arity = 3};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue low, ScalarValue high) { return s.min(s.max(x, low), high); }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], low = a.in[1], high = a.in[2];
    const Val above = gt(maximum(x, low), high), below = logical_and(lt(x, low), logical_not(above));
    return {where(logical_or(below, above), 0, a.dout), a.needs(1) ? where(below, a.dout, 0) : Val{},
            a.needs(2) ? where(above, a.dout, 0) : Val{}};
  }
};

// Logical on bool, bitwise on integers.

struct And {
  static constexpr OpInfo info{.name = "and", .arity = 2, .dtypes = DTypeRule::logical};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.and_(a, b); }
};
struct Or {
  static constexpr OpInfo info{.name = "or", .arity = 2, .dtypes = DTypeRule::logical};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.or_(a, b); }
};
struct Xor {
  static constexpr OpInfo info{.name = "xor", .arity = 2, .dtypes = DTypeRule::logical};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.xor_(a, b); }
};

}  // namespace ops
SINTER_NAMESPACE_END
