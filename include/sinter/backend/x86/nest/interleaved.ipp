// Which accesses alternate, and how vectors of them are taken apart and put together.
#pragma once

#include <sinter/backend/x86/nest/interleaved.hpp>

#include <sinter/backend/x86/nest/body.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

/// Finds the groups of a kernel's loads, or of its stores.
class InterleavedFinder {
 public:
  InterleavedFinder(const Kernel& kernel, const BoundGeometry& geometry, Isa isa)
      : k_(kernel), g_(geometry), isa_(isa), axis_(as_index(kernel.rank() - 1)) {}

  Interleaved run() {
    for (const bool stored : {false, true}) {
      std::vector<std::uint16_t> candidates = candidates_of(stored);
      std::sort(candidates.begin(), candidates.end(),
                [&](std::uint16_t a, std::uint16_t b) { return lies_before(a, b); });
      for (std::size_t first = 0, end = 0; first < candidates.size(); first = end) {
        for (end = first + 1; end < candidates.size() && is_near(candidates[first], candidates[end]);) ++end;
        add_group(std::span(candidates).subspan(first, end - first), stored);
      }
    }
    return std::move(found_);
  }

 private:
  /// Accesses of elements that registers hold as memory does, and that only loads or only one store use.
  std::vector<std::uint16_t> candidates_of(bool stored) const {
    std::vector<int> loads(k_.accesses.size()), stores(k_.accesses.size()), others(k_.accesses.size());
    for (const Inst& inst : k_.body)
      if (reads_memory(inst.prim)) ++(inst.prim == Prim::load ? loads : others)[inst.access];
    for (const Store& store : k_.stores) ++(store.index == no_inst ? stores : others)[store.access];
    const bool has_index = !k_.folds.empty() || std::any_of(k_.body.begin(), k_.body.end(),
                                                            [](const Inst& i) { return i.prim == Prim::index; });
    std::vector<std::uint16_t> candidates;
    for (std::uint16_t a = 0; a < k_.accesses.size(); ++a) {
      const DType dtype = dtype_in_memory(k_, a);
      const std::int64_t pitch = g_.accesses[a].stride[axis_];
      const bool is_plain = dtype != DType::bool_ && !is_narrow(dtype) && size_of(dtype) == size_of(lane_of(dtype)) &&
                            (size_of(dtype) == 4 || !has_index || is_floating(dtype));
      if (!is_plain || k_.accesses[a].stride[axis_] != StrideClass::any || pitch < 2 || pitch > most_interleaved)
        continue;
      if (others[a] == 0 && (stored ? stores[a] == 1 && loads[a] == 0 : stores[a] == 0 && loads[a] > 0))
        candidates.push_back(a);
    }
    return candidates;
  }

  bool lies_before(std::uint16_t a, std::uint16_t b) const {
    const auto key = [&](std::uint16_t i) { return std::pair(k_.accesses[i].operand, g_.accesses[i].offset); };
    if (k_.accesses[a].operand == k_.accesses[b].operand && g_.accesses[a].stride != g_.accesses[b].stride)
      return g_.accesses[a].stride < g_.accesses[b].stride;
    return key(a) < key(b);
  }
  /// Do both have elements of one point, the first one's being the lowest?
  bool is_near(std::uint16_t first, std::uint16_t other) const {
    const auto &a = g_.accesses[first], &b = g_.accesses[other];
    return k_.accesses[first].operand == k_.accesses[other].operand &&
           k_.accesses[first].stride == k_.accesses[other].stride && a.stride == b.stride &&
           b.offset - a.offset < a.stride[axis_];
  }

  void add_group(std::span<const std::uint16_t> accesses, bool stored) {
    const auto& lowest = g_.accesses[accesses[0]];
    Interleaved::Group group{
        .lowest = accesses[0], .pitch = static_cast<std::uint8_t>(lowest.stride[axis_]), .is_stored = stored};
    const auto place_of = [&](std::uint16_t a) {
      return static_cast<std::uint8_t>(g_.accesses[a].offset - lowest.offset);
    };
    for (const std::uint16_t a : accesses) {
      const auto bit = static_cast<std::uint16_t>(1u << place_of(a));
      if (stored && (group.places & bit) != 0) return;  // one place twice
      group.places |= bit;
    }
    group.span = static_cast<std::uint8_t>(place_of(accesses.back()) + 1);
    if (!group.is_full() && (isa_ != Isa::avx512 || group.pitch > 4)) {
      if (isa_ != Isa::avx512 || 2 * std::popcount(group.places) < group.pitch || stored) return;
    }
    if (found_.members.empty()) found_.members.resize(k_.accesses.size());
    for (const std::uint16_t a : accesses)
      found_.members[a] = {static_cast<std::int16_t>(found_.groups.size()), place_of(a)};
    found_.groups.push_back(group);
  }

  const Kernel& k_;
  const BoundGeometry& g_;
  Isa isa_;
  std::size_t axis_;
  Interleaved found_;
};

}  // namespace x86_detail

SINTER_DECL Interleaved find_interleaved(const Kernel& kernel, const BoundGeometry& geometry, Isa isa) {
  return x86_detail::InterleavedFinder(kernel, geometry, isa).run();
}

// Between registers ---------------------------------------------------------------------------------------------------

/// Lane p is lane from[p] % 16 of source from[p] / 16; where it is `any_lane`, it may be anything.
SINTER_DECL VReg VectorBuilder::gather_lanes(Lane lane, std::span<const VReg> sources, const LaneOrder& from) {
  VReg result = no_vreg;
  int first = -1;
  for (int s = 0; s < static_cast<int>(sources.size()); ++s) {
    LaneOrder order{};
    unsigned taken = 0;
    for (int p = 0; p < lanes_; ++p) {
      const std::uint8_t at = from[as_index(p)];
      const bool is_here = at != any_lane && at / 16 == s;
      order[as_index(p)] = is_here ? at % 16 : static_cast<std::uint8_t>(p);
      if (is_here) taken |= 1u << p;
    }
    if (taken == 0) continue;
    if (result == no_vreg && first < 0) {
      first = s;  // with AVX-512 it is moved together with the next
      if (!is_avx512()) result = permute(lane, sources[as_index(s)], order);
    } else if (is_avx512()) {
      for (int p = 0; p < lanes_; ++p) {
        const std::uint8_t at = from[as_index(p)];
        if ((taken >> p & 1) != 0) order[as_index(p)] = static_cast<std::uint8_t>(lanes_ + order[as_index(p)]);
        else if (result == no_vreg && at != any_lane && at / 16 == first) order[as_index(p)] = at % 16;
      }
      if (result == no_vreg) result = copy(lane, sources[as_index(first)]);
      permute_two(lane, result, sources[as_index(s)], order);
    } else {
      result = blend(lane, taken, no_vreg, permute(lane, sources[as_index(s)], order), result);
    }
  }
  if (result != no_vreg) return result;
  LaneOrder order{};
  for (int p = 0; p < lanes_; ++p) order[as_index(p)] = from[as_index(p)] == any_lane ? 0 : from[as_index(p)] % 16;
  return permute(lane, sources[as_index(first)], order);
}

/// AVX-512: lane p of `a` becomes lane from[p] of it, or, beyond its lanes, of `b`.
SINTER_DECL void VectorBuilder::permute_two(Lane lane, VReg a, VReg b, const LaneOrder& from) {
  const int width = bytes(lane);
  const bool is_narrow = size_of(lane) == 4;
  std::array<std::int32_t, 16> narrow{};
  std::array<std::int64_t, 16> wide{};
  for (std::size_t i = 0; i < 16; ++i) narrow[i] = from[i], wide[i] = from[i];
  const VReg order = is_narrow ? s_.constant_vector(narrow.data(), width) : s_.constant_vector(wide.data(), width);
  s_.emit(is_narrow ? Op::vpermt2ps : Op::vpermt2pd, {vec(a, width), vec(order, width), vec(b, width)}).reads_first =
      true;
}

/// Of vectors that lie one behind the other, the lanes at places c, c + pitch, ... for each c that is wanted. Pairs are
/// taken apart first while the pitch is even.
SINTER_DECL std::vector<VReg> VectorBuilder::take_apart(Lane lane, std::span<const VReg> vectors, unsigned wanted) {
  const std::size_t pitch = vectors.size(), lanes = as_index(lanes_);
  std::vector<VReg> parts(pitch, no_vreg);
  if (pitch == 1) return {vectors[0]};
  if (pitch % 2 != 0) {
    for (std::size_t c = 0; c < pitch; ++c) {
      if ((wanted >> c & 1) == 0) continue;
      LaneOrder from{};
      for (std::size_t p = 0; p < lanes; ++p) {
        const std::size_t at = p * pitch + c;
        from[p] = static_cast<std::uint8_t>(at / lanes * 16 + at % lanes);
      }
      parts[c] = gather_lanes(lane, vectors, from);
    }
    return parts;
  }
  for (const std::size_t odd : {std::size_t{0}, std::size_t{1}}) {
    unsigned of_half = 0;
    for (std::size_t c = 0; c < pitch / 2; ++c) of_half |= (wanted >> (2 * c + odd) & 1) << c;
    if (of_half == 0) continue;
    std::vector<VReg> half;
    for (std::size_t v = 0; v < pitch; v += 2) {
      LaneOrder from{};
      for (std::size_t p = 0; p < lanes; ++p) {
        const std::size_t at = 2 * p + odd;
        from[p] = static_cast<std::uint8_t>(at / lanes * 16 + at % lanes);
      }
      half.push_back(gather_lanes(lane, vectors.subspan(v, 2), from));
    }
    const std::vector<VReg> of_parity = take_apart(lane, half, of_half);
    for (std::size_t c = 0; c < pitch / 2; ++c) parts[2 * c + odd] = of_parity[c];
  }
  return parts;
}

/// The way back. Parts that are no_vreg leave lanes that may be anything.
SINTER_DECL std::vector<VReg> VectorBuilder::put_together(Lane lane, std::span<const VReg> parts) {
  const std::size_t pitch = parts.size(), lanes = as_index(lanes_);
  if (pitch == 1) return {parts[0]};
  std::vector<VReg> vectors;
  const bool is_full = std::find(parts.begin(), parts.end(), no_vreg) == parts.end();
  if (pitch % 2 != 0 || !is_full) {
    for (std::size_t v = 0; v < pitch; ++v) {
      LaneOrder from{};
      for (std::size_t p = 0; p < lanes; ++p) {
        const std::size_t at = v * lanes + p;
        const bool is_there = parts[at % pitch] != no_vreg;
        from[p] = static_cast<std::uint8_t>(is_there ? at % pitch * 16 + at / pitch : any_lane);
      }
      vectors.push_back(gather_lanes(lane, parts, from));
    }
    return vectors;
  }
  std::vector<VReg> even, odd;
  for (std::size_t c = 0; c < pitch; c += 2) even.push_back(parts[c]), odd.push_back(parts[c + 1]);
  const std::vector<VReg> evens = put_together(lane, even), odds = put_together(lane, odd);
  for (std::size_t v = 0; v < pitch; ++v) {
    LaneOrder from{};
    for (std::size_t p = 0; p < lanes; ++p) from[p] = static_cast<std::uint8_t>(p % 2 * 16 + v % 2 * lanes / 2 + p / 2);
    const std::array<VReg, 2> both{evens[v / 2], odds[v / 2]};
    vectors.push_back(gather_lanes(lane, both, from));
  }
  return vectors;
}

// Memory --------------------------------------------------------------------------------------------------------------

/// Has a label been placed since? What was computed before it may not have been on the way here.
SINTER_DECL bool LoopBody::is_straight_since(std::uint32_t position) {
  const std::span<Instruction> code = s_.code_from(position);
  return std::none_of(code.begin(), code.end(), [](const Instruction& i) { return i.op == Op::label; });
}

/// r9 = elements from the first to the last that exist; rdx stays. Whole steps end before what no access has.
SINTER_DECL void LoopBody::load_element_count(const Interleaved::Group& group, const Tail& tail) {
  s_.mov(Gpr::r9, CodeStream::slot(tail.count_slot));
  s_.emit(Op::imul, {reg(Gpr::r9), reg(Gpr::r9), immediate()}, group.pitch);
  if (group.span != group.pitch && !group.is_stored) s_.binary_imm(Op::sub, Gpr::r9, group.pitch - group.span);
}

/// Masks of the vectors of a step: bits of `elements`, as far as the tail has them. Clobbers rax, r9.
SINTER_DECL std::vector<VReg> LoopBody::element_masks(const Interleaved::Group& group, std::uint64_t elements,
                                                      const Tail& tail) {
  std::vector<VReg> masks;
  if (tail.active()) load_element_count(group, tail);
  s_.mov_imm(Gpr::rax, static_cast<std::int64_t>(elements));
  if (tail.active()) s_.emit(Op::bzhi, {reg(Gpr::rax), reg(Gpr::rax), reg(Gpr::r9)});
  for (int v = 0; v < group.pitch; ++v) {
    masks.push_back(s_.new_mask());
    s_.emit(Op::kmovw, {kreg(masks.back()), reg(Gpr::rax, 4)});
    if (v + 1 < group.pitch) s_.emit(Op::shr, {reg(Gpr::rax), immediate()}, b_.lanes());
  }
  return masks;
}

/// The elements that a step has: bits of one number, if they are no more than that has.
SINTER_DECL std::uint64_t LoopBody::elements_of_step(const Interleaved::Group& group) const {
  std::uint64_t elements = 0;
  for (int at = 0; at < std::min(64, group.pitch * b_.lanes()); ++at)
    if (!group.is_stored || (group.places >> at % group.pitch & 1) != 0) elements |= std::uint64_t{1} << at;
  if (!group.is_stored && group.span != group.pitch && group.pitch * b_.lanes() <= 64)
    elements &= ~std::uint64_t{0} >> (64 - group.pitch * b_.lanes() + group.pitch - group.span);
  return elements;
}

/// Moves r9 elements between memory from rdx on and the frame. Clobbers rax, r9.
SINTER_DECL void LoopBody::copy_elements_of_step(int size, int frame, bool to_frame) {
  const int again = s_.new_label(), shift = std::countr_zero(static_cast<unsigned>(size));
  const Mem outside = CodeStream::at(Gpr::rdx, Gpr::r9, shift),
            inside = CodeStream::at(Gpr::rsp, Gpr::r9, shift, frame);
  s_.bind(again);
  s_.binary_imm(Op::sub, Gpr::r9, 1);
  x86_detail::move_element(s_, size, to_frame ? inside : outside, to_frame ? outside : inside);
  s_.emit(Op::test, {reg(Gpr::r9), reg(Gpr::r9)}).only_reads = true;
  s_.jump(Op::jne, again);
}

/// The vectors of a group's step. Clobbers rax, rdx, r9.
SINTER_DECL std::vector<VReg> LoopBody::load_step(const Interleaved::Group& group, const Lane0& lane) {
  const DType dtype = dtype_of_access(group.lowest);
  const Lane type = lane_of(dtype);
  const int width = b_.bytes(type), size = size_of(type), lanes = b_.lanes();
  element_pointer(group.lowest, lane, -1);
  std::vector<VReg> vectors;
  const bool fits_masks = b_.is_avx512() && group.pitch * lanes <= 64;
  const int missing = group.pitch - group.span;
  if (lane.tail.active() && !fits_masks) {
    const int frame = s_.frame(group.pitch * width, 64);
    load_element_count(group, lane.tail);
    copy_elements_of_step(size, frame, true);
    for (int v = 0; v < group.pitch; ++v) vectors.push_back(b_.load_whole(type, CodeStream::slot(frame + v * width)));
    return vectors;
  }
  std::vector<VReg> masks(group.pitch, no_vreg);
  if (lane.tail.active()) masks = element_masks(group, elements_of_step(group), lane.tail);
  for (int v = 0; v < group.pitch; ++v) {
    const int there = std::clamp(group.pitch * lanes - missing - v * lanes, 0, lanes);
    if (there == 0) {
      vectors.push_back(vectors.back());  // of no lane anyone asks for
      continue;
    }
    VReg mask = masks[as_index(v)];
    if (mask == no_vreg && there < lanes) mask = b_.lane_mask((1u << there) - 1);
    vectors.push_back(b_.load(dtype, CodeStream::at(Gpr::rdx, v * width), Tail{.mask = mask}));
  }
  return vectors;
}

SINTER_DECL VReg LoopBody::load_interleaved(std::size_t access, const Lane0& lane) {
  const Interleaved::Member member = nest_.interleaved.members[access];
  for (const LoadedStep& step : loaded_)
    if (step.group == member.group && step.copy == lane.copy && step.row == row_ &&
        step.column_offset == lane.column_offset && is_straight_since(step.position))
      return step.parts[member.place];
  const Interleaved::Group& group = nest_.interleaved.groups[as_index(member.group)];
  const std::vector<VReg> vectors = load_step(group, lane);
  std::erase_if(loaded_, [&](const LoadedStep& step) { return step.group == member.group && step.copy == lane.copy; });
  loaded_.push_back({.group = member.group,
                     .copy = lane.copy,
                     .row = row_,
                     .column_offset = lane.column_offset,
                     .parts = b_.take_apart(lane_of(dtype_of_access(access)), vectors, group.places),
                     .position = 0});
  loaded_.back().position = s_.position();
  return loaded_.back().parts[member.place];
}

/// The last store of a step writes all of them.
SINTER_DECL void LoopBody::store_interleaved(std::size_t access, const Lane0& lane, VReg value) {
  const Interleaved::Member member = nest_.interleaved.members[access];
  const Interleaved::Group& group = nest_.interleaved.groups[as_index(member.group)];
  const auto is_of_step = [&](const WaitingStep& step) { return step.group == member.group && step.copy == lane.copy; };
  auto step = std::find_if(waiting_.begin(), waiting_.end(), is_of_step);
  if (step == waiting_.end())
    step = waiting_.insert(waiting_.end(), {member.group, lane.copy, std::vector<VReg>(group.pitch, no_vreg)});
  step->parts[member.place] = value;
  const auto known = std::count_if(step->parts.begin(), step->parts.end(), [](VReg r) { return r != no_vreg; });
  if (known < std::popcount(group.places)) return;
  const std::vector<VReg> parts = std::move(step->parts);
  waiting_.erase(step);
  store_step(group, lane, parts);
}

SINTER_DECL void LoopBody::store_step(const Interleaved::Group& group, const Lane0& lane, std::span<const VReg> parts) {
  const DType dtype = dtype_of_access(group.lowest);
  const Lane type = lane_of(dtype);
  const int width = b_.bytes(type), size = size_of(type);
  const std::vector<VReg> vectors = b_.put_together(type, parts);
  element_pointer(group.lowest, lane, -1);
  const bool fits_masks = b_.is_avx512() && group.pitch * b_.lanes() <= 64;
  if (lane.tail.active() && !fits_masks) {
    const int frame = s_.frame(group.pitch * width, 64);
    for (int v = 0; v < group.pitch; ++v)
      b_.store_whole(type, CodeStream::slot(frame + v * width), vectors[as_index(v)]);
    load_element_count(group, lane.tail);
    return copy_elements_of_step(size, frame, false);
  }
  std::vector<VReg> masks(group.pitch, no_vreg);
  if (lane.tail.active() || !group.is_full()) masks = element_masks(group, elements_of_step(group), lane.tail);
  for (int v = 0; v < group.pitch; ++v)
    b_.store(dtype, CodeStream::at(Gpr::rdx, v * width), vectors[as_index(v)], Tail{.mask = masks[as_index(v)]});
}

}  // namespace x86
SINTER_NAMESPACE_END
