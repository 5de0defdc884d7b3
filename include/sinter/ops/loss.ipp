// Shape rules and decompositions of losses.
#pragma once

#include <sinter/ops/loss.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Whether each column of the logits is the row's class.
inline Val is_target(Val logits, Val target) {
  const Shape shape = logits.shape();
  return eq(iota(logits, shape, 1, target.dtype()), reshape(target, {shape[0], 1}));
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type CrossEntropy::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_integer(args, 1);
  const Shape &logits = args.in[0].shape, &target = args.in[1].shape;
  if (logits.rank() != 2 || target.rank() != 1 || !(logits[0] == target[0]))
    throw ShapeError(args.op, "logits are " + logits.text() + ", target is " + target.text(), args.where,
                     "logits must be (n, classes) and target (n,)");
  if (ops_detail::is_zero(logits[1])) throw ShapeError(args.op, "logits are " + logits.text() + ": there is no class", args.where);
  return ops_detail::with_shape(args, {});
}

SINTER_DECL Val CrossEntropy::decompose(const DecomposeArgs& args) {
  const Val logits = args.in[0], target = args.in[1];
  const Val x = logits - amax(logits, {1}, kept);   // the shift cancels in the difference below
  // Kept axes, so that the gradient's softmax shares these sums.
  const Val picked = sum(where(ops_detail::is_target(logits, target), x, 0), {1}, kept);
  return mean(log(sum(exp(x), {1}, kept)) - picked, {0, 1});
}

/// (softmax(logits) - one_hot(target)) / n.
SINTER_DECL ValList CrossEntropy::vjp(const VjpArgs& a) {
  const Val logits = a.in[0];
  const Val p = softmax(logits, 1);
  const Val scale = a.dout / element_count(logits, {0}, logits.dtype());
  return {where(ops_detail::is_target(logits, a.in[1]), p - 1, p) * scale, Val{}};
}

SINTER_DECL Type MseLoss::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args);
  broadcast(args.in[0].shape, args.in[1].shape, args.op, args.where);
  return ops_detail::with_shape(args, {});
}
SINTER_DECL Val MseLoss::decompose(const DecomposeArgs& args) {
  const Val difference = square(args.in[0] - args.in[1]);
  return mean(difference, all_axes(difference));
}

}  // namespace ops
SINTER_NAMESPACE_END
