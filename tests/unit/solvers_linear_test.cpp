// cg, bicgstab and gmres: solutions, tolerances, what does not converge, derivatives by what functions capture, vmap
// and compile; against SciPy and linalg::solve.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <limits>
#include <string>

using namespace sinter;

namespace {

const TensorOptions f64{.dtype = DType::f64};
Tensor some(const Shape& shape, int seed) {
  Tensor k = arange(shape.numel(), f64);
  return sin(k * k * 0.7 + static_cast<double>(seed)).reshape(shape);
}
Tensor regular() { return some({6, 6}, 1) + 4 * eye(6, f64); }
Tensor positive() {
  Tensor a = some({6, 6}, 2);
  return matmul(a, transpose(a, 0, 1)) + 2 * eye(6, f64);
}
const solvers::LinearOptions exact{.rtol = 1e-13};
/// A solver by its number, of a matrix.
solvers::LinearSolution solution(int method, const Tensor& a, const Tensor& b, solvers::LinearOptions options = exact) {
  if (method == 0) return solvers::cg(a, b, options);
  return method == 1 ? solvers::bicgstab(a, b, options) : solvers::gmres(a, b, options);
}
Tensor matrix_for(int method) { return method == 0 ? positive() : regular(); }

}  // namespace

TEST_CASE("cg, bicgstab, gmres: the solution, lazily and compiled, as linalg::solve gives it") {
  const Tensor b = some({6}, 3);
  for (int method : {0, 1, 2}) {
    const Tensor a = matrix_for(method);
    const std::vector<double> want = doubles(linalg::solve(a, b));
    const auto found = solution(method, a, b);
    CHECK(near(doubles(found.x), want));
    CHECK(item<bool>(found.converged));
    CHECK(item<std::int64_t>(found.iterations) <= 8);
    CHECK(item<double>(found.residual) < 1e-12);
    auto compiled = jit::compile([=](Tensor m, Tensor r) { return solution(method, m, r); }, {.fullgraph = true});
    CHECK(near(doubles(compiled(a, b).x), want));
    CHECK(near(doubles(compiled(a, b).x), want));
    const auto single = solution(method, a.to(DType::f32), b.to(DType::f32), {});
    CHECK(single.x.dtype() == DType::f32);
    CHECK(near(doubles(single.x), want, 1e-4));
  }
}

TEST_CASE(
    "cg, bicgstab, gmres: derivatives by b and by what the function captures, to second order, forward and mapped") {
  const Tensor b = some({6}, 3);
  for (int method : {0, 1, 2}) {
    const Tensor a = matrix_for(method);
    auto by_solver = [=](Tensor m, Tensor r) {
      auto f = [&](Tensor x) { return matmul(m, x); };
      const auto found = method == 0   ? solvers::cg(f, r, exact)
                         : method == 1 ? solvers::bicgstab(f, r, exact)
                                       : solvers::gmres(f, r, exact);
      return sum(found.x * sin(found.x));
    };
    auto direct = [](Tensor m, Tensor r) {
      Tensor x = linalg::solve(m, r);
      return sum(x * sin(x));
    };
    auto [ga, gb] = jit::grad<0, 1>(by_solver)(a, b);
    auto [wa, wb] = jit::grad<0, 1>(direct)(a, b);
    CHECK(near(doubles(ga), doubles(wa)));
    CHECK(near(doubles(gb), doubles(wb)));
    auto compiled = jit::compile(jit::grad<0, 1>(by_solver), {.fullgraph = true});
    CHECK(near(doubles(std::get<0>(compiled(a, b))), doubles(wa)));
    CHECK(near(doubles(jit::hessian<1>(by_solver)(a, b)), doubles(jit::hessian<1>(direct)(a, b)), 1e-8));
    CHECK(near(doubles(jit::jvp([&](Tensor m) { return by_solver(m, b); }, a, a).second),
               doubles(jit::jvp([&](Tensor m) { return direct(m, b); }, a, a).second)));
    const Tensor many = some({3, 6}, 5);
    CHECK(near(doubles(jit::vmap(jit::grad<1>(by_solver), {jit::no_axis, 0})(a, many)),
               doubles(jit::vmap(jit::grad<1>(direct), {jit::no_axis, 0})(a, many))));
  }
}

TEST_CASE("cg: a function of a grid, with a preconditioner and a first guess") {
  auto laplace = [](Tensor x) {
    Tensor p = pad(x, {{1, 1}, {1, 1}});
    return 5 * x - p(slice(0, 6), slice(1, 6)) - p(slice(2, 8), slice(1, 6)) - p(slice(1, 7), slice(0, 5)) -
           p(slice(1, 7), slice(2, 7));
  };
  const Tensor b = some({6, 5}, 1);
  const auto plain = solvers::cg(laplace, b, exact);
  const auto helped = solvers::cg(laplace, b, [](Tensor r) { return r / 5; }, exact);
  CHECK(near(doubles(laplace(plain.x)), doubles(b)));
  CHECK(near(doubles(helped.x), doubles(plain.x)));
  solvers::LinearOptions from_solution = exact;
  from_solution.x0 = plain.x;
  CHECK(item<std::int64_t>(solvers::cg(laplace, b, from_solution).iterations) <= 1);
  const Tensor inverse = linalg::inv(regular());
  for (int method : {1, 2}) {
    const auto at_once = method == 1 ? solvers::bicgstab(regular(), some({6}, 3), inverse, exact)
                                     : solvers::gmres(regular(), some({6}, 3), inverse, exact);
    CHECK(near(doubles(at_once.x), doubles(linalg::solve(regular(), some({6}, 3)))));
    CHECK((method == 2 || item<std::int64_t>(at_once.iterations) <= 2));
  }
}

TEST_CASE("linear solvers: what did not converge says so, zeros are solved at once") {
  const Tensor b = some({6}, 3);
  for (int method : {0, 1, 2}) {
    solvers::LinearOptions few = exact;
    few.max_iterations = 2;
    few.restart = 2;
    const auto found = solution(method, matrix_for(method), b, few);
    CHECK_FALSE(item<bool>(found.converged));
    CHECK(item<std::int64_t>(found.iterations) == 2);
    CHECK(item<double>(found.residual) > 1e-6);
    const Tensor slope = jit::grad([&](Tensor r) { return sum(solution(method, matrix_for(method), r, few).x); })(b);
    CHECK(to_vector<bool>(isnan(slope)) == std::vector<bool>(6, true));
    const auto none = solution(method, matrix_for(method), zeros({6}, f64));
    CHECK(item<bool>(none.converged));
    CHECK(doubles(none.x) == std::vector<double>(6));
  }
  CHECK_FALSE(item<bool>(solvers::cg(zeros({3, 3}), ones({3})).converged));
  CHECK_FALSE(item<bool>(solvers::gmres(zeros({3, 3}), ones({3})).converged));
}

TEST_CASE("linear solvers: errors name the user's line") {
  CHECK(has(message_of([] { solvers::cg([](Tensor x) { return sum(x); }, ones({3})); }), "solvers_linear_test.cpp"));
  CHECK(has(message_of([] { solvers::cg([](Tensor x) { return x; }, arange(3)); }), "must be floating"));
  CHECK(has(message_of([] { solvers::gmres([](Tensor x) { return x; }, ones({3}), {.restart = 0}); }), "restart is 0"));
  Variable count(ones({}), "count");
  CHECK(has(message_of([&] {
              solvers::cg(
                  [&](Tensor x) {
                    count += 1;
                    return x;
                  },
                  ones({3}));
            }),
            "Variable 'count'"));
}

TEST_CASE("right hand sides of any size are solved", "[solvers]") {
  const Tensor a = eye(3) * 2;
  for (const float size : {1e25f, 1e-25f, 1e-38f, 1.f}) {
    const Tensor b = full({3}, size);
    for (const auto& found : {solvers::cg(a, b), solvers::bicgstab(a, b), solvers::gmres(a, b)}) {
      CHECK(item<bool>(found.converged));
      CHECK(allclose(found.x, b / 2.f, {.rtol = 1e-5, .atol = 0}));
    }
  }
  const auto none = solvers::cg(a, full({3}, std::numeric_limits<float>::infinity()));
  CHECK_FALSE(item<bool>(none.converged));
}
