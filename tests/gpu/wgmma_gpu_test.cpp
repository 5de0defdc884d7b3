// Products by `wgmma` on a GPU, against sums in double: f16, bf16 and TF32, in all orders in memory, odd sizes,
// batches, what follows the product, and operands that are not aligned.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available() || cuda::device_info(gpu).capability != 90; }

struct ByWgmma {
  cuda::ProductPolicy outer = cuda::product_policy();
  ByWgmma() { cuda::set_product_policy(cuda::ProductPolicy::wgmma); }
  ~ByWgmma() { cuda::set_product_policy(outer); }
};

Tensor noise(Shape shape, DType dtype) { return randn(shape, {.device = gpu}).to(dtype); }
Tensor in_double(const Tensor& x) { return x.to(Device::cpu()).to(DType::f64); }
Tensor turned_if(const Tensor& x, bool is_turned) { return is_turned ? transpose(x, 1, 2) : x; }

/// Largest deviation, as a part of the scale of each result.
double worst_error(const Tensor& found, const Tensor& exact, const Tensor& scale) {
  const std::vector<double> got = to_vector<double>(in_double(found)), wanted = to_vector<double>(exact),
                            scales = to_vector<double>(scale);
  if (got.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - wanted[i]) / scales[i];
    worst = std::max(worst, std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
  }
  return worst;
}

struct Shapes {
  std::int64_t batch, m, k, n;
};
constexpr MatmulPrecision tf32 = MatmulPrecision::tf32;
}  // namespace

TEST_CASE("wgmma: products of all shapes, either operand transposed or not") {
  if (is_missing()) SINTER_SKIP("no GPU of sm_90");
  const ByWgmma forced;
  // Rows in memory are whole 16 bytes; tiles, clusters and rounds of the ring are not whole.
  constexpr Shapes shapes[] = {{1, 64, 8, 64},        {1, 128, 64, 128},  {1, 136, 72, 200},
                               {1, 1000, 520, 264},   {3, 200, 328, 136}, {2, 256, 4096, 64},
                               {1, 2056, 1032, 1544}, {5, 128, 16, 128},  {1, 4096, 200, 3000}};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const Shapes& s : shapes)
      for (int order = 0; order < 4; ++order) {
        const bool left_turned = (order & 1) != 0, right_turned = (order & 2) != 0;
        if (dtype == DType::f32 && order != 2) continue;  // along the reduced axis alone
        const Tensor x = left_turned ? noise({s.batch, s.k, s.m}, dtype) : noise({s.batch, s.m, s.k}, dtype),
                     w = right_turned ? noise({s.batch, s.n, s.k}, dtype) : noise({s.batch, s.k, s.n}, dtype);
        // Operands of large products are cast in kernels of their own: there 16 bits remain, and the result is rounded.
        const bool is_wide = 2 * s.batch * s.m * s.k * s.n < 400'000'000;
        auto f = jit::compile(
            [=](Tensor a, Tensor b) {
              const Tensor l = turned_if(a, left_turned), r = turned_if(b, right_turned);
              return is_wide ? matmul(l.to(DType::f32), r.to(DType::f32)) : matmul(l, r);
            },
            {.matmul_precision = tf32});
        const double rounding = dtype == DType::bf16 ? 4e-3 : 5e-4;
        const Tensor found = f(x, w), a = turned_if(in_double(x), left_turned),
                     b = turned_if(in_double(w), right_turned);
        const double error = worst_error(found, matmul(a, b), matmul(abs(a), abs(b)));
        INFO(name(dtype) << " " << s.batch << " x " << s.m << "x" << s.k << "x" << s.n << " order " << order << ": "
                         << error);
        CHECK(f.explain(x, w).text().find("product by wgmma") != std::string::npos);
        CHECK(error < (dtype == DType::f32 ? 2e-3 : is_wide ? 2e-6 : rounding));
        CHECK(to_vector<float>(f(x, w)) == to_vector<float>(found));
      }
}

TEST_CASE("wgmma: what follows the product is computed in the same kernel") {
  if (is_missing()) SINTER_SKIP("no GPU of sm_90");
  const ByWgmma forced;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const std::int64_t n : {257, 260, 520, 1028}) {
      const Tensor x = noise({2, 300, 96}, dtype), w = noise({2, n, 96}, dtype), bias = noise({n}, dtype),
                   residual = noise({2, 300, n}, dtype), scale = noise({2, 300, 1}, DType::f32);
      const auto function = [](Tensor a, Tensor c, Tensor d, Tensor e, Tensor s) {
        const Tensor sum = matmul(a, transpose(c, 1, 2)) + d;
        return std::vector<Tensor>{gelu(sum) * s + e, sum.to(DType::f32) > 0};
      };
      auto f = jit::compile(function, {.matmul_precision = tf32});
      const std::vector<Tensor> found = f(x, w, bias, residual, scale);
      const std::vector<Tensor> wanted =
          function(in_double(x), in_double(w), in_double(bias), in_double(residual), in_double(scale));
      const double tolerance = dtype == DType::bf16 ? 3e-2 : dtype == DType::f16 ? 4e-3 : 5e-3;
      const double error = worst_error(found[0], wanted[0], abs(wanted[0]) + 10);
      INFO(name(dtype) << " " << n << ": " << error);
      CHECK(f.explain(x, w, bias, residual, scale).text().find("product by wgmma") != std::string::npos);
      CHECK(error < tolerance);
      CHECK(item<float>(mean((in_double(found[1]) != in_double(wanted[1])).to(DType::f32))) < 0.01f);
    }
}

TEST_CASE("wgmma: results do not depend on where operands lie, and unaligned ones are computed in another way") {
  if (is_missing()) SINTER_SKIP("no GPU of sm_90");
  const ByWgmma forced;
  const std::int64_t m = 512, k = 256, n = 384;
  auto f = jit::compile([](Tensor a, Tensor b) { return gelu(matmul(a, b)); });
  const Tensor x = noise({m, k}, DType::bf16), w = noise({k, n}, DType::bf16);
  const std::vector<float> first = to_vector<float>(f(x, w));
  const Tensor other = copy_of(to_vector<float>(x), {m, k}).to(DType::bf16).to(gpu);
  CHECK(to_vector<float>(f(other, w)) == first);  // the tensor map follows the address
  const Tensor memory = noise({m * k + 8}, DType::bf16);
  for (const std::int64_t shift : {1, 8}) {
    const Tensor moved = reshape(memory(slice(shift, shift + m * k)), {m, k});
    eval(moved);
    const Tensor same = copy_of(to_vector<float>(moved), {m, k}).to(DType::bf16).to(gpu);
    const Tensor exact = gelu(matmul(in_double(moved), in_double(w)));
    CHECK(worst_error(f(moved, w), exact, abs(exact) + 10) < 1e-2);
    if (shift == 8) CHECK(to_vector<float>(f(moved, w)) == to_vector<float>(f(same, w)));
  }
}

TEST_CASE("wgmma: in a graph, and in a loop whose operands move") {
  if (is_missing()) SINTER_SKIP("no GPU of sm_90");
  const ByWgmma forced;
  const Tensor w = noise({256, 256}, DType::bf16) * 0.05f;
  const auto step = [](Tensor x, Tensor by) {
    for (int i = 0; i < 3; ++i) x = gelu(matmul(x, by)) + x;
    return x;
  };
  auto plain = jit::compile(step);
  auto graph = jit::compile(step, {.mode = jit::Mode::reduce_overhead});
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = noise({384, 256}, DType::bf16);
    kept.push_back(graph(x, w));  // held, so that results move
    CHECK(to_vector<float>(kept.back()) == to_vector<float>(plain(x, w)));
  }
}

TEST_CASE("gelu that is rounded to 16 bits at once is right to 0.53 units of their last place, everywhere") {
  if (!cuda::is_available()) SINTER_SKIP("no GPU");
  std::vector<float16> all;
  std::vector<bfloat16> all_brain;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    all.push_back(float16::from_bits(static_cast<std::uint16_t>(bits)));
    all_brain.push_back(bfloat16::from_bits(static_cast<std::uint16_t>(bits)));
  }
  auto f = jit::compile([](Tensor a) { return gelu(a); });
  const auto check = [&](const auto& values, int fraction, int least_exponent) {
    const Tensor x = copy_of(values, {65536}).to(gpu);
    const std::vector<double> found = to_vector<double>(in_double(f(x)));
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double at = static_cast<float>(values[i]);
      if (!std::isfinite(at)) {
        CHECK((std::isnan(at) ? std::isnan(found[i]) : found[i] == std::max(at, 0.0)));
        continue;
      }
      const double exact = at * std::erfc(-at / std::numbers::sqrt2) / 2;
      const int exponent = exact == 0 ? least_exponent : std::max(std::ilogb(exact), least_exponent);
      worst = std::max(worst, std::abs(found[i] - exact) / std::ldexp(1, exponent - fraction));
    }
    return worst;
  };
  CHECK(check(all, 10, -14) < 0.53);
  CHECK(check(all_brain, 7, -126) < 0.51);
}
