// Rows of few numbers, a whole group of them at a time: their length is known here, so that addresses, roots and steps
// are constants, and all there is to do stays in the first cache. Complex rows, and real ones either way. The
// arithmetic is that of one stage of lines side by side (fft_radices.hpp), and so are the bits.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_pieces.hpp>
#include <sinter/ops/fft_radices.hpp>
#include <sinter/ops/fft_real.hpp>
#include <sinter/ops/fft_row_stages.hpp>
#include <sinter/ops/small_lanes.hpp>

#include <algorithm>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

enum class ShortKind : std::uint8_t { complex, from_real, to_real };

/// Groups [begin, end) of rows, each of as many as a vector has lanes. `out` may be `in` of complex rows.
template <class T>
struct ShortRows {
  const T* in;
  T* out;
  std::int64_t length, begin, end, rows;  // rows that are there
  int re = 0;                             // of complex rows: the place of the real part in each number
  T scale = 1;
  HalfSpectrum<T> kind = {};  // of real rows
  const T* roots = nullptr;   // of real rows of even length: those of their RealTable
};

constexpr bool is_short_row(ShortKind kind, std::int64_t length) {
  if (kind != ShortKind::complex && length % 2 == 0) return length >= 4 && length <= 12;
  return length == 2 || length == 3 || length == 4 || length == 5 || length == 6 || length == 7 || length == 9 ||
         length == 10 || length == 12 || length == 15;
}

/// Rows of n real numbers, one after the other.
template <int n, class L>
struct RealRowLanes {
  using T = typename L::Number;
  using Loads = ops_detail::SmallLoads<T, L::count>;
  static constexpr std::int64_t piece = Loads::piece;
  static SINTER_ALWAYS_INLINE void load(typename L::Vector* to, const T* row) {
    typename L::Vector x[4];
    if constexpr (Loads::is_short(n)) {
      Loads::load_short(x, row, n);
      for (std::int64_t i = 0; i < n; ++i) to[i] = x[i];
    } else {
      for (std::int64_t j = 0; j < n; j += piece) {
        j = std::min<std::int64_t>(j, n - piece);
        Loads::load_piece(x, row, n, j);
        for (std::int64_t i = 0; i < piece; ++i) to[j + i] = x[i];
      }
    }
  }
  static SINTER_ALWAYS_INLINE void store(T* row, const typename L::Vector* from) {
    typename L::Vector x[4];
    if constexpr (Loads::is_short(n)) {
      for (std::int64_t i = 0; i < n; ++i) x[i] = from[i];
      Loads::store_short(row, x, n);
    } else {
      for (std::int64_t j = 0; j < n; j += piece) {
        j = std::min<std::int64_t>(j, n - piece);
        for (std::int64_t i = 0; i < piece; ++i) x[i] = from[j + i];
        Loads::store_piece(row, x, n, j);
      }
    }
  }
};

/// One group.
template <int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_complex(const ShortRows<T>& g, const T* in, T* out) {
  Pair<L> lanes[n], z[n];
  load_rows_by<2 * n, L>(lanes, in, 2 * n, n, g.re);
  load_every(z, lanes, 1, std::make_integer_sequence<int, n>());
  SmallTransform<n, L>::run(z);
  store_every(lanes, 1, z, std::make_integer_sequence<int, n>());
  store_rows_by<2 * n, L>(out, 2 * n, lanes, n, g.re, g.scale);
}
template <int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_from_real(const ShortRows<T>& g, const T* in, T* out) {
  constexpr std::int64_t numbers = n / 2 + 1;
  const T sign = g.kind.is_conjugate ? -g.kind.interior : g.kind.interior;
  typename L::Vector x[n];
  Pair<L> z[n];
  RealRowLanes<n, L>::load(x, in);
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) z[i] = {x[i], typename L::Vector{}};
  SmallTransform<n, L>::run(z);
  z[0] = {z[0].re * g.scale, typename L::Vector{}};
#pragma GCC unroll 16
  for (int k = 1; k < numbers; ++k) z[k] = {z[k].re * g.scale * g.kind.interior, z[k].im * g.scale * sign};
  store_rows_by<2 * numbers, L>(out, 2 * numbers, z, numbers, 0, T(1));
}
template <int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_to_real(const ShortRows<T>& g, const T* in, T* out) {
  constexpr std::int64_t numbers = n / 2 + 1;
  const T sign = g.kind.is_conjugate ? -g.kind.interior : g.kind.interior;
  typename L::Vector y[n];
  Pair<L> half[numbers], z[n];
  load_rows_by<2 * numbers, L>(half, in, 2 * numbers, numbers, 0);
  // An inverse transform is one of exchanged parts.
  z[0] = {typename L::Vector{}, half[0].re};
#pragma GCC unroll 16
  for (int k = 1; k < numbers; ++k) {
    typename L::Vector re = half[k].re * g.kind.interior, im = half[k].im * sign;
    keep_apart(re);
    keep_apart(im);
    z[k] = {im, re};
    z[n - k] = {-im, re};
  }
  SmallTransform<n, L>::run(z);
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) y[i] = z[i].im * g.scale;
  RealRowLanes<n, L>::store(out, y);
}

/// Real rows of even length, as complex ones of half of it.
template <int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_from_pairs(const ShortRows<T>& g, const T* in, T* out) {
  constexpr int half = n / 2;
  Pair<L> lanes[half + 1], z[half];
  load_rows_by<n, L>(lanes, in, n, half, 0);
  load_every(z, lanes, 1, std::make_integer_sequence<int, half>());
  SmallTransform<half, L>::run(z);
  store_every(lanes, 1, z, std::make_integer_sequence<int, half>());
  run_finish(lanes, half, g.roots, g.kind);
  store_rows_by<2 * half + 2, L>(out, 2 * half + 2, lanes, half + 1, 0, g.scale);
}
template <int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_to_pairs(const ShortRows<T>& g, const T* in, T* out) {
  constexpr int half = n / 2;
  Pair<L> lanes[half + 1], z[half];
  load_rows_by<2 * half + 2, L>(lanes, in, 2 * half + 2, half + 1, 0);
  run_begin(lanes, half, g.roots, g.kind);
#pragma GCC unroll 16
  for (int k = 0; k < half; ++k) z[k] = {lanes[k].im, lanes[k].re};
  SmallTransform<half, L>::run(z);
  store_every(lanes, 1, z, std::make_integer_sequence<int, half>());
  store_rows_by<n, L>(out, n, lanes, half, 1, g.scale);
}

template <ShortKind kind, int n, class L, class T>
SINTER_ALWAYS_INLINE void run_short_rows_of(const ShortRows<T>& g) {
  constexpr std::int64_t half_step = 2 * (n / 2 + 1);
  constexpr std::int64_t in_step = kind == ShortKind::complex ? 2 * n : kind == ShortKind::to_real ? half_step : n;
  constexpr std::int64_t out_step = kind == ShortKind::complex ? 2 * n : kind == ShortKind::to_real ? n : half_step;
  for (std::int64_t group = g.begin; group < g.end; ++group) {
    const std::int64_t first = group * L::count, next = std::min(first + 2 * L::count, g.rows);
    fetch_rows<Use::reading>(g.in, in_step, first + L::count, next);
    fetch_rows<Use::writing>(g.out, out_step, first + L::count, next);
    const T* in = g.in + first * in_step;
    T* out = g.out + first * out_step;
    if constexpr (kind == ShortKind::complex) run_short_complex<n, L>(g, in, out);
    else if constexpr (kind == ShortKind::from_real && n % 2 == 0) run_short_from_pairs<n, L>(g, in, out);
    else if constexpr (kind == ShortKind::from_real) run_short_from_real<n, L>(g, in, out);
    else if constexpr (n % 2 == 0) run_short_to_pairs<n, L>(g, in, out);
    else run_short_to_real<n, L>(g, in, out);
  }
}
template <ShortKind kind, class L, class T>
SINTER_ALWAYS_INLINE void run_short_rows(const ShortRows<T>& g) {
  switch (g.length) {
    case 3: return run_short_rows_of<kind, 3, L>(g);
    case 4: return run_short_rows_of<kind, 4, L>(g);
    case 5: return run_short_rows_of<kind, 5, L>(g);
    case 6: return run_short_rows_of<kind, 6, L>(g);
    case 7: return run_short_rows_of<kind, 7, L>(g);
    case 9: return run_short_rows_of<kind, 9, L>(g);
    case 10: return run_short_rows_of<kind, 10, L>(g);
    case 12: return run_short_rows_of<kind, 12, L>(g);
    case 15: return run_short_rows_of<kind, 15, L>(g);
    default: break;
  }
  if constexpr (kind == ShortKind::complex) {
    if (g.length == 2) run_short_rows_of<kind, 2, L>(g);
  } else {
    if (g.length == 8) run_short_rows_of<kind, 8, L>(g);
  }
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
