// What rows are ordered by: unsigned numbers, one for each element, whose order is that of the elements. NaN comes
// last, all NaN are equal, and so are both zeros. Knows no tensors. Only .ipp files include it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline std::uint32_t order_key(bool x) { return x; }
inline std::uint32_t order_key(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x8000'0000u; }
inline std::uint64_t order_key(std::int64_t x) { return static_cast<std::uint64_t>(x) ^ 0x8000'0000'0000'0000u; }
inline std::uint32_t order_key(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t is_negative = 0u - (bits >> 31), key = bits ^ (is_negative | 0x8000'0000u);
  const std::uint32_t is_nan = 0u - std::uint32_t{(bits << 1) > 0xFF00'0000u};
  return (key + std::uint32_t{key == 0x7FFF'FFFFu}) | is_nan;  // that of -0 becomes that of 0
}
inline std::uint64_t order_key(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t is_negative = std::uint64_t{0} - (bits >> 63),
                      key = bits ^ (is_negative | (std::uint64_t{1} << 63));
  const std::uint64_t is_nan = std::uint64_t{0} - std::uint64_t{(bits << 1) > 0xFFE0'0000'0000'0000u};
  return (key + std::uint64_t{key == 0x7FFF'FFFF'FFFF'FFFFu}) | is_nan;
}

inline std::uint32_t order_key(std::uint32_t x) { return x; }
inline std::uint64_t order_key(std::uint64_t x) { return x; }
/// Of narrow dtypes: as the numbers that they are.
template <class T>
  requires(sizeof(T) < 4 && !std::is_same_v<T, bool>)
std::uint32_t order_key(T x) {
  if constexpr (FloatingElement<T>) return order_key(static_cast<float>(x));
  else return order_key(static_cast<std::int32_t>(x));
}

template <class T>
bool is_not_a_number(T x) {
  return x != x;
}

enum class Direction : bool { ascending, descending };

/// Half of a key over a position: 64 bits that are ordered as one number, so that equal keys keep their order.
using Packed = std::uint64_t;
inline constexpr std::int64_t max_packed_row = std::int64_t{1} << 32;  // rows are shorter
inline Packed packed(std::uint32_t key, std::int64_t position) {
  return Packed{key} << 32 | static_cast<std::uint32_t>(position);
}
inline std::int64_t position_of(Packed entry) { return static_cast<std::uint32_t>(entry); }

/// A row in memory: `stride` elements from one to the next.
template <class T>
struct RowView {
  const T* first;
  std::int64_t length, stride;
  Direction direction = Direction::ascending;

  T at(std::int64_t i) const { return first[i * stride]; }
  auto key(std::int64_t i) const {
    const auto ascending = order_key(at(i));
    return direction == Direction::descending ? ~ascending : ascending;
  }
};

template <class T>
using KeyOf = decltype(order_key(T{}));

/// Keys counted from the least one of a row: integers that are close have few digits. The upper part, of 32 bits, is
/// what is packed; below it are `shift` more bits.
template <class T>
struct KeyWindow {
  KeyOf<T> least = 0, range = 0;
  int shift = 0;

  std::uint32_t upper(KeyOf<T> key) const { return static_cast<std::uint32_t>((key - least) >> shift); }
  std::uint32_t lower(KeyOf<T> key) const {
    return static_cast<std::uint32_t>((key - least) & ((KeyOf<T>{1} << shift) - 1));
  }
  int upper_bits() const { return static_cast<int>(std::bit_width(range)) - shift; }
};

/// What a selection compares: key and position of an element. Those of narrow keys are one number.
struct WideEntry {
  std::uint64_t key;
  std::int64_t position;
  friend bool operator<(const WideEntry& a, const WideEntry& b) {
    return a.key < b.key || (a.key == b.key && a.position < b.position);
  }
};
inline std::int64_t position_of(const WideEntry& entry) { return entry.position; }
inline WideEntry entry_of(std::uint64_t key, std::int64_t position) { return {key, position}; }
inline Packed entry_of(std::uint32_t key, std::int64_t position) { return packed(key, position); }

}  // namespace ops_detail
SINTER_NAMESPACE_END
