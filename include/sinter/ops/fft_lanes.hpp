// Discrete Fourier transforms of several lines side by side: each number of one line is a lane of a vector, so that all
// steps are whole vectors whatever the length. Stockham's order (no bit reversal), with the radices of fft_radices.hpp.
// Knows vectors and tables, not where the lines come from. Additions and products stay apart (no fma), and so results
// are the same with any width of vectors.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_pair.hpp>
#include <sinter/ops/fft_pieces.hpp>
#include <sinter/ops/fft_radices.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

// ---- between interleaved numbers in memory and lanes

template <class L, int... i>
SINTER_ALWAYS_INLINE void zip(typename L::Vector& a, typename L::Vector& b, std::integer_sequence<int, i...>) {
  constexpr int n = L::count;
  const typename L::Vector low = __builtin_shufflevector(a, b, (i % 2 * n + i / 2)...);
  b = __builtin_shufflevector(a, b, (i % 2 * n + i / 2 + n / 2)...);
  a = low;
}
/// a, b: numbers that take turns; becomes those at even places and those at odd ones.
template <class L, int... i>
SINTER_ALWAYS_INLINE void unzip(typename L::Vector& a, typename L::Vector& b, std::integer_sequence<int, i...>) {
  const typename L::Vector even = __builtin_shufflevector(a, b, (2 * i)...);
  b = __builtin_shufflevector(a, b, (2 * i + 1)...);
  a = even;
}
template <class L>
using LaneSequence = std::make_integer_sequence<int, L::count>;

/// Rows become columns.
template <class L>
SINTER_ALWAYS_INLINE void transpose_square(typename L::Vector* square) {
  constexpr int n = L::count;
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    typename L::Vector next[as_index(n)];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      typename L::Vector a = square[i], b = square[i + n / 2];
      zip<L>(a, b, LaneSequence<L>());
      next[2 * i] = a;
      next[2 * i + 1] = b;
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) square[i] = next[i];
  }
}

enum class Parts : bool { as_they_are, exchanged };  // re and im: a forward transform of exchanged parts is an inverse
enum class Side : std::uint8_t { rows, columns, apart };

/// Where the lines of one group lie: rows have their numbers one after the other, columns lie side by side.
template <class L, class Pointer>
struct Lines {
  Pointer at[static_cast<std::size_t>(L::count)]{};  // of the first number; lanes that are not used repeat the first
  std::int64_t step = 2;                             // from one complex number to the next, in real numbers
  int used = L::count;
  Side side = Side::rows;
  Parts parts = Parts::as_they_are;
};

template <class L>
SINTER_ALWAYS_INLINE void load_lines(Pair<L>* to, const Lines<L, const typename L::Number*>& lines, std::int64_t n) {
  using T = typename L::Number;
  using Anywhere = typename L::Anywhere;
  constexpr int lanes = L::count;
  const bool is_exchanged = lines.parts == Parts::exchanged;
  std::int64_t j = 0;
  if (lines.side == Side::columns && lines.used == lanes) {
    for (; j < n; ++j) {
      const T* from = lines.at[0] + j * lines.step;
      typename L::Vector re = *reinterpret_cast<const Anywhere*>(from);
      typename L::Vector im = *reinterpret_cast<const Anywhere*>(from + lanes);
      unzip<L>(re, im, LaneSequence<L>());
      to[j].re = is_exchanged ? im : re;
      to[j].im = is_exchanged ? re : im;
    }
    return;
  }
  if (lines.side == Side::rows && lines.used == lanes && n >= Pieces<L>::numbers)
    return load_rows<L>(to, lines.at[0], lines.at[1] - lines.at[0], n, is_exchanged ? 1 : 0);
  if (lines.side == Side::rows && n >= lanes / 2)
    for (; j < n; j += lanes / 2) {
      j = std::min<std::int64_t>(j, n - lanes / 2);  // what is left takes some of the numbers before along
      typename L::Vector square[as_index(lanes)];
#pragma GCC unroll 16
      for (int lane = 0; lane < lanes; ++lane)
        square[lane] = *reinterpret_cast<const Anywhere*>(lines.at[lane] + 2 * j);
      transpose_square<L>(square);
#pragma GCC unroll 8
      for (int i = 0; i < lanes / 2; ++i) {
        to[j + i].re = is_exchanged ? square[2 * i + 1] : square[2 * i];
        to[j + i].im = is_exchanged ? square[2 * i] : square[2 * i + 1];
      }
    }
  for (; j < n; ++j)
    for (int lane = 0; lane < lanes; ++lane) {
      const T* from = lines.at[lane] + j * lines.step;
      to[j].re[lane] = from[is_exchanged ? 1 : 0];
      to[j].im[lane] = from[is_exchanged ? 0 : 1];
    }
}

template <class L>
SINTER_ALWAYS_INLINE void store_lines(const Lines<L, typename L::Number*>& lines, const Pair<L>* from, std::int64_t n,
                                      typename L::Number scale) {
  using T = typename L::Number;
  using Anywhere = typename L::Anywhere;
  constexpr int lanes = L::count;
  const bool is_exchanged = lines.parts == Parts::exchanged;
  std::int64_t j = 0;
  if (lines.side == Side::columns && lines.used == lanes) {
    for (; j < n; ++j) {
      typename L::Vector first = (is_exchanged ? from[j].im : from[j].re) * scale;
      typename L::Vector second = (is_exchanged ? from[j].re : from[j].im) * scale;
      zip<L>(first, second, LaneSequence<L>());
      T* to = lines.at[0] + j * lines.step;
      *reinterpret_cast<Anywhere*>(to) = first;
      *reinterpret_cast<Anywhere*>(to + lanes) = second;
    }
    return;
  }
  if (lines.side == Side::rows && lines.used == lanes && n >= Pieces<L>::numbers)
    return store_rows<L>(lines.at[0], lines.at[1] - lines.at[0], from, n, is_exchanged ? 1 : 0, scale);
  if (lines.side == Side::rows && n >= lanes / 2)
    for (; j < n; j += lanes / 2) {
      j = std::min<std::int64_t>(j, n - lanes / 2);
      typename L::Vector square[as_index(lanes)];
#pragma GCC unroll 8
      for (int i = 0; i < lanes / 2; ++i) {
        square[2 * i] = (is_exchanged ? from[j + i].im : from[j + i].re) * scale;
        square[2 * i + 1] = (is_exchanged ? from[j + i].re : from[j + i].im) * scale;
      }
      transpose_square<L>(square);
      for (int lane = 0; lane < lines.used; ++lane) *reinterpret_cast<Anywhere*>(lines.at[lane] + 2 * j) = square[lane];
    }
  for (; j < n; ++j)
    for (int lane = 0; lane < lines.used; ++lane) {
      T* to = lines.at[lane] + j * lines.step;
      to[is_exchanged ? 1 : 0] = from[j].re[lane] * scale;
      to[is_exchanged ? 0 : 1] = from[j].im[lane] * scale;
    }
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
