// Products of bf16, added up in f32, of blocks in memory: by AMX tiles, or by vdpbf16ps of AVX512-BF16. Owns the
// layouts that these read, and the permission to use tiles. Knows addresses and strides only.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Columns of a panel of B, and of a block of sums. A panel is two strips of half as many.
inline constexpr std::int64_t narrow_width = 32, narrow_strip = 16;
/// Elements along k that a product takes at once; what is left of k is filled with zeros.
inline constexpr std::int64_t narrow_step = 32;
/// Bytes of the part of a strip that a step reads.
inline constexpr std::int64_t narrow_step_bytes = narrow_step * narrow_strip * 2;

/// Whether the system gives tiles to processes that ask for them. Changes nothing.
bool offers_tiles();
/// Asks the system for tiles, once for the process, whose alternative signal stacks must then have room for them. False
/// where it refuses.
bool request_tiles();
/// Makes the system reserve what the calling thread's tiles need, which it does at their first use.
void touch_tiles();

/// A matrix of 16-bit elements; strides in bytes.
struct NarrowMatrix {
  const std::byte* at = nullptr;
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
};
/// Columns of B as strips: to[column / 16][row / 2][column % 16][row % 2], zeros up to whole steps and whole strips.
/// Needs AVX-512.
void pack_pairs(std::byte* to, const NarrowMatrix& from);
/// Bytes that pack_rows needs beside its result, however long rows are.
inline constexpr std::int64_t pack_rows_bytes = 2 * 4096 / narrow_step * narrow_step_bytes;
/// Rows of A with neighbours side by side, `to_stride` bytes apart, zeros up to whole steps. Needs AVX-512. `scratch`
/// is memory of pack_rows_bytes.
void pack_rows(std::byte* to, std::int64_t to_stride, const NarrowMatrix& from, std::byte* scratch);
/// Rows of A as tiles, each of them adjacent memory: to[row / 16][column / 32][row % 16][column % 32]. Rows have
/// neighbours side by side. What the last tile does not have of rows holds anything, of columns zeros.
void pack_tiles(std::byte* to, const NarrowMatrix& from);
/// The last columns of rows of A, fewer than a step: one step for each row, filled up with zeros.
void pack_tails(std::byte* to, const NarrowMatrix& from);

/// Sums of `rows` rows of A by a panel of B.
struct NarrowBlock {
  const std::byte* a;  // neighbours along k lie side by side
  std::int64_t a_stride;
  std::int64_t a_step = 2 * narrow_step;  // bytes from step to step
  std::int64_t a_tile = 0;                // bytes from 16 rows to the next; 0: as a_stride says
  const std::byte* a_tail;                // the step behind the whole ones, of each row; null: there is none
  const std::byte* b;
  std::int64_t b_strip;  // bytes from strip to strip
  float* sums;           // narrow_width to a row
  std::int64_t rows, columns, steps;
  /// Where rows of sums will be written: a line or less for each row; null: unknown.
  std::byte* c = nullptr;
  std::int64_t c_stride = 0;
};
/// Whatever the rows and columns, one element's sum has one order: by tiles, steps in order; by vdpbf16ps, pairs in
/// order.
void multiply_narrow(const NarrowBlock& block, ProductUnit unit);
/// Sums (narrow_width to a row) as bf16, side by side in each row of `to`. Needs AVX512-BF16.
void store_rounded(std::byte* to, std::int64_t row_stride, const float* sums, std::int64_t rows, std::int64_t columns);

}  // namespace x86
SINTER_NAMESPACE_END
