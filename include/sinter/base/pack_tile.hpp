// Packs a block of elements into rows of its own: transposed, squares of 16 bytes go through registers; and copies such
// rows. Knows bytes and strides; no tensors.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
/// A block of elements of 1, 2, 4 or 8 bytes: row r, column c lies at `from + r * row_stride + c * column_stride`.
struct TileSource {
  const char* from = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;  // bytes
  std::int64_t rows = 0, columns = 0;
  int size = 4;
};

/// Writes row r, column c to `to + r * pitch + c * size`.
void pack_tile(char* to, std::int64_t pitch, const TileSource& source);

/// Where rows are copied: what nobody reads soon goes past the caches.
enum class CopyTarget : std::uint8_t { caches, memory };
/// `from` is a multiple of 16.
void copy_row(char* to, const char* from, std::int64_t bytes, CopyTarget target);
/// After the last row that went to memory: other threads see them from then on.
void finish_rows();

SINTER_NAMESPACE_END
