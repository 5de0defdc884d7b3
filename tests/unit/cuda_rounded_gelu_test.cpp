// gelu whose result is rounded to f16 or less at once has a shorter form on a GPU: where it is taken, and its error,
// emulated on the processor.
#ifdef SINTER_CUDA
#include "catch.hpp"

#include "../emulated_cuda.hpp"
#include "../plan_harness.hpp"

#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/backend/cuda/source/source.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {
std::string text_of(const std::string& graph) {
  EmulatedCuda emulated;
  const auto plan = build_plan(run_pipeline(parse_graph(graph)), fused({&emulated}));
  std::string text;
  for (const PlanStep& step : plan->steps())
    text += cuda::generate(step.kernel, {}, cuda::Target{})->bind(sinter::bind(step.geometry, {}), 0).source;
  return text;
}
bool is_short(const std::string& graph) {
  const std::string text = text_of(graph);
  const bool has_short = text.find("= rounded_gelu(") != std::string::npos,
             has_long = text.find("= gelu_of(") != std::string::npos;
  INFO(graph << "\n" << text);
  CHECK(has_short != has_long);
  return has_short;
}

/// Of `bits` of fraction and this least exponent, at a number.
double last_place(double x, int bits, int least_exponent) {
  const int exponent = x == 0 ? least_exponent : std::max(std::ilogb(x), least_exponent);
  return std::ldexp(1, exponent - bits);
}
}  // namespace

TEST_CASE("gelu is short where its result is rounded to 16 bits at once, by factors of it, and nowhere else") {
  CHECK(is_short("graph(%x: f16[64]) { return gelu(%x) }"));
  CHECK(is_short("graph(%x: bf16[64], %y: bf16[64]) { return mul(neg(gelu(%x)), %y) }"));
  CHECK(is_short("graph(%x: f32[64]) { return cast(gelu(%x)) {dtype=bf16} }"));
  CHECK_FALSE(is_short("graph(%x: f32[64]) { return gelu(%x) }"));
  CHECK_FALSE(is_short("graph(%x: bf16[64]) { return add(gelu(%x), 1) }"));  // a sum may cancel
  CHECK_FALSE(is_short("graph(%x: f32[64]) { return gelu(%x), cast(gelu(%x)) {dtype=bf16} }"));
  CHECK_FALSE(is_short("graph(%x: f64[64]) { return cast(gelu(%x)) {dtype=f16} }"));
}

TEST_CASE("the short gelu, emulated, is within 0.53 units of the last place of f16, and 0.51 of bf16") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  struct Arguments {
    const float* x;
    float* y;
    int count;
  };
  const std::string text =
      "struct Arguments { const float* x; float* y; int count; };\n" +
      cuda_source_detail::helpers("rounded_gelu(", 90) +
      "static void each(const Arguments& a) { for (int i = 0; i < a.count; ++i) a.y[i] = rounded_gelu(a.x[i]); }\n";
  void* const library = emulated_library(text, {"each"});
  const auto run = reinterpret_cast<void (*)(const void*)>(dlsym(library, "call_each"));
  REQUIRE(run != nullptr);
  std::vector<float> x, y;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    x.push_back(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits))));
  for (std::uint32_t bits = 0; bits < 65536; ++bits) x.push_back(std::bit_cast<float>(bits << 16));
  y.resize(x.size());
  const Arguments arguments{x.data(), y.data(), static_cast<int>(x.size())};
  run(&arguments);
  double worst_f16 = 0, worst_bf16 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact =
        std::isinf(x[i]) ? (x[i] < 0 ? -0.0 : x[i]) : 0.5 * x[i] * std::erfc(-x[i] / std::numbers::sqrt2);
    if (std::isnan(x[i]) || std::isinf(x[i])) {
      CHECK((std::isnan(x[i]) ? std::isnan(y[i]) : static_cast<double>(y[i]) == exact));
      continue;
    }
    const bool is_f16 = i < 65536;
    const double rounded = is_f16 ? static_cast<float>(float16(y[i])) : static_cast<float>(bfloat16(y[i]));
    const double place = is_f16 ? last_place(exact, 10, -14) : last_place(exact, 7, -126);
    double& worst = is_f16 ? worst_f16 : worst_bf16;
    worst = std::max(worst, std::abs(rounded - exact) / place);
  }
  CHECK(worst_f16 < 0.53);
  CHECK(worst_bf16 < 0.51);
  CHECK(std::signbit(y[0x8000]));  // of -0
}
#endif
