// Losses, statistics, norms and distances against loops written out here, their derivatives against finite differences
// of those loops, in every mode; and what tells whether tensors agree.
#include "loop_cases.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using oracle::infinite;
using oracle::not_a_number;
const Doubles scores{0.3, -1.2, 2.1, 0.7, -0.4, 1.6}, others{0.1, 0.4, -0.6, 1.9, -1.1, 0.2},
    ones_and_less{1, -1, 1, -1, -1, 1}, chances{0.2, 0.7, 0.9, 0.35, 0.5, 0.05}, bits{1, 0, 1, 0, 1, 1};
const Extents two_by_three{2, 3};
Tensor targets(const Doubles& values) { return array(values, two_by_three); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// A loss of each element, with all reductions.
void check_loss(const char* name, const std::function<Tensor(const Tensor&, LossReduction)>& call, const Doubles& x,
                const std::function<double(double, std::size_t)>& loss) {
  check_case({name, [=](const Tensor& t) { return call(t, LossReduction::none); },
              [=](const Doubles& v) { return each(v, loss); }, two_by_three, x});
  check_case({name, [=](const Tensor& t) { return call(t, LossReduction::sum); },
              [=](const Doubles& v) { return Doubles{total(each(v, loss))}; }, two_by_three, x});
  check_case({name, [=](const Tensor& t) { return call(t, LossReduction::mean); },
              [=](const Doubles& v) { return Doubles{mean_of(each(v, loss))}; }, two_by_three, x});
}

}  // namespace

TEST_CASE("losses of single elements") {
  check_loss(
      "mse_loss", [](const Tensor& x, LossReduction r) { return mse_loss(x, targets(others), r); }, scores,
      [](double x, std::size_t i) { return (x - others[i]) * (x - others[i]); });
  check_loss(
      "l1_loss", [](const Tensor& x, LossReduction r) { return l1_loss(x, targets(others), r); }, scores,
      [](double x, std::size_t i) { return std::abs(x - others[i]); });
  check_loss(
      "smooth_l1_loss", [](const Tensor& x, LossReduction r) { return smooth_l1_loss(x, targets(others), 0.9, r); },
      scores,
      [](double x, std::size_t i) {
        const double d = std::abs(x - others[i]);
        return d < 0.9 ? d * d / 1.8 : d - 0.45;
      });
  check_loss(
      "huber_loss", [](const Tensor& x, LossReduction r) { return huber_loss(x, targets(others), 0.9, r); }, scores,
      [](double x, std::size_t i) {
        const double d = std::abs(x - others[i]);
        return d < 0.9 ? d * d / 2 : 0.9 * (d - 0.45);
      });
  check_loss(
      "binary_cross_entropy",
      [](const Tensor& x, LossReduction r) {
        return binary_cross_entropy(x, targets(bits), {.weight = targets(chances), .reduction = r});
      },
      chances,
      [](double x, std::size_t i) { return -chances[i] * (bits[i] * std::log(x) + (1 - bits[i]) * std::log(1 - x)); });
  check_loss(
      "binary_cross_entropy_with_logits",
      [](const Tensor& x, LossReduction r) {
        return binary_cross_entropy_with_logits(x, targets(bits),
                                                {.pos_weight = tensor({2.0, 0.5, 3.0}), .reduction = r});
      },
      scores,
      [](double x, std::size_t i) {
        const double weight[] = {2, 0.5, 3};
        return (1 - bits[i]) * x + (1 + (weight[i % 3] - 1) * bits[i]) * softplus_of(-x);
      });
  check_loss(
      "kl_div",
      [](const Tensor& x, LossReduction r) { return kl_div(x, targets({0, 0.2, 1, 0.4, 0, 2}), {.reduction = r}); },
      scores,
      [](double x, std::size_t i) {
        const double t = Doubles{0, 0.2, 1, 0.4, 0, 2}[i];
        return (t == 0 ? 0 : t * std::log(t)) - t * x;
      });
  check_loss(
      "kl_div, log_target",
      [](const Tensor& x, LossReduction r) { return kl_div(x, targets(others), {.log_target = true, .reduction = r}); },
      scores, [](double x, std::size_t i) { return std::exp(others[i]) * (others[i] - x); });
  check_loss(
      "poisson_nll_loss",
      [](const Tensor& x, LossReduction r) {
        return poisson_nll_loss(x, targets({0, 1, 2, 3, 4, 5}), {.full = true, .reduction = r});
      },
      scores,
      [](double x, std::size_t i) {
        const double t = static_cast<double>(i);
        return std::exp(x) - t * x + (t > 1 ? t * std::log(t) - t + std::log(2 * std::numbers::pi * t) / 2 : 0);
      });
  check_loss(
      "poisson_nll_loss of rates",
      [](const Tensor& x, LossReduction r) {
        return poisson_nll_loss(x, targets(bits), {.log_input = false, .reduction = r});
      },
      chances, [](double x, std::size_t i) { return x - bits[i] * std::log(x + 1e-8); });
  check_loss(
      "gaussian_nll_loss",
      [](const Tensor& x, LossReduction r) {
        return gaussian_nll_loss(x, targets(others), targets(chances), {.full = true, .reduction = r});
      },
      scores,
      [](double x, std::size_t i) {
        return (std::log(chances[i]) + (x - others[i]) * (x - others[i]) / chances[i] +
                std::log(2 * std::numbers::pi)) /
               2;
      });
  check_loss(
      "hinge_embedding_loss",
      [](const Tensor& x, LossReduction r) { return hinge_embedding_loss(x, targets(ones_and_less), 0.8, r); }, scores,
      [](double x, std::size_t i) { return ones_and_less[i] == 1 ? x : std::max(0.0, 0.8 - x); });
  check_loss(
      "soft_margin_loss",
      [](const Tensor& x, LossReduction r) { return soft_margin_loss(x, targets(ones_and_less), r); }, scores,
      [](double x, std::size_t i) { return softplus_of(-ones_and_less[i] * x); });
  check_loss(
      "margin_ranking_loss",
      [](const Tensor& x, LossReduction r) {
        return margin_ranking_loss(x, targets(others), targets(ones_and_less), 0.3, r);
      },
      scores, [](double x, std::size_t i) { return std::max(0.0, -ones_and_less[i] * (x - others[i]) + 0.3); });
}

namespace {
/// A loss of each of the two rows.
void check_rows_loss(const char* name, const std::function<Tensor(const Tensor&, LossReduction)>& call,
                     const std::function<double(const double*, std::size_t)>& loss) {
  const auto rows = [=](const Doubles& v) { return Doubles{loss(v.data(), 0), loss(v.data() + 3, 1)}; };
  check_case({name, [=](const Tensor& t) { return call(t, LossReduction::none); }, rows, two_by_three, scores});
  check_case({name, [=](const Tensor& t) { return call(t, LossReduction::mean); },
              [=](const Doubles& v) { return Doubles{mean_of(rows(v))}; }, two_by_three, scores});
}
double distance(const double* a, const double* b, double p, double eps) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += std::pow(std::abs(a[i] - b[i] + eps), p);
  return std::pow(sum, 1 / p);
}
double cosine(const double* a, const double* b) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 0; i < 3; ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt((aa + 1e-12) * (bb + 1e-12));
}
}  // namespace

TEST_CASE("losses of rows") {
  check_rows_loss(
      "cosine_embedding_loss",
      [](const Tensor& x, LossReduction r) {
        return cosine_embedding_loss(x, targets(others), tensor({1, -1}), -0.9, r);
      },
      [](const double* x, std::size_t i) {
        const double c = cosine(x, others.data() + 3 * i);
        return i == 0 ? 1 - c : std::max(0.0, c + 0.9);
      });
  check_rows_loss(
      "triplet_margin_loss",
      [](const Tensor& x, LossReduction r) {
        return triplet_margin_loss(x, targets(others), targets(chances), {.p = 3, .swap = true, .reduction = r});
      },
      [](const double* x, std::size_t i) {
        const double *p = others.data() + 3 * i, *n = chances.data() + 3 * i;
        return std::max(0.0, distance(x, p, 3, 1e-6) - std::min(distance(x, n, 3, 1e-6), distance(p, n, 3, 1e-6)) + 1);
      });
  check_rows_loss(
      "multilabel_soft_margin_loss",
      [](const Tensor& x, LossReduction r) {
        return multilabel_soft_margin_loss(x, targets(bits), {.weight = tensor({1.0, 2.0, 3.0}), .reduction = r});
      },
      [](const double* x, std::size_t i) {
        double sum = 0;
        for (std::size_t k = 0; k < 3; ++k)
          sum += static_cast<double>(k + 1) * softplus_of(bits[3 * i + k] == 1 ? -x[k] : x[k]);
        return sum / 3;
      });
  for (double p : {1.0, 2.0})
    check_rows_loss(
        "multi_margin_loss",
        [p](const Tensor& x, LossReduction r) {
          return multi_margin_loss(x, tensor({2, 0}),
                                   {.p = p, .margin = 0.9, .weight = tensor({1.0, 2.0, 3.0}), .reduction = r});
        },
        [p](const double* x, std::size_t i) {
          const std::size_t own = i == 0 ? 2 : 0;
          double sum = 0;
          for (std::size_t k = 0; k < 3; ++k)
            if (k != own) sum += std::pow(std::max(0.0, 0.9 - x[own] + x[k]), p);
          return sum * static_cast<double>(own + 1) / 3;
        });
}

TEST_CASE("nll_loss") {
  const auto own = [](const Doubles& x) { return Doubles{-3 * x[2], 0, -1 * x[6]}; };
  const Doubles x{0.3, -1.2, 2.1, 0.7, -0.4, 1.6, -0.3, 0.9, 0.5};
  const Tensor target = tensor({2, -100, 0}), weight = tensor({1.0, 2.0, 3.0});
  const auto call = [=](LossReduction r) {
    return [=](const Tensor& t) { return nll_loss(t, target, {.weight = weight, .reduction = r}); };
  };
  check_case({"none", call(LossReduction::none), own, {3, 3}, x});
  check_case({"sum", call(LossReduction::sum), [=](const Doubles& v) { return Doubles{total(own(v))}; }, {3, 3}, x});
  check_case(
      {"mean", call(LossReduction::mean), [=](const Doubles& v) { return Doubles{total(own(v)) / 4}; }, {3, 3}, x});
  check_case({"images",
              [](const Tensor& t) { return nll_loss(t, tensor({{0, 2, 1}}), {.reduction = LossReduction::none}); },
              [](const Doubles& v) { return Doubles{-v[0], -v[7], -v[5]}; },
              {1, 3, 3},
              x});
  CHECK_THROWS_AS(item<double>(nll_loss(array(x, {3, 3}), tensor({0, 3, 0}))), IndexError);
  CHECK_THROWS_WITH(nll_loss(array(x, {3, 3}), tensor({0, 1})), Catch::Contains("target (n,)"));
  CHECK_THROWS_WITH(huber_loss(ones({2}), ones({2}), 0), Catch::Contains("must be positive"));
  CHECK_THROWS_WITH(l1_loss(ones({2}), ones({3})), Catch::Contains("l1_loss"));
  CHECK_THROWS_WITH(multi_margin_loss(ones({2, 3}), tensor({0, 1}), {.p = 3}), Catch::Contains("must be 1 or 2"));
  CHECK_THROWS_WITH(binary_cross_entropy(ones({2}), ones({2}), {.pos_weight = ones({2})}),
                    Catch::Contains("with_logits"));
}

TEST_CASE("losses where a formula alone would fail") {
  const auto slope = [](auto f, const Doubles& x) {
    return to_vector<double>(jit::grad([f](Tensor t) { return sum(f(t)); })(copy_of(x)));
  };
  CHECK(to_vector<double>(binary_cross_entropy_with_logits(tensor({1000.0, -1000.0}), tensor({0.0, 1.0}),
                                                           {.reduction = LossReduction::none})) == Doubles{1000, 1000});
  CHECK(to_vector<double>(binary_cross_entropy(tensor({0.0, 1.0}), tensor({1.0, 1.0}),
                                               {.reduction = LossReduction::none})) == Doubles{100, 0});
  // A probability that has saturated has no NaN for a derivative, and NaN has no number.
  const auto of_sigmoid = [](Tensor t) {
    return binary_cross_entropy(sigmoid(t), tensor({0.0, 1.0}), {.reduction = LossReduction::sum});
  };
  CHECK(slope(of_sigmoid, {800, -800}) == Doubles{0, 0});
  CHECK(std::isnan(slope(of_sigmoid, {not_a_number, 0})[0]));
  const auto of_huber = [](Tensor t) { return huber_loss(t, zeros({3}), 2, LossReduction::sum); };
  const auto of_smooth = [](Tensor t) { return smooth_l1_loss(t, zeros({3}), 2, LossReduction::sum); };
  const Doubles ends{infinite, -infinite, not_a_number}, huber = slope(of_huber, ends), smooth = slope(of_smooth, ends);
  CHECK(Doubles{huber[0], huber[1]} == Doubles{2, -2});
  CHECK(Doubles{smooth[0], smooth[1]} == Doubles{1, -1});
  CHECK(std::isnan(huber[2]));
  CHECK(std::isnan(smooth[2]));
  CHECK(slope([](Tensor t) { return hardswish(t); }, {-4, -3, 3, 4}) == Doubles{0, 0, 1, 1});
  CHECK(slope([](Tensor t) { return norm(t); }, {0, 0}) == Doubles{0, 0});
  CHECK(slope([](Tensor t) { return norm(t, {}, {.p = 3}); }, {0, 2})[0] == 0);
  CHECK(slope([](Tensor t) { return stddev(t); }, {2, 2}) == Doubles{0, 0});
  CHECK(slope([](Tensor t) { return cosine_similarity(t, t + 1, 0); }, {0, 0}) ==
        Doubles{1e8 / std::sqrt(2.0), 1e8 / std::sqrt(2.0)});
  CHECK(slope([](Tensor t) { return logsumexp(t, Axes{0}); }, {-infinite, 0}) == Doubles{0, 1});
  CHECK(slope([](Tensor t) { return nansum(t); }, {not_a_number, 1}) == Doubles{0, 1});
}

TEST_CASE("statistics, norms and distances") {
  const auto rows = [](auto f) {
    return [f](const Doubles& v) {
      return Doubles{f(Doubles(v.begin(), v.begin() + 3)), f(Doubles(v.begin() + 3, v.end()))};
    };
  };
  const auto spread = [](double correction) {
    return [correction](const Doubles& v) {
      double sum = 0;
      for (double x : v) sum += (x - mean_of(v)) * (x - mean_of(v));
      return sum / (static_cast<double>(v.size()) - correction);
    };
  };
  check_case(
      {"var", [](const Tensor& x) { return var(x, 1, {.correction = 1}); }, rows(spread(1)), two_by_three, scores});
  check_case({"stddev", [](const Tensor& x) { return stddev(x, -1, {.correction = 0.5}); },
              rows([=](const Doubles& v) { return std::sqrt(spread(0.5)(v)); }), two_by_three, scores});
  check_case({"stddev of all", [](const Tensor& x) { return stddev(x); },
              [=](const Doubles& v) { return Doubles{std::sqrt(spread(0)(v))}; }, two_by_three, scores});
  for (double p : {0.0, 1.0, 1.5, 2.0, 3.0, infinite, -infinite}) {
    INFO(p);
    const auto length = [p](const Doubles& v) {
      double sum = 0, most = 0, least = infinite;
      for (double x : v) {
        sum += p == 0 ? 1 : std::pow(std::abs(x), p);
        most = std::max(most, std::abs(x));
        least = std::min(least, std::abs(x));
      }
      return std::isinf(p) ? (p > 0 ? most : least) : p == 0 ? sum : std::pow(sum, 1 / p);
    };
    check_case({"norm", [p](const Tensor& x) { return norm(x, 1, {.p = p}); }, rows(length), two_by_three, scores});
    check_case({"norm of all", [p](const Tensor& x) { return norm(x, {}, {.p = p, .keep = Keep::yes}); },
                [=](const Doubles& v) { return Doubles{length(v)}; }, two_by_three, scores});
  }
  check_case({"logsumexp", [](const Tensor& x) { return logsumexp(x, Axes{0, 1}); },
              [](const Doubles& v) {
                double sum = 0;
                for (double x : v) sum += std::exp(x);
                return Doubles{std::log(sum)};
              },
              two_by_three, scores});
  check_case({"ptp", [](const Tensor& x) { return ptp(x, 1); }, rows([](const Doubles& v) {
                return *std::max_element(v.begin(), v.end()) - *std::min_element(v.begin(), v.end());
              }),
              two_by_three, scores});
  check_case({"average", [](const Tensor& x) { return average(x, tensor({1.0, 2.0, 3.0}), 1); },
              rows([](const Doubles& v) { return (v[0] + 2 * v[1] + 3 * v[2]) / 6; }), two_by_three, scores});
  check_case(
      {"average along the first axis", [](const Tensor& x) { return average(x, tensor({1.0, 3.0}), 0); },
       [](const Doubles& v) { return Doubles{(v[0] + 3 * v[3]) / 4, (v[1] + 3 * v[4]) / 4, (v[2] + 3 * v[5]) / 4}; },
       two_by_three, scores});
  const auto covariance = [](const Doubles& v, int i, int j) {
    const Doubles a(v.begin() + 3 * i, v.begin() + 3 * i + 3), b(v.begin() + 3 * j, v.begin() + 3 * j + 3);
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k) sum += (a[k] - mean_of(a)) * (b[k] - mean_of(b));
    return sum / 2;
  };
  check_case({"cov", [](const Tensor& x) { return cov(x); },
              [=](const Doubles& v) {
                return Doubles{covariance(v, 0, 0), covariance(v, 0, 1), covariance(v, 1, 0), covariance(v, 1, 1)};
              },
              two_by_three, scores});
  check_case({"corrcoef", [](const Tensor& x) { return corrcoef(x)(0, 1); },
              [=](const Doubles& v) {
                return Doubles{covariance(v, 0, 1) / std::sqrt(covariance(v, 0, 0) * covariance(v, 1, 1))};
              },
              two_by_three, scores});
  check_case({"normalize", [](const Tensor& x) { return normalize(x, {.p = 1}); },
              [](const Doubles& v) {
                return each(v, [&](double x, std::size_t i) {
                  const std::size_t row = i / 3 * 3;
                  return x / (std::abs(v[row]) + std::abs(v[row + 1]) + std::abs(v[row + 2]));
                });
              },
              two_by_three, scores});
  check_case({"cosine_similarity", [](const Tensor& x) { return cosine_similarity(x, targets(others)); },
              [](const Doubles& v) {
                return Doubles{cosine(v.data(), others.data()), cosine(v.data() + 3, others.data() + 3)};
              },
              two_by_three, scores});
  check_case({"pairwise_distance", [](const Tensor& x) { return pairwise_distance(x, targets(others), {.p = 3}); },
              [](const Doubles& v) {
                return Doubles{distance(v.data(), others.data(), 3, 1e-6),
                               distance(v.data() + 3, others.data() + 3, 3, 1e-6)};
              },
              two_by_three, scores});
  check_case({"softmin", [](const Tensor& x) { return softmin(x, 1); },
              [](const Doubles& v) {
                return each(v, [&](double x, std::size_t i) {
                  const std::size_t row = i / 3 * 3;
                  return std::exp(-x) / (std::exp(-v[row]) + std::exp(-v[row + 1]) + std::exp(-v[row + 2]));
                });
              },
              two_by_three, scores});
}

TEST_CASE("reductions without NaN, and counts") {
  const Tensor x = copy_of(Doubles{1, not_a_number, 3, not_a_number, not_a_number, 0}, {3, 2});
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto run = [&](auto f) {
      return to_vector<double>(run_in(mode, [f](const Inputs& in) { return cast(f(in[0]), DType::f64); }, {x}));
    };
    CHECK(run([](const Tensor& t) { return nansum(t, 1); }) == Doubles{1, 3, 0});
    CHECK(run([](const Tensor& t) { return nanmean(t, 0); }) == Doubles{2, 0});
    CHECK(run([](const Tensor& t) { return nanmax(t, 0, keepdim); }) == Doubles{3, 0});
    CHECK(run([](const Tensor& t) { return nanmin(t, 1); }) == Doubles{1, 3, 0});
    CHECK(run([](const Tensor& t) { return count_nonzero(t, 1); }) == Doubles{2, 2, 1});
  }
  CHECK(std::isnan(item<double>(nanmax(x(slice(0, 1), 1)))));
  CHECK(item<std::int64_t>(nansum(tensor({1, 2}))) == 3);
  CHECK(item<std::int64_t>(count_nonzero(tensor({true, false, true}))) == 2);
}

TEST_CASE("agreement of tensors") {
  const Tensor a = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  CHECK(allclose(a, a + 1e-9));
  const Agreement off = allclose(a, a + tensor({{0.0, 0.5, 0.0}, {0.0, 0.0, 2.0}}));
  CHECK_FALSE(off);
  CHECK(off.mismatches == 2);
  CHECK(off.worst == std::vector<std::int64_t>{1, 2});
  CHECK(off.a == 6);
  CHECK(off.b == 8);
  CHECK(off.difference == 2);
  CHECK(off.text() == "2 of 6 elements differ, most at (1, 2): 6 and 8");
  CHECK(allclose(a, ones({2})).text() == "shapes (2, 3) and (2,)");
  std::ostringstream printed;
  printed << off;
  CHECK(printed.str() == off.text());
  CHECK_FALSE(allclose(tensor({NAN}), tensor({NAN})));
  CHECK(allclose(tensor({NAN}), tensor({NAN}), {.equal_nan = true}));
  CHECK(allclose(tensor({INFINITY}), tensor({INFINITY})));
  const Tensor large = copy_of(std::vector<std::int64_t>{(std::int64_t{1} << 53) + 1});
  CHECK(array_equal(large, large));
  CHECK_FALSE(array_equal(large, large - 1));
  CHECK(array_equal(tensor({1, 2}), tensor({1.f, 2.f})));
}
