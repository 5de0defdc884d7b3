// One complex number of each of several lines as two vectors, and the arithmetic of them. Additions and products stay
// apart (no fma), and so results are the same with any width of vectors.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>

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

}  // namespace fft_detail
SINTER_NAMESPACE_END
