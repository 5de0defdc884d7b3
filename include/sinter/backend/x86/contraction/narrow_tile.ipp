// The instructions are written as assembly: compilers of different age know them by different types, or not at all.
#pragma once

#include <sinter/backend/x86/contraction/narrow_tile.hpp>

#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/base/index.hpp>

#include <immintrin.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_narrow_tile_detail {

inline constexpr std::int64_t pair_bytes = 4, element_bytes = 2, strip_row_bytes = narrow_strip * pair_bytes,
                              longest_gather = 1 << 27;  // offsets of 16 columns fit i32

inline std::int64_t whole_steps(std::int64_t k) { return (k + narrow_step - 1) / narrow_step * narrow_step; }

// ---- layouts

/// Columns that are adjacent in each row, or one: all strips in one walk. Rows lie far apart, where the processor does
/// not prefetch by itself.
__attribute__((target("avx512f,avx512bw,avx512vl"))) inline void pack_adjacent(std::byte* to, std::int64_t strip_bytes,
                                                                               const NarrowMatrix& from) {
  constexpr std::int64_t rows_ahead = 16, line_columns = 32;
  constexpr __mmask16 every = 0xFFFF;
  for (std::int64_t row = 0; row < from.rows; row += 2, to += strip_row_bytes) {
    const std::byte *even = from.at + row * from.row_stride, *odd = even + from.row_stride;
    for (std::int64_t column = 0; column < from.columns; column += line_columns) {
      _mm_prefetch(reinterpret_cast<const char*>(even + rows_ahead * from.row_stride + column * element_bytes),
                   _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(odd + rows_ahead * from.row_stride + column * element_bytes),
                   _MM_HINT_T0);
    }
    const bool has_odd = row + 1 < from.rows;
    std::byte* pairs = to;
    for (std::int64_t left = from.columns; left > 0; left -= narrow_strip, pairs += strip_bytes) {
      const auto part = left >= narrow_strip ? every : static_cast<__mmask16>((1u << left) - 1);
      const __m256i low = _mm256_maskz_loadu_epi16(part, even);
      const __m256i high = has_odd ? _mm256_maskz_loadu_epi16(part, odd) : _mm256_setzero_si256();
      // GCC 12 warns of the forms without a mask, which leave lanes undefined inside.
      const __m512i upper = _mm512_maskz_slli_epi32(every, _mm512_maskz_cvtepu16_epi32(every, high), 16);
      _mm512_store_si512(pairs, _mm512_or_si512(_mm512_maskz_cvtepu16_epi32(every, low), upper));
      even += narrow_strip * element_bytes;
      odd += narrow_strip * element_bytes;
    }
  }
}

/// Whole pairs of rows that lie side by side, for columns that do not begin at multiples of pairs.
__attribute__((target("avx512f"))) inline void gather_pairs(std::byte* to, const NarrowMatrix& from) {
  const auto mask = static_cast<__mmask16>((1u << from.columns) - 1);
  alignas(64) std::int32_t offsets[narrow_strip];
  for (std::int64_t column = 0; column < narrow_strip; ++column)
    offsets[column] = static_cast<std::int32_t>(column * from.column_stride);
  const __m512i offset = _mm512_load_si512(offsets);
  for (std::int64_t pair = 0; pair < from.rows / 2; ++pair) {
    __m512i pairs = _mm512_setzero_si512();
    __mmask16 left = mask;  // the instruction clears it
    asm("vpgatherdd (%2,%3), %0%{%1%}"
        : "+&v"(pairs), "+&Yk"(left)
        : "r"(from.at + pair * pair_bytes), "v"(offset)
        : "memory");
    _mm512_store_si512(to + pair * strip_row_bytes, pairs);
  }
}

inline void pack_elements(std::byte* to, const NarrowMatrix& from, std::int64_t first_row, std::int64_t rows) {
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    std::byte* const pair = to + row / 2 * strip_row_bytes + row % 2 * element_bytes;
    for (std::int64_t column = 0; column < from.columns; ++column)
      std::memcpy(pair + column * pair_bytes, from.at + row * from.row_stride + column * from.column_stride,
                  element_bytes);
  }
}

/// At most 16 columns, which are not adjacent.
inline void pack_strip(std::byte* to, const NarrowMatrix& from) {
  const std::int64_t whole = from.rows / 2, has_odd = from.rows % 2;
  if (from.row_stride == element_bytes && std::abs(from.column_stride) < longest_gather) {
    // Pairs lie side by side already: a panel of numbers of four bytes.
    if (from.column_stride % pair_bytes != 0) gather_pairs(to, from);
    else if (whole != 0)
      pack_panel(to, from.at, whole, from.columns, narrow_strip, pair_bytes, from.column_stride, pair_bytes);
    if (has_odd != 0) {
      std::memset(to + whole * strip_row_bytes, 0, as_index(strip_row_bytes));
      pack_elements(to, from, from.rows - 1, 1);
    }
  } else {
    std::memset(to, 0, as_index((whole + has_odd) * strip_row_bytes));
    pack_elements(to, from, 0, from.rows);
  }
}

// ---- tiles

/// What ldtilecfg reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
enum TileNumber { first_sum = 0, first_a = 4, first_b = 6 };

/// Tiles for two by two blocks of 16 sums: the upper rows have `upper` of them, the lower ones `lower`.
inline void configure_tiles(std::int64_t upper, std::int64_t lower) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    const bool is_lower = tile == 2 || tile == 3 || tile == first_a + 1;
    const std::int64_t rows = tile >= first_b ? 16 : is_lower ? lower : upper;
    if (rows == 0) continue;
    config.row_bytes[tile] = 64;
    config.rows[tile] = static_cast<std::uint8_t>(rows);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
}
inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

/// Tiles of B are told to be used less soon than those of A, which is faster.
template <int tile>
inline void load_tile(const void* from, std::int64_t stride) {
  if constexpr (tile == 4) asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(from), "r"(stride) : "memory");
  if constexpr (tile == 5) asm volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(from), "r"(stride) : "memory");
  if constexpr (tile == 6) asm volatile("tileloaddt1 (%0,%1,1), %%tmm6" ::"r"(from), "r"(stride) : "memory");
  if constexpr (tile == 7) asm volatile("tileloaddt1 (%0,%1,1), %%tmm7" ::"r"(from), "r"(stride) : "memory");
}
template <int tile>
inline void store_tile(void* to, std::int64_t stride) {
  if constexpr (tile == 0) asm volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(to), "r"(stride) : "memory");
  if constexpr (tile == 1) asm volatile("tilestored %%tmm1, (%0,%1,1)" ::"r"(to), "r"(stride) : "memory");
  if constexpr (tile == 2) asm volatile("tilestored %%tmm2, (%0,%1,1)" ::"r"(to), "r"(stride) : "memory");
  if constexpr (tile == 3) asm volatile("tilestored %%tmm3, (%0,%1,1)" ::"r"(to), "r"(stride) : "memory");
}

/// One step of k: up to two tiles of A by up to two of B.
template <bool has_lower, bool has_right>
inline void multiply_step(const std::byte* a, std::int64_t a_stride, std::int64_t a_tile, const std::byte* b,
                          std::int64_t b_strip) {
  load_tile<first_a>(a, a_stride);
  load_tile<first_b>(b, strip_row_bytes);
  if constexpr (has_right) load_tile<first_b + 1>(b + b_strip, strip_row_bytes);
  if constexpr (has_lower) load_tile<first_a + 1>(a + a_tile, a_stride);
  asm volatile("tdpbf16ps %tmm6, %tmm4, %tmm0");
  if constexpr (has_right) asm volatile("tdpbf16ps %tmm7, %tmm4, %tmm1");
  if constexpr (has_lower) asm volatile("tdpbf16ps %tmm6, %tmm5, %tmm2");
  if constexpr (has_lower && has_right) asm volatile("tdpbf16ps %tmm7, %tmm5, %tmm3");
}

/// At most 32 rows; the tiles are configured for them.
template <bool has_lower, bool has_right>
inline void multiply_tiles(const NarrowBlock& block) {
  constexpr std::int64_t row_bytes = narrow_width * std::int64_t{sizeof(float)},
                         tail_bytes = narrow_step * element_bytes;
  const std::int64_t a_tile = block.a_tile != 0 ? block.a_tile : 16 * block.a_stride;
  float* const lower = block.sums + 16 * narrow_width;
  if (block.c != nullptr)
    for (std::int64_t row = 0; row < block.rows; ++row) __builtin_prefetch(block.c + row * block.c_stride, 1);
  asm volatile("tilezero %tmm0");
  if constexpr (has_right) asm volatile("tilezero %tmm1");
  if constexpr (has_lower) asm volatile("tilezero %tmm2");
  if constexpr (has_lower && has_right) asm volatile("tilezero %tmm3");
  const std::byte *a = block.a, *b = block.b;
  for (std::int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += narrow_step_bytes)
    multiply_step<has_lower, has_right>(a, block.a_stride, a_tile, b, block.b_strip);
  if (block.a_tail != nullptr)
    multiply_step<has_lower, has_right>(block.a_tail, tail_bytes, 16 * tail_bytes, b, block.b_strip);
  store_tile<0>(block.sums, row_bytes);
  if constexpr (has_right) store_tile<1>(block.sums + 16, row_bytes);
  if constexpr (has_lower) store_tile<2>(lower, row_bytes);
  if constexpr (has_lower && has_right) store_tile<3>(lower + 16, row_bytes);
}
inline void multiply_tiles(const NarrowBlock& block) {
  const bool has_right = block.columns > 16;
  if (block.rows > 16) has_right ? multiply_tiles<true, true>(block) : multiply_tiles<true, false>(block);
  else has_right ? multiply_tiles<false, true>(block) : multiply_tiles<false, false>(block);
}

inline NarrowBlock rows_of(const NarrowBlock& all, std::int64_t first, std::int64_t rows) {
  NarrowBlock block = all;
  block.a += all.a_tile != 0 ? first / 16 * all.a_tile : first * all.a_stride;
  if (all.a_tail != nullptr) block.a_tail += first * narrow_step * element_bytes;
  block.sums += first * narrow_width;
  if (all.c != nullptr) block.c += first * all.c_stride;
  block.rows = rows;
  return block;
}

inline void multiply_by_tiles(const NarrowBlock& block) {
  constexpr std::int64_t most_rows = 32;
  const std::int64_t whole = block.rows / most_rows * most_rows, rest = block.rows - whole;
  if (whole != 0) configure_tiles(16, 16);
  for (std::int64_t row = 0; row < whole; row += most_rows) multiply_tiles(rows_of(block, row, most_rows));
  if (rest != 0) {
    configure_tiles(std::min<std::int64_t>(rest, 16), std::max<std::int64_t>(rest - 16, 0));
    multiply_tiles(rows_of(block, whole, rest));
  }
  release_tiles();
}

// ---- vdpbf16ps

template <std::size_t rows>
__attribute__((target("avx512f"))) inline void add_pairs(__m512 (&sums)[rows][2], const std::byte* a,
                                                         std::int64_t a_stride, const std::byte* b,
                                                         std::int64_t b_strip, std::int64_t pairs) {
  for (std::int64_t pair = 0; pair < pairs; ++pair, a += pair_bytes, b += strip_row_bytes) {
    const __m512i left = _mm512_load_si512(b), right = _mm512_load_si512(b + b_strip);
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row) {
      std::int32_t both;
      std::memcpy(&both, a + static_cast<std::int64_t>(row) * a_stride, sizeof both);
      const __m512i repeated = _mm512_set1_epi32(both);
      asm("vdpbf16ps %2, %1, %0" : "+v"(sums[row][0]) : "v"(repeated), "v"(left));
      asm("vdpbf16ps %2, %1, %0" : "+v"(sums[row][1]) : "v"(repeated), "v"(right));
    }
  }
}

template <std::size_t rows>
__attribute__((target("avx512f"))) inline void multiply_vectors(const NarrowBlock& block) {
  __m512 sums[rows][2];
#pragma GCC unroll 12
  for (std::size_t row = 0; row < rows; ++row) sums[row][0] = sums[row][1] = _mm512_setzero_ps();
  add_pairs(sums, block.a, block.a_stride, block.b, block.b_strip, block.steps * narrow_step / 2);
  if (block.a_tail != nullptr)
    add_pairs(sums, block.a_tail, narrow_step * element_bytes, block.b + block.steps * narrow_step_bytes, block.b_strip,
              narrow_step / 2);
#pragma GCC unroll 12
  for (std::size_t row = 0; row < rows; ++row)
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      _mm512_storeu_ps(block.sums + row * as_index(narrow_width) + 16 * half, sums[row][half]);
}

inline void multiply_by_vectors(const NarrowBlock& block) {
  constexpr std::int64_t most_rows = 12;
  std::int64_t row = 0;
  for (; row + most_rows <= block.rows; row += most_rows) multiply_vectors<most_rows>(rows_of(block, row, most_rows));
  for (; row + 4 <= block.rows; row += 4) multiply_vectors<4>(rows_of(block, row, 4));
  for (; row < block.rows; ++row) multiply_vectors<1>(rows_of(block, row, 1));
}

// ---- stores

__attribute__((target("avx512f,avx512bw,avx512vl"))) inline void round_rows(std::byte* to, std::int64_t row_stride,
                                                                            const float* sums, std::int64_t rows,
                                                                            std::int64_t columns) {
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << columns) - 1);
  for (std::int64_t row = 0; row < rows; ++row, to += row_stride, sums += narrow_width) {
    for (std::int64_t at = 0; at < columns; at += narrow_strip) {
      const __m512 numbers = _mm512_load_ps(sums + at);
      __m256i rounded;
      asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(numbers));
      _mm256_mask_storeu_epi16(to + at * 2, static_cast<__mmask16>(mask >> at), rounded);
    }
  }
}

}  // namespace x86_narrow_tile_detail

SINTER_DECL bool offers_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long get_supported = 0x1021, tile_data = 18;  // ARCH_GET_XCOMP_SUPP, XFEATURE_XTILEDATA
  std::uint64_t supported = 0;
  return syscall(SYS_arch_prctl, get_supported, &supported) == 0 && (supported >> tile_data & 1) != 0;
#else
  return false;
#endif
}

SINTER_DECL bool request_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool is_granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return is_granted;
#else
  return false;
#endif
}

SINTER_DECL void touch_tiles() {
  x86_narrow_tile_detail::configure_tiles(16, 16);
  asm volatile("tilezero %tmm0");
  x86_narrow_tile_detail::release_tiles();
}

SINTER_DECL void pack_pairs(std::byte* to, const NarrowMatrix& from) {
  using namespace x86_narrow_tile_detail;
  if (from.rows == 0) return;  // `to` may be null
  const std::int64_t rows = whole_steps(from.rows), strip_bytes = rows / narrow_step * narrow_step_bytes;
  const bool is_adjacent = from.column_stride == element_bytes || from.columns == 1;
  if (is_adjacent) pack_adjacent(to, strip_bytes, from);
  for (std::int64_t column = 0; column < from.columns; column += narrow_strip, to += strip_bytes) {
    NarrowMatrix strip = from;
    strip.at += column * from.column_stride;
    strip.columns = std::min(narrow_strip, from.columns - column);
    if (!is_adjacent) pack_strip(to, strip);
    const std::int64_t done = (from.rows + 1) / 2;
    std::memset(to + done * strip_row_bytes, 0, as_index((rows / 2 - done) * strip_row_bytes));
  }
}

SINTER_DECL void pack_rows(std::byte* to, std::int64_t to_stride, const NarrowMatrix& from, std::byte* scratch) {
  using namespace x86_narrow_tile_detail;
  constexpr std::int64_t part_bytes = pack_rows_bytes / 2,
                         columns_at_once = part_bytes / (narrow_strip * element_bytes);
  std::byte *const pairs = scratch, *const part = scratch + part_bytes;
  for (std::int64_t row = 0; row < from.rows; row += narrow_strip, to += narrow_strip * to_stride) {
    const std::int64_t rows = std::min(narrow_strip, from.rows - row);
    for (std::int64_t column = 0; column < from.columns; column += columns_at_once) {
      const std::int64_t columns = std::min(columns_at_once, from.columns - column), all = whole_steps(columns);
      pack_pairs(pairs, {from.at + row * from.row_stride + column * from.column_stride, columns, rows,
                         from.column_stride, from.row_stride});
      // pack_panel fills whole rows, of all columns alone: parts are copied into theirs.
      const bool is_whole = columns == from.columns;
      pack_panel(is_whole ? to : part, pairs, rows, all / 2, (is_whole ? to_stride : all * element_bytes) / pair_bytes,
                 pair_bytes, strip_row_bytes, pair_bytes);
      for (std::int64_t i = 0; i < rows && !is_whole; ++i)
        std::memcpy(to + i * to_stride + column * element_bytes, part + i * all * element_bytes,
                    as_index(all * element_bytes));
    }
  }
}

SINTER_DECL void pack_tiles(std::byte* to, const NarrowMatrix& from) {
  using namespace x86_narrow_tile_detail;
  constexpr std::int64_t row_bytes = narrow_step * element_bytes, tile_bytes = 16 * row_bytes;
  const std::int64_t whole = from.columns / narrow_step, rest = from.columns % narrow_step,
                     strip_bytes = whole_steps(from.columns) / narrow_step * tile_bytes;
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const std::byte* at = from.at + row * from.row_stride;
    std::byte* tile = to + row / 16 * strip_bytes + row % 16 * row_bytes;
    for (std::int64_t step = 0; step < whole; ++step, at += row_bytes, tile += tile_bytes)
      std::memcpy(tile, at, as_index(row_bytes));
    if (rest != 0) pack_tails(tile, {at, 1, rest, 0, element_bytes});
  }
}

SINTER_DECL void pack_tails(std::byte* to, const NarrowMatrix& from) {
  using namespace x86_narrow_tile_detail;
  constexpr std::size_t bytes = narrow_step * element_bytes;
  for (std::int64_t row = 0; row < from.rows; ++row, to += bytes) {
    const auto used = as_index(from.columns * element_bytes);
    std::memcpy(to, from.at + row * from.row_stride, used);
    std::memset(to + used, 0, bytes - used);
  }
}

SINTER_DECL void store_rounded(std::byte* to, std::int64_t row_stride, const float* sums, std::int64_t rows,
                               std::int64_t columns) {
  x86_narrow_tile_detail::round_rows(to, row_stride, sums, rows, columns);
}

SINTER_DECL void multiply_narrow(const NarrowBlock& block, ProductUnit unit) {
  using namespace x86_narrow_tile_detail;
  if (unit == ProductUnit::amx) multiply_by_tiles(block);
  else multiply_by_vectors(block);
}

}  // namespace x86
SINTER_NAMESPACE_END
