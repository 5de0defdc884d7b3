// Element types: one table row per dtype and the promotion rule. A tensor's elements lie in memory in its dtype;
// kernels compute in the dtype that the row names, five in all, and loads and stores convert. A new dtype of fewer bits
// is a row here and a load and a store in each back end. u64 is computed on the bits of i64, by the sequences of
// ScalarBuilder. Complex numbers are pairs of real ones in memory, and no kernel knows them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/half.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// Element type of a tensor. `bool_` is stored as one byte, 0 or 1; c64 and c128 as the real part and the imaginary part
/// behind it, as std::complex. f8e4m3 and f8e5m2 are for memory: they are cast and moved, not computed with.
enum class DType : std::uint8_t {
  bool_,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  u64,
  f8e4m3,
  f8e5m2
};
inline constexpr int dtype_count = 17;

enum class DTypeClass : std::uint8_t { boolean, integer, floating, complex };

struct DTypeRow {
  std::string_view name;
  std::uint8_t size;
  DTypeClass kind;
  DType computed;  // what kernels compute in: holds all of its values (u64: its bits)
  bool is_signed = true;
  double epsilon = 0;  // of floats: from 1 to the next number, the largest and the smallest normal number
  double largest = 0;
  double smallest = 0;
};
inline constexpr std::array<DTypeRow, dtype_count> dtype_rows{{
    {"bool", 1, DTypeClass::boolean, DType::bool_, false},
    {"u8", 1, DTypeClass::integer, DType::i32, false},
    {"i8", 1, DTypeClass::integer, DType::i32},
    {"u16", 2, DTypeClass::integer, DType::i32, false},
    {"i16", 2, DTypeClass::integer, DType::i32},
    {"u32", 4, DTypeClass::integer, DType::i64, false},
    {"i32", 4, DTypeClass::integer, DType::i32},
    {"i64", 8, DTypeClass::integer, DType::i64},
    {"f16", 2, DTypeClass::floating, DType::f32, true, 0x1p-10, 65504, 0x1p-14},
    {"bf16", 2, DTypeClass::floating, DType::f32, true, 0x1p-7, 0x1.fep127, 0x1p-126},
    {"f32", 4, DTypeClass::floating, DType::f32, true, 0x1p-23, 0x1.fffffep127, 0x1p-126},
    {"f64", 8, DTypeClass::floating, DType::f64, true, 0x1p-52, 0x1.fffffffffffffp1023, 0x1p-1022},
    {"c64", 8, DTypeClass::complex, DType::c64, true, 0x1p-23, 0x1.fffffep127, 0x1p-126},
    {"c128", 16, DTypeClass::complex, DType::c128, true, 0x1p-52, 0x1.fffffffffffffp1023, 0x1p-1022},
    {"u64", 8, DTypeClass::integer, DType::i64, false},
    {"f8e4m3", 1, DTypeClass::floating, DType::f32, true, 0x1p-3, 448, 0x1p-6},
    {"f8e5m2", 1, DTypeClass::floating, DType::f32, true, 0x1p-2, 57344, 0x1p-14},
}};

constexpr const DTypeRow& row(DType dtype) { return dtype_rows[as_index(dtype)]; }
constexpr std::string_view name(DType dtype) { return row(dtype).name; }
constexpr std::int64_t size_of(DType dtype) { return row(dtype).size; }
constexpr bool is_floating(DType dtype) { return row(dtype).kind == DTypeClass::floating; }
constexpr bool is_integer(DType dtype) { return row(dtype).kind == DTypeClass::integer; }
constexpr bool is_complex(DType dtype) { return row(dtype).kind == DTypeClass::complex; }
/// Does a gradient flow through values of `dtype`?
constexpr bool is_differentiable(DType dtype) { return row(dtype).kind >= DTypeClass::floating; }
/// The dtype of the real and the imaginary part; a dtype that is not complex stays.
constexpr DType real_part_of(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype;
}
/// The complex dtype that holds numbers of `dtype` beside an imaginary part: c128 for f64, else c64.
constexpr DType complex_of(DType dtype) { return real_part_of(dtype) == DType::f64 ? DType::c128 : DType::c64; }
/// What kernels compute values of `dtype` in. Of a complex dtype they compute none.
constexpr DType computed_in(DType dtype) { return row(dtype).computed; }
/// Is it computed in a wider dtype?
constexpr bool is_narrow(DType dtype) { return size_of(computed_in(dtype)) > size_of(dtype); }
/// f16, bf16, f8e4m3 or f8e5m2: computed in f32 and rounded once.
constexpr bool is_half(DType dtype) { return is_narrow(dtype) && is_floating(dtype); }
/// f8e4m3 or f8e5m2: only what casts and moves elements takes them.
constexpr bool is_f8(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }

namespace tensor_detail {
/// The integer dtype of so many bytes.
constexpr DType signed_integer(std::int64_t bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}
}  // namespace tensor_detail

/// Have both a common dtype? u64 and signed integers have none that is an integer, and f8 stands only beside bool.
constexpr bool can_promote(DType a, DType b) {
  if (a == b || a == DType::bool_ || b == DType::bool_) return true;
  if (is_f8(a) || is_f8(b)) return false;
  if (a != DType::u64 && b != DType::u64) return true;
  const DTypeRow& other = row(a == DType::u64 ? b : a);
  return other.kind != DTypeClass::integer || !other.is_signed;
}

namespace tensor_detail {
/// Throws the DTypeError of two dtypes that have no common one.
[[noreturn]] void refuse_promotion(DType a, DType b, std::string_view op, Location where);
}  // namespace tensor_detail

/// The higher class wins; of two integers the smallest that holds all values of both, of two floats the wider, and f32
/// for f16 with bf16; f64 with c64 gives c128. These are PyTorch's pairs, and NumPy's for u16, u32 and u64, which
/// PyTorch does not mix. Throws DTypeError where can_promote(a, b) is false.
constexpr DType promote(DType a, DType b, std::string_view op = "promote", Location where = {}) {
  if (a == b) return a;
  if (!can_promote(a, b)) tensor_detail::refuse_promotion(a, b, op, where);
  const DTypeRow &x = row(a), &y = row(b);
  if (x.kind == DTypeClass::complex || y.kind == DTypeClass::complex)
    return real_part_of(a) == DType::f64 || real_part_of(b) == DType::f64 ? DType::c128 : DType::c64;
  if (x.kind != y.kind) return x.kind > y.kind ? a : b;
  if (x.kind == DTypeClass::floating && x.size == y.size) return DType::f32;
  if (x.is_signed == y.is_signed) return x.size > y.size ? a : b;
  const std::int64_t size_of_signed = x.is_signed ? x.size : y.size, size_of_other = x.is_signed ? y.size : x.size;
  return tensor_detail::signed_integer(size_of_signed > size_of_other ? size_of_signed : 2 * size_of_other);
}
/// A scalar literal of class `kind` never widens a tensor: it only lifts the class, to that class's default dtype.
constexpr DType promote_weak(DType tensor, DTypeClass kind) {
  if (kind <= row(tensor).kind) return tensor;
  if (kind == DTypeClass::complex) return complex_of(tensor);
  return kind == DTypeClass::integer ? DType::i64 : DType::f32;
}

namespace tensor_detail {
/// The least and the greatest number of an integer dtype, or of bool_; of u64 the greatest that is an i64, too.
constexpr std::int64_t lowest(DType dtype) {
  return row(dtype).is_signed ? static_cast<std::int64_t>(~std::uint64_t{0} << (8 * size_of(dtype) - 1)) : 0;
}
constexpr std::int64_t greatest(DType dtype) {
  if (dtype == DType::bool_) return 1;
  if (dtype == DType::u64) return std::numeric_limits<std::int64_t>::max();
  return row(dtype).is_signed ? ~lowest(dtype) : (std::int64_t{1} << (8 * size_of(dtype))) - 1;
}
/// The number of an integer dtype (or of bool_: is it not 0?) whose low bits are those of `value`. A u64 is given and
/// held as the i64 of its bits.
constexpr std::int64_t wrapped(std::int64_t value, DType dtype) {
  if (dtype == DType::bool_) return value != 0;
  const int unused = 64 - 8 * static_cast<int>(size_of(dtype));
  const std::uint64_t high = static_cast<std::uint64_t>(value) << unused;
  return row(dtype).is_signed ? static_cast<std::int64_t>(high) >> unused : static_cast<std::int64_t>(high >> unused);
}
/// `value` as a number of a floating dtype, rounded once from double (f16, bf16 and f8: from float).
constexpr double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::f16: return static_cast<float>(float16(static_cast<float>(value)));
    case DType::bf16: return static_cast<float>(bfloat16(static_cast<float>(value)));
    case DType::f8e4m3: return static_cast<float>(float8_e4m3(static_cast<float>(value)));
    case DType::f8e5m2: return static_cast<float>(float8_e5m2(static_cast<float>(value)));
    case DType::f32: return static_cast<float>(value);
    default: return value;
  }
}
}  // namespace tensor_detail

namespace tensor_detail {
/// A binary floating type of 16 bits with so many digits: ours, Eigen's, or std::float16_t and std::bfloat16_t.
template <class T, int digits>
concept Half = sizeof(T) == 2 && std::numeric_limits<T>::is_specialized && !std::numeric_limits<T>::is_integer &&
               std::numeric_limits<T>::digits == digits;
}  // namespace tensor_detail

namespace tensor_detail {
/// A complex number of two parts of type T and nothing else: std::complex<T>, or another class with its members.
template <class C, class T>
concept ComplexOf =
    std::is_class_v<C> && sizeof(C) == 2 * sizeof(T) && std::is_trivially_copyable_v<C> && requires(const C& z) {
      typename C::value_type;
      requires std::same_as<typename C::value_type, T>;
      { z.real() } -> std::convertible_to<T>;
      { z.imag() } -> std::convertible_to<T>;
      C(z.real(), z.imag());
    };
}  // namespace tensor_detail

/// The C++ types of c64 and c128: std::complex<float> and std::complex<double>, known by their members.
template <class T>
concept ComplexElement = tensor_detail::ComplexOf<T, float> || tensor_detail::ComplexOf<T, double>;

/// The C++ types of floating dtypes.
template <class T>
concept FloatingElement = std::same_as<T, float> || std::same_as<T, double> || tensor_detail::Half<T, 11> ||
                          tensor_detail::Half<T, 8> || std::same_as<T, float8_e4m3> || std::same_as<T, float8_e5m2>;

/// The C++ types that have a real dtype.
template <class T>
concept RealElement =
    FloatingElement<T> || std::same_as<T, bool> || std::same_as<T, std::uint8_t> || std::same_as<T, std::int8_t> ||
    std::same_as<T, std::uint16_t> || std::same_as<T, std::int16_t> || std::same_as<T, std::uint32_t> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, long long> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, unsigned long long>;

/// The C++ types that have a dtype.
template <class T>
concept Element = RealElement<T> || ComplexElement<T>;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, bool>) return DType::bool_;
  else if constexpr (tensor_detail::ComplexOf<T, float>) return DType::c64;
  else if constexpr (tensor_detail::ComplexOf<T, double>) return DType::c128;
  else if constexpr (tensor_detail::Half<T, 11>) return DType::f16;
  else if constexpr (tensor_detail::Half<T, 8>) return DType::bf16;
  else if constexpr (std::same_as<T, float8_e4m3>) return DType::f8e4m3;
  else if constexpr (std::same_as<T, float8_e5m2>) return DType::f8e5m2;
  else if constexpr (std::same_as<T, float>) return DType::f32;
  else if constexpr (std::same_as<T, double>) return DType::f64;
  else if constexpr (std::is_signed_v<T>) return tensor_detail::signed_integer(sizeof(T));
  else return sizeof(T) == 1 ? DType::u8 : sizeof(T) == 2 ? DType::u16 : sizeof(T) == 4 ? DType::u32 : DType::u64;
}

namespace tensor_detail {
/// The C++ type that kernels compute in.
template <RealElement T>
using Computed =
    std::conditional_t<FloatingElement<T>, std::conditional_t<std::same_as<T, double>, double, float>,
                       std::conditional_t<std::same_as<T, bool>, bool,
                                          std::conditional_t<sizeof(T) == 8 || std::same_as<T, std::uint32_t>,
                                                             std::int64_t, std::int32_t>>>;
}  // namespace tensor_detail

/// Calls `visit(T{})` with the C++ type of `dtype`, which is not complex: whoever gets here has seen to that.
template <class F>
constexpr decltype(auto) visit_dtype(DType dtype, F&& visit) {
  switch (dtype) {
    case DType::bool_: return visit(bool{});
    case DType::u8: return visit(std::uint8_t{});
    case DType::i8: return visit(std::int8_t{});
    case DType::u16: return visit(std::uint16_t{});
    case DType::i16: return visit(std::int16_t{});
    case DType::u32: return visit(std::uint32_t{});
    case DType::i32: return visit(std::int32_t{});
    case DType::i64: return visit(std::int64_t{});
    case DType::f16: return visit(float16{});
    case DType::bf16: return visit(bfloat16{});
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
    case DType::u64: return visit(std::uint64_t{});
    case DType::f8e4m3: return visit(float8_e4m3{});
    case DType::f8e5m2: return visit(float8_e5m2{});
    case DType::c64:
    case DType::c128: break;
  }
  __builtin_unreachable();
}

/// The same for a dtype that kernels compute in.
template <class F>
constexpr decltype(auto) visit_computed(DType dtype, F&& visit) {
  switch (dtype) {
    case DType::bool_: return visit(bool{});
    case DType::i32: return visit(std::int32_t{});
    case DType::i64: return visit(std::int64_t{});
    case DType::f32: return visit(float{});
    default: return visit(double{});
  }
}

SINTER_NAMESPACE_END
