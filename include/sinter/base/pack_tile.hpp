// Transposes a block of elements into memory of its own: squares of 16 bytes go through registers; and copies its rows
// from there. Knows bytes and strides; no tensors.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
/// A block of elements of 1, 2, 4 or 8 bytes that are neighbours along its rows' axis: row r, column c lies at
/// `from + c * column_stride + r * size`.
struct TileSource {
  const char* from = nullptr;
  std::int64_t column_stride = 0;  // bytes
  std::int64_t rows = 0, columns = 0;
  int size = 4;
};

/// Writes row r, column c to `to + r * row_stride + c * size`.
void pack_tile(char* to, std::int64_t row_stride, const TileSource& source);

/// Where rows are copied: what nobody reads soon goes past the caches.
enum class CopyTarget : std::uint8_t { caches, memory };
/// `from` is a multiple of 16.
void copy_row(char* to, const char* from, std::int64_t bytes, CopyTarget target);
/// After the last row that went to memory: other threads see them from then on.
void finish_rows();

SINTER_NAMESPACE_END
