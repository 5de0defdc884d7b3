// Special functions, and formulas over axes and positions: numbers from PyTorch and SciPy, on every back end, compiled
// and lazy; slopes, vmap and errors.
#include "number_cases.hpp"

#include <cmath>
#include <vector>

using namespace sinter_test;

namespace {

using Doubles = std::vector<double>;
using In1 = const Inputs&;
constexpr double inf = INFINITY, none = NAN;

Doubles slopes(Tensor (*f)(const Tensor&), const Doubles& at) {
  return to_vector<double>(jit::grad([f](Tensor t) { return sum(f(t)); })(copy_of(at)));
}

}  // namespace

TEST_CASE("special functions have SciPy's values") {
  const Tensor scaled = tensor({-30.0, -3.0, -1.0, -1e-3, 0.0, 0.3, 1.0, 5.0, 24.0, 26.0, 1e5, 1e200, inf, -inf, none});
  const Tensor low = tensor({-1e3, -40.0, -5.0, -1.5, -1.0, -0.5, 0.0, 0.5, 3.0, 10.0, 40.0, none});
  const Tensor p =
      tensor({0.0, 1e-300, 1e-100, 1e-20, 1e-5, 0.0199, 0.02, 0.3, 0.5, 0.75, 0.99, 0.999999, 1.0, -1.0, none});
  const Tensor order = tensor({2.0, 3.0, 1.1, 50.0, 200.0, 5.0, 2.0, 4.5, 1.0, 0.5, 2.0});
  const Tensor q = tensor({1.0, 2.5, 1.0, 1.0, 0.7, 1e4, 1e-3, 0.25, 1.0, 1.0, 0.0});
  const Tensor x = tensor({0.0, 1e-3, 0.5, 2.0, 2.5, 10.0, 50.0, -3.0});
  check_cases({
      {"erfcx",
       [](In1 in) { return erfcx(in[0]); },
       {scaled},
       {inf, 16205.988853999586, 5.008980080762283, 1.001129379919849, 1, 0.7345993345676554, 0.427583576155807,
        0.11070463773306861, 0.023487546063682644, 0.02168358485056291, 5.6418958351954685e-06, 5.641895835477563e-201,
        0, inf, none}},
      {"log_ndtr",
       [](In1 in) { return log_ndtr(in[0]); },
       {low},
       {-500007.8266948122, -804.6084420137539, -15.064998393988727, -2.7059444008238898, -1.8410216450092634,
        -1.1759117615936188, -0.6931471805599453, -0.36894641528865635, -0.0013508099647481925, -7.61985302416047e-24,
        0, none}},
      {"ndtri",
       [](In1 in) { return ndtri(in[0]); },
       {p},
       {-inf, -37.0470962993612, -21.273453560965322, -9.262340089798409, -4.264890793922825, -2.055818646612404,
        -2.053748910631823, -0.5244005127080409, 0, 0.6744897501960817, 2.3263478740408408, 4.753424308817087, inf,
        none, none}},
      {"zeta",
       [](In1 in) { return zeta(in[0], in[1]); },
       {order, q},
       {1.6449340668482266, 0.11810202582086368, 10.584448464950801, 1.0000000000000009, 9.558549579477195e+30,
        2.5005000416666666e-17, 1000001.6425331959, 512.4000175661097, inf, none, inf}},
      {"multigammaln",
       [](In1 in) { return multigammaln(in[0], 3); },
       {tensor({2.0, 3.0, 7.5})},
       {1.5963125911388552, 2.694924879806965, 21.49327233740008}},
      {"bessel_j0",
       [](In1 in) { return bessel_j0(in[0]); },
       {x},
       {1, 0.9999997500000155, 0.938469807240813, 0.22389077914123562, -0.04838377646819804, -0.24593576445134832,
        0.055812327669252086, -0.2600519549019335}},
      {"bessel_j1",
       [](In1 in) { return bessel_j1(in[0]); },
       {x},
       {0, 0.0004999999375000026, 0.24226845767487387, 0.5767248077568734, 0.497094102464274, 0.04347274616886141,
        -0.09751182812517509, -0.33905895852593654}},
      {"bessel_y0",
       [](In1 in) { return bessel_y0(in[0]); },
       {x},
       {-inf, -4.471416611375923, -0.4445187335067066, 0.5103756726497451, 0.498070359615232, 0.05567116728359961,
        -0.09806499547007692, none}},
      {"bessel_y1",
       [](In1 in) { return bessel_y1(in[0]); },
       {x},
       {-inf, -636.6221672311395, -1.4714723926702433, -0.10703243154093756, 0.14591813796678577, 0.24901542420695388,
        -0.05679566856201487, none}},
      {"bessel_k0",
       [](In1 in) { return bessel_k0(in[0]); },
       {x},
       {inf, 7.0236888005623825, 0.9244190712276656, 0.1138938727495334, 0.062347553200366196, 1.778006231616765e-05,
        3.410167749789495e-23, none}},
      {"bessel_k1",
       [](In1 in) { return bessel_k1(in[0]); },
       {x},
       {inf, 999.9962381560855, 1.6564411200033007, 0.13986588181652246, 0.07389081634774705, 1.8648773453825585e-05,
        3.4441022267175555e-23, none}},
      {"bessel_k0e",
       [](In1 in) { return bessel_k0e(in[0]); },
       {x},
       {inf, 7.030716002378253, 1.5241093857739092, 0.8415682150707712, 0.7595486903280996, 0.39163193443659866,
        0.17680715585742932, none}},
      {"bessel_k1e",
       [](In1 in) { return bessel_k1e(in[0]); },
       {x},
       {inf, 1000.9967345590684, 2.7310097082117855, 1.0334768470686888, 0.9001744239078779, 0.4107665705957887,
        0.17856655855881556, none}},
      {"gcd and lcm",
       [](In1 in) { return stack({gcd(in[0], in[1]), lcm(in[0], in[1])}, 0); },
       {tensor({12, -18, 0, 7, 0}), tensor({18, 12, 5, 13, 0})},
       {6, 6, 5, 1, 0, 36, 36, 0, 91, 0}},
      {"gcd and a number, broadcast",
       [](In1 in) { return gcd(gcd(in[0], 12), in[1]); },
       {tensor({{18}, {8}}), tensor({4, 9})},
       {2, 3, 4, 1}},
  });
  // f32 against f64.
  const auto both = [](Tensor (*f)(const Tensor&), const Tensor& at) {
    return is_near(to_vector<double>(f(cast(at, DType::f32))),
                   to_vector<double>(f(cast(cast(at, DType::f32), DType::f64))), 2e-6);
  };
  const Tensor probabilities = tensor({1e-37, 1e-30, 1e-10, 1e-3, 0.02, 0.4, 0.6, 0.99, 0.9999});
  const Tensor numbers = tensor({-9.0, -3.0, -0.5, 0.1, 2.0, 8.5, 9.5, 1e3, 1e20});
  CHECK(both([](const Tensor& t) { return ndtri(t); }, probabilities));
  CHECK(both([](const Tensor& t) { return erfcx(t); }, numbers));
  CHECK(both([](const Tensor& t) { return log_ndtr(t); }, tensor({-1e10, -9.0, -3.0, -0.5, 0.1, 2.0})));
  CHECK(both([](const Tensor& t) { return zeta(t, 0.75); }, tensor({1.01, 1.5, 4.0, 30.0})));
  CHECK(both([](const Tensor& t) { return bessel_k0(t); }, tensor({0.1, 1.0, 30.0})));
}

TEST_CASE("special functions: slopes, vmap, dtypes, errors") {
  CHECK(is_near(slopes([](const Tensor& t) { return erfcx(t); }, {0.3, 2}), {-0.6876195663549194, -0.10679646185348934},
                1e-12));
  CHECK(is_near(slopes([](const Tensor& t) { return log_ndtr(t); }, {0.3, 2, -0.9, -6, -1e3, 40}),
                {0.6172208536127345, 0.05524786267898995, 1.4456430984031132, 6.158482604544618, 1000.000999998, 0},
                1e-12));
  // f'(f^-1(p)) = 1 / (f^-1)'(p).
  CHECK(is_near(slopes([](const Tensor& t) { return ndtr(ndtri(t)); }, {1e-6, 0.1, 0.5, 0.97}), {1, 1, 1, 1}, 1e-12));
  CHECK(is_near(slopes([](const Tensor& t) { return zeta(3, t); }, {0.5, 2}),
                {-3 * 16.23484850566707, -3 * 0.08232323371113819}, 1e-12));
  // Differences of the functions themselves.
  Tensor (*const functions[])(const Tensor&) = {
      [](const Tensor& t) { return bessel_j0(t); },
      [](const Tensor& t) { return bessel_j1(t); },
      [](const Tensor& t) { return bessel_y0(t); },
      [](const Tensor& t) { return bessel_y1(t); },
      [](const Tensor& t) { return bessel_k0(t); },
      [](const Tensor& t) { return bessel_k1(t); },
      [](const Tensor& t) { return bessel_k0e(t); },
      [](const Tensor& t) { return bessel_k1e(t); },
      [](const Tensor& t) { return logcumsumexp(t, 0); },
      [](const Tensor& t) { return renorm(t, 3, 0, 1); },
      [](const Tensor& t) { return gradient(t * t, 0.5); },
      [](const Tensor& t) { return polynomial(t, Polynomial::laguerre_l, 4); }};
  const Tensor at = tensor({0.7, 1.9, 2.6, 8.0});
  for (std::size_t i = 0; i < std::size(functions); ++i) {
    INFO(i);
    const double h = 1e-5;
    const Tensor weights = tensor({1.0, -2.0, 0.5, 1.5});
    const auto f = [&](const Tensor& t) { return sum(functions[i](t) * weights); };
    Doubles want;
    for (int k = 0; k < 4; ++k) {
      const Tensor step = h * cast(arange(4) == k, DType::f64);
      want.push_back(item<double>((f(at + step) - f(at - step)) / (2 * h)));
    }
    CHECK(is_near(to_vector<double>(jit::grad(f)(at)), want, 1e-8));
  }
  const Tensor pairs = tensor({{12, 18}, {35, 21}});
  CHECK(to_vector<double>(jit::vmap([](Tensor row) { return gcd(row, 6); })(pairs)) == Doubles{6, 6, 1, 3});
  CHECK(to_vector<double>(jit::vmap([](Tensor x) { return bessel_j0(x); })(zeros({2, 1}))) == Doubles{1, 1});
  CHECK(gcd(tensor<std::int32_t>({4}), 6).dtype() == DType::i32);
  CHECK(gcd(tensor<std::int32_t>({4}), tensor<std::int64_t>({6})).dtype() == DType::i64);
  CHECK(bessel_y0(tensor({1.f})).dtype() == DType::f32);
  CHECK(bessel_y0(cast(tensor({1.f}), DType::bf16)).dtype() == DType::bf16);
  CHECK(bessel_k0(zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(to_vector<double>(isreal(tensor({1, 2}))) == Doubles{1, 1});
  CHECK_THROWS_AS(gcd(tensor({1.f}), 2), DTypeError);
  CHECK_THROWS_AS(gcd(tensor({1, 2}), tensor({1, 2, 3})), ShapeError);
  CHECK_THROWS_WITH(multigammaln(tensor({1.0}), 0), Catch::Contains("special_names_test.cpp"));
  CHECK_THROWS_AS(polynomial(tensor({1.0}), Polynomial::hermite_h, -1), UserError);
}

TEST_CASE("polynomials have PyTorch's values") {
  const Tensor x = tensor({0.3, -0.7});
  const std::pair<Polynomial, Doubles> rows[] = {
      {Polynomial::chebyshev_t, {0.99888, 0.67088}},
      {Polynomial::chebyshev_u, {1.01376, 1.39776}},
      {Polynomial::chebyshev_v, {0.96416, 2.43616}},
      {Polynomial::chebyshev_w, {1.06336, 0.35936}},
      {Polynomial::shifted_chebyshev_t, {-0.88384, -1009.53984}},
      {Polynomial::shifted_chebyshev_u, {-0.67968, -2120.07168}},
      {Polynomial::shifted_chebyshev_v, {-0.16928, -2582.79328}},
      {Polynomial::shifted_chebyshev_w, {-1.19008, -1657.35008}},
      {Polynomial::hermite_h, {31.75776, -34.49824}},
      {Polynomial::hermite_he, {4.23243, -7.23807}},
      {Polynomial::laguerre_l, {-0.09333275, 7.573088083333333}},
      {Polynomial::legendre_p, {0.34538625, 0.36519875}},
  };
  for (const auto& [family, want] : rows) {
    INFO(static_cast<int>(family));
    CHECK(is_near(to_vector<double>(polynomial(x, family, 5)), want, 1e-12));
    CHECK(to_vector<double>(polynomial(x, family, 0)) == Doubles{1, 1});
  }
}

TEST_CASE("more names: along axes, at positions") {
  const Tensor rows = tensor({{1.0, 3.0, 2.0, 3.0, none, 5.0}, {0.0, -1.0, -1.0, -2.0, 4.0, 4.0}});
  const Tensor scores = tensor({{0.1, 0.2, 0.4, 0.8}, {1.0, -1.0, 0.5, 0.0}});
  const Tensor classes = tensor({{3, 0, -1, 1}, {2, -1, 0, 0}});
  const Tensor points = tensor({{0.0, 0.0}, {1.0, 1.0}, {0.2, 0.9}, {3.0, 0.0}, {1.0, 0.4}});
  check_cases({
      {"cummax places",
       [](In1 in) { return cummax_with_indices(in[0], 1).indices; },
       {rows},
       {0, 1, 1, 3, 4, 4, 0, 0, 0, 0, 4, 5}},
      {"cummin places",
       [](In1 in) { return cummin_with_indices(in[0], -1).indices; },
       {rows},
       {0, 0, 0, 0, 4, 4, 0, 1, 2, 3, 3, 3}},
      {"cummax values",
       [](In1 in) { return cummax_with_indices(in[0], 0).values(1, all); },
       {rows},
       {1, 3, 2, 3, none, 5}},
      {"logcumsumexp",
       [](In1 in) { return logcumsumexp(in[0], 0); },
       {tensor({0.5, -1.0, 1000.0, -inf, 2.0, 1000.0})},
       {0.5, 0.7014132779827524, 1000, 1000, 1000, 1000.6931471805599}},
      {"logcumsumexp of nothing",
       [](In1 in) { return logcumsumexp(in[0], 0); },
       {tensor({-inf, -inf, 1.0})},
       {-inf, -inf, 1}},
      {"gradient",
       [](In1 in) { return gradient(in[0], 0.5); },
       {tensor({1.0, 4.0, 9.0, 16.0, 25.0})},
       {6, 8, 12, 16, 18}},
      {"gradient of two", [](In1 in) { return gradient(in[0]); }, {tensor({1, 4})}, {3, 3}},
      {"multilabel_margin_loss",
       [](In1 in) { return multilabel_margin_loss(in[0], in[1], LossReduction::none); },
       {scores, classes},
       {0.85, 0.5}},
      {"multilabel_margin_loss of a row",
       [](In1 in) { return multilabel_margin_loss(in[0](0, all), in[1](0, all)); },
       {scores, classes},
       {0.85}},
      {"renorm", [](In1 in) { return renorm(in[0], 2, 0, 2.5); }, {tensor({{1.0, 1.0}, {3.0, 4.0}})}, {1, 1, 1.5, 2}},
      {"index_reduce",
       [](In1 in) { return index_reduce(in[0], 0, in[1], in[2], ScatterReduction::prod); },
       {tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}), tensor({2, 0, 2}), tensor({{10.0, 1.0}, {2.0, 2.0}, {3.0, 3.0}})},
       {2, 4, 3, 4, 150, 18}},
      {"put",
       [](In1 in) { return put(in[0], in[1], in[2], {.accumulate = true}); },
       {tensor({{1.0, 2.0}, {3.0, 4.0}}), tensor({3, 0, 3}), tensor({9.0, 8.0, 1.0})},
       {9, 2, 3, 14}},
      {"masked_scatter",
       [](In1 in) { return masked_scatter(in[0], (in[0] != 2) & (in[0] != 4), in[1]); },
       {tensor({{1.0, 2.0}, {3.0, 4.0}}), tensor({7.0, 8.0, 9.0})},
       {7, 2, 8, 4}},
      {"histogramdd",
       [](In1 in) { return histogramdd(in[0], {2, 3}, {{0, 1}, {0, 1}}); },
       {points},
       {1, 0, 1, 0, 1, 1}},
      {"unravel_index",
       [](In1 in) { return stack(unravel_index(in[0], {2, 3, 4}), 0); },
       {tensor({0, 5, 23})},
       {0, 0, 1, 0, 1, 2, 0, 1, 3}},
      {"unfold", [](In1 in) { return unfold(in[0], 0, 3, 2); }, {arange(7)}, {0, 1, 2, 2, 3, 4, 4, 5, 6}},
      {"unfold an inner axis",
       [](In1 in) { return unfold(reshape(in[0], {2, 4}), -1, 2, 1); },
       {arange(8)},
       {0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7}},
      {"sum_to_size", [](In1 in) { return sum_to_size(in[0], {2, 1}); }, {ones({3, 2, 4})}, {12, 12}},
      {"combinations", [](In1 in) { return combinations(in[0]); }, {tensor({1, 2, 3})}, {1, 2, 1, 3, 2, 3}},
      {"combinations again",
       [](In1 in) { return combinations(in[0], 3, {.with_replacement = true}); },
       {tensor({1, 2})},
       {1, 1, 1, 1, 1, 2, 1, 2, 2, 2, 2, 2}},
      {"diagflat", [](In1 in) { return diagflat(in[0], 1); }, {tensor({{1, 2}})}, {0, 1, 0, 0, 0, 2, 0, 0, 0}},
      {"cat", [](In1 in) { return cat({in[0], in[0]}); }, {tensor({1, 2})}, {1, 2, 1, 2}},
      {"mm", [](In1 in) { return mm(in[0], in[0]); }, {tensor({{1, 2}, {3, 4}})}, {7, 10, 15, 22}},
  });
  CHECK(to_vector<double>(argwhere(tensor({{0, 3}, {4, 0}}))) == Doubles{0, 1, 1, 0});
  CHECK(is_near(slopes([](const Tensor& t) { return logcumsumexp(t, 0); }, {0.5, -1, 2}),
                {1.9928648683336803, 0.2215380970770438, 0.7855970345892758}, 1e-12));
  auto any_length = jit::compile([](Tensor x) { return logcumsumexp(x, 0); }, {.dynamic = jit::Dynamic::always});
  for (int n : {1, 5, 64, 65}) CHECK(item<double>(any_length(zeros({n}))(-1)) == Approx(std::log(n)).margin(1e-6));
  CHECK(logcumsumexp(zeros({3, 0}), 1).shape() == Shape{3, 0});
  CHECK(combinations(tensor({1, 2}), 3).shape() == Shape{0, 3});
  CHECK(to_vector<double>(jit::vmap([](Tensor r) { return unfold(r, 0, 2, 2); })(reshape(arange(8), {2, 4}))) ==
        Doubles{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK_THROWS_AS(gradient(tensor({1.0})), ShapeError);
  CHECK_THROWS_AS(mm(ones({2, 3, 4}), ones({4, 2})), ShapeError);
  CHECK_THROWS_AS(combinations(ones({2, 2})), ShapeError);
  CHECK_THROWS_AS(histogramdd(ones({2, 2}), {2, 2}, {{0, 1}}), ShapeError);
  CHECK_THROWS_AS(sum_to_size(ones({2, 2}), {3}), ShapeError);
  CHECK_THROWS_AS(index_reduce(ones({2, 2}), 0, tensor({0}), ones({2, 2}), ScatterReduction::sum), ShapeError);
  CHECK_THROWS_AS(masked_scatter(ones({2}), tensor({1, 0}), ones({2})), DTypeError);
  CHECK_THROWS_WITH(unfold(ones({3}), 0, 4, 1), Catch::Contains("special_names_test.cpp"));
  CHECK_THROWS_AS(multilabel_margin_loss(scores, ones({2, 4})), ShapeError);
}

TEST_CASE("poisson and gamma numbers have their moments, and are the same on every back end") {
  struct Drawn {
    const char* name;
    Tensor (*draw)();
    double mean, variance;
  };
  static const Shape shape{40000};
  static const TensorOptions doubles{.dtype = DType::f64};
  const Drawn cases[] = {
      {"poisson, few", [] { return poisson(full(shape, 0.7, doubles)); }, 0.7, 0.7},
      {"poisson, some", [] { return poisson(full(shape, 9.5, doubles)); }, 9.5, 9.5},
      {"poisson, many", [] { return poisson(full(shape, 1e4, doubles)); }, 1e4, 1e4},
      {"poisson, from 10 on", [] { return poisson(full(shape, 11, doubles)); }, 11, 11},
      {"gamma below 1", [] { return standard_gamma(full(shape, 0.3, doubles)); }, 0.3, 0.3},
      {"gamma", [] { return standard_gamma(full(shape, 4.5, doubles)); }, 4.5, 4.5},
      {"poisson has none", [] { return cast(poisson(full(shape, 2, doubles)) == 0, DType::f64); }, 0.1353352832366127,
       0.1353352832366127 * 0.8646647167633873},
      {"gamma is below 1", [] { return cast(standard_gamma(full(shape, 2, doubles)) < 1, DType::f64); },
       0.26424111765711533, 0.26424111765711533 * 0.7357588823428847},
  };
  for (const Drawn& row : cases) {
    Doubles first;
    for (const Mode& mode : modes()) {
      INFO(row.name << " " << mode.name);
      manual_seed(5);
      const Doubles have = to_vector<double>(run_in(mode, [&](const Inputs&) { return row.draw(); }, {}));
      if (first.empty()) first = have;
      CHECK(have == first);
    }
    double mean = 0, variance = 0;
    for (double v : first) mean += v / 40000;
    for (double v : first) variance += (v - mean) * (v - mean) / 40000;
    INFO(row.name << " " << mean << " " << variance);
    CHECK(std::abs(mean - row.mean) < 4.5 * std::sqrt(row.variance / 40000));
    CHECK(variance == Approx(row.variance).epsilon(0.06));
  }
  CHECK(to_vector<double>(poisson(tensor({0.0, 0.0}))) == Doubles{0, 0});
  CHECK(std::isnan(to_vector<double>(poisson(tensor({-1.0})))[0]));
  CHECK(std::isnan(to_vector<double>(standard_gamma(tensor({0.0})))[0]));
  CHECK(poisson(ones({2, 0})).dtype() == DType::f32);
  CHECK_THROWS_AS(poisson(tensor({1})), DTypeError);
}
