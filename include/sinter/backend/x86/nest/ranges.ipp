// What is known where a row of an elementwise kernel begins: which pieces it reads (row_pieces.hpp), and from which
// column to which all conditions come out as they usually do, so that the loop between runs without conditions, masks
// and indices. Rows that differ in nothing of that follow each other; it is found anew where a comparison changes.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL int LoopGenerator::sign_slot(const IndexBound& bound) {
  for (const RowBound& known : row_state_.bounds)
    if (known.bound == bound) return known.slot;
  row_state_.bounds.push_back({bound, s_.frame(8)});
  return row_state_.bounds.back().slot;
}

/// Before the loop over rows: decides whether there is anything to know of a row. Clobbers rax.
SINTER_DECL void LoopGenerator::prepare_row_state(std::size_t outer) {
  row_state_ = {};
  const bool is_whole = part_ == LoopPart::whole || part_ == LoopPart::streaming;
  if (kernel_.kind != KernelKind::pointwise || !is_whole) return;
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::loop) row_state_.has_range = find_usual(child);
  });
  for (const auto& [id, holds] : usual_.conditions)
    row_state_.has_range = row_state_.has_range && index_bound(kernel_, id).has_value();
  body_.meets_both = row_state_.has_range;
  row_state_.is_used = row_state_.has_range || prepared_.pieces != nullptr;
  if (!row_state_.is_used) return;
  row_state_.next = s_.frame(8);
  row_state_.low = s_.frame(8);
  row_state_.high = s_.frame(8);
  if (prepared_.pieces != nullptr)
    for (const IndexBound& bound : prepared_.pieces->bounds) sign_slot(bound);
  for (const auto& [id, holds] : usual_.conditions)
    if (const auto bound = index_bound(kernel_, id); row_state_.has_range && bound->axis != nest_.vector_axis)
      sign_slot(*bound);
  s_.mov_imm(CodeStream::slot(row_state_.next), -1);
}

SINTER_DECL void LoopGenerator::load_number(Gpr to, InstId number) {
  const Inst& inst = kernel_.body[number];
  if (inst.prim == Prim::immediate) return s_.mov_imm(to, inst.integer());
  s_.mov(to, arg(offsetof(LoopArgs, pointer) + inst.access * sizeof(LoopArgs::Pointer)));
  s_.mov(to, CodeStream::at(to));
}

/// rax = the index of the axis in this row (at column 0), r10 = how much it grows from row to row.
SINTER_DECL void LoopGenerator::load_row_index(int axis) {
  s_.mov(Gpr::r10, arg(offsetof(LoopArgs, index_step) + as_index(axis) * sizeof(std::int64_t)));
  s_.mov(Gpr::rax, Gpr::r10);
  s_.binary(Op::imul, Gpr::rax, loop_reg::outer);
  s_.binary(Op::add, Gpr::rax, arg(offsetof(LoopArgs, index_origin) + as_index(axis) * sizeof(std::int64_t)));
}

/// The row in rdx is one at which the state is found anew. Clobbers rdx.
SINTER_DECL void LoopGenerator::change_at_rdx() {
  s_.binary(Op::cmp, Gpr::rdx, CodeStream::slot(row_state_.next));
  const int later = s_.new_label();
  s_.jump(Op::jge, later);
  s_.mov(CodeStream::slot(row_state_.next), Gpr::rdx);
  s_.bind(later);
}

/// The slot of the bound = index - number: negative where the comparison holds.
SINTER_DECL void LoopGenerator::find_sign(const RowBound& bound) {
  const int settled = s_.new_label();
  load_row_index(bound.bound.axis);
  load_number(Gpr::r9, bound.bound.number);
  s_.binary(Op::sub, Gpr::rax, Gpr::r9);
  s_.mov(CodeStream::slot(bound.slot), Gpr::rax);
  s_.emit(Op::test, {reg(Gpr::r10), reg(Gpr::r10)}).only_reads = true;
  s_.jump(Op::je, settled);
  s_.emit(Op::test, {reg(Gpr::rax), reg(Gpr::rax)}).only_reads = true;
  s_.jump(Op::jge, settled);
  s_.mov(Gpr::rdx, loop_reg::outer);  // an axis that grows does so by 1
  s_.binary(Op::sub, Gpr::rdx, Gpr::rax);
  change_at_rdx();
  s_.bind(settled);
}

/// The columns between which conditions come out as usual: none in a row that is not usual itself.
SINTER_DECL void LoopGenerator::find_range() {
  const Gpr low = Gpr::r11, high = Gpr::r12, number = Gpr::r9;
  s_.mov_imm(low, 0);
  s_.mov(high, arg(offsetof(LoopArgs, columns)));
  for (const auto& [id, holds] : usual_.conditions) {
    const IndexBound bound = *index_bound(kernel_, id);
    const int settled = s_.new_label();
    if (bound.axis != nest_.vector_axis) {
      s_.binary_imm(Op::cmp, CodeStream::slot(sign_slot(bound)), 0);
      s_.jump(holds ? Op::jl : Op::jge, settled);
      s_.mov_imm(high, 0);
    } else {
      load_row_index(bound.axis);
      load_number(number, bound.number);
      s_.binary(Op::sub, number, Gpr::rax);
      s_.binary(Op::cmp, number, holds ? high : low);
      s_.binary(holds ? Op::cmovl : Op::cmovg, holds ? high : low, number);
      s_.emit(Op::test, {reg(Gpr::r10), reg(Gpr::r10)}).only_reads = true;
      s_.jump(Op::je, settled);  // the rows are parts of one: they begin at other columns
      s_.emit(Op::lea, {reg(Gpr::rdx), mem(8)}, CodeStream::at(loop_reg::outer, 1));
      change_at_rdx();
    }
    s_.bind(settled);
  }
  s_.mov(CodeStream::slot(row_state_.low), low);
  s_.mov(CodeStream::slot(row_state_.high), high);
}

/// The register number `depth` = where in the arguments the chosen access is. Clobbers those of higher numbers.
SINTER_DECL void LoopGenerator::choose_piece(std::uint16_t number, std::size_t depth) {
  constexpr Gpr registers[] = {Gpr::rax, Gpr::rdx, Gpr::r9, Gpr::r10, Gpr::r11, Gpr::r12, Gpr::r13};
  const RowPieces::Choice& choice = prepared_.pieces->choices[number];
  if (choice.bound < 0)
    return s_.mov_imm(registers[depth], static_cast<std::int64_t>(offsetof(LoopArgs, pointer) +
                                                                  choice.access * sizeof(LoopArgs::Pointer)));
  choose_piece(choice.otherwise, depth);
  choose_piece(choice.below, depth + 1);
  s_.binary_imm(Op::cmp, CodeStream::slot(sign_slot(prepared_.pieces->bounds[as_index(choice.bound)])), 0);
  s_.binary(Op::cmovl, registers[depth], registers[depth + 1]);
}

SINTER_DECL void LoopGenerator::choose_pieces() {
  const auto field = [](std::size_t offset) {
    return CodeStream::at(loop_reg::args, Gpr::rax, 0, static_cast<std::int32_t>(offset));
  };
  for (std::size_t i = 0; i < prepared_.pieces->roots.size(); ++i) {
    choose_piece(prepared_.pieces->roots[i], 0);
    const LoopBody::Chosen& chosen = body_.chosen(i);
    s_.mov(Gpr::rdx, field(offsetof(LoopArgs::Pointer, base)));
    s_.mov(CodeStream::slot(chosen.base), Gpr::rdx);
    s_.mov(Gpr::rdx, field(offsetof(LoopArgs::Pointer, outer_stride)));
    s_.mov(CodeStream::slot(chosen.outer_stride), Gpr::rdx);
  }
}

/// Where a row begins, before its pointers are set. Clobbers what they lie in, rax, rdx, r9.
SINTER_DECL void LoopGenerator::enter_row() {
  if (!row_state_.is_used) return;
  const int known = s_.new_label();
  s_.binary(Op::cmp, loop_reg::outer, CodeStream::slot(row_state_.next));
  s_.jump(Op::jl, known);
  s_.mov_imm(Gpr::rax, std::numeric_limits<std::int64_t>::max());
  s_.mov(CodeStream::slot(row_state_.next), Gpr::rax);
  for (const RowBound& bound : row_state_.bounds) find_sign(bound);
  if (row_state_.has_range) find_range();
  if (prepared_.pieces != nullptr) choose_pieces();
  s_.bind(known);
}

/// Steps of `copies` vectors while they end before column `high`, in whose place rax has how many columns are left.
/// Leaves that in rax.
SINTER_DECL void LoopGenerator::usual_steps(std::size_t loop, int copies) {
  const int step = copies * nest_.lanes, top = s_.new_label(), done = s_.new_label();
  s_.binary_imm(Op::cmp, Gpr::rax, step);
  s_.jump(Op::jl, done);
  s_.binary_imm(Op::sub, Gpr::rax, step);
  s_.binary(Op::add, Gpr::rax, loop_reg::column);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  s_.begin_loop();
  s_.bind(top);
  body_.assumes_usual = true;
  only_ = &usual_.needed;
  for (int u = 0; u < copies; ++u) step_of_rows(loop, {.copy = u, .column_offset = u * nest_.lanes, .tail = {}});
  body_.assumes_usual = false;
  only_ = nullptr;
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jle, top);
  s_.end_loop();
  s_.mov(Gpr::rax, CodeStream::slot(row_state_.high));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.bind(done);
}

/// A row, vector by vector where conditions have to be asked, and without them between.
SINTER_DECL void LoopGenerator::map_ranges(std::size_t loop) {
  const int copies = nest_.loop_of(node(loop)).copies;
  const int top = s_.new_label(), apart = s_.new_label(), done = s_.new_label();
  s_.mov_imm(loop_reg::column, 0);
  s_.begin_loop();
  s_.bind(top);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(row_state_.low));
  s_.jump(Op::jl, apart);
  s_.mov(Gpr::rax, CodeStream::slot(row_state_.high));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  usual_steps(loop, copies);
  if (copies > 1) usual_steps(loop, 1);
  s_.bind(apart);
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.jump(Op::jle, done);
  s_.mov_imm(Gpr::rdx, nest_.lanes);  // a tail is made of a count below 256
  s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
  s_.binary(Op::cmovg, Gpr::rax, Gpr::rdx);
  step_of_rows(
      loop,
      {.copy = 0, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, prepared_.needs_count)});
  s_.binary_imm(Op::add, loop_reg::column, nest_.lanes);
  s_.jump(Op::jmp, top);
  s_.end_loop();
  s_.bind(done);
}

}  // namespace x86
SINTER_NAMESPACE_END
