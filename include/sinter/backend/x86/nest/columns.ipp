// Column kernels: a block of columns in registers, the reduced axes walked in order.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>
#include <sinter/base/index.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

#include <algorithm>
#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Blocks of `vectors` vectors while that many are left.
SINTER_DECL void LoopGenerator::column_blocks(int vectors) {
  const int step = vectors * plan_.lanes, top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::je, done);
  s_.binary(Op::add, Gpr::rax, loop_reg::column);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  std::vector<Lane0> lanes;
  for (int u = 0; u < vectors; ++u) lanes.push_back({.copy = u, .column_offset = u * plan_.lanes, .tail = {}});
  s_.begin_loop();
  s_.bind(top);
  column_block(lanes);
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::column_step() {
  const int tail_top = s_.new_label(), done = s_.new_label();
  body_.emit_outside(Level::outer, 0, nullptr, 0);
  s_.mov_imm(loop_reg::column, 0);
  column_blocks(plan_.unroll);
  if (plan_.unroll > 4) column_blocks(4);
  s_.begin_loop();
  s_.bind(tail_top);
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.jump(Op::jle, done);
  column_block(
      {{.copy = 0, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, plan_.needs_count)}});
  s_.binary_imm(Op::add, loop_reg::column, plan_.lanes);
  s_.jump(Op::jmp, tail_top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::column_block(const std::vector<Lane0>& lanes) {
  const std::size_t stages = std::max(plan_.passes.size(), as_index(plan_.depths) + 1);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    if (stage < plan_.passes.size()) body_.reset_pointers();
    body_.emit_outside(Level::column, static_cast<int>(stage), lanes.data(), lanes.size());
    if (stage < plan_.passes.size()) column_pass(stage, lanes);
  }
  for (std::uint16_t s : plan_.outer_stores)
    for (const Lane0& lane : lanes) body_.store_outer(plan_.kernel->stores[s], lane);
}

/// Uniform instructions of one level, then those of each vector.
SINTER_DECL void LoopGenerator::emit_level(std::size_t pass, Level level, const std::vector<Lane0>& lanes) {
  const PassPlan& p = plan_.passes[pass];
  for (InstId i : p.needed)
    if (plan_.insts[i].level == level && !plan_.insts[i].is_vector) body_.emit_inner(i, Lane0{}, false);
  for (const Lane0& lane : lanes)
    for (InstId i : p.needed)
      if (plan_.insts[i].level == level && plan_.insts[i].is_vector) body_.emit_inner(i, lane, false);
}

/// One running value per reduction and vector, reduction-major.
SINTER_DECL std::vector<LoopGenerator::Running> LoopGenerator::column_values(std::size_t pass,
                                                                             const std::vector<Lane0>& lanes) {
  std::vector<Running> values;
  for (InstId i : plan_.passes[pass].reductions)
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const Inst& inst = plan_.kernel->body[i];
      values.push_back({s_.new_vec(b_.bytes(lane_of(inst.dtype))), inst.prim, inst.dtype});
    }
  return values;
}

SINTER_DECL LoopGenerator::Items LoopGenerator::near_items(std::size_t pass) const {
  constexpr int few = 6;
  const PassPlan& p = plan_.passes[pass];
  int cost = p.stores ? few : 0;
  for (InstId i : p.needed)
    if (plan_.insts[i].level == Level::near) cost += static_cast<int>(cost_of(plan_.kernel->body[i].prim));
  return cost < few ? Items::light : Items::heavy;
}

SINTER_DECL void LoopGenerator::walk_near(std::size_t pass, const std::vector<Lane0>& lanes,
                                          std::vector<Running>& results) {
  std::vector<Running> items = results;
  walk({.reg = loop_reg::near}, arg(offsetof(LoopArgs, reduced)), results, items, near_items(pass), [&] {
    emit_level(pass, Level::near, lanes);
    std::size_t at = 0;
    for (InstId i : plan_.passes[pass].reductions)
      for (const Lane0& lane : lanes) {
        const InstId source = plan_.kernel->body[i].args[0];
        VReg v = body_.value(source, lane.copy);
        items[at++].reg =
            plan_.kernel->body[i].dtype == DType::bool_ ? x86_detail::mask_to_number(b_, v, Lane::i32) : v;
      }
    if (plan_.passes[pass].stores)
      for (const Lane0& lane : lanes)
        for (std::uint16_t s : plan_.inner_stores) body_.store_inner(plan_.kernel->stores[s], lane);
    body_.advance_pointers(false);
  });
}

SINTER_DECL void LoopGenerator::column_pass(std::size_t pass, const std::vector<Lane0>& lanes) {
  const std::uint16_t outside = enter_pass();
  std::vector<Running> results = column_values(pass, lanes);
  if (plan_.far_axis < 0) {
    walk_near(pass, lanes, results);
  } else {
    std::vector<Running> inner = column_values(pass, lanes);
    walk({.reg = Gpr::none, .slot = body_.far_slot}, arg(offsetof(LoopArgs, far)), results, inner, Items::heavy, [&] {
      emit_level(pass, Level::far, lanes);
      walk_near(pass, lanes, inner);
      body_.rewind_near();
      body_.advance_pointers(true);
    });
  }
  std::size_t at = 0;
  for (InstId i : plan_.passes[pass].reductions)
    for (const Lane0& lane : lanes) {
      const VReg v = results[at++].reg;
      body_.set_value(i, lane.copy,
                      plan_.kernel->body[i].dtype == DType::bool_ ? x86_detail::number_to_mask(b_, v, Lane::i32) : v);
    }
  s_.use_region(outside);
}

}  // namespace x86
SINTER_NAMESPACE_END
