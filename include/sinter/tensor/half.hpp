// The narrow floating types, as they lie in memory: numbers are converted to float to compute, and rounded once when
// they are stored (to nearest, ties to even; what is too large becomes infinite, small numbers become subnormal).
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

namespace tensor_detail {
/// The low 7 bits of a float that is made one of 8 bits: `dropped` bits of its fraction are rounded off, `bias` is what
/// its exponent shrinks by, and numbers below 2^(1 - bias of the small exponent) are multiples of the last place of
/// `offset`. What rounds beyond `most` becomes `most`, and NaN becomes 0x7f.
constexpr std::uint32_t f8_magnitude(std::uint32_t magnitude, int dropped, std::uint32_t bias, float offset,
                                     std::uint32_t most) {
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude < (bias + 1) << 23)
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + offset) -
           std::bit_cast<std::uint32_t>(offset);
  const std::uint32_t half = (1u << (dropped - 1)) - 1;
  const std::uint32_t rounded = (magnitude + half + (magnitude >> dropped & 1) - (bias << 23)) >> dropped;
  return rounded < most ? rounded : most;
}
}  // namespace tensor_detail

/// 4 bits of exponent, 3 of fraction, as the OCP's E4M3 and PyTorch's float8_e4m3fn: no infinities, and NaN is 0x7f or
/// 0xff. The largest number is 448, which what is beyond it becomes, infinities too, as in PyTorch 2.15.
struct float8_e4m3 {
  std::uint8_t bits;

  float8_e4m3() = default;
  constexpr explicit float8_e4m3(float x) : bits(bits_of(x)) {}
  constexpr operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x80u} << 24, magnitude = bits & 0x7fu;
    if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 20) * 0x1p120f));
  }
  static constexpr float8_e4m3 from_bits(std::uint8_t bits) {
    float8_e4m3 x{};
    x.bits = bits;
    return x;
  }

 private:
  static constexpr std::uint8_t bits_of(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = tensor_detail::f8_magnitude(all & 0x7fffffffu, 20, 120, 0x1p14f, 0x7e);
    return static_cast<std::uint8_t>((all >> 24 & 0x80) | magnitude);
  }
};

/// 5 bits of exponent, 2 of fraction: the upper half of an f16, with its infinities. The largest number is 57344.
struct float8_e5m2 {
  std::uint8_t bits;

  float8_e5m2() = default;
  constexpr explicit float8_e5m2(float x) : bits(bits_of(x)) {}
  constexpr operator float() const {
    return static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits << 8)));
  }
  static constexpr float8_e5m2 from_bits(std::uint8_t bits) {
    float8_e5m2 x{};
    x.bits = bits;
    return x;
  }

 private:
  static constexpr std::uint8_t bits_of(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = tensor_detail::f8_magnitude(all & 0x7fffffffu, 21, 112, 0x1p7f, 0x7c);
    return static_cast<std::uint8_t>((all >> 24 & 0x80) | magnitude);
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
template <>
struct std::numeric_limits<sinter::float8_e4m3> : std::numeric_limits<float> {
  static constexpr int digits = 4, max_exponent = 9, min_exponent = -5, max_exponent10 = 2, min_exponent10 = -1;
  static constexpr int digits10 = 0, max_digits10 = 3;
  static constexpr bool has_infinity = false, has_signaling_NaN = false, is_iec559 = false;
  static constexpr sinter::float8_e4m3 min() noexcept { return sinter::float8_e4m3::from_bits(0x08); }
  static constexpr sinter::float8_e4m3 max() noexcept { return sinter::float8_e4m3::from_bits(0x7e); }
  static constexpr sinter::float8_e4m3 lowest() noexcept { return sinter::float8_e4m3::from_bits(0xfe); }
  static constexpr sinter::float8_e4m3 epsilon() noexcept { return sinter::float8_e4m3::from_bits(0x20); }
  static constexpr sinter::float8_e4m3 round_error() noexcept { return sinter::float8_e4m3::from_bits(0x30); }
  static constexpr sinter::float8_e4m3 denorm_min() noexcept { return sinter::float8_e4m3::from_bits(1); }
  static constexpr sinter::float8_e4m3 infinity() noexcept { return sinter::float8_e4m3::from_bits(0x7f); }
  static constexpr sinter::float8_e4m3 quiet_NaN() noexcept { return sinter::float8_e4m3::from_bits(0x7f); }
  static constexpr sinter::float8_e4m3 signaling_NaN() noexcept { return sinter::float8_e4m3::from_bits(0x7f); }
};
template <>
struct std::numeric_limits<sinter::float8_e5m2> : std::numeric_limits<float> {
  static constexpr int digits = 3, max_exponent = 16, min_exponent = -13, max_exponent10 = 4, min_exponent10 = -4;
  static constexpr int digits10 = 0, max_digits10 = 2;
  static constexpr sinter::float8_e5m2 min() noexcept { return sinter::float8_e5m2::from_bits(0x04); }
  static constexpr sinter::float8_e5m2 max() noexcept { return sinter::float8_e5m2::from_bits(0x7b); }
  static constexpr sinter::float8_e5m2 lowest() noexcept { return sinter::float8_e5m2::from_bits(0xfb); }
  static constexpr sinter::float8_e5m2 epsilon() noexcept { return sinter::float8_e5m2::from_bits(0x34); }
  static constexpr sinter::float8_e5m2 round_error() noexcept { return sinter::float8_e5m2::from_bits(0x38); }
  static constexpr sinter::float8_e5m2 denorm_min() noexcept { return sinter::float8_e5m2::from_bits(1); }
  static constexpr sinter::float8_e5m2 infinity() noexcept { return sinter::float8_e5m2::from_bits(0x7c); }
  static constexpr sinter::float8_e5m2 quiet_NaN() noexcept { return sinter::float8_e5m2::from_bits(0x7e); }
  static constexpr sinter::float8_e5m2 signaling_NaN() noexcept { return sinter::float8_e5m2::from_bits(0x7d); }
};
