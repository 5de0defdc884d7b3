// What each scalar primitive computes, over plain arrays: the meaning that back ends are tested against. Results are
// defined for every input: integers wrap, integer division by zero gives 0, conversion to an integer saturates and
// takes NaN to 0, arithmetic on bool is done in integers and normalised. long double is no element type, but has the
// floating primitives too, for those who compute more precisely than the dtype. Knows nothing of kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/philox.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace scalar_meaning {

/// Elements in buffers: bool_ is a byte that holds 0 or 1.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
template <class T>
concept Floating = std::is_floating_point_v<T>;
template <class T>
concept Whole = std::is_integral_v<T>;

template <Whole T>
T narrow(std::uint64_t wide) {
  if constexpr (std::is_same_v<T, std::uint8_t>) return wide != 0;
  else return static_cast<T>(wide);
}
template <Whole T>
std::uint64_t widen(T x) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
}

// clang-format off
struct Neg {
  template <class T> T operator()(T a) const {
    if constexpr (Floating<T>) return -a;
    else return narrow<T>(0 - widen(a));
  }
};
struct Abs {
  template <class T> T operator()(T a) const {
    if constexpr (Floating<T>) return std::fabs(a);
    else return a < 0 ? narrow<T>(0 - widen(a)) : a;
  }
};
struct Add {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return a + b;
    else return narrow<T>(widen(a) + widen(b));
  }
};
struct Sub {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return a - b;
    else return narrow<T>(widen(a) - widen(b));
  }
};
struct Mul {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return a * b;
    else return narrow<T>(widen(a) * widen(b));
  }
};
struct Div {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return a / b;
    else if (b == 0) return 0;
    else if (b == static_cast<T>(-1)) return narrow<T>(0 - widen(a));   // the quotient of the lowest number wraps
    else return narrow<T>(widen(static_cast<T>(a / b)));
  }
};
struct Rem {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return remainder(a, b);
    else {
      if (b == 0 || b == static_cast<T>(-1)) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    }
  }
};
struct Min {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return minimum(a, b);
    else return a < b ? a : b;
  }
};
struct Max {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return maximum(a, b);
    else return a > b ? a : b;
  }
};
/// `old` as it is after a value was stored there.
template <class T> T combined(Combine combine, T old, T value) {
  switch (combine) {
    case Combine::none: return value;
    case Combine::add: return Add{}(old, value);
    case Combine::mul: return Mul{}(old, value);
    case Combine::min: return Min{}(old, value);
    case Combine::max: return Max{}(old, value);
  }
  __builtin_unreachable();
}
struct Pow {
  template <class T> T operator()(T a, T b) const {
    if constexpr (Floating<T>) return std::pow(a, b);
    else return integer_power(a, b);
  }
  /// Wraps; a negative exponent gives the truncated quotient (0 but for bases 1 and -1).
  template <Whole T> static T integer_power(T base, T exponent) {
    if (exponent < 0 && base == static_cast<T>(-1)) return exponent % 2 != 0 ? base : T(1);
    if (exponent < 0) return base == 1 ? T(1) : T(0);
    std::uint64_t result = 1, square = widen(base);
    for (std::uint64_t left = widen(exponent); left != 0; left >>= 1, square *= square)
      if (left & 1) result *= square;
    return narrow<T>(result);
  }
};
struct And { template <Whole T> T operator()(T a, T b) const { return a & b; } };
struct Or { template <Whole T> T operator()(T a, T b) const { return a | b; } };
struct Xor { template <Whole T> T operator()(T a, T b) const { return a ^ b; } };
struct Not {
  template <Whole T> T operator()(T a) const {
    if constexpr (std::is_same_v<T, std::uint8_t>) return a == 0;
    else return ~a;
  }
};
struct ShiftLeft { template <Whole T> T operator()(T a, T b) const { return shifted_left(a, b); } };
struct ShiftRight { template <Whole T> T operator()(T a, T b) const { return shifted_right(a, b); } };
struct Eq { template <class T> std::uint8_t operator()(T a, T b) const { return a == b; } };
struct Ne { template <class T> std::uint8_t operator()(T a, T b) const { return a != b; } };
struct Lt { template <class T> std::uint8_t operator()(T a, T b) const { return a < b; } };
struct Le { template <class T> std::uint8_t operator()(T a, T b) const { return a <= b; } };
struct Fma {
  template <class T> T operator()(T a, T b, T c) const {
    if constexpr (Floating<T>) return std::fma(a, b, c);
    else return narrow<T>(widen(a) * widen(b) + widen(c));
  }
};
struct Floor { template <Floating T> T operator()(T a) const { return std::floor(a); } };
struct Ceil { template <Floating T> T operator()(T a) const { return std::ceil(a); } };
// plans run in round-to-nearest
struct Round { template <Floating T> T operator()(T a) const { return std::nearbyint(a); } };
struct Trunc { template <Floating T> T operator()(T a) const { return std::trunc(a); } };
struct Sqrt { template <Floating T> T operator()(T a) const { return std::sqrt(a); } };
struct Rsqrt {
  template <Floating T> T operator()(T a) const {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    return static_cast<T>(1 / std::sqrt(static_cast<Wide>(a)));
  }
};
struct Exp { template <Floating T> T operator()(T a) const { return std::exp(a); } };
struct Log { template <Floating T> T operator()(T a) const { return std::log(a); } };
struct Sin { template <Floating T> T operator()(T a) const { return std::sin(a); } };
struct Cos { template <Floating T> T operator()(T a) const { return std::cos(a); } };
struct Tanh { template <Floating T> T operator()(T a) const { return std::tanh(a); } };
struct Erf { template <Floating T> T operator()(T a) const { return std::erf(a); } };
struct Gelu { template <Floating T> T operator()(T a) const { return gelu(a); } };
struct GeluSlope { template <Floating T> T operator()(T a) const { return gelu_slope(a); } };
struct Gauss { template <Floating T> T operator()(T a) const { return gauss(a); } };
struct Same { template <class T> T operator()(T a) const { return a; } };

// clang-format on

/// Prim::convert.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, std::uint8_t>) return x != 0;
  else if constexpr (Floating<From> && Whole<To>) return saturated<To>(x);
  else if constexpr (Whole<From> && Whole<To>) return static_cast<To>(widen(x));
  else return static_cast<To>(x);
}

// ---- over arrays --------------------------------------------------------------------------------------------------

/// Computes `count` results from arrays of operands.
using VectorFunction = void (*)(void* out, const void* const* in, std::int64_t count);

template <class F, class T>
void map_1(void* out, const void* const* in, std::int64_t count) {
  using R = decltype(F{}(T{}));
  auto* y = static_cast<R*>(out);
  auto* a = static_cast<const T*>(in[0]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = F{}(a[i]);
}
template <class F, class T>
void map_2(void* out, const void* const* in, std::int64_t count) {
  using R = decltype(F{}(T{}, T{}));
  auto* y = static_cast<R*>(out);
  auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = F{}(a[i], b[i]);
}
template <class T>
void map_fma(void* out, const void* const* in, std::int64_t count) {
  auto* y = static_cast<T*>(out);
  auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]), *c = static_cast<const T*>(in[2]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = Fma{}(a[i], b[i], c[i]);
}
template <class T>
void map_select(void* out, const void* const* in, std::int64_t count) {
  auto* y = static_cast<T*>(out);
  auto* condition = static_cast<const std::uint8_t*>(in[0]);
  auto *a = static_cast<const T*>(in[1]), *b = static_cast<const T*>(in[2]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = condition[i] ? a[i] : b[i];
}
template <class To, class From>
void map_convert(void* out, const void* const* in, std::int64_t count) {
  auto* y = static_cast<To*>(out);
  auto* a = static_cast<const From*>(in[0]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = convert<To>(a[i]);
}
/// Prim::bitcast between element types; a cell that holds more than its element is rounded first, or filled from it.
template <class To, class From, class ToCell = To, class FromCell = From>
void map_bitcast(void* out, const void* const* in, std::int64_t count) {
  auto* y = static_cast<ToCell*>(out);
  auto* a = static_cast<const FromCell*>(in[0]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = std::bit_cast<To>(static_cast<From>(a[i]));
}
inline void map_random_bits(void* out, const void* const* in, std::int64_t count) {
  auto* y = static_cast<std::int64_t*>(out);
  auto *key = static_cast<const std::int64_t*>(in[0]), *counter = static_cast<const std::int64_t*>(in[1]);
  auto* element = static_cast<const std::int64_t*>(in[2]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = philox_bits(key[i], counter[i], element[i]);
}

/// A primitive on operands of type T; null where it has no meaning for them, or is no map.
template <class T>
VectorFunction map_of(Prim prim) {
  constexpr bool floating = Floating<T>;
  // The two halves of the table differ in what compiles for T.
  const auto floats_1 = [&]<class F>(F) -> VectorFunction {
    if constexpr (floating) return map_1<F, T>;
    else return nullptr;
  };
  const auto rounds_1 = [&]<class F>(F) -> VectorFunction {
    if constexpr (floating) return map_1<F, T>;
    else return map_1<Same, T>;
  };
  const auto bits_2 = [&]<class F>(F) -> VectorFunction {
    if constexpr (floating) return nullptr;
    else return map_2<F, T>;
  };
  // clang-format off
  switch (prim) {
    case Prim::neg: return map_1<Neg, T>;
    case Prim::abs: return map_1<Abs, T>;
    case Prim::add: return map_2<Add, T>;
    case Prim::sub: return map_2<Sub, T>;
    case Prim::mul: return map_2<Mul, T>;
    case Prim::div: return map_2<Div, T>;
    case Prim::rem: return map_2<Rem, T>;
    case Prim::fma: return map_fma<T>;
    case Prim::min: return map_2<Min, T>;
    case Prim::max: return map_2<Max, T>;
    case Prim::eq: return map_2<Eq, T>;
    case Prim::ne: return map_2<Ne, T>;
    case Prim::lt: return map_2<Lt, T>;
    case Prim::le: return map_2<Le, T>;
    case Prim::and_: return bits_2(And{});
    case Prim::or_: return bits_2(Or{});
    case Prim::xor_: return bits_2(Xor{});
    case Prim::not_: if constexpr (floating) return nullptr; else return map_1<Not, T>;
    case Prim::shift_left: return bits_2(ShiftLeft{});
    case Prim::shift_right: return bits_2(ShiftRight{});
    case Prim::floor: return rounds_1(Floor{});
    case Prim::ceil: return rounds_1(Ceil{});
    case Prim::round: return rounds_1(Round{});
    case Prim::trunc: return rounds_1(Trunc{});
    case Prim::sqrt: return floats_1(Sqrt{});
    case Prim::rsqrt: return floats_1(Rsqrt{});
    case Prim::exp: return floats_1(Exp{});
    case Prim::log: return floats_1(Log{});
    case Prim::sin: return floats_1(Sin{});
    case Prim::cos: return floats_1(Cos{});
    case Prim::tanh: return floats_1(Tanh{});
    case Prim::erf: return floats_1(Erf{});
    case Prim::gelu: return floats_1(Gelu{});
    case Prim::gelu_slope: return floats_1(GeluSlope{});
    case Prim::gauss: return floats_1(Gauss{});
    case Prim::pow: return map_2<Pow, T>;
    case Prim::random_bits: if constexpr (std::is_same_v<T, std::int64_t>) return map_random_bits; else return nullptr;
    case Prim::select: return map_select<T>;   // T: the dtype of the two choices
    case Prim::convert: case Prim::bitcast: case Prim::immediate: case Prim::load: case Prim::gather:
    case Prim::guarded_load: case Prim::index: case Prim::argument: case Prim::reduce_add: case Prim::reduce_mul:
    case Prim::reduce_min: case Prim::reduce_max: case Prim::fold: case Prim::contract:
    case Prim::scan_add: case Prim::scan_mul: case Prim::scan_min: case Prim::scan_max:
      return nullptr;
  }
  // clang-format on
  __builtin_unreachable();
}

}  // namespace scalar_meaning
SINTER_NAMESPACE_END
