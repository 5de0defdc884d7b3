// Numbers of a product of bf16 for one Geometry: blocks of rows, what is laid out anew and where. Executes nothing.
#pragma once

#include <sinter/backend/x86/contraction/narrow_tile.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/machine/isa.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_narrow_detail {

/// Longer chains would lose more than the rounding of bf16 does.
inline constexpr std::int64_t narrow_sum_block = 4096;  // whole steps
inline constexpr std::int64_t element_bytes = 2;
/// Rows whose sums stay in L1 beside a panel, until they are stored.
inline constexpr std::int64_t rows_at_once = 256;
/// Panels of B that one walk over its rows packs: a line of each row is half of what the processor fetches.
inline constexpr std::int64_t panels_at_once = 2, longest_panels_at_once = 1024;
/// Panels that follow each other by the same rows of A, from which on these are laid out as tiles.
inline constexpr std::int64_t least_panels_of_tiles = 12;
/// Panels that few rows are multiplied by at once: their sums stay in L1.
inline constexpr std::int64_t direct_panels = 32;

/// Numbers for one Geometry. Of the ContractionPlan the shapes, operands and panels are used.
struct NarrowPlan {
  ContractionPlan shape;
  std::int64_t steps = 0;  // along k, the last one filled up
  std::int64_t block_rows = 0, blocks = 0;
  bool packs_a = false, a_is_shared = false, packs_b_per_task = false;
  bool is_direct = false;             // few rows, by B as it lies
  bool is_direct_by_columns = false;  // whose columns have neighbours side by side
  std::int64_t a_stride = 0;          // between rows as products read them
  std::int64_t batches_per_pass = 1;
  double nanoseconds_per_task = 0;

  std::int64_t strip_bytes() const { return steps * narrow_step_bytes; }
  std::int64_t panel_bytes() const { return narrow_width / narrow_strip * strip_bytes(); }
  std::int64_t batch_bytes_of_a() const { return shape.m * a_stride; }
  /// Of a block of rows.
  std::int64_t tile_bytes_of_a() const { return (block_rows + 15) / 16 * steps * 16 * narrow_step * element_bytes; }
  std::int64_t batch_bytes_of_b() const { return shape.panels * panel_bytes(); }
  std::int64_t whole_k() const { return packs_a ? steps * narrow_step : shape.k / narrow_step * narrow_step; }
  bool has_tail() const { return whole_k() < shape.k; }
  /// Packed by a task that needs them.
  std::int64_t panels_per_pack() const { return shape.k <= longest_panels_at_once ? panels_at_once : 1; }
};

NarrowPlan plan_narrow(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry,
                       ProductUnit unit, int threads);

}  // namespace x86_narrow_detail
}  // namespace x86
SINTER_NAMESPACE_END
