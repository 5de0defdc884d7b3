// Scans: along rows in trees inside vectors, which carry from one to the next; along columns point by point. Blocks and
// what stands before them are the same for both. The order is that of kernel.hpp.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {
/// A minimum or maximum with itself is itself: lanes that a step does not reach need no care.
constexpr bool is_idempotent(Prim reduction) { return reduction == Prim::reduce_min || reduction == Prim::reduce_max; }
/// The lanes of 16 whose number has that bit.
constexpr unsigned lanes_with_bit(int bit) {
  return bit == 0 ? 0xAAAA : bit == 1 ? 0xCCCC : bit == 2 ? 0xF0F0 : 0xFF00;
}
}  // namespace x86_detail

SINTER_DECL void LoopGenerator::make_scan(InstId id, int copy) {
  const Inst& inst = kernel_.body[id];
  const int width = b_.bytes(lane_of(inst.dtype));
  Scan scan;
  scan.id = id;
  scan.copy = copy;
  scan.is_exclusive = inst.is_exclusive();
  scan.carry = {s_.new_vec(width), reduction_of(inst.prim), inst.dtype};
  scan.before = scan.carry;
  scan.before.reg = scan_has_blocks(inst.prim, inst.dtype) ? s_.new_vec(width) : no_vreg;
  scans_.push_back(std::move(scan));
}

SINTER_DECL LoopGenerator::Scan& LoopGenerator::scan_of(InstId id, int copy) {
  return *std::find_if(scans_.begin(), scans_.end(), [&](const Scan& s) { return s.id == id && s.copy == copy; });
}

/// Mask registers are made where the walk begins and stay. Clobbers rax.
SINTER_DECL void LoopGenerator::make_scan_masks() {
  scan_masks_.assign(5, no_vreg);
  if (!b_.is_avx512()) return;
  for (const Scan& scan : scans_) {
    if (scan.is_exclusive && scan_masks_[4] == no_vreg) scan_masks_[4] = b_.lane_mask(1);
    for (int bit = 0; (1 << bit) < nest_.lanes && !x86_detail::is_idempotent(scan.carry.prim); ++bit)
      if (scan_masks_[as_index(bit)] == no_vreg)
        scan_masks_[as_index(bit)] = b_.lane_mask(x86_detail::lanes_with_bit(bit));
  }
}

/// Walks [0, count): `content` runs one block from the counter to `block_end`. Carries begin anew in each, and what
/// they end in goes to what stands before the next. One block is all where no scan has blocks.
SINTER_DECL void LoopGenerator::scan_in_blocks(const Counter& counter, Mem count, std::int64_t block,
                                               const Content& content) {
  std::vector<Running> carries, before;
  for (const Scan& scan : scans_) {
    b_.assign(lane_of(scan.carry.dtype), scan.carry.reg, neutral(scan.carry));
    if (scan.before.reg == no_vreg) continue;
    b_.assign(lane_of(scan.before.dtype), scan.before.reg, neutral(scan.before));
    carries.push_back(scan.carry);
    before.push_back(scan.before);
  }
  const int block_end = s_.frame(8);
  set_counter(counter, 0);
  if (carries.empty()) {
    s_.mov(Gpr::rax, count);
    s_.mov(CodeStream::slot(block_end), Gpr::rax);
    return content(block_end);
  }
  const Totals totals{s_.frame(128 * static_cast<int>(carries.size()), 64)};
  const int top = s_.new_label(), done = s_.new_label();
  start_totals(totals, carries);
  s_.begin_loop();
  s_.bind(top);
  set_block_end(counter, count, block, block_end);
  for (const Running& carry : carries) b_.assign(lane_of(carry.dtype), carry.reg, neutral(carry));
  content(block_end);
  compare_counter(counter, count);
  s_.jump(Op::jge, done);
  add_to_totals(totals, carries);
  finish_totals(totals, before);
  s_.jump(Op::jmp, top);
  s_.end_loop();
  s_.bind(done);
}

SINTER_DECL VReg LoopGenerator::after_blocks(const Scan& scan, VReg v) {
  if (scan.before.reg == no_vreg) return v;
  return combine(b_, scan.before.prim, scan.before.dtype, scan.before.reg, v);
}

// Rows ---------------------------------------------------------------------------------------------------------------

SINTER_DECL void LoopGenerator::scan_row(std::size_t pass) {
  prepare_divisions(pass);
  scans_.clear();
  for (const InstId id : nest_.ids_of(node(pass))) make_scan(id, 0);
  for (Scan& scan : scans_) {
    const int width = b_.bytes(lane_of(scan.carry.dtype));
    const int vectors = static_cast<int>(scan_group_bytes / size_of(scan.carry.dtype)) / nest_.lanes;
    for (int run = 1; run < vectors; run *= 2) scan.runs.push_back(s_.new_vec(width));
    if (scan.is_exclusive && vectors > 1) scan.previous = s_.new_vec(width);
  }
  make_scan_masks();
  scan_in_blocks({.reg = loop_reg::column}, arg(offsetof(LoopArgs, columns)), row_sum_block, [&](int block_end) {
    walk_block(loop_of(pass), nest_.loop_of(node(loop_of(pass))).copies, block_end);
  });
  scans_.clear();
}

SINTER_DECL void LoopGenerator::scan_vector_step(InstId id, const Lane0& lane) {
  Scan& scan = scan_of(id, 0);
  const Lane type = lane_of(scan.carry.dtype);
  const int vectors = static_cast<int>(scan_group_bytes / size_of(scan.carry.dtype)) / nest_.lanes;
  const int place = lane.copy % vectors;
  const VReg own = in_group(scan, body_.value(kernel_.body[id].args[0], lane.copy), place);
  VReg taken = own;
  if (scan.is_exclusive) {
    const VReg first = place == 0 ? neutral(scan.carry) : scan.previous;
    taken = b_.blend(type, 1, scan_masks_[4], first, b_.move_up(type, own));
  }
  body_.set_value(id, lane.copy,
                  after_blocks(scan, combine(b_, scan.carry.prim, scan.carry.dtype, scan.carry.reg, taken)));
  const bool is_last = place == vectors - 1;
  if (is_last || scan.is_exclusive) {
    const VReg last = b_.broadcast_last(type, own);
    if (!is_last) b_.assign(type, scan.previous, last);
    else step_of(scan.carry, last, Tail{});
  }
}

/// What the elements of the group up to each lane of its vector number `place` give.
SINTER_DECL VReg LoopGenerator::in_group(Scan& scan, VReg v, int place) {
  VReg value = scan_lanes(scan, v);
  for (std::size_t k = 0; k < scan.runs.size(); ++k) {
    const int run = 1 << k;
    if ((place & run) != 0) value = combine(b_, scan.carry.prim, scan.carry.dtype, scan.runs[k], value);
    else if ((place & (run - 1)) == run - 1)
      b_.assign(lane_of(scan.carry.dtype), scan.runs[k], b_.broadcast_last(lane_of(scan.carry.dtype), value));
  }
  return value;
}

/// What the lanes up to each give.
SINTER_DECL VReg LoopGenerator::scan_lanes(const Scan& scan, VReg v) {
  const Lane type = lane_of(scan.carry.dtype);
  const Prim reduction = scan.carry.prim;
  for (int bit = 0; (1 << bit) < nest_.lanes; ++bit) {
    const VReg mask = scan_masks_[as_index(bit)];
    const bool adds_zero = b_.is_avx512() && reduction == Prim::reduce_add;
    const VReg older = b_.last_before_runs(type, v, 1 << bit, adds_zero ? mask : no_vreg);
    const VReg sum = combine(b_, reduction, scan.carry.dtype, older, v);
    const bool is_whole = adds_zero || x86_detail::is_idempotent(reduction);
    v = is_whole ? sum : b_.blend(type, x86_detail::lanes_with_bit(bit), mask, sum, v);
  }
  return v;
}

// Columns ------------------------------------------------------------------------------------------------------------

SINTER_DECL void LoopGenerator::scan_columns(std::size_t pass, const std::vector<Lane0>& lanes) {
  scans_.clear();
  for (const InstId id : nest_.ids_of(node(pass)))
    for (std::size_t l = 0; l < (nest_.places[id].is_vector ? lanes.size() : 1); ++l)
      make_scan(id, static_cast<int>(l));
  const std::size_t loop = loop_of(pass);
  const Counter counter{.reg = loop_reg::near};
  scan_in_blocks(counter, arg(offsetof(LoopArgs, reduced)), column_sum_block, [&](int block_end) {
    run_loop(counter, CodeStream::slot(block_end), [&] {
      nest_.for_each_child(loop, [&](std::size_t child) {
        const NestNode& n = node(child);
        emit_point(child, lanes);
        if (n.kind == NestNodeKind::step) {
          const InstId id = nest_.ids_of(n)[0];
          for (std::size_t l = 0; l < (nest_.places[id].is_vector ? lanes.size() : 1); ++l) scan_point(id, lanes[l]);
        }
        if (n.kind == NestNodeKind::store)
          for (const Lane0& lane : lanes) body_.store_inner(kernel_.stores[n.first], lane);
      });
      body_.advance_pointers(false);
    });
  });
  scans_.clear();
}

/// The carry as it is now, with what the blocks before gave.
SINTER_DECL VReg LoopGenerator::carried(const Scan& scan) {
  return scan.before.reg == no_vreg ? b_.copy(lane_of(scan.carry.dtype), scan.carry.reg)
                                    : after_blocks(scan, scan.carry.reg);
}

SINTER_DECL void LoopGenerator::scan_point(InstId id, const Lane0& lane) {
  Scan& scan = scan_of(id, lane.copy);
  const VReg v = body_.value(kernel_.body[id].args[0], lane.copy);
  if (!scan.is_exclusive) {
    step_of(scan.carry, v, Tail{});
    return body_.set_value(id, lane.copy, carried(scan));
  }
  const VReg older = carried(scan);
  step_of(scan.carry, v, Tail{});
  body_.set_value(id, lane.copy, older);
}

}  // namespace x86
SINTER_NAMESPACE_END
