// The primitives on single numbers. Functions that are not exactly rounded are computed in double and rounded once.
#pragma once

#include <sinter/ops/scalar_meaning.hpp>
#include <sinter/ops/scalar_op.hpp>
#include <sinter/passes/evaluate.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {

/// As kernels hold it: an f16 or a bf16 has f32's digits.
inline Literal real_literal(DType dtype, double value) {
  return {dtype, tensor_detail::rounded(value, computed_in(dtype)), 0};
}
/// Wraps to the width of the dtype; bool is 0 or 1.
inline Literal integer_literal(DType dtype, std::uint64_t bits) {
  return {dtype, 0, tensor_detail::wrapped(static_cast<std::int64_t>(bits), dtype)};
}

/// a + b and the like in the operands' own width: adding two f32 in double and rounding gives the f32 sum (the double
/// has more than twice the digits), as it does for sub, mul, div and sqrt.
inline std::optional<Literal> evaluate_real(Prim prim, DType dtype, double a, double b, double c) {
  auto truth = [](bool holds) { return Literal{DType::bool_, 0, holds}; };
  auto real = [dtype](double value) { return real_literal(dtype, value); };
  auto of_dtype = [dtype, a](auto function) -> double {
    return dtype == DType::f32 ? function(static_cast<float>(a)) : function(a);
  };
  switch (prim) {
    case Prim::neg: return real(-a);
    case Prim::abs: return real(std::fabs(a));
    case Prim::add: return real(a + b);
    case Prim::sub: return real(a - b);
    case Prim::mul: return real(a * b);
    case Prim::div: return real(a / b);
    case Prim::rem:
      if (dtype == DType::f32) return real(scalar_meaning::remainder(static_cast<float>(a), static_cast<float>(b)));
      return real(scalar_meaning::remainder(a, b));
    case Prim::fma:
      if (dtype == DType::f32)
        return real(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
      return real(std::fma(a, b, c));
    case Prim::min: return real(scalar_meaning::minimum(a, b));
    case Prim::max: return real(scalar_meaning::maximum(a, b));
    case Prim::eq: return truth(a == b);
    case Prim::ne: return truth(a != b);
    case Prim::lt: return truth(a < b);
    case Prim::le: return truth(a <= b);
    case Prim::floor: return real(std::floor(a));
    case Prim::ceil: return real(std::ceil(a));
    case Prim::round: return real(std::nearbyint(a));
    case Prim::trunc: return real(std::trunc(a));
    case Prim::sqrt: return real(std::sqrt(a));
    case Prim::rsqrt: return real(1 / std::sqrt(a));
    case Prim::exp: return real(std::exp(a));
    case Prim::log: return real(std::log(a));
    case Prim::sin: return real(std::sin(a));
    case Prim::cos: return real(std::cos(a));
    case Prim::tanh: return real(std::tanh(a));
    case Prim::erf: return real(std::erf(a));
    case Prim::gelu: return real(of_dtype([](auto x) { return scalar_meaning::gelu(x); }));
    case Prim::gelu_slope: return real(of_dtype([](auto x) { return scalar_meaning::gelu_slope(x); }));
    case Prim::gauss: return real(of_dtype([](auto x) { return scalar_meaning::gauss(x); }));
    case Prim::pow: return real(std::pow(a, b));
    case Prim::and_:
    case Prim::or_:
    case Prim::xor_:
    case Prim::not_:
    case Prim::shift_left:
    case Prim::shift_right:
    case Prim::bitcast:
    case Prim::immediate:
    case Prim::load:
    case Prim::gather:
    case Prim::guarded_load:
    case Prim::index:
    case Prim::argument:
    case Prim::select:
    case Prim::convert:
    case Prim::random_bits:
    case Prim::reduce_add:
    case Prim::reduce_mul:
    case Prim::reduce_min:
    case Prim::reduce_max:
    case Prim::fold:
    case Prim::contract:
    case Prim::scan_add:
    case Prim::scan_mul:
    case Prim::scan_min:
    case Prim::scan_max: return std::nullopt;
  }
  __builtin_unreachable();
}

inline std::optional<Literal> evaluate_integer_quotient(Prim prim, DType dtype, std::int64_t a, std::int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1)
    return integer_literal(dtype,
                           prim == Prim::div ? 0 - static_cast<std::uint64_t>(a) : 0);  // the lowest number wraps
  if (prim == Prim::div) return integer_literal(dtype, static_cast<std::uint64_t>(a / b));
  const std::int64_t r = a % b;
  return integer_literal(dtype, static_cast<std::uint64_t>(r != 0 && (r < 0) != (b < 0) ? r + b : r));
}

inline std::optional<Literal> evaluate_integer_power(DType dtype, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (auto left = static_cast<std::uint64_t>(exponent); left != 0; left >>= 1, square *= square)
    if (left & 1) result *= square;
  return integer_literal(dtype, result);
}

inline std::optional<Literal> evaluate_integer(Prim prim, DType dtype, std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  auto truth = [](bool holds) { return Literal{DType::bool_, 0, holds}; };
  auto whole = [dtype](std::uint64_t bits) { return integer_literal(dtype, bits); };
  switch (prim) {
    case Prim::neg: return whole(0 - ua);
    case Prim::abs: return whole(a < 0 ? 0 - ua : ua);
    case Prim::add: return whole(ua + ub);
    case Prim::sub: return whole(ua - ub);
    case Prim::mul: return whole(ua * ub);
    case Prim::div:
    case Prim::rem: return evaluate_integer_quotient(prim, dtype, a, b);
    case Prim::fma: return whole(ua * ub + static_cast<std::uint64_t>(c));
    case Prim::min: return whole(a < b ? ua : ub);
    case Prim::max: return whole(a > b ? ua : ub);
    case Prim::eq: return truth(a == b);
    case Prim::ne: return truth(a != b);
    case Prim::lt: return truth(a < b);
    case Prim::le: return truth(a <= b);
    case Prim::and_: return whole(ua & ub);
    case Prim::or_: return whole(ua | ub);
    case Prim::xor_: return whole(ua ^ ub);
    case Prim::not_: return whole(dtype == DType::bool_ ? a == 0 : ~ua);
    case Prim::shift_left:
      return whole(static_cast<std::uint64_t>(
          dtype == DType::i32 ? scalar_meaning::shifted_left(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b))
                              : scalar_meaning::shifted_left(a, b)));
    case Prim::shift_right:
      return whole(static_cast<std::uint64_t>(
          dtype == DType::i32
              ? scalar_meaning::shifted_right(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b))
              : scalar_meaning::shifted_right(a, b)));
    case Prim::pow: return evaluate_integer_power(dtype, a, b);
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
    case Prim::sqrt:
    case Prim::rsqrt:
    case Prim::exp:
    case Prim::log:
    case Prim::sin:
    case Prim::cos:
    case Prim::tanh:
    case Prim::erf:
    case Prim::gelu:
    case Prim::gelu_slope:
    case Prim::gauss:
    case Prim::bitcast:
    case Prim::immediate:
    case Prim::load:
    case Prim::gather:
    case Prim::guarded_load:
    case Prim::index:
    case Prim::argument:
    case Prim::select:
    case Prim::convert:
    case Prim::random_bits:
    case Prim::reduce_add:
    case Prim::reduce_mul:
    case Prim::reduce_min:
    case Prim::reduce_max:
    case Prim::fold:
    case Prim::contract:
    case Prim::scan_add:
    case Prim::scan_mul:
    case Prim::scan_min:
    case Prim::scan_max: return std::nullopt;
  }
  __builtin_unreachable();
}

inline std::optional<Literal> convert_literal(const Literal& x, DType to) {
  const bool from_real = is_floating(x.dtype);
  if (is_floating(to)) {
    if (!from_real && to == DType::f32)
      return Literal{to, static_cast<double>(static_cast<float>(x.integer)), 0};  // rounds once
    return real_literal(to, from_real ? x.real : static_cast<double>(x.integer));
  }
  if (to == DType::bool_) return Literal{to, 0, from_real ? x.real != 0 : x.integer != 0};
  if (!from_real) return integer_literal(to, static_cast<std::uint64_t>(x.integer));
  const double limit = to == DType::i32 ? 2147483648.0 : 9223372036854775808.0;
  if (!(x.real < limit && x.real > -limit - 1)) return std::nullopt;
  return Literal{to, 0, scalar_meaning::integer_of(x.real, to)};
}

inline Literal bitcast_literal(const Literal& x, DType to) {
  if (to == DType::f32) return {to, std::bit_cast<float>(static_cast<std::int32_t>(x.integer)), 0};
  if (to == DType::f64) return {to, std::bit_cast<double>(x.integer), 0};
  if (x.dtype == DType::f32) return {to, 0, std::bit_cast<std::int32_t>(static_cast<float>(x.real))};
  return {to, 0, std::bit_cast<std::int64_t>(x.real)};
}

inline std::optional<Literal> evaluate_instruction(const Inst& inst, std::span<const Literal> values,
                                                   std::span<const Literal> operands) {
  auto argument = [&](std::size_t i) { return inst.args[i] == no_inst ? Literal{} : values[inst.args[i]]; };
  if (inst.prim == Prim::immediate)
    return is_floating(inst.dtype) ? Literal{inst.dtype, inst.number(), 0} : Literal{inst.dtype, 0, inst.integer()};
  if (inst.prim == Prim::load) return operands[inst.access];
  const Literal a = argument(0), b = argument(1), c = argument(2);
  if (inst.prim == Prim::select) return a.integer != 0 ? b : c;
  if (inst.prim == Prim::convert) return convert_literal(a, inst.dtype);
  if (inst.prim == Prim::bitcast) return bitcast_literal(a, inst.dtype);
  return is_floating(a.dtype) ? evaluate_real(inst.prim, a.dtype, a.real, b.real, c.real)
                              : evaluate_integer(inst.prim, a.dtype, a.integer, b.integer, c.integer);
}

}  // namespace passes_detail

SINTER_DECL std::optional<Literal> evaluate(const OpInfo& op, std::span<const Literal> operands, const Attrs& attrs,
                                            DType result) {
  if (op.lower == nullptr) return std::nullopt;
  ScalarBuilder builder;
  std::vector<ScalarValue> loads;
  std::vector<Literal> rounded;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    loads.push_back(builder.load(static_cast<std::uint16_t>(i), operands[i].dtype));
    rounded.push_back(is_floating(operands[i].dtype) ? passes_detail::real_literal(operands[i].dtype, operands[i].real)
                                                     : operands[i]);
    rounded.back().dtype = computed_in(operands[i].dtype);
  }
  const ScalarValue computed = lower_elementwise(builder, op, loads, attrs, result);
  std::vector<Literal> values;
  for (const Inst& inst : builder.body()) {
    const auto value = passes_detail::evaluate_instruction(inst, values, rounded);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  const Literal& value = values[computed.id];
  return is_floating(result) ? passes_detail::real_literal(result, value.real) : Literal{result, 0, value.integer};
}

SINTER_NAMESPACE_END
