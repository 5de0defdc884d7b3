// Generation of CUDA C, without a GPU: what is generated compiles for the oldest and the newest chip, and texts recur.
#ifdef SINTER_CUDA
#include "catch.hpp"

#include "conformance/kernel_random.hpp"

#include <sinter/backend/cuda/driver.hpp>
#include <sinter/backend/cuda/source.hpp>


using namespace sinter_test;

namespace {
cuda::LaunchList bound(const KernelCase& test_case, int capability = 90, int multiprocessors = 132, bool is_aligned = true) {
  cuda::Target target;
  target.capability = capability, target.multiprocessors = multiprocessors;
  const auto generated = cuda::generate(test_case.kernel, {}, target);
  REQUIRE(generated != nullptr);
  return generated->bind(test_case.geometry, 0, is_aligned);
}

/// p1 = p0 + p0 over one axis.
KernelCase doubled(std::int64_t extent) {
  KernelCase test_case;
  test_case.kernel.axes.push_back(AxisRole::parallel);
  test_case.kernel.operands = {{DType::f32, false}, {DType::f32, true}};
  test_case.kernel.accesses = {{0, {StrideClass::unit}}, {1, {StrideClass::unit}}};
  test_case.kernel.body = {{.prim = Prim::load, .dtype = DType::f32}, {.prim = Prim::add, .dtype = DType::f32, .args = {0, 0, no_inst}}};
  test_case.kernel.stores = {{1, 1}};
  test_case.geometry.extent[0] = extent;
  test_case.geometry.accesses.resize(2);
  for (auto& access : test_case.geometry.accesses) access.stride[0] = 1;
  return test_case;
}
}  // namespace

TEST_CASE("random kernels become CUDA C that compiles") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP(why.c_str());
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    const int capability = seed % 2 == 0 ? 80 : 90;
    const cuda::LaunchList list = bound(test_case, capability, seed % 3 == 0 ? 2 : 132, seed % 5 != 0);
    if (list.launches.empty()) continue;
    INFO("seed " << seed << "\n" << list.source);
    CHECK(!cuda::compile_to_cubin(list.source, "seed", "sm_" + std::to_string(capability)).empty());
  }
}

TEST_CASE("sizes that are run alike have one text") {
  CHECK(bound(doubled(4096)).source == bound(doubled(8192)).source);
  CHECK(bound(doubled(4096)).source != bound(doubled(4097)).source);   // the last vector is not whole
  CHECK(bound(doubled(4096)).needs_alignment);
  const cuda::LaunchList any = bound(doubled(4096), 90, 132, false);
  CHECK(!any.needs_alignment);
  CHECK(any.source.find("Pack<") == std::string::npos);
  CHECK(bound(doubled(0)).launches.empty());
}

TEST_CASE("offsets are 32 bits wide where they fit") {
  CHECK(bound(doubled(1 << 20)).source.find("typedef int I") != std::string::npos);
  CHECK(bound(doubled(std::int64_t{1} << 33)).source.find("typedef long long I") != std::string::npos);
}

TEST_CASE("a kernel with more accesses than a parameter holds is declined, with the reason") {
  KernelCase test_case = doubled(8);
  for (int i = 0; i < 100; ++i) test_case.kernel.accesses.push_back(test_case.kernel.accesses[0]);
  std::string why;
  CHECK(cuda::generate(test_case.kernel, {}, {}, &why) == nullptr);
  CHECK(why.find("102 accesses") != std::string::npos);
}
#endif
