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

/// a - b. Not of two bools.
struct Sub {
  static constexpr OpInfo info{.name = "sub", .arity = 2, .takes_bool = false};
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

/// The quotient rounded down: q with a = q b + rem(a, b). The quotient of floats may round up to the next whole number,
/// so it is taken of what the remainder of the absolute values leaves, which is exact and overflows nowhere. Where rem
/// has no number (a is infinite) there is none.
struct FloorDivide {
  static constexpr OpInfo info{.name = "floor_divide", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) {
    if (is_floating(a.dtype)) {
      const ScalarValue none = s.imm(0, a), quotient = s.div(a, b), size = s.abs(a), by = s.abs(b);
      const ScalarValue rest = s.rem(size, by), whole = s.round(s.div(s.sub(size, rest), by));
      const ScalarValue below = s.sub(s.neg(whole), s.convert(s.ne(rest, none), a.dtype));
      const ScalarValue found = s.select(s.xor_(s.lt(a, none), s.lt(b, none)), below, whole);
      const ScalarValue signed_found = s.select(s.eq(found, none), s.mul(quotient, none), found);
      return s.select(s.eq(b, none), quotient, signed_found);
    }
    if (a.dtype == DType::bool_) return s.div(a, b);
    const ScalarValue zero = s.imm_int(0, a.dtype);  // a quotient below 0 was cut off upwards, unless it is exact
    const ScalarValue is_above = s.and_(s.ne(s.rem(a, b), zero), s.xor_(s.lt(a, zero), s.lt(b, zero)));
    return s.sub(s.div(a, b), s.convert(is_above, a.dtype));
  }
};

/// a - b * floor(a / b), exact: has the sign of b, a zero that of a.
struct Rem {
  static constexpr OpInfo info{.name = "rem", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.rem(a, b); }
  /// By b it is the quotient rounded down.
  static ValList vjp(const VjpArgs& a) {
    return {a.dout, a.needs(1) ? -(a.dout * floor_divide(a.in[0], a.in[1])) : Val{}};
  }
};

/// a to the power b. At b = 0 the derivative by a is 0, and at a = 0, b >= 0 that by b is 0, where the formulas give 0
/// * inf.
struct Pow {
  static constexpr OpInfo info{.name = "pow", .arity = 2, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.pow(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val base = a.in[0], exponent = a.in[1];
    Val by_base, by_exponent;
    // What is not chosen stays finite, so that derivatives of the derivatives are no NaN at 0.
    if (a.needs(0)) {
      const Val is_constant = eq(exponent, 0);
      by_base = a.dout * where(is_constant, 0, exponent * pow(base, where(is_constant, 1, exponent - 1)));
    }
    if (a.needs(1)) {
      const Val at_zero = logical_and(eq(base, 0), ge(exponent, 0));
      by_exponent = a.dout * where(at_zero, 0, a.out * log(where(at_zero, 1, base)));
    }
    return {by_base, by_exponent};
  }
};

/// The larger; NaN wins, and +0 is larger than -0. Equal operands share the gradient; where one is NaN, both get all of
/// it.
struct Maximum {
  static constexpr OpInfo info{.name = "maximum", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.max(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val share = where(eq(a.in[0], a.in[1]), a.dout * 0.5, a.dout);
    return {where(lt(a.in[0], a.in[1]), 0, share), where(gt(a.in[0], a.in[1]), 0, share)};
  }
};

/// The smaller; NaN wins, and -0 is smaller than +0. Equal operands share the gradient; where one is NaN, both get all
/// of it.
struct Minimum {
  static constexpr OpInfo info{.name = "minimum", .arity = 2};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue a, ScalarValue b) { return s.min(a, b); }
  static ValList vjp(const VjpArgs& a) {
    const Val share = where(eq(a.in[0], a.in[1]), a.dout * 0.5, a.dout);
    return {where(gt(a.in[0], a.in[1]), 0, share), where(lt(a.in[0], a.in[1]), 0, share)};
  }
};

/// clamp(x, low, high) = min(max(x, low), high). An x at a bound shares the gradient with it.
struct Clamp {
  static constexpr OpInfo info{.name = "clamp", .arity = 3};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue low, ScalarValue high) {
    return s.min(s.max(x, low), high);
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], low = a.in[1], high = a.in[2];
    const Val share = where(lt(low, high), a.dout * 0.5, a.dout), is_ordered = le(low, high);
    const Val at_low = logical_and(eq(x, low), lt(low, high)), at_high = logical_and(eq(x, high), lt(low, high));
    Val by_low, by_high;
    if (a.needs(1)) by_low = where(at_low, share, where(logical_and(lt(x, low), is_ordered), a.dout, 0));
    if (a.needs(2))
      by_high =
          where(at_high, share, where(logical_or(gt(low, high), logical_and(gt(x, high), is_ordered)), a.dout, 0));
    const Val by_x = where(logical_or(at_low, at_high), share, where(logical_or(lt(x, low), gt(x, high)), 0, a.dout));
    return {by_x, by_low, by_high};
  }
};

/// As Clamp, between numbers: the gradient is that of x between them, and 0 at a bound and at NaN.
struct ClampToNumbers {
  static constexpr OpInfo info{.name = "clamp_to_numbers", .arity = 3};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue low, ScalarValue high) {
    return Clamp::lower(s, x, low, high);
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], low = a.in[1], high = a.in[2];
    Val by_low, by_high;
    if (a.needs(1)) by_low = where(logical_and(le(x, low), le(low, high)), a.dout, 0);
    if (a.needs(2)) by_high = where(logical_or(gt(low, high), ge(x, high)), a.dout, 0);
    return {where(logical_and(gt(x, low), lt(x, high)), a.dout, 0), by_low, by_high};
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
