// Arithmetic, masks and conversions of VectorBuilder; its memory operations are in vector_memory.ipp.
#pragma once

#include <sinter/backend/x86/nest/vector_builder.hpp>

#include <sinter/base/index.hpp>

#include <bit>
#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL VReg VectorBuilder::imm_float(Lane lane, double value) {
  return imm_bits(lane, lane == Lane::f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                          : std::bit_cast<std::uint64_t>(value));
}

SINTER_DECL VReg VectorBuilder::iota(Lane lane) {
  std::array<std::int64_t, 16> wide{};
  std::array<std::int32_t, 16> narrow{};
  for (std::size_t i = 0; i < 16; ++i) wide[i] = narrow[i] = static_cast<std::int32_t>(i);
  return size_of(lane) == 8 ? s_.constant_vector(wide.data(), bytes(lane))
                            : s_.constant_vector(narrow.data(), bytes(lane));
}

SINTER_DECL VReg VectorBuilder::unary(Op op, VReg a, int to_bytes, int from_bytes) {
  VReg r = s_.new_vec(to_bytes);
  s_.emit(op, {vec(r, to_bytes), vec(a, from_bytes)});
  return r;
}

SINTER_DECL VReg VectorBuilder::copy(Lane lane, VReg a) { return out(lane, Op::vmovaps, {a}); }
SINTER_DECL void VectorBuilder::assign(Lane lane, VReg to, VReg from) {
  s_.emit(Op::vmovaps, {vec(to, bytes(lane)), vec(from, bytes(lane))});
}

SINTER_DECL VReg VectorBuilder::shift(Op op, Lane lane, VReg a, int count) {
  VReg r = s_.new_vec(bytes(lane));
  s_.emit(op, {vec(r, bytes(lane)), vec(a, bytes(lane)), immediate()}, count);
  return r;
}

SINTER_DECL VReg VectorBuilder::add(Lane lane, VReg a, VReg b) {
  return is_float(lane) ? op2(Op::vaddps, Op::vaddpd, lane, a, b) : op2(Op::vpaddd, Op::vpaddq, lane, a, b);
}
SINTER_DECL VReg VectorBuilder::sub(Lane lane, VReg a, VReg b) {
  return is_float(lane) ? op2(Op::vsubps, Op::vsubpd, lane, a, b) : op2(Op::vpsubd, Op::vpsubq, lane, a, b);
}
SINTER_DECL VReg VectorBuilder::mul(Lane lane, VReg a, VReg b) {
  if (is_float(lane)) return op2(Op::vmulps, Op::vmulpd, lane, a, b);
  if (lane == Lane::i64 && !is_avx512()) return mul_i64(a, b);
  return op2(Op::vpmulld, Op::vpmullq, lane, a, b);
}

/// Low 64 bits from three 32-bit products.
SINTER_DECL VReg VectorBuilder::mul_i64(VReg a, VReg b) {
  const Lane lane = Lane::i64;
  VReg cross = add(lane, out(lane, Op::vpmuludq, {shift_right(lane, a, 32), b}),
                   out(lane, Op::vpmuludq, {a, shift_right(lane, b, 32)}));
  return add(lane, out(lane, Op::vpmuludq, {a, b}), shift_left(lane, cross, 32));
}

/// AVX2 has no signed one of 64 bits: the bits of a negative number are turned over before and after.
SINTER_DECL VReg VectorBuilder::shift_right_by(Lane lane, VReg a, VReg count) {
  if (lane == Lane::i32 || is_avx512()) return op2(Op::vpsravd, Op::vpsravq, lane, a, count);
  VReg sign = out(lane, Op::vpcmpgtq, {imm_int(lane, 0), a});
  return bit_xor(lane, out(lane, Op::vpsrlvq, {bit_xor(lane, a, sign), count}), sign);
}

/// Whether a float vector is a constant other than NaN.
SINTER_DECL bool VectorBuilder::is_number(Lane lane, VReg a) const {
  if (!s_.is_constant(a) || s_.vregs()[a].element != size_of(lane)) return false;
  const std::uint64_t bits = s_.constant_bits(a);
  return lane == Lane::f32 ? (bits & 0x7FFFFFFF) <= 0x7F800000 : (bits & 0x7FFFFFFFFFFFFFFF) <= 0x7FF0000000000000;
}

/// vrange: which number, and in bits 2 and 3 its sign (the number's own, or none).
inline constexpr int range_minimum = 0b0100, range_maximum = 0b0101, range_least_magnitude = 0b1010;

SINTER_DECL VReg VectorBuilder::extremum(Lane lane, VReg a, VReg b, bool minimum) {
  if (lane == Lane::i32) return out(lane, minimum ? Op::vpminsd : Op::vpmaxsd, {a, b});
  if (lane == Lane::i64 && is_avx512()) return out(lane, minimum ? Op::vpminsq : Op::vpmaxsq, {a, b});
  if (lane == Lane::i64) return select(lane, compare(lane, Compare::lt, minimum ? a : b, minimum ? b : a), a, b);
  if (is_number(lane, a)) return extremum_with(lane, a, b, minimum);
  if (is_number(lane, b)) return extremum_with(lane, b, a, minimum);
  VReg result = number_extremum(lane, a, b, minimum);
  if (!is_avx512()) return result;
  VReg is_nan = compare(lane, Compare::unordered, a, b);
  Instruction& i = s_.emit(lane == Lane::f32 ? Op::vaddps : Op::vaddpd,
                           {vec(result, bytes(lane)), vec(a, bytes(lane)), vec(b, bytes(lane))});
  i.reads_first = true;  // where either is NaN the sum is
  i.mask = is_nan;
  return result;
}

/// The machine's operation gives its second operand when either is NaN, and between zeros: right for a constant first,
/// but between zeros of which the constant is the one to give.
SINTER_DECL VReg VectorBuilder::extremum_with(Lane lane, VReg constant, VReg x, bool minimum) {
  const std::uint64_t bits = s_.constant_bits(constant),
                      sign = lane == Lane::f32 ? 0x80000000u : std::uint64_t{1} << 63;
  VReg result = minimum ? min_raw(lane, constant, x) : max_raw(lane, constant, x);
  if (!minimum && bits == 0) return add(lane, result, constant);  // -0 + 0 is 0
  if (minimum && bits == sign) return neg(lane, add(lane, neg(lane, result), imm_float(lane, 0)));
  return result;
}

/// AVX2: the operation both ways round. The two differ where one operand is NaN or both are zeros. Their or is NaN
/// there, or the lesser zero; for the larger zero that difference is taken off again (as V8 does for WebAssembly).
SINTER_DECL VReg VectorBuilder::number_extremum(Lane lane, VReg a, VReg b, bool minimum) {
  if (is_avx512()) {
    VReg r = s_.new_vec(bytes(lane));
    s_.emit(lane == Lane::f32 ? Op::vrangeps : Op::vrangepd,
            {vec(r, bytes(lane)), vec(a, bytes(lane)), vec(b, bytes(lane)), immediate()},
            minimum ? range_minimum : range_maximum);
    return r;
  }
  if (minimum) return bit_or(lane, min_raw(lane, a, b), min_raw(lane, b, a));
  VReg one_way = max_raw(lane, a, b), difference = bit_xor(lane, one_way, max_raw(lane, b, a));
  return sub(lane, bit_or(lane, one_way, difference), difference);
}

/// |x|, but at most `limit`; for NaN some number in that range, or NaN.
SINTER_DECL VReg VectorBuilder::min_magnitude(Lane lane, VReg x, double limit) {
  if (!is_avx512()) return min_raw(lane, abs(lane, x), imm_float(lane, limit));
  VReg r = s_.new_vec(bytes(lane));
  s_.emit(lane == Lane::f32 ? Op::vrangeps : Op::vrangepd,
          {vec(r, bytes(lane)), vec(x, bytes(lane)), vec(imm_float(lane, limit), bytes(lane)), immediate()},
          range_least_magnitude);
  return r;
}

SINTER_DECL VReg VectorBuilder::or_sign(Lane lane, VReg x, VReg sign) {
  const VReg bit = imm_float(lane, -0.0);
  if (!is_avx512()) return bit_or(lane, x, bit_and(lane, sign, bit));
  constexpr int first_or_both_others = 0xF8;  // the table of x | (sign & bit)
  Instruction& i =
      s_.emit(lane == Lane::f32 ? Op::vpternlogd : Op::vpternlogq,
              {vec(x, bytes(lane)), vec(sign, bytes(lane)), vec(bit, bytes(lane)), immediate()}, first_or_both_others);
  i.reads_first = true;
  return x;
}

SINTER_DECL VReg VectorBuilder::neg(Lane lane, VReg a) {
  if (!is_float(lane)) return sub(lane, imm_int(lane, 0), a);
  return bit_xor(lane, a, imm_float(lane, -0.0));
}

SINTER_DECL VReg VectorBuilder::abs(Lane lane, VReg a) {
  if (lane == Lane::f32) return bit_and(lane, a, imm_bits(lane, 0x7FFFFFFF));
  if (lane == Lane::f64) return bit_and(lane, a, imm_bits(lane, 0x7FFFFFFFFFFFFFFF));
  if (lane == Lane::i32) return out(lane, Op::vpabsd, {a});
  if (is_avx512()) return out(lane, Op::vpabsq, {a});
  VReg sign = out(lane, Op::vpcmpgtq, {imm_int(lane, 0), a});
  return sub(lane, bit_xor(lane, a, sign), sign);
}

SINTER_DECL VReg VectorBuilder::round(Lane lane, VReg a, Rounding mode) {
  Op op = is_avx512() ? (lane == Lane::f32 ? Op::vrndscaleps : Op::vrndscalepd)
                      : (lane == Lane::f32 ? Op::vroundps : Op::vroundpd);
  VReg r = s_.new_vec(bytes(lane));
  s_.emit(op, {vec(r, bytes(lane)), vec(a, bytes(lane)), immediate()}, static_cast<int>(mode));
  return r;
}

namespace x86_detail {
/// What scaling by powers of two takes of a float's format.
struct Exponents {
  int mantissa, bias;
  explicit Exponents(Lane lane) : mantissa(lane == Lane::f32 ? 23 : 52), bias(lane == Lane::f32 ? 127 : 1023) {}
  int lowest() const { return 1 - bias; }  // of a normal number
  int least() const { return lowest() - mantissa; }
  double unit() const { return std::ldexp(1.0, mantissa); }  // from here on to its double the last bit is 1
  double field() const { return unit() + bias; }             // plus n: the exponent field of 2^n in the low bits
};
}  // namespace x86_detail

/// Where the result is normal, or not finite; 0 elsewhere, without the hundreds of cycles that a machine takes to make
/// a subnormal number. AVX2 has no vscalef: two factors 2^h and 2^(n-h) made by adding to a number whose unit is its
/// last bit, so that the exponent field falls out of a shift. With x near 1 both products are exact.
SINTER_DECL VReg VectorBuilder::scale_normal(Lane lane, VReg is_normal, VReg x, VReg n) {
  if (is_avx512()) {
    VReg r = out(lane, lane == Lane::f32 ? Op::vscalefps : Op::vscalefpd, {x, n});
    s_.last().mask = is_normal;
    s_.last().zeroing = true;
    return r;
  }
  const x86_detail::Exponents of(lane);
  VReg bounded = min_raw(lane, imm_float(lane, 2 * of.bias - 2), bit_and(lane, n, is_normal));
  VReg half = fma(lane, bounded, imm_float(lane, 0.5), imm_float(lane, of.field()));
  VReg rest = add(lane, sub(lane, bounded, sub(lane, half, imm_float(lane, of.field()))), imm_float(lane, of.field()));
  VReg first = mul(lane, x, shift_left(lane, half, of.mantissa));
  return bit_and(lane, mul(lane, first, shift_left(lane, rest, of.mantissa)), is_normal);
}

/// Puts x * 2^n into `result` there. The bits of a subnormal number are how many of the least one it is: added to a
/// number whose last bit is 1 that count is rounded, and lies in the low bits.
SINTER_DECL void VectorBuilder::scale_subnormal(Lane lane, VReg result, VReg is_subnormal, VReg x, VReg n) {
  const x86_detail::Exponents of(lane);
  VReg unit = imm_float(lane, of.unit()), places = add(lane, n, imm_float(lane, -of.least()));
  if (!is_avx512()) {
    VReg exponent = add(lane, bit_and(lane, places, is_subnormal), imm_float(lane, of.field()));
    VReg sum = add(lane, mul(lane, x, shift_left(lane, exponent, of.mantissa)), unit);
    return assign(lane, result, select(lane, is_subnormal, bit_xor(lane, sum, unit), result));
  }
  VReg count = out(lane, lane == Lane::f32 ? Op::vscalefps : Op::vscalefpd, {x, places});
  s_.last().mask = is_subnormal;
  s_.last().zeroing = true;
  Instruction& i =
      s_.emit_vectors(lane == Lane::f32 ? Op::vxorps : Op::vxorpd, bytes(lane), result, {add(lane, count, unit), unit});
  i.mask = is_subnormal;
  i.reads_first = true;
}

SINTER_DECL VReg VectorBuilder::scale(Lane lane, VReg x, VReg n) {
  const x86_detail::Exponents of(lane);
  const int is_done = s_.new_label();
  VReg is_normal = compare(lane, Compare::not_lt, n, imm_float(lane, of.lowest()));
  VReg result = scale_normal(lane, is_normal, x, n);
  jump_if_all(lane, is_normal, is_done);
  VReg is_subnormal = mask_and_not(is_normal, compare(lane, Compare::le, imm_float(lane, of.least() - 1), n));
  scale_subnormal(lane, result, is_subnormal, x, n);
  s_.bind(is_done);
  return result;
}

// Conversions ------------------------------------------------------------------------------------------------------

SINTER_DECL VReg VectorBuilder::convert(Lane from, Lane to, VReg a) {
  return is_float(from) && !is_float(to) ? saturate(from, to, a) : convert_unchecked(from, to, a);
}

/// The machine makes the least integer of all that does not fit, which is right below the range.
SINTER_DECL VReg VectorBuilder::saturate(Lane from, Lane to, VReg a) {
  const bool narrow = to == Lane::i32;
  VReg number = select(from, compare(from, Compare::unordered, a, a), imm_float(from, 0), a);
  if (narrow && from == Lane::f64)
    return convert_unchecked(from, to, min_raw(from, imm_float(from, 2147483647.0), number));
  VReg is_above = compare(from, Compare::le, imm_float(from, narrow ? 0x1p31 : 0x1p63), a);
  VReg largest =
      imm_int(to, narrow ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max());
  return select(to, resize_mask(is_above, size_of(from), size_of(to)), largest, convert_unchecked(from, to, number));
}

SINTER_DECL VReg VectorBuilder::convert_unchecked(Lane from, Lane to, VReg a) {
  if (from == to) return a;
  const int in = bytes(from), width = bytes(to);
  const bool wide = is_avx512();
  switch (from) {
    case Lane::i32:
      if (to == Lane::f32) return unary(Op::vcvtdq2ps, a, width, in);
      if (to == Lane::f64) return unary(Op::vcvtdq2pd, a, width, in);
      return unary(Op::vpmovsxdq, a, width, in);
    case Lane::f32:
      if (to == Lane::i32) return unary(Op::vcvttps2dq, a, width, in);
      if (to == Lane::f64) return unary(Op::vcvtps2pd, a, width, in);
      return wide ? unary(Op::vcvttps2qq, a, width, in) : convert_by_lane(from, to, a);
    case Lane::f64:
      if (to == Lane::i32) return unary(Op::vcvttpd2dq, a, width, in);
      if (to == Lane::f32) return unary(Op::vcvtpd2ps, a, width, in);
      return wide ? unary(Op::vcvttpd2qq, a, width, in) : convert_by_lane(from, to, a);
    case Lane::i64:
      if (to == Lane::i32) return wide ? unary(Op::vpmovqd, a, width, in) : resize_mask(a, 8, 4);
      if (to == Lane::f32) return wide ? unary(Op::vcvtqq2ps, a, width, in) : convert_by_lane(from, to, a);
      return wide ? unary(Op::vcvtqq2pd, a, width, in) : convert_by_lane(from, to, a);
  }
  return a;
}

/// AVX2 between i64 and floats: each lane through a scalar conversion. Clobbers rax.
SINTER_DECL VReg VectorBuilder::convert_by_lane(Lane from, Lane to, VReg a) {
  const int source = s_.frame(64, 64), target = s_.frame(64, 64);
  store_whole(from, CodeStream::slot(source), a);
  for (int lane = 0; lane < lanes_; ++lane) {
    Mem in = CodeStream::slot(source + lane * size_of(from)), result = CodeStream::slot(target + lane * size_of(to));
    if (from == Lane::i64) {
      VReg scalar = s_.new_vec(16);
      s_.emit(Op::vxorps, {vec(scalar, 16), vec(scalar, 16), vec(scalar, 16)});
      VReg converted = s_.new_vec(16);
      s_.emit(to == Lane::f32 ? Op::vcvtsi2ss : Op::vcvtsi2sd, {vec(converted, 16), vec(scalar, 16), mem(8)}, in);
      s_.emit(to == Lane::f32 ? Op::vmovss : Op::vmovsd, {mem(size_of(to)), vec(converted, 16)}, result).only_reads =
          true;
    } else {
      s_.emit(from == Lane::f32 ? Op::vcvttss2si : Op::vcvttsd2si, {reg(Gpr::rax), mem(size_of(from))}, in);
      s_.mov(result, Gpr::rax);
    }
  }
  return load_whole(to, CodeStream::slot(target));
}

SINTER_DECL VReg VectorBuilder::to_int(Lane lane, VReg a) {
  if (lane == Lane::f32) return unary(Op::vcvtps2dq, a, bytes(lane), bytes(lane));
  if (is_avx512()) return unary(Op::vcvtpd2qq, a, bytes(lane), bytes(lane));
  VReg magic = imm_float(lane, 6755399441055744.0);  // 1.5 * 2^52: its last bit counts ones
  return sub(Lane::i64, add(Lane::f64, a, magic), magic);
}

SINTER_DECL VReg VectorBuilder::from_int(Lane lane, VReg a) {
  if (lane == Lane::f32) return unary(Op::vcvtdq2ps, a, bytes(lane), bytes(lane));
  if (is_avx512()) return unary(Op::vcvtqq2pd, a, bytes(lane), bytes(lane));
  VReg magic = imm_float(lane, 6755399441055744.0);
  return sub(Lane::f64, add(Lane::i64, a, magic), magic);
}

// Masks --------------------------------------------------------------------------------------------------------------

SINTER_DECL VReg VectorBuilder::compare(Lane lane, Compare relation, VReg a, VReg b) {
  const int width = bytes(lane);
  if (is_float(lane)) {
    constexpr int predicates[] = {0, 4, 17, 18, 3, 21};  // EQ_OQ, NEQ_UQ, LT_OQ, LE_OQ, UNORD_Q, NLT_UQ
    VReg r = is_avx512() ? s_.new_mask() : s_.new_vec(width);
    s_.emit(lane == Lane::f32 ? Op::vcmpps : Op::vcmppd,
            {is_avx512() ? kreg(r) : vec(r, width), vec(a, width), vec(b, width), immediate()},
            predicates[as_index(relation)]);
    return r;
  }
  if (is_avx512()) {
    constexpr int predicates[] = {0, 4, 1, 2, 3, 5};
    VReg r = s_.new_mask();
    s_.emit(lane == Lane::i32 ? Op::vpcmpd : Op::vpcmpq, {kreg(r), vec(a, width), vec(b, width), immediate()},
            predicates[as_index(relation)]);
    return r;
  }
  const Op equal = lane == Lane::i32 ? Op::vpcmpeqd : Op::vpcmpeqq,
           greater = lane == Lane::i32 ? Op::vpcmpgtd : Op::vpcmpgtq;
  switch (relation) {
    case Compare::eq: return out(lane, equal, {a, b});
    case Compare::ne: return bit_not(lane, out(lane, equal, {a, b}));
    case Compare::lt: return out(lane, greater, {b, a});
    case Compare::le: return bit_not(lane, out(lane, greater, {a, b}));
    case Compare::unordered: return mask_constant(false);
    case Compare::not_lt: break;
  }
  return bit_not(lane, out(lane, greater, {b, a}));
}

SINTER_DECL VReg VectorBuilder::select(Lane lane, VReg mask, VReg a, VReg b) {
  const int width = bytes(lane);
  VReg r = s_.new_vec(width);
  if (is_avx512()) {
    Instruction& i =
        s_.emit(size_of(lane) == 4 ? Op::vblendmps : Op::vblendmpd, {vec(r, width), vec(b, width), vec(a, width)});
    i.mask = mask;
  } else {
    s_.emit(size_of(lane) == 4 ? Op::vblendvps : Op::vblendvpd,
            {vec(r, width), vec(b, width), vec(a, width), vec(mask, width)});
  }
  return r;
}

SINTER_DECL VReg VectorBuilder::mask_op(Op k_op, Op vector_op, VReg a, VReg b) {
  if (is_avx512()) {
    VReg r = s_.new_mask();
    s_.emit(k_op, {kreg(r), kreg(a), kreg(b)});
    return r;
  }
  const int width = s_.vregs()[a].bytes;
  VReg r = s_.new_vec(width);
  s_.emit(vector_op, {vec(r, width), vec(a, width), vec(b, width)});
  return r;
}

SINTER_DECL VReg VectorBuilder::mask_not(VReg a) {
  if (!is_avx512()) return mask_xor(a, s_.constant(~0ull, 8, s_.vregs()[a].bytes));
  VReg r = s_.new_mask();
  s_.emit(Op::knotw, {kreg(r), kreg(a)});
  return r;
}

SINTER_DECL void VectorBuilder::clear_mask(Lane lane, VReg mask) {
  if (is_avx512()) {
    s_.emit(Op::kxorw, {kreg(mask), kreg(mask), kreg(mask)});
    return;
  }
  const int width = bytes(lane);
  s_.emit(Op::vxorps, {vec(mask, width), vec(mask, width), vec(mask, width)});
}
SINTER_DECL void VectorBuilder::merge_mask(VReg to, VReg other) {
  if (is_avx512()) {
    s_.emit(Op::korw, {kreg(to), kreg(to), kreg(other)});
    return;
  }
  const int width = s_.vregs()[to].bytes;
  s_.emit(Op::vorps, {vec(to, width), vec(to, width), vec(other, width)});
}

SINTER_DECL VReg VectorBuilder::mask_constant(bool value) {
  if (!is_avx512()) return s_.constant(value ? ~0ull : 0, 8, 32);
  VReg r = s_.new_mask();
  s_.mov_imm(Gpr::rax, value ? 0xFFFF : 0);
  s_.emit(Op::kmovw, {kreg(r), reg(Gpr::rax, 4)});
  return r;
}

/// AVX2: elements of `from` bytes to elements of `to` bytes; also truncates i64 to i32.
SINTER_DECL VReg VectorBuilder::resize_mask(VReg mask, int from, int to) {
  if (is_avx512() || from == to) return mask;
  const int in = std::max(16, lanes_ * from), width = std::max(16, lanes_ * to);
  if (from < to) return unary(Op::vpmovsxdq, mask, width, in);
  if (in == 16) {
    VReg r = s_.new_vec(16);
    s_.emit(Op::vshufps, {vec(r, 16), vec(mask, 16), vec(mask, 16), immediate()}, 0x88);
    return r;
  }
  VReg high = s_.new_vec(16), r = s_.new_vec(16);
  s_.emit(Op::vextractf128, {vec(high, 16), vec(mask, 32), immediate()}, 1);
  s_.emit(Op::vshufps, {vec(r, 16), vec(mask, 16), vec(high, 16), immediate()}, 0x88);
  return r;
}

SINTER_DECL void VectorBuilder::assign_where(Lane lane, VReg to, VReg value, const Tail& tail) {
  if (!tail.active()) return assign(lane, to, value);
  const int width = bytes(lane);
  if (is_avx512()) {
    Instruction& i = s_.emit(size_of(lane) == 4 ? Op::vmovaps : Op::vmovupd, {vec(to, width), vec(value, width)});
    i.mask = tail.mask;
    i.reads_first = true;
    return;
  }
  Instruction& i =
      s_.emit(size_of(lane) == 4 ? Op::vblendvps : Op::vblendvpd,
              {vec(to, width), vec(to, width), vec(value, width), vec(as_element(tail.mask, size_of(lane)), width)});
  static_cast<void>(i);
}

}  // namespace x86
SINTER_NAMESPACE_END
