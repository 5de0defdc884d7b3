// Linear scan over the stream: live intervals from uses and loops, then one walk that assigns registers.
#pragma once

#include <sinter/backend/x86/machine/register_allocator.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

struct Interval {
  std::uint32_t begin = ~0u, end = 0;
  float weight = 0;
  std::uint16_t region = 0;  // of a constant
  bool is_constant = false;
  float density() const { return weight / static_cast<float>(end - begin + 1); }
};

/// Computes intervals of all virtual registers. A use inside a loop that does not hold the definition lasts to the
/// loop's end.
class IntervalBuilder {
 public:
  explicit IntervalBuilder(const CodeStream& stream) : stream_(stream), region_at_(stream.regions()) {
    intervals_.reserve(stream.vregs().size());
    for (const VRegInfo& r : stream.vregs()) intervals_.push_back({.region = r.region, .is_constant = r.is_constant});
    const std::span<const Instruction> code = stream.code();
    for (std::uint32_t at = 0; at < code.size(); ++at) {
      if (at >= next_event_) follow_loops(at);
      visit(code[at], at);
    }
    for (Interval& i : intervals_)
      if (i.begin != ~0u) i.end = std::max(i.end, i.begin + 1);
  }
  std::vector<Interval> take() { return std::move(intervals_); }
  /// A bit for each general register that the stream names.
  std::uint32_t general_registers() const { return general_registers_; }

 private:
  /// Enters and leaves loops, and finds out where that happens next.
  void follow_loops(std::uint32_t at) {
    const auto& loops = stream_.loops();
    while (current_ >= 0 && loops[as_index(current_)].end <= at) leave();
    while (next_ < loops.size() && loops[next_].begin <= at) {
      current_ = static_cast<std::int32_t>(next_++);
      frequency_ *= 8;
      while (current_ >= 0 && loops[as_index(current_)].end <= at) leave();
    }
    weight_of_use_ = {frequency_, 0.3f * frequency_};
    current_begin_ = current_ >= 0 ? loops[as_index(current_)].begin : 0;
    next_event_ = current_ >= 0 ? loops[as_index(current_)].end : ~0u;
    if (next_ < loops.size()) next_event_ = std::min(next_event_, loops[next_].begin);
  }
  void leave() {
    current_ = stream_.loops()[as_index(current_)].parent;
    frequency_ /= 8;
  }
  void visit(const Instruction& i, std::uint32_t at) {
    if (i.op == Op::constants) region_at_[as_index(i.imm)] = at;
    general_registers_ |= 1u << static_cast<unsigned>(i.mem.base) | 1u << static_cast<unsigned>(i.mem.index);
    for (std::size_t k = 0; k < i.count; ++k) {
      const Operand& o = i.operand[k];
      if (o.kind == Operand::Kind::vec || o.kind == Operand::Kind::mask) touch(o.id, at);
      else if (o.kind == Operand::Kind::gpr) general_registers_ |= 1u << o.id;
    }
    if (i.mask != no_vreg) touch(i.mask, at);
  }
  void touch(VReg r, std::uint32_t at) {
    Interval& interval = intervals_[r];
    if (interval.begin == ~0u) interval.begin = interval.is_constant ? region_at_[interval.region] : at;
    interval.weight += weight_of_use_[as_index(interval.is_constant)];
    interval.end = std::max(interval.end, at);
    if (current_begin_ > interval.begin) stretch(interval);
  }
  void stretch(Interval& interval) {
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
  std::uint32_t current_begin_ = 0, next_event_ = 0, general_registers_ = 0;
  float frequency_ = 1;
  std::array<float, 2> weight_of_use_{};  // a constant's use costs less: it is read from the pool
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
    const std::span<const Instruction> code = stream_.code();
    for (std::uint32_t at = 0; at < code.size(); ++at) {
      release(at);
      const Instruction& i = code[at];
      if (i.op == Op::constants)
        for (VReg r = result_.first_constant[as_index(i.imm)]; r != no_vreg; r = result_.place[r].next) place(r);
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
    const std::span<const VRegInfo> vregs = stream_.vregs();
    result_.first_constant.assign(stream_.regions(), no_vreg);
    for (std::size_t r = vregs.size(); r-- > 0;)
      if (vregs[r].is_constant && intervals_[r].begin != ~0u) {
        VReg& first = result_.first_constant[vregs[r].region];
        result_.place[r].next = first;
        first = static_cast<VReg>(r);
      }
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
  std::array<std::uint32_t, 2> free_{}, ever_{};
  std::array<std::array<VReg, 32>, 2> owner_{};
  Allocation result_;
  int mask_spills_ = 0;
};

}  // namespace x86_detail

SINTER_DECL Allocation allocate_registers(const CodeStream& stream) {
  x86_detail::IntervalBuilder builder(stream);
  const std::vector<x86_detail::Interval> intervals = builder.take();
  // The two highest vector registers stay free for values that live in memory; masks give up two only when they must.
  const int vectors = stream.isa() == Isa::avx512 ? 30 : 14;
  x86_detail::LinearScan first(stream, intervals, vectors, 7);
  Allocation result = first.run();
  if (first.mask_spills() != 0) result = x86_detail::LinearScan(stream, intervals, vectors, 5).run();
  result.general_registers = builder.general_registers();
  result.scratch_vec = {static_cast<std::uint8_t>(vectors), static_cast<std::uint8_t>(vectors + 1)};
  result.scratch_mask = {6, 7};
  return result;
}

}  // namespace x86
SINTER_NAMESPACE_END
