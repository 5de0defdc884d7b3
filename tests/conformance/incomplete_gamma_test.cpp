// igamma and igammac: numbers from mpmath on every back end; slopes, numbers as operands, errors.
#include "../checks.hpp"
#include "number_cases.hpp"

#include <cmath>
#include <vector>

using namespace sinter_test;

namespace {

using In1 = const Inputs&;
constexpr double inf = INFINITY, none = NAN;

}  // namespace

TEST_CASE("incomplete gamma functions have mpmath's values") {
  const Tensor a = tensor({0.0, 0.001, 0.5, 1.0, 2.5, 9.0, 20.0, 150.0, 250.0, 1e4, 3.0, 0.0, 2.0, -1.0, 1.0, 1e-10});
  const Tensor x = tensor({1.0, 0.5, 0.5, 3.0, 1.0, 12.0, 5.0, 170.0, 240.0, 1.01e4, 0.0, 0.0, inf, 1.0, -1.0, 0.25});
  const std::vector<double> lower = {1,
                                     0.9994399333435292,
                                     0.6826894921370859,
                                     0.950212931632136,
                                     0.15085496391539036,
                                     0.8449722182325371,
                                     3.45213582091446e-07,
                                     0.9443655686898067,
                                     0.2676500698540158,
                                     0.8413487504471796,
                                     0,
                                     none,
                                     1,
                                     none,
                                     none,
                                     0.9999999998955718};
  const std::vector<double> upper = {0,
                                     0.0005600666564707498,
                                     0.3173105078629141,
                                     0.049787068367863944,
                                     0.8491450360846097,
                                     0.1550277817674629,
                                     0.999999654786418,
                                     0.05563443131019329,
                                     0.7323499301459842,
                                     0.15865124955282037,
                                     1,
                                     none,
                                     0,
                                     none,
                                     none,
                                     1.0442826344499779e-10};
  check_cases({{"igamma", [](In1 in) { return igamma(in[0], in[1]); }, {a, x}, lower},
               {"igammac", [](In1 in) { return igammac(in[0], in[1]); }, {a, x}, upper}},
              4e-16, 1);
  const Tensor single = igammac(cast(a, DType::f32), 0.5f);
  CHECK(single.dtype() == DType::f32);
  CHECK(
      is_near(to_vector<double>(single), to_vector<double>(igammac(cast(cast(a, DType::f32), DType::f64), 0.5)), 1e-7));
  CHECK(igamma(2, tensor({1, 2})).dtype() == DType::f32);
  CHECK(igamma(ones({3, 1}), ones({1, 2})).shape() == Shape{3, 2});
}

TEST_CASE("incomplete gamma functions: slopes by x, none by a") {
  const Tensor a = tensor({0.5, 1.0, 3.0, 250.0}), x = tensor({0.25, 2.0, 5.0, 260.0});
  const Tensor first = jit::grad([&](Tensor t) { return sum(igamma(a, t)); })(x);
  // x^(a - 1) e^-x / gamma(a).
  const Tensor want = exp((a - 1) * log(x) - x - lgamma(a));
  CHECK(is_near(to_vector<double>(first), to_vector<double>(want), 1e-12));
  const Tensor other = jit::grad([&](Tensor t) { return sum(igammac(a, t)); })(x);
  CHECK(is_near(to_vector<double>(other), to_vector<double>(-first), 1e-15));
  const auto slope = jit::grad([&](Tensor t) { return sum(igamma(a, t)); });
  const Tensor second = jit::grad([&](Tensor t) { return sum(slope(t)); })(x);
  CHECK(is_near(to_vector<double>(second), to_vector<double>(want * ((a - 1) / x - 1)), 1e-12));
  CHECK(has(message_of([&] { eval(jit::grad([&](Tensor t) { return sum(igamma(t, x)); })(a)); }), "derivative by a"));
  const Tensor held = jit::grad([&](Tensor t) { return sum(igamma(stop_gradient(t), t)); })(x);
  CHECK(held.shape() == x.shape());
  const Tensor rows = jit::vmap([&](Tensor t) { return igamma(a, t); })(stack({x, x * 2}, 0));
  CHECK(is_near(to_vector<double>(rows(1)), to_vector<double>(igamma(a, x * 2)), 1e-15));
}

TEST_CASE("ndtr and log_ndtr keep their digits in the tails") {
  const Tensor x = tensor({-38.0, -12.0, -5.0, -0.5, 0.0, 0.5, 5.0, 8.0});
  check_cases({{"ndtr",
                [](In1 in) { return ndtr(in[0]); },
                {x},
                {2.88542835e-316, 1.776482112077679e-33, 2.866515718791939e-07, 0.3085375387259869, 0.5,
                 0.6914624612740131, 0.9999997133484281, 0.9999999999999993}},
               {"log_ndtr",
                [](In1 in) { return log_ndtr(in[0]); },
                {x},
                {-726.5572160188201, -75.4106730015688, -15.064998393988725, -1.1759117615936185, -0.6931471805599453,
                 -0.3689464152886564, -2.866516129637636e-07, -6.220960574271786e-16}}},
              1e-15, 1);
}
