// cross_entropy: its options, targets that do not count, and targets that are no class; one_hot and gathers under vmap,
// whose indices are checked in the same way.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <initializer_list>
#include <limits>

using namespace sinter;

namespace {

const std::vector<double> logit_values{1, 2, 3, -1, 0.5, -0.5, 2, 1, 3, 1, 0, -2};
Tensor logits() { return copy_of(logit_values, {3, 4}); }
Tensor weights() { return tensor<double>({1, 2, 0.5, 3}); }
Tensor targets(std::initializer_list<std::int64_t> classes) { return tensor<std::int64_t>(classes); }
std::string at(int line) { return "[losses_test.cpp:" + std::to_string(line) + "]"; }

CrossEntropyOptions options(bool is_weighted, double smoothing, LossReduction reduction) {
  CrossEntropyOptions out{.label_smoothing = smoothing, .reduction = reduction};
  if (is_weighted) out.weight = weights();
  return out;
}

/// PyTorch's results and gradients of cross_entropy(logits, [2, -100, 1]).
struct LossRow {
  bool is_weighted;
  double smoothing, mean, sum;
  std::vector<double> by_mean;
};
const LossRow loss_rows[] = {
    {false,
     0,
     1.297616004466027,
     2.595232008932054,
     {0.044473409, 0.120891259, -0.171383489, 0.006018821, 0, 0, 0, 0, 0.419512254, -0.44322519, 0.020886285,
      0.002826651}},
    {true,
     0,
     1.8243556193564394,
     4.560889048391099,
     {0.017789363, 0.048356503, -0.068553395, 0.002407529, 0, 0, 0, 0, 0.671219606, -0.709160305, 0.033418056,
      0.004522642}},
    {false,
     0.25,
     1.5788660044660268,
     3.1577320089320535,
     {0.013223409, 0.089641259, -0.077633489, -0.025231179, 0, 0, 0, 0, 0.388262254, -0.34947519, -0.010363715,
      -0.028423349}},
    {true,
     0.25,
     2.377491915968788,
     5.943729789921971,
     {0.00279588, 0.025557037, 0.04288532, -0.071238237, 0, 0, 0, 0, 0.614756187, -0.563418415, 0.019351585,
      -0.070689357}},
};

}  // namespace

TEST_CASE("cross_entropy: weights, label smoothing, reductions and targets that do not count, as in PyTorch") {
  for (const char* backend : {"", "eager"})
    for (const LossRow& row : loss_rows) {
      INFO(backend << (row.is_weighted ? " weighted" : "") << " smoothing " << row.smoothing);
      auto loss = jit::compile(
          [&](Tensor x, Tensor t, LossReduction reduction) {
            return cross_entropy(x, t, options(row.is_weighted, row.smoothing, reduction));
          },
          {.backend = backend});
      auto gradient = jit::compile(
          [&](Tensor x, Tensor t, LossReduction reduction) {
            return jit::grad([&](Tensor y) {
              return sum(cross_entropy(y, t, options(row.is_weighted, row.smoothing, reduction)));
            })(x);
          },
          {.backend = backend});
      for (DType index : {DType::i64, DType::i32}) {
        const Tensor t = cast(targets({2, -100, 1}), index);
        CHECK(near(doubles(loss(logits(), t, LossReduction::mean)), {row.mean}));
        CHECK(near(doubles(loss(logits(), t, LossReduction::sum)), {row.sum}));
        CHECK(near(doubles(cross_entropy(logits(), t, options(row.is_weighted, row.smoothing, LossReduction::mean))),
                   {row.mean}));
        const std::vector<double> each = doubles(loss(logits(), t, LossReduction::none));
        CHECK((each[1] == 0 && std::abs(each[0] + each[2] - row.sum) < 1e-12));
        CHECK(near(doubles(gradient(logits(), t, LossReduction::mean)), row.by_mean, 1e-8));
        const std::vector<double> of_sum = doubles(gradient(logits(), t, LossReduction::sum)),
                                  of_each = doubles(gradient(logits(), t, LossReduction::none));
        CHECK(near(of_sum, of_each, 1e-14));
        CHECK(std::abs(of_sum[0] / row.by_mean[0] - row.sum / row.mean) < 1e-4);
        const Tensor none = cast(targets({-100, -100, -100}), index);
        CHECK(std::isnan(doubles(loss(logits(), none, LossReduction::mean))[0]));
        CHECK(doubles(loss(logits(), none, LossReduction::sum))[0] == 0);
        CHECK(doubles(gradient(logits(), none, LossReduction::mean)) == std::vector<double>(12, 0));
      }
    }
  CHECK(near(doubles(cross_entropy(logits(), targets({1, 1, 3}), {.ignore_index = 1})), {5.175515362616714}));
  CHECK(near(doubles(cross_entropy(logits(), targets({2, 0, 1}))), {1.536635658144343}));
  auto mapped = jit::compile([](Tensor x, Tensor t) {
    return jit::vmap([](Tensor one, Tensor of) { return cross_entropy(one, of, {.weight = weights()}); })(x, t);
  });
  const Tensor both = stack({logits(), logits() * 2.0}, 0), two = reshape(targets({2, -100, 1, 0, 1, 2}), {2, 3});
  CHECK(near(doubles(mapped(both, two)), {1.8243556193564394, doubles(cross_entropy(logits() * 2.0, targets({0, 1, 2}),
                                                                                    {.weight = weights()}))[0]}));
}

TEST_CASE("cross_entropy: weights are constants of second derivatives, too") {
  const auto slope = [](Tensor x, Tensor w) {
    const auto loss = [&w](Tensor y) {
      return cross_entropy(y, targets({2, 0, 1}), {.weight = w, .label_smoothing = 0.1});
    };
    return sum(square(jit::grad(loss)(x)));
  };
  CHECK(doubles(jit::grad<1>(slope)(logits(), weights())) == std::vector<double>(4, 0));
  CHECK(doubles(jit::compile(jit::grad<1>(slope))(logits(), weights())) == std::vector<double>(4, 0));
}

TEST_CASE("cross_entropy: a target that is no class is an IndexError, forward and backward, in all ways of calling") {
  for (const char* backend : {"", "eager"}) {
    const int line = __LINE__ + 1;
    auto loss = [](Tensor x, Tensor t) { return cross_entropy(x, t); };
    const int weighted_line = __LINE__ + 1;
    auto weighted = [](Tensor x, Tensor t) { return cross_entropy(x, t, {.weight = weights()}); };
    auto f = jit::compile(loss, {.backend = backend});
    auto g = jit::compile(jit::grad(loss), {.backend = backend});
    auto w = jit::compile(weighted, {.backend = backend});
    for (std::int64_t bad :
         {std::int64_t{4}, std::int64_t{-1}, std::int64_t{-101}, std::numeric_limits<std::int64_t>::max()}) {
      const Tensor t = targets({2, bad, 1});
      const std::string text = "index " + std::to_string(bad) + " is out of range for an axis of extent 4 ";
      CHECK(has(message_of<IndexError>([&] { f(logits(), t); }), text + at(line)));
      CHECK(has(message_of<IndexError>([&] { g(logits(), t); }), text + at(line)));
      CHECK(has(message_of<IndexError>([&] { w(logits(), t); }), text + at(weighted_line)));
      CHECK(has(message_of<IndexError>([&] { eval(loss(logits(), t)); }), text + at(line)));
      CHECK(has(message_of<IndexError>([&] { eval(jit::grad(loss)(logits(), t)); }), text + at(line)));
    }
    CHECK(near(doubles(f(logits(), targets({2, 0, 1}))), {1.536635658144343}));  // it can be called again
    auto dynamic = jit::compile(loss, {.backend = backend, .dynamic = jit::Dynamic::always});
    CHECK(has(message_of<IndexError>([&] { dynamic(logits(), targets({0, 1, 9})); }),
              "index 9 is out of range for an axis of extent 4 " + at(line)));
    auto mapped = jit::compile([&](Tensor x, Tensor t) { return jit::vmap(loss)(x, t); }, {.backend = backend});
    const Tensor both = stack({logits(), logits()}, 0);
    CHECK(has(message_of<IndexError>([&] { mapped(both, reshape(targets({0, 1, 2, 3, 0, 4}), {2, 3})); }),
              "index 4 is out of range for an axis of extent 4"));
  }
}

TEST_CASE("cross_entropy: wrong options") {
  CHECK(has(message_of<UserError>([] { cross_entropy(logits(), targets({0, 1, 2}), {.label_smoothing = 1.5}); }),
            "cross_entropy: label_smoothing is 1.5"));
  CHECK(
      has(message_of<UserError>([] { cross_entropy(logits(), targets({0, 1, 2}), {.label_smoothing = std::nan("")}); }),
          "label_smoothing is"));
  CHECK(has(message_of<ShapeError>([] { cross_entropy(logits(), targets({0, 1, 2}), {.weight = ones({3})}); }),
            "weight is (3,)"));
  CHECK(has(message_of<UserError>(
                [] { cross_entropy(logits(), tensor({0, 1, 2}), {.ignore_index = std::int64_t{1} << 40}); }),
            "which no target of i32 can be"));
  CHECK(has(message_of<UserError>(
                [] { cross_entropy(logits(), targets({0, 1, 2}), {.reduction = static_cast<LossReduction>(7)}); }),
            "which is no LossReduction"));
}

TEST_CASE("one_hot and takes over a batch name the index and the extent of the example") {
  for (const char* backend : {"", "eager"}) {
    const int line = __LINE__ + 1;
    auto hot = jit::compile([](Tensor i) { return one_hot(i, 4) * 2; }, {.backend = backend});
    CHECK(floats(hot(tensor({3, 0}))) == std::vector<float>{0, 0, 0, 2, 2, 0, 0, 0});
    CHECK(floats(hot(reshape(tensor({3, 0}), {2, 1, 1}))) == std::vector<float>{0, 0, 0, 2, 2, 0, 0, 0});
    CHECK(floats(hot(tensor({1})(0))) == std::vector<float>{0, 2, 0, 0});
    for (int bad : {4, -1, 1 << 30})
      CHECK(has(message_of<IndexError>([&] { hot(tensor({3, bad})); }),
                "index " + std::to_string(bad) + " is out of range for an axis of extent 4 " + at(line)));
    const int taken = __LINE__ + 1;
    auto rows = [](Tensor x, Tensor i) { return take(x, i, 1); };
    const Tensor x = reshape(arange(24).to(DType::f32), {2, 3, 4}), good = reshape(tensor({0, 3, 1, 2}), {2, 2});
    auto mapped = jit::compile([&](Tensor a, Tensor i) { return jit::vmap(rows)(a, i); }, {.backend = backend});
    CHECK(floats(mapped(x, good)) == std::vector<float>{0, 3, 4, 7, 8, 11, 13, 14, 17, 18, 21, 22});
    CHECK(has(message_of<IndexError>([&] { mapped(x, reshape(tensor({0, 3, 1, 4}), {2, 2})); }),
              "index 4 is out of range for an axis of extent 4 " + at(taken)));
    auto gradient = jit::compile(
        [&](Tensor a, Tensor i) { return jit::grad([&](Tensor y) { return sum(jit::vmap(rows)(y, i) * 2); })(a); },
        {.backend = backend});
    CHECK(floats(gradient(x, reshape(tensor({0, 0, 1, 2}), {2, 2}))) ==
          std::vector<float>{4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0});
    CHECK(has(message_of<IndexError>([&] { gradient(x, reshape(tensor({0, 3, 1, -1}), {2, 2})); }),
              "index -1 is out of range for an axis of extent 4"));
    auto twice = jit::compile(
        [&](Tensor a, Tensor i) {
          return jit::vmap(jit::vmap([](Tensor one, Tensor of) { return take(one, of, 0); }))(a, i);
        },
        {.backend = backend});
    const Tensor index = reshape(tensor({0, 1, 2, 3, 0, 1}), {2, 3});
    CHECK(floats(twice(x, index)) == std::vector<float>{0, 5, 10, 15, 16, 21});
  }
}
