// One row at a time: lanes are neighbours in the row. The first two stages, of radix 4, exchange lanes; from there on
// numbers that meet are whole vectors apart, and stages are those of lines side by side. The row stays in the first
// cache where many side by side do not. Operations on each number, and so bits, are the same.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_lanes.hpp>
#include <sinter/ops/fft_plan.hpp>
#include <sinter/ops/fft_radices.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// A row of complex numbers; `out` may be `in`.
template <class T>
struct RowEnds {
  const T* in;
  T* out;
  int re;  // the place of the real part in each number
  T scale;
};

/// Chunks of c lanes of a and b take turns.
template <int c, class L, int... i>
SINTER_ALWAYS_INLINE void zip_chunks(typename L::Vector& a, typename L::Vector& b, std::integer_sequence<int, i...>) {
  constexpr int n = L::count;
  const typename L::Vector low = __builtin_shufflevector(a, b, (i / c % 2 * n + i / (2 * c) * c + i % c)...);
  b = __builtin_shufflevector(a, b, (i / c % 2 * n + i / (2 * c) * c + i % c + n / 2)...);
  a = low;
}
/// Chunks of the four take turns.
template <int c, class L>
SINTER_ALWAYS_INLINE void interleave4(typename L::Vector& a, typename L::Vector& b, typename L::Vector& d,
                                      typename L::Vector& e) {
  if constexpr (c < L::count) {
    zip_chunks<c, L>(a, d, LaneSequence<L>());
    zip_chunks<c, L>(b, e, LaneSequence<L>());
    zip_chunks<c, L>(a, b, LaneSequence<L>());
    zip_chunks<c, L>(d, e, LaneSequence<L>());
  }
}

/// A stage of radix 4 whose stride is `stride` < L::count: the four numbers of a butterfly come from quarters of x by
/// `load`, and go to y side by side.
template <int stride, class L, class Load>
SINTER_ALWAYS_INLINE void run_exchanging_radix4(std::int64_t quarter, Pair<L>* y, const typename L::Number* tables,
                                                const Load& load) {
  using Anywhere = typename L::Anywhere;
  for (std::int64_t v = 0; v < quarter; v += L::count, y += 4) {
    Pair<L> z[4];
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < 4; ++k) load(z[k], v + k * quarter);
    const Pair<L> even = z[0] + z[2], odd = z[0] - z[2], sum = z[1] + z[3], side = turned(z[1] - z[3]);
    z[0] = even + sum;
    z[1] = odd + side;
    z[2] = even - sum;
    z[3] = odd - side;
#pragma GCC unroll 3
    for (std::int64_t j = 1; j < 4; ++j) {
      const typename L::Number* w = tables + 2 * (j - 1) * quarter + v;
      const typename L::Vector re = *reinterpret_cast<const Anywhere*>(w);
      const typename L::Vector im = *reinterpret_cast<const Anywhere*>(w + quarter);
      z[j] = times_each(z[j], re, im);
    }
    interleave4<stride, L>(z[0].re, z[1].re, z[2].re, z[3].re);
    interleave4<stride, L>(z[0].im, z[1].im, z[2].im, z[3].im);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) y[k] = z[k];
  }
}

/// Numbers of a row in memory, to lanes.
template <class L>
struct LoadInterleaved {
  const typename L::Number* in;
  int re;
  SINTER_ALWAYS_INLINE void operator()(Pair<L>& to, std::int64_t at) const {
    using Anywhere = typename L::Anywhere;
    typename L::Vector first = *reinterpret_cast<const Anywhere*>(in + 2 * at);
    typename L::Vector second = *reinterpret_cast<const Anywhere*>(in + 2 * at + L::count);
    unzip<L>(first, second, LaneSequence<L>());
    to.re = re == 0 ? first : second;
    to.im = re == 0 ? second : first;
  }
};
template <class L>
struct LoadPairs {
  const Pair<L>* in;
  SINTER_ALWAYS_INLINE void operator()(Pair<L>& to, std::int64_t at) const { to = in[at / L::count]; }
};
template <class L>
SINTER_ALWAYS_INLINE void store_interleaved(typename L::Number* to, const Pair<L>& x, int re,
                                            typename L::Number scale) {
  using Anywhere = typename L::Anywhere;
  typename L::Vector first = (re == 0 ? x.re : x.im) * scale, second = (re == 0 ? x.im : x.re) * scale;
  zip<L>(first, second, LaneSequence<L>());
  *reinterpret_cast<Anywhere*>(to) = first;
  *reinterpret_cast<Anywhere*>(to + L::count) = second;
}

/// The last stage, of an even radix, to memory.
template <int radix, class L>
SINTER_ALWAYS_INLINE void run_last_in_row(const Pair<L>* x, std::int64_t length,
                                          const RowEnds<typename L::Number>& ends) {
  const std::int64_t stride = length / radix / L::count;
  for (std::int64_t q = 0; q < stride; ++q) {
    Pair<L> z[radix];
    load_every(z, x + q, stride, std::make_integer_sequence<int, radix>());
    SmallTransform<radix, L>::run(z);
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < radix; ++k)
      store_interleaved<L>(ends.out + 2 * L::count * (q + k * stride), z[k], ends.re, ends.scale);
  }
}

template <class Machine, class L, class T>
SINTER_ALWAYS_INLINE void run_row(const LinePlan<T>& plan, const RowEnds<T>& ends, Pair<L>* a, Pair<L>* b) {
  const std::int64_t quarter = plan.length / 4;
  const std::size_t last = plan.stages.size() - 1, next = L::count > 4 ? 2 : 1;
  run_exchanging_radix4<1>(quarter, a, plan.row_tables.data(), LoadInterleaved<L>{ends.in, ends.re});
  if constexpr (L::count > 4) {
    run_exchanging_radix4<4>(quarter, b, plan.row_tables.data() + 6 * quarter, LoadPairs<L>{a});
    std::swap(a, b);
  }
  const int radix = plan.stages[last].radix;
  const bool is_last_apart = radix == 8 || radix == 4 || radix == 2;
  const std::size_t end = is_last_apart ? last : last + 1;
  const Pair<L>* x = next < end ? Machine::stages(plan, next, end, L::count, a, b) : a;
  if (radix == 8) return run_last_in_row<8>(x, plan.length, ends);
  if (radix == 4) return run_last_in_row<4>(x, plan.length, ends);
  if (radix == 2) return run_last_in_row<2>(x, plan.length, ends);
  for (std::int64_t i = 0; i < plan.length / L::count; ++i)
    store_interleaved<L>(ends.out + 2 * L::count * i, x[i], ends.re, ends.scale);
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
