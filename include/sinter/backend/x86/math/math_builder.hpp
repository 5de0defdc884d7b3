// MathBuilder: the vector operations from which exp, log, tanh, ... are put together. The functions (math.hpp) are
// written once against it; the code generator implements it over machine vectors and the tests over plain numbers, so
// that every ISA runs the same operations and gives the same bits.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// A vector of floats (all of one width), its bits as integers of the same width, or a mask. Handles, not data.
struct Vec {
  std::uint16_t id = 0xFFFF;
};
struct Mask {
  std::uint16_t id = 0xFFFF;
};

/// Lanes are f32 with i32, or f64 with i64, by `is_double()`. Every operation rounds once, to nearest even.
class MathBuilder {
 public:
  virtual ~MathBuilder() = default;
  virtual bool is_double() const = 0;

  virtual Vec imm(double value) = 0;
  virtual Vec imm_bits(std::uint64_t bits) = 0;
  virtual Vec add(Vec a, Vec b) = 0;
  virtual Vec sub(Vec a, Vec b) = 0;
  virtual Vec mul(Vec a, Vec b) = 0;
  virtual Vec div(Vec a, Vec b) = 0;
  virtual Vec sqrt(Vec a) = 0;
  virtual Vec fma(Vec a, Vec b, Vec c) = 0;   // a * b + c
  virtual Vec fnma(Vec a, Vec b, Vec c) = 0;  // c - a * b
  virtual Vec min_raw(Vec a, Vec b) = 0;      // a < b ? a : b   (b when unordered)
  virtual Vec max_raw(Vec a, Vec b) = 0;      // a > b ? a : b   (b when unordered)
  /// |x|, but at most `limit`; any number of that range where x is NaN.
  virtual Vec min_magnitude(Vec x, double limit) = 0;
  /// `remainder` (a value of its own, used nowhere else), but where x is finite and beyond `limit` in size s * (|x| - n
  /// pi), rounded once: n is the nearest integer, s is (-1)^n with the sign of x. For a cosine n - 1/2 is in n's place,
  /// and the sign of x does not matter.
  virtual Vec remainder_by_pi(Vec remainder, Vec x, double limit, bool is_cosine) = 0;
  virtual Vec round_even(Vec a) = 0;
  virtual Vec floor(Vec a) = 0;
  virtual Vec trunc(Vec a) = 0;
  /// x * 2^n for integral n below 2200 (f64) or 300 (f32), rounded once (subnormal results are right; inf on overflow).
  /// 0 <= x < 1.5, but anything where n is below that of every number (to -infinity): there it is +0.
  virtual Vec scale(Vec x, Vec n) = 0;
  // Bits of the lanes as integers of the same width.
  virtual Vec bit_and(Vec a, Vec b) = 0;
  virtual Vec bit_or(Vec a, Vec b) = 0;
  virtual Vec bit_xor(Vec a, Vec b) = 0;
  /// `x`, a value of its own that is used nowhere else, with the sign bit of `sign`, set already or clear.
  virtual Vec or_sign(Vec x, Vec sign) = 0;
  virtual Vec int_add(Vec a, Vec b) = 0;
  virtual Vec int_sub(Vec a, Vec b) = 0;
  virtual Vec shift_left(Vec a, int count) = 0;
  virtual Vec shift_right(Vec a, int count) = 0;  // logical
  /// The number of `table` that the low three bits of each lane say. f32 alone.
  virtual Vec lookup(Vec index, std::span<const float, 8> table) = 0;
  virtual Vec to_int(Vec a) = 0;    // integral float, |a| < 2^31 (f32) or 2^51 (f64), to integer
  virtual Vec from_int(Vec a) = 0;  // the inverse, same range
  // Masks. Ordered comparisons are false for NaN.
  virtual Mask less(Vec a, Vec b) = 0;
  virtual Mask less_equal(Vec a, Vec b) = 0;
  virtual Mask equal(Vec a, Vec b) = 0;
  virtual Mask is_nan(Vec a) = 0;
  virtual Mask int_equal(Vec a, Vec b) = 0;
  virtual Mask mask_and(Mask a, Mask b) = 0;
  virtual Mask mask_or(Mask a, Mask b) = 0;
  virtual Mask mask_not(Mask a) = 0;
  virtual Vec select(Mask condition, Vec a, Vec b) = 0;
};

}  // namespace x86
SINTER_NAMESPACE_END
