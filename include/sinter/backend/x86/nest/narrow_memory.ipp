// Memory operations of VectorBuilder for dtypes that are computed in wider ones: elements are widened as they are
// loaded, and stored in as many bytes as they have. Integers are already numbers of their dtype; floats round to
// nearest even.
#pragma once

#include <sinter/backend/x86/nest/vector_builder.hpp>

#include <sinter/base/index.hpp>

#include <bit>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

/// From elements in memory or in the low part of a register.
inline Op widening_of(DType dtype) {
  if (dtype == DType::f16) return Op::vcvtph2ps;
  const bool is_signed = is_integer(dtype) && row(dtype).is_signed;  // floats are moved up then
  switch (sinter::size_of(dtype)) {
    case 1: return is_signed ? Op::vpmovsxbd : Op::vpmovzxbd;
    case 2: return is_signed ? Op::vpmovsxwd : Op::vpmovzxwd;
    default: return Op::vpmovzxdq;  // u32
  }
}

/// A float that is neither f16 nor bf16, for which processors have instructions or a shift.
inline bool is_other_half(DType dtype) { return is_half(dtype) && dtype != DType::f16 && dtype != DType::bf16; }

}  // namespace x86_detail

SINTER_DECL VReg VectorBuilder::load_narrow(DType dtype, Mem m, const Tail& tail) {
  const Lane lane = lane_of(dtype);
  const int width = bytes(lane), size = static_cast<int>(sinter::size_of(dtype));
  const bool is_masked = tail.active() && is_avx512();
  if (tail.active() && !is_masked) {
    const int copy = s_.frame(32, 32);
    const VReg none = imm_int(Lane::i32, 0);
    s_.emit(Op::vmovups, {mem(bytes(Lane::i32)), vec(none, bytes(Lane::i32))}, CodeStream::slot(copy)).only_reads =
        true;
    copy_elements(CodeStream::slot(copy), m, tail.count_slot, size);
    m = CodeStream::slot(copy);
  }
  const VReg r = s_.new_vec(width);
  Instruction& i = s_.emit(x86_detail::widening_of(dtype), {vec(r, width), mem(lanes_ * size)}, m);
  if (is_masked) {
    i.mask = tail.mask;
    i.zeroing = true;
  }
  if (x86_detail::is_other_half(dtype)) return small_float_value(dtype, r);
  return dtype == DType::bf16 ? shift_left(Lane::i32, r, 16) : r;
}

SINTER_DECL VReg VectorBuilder::load_narrow_broadcast(DType dtype, Mem m) {
  const int size = static_cast<int>(sinter::size_of(dtype));
  if (size == 4) s_.emit(Op::mov, {reg(Gpr::rax, 4), mem(4)}, m);
  else s_.emit(Op::movzx, {reg(Gpr::rax, 4), mem(size)}, m);
  const auto shift = [&](Op op, int count) { s_.emit(op, {reg(Gpr::rax, 4), immediate()}, count); };
  if (dtype == DType::bf16) shift(Op::shl, 16);
  if (is_integer(dtype) && row(dtype).is_signed && size < 4) {
    shift(Op::shl, 32 - 8 * size);
    shift(Op::sar, 32 - 8 * size);
  }
  if (x86_detail::is_other_half(dtype)) return small_float_value(dtype, broadcast_gpr(Lane::i32, Gpr::rax));
  if (dtype != DType::f16) return broadcast_gpr(lane_of(dtype), Gpr::rax);
  const VReg half = s_.new_vec(16), first = s_.new_vec(16);
  s_.emit(Op::vmovd, {vec(half, 16), reg(Gpr::rax, 4)});
  s_.emit(Op::vcvtph2ps, {vec(first, 16), vec(half, 16)});
  return broadcast_first(Lane::f32, first);
}

/// A float vector's bf16 in the low halves of i32 lanes; above them zeros.
SINTER_DECL VReg VectorBuilder::bf16_bits(VReg value) {
  const Lane i32 = Lane::i32;
  const VReg upper = shift_right(i32, value, 16);
  const VReg half = add(i32, imm_int(i32, 0x7FFF), bit_and(i32, upper, imm_int(i32, 1)));
  const VReg near = shift_right(i32, add(i32, value, half), 16);
  const VReg is_nan = compare(Lane::f32, Compare::unordered, value, value);
  return select(i32, is_nan, bit_or(i32, upper, imm_int(i32, 0x40)), near);
}

SINTER_DECL VReg VectorBuilder::f16_bits(VReg value) {
  const int width = bytes(Lane::f32);
  const VReg r = s_.new_vec(std::max(16, width / 2));
  s_.emit(Op::vcvtps2ph, {vec(r, std::max(16, width / 2)), vec(value, width), immediate()}, 0);
  return r;
}

/// From the low part of i32 lanes, above which are zeros, by the row's bits. An exponent that is moved into place is
/// too small, which a product mends; subnormal numbers come out right, too.
SINTER_DECL VReg VectorBuilder::small_float_value(DType dtype, VReg bits) {
  const Lane i32 = Lane::i32, f32 = Lane::f32;
  const DTypeRow& format = row(dtype);
  const int sign_place = 8 * format.size - 1, dropped = 23 - format.fraction_bits, all = (1 << sign_place) - 1;
  const int least_odd = format.has_infinity ? all - (1 << format.fraction_bits) + 1 : all;
  const VReg size = bit_and(i32, bits, imm_int(i32, all));
  const VReg sign = shift_left(i32, bit_and(i32, bits, imm_int(i32, 1 << sign_place)), 31 - sign_place);
  const VReg moved = shift_left(i32, size, dropped);
  const VReg number = mul(f32, moved, imm_float(f32, DTypeRow::power_of_two(127 - format.bias())));
  const VReg odd = bit_or(i32, moved, imm_int(i32, 0x7F800000));  // infinite, or NaN with its bits
  const VReg is_odd = compare(i32, Compare::le, imm_int(i32, least_odd), size);
  return bit_or(i32, sign, select(i32, is_odd, odd, number));
}

/// The low part of i32 lanes, above which are zeros: as small_float in tensor/half.hpp.
SINTER_DECL VReg VectorBuilder::small_float_bits(DType dtype, VReg value) {
  const Lane i32 = Lane::i32, f32 = Lane::f32;
  const DTypeRow& format = row(dtype);
  const int sign_place = 8 * format.size - 1, dropped = 23 - format.fraction_bits, all = (1 << sign_place) - 1;
  const int bias = 127 - format.bias();
  const int most = format.has_infinity ? all - (1 << format.fraction_bits) + 1 : all - 1;
  const VReg size = bit_and(i32, value, imm_int(i32, 0x7FFFFFFF));
  const VReg sign = bit_and(i32, shift_right(i32, value, 31 - sign_place), imm_int(i32, 1 << sign_place));
  const VReg is_odd = bit_and(i32, shift_right(i32, size, dropped), imm_int(i32, 1));
  const VReg moved = add(i32, size, imm_int(i32, (1 << (dropped - 1)) - 1 - (bias << 23)));
  const VReg near = min(i32, shift_right(i32, add(i32, moved, is_odd), dropped), imm_int(i32, most));
  const VReg offset = imm_float(f32, DTypeRow::power_of_two(24 - format.bias() - format.fraction_bits));
  const VReg small = sub(i32, add(f32, size, offset), offset);
  const VReg is_small = compare(i32, Compare::lt, size, imm_int(i32, (bias + 1) << 23));
  const VReg is_nan = compare(f32, Compare::unordered, value, value);
  const VReg magnitude = select(i32, is_nan, imm_int(i32, all), select(i32, is_small, small, near));
  return bit_or(i32, sign, magnitude);
}

/// AVX2: the elements of a narrow dtype side by side in 16 bytes.
SINTER_DECL VReg VectorBuilder::packed(DType dtype, VReg value) {
  if (dtype == DType::f16) return f16_bits(value);
  if (dtype == DType::bf16) value = bf16_bits(value);
  if (x86_detail::is_other_half(dtype)) value = small_float_bits(dtype, value);
  VReg high = value;
  if (bytes(lane_of(dtype)) == 32) {
    high = s_.new_vec(16);
    s_.emit(Op::vextractf128, {vec(high, 16), vec(value, 32), immediate()}, 1);
  }
  const VReg words = s_.new_vec(16);
  if (dtype == DType::u32) {  // the low halves of two and two
    s_.emit(Op::vshufps, {vec(words, 16), vec(value, 16), vec(high, 16), immediate()}, 0x88);
    return words;
  }
  const bool is_signed = row(dtype).is_signed && !is_floating(dtype);
  s_.emit(is_signed ? Op::vpackssdw : Op::vpackusdw, {vec(words, 16), vec(value, 16), vec(high, 16)});
  if (sinter::size_of(dtype) == 2) return words;
  const VReg packed_bytes = s_.new_vec(16);
  s_.emit(is_signed ? Op::vpacksswb : Op::vpackuswb, {vec(packed_bytes, 16), vec(words, 16), vec(words, 16)});
  return packed_bytes;
}

SINTER_DECL void VectorBuilder::store_narrow(DType dtype, Mem m, VReg value, const Tail& tail) {
  const int size = static_cast<int>(sinter::size_of(dtype)), width = bytes(lane_of(dtype));
  if (is_avx512()) {
    if (dtype == DType::bf16) value = bf16_bits(value);
    if (x86_detail::is_other_half(dtype)) value = small_float_bits(dtype, value);
    const Op op = dtype == DType::f16 ? Op::vcvtps2ph : size == 1 ? Op::vpmovdb : size == 2 ? Op::vpmovdw : Op::vpmovqd;
    Instruction& i = dtype == DType::f16 ? s_.emit(op, {mem(lanes_ * size), vec(value, width), immediate()}, m, 0)
                                         : s_.emit(op, {mem(lanes_ * size), vec(value, width)}, m);
    i.mask = tail.mask;
    i.only_reads = true;
    return;
  }
  const int used = lanes_ * size;
  const Op move = used == 16 ? Op::vmovups : used == 8 ? Op::vmovq : Op::vmovd;
  const VReg elements = packed(dtype, value);
  if (!tail.active()) {
    s_.emit(move, {mem(used), vec(elements, 16)}, m).only_reads = true;
    return;
  }
  const int copy = s_.frame(16, 16);
  s_.emit(Op::vmovups, {mem(16), vec(elements, 16)}, CodeStream::slot(copy)).only_reads = true;
  copy_elements(m, CodeStream::slot(copy), tail.count_slot, size);
}

SINTER_DECL void VectorBuilder::store_narrow_scalar(DType dtype, Mem m, VReg value) {
  const int size = static_cast<int>(sinter::size_of(dtype));
  const VReg bits = dtype == DType::f16                ? f16_bits(value)
                    : dtype == DType::bf16             ? bf16_bits(value)
                    : x86_detail::is_other_half(dtype) ? small_float_bits(dtype, value)
                                                       : value;
  s_.emit(Op::vmovd, {reg(Gpr::rax, 4), vec(bits, 16)});
  s_.emit(Op::mov, {mem(size), reg(Gpr::rax, size)}, m).only_reads = true;
}

}  // namespace x86
SINTER_NAMESPACE_END
