// Element types: one table row per dtype and the promotion rule. A tensor's elements lie in memory in its dtype;
// kernels compute in the dtype that the row names, five in all, and loads and stores convert. A new float of 8 or 16
// bits is a row here and a type in half.hpp: back ends and files read the row. u64 is computed on the bits of i64, by
// the sequences of ScalarBuilder. Complex numbers are pairs of real ones in memory, and no kernel knows them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/half.hpp>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string_view>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// Element type of a tensor. `bool_` is stored as one byte, 0 or 1; c64 and c128 as the real part and the imaginary
/// part behind it, as std::complex. f8e4m3 and f8e5m2 are for memory: they are cast and moved, not computed with.
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
enum class DTypeClass : std::uint8_t { boolean, integer, floating, complex };

/// All that is known of a dtype. What has no name or number in a format has an empty one there, or -1.
struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::uint8_t size;
  DTypeClass kind;
  DType computed;  // what kernels compute in: holds all of its values (u64: its bits)
  bool is_signed = true;
  std::uint8_t exponent_bits = 0, fraction_bits = 0;  // of floats, and of the parts of complex numbers
  bool has_infinity = true;                           // if not, the largest exponent holds numbers, and NaN is all ones
  std::string_view cuda{};   // the type in memory in CUDA C; empty: made of the bits above, or none
  std::string_view numpy{};  // behind the byte order in .npy files
  std::string_view torch{};  // NumPy's names are the same
  std::string_view torch_storage{};
  std::string_view safetensors{};
  std::int8_t onnx = -1, dlpack = -1, gguf = -1, nccl = -1;

  /// From 1 to the next number, the largest number, and the smallest normal one; 0 of integers.
  constexpr double epsilon() const { return exponent_bits == 0 ? 0 : power_of_two(-fraction_bits); }
  constexpr double largest() const {
    if (exponent_bits == 0) return 0;
    return has_infinity ? (2 - epsilon()) * power_of_two(bias()) : (2 - 2 * epsilon()) * power_of_two(bias() + 1);
  }
  constexpr double smallest() const { return exponent_bits == 0 ? 0 : power_of_two(1 - bias()); }
  constexpr int bias() const { return exponent_bits == 0 ? 0 : (1 << (exponent_bits - 1)) - 1; }
  static constexpr double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
};
// clang-format off
inline constexpr auto dtype_rows = std::to_array<DTypeRow>({
    {.dtype = DType::bool_, .name = "bool", .size = 1, .kind = DTypeClass::boolean, .computed = DType::bool_,
     .is_signed = false,
     .cuda = "unsigned char", .numpy = "b1", .torch = "bool", .torch_storage = "BoolStorage", .safetensors = "BOOL",
     .onnx = 9, .dlpack = 6, .nccl = 1},
    {.dtype = DType::u8, .name = "u8", .size = 1, .kind = DTypeClass::integer, .computed = DType::i32,
     .is_signed = false,
     .cuda = "unsigned char", .numpy = "u1", .torch = "uint8", .torch_storage = "ByteStorage", .safetensors = "U8",
     .onnx = 2, .dlpack = 1, .nccl = 1},
    {.dtype = DType::i8, .name = "i8", .size = 1, .kind = DTypeClass::integer, .computed = DType::i32,
     .cuda = "signed char", .numpy = "i1", .torch = "int8", .torch_storage = "CharStorage", .safetensors = "I8",
     .onnx = 3, .dlpack = 0, .gguf = 24, .nccl = 0},
    {.dtype = DType::u16, .name = "u16", .size = 2, .kind = DTypeClass::integer, .computed = DType::i32,
     .is_signed = false,
     .cuda = "unsigned short", .numpy = "u2", .torch = "uint16", .safetensors = "U16", .onnx = 4, .dlpack = 1},
    {.dtype = DType::i16, .name = "i16", .size = 2, .kind = DTypeClass::integer, .computed = DType::i32,
     .cuda = "short", .numpy = "i2", .torch = "int16", .torch_storage = "ShortStorage", .safetensors = "I16",
     .onnx = 5, .dlpack = 0, .gguf = 25},
    {.dtype = DType::u32, .name = "u32", .size = 4, .kind = DTypeClass::integer, .computed = DType::i64,
     .is_signed = false,
     .cuda = "unsigned", .numpy = "u4", .torch = "uint32", .safetensors = "U32", .onnx = 12, .dlpack = 1, .nccl = 3},
    {.dtype = DType::i32, .name = "i32", .size = 4, .kind = DTypeClass::integer, .computed = DType::i32,
     .cuda = "int", .numpy = "i4", .torch = "int32", .torch_storage = "IntStorage", .safetensors = "I32", .onnx = 6,
     .dlpack = 0, .gguf = 26, .nccl = 2},
    {.dtype = DType::i64, .name = "i64", .size = 8, .kind = DTypeClass::integer, .computed = DType::i64,
     .cuda = "long long", .numpy = "i8", .torch = "int64", .torch_storage = "LongStorage", .safetensors = "I64",
     .onnx = 7, .dlpack = 0, .gguf = 27, .nccl = 4},
    {.dtype = DType::f16, .name = "f16", .size = 2, .kind = DTypeClass::floating, .computed = DType::f32,
     .exponent_bits = 5, .fraction_bits = 10,
     .cuda = "Half", .numpy = "f2", .torch = "float16", .torch_storage = "HalfStorage", .safetensors = "F16",
     .onnx = 10, .dlpack = 2, .gguf = 1, .nccl = 6},
    {.dtype = DType::bf16, .name = "bf16", .size = 2, .kind = DTypeClass::floating, .computed = DType::f32,
     .exponent_bits = 8, .fraction_bits = 7,
     .cuda = "Brain", .numpy = "V2", .torch = "bfloat16", .torch_storage = "BFloat16Storage", .safetensors = "BF16",
     .onnx = 16, .dlpack = 4, .gguf = 30, .nccl = 9},
    {.dtype = DType::f32, .name = "f32", .size = 4, .kind = DTypeClass::floating, .computed = DType::f32,
     .exponent_bits = 8, .fraction_bits = 23,
     .cuda = "float", .numpy = "f4", .torch = "float32", .torch_storage = "FloatStorage", .safetensors = "F32",
     .onnx = 1, .dlpack = 2, .gguf = 0, .nccl = 7},
    {.dtype = DType::f64, .name = "f64", .size = 8, .kind = DTypeClass::floating, .computed = DType::f64,
     .exponent_bits = 11, .fraction_bits = 52,
     .cuda = "double", .numpy = "f8", .torch = "float64", .torch_storage = "DoubleStorage", .safetensors = "F64",
     .onnx = 11, .dlpack = 2, .gguf = 28, .nccl = 8},
    {.dtype = DType::c64, .name = "c64", .size = 8, .kind = DTypeClass::complex, .computed = DType::c64,
     .exponent_bits = 8, .fraction_bits = 23,
     .numpy = "c8", .torch = "complex64", .safetensors = "C64", .onnx = 14, .dlpack = 5, .nccl = 7},
    {.dtype = DType::c128, .name = "c128", .size = 16, .kind = DTypeClass::complex, .computed = DType::c128,
     .exponent_bits = 11, .fraction_bits = 52,
     .numpy = "c16", .torch = "complex128", .onnx = 15, .dlpack = 5, .nccl = 8},
    {.dtype = DType::u64, .name = "u64", .size = 8, .kind = DTypeClass::integer, .computed = DType::i64,
     .is_signed = false,
     .cuda = "long long", .numpy = "u8", .torch = "uint64", .safetensors = "U64", .onnx = 13, .dlpack = 1,
     .nccl = 5},
    {.dtype = DType::f8e4m3, .name = "f8e4m3", .size = 1, .kind = DTypeClass::floating, .computed = DType::f32,
     .exponent_bits = 4, .fraction_bits = 3, .has_infinity = false,
     .torch = "float8_e4m3fn", .safetensors = "F8_E4M3", .onnx = 17, .dlpack = 10},
    {.dtype = DType::f8e5m2, .name = "f8e5m2", .size = 1, .kind = DTypeClass::floating, .computed = DType::f32,
     .exponent_bits = 5, .fraction_bits = 2,
     .torch = "float8_e5m2", .safetensors = "F8_E5M2", .onnx = 19, .dlpack = 12},
});
// clang-format on
inline constexpr int dtype_count = static_cast<int>(dtype_rows.size());

namespace tensor_detail {
consteval bool are_rows_in_order() {
  for (std::size_t i = 0; i < dtype_rows.size(); ++i)
    if (as_index(dtype_rows[i].dtype) != i) return false;
  return true;
}
static_assert(are_rows_in_order(), "the rows of dtypes stand in the order of DType");
consteval bool are_small_floats_possible() {
  for (const DTypeRow& each : dtype_rows)
    if (each.kind == DTypeClass::floating && each.size <= 2 &&
        !is_small_format(each.size, each.exponent_bits, each.fraction_bits, each.has_infinity))
      return false;
  return true;
}
static_assert(are_small_floats_possible(), "a float of 8 or 16 bits has a format that small_float has");
}  // namespace tensor_detail

constexpr const DTypeRow& row(DType dtype) { return dtype_rows[as_index(dtype)]; }
constexpr std::string_view name(DType dtype) { return row(dtype).name; }
/// Writes the name.
std::ostream& operator<<(std::ostream& out, DType dtype);
/// PyTorch's and NumPy's name ("float32"); empty where they have none.
constexpr std::string_view torch_name(DType dtype) { return row(dtype).torch; }
constexpr std::string_view numpy_name(DType dtype) {
  const bool has_one = !row(dtype).numpy.empty() && row(dtype).numpy[0] != 'V';
  return has_one ? row(dtype).torch : std::string_view();
}
/// The dtype of such a name: Sinter's ("f32"), PyTorch's ("float32", "torch.float32", "torch.long") or NumPy's
/// ("float32", "np.float32", "<f4"). "i8" and "u8" alone are Sinter's, of 8 bits; NumPy's of 8 bytes are "<i8" and
/// "<u8". Throws DTypeError where there is none.
DType dtype_named(std::string_view text, Location where = Location::current());
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
/// f16, bf16, f8e4m3, f8e5m2 (and any float of so few bits): computed in f32 and rounded once.
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
double rounded(double value, DType dtype);
}  // namespace tensor_detail

namespace tensor_detail {
/// The dtype of a small_float: the place of the row of its bits, or -1.
constexpr int row_of_small(std::size_t size, int exponent, int fraction, bool with_infinity) {
  for (std::size_t i = 0; i < dtype_rows.size(); ++i) {
    const DTypeRow& known = dtype_rows[i];
    if (known.kind == DTypeClass::floating && known.size == size && known.exponent_bits == exponent &&
        known.fraction_bits == fraction && known.has_infinity == with_infinity)
      return static_cast<int>(i);
  }
  return -1;
}
template <class T>
inline constexpr int row_of_type = -1;
template <class Bits, int exponent, int fraction, bool with_infinity>
inline constexpr int row_of_type<small_float<Bits, exponent, fraction, with_infinity>> =
    row_of_small(sizeof(Bits), exponent, fraction, with_infinity);

/// A small_float, of a format that has a row or of another one.
template <class T>
inline constexpr bool is_small_float = false;
template <class Bits, int exponent, int fraction, bool with_infinity>
inline constexpr bool is_small_float<small_float<Bits, exponent, fraction, with_infinity>> = true;
/// A small_float that has a dtype.
template <class T>
concept SmallFloat = row_of_type<T> >= 0;

/// A binary floating type of 16 bits with so many digits: ours, Eigen's, or std::float16_t and std::bfloat16_t.
template <class T, int digits>
concept Half = sizeof(T) == 2 && std::numeric_limits<T>::is_specialized && !std::numeric_limits<T>::is_integer &&
               std::numeric_limits<T>::digits == digits && !is_small_float<T>;
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
                          tensor_detail::Half<T, 8> || tensor_detail::SmallFloat<T>;

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
  else if constexpr (tensor_detail::SmallFloat<T>) return static_cast<DType>(tensor_detail::row_of_type<T>);
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

namespace tensor_detail {
consteval bool are_types_visited() {
  for (const DTypeRow& each : dtype_rows)
    if (each.kind != DTypeClass::complex &&
        visit_dtype(each.dtype, []<class T>(T) { return dtype_of<T>(); }) != each.dtype)
      return false;
  return true;
}
static_assert(are_types_visited(), "visit_dtype has a line for every dtype that is not complex");
}  // namespace tensor_detail

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
