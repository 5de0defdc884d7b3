// The scalar level: about sixty primitives, and the one builder through which ops give their elementwise meaning.
// Kernels hold these instructions; each back end implements each primitive its own way within the stated ULP bound.
// Knows dtypes, nothing of shapes, graphs or targets.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A scalar primitive. Operands have one dtype (but for select's condition, convert, gather) and so has the result
/// (comparisons give bool_).
/// What becomes of an element that a value is stored to at a computed place: it is replaced, or combined with the
/// value.
enum class Combine : std::uint8_t { none, add, mul, min, max };
constexpr std::string_view name(Combine combine) {
  constexpr std::array<std::string_view, 5> names{"none", "add", "mul", "min", "max"};
  return names[as_index(combine)];
}

enum class Prim : std::uint8_t {
  immediate,     // bits: the value (double for floats, int64 for the rest)
  load,          // access: element of an operand at this iteration point
  gather,        // args[0]: index (i32/i64); like load, displaced by index * the access's gather_stride
  guarded_load,  // args: condition (bool), fill; like load where the condition holds, else the fill: memory is not read
  index,         // bits: axis number; the iteration index along that axis, as i64
  argument,      // bits: number of an argument; only in the programs of a ScalarFold
  neg,
  abs,
  add,
  sub,
  mul,
  div,
  rem,  // integer div truncates like C++; rem has the divisor's sign, a zero the dividend's
  fma,  // args[0] * args[1] + args[2], rounded once
  min,
  max,  // NaN wins; -0 is less than +0
  eq,
  ne,
  lt,
  le,
  and_,
  or_,
  xor_,
  not_,  // bitwise on integers, logical on bool_
  // integers: args[0] by args[1] bits; at least as many as it has, or fewer than none, are all of them
  shift_left,
  shift_right,  // copies of the sign come in
  select,       // args[0] ? args[1] : args[2]
  convert,  // to dtype; float to integer truncates and saturates, NaN gives 0; to bool_ is `!= 0`, so NaN gives true
  bitcast,  // the same bits as dtype, whose size is that of the argument's; not of or to bool_
  floor,
  ceil,
  round,
  trunc,  // round: half to even
  sqrt,
  rsqrt,
  exp,
  log,
  sin,
  cos,
  tanh,
  erf,
  gelu,        // x * Phi(x), Phi being the normal distribution function
  gelu_slope,  // its derivative, Phi(x) + x * e^(-x^2/2) / sqrt(2 pi)
  gauss,       // e^(-x^2/2)
  pow,
  random_bits,  // args: key, counter, element index (all i64): 32 Philox bits as a non-negative i64
  reduce_add,
  reduce_mul,
  reduce_min,
  reduce_max,  // args[0]: a value along the reduced axes
  // access: one of the kernel's folds, bits: number of its result. args: what it takes in along the reduced axes; those
  // that it does not have repeat the first
  fold,
  contract,  // args: a, b: sum over the reduced axis of a * b
  scan_add,
  scan_mul,
  scan_min,
  scan_max,  // args[0] reduced up to each point of the one reduced axis, itself included; bits: 1 leaves it out
};
inline constexpr std::size_t prim_count = as_index(Prim::scan_max) + 1;

struct PrimRow {
  std::string_view name;
  std::uint8_t arity;
};
inline constexpr std::array<PrimRow, prim_count> prim_rows{{
    {"immediate", 0},  {"load", 0},        {"gather", 1}, {"guarded_load", 2}, {"index", 0},      {"argument", 0},
    {"neg", 1},        {"abs", 1},         {"add", 2},    {"sub", 2},          {"mul", 2},        {"div", 2},
    {"rem", 2},        {"fma", 3},         {"min", 2},    {"max", 2},          {"eq", 2},         {"ne", 2},
    {"lt", 2},         {"le", 2},          {"and", 2},    {"or", 2},           {"xor", 2},        {"not", 1},
    {"shift_left", 2}, {"shift_right", 2}, {"select", 3}, {"convert", 1},      {"bitcast", 1},    {"floor", 1},
    {"ceil", 1},       {"round", 1},       {"trunc", 1},  {"sqrt", 1},         {"rsqrt", 1},      {"exp", 1},
    {"log", 1},        {"sin", 1},         {"cos", 1},    {"tanh", 1},         {"erf", 1},        {"gelu", 1},
    {"gelu_slope", 1}, {"gauss", 1},       {"pow", 2},    {"random_bits", 3},  {"reduce_add", 1}, {"reduce_mul", 1},
    {"reduce_min", 1}, {"reduce_max", 1},  {"fold", 3},   {"contract", 2},     {"scan_add", 1},   {"scan_mul", 1},
    {"scan_min", 1},   {"scan_max", 1},
}};
constexpr std::string_view name(Prim prim) { return prim_rows[as_index(prim)].name; }
constexpr int arity(Prim prim) { return prim_rows[as_index(prim)].arity; }
/// Reads an element of an operand through an access.
constexpr bool reads_memory(Prim prim) {
  return prim == Prim::load || prim == Prim::gather || prim == Prim::guarded_load;
}
constexpr bool is_reduction(Prim prim) { return prim >= Prim::reduce_add && prim <= Prim::contract; }
constexpr bool is_scan(Prim prim) { return prim >= Prim::scan_add && prim <= Prim::scan_max; }
/// What a scan combines the values of two places by.
constexpr Prim reduction_of(Prim scan) {
  return static_cast<Prim>(as_index(Prim::reduce_add) + (as_index(scan) - as_index(Prim::scan_add)));
}
constexpr bool is_comparison(Prim prim) { return prim >= Prim::eq && prim <= Prim::le; }
constexpr bool is_commutative(Prim prim) {
  return prim == Prim::add || prim == Prim::mul || prim == Prim::eq || prim == Prim::ne || prim == Prim::and_ ||
         prim == Prim::or_ || prim == Prim::xor_;
}

/// How the condition of a guarded load or a select comes out at most points, if that is known. A hint only.
enum class Usually : std::uint8_t { unknown, holds, fails };

/// Number of an instruction in a body.
using InstId = std::uint16_t;
inline constexpr InstId no_inst = 0xFFFF;

/// One SSA instruction of a scalar body. Its result has `dtype`.
struct Inst {
  Prim prim = Prim::immediate;
  DType dtype = DType::f32;
  std::array<InstId, 3> args{no_inst, no_inst, no_inst};
  std::uint16_t access = 0;  // load, gather, guarded_load: index into the kernel's accesses; fold: into its folds
  // immediate: value; index: axis; argument, fold: a number; guarded_load, select: Usually; scan: 1 if exclusive
  std::uint64_t bits = 0;
  friend bool operator==(const Inst&, const Inst&) = default;

  /// Value of an immediate.
  double number() const {
    return is_floating(dtype) ? std::bit_cast<double>(bits) : static_cast<double>(static_cast<std::int64_t>(bits));
  }
  std::int64_t integer() const { return static_cast<std::int64_t>(bits); }
  Usually usually() const { return static_cast<Usually>(bits); }
  /// Of a scan.
  bool is_exclusive() const { return bits != 0; }
};

/// A handle on an instruction under construction. A u64 says so here, while its instruction has an i64 with its bits.
struct ScalarValue {
  InstId id = no_inst;
  DType dtype = DType::f32;
};

/// Builds a body. Equal instructions are built once, and immediates fold.
class ScalarBuilder {
 public:
  const std::vector<Inst>& body() const { return body_; }
  std::vector<Inst> take() { return std::move(body_); }

  /// Values of a narrow dtype are held in the one that it is computed in (tensor/dtype.hpp), as a number that it has:
  /// wherever a dtype is asked for it may be a narrow one.

  /// A constant; an integer one is what Prim::convert makes of the number, one of f16 or bf16 keeps f32's digits.
  ScalarValue imm(double value, DType dtype);
  ScalarValue imm(double value, ScalarValue like) { return imm(value, like.dtype); }
  ScalarValue imm_int(std::int64_t value, DType dtype);
  ScalarValue load(std::uint16_t access, DType dtype) {
    return as(fitting(push({.prim = Prim::load, .dtype = computed_in(dtype), .access = access}), dtype), dtype);
  }
  ScalarValue gather(std::uint16_t access, DType dtype, ScalarValue index) {
    const Inst inst{
        .prim = Prim::gather, .dtype = computed_in(dtype), .args = {index.id, no_inst, no_inst}, .access = access};
    return as(fitting(push(inst), dtype), dtype);
  }
  /// A load where `condition` holds, else `fill`. A condition that is known makes it a load, or the fill.
  ScalarValue guarded_load(std::uint16_t access, DType dtype, ScalarValue condition, ScalarValue fill,
                           Usually usually = Usually::unknown);
  ScalarValue index(int axis) {
    return push({.prim = Prim::index, .dtype = DType::i64, .bits = static_cast<std::uint64_t>(axis)});
  }

  /// Argument `number` of a program of a ScalarFold.
  ScalarValue argument(int number, DType dtype) {
    return push({.prim = Prim::argument, .dtype = dtype, .bits = static_cast<std::uint64_t>(number)});
  }

  ScalarValue unary(Prim prim, ScalarValue x);
  ScalarValue binary(Prim prim, ScalarValue a, ScalarValue b);
  ScalarValue neg(ScalarValue x) { return unary(Prim::neg, x); }
  ScalarValue abs(ScalarValue x) { return unary(Prim::abs, x); }
  ScalarValue floor(ScalarValue x) { return unary(Prim::floor, x); }
  ScalarValue ceil(ScalarValue x) { return unary(Prim::ceil, x); }
  ScalarValue round(ScalarValue x) { return unary(Prim::round, x); }
  ScalarValue trunc(ScalarValue x) { return unary(Prim::trunc, x); }
  ScalarValue sqrt(ScalarValue x) { return unary(Prim::sqrt, x); }
  ScalarValue rsqrt(ScalarValue x) { return unary(Prim::rsqrt, x); }
  ScalarValue exp(ScalarValue x) { return unary(Prim::exp, x); }
  ScalarValue log(ScalarValue x) { return unary(Prim::log, x); }
  ScalarValue sin(ScalarValue x) { return unary(Prim::sin, x); }
  ScalarValue cos(ScalarValue x) { return unary(Prim::cos, x); }
  ScalarValue tanh(ScalarValue x) { return unary(Prim::tanh, x); }
  ScalarValue erf(ScalarValue x) { return unary(Prim::erf, x); }
  ScalarValue gelu(ScalarValue x) { return unary(Prim::gelu, x); }
  ScalarValue gelu_slope(ScalarValue x) { return unary(Prim::gelu_slope, x); }
  ScalarValue gauss(ScalarValue x) { return unary(Prim::gauss, x); }
  ScalarValue not_(ScalarValue x) { return unary(Prim::not_, x); }
  ScalarValue add(ScalarValue a, ScalarValue b) { return binary(Prim::add, a, b); }
  ScalarValue sub(ScalarValue a, ScalarValue b) { return binary(Prim::sub, a, b); }
  ScalarValue mul(ScalarValue a, ScalarValue b) { return binary(Prim::mul, a, b); }
  ScalarValue div(ScalarValue a, ScalarValue b) { return binary(Prim::div, a, b); }
  ScalarValue rem(ScalarValue a, ScalarValue b) { return binary(Prim::rem, a, b); }
  ScalarValue min(ScalarValue a, ScalarValue b) { return binary(Prim::min, a, b); }
  ScalarValue max(ScalarValue a, ScalarValue b) { return binary(Prim::max, a, b); }
  ScalarValue pow(ScalarValue a, ScalarValue b) { return binary(Prim::pow, a, b); }
  ScalarValue and_(ScalarValue a, ScalarValue b) { return binary(Prim::and_, a, b); }
  ScalarValue or_(ScalarValue a, ScalarValue b) { return binary(Prim::or_, a, b); }
  ScalarValue xor_(ScalarValue a, ScalarValue b) { return binary(Prim::xor_, a, b); }
  ScalarValue shift_left(ScalarValue a, ScalarValue b) { return binary(Prim::shift_left, a, b); }
  ScalarValue shift_right(ScalarValue a, ScalarValue b) { return binary(Prim::shift_right, a, b); }
  ScalarValue eq(ScalarValue a, ScalarValue b) { return binary(Prim::eq, a, b); }
  ScalarValue ne(ScalarValue a, ScalarValue b) { return binary(Prim::ne, a, b); }
  ScalarValue lt(ScalarValue a, ScalarValue b) { return binary(Prim::lt, a, b); }
  ScalarValue le(ScalarValue a, ScalarValue b) { return binary(Prim::le, a, b); }
  ScalarValue fma(ScalarValue a, ScalarValue b, ScalarValue c);
  ScalarValue select(ScalarValue condition, ScalarValue a, ScalarValue b, Usually usually = Usually::unknown);
  /// To a narrow dtype: integers wrap, floats saturate as integers and round as f16 and bf16.
  ScalarValue convert(ScalarValue x, DType to);
  /// What is left of an integer in as many bits as `narrow` has; nothing is done to one that has no more.
  ScalarValue wrap(ScalarValue x, DType narrow);
  /// What convert() rounded to make `x` an f16 or a bf16, for whoever stores it in memory of that dtype, which rounds;
  /// else x itself.
  ScalarValue unrounded(ScalarValue x, DType half) const {
    for (const Rounding& rounding : roundings_)
      if (rounding.result == x.id && rounding.half == half) return {rounding.of, x.dtype};
    return x;
  }
  /// A value as one of dtype `dtype` is held: a narrow integer wraps, other dtypes are as they are.
  ScalarValue held(ScalarValue x, DType dtype) {
    return is_narrow(dtype) && !is_floating(dtype) ? wrap(x, dtype) : as(x, dtype);
  }
  /// Of a u64: an i64 in the same order, and the u64 that it stands for.
  ScalarValue ordered(ScalarValue x) { return flip_sign(x, DType::i64); }
  ScalarValue from_ordered(ScalarValue x) { return flip_sign(x, DType::u64); }
  ScalarValue bitcast(ScalarValue x, DType to);
  ScalarValue random_bits(ScalarValue key, ScalarValue counter, ScalarValue element);
  ScalarValue reduce(Prim reduction, ScalarValue x) { return accumulate(reduction, x, 0); }
  /// Result `result`, of dtype `dtype`, of fold number `fold` over one to three values.
  ScalarValue fold(int fold, int result, DType dtype, std::span<const ScalarValue> values) {
    const auto value = [&](std::size_t i) { return values[i < values.size() ? i : 0].id; };
    return push({.prim = Prim::fold,
                 .dtype = dtype,
                 .args = {value(0), value(1), value(2)},
                 .access = static_cast<std::uint16_t>(fold),
                 .bits = static_cast<std::uint64_t>(result)});
  }
  ScalarValue contract(ScalarValue a, ScalarValue b) {
    return as(push({.prim = Prim::contract, .dtype = computed_in(a.dtype), .args = {a.id, b.id, no_inst}}), a.dtype);
  }

  ScalarValue scan(Prim scan, ScalarValue x, bool is_exclusive) { return accumulate(scan, x, is_exclusive ? 1 : 0); }

  /// Appends an instruction, or finds the equal one that is there already.
  ScalarValue push(Inst inst);

 private:
  /// An i64 as the u64 of its bits; other values are as they are.
  static ScalarValue as(ScalarValue x, DType dtype) {
    return {x.id, dtype == DType::u64 && x.dtype == DType::i64 ? dtype : x.dtype};
  }
  static ScalarValue as_i64(ScalarValue x) { return {x.id, DType::i64}; }
  ScalarValue flip_sign(ScalarValue x, DType to);
  ScalarValue accumulate(Prim prim, ScalarValue x, std::uint64_t bits);
  ScalarValue unsigned_binary(Prim prim, ScalarValue a, ScalarValue b);
  ScalarValue unsigned_quotient(ScalarValue a, ScalarValue b);
  ScalarValue unsigned_shift_right(ScalarValue a, ScalarValue b);
  ScalarValue unsigned_power(ScalarValue a, ScalarValue b);
  ScalarValue unsigned_to_float(ScalarValue x, DType to);
  ScalarValue float_to_unsigned(ScalarValue x);
  ScalarValue round_to(ScalarValue x, DType half);
  ScalarValue round_to_small(ScalarValue x, DType small_float);
  /// Notes that a value read from memory has the dtype that it has there.
  ScalarValue fitting(ScalarValue x, DType dtype) {
    if (is_narrow(dtype)) read_.push_back({x.id, dtype});
    return x;
  }
  bool fits(InstId id, DType narrow) const;
  std::vector<Inst> body_;
  std::vector<ScalarValue> read_;  // values in memory, with the narrow dtype that they have there
  struct Rounding {
    InstId result, of;
    DType half;
  };
  std::vector<Rounding> roundings_;
};

SINTER_NAMESPACE_END
