// Random kernels become CUDA C that NVRTC compiles, for the oldest and the newest chip; no GPU needed. SINTER_FUZZ_SECONDS
// sets the time (default 5), SINTER_FUZZ_SEED runs exactly one seed and prints its text.
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../conformance/kernel_random.hpp"

#include <sinter/backend/cuda/driver.hpp>
#include <sinter/backend/cuda/source.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace sinter_test;

namespace {
cuda::LaunchList bound(const KernelCase& test_case, int capability) {
  cuda::Target target;
  target.capability = capability;
  target.multiprocessors = test_case.seed % 3 == 0 ? 2 : 132;   // 2: small sizes are run as large ones are
  const auto generated = cuda::generate(test_case.kernel, {}, target);
  REQUIRE(generated != nullptr);
  return generated->bind(test_case.geometry, 0, test_case.seed % 5 != 0);
}
}  // namespace

TEST_CASE("random kernels: their CUDA C compiles") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP(why.c_str());
  const char *seconds = std::getenv("SINTER_FUZZ_SECONDS"), *only = std::getenv("SINTER_FUZZ_SEED");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 5);
  const std::uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 0) : 700000;
  int compiled = 0;
  for (std::uint64_t seed = first; only != nullptr ? seed == first : std::chrono::steady_clock::now() < end; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    const int capability = seed % 2 == 0 ? 80 : 90;
    const cuda::LaunchList list = bound(test_case, capability);
    if (only != nullptr) std::printf("%s\n", list.source.c_str());
    if (list.launches.empty()) continue;
    INFO("seed " << seed << "\n" << list.source);
    REQUIRE_FALSE(cuda::compile_to_cubin(list.source, "random", "sm_" + std::to_string(capability)).empty());
    ++compiled;
  }
  std::printf("%d texts compiled\n", compiled);
  CHECK(compiled > 0);
}
#endif
