// Panel copies: rows as they are, rows transposed in 8x8 (f32) or 4x4 (f64) blocks of AVX registers, or one by one.
#pragma once

#include <sinter/backend/x86/contraction/pack.hpp>

#include <sinter/base/index.hpp>

#include <immintrin.h>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_pack_detail {

/// The copy in question; strides in bytes.
struct Panel {
  std::byte* to;
  const std::byte* from;
  std::int64_t k_extent, columns, width, k_stride, column_stride;
};

/// Unit column stride. Rows lie far apart, where the processor does not prefetch by itself.
SINTER_AVX2 inline void copy_rows(const Panel& p, std::int64_t element) {
  constexpr std::int64_t vector = 32, line = 64, rows_ahead = 16;
  const std::int64_t used = p.columns * element, all = p.width * element, whole = used / vector * vector;
  // What is left of a row is read under a mask, and the zeros behind it come with it.
  const __m256i in_tail = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>((used - whole) / 4)),
                                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const bool is_in_vectors = all % vector == 0;
  for (std::int64_t k = 0; k < p.k_extent; ++k) {
    std::byte* to = p.to + k * all;
    const std::byte* from = p.from + k * p.k_stride;
    std::int64_t at = 0;
    for (; at < used; at += line)
      _mm_prefetch(reinterpret_cast<const char*>(from + rows_ahead * p.k_stride + at), _MM_HINT_T0);
    for (at = 0; at < whole; at += vector)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + at),
                         _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
    if (at == all) continue;
    if (is_in_vectors) {
      const auto* const tail = reinterpret_cast<const int*>(from + at);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + at), _mm256_maskload_epi32(tail, in_tail));
      for (at += vector; at < all; at += vector)
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + at), _mm256_setzero_si256());
    } else {
      std::memset(to + at, 0, as_index(all - at));
      std::memcpy(to + at, from + at, as_index(used - at));
    }
  }
}

/// Any strides: k in [k_begin, k_end), columns in [column_begin, columns), and zeros up to width.
template <class Word>
inline void copy_elements(const Panel& p, std::int64_t k_begin, std::int64_t k_end, std::int64_t column_begin) {
  for (std::int64_t k = k_begin; k < k_end; ++k) {
    std::byte* to = p.to + k * p.width * static_cast<std::int64_t>(sizeof(Word));
    for (std::int64_t column = column_begin; column < p.columns; ++column)
      std::memcpy(to + column * static_cast<std::int64_t>(sizeof(Word)),
                  p.from + k * p.k_stride + column * p.column_stride, sizeof(Word));
    std::memset(to + p.columns * static_cast<std::int64_t>(sizeof(Word)), 0,
                as_index(p.width - p.columns) * sizeof(Word));
  }
}

/// Eight columns by eight k of floats. Halves of two columns are joined while loading, which leaves in-lane shuffles.
SINTER_AVX2 inline void transpose_block(const float* from, std::int64_t column_stride, float* to, std::int64_t width) {
  __m256 low[4], high[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float *upper = from + i * column_stride, *lower = from + (i + 4) * column_stride;
    low[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper)), _mm_loadu_ps(lower), 1);
    high[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(upper + 4)), _mm_loadu_ps(lower + 4), 1);
  }
#pragma GCC unroll 4
  for (int half = 0; half < 2; ++half) {
    const __m256* in = half == 0 ? low : high;
    __m256 ab0 = _mm256_unpacklo_ps(in[0], in[1]), ab1 = _mm256_unpackhi_ps(in[0], in[1]);
    __m256 cd0 = _mm256_unpacklo_ps(in[2], in[3]), cd1 = _mm256_unpackhi_ps(in[2], in[3]);
    float* row = to + half * 4 * width;
    _mm256_storeu_ps(row, _mm256_shuffle_ps(ab0, cd0, 0x44));
    _mm256_storeu_ps(row + width, _mm256_shuffle_ps(ab0, cd0, 0xEE));
    _mm256_storeu_ps(row + 2 * width, _mm256_shuffle_ps(ab1, cd1, 0x44));
    _mm256_storeu_ps(row + 3 * width, _mm256_shuffle_ps(ab1, cd1, 0xEE));
  }
}

/// Four columns by four k of doubles.
SINTER_AVX2 inline void transpose_block(const double* from, std::int64_t column_stride, double* to,
                                        std::int64_t width) {
#pragma GCC unroll 4
  for (int half = 0; half < 2; ++half) {
    __m256d even = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(from + half * 2)),
                                        _mm_loadu_pd(from + 2 * column_stride + half * 2), 1);
    __m256d odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(from + column_stride + half * 2)),
                                       _mm_loadu_pd(from + 3 * column_stride + half * 2), 1);
    _mm256_storeu_pd(to + half * 2 * width, _mm256_unpacklo_pd(even, odd));
    _mm256_storeu_pd(to + (half * 2 + 1) * width, _mm256_unpackhi_pd(even, odd));
  }
}

/// Unit k stride. Runs of k short enough that their part of the panel stays in L1. The last block of a direction moves
/// back until it is whole: what it copies again is the same.
template <class Element>
inline void transpose(const Panel& p) {
  constexpr std::int64_t block = 32 / sizeof(Element), run = 64;
  if (p.columns < block || p.k_extent < block) return copy_elements<Element>(p, 0, p.k_extent, 0);
  const auto* from = reinterpret_cast<const Element*>(p.from);
  auto* to = reinterpret_cast<Element*>(p.to);
  const std::int64_t stride = p.column_stride / static_cast<std::int64_t>(sizeof(Element));
  for (std::int64_t begin = 0; begin < p.k_extent; begin += run) {
    const std::int64_t end = std::min(begin + run, p.k_extent), next_end = std::min(end + run, p.k_extent);
    for (std::int64_t next = 0; next < p.columns; next += block) {
      const std::int64_t column = std::min(next, p.columns - block);
      for (std::int64_t ahead = column; ahead < column + block; ++ahead)
        for (std::int64_t at = end; at < next_end; at += 64 / static_cast<std::int64_t>(sizeof(Element)))
          _mm_prefetch(reinterpret_cast<const char*>(from + at + ahead * stride), _MM_HINT_T0);
      for (std::int64_t k = begin; k < end; k += block) {
        const std::int64_t first = std::min(k, p.k_extent - block);
        transpose_block(from + first + column * stride, stride, to + first * p.width + column, p.width);
      }
    }
    if (p.columns < p.width) copy_elements<Element>(p, begin, end, p.columns);
  }
}

/// By blocks, of which the last in a direction moves back until it is whole.
template <class Element>
inline void transpose_matrix(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t columns,
                             std::int64_t to_stride, std::int64_t from_stride) {
  constexpr std::int64_t element = sizeof(Element), block = 32 / element;
  if (rows < block || columns < block) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        std::memcpy(to + row * to_stride + column * element, from + row * element + column * from_stride,
                    sizeof(Element));
    return;
  }
  for (std::int64_t r = 0; r < rows; r += block) {
    const std::int64_t row = std::min(r, rows - block);
    for (std::int64_t c = 0; c < columns; c += block) {
      const std::int64_t column = std::min(c, columns - block);
      transpose_block(reinterpret_cast<const Element*>(from + row * element + column * from_stride),
                      from_stride / element, reinterpret_cast<Element*>(to + row * to_stride + column * element),
                      to_stride / element);
    }
  }
}

}  // namespace x86_pack_detail

SINTER_DECL void transpose_elements(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t columns,
                                    std::int64_t to_stride, std::int64_t from_stride, std::int64_t element) {
  using namespace x86_pack_detail;
  if (element == 4) transpose_matrix<float>(to, from, rows, columns, to_stride, from_stride);
  else transpose_matrix<double>(to, from, rows, columns, to_stride, from_stride);
}

SINTER_DECL void pack_panel(std::byte* to, const std::byte* from, std::int64_t k_extent, std::int64_t columns,
                            std::int64_t width, std::int64_t k_stride, std::int64_t column_stride,
                            std::int64_t element) {
  using namespace x86_pack_detail;
  const Panel panel{to, from, k_extent, columns, width, k_stride, column_stride};
  if (column_stride == element || columns == 1) copy_rows(panel, element);
  else if (k_stride == element && element == 4) transpose<float>(panel);
  else if (k_stride == element) transpose<double>(panel);
  else if (element == 4) copy_elements<float>(panel, 0, k_extent, 0);
  else copy_elements<double>(panel, 0, k_extent, 0);
}

}  // namespace x86
SINTER_NAMESPACE_END
