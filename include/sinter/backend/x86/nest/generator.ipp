// Pointwise and row kernels: passes over a row, lane accumulators, main loops and tails; and the two functions that let
// the blocks of a long row run in parallel.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {
/// Rows that the variant for short rows does side by side.
inline int short_rows_at_once(const LoopPlan& plan) {
  std::size_t cost = 0;
  for (const Inst& inst : plan.kernel->body) cost += as_index(cost_of(inst.prim));
  return plan.isa == Isa::avx512 && cost <= 120 ? 4 : 2;
}

/// Vectors per step of a reducing row loop: as many as the 256 bytes of lanes need for the widest reduction.
inline int row_copies(const LoopPlan& plan) {
  int copies = plan.unroll;
  for (const PassPlan& pass : plan.passes)
    for (InstId i : pass.reductions) {
      const DType dtype = plan.kernel->body[i].dtype;
      copies = std::max(copies, is_floating(dtype) ? 256 / static_cast<int>(size_of(dtype)) / plan.lanes : 4);
    }
  return copies;
}
}  // namespace x86_detail

SINTER_DECL LoopGenerator::LoopGenerator(const LoopPlan& plan, LoopPart part)
    : plan_(plan),
      part_(part),
      s_(plan.isa),
      row_copies_(part == LoopPart::short_rows ? x86_detail::short_rows_at_once(plan)
                  : plan.is_row                ? x86_detail::row_copies(plan)
                                               : plan.unroll),
      body_(s_, plan, row_copies_),
      b_(body_.builder()) {
  if (part == LoopPart::short_rows) body_.set_rows(row_copies_);
  end_slot_ = s_.frame(8);
  count_slot_ = s_.frame(8);
  main_end_slot_ = s_.frame(8);
  body_.far_slot = s_.frame(8);
  body_.streams = part == LoopPart::streaming;
}

SINTER_DECL CodeStream LoopGenerator::run() {
  s_.mov(CodeStream::slot(end_slot_), Gpr::rdx);
  kernel_region_ = s_.open_region();
  body_.assign_pointers();
  body_.emit_outside(Level::kernel, 0, nullptr, 0);
  if (part_ == LoopPart::blocks) blocks_function();
  else if (part_ == LoopPart::short_rows) short_rows_function();
  else
    outer_loop([&] {
      if (part_ == LoopPart::finish) finish_function();
      else if (plan_.is_column) column_step();
      else row_step();
    });
  if (body_.streams) s_.push({.op = Op::sfence});
  s_.push({.op = Op::ret});
  return std::move(s_);
}

SINTER_DECL void LoopGenerator::outer_loop(const Action& step) {
  run_loop({.reg = loop_reg::outer}, CodeStream::slot(end_slot_), step);
}

/// Constants of a pass are loaded where it starts, unless it is the only one: then where the function starts.
SINTER_DECL std::uint16_t LoopGenerator::enter_pass() {
  const std::uint16_t outside = s_.region();
  if (plan_.passes.size() > 1) s_.open_region();
  return outside;
}

SINTER_DECL void LoopGenerator::row_step() {
  const std::size_t stages = std::max(plan_.passes.size(), as_index(plan_.depths) + 1);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    body_.emit_outside(Level::outer, static_cast<int>(stage), nullptr, 0);
    if (stage >= plan_.passes.size()) continue;
    if (stage == 0 || plan_.near_axis >= 0) body_.reset_pointers();
    const std::uint16_t outside = enter_pass();
    row_pass(stage);
    s_.use_region(outside);
  }
  for (std::uint16_t s : plan_.outer_stores) body_.store_outer(plan_.kernel->stores[s], Lane0{});
}

SINTER_DECL std::vector<LoopGenerator::Running> LoopGenerator::row_values(std::size_t pass) {
  std::vector<Running> values;
  for (InstId i : plan_.passes[pass].reductions) {
    const Inst& inst = plan_.kernel->body[i];
    values.push_back({s_.new_vec(b_.bytes(lane_of(inst.dtype))), inst.prim, inst.dtype});
  }
  return values;
}

SINTER_DECL void LoopGenerator::row_pass(std::size_t pass) {
  std::vector<Running> results = row_values(pass);
  make_accumulators(pass);
  body_.prepare_divisions(plan_.passes[pass].needed);
  if (plan_.near_axis < 0) {
    row_columns(pass, results);
  } else {
    std::vector<Running> rows = row_values(pass);
    walk({.reg = loop_reg::near}, arg(offsetof(LoopArgs, reduced)), results, rows, Items::heavy, [&] {
      for (InstId i : plan_.passes[pass].needed)
        if (plan_.insts[i].level == Level::near) body_.emit_inner(i, Lane0{}, false);
      row_columns(pass, rows);
      body_.advance_pointers(false);
    });
  }
  publish(pass, results);
}

SINTER_DECL void LoopGenerator::publish(std::size_t pass, const std::vector<Running>& results) {
  const auto& reductions = plan_.passes[pass].reductions;
  for (std::size_t i = 0; i < reductions.size(); ++i)
    body_.set_value(
        reductions[i], 0,
        results[i].dtype == DType::bool_ ? x86_detail::number_to_mask(b_, results[i].reg, Lane::i32) : results[i].reg);
}

SINTER_DECL void LoopGenerator::row_columns(std::size_t pass, std::vector<Running>& results) {
  if (results.empty()) return map_columns(pass);
  chain({.reg = loop_reg::column}, arg(offsetof(LoopArgs, columns)), results,
        [&](int block_end) { row_block(pass, results, block_end); });
}

/// Floats have 256 bytes of lanes by definition; for integers any number gives the same result.
SINTER_DECL int LoopGenerator::accumulators_of(DType dtype, int copies) const {
  return is_floating(dtype) ? 256 / static_cast<int>(size_of(dtype)) / plan_.lanes : std::min(copies, 4);
}

SINTER_DECL void LoopGenerator::make_accumulators(std::size_t pass) {
  accumulators_.clear();
  for (InstId i : plan_.passes[pass].reductions) {
    const DType dtype = plan_.kernel->body[i].dtype;
    Accumulators& into = accumulators_.emplace_back();
    for (int a = 0; a < accumulators_of(dtype, row_copies_); ++a)
      into.lanes.push_back(s_.new_vec(b_.bytes(lane_of(dtype))));
    const Prim prim = plan_.kernel->body[i].prim;
    if (b_.is_avx512() && is_floating(dtype) && (prim == Prim::reduce_min || prim == Prim::reduce_max))
      into.saw_nan = s_.new_mask();
  }
}

SINTER_DECL void LoopGenerator::clear_accumulators(const std::vector<Running>& results) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Lane lane = lane_of(results[r].dtype);
    for (VReg accumulator : accumulators_[r].lanes) b_.assign(lane, accumulator, neutral(results[r]));
    if (accumulators_[r].saw_nan != no_vreg) b_.clear_mask(lane, accumulators_[r].saw_nan);
  }
}

/// Clobbers nothing but the accumulator and the NaN mask. Whole vectors are looked at in pairs.
SINTER_DECL void LoopGenerator::accumulate_extremum(Accumulators& into, const Inst& inst, VReg v, const Lane0& lane) {
  const Lane type = lane_of(inst.dtype);
  const VReg to = into.lanes[as_index(lane.copy) % into.lanes.size()];
  VReg next = b_.number_extremum(type, to, v, inst.prim == Prim::reduce_min);
  if (lane.tail.active() || !s_.retarget_last(next, to)) b_.assign_where(type, to, next, lane.tail);
  if (!lane.tail.active() && into.unseen == no_vreg && lane.copy % 2 == 0 && lane.copy + 1 < row_copies_) {
    into.unseen = v;
    return;
  }
  VReg is_nan = b_.compare(type, Compare::unordered, into.unseen == no_vreg ? v : into.unseen, v);
  into.unseen = no_vreg;
  if (lane.tail.active()) is_nan = b_.mask_and(is_nan, b_.as_element(lane.tail.mask, size_of(type)));
  b_.merge_mask(into.saw_nan, is_nan);
}

/// One block of a row: rcx to block_end, in steps of row_copies_ vectors, the rest vector by vector under masks.
SINTER_DECL void LoopGenerator::row_block(std::size_t pass, std::vector<Running>& results, int block_end) {
  const int step = row_copies_ * plan_.lanes, top = s_.new_label(), rest = s_.new_label(), done = s_.new_label();
  clear_accumulators(results);
  s_.mov(Gpr::rax, CodeStream::slot(block_end));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::jle, rest);
  s_.binary(Op::add, Gpr::rax, loop_reg::column);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  s_.begin_loop();
  s_.bind(top);
  for (int u = 0; u < row_copies_; ++u) vector_step(pass, {.copy = u, .column_offset = u * plan_.lanes, .tail = {}});
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(rest);
  for (int u = 0; u < row_copies_; ++u) {
    s_.mov(Gpr::rax, CodeStream::slot(block_end));
    s_.binary(Op::sub, Gpr::rax, loop_reg::column);
    s_.jump(Op::jle, done);
    vector_step(
        pass,
        {.copy = u, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, plan_.needs_count)});
    s_.binary_imm(Op::add, loop_reg::column, plan_.lanes);
  }
  s_.bind(done);
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Lane lane = lane_of(results[r].dtype);
    VReg value = combine_lanes(r, pass);
    if (!s_.retarget_last(value, results[r].reg)) b_.assign(lane, results[r].reg, value);
    if (accumulators_[r].saw_nan != no_vreg) restore_nan(results[r].reg, lane, accumulators_[r].saw_nan);
  }
}

/// Lane i with lane i + half, half = all lanes / 2, ..., 1; the result in every lane.
SINTER_DECL VReg LoopGenerator::combine_lanes(std::size_t reduction, std::size_t pass) {
  const Inst& inst = plan_.kernel->body[plan_.passes[pass].reductions[reduction]];
  const Lane lane = lane_of(inst.dtype);
  std::vector<VReg> parts = accumulators_[reduction].lanes;
  const VReg saw_nan = accumulators_[reduction].saw_nan;
  auto combine_two = [&](VectorBuilder& b, VReg older, VReg newer) {
    if (saw_nan == no_vreg) return combine(b, inst.prim, inst.dtype, older, newer);
    return b.number_extremum(lane, older, newer, inst.prim == Prim::reduce_min);
  };
  while (parts.size() > 1) {
    const std::size_t half = parts.size() / 2;
    for (std::size_t i = 0; i < half; ++i) parts[i] = combine_two(b_, parts[i], parts[i + half]);
    parts.resize(half);
  }
  VReg value = parts[0];
  for (int lanes = plan_.lanes; lanes > 1; lanes /= 2) {
    VReg upper = b_.with_lanes(lanes).upper_half(lane, value);
    VectorBuilder narrow = b_.with_lanes(lanes / 2);
    value = combine_two(narrow, value, upper);
  }
  return b_.broadcast_first(lane, value);
}

SINTER_DECL void LoopGenerator::restore_nan(VReg result, Lane lane, VReg saw_nan) {
  const int none = s_.new_label();
  b_.jump_if_none(saw_nan, none);
  b_.assign(lane, result, b_.imm_float(lane, std::numeric_limits<double>::quiet_NaN()));
  s_.bind(none);
}

/// One vector of a pass: loads and arithmetic, then the reductions, then the stores.
SINTER_DECL void LoopGenerator::vector_step(std::size_t pass, const Lane0& lane) {
  const PassPlan& p = plan_.passes[pass];
  for (InstId i : p.needed) {
    const InstPlan& inst = plan_.insts[i];
    if (inst.level != Level::column) continue;
    const bool kept = inst.stash >= 0 && inst.first_pass < pass;
    body_.emit_inner(i, lane, kept);
    if (inst.stash >= 0 && inst.first_pass == pass) body_.store_stash(i, lane);
  }
  accumulate(pass, lane);
  if (p.stores)
    for (std::uint16_t s : plan_.inner_stores) body_.store_inner(plan_.kernel->stores[s], lane);
}

SINTER_DECL void LoopGenerator::accumulate(std::size_t pass, const Lane0& lane) {
  const auto& reductions = plan_.passes[pass].reductions;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    const Inst& inst = plan_.kernel->body[reductions[r]];
    VReg v = body_.value(inst.args[0], lane.copy);
    if (inst.dtype == DType::bool_) v = x86_detail::mask_to_number(b_, v, Lane::i32);
    Accumulators& into = accumulators_[r];
    if (into.saw_nan != no_vreg) accumulate_extremum(into, inst, v, lane);
    else step_of({into.lanes[as_index(lane.copy) % into.lanes.size()], inst.prim, inst.dtype}, v, lane.tail);
  }
}

SINTER_DECL void LoopGenerator::map_columns(std::size_t pass) {
  const int step = plan_.unroll * plan_.lanes;
  const int top = s_.new_label(), tails = s_.new_label(), tail_top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.mov_imm(loop_reg::column, 0);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::je, tails);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  s_.begin_loop();
  s_.bind(top);
  for (int u = 0; u < plan_.unroll; ++u) vector_step(pass, {.copy = u, .column_offset = u * plan_.lanes, .tail = {}});
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(tails);
  s_.begin_loop();
  s_.bind(tail_top);
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.jump(Op::jle, done);
  vector_step(
      pass, {.copy = 0, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, plan_.needs_count)});
  s_.binary_imm(Op::add, loop_reg::column, plan_.lanes);
  s_.jump(Op::jmp, tail_top);
  s_.end_loop();
  s_.bind(done);
}

// Leaves apart
// ---------------------------------------------------------------------------------------------------------

/// begin and end count blocks of the row at outer 0. Block values go to scratch, 8 bytes each, block-major.
SINTER_DECL void LoopGenerator::blocks_function() {
  const int block = s_.frame(8), block_end = s_.frame(8);
  s_.mov(CodeStream::slot(block), loop_reg::outer);
  s_.mov_imm(loop_reg::outer, 0);
  body_.emit_outside(Level::outer, 0, nullptr, 0);
  body_.reset_pointers();
  std::vector<Running> results = row_values(0);
  make_accumulators(0);
  run_loop({.reg = Gpr::none, .slot = block}, CodeStream::slot(end_slot_), [&] {
    s_.emit(Op::imul, {reg(loop_reg::column), mem(8), immediate()}, CodeStream::slot(block), row_sum_block);
    s_.emit(Op::lea, {reg(Gpr::rax), mem(8)},
            CodeStream::at(loop_reg::column, static_cast<std::int32_t>(row_sum_block)));
    s_.mov(Gpr::rdx, arg(offsetof(LoopArgs, columns)));
    s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
    s_.binary(Op::cmovg, Gpr::rax, Gpr::rdx);
    s_.mov(CodeStream::slot(block_end), Gpr::rax);
    row_block(0, results, block_end);
    s_.emit(Op::imul, {reg(Gpr::rdx), mem(8), immediate()}, CodeStream::slot(block),
            static_cast<std::int64_t>(8 * results.size()));
    s_.binary(Op::add, Gpr::rdx, arg(offsetof(LoopArgs, scratch)));
    for (std::size_t i = 0; i < results.size(); ++i)
      b_.store_scalar(results[i].dtype == DType::bool_ ? DType::i32 : results[i].dtype,
                      CodeStream::at(Gpr::rdx, static_cast<std::int32_t>(8 * i)), results[i].reg);
  });
}

/// One outer step from the block values in scratch; args.reduced is their number (at least one).
SINTER_DECL void LoopGenerator::finish_function() {
  body_.emit_outside(Level::outer, 0, nullptr, 0);
  body_.reset_pointers();
  std::vector<Running> results = row_values(0);
  const Stack stack = make_stack(results.size());
  const int done = s_.new_label(), top = s_.new_label();
  s_.mov_imm(loop_reg::near, 0);
  s_.mov_imm(CodeStream::slot(stack.pointer), 0);
  s_.mov_imm(CodeStream::slot(stack.block), 0);
  s_.begin_loop();
  s_.bind(top);
  s_.emit(Op::imul, {reg(Gpr::rdx), reg(loop_reg::near), immediate()}, static_cast<std::int64_t>(8 * results.size()));
  s_.binary(Op::add, Gpr::rdx, arg(offsetof(LoopArgs, scratch)));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const DType dtype = results[i].dtype == DType::bool_ ? DType::i32 : results[i].dtype;
    b_.assign(lane_of(dtype), results[i].reg,
              b_.load_broadcast(dtype, CodeStream::at(Gpr::rdx, static_cast<std::int32_t>(8 * i))));
  }
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, reduced)));
  s_.binary_imm(Op::cmp, Gpr::rax, 1);
  s_.jump(Op::jle, done);
  push(stack, results);
  s_.binary_imm(Op::add, loop_reg::near, 1);
  s_.binary(Op::cmp, loop_reg::near, arg(offsetof(LoopArgs, reduced)));
  s_.jump(Op::jl, top);
  s_.end_loop();
  pop_all(stack, results);
  s_.bind(done);
  publish(0, results);
  for (int stage = 1; stage <= plan_.depths; ++stage) body_.emit_outside(Level::outer, stage, nullptr, 0);
  for (std::uint16_t s : plan_.outer_stores) body_.store_outer(plan_.kernel->stores[s], Lane0{});
}

}  // namespace x86
SINTER_NAMESPACE_END
