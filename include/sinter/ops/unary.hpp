// Elementwise ops of one operand: arithmetic, rounding, exponentials, casts. Activations are in activation.hpp.
#pragma once

#include <sinter/ops/val_ops.hpp>

#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// -x. Not of bool.
struct Neg {
  static constexpr OpInfo info{.name = "neg", .arity = 1, .takes_bool = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.neg(x); }
  static ValList vjp(const VjpArgs& a) { return {-a.dout}; }
};

/// |x|; the derivative at 0 and at NaN is 0.
struct Abs {
  static constexpr OpInfo info{.name = "abs", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.abs(x); }
  static ValList vjp(const VjpArgs& a) { return {where(gt(a.in[0], 0), a.dout, where(lt(a.in[0], 0), -a.dout, 0))}; }
};

/// -1, 0 or 1; keeps -0 and NaN.
struct Sign {
  static constexpr OpInfo info{.name = "sign", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue zero = s.imm(0, x);
    return s.select(s.lt(zero, x), s.imm(1, x), s.select(s.lt(x, zero), s.imm(-1, x), x));
  }
};

/// x * x.
struct Square {
  static constexpr OpInfo info{.name = "square", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.mul(x, x); }
  static ValList vjp(const VjpArgs& a) { return {2 * (a.dout * a.in[0])}; }
};

/// 1 / x.
struct Reciprocal {
  static constexpr OpInfo info{.name = "reciprocal", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.div(s.imm(1, x), x); }
  static ValList vjp(const VjpArgs& a) { return {-(a.dout * a.out * a.out)}; }  // in steps: out^2 may overflow
};

struct Sqrt {
  static constexpr OpInfo info{.name = "sqrt", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.sqrt(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / (2 * a.out)}; }
};

/// 1 / sqrt(x).
struct Rsqrt {
  static constexpr OpInfo info{.name = "rsqrt", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.rsqrt(x); }
  static ValList vjp(const VjpArgs& a) { return {-0.5 * (a.dout * a.out * a.out * a.out)}; }
};

struct Exp {
  static constexpr OpInfo info{.name = "exp", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.exp(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * a.out}; }
};

struct Log {
  static constexpr OpInfo info{.name = "log", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.log(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout / a.in[0]}; }
};

struct Sin {
  static constexpr OpInfo info{.name = "sin", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.sin(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * cos(a.in[0])}; }
};

struct Cos {
  static constexpr OpInfo info{.name = "cos", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.cos(x); }
  static ValList vjp(const VjpArgs& a) { return {-(a.dout * sin(a.in[0]))}; }
};

struct Tanh {
  static constexpr OpInfo info{.name = "tanh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.tanh(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (1 - square(a.out))}; }
};

/// The error function, 2 / sqrt(pi) * integral of e^(-t^2) from 0 to x.
struct Erf {
  static constexpr OpInfo info{.name = "erf", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.erf(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * (2 * std::numbers::inv_sqrtpi * exp(-square(a.in[0])))}; }
};

// Rounding keeps integers as they are; its derivative is zero.

struct Floor {
  static constexpr OpInfo info{.name = "floor", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return is_floating(x.dtype) ? s.floor(x) : x; }
};
struct Ceil {
  static constexpr OpInfo info{.name = "ceil", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return is_floating(x.dtype) ? s.ceil(x) : x; }
};
/// To the nearest integer, halves to even.
struct Round {
  static constexpr OpInfo info{.name = "round", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return is_floating(x.dtype) ? s.round(x) : x; }
};
/// Towards zero.
struct Trunc {
  static constexpr OpInfo info{.name = "trunc", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return is_floating(x.dtype) ? s.trunc(x) : x; }
};

/// Logical not of bool, bitwise not of integers.
struct Not {
  static constexpr OpInfo info{.name = "not", .arity = 1, .dtypes = DTypeRule::logical};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.not_(x); }
};

/// To attrs.dtype: floating to integer truncates and saturates (NaN gives 0), anything to bool is `x != 0`.
struct Cast {
  static constexpr OpInfo info{.name = "cast", .arity = 1, .dtypes = DTypeRule::attribute, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::dtype);
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, const Attrs& attrs) { return s.convert(x, attrs.dtype); }
  static ValList vjp(const VjpArgs& a) {
    const DType dtype = a.in[0].dtype();
    return {cast(a.dout, is_f8(dtype) ? DType::f32 : dtype)};  // those of f8 are summed in f32
  }
};

/// A cast that passes put where a value is f16 or bf16 only for memory: a kernel that does not store it keeps its
/// digits.
struct Narrow {
  static constexpr OpInfo info{.name = "narrow", .arity = 1, .dtypes = DTypeRule::attribute, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::dtype);
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, const Attrs& attrs) {
    return is_half(attrs.dtype) ? s.convert(x, computed_in(attrs.dtype)) : s.convert(x, attrs.dtype);
  }
  static ValList vjp(const VjpArgs& a) { return {cast(a.dout, a.in[0].dtype())}; }
};

/// The value itself, a constant for differentiation.
struct StopGradient {
  static constexpr OpInfo info{.name = "stop_gradient", .arity = 1, .moves_elements = true};
  static ScalarValue lower(ScalarBuilder&, ScalarValue x) { return x; }
};

}  // namespace ops
SINTER_NAMESPACE_END
