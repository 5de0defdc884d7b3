// Shape rule and decomposition of attention.
#pragma once

#include <sinter/ops/attention.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/join.hpp>

#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// [batch..., l, s].
inline Shape score_shape(const Shape& q, const Shape& k) {
  Shape scores = q;
  scores.set(q.rank() - 1, k[-2]);
  return scores;
}

/// Operands [0, wholes) with the batch, and the mask after them if there is one.
inline ValList batched_attention_operands(const BatchArgs& a, std::size_t wholes) {
  ValList operands;
  for (std::size_t i = 0; i < wholes; ++i) operands.push_back(with_batch(a, i));
  if (a.in.size() > wholes)
    operands.push_back(a.is_batched(wholes) ? with_rank(a.in[wholes], operands[0].rank()) : a.in[wholes]);
  return operands;
}

/// What values are weighed with, and what scores were multiplied by.
struct AttentionWeights {
  Val weights, factor;
};
inline AttentionWeights attention_weights(Val q, Val k, Val mask, const Attrs& attrs) {
  using Op = ops::ScaledDotProductAttention;
  const int last = q.rank() - 1;
  const Dim features = q.shape()[last];
  Val factor;
  if (attrs[Op::scale] != 0) factor = number(q, attrs[Op::scale]);
  else if (features.is_static()) factor = number(q, 1 / std::sqrt(static_cast<double>(features.value())));
  else factor = rsqrt(element_count(q, {last}, q.dtype()));
  Val scores = matmul(q, transpose(k)) * factor;
  const Shape shape = scores.shape();
  constexpr double unseen = -std::numeric_limits<double>::infinity();
  const bool is_to_end = attrs[Op::causal] == Op::Causal::to_end;
  if (attrs[Op::causal] != Op::Causal::no) {
    const Shape plane{shape[-2], shape[-1]};
    Val last_seen = iota(q, plane, 0, DType::i64);
    if (is_to_end && !identical(shape[-1], shape[-2]))
      last_seen = last_seen + (element_count(k, {last - 1}, DType::i64) - element_count(q, {last - 1}, DType::i64));
    scores = where(ge(last_seen, iota(q, plane, 1, DType::i64)), scores, unseen);
  }
  if (mask) scores = mask.dtype() == DType::bool_ ? where(mask, scores, unseen) : scores + mask;
  const bool gives_zeros = Op::gives_zeros(attrs, static_cast<bool>(mask));
  return {gives_zeros ? softmax_or_zeros(scores, last) : softmax(scores, last), factor};
}

/// Whether a kernel may wait for the gradients.
inline bool has_packed_gradients(const VjpArgs& a) {
  using Op = ops::ScaledDotProductAttention;
  if (a.in.size() == 4 && a.needs(3)) return false;
  const Type q = a.in[0].type(), v = a.in[2].type();
  if (q.device == Device::cpu())
    return !is_half(q.dtype) && a.attrs[Op::empty_rows] == Op::EmptyRows::zeros &&
           a.in[1].shape()[-2] >= Dim(ops::ScaledDotProductAttentionGradient::least_host_keys);
  const auto is_few = [](const Dim features) {
    return features.is_static() && features.value() <= ops::ScaledDotProductAttentionGradient::most_features;
  };
  return (is_half(q.dtype) || q.dtype == DType::f32) && is_few(q.shape[-1]) && is_few(v.shape[-1]);
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type ScaledDotProductAttention::infer(const InferArgs& args) {
  ops_detail::require_count(args, 3, 4);
  ops_detail::require_floating(args);
  const Shape &q = args.in[0].shape, &k = args.in[1].shape, &v = args.in[2].shape;
  for (std::size_t i = 1; i < 3; ++i) ops_detail::require_same_dtype(args, 0, i);
  const int rank = q.rank();
  bool fits = rank >= 2 && k.rank() == rank && v.rank() == rank && k[-1] == q[-1] && v[-2] == k[-2];
  for (int i = 0; fits && i + 2 < rank; ++i) fits = k[i] == q[i] && v[i] == q[i];
  if (!fits)
    throw ShapeError(args.op, "q is " + q.text() + ", k is " + k.text() + ", v is " + v.text(), args.where,
                     "q must be (..., l, e), k (..., s, e) and v (..., s, f)");
  if (args.in.size() == 4) {
    const Shape scores = ops_detail::score_shape(q, k);
    if (args.in[3].dtype != DType::bool_) ops_detail::require_same_dtype(args, 0, 3);
    if (!(broadcast(scores, args.in[3].shape, args.op, args.where) == scores))
      throw ShapeError(args.op, "the mask is " + args.in[3].shape.text() + ", it must broadcast to " + scores.text(),
                       args.where);
  }
  const Causal alignment = args.attrs[causal];
  if (alignment > Causal::to_end)
    throw UserError(args.op,
                    "causal has the value " + std::to_string(static_cast<int>(alignment)) + ", which is no Causal",
                    args.where);
  if (alignment == Causal::equal_lengths && !(q[-2] == k[-2]))
    throw ShapeError(args.op,
                     "causal attention of " + q[-2].text() + " queries to " + k[-2].text() + " keys: q is " + q.text() +
                         ", k is " + k.text(),
                     args.where,
                     "Causal::to_end lets the last query see all keys, as with a cache of keys; Causal::from_start "
                     "lets query i see keys up to i");
  Shape out = q;
  out.set(rank - 1, v[-1]);
  return ops_detail::with_shape(args, out);
}

SINTER_DECL Val ScaledDotProductAttention::decompose(const DecomposeArgs& args) {
  const bool has_mask = args.in.size() == 4;
  return matmul(
      ops_detail::attention_weights(args.in[0], args.in[1], has_mask ? args.in[3] : Val(), args.attrs).weights,
      args.in[2]);
}

SINTER_DECL ValList ScaledDotProductAttention::vjp(const VjpArgs& a) {
  using Gradient = ScaledDotProductAttentionGradient;
  if (!ops_detail::has_packed_gradients(a)) return {};
  ValList operands{a.in[0], a.in[1], a.in[2], a.out, a.dout};
  if (a.in.size() == 4) operands.push_back(a.in[3]);
  const bool is_by_batch = a.in[0].type().device == Device::cpu();  // there it may be divided along the batch
  Attrs attrs = a.attrs;
  if (is_by_batch) attrs.set(Gradient::packing, Gradient::Packing::batch);
  const Val packed = apply(op_info<Gradient>, operands, attrs);
  ValList gradients;
  Dim start = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Shape shape = a.in[i].shape();
    const Dim end = start + (is_by_batch ? shape[-2] * shape[-1] : shape.numel(a.where));
    gradients.push_back(reshape(slice_axis(packed, packed.rank() - 1, start, end), shape));
    start = end;
  }
  if (a.in.size() == 4) gradients.push_back(Val());
  return gradients;
}

SINTER_DECL Type ScaledDotProductAttentionGradient::infer(const InferArgs& args) {
  ops_detail::require_count(args, 5, 6);
  const bool has_mask = args.in.size() == 6;
  const Type forward[] = {args.in[0], args.in[1], args.in[2], args.in[has_mask ? 5 : 2]};
  const Type out = ScaledDotProductAttention::infer({{forward, has_mask ? 4U : 3U}, args.attrs, args.op, args.where});
  for (std::size_t i = 3; i < 5; ++i) {
    ops_detail::require_same_dtype(args, 0, i);
    if (!(args.in[i].shape == out.shape))
      throw ShapeError(args.op, (i == 3 ? "out is " : "dout is ") + args.in[i].shape.text(), args.where,
                       "attention of these operands is " + out.shape.text());
  }
  Dim total = 0;
  if (args.attrs[packing] == Packing::whole) {
    for (std::size_t i = 0; i < 3; ++i) total = total + args.in[i].shape.numel(args.where);
    return ops_detail::with_shape(args, Shape{total});
  }
  Shape packed;
  for (int axis = 0; axis + 2 < args.in[0].shape.rank(); ++axis) packed.push_back(args.in[0].shape[axis]);
  for (std::size_t i = 0; i < 3; ++i) total = total + args.in[i].shape[-2] * args.in[i].shape[-1];
  packed.push_back(total);
  return ops_detail::with_shape(args, packed);
}

SINTER_DECL Val ScaledDotProductAttentionGradient::decompose(const DecomposeArgs& args) {
  const Val q = args.in[0], k = args.in[1], v = args.in[2], dout = args.in[4];
  const auto [weights, factor] =
      ops_detail::attention_weights(q, k, args.in.size() == 6 ? args.in[5] : Val(), args.attrs);
  const IntVector last{q.rank() - 1};
  const Val dweights = matmul(dout, transpose(v)),
            dscores = weights * (dweights - sum(dweights * weights, last, ReducedAxes::kept)) * factor;
  ValList gradients{matmul(dscores, k), matmul(transpose(dscores), q), matmul(transpose(weights), dout)};
  const bool is_whole = args.attrs[packing] == Packing::whole;
  for (Val& gradient : gradients) {
    const Shape shape = gradient.shape();
    Shape flat;
    if (is_whole) flat.push_back(shape.numel(args.where));
    for (int axis = 0; !is_whole && axis + 2 < shape.rank(); ++axis) flat.push_back(shape[axis]);
    if (!is_whole) flat.push_back(shape[-2] * shape[-1]);
    gradient = reshape(gradient, flat);
  }
  return apply(op_info<Concat>, gradients, Attrs{.axes = {gradients[0].rank() - 1}});
}

SINTER_DECL Batched ScaledDotProductAttention::batch(const BatchArgs& a) {
  return apply(a.op, ops_detail::batched_attention_operands(a, 3), a.attrs);
}

/// The gradients of one example lie one after the other, those of the batch do not unless they are packed by batch.
SINTER_DECL Batched ScaledDotProductAttentionGradient::batch(const BatchArgs& a) {
  const ValList operands = ops_detail::batched_attention_operands(a, 5);
  const Val packed = apply(a.op, operands, a.attrs);
  if (a.attrs[packing] == Packing::batch) return packed;
  ValList parts;
  Dim start = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Shape shape = operands[i].shape();
    Shape example;
    for (int axis = 1; axis < shape.rank(); ++axis) example.push_back(shape[axis]);
    const Dim end = start + shape.numel(a.where);
    parts.push_back(reshape(slice_axis(packed, 0, start, end), Shape{shape[0], example.numel(a.where)}));
    start = end;
  }
  return apply(op_info<Concat>, parts, Attrs{.axes = {1}});
}

}  // namespace ops
SINTER_NAMESPACE_END
