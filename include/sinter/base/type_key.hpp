// TypeKey: names a C++ type, so that objects can be asked for theirs in files that are compiled without RTTI too.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN

/// Equal keys: the same type. One type has one key in a program; where symbols are hidden, one in each shared library.
using TypeKey = const void*;

namespace type_key_detail {
// Not const: linkers may give equal constants one address.
template <class T>
inline char place = 0;
}  // namespace type_key_detail

template <class T>
TypeKey type_key() {
  return &type_key_detail::place<T>;
}

SINTER_NAMESPACE_END
