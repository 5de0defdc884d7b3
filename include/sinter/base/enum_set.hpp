// A set of enumerators in one word.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// A set of enumerators whose values are below 64.
template <class E>
  requires std::is_enum_v<E>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<E> members) {
    for (E member : members) bits_ |= bit(member);
  }
  static constexpr EnumSet all() {
    EnumSet set;
    set.bits_ = ~std::uint64_t{0};
    return set;
  }
  constexpr bool has(E member) const { return (bits_ & bit(member)) != 0; }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr void remove(E member) { bits_ &= ~bit(member); }
  friend constexpr bool operator==(EnumSet, EnumSet) = default;

 private:
  static constexpr std::uint64_t bit(E member) { return std::uint64_t{1} << static_cast<unsigned>(member); }

  std::uint64_t bits_ = 0;
};

SINTER_NAMESPACE_END
