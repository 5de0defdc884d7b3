// Addresses by arithmetic on numbers. What is read under a condition is addressed without asking for it: the address
// may then lie outside of all memory, or stand behind that of an empty tensor, which arithmetic on pointers must not
// reach.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// The address `bytes` behind `base`.
template <class T>
T* displaced(T* base, std::int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(bytes));
}

SINTER_NAMESPACE_END
