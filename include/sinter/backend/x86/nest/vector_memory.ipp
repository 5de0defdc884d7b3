// Memory operations of VectorBuilder: whole and partial vectors, broadcasts, single elements, and bool_ bytes to masks
// and back. Partial accesses touch no byte outside the elements that exist.
#pragma once

#include <sinter/backend/x86/nest/vector_builder.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL Tail VectorBuilder::make_tail(Gpr count, Gpr clobbered, int count_slot, bool wants_count) {
  Tail tail{.count_slot = count_slot};
  if (wants_count) {
    s_.mov_imm(clobbered, lanes_);
    s_.binary(Op::cmp, count, clobbered);
    s_.binary(Op::cmovl, clobbered, count);
    s_.mov(CodeStream::slot(count_slot), clobbered);
  }
  if (is_avx512()) {
    tail.mask = s_.new_mask();
    s_.mov_imm(clobbered, (1 << lanes_) - 1);
    s_.emit(Op::bzhi, {reg(clobbered, 4), reg(clobbered, 4), reg(count, 4)});
    s_.emit(Op::kmovw, {kreg(tail.mask), reg(clobbered, 4)});
  } else {
    const Lane lane = mask_element() == 4 ? Lane::i32 : Lane::i64;
    tail.mask = compare(lane, Compare::lt, iota(lane), broadcast_gpr(lane, count));
  }
  return tail;
}

SINTER_DECL VReg VectorBuilder::load_whole(Lane lane, Mem m) {
  VReg r = s_.new_vec(bytes(lane));
  s_.emit(Op::vmovups, {vec(r, bytes(lane)), mem(bytes(lane))}, m);
  return r;
}

SINTER_DECL VReg VectorBuilder::load(DType dtype, Mem m, const Tail& tail) {
  if (dtype == DType::bool_) return mask_from_bytes(m, tail);
  if (is_narrow(dtype)) return load_narrow(dtype, m, tail);
  const Lane lane = lane_of(dtype);
  const int width = bytes(lane);
  if (!tail.active()) return load_whole(lane, m);
  VReg r = s_.new_vec(width);
  const bool narrow = size_of(lane) == 4;
  if (is_avx512()) {
    Instruction& i = s_.emit(narrow ? Op::vmovups : Op::vmovupd, {vec(r, width), mem(width)}, m);
    i.mask = tail.mask;
    i.zeroing = true;
  } else {
    VReg mask = as_element(tail.mask, size_of(lane));
    s_.emit(narrow ? Op::vmaskmovps : Op::vmaskmovpd, {vec(r, width), vec(mask, width), mem(width)}, m);
  }
  return r;
}

SINTER_DECL void VectorBuilder::store(DType dtype, Mem m, VReg value, const Tail& tail) {
  if (dtype == DType::bool_) return mask_to_bytes(m, value, tail);
  if (is_narrow(dtype)) return store_narrow(dtype, m, value, tail);
  const Lane lane = lane_of(dtype);
  const int width = bytes(lane);
  if (!tail.active()) return store_whole(lane, m, value);
  const bool narrow = size_of(lane) == 4;
  if (is_avx512()) {
    Instruction& i = s_.emit(narrow ? Op::vmovups : Op::vmovupd, {mem(width), vec(value, width)}, m);
    i.mask = tail.mask;
    i.only_reads = true;
  } else {
    VReg mask = as_element(tail.mask, size_of(lane));
    s_.emit(narrow ? Op::vmaskmovps : Op::vmaskmovpd, {mem(width), vec(mask, width), vec(value, width)}, m).only_reads =
        true;
  }
}

SINTER_DECL void VectorBuilder::store_streaming(DType dtype, Mem m, VReg value) {
  const int width = bytes(lane_of(dtype));
  s_.emit(Op::vmovntps, {mem(width), vec(value, width)}, m).only_reads = true;
}

SINTER_DECL void VectorBuilder::jump_if_none(VReg mask, int to) {
  const int width = s_.vregs()[mask].bytes;
  if (is_avx512()) s_.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(mask)});
  else s_.emit(Op::vmovmskps, {reg(Gpr::rax, 4), vec(mask, width)});
  s_.emit(Op::test, {reg(Gpr::rax, 4), reg(Gpr::rax, 4)}).only_reads = true;
  s_.jump(Op::je, to);
}

SINTER_DECL void VectorBuilder::jump_if_all(Lane lane, VReg mask, int to) {
  const int width = bytes(lane), elements = width / (is_avx512() ? size_of(lane) : 4);
  if (is_avx512()) s_.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(mask)});
  else s_.emit(Op::vmovmskps, {reg(Gpr::rax, 4), vec(mask, width)});
  s_.binary_imm(Op::cmp, Gpr::rax, (1 << elements) - 1);
  s_.jump(Op::je, to);
}

SINTER_DECL VReg VectorBuilder::load_broadcast(DType dtype, Mem m) {
  if (is_narrow(dtype)) return load_narrow_broadcast(dtype, m);
  if (dtype == DType::bool_) {
    s_.emit(Op::movzx, {reg(Gpr::rax, 4), mem(1)}, m);
    s_.emit(Op::neg, {reg(Gpr::rax, 4)});
    if (!is_avx512()) return with_lanes(8).broadcast_gpr(Lane::i32, Gpr::rax);
    VReg r = s_.new_mask();
    s_.emit(Op::kmovw, {kreg(r), reg(Gpr::rax, 4)});
    return r;
  }
  const Lane lane = lane_of(dtype);
  const int width = bytes(lane);
  VReg r = s_.new_vec(width);
  Op op = size_of(lane) == 4 ? Op::vbroadcastss : width == 16 ? Op::vpbroadcastq : Op::vbroadcastsd;
  s_.emit(op, {vec(r, width), mem(size_of(lane))}, m);
  return r;
}

SINTER_DECL void VectorBuilder::store_scalar(DType dtype, Mem m, VReg value) {
  if (is_narrow(dtype)) return store_narrow_scalar(dtype, m, value);
  if (dtype == DType::bool_) {
    if (is_avx512()) s_.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(value)});
    else s_.emit(Op::vmovd, {reg(Gpr::rax, 4), vec(value, 16)});
    s_.emit(Op::and_, {reg(Gpr::rax, 4), immediate()}, 1);
    s_.emit(Op::mov, {mem(1), reg(Gpr::rax, 1)}, m).only_reads = true;
    return;
  }
  const int size = size_of(lane_of(dtype));
  s_.emit(size == 4 ? Op::vmovss : Op::vmovsd, {mem(size), vec(value, 16)}, m).only_reads = true;
}

SINTER_DECL VReg VectorBuilder::broadcast_gpr(Lane lane, Gpr r) {
  const int width = bytes(lane), size = size_of(lane);
  const Op op = size == 4 ? Op::vpbroadcastd : Op::vpbroadcastq;
  VReg result = s_.new_vec(width);
  if (is_avx512()) {
    s_.emit(op, {vec(result, width), reg(r, size)});
    return result;
  }
  VReg first = s_.new_vec(16);
  s_.emit(size == 4 ? Op::vmovd : Op::vmovq, {vec(first, 16), reg(r, size)});
  s_.emit(op, {vec(result, width), vec(first, 16)});
  return result;
}

SINTER_DECL VReg VectorBuilder::broadcast_first(Lane lane, VReg a) {
  return unary(size_of(lane) == 4 ? Op::vbroadcastss : Op::vpbroadcastq, a, bytes(lane), 16);
}

SINTER_DECL void VectorBuilder::first_to_gpr(Lane lane, Gpr to, VReg a) {
  if (size_of(lane) == 8) {
    s_.emit(Op::vmovq, {reg(to), vec(a, 16)});
    return;
  }
  s_.emit(Op::vmovd, {reg(to, 4), vec(a, 16)});
  s_.emit(Op::movsxd, {reg(to), reg(to, 4)});
}

SINTER_DECL VReg VectorBuilder::upper_half(Lane lane, VReg a) {
  const int total = lanes_ * size_of(lane);
  VReg r = s_.new_vec(std::max(16, total / 2));
  if (total == 64) s_.emit(Op::vextractf64x4, {vec(r, 32), vec(a, 64), immediate()}, 1);
  else if (total == 32)
    s_.emit(is_avx512() ? Op::vextractf32x4 : Op::vextractf128, {vec(r, 16), vec(a, 32), immediate()}, 1);
  else if (total == 16) s_.emit(Op::vpermilpd, {vec(r, 16), vec(a, 16), immediate()}, 1);
  else s_.emit(Op::vpermilps, {vec(r, 16), vec(a, 16), immediate()}, 1);
  return r;
}

SINTER_DECL VReg VectorBuilder::upper_lanes(Lane lane, VReg a, int lanes) {
  const int total = lanes * size_of(lane);
  VReg r = s_.new_vec(bytes(lane));
  if (total == 64) s_.emit(Op::vextractf64x4, {vec(r, 32), vec(a, 64), immediate()}, 1);
  else if (total == 32)
    s_.emit(is_avx512() ? Op::vextractf32x4 : Op::vextractf128, {vec(r, 16), vec(a, 32), immediate()}, 1);
  else s_.emit(total == 16 ? Op::vpermilpd : Op::vpermilps, {vec(r, 16), vec(a, 16), immediate()}, 1);
  return r;
}

/// Copies the elements of 1, 2 or 4 bytes that exist, one at a time. Clobbers rax, rdx, r9. `from` or `to` may be based
/// on r9; the other is in the frame.
SINTER_DECL void VectorBuilder::copy_elements(Mem to, Mem from, int count_slot, int size) {
  const auto shift = static_cast<std::uint8_t>(std::countr_zero(static_cast<unsigned>(size)));
  const bool to_frame = to.base == Gpr::rsp;
  s_.emit(Op::lea, {reg(Gpr::r9), mem(8)}, to_frame ? from : to);
  const Mem outside = CodeStream::at(Gpr::r9, Gpr::rdx, shift);
  const Mem frame = CodeStream::at(Gpr::rsp, Gpr::rdx, shift, to_frame ? to.disp : from.disp);
  s_.mov(Gpr::rdx, CodeStream::slot(count_slot));
  const int again = s_.new_label();
  s_.bind(again);
  s_.binary_imm(Op::sub, Gpr::rdx, 1);
  s_.emit(size == 4 ? Op::mov : Op::movzx, {reg(Gpr::rax, 4), mem(size)}, to_frame ? outside : frame);
  s_.emit(Op::mov, {mem(size), reg(Gpr::rax, size)}, to_frame ? frame : outside).only_reads = true;
  s_.emit(Op::test, {reg(Gpr::rdx), reg(Gpr::rdx)}).only_reads = true;
  s_.jump(Op::jne, again);
}

/// Between so many bytes of memory and the low ones of a register.
inline Op move_of(int bytes) { return bytes == 16 ? Op::vmovups : bytes == 8 ? Op::vmovq : Op::vmovd; }

SINTER_DECL VReg VectorBuilder::mask_from_bytes(Mem m, const Tail& tail) {
  if (is_avx512()) {
    VReg raw = s_.new_vec(16), r = s_.new_mask();
    if (tail.active()) {
      Instruction& i = s_.emit(Op::vmovdqu8, {vec(raw, 16), mem(16)}, m);
      i.mask = tail.mask;
      i.zeroing = true;
    } else {
      s_.emit(move_of(lanes_), {vec(raw, 16), mem(lanes_)}, m);
    }
    s_.emit(Op::vptestmb, {kreg(r), vec(raw, 16), vec(raw, 16)});
    return r;
  }
  if (tail.active()) {
    const int copy = s_.frame(16);
    s_.mov_imm(CodeStream::slot(copy), 0);
    copy_elements(CodeStream::slot(copy), m, tail.count_slot, 1);
    m = CodeStream::slot(copy);
  }
  const bool narrow = mask_element() == 4;
  const Lane lane = narrow ? Lane::i32 : Lane::i64;
  VReg wide = s_.new_vec(32);
  s_.emit(narrow ? Op::vpmovzxbd : Op::vpmovzxbq, {vec(wide, 32), mem(lanes_)}, m);
  return compare(lane, Compare::lt, imm_int(lane, 0), wide);
}

SINTER_DECL void VectorBuilder::mask_to_bytes(Mem m, VReg mask, const Tail& tail) {
  VReg bytes_of_mask = s_.new_vec(16);
  if (is_avx512()) {
    s_.emit(Op::vpmovm2b, {vec(bytes_of_mask, 16), kreg(mask)});
    VReg ones = unary(Op::vpabsb, bytes_of_mask, 16, 16);
    Instruction& i =
        s_.emit(tail.active() ? Op::vmovdqu8 : move_of(lanes_), {mem(tail.active() ? 16 : lanes_), vec(ones, 16)}, m);
    i.only_reads = true;
    i.mask = tail.mask;
    return;
  }
  VReg dwords = mask;
  if (mask_element() == 4) {
    VReg high = s_.new_vec(16);
    s_.emit(Op::vextractf128, {vec(high, 16), vec(mask, 32), immediate()}, 1);
    s_.emit(Op::vpackssdw, {vec(bytes_of_mask, 16), vec(mask, 16), vec(high, 16)});
  } else {
    dwords = resize_mask(mask, 8, 4);
    s_.emit(Op::vpackssdw, {vec(bytes_of_mask, 16), vec(dwords, 16), vec(dwords, 16)});
  }
  VReg packed = s_.new_vec(16);
  s_.emit(Op::vpacksswb, {vec(packed, 16), vec(bytes_of_mask, 16), vec(bytes_of_mask, 16)});
  VReg ones = unary(Op::vpabsb, packed, 16, 16);
  if (!tail.active()) {
    s_.emit(move_of(lanes_), {mem(lanes_), vec(ones, 16)}, m).only_reads = true;
    return;
  }
  const int copy = s_.frame(16);
  s_.emit(Op::vmovq, {mem(8), vec(ones, 16)}, CodeStream::slot(copy)).only_reads = true;
  copy_elements(m, CodeStream::slot(copy), tail.count_slot, 1);
}

}  // namespace x86
SINTER_NAMESPACE_END
