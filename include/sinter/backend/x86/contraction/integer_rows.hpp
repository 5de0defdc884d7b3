// Products of few rows of bytes: each row of B is read once, as it lies in memory, and nothing of it is laid out anew.
#pragma once

#include <sinter/base/config.hpp>

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_integer_detail {

/// More rows of A pay for panels of B.
inline constexpr int most_direct_rows = 4;
inline constexpr int direct_columns = 4;

/// Rows of A by some rows of B. Sums are [most_direct_rows + 1][direct_columns].
struct DirectBlock {
  const std::byte* a;     // zeros up to whole steps of 64
  std::int64_t a_stride;  // bytes
  const std::byte* b;
  std::int64_t depth;  // and bytes from one row of B to the next
};
using DirectSums = std::array<std::array<std::int32_t, direct_columns>, most_direct_rows + 1>;
using DirectDots = void (*)(const DirectBlock&, DirectSums&);

/// Modulo 2^32.
SINTER_AVX2 inline std::int32_t sum_of_lanes(__m256i lanes) {
  const __m128i halves = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  const __m128i pairs = _mm_add_epi32(halves, _mm_shuffle_epi32(halves, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0xB1)));
}

/// Unsigned bytes of A by signed ones of B, which those of 0 to 255 become where `flips` says so.
template <int rows, int columns, bool flips>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void direct_vnni(const DirectBlock& block,
                                                                                 DirectSums& sums) {
  __m512i totals[std::size_t{rows}][std::size_t{columns}];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) totals[r][c] = _mm512_setzero_si512();
  for (std::int64_t at = 0; at < block.depth; at += 64) {
    const std::int64_t left = block.depth - at;
    const __mmask64 mask = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    __m512i b[std::size_t{columns}];
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      b[c] = _mm512_maskz_loadu_epi8(mask, block.b + c * block.depth + at);
      if constexpr (flips) b[c] = _mm512_xor_si512(b[c], _mm512_set1_epi8(-128));
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512i a = _mm512_loadu_si512(block.a + r * block.a_stride + at);
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) totals[r][c] = _mm512_dpbusd_epi32(totals[r][c], a, b[c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c)
      sums[std::size_t(r)][std::size_t(c)] =
          sum_of_lanes(_mm256_add_epi32(_mm512_maskz_extracti64x4_epi64(0xF, totals[r][c], 0),
                                        _mm512_maskz_extracti64x4_epi64(0xF, totals[r][c], 1)));
}

/// A has 16 bits, and whole steps of 16 are read.
template <int rows, int columns, bool is_b_signed>
SINTER_AVX2 void direct_avx2(const DirectBlock& block, DirectSums& sums) {
  __m256i totals[std::size_t{rows}][std::size_t{columns}];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) totals[r][c] = _mm256_setzero_si256();
  for (std::int64_t at = 0; at + 16 <= block.depth; at += 16)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.b + c * block.depth + at));
      const __m256i b = is_b_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const std::byte* const a = block.a + r * block.a_stride + 2 * at;
        const __m256i products = _mm256_madd_epi16(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
        totals[r][c] = _mm256_add_epi32(totals[r][c], products);
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) sums[std::size_t(r)][std::size_t(c)] = sum_of_lanes(totals[r][c]);
}

/// By the number of rows; of direct_columns rows of B, or of one.
template <int columns, bool flips>
DirectDots direct_vnni_dots(int rows) {
  constexpr DirectDots dots[] = {direct_vnni<1, columns, flips>, direct_vnni<2, columns, flips>,
                                 direct_vnni<3, columns, flips>, direct_vnni<4, columns, flips>,
                                 direct_vnni<5, columns, flips>};
  return dots[rows - 1];
}
template <int columns, bool is_b_signed>
DirectDots direct_avx2_dots(int rows) {
  constexpr DirectDots dots[] = {direct_avx2<1, columns, is_b_signed>, direct_avx2<2, columns, is_b_signed>,
                                 direct_avx2<3, columns, is_b_signed>, direct_avx2<4, columns, is_b_signed>};
  return dots[rows - 1];
}

}  // namespace x86_integer_detail
}  // namespace x86
SINTER_NAMESPACE_END
