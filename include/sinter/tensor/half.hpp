// The narrow floating types, as they lie in memory: numbers are converted to float to compute, and rounded once when
// they are stored (to nearest, ties to even; what is too large becomes infinite, small numbers become subnormal).
#pragma once

#include <sinter/base/config.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

SINTER_NAMESPACE_BEGIN

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  constexpr explicit float16(float x) : bits(bits_of(x)) {}
  constexpr operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
    // Moved into place, the exponent is too small by 112: a product mends it, subnormal numbers too, and is exact.
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
  }
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 x{};
    x.bits = bits;
    return x;
  }

 private:
  static constexpr std::uint16_t bits_of(float x) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(x), magnitude = all & 0x7fffffffu;
    const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000);
    std::uint32_t rounded;
    if (magnitude > 0x7f800000) rounded = 0x7e00 | (magnitude >> 13 & 0x3ff);  // NaN stays NaN
    else if (magnitude >= 0x477ff000) rounded = 0x7c00;                        // 65520 and more
    else if (magnitude < 0x38800000)                                           // below 2^-14: multiples of 2^-24
      rounded =
          std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
    else rounded = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    return static_cast<std::uint16_t>(sign | rounded);
  }
};

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  constexpr explicit bfloat16(float x) : bits(bits_of(x)) {}
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 x{};
    x.bits = bits;
    return x;
  }

 private:
  static constexpr std::uint16_t bits_of(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x);
    if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(all >> 16 | 0x40);  // NaN stays NaN
    return static_cast<std::uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
};

namespace tensor_detail {
/// Is this a format of small_float? All of its numbers are floats; NaN of two kinds beside infinity takes two bits.
constexpr bool is_small_format(std::size_t bytes, int exponent, int fraction, bool with_infinity) {
  return bytes <= 2 && 1 + exponent + fraction == 8 * static_cast<int>(bytes) && exponent >= 2 &&
         exponent <= (with_infinity ? 8 : 7) && fraction >= (with_infinity ? 2 : 1);
}
}  // namespace tensor_detail

/// A float of so many bits of exponent and of fraction, and a sign: of 8 or 16 bits, and of no more exponents than f32.
/// With infinities it is as IEEE 754 has it, and what rounds beyond the largest number becomes infinite. Without them
/// the largest exponent holds numbers, too, NaN is all ones, and what is beyond the largest number becomes that number,
/// infinities too. NaN becomes all ones.
template <class Bits, int exponent, int fraction, bool with_infinity>
struct small_float {
  static_assert(
      tensor_detail::is_small_format(sizeof(Bits), exponent, fraction, with_infinity),
      "small_float has 8 or 16 bits, an exponent of 2 to 8 bits (without infinities to 7), and a fraction of 2 "
      "bits (without infinities of 1) or more");
  static constexpr int exponent_bits = exponent, fraction_bits = fraction;
  static constexpr bool has_infinity = with_infinity;

  Bits bits;

  small_float() = default;
  constexpr explicit small_float(float x) : bits(bits_of(x)) {}
  constexpr operator float() const {
    const std::uint32_t sign = std::uint32_t{bits} >> sign_place << 31, magnitude = bits & not_a_number;
    if (magnitude > most_finite) return std::bit_cast<float>(sign | 0x7f800000u | magnitude << dropped);
    // Moved into place, the exponent is too small by `shift`: a product mends it, subnormal numbers too, and is exact.
    const float number = std::bit_cast<float>(magnitude << dropped) * std::bit_cast<float>((127 + shift) << 23);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(number));
  }
  static constexpr small_float from_bits(Bits bits) {
    small_float x{};
    x.bits = bits;
    return x;
  }

  static constexpr int bias = (1 << (exponent - 1)) - 1;
  static constexpr std::uint32_t not_a_number = (std::uint32_t{1} << (exponent + fraction)) - 1;
  static constexpr std::uint32_t most_finite = not_a_number - (with_infinity ? std::uint32_t{1} << fraction : 1);

 private:
  static constexpr int sign_place = exponent + fraction, dropped = 23 - fraction;
  static constexpr std::uint32_t shift = 127 - bias, beyond = with_infinity ? most_finite + 1 : most_finite;

  static constexpr Bits bits_of(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x), magnitude = all & 0x7fffffffu;
    return static_cast<Bits>(all >> 31 << sign_place | rounded(magnitude));
  }
  /// Numbers that become subnormal are multiples of the last place of `offset`.
  static constexpr std::uint32_t rounded(std::uint32_t magnitude) {
    if (magnitude > 0x7f800000u) return not_a_number;
    constexpr std::uint32_t offset = std::uint32_t{127 + 24 - bias - fraction} << 23;
    if (magnitude < (shift + 1) << 23)
      return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(offset)) - offset;
    constexpr std::uint32_t half = (1u << (dropped - 1)) - 1;
    const std::uint32_t near = (magnitude + half + (magnitude >> dropped & 1) - (shift << 23)) >> dropped;
    return near < beyond ? near : beyond;
  }
};

/// As the OCP's E4M3 and PyTorch's float8_e4m3fn: no infinities, and NaN is 0x7f or 0xff. The largest number is 448.
using float8_e4m3 = small_float<std::uint8_t, 4, 3, false>;
/// The upper half of an f16, with its infinities. The largest number is 57344.
using float8_e5m2 = small_float<std::uint8_t, 5, 2, true>;

SINTER_NAMESPACE_END

template <>
struct std::numeric_limits<sinter::float16> : std::numeric_limits<float> {
  static constexpr int digits = 11, max_exponent = 16, min_exponent = -13, max_exponent10 = 4, min_exponent10 = -4;
  static constexpr int digits10 = 3, max_digits10 = 5;
  static constexpr sinter::float16 min() noexcept { return sinter::float16::from_bits(0x0400); }
  static constexpr sinter::float16 max() noexcept { return sinter::float16::from_bits(0x7bff); }
  static constexpr sinter::float16 lowest() noexcept { return sinter::float16::from_bits(0xfbff); }
  static constexpr sinter::float16 epsilon() noexcept { return sinter::float16::from_bits(0x1400); }
  static constexpr sinter::float16 round_error() noexcept { return sinter::float16::from_bits(0x3800); }
  static constexpr sinter::float16 denorm_min() noexcept { return sinter::float16::from_bits(1); }
  static constexpr sinter::float16 infinity() noexcept { return sinter::float16::from_bits(0x7c00); }
  static constexpr sinter::float16 quiet_NaN() noexcept { return sinter::float16::from_bits(0x7e00); }
  static constexpr sinter::float16 signaling_NaN() noexcept { return sinter::float16::from_bits(0x7d00); }
};
template <>
struct std::numeric_limits<sinter::bfloat16> : std::numeric_limits<float> {
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4;
  static constexpr sinter::bfloat16 min() noexcept { return sinter::bfloat16::from_bits(0x0080); }
  static constexpr sinter::bfloat16 max() noexcept { return sinter::bfloat16::from_bits(0x7f7f); }
  static constexpr sinter::bfloat16 lowest() noexcept { return sinter::bfloat16::from_bits(0xff7f); }
  static constexpr sinter::bfloat16 epsilon() noexcept { return sinter::bfloat16::from_bits(0x3c00); }
  static constexpr sinter::bfloat16 round_error() noexcept { return sinter::bfloat16::from_bits(0x3f00); }
  static constexpr sinter::bfloat16 denorm_min() noexcept { return sinter::bfloat16::from_bits(1); }
  static constexpr sinter::bfloat16 infinity() noexcept { return sinter::bfloat16::from_bits(0x7f80); }
  static constexpr sinter::bfloat16 quiet_NaN() noexcept { return sinter::bfloat16::from_bits(0x7fc0); }
  static constexpr sinter::bfloat16 signaling_NaN() noexcept { return sinter::bfloat16::from_bits(0x7fa0); }
};
template <class Bits, int exponent, int fraction, bool with_infinity>
struct std::numeric_limits<sinter::small_float<Bits, exponent, fraction, with_infinity>> : std::numeric_limits<float> {
 private:
  using T = sinter::small_float<Bits, exponent, fraction, with_infinity>;
  static constexpr T of(std::uint32_t bits) noexcept { return T::from_bits(static_cast<Bits>(bits)); }
  static constexpr int decimal(int binary) { return binary * 30103 / 100000; }

 public:
  static constexpr int digits = fraction + 1, digits10 = decimal(fraction), max_digits10 = 2 + decimal(digits);
  static constexpr int max_exponent = T::bias + (with_infinity ? 1 : 2), min_exponent = 2 - T::bias;
  static constexpr int max_exponent10 = decimal(max_exponent), min_exponent10 = decimal(min_exponent - 1);
  static constexpr bool has_infinity = with_infinity, has_signaling_NaN = with_infinity, is_iec559 = with_infinity;
  static constexpr T min() noexcept { return of(1u << fraction); }
  static constexpr T max() noexcept { return of(T::most_finite); }
  static constexpr T lowest() noexcept { return of(T::most_finite | (T::not_a_number + 1)); }
  static constexpr T epsilon() noexcept { return T(1.0f / static_cast<float>(1 << fraction)); }
  static constexpr T round_error() noexcept { return T(0.5f); }
  static constexpr T denorm_min() noexcept { return of(1); }
  static constexpr T infinity() noexcept { return of(T::most_finite + 1); }
  static constexpr T quiet_NaN() noexcept {
    return of(with_infinity ? infinity().bits | 1u << (fraction - 1) : T::not_a_number);
  }
  static constexpr T signaling_NaN() noexcept { return of(with_infinity ? infinity().bits | 1u : T::not_a_number); }
};
