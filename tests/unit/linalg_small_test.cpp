// Batches of small matrices, which are computed side by side in the lanes of vectors: solve, inv, det, cholesky and
// triangular systems of 1 to 8 rows against elimination in long double, whole vectors and parts of them, what is
// singular, derivatives, threads.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/graph/parse.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

Tensor some(const Shape& shape, int seed, DType dtype) {
  const Tensor k = arange(shape.numel(), {.dtype = DType::f64});
  return sin(k * k * 0.37 + k + static_cast<double>(seed)).reshape(shape).to(dtype);
}
/// x with a x = b, of one matrix; also its determinant.
struct Solved {
  std::vector<long double> x;
  long double determinant = 1;
};
Solved solved(std::vector<double> given, const std::vector<double>& b, std::size_t n, std::size_t columns) {
  std::vector<long double> a(given.begin(), given.end());
  Solved out{{b.begin(), b.end()}, 1};
  for (std::size_t j = 0; j < n; ++j) {
    std::size_t pivot = j;
    for (std::size_t i = j + 1; i < n; ++i)
      if (std::abs(a[i * n + j]) > std::abs(a[pivot * n + j])) pivot = i;
    if (pivot != j) out.determinant = -out.determinant;
    for (std::size_t c = 0; c < n; ++c) std::swap(a[j * n + c], a[pivot * n + c]);
    for (std::size_t c = 0; c < columns; ++c) std::swap(out.x[j * columns + c], out.x[pivot * columns + c]);
    out.determinant *= a[j * n + j];
    for (std::size_t i = 0; i < n; ++i) {
      if (i == j) continue;
      const long double factor = a[i * n + j] / a[j * n + j];
      for (std::size_t c = 0; c < n; ++c) a[i * n + c] -= factor * a[j * n + c];
      for (std::size_t c = 0; c < columns; ++c) out.x[i * columns + c] -= factor * out.x[j * columns + c];
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < columns; ++c) out.x[i * columns + c] /= a[i * n + i];
  return out;
}
std::vector<double> part(const std::vector<double>& all, std::int64_t number, std::int64_t size) {
  return {all.begin() + number * size, all.begin() + (number + 1) * size};
}
bool close(const std::vector<double>& a, const std::vector<long double>& b, double tolerance) {
  return near_relative(a, {b.begin(), b.end()}, tolerance);
}

}  // namespace

TEST_CASE("small systems: solve, inv, det of 1 to 8 rows, in vectors and parts of vectors") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n = 1; n <= 8; ++n)
      for (std::int64_t count : {1, 7, 16, 35}) {
        CAPTURE(n, count, name(dtype));
        const std::int64_t columns = n % 3 + 1;
        const Tensor a = some({count, n, n}, 1, dtype) + eye(n, {.dtype = dtype}) * 0.5,
                     b = some({count, n, columns}, 2, dtype);
        const std::vector<double> as = doubles(a), bs = doubles(b), x = doubles(linalg::solve(a, b)),
                                  inverse = doubles(linalg::inv(a)), det = doubles(linalg::det(a)),
                                  turned =
                                      doubles(jit::vjp([&](Tensor y) { return linalg::solve(a, y); }, b).second(b));
        const std::vector<double> one = doubles(eye(n, {.dtype = DType::f64}));
        for (std::int64_t i = 0; i < count; ++i) {
          const std::vector<double> matrix = part(as, i, n * n), right = part(bs, i, n * columns);
          const std::size_t rows = static_cast<std::size_t>(n), width = static_cast<std::size_t>(columns);
          const Solved of_b = solved(matrix, right, rows, width), of_one = solved(matrix, one, rows, rows);
          double size = 0, inverse_size = 0;
          for (double each : matrix) size = std::max(size, std::abs(each));
          for (long double each : of_one.x) inverse_size = std::max(inverse_size, static_cast<double>(std::abs(each)));
          const double epsilon = dtype == DType::f32 ? 6e-8 : 1.2e-16,
                       tolerance =
                           4 * static_cast<double>(n) * epsilon * (1 + static_cast<double>(n) * size * inverse_size);
          CHECK(close(part(x, i, n * columns), of_b.x, tolerance));
          CHECK(close(part(inverse, i, n * n), of_one.x, tolerance));
          CHECK(close({det[static_cast<std::size_t>(i)]}, {of_one.determinant}, tolerance));
          std::vector<double> transposed = matrix;
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < rows; ++c) transposed[r * rows + c] = matrix[c * rows + r];
          CHECK(close(part(turned, i, n * columns), solved(transposed, right, rows, width).x, tolerance));
        }
      }
}

TEST_CASE("small systems: cholesky, its solve, and triangles of every kind") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 2, 3, 5, 8}) {
      const double tolerance = dtype == DType::f32 ? 2e-5 : 1e-13;
      const Tensor half = some({20, n, n}, 3, dtype);
      const Tensor a = matmul(half, transpose(half, 1, 2)) + eye(n, {.dtype = dtype});
      const Tensor l = linalg::cholesky(a);
      CHECK(near_relative(doubles(matmul(l, transpose(l, 1, 2))), doubles(a), tolerance));
      CHECK(doubles(triu(l, 1)) == std::vector<double>(static_cast<std::size_t>(20 * n * n), 0));
      const Tensor b = some({20, n, 2}, 4, dtype);
      CHECK(near_relative(doubles(matmul(a, linalg::cholesky_solve(b, l))), doubles(b), tolerance * 10));
      for (bool upper : {false, true})
        for (bool unit : {false, true}) {
          const Tensor given = some({20, n, n}, 5, dtype) + 2 * eye(n, {.dtype = dtype});
          Tensor triangle = upper ? triu(given) : tril(given);
          if (unit) triangle = (upper ? triu(given, 1) : tril(given, -1)) + eye(n, {.dtype = dtype});
          const Tensor x = linalg::solve_triangular(given, b, {.upper = upper, .unitriangular = unit});
          CHECK(near_relative(doubles(matmul(triangle, x)), doubles(b), tolerance * 100));
        }
    }
}

TEST_CASE("small systems: texts of graphs with more than lanes hold, and with steps that do not fit, are refused") {
  const auto fault_in = [](const std::string& types, const std::string& node) {
    return message_of<UserError>([&] { parse_graph("graph(" + types + ") { return " + node + " }"); });
  };
  CHECK(has(fault_in("%a: f32[9, 9], %b: f32[9, 1]", "small_solve(%a, %b)"), "1 to 8 rows are required"));
  CHECK(has(fault_in("%a: f32[9, 9]", "small_solve(%a) {made=determinant}"), "1 to 8 rows are required"));
  CHECK(has(fault_in("%a: f32[0, 0]", "small_solve(%a) {made=inverse}"), "1 to 8 rows are required"));
  CHECK(has(fault_in("%a: f64[8, 8], %b: f64[8, 17]", "small_solve(%a, %b)"), "1 to 16 columns are required"));
  for (const char* op : {"complex_lu(%a) {steps=3}", "complex_qr(%a) {steps=4}", "complex_qr(%a) {steps=1}",
                         "complex_svd(%a) {steps=3}"})
    CHECK(has(fault_in("%a: f32[3, 2, 2]", op), "steps are the lesser extent"));
}

TEST_CASE("small systems: what has no result is named; NaN stays in its matrix") {
  Tensor a = some({4, 10, 3, 3}, 1, DType::f64) + eye(3, {.dtype = DType::f64});
  a.at(2, 7) = ones({3, 3}, {.dtype = DType::f64});
  a.at(3, 1) = zeros({3, 3}, {.dtype = DType::f64});
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::solve(a, ones({3}, {.dtype = DType::f64}))); }),
            "solve: matrix (2, 7) of (4, 10) is singular: pivot 2 is 0 [linalg_small_test.cpp:"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::inv(a)); }), "inv: matrix (2, 7) of (4, 10) is singular"));
  CHECK(doubles(linalg::det(a))[27] == 0);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::cholesky(a - 9 * eye(3, {.dtype = DType::f64}))); }),
            "cholesky: matrix (0, 0) of (4, 10) is not positive definite: its leading minor of order 1"));
  Tensor some_nan = some({20, 2, 2}, 1, DType::f32) + eye(2);
  const std::vector<double> before = doubles(linalg::inv(some_nan));
  some_nan.at(3, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> after = doubles(linalg::inv(some_nan));
  for (std::size_t i = 0; i < after.size(); ++i) CHECK((i / 4 == 3 ? std::isnan(after[i]) : after[i] == before[i]));
}

TEST_CASE("small systems: compiled, mapped, differentiated twice, on any number of threads; empty batches") {
  const Tensor a = some({12, 3, 3}, 1, DType::f64) + 2 * eye(3, {.dtype = DType::f64}),
               b = some({12, 3}, 2, DType::f64);
  const std::vector<double> want = doubles(linalg::solve(a, b));
  auto solve = [](Tensor m, Tensor r) { return linalg::solve(m, r); };
  CHECK(doubles(jit::compile(solve)(a, b)) == want);
  CHECK(near(doubles(jit::vmap(solve)(a, b)), want, 1e-13));
  CHECK(near(doubles(jit::vmap([&](Tensor r) { return linalg::solve(a(0), r); })(b)),
             doubles(transpose(linalg::solve(a(0), transpose(b, 0, 1)), 0, 1)), 1e-13));
  // det(a) tr(a^-1 da) and its derivative, by differences.
  auto f = [](Tensor m) { return sum(linalg::det(m) * sum(sum(square(linalg::inv(m)), -1), -1)); };
  auto g = jit::compile(jit::grad(f));
  const Tensor direction = some({12, 3, 3}, 7, DType::f64);
  const double h = 1e-5;
  const double slope = (item<double>(f(a + h * direction)) - item<double>(f(a - h * direction))) / (2 * h);
  CHECK(std::abs(item<double>(sum(g(a) * direction)) - slope) < 1e-6 * (1 + std::abs(slope)));
  const Tensor second = jit::grad([&](Tensor m) { return sum(jit::grad(f)(m) * direction); })(a);
  const Tensor change = (g(a + h * direction) - g(a - h * direction)) / (2 * h);
  CHECK(near_relative(doubles(second), doubles(change), 1e-5));

  const Tensor many = some({5000, 4, 4}, 3, DType::f32) + eye(4);
  const int before = thread_count();
  set_thread_count(1);
  const std::vector<float> one = floats(linalg::inv(many));
  set_thread_count(4);
  CHECK(floats(linalg::inv(many)) == one);
  set_thread_count(before);
  CHECK(linalg::solve(zeros({0, 3, 3}), zeros({0, 3, 2})).shape() == Shape{0, 3, 2});
}

TEST_CASE("small systems: the pivot is the largest of all rows below, after those that were exchanged") {
  // What is left of the first column when a pivot of 2e-6 is taken has no digits of f32.
  for (std::int64_t n = 3; n <= 8; ++n) {
    CAPTURE(n);
    Tensor a = some({40, n, n}, 3, DType::f32);
    const Tensor row = arange(n, {.dtype = DType::f32});
    const Tensor first = where(row == 1, ones({n}), 1e-6f * (row + 1));
    a = concat({unsqueeze(expand(first, {40, n}), -1), a(all, all, slice(1, n))}, -1);
    const Tensor b = some({40, n}, 5, DType::f32), wide = a.to(DType::f64);
    const Tensor x = linalg::solve(a, b).to(DType::f64);
    const Tensor rest = abs(squeeze(matmul(wide, unsqueeze(x, -1)), -1) - b.to(DType::f64));
    const Tensor size = amax(sum(abs(wide), -1), -1) * amax(abs(x), -1) + 1;
    CHECK(item<double>(amax(amax(rest, -1) / size)) < 1e-6);
  }
}

TEST_CASE("small systems: lazy ones of other extents keep the code for their number of rows") {
  jit::clear_lazy_cache();
  std::int64_t general = 0;  // plans for many extents that the systems have got
  const auto check = [&general](std::int64_t count, std::int64_t n, std::int64_t columns) {
    const Tensor a = some({count, n, n}, 3, DType::f64) + eye(n, {.dtype = DType::f64}) * 3.0;
    const Tensor b = some({count, n, columns}, 5, DType::f64);
    const std::vector<double> given = to_vector<double>(a), right = to_vector<double>(b);
    const std::int64_t before = jit::lazy_stats().dynamic;
    const std::vector<double> x = to_vector<double>(linalg::solve(a, b)), d = to_vector<double>(linalg::det(a));
    general += jit::lazy_stats().dynamic - before;
    for (std::int64_t i = 0; i < count; ++i) {
      const Solved want = solved(part(given, i, n * n), part(right, i, n * columns), static_cast<std::size_t>(n),
                                 static_cast<std::size_t>(columns));
      CHECK(close(part(x, i, n * columns), want.x, 1e-12));
      CHECK(close(part(d, i, 1), {want.determinant}, 1e-12));
    }
  };
  for (const std::int64_t n : {3, 5, 8}) check(6, n, 2);
  CHECK(general == 0);  // of any number of rows: another algorithm, which takes several times as long
  for (const std::int64_t count : {7, 20, 33}) check(count, 8, 2);
  CHECK(general > 0);  // of any number of matrices
  general = 0;
  for (const std::int64_t n : {12, 17}) check(6, n, 2);
  CHECK(general > 0);
}
