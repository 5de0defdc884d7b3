// A panel is 32 columns, as integer.ipp lays them out; behind them stand, group by group, 32 scales and 32 zero points.
// Elements of 4 bits are taken apart in the order of steps, which the rows of x are in.
#pragma once

#include <sinter/backend/x86/contraction/quantized_tiles.hpp>

#include <sinter/backend/x86/contraction/integer.ipp>
#include <sinter/backend/x86/contraction/quantized.ipp>
#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>

#include <immintrin.h>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_quantized_detail {

namespace tiles = x86_integer_detail;

/// [32 rows][32 columns] in two vectors a row.
struct GroupSums {
  const std::int32_t* sums;
  const std::int32_t* row_sums;  // `row_stride` apart
  std::int64_t row_stride;
  const float* scales;
  const std::int32_t* zeros;
};
/// totals = (sums - zero point * sum of the row) * scale + totals
__attribute__((target("avx512f"))) inline void add_group(float* totals, const GroupSums& group, std::int64_t rows) {
  for (int half = 0; half < 2; ++half) {
    const __m512 scale = _mm512_loadu_ps(group.scales + 16 * half);
    const __m512i zero = _mm512_loadu_si512(group.zeros + 16 * half);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * tiles::width + 16 * half;
      const __m512i moved = _mm512_mullo_epi32(zero, _mm512_set1_epi32(group.row_sums[r * group.row_stride]));
      const __m512i exact = _mm512_sub_epi32(_mm512_loadu_si512(group.sums + at), moved);
      const __m512 number = _mm512_maskz_cvtepi32_ps(0xFFFF, exact);
      _mm512_storeu_ps(totals + at, _mm512_fmadd_ps(number, scale, _mm512_loadu_ps(totals + at)));
    }
  }
}
__attribute__((target("avx512f"))) inline void store_rows(float* out, std::int64_t stride, std::int64_t columns,
                                                          const float* totals, const float* scales, std::int64_t rows) {
  const std::uint64_t mask = (std::uint64_t{1} << columns) - 1;
  for (std::int64_t r = 0; r < rows; ++r)
    for (int half = 0; half < 2; ++half) {
      const auto part = static_cast<__mmask16>(mask >> (16 * half));
      const __m512 total = _mm512_loadu_ps(totals + r * tiles::width + 16 * half);
      _mm512_mask_storeu_ps(out + r * stride + 16 * half, part, _mm512_mul_ps(total, _mm512_set1_ps(scales[r])));
    }
}

/// Two elements in each byte: of every step the low halves, then the high ones.
inline void unpack_steps(std::byte* to, const std::uint8_t* from, std::int64_t elements) {
  for (std::int64_t at = 0; at < elements; at += step, to += step, from += step / 2)
    for (std::int64_t i = 0; i < step / 2; ++i) {
      to[i] = std::byte(from[i] & 15);
      to[i + step / 2] = std::byte(from[i] >> 4);
    }
}

SINTER_DECL TiledProduct::TiledProduct(const PackedWeight& weight, std::int64_t m, bool keeps_panels)
    : m_(m),
      n_(weight.n),
      depth_(weight.padded()),
      groups_(weight.groups),
      group_(weight.group),
      keeps_panels_(keeps_panels) {
  tiles_.reserve(as_index((m_ + tiles::width - 1) / tiles::width * tiles::width * depth_));
  if (keeps_panels_) panels_.reserve(as_index((n_ + tiles::width - 1) / tiles::width * panel_bytes()));
}
SINTER_DECL void TiledProduct::prepare() const {
  touch_tiles();
  tiles::buffer(scratch_bytes());
}
SINTER_DECL std::int64_t TiledProduct::panel_bytes() const {
  constexpr std::int64_t bytes_of_column = sizeof(float) + sizeof(std::int32_t);
  return tiles::width * (depth_ + groups_ * bytes_of_column);
}
/// A panel, and its columns one after the other.
SINTER_DECL std::int64_t TiledProduct::scratch_bytes() const { return panel_bytes() + tiles::width * depth_; }

SINTER_DECL void TiledProduct::make_panel(std::byte* to, std::byte* scratch, const PackedWeight& weight,
                                          std::int64_t panel) const {
  const std::int64_t first = panel * tiles::width, columns = std::min(tiles::width, n_ - first);
  const tiles::IntegerProduct shape{m_, columns, depth_};
  const auto* from = reinterpret_cast<const std::byte*>(weight.values + first * weight.row_bytes());
  if (weight.bits == 4) {
    for (std::int64_t c = 0; c < columns; ++c)
      unpack_steps(scratch + c * depth_, weight.values + (first + c) * weight.row_bytes(), depth_);
    from = scratch;
  }
  tiles::pack_columns(to, scratch, shape, from, 0, columns);
  auto* const scales = reinterpret_cast<float*>(to + tiles::width * depth_);
  auto* const zeros = reinterpret_cast<std::int32_t*>(scales + groups_ * tiles::width);
  for (std::int64_t group = 0; group < groups_; ++group)
    for (std::int64_t c = 0; c < tiles::width; ++c) {
      const bool is_there = c < columns;
      scales[group * tiles::width + c] = is_there ? scale_at(weight, (first + c) * groups_ + group) : 0;
      zeros[group * tiles::width + c] = is_there ? weight.zero_point(first + c, group) : 0;
    }
}

SINTER_DECL void TiledProduct::run(const PackedWeight& weight, const RoundedRows& rows, float* out) {
  constexpr std::int64_t few_panels = 16, rows_at_once = 256;
  constexpr double bytes_per_nanosecond = 8, products_per_nanosecond = 200;
  const tiles::IntegerProduct shape{m_, n_, depth_};
  const std::int64_t blocks = (m_ + tiles::width - 1) / tiles::width, panels = (n_ + tiles::width - 1) / tiles::width;
  parallel_for(blocks, static_cast<double>(tiles::width * depth_) / bytes_per_nanosecond,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin * tiles::width; row < end * tiles::width; ++row)
                   tiles::tile_row(tiles_.data(), shape, reinterpret_cast<const std::byte*>(rows.x), row);
               });
  if (keeps_panels_ && !has_panels_) {
    parallel_for(panels, static_cast<double>(panel_bytes()) / 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel)
        make_panel(panels_.data() + panel * panel_bytes(), tiles::buffer(scratch_bytes()), weight, panel);
    });
    has_panels_ = true;
  }
  const std::int64_t part = panels >= few_panels ? blocks * tiles::width : rows_at_once, parts = (m_ + part - 1) / part;
  const double work = static_cast<double>(depth_ * tiles::width * std::min(part, m_)) / products_per_nanosecond;
  parallel_for(panels * parts, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t panel = task / parts, row = task % parts * part;
      const std::byte* laid_out = panels_.data() + panel * panel_bytes();
      if (!keeps_panels_) {
        std::byte* const made = tiles::buffer(scratch_bytes());
        make_panel(made, made + panel_bytes(), weight, panel);
        laid_out = made;
      }
      multiply_panel(laid_out, panel, row, std::min(m_, row + part), rows, out);
    }
  });
}

SINTER_DECL void TiledProduct::multiply_panel(const std::byte* panel, std::int64_t number, std::int64_t row_begin,
                                              std::int64_t row_end, const RoundedRows& rows, float* out) const {
  alignas(64) std::int32_t sums[tiles::width * tiles::width];
  alignas(64) float totals[tiles::width * tiles::width];
  const std::int64_t steps = depth_ / tiles::step, steps_of_group = group_ / tiles::step, strip = depth_ * tiles::strip,
                     first = number * tiles::width;
  const auto* const scales = reinterpret_cast<const float*>(panel + tiles::width * depth_);
  const auto* const zeros = reinterpret_cast<const std::int32_t*>(scales + groups_ * tiles::width);
  x86_narrow_tile_detail::configure_tiles(16, 16);
  for (std::int64_t row = row_begin; row < row_end; row += tiles::width) {
    const std::byte* const a = tiles_.data() + row / tiles::tile_rows * steps * tiles::tile_bytes;
    const std::int64_t count = std::min(tiles::width, row_end - row);
    std::fill_n(totals, tiles::width * tiles::width, 0.F);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const std::int64_t at = group * steps_of_group * tiles::tile_bytes;
      tiles::multiply_steps<true, true>(a + at, steps * tiles::tile_bytes, panel + at, strip, steps_of_group, sums,
                                        tiles::width * std::int64_t{sizeof(std::int32_t)}, false);
      add_group(totals,
                {sums, rows.group_sum + row * groups_ + group, groups_, scales + group * tiles::width,
                 zeros + group * tiles::width},
                count);
    }
    store_rows(out + row * n_ + first, n_, std::min(tiles::width, n_ - first), totals, rows.scale + row, count);
  }
  x86_narrow_tile_detail::release_tiles();
}

}  // namespace x86_quantized_detail
}  // namespace x86
SINTER_NAMESPACE_END
