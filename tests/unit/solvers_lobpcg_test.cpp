// lobpcg: eigenvalues of NumPy, functions and matrices, with and without a preconditioner, compiled, and derivatives by
// what the function captures.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {

const TensorOptions f64{.dtype = DType::f64};
Tensor some(const Shape& shape, int seed) {
  const Tensor k = arange(shape.numel(), f64);
  return sin(k * k * 0.7 + static_cast<double>(seed)).reshape(shape);
}
/// 2 + sin(i) on the diagonal, -1 beside it.
Tensor diagonal_of(std::int64_t n) { return 2 + sin(arange(n, f64)); }
Tensor times(const Tensor& d, const Tensor& x) {
  const Dim rest = x.size(0) - 1;
  return unsqueeze(d, 1) * x - pad(narrow(x, 0, 1, rest), {{0, 1}, {0, 0}}) -
         pad(narrow(x, 0, 0, rest), {{1, 0}, {0, 0}});
}
double residual(const Tensor& d, const solvers::LobpcgSolution& found) {
  return item<double>(amax(abs(times(d, found.vectors) - found.vectors * unsqueeze(found.values, 0))));
}

}  // namespace

TEST_CASE("lobpcg: the largest and the smallest eigenvalues, as numpy.linalg.eigvalsh gives them") {
  const Tensor d = diagonal_of(100), x0 = some({100, 4}, 1);
  auto a = [=](Tensor x) { return times(d, x); };
  const std::vector<double> largest{4.40198885, 4.40116383, 4.39981594, 4.39798255},
      smallest{-0.40198536, -0.40115038, -0.39978836, -0.39795145};
  const solvers::LobpcgOptions up{.rtol = 1e-9, .max_iterations = 400};
  const auto high = solvers::lobpcg(a, x0, up);
  CHECK(item<bool>(high.converged));
  CHECK(near(doubles(high.values), largest, 1e-7));
  CHECK(residual(d, high) < 1e-8);
  CHECK(near(doubles(matmul(transpose(high.vectors, 0, 1), high.vectors)), doubles(eye(4, f64)), 1e-12));
  CHECK(item<double>(amax(high.residuals)) < 1e-8);
  const auto low = solvers::lobpcg(a, x0, {.largest = false, .rtol = 1e-9, .max_iterations = 400});
  CHECK(near(doubles(low.values), smallest, 1e-7));
  // A matrix, compiled, in f32, with a preconditioner.
  const Tensor matrix = times(d, eye(100, f64));
  auto compiled =
      jit::compile([=](Tensor m, Tensor x) { return solvers::lobpcg(m, x, up).values; }, {.fullgraph = true});
  CHECK(near(doubles(compiled(matrix, x0)), largest, 1e-7));
  CHECK(
      near(doubles(compiled(matrix * 2, x0)), {2 * largest[0], 2 * largest[1], 2 * largest[2], 2 * largest[3]}, 1e-7));
  const auto single = solvers::lobpcg(matrix.to(DType::f32), x0.to(DType::f32), {.rtol = 1e-4});
  CHECK(single.values.dtype() == DType::f32);
  CHECK(near(doubles(single.values), largest, 1e-3));
  const Tensor wide = 1 + arange(100, f64) * 10;
  auto steep = [=](Tensor x) { return times(wide, x); };
  auto preconditioner = [=](Tensor x) { return x / unsqueeze(wide, 1); };
  const solvers::LobpcgOptions down{.largest = false, .rtol = 1e-8, .max_iterations = 500};
  const auto plain = solvers::lobpcg(steep, x0, down), helped = solvers::lobpcg(steep, x0, preconditioner, down);
  CHECK(item<bool>(helped.converged));
  CHECK(near(doubles(helped.values), doubles(linalg::eigvalsh(times(wide, eye(100, f64)))(slice(0, 4))), 1e-7));
  CHECK(item<std::int64_t>(helped.iterations) < item<std::int64_t>(plain.iterations));
}

TEST_CASE("lobpcg: one pair, the smallest space, a guess that is the answer, too few iterations") {
  const Tensor small = diagonal_of(3), x0 = some({3, 1}, 1);
  const auto found = solvers::lobpcg([=](Tensor x) { return times(small, x); }, x0, {.rtol = 1e-12});
  CHECK(near(doubles(found.values), {item<double>(linalg::eigvalsh(times(small, eye(3, f64)))(2))}, 1e-10));
  const auto again = solvers::lobpcg([=](Tensor x) { return times(small, x); }, found.vectors, {.rtol = 1e-9});
  CHECK(item<std::int64_t>(again.iterations) == 1);
  const Tensor d = diagonal_of(100);
  const auto early =
      solvers::lobpcg([=](Tensor x) { return times(d, x); }, some({100, 2}, 1), {.rtol = 1e-9, .max_iterations = 2});
  CHECK_FALSE(item<bool>(early.converged));
  CHECK(item<std::int64_t>(early.iterations) == 2);
}

TEST_CASE("lobpcg: derivatives of the values; wrong arguments") {
  const Tensor d = diagonal_of(30), x0 = some({30, 2}, 1);
  auto value = [=](Tensor by) {
    return sum(
        solvers::lobpcg([=](Tensor x) { return times(by, x); }, x0, {.rtol = 1e-10, .max_iterations = 400}).values);
  };
  auto dense = [=](Tensor by) { return sum(linalg::eigvalsh(times(by, eye(30, f64)))(slice(28, 30))); };
  CHECK(near(doubles(jit::grad(value)(d)), doubles(jit::grad(dense)(d)), 1e-6));
  CHECK(has(message_of<ShapeError>([&] { solvers::lobpcg(eye(5, f64), some({5, 2}, 1)); }),
            "lobpcg: x0 is (5, 2) [solvers_lobpcg_test.cpp:"));
  CHECK(has(message_of<ShapeError>([&] { solvers::lobpcg([](Tensor x) { return sum(x); }, x0); }),
            "the function gives f64"));
}
