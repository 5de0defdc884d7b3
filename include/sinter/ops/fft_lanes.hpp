// Discrete Fourier transforms of several lines side by side: each number of one line is a lane of a vector, so that all
// steps are whole vectors whatever the length. Stockham's order (no bit reversal), radices 2, 3, 4, 5 and any other.
// Knows vectors and tables, not where the lines come from. Additions and products stay apart (no fma), and so results
// are the same with any width of vectors.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_pieces.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

template <class T, int width>
struct Lanes {
  using Number = T;
  using Vector [[gnu::vector_size(sizeof(T) * static_cast<std::size_t>(width))]] = T;
  using Anywhere [[gnu::may_alias, gnu::aligned(alignof(T))]] = Vector;  // in memory that is not aligned
  static constexpr int count = width;
};

/// One complex number of each line.
template <class L>
struct Pair {
  typename L::Vector re, im;
};
/// Keeps a product what it is. Where a processor has AVX-512, or the program is compiled for one with fma, GCC joins
/// products and sums; Clang does so within one expression alone. Single numbers may stand beside any vectors.
template <class Vector>
SINTER_ALWAYS_INLINE void keep_apart([[maybe_unused]] Vector& product) {
#if !defined(SINTER_NO_X86) && !defined(__clang__)
  if constexpr (sizeof(Vector) == 64) {
    asm("" : "+v"(product));
  } else if constexpr (sizeof(Vector) < 16) {
    auto number = product[0];
    asm("" : "+x"(number));
    product[0] = number;
  }
#ifdef __FMA__
  else {
    asm("" : "+x"(product));
  }
#endif
#endif
}
template <class L>
SINTER_ALWAYS_INLINE Pair<L> operator+(const Pair<L>& a, const Pair<L>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class L>
SINTER_ALWAYS_INLINE Pair<L> operator-(const Pair<L>& a, const Pair<L>& b) {
  return {a.re - b.re, a.im - b.im};
}
template <class L>
SINTER_ALWAYS_INLINE Pair<L> operator*(const Pair<L>& a, typename L::Number factor) {
  Pair<L> product{a.re * factor, a.im * factor};
  keep_apart(product.re);
  keep_apart(product.im);
  return product;
}
/// -i a.
template <class L>
SINTER_ALWAYS_INLINE Pair<L> turned(const Pair<L>& a) {
  return {a.im, -a.re};
}
template <class L>
SINTER_ALWAYS_INLINE Pair<L> conjugate(const Pair<L>& a) {
  return {a.re, -a.im};
}
/// a times w_re + i w_im: a number, or a vector of numbers.
template <class L, class Factor>
SINTER_ALWAYS_INLINE Pair<L> times_each(const Pair<L>& a, const Factor& w_re, const Factor& w_im) {
  typename L::Vector re = a.re * w_re, less = a.im * w_im, im = a.re * w_im, more = a.im * w_re;
  keep_apart(re);
  keep_apart(less);
  keep_apart(im);
  keep_apart(more);
  return {re - less, im + more};
}
template <class L>
SINTER_ALWAYS_INLINE Pair<L> times(const Pair<L>& a, const typename L::Number* w) {
  return times_each(a, w[0], w[1]);
}

/// As times(); in the last stage, whose numbers are all 1, nothing.
template <bool is_last, class L>
SINTER_ALWAYS_INLINE Pair<L> times_twiddle(const Pair<L>& a, const typename L::Number* w) {
  if constexpr (is_last) return a;
  else return times(a, w);
}

// ---- one stage of a transform

/// x[q + stride (p + parts k)] for k < radix are transformed, multiplied by e^(-2 pi i p j / (radix parts)) and become
/// y[q + stride (radix p + j)].
template <class L>
struct Stage {
  const Pair<L>* x;
  Pair<L>* y;
  const typename L::Number* twiddles;  // for each p, those of j = 1, 2, ...
  std::int64_t parts, stride;
};

template <bool is_last, class L>
SINTER_ALWAYS_INLINE void run_radix2(const Stage<L>& s) {
  const std::int64_t half = s.stride * s.parts;
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const typename L::Number* w = s.twiddles + 2 * p;
    const Pair<L>* x = s.x + s.stride * p;
    Pair<L>* y = s.y + s.stride * 2 * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const Pair<L> a = x[q], b = x[q + half];
      y[q] = a + b;
      y[q + s.stride] = times_twiddle<is_last>(a - b, w);
    }
  }
}

template <class L>
SINTER_ALWAYS_INLINE void run_radix3(const Stage<L>& s) {
  using T = typename L::Number;
  constexpr T root = static_cast<T>(0.86602540378443864676L);  // sin(pi / 3)
  const std::int64_t third = s.stride * s.parts;
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const T* w = s.twiddles + 4 * p;
    const Pair<L>* x = s.x + s.stride * p;
    Pair<L>* y = s.y + s.stride * 3 * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const Pair<L> a = x[q], sum = x[q + third] + x[q + 2 * third];
      const Pair<L> side = turned((x[q + third] - x[q + 2 * third]) * root), middle = a - sum * T(0.5);
      y[q] = a + sum;
      y[q + s.stride] = times(middle + side, w);
      y[q + 2 * s.stride] = times(middle - side, w + 2);
    }
  }
}

/// Four numbers in place: their transform, of which the last three are multiplied by w, w + 2 and w + 4.
template <bool is_last, class L>
SINTER_ALWAYS_INLINE void butterfly4(Pair<L> (&x)[4], const typename L::Number* w) {
  const Pair<L> even = x[0] + x[2], odd = x[0] - x[2], sum = x[1] + x[3], side = turned(x[1] - x[3]);
  x[0] = even + sum;
  x[1] = times_twiddle<is_last>(odd + side, w);
  x[2] = times_twiddle<is_last>(even - sum, w + 2);
  x[3] = times_twiddle<is_last>(odd - side, w + 4);
}

template <bool is_last, class L>
SINTER_ALWAYS_INLINE void run_radix4(const Stage<L>& s) {
  const std::int64_t quarter = s.stride * s.parts;
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const Pair<L>* x = s.x + s.stride * p;
    Pair<L>* y = s.y + s.stride * 4 * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      Pair<L> z[4] = {x[q], x[q + quarter], x[q + 2 * quarter], x[q + 3 * quarter]};
      butterfly4<is_last>(z, s.twiddles + 6 * p);
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < 4; ++j) y[q + j * s.stride] = z[j];
    }
  }
}

template <class L>
SINTER_ALWAYS_INLINE void run_radix5(const Stage<L>& s) {
  using T = typename L::Number;
  constexpr T c1 = static_cast<T>(0.30901699437494742410L), c2 = static_cast<T>(-0.80901699437494742410L);
  constexpr T s1 = static_cast<T>(0.95105651629515357212L), s2 = static_cast<T>(0.58778525229247312917L);
  const std::int64_t fifth = s.stride * s.parts;
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const T* w = s.twiddles + 8 * p;
    const Pair<L>* x = s.x + s.stride * p;
    Pair<L>* y = s.y + s.stride * 5 * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const Pair<L> a = x[q], sum1 = x[q + fifth] + x[q + 4 * fifth], sum2 = x[q + 2 * fifth] + x[q + 3 * fifth];
      const Pair<L> gap1 = x[q + fifth] - x[q + 4 * fifth], gap2 = x[q + 2 * fifth] - x[q + 3 * fifth];
      const Pair<L> near = a + sum1 * c1 + sum2 * c2, far = a + sum1 * c2 + sum2 * c1;
      const Pair<L> near_side = turned(gap1 * s1 + gap2 * s2), far_side = turned(gap1 * s2 - gap2 * s1);
      y[q] = a + sum1 + sum2;
      y[q + s.stride] = times(near + near_side, w);
      y[q + 2 * s.stride] = times(far + far_side, w + 2);
      y[q + 3 * s.stride] = times(far - far_side, w + 4);
      y[q + 4 * s.stride] = times(near - near_side, w + 6);
    }
  }
}

inline constexpr int largest_radix = 31;

/// An odd radix. `roots`: (cos, sin) of 2 pi k / radix.
template <class L>
SINTER_ALWAYS_INLINE void run_odd_radix(const Stage<L>& s, int radix, const typename L::Number* roots) {
  const std::int64_t part = s.stride * s.parts;
  const int half = radix / 2;
  Pair<L> sums[largest_radix / 2 + 1], gaps[largest_radix / 2 + 1];
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const typename L::Number* w = s.twiddles + 2 * (radix - 1) * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const Pair<L>* x = s.x + s.stride * p + q;
      Pair<L>* y = s.y + s.stride * radix * p + q;
      Pair<L> all = x[0];
      for (int j = 1; j <= half; ++j) {
        sums[j] = x[part * j] + x[part * (radix - j)];
        gaps[j] = x[part * j] - x[part * (radix - j)];
        all = all + sums[j];
      }
      for (int k = 1; k <= half; ++k) {
        Pair<L> middle = x[0], side{};
        for (int j = 1, at = 0; j <= half; ++j) {
          at += k;
          at -= at >= radix ? radix : 0;
          middle = middle + sums[j] * roots[2 * at];
          side = side + gaps[j] * roots[2 * at + 1];
        }
        y[s.stride * k] = times(middle + turned(side), w + 2 * (k - 1));
        y[s.stride * (radix - k)] = times(middle - turned(side), w + 2 * (radix - k - 1));
      }
      y[0] = all;
    }
  }
}

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
