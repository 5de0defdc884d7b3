// Row kernels whose rows fit one vector: one masked vector per row, no blocks, and several rows side by side so that
// their chains of reductions overlap. Lanes beyond the row hold the neutral element, as they do in the full set of
// lanes, whose upper halves then add nothing but neutral elements to the tree: the result is the same bit by bit.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>
#include <sinter/base/index.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Groups of row_copies_ rows, then the rest row by row.
SINTER_DECL void LoopGenerator::short_rows_function() {
  const int top = s_.new_label(), rest = s_.new_label(), rest_top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.mov_imm(loop_reg::column, 0);
  const Tail tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, plan_.needs_count);
  s_.begin_loop();
  s_.bind(top);
  s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(loop_reg::outer, row_copies_));
  s_.binary(Op::cmp, Gpr::rax, CodeStream::slot(end_slot_));
  s_.jump(Op::jg, rest);
  short_rows_group(row_copies_, tail);
  s_.binary_imm(Op::add, loop_reg::outer, row_copies_);
  s_.jump(Op::jmp, top);
  s_.end_loop();
  s_.bind(rest);
  s_.begin_loop();
  s_.bind(rest_top);
  s_.binary(Op::cmp, loop_reg::outer, CodeStream::slot(end_slot_));
  s_.jump(Op::jge, done);
  short_rows_group(1, tail);
  s_.binary_imm(Op::add, loop_reg::outer, 1);
  s_.jump(Op::jmp, rest_top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::short_rows_group(int rows, const Tail& tail) {
  body_.set_rows(rows);
  body_.reset_pointers();
  std::vector<char> computed(plan_.insts.size());
  const std::size_t stages = std::max(plan_.passes.size(), as_index(plan_.depths) + 1);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    body_.emit_outside(Level::outer, static_cast<int>(stage), nullptr, 0);
    if (stage < plan_.passes.size()) short_rows_pass(stage, rows, tail, computed);
  }
  for (std::uint16_t s : plan_.outer_stores)
    for (int row = 0; row < rows; ++row)
      body_.store_outer(plan_.kernel->stores[s], {.copy = row, .column_offset = 0, .tail = {}});
}

/// What an earlier pass has computed is still in its register.
SINTER_DECL void LoopGenerator::short_rows_pass(std::size_t pass, int rows, const Tail& tail,
                                                std::vector<char>& computed) {
  const PassPlan& p = plan_.passes[pass];
  for (InstId i : p.needed) {
    if (computed[i] || plan_.insts[i].level != Level::column) continue;
    computed[i] = 1;
    for (int row = 0; row < rows; ++row) body_.emit_inner(i, {.copy = row, .column_offset = 0, .tail = tail}, false);
  }
  for (InstId i : p.reductions) short_rows_reduce(i, rows, tail);
  if (p.stores)
    for (std::uint16_t s : plan_.inner_stores)
      for (int row = 0; row < rows; ++row)
        body_.store_inner(plan_.kernel->stores[s], {.copy = row, .column_offset = 0, .tail = tail});
}

/// The lanes of one row: the neutral element combined with each element. A minimum or maximum with its neutral element
/// is the element.
SINTER_DECL VReg LoopGenerator::short_row_start(const Inst& inst, VReg v, const Tail& tail) {
  const Lane lane = lane_of(inst.dtype);
  const VReg none = neutral({no_vreg, inst.prim, inst.dtype});
  const bool is_extremum = inst.prim == Prim::reduce_min || inst.prim == Prim::reduce_max;
  const VReg next = is_extremum ? v : combine(b_, inst.prim, inst.dtype, none, v);
  return b_.select(lane, b_.as_element(tail.mask, size_of(lane)), next, none);
}

SINTER_DECL void LoopGenerator::short_rows_reduce(InstId reduction, int rows, const Tail& tail) {
  const Inst& inst = plan_.kernel->body[reduction];
  const Lane lane = lane_of(inst.dtype);
  const bool loses_nan =
      b_.is_avx512() && is_floating(inst.dtype) && (inst.prim == Prim::reduce_min || inst.prim == Prim::reduce_max);
  auto combine_two = [&](VectorBuilder& b, VReg older, VReg newer) {
    if (!loses_nan) return combine(b, inst.prim, inst.dtype, older, newer);
    return b.number_extremum(lane, older, newer, inst.prim == Prim::reduce_min);
  };
  std::vector<VReg> value, saw_nan;
  for (int row = 0; row < rows; ++row) {
    VReg v = body_.value(inst.args[0], row);
    if (inst.dtype == DType::bool_) v = x86_detail::mask_to_number(b_, v, Lane::i32);
    value.push_back(short_row_start(inst, v, tail));
    if (loses_nan) saw_nan.push_back(b_.compare(lane, Compare::unordered, value.back(), value.back()));
  }
  for (int lanes = plan_.lanes; lanes > 1; lanes /= 2) {
    VectorBuilder narrow = b_.with_lanes(lanes / 2);
    for (VReg& v : value) v = combine_two(narrow, v, b_.with_lanes(lanes).upper_half(lane, v));
  }
  for (int row = 0; row < rows; ++row) {
    const auto at = as_index(row);
    const VReg result = b_.broadcast_first(lane, value[at]);
    if (loses_nan) restore_nan(result, lane, saw_nan[at]);
    body_.set_value(reduction, row,
                    inst.dtype == DType::bool_ ? x86_detail::number_to_mask(b_, result, Lane::i32) : result);
  }
}

}  // namespace x86
SINTER_NAMESPACE_END
