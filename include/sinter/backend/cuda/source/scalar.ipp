// Expressions of primitives, and helper functions.
#pragma once

#include <sinter/backend/cuda/source/normal.hpp>
#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/base/index.hpp>

#include <sinter/base/error.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL std::string value_type(DType dtype) {
  switch (computed_in(dtype)) {
    case DType::bool_: return "bool";
    case DType::i32: return "int";
    case DType::i64: return "long long";
    case DType::f32: return "float";
    default: return "double";
  }
}

SINTER_DECL std::string memory_type(DType dtype) {
  const DTypeRow& format = row(dtype);
  if (!format.cuda.empty()) return std::string(format.cuda);
  ensure(is_half(dtype), "a type in CUDA C of a dtype that no kernel sees");
  return std::string("Small<") + (format.size == 1 ? "unsigned char" : "unsigned short") + ", " +
         std::to_string(format.exponent_bits) + ", " + std::to_string(format.fraction_bits) +
         (format.has_infinity ? ", true>" : ", false>");
}

inline std::string integer_literal(std::int64_t value, DType dtype) {
  if (dtype == DType::bool_) return value != 0 ? "true" : "false";
  if (dtype == DType::i32)
    return value == std::numeric_limits<std::int32_t>::min() ? "(-2147483647 - 1)" : std::to_string(value);
  return value == std::numeric_limits<std::int64_t>::min() ? "(-9223372036854775807LL - 1)"
                                                           : std::to_string(value) + "LL";
}

inline std::string floating_literal(double value, DType dtype) {
  char text[64];
  if (!std::isfinite(value)) {
    if (dtype == DType::f32)
      std::snprintf(text, sizeof text, "__int_as_float(0x%08x)",
                    std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    else
      std::snprintf(text, sizeof text, "__longlong_as_double(0x%016llxLL)",
                    static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
    return text;
  }
  std::snprintf(text, sizeof text, dtype == DType::f32 ? "%.9g" : "%.17g", value);
  std::string number = text;
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  if (dtype == DType::f32) number += "f";
  return std::signbit(value) ? "(" + number + ")" : number;
}

SINTER_DECL std::string literal(const Inst& inst) {
  return is_floating(inst.dtype) ? floating_literal(inst.number(), inst.dtype)
                                 : integer_literal(inst.integer(), inst.dtype);
}

using Args = std::array<std::string, 3>;

/// `+` and its like: integers wrap, so they are done unsigned.
inline std::string arithmetic(DType dtype, const Args& a, const char* symbol) {
  if (is_floating(dtype)) return a[0] + " " + symbol + " " + a[1];
  const std::string type = value_type(dtype), wide = dtype == DType::i32 ? "unsigned" : "unsigned long long";
  return "(" + type + ")((" + wide + ")" + a[0] + " " + symbol + " (" + wide + ")" + a[1] + ")";
}

inline std::string on_bools(const Inst& inst, const Args& a) {
  switch (inst.prim) {
    case Prim::add:
    case Prim::max:
    case Prim::or_: return a[0] + " || " + a[1];
    case Prim::mul:
    case Prim::min:
    case Prim::and_:
    case Prim::div: return a[0] + " && " + a[1];
    case Prim::sub:
    case Prim::xor_:
    case Prim::ne: return a[0] + " != " + a[1];
    case Prim::eq: return a[0] + " == " + a[1];
    case Prim::lt: return "!" + a[0] + " && " + a[1];
    case Prim::le: return "!" + a[0] + " || " + a[1];
    case Prim::rem: return "false";
    case Prim::pow: return a[0] + " || !" + a[1];
    case Prim::fma: return "(" + a[0] + " && " + a[1] + ") || " + a[2];
    case Prim::not_: return "!" + a[0];
    default: return a[0];  // neg, abs and the roundings
  }
}

/// A function of CUDA's library: f32 has its own name.
inline std::string library(const char* function, DType dtype, const Args& a, int count) {
  std::string text = std::string(function) + (dtype == DType::f32 ? "f(" : "(") + a[0];
  for (int i = 1; i < count; ++i) text += ", " + a[as_index(i)];
  return text + ")";
}

inline std::string bitcast_function(DType from, DType to) {
  if (to == DType::f32) return "__int_as_float";
  if (to == DType::f64) return "__longlong_as_double";
  return from == DType::f32 ? "__float_as_int" : "__double_as_longlong";
}

inline std::string on_numbers(const Inst& inst, DType from, const Args& a) {
  const bool floating = is_floating(from);
  const std::string type = value_type(from);
  // clang-format off
  switch (inst.prim) {
    case Prim::neg: return floating ? "-" + a[0] : arithmetic(from, {"0", a[0], ""}, "-");
    case Prim::abs:
      return floating ? library("fabs", from, a, 1)
                      : a[0] + " < 0 ? " + arithmetic(from, {"0", a[0], ""}, "-") + " : " + a[0];
    case Prim::add: return arithmetic(from, a, "+");
    case Prim::sub: return arithmetic(from, a, "-");
    case Prim::mul: return arithmetic(from, a, "*");
    case Prim::div: return floating ? a[0] + " / " + a[1] : "quotient<" + type + ">(" + a[0] + ", " + a[1] + ")";
    case Prim::rem:
      return floating ? "floating_remainder(" + a[0] + ", " + a[1] + ")"
                      : "remainder_of<" + type + ">(" + a[0] + ", " + a[1] + ")";
    case Prim::fma:
      return floating ? library("fma", from, a, 3) : arithmetic(from, {arithmetic(from, a, "*"), a[2], ""}, "+");
    case Prim::min: return "lesser<" + type + ">(" + a[0] + ", " + a[1] + ")";
    case Prim::max: return "greater<" + type + ">(" + a[0] + ", " + a[1] + ")";
    case Prim::eq: return a[0] + " == " + a[1];
    case Prim::ne: return a[0] + " != " + a[1];
    case Prim::lt: return a[0] + " < " + a[1];
    case Prim::le: return a[0] + " <= " + a[1];
    case Prim::and_: return a[0] + " & " + a[1];
    case Prim::or_: return a[0] + " | " + a[1];
    case Prim::xor_: return a[0] + " ^ " + a[1];
    case Prim::not_: return "~" + a[0];
    case Prim::shift_left: return "shifted_left(" + a[0] + ", " + a[1] + ")";
    case Prim::shift_right: return "shifted_right(" + a[0] + ", " + a[1] + ")";
    case Prim::floor: return floating ? library("floor", from, a, 1) : a[0];
    case Prim::ceil: return floating ? library("ceil", from, a, 1) : a[0];
    case Prim::round: return floating ? library("rint", from, a, 1) : a[0];
    case Prim::trunc: return floating ? library("trunc", from, a, 1) : a[0];
    case Prim::sqrt: return library("sqrt", from, a, 1);
    case Prim::rsqrt: return library("rsqrt", from, a, 1);
    case Prim::exp: return library("exp", from, a, 1);
    case Prim::log: return library("log", from, a, 1);
    case Prim::sin: return library("sin", from, a, 1);
    case Prim::cos: return library("cos", from, a, 1);
    case Prim::tanh: return library("tanh", from, a, 1);
    case Prim::erf: return library("erf", from, a, 1);
    case Prim::gelu: return "gelu_of(" + a[0] + ")";
    case Prim::gelu_slope: return "gelu_slope_of(" + a[0] + ")";
    case Prim::gauss: return "gauss_of(" + a[0] + ")";
    case Prim::pow:
      return floating ? library("pow", from, a, 2) : "integer_power<" + type + ">(" + a[0] + ", " + a[1] + ")";
    case Prim::random_bits: return "random_bits(" + a[0] + ", " + a[1] + ", " + a[2] + ")";
    case Prim::select: case Prim::convert: case Prim::bitcast: case Prim::immediate: case Prim::load: case Prim::gather:
    case Prim::guarded_load: case Prim::index: case Prim::argument: case Prim::reduce_add: case Prim::reduce_mul:
    case Prim::reduce_min: case Prim::reduce_max: case Prim::fold: case Prim::contract:
    case Prim::scan_add: case Prim::scan_mul: case Prim::scan_min: case Prim::scan_max:
      break;
  }
  // clang-format on
  throw InternalError("cuda: no expression of " + std::string(name(inst.prim)));
}

SINTER_DECL std::string expression(const Inst& inst, DType from, const std::array<std::string, 3>& a) {
  if (inst.prim == Prim::select) return a[0] + " ? " + a[1] + " : " + a[2];
  if (inst.prim == Prim::convert) {
    if (inst.dtype == DType::bool_) return a[0] + " != 0";
    const std::string converted = "(" + value_type(inst.dtype) + ")" + a[0];
    return is_floating(from) && !is_floating(inst.dtype) ? a[0] + " != " + a[0] + " ? 0 : " + converted
                                                         : converted;  // saturates
  }
  if (inst.prim == Prim::bitcast) return bitcast_function(from, inst.dtype) + ("(" + a[0] + ")");
  return from == DType::bool_ ? on_bools(inst, a) : on_numbers(inst, from, a);
}

SINTER_DECL std::string combined(Prim reduction, DType dtype, const std::string& a, const std::string& b) {
  Inst inst{.prim = Prim::add, .dtype = dtype};
  if (reduction == Prim::reduce_mul) inst.prim = Prim::mul;
  if (reduction == Prim::reduce_min) inst.prim = Prim::min;
  if (reduction == Prim::reduce_max) inst.prim = Prim::max;
  return expression(inst, dtype, {a, b, ""});
}

SINTER_DECL std::string neutral(Prim reduction, DType dtype) {
  const bool is_min = reduction == Prim::reduce_min, is_max = reduction == Prim::reduce_max;
  const double infinity = std::numeric_limits<double>::infinity();
  if (is_floating(dtype))
    return floating_literal(reduction == Prim::reduce_mul ? 1 : is_min ? infinity : is_max ? -infinity : 0, dtype);
  if (dtype == DType::bool_) return reduction == Prim::reduce_mul || is_min ? "true" : "false";
  const bool narrow = dtype == DType::i32;
  if (is_min)
    return integer_literal(narrow ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max(),
                           dtype);
  if (is_max)
    return integer_literal(narrow ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min(),
                           dtype);
  return integer_literal(reduction == Prim::reduce_mul, dtype);
}

// ---- helper functions -----------------------------------------------------------------------------------------------

struct Helper {
  std::string_view called;  // what its use looks like
  std::string_view text;
};

inline constexpr Helper helper_table[] = {
    {"Pack<", "template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };\n"},
    {"TensorMap ", "struct alignas(64) TensorMap { unsigned long long words[16]; };\n"},
    {"divided(",
     "static __device__ __forceinline__ int divided(int n, int magic, int shift) { return (int)((__umulhi((unsigned)n, "
     "(unsigned)magic) + (unsigned)n) >> shift); }\n"},
    {"quotient<",
     "template <class T> static __device__ __forceinline__ T quotient(T a, T b) {\n"
     "  return b == 0 ? T(0) : b == -1 ? (T)(0 - (unsigned long long)a) : (T)(a / b);\n}\n"},
    {"remainder_of<",
     "template <class T> static __device__ __forceinline__ T remainder_of(T a, T b) {\n"
     "  if (b == 0 || b == -1) return 0;\n  const T r = a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : "
     "r;\n}\n"},
    {"shifted_left(",
     "static __device__ __forceinline__ int shifted_left(int a, int n) {\n"
     "  return n < 0 || n > 31 ? 0 : (int)((unsigned)a << n);\n}\n"
     "static __device__ __forceinline__ long long shifted_left(long long a, long long n) {\n"
     "  return n < 0 || n > 63 ? 0 : (long long)((unsigned long long)a << n);\n}\n"},
    {"shifted_right(",
     "static __device__ __forceinline__ int shifted_right(int a, int n) { return a >> (n < 0 || n > 31 ? 31 : n); }\n"
     "static __device__ __forceinline__ long long shifted_right(long long a, long long n) {\n"
     "  return a >> (n < 0 || n > 63 ? 63 : n);\n}\n"},
    {"word_of(",
     "static __device__ __forceinline__ unsigned word_of(float x) { return __float_as_uint(x); }\n"
     "static __device__ __forceinline__ unsigned word_of(int x) { return (unsigned)x; }\n"
     "static __device__ __forceinline__ void of_word(float& x, unsigned word) { x = __uint_as_float(word); }\n"
     "static __device__ __forceinline__ void of_word(int& x, unsigned word) { x = (int)word; }\n"},
    {"floating_remainder(",
     "static __device__ __forceinline__ float floating_remainder(float a, float b) {\n"
     "  const float r = fmodf(a, b);\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}\n"
     "static __device__ __forceinline__ double floating_remainder(double a, double b) {\n"
     "  const double r = fmod(a, b);\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}\n"},
    {"integer_power<",
     "template <class T> static __device__ T integer_power(T base, T exponent) {\n"
     "  if (exponent < 0) return base == 1 ? T(1) : base == -1 ? (exponent % 2 != 0 ? T(-1) : T(1)) : T(0);\n"
     "  unsigned long long result = 1, square = (unsigned long long)(long long)base;\n"
     "  for (unsigned long long left = (unsigned long long)exponent; left != 0; left >>= 1, square *= square)\n"
     "    if (left & 1) result *= square;\n  return (T)result;\n}\n"},
    {"random_bits(",
     "static __device__ __forceinline__ long long random_bits(long long key, long long counter, long long element) {\n"
     "  unsigned c0 = (unsigned)element, c1 = (unsigned)((unsigned long long)element >> 32);\n"
     "  unsigned c2 = (unsigned)counter, c3 = (unsigned)((unsigned long long)counter >> 32);\n"
     "  unsigned k0 = (unsigned)key, k1 = (unsigned)((unsigned long long)key >> 32);\n"
     "#pragma unroll\n  for (int round = 0; round < 10; ++round) {\n"
     "    const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0, high1 = __umulhi(0xCD9E8D57u, "
     "c2), low1 = 0xCD9E8D57u * c2;\n"
     "    c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;\n"
     "    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;\n  }\n  return (long long)c0;\n}\n"},
    {"gather_ok(",
     "static __device__ __forceinline__ bool gather_ok(long long index, long long extent, long long* fault, unsigned "
     "long long tag) {\n"
     "  if ((unsigned long long)index < (unsigned long long)extent) return true;\n"
     "  if (atomicCAS((unsigned long long*)fault, 0ull, tag) == 0) fault[1] = index, fault[2] = extent;\n  return "
     "false;\n}\n"},
};

// What the language has no name for. One line each: whoever runs a text elsewhere has functions of his own in their
// place.
inline constexpr Helper machine_table[] = {
    {"dynamic_shared(",
     "static __device__ __forceinline__ unsigned char* dynamic_shared() { extern __shared__ __align__(128) unsigned "
     "char dynamic_memory[]; return dynamic_memory; }\n"},
    // Blocks of a cluster. A block may be written to when all have arrived, and read what was written when they have
    // again.
    {"cluster_arrive(",
     "static __device__ __forceinline__ void cluster_arrive() { asm volatile(\"barrier.cluster.arrive;\" : : : "
     "\"memory\"); }\n"},
    {"cluster_wait(",
     "static __device__ __forceinline__ void cluster_wait() { asm volatile(\"barrier.cluster.wait;\" : : : "
     "\"memory\"); "
     "}\n"},
    // By 16 bytes, which leave the caches first.
    {"read_once(",
     "template <class P> static __device__ __forceinline__ P read_once(const P* p) { if (sizeof(P) != 16) return *p; "
     "union { unsigned word[4]; P pack; } u; asm volatile(\"ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\" : "
     "\"=r\"(u.word[0]), \"=r\"(u.word[1]), \"=r\"(u.word[2]), \"=r\"(u.word[3]) : \"l\"(p)); return u.pack; }\n"},
    {"write_once(",
     "template <class P> static __device__ __forceinline__ void write_once(P* p, P value) { if (sizeof(P) != 16) { *p "
     "= "
     "value; return; } union { P pack; unsigned word[4]; } u = {value}; asm volatile(\"st.global.cs.v4.u32 [%0], {%1, "
     "%2, %3, %4};\" : : \"l\"(p), \"r\"(u.word[0]), \"r\"(u.word[1]), \"r\"(u.word[2]), \"r\"(u.word[3]) : "
     "\"memory\"); }\n"},
    {"put_in_block(",  // where this block has `place`
     "template <class T> static __device__ __forceinline__ void put_in_block(int block, T* place, T value) { unsigned "
     "long long there; asm volatile(\"mapa.u64 %0, %1, %2;\" : \"=l\"(there) : \"l\"(place), \"r\"(block)); *(T*)there "
     "= "
     "value; }\n"},
    // Words of memory that blocks which run at once send each other: a number of four bytes below that of its row.
    {"read_word(",
     "static __device__ __forceinline__ unsigned long long read_word(const unsigned long long* p) { unsigned long long "
     "word; asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : \"=l\"(word) : \"l\"(p) : \"memory\"); return word; "
     "}\n"},
    {"send_word(",
     "static __device__ __forceinline__ void send_word(unsigned long long* p, unsigned row, unsigned number) { asm "
     "volatile(\"st.relaxed.gpu.global.u64 [%0], %1;\" : : \"l\"(p), \"l\"((unsigned long long)row << 32 | number) : "
     "\"memory\"); }\n"},
    {"copy_async<",  // zeros where the source is not inside
     "template <int bytes> static __device__ __forceinline__ void copy_async(void* to, const void* from, bool "
     "is_inside) { const unsigned place = (unsigned)__cvta_generic_to_shared(to); "
     "if (bytes == 16) asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" : : \"r\"(place), \"l\"(from), "
     "\"r\"(is_inside ? 16 : 0) : \"memory\"); "
     "else asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" : : \"r\"(place), \"l\"(from), \"n\"(bytes), "
     "\"r\"(is_inside ? bytes : 0) : \"memory\"); }\n"},
    {"copy_async_commit(",
     "static __device__ __forceinline__ void copy_async_commit() { asm volatile(\"cp.async.commit_group;\" : : : "
     "\"memory\"); }\n"},
    {"copy_async_wait<",
     "template <int pending> static __device__ __forceinline__ void copy_async_wait() { asm "
     "volatile(\"cp.async.wait_group %0;\" : : \"n\"(pending) : \"memory\"); }\n"},
    // of 8 rows of 4 floats: lane i gives row i % 8 of matrix i / 8, and gets element i % 4 of row i / 4 of each
    {"read_matrices(",
     "static __device__ __forceinline__ void read_matrices(float (&r)[4], const float* row) { unsigned a, b, c, d; "
     "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(a), \"=r\"(b), "
     "\"=r\"(c), \"=r\"(d) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\"); "
     "r[0] = __uint_as_float(a), r[1] = __uint_as_float(b), r[2] = __uint_as_float(c), r[3] = __uint_as_float(d); }\n"},
    {"mma_tf32(",
     "static __device__ __forceinline__ void mma_tf32(float (&c)[4], const float (&a)[4], const float (&b)[2]) { "
     "asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
     "{%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) "
     ": \"r\"(__float_as_uint(a[0])), \"r\"(__float_as_uint(a[1])), \"r\"(__float_as_uint(a[2])), "
     "\"r\"(__float_as_uint(a[3])), \"r\"(__float_as_uint(b[0])), \"r\"(__float_as_uint(b[1]))); }\n"},
};
// f16 and bf16 in memory. A bf16 is the upper half of a float; NaN stays NaN.
inline constexpr std::string_view half_text =
    "static __device__ __forceinline__ float half_to_float(unsigned short bits) { float x; asm(\"cvt.f32.f16 %0, %1;\" "
    ": "
    "\"=f\"(x) : \"h\"(bits)); return x; }\n"
    "static __device__ __forceinline__ unsigned short float_to_half(float x) { unsigned short bits; "
    "asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x)); return bits; }\n"
    "struct Half {\n  unsigned short bits;\n"
    "  __device__ __forceinline__ operator float() const { return half_to_float(bits); }\n"
    "  __device__ __forceinline__ Half& operator=(float x) { bits = float_to_half(x); return *this; }\n};\n";
inline constexpr std::string_view brain_text =
    "struct Brain {\n  unsigned short bits;\n"
    "  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }\n"
    "  __device__ __forceinline__ Brain& operator=(float x) {\n    const unsigned all = __float_as_uint(x);\n"
    "    bits = (unsigned short)(x != x ? all >> 16 | 0x40u : (all + 0x7fffu + (all >> 16 & 1u)) >> 16);\n"
    "    return *this;\n  }\n};\n";
// One instruction. NaN has no other bits than its own there.
inline constexpr std::string_view brain_sm80_text =
    "static __device__ __forceinline__ unsigned short float_to_brain(float x) { unsigned short bits; "
    "asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x)); return bits; }\n"
    "struct Brain {\n  unsigned short bits;\n"
    "  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }\n"
    "  __device__ __forceinline__ Brain& operator=(float x) { bits = float_to_brain(x); return *this; }\n};\n";
// Other floats of 8 and 16 bits in memory: as small_float in tensor/half.hpp.
inline constexpr std::string_view small_text =
    "template <class Bits, int exponent, int fraction, bool has_infinity> struct Small {\n"
    "  Bits bits;\n"
    "  static constexpr int place = exponent + fraction, dropped = 23 - fraction, bias = (1 << (exponent - 1)) - 1;\n"
    "  static constexpr unsigned all = (1u << place) - 1u, odd = has_infinity ? all - (1u << fraction) + 1u : all;\n"
    "  static constexpr unsigned most = has_infinity ? odd : all - 1u, shift = 127 - bias;\n"
    "  __device__ __forceinline__ operator float() const {\n"
    "    const unsigned sign = (unsigned)bits >> place << 31, size = bits & all;\n"
    "    const float x = __uint_as_float(size << dropped) * __uint_as_float((127u + shift) << 23);\n"
    "    return __uint_as_float(sign | (size >= odd ? 0x7f800000u | size << dropped : __float_as_uint(x)));\n  }\n"
    "  __device__ __forceinline__ Small& operator=(float x) {\n"
    "    const unsigned a = __float_as_uint(x), size = a & 0x7fffffffu;\n"
    "    const float offset = __uint_as_float((unsigned)(151 - bias - fraction) << 23);\n"
    "    unsigned r = (size + ((1u << (dropped - 1)) - 1u) + (size >> dropped & 1u) - (shift << 23)) >> dropped;\n"
    "    if (r > most) r = most;\n"
    "    if (size < (shift + 1u) << 23) r = __float_as_uint(__uint_as_float(size) + offset) - "
    "__float_as_uint(offset);\n"
    "    if (size > 0x7f800000u) r = all;\n"
    "    bits = (Bits)(a >> 31 << place | r);\n    return *this;\n  }\n};\n";
// To nearest: ties away from zero, or (sm_90 has an instruction) to even.
inline constexpr std::string_view to_tf32_sm80_text =
    "static __device__ __forceinline__ float to_tf32(float x) { unsigned bits; asm(\"cvt.rna.tf32.f32 %0, %1;\" : "
    "\"=r\"(bits) : \"f\"(x)); return __uint_as_float(bits); }\n";
inline constexpr std::string_view to_tf32_sm90_text =
    "static __device__ __forceinline__ float to_tf32(float x) { unsigned bits; asm(\"cvt.rn.tf32.f32 %0, %1;\" : "
    "\"=r\"(bits) : \"f\"(x)); return __uint_as_float(bits); }\n";
inline constexpr std::string_view read_two_text =
    "static __device__ __forceinline__ void read_matrices(float (&r)[2], float (&s)[2], const float* row) {\n"
    "  float both[4];\n  read_matrices(both, row);\n  r[0] = both[0], r[1] = both[1], s[0] = both[2], s[1] = "
    "both[3];\n}\n";
// The greatest finite number that tensor cores have, where rounding would leave the range. An infinity is 1 and
// infinity: no product of a finite number with it is infinity times zero, none has another sign.
inline constexpr std::string_view split_tf32_text =
    "static __device__ __forceinline__ void split_tf32(float x, float& most, float& rest) {\n"
    "  const float limit = 3.40116213e+38f, unit = __uint_as_float((__float_as_uint(x) & 0x80000000u) | 0x3f800000u);\n"
    "  const float rounded = fabsf(x) <= 3.402823466e+38f ? to_tf32(fminf(fmaxf(x, -limit), limit)) : unit;\n"
    "  rest = to_tf32(x - rounded), most = rounded;\n}\n";
// The shapes of sm_80 and sm_90; the fragments of the small one are parts of those of the large one.
inline constexpr std::string_view mma_f64_sm80_text =
    "static __device__ __forceinline__ void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) { "
    "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\" : \"+d\"(c[0]), "
    "\"+d\"(c[1]) : \"d\"(a[0]), \"d\"(b[0])); "
    "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\" : \"+d\"(c[2]), "
    "\"+d\"(c[3]) : \"d\"(a[1]), \"d\"(b[0])); "
    "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\" : \"+d\"(c[0]), "
    "\"+d\"(c[1]) : \"d\"(a[2]), \"d\"(b[1])); "
    "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\" : \"+d\"(c[2]), "
    "\"+d\"(c[3]) : \"d\"(a[3]), \"d\"(b[1])); }\n";
inline constexpr std::string_view mma_f64_sm90_text =
    "static __device__ __forceinline__ void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) { "
    "asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};\" : \"+d\"(c[0]), \"+d\"(c[1]), \"+d\"(c[2]), \"+d\"(c[3]) "
    ": \"d\"(a[0]), \"d\"(a[1]), \"d\"(a[2]), \"d\"(a[3]), \"d\"(b[0]), \"d\"(b[1])); }\n";

// NaN wins, and -0 is less than +0.
inline constexpr std::string_view has_sign_text =
    "template <class T> static __device__ __forceinline__ bool has_sign(T) { return false; }\n"
    "static __device__ __forceinline__ bool has_sign(float a) { return copysignf(1.0f, a) < 0; }\n"
    "static __device__ __forceinline__ bool has_sign(double a) { return copysign(1.0, a) < 0; }\n";
inline constexpr std::string_view lesser_text =
    "template <class T> static __device__ __forceinline__ T lesser(T a, T b) { return a < b || a != a || (a == b && "
    "has_sign(a)) ? a : b; }\n";
inline constexpr std::string_view greater_text =
    "template <class T> static __device__ __forceinline__ T greater(T a, T b) { return a > b || a != a || (a == b && "
    "has_sign(b)) ? a : b; }\n";
// One instruction for f32, with the same rules.
inline constexpr std::string_view lesser_f32_text =
    "template <> __device__ __forceinline__ float lesser(float a, float b) { float r; asm(\"min.NaN.f32 %0, %1, %2;\" "
    ": \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n";
inline constexpr std::string_view greater_f32_text =
    "template <> __device__ __forceinline__ float greater(float a, float b) { float r; asm(\"max.NaN.f32 %0, %1, %2;\" "
    ": \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n";

SINTER_DECL std::string helpers(const std::string& text, int sm) {
  std::string found;
  const auto uses = [&](std::string_view called) { return text.find(called) != std::string::npos; };
  if (uses("Half")) found += half_text;
  if (uses("Brain")) found += sm >= 80 ? brain_sm80_text : brain_text;
  if (uses("Small<")) found += small_text;
  for (const Helper& helper : helper_table)
    if (uses(helper.called)) found += helper.text;
  for (const Helper& helper : machine_table)
    if (uses(helper.called)) found += helper.text;
  if (uses("to_tf32(") || uses("split_tf32(")) found += sm >= 90 ? to_tf32_sm90_text : to_tf32_sm80_text;
  if (uses("read_matrices(right")) found += read_two_text;
  if (uses("split_tf32(")) found += split_tf32_text;
  if (uses("mma_f64(")) found += sm >= 90 ? mma_f64_sm90_text : mma_f64_sm80_text;
  const bool needs_slope = uses("gelu_slope_of("), needs_gelu = uses("gelu_of("), is_rounded = uses("rounded_gelu(");
  if (needs_slope || needs_gelu || uses("gauss_of(")) found += gauss_text;
  if (needs_slope || needs_gelu || is_rounded) found += about_reciprocal_text;
  if (needs_slope || needs_gelu) found += plain_quotient_text, found += normal_tail_text;
  if (needs_gelu) found += gelu_text;
  if (needs_slope) found += gelu_slope_text;
  if (is_rounded) found += rounded_gelu_text;
  if (uses("lesser<") || uses("greater<")) found += has_sign_text;
  if (uses("lesser<")) found += lesser_text;
  if (uses("lesser<float>") && sm >= 80) found += lesser_f32_text;
  if (uses("greater<")) found += greater_text;
  if (uses("greater<float>") && sm >= 80) found += greater_f32_text;
  return found;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
