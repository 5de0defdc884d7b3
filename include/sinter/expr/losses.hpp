// Losses: numbers to minimise. Names and defaults follow PyTorch's torch.nn.functional; operands
// broadcast, integers become f32, and `reduction` says what becomes of the single losses.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <functional>

SINTER_NAMESPACE_BEGIN

// Of a prediction and a target.
struct WeightedLossOptions {
  Optional<Tensor> weight = {};  // of each element: the mean is divided by their sum
  LossReduction reduction = LossReduction::mean;
};
Tensor mse_loss(const In& prediction, const In& target, WeightedLossOptions options);
Tensor l1_loss(const In& prediction, const In& target, WeightedLossOptions options = {});
template <std::same_as<LossReduction> R>
Tensor mse_loss(const In& prediction, const In& target, R reduction) {
  return mse_loss(prediction, target, WeightedLossOptions{.weight = {}, .reduction = reduction});
}
template <std::same_as<LossReduction> R>
Tensor l1_loss(const In& prediction, const In& target, R reduction) {
  return l1_loss(prediction, target, WeightedLossOptions{.weight = {}, .reduction = reduction});
}

struct SmoothL1Options {
  Optional<Tensor> weight = {};  // of each element; the mean is divided by their number
  double beta = 1;
  LossReduction reduction = LossReduction::mean;
};
/// d^2 / (2 beta) where d = |prediction - target| < beta, else d - beta / 2.
Tensor smooth_l1_loss(const In& prediction, const In& target, SmoothL1Options options = {});
template <Arithmetic N>
Tensor smooth_l1_loss(const In& prediction, const In& target, N beta, LossReduction reduction = LossReduction::mean) {
  return smooth_l1_loss(prediction, target,
                        SmoothL1Options{.weight = {}, .beta = static_cast<double>(beta), .reduction = reduction});
}
struct HuberOptions {
  Optional<Tensor> weight = {};  // of each element; the mean is divided by their number
  double delta = 1;
  LossReduction reduction = LossReduction::mean;
};
/// d^2 / 2 where d < delta, else delta (d - delta / 2).
Tensor huber_loss(const In& prediction, const In& target, HuberOptions options = {});
template <Arithmetic N>
Tensor huber_loss(const In& prediction, const In& target, N delta, LossReduction reduction = LossReduction::mean) {
  return huber_loss(prediction, target,
                    HuberOptions{.weight = {}, .delta = static_cast<double>(delta), .reduction = reduction});
}

struct BinaryCrossEntropyOptions {
  Optional<Tensor> weight = {};      // of each element
  Optional<Tensor> pos_weight = {};  // of the positive class; only with logits
  LossReduction reduction = LossReduction::mean;
};
/// -(t log(p) + (1 - t) log(1 - p)), logarithms cut off at -100.
Tensor binary_cross_entropy(const In& probability, const In& target, BinaryCrossEntropyOptions options = {});
/// The same of sigmoid(logits), without overflow or cancellation.
Tensor binary_cross_entropy_with_logits(const In& logits, const In& target, BinaryCrossEntropyOptions options = {});

struct CrossEntropyOptions {
  Optional<Tensor> weight = {};      // [c]: of each class; the mean is divided by the sum of the targets' weights
  std::int64_t ignore_index = -100;  // rows with this target do not count
  double label_smoothing = 0;        // in [0, 1]: so much of the target is spread over all classes
  LossReduction reduction = LossReduction::mean;  // of no row that counts: NaN
};
/// -log softmax(logits)[target] of each row: logits [n, c], [n, c, d...] or [c], target (i32 or i64) [n], [n, d...] or
/// (). A target that is neither a class nor ignored: IndexError when it runs. Or, for a floating target of the logits'
/// shape, which has a probability for each class, -sum(target * log softmax(logits)); the mean is that of all rows.
Tensor cross_entropy(const In& logits, const In& target, CrossEntropyOptions options = {});

struct NllLossOptions {
  Optional<Tensor> weight = {};
  std::int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};
/// -log_probabilities[target] of each row: [n, c] and [n], [n, c, d...] and [n, d...], or [c] and ().
Tensor nll_loss(const In& log_probabilities, const In& target, NllLossOptions options = {});

struct KlDivOptions {
  bool log_target = false;  // the target is a logarithm too
  LossReduction reduction = LossReduction::mean;
};
/// t (log(t) - x) for x the logarithm of a probability.
Tensor kl_div(const In& x, const In& target, KlDivOptions options = {});

struct PoissonNllOptions {
  bool log_input = true;  // x is the logarithm of the rate
  bool full = false;      // with Stirling's approximation of log(t!)
  double eps = 1e-8;
  LossReduction reduction = LossReduction::mean;
};
Tensor poisson_nll_loss(const In& x, const In& target, PoissonNllOptions options = {});

struct GaussianNllOptions {
  bool full = false;  // with log(2 pi) / 2
  double eps = 1e-6;  // what the variance is at least; its derivative passes by
  LossReduction reduction = LossReduction::mean;
};
Tensor gaussian_nll_loss(const In& x, const In& target, const In& variance, GaussianNllOptions options = {});

struct CtcLossOptions {
  std::int64_t blank = 0;                         // the class that stands for no label
  LossReduction reduction = LossReduction::mean;  // mean: each divided by its number of labels, then their mean
  bool zero_infinity = false;  // 0, with gradient 0, for targets that do not fit their steps; else infinity and NaN
};
/// Minus the logarithm of the probability of labels that are not aligned with the steps that predict them; Graves et
/// al. 2006. log_probabilities [t, n, c] (f32 or f64; narrower ones are computed in f32), targets [n, s] or all of them
/// one after the other in one axis, lengths [n]; or without n. The host computes it. A length that does not fit, a
/// target that is the blank or no class, fewer targets one after the other than the lengths say: IndexError when it
/// runs. The derivative is that by log_probabilities; a second one is a UserError.
Tensor ctc_loss(const In& log_probabilities, const In& targets, const In& input_lengths, const In& target_lengths,
                CtcLossOptions options = {});

// Of scores and labels of 1 and -1.
Tensor hinge_embedding_loss(const In& x, const In& label, double margin = 1,
                            LossReduction reduction = LossReduction::mean);
Tensor soft_margin_loss(const In& x, const In& label, LossReduction reduction = LossReduction::mean);
Tensor margin_ranking_loss(const In& first, const In& second, const In& label, double margin = 0,
                           LossReduction reduction = LossReduction::mean);
Tensor cosine_embedding_loss(const In& first, const In& second, const In& label, double margin = 0,
                             LossReduction reduction = LossReduction::mean);

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;  // the nearer of anchor and positive keeps the negative away
  LossReduction reduction = LossReduction::mean;
};
/// max(0, distance(anchor, positive) - distance(anchor, negative) + margin).
Tensor triplet_margin_loss(const In& anchor, const In& positive, const In& negative, TripletMarginOptions options = {});

struct TripletDistanceOptions {
  double margin = 1;
  bool swap = false;  // the nearer of anchor and positive keeps the negative away
  LossReduction reduction = LossReduction::mean;
};
/// The same with another distance, which is called with two tensors and gives one number for each pair.
Tensor triplet_margin_with_distance_loss(const In& anchor, const In& positive, const In& negative,
                                         const std::function<Tensor(const Tensor&, const Tensor&)>& distance,
                                         TripletDistanceOptions options = {});

struct MultilabelOptions {
  Optional<Tensor> weight = {};  // [c]
  LossReduction reduction = LossReduction::mean;
};
/// The mean over the classes, the last axis, of binary cross entropies with logits.
Tensor multilabel_soft_margin_loss(const In& x, const In& target, MultilabelOptions options = {});

/// The sum over the classes y that are named and those i that are not of max(0, 1 - x[y] + x[i]), divided by the number
/// of classes. target [n, c] or [c], as x: classes up to the first negative number.
Tensor multilabel_margin_loss(const In& x, const In& target, LossReduction reduction = LossReduction::mean);

struct MultiMarginOptions {
  double p = 1;
  double margin = 1;
  Optional<Tensor> weight = {};  // [c]
  LossReduction reduction = LossReduction::mean;
};
/// The sum over the other classes of max(0, margin - x[target] + x[i])^p, divided by the number of classes; x [n, c].
Tensor multi_margin_loss(const In& x, const In& target, MultiMarginOptions options = {});

SINTER_NAMESPACE_END
