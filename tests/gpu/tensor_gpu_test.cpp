// Products by the generated kernel on tensor cores, on a GPU, against sums in double: f64, 3xTF32 and TF32, in all
// orders in memory, tiles of every size, cut axes, batches, what comes before and follows; numbers at the ends of the
// range. Prints the worst errors.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {
bool is_missing() { return !cuda::is_available(); }
const Device gpu = Device::cuda(0);

struct OnTensorCores {
  cuda::ProductPolicy outer = cuda::product_policy();
  OnTensorCores() { cuda::set_product_policy(cuda::ProductPolicy::tensor_cores); }
  ~OnTensorCores() { cuda::set_product_policy(outer); }
};

enum class Kind : std::uint8_t { f64, split, tf32 };
struct KindRow {
  Kind kind;
  const char* name;
  DType dtype;
  MatmulPrecision precision;
  double largest;  // error against the sum of magnitudes
};
constexpr KindRow kinds[] = {
    {Kind::f64, "f64", DType::f64, MatmulPrecision::f32, 1e-15},
    {Kind::split, "3xTF32", DType::f32, MatmulPrecision::tf32x3, 1e-6},
    {Kind::tf32, "TF32", DType::f32, MatmulPrecision::tf32, 1.1e-3},
};

struct Shapes {
  std::int64_t batch, m, k, n;
};
constexpr Shapes all_shapes[] = {{1, 8, 8, 8},      {1, 64, 64, 64},    {1, 65, 63, 67},      {1, 128, 32, 256},
                                 {1, 127, 33, 257}, {1, 300, 515, 260}, {1, 40, 5000, 48},    {1, 33, 4099, 35},
                                 {3, 130, 70, 66},  {5, 64, 17, 129},   {1, 1000, 100, 1500}, {1, 2050, 130, 2052}};

/// Deviation from sums in double, as a part of the sum of magnitudes.
double worst_error(const Tensor& found, const Tensor& x, const Tensor& w) {
  const Device cpu = Device::cpu();
  const Tensor a = x.to(cpu).to(DType::f64), b = w.to(cpu).to(DType::f64);
  const std::vector<double> exact = to_vector<double>(matmul(a, b)),
                            magnitude = to_vector<double>(matmul(abs(a), abs(b))),
                            got = to_vector<double>(found.to(cpu).to(DType::f64));
  double worst = got.size() == exact.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < exact.size() && i < got.size(); ++i) {
    const double error = std::abs(got[i] - exact[i]) / magnitude[i];
    worst = std::max(worst, std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
  }
  return worst;
}
Tensor noise(Shape shape, DType dtype) { return randn(shape, {.dtype = dtype, .device = gpu}); }
}  // namespace

TEST_CASE("tensor cores: products of all shapes, either operand transposed or not") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const OnTensorCores forced;
  for (const KindRow& kind : kinds) {
    double worst = 0;
    for (const Shapes& s : all_shapes)
      for (int order = 0; order < 4; ++order) {
        const bool left_turned = (order & 1) != 0, right_turned = (order & 2) != 0;
        const Tensor x = left_turned ? noise({s.batch, s.k, s.m}, kind.dtype) : noise({s.batch, s.m, s.k}, kind.dtype);
        const Tensor w = right_turned ? noise({s.batch, s.n, s.k}, kind.dtype) : noise({s.batch, s.k, s.n}, kind.dtype);
        auto f = jit::compile(
            [=](Tensor a, Tensor b) {
              return matmul(left_turned ? transpose(a, 1, 2) : a, right_turned ? transpose(b, 1, 2) : b);
            },
            {.matmul_precision = kind.precision});
        const Tensor found = f(x, w);
        const double error =
            worst_error(found, left_turned ? transpose(x, 1, 2) : x, right_turned ? transpose(w, 1, 2) : w);
        INFO(kind.name << " " << s.batch << " x " << s.m << "x" << s.k << "x" << s.n << " order " << order << ": "
                       << error);
        CHECK(error < kind.largest);
        CHECK(f.explain(x, w).text().find("product by tensor_cores") != std::string::npos);
        worst = std::max(worst, error);
      }
    std::printf("%s: worst error %.3g of the sum of magnitudes\n", kind.name, worst);
  }
}

TEST_CASE("tensor cores: errors that all go one way do not add up") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const OnTensorCores forced;
  for (const std::int64_t depth : {64, 1024, 16384}) {
    const Tensor x = rand({256, depth}, {.device = gpu}), w = rand({depth, 256}, {.device = gpu});
    for (const KindRow& kind : kinds) {
      const Tensor a = x.to(kind.dtype), b = w.to(kind.dtype);
      const double error = worst_error(
          jit::compile([](Tensor c, Tensor d) { return matmul(c, d); }, {.matmul_precision = kind.precision})(a, b), a,
          b);
      std::printf("sums of %lld positive products, %s: worst relative error %.3g\n", static_cast<long long>(depth),
                  kind.name, error);
      CHECK(error < (kind.kind == Kind::f64 ? 1e-13 : kind.kind == Kind::split ? 4e-6 : 1.1e-3));
    }
  }
}

TEST_CASE("tensor cores: what comes before and what follows") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const OnTensorCores forced;
  for (const KindRow& kind : kinds)
    for (const std::int64_t n : {132, 135}) {
      const Tensor x = noise({200, 300}, kind.dtype), w = noise({300, n}, kind.dtype), b = noise({n}, kind.dtype),
                   r = noise({200, n}, kind.dtype);
      const auto function = [](Tensor a, Tensor c, Tensor d, Tensor e) {
        return Tensor(tanh((matmul(relu(a), c) + d) * 0.02f) + e);
      };
      const Tensor found = jit::compile(function, {.matmul_precision = kind.precision})(x, w, b, r);
      const Device cpu = Device::cpu();
      const Tensor wanted = function(x.to(cpu).to(DType::f64), w.to(cpu).to(DType::f64), b.to(cpu).to(DType::f64),
                                     r.to(cpu).to(DType::f64));
      const double off = item<double>(amax(abs(found.to(cpu).to(DType::f64) - wanted)));
      INFO(kind.name << " " << n << ": " << off);
      CHECK(off < (kind.kind == Kind::f64 ? 1e-13 : kind.kind == Kind::split ? 1e-5 : 5e-3));
    }
}

/// One special number in row 0 meets each partner; the other rows see the partners alone.
TEST_CASE("tensor cores: infinities, NaN, subnormal and huge numbers") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const OnTensorCores forced;
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN(),
                  most = std::numeric_limits<float>::max();
  const float specials[] = {infinity, -infinity, nan,       most,        -most,     0x1.fffp127f,
                            0.0f,     -0.0f,     0x1p-126f, 0x1.8p-130f, 0x1p-149f, 0x1.234567p-100f};
  const float partners[] = {1,      -1,       1.2345678f, -0.7654321f, 0,    4095, -4097.3f, 16777213,
                            1e-20f, infinity, -infinity,  nan,         most, 0.5f, 1e-30f,   3};
  constexpr std::int64_t rows = 8, depth = 36, columns = 16, meeting = 5;
  for (const KindRow& kind : kinds) {
    auto product = jit::compile([](Tensor a, Tensor b) { return matmul(a, b); }, {.matmul_precision = kind.precision});
    for (const float special : specials) {
      std::vector<double> x(rows * depth), w(depth * columns);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25 + static_cast<double>(i * 7 % 13) / 8;
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i * 5 % 11) / 8 - 0.6875;
      x[meeting] = special;
      for (std::size_t j = 0; j < columns; ++j) w[meeting * columns + j] = partners[j];
      const Tensor a = copy_of(x, {rows, depth}).to(kind.dtype).to(gpu),
                   b = copy_of(w, {depth, columns}).to(kind.dtype).to(gpu);
      const std::vector<double> found = to_vector<double>(product(a, b).to(Device::cpu()).to(DType::f64));
      for (std::size_t at = 0; at < found.size(); ++at) {
        const std::size_t row = at / columns, j = at % columns;
        double sum = 0, magnitude = 0;
        for (std::size_t k = 0; k < depth; ++k)
          sum += x[row * depth + k] * w[k * columns + j],
              magnitude += std::abs(x[row * depth + k] * w[k * columns + j]);
        INFO(kind.name << ": " << special << " with " << partners[j] << ", row " << row << ": " << found[at]
                       << ", should be " << sum);
        const bool meets = kind.kind != Kind::f64;
        if (meets && row == 0 && std::abs(special) > 0 && std::abs(special) < 0x1p-136f && std::isinf(partners[j]))
          continue;  // zero in TF32
        if (meets && kind.kind == Kind::tf32 &&
            ((row == 0 && std::abs(special) > 0.9997f * most && std::isfinite(special)) ||
             (std::abs(partners[j]) > 0.9997f * most && std::isfinite(partners[j]))))
          continue;  // infinite in TF32
        if (std::isnan(sum)) CHECK(std::isnan(found[at]));
        else if (std::isinf(sum)) CHECK(found[at] == sum);
        else if (kind.kind != Kind::f64 && std::abs(sum) > 0.999 * most) CHECK(std::abs(found[at]) >= 0.998 * most);
        else
          CHECK(std::abs(found[at] - sum) <= (kind.kind == Kind::f64     ? 1e-14
                                              : kind.kind == Kind::split ? 2e-6
                                                                         : 2e-3) *
                                                 magnitude);
      }
    }
  }
}
