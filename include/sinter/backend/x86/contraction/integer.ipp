// The rows of A are laid out once, those of B as panels of 32 columns, each by the task that needs it, or once where B
// is a constant: to[k / 4][column % 16][k % 4], two strips of 16 columns, zeros up to whole steps of 64. Few rows of A
// need no panels. Sums are added modulo 2^32, whose order is free. Plain functions over intrinsics; what compilers of
// different age name differently is assembly, as in narrow_tile.ipp.
#pragma once

#include <sinter/backend/x86/contraction/integer.hpp>

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/integer_rows.hpp>
#include <sinter/backend/x86/contraction/narrow_tile.ipp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/quantized.hpp>
#include <sinter/runtime/lasting_operands.hpp>

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_integer_detail {

enum class IntegerUnit : std::uint8_t { avx2, vnni, amx };

inline constexpr std::int64_t step = 64, width = 32, strip = 16, tile_rows = 16, tile_bytes = 1024;
inline constexpr std::int64_t most_depth = 1024;  // of a panel whose tiles stay in the first cache

/// a [m, k] by b [n, k].
struct IntegerProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool is_a_signed = true, is_b_signed = true;
  std::int64_t padded() const { return (k + step - 1) / step * step; }
  std::int64_t strip_bytes() const { return padded() * strip; }
};

/// Memory of this thread, on a cache line.
inline std::byte* buffer(std::int64_t bytes) {
  std::vector<std::byte>& memory = thread_object([] { return new std::vector<std::byte>; });
  if (std::ssize(memory) < bytes + 64) memory.resize(as_index(bytes + 64));
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) % 64;
}

/// Columns [first, first + columns) as a panel. `scratch` has room for as many rows of whole steps.
inline void pack_columns(std::byte* to, std::byte* scratch, const IntegerProduct& p, const std::byte* b,
                         std::int64_t first, std::int64_t columns) {
  const std::byte* from = b + first * p.k;
  std::int64_t stride = p.k;
  if (p.k % step != 0) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::byte* const row = scratch + column * p.padded();
      std::memcpy(row, from + column * p.k, as_index(p.k));
      std::memset(row + p.k, 0, as_index(p.padded() - p.k));
    }
    from = scratch;
    stride = p.padded();
  }
  for (std::int64_t at = 0; at < columns; at += strip)
    pack_panel(to + at / strip * p.strip_bytes(), from + at * stride, p.padded() / 4, std::min(strip, columns - at),
               strip, 4, stride, 4);
  if (columns <= strip) std::memset(to + p.strip_bytes(), 0, as_index(p.strip_bytes()));
}

inline void flip_high_bits(std::byte* at, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) at[i] ^= std::byte{0x80};
}

// ---- tiles of AMX

template <bool is_a_signed, bool is_b_signed>
inline void multiply_tiles() {
  if constexpr (is_a_signed && is_b_signed)
    asm volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
  else if constexpr (is_a_signed)
    asm volatile(
        "tdpbsud %tmm6, %tmm4, %tmm0\n\ttdpbsud %tmm7, %tmm4, %tmm1\n\t"
        "tdpbsud %tmm6, %tmm5, %tmm2\n\ttdpbsud %tmm7, %tmm5, %tmm3");
  else if constexpr (is_b_signed)
    asm volatile(
        "tdpbusd %tmm6, %tmm4, %tmm0\n\ttdpbusd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbusd %tmm6, %tmm5, %tmm2\n\ttdpbusd %tmm7, %tmm5, %tmm3");
  else
    asm volatile(
        "tdpbuud %tmm6, %tmm4, %tmm0\n\ttdpbuud %tmm7, %tmm4, %tmm1\n\t"
        "tdpbuud %tmm6, %tmm5, %tmm2\n\ttdpbuud %tmm7, %tmm5, %tmm3");
}
inline void load_sums(const std::int32_t* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(from), "r"(stride) : "memory");
  asm volatile("tileloadd (%0,%1,1), %%tmm1" ::"r"(from + strip), "r"(stride) : "memory");
  const char* const lower = reinterpret_cast<const char*>(from) + tile_rows * stride;
  asm volatile("tileloadd (%0,%1,1), %%tmm2" ::"r"(lower), "r"(stride) : "memory");
  asm volatile("tileloadd (%0,%1,1), %%tmm3" ::"r"(lower + 64), "r"(stride) : "memory");
}
inline void zero_sums() { asm volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3"); }

/// Sums of 32 rows by 32 columns, `stride` bytes apart, over some steps; beside those that are there, or without.
template <bool is_a_signed, bool is_b_signed>
void multiply_steps(const std::byte* a, std::int64_t a_lower, const std::byte* b, std::int64_t b_strip,
                    std::int64_t steps, std::int32_t* sums, std::int64_t stride, bool adds) {
  using namespace x86_narrow_tile_detail;
  if (adds) load_sums(sums, stride);
  else zero_sums();
  for (std::int64_t i = 0; i < steps; ++i, a += tile_bytes, b += tile_bytes) {
    load_tile<4>(a, 64);
    load_tile<6>(b, 64);
    load_tile<7>(b + b_strip, 64);
    load_tile<5>(a + a_lower, 64);
    multiply_tiles<is_a_signed, is_b_signed>();
  }
  store_tile<0>(sums, stride);
  store_tile<1>(sums + strip, stride);
  std::int32_t* const lower = sums + tile_rows * (stride / std::int64_t{sizeof(std::int32_t)});
  store_tile<2>(lower, stride);
  store_tile<3>(lower + strip, stride);
}

/// Rows as tiles: to[row / 16][k / 64][row % 16][k % 64].
inline void tile_row(std::byte* to, const IntegerProduct& p, const std::byte* a, std::int64_t row) {
  const std::int64_t steps = p.padded() / step;
  std::byte* at = to + (row / tile_rows * steps * tile_rows + row % tile_rows) * step;
  for (std::int64_t i = 0; i < steps; ++i, at += tile_bytes) {
    const std::int64_t used = row < p.m ? std::min(step, p.k - i * step) : 0;
    if (used > 0) std::memcpy(at, a + row * p.k + i * step, as_index(used));
    std::memset(at + used, 0, as_index(step - used));
  }
}

template <bool is_a_signed, bool is_b_signed>
void panel_by_tiles(const IntegerProduct& p, const std::byte* tiles, const std::byte* panel, std::int64_t first,
                    std::int64_t columns, std::int64_t row_begin, std::int64_t row_end, std::int32_t* out) {
  const std::int64_t steps = p.padded() / step, row_stride = p.n * std::int64_t{sizeof(std::int32_t)};
  alignas(64) std::int32_t edge[width * width];
  x86_narrow_tile_detail::configure_tiles(16, 16);
  for (std::int64_t at = 0; at < steps; at += most_depth / step) {
    const std::int64_t count = std::min(most_depth / step, steps - at);
    for (std::int64_t row = row_begin; row < row_end; row += 2 * tile_rows) {
      const std::byte *const a = tiles + (row / tile_rows * steps + at) * tile_bytes, *const b =
                                                                                          panel + at * tile_bytes;
      const std::int64_t rows = std::min(width, row_end - row), lower = steps * tile_bytes;
      std::int32_t* const to = out + row * p.n + first;
      if (rows == width && columns == width) {
        multiply_steps<is_a_signed, is_b_signed>(a, lower, b, p.strip_bytes(), count, to, row_stride, at != 0);
        continue;
      }
      multiply_steps<is_a_signed, is_b_signed>(a, lower, b, p.strip_bytes(), count, edge, width * 4, false);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto before = at != 0 ? static_cast<std::uint32_t>(to[i * p.n + j]) : 0u;
          to[i * p.n + j] = static_cast<std::int32_t>(before + static_cast<std::uint32_t>(edge[i * width + j]));
        }
    }
  }
  x86_narrow_tile_detail::release_tiles();
}

// ---- AVX512-VNNI: unsigned bytes of A by signed ones of B, which others become by adding or taking away 128

/// Rows of A by a panel; the sums begin with `by_column` and `by_row`.
struct VectorBlock {
  const std::byte* a;
  std::int64_t a_stride;
  const std::byte* panel;
  std::int64_t strip_bytes, depth;
  const std::int32_t *by_column, *by_row;
  std::int32_t* out;
  std::int64_t out_stride, columns;
};
template <int rows>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void dots_vnni(const VectorBlock& block) {
  __m512i sums[as_index(rows)][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
    for (int half = 0; half < 2; ++half)
      sums[r][half] =
          _mm512_add_epi32(_mm512_loadu_si512(block.by_column + 16 * half), _mm512_set1_epi32(block.by_row[r]));
  const std::byte *a = block.a, *b = block.panel;
  for (std::int64_t at = 0; at < block.depth; at += 4, a += 4, b += 64) {
    const __m512i left = _mm512_load_si512(b), right = _mm512_load_si512(b + block.strip_bytes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      std::int32_t four;
      std::memcpy(&four, a + r * block.a_stride, sizeof four);
      const __m512i repeated = _mm512_set1_epi32(four);
      sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], repeated, left);
      sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], repeated, right);
    }
  }
  const std::uint64_t mask = (std::uint64_t{1} << block.columns) - 1;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    _mm512_mask_storeu_epi32(block.out + r * block.out_stride, static_cast<__mmask16>(mask), sums[r][0]);
    if (block.columns > strip)
      _mm512_mask_storeu_epi32(block.out + r * block.out_stride + strip, static_cast<__mmask16>(mask >> strip),
                               sums[r][1]);
  }
}

// ---- AVX2: products of 16 bits

template <bool is_signed>
SINTER_AVX2 __m128i widened(__m128i bytes) {
  if constexpr (is_signed) return _mm_cvtepi8_epi16(bytes);
  else return _mm_cvtepu8_epi16(bytes);
}
template <bool is_signed>
SINTER_AVX2 __m256i widened_columns(const std::byte* at) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  if constexpr (is_signed) return _mm256_cvtepi8_epi16(bytes);
  else return _mm256_cvtepu8_epi16(bytes);
}
/// One row by 16 columns: pairs of sums of four columns in each register, which are joined at the end.
template <bool is_a_signed, bool is_b_signed>
SINTER_AVX2 void dots_avx2(const std::byte* a, const std::byte* b, std::int64_t depth, std::int32_t* sums) {
  __m256i pairs[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::int64_t at = 0; at < depth; at += 4, b += 64) {
    std::int32_t four;
    std::memcpy(&four, a + at, sizeof four);
    const __m256i repeated = _mm256_broadcastq_epi64(widened<is_a_signed>(_mm_cvtsi32_si128(four)));
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g)
      pairs[g] = _mm256_add_epi32(pairs[g], _mm256_madd_epi16(widened_columns<is_b_signed>(b + 16 * g), repeated));
  }
#pragma GCC unroll 2
  for (int g = 0; g < 4; g += 2) {
    const __m256i joined = _mm256_permute4x64_epi64(_mm256_hadd_epi32(pairs[g], pairs[g + 1]), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + 4 * g), joined);
  }
}
using DotsAvx2 = void (*)(const std::byte*, const std::byte*, std::int64_t, std::int32_t*);
inline DotsAvx2 avx2_dots(const IntegerProduct& p) {
  if (p.is_a_signed) return p.is_b_signed ? dots_avx2<true, true> : dots_avx2<true, false>;
  return p.is_b_signed ? dots_avx2<false, true> : dots_avx2<false, false>;
}

// ---- few rows

/// Up to most_direct_rows rows of A by all of B. Where A is signed, VNNI sees it with 128 added, and a row of ones
/// below it gives the sums of B's rows, by which that is taken away.
class DirectProduct {
 public:
  DirectProduct() = default;
  DirectProduct(const IntegerProduct& p, bool has_vnni) : p_(p), has_vnni_(has_vnni) {
    const std::int64_t stored = rows_of_a() + (has_ones() ? 1 : 0);
    a_.reserve(as_index(stored * row_bytes()));
    std::memset(a_.data(), 0, as_index(stored * row_bytes()));
    if (has_ones()) std::memset(a_.data() + rows_of_a() * row_bytes(), 1, as_index(p_.k));
    const int rows = static_cast<int>(stored);
    if (has_vnni_) {
      dots_ =
          p_.is_b_signed ? direct_vnni_dots<direct_columns, false>(rows) : direct_vnni_dots<direct_columns, true>(rows);
      dots_of_one_ = p_.is_b_signed ? direct_vnni_dots<1, false>(rows) : direct_vnni_dots<1, true>(rows);
    } else {
      dots_ =
          p_.is_b_signed ? direct_avx2_dots<direct_columns, true>(rows) : direct_avx2_dots<direct_columns, false>(rows);
      dots_of_one_ = p_.is_b_signed ? direct_avx2_dots<1, true>(rows) : direct_avx2_dots<1, false>(rows);
    }
  }

  void run(const std::byte* a, const std::byte* b, std::int32_t* out) {
    lay_out(a);
    constexpr double bytes_per_nanosecond = 10;
    const std::int64_t blocks = (p_.n + direct_columns - 1) / direct_columns;
    parallel_for(blocks, static_cast<double>(direct_columns * p_.k) / bytes_per_nanosecond,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block) multiply(a, b, block * direct_columns, out);
                 });
  }

 private:
  std::int64_t rows_of_a() const { return p_.m; }
  std::int64_t row_bytes() const { return p_.padded() * (has_vnni_ ? 1 : 2); }
  bool has_ones() const { return has_vnni_ && p_.is_a_signed; }

  void lay_out(const std::byte* a) {
    for (std::int64_t row = 0; row < p_.m; ++row) {
      std::byte* const to = a_.data() + row * row_bytes();
      const std::byte* const from = a + row * p_.k;
      std::uint32_t sum = 0;
      for (std::int64_t i = 0; i < p_.k; ++i) {
        const auto byte = std::to_integer<std::uint8_t>(from[i]);
        if (has_vnni_) {
          const auto seen = static_cast<std::uint8_t>(byte ^ (p_.is_a_signed ? 0x80 : 0));
          to[i] = std::byte{seen};
          sum += seen;
        } else {
          const std::int16_t wide = p_.is_a_signed ? std::bit_cast<std::int8_t>(byte) : std::int16_t{byte};
          std::memcpy(to + 2 * i, &wide, sizeof wide);
        }
      }
      row_sums_[as_index(row)] = sum;
    }
  }
  void multiply(const std::byte* a, const std::byte* b, std::int64_t first, std::int32_t* out) const {
    const std::int64_t columns = std::min<std::int64_t>(direct_columns, p_.n - first);
    DirectSums sums;
    for (std::int64_t column = 0; column < columns;) {
      const bool is_whole = columns == direct_columns;
      const std::int64_t count = is_whole ? columns : 1;
      const std::byte* const rows_of_b = b + (first + column) * p_.k;
      (is_whole ? dots_ : dots_of_one_)({a_.data(), row_bytes(), rows_of_b, p_.k}, sums);
      for (std::int64_t row = 0; row < p_.m; ++row)
        for (std::int64_t c = 0; c < count; ++c)
          out[row * p_.n + first + column + c] = static_cast<std::int32_t>(
              has_vnni_ ? corrected(sums, row, c) : with_tail(sums, row, c, a + row * p_.k, rows_of_b + c * p_.k));
      column += count;
    }
  }
  std::uint32_t corrected(const DirectSums& sums, std::int64_t row, std::int64_t column) const {
    auto sum = static_cast<std::uint32_t>(sums[as_index(row)][as_index(column)]);
    if (!p_.is_b_signed) sum += 128 * row_sums_[as_index(row)];
    if (!p_.is_a_signed) return sum;
    const auto of_b = static_cast<std::uint32_t>(sums[as_index(p_.m)][as_index(column)]);
    const std::uint32_t both = p_.is_b_signed ? 0 : 128 * 128 * static_cast<std::uint32_t>(p_.k);
    return sum - 128 * of_b - both;
  }
  /// The elements after the last whole step of AVX2, too.
  std::uint32_t with_tail(const DirectSums& sums, std::int64_t row, std::int64_t column, const std::byte* a,
                          const std::byte* b) const {
    const auto number = [](std::byte byte, bool is_signed) {
      const auto bits = std::to_integer<std::uint8_t>(byte);
      return is_signed ? std::int32_t{std::bit_cast<std::int8_t>(bits)} : std::int32_t{bits};
    };
    auto sum = static_cast<std::uint32_t>(sums[as_index(row)][as_index(column)]);
    for (std::int64_t i = p_.k / 16 * 16; i < p_.k; ++i)
      sum += static_cast<std::uint32_t>(number(a[i], p_.is_a_signed) * number(b[i], p_.is_b_signed));
    return sum;
  }

  IntegerProduct p_;
  bool has_vnni_ = false;
  x86_contraction_detail::AlignedBytes a_;
  std::array<std::uint32_t, most_direct_rows> row_sums_{};
  DirectDots dots_ = nullptr, dots_of_one_ = nullptr;
};

// ---- the launch

class IntegerLaunch final : public Launch {
 public:
  IntegerLaunch(std::span<const Type> types, IntegerUnit unit, bool has_lasting_b) : unit_(unit) {
    p_ = {types[0].shape[0].value(), types[1].shape[0].value(), types[0].shape[1].value(), types[0].dtype == DType::i8,
          types[1].dtype == DType::i8};
    rows_ = (p_.m + width - 1) / width * width;
    if (p_.m == 0 || p_.n == 0 || p_.k == 0) return;
    if (p_.m <= most_direct_rows) {
      direct_.emplace(p_, unit_ != IntegerUnit::avx2 && __builtin_cpu_supports("avx512vnni"));
      return;
    }
    a_.reserve(as_index(rows_ * p_.padded()));
    if (unit_ == IntegerUnit::vnni) row_sums_.resize(as_index(rows_));
    if (unit_ == IntegerUnit::vnni && p_.is_a_signed) ones_.assign(as_index(p_.padded()), std::byte{1});
    if (has_lasting_b) panels_.reserve(as_index(panels() * panel_bytes()));
    keeps_panels_ = has_lasting_b;
  }
  void prepare() override {
    if (direct_ || p_.m == 0 || p_.n == 0 || p_.k == 0) return;
    if (unit_ == IntegerUnit::amx) touch_tiles();
    buffer(scratch_bytes());
  }

  void run(void* const* operands) override {
    const auto* const a = static_cast<const std::byte*>(operands[0]);
    const auto* const b = static_cast<const std::byte*>(operands[1]);
    auto* const out = static_cast<std::int32_t*>(operands[2]);
    if (p_.m == 0 || p_.n == 0) return;
    if (p_.k == 0) {
      std::fill_n(out, p_.m * p_.n, 0);
      return;
    }
    if (direct_) return direct_->run(a, b, out);
    if (keeps_panels_ && !has_panels_) make_panels(b);
    lay_out_rows(a);
    constexpr std::int64_t few_panels = 16, rows_at_once = 256;
    const std::int64_t part = panels() >= few_panels ? rows_ : rows_at_once, parts = (p_.m + part - 1) / part;
    const double speed = unit_ == IntegerUnit::amx ? 400 : unit_ == IntegerUnit::vnni ? 100 : 20;  // per nanosecond
    const double work = static_cast<double>(p_.padded() * width * std::min(part, p_.m)) / speed;
    parallel_for(panels() * parts, work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t row = task % parts * part;
        multiply_panel(b, task / parts, row, std::min(p_.m, row + part), out);
      }
    });
  }

 private:
  std::int64_t panels() const { return (p_.n + width - 1) / width; }
  /// Two strips, and what VNNI's sums of each column begin with.
  std::int64_t panel_bytes() const { return 2 * p_.strip_bytes() + width * std::int64_t{sizeof(std::int32_t)}; }
  /// A panel, and rows of B that are filled up.
  std::int64_t scratch_bytes() const { return panel_bytes() + 2 * p_.strip_bytes(); }

  void lay_out_rows(const std::byte* a) {
    const std::int64_t padded = p_.padded();
    const bool flips = unit_ == IntegerUnit::vnni && p_.is_a_signed;
    parallel_for(rows_ / tile_rows, static_cast<double>(padded * tile_rows) / 8,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin * tile_rows; row < end * tile_rows; ++row) {
                     if (unit_ == IntegerUnit::amx) {
                       tile_row(a_.data(), p_, a, row);
                       continue;
                     }
                     if (row >= p_.m) continue;
                     std::byte* const to = a_.data() + row * padded;
                     std::memcpy(to, a + row * p_.k, as_index(p_.k));
                     std::memset(to + p_.k, 0, as_index(padded - p_.k));
                     if (flips) flip_high_bits(to, padded);
                     if (unit_ == IntegerUnit::vnni) row_sums_[as_index(row)] = p_.is_b_signed ? 0 : sum_of(to, padded);
                   }
                 });
  }
  /// 128 times the sum.
  static std::int32_t sum_of(const std::byte* bytes, std::int64_t count) {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += std::to_integer<std::uint32_t>(bytes[i]);
    return static_cast<std::int32_t>(128 * sum);
  }

  /// B stays as it is, and so do its panels.
  void make_panels(const std::byte* b) {
    parallel_for(panels(), static_cast<double>(panel_bytes()) / 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel)
        make_panel(panels_.data() + panel * panel_bytes(), buffer(2 * p_.strip_bytes()), b, panel);
    });
    has_panels_ = true;
  }
  void make_panel(std::byte* to, std::byte* scratch, const std::byte* b, std::int64_t panel) const {
    const std::int64_t first = panel * width;
    pack_columns(to, scratch, p_, b, first, std::min(width, p_.n - first));
    if (unit_ != IntegerUnit::vnni) return;
    auto* const by_column = reinterpret_cast<std::int32_t*>(to + 2 * p_.strip_bytes());
    std::fill_n(by_column, width, 0);
    if (!p_.is_b_signed) flip_high_bits(to, 2 * p_.strip_bytes());
    if (!p_.is_a_signed) return;
    const std::int64_t padded = p_.padded(), both = p_.is_b_signed ? 0 : 128 * 128 * padded;
    constexpr std::int32_t none[8] = {};
    std::int32_t sums[width];
    dots_vnni<1>({ones_.data(), padded, to, p_.strip_bytes(), padded, by_column, none, sums, width, width});
    for (std::int64_t j = 0; j < width; ++j)
      by_column[j] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(-128 * static_cast<std::int64_t>(sums[j]) - both));
  }
  void multiply_panel(const std::byte* b, std::int64_t panel, std::int64_t row, std::int64_t row_end,
                      std::int32_t* out) {
    const std::int64_t first = panel * width, columns = std::min(width, p_.n - first);
    const std::byte* laid_out = panels_.data() + panel * panel_bytes();
    if (!keeps_panels_) {
      std::byte* const made = buffer(scratch_bytes());
      make_panel(made, made + panel_bytes(), b, panel);
      laid_out = made;
    }
    if (unit_ == IntegerUnit::amx) by_tiles(laid_out, first, columns, row, row_end, out);
    else if (unit_ == IntegerUnit::vnni) by_vnni(laid_out, first, columns, row, row_end, out);
    else by_avx2(laid_out, first, columns, row, row_end, out);
  }
  void by_tiles(const std::byte* panel, std::int64_t first, std::int64_t columns, std::int64_t row,
                std::int64_t row_end, std::int32_t* out) {
    const auto run_panel = p_.is_a_signed
                               ? (p_.is_b_signed ? panel_by_tiles<true, true> : panel_by_tiles<true, false>)
                               : (p_.is_b_signed ? panel_by_tiles<false, true> : panel_by_tiles<false, false>);
    run_panel(p_, a_.data(), panel, first, columns, row, row_end, out);
  }
  void by_vnni(const std::byte* panel, std::int64_t first, std::int64_t columns, std::int64_t row, std::int64_t row_end,
               std::int32_t* out) {
    const std::int64_t padded = p_.padded();
    const auto* const by_column = reinterpret_cast<const std::int32_t*>(panel + 2 * p_.strip_bytes());
    VectorBlock block{
        a_.data() + row * padded, padded, panel,  p_.strip_bytes(), padded, by_column, row_sums_.data() + row,
        out + row * p_.n + first, p_.n,   columns};
    for (std::int64_t left = row_end - row; left > 0;) {
      const std::int64_t count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      if (count == 8) dots_vnni<8>(block);
      else if (count == 4) dots_vnni<4>(block);
      else if (count == 2) dots_vnni<2>(block);
      else dots_vnni<1>(block);
      left -= count;
      block.a += count * padded;
      block.by_row += count;
      block.out += count * p_.n;
    }
  }
  void by_avx2(const std::byte* panel, std::int64_t first, std::int64_t columns, std::int64_t row, std::int64_t row_end,
               std::int32_t* out) {
    const DotsAvx2 dots = avx2_dots(p_);
    for (; row < row_end; ++row)
      for (std::int64_t at = 0; at < columns; at += strip) {
        std::int32_t sums[strip];
        dots(a_.data() + row * p_.padded(), panel + at / strip * p_.strip_bytes(), p_.padded(), sums);
        std::copy_n(sums, std::min(strip, columns - at), out + row * p_.n + first + at);
      }
  }

  IntegerProduct p_;
  IntegerUnit unit_;
  std::int64_t rows_ = 0;  // whole blocks of 32
  bool keeps_panels_ = false, has_panels_ = false;
  std::optional<DirectProduct> direct_;
  x86_contraction_detail::AlignedBytes a_, panels_;
  std::vector<std::byte> ones_;
  std::vector<std::int32_t> row_sums_;  // what the rows add for a B of unsigned bytes
};

template <IntegerUnit unit>
std::unique_ptr<Launch> launch_integer(const Attrs& attrs, std::span<const Type> types) {
  const bool has_lasting_b = (attrs[lasting_operands] & 2) != 0;
  return std::make_unique<IntegerLaunch>(types, unit, has_lasting_b);
}

inline bool has_integer_tiles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 25 & 1) != 0 && request_tiles();
#else
  return false;
#endif
}

}  // namespace x86_integer_detail

SINTER_DECL Intrinsic integer_intrinsic(const Graph&, const Node& node, Isa isa, ProductUnit unit) {
  using namespace x86_integer_detail;
  if (node.op != &op_info<ops::IntegerMatmul>) return nullptr;
  if (unit == ProductUnit::amx && has_integer_tiles()) return launch_integer<IntegerUnit::amx>;
  const bool has_vnni = isa == Isa::avx512 && __builtin_cpu_supports("avx512vnni");
  return has_vnni ? launch_integer<IntegerUnit::vnni> : launch_integer<IntegerUnit::avx2>;
}

}  // namespace x86
SINTER_NAMESPACE_END
