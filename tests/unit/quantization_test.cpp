// Quantised numbers: rounding, scales, gradients of fake_quantize against PyTorch; products with weights of 8 and 4
// bits against the dequantised weight in double, on all back ends, lazily, compiled, mapped and differentiated.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;

namespace {

Tensor some(const Shape& shape, int seed, DType dtype = DType::f32) {
  const Tensor k = arange(shape.numel(), {.dtype = DType::f64});
  return sin(k * k * 0.37 + k + static_cast<double>(seed)).reshape(shape).to(dtype);
}
std::vector<std::int64_t> integers(const Tensor& x) { return to_vector<std::int64_t>(x.to(DType::i64)); }
using Integers = std::vector<std::int64_t>;

/// The weight in double, from the parts as they are documented.
std::vector<double> weight_of(const QuantizedWeight& w) {
  const auto n = static_cast<std::int64_t>(w.values.size(0)), groups = static_cast<std::int64_t>(w.scales.size(1));
  const Integers values = integers(w.values), zero_points = integers(w.zero_points);
  const std::vector<double> scales = doubles(w.scales);
  std::vector<double> out(static_cast<std::size_t>(w.k * n));
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < w.k; ++i) {
      const std::int64_t at = j * groups * w.group + i, group = j * groups + i / w.group;
      std::int64_t q = values[static_cast<std::size_t>(w.bits == 4 ? at / 2 : at)];
      if (w.bits == 4) q = q >> 4 * (at % 2) & 15;
      const std::int64_t zero = !zero_points.empty() ? zero_points[static_cast<std::size_t>(group)]
                                : w.bits == 4        ? 8
                                                     : 0;
      out[static_cast<std::size_t>(i * n + j)] =
          static_cast<double>(q - zero) * scales[static_cast<std::size_t>(group)];
    }
  return out;
}
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m, std::int64_t k,
                            std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        out[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
  return out;
}

}  // namespace

TEST_CASE("quantize, dequantize: numbers of PyTorch, axes, groups, limits") {
  const Tensor x = tensor({-1.F, -0.37F, -0.06F, 0.F, 0.11F, 0.249F, 0.5F, 3.F});
  CHECK(integers(quantize(x, 0.1F, 1)) == Integers{-9, -3, 0, 1, 2, 3, 6, 31});
  CHECK(integers(quantize(x, 0.1F, 1, {.bits = 4})) == Integers{-8, -3, 0, 1, 2, 3, 6, 7});
  CHECK(integers(quantize(x, 0.1F, 1, {.dtype = DType::u8})) == Integers{0, 0, 0, 1, 2, 3, 6, 31});
  CHECK(quantize(x, 0.1F, 1).dtype() == DType::i8);
  const Tensor rows = tensor({{-1.F, 0.3F, 2.F}, {0.5F, -0.26F, 0.74F}});
  const Tensor scale = tensor({0.1F, 0.02F}), zero = tensor({0, -3});
  const Tensor q = quantize(rows, scale, zero, {.axis = 0});
  CHECK(integers(q) == Integers{-10, 3, 20, 22, -16, 34});
  CHECK(near(doubles(dequantize(q, scale, zero, {.axis = 0})), {-1, 0.3, 2, 0.5, -0.26, 0.74}, 1e-6));
  // Strided, and along the last axis.
  CHECK(integers(quantize(transpose(rows, 0, 1), scale, zero, {.axis = -1})) == Integers{-10, 22, 3, -16, 20, 34});
  // Groups: their scales stand in a tensor of the shape of x.
  const Tensor wide = tensor({{1.F, 2.F, 30.F, 40.F}});
  const Tensor grouped = quantize(wide, tensor({{1.F, 10.F}}), 0, {.axis = 1, .group = 2});
  CHECK(integers(grouped) == Integers{1, 2, 3, 4});
  CHECK(doubles(dequantize(grouped, tensor({{1.F, 10.F}}), 0, {.axis = 1, .group = 2})) ==
        std::vector<double>{1, 2, 30, 40});
  CHECK(quantize(zeros({0, 3}), 0.1F, 0).shape() == Shape{0, 3});
  CHECK(dequantize(quantize(x.to(DType::f16), Tensor(scale.to(DType::f16))(0), 0), Tensor(scale.to(DType::f16))(0), 0)
            .dtype() == DType::f16);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(integers(quantize(tensor({infinity, -infinity, 12.5, 11.5}), 1.0, 0)) == Integers{127, -128, 12, 12});
  auto compiled = jit::compile([](Tensor v, Tensor s) { return dequantize(quantize(v, s, 1), s, 1); });
  CHECK(near(doubles(compiled(x, full({}, 0.1F))), {-1, -0.4, -0.1, 0, 0.1, 0.2, 0.5, 3}, 1e-6));
}

TEST_CASE("choose_quantization: ranges of PyTorch's observers, axes, groups, quantiles, nothing but zeros") {
  const Tensor x = tensor({{-1.F, 0.3F, 2.F}, {0.5F, -0.26F, 0.74F}});
  const auto symmetric = choose_quantization(x);
  CHECK(near(doubles(symmetric.scale), {2.0 / 127}, 1e-6));
  CHECK(integers(symmetric.zero_point) == Integers{0});
  const auto affine = choose_quantization(x, {.dtype = DType::u8, .scheme = QuantizationScheme::affine});
  CHECK(near(doubles(affine.scale), {3.0 / 255}, 1e-6));
  CHECK(integers(affine.zero_point) == Integers{85});
  const auto rows = choose_quantization(x, {.axis = 0});
  CHECK(near(doubles(rows.scale), {2.0 / 127, 0.74 / 127}, 1e-6));
  const auto groups = choose_quantization(tensor({{1.F, -2.F, 30.F, 0.F}}), {.axis = 1, .group = 2, .bits = 4});
  CHECK(near(doubles(groups.scale), {2.0 / 7, 30.0 / 7}, 1e-6));
  CHECK(groups.scale.shape() == Shape{1, 2});
  const auto zero = choose_quantization(zeros({4}));
  CHECK(doubles(zero.scale) == std::vector<double>{1});
  const Tensor outlier = concat({linspace(-1.F, 1.F, 101), tensor({100.F})}, 0);
  CHECK(item<float>(choose_quantization(outlier, {.quantile = 0.99}).scale) < 0.011F);
  CHECK(item<float>(choose_quantization(outlier).scale) > 0.7F);
}

TEST_CASE("choose_quantization: NaN stays, and f16 has a range of f32") {
  const float nan = std::nanf("");
  for (const auto scheme : {QuantizationScheme::symmetric, QuantizationScheme::affine})
    CHECK(std::isnan(item<float>(choose_quantization(tensor({0.01F, nan, 0.02F}), {.scheme = scheme}).scale)));
  const Tensor wide = tensor({-60000.F, 0.5F, 60000.F}).to(DType::f16);
  const auto affine = choose_quantization(wide, {.dtype = DType::u8, .scheme = QuantizationScheme::affine});
  CHECK(affine.scale.dtype() == DType::f16);
  CHECK(near(doubles(affine.scale.to(DType::f32)), {120000.0 / 255}, 0.3));
  CHECK(integers(affine.zero_point) == Integers{128});
  const auto fine = choose_quantization(tensor({-1.F, 0.5F, 2.F}).to(DType::f16),
                                        {.dtype = DType::u16, .scheme = QuantizationScheme::affine});
  CHECK(std::abs(integers(fine.zero_point)[0] - 21845) < 30);  // of the scale rounded to f16
}

TEST_CASE("fake_quantize: values and gradients of torch._fake_quantize_learnable_per_tensor_affine") {
  const Tensor x = tensor({-1.F, -0.37F, -0.06F, 0.F, 0.11F, 0.249F, 0.5F, 3.F});
  const FakeQuantizeOptions four{.quant_min = -8, .quant_max = 7};
  auto loss = [=](Tensor v, Tensor s, Tensor z) {
    return sum(fake_quantize(v, s, z, four) * arange(1, 9, 1, {.dtype = DType::f32}));
  };
  CHECK(near(doubles(fake_quantize(x, 0.1F, 1, four)), {-0.9, -0.4, -0.1, 0, 0.1, 0.2, 0.5, 0.6}, 1e-6));
  for (bool is_compiled : {false, true}) {
    auto gradients = jit::grad<0, 1, 2>(loss);
    auto [gx, gs, gz] = is_compiled ? jit::compile(gradients)(x, full({}, 0.1F), full({}, 1.F))
                                    : gradients(x, full({}, 0.1F), full({}, 1.F));
    CHECK(doubles(gx) == std::vector<double>{0, 2, 3, 4, 5, 6, 7, 0});
    CHECK(near(doubles(gs), {33.76}, 1e-5));
    CHECK(near(doubles(gz), {-0.9}, 1e-5));
  }
  const Tensor rows = tensor({{-1.F, 0.3F}, {0.5F, -0.26F}});
  auto by_row = jit::grad<1>([=](Tensor v, Tensor s) { return sum(fake_quantize(v, s, 0, {.axis = 0})); });
  CHECK(by_row(rows, tensor({0.1F, 0.02F})).shape() == Shape{2});
  auto mapped = jit::vmap([](Tensor v) { return fake_quantize(v, 0.1F, 0); });
  CHECK(near(doubles(mapped(rows)), {-1, 0.3, 0.5, -0.3}, 1e-6));
}

TEST_CASE("pack_int4, unpack_int4: the first in the low half") {
  const Tensor q = tensor({{-8, 7, -1, 0}, {1, 2, 3, 4}}).to(DType::i8);
  CHECK(integers(pack_int4(q)) == Integers{0x78, 0x0F, 0x21, 0x43});
  CHECK(integers(unpack_int4(pack_int4(q), DType::i8)) == integers(q));
  CHECK(integers(unpack_int4(pack_int4(q))) == Integers{8, 7, 15, 0, 1, 2, 3, 4});
  CHECK(pack_int4(zeros({2, 0}, {.dtype = DType::i8})).shape() == Shape{2, 0});
}

TEST_CASE("quantize_weight, dequantize: within half a step, the last group shorter, transposed, affine") {
  for (int bits : {4, 8})
    for (std::int64_t group : {0, 32, 24})
      for (const auto scheme : {QuantizationScheme::symmetric, QuantizationScheme::affine}) {
        const Tensor w = some({100, 6}, bits);
        const QuantizedWeight q = quantize_weight(w, {.bits = bits, .group = group, .scheme = scheme});
        const Tensor back = dequantize(q);
        CAPTURE(bits, group);
        CHECK(back.shape() == w.shape());
        CHECK(near(doubles(back), weight_of(q), 1e-6));
        const double step = item<float>(amax(q.scales));
        CHECK(item<float>(amax(abs(back - w))) <= step * 0.501);
        const QuantizedWeight t =
            quantize_weight(transpose(w, 0, 1), {.bits = bits, .group = group, .scheme = scheme, .transposed = true});
        CHECK(integers(t.values) == integers(q.values));
      }
  const QuantizedWeight same = quantized_weight(tensor({{1, 2, 3, 4}}).to(DType::i8), tensor({{0.5F, 2.F}}));
  CHECK(doubles(dequantize(same)) == std::vector<double>{0.5, 1, 6, 8});
  const QuantizedWeight four =
      quantized_weight(tensor({{1, 2, 15, 0}}).to(DType::u8), tensor({{0.5F, 2.F}}), tensor({{1, 2}}), 4);
  CHECK(doubles(dequantize(four)) == std::vector<double>{0, 0.5, 26, -4});
}

TEST_CASE("quantized_matmul: the product with the weight in double, by shape, bits, group, scheme and scales") {
  struct Row {
    std::int64_t m, k, n;
    int bits;
    std::int64_t group;
    QuantizationScheme scheme;
    DType scales;
  };
  constexpr auto symmetric = QuantizationScheme::symmetric, affine = QuantizationScheme::affine;
  for (const Row& row : {Row{1, 256, 33, 4, 64, symmetric, DType::f32}, Row{1, 100, 5, 4, 32, affine, DType::f16},
                         Row{3, 77, 18, 8, 32, symmetric, DType::bf16}, Row{5, 128, 40, 8, 0, affine, DType::f32},
                         Row{8, 96, 17, 4, 32, affine, DType::f32}, Row{9, 70, 19, 4, 64, affine, DType::f16},
                         Row{33, 600, 70, 8, 64, symmetric, DType::f32}, Row{4, 60, 7, 4, 12, affine, DType::f32},
                         Row{2, 1, 3, 8, 0, symmetric, DType::f32}}) {
    CAPTURE(row.m, row.k, row.n, row.bits, row.group);
    const Tensor x = some({row.m, row.k}, 3), w = some({row.k, row.n}, 4);
    const QuantizedWeight q =
        quantize_weight(w, {.bits = row.bits, .group = row.group, .scheme = row.scheme, .scale_dtype = row.scales});
    const std::vector<double> want = product(doubles(x), weight_of(q), row.m, row.k, row.n);
    CHECK(near_relative(doubles(quantized_matmul(x, q)), want, 1e-6));
    for (const char* backend : {"x86", "reference"}) {
      auto f = jit::compile([](Tensor v, QuantizedWeight weight) { return quantized_matmul(v, weight); },
                            {.backend = backend});
      CHECK(near_relative(doubles(f(x, q)), want, 1e-6));
    }
    auto captured = jit::compile([q](Tensor v) { return Tensor(relu(quantized_matmul(v, q) + 1)); });
    std::vector<double> more = want;
    for (double& each : more) each = std::max(each + 1, 0.0);
    CHECK(near_relative(doubles(captured(x)), more, 1e-6));
    // Rounded rows: as far from it as the rounding.
    const QuantizedMatmulOptions dynamic{.activations = Activations::dynamic_i8};
    const std::vector<double> rounded = doubles(quantized_matmul(x, q, dynamic));
    CHECK(near_relative(rounded, want, 0.05));
    auto plain = jit::compile([=](Tensor v) { return quantized_matmul(v, q, dynamic); }, {.backend = "reference"});
    CHECK(near_relative(doubles(plain(x)), rounded, 1e-5));
  }
}

TEST_CASE("quantized_matmul: dtypes of x, batches, strides, no rows, threads") {
  const Tensor w = some({64, 40}, 5);
  const QuantizedWeight q = quantize_weight(w, {.bits = 4, .group = 32});
  const std::vector<double> weight = weight_of(q);
  const Tensor x = some({2, 3, 64}, 6);
  const std::vector<double> want = product(doubles(x), weight, 6, 64, 40);
  CHECK(quantized_matmul(x, q).shape() == Shape{2, 3, 40});
  CHECK(near_relative(doubles(quantized_matmul(x, q)), want, 1e-6));
  CHECK(near_relative(doubles(quantized_matmul(x.to(DType::f64), q)),
                      product(doubles(x.to(DType::f64)), weight, 6, 64, 40), 1e-12));
  CHECK(quantized_matmul(x.to(DType::bf16), q).dtype() == DType::bf16);
  CHECK(near_relative(doubles(quantized_matmul(x.to(DType::f16), q)), want, 2e-3));
  CHECK(quantized_matmul(x(0, 0), q).shape() == Shape{40});
  CHECK(quantized_matmul(zeros({0, 64}), q).shape() == Shape{0, 40});
  CHECK(
      near_relative(doubles(quantized_matmul(transpose(transpose(x, 1, 2).reshape({2, 64, 3}), 1, 2), q)), want, 1e-6));
  auto mapped = jit::vmap([=](Tensor v) { return quantized_matmul(v, q); });
  CHECK(near_relative(doubles(mapped(x)), want, 1e-6));

  auto dynamic = jit::compile([q](Tensor v) { return quantized_matmul(v, q); }, {.dynamic = jit::Dynamic::always});
  for (std::int64_t m : {1, 8, 9, 3, 17}) {
    const Tensor rows = some({m, 64}, 7);
    CHECK(near_relative(doubles(dynamic(rows)), product(doubles(rows), weight, m, 64, 40), 1e-6));
  }

  const int before = thread_count();
  const QuantizedWeight large = quantize_weight(some({512, 777}, 1), {.bits = 4, .group = 64});
  for (std::int64_t m : {1, 7, 40}) {
    const Tensor rows = some({m, 512}, 2);
    set_thread_count(1);
    const std::vector<float> one = floats(quantized_matmul(rows, large));
    const std::vector<float> one_dynamic =
        floats(quantized_matmul(rows, large, {.activations = Activations::dynamic_i8}));
    set_thread_count(4);
    CHECK(floats(quantized_matmul(rows, large)) == one);
    CHECK(floats(quantized_matmul(rows, large, {.activations = Activations::dynamic_i8})) == one_dynamic);
  }
  set_thread_count(before);
}

TEST_CASE("quantized_matmul, rows rounded to i8: many rows have the bits of one") {
  struct Row {
    std::int64_t m, k, n;
    int bits;
    std::int64_t group;
    QuantizationScheme scheme;
  };
  using enum QuantizationScheme;
  const QuantizedMatmulOptions dynamic{.activations = Activations::dynamic_i8};
  for (const Row& row :
       {Row{12, 128, 33, 8, 64, symmetric}, Row{33, 200, 70, 4, 128, affine}, Row{70, 64, 1, 8, 64, affine},
        Row{300, 192, 40, 4, 64, symmetric}, Row{64, 320, 32, 8, 0, symmetric}, Row{40, 100, 17, 8, 0, affine}}) {
    CAPTURE(row.m, row.k, row.n, row.bits, row.group);
    Tensor x = some({row.m, row.k}, 3);
    x.at(row.m - 1, 0) = std::numeric_limits<float>::infinity();  // NaN in this row alone
    const QuantizedWeight q =
        quantize_weight(some({row.k, row.n}, 4), {.bits = row.bits, .group = row.group, .scheme = row.scheme});
    std::vector<float> one_by_one;
    for (std::int64_t i = 0; i < row.m; ++i)
      for (const float each : floats(quantized_matmul(x(slice(i, i + 1)), q, dynamic))) one_by_one.push_back(each);
    auto captured = jit::compile([=](Tensor v) { return quantized_matmul(v, q, dynamic); });
    auto given = jit::compile([=](Tensor v, QuantizedWeight w) { return quantized_matmul(v, w, dynamic); });
    for (const std::vector<float>& found : {floats(captured(x)), floats(captured(x)), floats(given(x, q))}) {
      REQUIRE(found.size() == one_by_one.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        wrong += found[i] != one_by_one[i] && !(std::isnan(found[i]) && std::isnan(one_by_one[i]));
      CHECK(wrong == 0);
      CHECK(std::isnan(found.back()));
      CHECK(std::isfinite(found.front()));
    }
  }
}

TEST_CASE("quantized_matmul: gradients by x and by the scales; a weight per example under vmap") {
  const QuantizedWeight q =
      quantize_weight(some({64, 6}, 5), {.bits = 8, .group = 32, .scheme = QuantizationScheme::affine});
  const Tensor x = some({3, 64}, 6), weight = dequantize(q);
  const Tensor by_x = jit::grad([=](Tensor v) { return sum(square(quantized_matmul(v, q))); })(x);
  const Tensor want = jit::grad([=](Tensor v) { return sum(square(matmul(v, weight))); })(x);
  CHECK(near_relative(doubles(by_x), doubles(want), 1e-5));
  auto with_scales = [=](Tensor scales) {
    QuantizedWeight other = q;
    other.scales = scales;
    return other;
  };
  const Tensor by_scales =
      jit::compile(jit::grad([=](Tensor s) { return sum(square(quantized_matmul(x, with_scales(s)))); }))(q.scales);
  const Tensor scales_want =
      jit::grad([=](Tensor s) { return sum(square(matmul(x, dequantize(with_scales(s))))); })(q.scales);
  CHECK(near_relative(doubles(by_scales), doubles(scales_want), 1e-5));
  const Tensor two = stack({q.scales, q.scales * 2}, 0);
  const Tensor both = jit::vmap([=](Tensor s) { return quantized_matmul(x, with_scales(s)); })(two);
  CHECK(near_relative(doubles(both(1)), doubles(quantized_matmul(x, q) * 2), 1e-5));
}

TEST_CASE("quantized_matmul, rows rounded to i8: long groups, NaN, infinity, no rows of the weight") {
  constexpr std::int64_t k = 140000;  // 140000 * 127 * 127 is beyond 2^31
  const QuantizedWeight ones_q = quantize_weight(ones({k, 1}));
  const Activations dynamic = Activations::dynamic_i8;
  CHECK(near_relative(doubles(quantized_matmul(ones({1, k}), ones_q, {.activations = dynamic})), {140000.0}, 1e-4));
  for (const std::int64_t group : {16, 32})
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      const QuantizedWeight q = quantize_weight(some({64, 3}, 4), {.group = group});
      const Tensor row = where(arange(64) == 3, full({}, bad), some({64}, 5)).reshape({1, 64});
      for (const float value :
           floats(quantized_matmul(concat({row, some({1, 64}, 6)}, 0), q, {.activations = dynamic})(0)))
        CHECK(std::isnan(value));
      const Tensor both = quantized_matmul(concat({row, some({1, 64}, 6)}, 0), q, {.activations = dynamic});
      for (const float value : floats(both(1))) CHECK(std::isfinite(value));
    }
  const QuantizedWeight nothing = quantize_weight(zeros({0, 3}), {.group = 16});
  CHECK(floats(quantized_matmul(zeros({2, 0}), nothing, {.activations = dynamic})) == std::vector<float>(6, 0.F));
}

TEST_CASE("quantisation: what is wrong is said") {
  const Tensor x = some({2, 6}, 1);
  CHECK(has(message_of<DTypeError>([&] { quantize(x, complex(ones({}), ones({})), 0); }), "a scale is floating"));
  CHECK(has(message_of<DTypeError>([&] { quantize(x, 0.1F, 0, {.dtype = DType::f16}); }),
            "quantize: the dtype is f16 [quantization_test.cpp:"));
  CHECK(has(message_of<UserError>([&] { quantize(x, 0.1F, 0, {.bits = 9}); }), "bits are 9"));
  CHECK(has(message_of<ShapeError>([&] { quantize(x, tensor({1.F, 2.F, 3.F}), 0, {.axis = 1}); }),
            "x is (2, 6), scale is (3,)"));
  CHECK(has(message_of<ShapeError>([&] { quantize(x, tensor({1.F, 2.F}), 0); }), "an axis be named"));
  CHECK(has(message_of<ShapeError>([&] { choose_quantization(x, {.axis = 1, .group = 4}); }),
            "groups of 4 are asked for along axis 1"));
  CHECK(has(message_of<UserError>([&] { choose_quantization(x, {.group = 4}); }), "without an axis"));
  CHECK(has(message_of<DTypeError>([&] { dequantize(x, 0.1F, 0); }), "quantised numbers are integers"));
  CHECK(has(message_of<UserError>([&] { fake_quantize(x, 0.1F, 0, {.quant_min = 3, .quant_max = 3}); }), "3 to 3"));
  CHECK(has(message_of<UserError>([&] { quantize_weight(x, {.bits = 3}); }), "bits are 3"));
  CHECK(has(message_of<UserError>([&] { quantize_weight(x, {.bits = 4, .group = 5}); }), "the group is 5"));
  CHECK(has(message_of<ShapeError>([&] { quantize_weight(x(0)); }), "a matrix is required"));
  const QuantizedWeight q = quantize_weight(x);
  CHECK(has(message_of<ShapeError>([&] { quantized_matmul(x, q); }), "x is (2, 6), the weight is (2, 6)"));
  CHECK(has(message_of<UserError>([&] { quantized_matmul(x, QuantizedWeight{}); }), "make it by quantize_weight"));
  CHECK(has(message_of<ShapeError>([&] { pack_int4(tensor({1, 2, 3}).to(DType::i8)); }), "the last axis must be even"));
  CHECK(has(message_of<ShapeError>([&] { quantized_weight(x.to(DType::i8), tensor({{1.F}})); }), "scales are (1, 1)"));
}

namespace {
Tensor small_integers(const Shape& shape, int seed, DType dtype) {
  const Tensor k = arange(shape.numel(), {.dtype = DType::i64});
  return remainder(k * k * 31 + k * 17 + seed * 7919, 256).reshape(shape).to(dtype);  // wraps: all bytes
}
/// Modulo 2^32.
Integers exact_product(const Tensor& a, const Tensor& b) {
  const Integers x = integers(a), y = integers(b);
  const std::size_t m = x.size() / static_cast<std::size_t>(std::int64_t(b.size(0)) == 0 ? 1 : std::int64_t(b.size(0)));
  const auto k = static_cast<std::size_t>(std::int64_t(b.size(0))),
             n = static_cast<std::size_t>(std::int64_t(b.size(1)));
  Integers out(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      std::int64_t sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += x[i * k + l] * y[l * n + j];
      out[i * n + j] = static_cast<std::int32_t>(sum);
    }
  return out;
}
/// By itself, and compiled on each back end of the CPU.
template <class F>
std::vector<Tensor> on_all(F f, const std::vector<Tensor>& x) {
  std::vector<Tensor> out{f(x[0], x[1])};
  for (const char* backend : {"reference", "x86"}) {
    const std::vector<std::string> known = jit::list_backends();
    if (std::find(known.begin(), known.end(), backend) != known.end())
      out.push_back(jit::compile(f, {.backend = backend})(x[0], x[1]));
  }
  return out;
}
}  // namespace

TEST_CASE("integer_matmul: exact in i32, all signs, odd shapes, strides") {
  const auto f = [](Tensor a, Tensor b) { return integer_matmul(a, b); };
  struct Case {
    int m, k, n;
  };
  for (const DType left : {DType::i8, DType::u8})
    for (const DType right : {DType::i8, DType::u8})
      for (const auto& [m, k, n] :
           {Case{1, 1, 1}, Case{3, 5, 7}, Case{33, 64, 35}, Case{40, 130, 64}, Case{17, 2052, 16}, Case{64, 1088, 96},
            Case{9, 63, 33}, Case{0, 4, 3}, Case{2, 4, 0}}) {
        INFO(name(left) << " by " << name(right) << ", " << m << " x " << k << " x " << n);
        const Tensor a = small_integers({m, k}, 1, left), b = small_integers({k, n}, 2, right);
        const Integers expected = exact_product(a, b);
        for (const Tensor& found : on_all(f, {a, b})) {
          CHECK(found.dtype() == DType::i32);
          CHECK(integers(found) == expected);
        }
        const Tensor rows = transpose(b, 0, 1) * 1;
        eval(rows);
        const Tensor turned = transpose(rows, 0, 1);  // columns in one piece
        for (const Tensor& found : on_all(f, {a, turned})) CHECK(integers(found) == expected);
      }
  const Tensor empty = integer_matmul(zeros({2, 0}, {.dtype = DType::i8}), zeros({0, 3}, {.dtype = DType::i8}));
  CHECK(integers(empty) == Integers(6, 0));
  const Tensor a = small_integers({2, 3, 8}, 3, DType::i8), b = small_integers({8, 5}, 4, DType::i8);
  CHECK(integers(integer_matmul(a, b)) == exact_product(a.reshape({6, 8}), b));
  CHECK(integers(jit::vmap([](Tensor x, Tensor y) { return integer_matmul(x, y); }, {0, jit::no_axis})(a, b)) ==
        exact_product(a.reshape({6, 8}), b));
  // Sums beyond 2^31 wrap.
  const std::int64_t deep = 140000;
  const Tensor most = full({1, deep}, 255, {.dtype = DType::u8});
  CHECK(integers(integer_matmul(most, transpose(most, 0, 1))) ==
        Integers{static_cast<std::int32_t>(static_cast<std::uint32_t>(deep * 255 * 255))});
}

TEST_CASE("integer_matmul and scaled_matmul by name take rows by rows, and are called so") {
  const Tensor a = small_integers({3, 3}, 1, DType::i8), b = small_integers({3, 3}, 2, DType::i8);
  const Tensor by_columns = integer_matmul(a, transpose(b, 0, 1));
  CHECK(integers(call("integer_matmul_rows", {a, b})[0]) == integers(by_columns));
  CHECK_FALSE(integers(integer_matmul(a, b)) == integers(by_columns));
  const Tensor x = a.to(DType::f8e5m2), y = b.to(DType::f8e5m2), one = full({}, 1.F);
  CHECK(doubles(call("scaled_matmul_rows", {x, y, one, one}, "dtype=f32")[0]) ==
        doubles(scaled_matmul(x, transpose(y, 0, 1), 1.F, 1.F, {.dtype = DType::f32})));
  CHECK_THROWS_AS(call("integer_matmul", {a, b}), UserError);
  CHECK_THROWS_AS(call("scaled_matmul", {x, y, one, one}, "dtype=f32"), UserError);
}

TEST_CASE("integer_matmul: many rows, many columns, deep, rows that are not known, and vmap over b") {
  const auto f = [](Tensor a, Tensor b) { return integer_matmul(a, b); };
  for (const DType left : {DType::i8, DType::u8})
    for (const DType right : {DType::i8, DType::u8})
      for (const auto& [m, k, n] : {std::tuple{300, 70, 40}, std::tuple{260, 1040, 3}, std::tuple{5, 66, 520}}) {
        INFO(name(left) << " by " << name(right) << ", " << m << " x " << k << " x " << n);
        const Tensor a = small_integers({m, k}, 1, left), b = small_integers({k, n}, 2, right);
        CHECK(integers(jit::compile(f)(a, b)) == exact_product(a, b));
      }
  auto any_rows = jit::compile(f, {.dynamic = jit::Dynamic::always});
  for (const int rows : {2, 5, 17, 1, 33}) {
    const Tensor a = small_integers({rows, 20}, rows, DType::i8), b = small_integers({20, 18}, 2, DType::u8);
    CHECK(integers(any_rows(a, b)) == exact_product(a, b));
  }
  const Tensor a = small_integers({2, 5, 8}, 3, DType::i8), b = small_integers({2, 8, 6}, 4, DType::i8);
  const Integers both = integers(jit::vmap(f)(a, b)), by_b = integers(jit::vmap(f, {jit::no_axis, 0})(a(0), b));
  for (int i = 0; i < 2; ++i) {
    const auto part = [i](const Integers& all) { return Integers(all.begin() + 30 * i, all.begin() + 30 * (i + 1)); };
    CHECK(part(both) == exact_product(a(i), b(i)));
    CHECK(part(by_b) == exact_product(a(0), b(i)));
  }
}

TEST_CASE(
    "integer_matmul and convolutions: a captured operand that is transposed is laid out once, not at every call") {
  const Tensor a = small_integers({5, 66}, 1, DType::i8), b = small_integers({66, 20}, 2, DType::i8);
  const Tensor rows = small_integers({20, 66}, 3, DType::i8), across = transpose(rows, 0, 1);
  eval({a, b, rows, across});
  const auto f = jit::compile([b](Tensor x) { return integer_matmul(x, b); });
  const auto g = jit::compile([rows](Tensor x) { return integer_matmul(x, transpose(rows, 0, 1)); });
  const auto strided = jit::compile([across](Tensor x) { return integer_matmul(x, across); });
  const auto both = jit::compile([b](Tensor x, Tensor y) { return integer_matmul(x, b) + integer_matmul(y, b); });
  for (int call = 0; call < 2; ++call) {
    CHECK(integers(f(a)) == exact_product(a, b));
    CHECK(integers(g(a)) == exact_product(a, across));
    CHECK(integers(strided(a)) == exact_product(a, across));
    CHECK(integers(both(a, a)) == integers(2 * integer_matmul(a, b)));
  }
  CHECK(f.stats().kernels == g.stats().kernels);  // rows are what the product reads
  CHECK(strided.stats().kernels == g.stats().kernels);
  CHECK(both.lower(a, a + a).passes().back().graph.text().find("permute") == std::string::npos);
  const Tensor image = cos(arange(50, {.dtype = DType::f32})).reshape({1, 2, 5, 5}),
               last = sin(arange(54, {.dtype = DType::f32})).reshape({3, 3, 2, 3});
  eval({image, last});
  const auto convolved = [image](const Tensor& weight) { return conv2d(image, permute(weight, {3, 2, 0, 1})); };
  const auto constant = jit::compile([=](Scalar s) { return s * convolved(last); });
  const auto argument = jit::compile([=](Scalar s, Tensor weight) { return s * convolved(weight); });
  CHECK(to_vector<float>(constant(2)) == to_vector<float>(argument(2, last)));
  // Memory that was lent may be written to between calls: it is read at each.
  const auto lent = std::make_shared<std::vector<std::int8_t>>(6, std::int8_t{1});
  const Tensor seen = from_blob(lent, lent->data(), {3, 2}, DType::i8), ones3 = ones({1, 3}, {.dtype = DType::i8});
  const auto h = jit::compile([seen](Tensor x) { return integer_matmul(x, seen); });
  CHECK(integers(h(ones3)) == Integers{3, 3});
  lent->front() = 5;
  CHECK(integers(h(ones3)) == Integers{7, 3});
}

TEST_CASE("integer_matmul: what it does not take") {
  const Tensor i8 = zeros({2, 3}, {.dtype = DType::i8});
  CHECK(has(message_of([&] { integer_matmul(i8, zeros({3, 2})); }), "both must be i8 or u8"));
  CHECK(has(message_of([&] { integer_matmul(i8, i8); }), "integer_matmul: a is i8[2, 3], b is i8[2, 3]"));
  CHECK_THROWS_AS(integer_matmul(i8, i8), ShapeError);
  CHECK_THROWS_AS(integer_matmul(i8, zeros({3, 2})), DTypeError);
}

TEST_CASE("scaled_matmul: f8 by f8 in f32, scales of numbers, rows and columns, gradients") {
  for (const DType left : {DType::f8e4m3, DType::f8e5m2})
    for (const DType right : {DType::f8e4m3, DType::f8e5m2}) {
      const Tensor a = some({5, 19}, 1).to(left), b = some({19, 7}, 2).to(right);
      const std::vector<double> exact = product(doubles(a.to(DType::f64)), doubles(b.to(DType::f64)), 5, 19, 7);
      std::vector<double> scaled = exact;
      for (double& x : scaled) x *= 0.5 * 3;
      const auto f = [](Tensor x, Tensor y) { return scaled_matmul(x, y, 0.5F, 3.F, {.dtype = DType::f32}); };
      for (const Tensor& found : on_all(f, {a, b})) CHECK(near(doubles(found), scaled, 1e-5));
      const Tensor rounded = scaled_matmul(a, b, 0.5F, 3.F);
      CHECK(rounded.dtype() == DType::bf16);
      CHECK(near(doubles(rounded), scaled, 0.01));
      const Tensor rows = tensor({{1.F}, {2.F}, {3.F}, {4.F}, {5.F}}), columns = arange(7, {.dtype = DType::f32}) + 1;
      const Tensor both = scaled_matmul(a, b, rows, columns, {.dtype = DType::f32});
      std::vector<double> expected = exact;
      for (std::size_t i = 0; i < 35; ++i) expected[i] *= static_cast<double>((i / 7 + 1) * (i % 7 + 1));
      CHECK(near(doubles(both), expected, 1e-4));
    }
  const Tensor a = some({2, 3, 8}, 1), b = some({8, 4}, 2), s = full({}, 2.F);
  const auto loss = [](Tensor x, Tensor y, Tensor scale) {
    return sum(scaled_matmul(x.to(DType::f8e4m3), y.to(DType::f8e5m2), scale, 0.5F, {.dtype = DType::f32}));
  };
  const auto [by_a, by_b, by_s] = jit::grad<0, 1, 2>(loss)(a, b, s);
  const Tensor wide_a = a.to(DType::f8e4m3).to(DType::f32), wide_b = b.to(DType::f8e5m2).to(DType::f32);
  CHECK(near(doubles(by_a), doubles(expand(sum(wide_b, 1), {2, 3, 8})), 1e-5));
  CHECK(near(doubles(by_b), doubles(expand(sum(wide_a, {0, 1}).reshape({8, 1}), {8, 4})), 1e-5));
  CHECK(near(doubles(by_s), doubles(sum(matmul(wide_a, wide_b)) * 0.5), 1e-4));
  const Tensor f8 = a.to(DType::f8e4m3);
  CHECK(near(doubles(jit::vmap([](Tensor x, Tensor y) { return scaled_matmul(x, y, 1.F, 1.F, {.dtype = DType::f32}); },
                               {0, jit::no_axis})(f8, b.to(DType::f8e4m3))),
             doubles(matmul(f8.to(DType::f32), b.to(DType::f8e4m3).to(DType::f32))), 1e-5));
}

TEST_CASE("scaled_matmul: gradients by scales of rows and columns, and batches of their products") {
  const Tensor a = some({2, 3, 8}, 1), b = some({8, 4}, 2), rows = some({2, 3, 1}, 3), columns = some({4}, 4);
  const Tensor by = some({2, 3, 4}, 5), f8_a = a.to(DType::f8e4m3), f8_b = b.to(DType::f8e5m2);
  const auto loss = [=](Tensor x, Tensor y, Tensor r, Tensor c) {
    return sum(scaled_matmul(x.to(DType::f8e4m3), y.to(DType::f8e5m2), r, c, {.dtype = DType::f32}) * by);
  };
  const auto wide = [=](Tensor x, Tensor y, Tensor r, Tensor c) { return sum(matmul(x, y) * r * c * by); };
  const auto [by_a, by_b, by_rows, by_columns] = jit::grad<0, 1, 2, 3>(loss)(a, b, rows, columns);
  const auto [wide_a, wide_b, wide_rows, wide_columns] =
      jit::grad<0, 1, 2, 3>(wide)(f8_a.to(DType::f32), f8_b.to(DType::f32), rows, columns);
  CHECK(near(doubles(by_a), doubles(wide_a), 1e-4));
  CHECK(near(doubles(by_b), doubles(wide_b), 1e-4));
  CHECK(near(doubles(by_rows), doubles(wide_rows), 1e-4));
  CHECK(near(doubles(by_columns), doubles(wide_columns), 1e-4));
  const auto one_scale = [](Tensor x, Tensor y, Tensor r) {
    return scaled_matmul(x, y, r, 0.5F, {.dtype = DType::f32});
  };
  const Tensor shared = some({3, 1}, 6);
  CHECK(near(doubles(jit::vmap(one_scale, {0, jit::no_axis, jit::no_axis})(f8_a, f8_b, shared)),
             doubles(matmul(f8_a.to(DType::f32), f8_b.to(DType::f32)) * shared * 0.5F), 1e-4));
  CHECK(near(doubles(jit::vmap(one_scale, {0, jit::no_axis, 0})(f8_a, f8_b, rows)),
             doubles(matmul(f8_a.to(DType::f32), f8_b.to(DType::f32)) * rows * 0.5F), 1e-4));
}

TEST_CASE("scaled_matmul: scales of one element are numbers, elements of others, batched") {
  const Tensor a = some({5, 19}, 1).to(DType::f8e4m3), b = some({19, 7}, 2).to(DType::f8e4m3), s = tensor({3.F, 2.F});
  const auto expected = doubles(scaled_matmul(a, b, 2.F, 0.5F, {.dtype = DType::f32}));
  CHECK(doubles(scaled_matmul(a, b, tensor({2.F}), tensor({{0.5F}}), {.dtype = DType::f32})) == expected);
  const auto f = [](Tensor x, Tensor y, Tensor scale) {
    return scaled_matmul(x, y, scale, 0.5F, {.dtype = DType::f32});
  };
  CHECK(doubles(jit::compile(f)(a, b, s(1))) == expected);
  CHECK(doubles(f(a, b, s(slice(1, 2)))) == expected);
  const std::vector<double> each = doubles(jit::vmap(f, {jit::no_axis, jit::no_axis, 0})(a, b, s));
  CHECK(near({each.begin() + 35, each.end()}, expected, 1e-5));
  CHECK(near({each.begin(), each.begin() + 35}, doubles(f(a, b, s(0))), 1e-5));
}

TEST_CASE("scaled_matmul: what it does not take") {
  const Tensor a = zeros({2, 3}, {.dtype = DType::f8e4m3}), b = zeros({3, 4}, {.dtype = DType::f8e4m3});
  CHECK(has(message_of([&] { scaled_matmul(a, zeros({3, 4}), 1.F, 1.F); }), "matrices are f8e4m3 or f8e5m2"));
  CHECK(has(message_of([&] { scaled_matmul(a, b, 1.F, 1.F, {.dtype = DType::f64}); }), "it is f32, f16 or bf16"));
  CHECK(has(message_of([&] { scaled_matmul(a, b, ones({3}), 1.F); }), "scale_a is (3,), the result (2, 4)"));
  CHECK(has(message_of([&] { scaled_matmul(a, b, 1.F, ones({2, 1})); }), "has the shape (1, 4)"));
  CHECK(has(message_of([&] { scaled_matmul(a, b, 1, 1.F); }), "a scale is floating"));
  CHECK_THROWS_AS(scaled_matmul(a, a, 1.F, 1.F), ShapeError);
}
