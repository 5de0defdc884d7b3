// Functions that are formulas of others: numbers from PyTorch, on every back end, compiled and lazy.
#include "number_cases.hpp"

#include <cmath>
#include <vector>

using namespace sinter_test;

namespace {

using Doubles = std::vector<double>;

const window::Options periodic{.ends = window::Ends::periodic, .dtype = DType::f64};
const window::Options in_f64{.dtype = DType::f64};
const TensorOptions doubles{.dtype = DType::f64};

}  // namespace

TEST_CASE("more names: elementwise") {
  const double inf = INFINITY, nan = NAN;
  const Tensor a = tensor({1.0, 2.0, nan, nan}), b = tensor({2.0, -1.0, 0.0, nan});
  const Tensor x = tensor({-2.0, 0.0, 0.5, 3.0, inf, nan});
  const Tensor i = tensor({-3, 0, 5}), k = tensor({2, 0, 7});
  check_cases(
      {
          {"fmax", [](const Inputs& in) { return fmax(in[0], in[1]); }, {a, b}, {2, 2, 0, nan}},
          {"fmin", [](const Inputs& in) { return fmin(in[0], in[1]); }, {a, b}, {1, -1, 0, nan}},
          {"fmax of integers", [](const Inputs& in) { return fmax(in[0], in[1]); }, {i, k}, {2, 0, 7}},
          {"fmin and a number", [](const Inputs& in) { return fmin(in[0], 0.25); }, {a}, {0.25, 0.25, 0.25, 0.25}},
          {"clamp_min", [](const Inputs& in) { return clamp_min(in[0], 1); }, {x}, {1, 1, 1, 3, inf, nan}},
          {"clamp_max", [](const Inputs& in) { return clamp_max(in[0], in[1]); }, {a, b}, {1, -1, nan, nan}},
          {"float_power", [](const Inputs& in) { return float_power(in[0], 2); }, {i}, {9, 0, 25}},
          {"true_divide", [](const Inputs& in) { return true_divide(in[0], 2); }, {i}, {-1.5, 0, 2.5}},
          {"rsub", [](const Inputs& in) { return rsub(in[0], in[1], 2); }, {i, k}, {8, 0, -3}},
          {"negative", [](const Inputs& in) { return negative(in[0]); }, {i}, {3, 0, -5}},
          {"sgn", [](const Inputs& in) { return sgn(in[0]); }, {i}, {-1, 0, 1}},
          {"logical_and", [](const Inputs& in) { return logical_and(in[0], in[1]); }, {a, b}, {1, 1, 0, 1}},
          {"logical_or", [](const Inputs& in) { return logical_or(in[0], in[1]); }, {i, k}, {1, 0, 1}},
          {"logical_xor", [](const Inputs& in) { return logical_xor(in[0], 0); }, {i}, {1, 0, 1}},
          {"logical_not", [](const Inputs& in) { return logical_not(in[0]); }, {x}, {0, 1, 0, 0, 0, 0}},
          {"bitwise_left_shift",
           [](const Inputs& in) { return Tensor(bitwise_left_shift(in[0], 1)); },
           {k},
           {4, 0, 14}},
          {"entr",
           [](const Inputs& in) { return entr(in[0]); },
           {x},
           {-inf, 0, 0.34657359027997264, -3.295836866004329, -inf, nan}},
          {"ndtr",
           [](const Inputs& in) { return ndtr(in[0]); },
           {x},
           {0.02275013194817921, 0.5, 0.6914624612740131, 0.9986501019683699, 1, nan}},
      },
      1e-12, 0);
  CHECK(float_power(tensor({2.f}), 3).dtype() == DType::f64);
  CHECK(clamp_min(tensor({2.f}), 3).dtype() == DType::f32);
  CHECK(clamp_min(tensor({2}), 3).dtype() == DType::i32);
  CHECK(fmax(tensor({2}), tensor({2.f})).dtype() == DType::f32);
  CHECK(logical_not(zeros({0, 2})).shape() == Shape{0, 2});
  const auto slopes = [](auto f, const Doubles& at) {
    return to_vector<double>(jit::grad([f](Tensor t) { return sum(f(t)); })(copy_of(at)));
  };
  CHECK(slopes([](Tensor t) { return fmax(t, tensor({2.0, 2.0, 0.0, 1.0})); }, {1, 2, nan, 2}) ==
        Doubles{0, 0.5, 0, 1});
  CHECK(slopes([](Tensor t) { return clamp_min(t, 2); }, {1, 2, 3}) == Doubles{0, 0, 1});
  CHECK(is_near(slopes([](Tensor t) { return entr(t); }, {0.5, 2}), {-0.3068528194400547, -1.6931471805599454}, 1e-12,
                0));
  CHECK(slopes([](Tensor t) { return entr(t); }, {0.0, -0.0, 1}) == Doubles{inf, inf, -1});
  CHECK(is_near(slopes([](Tensor t) { return ndtr(t); }, {0.5, 2}), {0.35206532676429947, 0.05399096651318802}, 1e-12,
                0));
}

TEST_CASE("more names: statistics and arrangements") {
  const Tensor rows = tensor({{0.0, 0.0}, {3.0, 4.0}, {1.0, 1.0}}), grid = reshape(arange(12), {2, 6});
  check_cases(
      {
          {"aminmax",
           [](const Inputs& in) { return Tensor(aminmax(in[0], 0).max - aminmax(in[0], 0).min); },
           {rows},
           {3, 4}},
          {"var_mean", [](const Inputs& in) { return var_mean(in[0], 1, {.correction = 1}).var; }, {rows}, {0, 0.5, 0}},
          {"std_mean", [](const Inputs& in) { return std_mean(in[0], 1).mean; }, {rows}, {0, 3.5, 1}},
          {"vector_distance", [](const Inputs& in) { return vector_distance(in[0], 0, 3); }, {tensor({3.0, 4.0})}, {4.497941445275415}},
          {"pdist", [](const Inputs& in) { return pdist(in[0]); }, {rows}, {5, std::sqrt(2), std::sqrt(13)}},
          {"unbind", [](const Inputs& in) { return unbind(in[0], 1)[1]; }, {rows}, {0, 4, 1}},
          {"hsplit", [](const Inputs& in) { return hsplit(in[0], 3)[1]; }, {grid}, {2, 3, 8, 9}},
          {"hsplit at", [](const Inputs& in) { return hsplit(in[0], {1, 2})[1]; }, {grid}, {1, 7}},
          {"vsplit", [](const Inputs& in) { return vsplit(in[0], 2)[1]; }, {grid}, {6, 7, 8, 9, 10, 11}},
          {"dsplit", [](const Inputs& in) { return dsplit(reshape(in[0], {2, 1, 6}), 6)[5]; }, {grid}, {5, 11}},
          {"cartesian_prod",
           [](const Inputs& in) { return cartesian_prod({in[0], in[1]}); },
           {tensor({1, 2}), tensor({3, 4})},
           {1, 3, 1, 4, 2, 3, 2, 4}},
          {"reshape_as", [](const Inputs& in) { return reshape_as(in[0], zeros({6, 2}))(0, all); }, {grid}, {0, 1}},
          {"swapdims", [](const Inputs& in) { return swapdims(in[0], 0, 1)(0, all); }, {grid}, {0, 6}},
      },
      1e-12, 0);
  CHECK(pdist(zeros({1, 3})).shape() == Shape{0});
  CHECK(cartesian_prod({zeros({3})}).shape() == Shape{3});
  CHECK_THROWS_AS(pdist(zeros({3})), ShapeError);
  CHECK_THROWS_AS(hsplit(grid, 4), ShapeError);
  CHECK_THROWS_AS(vsplit(zeros({4}), 2), ShapeError);
  CHECK_THROWS_WITH(dsplit(grid, 2), Catch::Contains("more_names_test.cpp"));
}

TEST_CASE("more names: windows") {
  using I = const Inputs&;
  const double e1 = 0.36787944117144233, e2 = 0.6065306597126334;
  check_cases(
      {
          {"hann", [](I) { return window::hann(5, in_f64); }, {}, {0, 0.5, 1, 0.5, 0}},
          {"hann periodic", [](I) { return window::hann(4, periodic); }, {}, {0, 0.5, 1, 0.5}},
          {"hamming", [](I) { return window::hamming(5, in_f64); }, {}, {0.08, 0.54, 1, 0.54, 0.08}},
          {"blackman", [](I) { return window::blackman(4, periodic); }, {}, {0, 0.34, 1, 0.34}},
          {"nuttall", [](I) { return window::nuttall(4, periodic); }, {}, {0.0003628, 0.2269824, 1, 0.2269824}},
          {"bartlett", [](I) { return window::bartlett(5, in_f64); }, {}, {0, 0.5, 1, 0.5, 0}},
          {"cosine",
           [](I) { return window::cosine(4, periodic); },
           {},
           {0.3090169943749474, 0.8090169943749475, 1, 0.8090169943749475}},
          {"gaussian",
           [](I) { return window::gaussian(5, 1.5, in_f64); },
           {},
           {0.41111229050718756, 0.8007374029168081, 1, 0.8007374029168081, 0.41111229050718756}},
          {"exponential", [](I) { return window::exponential(5, 2, {}, in_f64); }, {}, {e1, e2, 1, e2, e1}},
          {"exponential from 0",
           [](I) { return window::exponential(4, 1, 0, periodic); },
           {},
           {1, e1, 0.1353352832366127, 0.049787068367863944}},
          {"kaiser",
           [](I) { return window::kaiser(4, 8, periodic); },
           {},
           {0.002338830512733327, 0.36897272261583314, 1, 0.36897272261583314}},
          {"general_cosine",
           [](I) { return window::general_cosine(4, {0.5, 0.3, 0.2}, in_f64); },
           {},
           {0.4, 0.55, 0.55, 0.4}},
          {"general_hamming", [](I) { return window::general_hamming(4, 0.6, in_f64); }, {}, {0.2, 0.8, 0.8, 0.2}},
          {"one", [](I) { return window::hann(1, in_f64); }, {}, {1}},
          {"none", [](I) { return window::kaiser(0, 8, in_f64); }, {}, {}},
      },
      1e-12, 0);
  CHECK(window::hann(8).dtype() == DType::f32);
  CHECK(to_vector<double>(window::kaiser(3, 2000, in_f64))[1] == 1);  // i0(2000) is no f64
  CHECK_THROWS_AS(window::hann(8, {.dtype = DType::i32}), DTypeError);
  CHECK_THROWS_AS(window::hann(-1), ShapeError);
  CHECK_THROWS_WITH(window::gaussian(8, 0), Catch::Contains("must be positive"));
}

namespace {
struct Drawn {
  const char* name;
  Tensor (*draw)();
  double mean, variance;  // of the distribution
};
}  // namespace

TEST_CASE("more names: distributions have their moments, and the same numbers on every back end") {
  const Shape n{40000};
  static const Shape shape = n;
  const double e = std::exp(0.25);
  const std::vector<Drawn> cases{
      {"uniform", [] { return uniform(-1, 3, shape, doubles); }, 1, 16.0 / 12},
      {"normal", [] { return normal(2, 3, shape, doubles); }, 2, 9},
      {"log_normal", [] { return log_normal(0, 0.5, shape, doubles); }, std::sqrt(e), (e - 1) * e},
      {"exponential", [] { return exponential(4, shape, doubles); }, 0.25, 1.0 / 16},
      {"laplace", [] { return laplace(1, 2, shape, doubles); }, 1, 8},
      {"geometric", [] { return geometric(0.25, shape, doubles); }, 4, 12},
      {"bernoulli", [] { return bernoulli(full(shape, 0.3, doubles)); }, 0.3, 0.21},
      {"randint", [] { return cast(randint(-2, 5, shape), DType::f64); }, 1, 4},
      {"cauchy", [] { return cast(cauchy(1, 2, shape, doubles) < 3, DType::f64); }, 0.75, 0.1875},
  };
  for (const Drawn& row : cases) {
    Doubles first;
    for (const Mode& mode : modes()) {
      INFO(row.name << " " << mode.name);
      manual_seed(5);
      const Doubles have = to_vector<double>(run_in(mode, [&](const Inputs&) { return row.draw(); }, {}));
      if (first.empty()) first = have;
      CHECK(is_near(have, first, 1e-6 * std::sqrt(row.variance), 0));
      double mean = 0, variance = 0;
      for (double v : have) mean += v / 40000;
      for (double v : have) variance += (v - mean) * (v - mean) / 40000;
      CHECK(std::abs(mean - row.mean) < 5 * std::sqrt(row.variance / 40000));
      CHECK(variance == Approx(row.variance).epsilon(0.1));
    }
  }
}

TEST_CASE("more names: choices") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    manual_seed(7);
    CHECK(item<bool>(all(run_in(mode, [](const Inputs&) { return sort(randperm(100)).values; }, {}) == arange(100))));
    const Tensor weights = tensor({{0.0, 1.0, 3.0}, {2.0, 0.0, 2.0}});
    const auto share = [&](Replacement replacement) {  // of each element in each row among first choices
      Doubles out(6);
      const Tensor many = reshape(expand(unsqueeze(weights, 0), {4000, 2, 3}), {8000, 3});
      const Inputs in{many};
      const std::vector<std::int64_t> have = to_vector<std::int64_t>(
          replacement == Replacement::yes
              ? run_in(
                    mode, [](const Inputs& i) { return multinomial(i[0], 2, Replacement::yes); }, in)
              : run_in(mode, [](const Inputs& i) { return multinomial(i[0], 2); }, in));
      for (std::size_t r = 0; r < 8000; ++r) {
        out[r % 2 * 3 + static_cast<std::size_t>(have[r * 2])] += 1.0 / 4000;
        if (replacement == Replacement::no) CHECK(have[r * 2] != have[r * 2 + 1]);
      }
      return out;
    };
    CHECK(is_near(share(Replacement::yes), {0, 0.25, 0.75, 0.5, 0, 0.5}, 0.04, 0));
    CHECK(is_near(share(Replacement::no), {0, 0.25, 0.75, 0.5, 0, 0.5}, 0.04, 0));
  }
  CHECK(to_vector<double>(bernoulli(tensor({0.0, 1.0}))) == Doubles{0, 1});
  CHECK(to_vector<double>(geometric(1, {3})) == Doubles{1, 1, 1});
  CHECK(randint(0, 9, {0, 2}).shape() == Shape{0, 2});
  CHECK(randint(0, 9, {2}, {.dtype = DType::u8}).dtype() == DType::u8);
  CHECK_THROWS_AS(bernoulli(tensor({1})), DTypeError);
  CHECK_THROWS_AS(multinomial(tensor({1.0}), 2), ShapeError);
  CHECK_THROWS_AS(multinomial(zeros({1, 1, 1}), 1), ShapeError);
  CHECK_THROWS_WITH(randint(3, 3, {2}), Catch::Contains("low must be less than high"));
  CHECK_THROWS_WITH(exponential(0, {2}), Catch::Contains("more_names_test.cpp"));
}
