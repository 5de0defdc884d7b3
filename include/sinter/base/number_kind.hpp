// What kind of number a float or double is, by its bits: true whatever the file is compiled with. A compiler that was
// given -ffast-math answers for std::isnan and its like without looking. Wider numbers, which only the reference back
// end and the interpreter of loop nests compute with, are asked of the compiler.
#pragma once

#include <sinter/base/config.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
template <std::floating_point T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <std::floating_point T>
constexpr BitsOf<T> magnitude_bits(T x) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return static_cast<BitsOf<T>>(std::bit_cast<BitsOf<T>>(x) << 1U);
}
template <std::floating_point T>
constexpr BitsOf<T> magnitude_bits_of_infinity() {
  return sizeof(T) == 4 ? static_cast<BitsOf<T>>(0xFF000000U) : static_cast<BitsOf<T>>(0xFFE0000000000000U);
}
}  // namespace base_detail

template <std::floating_point T>
constexpr bool is_nan_number(T x) {
  if constexpr (sizeof(T) > 8) return __builtin_isnan(x) != 0;
  else return base_detail::magnitude_bits(x) > base_detail::magnitude_bits_of_infinity<T>();
}
template <std::floating_point T>
constexpr bool is_infinite_number(T x) {
  if constexpr (sizeof(T) > 8) return __builtin_isinf(x) != 0;
  else return base_detail::magnitude_bits(x) == base_detail::magnitude_bits_of_infinity<T>();
}
template <std::floating_point T>
constexpr bool is_finite_number(T x) {
  if constexpr (sizeof(T) > 8) return __builtin_isfinite(x) != 0;
  else return base_detail::magnitude_bits(x) < base_detail::magnitude_bits_of_infinity<T>();
}
/// As of -0 and of some NaN.
template <std::floating_point T>
constexpr bool has_sign_bit(T x) {
  if constexpr (sizeof(T) > 8) return __builtin_signbit(x) != 0;
  else return std::bit_cast<base_detail::BitsOf<T>>(x) >> (8 * sizeof(T) - 1) != 0;
}

SINTER_NAMESPACE_END
