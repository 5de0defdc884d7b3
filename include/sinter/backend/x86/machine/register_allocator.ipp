// Linear scan over the stream: live intervals from uses and loops, then one walk that assigns registers.
#pragma once

#include <sinter/backend/x86/machine/register_allocator.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

struct Interval {
  std::uint32_t begin = ~0u, end = 0;
  float weight = 0;
  float density() const { return weight / static_cast<float>(end - begin + 1); }
};

/// Computes intervals of all virtual registers. A use inside a loop that does not hold the definition lasts to the
/// loop's end.
class IntervalBuilder {
 public:
  explicit IntervalBuilder(const CodeStream& stream)
      : stream_(stream), intervals_(stream.vregs().size()), region_at_(1) {
    const auto& code = stream.code();
    for (std::uint32_t at = 0; at < code.size(); ++at) {
      follow_loops(at);
      visit(code[at], at);
    }
    for (Interval& i : intervals_)
      if (i.begin != ~0u) i.end = std::max(i.end, i.begin + 1);
  }
  std::vector<Interval> take() { return std::move(intervals_); }

 private:
  void follow_loops(std::uint32_t at) {
    const auto& loops = stream_.loops();
    while (current_ >= 0 && loops[as_index(current_)].end <= at) leave();
    while (next_ < loops.size() && loops[next_].begin <= at) {
      current_ = static_cast<std::int32_t>(next_++);
      frequency_ *= 8;
      while (current_ >= 0 && loops[as_index(current_)].end <= at) leave();
    }
  }
  void leave() {
    current_ = stream_.loops()[as_index(current_)].parent;
    frequency_ /= 8;
  }
  void visit(const Instruction& i, std::uint32_t at) {
    if (i.op == Op::constants) {
      region_at_.resize(std::max(region_at_.size(), as_index(i.imm) + 1));
      region_at_[as_index(i.imm)] = at;
    }
    for (int k = 0; k < i.count; ++k) {
      const Operand& o = i.operand[as_index(k)];
      if (o.kind != Operand::Kind::vec && o.kind != Operand::Kind::mask) continue;
      bool defines = k == 0 && !i.only_reads;
      touch(o.id, at, defines);
      if (!defines || i.reads_first) use(o.id, at);
    }
    if (i.mask != no_vreg) {
      touch(i.mask, at, false);
      use(i.mask, at);
    }
  }
  void touch(VReg r, std::uint32_t at, bool) {
    Interval& interval = intervals_[r];
    const VRegInfo& info = stream_.vregs()[r];
    if (interval.begin == ~0u) interval.begin = info.is_constant ? region_at_[info.region] : at;
    interval.weight += info.is_constant ? 0.3f * frequency_ : frequency_;
    interval.end = std::max(interval.end, at);
    if (interval.begin < at) stretch(interval, at);
  }
  void use(VReg r, std::uint32_t at) { intervals_[r].end = std::max(intervals_[r].end, at); }
  void stretch(Interval& interval, std::uint32_t) {
    const auto& loops = stream_.loops();
    for (std::int32_t loop = current_; loop >= 0 && loops[as_index(loop)].begin > interval.begin;
         loop = loops[as_index(loop)].parent)
      interval.end = std::max(interval.end, loops[as_index(loop)].end);
  }

  const CodeStream& stream_;
  std::vector<Interval> intervals_;
  std::vector<std::uint32_t> region_at_;
  std::int32_t current_ = -1;
  std::size_t next_ = 0;
  float frequency_ = 1;
};

/// The walk. `mask_registers` says how many of k1..k7 may be assigned.
class LinearScan {
 public:
  LinearScan(const CodeStream& stream, const std::vector<Interval>& intervals, int vector_registers, int mask_registers)
      : stream_(stream),
        intervals_(intervals),
        next_ending_(intervals.size(), no_vreg),
        ending_(stream.code().size() + 2, no_vreg) {
    free_[0] = (1u << vector_registers) - 1;
    free_[1] = ((1u << mask_registers) - 1) << 1;
    result_.place.resize(intervals.size());
  }

  Allocation run() {
    list_constants();
    const auto& code = stream_.code();
    for (std::uint32_t at = 0; at < code.size(); ++at) {
      release(at);
      const Instruction& i = code[at];
      if (i.op == Op::constants) {
        for (VReg r : constants_by_region_[as_index(i.imm)]) place(r);
      }
      if (i.count == 0 || i.only_reads) continue;
      const Operand& o = i.operand[0];
      if ((o.kind == Operand::Kind::vec || o.kind == Operand::Kind::mask) &&
          result_.place[o.id].kind == Place::Kind::unused)
        place(o.id);
    }
    assign_slots();
    return std::move(result_);
  }
  int mask_spills() const { return mask_spills_; }

 private:
  void list_constants() {
    const auto& vregs = stream_.vregs();
    std::size_t regions = 1;
    for (const VRegInfo& v : vregs) regions = std::max(regions, std::size_t{v.region} + 1);
    for (const Instruction& i : stream_.code())
      if (i.op == Op::constants) regions = std::max(regions, as_index(i.imm) + 1);
    constants_by_region_.resize(regions);
    for (std::size_t r = 0; r < vregs.size(); ++r)
      if (vregs[r].is_constant && intervals_[r].begin != ~0u)
        constants_by_region_[vregs[r].region].push_back(static_cast<VReg>(r));
  }
  void release(std::uint32_t at) {
    for (VReg r = ending_[at]; r != no_vreg; r = next_ending_[r])
      if (result_.place[r].kind == Place::Kind::reg) {
        auto cls = as_index(stream_.vregs()[r].is_mask);
        if (owner_[cls][result_.place[r].reg] == r) free_[cls] |= 1u << result_.place[r].reg;
      }
  }
  void place(VReg r) {
    auto cls = as_index(stream_.vregs()[r].is_mask);
    std::uint32_t end = intervals_[r].end;
    next_ending_[r] = ending_[end];
    ending_[end] = r;
    if (free_[cls] != 0) return give(r, cls, static_cast<std::uint8_t>(std::countr_zero(free_[cls])));
    std::size_t victim = 32;
    float lowest = intervals_[r].density();
    for (std::size_t reg = 0; reg < 32; ++reg) {
      VReg other = owner_[cls][reg];
      if (!taken(cls, reg)) continue;
      float density = intervals_[other].density();
      if (density < lowest) {
        lowest = density;
        victim = reg;
      }
    }
    if (victim == 32) return spill(r);
    spill(owner_[cls][victim]);
    give(r, cls, static_cast<std::uint8_t>(victim));
  }
  bool taken(std::size_t cls, std::size_t reg) const { return (ever_[cls] >> reg & 1u) && !(free_[cls] >> reg & 1u); }
  void give(VReg r, std::size_t cls, std::uint8_t reg) {
    free_[cls] &= ~(1u << reg);
    ever_[cls] |= 1u << reg;
    owner_[cls][reg] = r;
    result_.place[r].kind = Place::Kind::reg;
    result_.place[r].reg = reg;
  }
  void spill(VReg r) {
    const VRegInfo& info = stream_.vregs()[r];
    result_.place[r].kind = info.is_constant ? Place::Kind::pool : Place::Kind::slot;
    result_.place[r].offset = info.pool_offset;
    mask_spills_ += info.is_mask;
    result_.spills += !info.is_constant;
  }
  void assign_slots() {
    int frame = stream_.frame_bytes();
    for (std::size_t r = 0; r < result_.place.size(); ++r) {
      if (result_.place[r].kind != Place::Kind::slot) continue;
      int bytes = stream_.vregs()[r].bytes;
      frame = (frame + bytes - 1) / bytes * bytes;
      result_.place[r].offset = frame;
      frame += bytes;
      result_.aligned_frame |= bytes > 8;
    }
    result_.frame_bytes = frame;
  }

  const CodeStream& stream_;
  const std::vector<Interval>& intervals_;
  std::vector<VReg> next_ending_, ending_;
  std::vector<std::vector<VReg>> constants_by_region_;
  std::array<std::uint32_t, 2> free_{}, ever_{};
  std::array<std::array<VReg, 32>, 2> owner_{};
  Allocation result_;
  int mask_spills_ = 0;
};

}  // namespace x86_detail

SINTER_DECL Allocation allocate_registers(const CodeStream& stream) {
  std::vector<x86_detail::Interval> intervals = x86_detail::IntervalBuilder(stream).take();
  // The two highest vector registers stay free for values that live in memory; masks give up two only when they must.
  const int vectors = stream.isa() == Isa::avx512 ? 30 : 14;
  x86_detail::LinearScan first(stream, intervals, vectors, 7);
  Allocation result = first.run();
  if (first.mask_spills() != 0) result = x86_detail::LinearScan(stream, intervals, vectors, 5).run();
  result.scratch_vec = {static_cast<std::uint8_t>(vectors), static_cast<std::uint8_t>(vectors + 1)};
  result.scratch_mask = {6, 7};
  return result;
}

}  // namespace x86
SINTER_NAMESPACE_END
