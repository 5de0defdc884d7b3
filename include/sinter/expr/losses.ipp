// The losses' formulas. Every node has the line of the user's call.
#pragma once

#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/losses.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/statistics.hpp>
#include <sinter/expr/term.hpp>

#include <cmath>
#include <numbers>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline void require_reduction(LossReduction reduction, std::string_view op, Location where) {
  if (reduction == LossReduction::batchmean)
    throw UserError(op, "reduction is batchmean, which kl_div alone has", where,
                    "take LossReduction::sum, and divide by the extent of the batch");
  if (reduction > LossReduction::batchmean)
    throw UserError(
        op, "reduction has the value " + std::to_string(static_cast<int>(reduction)) + ", which is no LossReduction",
        where);
}
inline Tensor reduced(const Term& losses, LossReduction reduction, std::string_view op) {
  require_reduction(reduction, op, losses.where);
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::sum ? sum_of(losses) : mean_of(losses);
}
inline void require_positive_margin(double margin, std::string_view op, Location where) {
  if (!(margin > 0)) throw UserError(op, "margin is " + std::to_string(margin), where, "it must be greater than 0");
}
/// Two operands of a loss: floating, and of shapes that broadcast, or the error names the loss.
struct LossOperands {
  Term x, target;
};
inline LossOperands loss_operands(const In& x, const In& target, std::string_view op, bool takes_complex = false) {
  LossOperands out{floating(operand_beside(x, target)), floating(operand_beside(target, x))};
  for (const Term* each : {&out.x, &out.target})
    if (!takes_complex && is_complex(each->dtype()))
      throw DTypeError(op, "an operand is " + each->value.impl()->type.text() + ", real tensors are required", x.where,
                       "give it the parts, view_as_real(z), or abs(z)");
  broadcast(out.x.shape(), out.target.shape(), op, x.where);
  return out;
}
inline Term weighted(const Term& losses, const std::optional<Tensor>& weight) {
  return weight ? losses * Term(*weight, losses.where) : losses;
}
/// The same with a weight for each of them.
inline Term weighted_each(const Term& losses, const std::optional<Tensor>& weight, std::string_view op) {
  if (weight && !(weight->shape() == losses.shape()))
    throw ShapeError(op, "the losses are " + losses.shape().text() + ", weight is " + weight->shape().text(),
                     losses.where, "one weight for each of them is required");
  return weighted(losses, weight);
}

/// That there is one target for each row of classes: (classes,) and (), or (n, classes, d...) and (n, d...).
inline void require_targets(const Shape& x, const Shape& target, const char* name, std::string_view op,
                            Location where) {
  const int first = x.rank() == 1 ? 0 : 1;  // the axis of classes
  bool fits = x.rank() >= 1 && target.rank() == x.rank() - 1;
  for (int i = 0; fits && i < target.rank(); ++i) fits = target[i] == x[i < first ? i : i + 1];
  if (fits) return;
  const char* sizes = x.rank() > 2 ? " must be (n, classes, ...) and target (n, ...)"
                                   : " must be (n, classes) and target (n,), or (classes,) and ()";
  throw ShapeError(op, std::string(name) + " " + x.text() + ", target is " + target.text(), where,
                   std::string(name, std::string_view(name).find(' ')) + sizes);
}

/// Targets of rows of classes, checked by taking each row's weight.
struct ClassRows {
  Term is_target;  // [n, c]
  Term weight;     // [n]
};
inline ClassRows class_rows(const Term& x, const In& target, const std::optional<Tensor>& weight, std::string_view op) {
  const Term classes(target);
  if (x.rank() != 2 || classes.rank() != 1 || !(x.shape()[0] == classes.shape()[0]))
    throw ShapeError(op, "x is " + x.shape().text() + ", target is " + classes.shape().text(), x.where,
                     "x must be (n, classes) and target (n,)");
  if (!is_integer(classes.dtype()))
    throw DTypeError(op, "target has dtype " + std::string(name(classes.dtype())) + "; i32 or i64 is required",
                     x.where);
  const TensorOptions like{.dtype = x.dtype(), .device = x.value.device()};
  const Tensor weights = weight ? cast(In(*weight, x.where), x.dtype()) : ones({x.shape()[1]}, like, x.where);
  const Term columns(arange(x.shape()[1], {.dtype = classes.dtype(), .device = x.value.device()}, x.where), x.where);
  const Term of_row(unsqueeze(classes, 1), x.where);
  return {columns == of_row, Term(take(In(weights, x.where), target, 0), x.where)};
}

inline Term whole_numbers(const In& x, std::string_view what) {
  const Term t(x);
  if (!is_integer(t.dtype()))
    throw DTypeError("ctc_loss", std::string(what) + " are " + std::string(name(t.dtype())), x.where,
                     "i32 or i64 is required");
  return {cast(t, DType::i64), x.where};
}
/// Targets one after the other as a row for each sequence; what stands behind its end does not count. Where there are
/// no more of them the op is told so.
inline Term targets_as_rows(const Term& joined, const Term& lengths) {
  const Location at = joined.where;
  const Dim count = joined.shape()[0];
  const Term starts(cumsum(lengths, 0, {.exclusive = true}), at);
  const TensorOptions like{.dtype = DType::i64, .device = joined.value.device()};
  const Term place = Term(unsqueeze(starts, 1), at) + Term(arange(count, like, at), at);
  const Term last(cast(In(count - Dim(1), at), DType::i64), at);
  const Term none(cast(In(Scalar(ops::no_ctc_target), at), DType::i64), at);
  const Tensor known = clamp(place.value, Scalar(0), Scalar(count - Dim(1)));
  return where_of(place <= last, Term(take(joined, In(known, at), 0), at), none);
}

/// [n, c, d...] as rows of classes, [n d..., c]; [c] as one.
inline Tensor rows_of_classes(const In& x) {
  const Term t(x);
  if (t.rank() <= 2) return t.rank() == 1 ? unsqueeze(x, 0) : Tensor(t);
  std::vector<int> order{0};
  Dim rows = t.shape()[0];
  for (int i = 2; i < t.rank(); ++i) {
    order.push_back(i);
    rows = rows * t.shape()[i];
  }
  order.push_back(1);
  return reshape(In(permute(x, order), x.where), {rows, t.shape()[1]});
}
/// A target for each of those rows.
inline Tensor targets_of_rows(const In& target) {
  const Tensor classes(target.tensor());
  return classes.rank() == 1 ? classes : reshape(In(classes, target.where), {classes.shape().numel()});
}

/// The op, of rows of logits and classes.
inline Tensor cross_entropy_of_rows(const Tensor& rows, const Tensor& classes, const CrossEntropyOptions& options,
                                    Location at) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::CrossEntropy::reduction, static_cast<ops::CrossEntropy::Reduction>(options.reduction));
  attrs.set(ops::CrossEntropy::ignore_index, options.ignore_index);
  attrs.set(ops::CrossEntropy::label_smoothing, options.label_smoothing);
  std::vector<Leaf> leaves{Leaf(rows.impl()), Leaf(classes.impl())};
  if (options.weight) leaves.emplace_back(cast(In(*options.weight, at), rows.dtype()).impl());
  return Tensor(record_shared(op_info<ops::CrossEntropy>, leaves, std::move(shared), at));
}

/// Of a probability for each class: -sum of target * weight * log softmax(logits) over the classes.
inline Tensor cross_entropy_of_probabilities(const Term& logits, Term target, const CrossEntropyOptions& options) {
  constexpr std::string_view op = "cross_entropy";
  const Location at = logits.where;
  const int axis = logits.rank() == 1 ? 0 : 1;
  const Shape shape = logits.shape();
  if (shape.rank() == 0 || !(shape == target.shape()))
    throw ShapeError(op, "logits are " + shape.text() + ", target is " + target.shape().text(), at,
                     "probabilities have the shape of the logits; classes are i32 or i64");
  if (options.ignore_index >= 0)
    throw UserError(op,
                    "ignore_index is " + std::to_string(options.ignore_index) + ", and the target has probabilities",
                    at, "it is for targets that are classes");
  if (!is_floating(logits.dtype()))
    throw DTypeError(op, "logits are " + logits.value.impl()->type.text() + ", they must be floating", at,
                     is_complex(logits.dtype()) ? "take abs(z) or real(z)" : "x.to(DType::f32)");
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw UserError(op, "label_smoothing is " + std::to_string(options.label_smoothing), at, "it goes from 0 to 1");
  const double smoothing = options.label_smoothing;
  if (smoothing != 0) target = target * (1 - smoothing) + smoothing / count_of(logits, {axis});
  Term each = target * Term(log_softmax(logits, axis), at);
  if (options.weight) {
    const Tensor weight = cast(In(*options.weight, at), logits.dtype());
    if (weight.rank() != 1 || !(weight.shape()[0] == shape[axis]))
      throw ShapeError(op, "logits are " + shape.text() + ", weight is " + weight.shape().text(), at,
                       "weight must be (classes,)");
    Shape column{shape[axis]};
    for (int i = axis + 1; i < shape.rank(); ++i) column.push_back(1);
    each = each * Term(reshape(In(weight, at), column), at);
  }
  return reduced(-sum_of(each, axis), options.reduction, op);
}

/// With weights the mean is divided by their sum.
inline Tensor reduced_by_weight(const Term& losses, const WeightedLossOptions& options, std::string_view op) {
  const Term each = weighted_each(losses, options.weight, op);
  if (options.weight && options.reduction == LossReduction::mean)
    return sum_of(each) / sum_of(Term(*options.weight, losses.where));
  return reduced(each, options.reduction, op);
}

/// The differences of a quadratic part: 0 where they are far, whose squares would have derivatives 0 * infinity. NaN is
/// not far, so that its derivative is NaN.
inline Term near_part(const Term& is_far, const Term& difference) { return where_of(is_far, 0.0, difference); }

/// sqrt((sum of squares) + eps) along the last axis.
inline Term length_with(const Term& x, double eps) { return apply<ops::Sqrt>(sum_of(squared(x), -1) + eps); }

}  // namespace expr_detail

using expr_detail::Term;

SINTER_DECL Tensor mse_loss(const In& prediction, const In& target, WeightedLossOptions options) {
  const auto [x, t] = expr_detail::loss_operands(prediction, target, "mse_loss");
  return expr_detail::reduced_by_weight(squared(x - t), options, "mse_loss");
}
SINTER_DECL Tensor l1_loss(const In& prediction, const In& target, WeightedLossOptions options) {
  const auto [x, t] = expr_detail::loss_operands(prediction, target, "l1_loss", true);
  return expr_detail::reduced_by_weight(absolute(x - t), options, "l1_loss");
}

SINTER_DECL Tensor huber_loss(const In& prediction, const In& target, HuberOptions options) {
  const double delta = options.delta;
  if (!(delta > 0))
    throw UserError("huber_loss", "delta is " + std::to_string(delta), prediction.where, "it must be positive");
  const auto [x, t] = expr_detail::loss_operands(prediction, target, "huber_loss");
  const Term d = absolute(x - t), is_far = delta <= d;
  const Term near = squared(expr_detail::near_part(is_far, x - t)) * 0.5;
  const Term losses = where_of(is_far, (d - 0.5 * delta) * delta, near);
  return expr_detail::reduced(expr_detail::weighted_each(losses, options.weight, "huber_loss"), options.reduction,
                              "huber_loss");
}

SINTER_DECL Tensor smooth_l1_loss(const In& prediction, const In& target, SmoothL1Options options) {
  const double beta = options.beta;
  if (!(beta >= 0))
    throw UserError("smooth_l1_loss", "beta is " + std::to_string(beta), prediction.where, "it must not be negative");
  const auto [x, t] = expr_detail::loss_operands(prediction, target, "smooth_l1_loss");
  const Term d = absolute(x - t);
  Term losses = d;
  if (beta != 0) {
    const Term is_far = beta <= d, near = squared(expr_detail::near_part(is_far, x - t)) * (0.5 / beta);
    losses = where_of(is_far, d - 0.5 * beta, near);
  }
  return expr_detail::reduced(expr_detail::weighted_each(losses, options.weight, "smooth_l1_loss"), options.reduction,
                              "smooth_l1_loss");
}

SINTER_DECL Tensor binary_cross_entropy(const In& probability, const In& target, BinaryCrossEntropyOptions options) {
  if (options.pos_weight)
    throw UserError("binary_cross_entropy", "pos_weight is set", probability.where,
                    "it is for binary_cross_entropy_with_logits; here `weight` may hold weights of elements");
  // Where a logarithm is cut off it is of another number: its derivative there would be 0 * infinity.
  const auto [p, t] = expr_detail::loss_operands(probability, target, "binary_cross_entropy");
  const Term is_zero = absolute(p) < std::exp(-100.0), is_one = p == 1.0;
  const Term of_one = where_of(is_zero, -100.0, expr_detail::apply<ops::Log>(where_of(is_zero, 0.5, p)));
  const Term of_zero = where_of(is_one, -100.0, expr_detail::apply<ops::Log1p>(-where_of(is_one, 0.5, p)));
  const Term losses = (t - 1.0) * of_zero - t * of_one;
  return expr_detail::reduced(expr_detail::weighted(losses, options.weight), options.reduction, "binary_cross_entropy");
}

/// (1 - t) x + w softplus(-x) with w = 1 + (pos_weight - 1) t.
SINTER_DECL Tensor binary_cross_entropy_with_logits(const In& logits, const In& target,
                                                    BinaryCrossEntropyOptions options) {
  const auto [x, t] = expr_detail::loss_operands(logits, target, "binary_cross_entropy_with_logits");
  Term curve = expr_detail::apply<ops::Softplus>(-x);
  if (options.pos_weight) curve = ((Term(*options.pos_weight, x.where) - 1.0) * t + 1.0) * curve;
  const Term losses = (1.0 - t) * x + curve;
  return expr_detail::reduced(expr_detail::weighted(losses, options.weight), options.reduction,
                              "binary_cross_entropy_with_logits");
}

SINTER_DECL Tensor cross_entropy(const In& logits, const In& target, CrossEntropyOptions options) {
  constexpr std::string_view op = "cross_entropy";
  const Tensor given(logits.tensor()), classes(target.tensor());
  const Location at = logits.where;
  expr_detail::require_reduction(options.reduction, op, at);
  if (is_floating(classes.dtype()))
    return expr_detail::cross_entropy_of_probabilities(Term(given, at), Term(classes, at), options);
  expr_detail::require_targets(given.shape(), classes.shape(), "logits are", op, at);
  const Tensor rows = expr_detail::rows_of_classes(In(given, at));
  const Tensor flat = expr_detail::targets_of_rows(In(classes, at));
  const Tensor loss = expr_detail::cross_entropy_of_rows(rows, flat, options, at);
  if (given.rank() == 2 || options.reduction != LossReduction::none) return loss;
  return reshape(In(loss, at), classes.shape());
}

SINTER_DECL Tensor nll_loss(const In& log_probabilities, const In& target, NllLossOptions options) {
  const Term given = expr_detail::floating(log_probabilities), classes(target);
  expr_detail::require_targets(given.shape(), classes.shape(), "x is", "nll_loss", given.where);
  if (const Term wide = expr_detail::wide_for_squares(given); wide.dtype() != given.dtype())
    return cast(In(nll_loss(wide, classes, std::move(options)), given.where), given.dtype());
  const Term x(expr_detail::rows_of_classes(given), given.where);
  const Term flat(expr_detail::targets_of_rows(classes), given.where);
  const Term counts = flat != static_cast<double>(options.ignore_index);
  const Term checked = where_of(counts, flat, Term(In(0, given.where)));
  const auto [is_target, weight] = expr_detail::class_rows(x, checked, options.weight, "nll_loss");
  const Term picked = sum_of(where_of(is_target, x, 0.0), 1);
  const Term row_weight = where_of(counts, weight, 0.0);
  const Term losses = where_of(counts, -picked * weight, 0.0);
  if (options.reduction == LossReduction::mean) return sum_of(losses) / sum_of(row_weight);
  if (options.reduction == LossReduction::none) return reshape(losses, classes.shape());
  return expr_detail::reduced(losses, options.reduction, "nll_loss");
}

SINTER_DECL Tensor kl_div(const In& x, const In& target, KlDivOptions options) {
  const auto [p, t] = expr_detail::loss_operands(x, target, "kl_div");
  const Term losses =
      options.log_target ? expr_detail::apply<ops::Exp>(t) * (t - p) : expr_detail::apply<ops::Xlogy>(t, t) - t * p;
  if (options.reduction != LossReduction::batchmean) return expr_detail::reduced(losses, options.reduction, "kl_div");
  const Shape given = Tensor(x.tensor()).shape();
  return given.rank() == 0 ? sum_of(losses) : sum_of(losses) / Term(In(given[0], x.where));
}

SINTER_DECL Tensor poisson_nll_loss(const In& x, const In& target, PoissonNllOptions options) {
  const auto [rate, t] = expr_detail::loss_operands(x, target, "poisson_nll_loss");
  Term losses = options.log_input ? expr_detail::apply<ops::Exp>(rate) - t * rate
                                  : rate - t * expr_detail::apply<ops::Log>(rate + options.eps);
  if (options.full) {
    const Term safe = expr_detail::at_least(t, 1);
    const Term log_factorial = safe * expr_detail::apply<ops::Log>(safe) - safe +
                               expr_detail::apply<ops::Log>(safe * (2 * std::numbers::pi)) * 0.5;
    losses = losses + where_of(t <= 1.0, 0.0, log_factorial);
  }
  return expr_detail::reduced(losses, options.reduction, "poisson_nll_loss");
}

SINTER_DECL Tensor gaussian_nll_loss(const In& x, const In& target, const In& variance, GaussianNllOptions options) {
  const auto [mean, t] = expr_detail::loss_operands(x, target, "gaussian_nll_loss");
  Term given = expr_detail::floating(expr_detail::operand_beside(variance, x));
  const Shape shape = mean.shape();
  if (given.rank() + 1 == shape.rank() && given.rank() > 0) {  // one for each row, as PyTorch has it
    Shape rows = shape;
    rows.erase(shape.rank() - 1);
    if (identical(given.shape(), rows)) given = Term(unsqueeze(given, -1), given.where);
  }
  const Term lift = expr_detail::apply<ops::StopGradient>(expr_detail::at_least(given, options.eps) - given);
  const Term v = given + lift;
  Term losses = (expr_detail::apply<ops::Log>(v) + squared(mean - t) / v) * 0.5;
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return expr_detail::reduced(losses, options.reduction, "gaussian_nll_loss");
}

SINTER_DECL Tensor hinge_embedding_loss(const In& x, const In& label, double margin, LossReduction reduction) {
  const auto [score, y] = expr_detail::loss_operands(x, label, "hinge_embedding_loss");
  const Term of_others = where_of(y != 1.0, expr_detail::at_least(margin - score, 0), 0.0);
  return expr_detail::reduced(of_others + where_of(y != -1.0, score, 0.0), reduction, "hinge_embedding_loss");
}

SINTER_DECL Tensor soft_margin_loss(const In& x, const In& label, LossReduction reduction) {
  const auto [score, y] = expr_detail::loss_operands(x, label, "soft_margin_loss");
  return expr_detail::reduced(expr_detail::apply<ops::Softplus>(-y * score), reduction, "soft_margin_loss");
}

SINTER_DECL Tensor margin_ranking_loss(const In& first, const In& second, const In& label, double margin,
                                       LossReduction reduction) {
  const auto [a, b] = expr_detail::loss_operands(first, second, "margin_ranking_loss");
  const Term y = expr_detail::floating(label);
  return expr_detail::reduced(expr_detail::at_least((b - a) * y + margin, 0), reduction, "margin_ranking_loss");
}

SINTER_DECL Tensor cosine_embedding_loss(const In& first, const In& second, const In& label, double margin,
                                         LossReduction reduction) {
  const auto [a, b] = expr_detail::loss_operands(first, second, "cosine_embedding_loss");
  const Term y = expr_detail::floating(label);
  constexpr double eps = 1e-12;  // PyTorch's
  const Term cosine = sum_of(a * b, -1) / (expr_detail::length_with(a, eps) * expr_detail::length_with(b, eps));
  const Term losses =
      where_of(y == 1.0, 1.0 - cosine, where_of(y == -1.0, expr_detail::at_least(cosine - margin, 0), 0.0));
  return expr_detail::reduced(losses, reduction, "cosine_embedding_loss");
}

SINTER_DECL Tensor triplet_margin_loss(const In& anchor, const In& positive, const In& negative,
                                       TripletMarginOptions options) {
  expr_detail::require_positive_margin(options.margin, "triplet_margin_loss", anchor.where);
  const auto [a, p] = expr_detail::loss_operands(anchor, positive, "triplet_margin_loss");
  const Term n = expr_detail::floating(negative);
  const auto distance = [&](const Term& from, const Term& to) {
    return Term(pairwise_distance(from, to, {.p = options.p, .eps = options.eps}), from.where);
  };
  Term away = distance(a, n);
  if (options.swap) away = expr_detail::apply<ops::Minimum>(away, distance(p, n));
  return expr_detail::reduced(expr_detail::at_least(distance(a, p) - away + options.margin, 0), options.reduction,
                              "triplet_margin_loss");
}

SINTER_DECL Tensor triplet_margin_with_distance_loss(
    const In& anchor, const In& positive, const In& negative,
    const std::function<Tensor(const Tensor&, const Tensor&)>& distance, TripletDistanceOptions options) {
  constexpr std::string_view op = "triplet_margin_with_distance_loss";
  const Location at = anchor.where;
  if (!distance) throw UserError(op, "the distance is empty", at, "give a function of two tensors");
  expr_detail::require_positive_margin(options.margin, op, at);
  const Tensor a(anchor.tensor()), p(positive.tensor()), n(negative.tensor());
  const Term near(distance(a, p), at);
  Term away(distance(a, n), at);
  if (options.swap) away = expr_detail::apply<ops::Minimum>(away, Term(distance(p, n), at));
  broadcast(near.shape(), away.shape(), op, at);
  return expr_detail::reduced(expr_detail::at_least(near - away + options.margin, 0), options.reduction, op);
}

SINTER_DECL Tensor multilabel_soft_margin_loss(const In& x, const In& target, MultilabelOptions options) {
  const auto [score, t] = expr_detail::loss_operands(x, target, "multilabel_soft_margin_loss");
  const Term each = (1.0 - t) * score + expr_detail::apply<ops::Softplus>(-score);
  return expr_detail::reduced(mean_of(expr_detail::weighted(each, options.weight), -1), options.reduction,
                              "multilabel_soft_margin_loss");
}

SINTER_DECL Tensor ctc_loss(const In& log_probabilities, const In& targets, const In& input_lengths,
                            const In& target_lengths, CtcLossOptions options) {
  const Location at = log_probabilities.where;
  Term x = expr_detail::floating(log_probabilities);
  Term rows = expr_detail::whole_numbers(targets, "targets");
  Term steps = expr_detail::whole_numbers(input_lengths, "input lengths");
  Term labels = expr_detail::whole_numbers(target_lengths, "target lengths");
  const DType dtype = x.dtype();
  const bool is_alone = x.rank() == 2;
  if (is_alone) {
    x = Term(unsqueeze(x, 1), at);
    rows = Term(reshape(rows, Shape{1, rows.shape().numel()}), at);
    steps = Term(reshape(steps, Shape{1}), at);
    labels = Term(reshape(labels, Shape{1}), at);
  } else if (rows.rank() == 1 && labels.rank() == 1) {
    const bool is_empty = rows.shape()[0].is_static() && rows.shape()[0].value() == 0;
    rows = is_empty ? Term(zeros({labels.shape()[0], 0}, {.dtype = DType::i64}, at), at)
                    : expr_detail::targets_as_rows(rows, labels);
  }
  if (dtype != DType::f64) x = Term(cast(x, DType::f32), at);
  Attrs attrs;
  attrs.set(ops::CtcLoss::blank, options.blank);
  attrs.set(ops::CtcLoss::zero_infinity, options.zero_infinity);
  Term losses(Tensor(record_op(op_info<ops::CtcLoss>,
                               {expr_detail::leaf_of(x), expr_detail::leaf_of(rows), expr_detail::leaf_of(steps),
                                expr_detail::leaf_of(labels)},
                               std::move(attrs), at)),
              at);
  if (options.reduction == LossReduction::mean)
    losses = losses / expr_detail::at_least(Term(cast(labels, losses.dtype()), at), 1);
  losses = Term(cast(losses, dtype), at);
  if (is_alone && options.reduction == LossReduction::none) return reshape(losses, Shape{});
  return expr_detail::reduced(losses, options.reduction, "ctc_loss");
}

/// Axes: rows, names, classes.
namespace expr_detail {
/// What is positive, and 0 for the rest and for NaN, as PyTorch's margins are.
inline Term hinge_of(const Term& margin) { return where_of(0.0 < margin, margin, 0.0); }
}  // namespace expr_detail

SINTER_DECL Tensor multilabel_margin_loss(const In& x, const In& target, LossReduction reduction) {
  const Term score = expr_detail::floating(x), names(target);
  if (score.rank() == 0 || score.rank() > 2 || !(score.shape() == names.shape()) || !is_integer(names.dtype()))
    throw ShapeError(
        "multilabel_margin_loss",
        "x is " + score.shape().text() + ", target is " + std::string(name(names.dtype())) + " " + names.shape().text(),
        x.where, "both must be (n, classes) or (classes,), and the target has integers");
  const Term counts = Term(cumprod(In(cast(0.0 <= names, DType::i32), x.where), -1), x.where) != 0.0;
  const Term named = where_of(counts, names, Term(In(0, x.where)));
  const Term own(take_along_axis(score, named, -1), x.where);
  const Term columns(arange(score.shape()[-1], {.dtype = names.dtype(), .device = score.value.device()}, x.where),
                     x.where);
  const auto wide = [&](const Term& t, int axis) { return Term(unsqueeze(t, axis), x.where); };
  const Term is_own = both(wide(counts, -1), wide(named, -1) == columns);
  const Term is_named(any(is_own, -2, Keep::yes), x.where);
  const Term each = expr_detail::hinge_of(1.0 - wide(own, -1) + wide(score, -2));
  const Term pairs = where_of(both(wide(counts, -1), expr_detail::apply<ops::Not>(is_named)), each, 0.0);
  const Term rows = sum_of(mean_of(pairs, -1), -1);
  return expr_detail::reduced(rows, reduction, "multilabel_margin_loss");
}

SINTER_DECL Tensor multi_margin_loss(const In& x, const In& target, MultiMarginOptions options) {
  if (x.tensor()->type.shape.rank() == 1 && target.tensor()->type.shape.rank() == 0) {  // one example
    const Tensor one = multi_margin_loss(In(unsqueeze(x, 0), x.where), In(unsqueeze(target, 0), x.where), options);
    return options.reduction == LossReduction::none ? squeeze(In(one, x.where), 0) : one;
  }
  const Term score = expr_detail::floating(x);
  const auto [is_target, weight] = expr_detail::class_rows(score, target, options.weight, "multi_margin_loss");
  const Term own = sum_of(where_of(is_target, score, 0.0), 1, Keep::yes);
  Term each = expr_detail::hinge_of(score - own + options.margin);
  if (options.p == 2) each = squared(each);
  else if (options.p != 1)
    throw UserError("multi_margin_loss", "p is " + std::to_string(options.p), x.where, "it must be 1 or 2");
  const Term rows = mean_of(where_of(is_target, 0.0, each), 1) * weight;
  return expr_detail::reduced(rows, options.reduction, "multi_margin_loss");
}

SINTER_NAMESPACE_END
