// Functions that are formulas of others.
#pragma once

#include <sinter/expr/elementwise.hpp>

#include <sinter/expr/complex.hpp>
#include <sinter/expr/term.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Tensor polygamma(int order, const In& x) {
  if (order < 1 || order > 30)
    throw UserError("polygamma", "the order is " + std::to_string(order), x.where,
                    "it goes from 1 to 30; digamma is that of order 0");
  Attrs attrs;
  attrs.set(ops::Polygamma::order, order);
  const expr_detail::Term t = expr_detail::floating(x);
  return Tensor(record_op(op_info<ops::Polygamma>, {expr_detail::leaf_of(t)}, std::move(attrs), x.where));
}

SINTER_DECL Tensor positive(const In& x) { return Tensor(x.tensor()); }

SINTER_DECL Tensor frac(const In& x) {
  const expr_detail::Term t(x);
  return t - expr_detail::apply<ops::Trunc>(t);
}

SINTER_DECL Tensor isreal(const In& x) {
  const Ref<TensorImpl> like = x.tensor();
  if (is_complex(like->type.dtype)) return imag(x) == 0;
  return ones(like->type.shape, {.dtype = DType::bool_, .device = like->type.device}, x.where);
}

SINTER_DECL Frexp frexp(const In& x) {
  const expr_detail::Term t = expr_detail::floating(x);
  Attrs attrs{.dtype = DType::i32, .has_dtype = true};
  return {expr_detail::apply<ops::FrexpFraction>(t),
          Tensor(record_op(op_info<ops::FrexpExponent>, {expr_detail::leaf_of(t)}, std::move(attrs), x.where))};
}

SINTER_DECL Tensor bitcast(const In& x, DType dtype) {
  const Ref<TensorImpl> value = x.tensor();
  if (value->type.dtype == dtype) return Tensor(value);
  ops_detail::require_same_bits("bitcast", value->type.dtype, dtype, x.where);
  Attrs attrs{.dtype = dtype, .has_dtype = true};
  return Tensor(record_op(op_info<ops::Bitcast>, {Leaf(value)}, std::move(attrs), x.where));
}

SINTER_DECL DivMod divmod(const In& a, const In& b) {
  const Leaf x = a.leaf, y = b.leaf;
  return {Tensor(record_op(op_info<ops::FloorDivide>, {x, y}, {}, a.where)),
          Tensor(record_op(op_info<ops::Rem>, {x, y}, {}, a.where))};
}

/// Beyond the threshold the result is x in its dtype anyway; the parameter is there for those who ask for another.
SINTER_DECL Tensor softplus(const In& x, double beta, double threshold) {
  const expr_detail::Term t = expr_detail::floating(x), scaled = t * beta;
  return where_of(threshold < scaled, t, expr_detail::apply<ops::Softplus>(scaled) * (1 / beta));
}

SINTER_DECL Tensor nan_to_num(const In& x, NanToNumOptions options) {
  const expr_detail::Term t(x);
  if (is_complex(t.dtype())) return view_as_complex(In(nan_to_num(In(view_as_real(t), x.where), options), x.where));
  if (!is_floating(t.dtype())) return t;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double largest = row(t.dtype()).largest();
  const expr_detail::Term above = where_of(t == infinity, options.posinf.value_or(largest), t);
  const expr_detail::Term finite = where_of(t == -infinity, options.neginf.value_or(-largest), above);
  return where_of(t != t, options.nan, finite);
}

namespace expr_detail {
/// An op of operands as they were given: numbers among them decide no dtype.
template <class Op, class... Rest>
Term on_operands(const In& first, const Rest&... rest) {
  return {Tensor(record_op(op_info<Op>, {first.leaf, rest.leaf...}, {}, first.where)), first.where};
}
inline Term is_not_zero(const In& x) { return on_operands<ops::Ne>(x, In(0, x.where)); }
/// An extreme of two numbers, of which only one that is no NaN counts.
template <class Extreme>
Term extreme_number(const In& a, const In& b) {
  const Term either_one = on_operands<Extreme>(a, b);
  const Term a_counts = on_operands<ops::Where>(In(on_operands<ops::Ne>(b, b)), a, In(either_one));
  return on_operands<ops::Where>(In(on_operands<ops::Ne>(a, a)), b, In(a_counts));
}
/// The bound where x is on or beyond it, or the bound is NaN.
template <class Beyond>
Term limited(const In& x, const In& bound) {
  const Term takes_bound = either(on_operands<Beyond>(x, bound), on_operands<ops::Ne>(bound, bound));
  return on_operands<ops::Where>(In(takes_bound), bound, x);
}
}  // namespace expr_detail

namespace expr_detail {
/// A formula of several operations with its operands in the dtype of its result: no part of it wraps or overflows in a
/// narrower one.
template <class Formula>
Tensor in_dtype_of_result(const In& a, const In& b, const Formula& formula) {
  const Tensor plain = formula(a, b);
  const auto is_other = [&](const In& x) { return x.leaf.value && x.leaf.value->type.dtype != plain.dtype(); };
  const auto widened = [&](const In& x) { return is_other(x) ? In(Tensor(cast(x, plain.dtype())), x.where) : x; };
  return is_other(a) || is_other(b) ? formula(widened(a), widened(b)) : plain;
}
}  // namespace expr_detail

/// Of whole numbers, and of a whole value, it is whole.
SINTER_DECL Tensor addcmul(const In& x, const In& a, const In& b, double value) {
  using expr_detail::on_operands;
  return expr_detail::in_dtype_of_result(a, b, [&](const In& first, const In& second) -> Tensor {
    return on_operands<ops::Add>(x, In(expr_detail::scaled_by(on_operands<ops::Mul>(first, second), value)));
  });
}
SINTER_DECL Tensor addcdiv(const In& x, const In& a, const In& b, double value) {
  using expr_detail::on_operands;
  return expr_detail::in_dtype_of_result(a, b, [&](const In& first, const In& second) -> Tensor {
    return on_operands<ops::Add>(x, In(on_operands<ops::Div>(first, second) * value));
  });
}
SINTER_DECL Tensor fmax(const In& a, const In& b) { return expr_detail::extreme_number<ops::Maximum>(a, b); }
SINTER_DECL Tensor fmin(const In& a, const In& b) { return expr_detail::extreme_number<ops::Minimum>(a, b); }
SINTER_DECL Tensor clamp_min(const In& x, const In& low) { return expr_detail::limited<ops::Le>(x, low); }
SINTER_DECL Tensor clamp_max(const In& x, const In& high) { return expr_detail::limited<ops::Ge>(x, high); }
SINTER_DECL Tensor float_power(const In& a, const In& b) {
  const auto wide = [&](const In& x) {
    const bool is_pair = x.leaf.value && is_complex(x.leaf.value->type.dtype);
    return In(cast(x, is_pair ? DType::c128 : DType::f64), a.where);
  };
  return expr_detail::on_operands<ops::Pow>(wide(a), wide(b));
}
SINTER_DECL Tensor true_divide(const In& a, const In& b) { return expr_detail::on_operands<ops::Div>(a, b); }
SINTER_DECL Tensor rsub(const In& a, const In& b, double alpha) {
  if (alpha == 1) return expr_detail::on_operands<ops::Sub>(b, a);
  return expr_detail::in_dtype_of_result(a, b, [&](const In& first, const In& second) -> Tensor {
    const expr_detail::Term scaled = expr_detail::scaled_by(expr_detail::operand_beside(first, second), alpha);
    return expr_detail::on_operands<ops::Sub>(second, In(scaled));
  });
}
SINTER_DECL Tensor negative(const In& x) { return expr_detail::on_operands<ops::Neg>(x); }
SINTER_DECL Tensor sgn(const In& x) {
  if (!is_complex(x)) return expr_detail::on_operands<ops::Sign>(x);
  const expr_detail::Term z(x), size = expr_detail::absolute(z);
  const expr_detail::Term is_zero = size == 0.0;
  return where_of(is_zero, 0.0, z / where_of(is_zero, 1.0, size));
}

SINTER_DECL Tensor logical_and(const In& a, const In& b) {
  return both(expr_detail::is_not_zero(a), expr_detail::is_not_zero(b));
}
SINTER_DECL Tensor logical_or(const In& a, const In& b) {
  return either(expr_detail::is_not_zero(a), expr_detail::is_not_zero(b));
}
SINTER_DECL Tensor logical_xor(const In& a, const In& b) {
  return expr_detail::is_not_zero(a) != expr_detail::is_not_zero(b);
}
SINTER_DECL Tensor operator~(const In& x) { return expr_detail::on_operands<ops::Not>(x); }
SINTER_DECL Tensor logical_not(const In& x) { return expr_detail::on_operands<ops::Eq>(x, In(0, x.where)); }

/// log is asked for positive numbers alone, so that derivatives elsewhere are no NaN of its own. At 0 the function
/// rises as a square root does: the derivative is infinite.
SINTER_DECL Tensor entr(const In& x) {
  using expr_detail::Term;
  const Term t = expr_detail::floating(x), is_positive = 0.0 < t, inside = where_of(is_positive, t, 1.0);
  const Term is_zero = t == 0.0;
  const Term at_zero = expr_detail::apply<ops::Sqrt>(where_of(is_zero, t + 0.0, 1.0));  // of -0 too
  const Term below = where_of(t < 0.0, -std::numeric_limits<double>::infinity(), t);    // NaN stays
  return where_of(is_positive, -(inside * expr_detail::apply<ops::Log>(inside)), where_of(is_zero, at_zero, below));
}
SINTER_DECL Tensor ndtr(const In& x) { return expr_detail::apply<ops::Ndtr>(expr_detail::floating(x)); }

namespace expr_detail {
SINTER_DECL void require_width(double width, Location where) {
  if (!(width >= 0))
    throw UserError("softshrink", "width is " + std::to_string(width), where, "it must not be negative");
}
SINTER_DECL void require_order(double low, double high, Location where) {
  if (low > high)
    throw UserError("hardtanh", "low is " + std::to_string(low) + ", high is " + std::to_string(high), where,
                    "low must not be greater than high");
}
}  // namespace expr_detail

SINTER_DECL Tensor isclose(const In& a, const In& b, CloseOptions options) {
  using expr_detail::Term;
  if (!(options.rtol >= 0 && options.atol >= 0))
    throw UserError("isclose", "rtol is " + std::to_string(options.rtol) + ", atol is " + std::to_string(options.atol),
                    a.where, "neither may be negative");
  const auto number_of = [](const In& v) {  // f64 has more integers than f32
    const Term t(v);
    return is_differentiable(t.dtype()) ? t : Term(cast(v, DType::f64), v.where);
  };
  const Term x = number_of(a), y = number_of(b);
  const Term is_near =
      both(absolute(x - y) <= absolute(y) * options.rtol + options.atol, expr_detail::apply<ops::IsFinite>(y));
  const Term is_close = either(x == y, is_near);
  return options.equal_nan ? either(is_close, both(x != x, y != y)) : is_close;
}

SINTER_DECL Tensor glu(const In& x, int axis) {
  const expr_detail::Term t(x);
  const int at = normalise_axis(axis, t.rank(), "glu", x.where);
  const Dim extent = t.shape()[at];
  if (extent.is_static() && extent.value() % 2 != 0)
    throw ShapeError("glu", "x is " + t.shape().text() + ", and axis " + std::to_string(at) + " has no halves", x.where,
                     "its extent must be even");
  const std::vector<Tensor> halves = split(t, 2, at);
  const expr_detail::Term a(halves[0], x.where), b(halves[1], x.where);
  return a * expr_detail::apply<ops::Sigmoid>(b);
}

SINTER_DECL Tensor prelu(const In& x, const In& weight) {
  const expr_detail::Term t(x), w = expr_detail::operand_beside(weight, x);
  if (w.rank() > 1 ||
      (w.rank() == 1 && t.rank() > 1 && !(w.shape()[0] == t.shape()[1]) && !stretches(w.shape()[0], t.shape()[1])))
    throw ShapeError("prelu", "x is " + t.shape().text() + ", weight is " + w.shape().text(), x.where,
                     "weight must be one number, or one for each channel of axis 1");
  if (w.rank() == 1 && t.rank() == 0)
    return expr_detail::apply<ops::LeakyRelu>(t, expr_detail::Term(reshape(w, {}), x.where));
  if (w.rank() == 0 || t.rank() < 2) return expr_detail::apply<ops::LeakyRelu>(t, w);
  Shape along{w.shape()[0]};
  for (int i = 2; i < t.rank(); ++i) along.push_back(1);
  return expr_detail::apply<ops::LeakyRelu>(t, expr_detail::Term(reshape(w, along), x.where));
}

SINTER_DECL Tensor rrelu(const In& x, double lower, double upper) {
  return expr_detail::apply<ops::LeakyRelu>(expr_detail::Term(x), (lower + upper) / 2);
}

namespace expr_detail {
/// Uniform in [0, 1), one for each element of x, of the dtype in which x is computed.
inline Term drawn_like(const Term& x) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {rand(x.shape(), {.dtype = dtype, .device = x.value.device()}, x.where), x.where};
}
}  // namespace expr_detail

SINTER_DECL Tensor rrelu_training(const In& x, double lower, double upper) {
  const expr_detail::Term t = expr_detail::floating(x);
  if (!(lower <= upper))
    throw UserError("rrelu_training", "lower is " + std::to_string(lower) + ", upper is " + std::to_string(upper),
                    x.where, "lower must be at most upper");
  const expr_detail::Term slope = expr_detail::drawn_like(t) * (upper - lower) + lower;
  return where_of(t <= 0.0, t * expr_detail::Term(cast(slope, t.dtype()), x.where), t);
}

SINTER_DECL Tensor threshold(const In& x, double threshold, double value) {
  const expr_detail::Term t(x);
  return where_of(t <= threshold, value, t);
}

SINTER_DECL Tensor softmin(const In& x, int axis) { return softmax(-expr_detail::Term(x), axis); }

/// Gumbel's numbers are -log of exponential ones. Hard ones are exact: what is added for the derivative is 0.
SINTER_DECL Tensor gumbel_softmax(const In& logits, GumbelSoftmaxOptions options) {
  using expr_detail::Term;
  constexpr std::string_view op = "gumbel_softmax";
  const Term x = expr_detail::floating(logits);
  const Location at = x.where;
  if (!(options.tau > 0)) throw UserError(op, "tau is " + std::to_string(options.tau), at, "it must be positive");
  const int axis = normalise_axis(options.axis, x.rank(), op, at);
  const Term waiting = -expr_detail::apply<ops::Log1p>(-expr_detail::drawn_like(x));
  // 0 is drawn once in 2^24 times: half of the next number, for a finite logarithm.
  const Term noise = -expr_detail::apply<ops::Log>(where_of(waiting == 0.0, 0x1p-25, waiting));
  const Term soft(softmax((x + Term(cast(noise, x.dtype()), at)) / options.tau, axis), at);
  if (!options.hard) return soft;
  Shape column{x.shape()[axis]};
  for (int i = axis + 1; i < x.rank(); ++i) column.push_back(1);
  const Term places(reshape(arange(x.shape()[axis], {.dtype = DType::i64, .device = x.value.device()}, at), column),
                    at);
  const Term is_largest = places == Term(argmax(soft, axis, Keep::yes), at);
  return Term(cast(is_largest, x.dtype()), at) + (soft - Term(stop_gradient(soft.value), at));
}

SINTER_NAMESPACE_END
