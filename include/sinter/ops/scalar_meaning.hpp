// What scalar primitives mean where the standard library has no function for it, on numbers of the host: shared by the
// reference back end, by folding and by literals, so that a value is the same whoever computes it. Functions are
// computed in a wider type and rounded once.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace scalar_meaning {

/// Float to integer: towards zero; what does not fit becomes the nearest integer that does, NaN becomes 0.
template <std::integral To, std::floating_point From>
constexpr To saturated(From x) {
  constexpr int digits = std::numeric_limits<To>::digits;
  constexpr From end = 2 * static_cast<From>(std::uint64_t{1} << (digits - 1));  // 2^7 to 2^63, exact
  constexpr From begin = std::is_signed_v<To> ? -end : From(0);
  if (x != x) return 0;
  return x >= end ? std::numeric_limits<To>::max() : x < begin ? std::numeric_limits<To>::min() : static_cast<To>(x);
}

/// Prim::convert on C++ numbers: float to integer saturates, integer to narrower integer wraps, anything to bool is
/// `!= 0`. A number becomes an f16, a bf16 or an f8 by way of a float.
template <class To, class From>
constexpr To converted(From x) {
  if constexpr (FloatingElement<From> && !std::is_floating_point_v<From>) return converted<To>(static_cast<float>(x));
  else if constexpr (FloatingElement<To> && !std::is_floating_point_v<To>) return To(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, bool>) return x != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) return saturated<To>(x);
  else return static_cast<To>(x);
}

/// A number as an element of an integer dtype, or of bool_; one of u64 as the i64 of its bits.
inline std::int64_t integer_of(double x, DType dtype) {
  if (dtype == DType::bool_) return x != 0;
  if (dtype == DType::i64) return saturated<std::int64_t>(x);
  if (dtype == DType::u64) return static_cast<std::int64_t>(saturated<std::uint64_t>(x));
  const std::int64_t fits = saturated<std::int64_t>(x), least = tensor_detail::lowest(dtype),
                     most = tensor_detail::greatest(dtype);
  return fits < least ? least : fits > most ? most : fits;
}

/// The smaller and the larger, IEEE 754-2019's minimum and maximum: NaN wins, and -0 is less than +0.
template <std::floating_point T>
T minimum(T a, T b) {
  return a < b || a != a || (a == b && has_sign_bit(a)) ? a : b;
}
template <std::floating_point T>
T maximum(T a, T b) {
  return a > b || a != a || (a == b && has_sign_bit(b)) ? a : b;
}

/// a - b * floor(a / b), exact: it has the sign of b, a zero that of a (as in PyTorch).
template <std::floating_point T>
T remainder(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <std::floating_point T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// x * 2^n, and x / 2^n rounded down; of bits that a number does not have, all.
template <std::integral T>
T shifted_left(T x, T n) {
  if (n < 0 || n >= static_cast<T>(sizeof(T) * 8)) return 0;
  return static_cast<T>(static_cast<std::uint64_t>(x) << n);
}
template <std::integral T>
T shifted_right(T x, T n) {
  const T most = static_cast<T>(sizeof(T) * 8 - 1);
  return static_cast<T>(x >> (n < 0 || n > most ? most : n));
}

/// e^(-x^2/2).
template <std::floating_point T>
T gauss(T x) {
  const Wider<T> wide = x;
  return static_cast<T>(std::exp(wide * wide / -2));
}
/// The normal distribution function, from the side where nothing cancels.
template <std::floating_point T>
T normal_distribution(T x) {
  return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2;
}
/// x * Phi(x); -0 at -infinity, where the product is undefined.
template <std::floating_point T>
T gelu(T x) {
  if (x == -std::numeric_limits<T>::infinity()) return -T(0);
  const Wider<T> wide = x;
  return static_cast<T>(wide * normal_distribution(wide));
}
/// Phi(x) + x * phi(x) with phi the normal density.
template <std::floating_point T>
T gelu_slope(T x) {
  if (is_infinite_number(x)) return x > 0 ? T(1) : -T(0);
  using W = Wider<T>;
  const W wide = x, density = std::exp(wide * wide / -2) * (std::numbers::inv_sqrtpi_v<W> / std::numbers::sqrt2_v<W>);
  return static_cast<T>(normal_distribution(wide) + wide * density);
}

}  // namespace scalar_meaning
SINTER_NAMESPACE_END
