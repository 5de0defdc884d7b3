// minimize (BFGS, L-BFGS) and least_squares (Gauss-Newton, Levenberg-Marquardt): minima against SciPy, flags,
// derivatives against analytical ones, vmap and compile.
#include "../checks.hpp"
#include "catch.hpp"

#include "solver_values.hpp"

#include <sinter/sinter.hpp>

#include <cmath>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }
Tensor some(const Shape& shape, int seed) {
  Tensor k = arange(shape.numel(), f64);
  return sin(k * k * 0.7 + static_cast<double>(seed)).reshape(shape);
}
Tensor rosenbrock(const Tensor& x) {
  Dim n = x.size(0);
  Tensor head = narrow(x, 0, 0, n - Dim(1)), tail = narrow(x, 0, 1, n - Dim(1));
  return sum(100 * square(tail - head * head) + square(1 - head));
}
constexpr solvers::MinimizeMethod methods[] = {solvers::MinimizeMethod::bfgs, solvers::MinimizeMethod::lbfgs};
constexpr solvers::LeastSquaresMethod square_methods[] = {solvers::LeastSquaresMethod::gauss_newton,
                                                          solvers::LeastSquaresMethod::levenberg_marquardt};
}  // namespace

TEST_CASE("minimize: Rosenbrock's function, lazily and compiled, f32 and f64") {
  const Tensor x0 = vec64({1.3, 0.7, 0.8, 1.9, 1.2});
  for (auto method : methods) {
    const auto found = solvers::minimize(rosenbrock, x0, {.method = method});
    CHECK(near(doubles(found.x), {1, 1, 1, 1, 1}, 1e-7));
    CHECK(item<bool>(found.converged));
    CHECK(item<double>(found.value) < 1e-15);
    CHECK(item<double>(found.residual) <= 1e-8);
    CHECK(item<std::int64_t>(found.iterations) < 80);
    auto compiled = jit::compile([=](Tensor x) { return solvers::minimize(rosenbrock, x, {.method = method}).x; },
                                 {.fullgraph = true});
    CHECK(near(doubles(compiled(x0)), {1, 1, 1, 1, 1}, 1e-7));
    const auto single = solvers::minimize(rosenbrock, x0.to(DType::f32), {.method = method, .tolerance = 1e-3});
    CHECK(near(doubles(single.x), {1, 1, 1, 1, 1}, 2e-3));
    CHECK(item<bool>(single.converged));
  }
}

TEST_CASE("minimize: a log-likelihood, as SciPy finds it") {
  // Logistic regression with a penalty; scipy.optimize.minimize(loss, zeros(3), method="BFGS", tol=1e-10).
  const Tensor data = some({20, 3}, 1), label = sign(some({20}, 4));
  for (auto method : methods) {
    auto loss = [&](Tensor w) { return sum(log1p(exp(-label * matmul(data, w)))) + 0.5 * sum(w * w); };
    const auto found = solvers::minimize(loss, zeros({3}, f64), {.method = method});
    CHECK(item<bool>(found.converged));
    CHECK(near(doubles(found.x), scipy_values::logistic, 1e-7));
  }
}

TEST_CASE("minimize: derivatives of the minimum and of its value") {
  // min over x of sum(cosh(x) - a x): x = asinh(a), and the value's derivative by a is -x.
  const Tensor a = vec64({0.5, -1, 2});
  for (auto method : methods) {
    auto found = [=](Tensor v) {
      return solvers::minimize([&](Tensor x) { return sum(cosh(x) - v * x); }, zeros({3}, f64), {.method = method});
    };
    auto x = [&](Tensor v) { return sum(found(v).x); };
    CHECK(near(doubles(jit::grad(x)(a)), doubles(1. / sqrt(1. + a * a)), 1e-7));
    CHECK(near(doubles(jit::compile(jit::grad(x), {.fullgraph = true})(a)), doubles(1. / sqrt(1. + a * a)), 1e-7));
    CHECK(near(doubles(jit::grad([&](Tensor v) { return found(v).value; })(a)), doubles(-asinh(a)), 1e-7));
    CHECK(near(doubles(jit::grad([&](Tensor v) { return sum(jit::grad(x)(v)); })(a)),
               doubles(-a * pow(1. + a * a, -1.5)), 1e-6));
    const Tensor many = stack({a, a * 2.}, 0);
    CHECK(near(doubles(jit::vmap([&](Tensor v) { return found(v).x; })(many)), doubles(asinh(many)), 1e-7));
    CHECK(near(doubles(jit::vmap(jit::grad(x))(many)), doubles(1. / sqrt(1. + many * many)), 1e-7));
  }
}

TEST_CASE("minimize: what has no minimum, few iterations and NaN are told") {
  for (auto method : methods) {
    CHECK_FALSE(item<bool>(
        solvers::minimize([](Tensor x) { return sum(x); }, zeros({2}, f64), {.method = method, .max_iterations = 20})
            .converged));
    const auto few = solvers::minimize(rosenbrock, zeros({4}, f64), {.method = method, .max_iterations = 3});
    CHECK_FALSE(item<bool>(few.converged));
    CHECK(item<std::int64_t>(few.iterations) == 3);
    CHECK_FALSE(item<bool>(solvers::minimize([](Tensor x) { return sum(log(x)); }, -ones({2}, f64)).converged));
    CHECK(item<bool>(solvers::minimize([](Tensor x) { return sum(abs(x)); }, zeros({2}, f64)).converged));
  }
  CHECK(has(message_of([] { solvers::minimize([](Tensor x) { return x; }, zeros({2})); }), "must give a scalar"));
}

TEST_CASE("least_squares: a curve through points, as SciPy finds it, with derivatives by the points") {
  const Tensor t = arange(12, f64) * 0.25;
  const Tensor y = 2.5 * exp(-1.3 * t) + 0.5 + 0.02 * some({12}, 2);
  auto fit = [&](solvers::LeastSquaresMethod method, Tensor points) {
    return solvers::least_squares([&](Tensor p) { return p(0) * exp(-p(1) * t) + p(2) - points; }, ones({3}, f64),
                                  {.method = method, .tolerance = 1e-11});
  };
  for (auto method : square_methods) {
    const auto found = fit(method, y);
    CHECK(item<bool>(found.converged));
    CHECK(near(doubles(found.x), scipy_values::fit, 1e-7));
    auto f = [&](Tensor points) { return sum(fit(method, points).x * vec64({1, 2, 3})); };
    const std::vector<double> slopes = doubles(jit::grad(f)(y));
    const std::vector<double> points = doubles(y);
    for (std::size_t i : {0, 5, 11}) {
      auto at = [&](double delta) {
        std::vector<double> moved = points;
        moved[i] += delta;
        return item<double>(f(copy_of(moved)));
      };
      CHECK(slopes[i] == Approx((at(1e-4) - at(-1e-4)) / 2e-4).epsilon(1e-5));
    }
    auto compiled = jit::compile([&, method](Tensor points) { return fit(method, points).x; }, {.fullgraph = true});
    CHECK(near(doubles(compiled(y)), scipy_values::fit, 1e-7));
    CHECK(near(doubles(jit::vmap([&](Tensor points) { return fit(method, points).x; })(stack({y, y * 2.}, 0))(0)),
               scipy_values::fit, 1e-7));
    const auto single =
        solvers::least_squares([](Tensor p) { return p - full({2}, 3); }, zeros({2}), {.method = method});
    CHECK(near(doubles(single.x), {3, 3}, 1e-5));
    CHECK(item<bool>(single.converged));
    CHECK_FALSE(item<bool>(solvers::least_squares([](Tensor p) { return exp(p); }, zeros({1}, f64),
                                                  {.method = method, .max_iterations = 2})
                               .converged));
  }
}
