// Column kernels: a block of columns in registers, the reduced axes walked in order.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>
#include <sinter/base/index.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Blocks of `vectors` vectors while that many are left.
SINTER_DECL void LoopGenerator::column_blocks(std::size_t loop, int vectors) {
  const int step = vectors * nest_.lanes, top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::je, done);
  s_.binary(Op::add, Gpr::rax, loop_reg::column);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  std::vector<Lane0> lanes;
  for (int u = 0; u < vectors; ++u) lanes.push_back({.copy = u, .column_offset = u * nest_.lanes, .tail = {}});
  s_.begin_loop();
  s_.bind(top);
  column_block(loop, lanes);
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::column_step(std::size_t outer) {
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::loop) columns(child);
    else render_outside(child, {});
  });
}

SINTER_DECL void LoopGenerator::columns(std::size_t loop) {
  const int tail_top = s_.new_label(), done = s_.new_label(), copies = nest_.loop_of(node(loop)).copies;
  s_.mov_imm(loop_reg::column, 0);
  column_blocks(loop, copies);
  if (copies > 4) column_blocks(loop, 4);
  s_.begin_loop();
  s_.bind(tail_top);
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.jump(Op::jle, done);
  const Tail tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, prepared_.needs_count);
  column_block(loop, {{.copy = 0, .column_offset = 0, .tail = tail}});
  s_.binary_imm(Op::add, loop_reg::column, nest_.lanes);
  s_.jump(Op::jmp, tail_top);
  s_.end_loop();
  s_.bind(done);
}

/// Each pass begins at the block's first point; what stands before it is addressed from there, too.
SINTER_DECL void LoopGenerator::column_block(std::size_t loop, const std::vector<Lane0>& lanes) {
  int passes = passes_in(loop);
  body_.reset_pointers();
  nest_.for_each_child(loop, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::store) {
      for (const Lane0& lane : lanes) body_.store_outer(kernel_.stores[node(child).first], lane);
    } else if (is_pass(child)) {
      column_pass(loop, child, lanes);
      if (--passes > 0) body_.reset_pointers();
    } else {
      render_outside(child, lanes);
    }
  });
}

/// What a point of the reduced axes has: what is the same in all lanes once, the rest for each vector.
SINTER_DECL void LoopGenerator::emit_point(std::size_t place, const std::vector<Lane0>& lanes) {
  const NestNode& n = node(place);
  if (n.kind == NestNodeKind::check) body_.check_index(n.first);
  if (n.kind != NestNodeKind::compute) return;
  const std::span<const InstId> ids = nest_.ids_of(n);
  const bool is_vector = nest_.places[ids[0]].is_vector;
  for (std::size_t l = 0; l < (is_vector ? lanes.size() : 1); ++l)
    for (const InstId id : ids) body_.emit(id, is_vector ? lanes[l] : Lane0{});
}

/// One running value per reduction and vector, reduction-major.
SINTER_DECL std::vector<LoopGenerator::Running> LoopGenerator::column_values(Reductions reductions,
                                                                             const std::vector<Lane0>& lanes) {
  std::vector<Running> values;
  for (std::size_t i = 0; i < reductions.size(); ++i)
    for (const Lane0& lane : lanes) add_values(values, reductions, i, lane.copy);
  return values;
}

SINTER_DECL void LoopGenerator::walk_near(std::size_t pass, const std::vector<Lane0>& lanes,
                                          std::vector<Running>& results) {
  std::vector<Running> items = results;
  const std::size_t loop = loop_of(pass);
  const Items kind = nest_.loop_of(node(loop)).copies > 1 ? Items::light : Items::heavy;
  walk({.reg = loop_reg::near}, arg(offsetof(LoopArgs, reduced)), results, items, kind, [&] {
    nest_.for_each_child(loop, [&](std::size_t child) {
      emit_point(child, lanes);
      if (node(child).kind == NestNodeKind::step) take_in(items);
      if (node(child).kind == NestNodeKind::store)
        for (const Lane0& lane : lanes) body_.store_inner(kernel_.stores[node(child).first], lane);
    });
    body_.advance_pointers(false);
  });
}

/// The values that a point gives to the reductions.
SINTER_DECL void LoopGenerator::take_in(std::vector<Running>& items) {
  for (Running& item : items) {
    if (item.prim == Prim::fold) {
      if (item.number == 0) item.point = point_of(item.holder, item.copy);
      continue;
    }
    const VReg v = body_.value(kernel_.body[item.holder].args[0], item.copy);
    item.reg = item.dtype == DType::bool_ ? x86_detail::mask_to_number(b_, v, Lane::i32) : v;
  }
}

SINTER_DECL void LoopGenerator::column_pass(std::size_t parent, std::size_t pass, const std::vector<Lane0>& lanes) {
  if (is_scan_pass(pass)) return scan_columns(pass, lanes);
  const std::uint16_t outside = enter_pass(parent);
  const Reductions reductions = reductions_of(pass);
  std::vector<Running> results = column_values(reductions, lanes);
  if (nest_.far_axis < 0) {
    walk_near(pass, lanes, results);
  } else {
    std::vector<Running> inner = column_values(reductions, lanes);
    walk({.reg = Gpr::none, .slot = body_.far_slot}, arg(offsetof(LoopArgs, far)), results, inner, Items::heavy, [&] {
      nest_.for_each_child(loop_of(pass), [&](std::size_t child) {
        if (is_pass(child)) walk_near(child, lanes, inner);
        else emit_point(child, lanes);
      });
      body_.rewind_near();
      body_.advance_pointers(true);
    });
  }
  std::size_t at = 0;
  for (const InstId i : reductions)
    for (const Lane0& lane : lanes) {
      if (kernel_.body[i].prim == Prim::fold) {
        publish_fold(i, results, lane.copy);
        continue;
      }
      while (results[at].prim == Prim::fold) ++at;
      const VReg v = results[at++].reg;
      body_.set_value(i, lane.copy,
                      kernel_.body[i].dtype == DType::bool_ ? x86_detail::number_to_mask(b_, v, Lane::i32) : v);
    }
  s_.use_region(outside);
}

}  // namespace x86
SINTER_NAMESPACE_END
