// A stable sort of a few elements in place: the axes of a tensor, the operands of an operation. std::stable_sort
// allocates a buffer first, through a function that C++17 deprecated and newer Clang warns of in users' files.
#pragma once

#include <sinter/base/config.hpp>

#include <iterator>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// Sorts [first, last) by insertion; elements of which none is before the other keep their order.
template <std::random_access_iterator I, class Before>
void sort_few(I first, I last, const Before& before) {
  for (I next = first; next != last; ++next) {
    auto value = std::move(*next);
    I place = next;
    for (; place != first && before(value, *(place - 1)); --place) *place = std::move(*(place - 1));
    *place = std::move(value);
  }
}

SINTER_NAMESPACE_END
