// What happens to a group of lines between loading and storing: the whole transform by its plan, and the steps that
// make a complex transform of half the length a real one. Compiled for 16 bytes a vector, for AVX2 and for AVX-512.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_lanes.hpp>
#include <sinter/ops/fft_plan.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

template <class L>
using TableOf = const typename L::Number*;

/// The transform is where the result points to: a or b. The other one is overwritten.
template <class L>
SINTER_ALWAYS_INLINE Pair<L>* run_stages(const LinePlan<typename L::Number>& plan, Pair<L>* a, Pair<L>* b) {
  for (const StageTable& table : plan.stages) {
    const Stage<L> stage{a, b, plan.tables.data() + table.twiddles, table.parts, table.stride};
    switch (table.radix) {
      case 2: table.parts == 1 ? run_radix2<true>(stage) : run_radix2<false>(stage); break;
      case 3: run_radix3(stage); break;
      case 4: table.parts == 1 ? run_radix4<true>(stage) : run_radix4<false>(stage); break;
      case 5: run_radix5(stage); break;
      default: run_odd_radix(stage, table.radix, plan.tables.data() + table.roots); break;
    }
    std::swap(a, b);
  }
  return a;
}

/// Bluestein: with j k = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution with a chirp.
template <class L>
SINTER_ALWAYS_INLINE Pair<L>* run_chirp(const LinePlan<typename L::Number>& plan, Pair<L>* a, Pair<L>* b) {
  const std::int64_t inner = plan.room;
  TableOf<L> chirp = plan.chirp.data();
  for (std::int64_t j = 0; j < plan.length; ++j) a[j] = times(a[j], chirp + 2 * j);
  for (std::int64_t j = plan.length; j < inner; ++j) a[j] = Pair<L>{};
  Pair<L>* spectrum = nullptr;
  for (int pass = 0; pass < 2; ++pass) {  // the second one is an inverse transform, of the conjugate
    spectrum = run_stages(*plan.inner, a, b);
    if (pass == 0)
      for (std::int64_t j = 0; j < inner; ++j)
        spectrum[j] = conjugate(times(spectrum[j], plan.spectrum.data() + 2 * j));
    b = spectrum == a ? b : a;
    a = spectrum;
  }
  for (std::int64_t j = 0; j < plan.length; ++j) a[j] = times(conjugate(a[j]), chirp + 2 * j);
  return a;
}

template <class L>
SINTER_ALWAYS_INLINE Pair<L>* run_transform(const LinePlan<typename L::Number>& plan, Pair<L>* a, Pair<L>* b) {
  return plan.inner ? run_chirp(plan, a, b) : run_stages(plan, a, b);
}

/// x[row] times factors of its own for each lane.
template <class L>
SINTER_ALWAYS_INLINE void run_twiddles(Pair<L>* x, std::int64_t rows, TableOf<L> table) {
  using Anywhere = typename L::Anywhere;  // written out: deduced types lose their alignment
  const Anywhere* w = reinterpret_cast<const Anywhere*>(table);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Pair<L> a = x[row];
    x[row] = {a.re * w[2 * row] - a.im * w[2 * row + 1], a.re * w[2 * row + 1] + a.im * w[2 * row]};
  }
}

/// What a half spectrum is multiplied by between its ends, and whether it is that of the conjugate transform.
template <class T>
struct HalfSpectrum {
  T interior = 1;
  bool is_conjugate = false;
};

/// z: the transform of the even places + i that of the odd ones, `half` long; becomes the first half + 1 numbers of the
/// transform of the whole.
template <class L>
SINTER_ALWAYS_INLINE void run_finish(Pair<L>* z, std::int64_t half, TableOf<L> roots,
                                     HalfSpectrum<typename L::Number> kind) {
  using T = typename L::Number;
  const Pair<L> first = z[0];
  z[0] = {first.re + first.im, typename L::Vector{}};
  z[half] = {first.re - first.im, typename L::Vector{}};
  const T factor = kind.interior / 2, sign = kind.is_conjugate ? T(-1) : T(1);
  for (std::int64_t k = 1; 2 * k <= half; ++k) {
    const Pair<L> a = z[k], b = conjugate(z[half - k]);
    const Pair<L> even = (a + b) * factor, odd = times(turned((a - b) * factor), roots + 2 * k);
    const Pair<L> low = even + odd, high = even - odd;
    z[k] = {low.re, low.im * sign};
    z[half - k] = {high.re, high.im * -sign};
  }
}

/// The other way: x, the half spectrum of half + 1 numbers, becomes that with which an inverse transform of `half`
/// numbers gives the real ones; without factors, which are the caller's.
template <class L>
SINTER_ALWAYS_INLINE void run_begin(Pair<L>* x, std::int64_t half, TableOf<L> roots,
                                    HalfSpectrum<typename L::Number> kind) {
  using T = typename L::Number;
  const typename L::Vector first = x[0].re, last = x[half].re;
  x[0] = {first + last, first - last};
  const T factor = kind.interior, sign = kind.is_conjugate ? -factor : factor;
  for (std::int64_t k = 1; 2 * k <= half; ++k) {
    Pair<L> a{x[k].re * factor, x[k].im * sign}, b{x[half - k].re * factor, x[half - k].im * -sign};
    keep_apart(a.re);
    keep_apart(a.im);
    keep_apart(b.re);
    keep_apart(b.im);
    const T w[2] = {roots[2 * k], -roots[2 * k + 1]};
    const Pair<L> sum = a + b, odd = turned(times(a - b, w));  // -i times the odd places
    const Pair<L> low = sum - odd, high = conjugate(sum + odd);
    x[k] = low;
    x[half - k] = high;
  }
}

template <class T>
struct NarrowMachine {
  using L = Lanes<T, static_cast<int>(16 / sizeof(T))>;
  static void load(Pair<L>* to, const Lines<L, const T*>& lines, std::int64_t n) { load_lines(to, lines, n); }
  static void store(const Lines<L, T*>& lines, const Pair<L>* from, std::int64_t n, T scale) {
    store_lines(lines, from, n, scale);
  }
  static Pair<L>* transform(const LinePlan<T>& plan, Pair<L>* a, Pair<L>* b) { return run_transform(plan, a, b); }
  static void twiddle(Pair<L>* x, std::int64_t rows, const T* table) { run_twiddles(x, rows, table); }
  static void finish(Pair<L>* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_finish(z, half, roots, kind);
  }
  static void begin(Pair<L>* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_begin(x, half, roots, kind);
  }
};

#ifndef SINTER_NO_X86
template <class T>
struct WideMachine {
  using L = Lanes<T, static_cast<int>(32 / sizeof(T))>;
  SINTER_AVX2 static void load(Pair<L>* to, const Lines<L, const T*>& lines, std::int64_t n) {
    load_lines(to, lines, n);
  }
  SINTER_AVX2 static void store(const Lines<L, T*>& lines, const Pair<L>* from, std::int64_t n, T scale) {
    store_lines(lines, from, n, scale);
  }
  SINTER_AVX2 static Pair<L>* transform(const LinePlan<T>& plan, Pair<L>* a, Pair<L>* b) {
    return run_transform(plan, a, b);
  }
  SINTER_AVX2 static void twiddle(Pair<L>* x, std::int64_t rows, const T* table) { run_twiddles(x, rows, table); }
  SINTER_AVX2 static void finish(Pair<L>* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_finish(z, half, roots, kind);
  }
  SINTER_AVX2 static void begin(Pair<L>* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_begin(x, half, roots, kind);
  }
};

#define SINTER_FFT_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
/// For lines side by side alone: it has nothing for single rows.
template <class T>
struct WidestMachine {
  using L = Lanes<T, static_cast<int>(64 / sizeof(T))>;
  SINTER_FFT_AVX512 static void load(Pair<L>* to, const Lines<L, const T*>& lines, std::int64_t n) {
    load_lines(to, lines, n);
  }
  SINTER_FFT_AVX512 static void store(const Lines<L, T*>& lines, const Pair<L>* from, std::int64_t n, T scale) {
    store_lines(lines, from, n, scale);
  }
  SINTER_FFT_AVX512 static Pair<L>* transform(const LinePlan<T>& plan, Pair<L>* a, Pair<L>* b) {
    return run_transform(plan, a, b);
  }
  SINTER_FFT_AVX512 static void finish(Pair<L>* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_finish(z, half, roots, kind);
  }
  SINTER_FFT_AVX512 static void begin(Pair<L>* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_begin(x, half, roots, kind);
  }
};
#undef SINTER_FFT_AVX512
#endif

}  // namespace fft_detail
SINTER_NAMESPACE_END
