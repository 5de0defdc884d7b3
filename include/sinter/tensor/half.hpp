// The two narrow floating types, as they lie in memory: numbers are converted to float to compute, and rounded once
// when they are stored (to nearest, ties to even; what is too large becomes infinite, small numbers become subnormal).
#pragma once

#include <sinter/base/config.hpp>

#include <bit>
#include <concepts>
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
