// Layers and losses with the arguments that PyTorch has for them beyond the usual ones, against loops written out here:
// weights of single losses, distances of one's own, norms without weights, and what is random in training.
#include "../checks.hpp"
#include "loop_cases.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

const Doubles scores{0.3, -1.2, 2.1, 0.7, -0.4, 1.6}, others{0.1, 0.4, -0.6, 1.9, -1.1, 0.2},
    chances{0.2, 0.7, 0.9, 0.35, 0.5, 0.05};
const Extents two_by_three{2, 3};
Tensor matrix(const Doubles& values) { return array(values, two_by_three); }

/// What a weighted loss is divided by in the mean.
enum class Mean : std::uint8_t { of_weights, of_numbers };
void check_weighted(const char* name, const std::function<Tensor(const Tensor&, const Tensor&, LossReduction)>& call,
                    Mean mean, const std::function<double(double)>& loss) {
  const auto losses = [=](const Doubles& x, const Doubles& w) {
    return each(x, [&](double v, std::size_t i) { return w[i] * loss(v - others[i]); });
  };
  for (LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    const auto reduced = [=](const Doubles& x, const Doubles& w) {
      if (reduction == LossReduction::none) return losses(x, w);
      const double count = mean == Mean::of_weights ? total(w) : 6;
      return Doubles{total(losses(x, w)) / (reduction == LossReduction::mean ? count : 1)};
    };
    check_case({name, [=](const Tensor& x) { return call(x, matrix(chances), reduction); },
                [=](const Doubles& x) { return reduced(x, chances); }, two_by_three, scores});
    check_case({name, [=](const Tensor& w) { return call(matrix(scores), w, reduction); },
                [=](const Doubles& w) { return reduced(scores, w); }, two_by_three, chances});
  }
}

}  // namespace

TEST_CASE("losses with a weight for each element") {
  check_weighted(
      "mse_loss",
      [](const Tensor& x, const Tensor& w, LossReduction r) {
        return mse_loss(x, matrix(others), {.weight = w, .reduction = r});
      },
      Mean::of_weights, [](double d) { return d * d; });
  check_weighted(
      "l1_loss",
      [](const Tensor& x, const Tensor& w, LossReduction r) {
        return l1_loss(x, matrix(others), {.weight = w, .reduction = r});
      },
      Mean::of_weights, [](double d) { return std::abs(d); });
  check_weighted(
      "huber_loss",
      [](const Tensor& x, const Tensor& w, LossReduction r) {
        return huber_loss(x, matrix(others), {.weight = w, .delta = 0.9, .reduction = r});
      },
      Mean::of_numbers, [](double d) { return std::abs(d) < 0.9 ? d * d / 2 : 0.9 * (std::abs(d) - 0.45); });
  check_weighted(
      "smooth_l1_loss",
      [](const Tensor& x, const Tensor& w, LossReduction r) {
        return smooth_l1_loss(x, matrix(others), {.weight = w, .beta = 0.9, .reduction = r});
      },
      Mean::of_numbers, [](double d) { return std::abs(d) < 0.9 ? d * d / 1.8 : std::abs(d) - 0.45; });
  CHECK(item<double>(smooth_l1_loss(matrix(scores), matrix(others), {.beta = 0})) ==
        Approx(item<double>(l1_loss(matrix(scores), matrix(others)))));
  CHECK(has(message_of<ShapeError>([] { mse_loss(ones({2, 3}), ones({2, 3}), {.weight = ones({3})}); }),
            "mse_loss: the losses are (2, 3), weight is (3,)"));
  CHECK(has(message_of<ShapeError>([] { huber_loss(ones({2}), ones({2}), {.weight = ones({3})}); }),
            "one weight for each of them"));
}

TEST_CASE("triplet_margin_with_distance_loss: any distance") {
  const auto taxi = [](const Tensor& a, const Tensor& b) { return sum(abs(a - b), 1); };
  const auto loop = [](const Doubles& x, bool swap) {
    Doubles losses;
    for (std::size_t row = 0; row < 2; ++row) {
      double near = 0, away = 0, across = 0;
      for (std::size_t i = 3 * row; i < 3 * row + 3; ++i) {
        near += std::abs(x[i] - others[i]);
        away += std::abs(x[i] - chances[i]);
        across += std::abs(others[i] - chances[i]);
      }
      losses.push_back(std::max(0.0, near - (swap ? std::min(away, across) : away) + 2));
    }
    return losses;
  };
  for (bool swap : {false, true}) {
    const auto call = [=](LossReduction r) {
      return [=](const Tensor& x) {
        return triplet_margin_with_distance_loss(x, matrix(others), matrix(chances), taxi,
                                                 {.margin = 2, .swap = swap, .reduction = r});
      };
    };
    check_case(
        {"none", call(LossReduction::none), [=](const Doubles& x) { return loop(x, swap); }, two_by_three, scores});
    check_case({"mean", call(LossReduction::mean), [=](const Doubles& x) { return Doubles{mean_of(loop(x, swap))}; },
                two_by_three, scores});
  }
  const Tensor by_default =
      triplet_margin_with_distance_loss(matrix(scores), matrix(others), matrix(chances),
                                        [](const Tensor& a, const Tensor& b) { return pairwise_distance(a, b); });
  CHECK(item<double>(by_default) ==
        Approx(item<double>(triplet_margin_loss(matrix(scores), matrix(others), matrix(chances)))));
  CHECK(has(message_of<UserError>([] { triplet_margin_with_distance_loss(ones({2}), ones({2}), ones({2}), {}); }),
            "the distance is empty"));
}

TEST_CASE("layer_norm with and without weight and bias") {
  const Doubles weight{1.5, -0.5, 2}, bias{0.1, 0.2, -0.3};
  for (bool has_weight : {false, true})
    for (bool has_bias : {false, true}) {
      LayerNormOptions options{.eps = 1e-3};
      if (has_weight) options.weight = copy_of(weight);
      if (has_bias) options.bias = copy_of(bias);
      check_case({"layer_norm", [=](const Tensor& x) { return layer_norm(x, {3}, options) * matrix(others); },
                  [=](const Doubles& x) {
                    Doubles out;
                    for (std::size_t row = 0; row < 2; ++row) {
                      const Doubles v(x.begin() + static_cast<std::ptrdiff_t>(3 * row),
                                      x.begin() + static_cast<std::ptrdiff_t>(3 * row + 3));
                      double variance = 0;
                      for (double e : v) variance += (e - mean_of(v)) * (e - mean_of(v)) / 3;
                      for (std::size_t i = 0; i < 3; ++i)
                        out.push_back(others[3 * row + i] *
                                      ((v[i] - mean_of(v)) / std::sqrt(variance + 1e-3) * (has_weight ? weight[i] : 1) +
                                       (has_bias ? bias[i] : 0)));
                    }
                    return out;
                  },
                  two_by_three, scores});
    }
  const auto alone = jit::compile([](Tensor x) { return layer_norm(x, {3}); });
  alone(matrix(scores));
  CHECK(alone.stats().kernels == 1);
  CHECK(layer_norm(ones({2, 3}, {.dtype = DType::f16}), {3}).dtype() == DType::f16);
  CHECK(layer_norm(ones({0, 3}), {3}).shape() == Shape{0, 3});
  CHECK(near(doubles(layer_norm(matrix(scores), {2, 3})),
             doubles(layer_norm(matrix(scores), {2, 3}, ones({2, 3}, {.dtype = DType::f64}),
                                zeros({2, 3}, {.dtype = DType::f64})))));
  CHECK(has(message_of<ShapeError>([] { layer_norm(ones({2, 3}), {2}); }), "its last axes do not match (2,)"));
  CHECK(has(message_of<ShapeError>([] { layer_norm(ones({2, 3}), {3}, {.bias = ones({2})}); }), "bias is (2,)"));
  CHECK(has(message_of<UserError>([] { layer_norm(ones({2}), {2}, ones({2}), ones({2}), {.bias = ones({2})}); }),
            "given twice"));
  CHECK(has(message_of<DTypeError>([] { layer_norm(arange(3), {3}); }), "must be floating"));
}

TEST_CASE("gumbel_softmax draws classes by their probabilities, with a derivative") {
  const Tensor logits = tensor({0.0, 1.0, -1.0});
  const std::int64_t count = 20000;
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor many = expand(logits, {count, 3});
    manual_seed(11);
    const Tensor hard = run_in(mode, [](const Inputs& in) { return gumbel_softmax(in[0], {.hard = true}); }, {many});
    const Doubles drawn = doubles(mean(hard, 0)), wanted = doubles(softmax(logits, 0));
    for (std::size_t i = 0; i < 3; ++i) CHECK(drawn[i] == Approx(wanted[i]).margin(0.015));
    CHECK(array_equal(sum(hard, 1), ones({count}, {.dtype = DType::f64})));
    CHECK(array_equal(hard * hard, hard));
    // Differences of two of Gumbel's numbers have the logistic distribution.
    manual_seed(12);
    const Tensor soft = run_in(mode, [](const Inputs& in) { return gumbel_softmax(in[0] * 0, {.tau = 2}); }, {many});
    const Tensor apart = 2 * (log(soft(all, 0)) - log(soft(all, 1)));
    CHECK(item<double>(mean(apart)) == Approx(0).margin(0.05));
    CHECK(item<double>(var(apart)) == Approx(std::numbers::pi * std::numbers::pi / 3).epsilon(0.05));
    // The same numbers are drawn again: both have the derivative of the soft one.
    const Tensor x = array({0.3, -1.2, 2.1, 0.7, -0.4, 1.6}, {3, 2}), factors = array(others, {3, 2});
    const auto value = [&](const Tensor& at, bool is_hard) {
      manual_seed(5);
      return run_in(mode,
                    [&](const Inputs& in) {
                      return sum(gumbel_softmax(in[0], {.tau = 0.7, .hard = is_hard, .axis = 0}) * factors);
                    },
                    {at});
    };
    const auto slopes = [&](bool is_hard) {
      manual_seed(5);
      return doubles(run_in(mode,
                            [&](const Inputs& in) {
                              return jit::grad([&](Tensor t) {
                                return sum(gumbel_softmax(t, {.tau = 0.7, .hard = is_hard, .axis = 0}) * factors);
                              })(in[0]);
                            },
                            {x}));
    };
    const Doubles of_soft = slopes(false);
    CHECK(near(slopes(true), of_soft, 1e-12));
    Doubles differences;
    for (std::size_t i = 0; i < 6; ++i) {
      Doubles step(6, 0);
      step[i] = 1e-6;
      differences.push_back(
          (item<double>(value(x + array(step, {3, 2}), false)) - item<double>(value(x - array(step, {3, 2}), false))) /
          2e-6);
    }
    CHECK(near(of_soft, differences, 1e-6));
  }
  CHECK(gumbel_softmax(zeros({2, 4}, {.dtype = DType::bf16})).dtype() == DType::bf16);
  CHECK(has(message_of<UserError>([] { gumbel_softmax(ones({2}), {.tau = 0}); }), "tau is 0.0"));
  CHECK(has(message_of<IndexError>([] { gumbel_softmax(ones({2}), {.axis = 1}); }), "gumbel_softmax"));
}

TEST_CASE("rrelu_training: slopes of negative numbers are uniform, and are their derivatives") {
  const std::int64_t count = 20000;
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor x = concat({full({count}, -2.0, {.dtype = DType::f64}), tensor({0.0, 0.5, 3.0})}, 0);
    const auto seeded = [&](const Function& f) {
      manual_seed(21);
      return run_in(mode, f, {x});
    };
    const Tensor y = seeded([](const Inputs& in) { return rrelu_training(in[0], 0.1, 0.4); });
    const Tensor slopes = y(slice(0, count)) / -2;
    CHECK(item<double>(amin(slopes)) >= 0.1);
    CHECK(item<double>(amax(slopes)) < 0.4);
    CHECK(item<double>(mean(slopes)) == Approx(0.25).epsilon(0.01));
    CHECK(item<double>(var(slopes)) == Approx(0.09 / 12).epsilon(0.05));
    CHECK(doubles(y(slice(count, count + 3))) == Doubles{0, 0.5, 3});
    const Tensor by_x = seeded(
        [](const Inputs& in) { return jit::grad([](Tensor t) { return sum(rrelu_training(t, 0.1, 0.4)); })(in[0]); });
    CHECK(near(doubles(by_x(slice(0, count))), doubles(slopes), 1e-12));
    CHECK(item<double>(by_x(count)) < 0.4);
    CHECK(doubles(by_x(slice(count + 1, count + 3))) == Doubles{1, 1});
  }
  CHECK(doubles(rrelu_training(tensor({-4.0, -1.0}), 0.25, 0.25))[0] == -1);
  CHECK(std::isnan(doubles(rrelu_training(tensor({std::nan("")})))[0]));
  CHECK(rrelu_training(zeros({2}, {.dtype = DType::f16})).dtype() == DType::f16);
  CHECK(has(message_of<UserError>([] { rrelu_training(ones({2}), 1, 0.5); }), "lower must be at most upper"));
}
