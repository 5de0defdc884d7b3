// Products by `wgmma`, without a GPU: where the algorithm is open, what its launches say, and that every variant of the
// text compiles for sm_90a.
#include <sinter/sinter.hpp>

#include "catch.hpp"

#ifdef SINTER_CUDA
#include <sinter/backend/cuda/backend.hpp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/source/source.hpp>

#include <algorithm>
#include <string>

using namespace sinter;
using cuda::GemmAlgorithm;

namespace {
constexpr auto zero = StrideClass::zero, unit = StrideClass::unit, any = StrideClass::any;

struct Layout {
  bool is_left_across = false, is_right_across = false;
};

/// batches x rows x columns, summed over depth; what follows is added by the cases.
struct WgmmaCase {
  Kernel kernel;
  BoundGeometry geometry;
  WgmmaCase(DType dtype, std::int64_t batches, std::int64_t rows, std::int64_t columns, std::int64_t depth,
            Layout layout = {}, DType result = DType::f32) {
    kernel.kind = KernelKind::contraction;
    kernel.precision = MatmulPrecision::tf32;
    for (AxisRole role : {AxisRole::parallel, AxisRole::parallel, AxisRole::parallel, AxisRole::reduced})
      kernel.axes.push_back(role);
    kernel.operands = {{dtype, false}, {dtype, false}, {result, true}};
    kernel.accesses = {{0, {any, any, zero, unit}}, {1, {any, zero, any, unit}}, {2, {any, any, unit, zero}}};
    if (layout.is_left_across) kernel.accesses[0].stride = {any, unit, zero, any};
    if (layout.is_right_across) kernel.accesses[1].stride = {any, zero, unit, any};
    geometry.extent = {batches, rows, columns, depth};
    geometry.accesses.resize(3);
    geometry.accesses[0].stride = {rows * depth, depth, 0, 1};
    if (layout.is_left_across) geometry.accesses[0].stride = {rows * depth, 1, 0, rows};
    geometry.accesses[1].stride = {columns * depth, 0, depth, 1};
    if (layout.is_right_across) geometry.accesses[1].stride = {columns * depth, 0, 1, columns};
    geometry.accesses[2].stride = {rows * columns, columns, 1, 0};
    for (std::uint16_t access : {0, 1}) add({.prim = Prim::load, .dtype = DType::f32, .access = access});
    stored = add({.prim = Prim::contract, .dtype = DType::f32, .args = {0, 1, no_inst}});
  }
  InstId add(const Inst& inst) {
    kernel.body.push_back(inst);
    return static_cast<InstId>(kernel.body.size() - 1);
  }
  /// Adds an operand that varies over these of batches, rows and columns.
  void plus(DType dtype, bool by_batch, bool by_row, bool by_column) {
    const auto access = static_cast<std::uint16_t>(kernel.accesses.size());
    kernel.operands.push_back({dtype, false});
    const std::int64_t rows = geometry.extent[1], columns = geometry.extent[2], across = by_column ? columns : 1;
    kernel.accesses.push_back({access, {by_batch ? any : zero, by_row ? any : zero, by_column ? unit : zero, zero}});
    geometry.accesses.emplace_back();
    geometry.accesses.back().stride = {by_batch ? (by_row ? rows : 1) * across : 0, by_row ? across : 0, by_column, 0};
    const InstId loaded = add({.prim = Prim::load, .dtype = DType::f32, .access = access});
    stored = add({.prim = Prim::add, .dtype = DType::f32, .args = {stored, loaded, no_inst}});
  }
  void then(Prim prim) { stored = add({.prim = prim, .dtype = DType::f32, .args = {stored, no_inst, no_inst}}); }

  std::shared_ptr<const cuda::GeneratedKernel> generated(bool has_bulk_copies = true) {
    kernel.stores = {{2, stored}};
    cuda::Target target;
    target.has_bulk_copies = has_bulk_copies;
    return cuda::generate(kernel, {}, target);
  }
  bool is_open(bool has_bulk_copies = true, bool is_aligned = true) {
    const std::vector<GemmAlgorithm> found = generated(has_bulk_copies)->product(geometry, 0, is_aligned).algorithms;
    return std::find(found.begin(), found.end(), GemmAlgorithm::wgmma) != found.end();
  }
  cuda::LaunchList list() { return generated()->bind(geometry, 0, true, GemmAlgorithm::wgmma); }

  InstId stored = no_inst;
};
}  // namespace

TEST_CASE("wgmma is open where the bulk copy engine can read both operands as they lie in memory") {
  CHECK(WgmmaCase(DType::bf16, 2, 256, 256, 128).is_open());
  CHECK(WgmmaCase(DType::f16, 1, 256, 256, 128).is_open());
  CHECK(WgmmaCase(DType::f32, 1, 256, 256, 128).is_open());
  CHECK(WgmmaCase(DType::bf16, 1, 255, 257, 128).is_open());
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 63, 256, 128).is_open());
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 256, 63, 128).is_open());
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 256, 256, 128).is_open(false));
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 256, 256, 128).is_open(true, false));
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 256, 256, 132).is_open());  // rows of no whole 16 bytes
  CHECK(WgmmaCase(DType::f32, 1, 256, 256, 132).is_open());
  CHECK_FALSE(WgmmaCase(DType::bf16, 1, 256, 260, 128, {false, true}).is_open());
  CHECK(WgmmaCase(DType::bf16, 1, 264, 264, 100, {true, true}).is_open());
  CHECK_FALSE(WgmmaCase(DType::f32, 1, 256, 256, 128, {true, false}).is_open());  // TF32 only along the reduced axis
  CHECK_FALSE(WgmmaCase(DType::f32, 1, 256, 256, 128, {false, true}).is_open());
  WgmmaCase precise(DType::f32, 1, 256, 256, 128);
  precise.kernel.precision = MatmulPrecision::f32;
  CHECK_FALSE(precise.is_open());
  WgmmaCase shifted(DType::bf16, 1, 256, 256, 128);
  shifted.geometry.accesses[0].offset = 4;
  CHECK_FALSE(shifted.is_open());
  shifted.geometry.accesses[0].offset = 8;
  CHECK(shifted.is_open());
}

TEST_CASE("wgmma: a comparison leaves out what is known to lose, and the library where it is not asked for") {
  const auto problem = [](WgmmaCase c, bool with_library) {
    return c.generated()->product(c.geometry, 0, true, with_library);
  };
  const auto has = [](const std::vector<GemmAlgorithm>& list, GemmAlgorithm algorithm) {
    return std::find(list.begin(), list.end(), algorithm) != list.end();
  };
  using enum GemmAlgorithm;
  const std::vector<GemmAlgorithm> alone{wgmma}, both{wgmma, tensor_cores};
  CHECK(problem(WgmmaCase(DType::bf16, 1, 2048, 2048, 1024), false).worth_measuring == alone);
  CHECK(problem(WgmmaCase(DType::f32, 3, 512, 512, 1024), false).worth_measuring == alone);
  CHECK(problem(WgmmaCase(DType::bf16, 1, 128, 128, 16384), false).worth_measuring == both);  // two tiles
  const cuda::GemmProblem asked = problem(WgmmaCase(DType::bf16, 1, 2048, 2048, 1024), true),
                          not_asked = problem(WgmmaCase(DType::bf16, 1, 2048, 2048, 1024), false);
  CHECK_FALSE(has(not_asked.algorithms, library));
  CHECK((has(not_asked.algorithms, fma) && has(not_asked.algorithms, tensor_cores)));  // open, where others fail
  CHECK(has(asked.worth_measuring, library) == has(asked.algorithms, library));
  CHECK_FALSE(has(asked.worth_measuring, fma));
  CHECK(asked.text == not_asked.text);  // the key of a stored choice
}

TEST_CASE("wgmma: a launch has tensor maps at the start of its parameter") {
  WgmmaCase c(DType::bf16, 3, 1000, 520, 328, {false, true}, DType::bf16);
  const cuda::LaunchList list = c.list();
  REQUIRE(list.algorithm == GemmAlgorithm::wgmma);
  CHECK(list.needs_alignment);
  REQUIRE(list.launches.size() == 1);
  const cuda::GpuLaunch& launch = list.launches[0];
  CHECK(launch.parameters.size() % 8 == 0);  // the structure is as long as its alignment wants it
  CHECK(launch.block[0] == 384);
  CHECK(launch.grid[0] == 132);  // blocks stay, one for each processor
  REQUIRE(launch.tensor_maps.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const cuda::ParameterPatch& patch = launch.patches[i];
    CHECK(patch.kind == cuda::ParameterPatch::Kind::tensor_map);
    CHECK(patch.index == i);
    CHECK(patch.at == 128 * i);
  }
  const cuda::TensorMap &left = launch.tensor_maps[0], &right = launch.tensor_maps[1];
  CHECK((left.rank == 3 && right.rank == 3));
  CHECK((left.extent[0] == 328 && left.extent[1] == 1000 && left.extent[2] == 3));
  CHECK((left.byte_stride[1] == 656 && left.byte_stride[2] == 656000));
  CHECK((left.box[0] == 64 && left.box[1] == 128 && left.box[2] == 1));
  CHECK((right.extent[0] == 520 && right.extent[1] == 328));
  CHECK((right.box[0] == 64 && right.box[1] == 32));  // half of the tile, for both blocks of a cluster
}

TEST_CASE("wgmma: every variant of the kernel compiles for sm_90a") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP(why.c_str());
  const auto compiles = [](WgmmaCase c) {
    const cuda::LaunchList list = c.list();
    INFO(list.source);
    REQUIRE(list.algorithm == GemmAlgorithm::wgmma);
    CHECK_FALSE(cuda::compile_to_cubin(list.source, "product", "sm_90a").empty());
  };
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool left : {false, true}) compiles({dtype, 1, 4096, 4096, 4096, {left, !left}, dtype});
  {
    WgmmaCase c(DType::bf16, 1, 4096, 4096, 4096, {false, true}, DType::bf16);
    c.plus(DType::bf16, false, false, true);
    c.then(Prim::gelu);
    compiles(c);
  }
  {  // operands of every kind, three row tiles, an odd number of columns, small tiles
    WgmmaCase c(DType::f32, 2, 300, 257, 128);
    c.plus(DType::f32, true, true, true);
    c.plus(DType::bf16, false, true, false);
    c.plus(DType::f16, true, false, true);
    c.plus(DType::f32, true, false, false);
    c.then(Prim::tanh);
    c.plus(DType::bf16, false, true, true);
    compiles(c);
  }
}
#endif
