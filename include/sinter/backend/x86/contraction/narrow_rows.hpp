// Products of few rows of bf16 by a matrix whose rows are read once, as they lie in memory. Sums have the bits that AMX
// tiles give. Knows addresses and strides only.
#pragma once

#include <sinter/backend/x86/contraction/narrow_tile.hpp>

#include <immintrin.h>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_narrow_rows_detail {

/// More rows of A pay for panels of B; fewer do where the columns of B have to be turned.
inline constexpr std::int64_t most_direct_rows = 4, most_direct_columns_rows = 2;
/// Columns of bf16 in a cache line: a panel.
inline constexpr std::int64_t line_columns = narrow_width, line_bytes = line_columns * 2;

/// Some rows of A, widened, by `depth` rows of B. Sums are split: of each line's columns the even ones come first.
struct DirectBlock {
  const float* a;
  std::int64_t a_stride;  // floats
  const std::byte* b;
  std::int64_t b_stride, depth, columns;
  float* sums;
  std::int64_t sums_stride;  // floats, whole lines
};

/// The elements of a line of bf16 as f32.
struct WideLine {
  __m512i even, odd;
};
__attribute__((target("avx512f,avx512bw"))) inline WideLine widen(__m512i line) {
  constexpr __mmask16 every = 0xFFFF;  // GCC 12 warns of the form without a mask
  return {_mm512_maskz_slli_epi32(every, line, 16), _mm512_and_si512(line, _mm512_set1_epi32(-0x10000))};
}

/// Row `k` of B.
template <std::size_t rows, std::size_t lines>
__attribute__((target("avx512f,avx512bw"), always_inline)) inline void add_row(__m512 (&sums)[rows][lines][2],
                                                                               const DirectBlock& block, std::int64_t k,
                                                                               __mmask32 mask) {
  const std::byte* const row = block.b + k * block.b_stride;
#pragma GCC unroll 4
  for (std::size_t l = 0; l < lines; ++l) {
    const WideLine b = widen(_mm512_maskz_loadu_epi16(mask, row + l * line_bytes));
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      const __m512 a = _mm512_set1_ps(block.a[static_cast<std::int64_t>(r) * block.a_stride + k]);
      sums[r][l][0] = _mm512_fmadd_ps(a, _mm512_castsi512_ps(b.even), sums[r][l][0]);
      sums[r][l][1] = _mm512_fmadd_ps(a, _mm512_castsi512_ps(b.odd), sums[r][l][1]);
    }
  }
}

/// One step of k. Even and odd rows of B have sums of their own, which are added to those of the steps before: as
/// tdpbf16ps does it. `mask` is for each of `lines`.
template <std::size_t rows, std::size_t lines>
__attribute__((target("avx512f,avx512bw"), noinline)) inline void add_step(const DirectBlock& block, __mmask32 mask) {
  __m512 even[rows][lines][2], odd[rows][lines][2];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (std::size_t l = 0; l < lines; ++l)
      even[r][l][0] = even[r][l][1] = odd[r][l][0] = odd[r][l][1] = _mm512_setzero_ps();
  std::int64_t k = 0;
  for (; k + 1 < block.depth; k += 2) {
    add_row(even, block, k, mask);
    add_row(odd, block, k + 1, mask);
  }
  if (k < block.depth) add_row(even, block, k, mask);
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (std::size_t l = 0; l < lines; ++l)
#pragma GCC unroll 2
      for (std::size_t half = 0; half < 2; ++half) {
        float* const at = block.sums + static_cast<std::int64_t>(r) * block.sums_stride +
                          static_cast<std::int64_t>(l) * line_columns + 16 * half;
        _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), _mm512_add_ps(even[r][l][half], odd[r][l][half])));
      }
}

template <std::size_t rows, std::size_t lines>
inline void add_rows(const DirectBlock& block) {
  constexpr auto at_once = static_cast<std::int64_t>(lines) * line_columns;
  for (std::int64_t first = 0; first < block.depth; first += narrow_step) {
    DirectBlock step = block;
    step.a += first;
    step.b += first * block.b_stride;
    step.depth = std::min(narrow_step, block.depth - first);
    std::int64_t column = 0;
    const auto skip = [&](std::int64_t columns) {
      column += columns;
      step.b += columns * 2;
      step.sums += columns;
    };
    for (; column + at_once <= block.columns; skip(at_once)) add_step<rows, lines>(step, ~__mmask32{0});
    for (; column + line_columns <= block.columns; skip(line_columns)) add_step<rows, 1>(step, ~__mmask32{0});
    if (const std::int64_t rest = block.columns - column; rest != 0)
      add_step<rows, 1>(step, static_cast<__mmask32>((std::uint64_t{1} << rest) - 1));
  }
}

// ---- B of which columns, not rows, have neighbours side by side

/// 16 vectors of 16 pairs, transposed: interleaving their first half with their second four times does that.
__attribute__((target("avx512f"), always_inline)) inline void transpose_pairs(__m512i (&v)[16]) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  __m512i next[16];
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      next[2 * i] = _mm512_permutex2var_epi32(v[i], low, v[i + 8]);
      next[2 * i + 1] = _mm512_permutex2var_epi32(v[i], high, v[i + 8]);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) v[i] = next[i];
  }
}

/// One step of k of at most 16 columns. A has zeros up to whole steps.
template <std::size_t rows>
__attribute__((target("avx512f,avx512bw"), noinline)) inline void add_step_of_columns(const DirectBlock& block) {
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << block.depth) - 1);
  __m512i pairs[16];
#pragma GCC unroll 16
  for (std::int64_t c = 0; c < 16; ++c)
    pairs[c] = _mm512_maskz_loadu_epi16(c < block.columns ? mask : 0, block.b + c * block.b_stride);
  transpose_pairs(pairs);
  __m512 even[rows], odd[rows];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r) even[r] = odd[r] = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (std::size_t p = 0; p < 16; ++p) {
    const WideLine b = widen(pairs[p]);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      const float* const a = block.a + static_cast<std::int64_t>(r) * block.a_stride + 2 * p;
      even[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[0]), _mm512_castsi512_ps(b.even), even[r]);
      odd[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[1]), _mm512_castsi512_ps(b.odd), odd[r]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r) {
    float* const at = block.sums + static_cast<std::int64_t>(r) * block.sums_stride;
    _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), _mm512_add_ps(even[r], odd[r])));
  }
}

template <std::size_t rows>
inline void add_columns(const DirectBlock& block) {
  for (std::int64_t column = 0; column < block.columns; column += narrow_strip)
    for (std::int64_t first = 0; first < block.depth; first += narrow_step) {
      DirectBlock step = block;
      step.a += first;
      step.b += column * block.b_stride + first * 2;
      step.depth = std::min(narrow_step, block.depth - first);
      step.columns = block.columns - column;
      step.sums += column;
      add_step_of_columns<rows>(step);
    }
}

/// Adds to the sums of 1 to 4 rows. Subnormal numbers count as zeros, as for tiles.
inline void add_direct(const DirectBlock& block, std::int64_t rows, bool by_columns) {
  constexpr unsigned subnormals_are_zeros = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | subnormals_are_zeros);
  if (rows == 1) by_columns ? add_columns<1>(block) : add_rows<1, 4>(block);
  else if (rows == 2) by_columns ? add_columns<2>(block) : add_rows<2, 2>(block);
  else if (rows == 3) by_columns ? add_columns<3>(block) : add_rows<3, 1>(block);
  else by_columns ? add_columns<4>(block) : add_rows<4, 1>(block);
  _mm_setcsr(before);
}

/// Columns of a line in order.
__attribute__((target("avx512f"))) inline void join_line(float* to, const float* split) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  const __m512 even = _mm512_load_ps(split), odd = _mm512_load_ps(split + 16);
  _mm512_store_ps(to, _mm512_permutex2var_ps(even, low, odd));
  _mm512_store_ps(to + 16, _mm512_permutex2var_ps(even, high, odd));
}

}  // namespace x86_narrow_rows_detail
}  // namespace x86
SINTER_NAMESPACE_END
