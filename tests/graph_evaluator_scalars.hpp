// The scalar half of the test oracle: dense arrays of long double, and what each primitive means, written anew.
#pragma once

#include <sinter/ops/philox.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace oracle {

using Number = long double;
using Extents = std::vector<std::int64_t>;

/// A dense row-major value.
struct Array {
  sinter::DType dtype = sinter::DType::f64;
  Extents extents;
  std::vector<Number> data;

  std::int64_t size() const {
    std::int64_t count = 1;
    for (std::int64_t extent : extents) count *= extent;
    return count;
  }
  static Array zeros(sinter::DType dtype, Extents extents) {
    Array out{dtype, std::move(extents), {}};
    out.data.assign(static_cast<std::size_t>(out.size()), 0);
    return out;
  }
};

inline std::size_t flat_index(const Extents& extents, const Extents& index) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) flat = flat * extents[i] + index[i];
  return static_cast<std::size_t>(flat);
}

/// Calls `visit(index)` for each index in row-major order.
template <class F>
void for_each_index(const Extents& extents, F&& visit) {
  for (std::int64_t extent : extents)
    if (extent == 0) return;
  Extents index(extents.size(), 0);
  while (true) {
    visit(static_cast<const Extents&>(index));
    std::size_t axis = extents.size();
    while (axis > 0 && ++index[axis - 1] == extents[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

/// The element of `x` that broadcasting puts at `index` of a result.
inline Number broadcast_element(const Array& x, const Extents& index) {
  Extents own(x.extents.size());
  const std::size_t added = index.size() - own.size();
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = x.extents[i] == 1 ? 0 : index[i + added];
  return x.data[flat_index(x.extents, own)];
}

// Scalar primitives

inline Number wrapped(std::uint64_t bits, sinter::DType dtype) {
  if (dtype == sinter::DType::bool_) return bits != 0;
  return dtype == sinter::DType::i32 ? static_cast<Number>(static_cast<std::int32_t>(bits))
                                     : static_cast<Number>(static_cast<std::int64_t>(bits));
}

inline Number integer_primitive(sinter::Prim prim, sinter::DType dtype, std::int64_t a, std::int64_t b) {
  using sinter::Prim;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  const bool is_bool = dtype == sinter::DType::bool_;
  switch (prim) {
    case Prim::neg: return wrapped(0 - ua, dtype);
    case Prim::abs: return wrapped(a < 0 ? 0 - ua : ua, dtype);
    case Prim::add: return wrapped(ua + ub, dtype);
    case Prim::sub: return wrapped(ua - ub, dtype);
    case Prim::mul: return wrapped(ua * ub, dtype);
    case Prim::div:
      return b == 0 ? 0 : b == -1 ? wrapped(0 - ua, dtype) : wrapped(static_cast<std::uint64_t>(a / b), dtype);
    case Prim::rem: {
      if (b == 0 || b == -1) return 0;
      const std::int64_t r = a % b;
      return wrapped(static_cast<std::uint64_t>(r != 0 && (r < 0) != (b < 0) ? r + b : r), dtype);
    }
    case Prim::min: return static_cast<Number>(std::min(a, b));
    case Prim::max: return static_cast<Number>(std::max(a, b));
    case Prim::and_: return wrapped(ua & ub, dtype);
    case Prim::or_: return wrapped(ua | ub, dtype);
    case Prim::xor_: return wrapped(ua ^ ub, dtype);
    case Prim::not_: return is_bool ? static_cast<Number>(a == 0) : wrapped(~ua, dtype);
    case Prim::shift_left: {
      const std::int64_t bits = dtype == sinter::DType::i32 ? 32 : 64;
      return b < 0 || b >= bits ? 0 : wrapped(ua << b, dtype);
    }
    case Prim::shift_right: {
      const std::int64_t most = dtype == sinter::DType::i32 ? 31 : 63;
      return static_cast<Number>(a >> (b < 0 || b > most ? most : b));
    }
    default: throw std::logic_error("oracle: no such integer primitive: " + std::string(sinter::name(prim)));
  }
}

inline Number floating_primitive(sinter::Prim prim, Number a, Number b) {
  using sinter::Prim;
  const Number nan = std::numeric_limits<Number>::quiet_NaN();
  const bool has_nan = std::isnan(a) || std::isnan(b);
  switch (prim) {
    case Prim::neg: return -a;
    case Prim::abs: return std::fabs(a);
    case Prim::add: return a + b;
    case Prim::sub: return a - b;
    case Prim::mul: return a * b;
    case Prim::div: return a / b;
    case Prim::rem: return a - b * std::floor(a / b);
    case Prim::min: return has_nan ? nan : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
    case Prim::max: return has_nan ? nan : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
    case Prim::floor: return std::floor(a);
    case Prim::ceil: return std::ceil(a);
    case Prim::round: return std::nearbyint(a);
    case Prim::trunc: return std::trunc(a);
    case Prim::sqrt: return std::sqrt(a);
    case Prim::rsqrt: return 1 / std::sqrt(a);
    case Prim::exp: return std::exp(a);
    case Prim::log: return std::log(a);
    case Prim::sin: return std::sin(a);
    case Prim::cos: return std::cos(a);
    case Prim::tanh: return std::tanh(a);
    case Prim::erf: return std::erf(a);
    case Prim::gelu: return a * std::erfc(-a / std::numbers::sqrt2_v<Number>) / 2;
    case Prim::gelu_slope:
      return std::erfc(-a / std::numbers::sqrt2_v<Number>) / 2 +
             a * std::exp(-a * a / 2) * std::numbers::inv_sqrtpi_v<Number> / std::numbers::sqrt2_v<Number>;
    case Prim::gauss: return std::exp(-a * a / 2);
    case Prim::pow: return std::pow(a, b);
    default: throw std::logic_error("oracle: no such floating primitive: " + std::string(sinter::name(prim)));
  }
}

inline Number converted(Number x, sinter::DType to) {
  if (sinter::is_floating(to)) return x;
  if (to == sinter::DType::bool_) return x != 0;
  if (std::isnan(x)) return 0;
  const Number low = to == sinter::DType::i32 ? -2147483648.0L : -9223372036854775808.0L;
  const Number high = to == sinter::DType::i32 ? 2147483647.0L : 9223372036854775807.0L;
  return std::clamp(std::trunc(x), low, high);
}

inline Number bitcast(Number x, sinter::DType from, sinter::DType to) {
  using sinter::DType;
  if (from == DType::f32) return static_cast<Number>(std::bit_cast<std::int32_t>(static_cast<float>(x)));
  if (from == DType::f64) return static_cast<Number>(std::bit_cast<std::int64_t>(static_cast<double>(x)));
  if (to == DType::f32) return static_cast<Number>(std::bit_cast<float>(static_cast<std::int32_t>(x)));
  return static_cast<Number>(std::bit_cast<double>(static_cast<std::int64_t>(x)));
}

/// How comparisons see two floating values that differ by rounding alone. Equal ones are equal in each way.
enum class NearTies : std::uint8_t { as_they_are, equal, the_other_way };
inline NearTies& near_ties() {
  static thread_local NearTies ties = NearTies::as_they_are;
  return ties;
}
inline bool is_near_tie(Number a, Number b, sinter::DType dtype) {
  const Number rounding = dtype == sinter::DType::f32 ? 1e-5L : 1e-13L;
  return a != b && std::fabs(a - b) <= rounding * (1 + std::max(std::fabs(a), std::fabs(b)));
}
inline Number compared(sinter::Prim prim, Number a, Number b, sinter::DType dtype) {
  using sinter::Prim;
  if (near_ties() != NearTies::as_they_are && sinter::is_floating(dtype) && is_near_tie(a, b, dtype)) {
    if (near_ties() == NearTies::equal) b = a;
    else std::swap(a, b);
  }
  switch (prim) {
    case Prim::eq: return a == b;
    case Prim::ne: return a != b;
    case Prim::lt: return a < b;
    default: return a <= b;
  }
}

/// The value of one instruction, given those before it.
inline Number run_instruction(const sinter::Inst& inst, const std::vector<sinter::Inst>& body,
                              const std::vector<Number>& values, const std::vector<Number>& operands) {
  using sinter::Prim;
  auto arg = [&](std::size_t k) { return values[inst.args[k]]; };
  switch (inst.prim) {
    case Prim::immediate:
      return sinter::is_floating(inst.dtype) ? static_cast<Number>(inst.number()) : static_cast<Number>(inst.integer());
    case Prim::load: return operands[inst.access];
    case Prim::fma: return arg(0) * arg(1) + arg(2);
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le: return compared(inst.prim, arg(0), arg(1), body[inst.args[0]].dtype);
    case Prim::select: return arg(0) != 0 ? arg(1) : arg(2);
    case Prim::convert: return converted(arg(0), inst.dtype);
    case Prim::bitcast: return bitcast(arg(0), body[inst.args[0]].dtype, inst.dtype);
    default: break;
  }
  const Number a = arg(0), b = sinter::arity(inst.prim) > 1 ? arg(1) : 0;
  if (sinter::is_floating(body[inst.args[0]].dtype)) return floating_primitive(inst.prim, a, b);
  return integer_primitive(inst.prim, inst.dtype, static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
}

}  // namespace oracle
