// What of a product's nest its driver asks for, and what it decides from the extents: the register tile, the panels,
// the blocks of rows, and whether B is packed. Pure data; runs nothing.
#pragma once

#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// The parts of a contraction kernel. Axes are [batch..., m, n, k].
struct ContractionParts {
  DType dtype = DType::f32;
  std::uint16_t a = 0, b = 0;            // accesses of the operands
  bool b_is_made = false;                // B is not in memory: its owner makes panels of it (PanelSource)
  std::uint16_t store = 0;               // access of the only store, when it stores the contract itself
  bool is_plain = false;                 // ... which is so
  bool needs_epilogue = true;            // false: every geometry can store straight from the micro-kernel
  Kernel epilogue;                       // pointwise over [batch..., m, n]; reads the contract from its last operand
  std::uint16_t sum = 0;                 // the epilogue's access to the contract
  std::vector<std::uint16_t> access_of;  // epilogue access -> kernel access (all but `sum`)
  int tile_rows = 0, tile_columns = 0;   // what the nest's tiles have at most; 0: extents say it
  int streams = 0;                       // operands that the epilogue reads or writes row by row
  bool keeps_packed = false;             // B stays packed from run to run, where it is a constant
};
/// What operands must be in memory.
enum class ProductOperands : std::uint8_t {
  computed,  // what the product is computed in
  bf16,      // widened by their loads; the sums always go through an epilogue
};
/// From the kernel's nest. Nothing where the kernel is not one we can do; `why_declined` (if given) then says why.
std::optional<ContractionParts> split_contraction(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                  std::string* why_declined,
                                                  ProductOperands operands = ProductOperands::computed);

/// One matrix of the product, bytes. `row` is m or k, `column` k or n.
struct MatrixView {
  std::int64_t offset = 0, row_stride = 0, column_stride = 0;
  std::array<std::int64_t, max_axes> batch_stride{};
};
/// What a contraction's access walks; the axes before the last three are those of batches.
MatrixView view_of(const Kernel& kernel, const BoundGeometry& geometry, std::uint16_t access, int row_axis,
                   int column_axis);

/// Indices along the axes of batches.
using BatchIndex = std::array<std::int64_t, max_axes>;

/// How sums are made.
enum class ProductMethod : std::uint8_t {
  tiles,      // micro-kernels
  dots_of_a,  // one column: each row of A with the column of B
  dots_of_b,  // one row, B's columns being its rows in memory: each of them with the row of A
  add_rows,   // one row, B too large for the cache: rows of B, scaled, one after the other
};

/// Numbers for one Geometry.
struct ContractionPlan {
  ProductMethod method = ProductMethod::tiles;
  DType dtype = DType::f32;
  std::int64_t element = 4;
  int batch_axes = 0;
  std::array<std::int64_t, max_axes> batch_extent{};
  std::int64_t batches = 1, m = 0, n = 0, k = 0;
  MatrixView a, b, c;
  bool is_direct = false;   // micro-kernels store into the output
  bool is_swapped = false;  // computed as C^T = B^T A^T, the output's rows being adjacent
  bool packs_b = false;
  bool packs_per_task =
      false;  // each task packs its own panel, which then stays in its core's L2; else all are packed before
  bool keeps_runs_in_task = false;  // a task does all runs of k: making a panel of B costs more than reading sums again
  bool prefetches_a = false, prefetches_b = false;
  bool streams_results = false;                             // the epilogue waits for memory rather than for sums
  bool prepares_next = false;                               // tiles ask for the part of B that comes next
  bool b_is_shared = false;                                 // B is the same in every batch
  std::int64_t width = 1;                                   // columns of a full panel
  std::int64_t panels = 0, tail_columns = 0;                // columns of the last panel
  std::int64_t tiles = 0, tile_rows = 0, taller_tiles = 0;  // the first `taller_tiles` have one row more
  std::int64_t k_run = 0;  // longest run of k at once, in whole blocks; what is left adds to what is there
  std::int64_t blocks = 0, tiles_per_block = 0, tiles_per_epilogue = 1;
  std::int64_t batches_per_pack = 1;  // how many batches' B are packed at once
  std::int64_t pack_bytes = 0;
  AWalk walk = AWalk::unit_k;
  double nanoseconds_per_task = 0;  // a task is one panel of one block

  std::int64_t first_row(std::int64_t tile) const {
    return tile * tile_rows + (tile < taller_tiles ? tile : taller_tiles);
  }
  std::int64_t panel_bytes() const { return width * k * element; }
  std::int64_t columns_of(std::int64_t panel) const { return panel == panels - 1 ? tail_columns : width; }
  BatchIndex batch_index(std::int64_t batch) const;
  std::int64_t batch_offset(const std::array<std::int64_t, max_axes>& stride, const BatchIndex& index) const {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < as_index(batch_axes); ++axis) offset += stride[axis] * index[axis];
    return offset;
  }
  /// Where a run of k that starts at `from` ends. A run stays inside a group.
  std::int64_t end_of_run(std::int64_t from) const;
};
/// A plan that knows its extents and operands, and nothing else.
ContractionPlan sizes_of(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry);
/// When B is packed: if that costs less than reading it where it is, or in any case.
enum class Packing : std::uint8_t { by_cost, always };
ContractionPlan plan_contraction(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry,
                                 Packing packing, Isa isa, int threads);
/// B is to be packed as a whole, once for all runs. False, and nothing has changed: it is not packed, or too large.
bool pack_once(ContractionPlan& plan);

}  // namespace x86
SINTER_NAMESPACE_END
