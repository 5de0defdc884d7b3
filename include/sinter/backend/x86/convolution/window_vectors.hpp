// Rows of a panel of windows, by vectors: which lanes of a vector come out of which row of the image is the same in
// every channel, so that it is found once for a panel. Knows f32 with neighbours one or two elements apart.
#pragma once

#include <sinter/backend/x86/convolution/windows.hpp>

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifndef SINTER_NO_X86
#include <immintrin.h>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Lanes of a vector that are successive elements, `step` apart, of one row of the image. The others are loaded by no
/// piece or by another one.
struct Piece {
  std::int64_t from = 0;       // bytes from the channel's beginning to where the vector's first lane would be
  std::uint32_t elements = 0;  // a bit for each element, from there on, that is a lane's
};
/// Of a panel: the pieces of each vector, tap by tap.
struct PanelPieces {
  std::vector<Piece> pieces;
  std::vector<std::uint32_t> begin;  // of each vector, and the end
};

/// Of the runs of a panel `width` wide; `lanes` of them are a vector.
inline void find_pieces(const TapRuns& found, std::int64_t width, std::int64_t lanes, std::int64_t step,
                        PanelPieces& panel) {
  constexpr std::int64_t element = sizeof(float);
  panel.pieces.clear();
  panel.begin.clear();
  for (std::size_t tap = 0; tap + 1 < found.begin.size(); ++tap) {
    const Run *run = found.runs.data() + found.begin[tap], *const end = found.runs.data() + found.begin[tap + 1];
    for (std::int64_t lane = 0; lane < width; lane += lanes) {
      panel.begin.push_back(static_cast<std::uint32_t>(panel.pieces.size()));
      for (; run != end && (run->to + run->bytes) / element <= lane; ++run) {}
      for (const Run* each = run; each != end && each->to / element < lane + lanes; ++each) {
        if (each->is_zero) continue;
        const std::int64_t to = each->to / element, first = std::max(to, lane),
                           last = std::min(to + each->bytes / element, lane + lanes);
        Piece piece{each->from + (lane - to) * step * element, 0};
        for (std::int64_t i = first; i < last; ++i) piece.elements |= 1u << ((i - lane) * step);
        panel.pieces.push_back(piece);
      }
    }
  }
  panel.begin.push_back(static_cast<std::uint32_t>(panel.pieces.size()));
}

/// Rows of a panel: what a tap sees in successive channels. Their vectors have the pieces [begin[i], begin[i + 1]).
struct PanelRows {
  std::byte* to;
  std::int64_t to_step;  // from a channel's row to the next one's, bytes
  const std::byte* channel;
  std::int64_t channel_bytes, channels;
  const Piece* pieces;
  const std::uint32_t* begin;
  std::int64_t vectors;
  std::int64_t ahead;  // bytes from a channel to one that is read soon: its part is asked for
};

template <int step>
__attribute__((target("avx512f"), always_inline)) inline __m512 add_piece_wide(__m512 others, const std::byte* from,
                                                                               std::uint32_t elements) {
  const auto low = static_cast<__mmask16>(elements & 0xFFFFu);
  if constexpr (step == 1) return _mm512_mask_loadu_ps(others, low, from);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const auto high = static_cast<__mmask16>(elements >> 16);
  const __m512 lanes =
      _mm512_permutex2var_ps(_mm512_maskz_loadu_ps(low, from), even, _mm512_maskz_loadu_ps(high, from + 64));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(others), _mm512_castps_si512(lanes)));
}
/// Vectors of all channels whose pieces are `count`; with their numbers in registers where those are few.
template <int step, std::int64_t count>
__attribute__((target("avx512f"), always_inline)) inline void fill_vectors_wide(const PanelRows& rows, std::byte* to,
                                                                                const Piece* pieces) {
  constexpr std::int64_t end_of_vector = step * 64 - 4;  // the line that the panel before has not asked for
  Piece own[as_index(count)];
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < count; ++k) own[k] = pieces[k];
  const std::byte* channel = rows.channel;
  for (std::int64_t i = 0; i < rows.channels; ++i, to += rows.to_step, channel += rows.channel_bytes) {
    __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 2
    for (std::int64_t k = 0; k < count; ++k) {
      const std::byte* from = channel + own[k].from;
      _mm_prefetch(reinterpret_cast<const char*>(from + rows.ahead + end_of_vector), _MM_HINT_T0);
      all = add_piece_wide<step>(all, from, own[k].elements);
    }
    _mm512_storeu_ps(to, all);
  }
}
template <int step>
__attribute__((target("avx512f"))) inline void fill_rows_wide(const PanelRows& rows) {
  constexpr std::int64_t end_of_vector = step * 64 - 4;
  for (std::int64_t vector = 0; vector < rows.vectors; ++vector) {
    const Piece *const first = rows.pieces + rows.begin[vector], *const end = rows.pieces + rows.begin[vector + 1];
    std::byte* to = rows.to + vector * 64;
    if (end - first == 1) {
      fill_vectors_wide<step, 1>(rows, to, first);
      continue;
    }
    if (end - first == 2) {
      fill_vectors_wide<step, 2>(rows, to, first);
      continue;
    }
    const std::byte* channel = rows.channel;
    for (std::int64_t i = 0; i < rows.channels; ++i, to += rows.to_step, channel += rows.channel_bytes) {
      __m512 all = _mm512_setzero_ps();
      for (const Piece* piece = first; piece != end; ++piece) {
        const std::byte* from = channel + piece->from;
        _mm_prefetch(reinterpret_cast<const char*>(from + rows.ahead + end_of_vector), _MM_HINT_T0);
        all = add_piece_wide<step>(all, from, piece->elements);
      }
      _mm512_storeu_ps(to, all);
    }
  }
}

SINTER_AVX2 inline __m256 load_elements(const std::byte* from, std::uint32_t elements) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i ours = _mm256_and_si256(_mm256_set1_epi32(static_cast<std::int32_t>(elements)), bit);
  return _mm256_maskload_ps(reinterpret_cast<const float*>(from), _mm256_cmpeq_epi32(ours, bit));
}
template <int step>
SINTER_AVX2 inline void fill_rows_narrow(const PanelRows& rows) {
  constexpr std::int64_t end_of_vector = step * 32 - 4;
  for (std::int64_t vector = 0; vector < rows.vectors; ++vector) {
    const Piece *const first = rows.pieces + rows.begin[vector], *const end = rows.pieces + rows.begin[vector + 1];
    std::byte* to = rows.to + vector * 32;
    const std::byte* channel = rows.channel;
    for (std::int64_t i = 0; i < rows.channels; ++i, to += rows.to_step, channel += rows.channel_bytes) {
      __m256 all = _mm256_setzero_ps();
      for (const Piece* piece = first; piece != end; ++piece) {
        const std::byte* from = channel + piece->from;
        _mm_prefetch(reinterpret_cast<const char*>(from + rows.ahead + end_of_vector), _MM_HINT_T0);
        __m256 lanes = load_elements(from, piece->elements);
        if constexpr (step == 2) {
          lanes = _mm256_shuffle_ps(lanes, load_elements(from + 32, piece->elements >> 8), 0x88);
          lanes = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(lanes), 0xD8));
        }
        all = _mm256_or_ps(all, lanes);
      }
      _mm256_storeu_ps(reinterpret_cast<float*>(to), all);
    }
  }
}

/// The function for rows of that instruction set, and of elements so far apart; null where there is none.
using FillRows = void (*)(const PanelRows&);
inline FillRows fill_rows_function(Isa isa, std::int64_t step) {
  if (step == 1) return isa == Isa::avx512 ? fill_rows_wide<1> : fill_rows_narrow<1>;
  if (step == 2) return isa == Isa::avx512 ? fill_rows_wide<2> : fill_rows_narrow<2>;
  return nullptr;
}

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
#endif
