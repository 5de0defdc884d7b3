// Leaf: an operand as the user wrote it, a value or a C++ number. Numbers stay numbers until a dtype is known.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/impl.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// An operand of a pending node: a value, or a C++ number.
struct Leaf {
  Ref<TensorImpl> value;  // null: a number
  DTypeClass kind = DTypeClass::floating;
  union {
    double number;         // kind floating
    std::int64_t integer;  // kind integer, boolean
  };
  Leaf() : number(0) {}
  Leaf(Ref<TensorImpl> v) : value(std::move(v)), number(0) {}
  /// A C++ number of any arithmetic type. Throws UserError for one above the largest i64.
  template <class T>
    requires std::is_arithmetic_v<T>
  static Leaf of_number(T x, Location where = {}) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t))
      if (SINTER_UNLIKELY(static_cast<std::uint64_t>(x) >> 63 != 0)) refuse(static_cast<std::uint64_t>(x), where);
    if constexpr (std::is_floating_point_v<T>) return of(static_cast<double>(x));
    else
      return of_integer(static_cast<std::int64_t>(x),
                        std::is_same_v<T, bool> ? DTypeClass::boolean : DTypeClass::integer);
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

 private:
  [[noreturn]] static SINTER_NOINLINE void refuse(std::uint64_t x, Location where) {
    throw UserError("Scalar", std::to_string(x) + " does not fit i64, in which whole numbers are held", where,
                    "make it a Tensor: tensor<std::uint64_t>({...}); a floating number is rounded");
  }
};

SINTER_NAMESPACE_END
