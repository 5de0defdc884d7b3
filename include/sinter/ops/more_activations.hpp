// Activation functions beyond those of activation.hpp. Their parameters are operands: numbers, or tensors that are
// learnt.
#pragma once

#include <sinter/ops/activation.hpp>
#include <sinter/ops/scalar_math.hpp>
#include <sinter/ops/val_ops.hpp>

#include <numbers>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// log(1 + e^x).
struct Softplus {
  static constexpr OpInfo info{.name = "softplus", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return ops_detail::softplus(s, x); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * sigmoid(a.in[0])}; }
};

/// log(sigmoid(x)).
struct Logsigmoid {
  static constexpr OpInfo info{.name = "logsigmoid", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.neg(ops_detail::softplus(s, s.neg(x))); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * sigmoid(-a.in[0])}; }
};

/// x tanh(log(1 + e^x)). Misra 2019. With q = e^-|x| the tangent is p / (p + 2) with p = q (q + 2) on the left and (1 +
/// 2q) / (1 + 2q + 2q^2) on the right. x is bounded where the limit is reached, so that 0 * infinity does not occur.
struct Mish {
  static constexpr OpInfo info{.name = "mish", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue bounded = s.max(x, s.imm(-1e4, x)), one = s.imm(1, x), two = s.imm(2, x);
    // q as two factors does not underflow before a product with it does.
    const ScalarValue root = s.exp(s.mul(s.abs(bounded), s.imm(-0.5, x))), q = s.mul(root, root);
    const ScalarValue is_left = s.lt(x, s.imm(0, x)), factor = s.select(is_left, root, one);
    const ScalarValue left = s.add(q, two), right = s.fma(q, two, one);
    const ScalarValue below = s.select(is_left, s.fma(q, left, two), s.fma(s.mul(q, two), q, right));
    return s.div(s.mul(s.mul(s.mul(bounded, factor), s.select(is_left, left, right)), factor), below);
  }
  /// t + x sigmoid(x) (1 - t^2) with t the tangent.
  static ValList vjp(const VjpArgs& a) {
    const Val x = minimum(maximum(a.in[0], number(a.in[0], -1e4)), number(a.in[0], 1e4));
    const Val t = apply(op_info<Tanh>, {apply(op_info<Softplus>, {x})});
    return {a.dout * (t + x * sigmoid(x) * (1 - square(t)))};
  }
};

/// x / (1 + |x|).
struct Softsign {
  static constexpr OpInfo info{.name = "softsign", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.div(x, s.add(s.imm(1, x), s.abs(x))); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * square(reciprocal(1 + abs(a.in[0])))}; }
};

/// (x + 3) / 6 within [0, 1]; the derivative is 0 at its ends.
struct Hardsigmoid {
  static constexpr OpInfo info{.name = "hardsigmoid", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue six = s.imm(6, x);
    return s.div(s.min(s.max(s.add(x, s.imm(3, x)), s.imm(0, x)), six), six);
  }
  static ValList vjp(const VjpArgs& a) {
    return {where(logical_and(gt(a.in[0], -3), lt(a.in[0], 3)), a.dout * (1.0 / 6), 0)};
  }
};

/// x hardsigmoid(x).
struct Hardswish {
  static constexpr OpInfo info{.name = "hardswish", .arity = 1, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue three = s.imm(3, x), inner = s.div(s.mul(x, s.add(x, three)), s.imm(6, x));
    const ScalarValue left = s.select(s.le(x, s.neg(three)), s.imm(0, x), inner);
    return s.select(s.lt(three, x), x, left);
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0];
    return {where(le(x, -3), 0, where(ge(x, 3), a.dout, a.dout * (x * (1.0 / 3) + 0.5)))};
  }
};

/// x - tanh(x).
struct Tanhshrink {
  static constexpr OpInfo info{.name = "tanhshrink", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) { return s.sub(x, s.tanh(x)); }
  static ValList vjp(const VjpArgs& a) { return {a.dout * square(apply(op_info<Tanh>, {a.in[0]}))}; }
};

/// x where x > 0, else slope * x.
struct LeakyRelu {
  static constexpr OpInfo info{.name = "leaky_relu", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue slope) {
    return s.select(s.lt(s.imm(0, x), x), x, s.mul(x, slope));
  }
  static ValList vjp(const VjpArgs& a) {
    const Val is_right = gt(a.in[0], 0);
    return {a.needs(0) ? where(is_right, a.dout, a.dout * a.in[1]) : Val{},
            a.needs(1) ? where(is_right, 0, a.dout * a.in[0]) : Val{}};
  }
};

/// x where x > 0, else alpha (e^(beta x) - 1). Operands x, alpha, beta; the derivative is by x alone, and at 0 that of
/// the left.
struct Elu {
  static constexpr OpInfo info{.name = "elu", .arity = 3, .dtypes = DTypeRule::floating, .is_cheap = false};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue alpha, ScalarValue beta) {
    const ScalarValue zero = s.imm(0, x), curve = ops_detail::expm1(s, s.mul(s.min(x, zero), beta));
    return s.select(s.lt(zero, x), x, s.mul(alpha, curve));
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = a.in[0], slope = a.in[1] * a.in[2] * exp(minimum(x, number(x, 0)) * a.in[2]);
    return {where(gt(x, 0), a.dout, a.dout * slope), Val{}, Val{}};
  }
};

/// x, but 0 where |x| <= width.
struct Hardshrink {
  static constexpr OpInfo info{.name = "hardshrink", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue width) {
    return s.select(s.le(s.abs(x), width), s.imm(0, x), x);
  }
  static ValList vjp(const VjpArgs& a) { return {where(le(abs(a.in[0]), a.in[1]), 0, a.dout), Val{}}; }
};

/// x moved by `width` towards 0, and 0 where it would pass that.
struct Softshrink {
  static constexpr OpInfo info{.name = "softshrink", .arity = 2, .dtypes = DTypeRule::floating};
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x, ScalarValue width) {
    const ScalarValue zero = s.imm(0, x);
    const ScalarValue moved = s.select(s.lt(zero, x), s.sub(x, width), s.add(x, width));
    return s.select(s.le(s.abs(x), width), zero, moved);
  }
  static ValList vjp(const VjpArgs& a) { return {where(le(abs(a.in[0]), a.in[1]), 0, a.dout), Val{}}; }
};

/// gelu with the distribution function as a logistic one: x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
/// Hendrycks and Gimpel 2016. x is bounded where the limit is reached.
struct GeluTanh {
  static constexpr OpInfo info{.name = "gelu_tanh", .arity = 1, .dtypes = DTypeRule::floating, .is_cheap = false};
  static constexpr double slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
  static ScalarValue lower(ScalarBuilder& s, ScalarValue x) {
    const ScalarValue bounded = s.max(x, s.imm(-1e4, x)), square = s.mul(bounded, bounded);
    const ScalarValue twice = s.mul(bounded, s.fma(square, s.imm(slope * cubic, x), s.imm(slope, x)));
    return s.mul(bounded, Sigmoid::lower(s, twice));
  }
  static ValList vjp(const VjpArgs& a) {
    const Val x = minimum(maximum(a.in[0], number(a.in[0], -1e4)), number(a.in[0], 1e4));
    const Val twice = x * (square(x) * (slope * cubic) + slope), share = sigmoid(twice);
    return {a.dout * (share + x * share * sigmoid(-twice) * (square(x) * (3 * slope * cubic) + slope))};
  }
};

}  // namespace ops
SINTER_NAMESPACE_END
