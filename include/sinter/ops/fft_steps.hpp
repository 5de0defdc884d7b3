// What happens to a group of lines between loading and storing: the whole transform by its plan. All that is compiled
// for 16 bytes a vector, for AVX2 and for AVX-512.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_in_row.hpp>
#include <sinter/ops/fft_lanes.hpp>
#include <sinter/ops/fft_plan.hpp>
#include <sinter/ops/fft_radices.hpp>
#include <sinter/ops/fft_real.hpp>
#include <sinter/ops/fft_row_stages.hpp>
#include <sinter/ops/fft_short_rows.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

template <class L>
using TableOf = const typename L::Number*;

/// Stages [first, end) of lines of which so many numbers are neighbours in a vector: 1 where lines lie side by side.
/// The numbers are where the result points to: a or b. The other one is overwritten.
template <class L>
SINTER_ALWAYS_INLINE Pair<L>* run_some_stages(const LinePlan<typename L::Number>& plan, std::size_t first,
                                              std::size_t end, std::int64_t neighbours, Pair<L>* a, Pair<L>* b) {
  for (std::size_t i = first; i < end; ++i) {
    const StageTable& table = plan.stages[i];
    const Stage<L> stage{a, b, plan.tables.data() + table.twiddles, table.parts, table.stride / neighbours};
    switch (table.radix) {
      case 2: run_radix<2>(stage); break;
      case 3: run_radix<3>(stage); break;
      case 4: run_radix<4>(stage); break;
      case 5: run_radix<5>(stage); break;
      case 6: run_radix<6>(stage); break;
      case 7: run_radix<7>(stage); break;
      case 8: run_radix<8>(stage); break;
      case 9: run_radix<9>(stage); break;
      case 10: run_radix<10>(stage); break;
      case 12: run_radix<12>(stage); break;
      case 15: run_radix<15>(stage); break;
      case 16: run_radix<16>(stage); break;
      default: run_odd_radix(stage, table.radix, plan.tables.data() + table.roots); break;
    }
    std::swap(a, b);
  }
  return a;
}
/// Bluestein: with j k = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution with a chirp.
template <class Machine, class L>
SINTER_ALWAYS_INLINE Pair<L>* run_chirp(const LinePlan<typename L::Number>& plan, Pair<L>* a, Pair<L>* b) {
  const std::int64_t inner = plan.room;
  TableOf<L> chirp = plan.chirp.data();
  for (std::int64_t j = 0; j < plan.length; ++j) a[j] = times(a[j], chirp + 2 * j);
  for (std::int64_t j = plan.length; j < inner; ++j) a[j] = Pair<L>{};
  Pair<L>* spectrum = nullptr;
  for (int pass = 0; pass < 2; ++pass) {  // the second one is an inverse transform, of the conjugate
    spectrum = Machine::stages(*plan.inner, 0, plan.inner->stages.size(), 1, a, b);
    if (pass == 0)
      for (std::int64_t j = 0; j < inner; ++j)
        spectrum[j] = conjugate(times(spectrum[j], plan.spectrum.data() + 2 * j));
    b = spectrum == a ? b : a;
    a = spectrum;
  }
  for (std::int64_t j = 0; j < plan.length; ++j) a[j] = times(conjugate(a[j]), chirp + 2 * j);
  return a;
}

template <class Machine, class L>
SINTER_ALWAYS_INLINE Pair<L>* run_transform(const LinePlan<typename L::Number>& plan, Pair<L>* a, Pair<L>* b) {
  if (plan.inner) return run_chirp<Machine>(plan, a, b);
  return Machine::stages(plan, 0, plan.stages.size(), 1, a, b);
}

/// x[row] times factors of its own for each lane.
template <class L>
SINTER_ALWAYS_INLINE void run_twiddles(Pair<L>* x, std::int64_t rows, TableOf<L> table) {
  using Anywhere = typename L::Anywhere;  // written out: deduced types lose their alignment
  const Anywhere* w = reinterpret_cast<const Anywhere*>(table);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Pair<L> a = x[row];
    x[row] = times_each(a, typename L::Vector(w[2 * row]), typename L::Vector(w[2 * row + 1]));
  }
}

template <class T>
struct NarrowMachine {
  using L = Lanes<T, static_cast<int>(16 / sizeof(T))>;
  static void load(Pair<L>* to, const Lines<L, const T*>& lines, std::int64_t n) { load_lines(to, lines, n); }
  static void store(const Lines<L, T*>& lines, const Pair<L>* from, std::int64_t n, T scale) {
    store_lines(lines, from, n, scale);
  }
  static Pair<L>* transform(const LinePlan<T>& plan, Pair<L>* a, Pair<L>* b) {
    return run_transform<NarrowMachine>(plan, a, b);
  }
  static void twiddle(Pair<L>* x, std::int64_t rows, const T* table) { run_twiddles(x, rows, table); }
  static Pair<L>* stages(const LinePlan<T>& plan, std::size_t first, std::size_t end, std::int64_t neighbours,
                         Pair<L>* a, Pair<L>* b) {
    return run_some_stages(plan, first, end, neighbours, a, b);
  }
  static void rows(const LinePlan<T>& plan, const RowGroups<T>& groups, Pair<L>* a, Pair<L>* b) {
    run_row_groups<NarrowMachine>(plan, groups, a, b);
  }
  static void row(const LinePlan<T>& plan, const RowEnds<T>& ends, Pair<L>* a, Pair<L>* b) {
    run_row<NarrowMachine>(plan, ends, a, b);
  }
  static void finish_row(T* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    finish_in_row<L>(z, half, roots, kind);
  }
  static void begin_row(T* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    begin_in_row<L>(x, half, roots, kind);
  }
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
    return run_transform<WideMachine>(plan, a, b);
  }
  SINTER_AVX2 static void twiddle(Pair<L>* x, std::int64_t rows, const T* table) { run_twiddles(x, rows, table); }
  SINTER_AVX2 static Pair<L>* stages(const LinePlan<T>& plan, std::size_t first, std::size_t end,
                                     std::int64_t neighbours, Pair<L>* a, Pair<L>* b) {
    return run_some_stages(plan, first, end, neighbours, a, b);
  }
  SINTER_AVX2 static void rows(const LinePlan<T>& plan, const RowGroups<T>& groups, Pair<L>* a, Pair<L>* b) {
    run_row_groups<WideMachine>(plan, groups, a, b);
  }
  SINTER_AVX2 static void row(const LinePlan<T>& plan, const RowEnds<T>& ends, Pair<L>* a, Pair<L>* b) {
    run_row<WideMachine>(plan, ends, a, b);
  }
  template <ShortKind kind>
  SINTER_AVX2 static void short_rows(const ShortRows<T>& rows) {
    run_short_rows<kind, L>(rows);
  }
  SINTER_AVX2 static void finish_row(T* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    finish_in_row<L>(z, half, roots, kind);
  }
  SINTER_AVX2 static void begin_row(T* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    begin_in_row<L>(x, half, roots, kind);
  }
  SINTER_AVX2 static void finish(Pair<L>* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_finish(z, half, roots, kind);
  }
  SINTER_AVX2 static void begin(Pair<L>* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    run_begin(x, half, roots, kind);
  }
};

#define SINTER_FFT_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
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
    return run_transform<WidestMachine>(plan, a, b);
  }
  SINTER_FFT_AVX512 static void twiddle(Pair<L>* x, std::int64_t rows, const T* table) { run_twiddles(x, rows, table); }
  SINTER_FFT_AVX512 static Pair<L>* stages(const LinePlan<T>& plan, std::size_t first, std::size_t end,
                                           std::int64_t neighbours, Pair<L>* a, Pair<L>* b) {
    return run_some_stages(plan, first, end, neighbours, a, b);
  }
  SINTER_FFT_AVX512 static void rows(const LinePlan<T>& plan, const RowGroups<T>& groups, Pair<L>* a, Pair<L>* b) {
    run_row_groups<WidestMachine>(plan, groups, a, b);
  }
  SINTER_FFT_AVX512 static void row(const LinePlan<T>& plan, const RowEnds<T>& ends, Pair<L>* a, Pair<L>* b) {
    run_row<WidestMachine>(plan, ends, a, b);
  }
  template <ShortKind kind>
  SINTER_FFT_AVX512 static void short_rows(const ShortRows<T>& rows) {
    run_short_rows<kind, L>(rows);
  }
  SINTER_FFT_AVX512 static void finish_row(T* z, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    finish_in_row<L>(z, half, roots, kind);
  }
  SINTER_FFT_AVX512 static void begin_row(T* x, std::int64_t half, const T* roots, HalfSpectrum<T> kind) {
    begin_in_row<L>(x, half, roots, kind);
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
