// Losses, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

LossReduction how(const Args& a) {
  const std::string word = a.at.word("reduction");
  return word == "mean" ? LossReduction::mean : word == "sum" ? LossReduction::sum : LossReduction::none;
}
std::optional<Tensor> given(const Args& a, std::size_t i) {
  return a.has(i) ? std::optional<Tensor>(a[i]) : std::nullopt;
}
/// 1 and -1 of 1 and 0.
Tensor signed_label(const Tensor& t) { return 2 * t - 1; }

NamedFunctions pair_functions() {
  return {
      {"mse_loss", [](const Args& a) -> Tensor { return mse_loss(a[0], a[1], how(a)); }},
      {"l1_loss", [](const Args& a) -> Tensor { return l1_loss(a[0], a[1], how(a)); }},
      {"smooth_l1_loss",
       [](const Args& a) -> Tensor { return smooth_l1_loss(a[0], a[1], a.at.number("beta"), how(a)); }},
      {"huber_loss", [](const Args& a) -> Tensor { return huber_loss(a[0], a[1], a.at.number("delta"), how(a)); }},
      {"binary_cross_entropy",
       [](const Args& a) -> Tensor {
         return binary_cross_entropy(a[0], a[1], {.weight = given(a, 2), .reduction = how(a)});
       }},
      {"binary_cross_entropy_with_logits",
       [](const Args& a) -> Tensor {
         return binary_cross_entropy_with_logits(a[0], a[1], {.weight = given(a, 2), .reduction = how(a)});
       }},
      {"binary_cross_entropy_with_logits of positive weights",
       [](const Args& a) -> Tensor {
         return binary_cross_entropy_with_logits(a[0], a[1], {.pos_weight = a[2], .reduction = how(a)});
       }},
      {"kl_div",
       [](const Args& a) -> Tensor {
         const bool is_log = a.at.is("log");
         return kl_div(a[0], is_log ? Tensor(log(a[1])) : a[1], {.log_target = is_log, .reduction = how(a)});
       }},
      {"poisson_nll_loss",
       [](const Args& a) -> Tensor {
         return poisson_nll_loss(
             a[0], a[1],
             {.log_input = a.at.is("log"), .full = a.at.is("full"), .eps = a.at.number("eps"), .reduction = how(a)});
       }},
      {"gaussian_nll_loss",
       [](const Args& a) -> Tensor {
         return gaussian_nll_loss(a[0], a[1], a[2],
                                  {.full = a.at.is("full"), .eps = a.at.number("eps"), .reduction = how(a)});
       }},
      {"hinge_embedding_loss",
       [](const Args& a) -> Tensor {
         return hinge_embedding_loss(a[0], signed_label(a[1]), a.at.number("margin"), how(a));
       }},
      {"soft_margin_loss", [](const Args& a) -> Tensor { return soft_margin_loss(a[0], signed_label(a[1]), how(a)); }},
      {"margin_ranking_loss",
       [](const Args& a) -> Tensor {
         return margin_ranking_loss(a[0], a[1], signed_label(a[2]), a.at.number("margin"), how(a));
       }},
      {"cosine_embedding_loss",
       [](const Args& a) -> Tensor {
         return cosine_embedding_loss(a[0], a[1], signed_label(a[2]), a.at.number("margin"), how(a));
       }},
      {"triplet_margin_loss",
       [](const Args& a) -> Tensor {
         return triplet_margin_loss(a[0], a[1], a[2],
                                    {.margin = a.at.number("margin"),
                                     .p = a.at.number("p"),
                                     .eps = a.at.number("eps"),
                                     .swap = a.at.is("swap"),
                                     .reduction = how(a)});
       }},
  };
}

NamedFunctions weighted_functions() {
  return {
      {"mse_loss with weights",
       [](const Args& a) -> Tensor { return mse_loss(a[0], a[1], {.weight = a[2], .reduction = how(a)}); }},
      {"l1_loss with weights",
       [](const Args& a) -> Tensor { return l1_loss(a[0], a[1], {.weight = a[2], .reduction = how(a)}); }},
      {"huber_loss with weights",
       [](const Args& a) -> Tensor { return huber_loss(a[0], a[1], {.weight = a[2], .reduction = how(a)}); }},
      {"triplet_margin_with_distance_loss",
       [](const Args& a) -> Tensor {
         return triplet_margin_with_distance_loss(
             a[0], a[1], a[2], [](const Tensor& from, const Tensor& to) { return sum(abs(from - to), -1); },
             {.margin = a.at.number("margin"), .swap = a.at.is("swap"), .reduction = how(a)});
       }},
  };
}

NamedFunctions class_functions() {
  return {
      {"cross_entropy of probabilities",
       [](const Args& a) -> Tensor {
         return cross_entropy(
             a[0], a[1], {.weight = given(a, 2), .label_smoothing = a.at.number("smoothing"), .reduction = how(a)});
       }},
      {"cross_entropy of linear",
       [](const Args& a) -> Tensor {
         const Tensor logits = a.has(3) ? linear(a[0], a[1], a[3]) : linear(a[0], a[1]);
         return cross_entropy(logits, a[2], {.reduction = how(a)});
       }},
      {"cross_entropy",
       [](const Args& a) -> Tensor {
         return cross_entropy(a[0], a[1],
                              {.weight = given(a, 2),
                               .ignore_index = a.at.whole("ignore"),
                               .label_smoothing = a.at.number("smoothing"),
                               .reduction = how(a)});
       }},
      {"nll_loss",
       [](const Args& a) -> Tensor {
         return nll_loss(a[0], a[1],
                         {.weight = given(a, 2), .ignore_index = a.at.whole("ignore"), .reduction = how(a)});
       }},
      {"multilabel_soft_margin_loss",
       [](const Args& a) -> Tensor {
         return multilabel_soft_margin_loss(a[0], a[1], {.weight = given(a, 2), .reduction = how(a)});
       }},
      {"ctc_loss of scores",
       [](const Args& a) -> Tensor {
         return ctc_loss(
             log_softmax(a[0], -1), a[1], a[2], a[3],
             {.blank = a.at.whole("blank"), .reduction = how(a), .zero_infinity = a.at.is("zero_infinity")});
       }},
      {"multilabel_margin_loss", [](const Args& a) -> Tensor { return multilabel_margin_loss(a[0], a[1], how(a)); }},
      {"multi_margin_loss",
       [](const Args& a) -> Tensor {
         return multi_margin_loss(
             a[0], a[1],
             {.p = a.at.number("p"), .margin = a.at.number("margin"), .weight = given(a, 2), .reduction = how(a)});
       }},
  };
}

}  // namespace

NamedFunctions losses_functions() { return joined({pair_functions(), weighted_functions(), class_functions()}); }

}  // namespace sinter_test
