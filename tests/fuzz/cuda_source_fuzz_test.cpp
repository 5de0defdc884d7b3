// Random kernels become CUDA C that NVRTC compiles, for chips of four generations; no GPU needed.
#ifdef SINTER_CUDA
#include "../catch.hpp"

#include "../conformance/kernel_random.hpp"
#include "../cuda_chips.hpp"
#include "fuzz_loop.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/source/source.hpp>

#include <cstdio>

using namespace sinter_test;

namespace {
cuda::LaunchList bound(const KernelCase& test_case, int capability) {
  cuda::Target target;
  target.capability = capability;
  target.multiprocessors = test_case.seed % 3 == 0 ? 2 : 132;  // 2: small sizes are run as large ones are
  const auto generated = cuda::generate(test_case.kernel, {}, target);
  REQUIRE(generated != nullptr);
  return generated->bind(test_case.geometry, 0, test_case.seed % 5 != 0);
}
}  // namespace

TEST_CASE("random kernels: their CUDA C compiles") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP(why.c_str());
  int compiled = 0;
  fuzz_loop(700000, [&](std::uint64_t seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    const int capability = cuda_chip(seed);
    const cuda::LaunchList list = bound(test_case, capability);
    if (only_seed()) std::printf("%s\n", list.source.c_str());
    if (list.launches.empty()) return;
    INFO("seed " << seed << "\n" << list.source);
    REQUIRE_FALSE(cuda::compile_to_cubin(list.source, "random", architecture_of(capability)).empty());
    ++compiled;
  });
  std::printf("%d texts compiled\n", compiled);
  CHECK((compiled > 0 || only_seed()));
}
#endif
