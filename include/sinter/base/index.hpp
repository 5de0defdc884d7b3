// Axes, values and counts are signed where arithmetic may go below zero; containers count in std::size_t. One
// conversion for both, so that code says what it indexes and not how.
#pragma once

#include <sinter/base/config.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// An integer or an enumerator as a container's index; must not be negative.
template <class I>
  requires std::integral<I> || std::is_enum_v<I>
constexpr std::size_t as_index(I value) {
  return static_cast<std::size_t>(value);
}

SINTER_NAMESPACE_END
