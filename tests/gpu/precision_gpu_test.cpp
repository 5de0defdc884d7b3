// Products of f32 matrices under each MatmulPrecision, against a double oracle: that a permission takes effect, and that it is
// no worse than docs/cuda.md says.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available(); }

/// `typical`: root mean square of the error over that of the result. `largest`: of the error over the sum of magnitudes.
struct Deviation {
  double typical = 0, largest = 0;
};

struct Product {
  Tensor a, b;
  std::vector<double> exact, magnitude;

  Product(Shape left, Shape right, int seed) {
    manual_seed(static_cast<std::uint64_t>(seed));
    a = randn(left, {.device = gpu}), b = randn(right, {.device = gpu});
    const Tensor wide_a = a.to(DType::f64), wide_b = b.to(DType::f64);
    exact = to_vector<double>(matmul(wide_a, wide_b));
    magnitude = to_vector<double>(matmul(abs(wide_a), abs(wide_b)));
  }
  Deviation error_of(const std::vector<float>& result) const {
    REQUIRE(result.size() == exact.size());
    double errors = 0, squares = 0;
    Deviation error;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double off = std::abs(result[i] - exact[i]);
      errors += off * off, squares += exact[i] * exact[i];
      error.largest = std::max(error.largest, std::isfinite(off) ? off / magnitude[i] : INFINITY);
    }
    error.typical = std::sqrt(errors / squares);
    return error;
  }
  Deviation error_in(MatmulPrecision precision) const {
    auto f = jit::compile([](Tensor x, Tensor y) { return matmul(x, y); }, {.matmul_precision = precision});
    return error_of(to_vector<float>(f(a, b)));
  }
};

struct DefaultPrecision {
  explicit DefaultPrecision(MatmulPrecision precision) { set_matmul_precision(precision); }
  ~DefaultPrecision() { set_matmul_precision(MatmulPrecision::f32); }
};

struct Row {
  const char* name;
  Shape a, b;
};
const std::vector<Row> rows = {
    {"square", {1024, 1024}, {1024, 1024}}, {"odd sizes", {301, 515}, {515, 259}},  {"deep", {64, 8192}, {8192, 64}},
    {"few rows", {3, 2048}, {2048, 2048}},  {"batch", {6, 200, 136}, {6, 136, 180}}, {"large", {2048, 2048}, {2048, 2048}},
};

/// Where f32 has no error at all, what rounding the result alone may leave.
constexpr double one_rounding = 3e-8;
}  // namespace

TEST_CASE("precision on the GPU: no product is worse than its precision says") {
  if (is_missing()) return;
  for (const Row& row : rows) {
    const Product product(row.a, row.b, 5);
    const Deviation full = product.error_in(MatmulPrecision::f32), split = product.error_in(MatmulPrecision::tf32x3), quick = product.error_in(MatmulPrecision::tf32);
    const std::string text = std::string(row.name) + ": typical and largest error in f32 " + std::to_string(full.typical * 1e9) + "e-9 " + std::to_string(full.largest * 1e9) + "e-9, tf32x3 " +
                             std::to_string(split.typical * 1e9) + "e-9 " + std::to_string(split.largest * 1e9) + "e-9, tf32 " + std::to_string(quick.typical * 1e6) + "e-6 " +
                             std::to_string(quick.largest * 1e6) + "e-6";
    std::cout << text << "\n";
    INFO(text);
    CHECK(full.typical < 1e-5);
    CHECK(full.largest < 1e-6);
    CHECK(split.typical <= 4 * std::max(full.typical, one_rounding));
    CHECK(split.largest <= 4 * std::max(full.largest, one_rounding));
    CHECK(quick.typical < 2e-3);
    CHECK(quick.largest < 2e-3);
  }
}

TEST_CASE("precision on the GPU: tf32 takes effect on large products, compiled and lazy, and full f32 is the default") {
  if (is_missing()) return;
  const Product product({2048, 2048}, {2048, 2048}, 6);
  const double lazy_full = product.error_of(to_vector<float>(matmul(product.a, product.b))).typical;
  const double compiled = product.error_in(MatmulPrecision::tf32).typical;
  CHECK(product.error_in(MatmulPrecision::f32).typical < 1e-5);
  CHECK(lazy_full < 1e-5);
  CHECK(compiled > 2e-5);
  DefaultPrecision precision(MatmulPrecision::tf32);
  CHECK(product.error_of(to_vector<float>(matmul(product.a, product.b))).typical > 2e-5);
  CHECK(product.error_in(MatmulPrecision::f32).typical < 1e-5);
  auto f = jit::compile([](Tensor x, Tensor y) { return matmul(x, y); });
  CHECK(product.error_of(to_vector<float>(f(product.a, product.b))).typical > 2e-5);
  set_matmul_precision(MatmulPrecision::f32);
  CHECK(product.error_of(to_vector<float>(f(product.a, product.b))).typical < 1e-5);
  CHECK(f.stats().compiles == 2);
}

TEST_CASE("precision on the GPU: products of f64 are not concerned") {
  if (is_missing()) return;
  DefaultPrecision precision(MatmulPrecision::tf32);
  const Tensor x = randn({512, 512}, {.dtype = DType::f64, .device = gpu});
  const Tensor y = matmul(x, x), rows_of_y = sum(reshape(x, {512, 512, 1}) * reshape(x, {1, 512, 512}), 1);
  CHECK(item<double>(amax(abs(y - rows_of_y))) < 1e-11);
}

TEST_CASE("precision on the GPU: gradients, epilogues and what is fused around a product") {
  if (is_missing()) return;
  const Tensor x = randn({512, 512}, {.device = gpu}), w = randn({512, 512}, {.device = gpu});
  const auto loss = [x](Tensor v) { return mean(square(gelu(matmul(x, v) * 0.05f) + v)); };
  const auto gradient_in = [&](MatmulPrecision precision) { return jit::compile(jit::grad(loss), {.matmul_precision = precision})(w); };
  const Tensor full = gradient_in(MatmulPrecision::f32);
  const float size = item<float>(amax(abs(full)));
  for (MatmulPrecision precision : {MatmulPrecision::tf32x3, MatmulPrecision::tf32}) {
    const float off = item<float>(amax(abs(gradient_in(precision) - full))) / size;
    INFO(name(precision) << ": " << off);
    CHECK(off < (precision == MatmulPrecision::tf32 ? 5e-3f : 1e-5f));
  }
}

TEST_CASE("precision on the GPU: infinities, NaN and huge numbers") {
  if (is_missing()) return;
  constexpr std::int64_t n = 256;
  constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  for (MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::tf32x3, MatmulPrecision::tf32}) {
    auto f = jit::compile([](Tensor x, Tensor y) { return matmul(x, y); }, {.matmul_precision = precision});
    std::vector<float> a(n * n, 1.5f);
    a[0] = infinity, a[n] = -infinity, a[2 * n] = NAN, a[3 * n] = infinity, a[3 * n + 1] = -infinity;
    for (std::int64_t k = 0; k < n; ++k) a[static_cast<std::size_t>(4 * n + k)] = k == 7 ? largest : 0;
    const Tensor ones_there = full({n, n}, 1, {.device = gpu}), small = full({n, n}, 0.25f, {.device = gpu});
    const Tensor left = copy_of(a, {n, n}).to(gpu);
    const std::vector<float> y = to_vector<float>(f(left, ones_there)), quarter = to_vector<float>(f(left, small));
    INFO(name(precision) << ": " << y[0] << " " << y[n] << " " << y[2 * n] << " " << y[3 * n] << " " << y[4 * n] << " " << y[5 * n] << " " << quarter[4 * n]);
    CHECK(y[0] == infinity);
    CHECK(y[n] == -infinity);
    CHECK(std::isnan(y[2 * n]));
    CHECK(std::isnan(y[3 * n]));
    CHECK(y[5 * n] == 1.5f * n);   // rows beside them are not touched
    if (precision == MatmulPrecision::f32) CHECK(y[4 * n] == largest);
    if (precision != MatmulPrecision::tf32) CHECK(std::abs(quarter[4 * n] / (largest / 4) - 1) < 1e-6f);
    std::vector<float> zeros_there(n * n, 0.f);   // infinity times zero
    CHECK(std::isnan(to_vector<float>(f(left, copy_of(zeros_there, {n, n}).to(gpu)))[0]));
  }
}
