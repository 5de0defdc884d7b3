// odeint (rk45, dopri8, radau): values against closed forms and SciPy, flags, gradients of both kinds, vmap, compile.
#include "../checks.hpp"
#include "catch.hpp"
#include "solver_values.hpp"

#include <sinter/sinter.hpp>

#include <cmath>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }
using solvers::OdeGradient;
using solvers::OdeMethod;
constexpr OdeMethod methods[] = {OdeMethod::rk45, OdeMethod::dopri8, OdeMethod::radau};
solvers::OdeOptions tight(OdeMethod method, OdeGradient gradient = OdeGradient::adjoint) {
  return {.method = method,
          .gradient = gradient,
          .rtol = 1e-9,
          .atol = 1e-11,
          .max_steps = gradient == OdeGradient::discrete ? 200 : 10000};
}
/// Of hares and foxes, by four rates.
Tensor predators(const Tensor& y, const Tensor& p) {
  Tensor hares = y(0), foxes = y(1);
  return stack({p(0) * hares - p(1) * hares * foxes, p(2) * hares * foxes - p(3) * foxes}, 0);
}
const Tensor& rates() {
  static const Tensor p = vec64({1.5, 1, 1, 3});
  return p;
}
}  // namespace

TEST_CASE("odeint: an oscillator, forwards and backwards, lazily and compiled, f32 and f64") {
  auto f = [](Tensor, Tensor y) { return stack({y(1), -y(0)}, 0); };
  const Tensor times = linspace(0, 6, 13, f64);
  const std::vector<double> want = doubles(stack({cos(times), -sin(times)}, 1));
  for (auto method : methods) {
    const auto found = solvers::odeint(f, vec64({1, 0}), times, tight(method));
    CHECK(near(doubles(found.y), want, 1e-7));
    CHECK(item<bool>(found.converged));
    CHECK(item<std::int64_t>(found.steps) < 1500);
    const auto back = solvers::odeint(f, vec64({std::cos(6.), -std::sin(6.)}), flip(times), tight(method));
    CHECK(near(doubles(flip(back.y, {0})), want, 1e-7));
    auto compiled = jit::compile([=](Tensor y0, Tensor t) { return solvers::odeint(f, y0, t, tight(method)).y; },
                                 {.fullgraph = true});
    CHECK(near(doubles(compiled(vec64({1, 0}), times)), want, 1e-7));
    CHECK(near(doubles(compiled(vec64({1, 0}), linspace(0, 6, 4, f64))(3)), {want[24], want[25]}, 1e-7));
    const auto single = solvers::odeint(f, tensor({1.f, 0.f}), times, {.method = method});
    CHECK(single.y.dtype() == DType::f32);
    CHECK(near(doubles(single.y), want, 2e-3));
  }
}

TEST_CASE("odeint: hares and foxes as SciPy has them, with rates that depend on time") {
  const Tensor times = linspace(0, 8, 9, f64);
  for (auto method : methods) {
    auto f = [](Tensor t, Tensor y) { return predators(y, rates()) + 0.1 * sin(t); };
    const auto found = solvers::odeint(f, vec64({10, 5}), times, tight(method));
    CHECK(near(doubles(found.y), scipy_values::predators, 2e-7));
  }
}

TEST_CASE("odeint: radau takes few steps where an equation is stiff") {
  // Robertson's chemistry; scipy.integrate.solve_ivp(f, (0, 1e4), [1, 0, 0], method="Radau", rtol=1e-10, atol=1e-13).
  auto f = [](Tensor, Tensor y) {
    Tensor a = 0.04 * y(0), b = 1e4 * y(1) * y(2), c = 3e7 * y(1) * y(1);
    return stack({b - a, a - b - c, c}, 0);
  };
  const auto found = solvers::odeint(f, vec64({1, 0, 0}), vec64({0, 1, 100, 1e4}),
                                     {.method = OdeMethod::radau, .rtol = 1e-7, .atol = 1e-10});
  CHECK(item<bool>(found.converged));
  CHECK(item<std::int64_t>(found.steps) < 250);
  CHECK(near(doubles(found.y), scipy_values::robertson, 1e-6));
  const auto explicit_one = solvers::odeint(f, vec64({1, 0, 0}), vec64({0, 1, 100, 1e4}), {.max_steps = 2000});
  CHECK_FALSE(item<bool>(explicit_one.converged));
  CHECK(to_vector<bool>(isnan(explicit_one.y(3))) == std::vector<bool>(3, true));
}

TEST_CASE("odeint: gradients by y0, times and what the function captures, adjoint and discrete") {
  const Tensor times = linspace(0, 2, 5, f64), y0 = vec64({2, 1});
  const std::vector<double> p0 = to_vector<double>(rates());
  for (auto method : methods)
    for (auto kind : {OdeGradient::adjoint, OdeGradient::discrete}) {
      auto loss = [=](Tensor p, Tensor start, Tensor t) {
        Tensor y = solvers::odeint([&](Tensor, Tensor x) { return predators(x, p); }, start, t, tight(method, kind)).y;
        return sum(y * y * vec64({1, 2}));
      };
      INFO("method " << static_cast<int>(method) << ", " << (kind == OdeGradient::adjoint ? "adjoint" : "discrete"));
      auto [gp, gy, gt] = jit::grad<0, 1, 2>(loss)(rates(), y0, times);
      auto check = [&](const Tensor& got, const Tensor& at, const auto& f) {
        const std::vector<double> slopes = doubles(got), values = doubles(at);
        for (std::size_t i = 0; i < values.size(); ++i) {
          auto moved = [&](double delta) {
            std::vector<double> x = values;
            x[i] += delta;
            return item<double>(f(copy_of(x)));
          };
          CHECK(slopes[i] == Approx((moved(1e-4) - moved(-1e-4)) / 2e-4).epsilon(1e-5).margin(1e-5));
        }
      };
      check(gp, rates(), [&](Tensor p) { return loss(p, y0, times); });
      check(gy, y0, [&](Tensor y) { return loss(rates(), y, times); });
      check(gt, times, [&](Tensor t) { return loss(rates(), y0, t); });
      auto compiled = jit::compile(jit::grad<0, 1, 2>(loss), {.fullgraph = true});
      CHECK(near(doubles(std::get<0>(compiled(rates(), y0, times))), doubles(gp), 1e-6));
    }
}

TEST_CASE("odeint: forward mode, second derivatives and vmap") {
  const Tensor times = vec64({0, 1}), k = vec64({0.5});
  auto end = [=](Tensor rate) {
    return solvers::odeint([&](Tensor, Tensor y) { return -rate * y; }, vec64({2}), times, tight(OdeMethod::rk45)).y(1);
  };
  const double want = 2 * std::exp(-0.5);
  CHECK(near(doubles(jit::jvp(end, k, vec64({1})).second), {-want}, 1e-7));
  auto slope = [&](Tensor rate) { return sum(jit::grad([&](Tensor r) { return sum(end(r)); })(rate)); };
  CHECK(near(doubles(jit::grad(slope)(k)), {want}, 1e-6));
  const Tensor many = reshape(vec64({0.5, 1, 4}), {3, 1});
  CHECK(near(doubles(jit::vmap(end)(many)), doubles(2 * exp(-many)), 1e-7));
  CHECK(
      near(doubles(jit::vmap(jit::grad([&](Tensor r) { return sum(end(r)); }))(many)), doubles(-2 * exp(-many)), 1e-7));
}

TEST_CASE("odeint: a blow-up is told, one time is y0 alone, and errors name the line") {
  const auto found = solvers::odeint([](Tensor, Tensor y) { return y * y; }, ones({1}, f64), vec64({0, 0.5, 2}));
  CHECK_FALSE(item<bool>(found.converged));
  CHECK(near({doubles(found.y)[1]}, {2}, 1e-5));
  CHECK(std::isnan(doubles(found.y)[2]));
  CHECK(doubles(solvers::odeint([](Tensor, Tensor y) { return y; }, ones({2}), zeros({1})).y) ==
        std::vector<double>{1, 1});
  CHECK(has(message_of([] { solvers::odeint([](Tensor, Tensor y) { return sum(y); }, ones({2}), zeros({2})); }),
            "solvers_ode_test.cpp"));
  CHECK(has(message_of([] { solvers::odeint([](Tensor, Tensor y) { return y; }, ones({2}), zeros({})); }),
            "they must be a list"));
}
