// Shape rule and decomposition of attention.
#pragma once

#include <sinter/ops/attention.hpp>
#include <sinter/ops/batch.hpp>

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
  const Val q = args.in[0], k = args.in[1], v = args.in[2];
  const int last = q.rank() - 1;
  const Dim features = q.shape()[last];
  Val factor;
  if (args.attrs[scale] != 0) factor = number(q, args.attrs[scale]);
  else if (features.is_static()) factor = number(q, 1 / std::sqrt(static_cast<double>(features.value())));
  else factor = rsqrt(element_count(q, {last}, q.dtype()));
  Val scores = matmul(q, transpose(k)) * factor;
  const Shape shape = scores.shape();
  constexpr double unseen = -std::numeric_limits<double>::infinity();
  const bool is_to_end = args.attrs[causal] == Causal::to_end;
  if (args.attrs[causal] != Causal::no) {
    const Shape plane{shape[-2], shape[-1]};
    Val last_seen = iota(q, plane, 0, DType::i64);
    if (is_to_end && !identical(shape[-1], shape[-2]))
      last_seen = last_seen + (element_count(k, {last - 1}, DType::i64) - element_count(q, {last - 1}, DType::i64));
    scores = where(ge(last_seen, iota(q, plane, 1, DType::i64)), scores, unseen);
  }
  if (args.in.size() == 4) {
    const Val mask = args.in[3];
    scores = mask.dtype() == DType::bool_ ? where(mask, scores, unseen) : scores + mask;
  }
  return matmul(gives_zeros(args.attrs, args.in.size() == 4) ? softmax_or_zeros(scores, last) : softmax(scores, last),
                v);
}

SINTER_DECL Batched ScaledDotProductAttention::batch(const BatchArgs& a) {
  ValList operands;
  for (std::size_t i = 0; i < 3; ++i) operands.push_back(ops_detail::with_batch(a, i));
  if (a.in.size() == 4)
    operands.push_back(a.is_batched(3) ? ops_detail::with_rank(a.in[3], operands[0].rank()) : a.in[3]);
  return apply(a.op, operands, a.attrs);
}

}  // namespace ops
SINTER_NAMESPACE_END
