// Squares of 16 bytes, pairs of vectors, and what is left of a block at its edges.
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
  constexpr unsigned vectors = 16 / size;  // `count`, as arrays have it
  __m128i now[vectors], next[vectors];
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
void pack_elements(char* to, std::int64_t pitch, const TileSource& source, std::int64_t first_row,
                   std::int64_t first_column) {
  for (std::int64_t r = first_row; r < source.rows; ++r) {
    char* const row = to + r * pitch;
    const char* const from = source.from + r * source.row_stride;
    for (std::int64_t c = first_column; c < source.columns; ++c)
      std::memcpy(row + c * size, from + c * source.column_stride, size);
  }
}

/// Neighbours along its rows' axis.
template <int size>
void pack_transposed(char* to, std::int64_t pitch, const TileSource& source) {
  std::int64_t rows = 0, columns = 0;  // of whole squares
#ifdef __SSE2__
  constexpr int count = 16 / size;
  rows = source.rows / count * count;
  columns = source.columns / count * count;
  constexpr std::int64_t ahead = 32;  // columns, each on a page of its own
  for (std::int64_t c = 0; c < columns; c += count) {
    if (c + ahead + count <= columns)
      for (std::int64_t i = c + ahead; i < c + ahead + count; ++i)
        _mm_prefetch(source.from + i * source.column_stride, _MM_HINT_T0);
    for (std::int64_t r = 0; r < rows; r += count)
      pack_square<size>(to + r * pitch + c * size, pitch, source.from + c * source.column_stride + r * size,
                        source.column_stride);
  }
#endif
  pack_elements<size>(to, pitch, source, 0, columns);
  TileSource left = source;
  left.columns = columns;
  pack_elements<size>(to, pitch, left, rows, 0);
}

/// Every second element of rows of 4-byte elements. Reads nothing behind the last of them.
inline void pack_every_second(char* to, std::int64_t pitch, const TileSource& source) {
  std::int64_t columns = 0;
#ifdef __SSE2__
  columns = source.columns > 0 ? (source.columns - 1) / 4 * 4 : 0;
  for (std::int64_t r = 0; r < source.rows; ++r) {
    char* const row = to + r * pitch;
    const char* const from = source.from + r * source.row_stride;
    for (std::int64_t c = 0; c < columns; c += 4) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + c * 8));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + c * 8 + 16));
      const __m128 even = _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), 0x88);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row + c * 4), _mm_castps_si128(even));
    }
  }
#endif
  pack_elements<4>(to, pitch, source, 0, columns);
}

template <int size>
void pack_tile_of(char* to, std::int64_t pitch, const TileSource& source) {
  if (source.row_stride == size && source.column_stride != size) pack_transposed<size>(to, pitch, source);
  else if (size == 4 && source.column_stride == 8) pack_every_second(to, pitch, source);
  else pack_elements<size>(to, pitch, source, 0, 0);
}

}  // namespace base_detail

SINTER_DECL void pack_tile(char* to, std::int64_t pitch, const TileSource& source) {
  if (source.size == 1) base_detail::pack_tile_of<1>(to, pitch, source);
  else if (source.size == 2) base_detail::pack_tile_of<2>(to, pitch, source);
  else if (source.size == 4) base_detail::pack_tile_of<4>(to, pitch, source);
  else base_detail::pack_tile_of<8>(to, pitch, source);
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
