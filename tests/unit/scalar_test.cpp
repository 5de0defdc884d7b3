// Run-time numbers (Scalar) and their comparisons (Predicate) beside tensors: operators, where, limits, functions;
// called at once, compiled for one size and for all, differentiated.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
using Floats = std::vector<float>;
using Bools = std::vector<bool>;

Bools bools(const Tensor& x) {
  CHECK(x.dtype() == DType::bool_);
  const auto numbers = to_vector<std::int64_t>(cast(x, DType::i64));
  return Bools(numbers.begin(), numbers.end());
}
/// The function as it is and compiled, for one size and for all sizes.
template <class F, class Check>
void in_all_forms(const F& f, const Check& check) {
  check(f);
  check(jit::compile(f, {.fullgraph = true}));
  check(jit::compile(f, {.dynamic = jit::Dynamic::always, .fullgraph = true}));
}
}  // namespace

TEST_CASE("a comparison of Scalars beside a mask: either order, with and without tensors behind it") {
  const Tensor c = tensor({1.f, -1.f, 2.f});
  const auto f = [](Tensor x, Scalar n) {
    const Tensor mask = x > 0;
    return std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>((x > 0) & (n < 3), (n < 3) & (x > 0), mask | (n < 3),
                                                              (n < 3) ^ mask, mask == (n < 3));
  };
  in_all_forms(f, [&](const auto& form) {
    for (const int n : {2, 4}) {
      const bool is_less = n < 3;
      const auto [left, right, either, one, equal] = form(c, Scalar(n));
      CHECK(bools(left) == Bools{is_less, false, is_less});
      CHECK(bools(right) == bools(left));
      CHECK(bools(either) == Bools{true, is_less, true});
      CHECK(bools(one) == Bools{!is_less, is_less, !is_less});
      CHECK(bools(equal) == Bools{is_less, !is_less, is_less});
    }
  });
}

TEST_CASE("a comparison of Scalars beside one bool of a tensor, a C++ bool and others of its kind") {
  const auto f = [](Tensor x, Scalar n) {
    const bool flag = true;
    return std::tuple<Tensor, Tensor, Tensor, Tensor>((sum(x) > 0) & (n < 3), Tensor((n > 1) & flag & ~(n == 2)),
                                                      logical_or(sum(x) > 0, n < 3), logical_and(!(n < 3), x > 0));
  };
  in_all_forms(f, [&](const auto& form) {
    for (const int n : {1, 2, 3})
      for (const float x : {-1.f, 1.f}) {
        const auto [both, alone, either, each] = form(full({2}, x), Scalar(n));
        CHECK(item<bool>(both) == (x > 0 && n < 3));
        CHECK(item<bool>(alone) == (n == 3));
        CHECK(item<bool>(either) == (x > 0 || n < 3));
        CHECK(bools(each) == Bools(2, n >= 3 && x > 0));
      }
  });
}

TEST_CASE("~ is ! of masks, integers and comparisons of Scalars") {
  const Tensor x = tensor({1, -2});
  CHECK(bools(~(x > 0)) == Bools{false, true});
  CHECK(to_vector<std::int64_t>(~x) == std::vector<std::int64_t>{-2, 1});
  CHECK_FALSE(bool(~(Scalar(1) < 2)));
  CHECK_THROWS_AS(~tensor({1.f}), DTypeError);
}

TEST_CASE("where takes a comparison of Scalars, or a bool, for its condition") {
  const auto f = [](Tensor a, Tensor b, Scalar n) {
    const bool is_known = n.is_number() || true;
    return std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>(where(n >= 1, a, b), where(n >= 1, a, 0.5),
                                                              where(n < 1, n, b), a * where(n >= 1, n, 0.25),
                                                              where(is_known, a, n));
  };
  in_all_forms(f, [&](const auto& form) {
    const Tensor a = tensor({1.f, 2.f}), b = tensor({-1.f, -2.f});
    auto [x, y, z, w, v] = form(a, b, Scalar(3));
    CHECK(to_vector<float>(x) == Floats{1, 2});
    CHECK(to_vector<float>(y) == Floats{1, 2});
    CHECK(to_vector<float>(z) == Floats{-1, -2});
    CHECK(to_vector<float>(w) == Floats{3, 6});
    CHECK(to_vector<float>(v) == Floats{1, 2});
    std::tie(x, y, z, w, v) = form(a, b, Scalar(-4));
    CHECK(to_vector<float>(x) == Floats{-1, -2});
    CHECK(to_vector<float>(y) == Floats{0.5, 0.5});
    CHECK(to_vector<float>(z) == Floats{-4, -4});
    CHECK(to_vector<float>(w) == Floats{0.25, 0.5});
    CHECK(to_vector<float>(v) == Floats{1, 2});
  });
}

TEST_CASE("where: a bool condition decides no dtype") {
  const Tensor whole = tensor<std::int8_t>({1, 2}), half = tensor({1.f, 2.f}).to(DType::f16);
  const auto f = [](Tensor x, Scalar n) { return std::pair<Tensor, Tensor>(where(n > 0, x, 7), where(true, 3, x)); };
  in_all_forms(f, [&](const auto& form) {
    const auto [x, y] = form(whole, Scalar(-1));
    CHECK(x.dtype() == DType::i8);
    CHECK(to_vector<std::int8_t>(x) == std::vector<std::int8_t>{7, 7});
    CHECK(to_vector<std::int8_t>(y) == std::vector<std::int8_t>{3, 3});
    CHECK(form(half, Scalar(1)).first.dtype() == DType::f16);
  });
  CHECK(where(true, 1, 2.5).leaf().kind == DTypeClass::floating);
  CHECK(where(false, 1, 2).leaf().kind == DTypeClass::integer);
  CHECK(where(Scalar(2) > 1, 1, 2.5).number() == 1);
  CHECK(where(true, true, 2).leaf().kind == DTypeClass::integer);
}

TEST_CASE("limits of Scalars, alone and beside tensors") {
  const auto f = [](Tensor x, Scalar n) {
    return std::tuple<Tensor, Tensor, Tensor, Tensor>(x * maximum(n, 2), x + minimum(1, n), x * clamp(n, 0, 3),
                                                      clamp(n, x - 1, x + 1));
  };
  in_all_forms(f, [&](const auto& form) {
    const Tensor x = tensor({1.f, 2.f});
    for (const float n : {-1.f, 0.5f, 2.5f, 7.f}) {
      const auto [above, below, inside, limited] = form(x, Scalar(n));
      CHECK(to_vector<float>(above) == Floats{std::fmax(n, 2.f), 2 * std::fmax(n, 2.f)});
      CHECK(to_vector<float>(below) == Floats{1 + std::fmin(1.f, n), 2 + std::fmin(1.f, n)});
      const float kept = std::fmin(std::fmax(n, 0.f), 3.f);
      CHECK(to_vector<float>(inside) == Floats{kept, 2 * kept});
      CHECK(to_vector<float>(limited) == Floats{std::fmin(std::fmax(n, 0.f), 2.f), std::fmin(std::fmax(n, 1.f), 3.f)});
    }
  });
  CHECK(std::isnan(maximum(Scalar(NAN), 1).number()));
}

namespace {
using Function = Scalar (*)(const Scalar&);
struct FunctionRow {
  const char* name;
  Function function;
  Tensor (*of_tensor)(const Tensor&);
};
#define ROW(f) {#f, [](const Scalar& x) { return f(x); }, [](const Tensor& x) -> Tensor { return f(x); }}
const FunctionRow function_rows[] = {ROW(exp),   ROW(exp2),    ROW(expm1),      ROW(log),   ROW(log2),  ROW(log10),
                                     ROW(log1p), ROW(sqrt),    ROW(rsqrt),      ROW(cbrt),  ROW(sin),   ROW(cos),
                                     ROW(tan),   ROW(asin),    ROW(acos),       ROW(atan),  ROW(sinh),  ROW(cosh),
                                     ROW(tanh),  ROW(erf),     ROW(abs),        ROW(sign),  ROW(relu),  ROW(floor),
                                     ROW(ceil),  ROW(sigmoid), ROW(reciprocal), ROW(round), ROW(trunc), ROW(square)};
#undef ROW
bool is_near(double x, double y) {
  return std::isnan(y) ? std::isnan(x) : std::fabs(x - y) <= 2e-6 * std::fabs(y) + 1e-6;
}
}  // namespace

TEST_CASE("functions of Scalars are those of tensors, of numbers and in a trace") {
  for (const FunctionRow& row : function_rows) {
    INFO(row.name);
    const auto compiled = jit::compile([&row](Tensor x, Scalar s) { return x * row.function(s); }, {.fullgraph = true});
    for (const double x : {0.25, -0.5, 1.0, -1.5, 2.5}) {
      INFO(x);
      const double expected = item<double>(row.of_tensor(full({}, x, {.dtype = DType::f64})));
      CHECK(is_near(row.function(x).number(), expected));
      CHECK(is_near(item<float>(compiled(ones({1}), x)), expected));
    }
    for (const int x : {-2, 1, 3}) {
      INFO(x);
      const Tensor expected = row.of_tensor(full({}, x, {.dtype = DType::i64}));
      const Scalar number = row.function(x);
      CHECK((number.leaf().kind == DTypeClass::integer) == (expected.dtype() == DType::i64));
      CHECK(is_near(number.number(), item<double>(cast(expected, DType::f64))));
      CHECK(is_near(item<float>(compiled(ones({1}), x)), item<double>(cast(expected, DType::f64))));
    }
  }
}

TEST_CASE("functions of two Scalars are those of tensors, of numbers and in a trace") {
  const auto results_of = [](auto a, auto b) {
    return std::tuple(pow(a, b), a % b, floor_divide(a, b), maximum(a, b), minimum(a, b));
  };
  const auto compiled = jit::compile(
      [&](Tensor x, Scalar a, Scalar b) {
        const auto [p, r, q, above, below] = results_of(a, b);
        return std::array<Tensor, 5>{x * p, x * r, x * q, x * above, x * below};
      },
      {.fullgraph = true});
  const auto check = [&](auto a, auto b) {
    INFO(a << " and " << b);
    const DType dtype = std::is_integral_v<decltype(a)> ? DType::i64 : DType::f64;
    const Tensor x = full({}, a, {.dtype = dtype}), y = full({}, b, {.dtype = dtype});
    const auto [p, r, q, above, below] = results_of(Scalar(a), Scalar(b));
    const Scalar numbers[] = {p, r, q, above, below};
    const Tensor expected[] = {pow(x, y), x % y, floor_divide(x, y), maximum(x, y), minimum(x, y)};
    const std::array<Tensor, 5> traced = compiled(ones({1}, {.dtype = DType::f64}), a, b);
    for (std::size_t i = 0; i < 5; ++i) {
      INFO(i);
      const double value = item<double>(cast(expected[i], DType::f64));
      CHECK(is_near(numbers[i].number(), value));
      CHECK((numbers[i].leaf().kind == DTypeClass::integer) == (dtype == DType::i64));
      CHECK(is_near(item<double>(traced[i]), value));
    }
  };
  for (const int a : {-7, 0, 7, 8})
    for (const int b : {-3, -1, 2, 3}) check(a, b);
  check(7, 0);
  for (const double a : {-7.5, 0.5, 6.0})
    for (const double b : {-2.0, 1.5, 3.0}) check(a, b);
  CHECK(is_near(atan2(Scalar(1), 2).number(), std::atan2(1.0, 2.0)));
  CHECK(is_near(hypot(3, Scalar(4)).number(), 5));
}

TEST_CASE("a bias correction: pow of a number and a Scalar") {
  const auto f = [](Tensor m, Scalar t) { return m / (1 - pow(0.9, t)); };
  in_all_forms(f, [&](const auto& form) {
    for (const int t : {1, 2, 10}) {
      const float expected = static_cast<float>(3 / (1 - std::pow(0.9, t)));
      CHECK(item<float>(form(full({1}, 3), Scalar(t))) == Approx(expected));
    }
  });
  CHECK(pow(Scalar(3), 2.0).number() == 9);
  CHECK(pow(2, Scalar(10)).leaf().kind == DTypeClass::integer);
}

TEST_CASE("every second step: % of a counter chooses without a read") {
  auto f = jit::compile([](Tensor x, Scalar step) { return where(step % 2 == 0, x, -x); }, {.fullgraph = true});
  for (const int step : {0, 1, 2, 3}) CHECK(item<float>(f(ones({1}), step)) == (step % 2 == 0 ? 1 : -1));
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("gradients by Scalars and through choices between them") {
  const auto loss = [](Tensor x, Scalar s) { return sum(where(s > 1, x * square(s), pow(x, 3) * tanh(s))); };
  const auto gradient = jit::grad<0, 1>(loss);
  const auto check = [&](const auto& form) {
    const Tensor x = tensor({2.f, 3.f});
    const auto [x1, s1] = form(x, Scalar(2.0));
    CHECK(to_vector<float>(x1) == Floats{4, 4});
    CHECK(Scalar(s1).number() == Approx(20));
    const auto [x0, s0] = form(x, Scalar(0.5));
    const double t = std::tanh(0.5);
    CHECK(to_vector<float>(x0)[1] == Approx(27 * t));
    CHECK(Scalar(s0).number() == Approx(35 * (1 - t * t)));
  };
  check(gradient);
  check(jit::compile(gradient));
}
