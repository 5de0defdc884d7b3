// Copies between layouts of host memory, element by element or, where one layout is the other transposed, by tiles.
// Knows shapes and strides; allocates nothing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/pack_tile.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/tensor/shape.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Calls `visit(first, second)` with the offsets in two layouts of the start of each innermost run, in row-major order.
template <class F>
void for_each_row(const Shape& shape, const Strides& first_strides, const Strides& second_strides, F&& visit) {
  if (shape.numel().value() == 0) return;
  std::array<std::int64_t, max_rank> at{};
  int outer = shape.rank() - 1;
  std::int64_t first = 0, second = 0;
  while (true) {
    visit(first, second);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      auto a = as_index(axis);
      first += first_strides[a];
      second += second_strides[a];
      if (++at[a] < shape[axis].value()) break;
      first -= at[a] * first_strides[a];
      second -= at[a] * second_strides[a];
      at[a] = 0;
    }
    if (axis < 0) return;
  }
}

struct SixteenBytes {
  std::uint64_t first, second;
};

/// A plane of two axes: `rows` has the neighbours of `from`, `columns` those of `to`; strides are of the other axis.
template <class T>
struct TransposedPlane {
  const T* from;
  std::int64_t from_stride;
  T* to;
  std::int64_t to_stride, rows, columns;

  static constexpr int size = sizeof(T);
  static constexpr std::int64_t tile_rows = 256 / size, tile_columns = std::max(32, 64 / size);

  /// Columns [begin, end) in units of tiles. A tile goes through memory that stays in the first cache, so that whole
  /// lines are read and written.
  void copy(std::int64_t begin, std::int64_t end, CopyTarget target) const {
    alignas(64) char tile[as_index(tile_rows * tile_columns * size)];
    for (std::int64_t c = begin * tile_columns; c < std::min(columns, end * tile_columns); c += tile_columns)
      for (std::int64_t r = 0; r < rows; r += tile_rows) {
        const std::int64_t tall = std::min(tile_rows, rows - r), wide = std::min(tile_columns, columns - c);
        pack_tile(tile, tile_columns * size,
                  {.from = reinterpret_cast<const char*>(from + c * from_stride + r),
                   .row_stride = size,
                   .column_stride = from_stride * size,
                   .rows = tall,
                   .columns = wide,
                   .size = size});
        for (std::int64_t i = 0; i < tall; ++i)
          copy_row(reinterpret_cast<char*>(to + (r + i) * to_stride + c), tile + i * tile_columns * size, wide * size,
                   target);
      }
    if (target == CopyTarget::memory) finish_rows();
  }
  void copy_in_parallel(CopyTarget target) const {
    constexpr double nanoseconds_per_element = 0.5;
    parallel_for((columns + tile_columns - 1) / tile_columns,
                 nanoseconds_per_element * static_cast<double>(tile_columns * rows),
                 [&](std::int64_t begin, std::int64_t end) { copy(begin, end, target); });
  }
};

/// The last axis that has neighbours in memory; -1: none.
inline int unit_axis(const Shape& shape, const Strides& strides) {
  int axis = shape.rank() - 1;
  while (axis >= 0 && (strides[as_index(axis)] != 1 || shape[axis].value() == 1)) --axis;
  return axis;
}

/// False, and nothing done, where both have their neighbours along one axis or the last axis has none.
template <class T>
bool copy_transposed(const Shape& shape, const T* from, const Strides& from_strides, T* to, const Strides& to_strides) {
  constexpr std::int64_t least_extent = 4;
  const int row = unit_axis(shape, from_strides), column = unit_axis(shape, to_strides);
  if (row < 0 || column < 0 || row == column || std::max(row, column) != shape.rank() - 1) return false;
  const std::int64_t rows = shape[row].value(), columns = shape[column].value();
  if (rows < least_extent || columns < least_extent) return false;
  constexpr std::int64_t cache_bytes = 24'000'000;
  const bool is_large = shape.numel().value() > cache_bytes / static_cast<std::int64_t>(sizeof(T));
  const CopyTarget target = is_large ? CopyTarget::memory : CopyTarget::caches;
  Shape planes = shape;
  planes.set(row, 1);
  planes.set(column, 1);
  for_each_row(planes, from_strides, to_strides, [&](std::int64_t from_offset, std::int64_t to_offset) {
    const TransposedPlane<T> plane{.from = from + from_offset,
                                   .from_stride = from_strides[as_index(column)],
                                   .to = to + to_offset,
                                   .to_stride = to_strides[as_index(row)],
                                   .rows = rows,
                                   .columns = columns};
    plane.copy_in_parallel(target);
  });
  return true;
}

/// Allocates nothing: results of a warm call enter strided places by it.
template <class T>
void copy_elements(const Shape& shape, const T* from, const Strides& from_strides, T* to, const Strides& to_strides) {
  // T is a size: elements are of other types, and only their bytes are copied.
  if (shape.rank() == 0) {
    std::memcpy(to, from, sizeof(T));
    return;
  }
  if constexpr (sizeof(T) <= sizeof(std::uint64_t))
    if (copy_transposed(shape, from, from_strides, to, to_strides)) return;
  auto last = as_index(shape.rank() - 1);
  std::int64_t n = shape[-1].value(), from_step = from_strides[last], to_step = to_strides[last];
  for_each_row(shape, from_strides, to_strides, [&](std::int64_t from_offset, std::int64_t to_offset) {
    const T* source = from + from_offset;
    T* target = to + to_offset;
    if (from_step == 1 && to_step == 1) std::memcpy(target, source, as_index(n) * sizeof(T));
    else
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(target + i * to_step, source + i * from_step, sizeof(T));
  });
}

inline void copy_between(const Type& type, const void* from, const Strides& from_strides, void* to,
                         const Strides& to_strides) {
  switch (size_of(type.dtype)) {
    case 1:
      copy_elements(type.shape, static_cast<const std::uint8_t*>(from), from_strides, static_cast<std::uint8_t*>(to),
                    to_strides);
      break;
    case 2:
      copy_elements(type.shape, static_cast<const std::uint16_t*>(from), from_strides, static_cast<std::uint16_t*>(to),
                    to_strides);
      break;
    case 4:
      copy_elements(type.shape, static_cast<const std::uint32_t*>(from), from_strides, static_cast<std::uint32_t*>(to),
                    to_strides);
      break;
    case 16:
      copy_elements(type.shape, static_cast<const SixteenBytes*>(from), from_strides, static_cast<SixteenBytes*>(to),
                    to_strides);
      break;
    default:
      copy_elements(type.shape, static_cast<const std::uint64_t*>(from), from_strides, static_cast<std::uint64_t*>(to),
                    to_strides);
      break;
  }
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
