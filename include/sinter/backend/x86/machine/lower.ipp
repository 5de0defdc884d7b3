// The primitives, one exhaustive switch per class of dtype.
#pragma once

#include <sinter/backend/x86/machine/lower.hpp>

#include <sinter/backend/x86/math/math.hpp>
#include <sinter/ops/philox.hpp>

#include <bit>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

inline Compare relation_of(Prim prim) {
  return prim == Prim::eq ? Compare::eq : prim == Prim::ne ? Compare::ne : prim == Prim::lt ? Compare::lt : Compare::le;
}

inline bool is_math(Prim prim) { return prim >= Prim::exp && prim <= Prim::pow; }

inline VReg lower_math(VectorBuilder& b, Prim prim, Lane lane, std::span<const VReg> args) {
  VectorMath math(b, lane == Lane::f64);
  const Vec x{args[0]};
  switch (prim) {
    case Prim::exp: return expand_exp(math, x).id;
    case Prim::log: return expand_log(math, x).id;
    case Prim::sin: return expand_sin(math, x).id;
    case Prim::cos: return expand_cos(math, x).id;
    case Prim::tanh: return expand_tanh(math, x).id;
    case Prim::erf: return expand_erf(math, x).id;
    case Prim::gelu: return expand_gelu(math, x).id;
    case Prim::gelu_slope: return expand_gelu_slope(math, x).id;
    case Prim::gauss: return expand_gauss(math, x).id;
    case Prim::pow: return expand_pow(math, x, Vec{args[1]}).id;
    default: throw InternalError("x86: not a transcendental function");
  }
}

/// Runs `body` for each lane with the lane's number in r9; operands lie in the frame.
template <class Body>
void for_each_lane(VectorBuilder& b, Body&& body) {
  CodeStream& s = b.stream();
  const int again = s.new_label();
  s.mov_imm(Gpr::r9, b.lanes() - 1);
  s.bind(again);
  body();
  s.binary_imm(Op::sub, Gpr::r9, 1);
  s.jump(Op::jge, again);
}

/// Integer division lane by lane. Division by zero gives 0, the smallest number by -1 wraps; neither traps.
/// `rem` takes the divisor's sign. Clobbers rax, rdx, r9.
inline VReg divide_integers(VectorBuilder& b, Prim prim, Lane lane, VReg x, VReg y) {
  CodeStream& s = b.stream();
  const int size = size_of(lane), shift = size == 8 ? 3 : 2;
  const int left = s.frame(64, 64), right = s.frame(64, 64);
  b.store_whole(lane, CodeStream::slot(left), x);
  b.store_whole(lane, CodeStream::slot(right), y);
  const Mem a = CodeStream::at(Gpr::rsp, Gpr::r9, shift, left), d = CodeStream::at(Gpr::rsp, Gpr::r9, shift, right);
  for_each_lane(b, [&] {
    const int zero = s.new_label(), minus_one = s.new_label(), done = s.new_label();
    s.emit(size == 8 ? Op::mov : Op::movsxd, {reg(Gpr::rax), mem(size)}, a);
    s.emit(Op::cmp, {mem(size), immediate()}, d, 0).only_reads = true;
    s.jump(Op::je, zero);
    s.emit(Op::cmp, {mem(size), immediate()}, d, -1).only_reads = true;
    s.jump(Op::je, minus_one);
    s.push({.op = Op::cqo});
    if (size == 4) {  // 64-bit division of sign-extended numbers: one path for both widths
      const int wide = s.frame(8);
      s.mov(CodeStream::slot(wide), Gpr::rdx);
      s.emit(Op::movsxd, {reg(Gpr::rdx), mem(4)}, d);
      s.binary(Op::xor_, Gpr::rdx, CodeStream::slot(wide));  // rdx = divisor ^ sign; swapped below
      s.binary(Op::xor_, CodeStream::slot(wide), Gpr::rdx);
      s.binary(Op::xor_, Gpr::rdx, CodeStream::slot(wide));
      s.emit(Op::idiv, {mem(8)}, CodeStream::slot(wide)).only_reads = true;
    } else {
      s.emit(Op::idiv, {mem(8)}, d).only_reads = true;
    }
    if (prim == Prim::rem) {
      s.mov(Gpr::rax, Gpr::rdx);
      s.emit(Op::test, {reg(Gpr::rax), reg(Gpr::rax)}).only_reads = true;
      s.jump(Op::je, done);
      if (size == 8) s.mov(Gpr::rdx, d);
      else s.emit(Op::movsxd, {reg(Gpr::rdx), mem(4)}, d);
      s.binary(Op::xor_, Gpr::rdx, Gpr::rax);
      s.jump(Op::jge, done);
      s.emit(Op::add, {reg(Gpr::rax, size), mem(size)}, d);
    }
    s.jump(Op::jmp, done);
    s.bind(minus_one);
    if (prim == Prim::div) s.emit(Op::neg, {reg(Gpr::rax)});
    else s.mov_imm(Gpr::rax, 0);
    s.jump(Op::jmp, done);
    s.bind(zero);
    s.mov_imm(Gpr::rax, 0);
    s.bind(done);
    s.emit(Op::mov, {mem(size), reg(Gpr::rax, size)}, a).only_reads = true;
  });
  return b.load_whole(lane, CodeStream::slot(left));
}

/// The exact remainder by x87's fprem lane by lane, then moved to the divisor's sign; a zero keeps the dividend's.
/// Clobbers rax, r9.
inline VReg divide_floats_remainder(VectorBuilder& b, Lane lane, VReg x, VReg y) {
  CodeStream& s = b.stream();
  const int size = size_of(lane), shift = size == 8 ? 3 : 2;
  const int left = s.frame(64, 64), right = s.frame(64, 64);
  b.store_whole(lane, CodeStream::slot(left), x);
  b.store_whole(lane, CodeStream::slot(right), y);
  const Mem a = CodeStream::at(Gpr::rsp, Gpr::r9, shift, left), d = CodeStream::at(Gpr::rsp, Gpr::r9, shift, right);
  for_each_lane(b, [&] {
    s.emit(Op::fld, {mem(size)}, d).only_reads = true;
    s.emit(Op::fld, {mem(size)}, a).only_reads = true;
    const int again = s.new_label();
    s.bind(again);
    s.push({.op = Op::fprem});
    s.emit(Op::fnstsw, {reg(Gpr::rax, 2)}).only_reads = true;
    s.emit(Op::test, {reg(Gpr::rax, 4), immediate()}, 0x400).only_reads = true;  // C2: not yet complete
    s.jump(Op::jne, again);
    s.emit(Op::fstp, {mem(size)}, a).only_reads = true;
    s.emit(Op::fstp, {immediate()}, 0).only_reads = true;
  });
  VReg r = b.load_whole(lane, CodeStream::slot(left)), zero = b.imm_float(lane, 0);
  VReg has_other_sign =
      b.mask_and(b.compare(lane, Compare::ne, r, zero),
                 b.mask_xor(b.compare(lane, Compare::lt, r, zero), b.compare(lane, Compare::lt, y, zero)));
  return b.select(lane, has_other_sign, b.add(lane, r, y), r);
}

SINTER_DECL VReg mask_to_number(VectorBuilder& b, VReg mask, Lane lane) {
  VReg one = is_float(lane) ? b.imm_float(lane, 1) : b.imm_int(lane, 1);
  VReg sized = b.as_element(mask, size_of(lane));
  if (!b.is_avx512()) return b.bit_and(lane, sized, one);
  return b.select(lane, sized, one, b.imm_int(lane, 0));
}

SINTER_DECL VReg number_to_mask(VectorBuilder& b, VReg value, Lane lane) {
  return b.canonical(b.compare(lane, Compare::ne, value, b.imm_int(lane, 0)), size_of(lane));
}

inline VReg lower_convert(VectorBuilder& b, DType from, DType to, VReg a) {
  if (from == to) return a;
  if (from == DType::bool_) return mask_to_number(b, a, lane_of(to));
  if (to == DType::bool_) return number_to_mask(b, a, lane_of(from));
  return b.convert(lane_of(from), lane_of(to), a);
}

/// Word 0 of Philox4x32-10 (ops/philox.hpp). Words live in the low halves of 64-bit lanes, where vpmuludq reads them;
/// what gathers in the high halves is never read.
inline VReg lower_random_bits(VectorBuilder& b, std::span<const VReg> args) {
  const Lane lane = Lane::i64;
  VReg c0 = args[2], c1 = b.shift_right(lane, args[2], 32), c2 = args[1], c3 = b.shift_right(lane, args[1], 32);
  VReg k0 = args[0], k1 = b.shift_right(lane, args[0], 32);
  for (int round = 0; round < philox_rounds; ++round) {
    VReg p0 = b.op2(Op::vpmuludq, Op::vpmuludq, lane, c0, b.imm_int(lane, philox_multiplier_0));
    VReg p1 = b.op2(Op::vpmuludq, Op::vpmuludq, lane, c2, b.imm_int(lane, philox_multiplier_1));
    c0 = b.bit_xor(lane, b.bit_xor(lane, b.shift_right(lane, p1, 32), c1), k0);
    c2 = b.bit_xor(lane, b.bit_xor(lane, b.shift_right(lane, p0, 32), c3), k1);
    c1 = p1;
    c3 = p0;
    k0 = b.add(lane, k0, b.imm_int(lane, philox_weyl_0));
    k1 = b.add(lane, k1, b.imm_int(lane, philox_weyl_1));
  }
  return b.bit_and(lane, c0, b.imm_int(lane, 0xFFFFFFFF));
}

inline VReg lower_bool(VectorBuilder& b, Prim prim, std::span<const VReg> a) {
  switch (prim) {
    case Prim::and_:
    case Prim::mul:
    case Prim::min: return b.mask_and(a[0], a[1]);
    case Prim::or_:
    case Prim::add:
    case Prim::max: return b.mask_or(a[0], a[1]);
    case Prim::xor_:
    case Prim::ne: return b.mask_xor(a[0], a[1]);
    case Prim::eq: return b.mask_not(b.mask_xor(a[0], a[1]));
    case Prim::lt: return b.mask_and_not(a[0], a[1]);
    case Prim::le: return b.mask_or(b.mask_not(a[0]), a[1]);
    case Prim::not_: return b.mask_not(a[0]);
    case Prim::abs: return a[0];
    case Prim::select: return b.mask_or(b.mask_and(a[0], a[1]), b.mask_and_not(a[0], a[2]));
    default: throw InternalError("x86: primitive not defined for bool");
  }
}

inline VReg lower_integer(VectorBuilder& b, Prim prim, Lane lane, std::span<const VReg> a) {
  switch (prim) {
    case Prim::div:
    case Prim::rem: return divide_integers(b, prim, lane, a[0], a[1]);
    case Prim::fma: return b.add(lane, b.mul(lane, a[0], a[1]), a[2]);
    case Prim::and_: return b.bit_and(lane, a[0], a[1]);
    case Prim::or_: return b.bit_or(lane, a[0], a[1]);
    case Prim::xor_: return b.bit_xor(lane, a[0], a[1]);
    case Prim::not_: return b.bit_not(lane, a[0]);
    case Prim::shift_left: return b.shift_left_by(lane, a[0], a[1]);
    case Prim::shift_right: return b.shift_right_by(lane, a[0], a[1]);
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc: return a[0];
    default: throw InternalError("x86: primitive not defined for integers");
  }
}

inline VReg lower_float(VectorBuilder& b, Prim prim, Lane lane, std::span<const VReg> a) {
  using Rounding = VectorBuilder::Rounding;
  switch (prim) {
    case Prim::div: return b.div(lane, a[0], a[1]);
    case Prim::rem: return divide_floats_remainder(b, lane, a[0], a[1]);
    case Prim::fma: return b.fma(lane, a[0], a[1], a[2]);
    case Prim::floor: return b.round(lane, a[0], Rounding::floor);
    case Prim::ceil: return b.round(lane, a[0], Rounding::ceil);
    case Prim::round: return b.round(lane, a[0], Rounding::even);
    case Prim::trunc: return b.round(lane, a[0], Rounding::trunc);
    case Prim::sqrt: return b.sqrt(lane, a[0]);
    case Prim::rsqrt: return b.div(lane, b.imm_float(lane, 1), b.sqrt(lane, a[0]));
    default: return lower_math(b, prim, lane, a);
  }
}

}  // namespace x86_detail

SINTER_DECL std::string why_not_lowered(const Inst& inst, DType from) {
  const auto no = [&] {
    return "primitive " + std::string(name(inst.prim)) + " of " + std::string(name(from)) + " has no code generator";
  };
  if (inst.prim == Prim::contract) return no();
  if (is_scan(inst.prim)) return from == DType::bool_ ? no() : std::string();
  if (inst.prim == Prim::random_bits) return {};
  if (from == DType::bool_) {
    switch (inst.prim) {
      case Prim::shift_left:
      case Prim::shift_right:
      case Prim::bitcast:
      case Prim::neg:
      case Prim::sub:
      case Prim::div:
      case Prim::rem:
      case Prim::fma:
      case Prim::floor:
      case Prim::ceil:
      case Prim::round:
      case Prim::trunc:
      case Prim::sqrt:
      case Prim::rsqrt: return no();
      default: return x86_detail::is_math(inst.prim) ? no() : std::string();
    }
  }
  if (is_integer(from) && (x86_detail::is_math(inst.prim) || inst.prim == Prim::sqrt || inst.prim == Prim::rsqrt))
    return no();
  if (is_floating(from) && inst.prim >= Prim::and_ && inst.prim <= Prim::shift_right) return no();
  return {};
}

SINTER_DECL VReg lower_exp_of_not_positive(VectorBuilder& b, Lane lane, VReg x) {
  VectorMath math(b, lane == Lane::f64);
  return expand_exp(math, Vec{x}, Domain::not_positive).id;
}

SINTER_DECL VReg lower(VectorBuilder& b, const Inst& inst, DType from, std::span<const VReg> a) {
  if (inst.prim == Prim::convert) return x86_detail::lower_convert(b, from, inst.dtype, a[0]);
  if (inst.prim == Prim::bitcast)
    return b.copy(lane_of(from), a[0]);  // lanes have no type, but a register may be written
  if (from == DType::bool_) return x86_detail::lower_bool(b, inst.prim, a);
  if (inst.prim == Prim::random_bits) return x86_detail::lower_random_bits(b, a);
  const Lane lane = lane_of(from);
  switch (inst.prim) {
    case Prim::neg: return b.neg(lane, a[0]);
    case Prim::abs: return b.abs(lane, a[0]);
    case Prim::add: return b.add(lane, a[0], a[1]);
    case Prim::sub: return b.sub(lane, a[0], a[1]);
    case Prim::mul: return b.mul(lane, a[0], a[1]);
    case Prim::min: return b.min(lane, a[0], a[1]);
    case Prim::max: return b.max(lane, a[0], a[1]);
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le: return b.canonical(b.compare(lane, x86_detail::relation_of(inst.prim), a[0], a[1]), size_of(lane));
    case Prim::select: return b.select(lane, b.as_element(a[0], size_of(lane)), a[1], a[2]);
    default:
      return is_float(lane) ? x86_detail::lower_float(b, inst.prim, lane, a)
                            : x86_detail::lower_integer(b, inst.prim, lane, a);
  }
}

SINTER_DECL std::uint64_t neutral_bits(Prim reduction, DType dtype) {
  const bool add = reduction == Prim::reduce_add, mul = reduction == Prim::reduce_mul,
             min = reduction == Prim::reduce_min;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double number = add ? 0.0 : mul ? 1.0 : min ? infinity : -infinity;
  switch (dtype) {
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(number));
    case DType::f64: return std::bit_cast<std::uint64_t>(number);
    case DType::i32:
      return static_cast<std::uint32_t>(add   ? 0
                                        : mul ? 1
                                        : min ? std::numeric_limits<std::int32_t>::max()
                                              : std::numeric_limits<std::int32_t>::min());
    case DType::i64:
      return static_cast<std::uint64_t>(add   ? 0
                                        : mul ? 1
                                        : min ? std::numeric_limits<std::int64_t>::max()
                                              : std::numeric_limits<std::int64_t>::min());
    default: return mul || min ? 1 : 0;  // bool_
  }
}

SINTER_DECL VReg combine(VectorBuilder& b, Prim reduction, DType dtype, VReg older, VReg newer) {
  const Lane lane = lane_of(dtype);
  if (dtype == DType::bool_)
    return reduction == Prim::reduce_mul || reduction == Prim::reduce_min ? b.bit_and(lane, older, newer)
                                                                          : b.bit_or(lane, older, newer);
  switch (reduction) {
    case Prim::reduce_add: return b.add(lane, older, newer);
    case Prim::reduce_mul: return b.mul(lane, older, newer);
    case Prim::reduce_min: return b.min(lane, older, newer);
    default: return b.max(lane, older, newer);
  }
}

SINTER_DECL int cost_of(Prim prim) {
  if (prim == Prim::pow) return 60;
  if (x86_detail::is_math(prim)) return 20;
  if (prim == Prim::div || prim == Prim::sqrt) return 8;
  if (prim == Prim::rsqrt) return 16;
  if (prim == Prim::rem || prim == Prim::gather || prim == Prim::random_bits) return 40;
  if (is_scan(prim)) return 12;
  return prim == Prim::immediate ? 0 : 1;
}

}  // namespace x86
SINTER_NAMESPACE_END
