// The CUDA C of some kernels, compared with files: a change of what is generated is seen in review.
// SINTER_UPDATE_GOLDEN=1 writes the files anew; a missing one fails.
#ifdef SINTER_CUDA
#include "catch.hpp"

#include "cuda_chips.hpp"
#include "plan_harness.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/source/source.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace sinter_test;

namespace {
struct GoldenRow {
  const char *name, *graph;
  MatmulPrecision precision = MatmulPrecision::f32;
};
constexpr GoldenRow golden_rows[] = {
    {"chain", "graph(%x: f32[s0], %y: f32[s0]) { return tanh(add(mul(%x, %y), %x)) }"},
    {"broadcast", "graph(%x: f32[s0, 1024], %y: f32[1024]) { return add(%x, %y) }"},
    {"softmax", "graph(%x: f32[s0, 1024]) { return softmax(%x) {axes=[1]} }"},
    {"softmax_long", "graph(%x: f32[s0, 65536]) { return softmax(%x) {axes=[1]} }"},
    {"cluster",
     "graph(%x: f32[s0, 65536], %y: f32[s0, 65536]) { return sub(%x, sum(mul(%x, %y)) {axes=[1], keepdim}) }"},
    {"column_sum", "graph(%x: f32[s0, 1024]) { return sum(%x) {axes=[0]} }"},
    {"cumsum", "graph(%x: f32[s0, 1024]) { return cumsum(%x) {axes=[1]} }"},
    {"transpose", "graph(%x: f32[s0, 1024]) { return exp(permute(%x) {axes=[1, 0]}) }"},
    {"linear_gelu",
     "graph(%x: f32[s0, 256], %w: f32[256, 512], %b: f32[512]) { return gelu(add(matmul(%x, %w), %b)) }"},
    {"linear_gelu_tf32",
     "graph(%x: f32[s0, 256], %w: f32[256, 512], %b: f32[512]) { return gelu(add(matmul(%x, %w), %b)) }",
     MatmulPrecision::tf32},
    {"take", "graph(%x: f32[1000, 64], %i: i64[s0]) { return take(%x, %i) {axes=[0]} }"},
};

cuda::LaunchList launches_of(const GoldenRow& row, int capability) {
  PlanOptions options = fused();
  options.precision = row.precision;
  const auto plan = build_plan(prepared(row.graph), options);
  REQUIRE(plan->steps().size() == 1);
  cuda::Target target;
  target.capability = capability;
  const std::int64_t symbols[] = {4096};
  return cuda::generate(plan->steps()[0].kernel, {}, target)->bind(sinter::bind(plan->steps()[0].geometry, symbols), 0);
}
}  // namespace

TEST_CASE("generated CUDA C is what the golden files say, and compiles") {
  std::string why;
  const bool compiles = cuda::has_nvrtc(&why);
  for (const GoldenRow& row : golden_rows) {
    INFO(row.name << ": if the change is meant, SINTER_UPDATE_GOLDEN=1 writes tests/golden anew");
    const cuda::LaunchList list = launches_of(row, 90);
    const std::string path = std::string(SINTER_SOURCE_DIR) + "/tests/golden/cuda_" + row.name + ".cu";
    if (std::getenv("SINTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << list.source;
    std::ifstream file(path);
    REQUIRE(file.good());
    std::stringstream golden;
    golden << file.rdbuf();
    CHECK(golden.str() == list.source);
    if (!compiles) continue;
    for (const int chip : cuda_chips) {
      INFO(architecture_of(chip));
      CHECK_FALSE(cuda::compile_to_cubin(launches_of(row, chip).source, row.name, architecture_of(chip)).empty());
    }
  }
  if (!compiles) SINTER_SKIP(why.c_str());
}
#endif
