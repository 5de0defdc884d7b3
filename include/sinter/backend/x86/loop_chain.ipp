// Chains: a reduced axis walked in leaves of 4096 whose values are combined pairwise by a binary counter.
#pragma once

#include <sinter/backend/x86/loop_generator.hpp>

#include <sinter/backend/x86/loop.hpp>
#include <sinter/backend/x86/lower.hpp>

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

SINTER_DECL VReg LoopGenerator::neutral(const Running& value) { return b_.imm_bits(lane_of(value.dtype), neutral_bits(value.prim, value.dtype)); }

/// value = value op newer, where the tail says so.
SINTER_DECL void LoopGenerator::step_of(const Running& value, VReg newer, const Tail& tail) {
  VReg next = combine(b_, value.prim, value.dtype, value.reg, newer);
  if (tail.active() || !s_.retarget_last(next, value.reg)) b_.assign_where(lane_of(value.dtype), value.reg, next, tail);
}

/// Walks [0, count) in order: `item` computes `items`, which enter `values`. Without values it is a plain loop.
SINTER_DECL void LoopGenerator::walk(const Counter& counter, Mem count, std::vector<Running>& values, const std::vector<Running>& items, const Action& item) {
  if (values.empty()) {
    set_counter(counter, 0);
    return run_loop(counter, count, item);
  }
  chain(counter, count, values, [&](int leaf_end) {
    for (const Running& v : values) b_.assign(lane_of(v.dtype), v.reg, neutral(v));
    run_loop(counter, CodeStream::slot(leaf_end), [&] {
      item();
      for (std::size_t i = 0; i < values.size(); ++i) step_of(values[i], items[i].reg, Tail{});
    });
  });
}

/// `content` runs one leaf from the counter to `leaf_end` and leaves the leaf's values in `values`.
SINTER_DECL void LoopGenerator::chain(const Counter& counter, Mem count, std::vector<Running>& values, const Content& content) {
  const int leaf_end = s_.frame(8), top = s_.new_label(), done = s_.new_label();
  const Stack stack = make_stack(values.size());
  set_counter(counter, 0);
  s_.mov_imm(CodeStream::slot(stack.pointer), 0);
  s_.mov_imm(CodeStream::slot(stack.leaf), 0);
  s_.begin_loop();
  s_.bind(top);
  s_.mov(Gpr::rdx, count);
  if (counter.reg != Gpr::none) s_.mov(Gpr::rax, counter.reg);
  else s_.mov(Gpr::rax, CodeStream::slot(counter.slot));
  s_.binary_imm(Op::add, Gpr::rax, static_cast<std::int32_t>(leaf_elements));
  s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
  s_.binary(Op::cmovg, Gpr::rax, Gpr::rdx);
  s_.mov(CodeStream::slot(leaf_end), Gpr::rax);
  content(leaf_end);
  s_.mov(Gpr::rax, count);
  s_.binary_imm(Op::cmp, Gpr::rax, static_cast<std::int32_t>(leaf_elements));
  s_.jump(Op::jle, done);
  push(stack, values);
  compare_counter(counter, count);
  s_.jump(Op::jl, top);
  s_.end_loop();
  pop_all(stack, values);
  s_.bind(done);
}

SINTER_DECL LoopGenerator::Stack LoopGenerator::make_stack(std::size_t values) {
  constexpr int levels = 36;   // 2^36 leaves
  return {s_.frame(8), s_.frame(8), s_.frame(levels * 64 * static_cast<int>(values), 64)};
}

/// Reads entry i at byte offset rdx of the stack.
SINTER_DECL void LoopGenerator::load_stacked(const Stack& stack, const std::vector<Running>& values, std::size_t i, VReg to) {
  const int bytes = b_.bytes(lane_of(values[i].dtype));
  s_.emit(Op::vmovups, {vec(to, bytes), mem(bytes)}, CodeStream::at(Gpr::rsp, Gpr::rdx, 0, stack.base + 64 * static_cast<std::int32_t>(i)));
}

/// Combines with the top once for each trailing one-bit of the leaf's number (older first), then pushes.
SINTER_DECL void LoopGenerator::push(const Stack& stack, std::vector<Running>& values) {
  const int again = s_.new_label(), store = s_.new_label();
  const auto entry = static_cast<std::int32_t>(64 * values.size());
  s_.mov(Gpr::r9, CodeStream::slot(stack.leaf));
  s_.begin_loop();
  s_.bind(again);
  s_.emit(Op::test, {reg(Gpr::r9, 4), immediate()}, 1).only_reads = true;
  s_.jump(Op::je, store);
  s_.binary_imm(Op::sub, CodeStream::slot(stack.pointer), entry);
  s_.mov(Gpr::rdx, CodeStream::slot(stack.pointer));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lane lane = lane_of(values[i].dtype);
    VReg older = s_.new_vec(b_.bytes(lane));
    load_stacked(stack, values, i, older);
    b_.assign(lane, values[i].reg, combine(b_, values[i].prim, values[i].dtype, older, values[i].reg));
  }
  s_.binary_imm(Op::shr, Gpr::r9, 1);
  s_.jump(Op::jmp, again);
  s_.end_loop();
  s_.bind(store);
  s_.mov(Gpr::rdx, CodeStream::slot(stack.pointer));
  for (std::size_t i = 0; i < values.size(); ++i)
    b_.store_whole(lane_of(values[i].dtype), CodeStream::at(Gpr::rsp, Gpr::rdx, 0, stack.base + 64 * static_cast<std::int32_t>(i)), values[i].reg);
  s_.binary_imm(Op::add, CodeStream::slot(stack.pointer), entry);
  s_.binary_imm(Op::add, CodeStream::slot(stack.leaf), 1);
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
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lane lane = lane_of(values[i].dtype);
    VReg older = s_.new_vec(b_.bytes(lane));
    load_stacked(stack, values, i, older);
    b_.assign(lane, values[i].reg, combine(b_, values[i].prim, values[i].dtype, older, values[i].reg));
  }
  s_.jump(Op::jmp, again);
  s_.end_loop();
  s_.bind(done);
}

}  // namespace x86
SINTER_NAMESPACE_END
