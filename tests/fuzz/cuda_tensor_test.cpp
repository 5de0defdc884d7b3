// Products on tensor cores, without a GPU: texts run on the processor, where emulated instructions exchange fragments
// as the PTX ISA lays them out (emulated_cuda.hpp).
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../emulated_cuda.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"

#include <cstdio>
#include <limits>

using namespace sinter_test;

namespace {
struct ProductRow {
  const char* graph;
  MatmulPrecision precision;
  int multiprocessors;  // few: large tiles; many: small ones, and pieces of the reduced axis
  std::vector<std::int64_t> sizes;
};
constexpr auto f32 = MatmulPrecision::f32, tf32 = MatmulPrecision::tf32, tf32x3 = MatmulPrecision::tf32x3;
const ProductRow rows[] = {
    // Neither, the right, the left, both of the operands transposed; vectors.
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2]) { return matmul(%x, %w) }", tf32, 1, {300, 100, 264}},
    {"graph(%x: f32[s0, s1], %w: f32[s2, s1]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }",
     tf32,
     1,
     {130, 100, 520}},
    {"graph(%x: f32[s1, s0], %w: f32[s1, s2]) { return matmul(permute(%x) {axes=[1, 0]}, %w) }",
     tf32,
     4,
     {264, 36, 200}},
    {"graph(%x: f32[s1, s0], %w: f32[s2, s1]) { return matmul(permute(%x) {axes=[1, 0]}, permute(%w) {axes=[1, 0]}) }",
     tf32,
     8,
     {132, 36, 132}},
    {"graph(%x: f64[s0, s1], %w: f64[s1, s2]) { return matmul(%x, %w) }", f32, 1, {130, 50, 136}},
    {"graph(%x: f64[s0, s1], %w: f64[s2, s1]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }",
     f32,
     132,
     {66, 50, 66}},
    {"graph(%x: f64[s1, s0], %w: f64[s1, s2]) { return matmul(permute(%x) {axes=[1, 0]}, %w) }",
     f32,
     1,
     {150, 18, 130}},
    {"graph(%x: f64[s1, s0], %w: f64[s2, s1]) { return matmul(permute(%x) {axes=[1, 0]}, permute(%w) {axes=[1, 0]}) }",
     f32,
     132,
     {70, 34, 60}},
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2]) { return matmul(%x, %w) }", tf32x3, 1, {140, 100, 136}},
    {"graph(%x: f32[s1, s0], %w: f32[s2, s1]) { return matmul(permute(%x) {axes=[1, 0]}, permute(%w) {axes=[1, 0]}) }",
     tf32x3,
     132,
     {68, 68, 68}},
    // Odd extents: elements one by one.
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2]) { return matmul(%x, %w) }", tf32, 1, {133, 67, 301}},
    {"graph(%x: f32[s1, s0], %w: f32[s2, s1]) { return matmul(permute(%x) {axes=[1, 0]}, permute(%w) {axes=[1, 0]}) }",
     tf32x3,
     132,
     {67, 35, 69}},
    {"graph(%x: f64[s0, s1], %w: f64[s2, s1]) { return matmul(%x, permute(%w) {axes=[1, 0]}) }", f32, 1, {129, 33, 67}},
    {"graph(%x: f32[s0, s1], %w: f16[s2, s1]) { return matmul(%x, permute(cast(%w) {dtype=f32}) {axes=[1, 0]}) }",
     tf32x3,
     2,
     {25, 145, 9}},
    // Narrow numbers, which TF32 holds: on tensor cores in every precision.
    {"graph(%x: f16[s0, s1], %w: f16[s1, s2]) { return matmul(cast(%x) {dtype=f32}, cast(%w) {dtype=f32}) }",
     f32,
     1,
     {133, 67, 301}},
    {"graph(%x: bf16[s0, s1], %w: bf16[s1, s2]) { return matmul(cast(%x) {dtype=f32}, cast(%w) {dtype=f32}) }",
     tf32x3,
     132,
     {72, 200, 80}},
    {"graph(%x: bf16[s1, s0], %w: bf16[s2, s1]) { return matmul(permute(cast(%x) {dtype=f32}) {axes=[1, 0]}, "
     "permute(cast(%w) {dtype=f32}) {axes=[1, 0]}) }",
     f32,
     132,
     {68, 68, 68}},
    {"graph(%x: f16[3, s0, s1], %w: f16[3, s1, s2], %b: f16[s2]) { return relu(add(matmul(cast(%x) {dtype=f32}, "
     "cast(%w) {dtype=f32}), cast(%b) {dtype=f32})) }",
     f32,
     2,
     {40, 33, 44}},
    // Batches; pieces of the reduced axis; what follows; what comes before.
    {"graph(%x: f32[3, s0, s1], %w: f32[3, s1, s2]) { return matmul(%x, %w) }", tf32, 132, {70, 60, 72}},
    {"graph(%x: f64[s0, s1], %w: f64[s1, s2]) { return matmul(%x, %w) }", f32, 132, {40, 700, 40}},
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2], %b: f32[s2]) { return relu(add(matmul(%x, %w), %b)) }",
     tf32,
     132,
     {40, 1001, 44}},
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2], %b: f32[s2], %r: f32[s0, s2]) { return add(relu(add(matmul(%x, %w), "
     "%b)), %r) }",
     tf32x3,
     2,
     {100, 40, 133}},
    {"graph(%x: f32[s0, s1], %w: f32[s1, s2]) { return matmul(relu(%x), %w) }", tf32, 2, {70, 70, 132}},
    {"graph(%x: f32[s0, s1], %y: f32[s2, s1]) { return matmul(relu(%x), permute(abs(%y)) {axes=[1, 0]}) }",
     tf32x3,
     132,
     {70, 70, 68}},
};

/// Multiples of 1/16 below 2: their products are exact in TF32, too, and a wrong one shows.
void make_short(std::vector<oracle::Array>& inputs) {
  for (oracle::Array& input : inputs)
    for (auto& x : input.data) x = std::round(x * 16) / 16;
}

PlanOptions options_for(EmulatedCuda& emulated, MatmulPrecision precision) {
  PlanOptions options = fused({&emulated, reference()});
  options.precision = precision;
  return options;
}
}  // namespace

TEST_CASE("products on emulated tensor cores agree with the oracle") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  for (const ProductRow& row : rows) {
    EmulatedCuda emulated(row.multiprocessors, cuda::GemmAlgorithm::tensor_cores);
    const Graph graph = parse_graph(row.graph);
    const auto plan = build_plan(run_pipeline(graph), options_for(emulated, row.precision));
    INFO(row.graph << " in " << name(row.precision) << " on " << row.multiprocessors << " processors");
    auto inputs = random_inputs(graph, row.sizes);
    make_short(inputs);
    const PlanStep& last = plan->steps().back();
    CHECK(cuda::generate(last.kernel, {}, cuda::Target{})
              ->product(sinter::bind(last.geometry, row.sizes), 0)
              .algorithms[0] == cuda::GemmAlgorithm::tensor_cores);
    CHECK(first_difference(*plan, graph, inputs) == "");
  }
}

TEST_CASE("emulated 3xTF32 is nearly as exact as f32") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  const Graph graph = parse_graph("graph(%x: f32[40, 500], %w: f32[500, 72]) { return matmul(%x, %w) }");
  for (const MatmulPrecision precision : {tf32x3, tf32}) {
    EmulatedCuda emulated(1, cuda::GemmAlgorithm::tensor_cores);
    const auto plan = build_plan(run_pipeline(graph), options_for(emulated, precision));
    auto inputs = random_inputs(graph);
    for (auto& input : inputs)
      for (auto& x : input.data) x = std::abs(x);  // errors in one direction add up
    const auto found = run(*plan, inputs)[0], wanted = oracle::evaluate(graph, inputs)[0];
    double worst = 0;
    for (std::size_t i = 0; i < wanted.data.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(found.data[i] / wanted.data[i] - 1)));
    std::printf("%s: worst relative error of sums of 500 positive products: %.2g\n",
                std::string(name(precision)).c_str(), worst);
    CHECK(worst < (precision == tf32x3 ? 1e-6 : 1e-3));
    CHECK(worst > (precision == tf32x3 ? 0 : 1e-6));
  }
}

TEST_CASE("emulated 3xTF32: infinities, NaN, huge and small numbers are what f32 makes of them") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  constexpr float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const float special[] = {
      infinity,  -infinity,       std::numeric_limits<float>::quiet_NaN(), most, -most, 0x1.fffp127f, 0.0f, -0.0f,
      0x1p-126f, 0x1.234567p-100f};
  const float partner[] = {1.0f,   -1.0f,    1.2345678f, -0.7654321f,
                           0.0f,   4095.0f,  -4097.3f,   16777213.0f,
                           1e-20f, infinity, -infinity,  std::numeric_limits<float>::quiet_NaN(),
                           most,   0.5f,     1e-30f,     3.0f};
  // Batch i: row 0 has the special number, the others ordinary ones; each meets each partner.
  constexpr std::size_t batches = 10, rows = 8, depth = 33, columns = 16, meeting = 5;
  const Graph graph = parse_graph("graph(%x: f32[10, 8, 33], %w: f32[10, 33, 16]) { return matmul(%x, %w) }");
  auto inputs = random_inputs(graph);
  for (std::size_t i = 0; i < batches; ++i) {
    inputs[0].data[i * rows * depth + meeting] = special[i];
    for (std::size_t j = 0; j < columns; ++j) inputs[1].data[(i * depth + meeting) * columns + j] = partner[j];
  }
  EmulatedCuda emulated(132, cuda::GemmAlgorithm::tensor_cores);
  const auto found = run(*build_plan(run_pipeline(graph), options_for(emulated, tf32x3)), inputs)[0];
  for (std::size_t at = 0; at < found.data.size(); ++at) {
    const std::size_t i = at / (rows * columns), row = at / columns % rows, j = at % columns;
    float sum = 0;
    double magnitude = 0;
    for (std::size_t k = 0; k < depth; ++k) {
      const auto a = static_cast<float>(inputs[0].data[(i * rows + row) * depth + k]),
                 b = static_cast<float>(inputs[1].data[(i * depth + k) * columns + j]);
      sum = std::fma(a, b, sum);
      magnitude += std::abs(static_cast<double>(a) * b);
    }
    const auto got = static_cast<float>(found.data[at]);
    if (std::isfinite(sum) && std::abs(sum) > 0x1.fffffp127f)
      continue;  // the parts of the greatest number add up to infinity
    INFO("batch " << i << ", row " << row << ", column " << j << ": " << got << ", in f32 " << sum);
    if (std::isnan(sum)) CHECK(std::isnan(got));
    else if (std::isinf(sum)) CHECK(got == sum);
    else CHECK(std::abs(static_cast<double>(got) - sum) <= 2e-6 * magnitude);
  }
}

TEST_CASE("random products on emulated tensor cores agree with the reference back end") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler");
  int agreed = 0;
  fuzz_loop(1300000, [&](std::uint64_t seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    EmulatedCuda emulated(seed % 2 == 0 ? 2 : 132, cuda::GemmAlgorithm::tensor_cores);
    const auto generated = cuda::generate(test_case.kernel, {}, cuda::Target{});
    const auto algorithms = generated == nullptr ? std::vector<cuda::GemmAlgorithm>()
                                                 : generated->product(test_case.geometry, 0).algorithms;
    if (std::find(algorithms.begin(), algorithms.end(), cuda::GemmAlgorithm::tensor_cores) == algorithms.end()) return;
    const Outcome outcome = compare(*reference(), emulated, test_case, Closeness::within_error);
    INFO("seed " << seed << "\n" << describe(test_case) << outcome.difference);
    REQUIRE((outcome.is_declined || static_cast<bool>(outcome)));
    ++agreed;
  });
  std::printf("%d texts with tensor cores agree\n", agreed);
}
#endif
