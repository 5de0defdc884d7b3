// Reduced axes walked in blocks: along the vector axis their values are combined pairwise by a binary counter, along
// others in order, with what rounding loses added up beside.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL void LoopGenerator::set_counter(const Counter& counter, std::int32_t value) {
  if (counter.reg != Gpr::none) s_.mov_imm(counter.reg, value);
  else s_.mov_imm(CodeStream::slot(counter.slot), value);
}
SINTER_DECL void LoopGenerator::count_up(const Counter& counter) {
  if (counter.reg != Gpr::none) s_.binary_imm(Op::add, counter.reg, 1);
  else s_.binary_imm(Op::add, CodeStream::slot(counter.slot), 1);
}
/// Clobbers rax when the counter is a slot.
SINTER_DECL void LoopGenerator::compare_counter(const Counter& counter, Mem with) {
  if (counter.reg != Gpr::none) return s_.binary(Op::cmp, counter.reg, with);
  s_.mov(Gpr::rax, CodeStream::slot(counter.slot));
  s_.binary(Op::cmp, Gpr::rax, with);
}

/// while (counter < limit) { item; ++counter; }
SINTER_DECL void LoopGenerator::run_loop(const Counter& counter, Mem limit, const Action& item) {
  const int top = s_.new_label(), done = s_.new_label();
  compare_counter(counter, limit);
  s_.jump(Op::jge, done);
  s_.begin_loop();
  s_.bind(top);
  item();
  count_up(counter);
  compare_counter(counter, limit);
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL VReg LoopGenerator::neutral(const Running& value) {
  if (value.prim == Prim::fold) {
    const FoldState& start = fold_of(value).states[value.number];
    return body_.constant_of({.dtype = start.dtype, .bits = start.bits});
  }
  return b_.imm_bits(lane_of(value.dtype), neutral_bits(value.prim, value.dtype));
}

/// value = value op newer, where the tail says so.
SINTER_DECL void LoopGenerator::step_of(const Running& value, VReg newer, const Tail& tail) {
  VReg next = combine(b_, value.prim, value.dtype, value.reg, newer);
  if (tail.active() || !s_.retarget_last(next, value.reg)) b_.assign_where(lane_of(value.dtype), value.reg, next, tail);
}

/// Walks [0, count) in blocks of two lanes: `item` computes `items`, which enter `values`. Without values it is a plain
/// loop.
SINTER_DECL void LoopGenerator::walk(const Counter& counter, Mem count, std::vector<Running>& values,
                                     const std::vector<Running>& items, Items kind, const Action& item) {
  set_counter(counter, 0);
  if (values.empty()) return run_loop(counter, count, item);
  const int block_end = s_.frame(8), top = s_.new_label(), later = s_.new_label(), next = s_.new_label(),
            done = s_.new_label();
  const Totals totals{s_.frame(128 * static_cast<int>(values.size()), 64)};
  std::vector<Running> odd = values;
  for (Running& v : odd)
    if (v.prim != Prim::fold) v.reg = s_.new_vec(b_.bytes(lane_of(v.dtype)));
  s_.begin_loop();
  s_.bind(top);
  set_block_end(counter, count, column_sum_block, block_end);
  for (const std::vector<Running>* lane : {&values, &odd})
    for (const Running& v : *lane)
      if (v.prim != Prim::fold || lane == &values) b_.assign(lane_of(v.dtype), v.reg, neutral(v));
  if (kind == Items::light) walk_by_eights(counter, block_end, values, odd, items, item);
  else walk_in_turn(counter, block_end, values, odd, items, item);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].prim != Prim::fold) step_of(values[i], odd[i].reg, Tail{});
  s_.binary_imm(Op::cmp, count, static_cast<std::int32_t>(column_sum_block));
  s_.jump(Op::jle, done);
  s_.binary_imm(Op::cmp, CodeStream::slot(block_end), static_cast<std::int32_t>(column_sum_block));
  s_.jump(Op::jne, later);
  start_totals(totals, values);
  s_.jump(Op::jmp, next);
  s_.bind(later);
  add_to_totals(totals, values);
  s_.bind(next);
  compare_counter(counter, count);
  s_.jump(Op::jl, top);
  s_.end_loop();
  finish_totals(totals, values);
  s_.bind(done);
}

/// Eight items for each round of the loop, so that its rounds are few enough for the processor to foresee the last;
/// then the rest one by one. Clobbers rax.
SINTER_DECL void LoopGenerator::walk_by_eights(const Counter& counter, int block_end, const std::vector<Running>& even,
                                               const std::vector<Running>& odd, const std::vector<Running>& items,
                                               const Action& item) {
  constexpr int at_once = 8;
  const int last = s_.frame(8), top = s_.new_label(), rest = s_.new_label();
  s_.mov(Gpr::rax, CodeStream::slot(block_end));
  s_.binary_imm(Op::sub, Gpr::rax, at_once - 1);
  s_.mov(CodeStream::slot(last), Gpr::rax);
  compare_counter(counter, CodeStream::slot(last));
  s_.jump(Op::jge, rest);
  s_.begin_loop();
  s_.bind(top);
  for (int n = 0; n < at_once; ++n) {
    const std::vector<Running>& lane = n % 2 == 0 ? even : odd;
    item();
    for (std::size_t i = 0; i < lane.size(); i += numbers_of(lane[i])) {
      if (lane[i].prim == Prim::fold) enter_fold(even, i, items);
      else step_of(lane[i], items[i].reg, Tail{});
    }
    count_up(counter);
  }
  compare_counter(counter, CodeStream::slot(last));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(rest);
  walk_in_turn(counter, block_end, even, odd, items, item);
}

/// One item for each round: the lanes change places, which their sum does not show.
SINTER_DECL void LoopGenerator::walk_in_turn(const Counter& counter, int block_end, const std::vector<Running>& next,
                                             const std::vector<Running>& other, const std::vector<Running>& items,
                                             const Action& item) {
  run_loop(counter, CodeStream::slot(block_end), [&] {
    item();
    for (std::size_t i = 0; i < next.size(); i += numbers_of(next[i])) {
      if (next[i].prim == Prim::fold) {
        enter_fold(next, i, items);
        continue;
      }
      const Lane lane = lane_of(next[i].dtype);
      const VReg sum = combine(b_, next[i].prim, next[i].dtype, next[i].reg, items[i].reg);
      b_.assign(lane, next[i].reg, other[i].reg);
      b_.assign(lane, other[i].reg, sum);
    }
  });
}

// Totals of blocks in the frame, in order. A sum of floats has two parts: what it is rounded to and what rounding lost
// (Knuth's two-sum, The Art of Computer Programming, section 4.2.2), so that adding blocks costs no accuracy.

SINTER_DECL bool LoopGenerator::is_compensated(const Running& value) {
  return value.prim == Prim::reduce_add && is_floating(value.dtype);
}

SINTER_DECL void LoopGenerator::start_totals(const Totals& totals, const std::vector<Running>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lane lane = lane_of(values[i].dtype);
    b_.store_whole(lane, totals.sum(i), values[i].reg);
    if (is_compensated(values[i])) b_.store_whole(lane, totals.lost(i), neutral(values[i]));
  }
}

SINTER_DECL void LoopGenerator::add_to_totals(const Totals& totals, const std::vector<Running>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lane lane = lane_of(values[i].dtype);
    if (values[i].prim == Prim::fold) {
      if (values[i].number == 0) add_state_to_totals(totals, values, i);
      continue;
    }
    const VReg older = b_.load_whole(lane, totals.sum(i)), newer = values[i].reg;
    const VReg sum = combine(b_, values[i].prim, values[i].dtype, older, newer);
    b_.store_whole(lane, totals.sum(i), sum);
    if (!is_compensated(values[i])) continue;
    const VReg added = b_.sub(lane, sum, older);
    const VReg lost = b_.add(lane, b_.sub(lane, older, b_.sub(lane, sum, added)), b_.sub(lane, newer, added));
    b_.store_whole(lane, totals.lost(i), b_.add(lane, b_.load_whole(lane, totals.lost(i)), lost));
  }
}

/// What was lost is a NaN where a sum is infinite or NaN.
SINTER_DECL void LoopGenerator::finish_totals(const Totals& totals, const std::vector<Running>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lane lane = lane_of(values[i].dtype);
    const VReg sum = b_.load_whole(lane, totals.sum(i));
    if (!is_compensated(values[i])) {
      b_.assign(lane, values[i].reg, sum);
      continue;
    }
    const VReg lost = b_.load_whole(lane, totals.lost(i));
    b_.assign(lane, values[i].reg,
              b_.select(lane, b_.compare(lane, Compare::unordered, lost, lost), sum, b_.add(lane, sum, lost)));
  }
}

/// block_end = min(counter + length, count). Clobbers rax and rdx.
SINTER_DECL void LoopGenerator::set_block_end(const Counter& counter, Mem count, std::int64_t length, int block_end) {
  s_.mov(Gpr::rdx, count);
  if (counter.reg != Gpr::none) s_.mov(Gpr::rax, counter.reg);
  else s_.mov(Gpr::rax, CodeStream::slot(counter.slot));
  s_.binary_imm(Op::add, Gpr::rax, static_cast<std::int32_t>(length));
  s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
  s_.binary(Op::cmovg, Gpr::rax, Gpr::rdx);
  s_.mov(CodeStream::slot(block_end), Gpr::rax);
}

/// A row's blocks, combined in pairs: `content` runs one from the counter to `block_end` and leaves its values in
/// `values`.
SINTER_DECL void LoopGenerator::chain(const Counter& counter, Mem count, std::vector<Running>& values,
                                      const Content& content) {
  const int block_end = s_.frame(8), top = s_.new_label(), done = s_.new_label();
  const Stack stack = make_stack(values.size());
  set_counter(counter, 0);
  s_.mov_imm(CodeStream::slot(stack.pointer), 0);
  s_.mov_imm(CodeStream::slot(stack.block), 0);
  s_.begin_loop();
  s_.bind(top);
  set_block_end(counter, count, row_sum_block, block_end);
  content(block_end);
  s_.mov(Gpr::rax, count);
  s_.binary_imm(Op::cmp, Gpr::rax, static_cast<std::int32_t>(row_sum_block));
  s_.jump(Op::jle, done);
  push(stack, values);
  compare_counter(counter, count);
  s_.jump(Op::jl, top);
  s_.end_loop();
  pop_all(stack, values);
  s_.bind(done);
}

SINTER_DECL LoopGenerator::Stack LoopGenerator::make_stack(std::size_t values) {
  constexpr int levels = 36;  // 2^36 blocks
  return {s_.frame(8), s_.frame(8), s_.frame(levels * 64 * static_cast<int>(values), 64)};
}

/// Reads entry i at byte offset rdx of the stack.
SINTER_DECL void LoopGenerator::load_stacked(const Stack& stack, const std::vector<Running>& values, std::size_t i,
                                             VReg to) {
  const int bytes = b_.bytes(lane_of(values[i].dtype));
  s_.emit(Op::vmovups, {vec(to, bytes), mem(bytes)},
          CodeStream::at(Gpr::rsp, Gpr::rdx, 0, stack.base + 64 * static_cast<std::int32_t>(i)));
}

/// values = (entry at byte offset rdx of the stack, which is older) op values.
SINTER_DECL void LoopGenerator::combine_with_top(const Stack& stack, const std::vector<Running>& values) {
  for (std::size_t i = 0; i < values.size(); i += numbers_of(values[i])) {
    const Lane lane = lane_of(values[i].dtype);
    VReg older = s_.new_vec(b_.bytes(lane));
    load_stacked(stack, values, i, older);
    if (values[i].prim != Prim::fold) {
      b_.assign(lane, values[i].reg, combine(b_, values[i].prim, values[i].dtype, older, values[i].reg));
      continue;
    }
    std::vector<VReg> state{older};
    for (std::size_t n = 1; n < numbers_of(values[i]); ++n) {
      state.push_back(s_.new_vec(b_.bytes(lane_of(values[i + n].dtype))));
      load_stacked(stack, values, i + n, state.back());
    }
    merge_into_newer(state, std::span(values).subspan(i, state.size()));
  }
}

/// Combines with the top once for each trailing one-bit of the block's number (older first), then pushes.
SINTER_DECL void LoopGenerator::push(const Stack& stack, std::vector<Running>& values) {
  const int again = s_.new_label(), store = s_.new_label();
  const auto entry = static_cast<std::int32_t>(64 * values.size());
  s_.mov(Gpr::r9, CodeStream::slot(stack.block));
  s_.begin_loop();
  s_.bind(again);
  s_.emit(Op::test, {reg(Gpr::r9, 4), immediate()}, 1).only_reads = true;
  s_.jump(Op::je, store);
  s_.binary_imm(Op::sub, CodeStream::slot(stack.pointer), entry);
  s_.mov(Gpr::rdx, CodeStream::slot(stack.pointer));
  combine_with_top(stack, values);
  s_.binary_imm(Op::shr, Gpr::r9, 1);
  s_.jump(Op::jmp, again);
  s_.end_loop();
  s_.bind(store);
  s_.mov(Gpr::rdx, CodeStream::slot(stack.pointer));
  for (std::size_t i = 0; i < values.size(); ++i)
    b_.store_whole(lane_of(values[i].dtype),
                   CodeStream::at(Gpr::rsp, Gpr::rdx, 0, stack.base + 64 * static_cast<std::int32_t>(i)),
                   values[i].reg);
  s_.binary_imm(Op::add, CodeStream::slot(stack.pointer), entry);
  s_.binary_imm(Op::add, CodeStream::slot(stack.block), 1);
}

/// What is left on the stack, combined from the top down (older first).
SINTER_DECL void LoopGenerator::pop_all(const Stack& stack, std::vector<Running>& values) {
  const int again = s_.new_label(), done = s_.new_label();
  const auto entry = static_cast<std::int32_t>(64 * values.size());
  s_.mov(Gpr::rdx, CodeStream::slot(stack.pointer));
  s_.binary_imm(Op::sub, Gpr::rdx, entry);
  for (std::size_t i = 0; i < values.size(); ++i) load_stacked(stack, values, i, values[i].reg);
  s_.begin_loop();
  s_.bind(again);
  s_.binary_imm(Op::sub, Gpr::rdx, entry);
  s_.jump(Op::jl, done);
  combine_with_top(stack, values);
  s_.jump(Op::jmp, again);
  s_.end_loop();
  s_.bind(done);
}

}  // namespace x86
SINTER_NAMESPACE_END
