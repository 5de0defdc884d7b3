// Random changes of loop nests, for tests of the verifier: what it accepts must compute what the nest did before.
#pragma once

#include "conformance/kernel_random.hpp"
#include "nest_edits.hpp"

#include <sinter/kernel/loop_nest/verify.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sinter_test {

/// A change that leaves numbers in range, mostly.
inline void change_at_random(LoopNest& nest, Random& random) {
  const auto any = [&](std::size_t count) {
    return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(count) - 1));
  };
  const std::size_t place = any(nest.nodes.size());
  NestNode& node = nest.nodes[place];
  const auto other = [&](NestNodeKind kind) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < nest.nodes.size(); ++i)
      if (nest.nodes[i].kind == kind) places.push_back(i);
    return random.pick(places);
  };
  switch (random.integer(0, 7)) {
    case 0: return drop(nest, place);
    case 1:
      if (is_leaf(nest, place)) insert(nest, any(nest.nodes.size()), node);
      return;
    case 2:
      if (is_leaf(nest, place) && place + 1 < nest.nodes.size() && is_leaf(nest, place + 1))
        swap_with_next(nest, place);
      return;
    case 3:
      if (is_leaf(nest, place)) move_to(nest, place, any(nest.nodes.size()));
      return;
    case 4: node.first = nest.nodes[other(node.kind)].first; return;
    case 5:
      if (node.kind == NestNodeKind::fold) {
        node.axis = static_cast<std::uint16_t>(any(static_cast<std::size_t>(nest.kernel->rank())));
        node.part = static_cast<FoldPart>(any(6));
      } else if (nest.buffers.size() > 0) {
        Buffer& buffer = nest.buffers[any(nest.buffers.size())];
        const auto field = any(3);
        if (field == 0) buffer.space = static_cast<BufferSpace>(any(4));
        else if (field == 1) buffer.points = buffer.points == 0 ? 1 : buffer.points / 2;
        else buffer.axes ^= axis_bit(static_cast<int>(any(static_cast<std::size_t>(nest.kernel->rank()))));
      }
      return;
    case 6:
      if (node.kind == NestNodeKind::compute || node.kind == NestNodeKind::update)
        node.axis = static_cast<std::uint16_t>(any(3));
      if (nest.calls.empty()) return;
      if (random.chance(50)) std::swap(nest.calls[0].a, nest.calls[0].b);
      else std::swap(nest.calls[0].m, random.chance(50) ? nest.calls[0].n : nest.calls[0].k);
      return;
    default: {
      Loop& loop = nest.loops[any(nest.loops.size())];
      const Loop& another = nest.loops[any(nest.loops.size())];
      const auto field = any(6);
      if (field == 0) loop.axes = another.axes;
      if (field == 1) loop.axes ^= axis_bit(static_cast<int>(any(static_cast<std::size_t>(nest.kernel->rank()))));
      if (field == 2) loop.mode = another.mode;
      if (field == 3) loop.range = random.chance(50) ? another.range : static_cast<LoopRange>(any(12));
      if (field == 4) loop.step = another.step;
      if (field == 5) loop.tail = another.tail;
    }
  }
}

inline bool is_accepted(const LoopNest& nest) {
  try {
    verify(nest);
  } catch (const InternalError&) { return false; }
  return true;
}

}  // namespace sinter_test
