// ctc_loss: PyTorch's numbers on every back end, gradients, shapes of targets, vmap and errors.
#include "../checks.hpp"
#include "number_cases.hpp"

#include <sinter/graphs.hpp>

#include <cmath>
#include <vector>

using namespace sinter_test;

namespace {

using In1 = const Inputs&;
constexpr double inf = INFINITY;

/// Logarithms of probabilities, (steps, sequences, classes).
Tensor log_probabilities(DType dtype = DType::f64) {
  const Tensor angle = arange(72, {.dtype = DType::f64}) * 0.7;
  return cast(log_softmax(reshape(sin(angle) * 1.5, {6, 3, 4}), 2), dtype);
}
const Tensor& targets() {
  static const Tensor rows = tensor({{1, 2, 2}, {3, 1, 0}, {2, 2, 2}});  // the last one does not fit four steps
  return rows;
}
const Tensor& steps() {
  static const Tensor lengths = tensor({6, 4, 4});
  return lengths;
}
const Tensor& labels() {
  static const Tensor lengths = tensor({3, 2, 3});
  return lengths;
}
Tensor loss_of(const Tensor& x, CtcLossOptions options) { return ctc_loss(x, targets(), steps(), labels(), options); }

}  // namespace

TEST_CASE("ctc_loss has PyTorch's values") {
  const Tensor x = log_probabilities();
  check_cases({
      {"of each",
       [](In1 in) { return loss_of(in[0], {.reduction = LossReduction::none}); },
       {x},
       {5.256610750947827, 1.825759280577335, inf}},
      {"infinity is 0",
       [](In1 in) { return loss_of(in[0], {.reduction = LossReduction::none, .zero_infinity = true}); },
       {x},
       {5.256610750947827, 1.825759280577335, 0}},
      {"mean of those by label",
       [](In1 in) { return loss_of(in[0], {.zero_infinity = true}); },
       {x},
       {0.888361074645981}},
      {"sum",
       [](In1 in) { return loss_of(in[0], {.reduction = LossReduction::sum, .zero_infinity = true}); },
       {x},
       {7.082370031525162}},
      {"another blank",
       [](In1 in) {
         return ctc_loss(in[0], tensor({{0, 1}, {0, 2}, {1, 0}}), steps(), tensor({2, 2, 1}),
                         {.blank = 3, .reduction = LossReduction::none});
       },
       {x},
       {3.9411427509122587, 3.226771254381054, 2.774433964439586}},
      {"targets one after the other",
       [](In1 in) {
         return ctc_loss(in[0], tensor({1, 2, 2, 3, 1, 2, 2, 2}), steps(), labels(),
                         {.reduction = LossReduction::none});
       },
       {x},
       {5.256610750947827, 1.825759280577335, inf}},
      {"one sequence",
       [](In1 in) { return ctc_loss(in[0](all, 0), tensor({1, 2, 2}), 6, 3, {.reduction = LossReduction::none}); },
       {x},
       {5.256610750947827}},
      {"no labels: blanks alone",
       [](In1 in) {
         const Tensor loss = ctc_loss(in[0], targets(), steps(), tensor({0, 0, 0}), {.reduction = LossReduction::none});
         const Tensor& x = in[0];
         return Tensor(1 + loss + stack({sum(x(all, 0, 0)), sum(x(slice(0, 4), 1, 0)), sum(x(slice(0, 4), 2, 0))}, 0));
       },
       {x},
       {1, 1, 1}},
      {"no steps",
       [](In1 in) {
         return ctc_loss(in[0], targets(), tensor({0, 0, 0}), tensor({0, 1, 3}), {.reduction = LossReduction::none});
       },
       {x},
       {0, inf, inf}},
  });
  const std::vector<double> narrow = to_vector<double>(loss_of(log_probabilities(DType::f32), {.zero_infinity = true}));
  CHECK(is_near(narrow, {0.888361074645981}, 1e-6));
  CHECK(loss_of(log_probabilities(DType::f16), {}).dtype() == DType::f16);
}

TEST_CASE("ctc_loss: the gradient, of scores, is PyTorch's") {
  const Tensor scores = reshape(sin(arange(72, {.dtype = DType::f64}) * 0.7) * 1.5, {6, 3, 4});
  const auto slopes = [&](CtcLossOptions options) {
    const auto gradient = jit::grad([=](Tensor t) { return sum(loss_of(log_softmax(t, 2), options)); });
    const Tensor lazy = gradient(scores), compiled = jit::compile(gradient)(scores);
    CHECK(is_near(to_vector<double>(compiled), to_vector<double>(lazy), 1e-14));
    return to_vector<double>(lazy);
  };
  const std::vector<double> mean = slopes({.zero_infinity = true});
  const std::vector<double> want = {-0.00819491329276911,
                                    -0.06835191458636074,
                                    0.041772532766083205,
                                    0.03477429511304664,
                                    -0.04182314468402745,
                                    0.03589729323869992,
                                    0.016435984012610375,
                                    -0.01051013256728284,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0.006611646869671463,
                                    -0.013150988778971223,
                                    0.0016405371746794344,
                                    0.004898804734620327,
                                    0.006304646189417386,
                                    0.011658803600692413,
                                    0.03976822902030276,
                                    -0.05773167881041256,
                                    0,
                                    0,
                                    0,
                                    0,
                                    -0.017235231151696985,
                                    -0.00259903434821184,
                                    -0.04075997238426192,
                                    0.060594237884170746,
                                    0.01534845247504647,
                                    -0.07134891466388595,
                                    0.047683536429338716,
                                    0.008316925759500764,
                                    0,
                                    0,
                                    0,
                                    0,
                                    -0.005493141218374054,
                                    0.026575303930178987,
                                    -0.05353303128735165,
                                    0.03245086857554672,
                                    0.0008987125480549163,
                                    -0.03331337130936498,
                                    0.016998527572103968,
                                    0.0154161311892061,
                                    0,
                                    0,
                                    0,
                                    0,
                                    -0.040333611183325235,
                                    0.02878127457484317,
                                    0.00653348331363957,
                                    0.005018853294842501,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0.010209099369262294,
                                    0.012435437630787659,
                                    -0.08511570287406425,
                                    0.062471165874014294,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0};
  CHECK(is_near(mean, want, 1e-14, 0));
  // What does not fit has no gradient: NaN up to its last step. Others are as they were.
  const std::vector<double> infinite = slopes({.reduction = LossReduction::sum});
  for (std::size_t i = 0; i < infinite.size(); ++i) {
    const std::size_t step = i / 12, sequence = i / 4 % 3;
    if (sequence == 2) CHECK(std::isnan(infinite[i]) == (step < 4));
    else CHECK(std::abs(infinite[i] - want[i] * (sequence == 0 ? 9 : 6)) < 1e-14);
  }
  // By the logarithms themselves: differences of the loss.
  const Tensor x = log_probabilities();
  const Tensor slope = jit::grad([](Tensor t) { return loss_of(t, {.zero_infinity = true}); })(x);
  const std::vector<double> start = to_vector<double>(x), by_rule = to_vector<double>(slope);
  for (std::size_t i = 0; i < start.size(); i += 5) {
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<double> moved = start;
      moved[i] += side == 0 ? -1e-5 : 1e-5;
      loss[side] = item<double>(loss_of(copy_of(moved, {6, 3, 4}), {.zero_infinity = true}));
    }
    CHECK(std::abs((loss[1] - loss[0]) / 2e-5 - by_rule[i]) < 1e-8);
  }
}

TEST_CASE("ctc_loss: NaN stays") {
  std::vector<double> logarithms = to_vector<double>(log_probabilities());
  logarithms[0] = NAN;  // of the blank of the first sequence, at the first step
  const Tensor x = copy_of(logarithms, {6, 3, 4});
  const Tensor loss = loss_of(x, {.reduction = LossReduction::none, .zero_infinity = true});
  CHECK(is_near(to_vector<double>(loss), {NAN, 1.825759280577335, 0}, 1e-13));
  const Tensor slope = jit::grad([](Tensor t) { return loss_of(t, {.zero_infinity = true}); })(x);
  CHECK(std::isnan(item<double>(slope(0, 0, 1))));
  CHECK(!std::isnan(item<double>(sum(slope(all, 1)))));
}

TEST_CASE("ctc_loss: vmap over examples, and the gradient in it") {
  const Tensor x = log_probabilities(), both = stack({x, log_softmax(x * 0.5, 2)}, 0);
  const auto of_one = [](Tensor t) { return loss_of(t, {.reduction = LossReduction::none, .zero_infinity = true}); };
  const std::vector<double> mapped = to_vector<double>(jit::vmap(of_one)(both));
  std::vector<double> single = to_vector<double>(of_one(x)),
                      second = to_vector<double>(of_one(log_softmax(x * 0.5, 2)));
  single.insert(single.end(), second.begin(), second.end());
  CHECK(is_near(mapped, single, 1e-14));
  const auto slope_of_one = jit::grad([](Tensor t) { return loss_of(t, {.zero_infinity = true}); });
  const Tensor slopes = jit::vmap([&](Tensor t) { return slope_of_one(t); })(both);
  CHECK(is_near(to_vector<double>(slopes(1)), to_vector<double>(slope_of_one(Tensor(both(1)))), 1e-14));
}

TEST_CASE("ctc_loss: what is wrong is said") {
  const Tensor x = log_probabilities();
  const auto none = LossReduction::none;
  CHECK(has(
      message_of([&] { eval(ctc_loss(x, tensor({{1}, {9}, {1}}), steps(), tensor({1, 1, 1}), {.reduction = none})); }),
      "target 9 of sequence 1"));
  CHECK(has(
      message_of([&] { eval(ctc_loss(x, tensor({{1}, {0}, {1}}), steps(), tensor({1, 1, 1}), {.reduction = none})); }),
      "not the blank 0"));
  CHECK(has(message_of([&] { eval(ctc_loss(x, targets(), tensor({7, 4, 4}), labels())); }),
            "input length 7 of sequence 0"));
  CHECK(has(message_of([&] { eval(ctc_loss(x, targets(), steps(), tensor({1, 4, 1}))); }),
            "target length 4 of sequence 1"));
  CHECK_THROWS_AS(ctc_loss(x, tensor({{1, 2}}), steps(), labels()), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, tensor({{1.f}, {2.f}, {1.f}}), steps(), labels()), DTypeError);
  CHECK_THROWS_AS(ctc_loss(x, targets(), steps(), labels(), {.blank = 4}), IndexError);
  CHECK(has(message_of([&] { eval(ctc_loss(x, tensor({1, 2, 2, 3, 1, 2, 2}), steps(), labels())); }),
            "the targets end before those of sequence 2"));
  const auto slope = jit::grad([](Tensor t) { return loss_of(t, {.zero_infinity = true}); });
  CHECK(has(message_of([&] { eval(jit::grad([&](Tensor t) { return sum(square(slope(t))); })(x)); }),
            "second derivative"));
}

TEST_CASE("ctc_loss: the blank is a class, of any number of them") {
  const auto last = [](Tensor x) {
    return ctc_loss(x, tensor({{0, 1}, {0, 2}, {1, 0}}), steps(), tensor({2, 2, 1}), {.blank = 3});
  };
  const Tensor x = log_probabilities(), few = log_softmax(x(all, all, slice(0, 3)), 2);
  auto f = jit::compile(last, {.dynamic = jit::Dynamic::always});
  CHECK(is_near(to_vector<double>(f(x)), to_vector<double>(last(x)), 1e-14));
  CHECK(has(message_of<IndexError>([&] { eval(f(few)); }), "the blank is class 3 of s"));
  CHECK(has(message_of<IndexError>([&] { eval(jit::compile(last, {.dynamic = jit::Dynamic::always})(few)); }),
            "the blank is class 3 of s"));
  const Graph graph = parse_graph(
      "graph(%0: f64[2, 1, s0], %1: i64[1, 1], %2: i64[1], %3: i64[1]) {\n"
      "  %4: f64[1] = ctc_loss(%0, %1, %2, %3) {blank=5}\n  return %4\n}");
  const Tensor one = full({1}, 1, {.dtype = DType::i64});
  const std::vector<Tensor> inputs{zeros({2, 1, 3}, {.dtype = DType::f64}), reshape(one, {1, 1}), one, one};
  CHECK(has(message_of<IndexError>([&] { jit::compile_graph(graph)(inputs); }), "the blank is class 5 of 3"));
}
