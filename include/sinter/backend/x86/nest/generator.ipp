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
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL LoopGenerator::LoopGenerator(const PreparedNest& nest, LoopPart part)
    : prepared_(nest),
      nest_(nest.nest),
      kernel_(nest.kernel()),
      part_(part),
      s_(nest.isa),
      row_copies_(copies_of_part()),
      body_(s_, nest, row_copies_, is_in_pairs(part) ? 2 : 1),
      b_(body_.builder()) {
  if (part == LoopPart::short_rows) body_.set_rows(row_copies_);
  end_slot_ = s_.frame(8);
  count_slot_ = s_.frame(8);
  main_end_slot_ = s_.frame(8);
  body_.far_slot = s_.frame(8);
  if (is_streaming(part)) body_.streams = part == LoopPart::streaming_new ? results_of_last_access(kernel_) : ~0ull;
}

SINTER_DECL std::uint64_t results_of_last_access(const Kernel& kernel) {
  const std::size_t last = kernel.accesses.size() - 1;
  const auto is_array = [&](const Inst& inst) {
    if (inst.prim == Prim::gather) return true;
    if (inst.prim != Prim::load || inst.access == last) return false;
    const auto& stride = kernel.accesses[inst.access].stride;
    return std::any_of(stride.begin(), stride.begin() + kernel.rank(),
                       [](StrideClass s) { return s != StrideClass::zero; });
  };
  std::uint64_t results = 0;
  for (const Store& store : kernel.stores) {
    const std::vector<bool> under = instructions_under(kernel.body, store.value);
    bool is_new = kernel.accesses[store.access].stride[as_index(kernel.rank() - 1)] == StrideClass::unit;
    for (std::size_t i = 0; is_new && i < under.size(); ++i) is_new = !under[i] || !is_array(kernel.body[i]);
    if (is_new) results |= std::uint64_t{1} << store.access;
  }
  return results;
}

/// The stage that the part renders.
SINTER_DECL std::size_t LoopGenerator::stage_of_part() const {
  const bool is_split = part_ == LoopPart::blocks || part_ == LoopPart::finish;
  const VariantKind kind = is_split                        ? VariantKind::split
                           : part_ == LoopPart::short_rows ? VariantKind::short_rows
                                                           : VariantKind::whole;
  const std::size_t first = nest_.find(kind) + 1;
  return part_ == LoopPart::finish ? nest_.nodes[first].end : first;
}

/// Values that an instruction has at most: one for each vector, or row, that is done side by side.
SINTER_DECL int LoopGenerator::copies_of_part() const {
  int copies = 1;
  const std::size_t stage = stage_of_part();
  for (std::size_t n = stage; n < nest_.nodes[stage].end; ++n)
    if (node(n).kind == NestNodeKind::loop && nest_.loop_of(node(n)).mode != LoopMode::serial)
      copies = std::max<int>(copies, nest_.loop_of(node(n)).copies);
  return copies;
}

SINTER_DECL CodeStream LoopGenerator::run() {
  s_.mov(CodeStream::slot(end_slot_), Gpr::rdx);
  kernel_region_ = s_.open_region();
  render_stage(stage_of_part());
  if (body_.streams != 0) s_.push({.op = Op::sfence});
  s_.push({.op = Op::ret});
  return std::move(s_);
}

SINTER_DECL void LoopGenerator::render_stage(std::size_t stage) {
  body_.assign_pointers(stage);
  nest_.for_each_child(stage, [&](std::size_t child) {
    if (node(child).kind != NestNodeKind::loop) return render_outside(child, {});
    if (part_ == LoopPart::blocks) return blocks_function(child);
    if (part_ == LoopPart::short_rows) return short_rows_function(child);
    if (is_in_pairs(part_)) return pairs_function(child);
    prepare_row_state(child);
    outer_loop([&] {
      if (part_ == LoopPart::finish) finish_function(child);
      else if (prepared_.is_column()) column_step(child);
      else row_step(child);
    });
  });
}

/// What stands above the innermost loops; `lanes` are the vectors of a block of columns.
SINTER_DECL void LoopGenerator::render_outside(std::size_t place, std::span<const Lane0> lanes) {
  if (node(place).kind == NestNodeKind::compute) body_.emit_outside(nest_.ids_of(node(place)), lanes);
  if (node(place).kind == NestNodeKind::check) body_.check_index(node(place).first);
}

SINTER_DECL void LoopGenerator::outer_loop(const Action& step) {
  run_loop({.reg = loop_reg::outer}, CodeStream::slot(end_slot_), step);
}

SINTER_DECL int LoopGenerator::passes_in(std::size_t parent) const {
  int passes = 0;
  nest_.for_each_child(parent, [&](std::size_t child) { passes += is_pass(child); });
  return passes;
}

/// Constants of a pass are loaded where it starts, unless it is the only one: then where the function starts.
SINTER_DECL std::uint16_t LoopGenerator::enter_pass(std::size_t parent) {
  const std::uint16_t outside = s_.region();
  if (passes_in(parent) > 1) s_.open_region();
  return outside;
}

SINTER_DECL void LoopGenerator::row_step(std::size_t outer) {
  bool is_first = true;
  enter_row();
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::store) return body_.store_outer(kernel_.stores[node(child).first], Lane0{});
    if (!is_pass(child)) return render_outside(child, {});
    if (is_first || nest_.near_axis >= 0) body_.reset_pointers();
    is_first = false;
    const std::uint16_t outside = enter_pass(outer);
    row_pass(child);
    s_.use_region(outside);
  });
}

SINTER_DECL std::vector<LoopGenerator::Running> LoopGenerator::row_values(Reductions reductions) {
  std::vector<Running> values;
  for (std::size_t i = 0; i < reductions.size(); ++i) add_values(values, reductions, i, 0);
  return values;
}

SINTER_DECL void LoopGenerator::row_pass(std::size_t pass) {
  if (is_scan_pass(pass)) return scan_row(pass);
  const Reductions reductions = reductions_of(pass);
  std::vector<Running> results = row_values(reductions);
  make_accumulators(results);
  prepare_divisions(pass);
  if (nest_.near_axis < 0) {
    row_columns(pass, results);
  } else {
    std::vector<Running> rows = row_values(reductions);
    walk({.reg = loop_reg::near}, arg(offsetof(LoopArgs, reduced)), results, rows, Items::heavy, [&] {
      nest_.for_each_child(loop_of(pass), [&](std::size_t child) {
        if (is_pass(child)) row_columns(child, rows);
        else render_outside(child, {});
      });
      body_.advance_pointers(false);
    });
  }
  publish(reductions, results);
}

SINTER_DECL void LoopGenerator::prepare_divisions(std::size_t pass) {
  std::vector<InstId> computed;
  for (std::size_t n = pass; n < node(pass).end; ++n)
    if (node(n).kind == NestNodeKind::compute) {
      const auto ids = nest_.ids_of(node(n));
      computed.insert(computed.end(), ids.begin(), ids.end());
    }
  body_.prepare_divisions(computed);
}

SINTER_DECL void LoopGenerator::publish(Reductions reductions, std::span<const Running> results) {
  std::size_t at = 0;
  for (const InstId id : reductions) {
    if (kernel_.body[id].prim == Prim::fold) {
      publish_fold(id, results, 0);
      continue;
    }
    while (results[at].holder != id) ++at;
    const VReg value = results[at].reg;
    body_.set_value(id, 0,
                    results[at].dtype == DType::bool_ ? x86_detail::number_to_mask(b_, value, Lane::i32) : value);
  }
}

SINTER_DECL void LoopGenerator::row_columns(std::size_t pass, std::vector<Running>& results) {
  if (results.empty()) return map_columns(loop_of(pass));
  chain({.reg = loop_reg::column}, arg(offsetof(LoopArgs, columns)), results,
        [&](int block_end) { row_block(pass, results, block_end); });
}

/// Floats have 256 bytes of lanes by definition; for integers any number gives the same result.
SINTER_DECL int LoopGenerator::accumulators_of(DType dtype, int copies) const {
  return is_floating(dtype) ? 256 / static_cast<int>(size_of(dtype)) / nest_.lanes : std::min(copies, 4);
}

SINTER_DECL void LoopGenerator::make_accumulators(const std::vector<Running>& values) {
  running_ = values;
  accumulators_.clear();
  for (const Running& value : values) {
    const DType dtype = value.dtype;
    const Prim prim = value.prim;
    const int vectors = prim == Prim::fold ? fold_lanes / nest_.lanes : accumulators_of(dtype, row_copies_);
    Accumulators& into = accumulators_.emplace_back();
    for (int a = 0; a < vectors; ++a) into.lanes.push_back(s_.new_vec(b_.bytes(lane_of(dtype))));
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

/// From the column register to block_end in steps of `copies` vectors, the rest vector by vector under masks: lanes
/// that do not exist come after all that do.
SINTER_DECL void LoopGenerator::walk_block(std::size_t loop, int copies, int block_end) {
  const int step = copies * nest_.lanes, top = s_.new_label(), rest = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, CodeStream::slot(block_end));
  s_.binary(Op::sub, Gpr::rax, loop_reg::column);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::jle, rest);
  s_.binary(Op::add, Gpr::rax, loop_reg::column);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  s_.begin_loop();
  s_.bind(top);
  for (int u = 0; u < copies; ++u) step_of_rows(loop, {.copy = u, .column_offset = u * nest_.lanes, .tail = {}});
  s_.binary_imm(Op::add, loop_reg::column, step);
  s_.binary(Op::cmp, loop_reg::column, CodeStream::slot(main_end_slot_));
  s_.jump(Op::jl, top);
  s_.end_loop();
  s_.bind(rest);
  for (int u = 0; u < copies; ++u) {
    s_.mov(Gpr::rax, CodeStream::slot(block_end));
    s_.binary(Op::sub, Gpr::rax, loop_reg::column);
    s_.jump(Op::jle, done);
    step_of_rows(
        loop,
        {.copy = u, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, prepared_.needs_count)});
    s_.binary_imm(Op::add, loop_reg::column, nest_.lanes);
  }
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::row_block(std::size_t pass, std::vector<Running>& results, int block_end) {
  clear_accumulators(results);
  walk_block(loop_of(pass), row_copies_, block_end);
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (results[r].prim == Prim::fold) {
      if (results[r].number == 0) combine_state_lanes(std::span(results).subspan(r, numbers_of(results[r])), r);
      continue;
    }
    const Lane lane = lane_of(results[r].dtype);
    VReg value = combine_lanes(kernel_.body[results[r].holder], r);
    if (!s_.retarget_last(value, results[r].reg)) b_.assign(lane, results[r].reg, value);
    if (accumulators_[r].saw_nan != no_vreg) restore_nan(results[r].reg, lane, accumulators_[r].saw_nan);
  }
}

/// Lane i with lane i + half, half = all lanes / 2, ..., 1; the result in every lane.
SINTER_DECL VReg LoopGenerator::combine_lanes(const Inst& inst, std::size_t reduction) {
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
  for (int lanes = nest_.lanes; lanes > 1; lanes /= 2) {
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

/// One vector of the innermost loop, for each row in turn.
SINTER_DECL void LoopGenerator::step_of_rows(std::size_t loop, const Lane0& lane) {
  for (row_ = 0; row_ < rows_; ++row_) {
    body_.select_row(row_);
    vector_step(loop, lane);
  }
  row_ = 0;
  body_.select_row(0);
}

/// One vector of the innermost loop.
SINTER_DECL void LoopGenerator::vector_step(std::size_t loop, const Lane0& lane) {
  body_.start_step();
  nest_.for_each_child(loop, [&](std::size_t child) {
    const NestNode& n = node(child);
    if (n.kind == NestNodeKind::compute)
      for (const InstId id : nest_.ids_of(n))
        if (only_ == nullptr || (*only_)[id]) body_.emit(id, lane);
    if (n.kind == NestNodeKind::fetch) body_.fetch(n.first, lane);
    if (n.kind == NestNodeKind::keep) body_.keep(n.first, lane);
    if (n.kind == NestNodeKind::step && scans_.empty()) accumulate(lane);
    if (n.kind == NestNodeKind::step && !scans_.empty()) scan_vector_step(nest_.ids_of(n)[0], lane);
    if (n.kind == NestNodeKind::store) body_.store_inner(kernel_.stores[n.first], lane);
  });
}

SINTER_DECL void LoopGenerator::accumulate(const Lane0& lane) {
  for (std::size_t r = 0; r < running_.size(); ++r) {
    if (running_[r].copy != row_) continue;
    const Inst& inst = kernel_.body[running_[r].holder];
    if (inst.prim == Prim::fold) {
      if (running_[r].number == 0) accumulate_fold(r, lane);
      continue;
    }
    VReg v = body_.value(inst.args[0], lane.copy);
    if (inst.dtype == DType::bool_) v = x86_detail::mask_to_number(b_, v, Lane::i32);
    Accumulators& into = accumulators_[r];
    if (into.saw_nan != no_vreg) accumulate_extremum(into, inst, v, lane);
    else step_of({into.lanes[as_index(lane.copy) % into.lanes.size()], inst.prim, inst.dtype}, v, lane.tail);
  }
}

SINTER_DECL void LoopGenerator::map_columns(std::size_t loop) {
  if (row_state_.has_range) return map_ranges(loop);
  const int copies = nest_.loop_of(node(loop)).copies, step = copies * nest_.lanes;
  const int top = s_.new_label(), tails = s_.new_label(), tail_top = s_.new_label(), done = s_.new_label();
  s_.mov(Gpr::rax, arg(offsetof(LoopArgs, columns)));
  s_.mov_imm(loop_reg::column, 0);
  s_.binary_imm(Op::and_, Gpr::rax, -step);
  s_.jump(Op::je, tails);
  s_.mov(CodeStream::slot(main_end_slot_), Gpr::rax);
  s_.begin_loop();
  s_.bind(top);
  whole_step(loop, copies);
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
  step_of_rows(
      loop,
      {.copy = 0, .column_offset = 0, .tail = b_.make_tail(Gpr::rax, Gpr::rdx, count_slot_, prepared_.needs_count)});
  s_.binary_imm(Op::add, loop_reg::column, nest_.lanes);
  s_.jump(Op::jmp, tail_top);
  s_.end_loop();
  s_.bind(done);
}

// Rows in blocks that are tasks --------------------------------------------------------------------------------------

/// begin and end count blocks of the row at outer 0. Block values go to scratch, 8 bytes each, block-major.
SINTER_DECL void LoopGenerator::blocks_function(std::size_t outer) {
  const int block = s_.frame(8), block_end = s_.frame(8);
  s_.mov(CodeStream::slot(block), loop_reg::outer);
  s_.mov_imm(loop_reg::outer, 0);
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind != NestNodeKind::loop) return render_outside(child, {});
    const std::size_t fold = child + 1;
    body_.reset_pointers();
    std::vector<Running> results = row_values(reductions_of(fold));
    make_accumulators(results);
    run_loop({.reg = Gpr::none, .slot = block}, CodeStream::slot(end_slot_), [&] {
      start_block(block, block_end);
      row_block(fold, results, block_end);
      store_block(block, results);
    });
  });
}

/// The column register and the end of block number `block`. Clobbers rax, rdx.
SINTER_DECL void LoopGenerator::start_block(int block, int block_end) {
  s_.emit(Op::imul, {reg(loop_reg::column), mem(8), immediate()}, CodeStream::slot(block), row_sum_block);
  s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(loop_reg::column, static_cast<std::int32_t>(row_sum_block)));
  s_.mov(Gpr::rdx, arg(offsetof(LoopArgs, columns)));
  s_.binary(Op::cmp, Gpr::rax, Gpr::rdx);
  s_.binary(Op::cmovg, Gpr::rax, Gpr::rdx);
  s_.mov(CodeStream::slot(block_end), Gpr::rax);
}

/// Clobbers rdx.
SINTER_DECL void LoopGenerator::store_block(int block, const std::vector<Running>& results) {
  s_.emit(Op::imul, {reg(Gpr::rdx), mem(8), immediate()}, CodeStream::slot(block),
          static_cast<std::int64_t>(8 * results.size()));
  s_.binary(Op::add, Gpr::rdx, arg(offsetof(LoopArgs, scratch)));
  for (std::size_t i = 0; i < results.size(); ++i)
    b_.store_scalar(results[i].dtype == DType::bool_ ? DType::i32 : results[i].dtype,
                    CodeStream::at(Gpr::rdx, static_cast<std::int32_t>(8 * i)), results[i].reg);
}

/// One outer step from the block values in scratch; args.reduced is their number (at least one).
SINTER_DECL void LoopGenerator::finish_function(std::size_t outer) {
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::store) return body_.store_outer(kernel_.stores[node(child).first], Lane0{});
    if (!is_pass(child)) return render_outside(child, {});
    body_.reset_pointers();
    std::vector<Running> results = row_values(reductions_of(child));
    combine_blocks(results);
    publish(reductions_of(child), results);
  });
}

SINTER_DECL void LoopGenerator::combine_blocks(std::vector<Running>& results) {
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
}

}  // namespace x86
SINTER_NAMESPACE_END
