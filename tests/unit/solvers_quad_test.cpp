// quad, interp and cubic_spline: values against SciPy and closed forms, flags, derivatives, vmap and compile.
#include "../checks.hpp"
#include "catch.hpp"
#include "solver_values.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <limits>
#include <numbers>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }
Tensor number(double x) { return full({}, x, f64); }
constexpr double infinity = std::numeric_limits<double>::infinity();
const std::vector<double> points{0, 0.4, 1.1, 1.5, 2.6, 3, 4.2}, values{1, 2, 0.5, -1, 0.3, 2.5, 2};
}  // namespace

TEST_CASE("quad: smooth, peaked and singular functions, infinite bounds, f32, compiled") {
  auto value = [](const solvers::Quadrature& found) {
    CHECK(item<bool>(found.converged));
    return item<double>(found.value);
  };
  CHECK(value(solvers::quad([](Tensor x) { return exp(x); }, 0, 1)) == Approx(std::exp(1) - 1).epsilon(1e-14));
  const auto peak = solvers::quad([](Tensor x) { return 1 / (1e-6 + square(x - 0.3)); }, 0, 1);
  CHECK(value(peak) == Approx(1e3 * (std::atan(700) + std::atan(300))).epsilon(1e-9));
  CHECK(item<std::int64_t>(peak.iterations) > 5);
  CHECK(value(solvers::quad([](Tensor x) { return 1 / sqrt(x); }, 0, 1, {.max_intervals = 100})) ==
        Approx(2).epsilon(1e-7));
  CHECK(value(solvers::quad([](Tensor x) { return exp(-x * x); }, -infinity, infinity)) ==
        Approx(std::sqrt(std::numbers::pi)).epsilon(1e-9));
  CHECK(value(solvers::quad([](Tensor x) { return exp(-x); }, 1, infinity)) == Approx(std::exp(-1)).epsilon(1e-9));
  CHECK(value(solvers::quad([](Tensor x) { return exp(x); }, -infinity, 1)) == Approx(std::exp(1)).epsilon(1e-9));
  CHECK(value(solvers::quad([](Tensor x) { return cos(x); }, 2, 0)) == Approx(-std::sin(2)).epsilon(1e-12));
  const auto single = solvers::quad([](Tensor x) { return exp(x); }, zeros({}), ones({}));
  CHECK(single.value.dtype() == DType::f32);
  CHECK(item<float>(single.value) == Approx(std::exp(1) - 1).epsilon(1e-5));
  auto compiled = jit::compile(
      [](Tensor k) { return solvers::quad([&](Tensor x) { return cos(k * x) * exp(-x); }, 0, infinity).value; },
      {.fullgraph = true});
  CHECK(item<double>(compiled(number(3))) == Approx(0.1).epsilon(1e-8));
  CHECK(item<double>(compiled(number(0.5))) == Approx(0.8).epsilon(1e-8));
  const auto several = solvers::quad([](Tensor x) { return stack({x, x * x, exp(x)}, 1); }, 0, 2);
  CHECK(near(doubles(several.value), {2, 8. / 3, std::exp(2) - 1}, 1e-12));
}

TEST_CASE("quad: derivatives by bounds and by what the function captures") {
  auto f = [](Tensor a, Tensor b, Tensor k) {
    return solvers::quad([&](Tensor x) { return sin(k * x); }, a, b).value;  // (cos(k a) - cos(k b)) / k
  };
  const double a = 0.2, b = 1.5, k = 2;
  auto [da, db, dk] = jit::grad<0, 1, 2>(f)(number(a), number(b), number(k));
  CHECK(item<double>(da) == Approx(-std::sin(k * a)).epsilon(1e-10));
  CHECK(item<double>(db) == Approx(std::sin(k * b)).epsilon(1e-10));
  const double by_k = (-a * std::sin(k * a) + b * std::sin(k * b)) / k - (std::cos(k * a) - std::cos(k * b)) / (k * k);
  CHECK(item<double>(dk) == Approx(by_k).epsilon(1e-10));
  CHECK(item<double>(jit::jvp([&](Tensor t) { return f(number(a), number(b), t); }, number(k), number(1)).second) ==
        Approx(by_k).epsilon(1e-10));
  auto compiled = jit::compile(jit::grad<2>(f), {.fullgraph = true});
  CHECK(item<double>(compiled(number(a), number(b), number(k))) == Approx(by_k).epsilon(1e-10));
  auto second = jit::grad([&](Tensor t) { return jit::grad<1>(f)(number(a), t, number(k)); });
  CHECK(item<double>(second(number(b))) == Approx(k * std::cos(k * b)).epsilon(1e-9));
  auto gauss = [](Tensor s) {
    return solvers::quad([&](Tensor x) { return exp(-s * x * x); }, -infinity, infinity).value;
  };
  const Tensor many = vec64({1, 2, 30});
  CHECK(near(doubles(jit::vmap(gauss)(many)), doubles(sqrt(std::numbers::pi / many)), 1e-8));
  CHECK(near(doubles(jit::vmap(jit::grad(gauss))(many)), doubles(-0.5 * sqrt(std::numbers::pi / (many * many * many))),
             1e-7));
}

TEST_CASE("quad: what does not converge says so; errors") {
  CHECK_FALSE(item<bool>(solvers::quad([](Tensor x) { return 1 / x; }, 0, 1).converged));
  CHECK_FALSE(item<bool>(
      solvers::quad([](Tensor x) { return sin(1 / x); }, 0, 1, {.rtol = 1e-14, .atol = 1e-14, .max_intervals = 5})
          .converged));
  CHECK_FALSE(item<bool>(solvers::quad([](Tensor x) { return sqrt(x - 2); }, 0, 1).converged));
  CHECK(has(message_of([] { solvers::quad([](Tensor x) { return sum(x); }, 0, 1); }), "its shape begins with 21"));
  CHECK(has(message_of([] { solvers::quad([](Tensor x) { return x; }, infinity, 1); }), "exchange the bounds"));
  CHECK(has(message_of([] { solvers::quad([](Tensor x) { return x; }, zeros({2}), 1); }), "must be a scalar"));
}

TEST_CASE("interp: as NumPy, with derivatives by all three") {
  const Tensor x = copy_of(points), y = copy_of(values), at = reshape(vec64({-1, 0, 0.2, 1.1, 2, 4.2, 9, 3.7}), {2, 4});
  CHECK(near(doubles(solvers::interp(at, x, y)), scipy_values::interp, 1e-14));
  const std::vector<double> with_ends = doubles(solvers::interp(at, x, y, {.left = -5, .right = 7}));
  CHECK(with_ends[0] == -5);
  CHECK(with_ends[6] == 7);
  auto f = [&](Tensor q, Tensor p, Tensor v) { return sum(square(solvers::interp(q, p, v))); };
  auto [dq, dx, dy] = jit::grad<0, 1, 2>(f)(vec64({0.2, 2}), x, y);
  CHECK(near(doubles(dq), {2 * 1.5 * 2.5, 2 * (-1 + 1.3 * 0.5 / 1.1) * 1.3 / 1.1}, 1e-12));
  CHECK(near({doubles(dy)[0], doubles(dy)[1]}, {1.5, 1.5}, 1e-12));
  CHECK(near({doubles(dx)[0]}, {-2 * 1.5 * 2.5 * 0.5}, 1e-12));
  auto compiled =
      jit::compile([](Tensor q, Tensor p, Tensor v) { return solvers::interp(q, p, v); }, {.fullgraph = true});
  CHECK(near(doubles(compiled(at, x, y)), scipy_values::interp, 1e-14));
}

TEST_CASE("cubic_spline: the ends, derivatives and integrals of SciPy's") {
  using solvers::SplineEnds;
  const Tensor x = copy_of(points), y = copy_of(values), at = vec64({-0.5, 0.2, 1.1, 2, 4.5});
  const std::pair<SplineEnds, const std::vector<double>*> rows[] = {{SplineEnds::not_a_knot, &scipy_values::not_a_knot},
                                                                    {SplineEnds::natural, &scipy_values::natural},
                                                                    {SplineEnds::clamped, &scipy_values::clamped}};
  for (auto [ends, want] : rows) {
    const solvers::CubicSpline spline = solvers::cubic_spline(x, y, ends);
    std::vector<double> got = doubles(cat({spline(at), spline(at, 1), spline(at, 2), spline(at, 3)}, 0));
    got.push_back(item<double>(spline.integrate(0.3, 3.7)));
    CHECK(near(got, *want, 1e-11));
    const solvers::CubicSpline both = solvers::cubic_spline(x, stack({y, 2 * y}, 1), ends);
    CHECK(near(doubles(both(at)(all, 1)), doubles(2 * spline(at)), 1e-12));
    const Tensor slope = jit::grad([&](Tensor q) { return sum(spline(q)); })(at);
    CHECK(near(doubles(slope), doubles(spline(at, 1)), 1e-12));
    const Tensor by_y = jit::grad([&](Tensor v) { return sum(solvers::cubic_spline(x, v, ends)(at)); })(y);
    CHECK(item<double>(sum(by_y * y)) == Approx(item<double>(sum(spline(at)))).epsilon(1e-10));  // it is linear in y
  }
  for (std::int64_t n : {2, 3}) {
    const Tensor px = narrow(x, 0, 0, n), py = narrow(y, 0, 0, n);
    const std::vector<double>& want = n == 2 ? scipy_values::two_points : scipy_values::three_points;
    CHECK(near(doubles(solvers::cubic_spline(px, py)(at)), want, 1e-12));
  }
  auto compiled = jit::compile([](solvers::CubicSpline s, Tensor q) { return s(q); }, {.fullgraph = true});
  const solvers::CubicSpline spline = solvers::cubic_spline(x, y);
  CHECK(near(doubles(compiled(spline, at)), doubles(spline(at)), 1e-13));
  CHECK(near(doubles(spline(0.2)), {doubles(spline(at))[1]}, 1e-15));
  CHECK(near(doubles(solvers::interp(0.2, x, y)), {1.5}, 1e-15));
  CHECK(has(message_of([] { solvers::cubic_spline(zeros({3}), zeros({2})); }), "solvers_quad_test.cpp"));
}
