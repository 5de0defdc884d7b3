// Leaf: an operand as the user wrote it, a value or a C++ number. Numbers stay numbers until a dtype is known.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/impl.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// An operand of a record: a value, or a C++ number.
struct Leaf {
  Ref<TensorImpl> value;            // null: a number
  DTypeClass kind = DTypeClass::floating;
  union {
    double number;                  // kind floating
    std::int64_t integer;           // kind integer, boolean
  };
  Leaf() : number(0) {}
  Leaf(Ref<TensorImpl> v) : value(std::move(v)), number(0) {}
  /// A C++ number of any arithmetic type.
  template <class T>
    requires std::is_arithmetic_v<T>
  static Leaf of_number(T x) {
    if constexpr (std::is_floating_point_v<T>) return of(static_cast<double>(x));
    else return of_integer(static_cast<std::int64_t>(x), std::is_same_v<T, bool> ? DTypeClass::boolean : DTypeClass::integer);
  }
  static Leaf of(double x) {
    Leaf leaf;
    leaf.number = x;
    return leaf;
  }
  static Leaf of_integer(std::int64_t x, DTypeClass kind = DTypeClass::integer) {
    Leaf leaf;
    leaf.kind = kind;
    leaf.integer = x;
    return leaf;
  }
};

SINTER_NAMESPACE_END
