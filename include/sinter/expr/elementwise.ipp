// Functions that are formulas of others.
#pragma once

#include <sinter/expr/elementwise.hpp>
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
  if (!is_floating(t.dtype())) return t;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double largest = row(t.dtype()).largest;
  const expr_detail::Term above = where_of(t == infinity, options.posinf.value_or(largest), t);
  const expr_detail::Term finite = where_of(t == -infinity, options.neginf.value_or(-largest), above);
  return where_of(t != t, options.nan, finite);
}

SINTER_DECL Tensor addcmul(const In& x, const In& a, const In& b, double value) {
  return expr_detail::Term(x) + expr_detail::Term(a) * expr_detail::Term(b) * value;
}
SINTER_DECL Tensor addcdiv(const In& x, const In& a, const In& b, double value) {
  return expr_detail::Term(x) + expr_detail::Term(a) / expr_detail::Term(b) * value;
}

SINTER_DECL Tensor isclose(const In& a, const In& b, CloseOptions options) {
  using expr_detail::Term;
  const auto number_of = [](const In& v) {  // f64 has more integers than f32
    const Term t(v);
    return is_floating(t.dtype()) ? t : Term(cast(v, DType::f64), v.where);
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
  const expr_detail::Term t(x), w(weight);
  if (w.rank() > 1 || (w.rank() == 1 && t.rank() > 1 && !(w.shape()[0] == t.shape()[1]) &&
                       !(w.shape()[0].is_static() && w.shape()[0].value() == 1)))
    throw ShapeError("prelu", "x is " + t.shape().text() + ", weight is " + w.shape().text(), x.where,
                     "weight must be one number, or one for each channel of axis 1");
  if (w.rank() == 0 || t.rank() < 2) return expr_detail::apply<ops::LeakyRelu>(t, w);
  Shape along{w.shape()[0]};
  for (int i = 2; i < t.rank(); ++i) along.push_back(1);
  return expr_detail::apply<ops::LeakyRelu>(t, expr_detail::Term(reshape(w, along), x.where));
}

SINTER_DECL Tensor rrelu(const In& x, double lower, double upper) {
  return expr_detail::apply<ops::LeakyRelu>(expr_detail::Term(x), (lower + upper) / 2);
}

SINTER_DECL Tensor threshold(const In& x, double threshold, double value) {
  const expr_detail::Term t(x);
  return where_of(t <= threshold, value, t);
}

SINTER_DECL Tensor softmin(const In& x, int axis) { return softmax(-expr_detail::Term(x), axis); }

SINTER_NAMESPACE_END
