// Squares of 16 bytes, and what is left of a block at its edges.
#pragma once

#include <sinter/base/pack_tile.hpp>

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

SINTER_NAMESPACE_BEGIN
namespace base_detail {

#ifdef __SSE2__
template <int size>
__m128i interleave_low(__m128i a, __m128i b) {
  if constexpr (size == 1) return _mm_unpacklo_epi8(a, b);
  else if constexpr (size == 2) return _mm_unpacklo_epi16(a, b);
  else if constexpr (size == 4) return _mm_unpacklo_epi32(a, b);
  else return _mm_unpacklo_epi64(a, b);
}
template <int size>
__m128i interleave_high(__m128i a, __m128i b) {
  if constexpr (size == 1) return _mm_unpackhi_epi8(a, b);
  else if constexpr (size == 2) return _mm_unpackhi_epi16(a, b);
  else if constexpr (size == 4) return _mm_unpackhi_epi32(a, b);
  else return _mm_unpackhi_epi64(a, b);
}

/// 16 / size columns by as many rows. Interleaving the first half of the vectors with the second transposes after as
/// many rounds as their number has bits.
template <int size>
void pack_square(char* to, std::int64_t row_stride, const char* from, std::int64_t column_stride) {
  constexpr int count = 16 / size;
  __m128i now[count], next[count];
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) now[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * column_stride));
#pragma GCC unroll 4
  for (int round = 1; round < count; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) {
      next[2 * i] = interleave_low<size>(now[i], now[i + count / 2]);
      next[2 * i + 1] = interleave_high<size>(now[i], now[i + count / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) now[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * row_stride), now[i]);
}
#endif

template <int size>
void pack_elements(char* to, std::int64_t row_stride, const TileSource& source, std::int64_t first_row,
                   std::int64_t first_column) {
  for (std::int64_t c = first_column; c < source.columns; ++c)
    for (std::int64_t r = first_row; r < source.rows; ++r)
      std::memcpy(to + r * row_stride + c * size, source.from + c * source.column_stride + r * size, size);
}

template <int size>
void pack_tile_of(char* to, std::int64_t row_stride, const TileSource& source) {
  std::int64_t rows = 0, columns = 0;  // of whole squares
#ifdef __SSE2__
  constexpr int count = 16 / size;
  rows = source.rows / count * count;
  columns = source.columns / count * count;
  for (std::int64_t c = 0; c < columns; c += count)
    for (std::int64_t r = 0; r < rows; r += count)
      pack_square<size>(to + r * row_stride + c * size, row_stride, source.from + c * source.column_stride + r * size,
                        source.column_stride);
#endif
  pack_elements<size>(to, row_stride, source, 0, columns);
  TileSource left = source;
  left.columns = columns;
  pack_elements<size>(to, row_stride, left, rows, 0);
}

}  // namespace base_detail

SINTER_DECL void pack_tile(char* to, std::int64_t row_stride, const TileSource& source) {
  if (source.size == 1) base_detail::pack_tile_of<1>(to, row_stride, source);
  else if (source.size == 2) base_detail::pack_tile_of<2>(to, row_stride, source);
  else if (source.size == 4) base_detail::pack_tile_of<4>(to, row_stride, source);
  else base_detail::pack_tile_of<8>(to, row_stride, source);
}

SINTER_DECL void copy_row(char* to, const char* from, std::int64_t bytes, CopyTarget target) {
#ifdef __SSE2__
  if (target == CopyTarget::memory &&
      (reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(bytes)) % 16 == 0) {
    for (std::int64_t at = 0; at < bytes; at += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
    return;
  }
#endif
  static_cast<void>(target);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

SINTER_DECL void finish_rows() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

SINTER_NAMESPACE_END
