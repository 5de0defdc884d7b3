// Activation functions of neural networks, as elementwise ops so that fusion keeps them as scalar code.
#pragma once

#include <sinter/ops/val_ops.hpp>

#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// 1 / (1 + e^-x). Goes to 0 on the left because e^-x overflows to infinity, which is then divided by.
struct Sigmoid {
  static constexpr OpInfo info{.name = "sigmoid", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue one = s.imm(1, x);
    return s.div(one, s.add(one, s.exp(s.neg(x))));
  }
  static ValList vjp(const VjpArgs& a) { return {a.dout * a.out * (1 - a.out)}; }
};

/// max(x, 0); NaN stays NaN, the derivative at 0 is 0, at NaN 1. It asks the result, so that the operand need not be kept.
struct Relu {
  static constexpr OpInfo info{.name = "relu", .arity = 1};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.max(x, s.imm(0, x)); }
  static ValList vjp(const VjpArgs& a) { return {where(le(a.out, 0), 0, a.dout)}; }
};

/// x * Phi(x) with Phi the normal distribution function: 0.5 x (1 + erf(x / sqrt 2)). Hendrycks and Gimpel, 2016, exact form.
struct Gelu {
  static constexpr OpInfo info{.name = "gelu", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue erf = s.erf(s.mul(x, s.imm(1 / std::numbers::sqrt2, x)));
    const ScalarValue twice_distribution = s.add(s.imm(1, x), erf);
    const ScalarValue half = s.mul(s.imm(0.5, x), x);   // one after the other: compilers order arguments differently
    return s.mul(half, twice_distribution);
  }
  /// d/dx = Phi(x) + x * phi(x).
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0];
    const Val distribution = 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2)));
    const Val density = exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return {a.dout * (distribution + x * density)};
  }
};

/// x * sigmoid(x).
struct Silu {
  static constexpr OpInfo info{.name = "silu", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.div(x, s.add(s.imm(1, x), s.exp(s.neg(x)))); }
  static ValList vjp(const VjpArgs& a) {
    const Val gate = sigmoid(a.in[0]);
    return {a.dout * (gate * (1 + a.in[0] * (1 - gate)))};
  }
};

}  // namespace ops
SINTER_NAMESPACE_END
