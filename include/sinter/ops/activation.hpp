// Activation functions of neural networks, as elementwise ops so that fusion keeps them as scalar code.
#pragma once

#include <sinter/ops/unary.hpp>
#include <sinter/ops/val_ops.hpp>

#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// 1 / (1 + e^-x), on the left as e^x / (1 + e^x): nothing overflows, and small results keep their digits. The
/// derivative is made of the result, so that the operand need not be kept: right to an absolute error, as in PyTorch.
struct Sigmoid {
  static constexpr OpInfo info{.name = "sigmoid", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue one = s.imm(1, x), power = s.exp(s.neg(s.abs(x)));
    return s.div(s.select(s.lt(x, s.imm(0, x)), power, one), s.add(one, power));
  }
  static ValList vjp(const VjpArgs& a) { return {a.dout * a.out * (1 - a.out)}; }
};

/// max(x, 0), +0 for -0; NaN stays NaN, the derivative at 0 is 0, at NaN 1. It asks the result, so that the operand
/// need not be kept.
struct Relu {
  static constexpr OpInfo info{.name = "relu", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.max(x, s.imm(0, x)); }
  static ValList vjp(const VjpArgs& a) { return {where(le(a.out, 0), 0, a.dout)}; }
};

/// e^(-x^2 / 2), the normal density but for its factor.
struct Gauss {
  static constexpr OpInfo info{.name = "gauss", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.gauss(x); }
  static ValList vjp(const VjpArgs& a) { return {-(a.dout * (a.in[0] * a.out))}; }
};

/// The derivative of gelu, Phi(x) + x * phi(x) with phi the normal density.
struct GeluSlope {
  static constexpr OpInfo info{.name = "gelu_slope", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.gelu_slope(x); }
  /// d/dx = phi(x) * (2 - x^2). The density is 0 long before the bound, so that no infinity occurs.
  static ValList vjp(const VjpArgs& a) {
    constexpr double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const Val density = apply(op_info<Gauss>, {a.in[0]}) * scale;
    return {a.dout * (density * (2 - minimum(square(a.in[0]), number(a.in[0], 1e4))))};
  }
};

/// x * Phi(x) with Phi the normal distribution function. Hendrycks and Gimpel, 2016, exact form.
struct Gelu {
  static constexpr OpInfo info{.name = "gelu", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.gelu(x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * apply(op_info<GeluSlope>, {a.in[0]})}; }
};

/// The parts of sigmoid for silu and its derivative. `root`^2 is e^-|x|; as two factors it does not underflow before a
/// product with it does. `x` is bounded where the functions have reached their limits, so that infinity times 0 does
/// not occur.
struct LogisticParts {
  ScalarValue x, root, is_negative, denominator;  // 1 + root^2
};
inline LogisticParts logistic_parts(ScalarBuilder& s, ScalarValue x) {
  const ScalarValue bounded = s.max(x, s.imm(-1e4, x));
  const ScalarValue root = s.exp(s.mul(s.abs(bounded), s.imm(-0.5, x)));
  const ScalarValue is_negative = s.lt(x, s.imm(0, x));
  return {bounded, root, is_negative, s.fma(root, root, s.imm(1, x))};
}

/// The derivative of silu, s(x) * (1 + x * s(-x)) with s the sigmoid.
struct SiluSlope {
  static constexpr OpInfo info{.name = "silu_slope", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const LogisticParts p = logistic_parts(s, x);
    const ScalarValue bounded = s.min(p.x, s.imm(1e4, x));
    const ScalarValue on_left = s.mul(s.mul(p.root, s.add(p.denominator, bounded)), p.root);
    const ScalarValue on_right = s.fma(s.mul(bounded, p.root), p.root, p.denominator);
    return s.div(s.select(p.is_negative, on_left, on_right), s.mul(p.denominator, p.denominator));
  }
  /// d/dx = s(x) * s(-x) * (2 - x * tanh(x / 2)).
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], curve = apply(op_info<Tanh>, {x * 0.5});
    return {a.dout * (sigmoid(x) * sigmoid(-x) * (2 - x * curve))};
  }
};

/// x * sigmoid(x).
struct Silu {
  static constexpr OpInfo info{.name = "silu", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const LogisticParts p = logistic_parts(s, x);
    const ScalarValue factor = s.select(p.is_negative, p.root, s.imm(1, x));
    return s.div(s.mul(s.mul(p.x, factor), factor), p.denominator);
  }
  static ValList vjp(const VjpArgs& a) { return {a.dout * apply(op_info<SiluSlope>, {a.in[0]})}; }
};

}  // namespace ops
SINTER_NAMESPACE_END
