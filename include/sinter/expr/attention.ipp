// Attention as its op; where weights are dropped, spelt out. Rotations as pairs of products.
#pragma once

#include <sinter/expr/attention.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/dropout.hpp>
#include <sinter/expr/recording.hpp>

#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// The op's result with the weights dropped in between: the scores as its decomposition has them.
inline Tensor attention_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                     Location at) {
  const Dim queries = q.shape()[-2], keys = k.shape()[-2];
  Tensor scores = matmul(In(q, at), In(transpose(In(k, at), -2, -1), at));
  if (options.scale) scores = scores * *options.scale;
  else scores = scores * rsqrt(cast(In(Scalar(q.shape()[-1]), at), q.dtype()));
  const double unseen = -std::numeric_limits<double>::infinity();
  const Causal::Alignment alignment = options.causal.alignment();
  if (alignment != Causal::no) {
    const TensorOptions integers{.dtype = DType::i64, .device = q.device()};
    const Tensor row = reshape(In(arange(queries, integers, at), at), Shape{queries, 1});
    const Dim ahead = alignment == Causal::to_end ? keys - queries : Dim(0);
    scores = where(arange(keys, integers, at) <= row + ahead, scores, unseen, at);
  }
  if (options.mask) {
    if (options.mask->dtype() == DType::bool_) scores = where(*options.mask, scores, unseen, at);
    else scores = scores + *options.mask;
  }
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes.push_back(scores.rank() - 1);
  attrs.set(ops::Softmax::empty_rows, ops::Softmax::EmptyRows::zeros);
  const Tensor weights = record<ops::Softmax>({Leaf(scores.impl())}, std::move(shared), at);
  return matmul(In(dropout(In(weights, at), options.dropout), at), In(v, at));
}

inline Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                        Location at) {
  std::vector<Leaf> leaves{Leaf(q.impl()), Leaf(k.impl()), Leaf(v.impl())};
  if (options.mask) leaves.emplace_back(options.mask->impl());
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::ScaledDotProductAttention::causal,
            static_cast<ops::ScaledDotProductAttention::Causal>(options.causal.alignment()));
  if (options.scale) attrs.set(ops::ScaledDotProductAttention::scale, *options.scale);
  const Tensor out(record_shared(op_info<ops::ScaledDotProductAttention>, leaves, std::move(shared), at));
  // The op has checked the operands.
  return options.dropout == 0 ? out : attention_with_dropout(q, k, v, options, at);
}

/// q [..., heads, l, e] as [..., groups, heads / groups, l, e]; k and v with an axis of extent heads / groups there.
inline Tensor grouped_attention(Tensor q, Tensor k, Tensor v, AttentionOptions options, Location at) {
  const Shape whole = q.shape();
  const bool fits = q.rank() >= 3 && k.rank() == q.rank() && v.rank() == q.rank() && k.shape()[-3] == v.shape()[-3] &&
                    whole[-3] % k.shape()[-3] == Dim(0);
  if (!fits)
    throw ShapeError("scaled_dot_product_attention",
                     "q is " + whole.text() + ", k is " + k.shape().text() + ", v is " + v.shape().text(), at,
                     "grouped heads: q (..., heads, l, e), k and v (..., heads / n, s, e)");
  const Dim groups = k.shape()[-3], each = whole[-3] / groups;
  auto stretched = [&](const Tensor& x) {
    const Tensor lifted = unsqueeze(In(x, at), -3);
    Shape shape = lifted.shape();
    shape.set(shape.rank() - 3, each);
    return expand(In(lifted, at), shape);
  };
  q = unflatten(In(q, at), -3, Shape{groups, each});
  if (options.mask && options.mask->rank() >= 3) {
    const Tensor mask = *options.mask;
    const bool is_shared = ops_detail::is_one(mask.shape()[-3]) || stretches(mask.shape()[-3], whole[-3]);
    options.mask = is_shared ? unsqueeze(In(mask, at), -3) : unflatten(In(mask, at), -3, Shape{groups, each});
  }
  const Tensor out = attention(q, stretched(k), stretched(v), options, at);
  return flatten(In(out, at), -4, -3);
}

}  // namespace expr_detail

SINTER_DECL Tensor scaled_dot_product_attention(const In& q, const In& k, const In& v, AttentionOptions options) {
  Tensor queries(q.tensor());
  const Tensor keys(k.tensor()), values(v.tensor());
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw UserError("scaled_dot_product_attention",
                    "dropout is " + std::to_string(options.dropout) + ", it must be in [0, 1]", q.where);
  if (options.scale && *options.scale == 0) {  // the op's 0 stands for 1 / sqrt(d)
    queries = queries * 0.0;
    options.scale = 1;
  }
  if (options.heads == Heads::grouped)
    return expr_detail::grouped_attention(queries, keys, values, std::move(options), q.where);
  return expr_detail::attention(queries, keys, values, options, q.where);
}

namespace expr_detail {
/// The positions as they broadcast against x's pairs: [..., l, 1].
inline Tensor rotary_positions(const Tensor& x, const RotaryOptions& options, Location at) {
  Tensor positions;
  if (options.positions) positions = cast(In(*options.positions, at), x.dtype());
  else positions = arange(x.shape()[-2], {.dtype = x.dtype(), .device = x.device()}, at);
  positions = positions + options.offset;
  if (options.scale != 1) positions = positions * options.scale;
  return unsqueeze(In(positions, at), -1);
}
}  // namespace expr_detail

SINTER_DECL Tensor rotary_embedding(const In& x, RotaryOptions options) {
  constexpr std::string_view op = "rotary_embedding";
  const Location at = x.where;
  const Tensor whole(x.tensor());
  const Shape shape = whole.shape();
  if (!is_floating(whole.dtype()))
    throw DTypeError(op, "x is " + whole.impl()->type.text() + ", it must be floating", at,
                     "cast it to a floating dtype first: cast(x, DType::f32)");
  if (shape.rank() < 2) throw ShapeError(op, "x is " + shape.text(), at, "x must be (..., l, d)");
  if (is_half(whole.dtype())) {  // f16 and bf16 do not hold positions from 2049 and 257 on
    const Tensor wide = cast(In(whole, at), DType::f32);
    return cast(In(rotary_embedding(In(wide, at), std::move(options)), at), whole.dtype());
  }
  const std::int64_t features = options.features == 0 ? static_cast<std::int64_t>(shape[-1]) : options.features;
  if (features < 2 || features % 2 != 0 || !expr_detail::is_at_most(features, shape[-1]))
    throw ShapeError(op, std::to_string(features) + " features of x " + shape.text() + " are to be turned", at,
                     "an even number of at least 2 is required, at most the last extent");
  const std::int64_t half = features / 2;
  const int last = shape.rank() - 1;
  const Tensor pair = arange(half, {.dtype = DType::f64, .device = whole.device()}, at);
  const Tensor frequency =
      cast(In(Tensor(exp(pair * (-2 * std::log(options.base) / static_cast<double>(features)))), at), whole.dtype());
  const Tensor angle = expr_detail::rotary_positions(whole, options, at) * frequency;
  const Tensor c = cos(angle), s = sin(angle);
  const Tensor turned = expr_detail::part_of(whole, last, 0, features, at);
  Tensor result;
  if (options.layout == RotaryLayout::halves) {
    const Tensor a = expr_detail::part_of(turned, last, 0, half, at);
    const Tensor b = expr_detail::part_of(turned, last, half, features, at);
    result = concat({Tensor(a * c - b * s), Tensor(b * c + a * s)}, last, at);
  } else {
    const Tensor pairs = unflatten(In(turned, at), last, Shape{half, 2});
    const Tensor a = select(In(pairs, at), -1, 0), b = select(In(pairs, at), -1, 1);
    result = flatten(In(stack({Tensor(a * c - b * s), Tensor(b * c + a * s)}, -1, at), at), -2, -1);
  }
  if (identical(shape[-1], Dim(features))) return result;
  return concat({result, expr_detail::part_of(whole, last, features, shape[-1], at)}, last, at);
}

SINTER_NAMESPACE_END
