// A MathBuilder over plain numbers: evaluates each operation at once on a block of lanes, in standard C++. The oracle
// of the operations' meaning: what a machine implementation gives must equal this, bit for bit.
#pragma once

#include <sinter/backend/x86/math/coefficients.hpp>
#include <sinter/backend/x86/math/math_builder.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numbers>
#include <span>
#include <type_traits>

namespace sinter_test {

/// s * (|x| - n pi) for a finite x of at least 2^18, as MathBuilder::remainder_by_pi says: 192 bits of 1 / pi times the
/// 53 of x.
inline long double plain_remainder_by_pi(double x, bool is_cosine) {
  using Wide = unsigned __int128;
  int exponent = 0;
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
  // x = mantissa * 2^(exponent - 53). Bits of 1 / pi from `start` up: what lies above makes multiples of 2.
  const int start = sinter::x86::inverse_pi_unit - 191 + 53 - exponent;
  std::uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const int bit = start + 64 * i, word = bit / 64, shift = bit % 64;
    const auto at = [](int k) { return k < 19 ? sinter::x86::inverse_pi_bits[k] : 0; };
    window[i] = shift == 0 ? at(word) : at(word) >> shift | at(word + 1) << (64 - shift);
  }
  Wide units = (Wide(mantissa) * window[0] >> 64) + Wide(mantissa) * window[1];  // of 2^-127, but for the highest word
  units += Wide(mantissa * window[2]) << 64;
  if (is_cosine) units += Wide(1) << 126;
  const bool is_odd = ((units >> 127) ^ (units >> 126)) & 1;
  units <<= 1;
  const auto high = static_cast<std::int64_t>(units >> 64),
             low = static_cast<std::int64_t>(static_cast<std::uint64_t>(units) >> 1);
  const long double whole = static_cast<long double>(high) * 0x1p63L + static_cast<long double>(low);
  const long double result = whole * std::numbers::pi_v<long double> * 0x1p-127L;
  return is_odd != (!is_cosine && std::signbit(x)) ? -result : result;
}

template <typename T>
class PlainMathBuilder final : public sinter::x86::MathBuilder {
 public:
  using Vec = sinter::x86::Vec;
  using Mask = sinter::x86::Mask;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using SignedBits = std::make_signed_t<Bits>;
  static constexpr std::size_t lanes = 512;
  using Block = std::array<T, lanes>;
  using MaskBlock = std::array<bool, lanes>;

  /// Forgets all values (their memory is used again).
  void reset() { vector_count_ = mask_count_ = 0; }
  Vec input(std::span<const T> values) {
    Vec v = fresh();
    for (std::size_t i = 0; i < lanes; ++i) vectors_[v.id][i] = i < values.size() ? values[i] : T(1);
    return v;
  }
  const Block& value(Vec v) const { return vectors_[v.id]; }
  /// Operations since reset, immediates not counted.
  int operations() const { return static_cast<int>(vector_count_ + mask_count_) - immediates_; }

  bool is_double() const override { return sizeof(T) == 8; }
  Vec imm(double value) override {
    ++immediates_;
    return map([&](std::size_t) { return static_cast<T>(value); });
  }
  Vec imm_bits(std::uint64_t bits) override {
    ++immediates_;
    return map([&](std::size_t) { return std::bit_cast<T>(static_cast<Bits>(bits)); });
  }
  Vec add(Vec a, Vec b) override {
    return map([](T x, T y) { return x + y; }, a, b);
  }
  Vec sub(Vec a, Vec b) override {
    return map([](T x, T y) { return x - y; }, a, b);
  }
  Vec mul(Vec a, Vec b) override {
    return map([](T x, T y) { return x * y; }, a, b);
  }
  Vec div(Vec a, Vec b) override {
    return map([](T x, T y) { return x / y; }, a, b);
  }
  Vec sqrt(Vec a) override {
    return map([](T x) { return std::sqrt(x); }, a);
  }
  Vec fma(Vec a, Vec b, Vec c) override {
    return map([](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c);
  }
  Vec fnma(Vec a, Vec b, Vec c) override {
    return map([](T x, T y, T z) { return std::fma(-x, y, z); }, a, b, c);
  }
  Vec min_raw(Vec a, Vec b) override {
    return map([](T x, T y) { return x < y ? x : y; }, a, b);
  }
  Vec max_raw(Vec a, Vec b) override {
    return map([](T x, T y) { return x > y ? x : y; }, a, b);
  }
  Vec min_magnitude(Vec a, double limit) override {
    return map([&](T x) { return std::fabs(x) < static_cast<T>(limit) ? std::fabs(x) : static_cast<T>(limit); }, a);
  }
  Vec remainder_by_pi(Vec remainder, Vec a, double limit, bool is_cosine) override {
    return map(
        [&](T r, T x) {
          return std::fabs(x) > static_cast<T>(limit) && std::isfinite(x)
                     ? static_cast<T>(plain_remainder_by_pi(x, is_cosine))
                     : r;
        },
        remainder, a);
  }
  Vec round_even(Vec a) override {
    return map([](T x) { return std::nearbyint(x); }, a);
  }
  Vec floor(Vec a) override {
    return map([](T x) { return std::floor(x); }, a);
  }
  Vec trunc(Vec a) override {
    return map([](T x) { return std::trunc(x); }, a);
  }
  Vec scale(Vec a, Vec n) override {
    constexpr T lowest = sizeof(T) == 4 ? -150 : -1075;
    return map([](T x, T y) { return std::isnan(y) ? y
                                     : y < lowest  ? T(0)
                                                   : std::ldexp(x, static_cast<int>(y)); }, a,
               n);
  }
  Vec bit_and(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x & y; }, a, b);
  }
  Vec bit_or(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x | y; }, a, b);
  }
  Vec bit_xor(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x ^ y; }, a, b);
  }
  Vec or_sign(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x | (y & Bits{1} << (8 * sizeof(T) - 1)); }, a, b);
  }
  Vec int_add(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x + y; }, a, b);
  }
  Vec int_sub(Vec a, Vec b) override {
    return map_bits([](Bits x, Bits y) { return x - y; }, a, b);
  }
  Vec shift_left(Vec a, int count) override {
    return map_bits([&](Bits x) { return x << count; }, a);
  }
  Vec shift_right(Vec a, int count) override {
    return map_bits([&](Bits x) { return x >> count; }, a);
  }
  Vec lookup(Vec index, std::span<const float, 8> table) override {
    return map_bits([&](Bits x) { return std::bit_cast<Bits>(static_cast<T>(table[x & 7])); }, index);
  }
  Vec to_int(Vec a) override {
    return map([](T x) { return std::bit_cast<T>(static_cast<SignedBits>(x)); }, a);
  }
  Vec from_int(Vec a) override {
    return map([](T x) { return static_cast<T>(std::bit_cast<SignedBits>(x)); }, a);
  }
  Mask less(Vec a, Vec b) override {
    return test([](T x, T y) { return x < y; }, a, b);
  }
  Mask less_equal(Vec a, Vec b) override {
    return test([](T x, T y) { return x <= y; }, a, b);
  }
  Mask equal(Vec a, Vec b) override {
    return test([](T x, T y) { return x == y; }, a, b);
  }
  Mask is_nan(Vec a) override {
    return test([](T x, T) { return std::isnan(x); }, a, a);
  }
  Mask int_equal(Vec a, Vec b) override {
    return test([](T x, T y) { return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y); }, a, b);
  }
  Mask mask_and(Mask a, Mask b) override {
    return combine([](bool x, bool y) { return x && y; }, a, b);
  }
  Mask mask_or(Mask a, Mask b) override {
    return combine([](bool x, bool y) { return x || y; }, a, b);
  }
  Mask mask_not(Mask a) override {
    return combine([](bool x, bool) { return !x; }, a, a);
  }
  Vec select(Mask condition, Vec a, Vec b) override {
    return map([&](std::size_t i) { return masks_[condition.id][i] ? vectors_[a.id][i] : vectors_[b.id][i]; });
  }

 private:
  Vec fresh() {
    if (vector_count_ == 0) immediates_ = 0;
    if (vectors_.size() == vector_count_) vectors_.emplace_back();
    return Vec{static_cast<std::uint16_t>(vector_count_++)};
  }
  template <typename F>
  Vec map(F f)
    requires std::is_invocable_v<F, std::size_t>
  {
    Vec v = fresh();
    Block& out = vectors_[v.id];
    for (std::size_t i = 0; i < lanes; ++i) out[i] = f(i);
    return v;
  }
  template <typename F, typename... V>
  Vec map(F f, V... operands)
    requires(sizeof...(V) > 0)
  {
    Vec v = fresh();
    Block& out = vectors_[v.id];
    for (std::size_t i = 0; i < lanes; ++i) out[i] = f(vectors_[operands.id][i]...);
    return v;
  }
  template <typename F, typename... V>
  Vec map_bits(F f, V... operands) {
    Vec v = fresh();
    Block& out = vectors_[v.id];
    for (std::size_t i = 0; i < lanes; ++i)
      out[i] = std::bit_cast<T>(static_cast<Bits>(f(std::bit_cast<Bits>(vectors_[operands.id][i])...)));
    return v;
  }
  template <typename F>
  Mask combine(F f, Mask a, Mask b) {
    if (masks_.size() == mask_count_) masks_.emplace_back();
    MaskBlock& out = masks_[mask_count_];
    for (std::size_t i = 0; i < lanes; ++i) out[i] = f(masks_[a.id][i], masks_[b.id][i]);
    return Mask{static_cast<std::uint16_t>(mask_count_++)};
  }
  template <typename F>
  Mask test(F f, Vec a, Vec b) {
    if (masks_.size() == mask_count_) masks_.emplace_back();
    MaskBlock& out = masks_[mask_count_];
    for (std::size_t i = 0; i < lanes; ++i) out[i] = f(vectors_[a.id][i], vectors_[b.id][i]);
    return Mask{static_cast<std::uint16_t>(mask_count_++)};
  }

  std::deque<Block> vectors_;
  std::deque<MaskBlock> masks_;
  std::size_t vector_count_ = 0, mask_count_ = 0;
  int immediates_ = 0;
};

}  // namespace sinter_test
