// The run-time of exported kernels, as source: what programs without Sinter need to call them. KernelExport writes the
// numbers that it reads.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// C++11, to stand in a namespace of its own after the headers that it needs. It has map_code(bytes, size), which gives
/// null where code may not be mapped, has_instructions(), run_loop(), run_product(), run_scatter(), and FloatingPoint,
/// which is to live while they run.
std::string runtime_source(Isa isa);

/// Places of the numbers of a loop: code, then what LoopArgs has, then `loop_access` numbers for each access (operand,
/// offset, strides), then for each axis of the rest its number, its extent and a stride for each access.
enum LoopNumber : std::uint8_t {
  loop_code,
  loop_outer,
  loop_rest_points,
  loop_columns,
  loop_reduced,
  loop_far,
  loop_scratch_stride,
  loop_accesses,
  loop_rest,
  loop_step,  // max_axes of them
  loop_first = loop_step + 10,
};
inline constexpr std::size_t loop_access = 8;

/// Places of the numbers of a product. A view is operand, offset, row stride, column stride, then max_axes strides of
/// batch axes.
enum ProductNumber : std::uint8_t {
  product_code,  // [one row more][last panel]
  product_f64 = 4,
  product_batches,
  product_tiles,
  product_tile_rows,
  product_taller,
  product_block_tiles,
  product_panels,
  product_width,
  product_tail_columns,
  product_tail_lanes,
  product_k,
  product_packs,
  product_direct,
  product_sums_at,  // in scratch; the first 2048 bytes are the micro-kernels' own
  product_panel_at,
  product_loop_at,
  product_extent,  // max_axes of them, of the batch axes; those behind are 1
  product_a = product_extent + 10,
  product_b = product_a + 14,
  product_c = product_b + 14,
  // Without product_direct, of the epilogue:
  product_epilogue = product_c + 14,  // code
  product_row_axis,
  product_scratch_stride,
  product_accesses,
  product_first,  // for each access 8 numbers as those of a loop, then max_axes strides of batch axes
};
inline constexpr std::size_t product_view = 14, product_access = 18;

/// Places of the numbers of a scatter; then for each axis its extent and the target's stride, in bytes, and the numbers
/// of the loops that compute all indices and all values.
enum ScatterNumber : std::uint8_t {
  scatter_points,
  scatter_rank,
  scatter_type,      // a ScatterElement
  scatter_combines,  // a Combine
  scatter_index_bytes,
  scatter_extent,
  scatter_stride,  // bytes from one index to the next
  scatter_target,  // operand
  scatter_offset,
  scatter_operands,
  scatter_values_at,  // in scratch, at whose begin the indices are
  scatter_loop_at,
  scatter_index_loop,
  scatter_value_loop,
  scatter_first,
};
enum class ScatterElement : std::uint8_t { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16 };

}  // namespace x86
SINTER_NAMESPACE_END
