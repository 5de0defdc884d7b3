// Shape rules and decompositions of losses.
#pragma once

#include <sinter/ops/custom_derivative.hpp>
#include <sinter/ops/loss.hpp>
#include <sinter/ops/take.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// What forward and gradient of a cross entropy say of its targets.
struct Targets {
  Val is_target;  // [n, c]: whether each column is the row's class
  Val counts;     // [n, 1]: whether the row does
  Val weight;     // [n, 1]: of the row's class, where there are weights; else empty
  Val total;      // (): what the mean is divided by, the rows that count or their weights; else empty
};

/// Targets are checked by a gather of their class. For the mean that is done where rows are counted, in a kernel of
/// single numbers before that of the rows, which every result waits for; otherwise where a row is taken or left out.
inline Targets targets_of(Val logits, Val target, Val weight, const Attrs& attrs) {
  const Shape shape = logits.shape();
  const Dim rows = shape[0], classes = shape[1];
  using ops::CrossEntropy;
  const bool is_mean = attrs[CrossEntropy::reduction] == CrossEntropy::Reduction::mean;
  const Val ignored = integer_number(target, attrs[CrossEntropy::ignore_index]);
  Val counts = ne(target, ignored);
  const Val valid = where(counts, target, 0);
  Targets out;
  out.is_target = eq(iota(logits, shape, 1, target.dtype()), reshape(target, {rows, 1}));
  if (weight) {
    const Val of_row = take(weight, valid, 0);
    out.weight = reshape(of_row, {rows, 1});
    if (is_mean) out.total = sum(where(counts, of_row, 0), {0});
  } else {
    const Val checked = ne(checked_index(target, valid, classes), ignored);
    if (is_mean) out.total = cast(sum(cast(checked, DType::i64), {0}), logits.dtype());
    else counts = checked;
  }
  // After the total, and as a floating number: so it is stored by the kernel that counts, which a kernel of rows then
  // waits for, and no row works with integers as wide as targets but to compare them with its columns.
  if (is_mean) counts = ne(where(counts, apply(op_info<ops::Barrier>, {number(logits, 1), out.total}), 0), 0);
  out.counts = reshape(counts, {rows, 1});
  return out;
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type CrossEntropy::infer(const InferArgs& args) {
  ops_detail::require_count(args, 2, 3);
  ops_detail::require_floating(args);
  ops_detail::require_integer(args, 1);
  const Shape &logits = args.in[0].shape, &target = args.in[1].shape;
  const Attrs& attrs = args.attrs;
  if (attrs[reduction] > Reduction::none)
    throw UserError(
        args.op,
        "reduction has the value " + std::to_string(static_cast<int>(attrs[reduction])) + ", which is no LossReduction",
        args.where);
  if (!(attrs[label_smoothing] >= 0 && attrs[label_smoothing] <= 1))
    throw UserError(args.op, "label_smoothing is " + std::to_string(attrs[label_smoothing]), args.where,
                    "it goes from 0 to 1");
  const std::int64_t ignored = attrs[ignore_index];
  if (args.in[1].dtype == DType::i32 && ignored != static_cast<std::int32_t>(ignored))
    throw UserError(args.op, "ignore_index is " + std::to_string(ignored) + ", which no target of i32 can be",
                    args.where);
  if (logits.rank() != 2 || target.rank() != 1 || !(logits[0] == target[0]))
    throw ShapeError(args.op, "logits are " + logits.text() + ", target is " + target.text(), args.where,
                     "logits must be (n, classes) and target (n,)");
  if (ops_detail::is_zero(logits[1]))
    throw ShapeError(args.op, "logits are " + logits.text() + ": there is no class", args.where);
  if (args.in.size() == 3) {
    ops_detail::require_same_dtype(args, 0, 2);
    if (args.in[2].shape.rank() != 1 || !(args.in[2].shape[0] == logits[1]))
      throw ShapeError(args.op, "logits are " + logits.text() + ", weight is " + args.in[2].shape.text(), args.where,
                       "weight must be (classes,)");
  }
  return ops_detail::with_shape(args, attrs[reduction] == Reduction::none ? Shape{logits[0]} : Shape{});
}

SINTER_DECL Val CrossEntropy::decompose(const DecomposeArgs& args) {
  const Val logits = args.in[0], weight = args.in.size() == 3 ? args.in[2] : Val{};
  const double smoothing = args.attrs[label_smoothing];
  const ops_detail::Targets targets = ops_detail::targets_of(logits, args.in[1], weight, args.attrs);
  const Val x = logits - amax(logits, {1}, kept);  // the shift cancels in the differences below
  // Kept axes, so that the gradient's softmax shares these sums.
  // Rows come after their total: a kernel that made it together with the sum of losses would leave gradients, which
  // wait for the total, to another pass over the rows.
  const Val seen = targets.total ? apply(op_info<Barrier>, {x, targets.total}) : x;
  const Val normaliser = log(sum(exp(x), {1}, kept)), picked = sum(where(targets.is_target, seen, 0), {1}, kept);
  Val loss = normaliser - picked;
  if (weight) loss = loss * targets.weight;
  if (smoothing != 0) {  // the same with every class as target
    const Val each = weight ? (normaliser - x) * weight : normaliser - x;
    loss = loss * (1 - smoothing) + sum(each, {1}, kept) * smoothing / element_count(logits, {1}, logits.dtype());
  }
  loss = where(targets.counts, loss, 0);
  switch (args.attrs[reduction]) {
    case Reduction::none: return reshape(loss, {logits.shape()[0]});
    case Reduction::sum: return sum(loss, {0, 1});
    case Reduction::mean: break;
  }
  return sum(loss, {0, 1}) / targets.total;
}

/// By a row's logits: weight * (softmax - one_hot), and of the smoothing softmax * sum(weights) - weights.
SINTER_DECL ValList CrossEntropy::vjp(const VjpArgs& a) {
  // The number of rows may be beyond the range of f16, and a row's share below it.
  const bool is_narrow = is_half(a.in[0].dtype());
  const auto wide = [is_narrow](const Val& x) { return is_narrow ? cast(x, DType::f32) : x; };
  // The weights are a constant in derivatives of this one, too.
  const Val logits = wide(a.in[0]), weight = a.in.size() == 3 ? wide(apply(op_info<StopGradient>, {a.in[2]})) : Val{};
  const double smoothing = a.attrs[label_smoothing];
  const ops_detail::Targets targets = ops_detail::targets_of(logits, a.in[1], weight, a.attrs);
  const Val p = wide(softmax(a.in[0], 1));
  Val by_logits = where(targets.is_target, p - 1, p);
  if (weight) by_logits = by_logits * targets.weight;
  if (smoothing != 0) {
    const Val classes = element_count(logits, {1}, logits.dtype());
    const Val each = weight ? p * sum(weight, {0}) - weight : p * classes - 1;
    by_logits = by_logits * (1 - smoothing) + each * smoothing / classes;
  }
  Val scale = wide(a.dout);
  if (a.attrs[reduction] == Reduction::none) scale = reshape(scale, {logits.shape()[0], 1});
  if (a.attrs[reduction] == Reduction::mean) scale = scale / targets.total;
  const Val slope = by_logits * where(targets.counts, scale, 0);
  const Val gradient = is_narrow ? cast(slope, a.in[0].dtype()) : slope;
  return weight ? ValList{gradient, Val{}, Val{}} : ValList{gradient, Val{}};
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
