// Movements between lanes, of which scans are made.
#pragma once

#include <sinter/backend/x86/nest/vector_builder.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {
/// Where each four lanes are made of these four in one way: the immediate that says so. Else -1.
inline int in_fours(const VectorBuilder::LaneOrder& from, int lanes) {
  int order = 0;
  for (int i = 0; i < lanes; ++i) {
    const int within = from[as_index(i)] - i / 4 * 4;
    if (within < 0 || within > 3 || within != from[as_index(i % 4)]) return -1;
    if (i < 4) order |= within << 2 * i;
  }
  return order;
}
/// The same for pairs, each in its own way.
inline int in_pairs(const VectorBuilder::LaneOrder& from, int lanes) {
  int order = 0;
  for (int i = 0; i < lanes; ++i) {
    if (from[as_index(i)] / 2 != i / 2) return -1;
    order |= (from[as_index(i)] & 1) << i;
  }
  return order;
}
}  // namespace x86_detail

SINTER_DECL VReg VectorBuilder::permute(Lane lane, VReg a, const LaneOrder& from) {
  const int width = bytes(lane);
  const bool is_narrow = size_of(lane) == 4;
  const int fours = x86_detail::in_fours(from, lanes_), pairs = is_narrow ? -1 : x86_detail::in_pairs(from, lanes_);
  const VReg r = s_.new_vec(width);
  if (pairs >= 0 || fours >= 0) {
    const Op op = is_narrow ? Op::vpermilps : pairs >= 0 ? Op::vpermilpd : Op::vpermq;
    s_.emit(op, {vec(r, width), vec(a, width), immediate()}, pairs >= 0 ? pairs : fours);
    return r;
  }
  std::array<std::int32_t, 16> narrow{};
  std::array<std::int64_t, 16> wide{};
  for (std::size_t i = 0; i < 16; ++i) narrow[i] = from[i], wide[i] = from[i];
  const VReg order = is_narrow ? s_.constant_vector(narrow.data(), width) : s_.constant_vector(wide.data(), width);
  s_.emit(is_narrow ? Op::vpermps : Op::vpermpd, {vec(r, width), vec(order, width), vec(a, width)});
  return r;
}

/// Two copies where the instruction reads four bits. 16 bytes of lanes take a part of 32.
SINTER_DECL VReg VectorBuilder::lookup(VReg index, std::span<const float, 8> table) {
  const int width = std::max(32, bytes(Lane::f32));
  std::array<float, 16> copies{};
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i] = table[i % 8];
  VReg r = s_.new_vec(bytes(Lane::f32));
  s_.emit(Op::vpermps, {vec(r, width), vec(index, width), vec(s_.constant_vector(copies.data(), width), width)});
  return r;
}

SINTER_DECL VReg VectorBuilder::last_before_runs(Lane lane, VReg a, int run, VReg zeroed) {
  LaneOrder from{};
  for (int i = 0; i < 16; ++i)
    from[as_index(i)] = static_cast<std::uint8_t>((i & run) != 0 ? (i & ~(2 * run - 1)) + run - 1 : i);
  const VReg r = permute(lane, a, from);
  if (zeroed != no_vreg) {
    Instruction& last = s_.last();
    last.mask = zeroed;
    last.zeroing = true;
  }
  return r;
}

SINTER_DECL VReg VectorBuilder::move_up(Lane lane, VReg a) {
  LaneOrder from{};
  for (int i = 1; i < 16; ++i) from[as_index(i)] = static_cast<std::uint8_t>(i - 1);
  return permute(lane, a, from);
}

SINTER_DECL VReg VectorBuilder::broadcast_last(Lane lane, VReg a) {
  LaneOrder from{};
  from.fill(static_cast<std::uint8_t>(lanes_ - 1));
  return permute(lane, a, from);
}

SINTER_DECL VReg VectorBuilder::reverse(Lane lane, VReg a) {
  LaneOrder from{};
  for (int i = 0; i < lanes_; ++i) from[as_index(i)] = static_cast<std::uint8_t>(lanes_ - 1 - i);
  return permute(lane, a, from);
}

/// The second vector begins one element early, so that it ends with the last element that is wanted.
SINTER_DECL VReg VectorBuilder::load_every_second(Lane lane, Gpr first) {
  const VReg low = load_whole(lane, CodeStream::at(first)),
             high = load_whole(lane, CodeStream::at(first, (lanes_ - 1) * size_of(lane)));
  return every_second_of(lane, low, high);
}

SINTER_DECL VReg VectorBuilder::load_every_second(Lane lane, Gpr first, const Tail& tail) {
  const VReg low_mask = s_.new_mask(), high_mask = s_.new_mask();
  s_.mov(Gpr::r9, CodeStream::slot(tail.count_slot));  // elements from the first to the last: 2 * count - 1
  s_.emit(Op::lea, {reg(Gpr::r9), mem(8)}, CodeStream::at(Gpr::r9, Gpr::r9, 0, -1));
  s_.mov_imm(Gpr::rax, std::numeric_limits<std::int32_t>::max());
  s_.emit(Op::bzhi, {reg(Gpr::rax, 4), reg(Gpr::rax, 4), reg(Gpr::r9, 4)});
  s_.emit(Op::kmovw, {kreg(low_mask), reg(Gpr::rax, 4)});
  s_.emit(Op::shr, {reg(Gpr::rax, 4), immediate()}, lanes_ - 1);
  s_.emit(Op::kmovw, {kreg(high_mask), reg(Gpr::rax, 4)});
  const auto part = [&](VReg mask, int at) {
    const VReg r = s_.new_vec(bytes(lane));
    Instruction& i = s_.emit(size_of(lane) == 4 ? Op::vmovups : Op::vmovupd, {vec(r, bytes(lane)), mem(bytes(lane))},
                             CodeStream::at(first, at * size_of(lane)));
    i.mask = mask;
    i.zeroing = true;
    return r;
  };
  const VReg low = part(low_mask, 0);
  return every_second_of(lane, low, part(high_mask, lanes_ - 1));
}

SINTER_DECL VReg VectorBuilder::every_second_of(Lane lane, VReg low, VReg high) {
  const int half = lanes_ / 2;
  LaneOrder from_low{}, from_high{};
  for (int i = 0; i < lanes_; ++i) {
    if (i < half) from_low[as_index(i)] = static_cast<std::uint8_t>(2 * i);
    else from_high[as_index(i)] = static_cast<std::uint8_t>(2 * i - (lanes_ - 1));
  }
  const VReg evens_of_low = permute(lane, low, from_low), evens_of_high = permute(lane, high, from_high);
  const unsigned lows = (1u << half) - 1;
  return blend(lane, lows, is_avx512() ? lane_mask(lows) : no_vreg, evens_of_low, evens_of_high);
}

SINTER_DECL void VectorBuilder::store_every_second(Lane lane, Gpr first, VReg value) {
  const int half = lanes_ / 2, width = bytes(lane);
  const bool is_narrow = size_of(lane) == 4;
  VReg evens = no_vreg;
  if (is_avx512()) {
    evens = lane_mask(0x5555u & ((1u << lanes_) - 1));
  } else {
    constexpr std::array<std::int32_t, 8> narrow{-1, 0, -1, 0, -1, 0, -1, 0};
    constexpr std::array<std::int64_t, 4> wide{-1, 0, -1, 0};
    evens = is_narrow ? s_.constant_vector(narrow.data(), width) : s_.constant_vector(wide.data(), width);
  }
  for (const int part : {0, 1}) {
    LaneOrder from{};
    for (int i = 0; i < lanes_; ++i) from[as_index(i)] = static_cast<std::uint8_t>(part * half + i / 2);
    const VReg spread = permute(lane, value, from);
    const Mem to = CodeStream::at(first, part * lanes_ * size_of(lane));
    if (is_avx512()) {
      Instruction& i = s_.emit(is_narrow ? Op::vmovups : Op::vmovupd, {mem(width), vec(spread, width)}, to);
      i.mask = evens;
      i.only_reads = true;
    } else {
      s_.emit(is_narrow ? Op::vmaskmovps : Op::vmaskmovpd, {mem(width), vec(evens, width), vec(spread, width)}, to)
          .only_reads = true;
    }
  }
}

SINTER_DECL VReg VectorBuilder::lane_mask(unsigned bits) {
  const VReg r = s_.new_mask();
  s_.mov_imm(Gpr::rax, bits);
  s_.emit(Op::kmovw, {kreg(r), reg(Gpr::rax, 4)});
  return r;
}

SINTER_DECL VReg VectorBuilder::blend(Lane lane, unsigned lanes, VReg mask, VReg a, VReg b) {
  if (is_avx512()) return select(lane, mask, a, b);
  const int width = bytes(lane);
  const VReg r = s_.new_vec(width);
  s_.emit(size_of(lane) == 4 ? Op::vblendps : Op::vblendpd, {vec(r, width), vec(b, width), vec(a, width), immediate()},
          lanes & ((1u << lanes_) - 1));
  return r;
}

}  // namespace x86
SINTER_NAMESPACE_END
