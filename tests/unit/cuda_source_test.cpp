// Generation of CUDA C, without a GPU: what is generated compiles for chips of four generations, and texts recur.
#ifdef SINTER_CUDA
#include "catch.hpp"

#include "conformance/kernel_random.hpp"
#include "cuda_chips.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/product/cublaslt_api.hpp>
#include <sinter/backend/cuda/product/library_product.hpp>
#include <sinter/backend/cuda/source/source.hpp>

using namespace sinter_test;

namespace {
cuda::LaunchList bound(const KernelCase& test_case, int capability = 90, int multiprocessors = 132,
                       bool is_aligned = true) {
  cuda::Target target;
  target.capability = capability;
  target.multiprocessors = multiprocessors;
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
  test_case.kernel.body = {{.prim = Prim::load, .dtype = DType::f32},
                           {.prim = Prim::add, .dtype = DType::f32, .args = {0, 0, no_inst}}};
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
    const int capability = cuda_chip(seed);
    const cuda::LaunchList list = bound(test_case, capability, seed % 3 == 0 ? 2 : 132, seed % 5 != 0);
    if (list.launches.empty()) continue;
    INFO("seed " << seed << "\n" << list.source);
    CHECK(!cuda::compile_to_cubin(list.source, "seed", architecture_of(capability)).empty());
  }
}

TEST_CASE("sizes that are run alike have one text") {
  CHECK(bound(doubled(4096)).source == bound(doubled(8192)).source);
  CHECK(bound(doubled(4096)).source != bound(doubled(4097)).source);  // the last vector is not whole
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

TEST_CASE("a scatter becomes CUDA C: atomics for integers, else by places, or in order where places are many") {
  std::string why;
  const bool compiles = cuda::has_nvrtc(&why);
  for (const DType dtype : {DType::f32, DType::i32})
    for (const std::int64_t places : {50, 5000000}) {
      KernelCase test_case;
      Kernel& kernel = test_case.kernel;
      kernel.kind = KernelKind::scatter;
      for (int i = 0; i < 2; ++i) kernel.axes.push_back(AxisRole::parallel);
      constexpr auto zero = StrideClass::zero, unit = StrideClass::unit, any = StrideClass::any;
      kernel.operands = {{DType::i64, false}, {dtype, false}, {dtype, true}};
      kernel.accesses = {{0, {unit, zero}}, {1, {any, unit}}, {2, {zero, unit}}};
      kernel.body = {{.prim = Prim::load, .dtype = DType::i64, .access = 0},
                     {.prim = Prim::load, .dtype = dtype, .access = 1}};
      kernel.stores = {{.access = 2, .value = 1, .index = 0, .combine = Combine::add}};
      CHECK(kernel.text().find("update p2[01] at %0 by add, %1") != std::string::npos);
      test_case.geometry.accesses.resize(3);
      test_case.geometry.extent[0] = 1000, test_case.geometry.extent[1] = 64;
      test_case.geometry.accesses[0].stride = {1, 0};
      test_case.geometry.accesses[1].stride = {64, 1};
      test_case.geometry.accesses[2].stride = {0, 1};
      test_case.geometry.accesses[2].gather_extent = places;
      test_case.geometry.accesses[2].gather_stride = 64;
      const cuda::LaunchList list = bound(test_case);
      INFO(list.source);
      CHECK(list.entries.size() == 2);  // the check comes first
      CHECK((list.source.find("atomicAdd") != std::string::npos) == (dtype == DType::i32));
      CHECK((list.source.find("__ballot_sync") != std::string::npos) == (dtype == DType::f32 && places == 50));
      if (compiles) CHECK_FALSE(cuda::compile_to_cubin(list.source, "scatter", architecture_of(80)).empty());
    }
}

namespace {
/// One operand less the sum of another, along rows.
KernelCase less_the_sum(std::int64_t rows, std::int64_t length) {
  KernelCase test_case;
  Kernel& kernel = test_case.kernel;
  kernel.kind = KernelKind::row;
  kernel.axes = {AxisRole::parallel, AxisRole::reduced};
  kernel.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, true}};
  const StrideClass any = StrideClass::any, unit = StrideClass::unit;
  kernel.accesses = {{0, {any, unit}}, {1, {any, unit}}, {2, {any, unit}}};
  kernel.body = {{.prim = Prim::load, .dtype = DType::f32, .access = 0},
                 {.prim = Prim::load, .dtype = DType::f32, .access = 1},
                 {.prim = Prim::reduce_add, .dtype = DType::f32, .args = {1}},
                 {.prim = Prim::sub, .dtype = DType::f32, .args = {0, 2}}};
  kernel.stores = {{.access = 2, .value = 3}};
  test_case.geometry.extent[0] = rows, test_case.geometry.extent[1] = length;
  test_case.geometry.accesses.assign(3, {.stride = {length, 1}});
  return test_case;
}
}  // namespace

TEST_CASE("a row that no block holds is shared by a cluster where the device has them") {
  for (const int capability : {80, 90}) {
    const KernelCase test_case = less_the_sum(100, 131072);
    cuda::Target target;
    target.capability = capability;
    const cuda::LaunchList list = cuda::generate(test_case.kernel, {}, target)->bind(test_case.geometry, 0);
    INFO(list.source);
    CHECK((list.source.find("__cluster_dims__(8, 1, 1)") != std::string::npos) == (capability == 90));
    CHECK(list.launches.at(0).grid[0] == (capability == 90 ? 800u : 100u));
    std::string why;
    if (cuda::has_nvrtc(&why))
      CHECK_FALSE(cuda::compile_to_cubin(list.source, "row", architecture_of(capability)).empty());
  }
}

TEST_CASE("many long rows pass through teams of blocks that all run at once, where a device has clusters") {
  struct Row {
    int capability;
    std::int64_t rows, length;
    unsigned blocks;  // 0: another way
  };
  // 264 blocks run at once: as many for a row as have room for it, in as many teams as there are.
  for (const Row& row : {Row{90, 134, 1000000, 264}, Row{90, 400, 500000, 264}, Row{90, 1000, 262144, 264},
                         Row{80, 134, 1000000, 0}, Row{90, 10, 1000000, 0}, Row{90, 1000, 16384, 0}}) {
    const KernelCase test_case = less_the_sum(row.rows, row.length);
    cuda::Target target;
    target.capability = row.capability;
    const cuda::LaunchList list = cuda::generate(test_case.kernel, {}, target)->bind(test_case.geometry, 0);
    INFO(list.source);
    REQUIRE(list.launches.size() == (row.blocks > 0 ? 2 : 1));
    const cuda::GpuLaunch& last = list.launches.back();
    CHECK(last.is_cooperative == (row.blocks > 0));
    if (row.blocks > 0) CHECK(last.grid[0] == row.blocks);
    CHECK(2 * last.shared_bytes < target.shared_bytes + 1024);
    std::string why;
    if (cuda::has_nvrtc(&why))
      CHECK_FALSE(cuda::compile_to_cubin(list.source, "row", architecture_of(row.capability)).empty());
  }
}

TEST_CASE("an update of single elements has sorted values, in lists or in bins, or a thread for each short list") {
  std::string why;
  const bool compiles = cuda::has_nvrtc(&why);
  for (const std::int64_t places : {1000, 10000, 1000000, 2000000}) {
    KernelCase test_case;
    Kernel& kernel = test_case.kernel;
    kernel.kind = KernelKind::scatter;
    kernel.axes.push_back(AxisRole::parallel);
    constexpr auto zero = StrideClass::zero, unit = StrideClass::unit;
    kernel.operands = {{DType::i64, false}, {DType::f32, false}, {DType::f32, true}};
    kernel.accesses = {{0, {unit}}, {1, {unit}}, {2, {zero}}};
    kernel.body = {{.prim = Prim::load, .dtype = DType::i64, .access = 0},
                   {.prim = Prim::load, .dtype = DType::f32, .access = 1}};
    kernel.stores = {{.access = 2, .value = 1, .index = 0, .combine = Combine::add}};
    test_case.geometry.accesses.resize(3);
    test_case.geometry.extent[0] = 1000000;
    test_case.geometry.accesses[0].stride = {1};
    test_case.geometry.accesses[1].stride = {1};
    test_case.geometry.accesses[2].gather_extent = places;
    test_case.geometry.accesses[2].gather_stride = 1;
    const cuda::LaunchList list = bound(test_case);
    INFO(list.source);
    std::vector<std::string> wanted{"sinter_count0", "sinter_starts0", "sinter_order0", "sinter_scatter"};
    if (places > 1 << 20) {
      wanted = {"sinter_clear", "sinter_count", "sinter_place", "sinter_fill", "sinter_scatter", "sinter_long"};
    } else {
      if (places > 1024) wanted = {"sinter_tiles", "sinter_scatter"};
      CHECK((list.source.find("struct Record") != std::string::npos) == (places > 1024));
    }
    CHECK(list.entries == wanted);
    CHECK(list.source.find("(unsigned long long)found >= ") != std::string::npos);
    if (compiles) CHECK_FALSE(cuda::compile_to_cubin(list.source, "scatter", architecture_of(80)).empty());
  }
}

TEST_CASE("a scan has the same order of sums whatever is computed beside it") {
  for (const int further : {0, 40}) {
    KernelCase test_case;
    Kernel& kernel = test_case.kernel;
    kernel.kind = KernelKind::row;
    kernel.axes = {AxisRole::parallel, AxisRole::reduced};
    constexpr auto unit = StrideClass::unit, any = StrideClass::any;
    kernel.operands = {{DType::f32, false}, {DType::f32, true}};
    kernel.accesses = {{0, {any, unit}}, {1, {any, unit}}};
    ScalarBuilder body;
    ScalarValue value = body.scan(Prim::scan_add, body.load(0, DType::f32), false);
    for (int i = 0; i < further; ++i) value = body.mul(body.add(value, body.load(0, DType::f32)), value);
    kernel.stores = {{.access = 1, .value = value.id}};
    kernel.body = body.take();
    test_case.geometry.extent[0] = 1000, test_case.geometry.extent[1] = 8192;
    test_case.geometry.accesses.resize(2);
    for (auto& access : test_case.geometry.accesses) access.stride = {8192, 1};
    const cuda::LaunchList list = bound(test_case);
    INFO(list.source);
    CHECK(list.source.find("[8];") != std::string::npos);
    CHECK(list.launches[0].block[0] == 256);
  }
}

TEST_CASE("large products go to the library where there is one") {
  KernelCase test_case;
  Kernel& kernel = test_case.kernel;
  kernel.kind = KernelKind::contraction;
  for (AxisRole role : {AxisRole::parallel, AxisRole::parallel, AxisRole::reduced}) kernel.axes.push_back(role);
  constexpr auto zero = StrideClass::zero, unit = StrideClass::unit, any = StrideClass::any;
  kernel.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, true}};
  kernel.accesses = {{0, {any, zero, unit}}, {1, {zero, unit, any}}, {2, {any, unit, zero}}};
  kernel.body = {{.prim = Prim::load, .dtype = DType::f32, .access = 0},
                 {.prim = Prim::load, .dtype = DType::f32, .access = 1},
                 {.prim = Prim::contract, .dtype = DType::f32, .args = {0, 1, no_inst}}};
  kernel.stores = {{2, 2}};
  cuda::Target target;
  const auto set_size = [&](std::int64_t size) {
    test_case.geometry.accesses.resize(3);
    for (std::size_t a = 0; a < 3; ++a) test_case.geometry.extent[a] = size;
    test_case.geometry.accesses[0].stride = {size, 0, 1}, test_case.geometry.accesses[1].stride = {0, 1, size};
    test_case.geometry.accesses[2].stride = {size, 1, 0};
  };
  const auto bound_at = [&](std::int64_t size, std::optional<cuda::GemmAlgorithm> algorithm = {}) {
    set_size(size);
    return cuda::generate(kernel, {}, target)->bind(test_case.geometry, 0, true, algorithm);
  };
  const auto algorithms_at = [&](std::int64_t size) {
    set_size(size);
    return cuda::generate(kernel, {}, target)->product(test_case.geometry, 0).algorithms;
  };
  CHECK(bound_at(4096).call == nullptr);  // not by default
  if (!cuda::has_cublaslt()) SINTER_SKIP("no cuBLASLt");
  target.uses_library = true;
  CHECK(bound_at(256).call == nullptr);
  const cuda::LaunchList plain = bound_at(4096);
  CHECK(plain.call != nullptr);
  CHECK(plain.launches.empty());
  CHECK(plain.algorithm == cuda::GemmAlgorithm::library);
  using Algorithms = std::vector<cuda::GemmAlgorithm>;
  CHECK(algorithms_at(512) == Algorithms{cuda::GemmAlgorithm::fma});
  CHECK(algorithms_at(896) == Algorithms{cuda::GemmAlgorithm::fma, cuda::GemmAlgorithm::library});
  CHECK(algorithms_at(4096) == Algorithms{cuda::GemmAlgorithm::library, cuda::GemmAlgorithm::fma});
  CHECK(bound_at(4096, cuda::GemmAlgorithm::fma).call == nullptr);
  CHECK(bound_at(896, cuda::GemmAlgorithm::library).call != nullptr);
  CHECK(bound_at(256, cuda::GemmAlgorithm::library).algorithm ==
        cuda::GemmAlgorithm::fma);  // not open: as the generator prefers
  kernel.body.push_back({.prim = Prim::tanh, .dtype = DType::f32, .args = {2, no_inst, no_inst}});
  kernel.stores[0].value = 3;
  const cuda::LaunchList followed = bound_at(4096);
  CHECK(followed.call != nullptr);
  CHECK(followed.entries == std::vector<std::string>{"sinter_finish"});
  CHECK(followed.workspace_bytes == 4096u * 4096u * 4u);
}

TEST_CASE("a kernel with more accesses than a parameter holds is declined, with the reason") {
  KernelCase test_case = doubled(8);
  for (int i = 0; i < 100; ++i) test_case.kernel.accesses.push_back(test_case.kernel.accesses[0]);
  std::string why;
  CHECK(cuda::generate(test_case.kernel, {}, {}, &why) == nullptr);
  CHECK(why.find("102 accesses") != std::string::npos);
  // 64 accesses of one axis fit what every driver takes; of seven, not all do.
  test_case.kernel.accesses.resize(64);
  CHECK(cuda::most_parameter_bytes(test_case.kernel) <= 4096);
  for (int axis = 1; axis < 7; ++axis) test_case.kernel.axes.push_back(AxisRole::parallel);
  for (Access& access : test_case.kernel.accesses)
    for (int axis = 0; axis < 7; ++axis) access.stride[static_cast<std::size_t>(axis)] = StrideClass::any;
  CHECK(cuda::most_parameter_bytes(test_case.kernel) > 4096);
}

TEST_CASE("tensor maps count as parameters of a product") {
  KernelCase test_case = doubled(8);
  const std::size_t without = cuda::most_parameter_bytes(test_case.kernel);
  test_case.kernel.kind = KernelKind::contraction;
  CHECK(cuda::most_parameter_bytes(test_case.kernel) >= without + 2 * 128);
}
#endif
