// Products of f32 matrices under each MatmulPrecision, against a double oracle: that a permission takes effect, and
// that it is no worse than docs/cuda.md says.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available(); }

/// `typical`: root mean square of the error over that of the result. `largest`: of the error over the sum of
/// magnitudes.
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
      errors += off * off;
      squares += exact[i] * exact[i];
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

/// Who computes products, while it lives.
struct Computed {
  explicit Computed(cuda::ProductPolicy policy) { cuda::set_product_policy(policy); }
  ~Computed() { cuda::set_product_policy(before); }
  cuda::ProductPolicy before = cuda::product_policy();
};
struct Way {
  const char* name;
  cuda::ProductPolicy policy;
};
constexpr Way ways[] = {{"as measured", cuda::ProductPolicy::measured},
                        {"tensor cores", cuda::ProductPolicy::tensor_cores},
                        {"library", cuda::ProductPolicy::library}};

struct Row {
  const char* name;
  Shape a, b;
};
const std::vector<Row> rows = {
    {"square", {1024, 1024}, {1024, 1024}},  {"odd sizes", {301, 515}, {515, 259}},
    {"deep", {64, 8192}, {8192, 64}},        {"few rows", {3, 2048}, {2048, 2048}},
    {"batch", {6, 200, 136}, {6, 136, 180}}, {"large", {2048, 2048}, {2048, 2048}},
};

/// Where f32 has no error at all, what rounding the result alone may leave.
constexpr double one_rounding = 3e-8;

std::string text_of(const char* precision, const Deviation& error) {
  char text[96];
  std::snprintf(text, sizeof text, " %s typical %.2e largest %.2e;", precision, error.typical, error.largest);
  return text;
}
}  // namespace

TEST_CASE("precision on the GPU: no product is worse than its precision says") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const Row& row : rows) {
    const Product product(row.a, row.b, 5);
    for (const Way& way : ways) {
      Computed by(way.policy);
      jit::reset();  // what is bound already keeps what it chose
      const Deviation full = product.error_in(MatmulPrecision::f32), split = product.error_in(MatmulPrecision::tf32x3),
                      quick = product.error_in(MatmulPrecision::tf32);
      const std::string text = std::string(row.name) + ", " + way.name + ": " + text_of("f32", full) +
                               text_of("tf32x3", split) + text_of("tf32", quick);
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
}

TEST_CASE("precision on the GPU: tf32 takes effect on large products, compiled and lazy, and full f32 is the default") {
  if (is_missing()) SINTER_SKIP("no GPU");
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
  if (is_missing()) SINTER_SKIP("no GPU");
  DefaultPrecision precision(MatmulPrecision::tf32);
  const Tensor x = randn({512, 512}, {.dtype = DType::f64, .device = gpu});
  const Tensor y = matmul(x, x), rows_of_y = sum(reshape(x, {512, 512, 1}) * reshape(x, {1, 512, 512}), 1);
  CHECK(item<double>(amax(abs(y - rows_of_y))) < 1e-11);
}

TEST_CASE("precision on the GPU: gradients, epilogues and what is fused around a product") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = randn({512, 512}, {.device = gpu}), w = randn({512, 512}, {.device = gpu});
  const auto loss = [x](Tensor v) { return mean(square(gelu(matmul(x, v) * 0.05f) + v)); };
  const auto gradient_in = [&](MatmulPrecision precision) {
    return jit::compile(jit::grad(loss), {.matmul_precision = precision})(w);
  };
  const Tensor full = gradient_in(MatmulPrecision::f32);
  const float size = item<float>(amax(abs(full)));
  for (MatmulPrecision precision : {MatmulPrecision::tf32x3, MatmulPrecision::tf32}) {
    const float off = item<float>(amax(abs(gradient_in(precision) - full))) / size;
    INFO(name(precision) << ": " << off);
    CHECK(off < (precision == MatmulPrecision::tf32 ? 5e-3f : 1e-5f));
  }
}

namespace {
constexpr std::int64_t n = 256;
constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();

/// Rows 0 to 4 are special, the others 1.5.
Tensor special_rows() {
  std::vector<float> a(n * n, 1.5f);
  a[0] = infinity;
  a[n] = -infinity;
  a[2 * n] = NAN;
  a[3 * n] = infinity;
  a[3 * n + 1] = -infinity;
  std::fill(a.begin() + 4 * n, a.begin() + 5 * n, 0.f);
  a[4 * n + 7] = largest;
  return copy_of(a, {n, n}).to(gpu);
}

void check_special(MatmulPrecision precision) {
  auto f = jit::compile([](Tensor x, Tensor y) { return matmul(x, y); }, {.matmul_precision = precision});
  const Tensor left = special_rows();
  const auto times = [&](float number) { return to_vector<float>(f(left, full({n, n}, number, {.device = gpu}))); };
  const std::vector<float> y = times(1), quarter = times(0.25f), none = times(0);
  INFO(y[0] << " " << y[n] << " " << y[2 * n] << " " << y[3 * n] << " " << y[4 * n] << " " << y[5 * n]
            << "; a quarter of the largest: " << quarter[4 * n] << "; infinity times 0: " << none[0]);
  CHECK(y[0] == infinity);
  CHECK(y[n] == -infinity);
  CHECK(std::isnan(y[2 * n]));
  CHECK(std::isnan(y[3 * n]));
  CHECK(y[5 * n] == 1.5f * n);  // rows beside them are not touched
  CHECK(std::isnan(none[0]));
  if (precision == MatmulPrecision::f32) CHECK(y[4 * n] == largest);
  if (precision != MatmulPrecision::tf32) CHECK(std::abs(quarter[4 * n] / (largest / 4) - 1) < 1e-6f);
}
}  // namespace

TEST_CASE("precision on the GPU: infinities, NaN and huge numbers") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const Way& way : ways)
    for (MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::tf32x3, MatmulPrecision::tf32}) {
      Computed by(way.policy);
      jit::reset();
      INFO(name(precision) << ", " << way.name);
      check_special(precision);
    }
}
