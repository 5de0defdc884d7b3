// root (Newton, Broyden) and bisect: roots, their flags, derivatives against analytical ones, vmap, compile, the tape.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }
solvers::RootOptions by(solvers::RootMethod method) { return {.method = method, .tolerance = 1e-12}; }
constexpr solvers::RootMethod methods[] = {solvers::RootMethod::newton, solvers::RootMethod::broyden};

/// Powell's example of scipy.optimize.root's documentation, with a parameter for its constant 1.
Tensor powell(const Tensor& x, const Tensor& c) {
  Tensor a = x(0), b = x(1);
  return stack({a + 0.5 * pow(a - b, 3.0) - c, 0.5 * pow(b - a, 3.0) + b}, 0);
}
}  // namespace

TEST_CASE("root: SciPy's example, lazily and compiled, f32 and f64") {
  const std::vector<double> want{0.8411639019140096, 0.1588360980859904};  // scipy.optimize.root(fun, [0, 0]).x
  for (auto method : methods) {
    const Tensor c = ones({}, f64);
    const auto found = solvers::root([&](Tensor x) { return powell(x, c); }, zeros({2}, f64), by(method));
    CHECK(near(doubles(found.x), want));
    CHECK(item<bool>(found.converged));
    CHECK(item<double>(found.residual) <= 1e-12);
    CHECK(item<std::int64_t>(found.iterations) < 15);
    auto compiled = jit::compile(
        [=](Tensor constant, Tensor x0) {
          return solvers::root([&](Tensor x) { return powell(x, constant); }, x0, by(method)).x;
        },
        {.fullgraph = true});
    CHECK(near(doubles(compiled(c, zeros({2}, f64))), want));
    CHECK(near(doubles(compiled(c, ones({2}, f64))), want));
    CHECK(compiled.stats().compiles == 1);
    const auto single = solvers::root([](Tensor x) { return powell(x, ones({})); }, zeros({2}), {.method = method});
    CHECK(near(doubles(single.x), want, 1e-5));
    CHECK(single.x.dtype() == DType::f32);
    CHECK(item<bool>(single.converged));
  }
}

TEST_CASE("root: derivatives by what the function captures, of first and second order, forward and mapped") {
  const Tensor a = vec64({2, 3, 5});
  for (auto method : methods) {
    auto cube_root = [=](Tensor v) {  // x^3 = v, coupled by a sum that is subtracted again
      return solvers::root([&](Tensor x) { return x * x * x - v; }, ones({3}, f64), by(method)).x;
    };
    auto f = [&](Tensor v) { return sum(cube_root(v)); };
    std::vector<double> slopes, curvatures;
    for (double v : {2., 3., 5.}) {
      slopes.push_back(std::pow(v, -2. / 3) / 3);
      curvatures.push_back(-2. / 9 * std::pow(v, -5. / 3));
    }
    CHECK(near(doubles(jit::grad(f)(a)), slopes));
    CHECK(near(doubles(jit::compile(jit::grad(f), {.fullgraph = true})(a)), slopes));
    CHECK(near(doubles(jit::grad([&](Tensor v) { return sum(jit::grad(f)(v)); })(a)), curvatures, 1e-8));
    CHECK(near(doubles(jit::jvp(cube_root, a, ones({3}, f64)).second), slopes));
    Tensor many = stack({a, a + 1, a * 2}, 0);
    CHECK(near(doubles(jit::vmap(cube_root)(many)), doubles(cbrt(many))));
    CHECK(near(doubles(jit::vmap(jit::grad(f))(many)), doubles(pow(many, -2. / 3) / 3.)));
  }
}

TEST_CASE("root: the gradient on the tape, by a Variable that the function reads") {
  Variable v(vec64({2}), "v");
  v.requires_grad();
  Tensor x = solvers::root([&](Tensor x) { return exp(x) - v; }, zeros({1}, f64)).x;
  sum(x).backward();
  CHECK(near(doubles(v.grad()), {0.5}));
}

TEST_CASE("root: no root, a singular matrix and few iterations are told") {
  for (auto method : methods) {
    CHECK_FALSE(item<bool>(solvers::root([](Tensor x) { return x * x + 1; }, ones({2}, f64), by(method)).converged));
    CHECK_FALSE(item<bool>(solvers::root([](Tensor x) { return 0 * x + 1; }, ones({2}, f64), by(method)).converged));
    solvers::RootOptions few = by(method);
    few.max_iterations = 2;
    const auto found = solvers::root([](Tensor x) { return exp(x) - 50; }, zeros({}, f64), few);
    CHECK_FALSE(item<bool>(found.converged));
    CHECK(item<std::int64_t>(found.iterations) == 2);
    CHECK(item<double>(found.residual) > 1);
    few.max_iterations = 100;
    CHECK(near(doubles(solvers::root([](Tensor x) { return exp(x) - 50; }, zeros({}, f64), few).x), {std::log(50.)}));
  }
}

TEST_CASE("bisect: each element by itself, with derivatives") {
  const Tensor a = vec64({0.5, 2, 9});
  auto square_root = [](Tensor v) {
    return solvers::bisect([&](Tensor x) { return x * x - v; }, zeros({3}, f64), full({3}, 10., f64)).x;
  };
  CHECK(near(doubles(square_root(a)), doubles(sqrt(a)), 1e-13));
  CHECK(near(doubles(jit::compile(square_root, {.fullgraph = true})(a)), doubles(sqrt(a)), 1e-13));
  auto f = [&](Tensor v) { return sum(square_root(v)); };
  CHECK(near(doubles(jit::grad(f)(a)), doubles(0.5 / sqrt(a))));
  CHECK(near(doubles(jit::vmap(square_root)(stack({a, a * 2}, 0))), doubles(sqrt(stack({a, a * 2}, 0))), 1e-13));

  const auto some_have_none =
      solvers::bisect([](Tensor x) { return x * x - vec64({4, -4, 4}); }, zeros({3}, f64), vec64({10, 10, 2}));
  CHECK(to_vector<bool>(some_have_none.converged) == std::vector<bool>{true, false, true});
  CHECK(near({doubles(some_have_none.x)[0], doubles(some_have_none.x)[2]}, {2, 2}));
  const auto short_one =
      solvers::bisect([](Tensor x) { return x * x - 2; }, zeros({}), full({}, 2), {.max_iterations = 3});
  CHECK_FALSE(item<bool>(short_one.converged));
  CHECK(has(message_of([] { solvers::bisect([](Tensor x) { return x; }, zeros({2}), zeros({3})); }),
            "both ends must have one shape"));
}

TEST_CASE("elements that bisect cannot solve do not spoil the others", "[solvers]") {
  auto first = [](Tensor v) {
    auto cube = [&](Tensor x) { return x * x * x - v * tensor({1.f, 0.f}); };
    return solvers::bisect(cube, full({2}, -3.f), full({2}, 3.f)).x(0);
  };
  CHECK(std::abs(item<float>(jit::grad(first)(full({}, 8.f))) - 1.f / 12) < 1e-4);
  const auto found = solvers::bisect([](Tensor x) { return log(x); }, full({1}, -3.f), full({1}, 2.f));
  CHECK_FALSE(item<bool>(found.converged(0)));
}
