// Element types: one table row per dtype (name, size, class) and the promotion rule. A new dtype is a row here and an
// arm in the primitives' code generators.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// Element type of a tensor. `bool_` is stored as one byte, 0 or 1.
enum class DType : std::uint8_t { bool_, i32, i64, f32, f64 };
inline constexpr int dtype_count = 5;

enum class DTypeClass : std::uint8_t { boolean, integer, floating };

struct DTypeRow {
  std::string_view name;
  std::uint8_t size;
  DTypeClass kind;
};
inline constexpr std::array<DTypeRow, dtype_count> dtype_rows{{
    {"bool", 1, DTypeClass::boolean},
    {"i32", 4, DTypeClass::integer},
    {"i64", 8, DTypeClass::integer},
    {"f32", 4, DTypeClass::floating},
    {"f64", 8, DTypeClass::floating},
}};

constexpr const DTypeRow& row(DType dtype) { return dtype_rows[as_index(dtype)]; }
constexpr std::string_view name(DType dtype) { return row(dtype).name; }
constexpr std::int64_t size_of(DType dtype) { return row(dtype).size; }
constexpr bool is_floating(DType dtype) { return row(dtype).kind == DTypeClass::floating; }
constexpr bool is_integer(DType dtype) { return row(dtype).kind == DTypeClass::integer; }

/// PyTorch's table: the higher class wins; inside a class the wider type wins (the enum is in that order).
constexpr DType promote(DType a, DType b) { return a > b ? a : b; }
/// A scalar literal of class `kind` never widens a tensor: it only lifts the class, to that class's default dtype.
constexpr DType promote_weak(DType tensor, DTypeClass kind) {
  if (kind <= row(tensor).kind) return tensor;
  return kind == DTypeClass::integer ? DType::i64 : DType::f32;
}

/// The C++ types that have a dtype.
template <class T>
concept Element = std::same_as<T, bool> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
                  std::same_as<T, long long> || std::same_as<T, float> || std::same_as<T, double>;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, bool>) return DType::bool_;
  else if constexpr (std::same_as<T, float>) return DType::f32;
  else if constexpr (std::same_as<T, double>) return DType::f64;
  else if constexpr (sizeof(T) == 4) return DType::i32;
  else return DType::i64;
}

/// Calls `visit(T{})` with the C++ type of `dtype`.
template <class F>
constexpr decltype(auto) visit_dtype(DType dtype, F&& visit) {
  switch (dtype) {
    case DType::bool_: return visit(bool{});
    case DType::i32: return visit(std::int32_t{});
    case DType::i64: return visit(std::int64_t{});
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
  }
  __builtin_unreachable();
}

SINTER_NAMESPACE_END
