// Vectors of elements at vectors of positions.
#pragma once

#include <sinter/backend/x86/nest/body.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// The elements at positions that are in range, by one instruction, which clears `mask`. Clobbers rax, rdx, r9.
SINTER_DECL VReg LoopBody::gather_whole(std::size_t access, const Lane0& lane, VReg index, VReg mask) {
  const DType dtype = dtype_of_access(access);
  const Lane type = lane_of(dtype);
  const auto number = [&](std::size_t at) {
    return b_.load_broadcast(DType::i64, CodeStream::at(loop_reg::args, field(access, at)));
  };
  VReg offset = b_.mul(Lane::i64, index, number(offsetof(LoopArgs::Pointer, gather_stride)));
  Gpr base = Gpr::rdx;
  if (stride_class(access, nest_.nest.vector_axis) == StrideClass::zero) {
    base = pointer_in_register(access, Gpr::rdx);
  } else {
    element_pointer(access, lane, -1);
    const VReg apart = number(offsetof(LoopArgs::Pointer, column_stride));
    offset = b_.add(Lane::i64, offset, b_.mul(Lane::i64, b_.iota(Lane::i64), apart));
  }
  const VReg result = b_.copy(type, b_.imm_int(type, 0));
  Instruction& i = s_.emit(size_of(type) == 4 ? Op::vgatherqps : Op::vgatherqpd,
                           {vec(result, b_.bytes(type)), mem(size_of(type)), vec(offset, b_.bytes(Lane::i64))},
                           CodeStream::at(base));
  i.mask = mask;
  i.reads_first = true;
  return result;
}

/// Elements at a vector of positions: at once where the machine can and all are in range, else one by one.
SINTER_DECL VReg LoopBody::gather(std::size_t access, const Lane0& lane, VReg index, DType index_dtype) {
  const DType dtype = dtype_of_access(access);
  const bool is_plain = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
                        dtype == DType::u64;  // lanes as they lie in memory
  if (!b_.is_avx512() || !is_plain || b_.lanes() != 8 || lane_of(index_dtype) != Lane::i64 || lane.tail.active())
    return load_by_element(access, lane, index, index_dtype, -1);
  const int quick = s_.new_label(), done = s_.new_label();
  const VReg extent = b_.load_broadcast(
      DType::i64, CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, gather_extent))));
  const VReg is_below = b_.compare(Lane::i64, Compare::lt, index, extent),
             is_fine = b_.mask_and(is_below, b_.compare(Lane::i64, Compare::le, b_.imm_int(Lane::i64, 0), index));
  b_.jump_if_all(Lane::i64, is_fine, quick);
  const VReg result = load_by_element(access, lane, index, index_dtype, -1);
  s_.jump(Op::jmp, done);
  s_.bind(quick);
  b_.assign(lane_of(dtype), result, gather_whole(access, lane, index, is_fine));
  s_.bind(done);
  return result;
}

}  // namespace x86
SINTER_NAMESPACE_END
