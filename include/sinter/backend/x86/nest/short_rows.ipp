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
SINTER_DECL void LoopGenerator::short_rows_function(std::size_t outer) {
  const int top = s_.new_label(), rest = s_.new_label(), rest_top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.mov_imm(loop_reg::column, 0);
  const Tail tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, prepared_.needs_count);
  s_.begin_loop();
  s_.bind(top);
  s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(loop_reg::outer, row_copies_));
  s_.binary(Op::cmp, Gpr::rax, CodeStream::slot(end_slot_));
  s_.jump(Op::jg, rest);
  short_rows_group(outer, row_copies_, tail);
  s_.binary_imm(Op::add, loop_reg::outer, row_copies_);
  s_.jump(Op::jmp, top);
  s_.end_loop();
  s_.bind(rest);
  s_.begin_loop();
  s_.bind(rest_top);
  s_.binary(Op::cmp, loop_reg::outer, CodeStream::slot(end_slot_));
  s_.jump(Op::jge, done);
  short_rows_group(outer, 1, tail);
  s_.binary_imm(Op::add, loop_reg::outer, 1);
  s_.jump(Op::jmp, rest_top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::short_rows_group(std::size_t outer, int rows, const Tail& tail) {
  body_.set_rows(rows);
  body_.reset_pointers();
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (is_pass(child)) return short_rows_pass(child, rows, tail);
    if (node(child).kind != NestNodeKind::store) return render_outside(child, {});
    for (int row = 0; row < rows; ++row)
      body_.store_outer(kernel_.stores[node(child).first], {.copy = row, .column_offset = 0, .tail = {}});
  });
}

SINTER_DECL void LoopGenerator::short_rows_pass(std::size_t pass, int rows, const Tail& tail) {
  const auto lane = [&](int row) { return Lane0{.copy = row, .column_offset = 0, .tail = tail}; };
  nest_.for_each_child(loop_of(pass), [&](std::size_t child) {
    const NestNode& n = node(child);
    if (n.kind == NestNodeKind::compute)
      for (const InstId id : nest_.ids_of(n))
        for (int row = 0; row < rows; ++row) body_.emit(id, lane(row));
    if (n.kind == NestNodeKind::step)
      for (std::size_t i = 0; i < n.count; ++i) {
        const Reductions ids = nest_.ids_of(n);
        if (kernel_.body[ids[i]].prim == Prim::fold) short_rows_fold(ids, i, rows, tail);
        else short_rows_reduce(ids[i], rows, tail);
      }
    if (n.kind == NestNodeKind::store)
      for (int row = 0; row < rows; ++row) body_.store_inner(kernel_.stores[n.first], lane(row));
  });
}

/// The lanes of one row: the neutral element combined with each element. A minimum or maximum with its neutral element
/// is the element.
SINTER_DECL VReg LoopGenerator::short_row_start(const Inst& inst, VReg v, const Tail& tail) {
  const Lane lane = lane_of(inst.dtype);
  const VReg none = neutral({.prim = inst.prim, .dtype = inst.dtype});
  const bool is_extremum = inst.prim == Prim::reduce_min || inst.prim == Prim::reduce_max;
  const VReg next = is_extremum ? v : combine(b_, inst.prim, inst.dtype, none, v);
  return b_.select(lane, b_.as_element(tail.mask, size_of(lane)), next, none);
}

SINTER_DECL void LoopGenerator::short_rows_reduce(InstId reduction, int rows, const Tail& tail) {
  const Inst& inst = kernel_.body[reduction];
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
  for (int lanes = nest_.lanes; lanes > 1; lanes /= 2) {
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
