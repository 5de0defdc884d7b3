// Transforms of few numbers in registers, of lengths that are known here: 2, 3, 4 and 5 written out, other primes by
// sums and differences of mirrored numbers, products of two lengths by their factors. They are the stages of longer
// ones: of two stages one is saved where a radix is as large as 8 to 16. Functions are templates over places, since the
// elements of an array stay in registers only where each place is known.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/fft_pair.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

// ---- roots of unity, as constants

struct KnownRoot {
  long double re = 1, im = 0;
};
/// (cos x, -sin x) by their series, for 0 <= x <= pi / 4.
constexpr KnownRoot root_by_series(long double x) {
  KnownRoot root;
  long double term = 1;
  for (int k = 1; k < 26; ++k) {
    term *= x / k;
    (k % 2 == 0 ? root.re : root.im) += k % 4 < 2 ? (k % 2 == 0 ? term : -term) : (k % 2 == 0 ? -term : term);
  }
  return root;
}
/// e^(-2 pi i k / n), for 0 <= k < n: by the angle in its eighth of the circle.
constexpr KnownRoot known_root(int k, int n) {
  const int octant = 8 * k / n, rest = 8 * k % n;
  const long double part = octant % 2 != 0 ? n - rest : rest;
  const KnownRoot root = root_by_series(0.785398163397448309615660845819876L * part / n);
  const long double c = root.re, s = -root.im;
  const bool is_steep = octant % 4 == 1 || octant % 4 == 2, is_left = octant >= 2 && octant < 6;
  const long double x = is_steep ? s : c, y = is_steep ? c : s;
  return {is_left ? -x : x, octant >= 4 ? y : -y};
}
template <int k, int n>
inline constexpr KnownRoot root_constant = known_root(k % n, n);

/// a e^(-2 pi i k / n).
template <int k, int n, class L>
SINTER_ALWAYS_INLINE Pair<L> times_root(const Pair<L>& a) {
  using T = typename L::Number;
  if constexpr (k % n == 0) {
    return a;
  } else if constexpr (4 * (k % n) == n) {
    return turned(a);
  } else if constexpr (2 * (k % n) == n) {
    return {-a.re, -a.im};
  } else if constexpr (8 * (k % n) == n) {  // (1 - i) / sqrt(2)
    return Pair<L>{a.re + a.im, a.im - a.re} * static_cast<T>(root_constant<1, 8>.re);
  } else if constexpr (8 * (k % n) == 3 * n) {  // (-1 - i) / sqrt(2)
    return Pair<L>{a.im - a.re, -a.re - a.im} * static_cast<T>(root_constant<1, 8>.re);
  } else {
    constexpr KnownRoot root = root_constant<k, n>;
    return times_each(a, static_cast<T>(root.re), static_cast<T>(root.im));
  }
}

// ---- transforms of n numbers in place

/// The first of two factors: 1 for a prime. 4 is taken out first, since factors without a common divisor need no roots
/// between them.
constexpr int first_factor(int n) {
  if (n % 4 == 0 && n > 4) return 4;
  for (int factor = 2; factor * factor <= n; ++factor)
    if (n % factor == 0) return factor;
  return 1;
}
constexpr bool are_coprime(int a, int b) {
  while (b != 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a == 1;
}

template <int n, class L>
struct SmallTransform;

template <class L>
struct SmallTransform<2, L> {
  static SINTER_ALWAYS_INLINE void run(Pair<L>* x) {
    const Pair<L> sum = x[0] + x[1];
    x[1] = x[0] - x[1];
    x[0] = sum;
  }
};
template <class L>
struct SmallTransform<3, L> {
  static SINTER_ALWAYS_INLINE void run(Pair<L>* x) {
    using T = typename L::Number;
    constexpr T root = static_cast<T>(0.86602540378443864676L);  // sin(pi / 3)
    const Pair<L> a = x[0], sum = x[1] + x[2], side = turned((x[1] - x[2]) * root), middle = a - sum * T(0.5);
    x[0] = a + sum;
    x[1] = middle + side;
    x[2] = middle - side;
  }
};
template <class L>
struct SmallTransform<4, L> {
  static SINTER_ALWAYS_INLINE void run(Pair<L>* x) {
    const Pair<L> even = x[0] + x[2], odd = x[0] - x[2], sum = x[1] + x[3], side = turned(x[1] - x[3]);
    x[0] = even + sum;
    x[1] = odd + side;
    x[2] = even - sum;
    x[3] = odd - side;
  }
};
template <class L>
struct SmallTransform<5, L> {
  static SINTER_ALWAYS_INLINE void run(Pair<L>* x) {
    using T = typename L::Number;
    constexpr T c1 = static_cast<T>(0.30901699437494742410L), c2 = static_cast<T>(-0.80901699437494742410L);
    constexpr T s1 = static_cast<T>(0.95105651629515357212L), s2 = static_cast<T>(0.58778525229247312917L);
    const Pair<L> a = x[0], sum1 = x[1] + x[4], sum2 = x[2] + x[3], gap1 = x[1] - x[4], gap2 = x[2] - x[3];
    const Pair<L> near = a + sum1 * c1 + sum2 * c2, far = a + sum1 * c2 + sum2 * c1;
    const Pair<L> near_side = turned(gap1 * s1 + gap2 * s2), far_side = turned(gap1 * s2 - gap2 * s1);
    x[0] = a + sum1 + sum2;
    x[1] = near + near_side;
    x[2] = far + far_side;
    x[3] = far - far_side;
    x[4] = near - near_side;
  }
};

/// A prime from 7 on.
template <int n, class L>
struct PrimeTransform {
  static constexpr int half = n / 2;
  template <int k, int... j>
  static SINTER_ALWAYS_INLINE void put(Pair<L>* x, const Pair<L>& first, const Pair<L>* sums, const Pair<L>* gaps,
                                       std::integer_sequence<int, j...>) {
    using T = typename L::Number;
    Pair<L> middle = first, side = gaps[0] * static_cast<T>(-root_constant<k, n>.im);
    ((middle = middle + sums[j] * static_cast<T>(root_constant<k*(j + 1), n>.re)), ...);
    ((side = j == 0 ? side : side + gaps[j] * static_cast<T>(-root_constant<k*(j + 1), n>.im)), ...);
    x[k] = middle + turned(side);
    x[n - k] = middle - turned(side);
  }
  template <int... j>
  static SINTER_ALWAYS_INLINE void run_over(Pair<L>* x, std::integer_sequence<int, j...> places) {
    const Pair<L> first = x[0], sums[half] = {(x[j + 1] + x[n - 1 - j])...},
                  gaps[half] = {(x[j + 1] - x[n - 1 - j])...};
    ((x[0] = x[0] + sums[j]), ...);
    (put<j + 1>(x, first, sums, gaps, places), ...);
  }
};

/// a times b numbers, by b transforms of a and a transforms of b.
template <int a, int b, class L>
struct ProductTransform {
  static constexpr int n = a * b;
  static constexpr bool has_roots = !are_coprime(a, b);
  /// Where number k of column p is read from: without roots (Good and Thomas) steps wrap around.
  static constexpr int from(int p, int k) { return has_roots ? p + b * k : (a * p + b * k) % n; }
  /// Where number m of the row j goes to.
  static constexpr int to(int j, int m) {
    if (has_roots) return j + a * m;
    int place = 0;
    while (place % a != j || place % b != m) ++place;
    return place;
  }
  template <int p, int... k>
  static SINTER_ALWAYS_INLINE void run_column(const Pair<L>* x, Pair<L>* columns, std::integer_sequence<int, k...>) {
    Pair<L> column[a] = {x[from(p, k)]...};
    SmallTransform<a, L>::run(column);
    ((columns[p + b * k] = times_root<has_roots ? p * k : 0, n>(column[k])), ...);
  }
  template <int j, int... m>
  static SINTER_ALWAYS_INLINE void run_row(Pair<L>* x, const Pair<L>* columns, std::integer_sequence<int, m...>) {
    Pair<L> row[b] = {columns[m + b * j]...};
    SmallTransform<b, L>::run(row);
    ((x[to(j, m)] = row[m]), ...);
  }
  template <int... p, int... j>
  static SINTER_ALWAYS_INLINE void run_over(Pair<L>* x, std::integer_sequence<int, p...> columns,
                                            std::integer_sequence<int, j...> rows) {
    Pair<L> middle[n];
    (run_column<p>(x, middle, rows), ...);
    (run_row<j>(x, middle, columns), ...);
  }
};

template <int n, class L>
struct SmallTransform {
  static SINTER_ALWAYS_INLINE void run(Pair<L>* x) {
    constexpr int a = first_factor(n);
    if constexpr (a == 1) PrimeTransform<n, L>::run_over(x, std::make_integer_sequence<int, n / 2>());
    else
      ProductTransform<a, n / a, L>::run_over(x, std::make_integer_sequence<int, n / a>(),
                                              std::make_integer_sequence<int, a>());
  }
};

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

template <class L, int... k>
SINTER_ALWAYS_INLINE void load_every(Pair<L>* to, const Pair<L>* from, std::int64_t step,
                                     std::integer_sequence<int, k...>) {
  ((to[k] = from[k * step]), ...);
}
template <class L, int... j>
SINTER_ALWAYS_INLINE void store_every(Pair<L>* to, std::int64_t step, const Pair<L>* from,
                                      std::integer_sequence<int, j...>) {
  ((to[j * step] = from[j]), ...);
}
/// As store_every, but for the first one times its factor: two numbers each from `w` on.
template <class L, int... j>
SINTER_ALWAYS_INLINE void store_twiddled(Pair<L>* to, std::int64_t step, const Pair<L>* from,
                                         const typename L::Number* w, std::integer_sequence<int, j...>) {
  to[0] = from[0];
  ((to[(j + 1) * step] = times(from[j + 1], w + 2 * j)), ...);
}

/// In the last stage, of one part, factors are all 1: of small radices, whose steps are short, that is another loop.
template <int radix, bool is_known_as_last, class L>
SINTER_ALWAYS_INLINE void run_radix_of(const Stage<L>& s) {
  constexpr auto places = std::make_integer_sequence<int, radix>();
  const std::int64_t part = s.stride * s.parts;
  for (std::int64_t p = 0; p < s.parts; ++p) {
    const typename L::Number* w = s.twiddles + 2 * (radix - 1) * p;
    const Pair<L>* x = s.x + s.stride * p;
    Pair<L>* y = s.y + s.stride * radix * p;
    for (std::int64_t q = 0; q < s.stride; ++q) {
      Pair<L> z[radix];
      load_every(z, x + q, part, places);
      SmallTransform<radix, L>::run(z);
      if (is_known_as_last || (radix > 4 && s.parts == 1)) store_every(y + q, s.stride, z, places);
      else store_twiddled(y + q, s.stride, z, w, std::make_integer_sequence<int, radix - 1>());
    }
  }
}
template <int radix, class L>
SINTER_ALWAYS_INLINE void run_radix(const Stage<L>& s) {
  if (radix <= 4 && s.parts == 1) return run_radix_of<radix, true>(s);
  run_radix_of<radix, false>(s);
}

inline constexpr int largest_radix = 31, largest_known_radix = 16;
/// Radices that are written out; others are primes.
constexpr bool is_known_radix(int radix) {
  return (radix <= 10 || radix == 12 || radix == 15 || radix == largest_known_radix) && radix > 1;
}

/// A prime that is not written out. `roots`: (cos, sin) of 2 pi k / radix.
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

}  // namespace fft_detail
SINTER_NAMESPACE_END
