// The steps that make a complex transform of half the length a real one: of lines side by side, and along one row.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_in_row.hpp>
#include <sinter/ops/fft_lanes.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// What a half spectrum is multiplied by between its ends, and whether it is that of the conjugate transform.
template <class T>
struct HalfSpectrum {
  T interior = 1;
  bool is_conjugate = false;
};

/// Numbers k and half - k of the transform of the even places + i that of the odd ones become those of the transform of
/// the whole. Factors: numbers, or a vector of them.
template <class L, class Factor>
SINTER_ALWAYS_INLINE void finish_two(Pair<L>& a, Pair<L>& mirrored, const Factor& w_re, const Factor& w_im,
                                     HalfSpectrum<typename L::Number> kind) {
  using T = typename L::Number;
  const T factor = kind.interior / 2, sign = kind.is_conjugate ? T(-1) : T(1);
  const Pair<L> b = conjugate(mirrored);
  const Pair<L> even = (a + b) * factor, odd = times_each(turned((a - b) * factor), w_re, w_im);
  const Pair<L> low = even + odd, high = even - odd;
  a = {low.re, low.im * sign};
  mirrored = {high.re, high.im * -sign};
}
/// The other way.
template <class L, class Factor>
SINTER_ALWAYS_INLINE void begin_two(Pair<L>& x, Pair<L>& mirrored, const Factor& w_re, const Factor& w_im,
                                    HalfSpectrum<typename L::Number> kind) {
  using T = typename L::Number;
  const T factor = kind.interior, sign = kind.is_conjugate ? -factor : factor;
  Pair<L> a{x.re * factor, x.im * sign}, b{mirrored.re * factor, mirrored.im * -sign};
  keep_apart(a.re);
  keep_apart(a.im);
  keep_apart(b.re);
  keep_apart(b.im);
  const Pair<L> sum = a + b, odd = turned(times_each(a - b, w_re, -w_im));  // -i times the odd places
  x = sum - odd;
  mirrored = conjugate(sum + odd);
}

/// Pairs from number `first` on, up to the middle.
enum class RealStep : bool { finish, begin };
template <RealStep step, class L>
SINTER_ALWAYS_INLINE void run_real_steps(Pair<L>* z, std::int64_t half, std::int64_t first,
                                         const typename L::Number* roots, HalfSpectrum<typename L::Number> kind) {
  for (std::int64_t k = first; 2 * k <= half; ++k) {
    Pair<L> a = z[k], mirrored = z[half - k];
    if constexpr (step == RealStep::finish) finish_two(a, mirrored, roots[2 * k], roots[2 * k + 1], kind);
    else begin_two(a, mirrored, roots[2 * k], roots[2 * k + 1], kind);
    z[k] = a;
    z[half - k] = mirrored;
  }
}

/// z: the transform of the even places + i that of the odd ones, `half` long; becomes the first half + 1 numbers of the
/// transform of the whole.
template <class L>
SINTER_ALWAYS_INLINE void run_finish(Pair<L>* z, std::int64_t half, const typename L::Number* roots,
                                     HalfSpectrum<typename L::Number> kind) {
  const Pair<L> first = z[0];
  z[0] = {first.re + first.im, typename L::Vector{}};
  z[half] = {first.re - first.im, typename L::Vector{}};
  run_real_steps<RealStep::finish>(z, half, 1, roots, kind);
}

/// The other way: x, the half spectrum of half + 1 numbers, becomes that with which an inverse transform of `half`
/// numbers gives the real ones; without factors, which are the caller's.
template <class L>
SINTER_ALWAYS_INLINE void run_begin(Pair<L>* x, std::int64_t half, const typename L::Number* roots,
                                    HalfSpectrum<typename L::Number> kind) {
  const typename L::Vector first = x[0].re, last = x[half].re;
  x[0] = {first + last, first - last};
  run_real_steps<RealStep::begin>(x, half, 1, roots, kind);
}

// ---- along a row: lanes are neighbours, and those of the mirrored end stand the other way round

template <class L, int... i>
SINTER_ALWAYS_INLINE void reverse_lanes(Pair<L>& x, std::integer_sequence<int, i...>) {
  const typename L::Vector re = __builtin_shufflevector(x.re, x.re, (L::count - 1 - i)...);
  const typename L::Vector im = __builtin_shufflevector(x.im, x.im, (L::count - 1 - i)...);
  x = {re, im};
}
template <RealStep step, class L>
SINTER_ALWAYS_INLINE void run_real_steps_in_row(typename L::Number* z, std::int64_t half,
                                                const typename L::Number* roots,
                                                HalfSpectrum<typename L::Number> kind) {
  using T = typename L::Number;
  std::int64_t k = 1;
  for (; 2 * (k + L::count) - 1 <= half; k += L::count) {
    const std::int64_t other = half - k - L::count + 1;
    Pair<L> a, mirrored, w;
    LoadInterleaved<L>{z, 0}(a, k);
    LoadInterleaved<L>{z, 0}(mirrored, other);
    LoadInterleaved<L>{roots, 0}(w, k);
    reverse_lanes(mirrored, LaneSequence<L>());
    if constexpr (step == RealStep::finish) finish_two(a, mirrored, w.re, w.im, kind);
    else begin_two(a, mirrored, w.re, w.im, kind);
    reverse_lanes(mirrored, LaneSequence<L>());
    store_interleaved<L>(z + 2 * k, a, 0, T(1));
    store_interleaved<L>(z + 2 * other, mirrored, 0, T(1));
  }
  run_real_steps<step>(reinterpret_cast<Pair<Lanes<T, 1>>*>(z), half, k, roots, kind);
}
template <class L>
SINTER_ALWAYS_INLINE void finish_in_row(typename L::Number* z, std::int64_t half, const typename L::Number* roots,
                                        HalfSpectrum<typename L::Number> kind) {
  const typename L::Number re = z[0], im = z[1];
  z[0] = re + im;
  z[2 * half] = re - im;
  z[1] = z[2 * half + 1] = 0;
  run_real_steps_in_row<RealStep::finish, L>(z, half, roots, kind);
}
template <class L>
SINTER_ALWAYS_INLINE void begin_in_row(typename L::Number* x, std::int64_t half, const typename L::Number* roots,
                                       HalfSpectrum<typename L::Number> kind) {
  const typename L::Number first = x[0], last = x[2 * half];
  x[0] = first + last;
  x[1] = first - last;
  run_real_steps_in_row<RealStep::begin, L>(x, half, roots, kind);
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
