// Kernels that read an operand across its rows (a transposed one), or every second element of them (a window with a
// stride): the work is cut into tiles, and of each tile such operands are first packed into rows, so that the compiled
// loop reads all of them in whole vectors. What is decided here follows from extents and strides alone, and changes no
// value.
#pragma once

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/kernel/loop_nest/binding.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstdint>
#include <memory>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// How the axes of a kernel are cut.
struct TilePlan {
  std::uint64_t packed = 0;                       // accesses, one bit each
  bool is_transposed = false;                     // some of them have their neighbours along `rows`
  bool rows_are_reduced = false;                  // `rows` is a reduced axis: each tile has all of it
  NestBinding::Axis rows;                         // the axis that a tile's rows count, with those that joined it
  std::int64_t columns = 1;                       // points of the vector axis, with those that joined it
  SmallVector<NestBinding::Axis, max_axes> rest;  // outermost first
  std::int64_t tile_rows = 1, tile_columns = 1;   // of a whole tile
  double nanoseconds = 0;                         // all of it, by one thread
};

/// Nothing where there is no such operand, or too little to gain.
std::optional<TilePlan> plan_tiles(const NestBinder& binder, const BoundGeometry& geometry,
                                   double nanoseconds_per_element);

/// The kernel that runs inside a tile: the packed accesses are rows.
Kernel kernel_of_tile(const Kernel& kernel, const TilePlan& plan);

/// `code` is that of kernel_of_tile(kernel, plan).
std::unique_ptr<Launch> make_tiled_launch(std::shared_ptr<const LoopCode> code, const Kernel& kernel,
                                          const TilePlan& plan, const BoundGeometry& geometry, Streaming streaming);

}  // namespace x86
SINTER_NAMESPACE_END
