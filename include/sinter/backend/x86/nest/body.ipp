// Addresses, loads, stores and the instructions of one level.
#pragma once

#include <sinter/backend/x86/nest/body.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL LoopBody::LoopBody(CodeStream& stream, const PreparedNest& nest, int copies, int rows)
    : s_(stream),
      nest_(nest),
      b_(stream, nest.nest.lanes),
      copies_(as_index(copies)),
      row_count_(rows),
      values_(nest.kernel().body.size() * copies_ * as_index(rows), no_vreg),
      pointers_(pointer_count() * as_index(rows)),
      displacement_slot_(nest.kernel().body.size(), -1) {
  for (std::size_t i = 0; i < kernel().body.size(); ++i) {
    const Inst& inst = kernel().body[i];
    if (inst.prim == Prim::gather && !nest_.place(inst.args[0]).is_vector) displacement_slot_[i] = s_.frame(8);
  }
  for (std::size_t i = 0; nest_.pieces != nullptr && i < nest_.pieces->roots.size(); ++i)
    chosen_.push_back({s_.frame(8), s_.frame(8)});
}

SINTER_DECL std::int32_t LoopBody::field(std::size_t access, std::size_t offset) {
  return static_cast<std::int32_t>(offsetof(LoopArgs, pointer) + access * sizeof(LoopArgs::Pointer) + offset);
}

SINTER_DECL VReg LoopBody::value(InstId i, int copy) {
  const Inst& inst = kernel().body[i];
  if (inst.prim == Prim::immediate) return constant_of(inst);
  return values_[value_at(i, copy_of(i, copy))];
}

SINTER_DECL VReg LoopBody::constant_of(const Inst& inst) {
  if (inst.dtype == DType::bool_) return b_.mask_constant(inst.bits != 0);
  const Lane lane = lane_of(inst.dtype);
  if (is_float(lane)) return b_.imm_float(lane, inst.number());
  if (lane == Lane::i64 && nest_.nest.narrow_index)
    return b_.imm_int(Lane::i32,
                      std::clamp<std::int64_t>(inst.integer(), -1, std::numeric_limits<std::int32_t>::max()));
  return b_.imm_int(lane, inst.integer());
}

/// Which of its values an instruction has for a copy: what is the same in all of them is kept once.
SINTER_DECL int LoopBody::copy_of(InstId i, int copy) const {
  const ValuePlace& place = nest_.place(i);
  return place.is_vector || (rows_ > 0 && place.level != NestLevel::kernel) ? copy : 0;
}

// Instructions -------------------------------------------------------------------------------------------------------

SINTER_DECL void LoopBody::emit_outside(std::span<const InstId> list, std::span<const Lane0> lanes) {
  for (const InstId id : list) {
    const int rows = nest_.place(id).level == NestLevel::outer ? std::max(rows_, 1) : 1;
    if (nest_.place(id).is_vector)
      for (const Lane0& lane : lanes) emit(id, lane);
    else
      for (int row = 0; row < rows; ++row) emit(id, {.copy = row, .column_offset = 0, .tail = {}});
  }
}

/// Notes the index in rax, which is out of range, and makes it 0. Clobbers `status`.
SINTER_DECL void LoopBody::report_bad_index(std::size_t access, Gpr status) {
  s_.mov(status, CodeStream::at(loop_reg::args, offsetof(LoopArgs, status)));
  s_.mov(CodeStream::at(status, offsetof(LoopArgs::Status, index)), Gpr::rax);
  s_.mov_imm(CodeStream::at(status, offsetof(LoopArgs::Status, access)), static_cast<std::int32_t>(access) + 1);
  s_.mov_imm(Gpr::rax, 0);
}

SINTER_DECL void LoopBody::check_index(InstId gather) {
  const Inst& inst = kernel().body[gather];
  b_.first_to_gpr(lane_of(kernel().body[inst.args[0]].dtype), Gpr::rax, value(inst.args[0], 0));
  const int good = s_.new_label();
  s_.binary(Op::cmp, Gpr::rax,
            CodeStream::at(loop_reg::args, field(inst.access, offsetof(LoopArgs::Pointer, gather_extent))));
  s_.jump(Op::jb, good);
  report_bad_index(inst.access, Gpr::r9);
  s_.bind(good);
  s_.binary(Op::imul, Gpr::rax,
            CodeStream::at(loop_reg::args, field(inst.access, offsetof(LoopArgs::Pointer, gather_stride))));
  s_.mov(CodeStream::slot(displacement_slot_[gather]), Gpr::rax);
}

SINTER_DECL void LoopBody::keep(std::size_t tile, const Lane0& lane) {
  const InstId id = nest_.nest.buffers[tile].value;
  const DType dtype = kernel().body[id].dtype;
  b_.store(dtype, tile_address(tile, dtype, lane), value(id, lane.copy), lane.tail);
}

SINTER_DECL void LoopBody::fetch(std::size_t tile, const Lane0& lane) {
  const InstId id = nest_.nest.buffers[tile].value;
  const DType dtype = kernel().body[id].dtype;
  set_value(id, lane.copy, b_.load(dtype, tile_address(tile, dtype, lane), lane.tail));
}

/// x less the largest x of its row: a softmax.
SINTER_DECL bool LoopBody::is_below_maximum(InstId i) const {
  const Inst& difference = kernel().body[i];
  if (difference.prim != Prim::sub) return false;
  const Inst& largest = kernel().body[difference.args[1]];
  return largest.prim == Prim::reduce_max && largest.args[0] == difference.args[0];
}

SINTER_DECL void LoopBody::emit(InstId i, const Lane0& lane) {
  const Inst& inst = kernel().body[i];
  VReg result;
  if (assumes_usual && is_hinted(inst)) {
    result = emit_usual(i, lane);
  } else if (inst.prim == Prim::load || inst.prim == Prim::gather) {
    result = emit_load(i, lane);
  } else if (inst.prim == Prim::guarded_load) {
    result = emit_guarded_load(i, lane);
  } else if (inst.prim == Prim::index) {
    result = emit_index(i, lane);
  } else {
    std::array<VReg, 3> args{};
    const int count = arity(inst.prim);
    for (int a = 0; a < count; ++a) args[as_index(a)] = value(inst.args[as_index(a)], lane.copy);
    DType from = kernel().body[inst.args[as_index(count - 1)]].dtype;
    if (from == DType::i64 && nest_.nest.narrow_index) from = DType::i32;
    const Divisor* divisor = nullptr;
    for (const Divisor& d : divisors_)
      if (inst.prim == Prim::div && nest_.place(i).level == NestLevel::column && d.id == inst.args[1] && d.row == row_)
        divisor = &d;
    b_.set_lanes_equal(!nest_.place(i).is_vector);
    if (divisor != nullptr) result = divide(args[0], args[1], *divisor, lane.tail);
    else if (inst.prim == Prim::exp && is_below_maximum(inst.args[0]))
      result = lower_exp_of_not_positive(b_, lane_of(from), args[0]);
    else result = lower(b_, inst, from, std::span<const VReg>(args.data(), as_index(count)));
    b_.set_lanes_equal(false);
  }
  set_value(i, copy_of(i, lane.copy), result);
}

// Division by a number of the row ------------------------------------------------------------------------------------

namespace x86_detail {
/// Quick division takes dividends of magnitude 2^-90 to 2^90 and divisors of 2^-30 to 2^30, so that quotients are
/// normal and remainders exact. Twice the bits of a float drops its sign; shifted so that the range starts at the least
/// number.
inline constexpr std::int64_t quick_lowest = std::int64_t{127 - 90} << 24, quick_highest = std::int64_t{127 + 90} << 24;
inline constexpr std::int64_t divisor_lowest = std::int64_t{127 - 30} << 24,
                              divisor_highest = std::int64_t{127 + 30} << 24;
inline constexpr std::int64_t least_i32 = std::numeric_limits<std::int32_t>::min();
}  // namespace x86_detail

/// A mask of dividends beyond the range. A limit of the least number puts all of them there.
SINTER_DECL VReg LoopBody::out_of_range(VReg x, VReg limit) {
  const Lane lane = Lane::i32;
  VReg place = b_.add(lane, b_.add(lane, x, x), b_.imm_int(lane, x86_detail::least_i32 + 1 - x86_detail::quick_lowest));
  return b_.compare(lane, Compare::lt, limit, place);
}

SINTER_DECL void LoopBody::prepare_divisions(std::span<const InstId> list) {
  if (row_ == 0) divisors_.clear();
  if (!b_.is_avx512() || rows_ > 0) return;  // narrow dividers are quick enough
  const Lane lane = Lane::f32, bits = Lane::i32;
  for (InstId i : list) {
    const Inst& inst = kernel().body[i];
    if (inst.prim != Prim::div || inst.dtype != DType::f32 || !nest_.place(i).is_vector ||
        nest_.place(inst.args[1]).level != NestLevel::outer)
      continue;
    bool is_known = false;
    for (const Divisor& d : divisors_) is_known |= d.id == inst.args[1] && d.row == row_;
    if (is_known) continue;
    const VReg by = value(inst.args[1], 0), one = b_.imm_float(lane, 1);
    Divisor d{.id = inst.args[1], .row = row_};
    d.high = b_.div(lane, one, by);
    d.low = b_.mul(lane, b_.fnma(lane, by, d.high, one), d.high);
    VReg place =
        b_.add(bits, b_.add(bits, by, by), b_.imm_int(bits, x86_detail::least_i32 - x86_detail::divisor_lowest));
    VReg fits =
        b_.compare(bits, Compare::le, place,
                   b_.imm_int(bits, x86_detail::least_i32 + x86_detail::divisor_highest - x86_detail::divisor_lowest));
    d.limit = b_.select(
        bits, fits, b_.imm_int(bits, x86_detail::least_i32 + 1 + x86_detail::quick_highest - x86_detail::quick_lowest),
        b_.imm_int(bits, x86_detail::least_i32));
    divisors_.push_back(d);
  }
}

/// x / by, correctly rounded: x times the reciprocal in two parts is within one last bit of it, and one step with the
/// exact remainder and the correctly rounded reciprocal then rounds correctly (Markstein). Four operations where the
/// machine's division keeps its unit busy for ten cycles; where it might not hold, the machine's.
SINTER_DECL VReg LoopBody::divide(VReg x, VReg by, const Divisor& divisor, const Tail& tail) {
  const Lane lane = Lane::f32;
  VReg near = b_.fma(lane, x, divisor.high, b_.mul(lane, x, divisor.low));
  VReg remainder = b_.fnma(lane, near, by, x);
  VReg result = b_.fma(lane, remainder, divisor.high, near);
  VReg beyond = out_of_range(x, divisor.limit);
  if (tail.active()) beyond = b_.mask_and(beyond, tail.mask);
  const int quick = s_.new_label();
  b_.jump_if_none(beyond, quick);
  b_.assign(lane, result, b_.div(lane, x, by));
  s_.bind(quick);
  return result;
}

SINTER_DECL VReg LoopBody::emit_load(InstId i, const Lane0& lane) {
  const Inst& inst = kernel().body[i];
  const bool is_gather = inst.prim == Prim::gather;
  if (is_gather && nest_.place(inst.args[0]).is_vector)
    return gather(inst.access, lane, value(inst.args[0], lane.copy), kernel().body[inst.args[0]].dtype);
  if (is_gather && !nest_.is_checked[i]) check_index(i);
  if (!is_gather && nest_.interleaved.has(inst.access)) return load_interleaved(inst.access, lane);
  const StrideClass stride = stride_class(inst.access, nest_.nest.vector_axis);
  const DType in_memory = dtype_of_access(inst.access);
  if (!is_gather && is_whole_backward(inst.access, in_memory, lane))
    return b_.reverse(lane_of(inst.dtype), b_.load(in_memory, backward_address(inst.access, lane), {}));
  if (stride >= StrideClass::any) return load_by_element(inst.access, lane, no_vreg, inst.dtype, displacement_slot_[i]);
  const Mem m = address(inst.access, nest_.place(i).level, lane, displacement_slot_[i]);
  if (inst.dtype == DType::i64 && nest_.nest.narrow_index) return narrow_number(m);
  return stride == StrideClass::zero ? b_.load_broadcast(in_memory, m) : b_.load(in_memory, m, lane.tail);
}

/// A 64-bit number in every lane as i32, for comparisons with indices: clamped to -1 and 2^31 - 1, which no index
/// reaches.
SINTER_DECL VReg LoopBody::narrow_number(Mem m) {
  s_.mov(Gpr::rax, m);
  for (const auto& [limit, replace] :
       {std::pair<std::int64_t, Op>{-1, Op::cmovl}, {std::numeric_limits<std::int32_t>::max(), Op::cmovg}}) {
    s_.mov_imm(Gpr::rdx, limit);
    s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
    s_.binary(replace, Gpr::rax, Gpr::rdx);
  }
  return b_.broadcast_gpr(Lane::i32, Gpr::rax);
}

SINTER_DECL VReg LoopBody::emit_index(InstId i, const Lane0& lane) {
  const Lane type = nest_.nest.narrow_index ? Lane::i32 : Lane::i64;
  const int axis = static_cast<int>(kernel().body[i].bits);
  if (axis == nest_.nest.near_axis) return b_.broadcast_gpr(type, loop_reg::near);
  if (axis == nest_.nest.far_axis) {
    s_.mov(Gpr::rax, CodeStream::slot(far_slot));
    return b_.broadcast_gpr(type, Gpr::rax);
  }
  const auto at = static_cast<std::int32_t>(as_index(axis) * sizeof(std::int64_t));
  const bool is_column = axis == nest_.nest.vector_axis;
  if (is_column && rows_ == 0 && lane.column_offset > 0)  // the vectors of a step, from the first one's
    return b_.add(type, value(i, 0), b_.imm_int(type, lane.column_offset));
  if (is_column && nest_.is_row() && !kernel().folds.empty()) {  // a position inside a fold: the row starts at 0
    s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(loop_reg::column, lane.column_offset));
    return b_.add(type, b_.broadcast_gpr(type, Gpr::rax), b_.iota(type));
  }
  const Mem step = CodeStream::at(loop_reg::args, static_cast<std::int32_t>(offsetof(LoopArgs, index_step)) + at);
  s_.mov(Gpr::rax, step);
  s_.binary(Op::imul, Gpr::rax, loop_reg::outer);
  const int row = rows_ > 0 ? lane.copy : row_;
  for (int r = 0; r < row; ++r) s_.binary(Op::add, Gpr::rax, step);
  s_.binary(Op::add, Gpr::rax,
            CodeStream::at(loop_reg::args, static_cast<std::int32_t>(offsetof(LoopArgs, index_origin)) + at));
  if (is_column)
    s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(Gpr::rax, loop_reg::column, 0, lane.column_offset));
  VReg base = b_.broadcast_gpr(type, Gpr::rax);
  return is_column ? b_.add(type, base, b_.iota(type)) : base;
}

/// A whole vector of neighbours, of which the last comes first; single elements go one by one.
SINTER_DECL bool LoopBody::is_whole_backward(std::size_t access, DType dtype, const Lane0& lane) const {
  return stride_class(access, nest_.nest.vector_axis) == StrideClass::backward && dtype != DType::bool_ &&
         !lane.tail.active();
}

/// The address of the last lane's element. Clobbers rax, r9.
SINTER_DECL Mem LoopBody::backward_address(std::size_t access, const Lane0& lane) {
  const auto size = static_cast<std::int32_t>(size_of(dtype_of_access(access)));
  const Gpr base = pointer_in_register(access, Gpr::r9);
  s_.mov(Gpr::rax, loop_reg::column);
  s_.emit(Op::neg, {reg(Gpr::rax)});
  return CodeStream::at(base, Gpr::rax, std::countr_zero(static_cast<unsigned>(size)),
                        -(lane.column_offset + b_.lanes() - 1) * size);
}

// Element by element -------------------------------------------------------------------------------------------------

/// rdx = address of the element at the first lane's column. Clobbers r9.
SINTER_DECL void LoopBody::element_pointer(std::size_t access, const Lane0& lane, int displacement) {
  s_.emit(Op::lea, {reg(Gpr::rdx), mem(8)}, CodeStream::at(loop_reg::column, lane.column_offset));
  times_column_stride(Gpr::rdx, access);
  const Gpr base = pointer_in_register(access, Gpr::r9);
  s_.binary(Op::add, Gpr::rdx, base);
  if (displacement >= 0) s_.binary(Op::add, Gpr::rdx, CodeStream::slot(displacement));
}

namespace x86_detail {
/// Moves one element between memory operands through rax.
inline void move_element(CodeStream& s, int size, Mem to, Mem from) {
  if (size <= 2) s.emit(Op::movzx, {reg(Gpr::rax, 4), mem(size)}, from);
  else s.emit(Op::mov, {reg(Gpr::rax, size), mem(size)}, from);
  s.emit(Op::mov, {mem(size), reg(Gpr::rax, size)}, to).only_reads = true;
}
/// r9 = number of elements that exist.
inline void load_count(CodeStream& s, const VectorBuilder& b, const Tail& tail) {
  if (tail.active()) s.mov(Gpr::r9, CodeStream::slot(tail.count_slot));
  else s.mov_imm(Gpr::r9, b.lanes());
}
}  // namespace x86_detail

SINTER_DECL bool LoopBody::may_be_every_second(std::size_t access) const {
  const DType dtype = dtype_of_access(access);
  return !sinter::is_narrow(dtype) && dtype != DType::bool_ && b_.takes_every_second(lane_of(dtype));
}
/// Goes to the label unless the elements lie two apart: the parts of complex numbers.
SINTER_DECL void LoopBody::jump_unless_every_second(std::size_t access, int to) {
  s_.mov(Gpr::rax, CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride))));
  s_.binary_imm(Op::cmp, Gpr::rax, 2 * static_cast<int>(size_of(dtype_of_access(access))));
  s_.jump(Op::jne, to);
}

/// A vector of elements that are some bytes apart, from rdx on. Clobbers rax, rdx, r9.
SINTER_DECL VReg LoopBody::load_apart(std::size_t access, const Tail& tail) {
  const DType dtype = dtype_of_access(access);
  const Lane type = lane_of(dtype);
  const int copy = s_.frame(64, 64), other = s_.new_label(), done = s_.new_label();
  const VReg result = b_.load(dtype, CodeStream::slot(copy), Tail{});  // anything
  jump_unless_every_second(access, other);
  b_.assign(type, result,
            tail.active() ? b_.load_every_second(type, Gpr::rdx, tail) : b_.load_every_second(type, Gpr::rdx));
  s_.jump(Op::jmp, done);
  s_.bind(other);
  move_apart(access, copy, tail);
  b_.assign(type, result, b_.load(dtype, CodeStream::slot(copy), Tail{}));
  s_.bind(done);
  return result;
}

/// Single elements that are some bytes apart, from rdx on, into the frame. Clobbers rax, rdx, r9.
SINTER_DECL void LoopBody::move_apart(std::size_t access, int copy, const Tail& tail) {
  const int size = static_cast<int>(size_of(dtype_of_access(access)));
  const Mem stride = CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride)));
  if (!tail.active()) {
    for (int l = 0; l < b_.lanes(); ++l) {
      x86_detail::move_element(s_, size, CodeStream::slot(copy + l * size), CodeStream::at(Gpr::rdx));
      if (l + 1 < b_.lanes()) s_.binary(Op::add, Gpr::rdx, stride);
    }
    return;
  }
  const int counter = s_.frame(8), again = s_.new_label();
  s_.mov_imm(Gpr::r9, 0);
  s_.mov(Gpr::rax, CodeStream::slot(tail.count_slot));
  s_.mov(CodeStream::slot(counter), Gpr::rax);
  s_.bind(again);
  x86_detail::move_element(s_, size,
                           CodeStream::at(Gpr::rsp, Gpr::r9, std::countr_zero(static_cast<unsigned>(size)), copy),
                           CodeStream::at(Gpr::rdx));
  s_.binary(Op::add, Gpr::rdx, stride);
  s_.binary_imm(Op::add, Gpr::r9, 1);
  s_.binary(Op::cmp, Gpr::r9, CodeStream::slot(counter));
  s_.jump(Op::jl, again);
}

/// A vector put together in the frame from strided or indexed elements. Clobbers rax, rdx, r9.
SINTER_DECL VReg LoopBody::load_by_element(std::size_t access, const Lane0& lane, VReg index, DType index_dtype,
                                           int displacement) {
  const DType dtype = dtype_of_access(access);
  const int size = static_cast<int>(size_of(dtype)), copy = s_.frame(64, 64), again = s_.new_label();
  const Mem target = CodeStream::at(Gpr::rsp, Gpr::r9, std::countr_zero(static_cast<unsigned>(size)), copy);
  const Mem stride = CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride)));
  auto finish = [&] { return b_.load(dtype, CodeStream::slot(copy), Tail{}); };
  if (index == no_vreg) {
    element_pointer(access, lane, displacement);
    if (may_be_every_second(access) && (!lane.tail.active() || b_.is_avx512())) return load_apart(access, lane.tail);
    move_apart(access, copy, lane.tail);
    return finish();
  }
  const Lane index_lane = lane_of(index_dtype);
  const int indices = s_.frame(64, 64), good = s_.new_label(), index_size = size_of(index_lane);
  b_.store_whole(index_lane, CodeStream::slot(indices), index);
  x86_detail::load_count(s_, b_, lane.tail);
  s_.bind(again);
  s_.binary_imm(Op::sub, Gpr::r9, 1);
  s_.emit(index_size == 8 ? Op::mov : Op::movsxd, {reg(Gpr::rax), mem(index_size)},
          CodeStream::at(Gpr::rsp, Gpr::r9, index_size == 8 ? 3 : 2, indices));
  s_.binary(Op::cmp, Gpr::rax,
            CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, gather_extent))));
  s_.jump(Op::jb, good);
  report_bad_index(access, Gpr::rdx);
  s_.bind(good);
  s_.binary(Op::imul, Gpr::rax,
            CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, gather_stride))));
  s_.emit(Op::lea, {reg(Gpr::rdx), mem(8)}, CodeStream::at(Gpr::r9, loop_reg::column, 0, lane.column_offset));
  s_.binary(Op::imul, Gpr::rdx, stride);
  s_.binary(Op::add, Gpr::rdx, Gpr::rax);
  const Pointer& p = pointer(access);
  if (p.kind == Pointer::Kind::reg) s_.binary(Op::add, Gpr::rdx, p.reg);
  else s_.binary(Op::add, Gpr::rdx, CodeStream::slot(p.slot));
  x86_detail::move_element(s_, size, target, CodeStream::at(Gpr::rdx));
  s_.emit(Op::test, {reg(Gpr::r9), reg(Gpr::r9)}).only_reads = true;
  s_.jump(Op::jne, again);
  return finish();
}

/// `widens`: the vector has i32 where memory has i64.
SINTER_DECL void LoopBody::store_by_element(std::size_t access, const Lane0& lane, VReg value, bool widens) {
  const DType dtype = dtype_of_access(access);
  const bool may_be_quick = !widens && !lane.tail.active() && may_be_every_second(access);
  const int size = static_cast<int>(size_of(dtype)), copy = s_.frame(64, 64), counter = s_.frame(8),
            again = s_.new_label(), other = may_be_quick ? s_.new_label() : -1,
            done = may_be_quick ? s_.new_label() : -1;
  if (may_be_quick) {
    element_pointer(access, lane, -1);
    jump_unless_every_second(access, other);
    b_.store_every_second(lane_of(dtype), Gpr::rdx, value);
    s_.jump(Op::jmp, done);
    s_.bind(other);
  }
  if (widens) b_.store_whole(Lane::i32, CodeStream::slot(copy), value);
  else b_.store(dtype, CodeStream::slot(copy), value, Tail{});
  x86_detail::load_count(s_, b_, lane.tail);
  s_.mov(CodeStream::slot(counter), Gpr::r9);
  element_pointer(access, lane, -1);
  s_.mov_imm(Gpr::r9, 0);
  s_.bind(again);
  if (widens) {
    s_.emit(Op::movsxd, {reg(Gpr::rax), mem(4)}, CodeStream::at(Gpr::rsp, Gpr::r9, 2, copy));
    s_.mov(CodeStream::at(Gpr::rdx), Gpr::rax);
  } else {
    x86_detail::move_element(s_, size, CodeStream::at(Gpr::rdx),
                             CodeStream::at(Gpr::rsp, Gpr::r9, std::countr_zero(static_cast<unsigned>(size)), copy));
  }
  s_.binary(Op::add, Gpr::rdx,
            CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride))));
  s_.binary_imm(Op::add, Gpr::r9, 1);
  s_.binary(Op::cmp, Gpr::r9, CodeStream::slot(counter));
  s_.jump(Op::jl, again);
  if (may_be_quick) s_.bind(done);
}

SINTER_DECL void LoopBody::store_inner(const Store& store, const Lane0& lane) {
  const DType dtype = dtype_of_access(store.access);
  const VReg v = value(store.value, lane.copy);
  if (nest_.interleaved.has(store.access)) return store_interleaved(store.access, lane, v);
  const StrideClass stride = stride_class(store.access, nest_.nest.vector_axis);
  if (is_whole_backward(store.access, dtype, lane) && !is_narrow(store.value))
    return b_.store(dtype, backward_address(store.access, lane), b_.reverse(lane_of(dtype), v), {});
  if (stride >= StrideClass::any) return store_by_element(store.access, lane, v, is_narrow(store.value));
  if (is_narrow(store.value) && stride == StrideClass::unit) return store_by_element(store.access, lane, v, true);
  const Mem m = address(store.access, NestLevel::near, lane, -1);
  if (is_narrow(store.value)) return store_wide(m, v);
  if (stride == StrideClass::zero) b_.store_scalar(dtype, m, v);
  else if ((streams >> store.access & 1) != 0 && !sinter::is_narrow(dtype) && dtype != DType::bool_ &&
           !lane.tail.active())
    b_.store_streaming(dtype, m, v);
  else b_.store(dtype, m, v, lane.tail);
}

/// A value of the whole row.
SINTER_DECL void LoopBody::store_outer(const Store& store, const Lane0& lane) {
  if (nest_.is_column()) return store_inner(store, lane);
  const Mem m = address(store.access, NestLevel::outer, lane, -1);
  if (is_narrow(store.value)) return store_wide(m, value(store.value, lane.copy));
  b_.store_scalar(dtype_of_access(store.access), m, value(store.value, lane.copy));
}

/// Element 0, an index of i32, as i64. Clobbers rax.
SINTER_DECL void LoopBody::store_wide(Mem m, VReg index) {
  b_.first_to_gpr(Lane::i32, Gpr::rax, index);
  s_.mov(m, Gpr::rax);
}

}  // namespace x86
SINTER_NAMESPACE_END
