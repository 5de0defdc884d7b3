// Edits of loop nests that keep the records well-formed and nothing else: what tests of the verifier do to good nests.
#pragma once

#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace sinter_test {
using namespace sinter;

/// The place of the nth node of a kind.
inline std::size_t nth(const LoopNest& nest, NestNodeKind kind, int n = 0) {
  for (std::size_t place = 0; place < nest.nodes.size(); ++place)
    if (nest.nodes[place].kind == kind && n-- == 0) return place;
  throw std::logic_error("no such node");
}

inline bool is_leaf(const LoopNest& nest, std::size_t place) {
  return nest.nodes[place].end == place + 1 && nest.nodes[place].kind > NestNodeKind::call;
}

/// Without a node and what stands in it.
inline void drop(LoopNest& nest, std::size_t place) {
  const std::uint32_t count = nest.nodes[place].end - static_cast<std::uint32_t>(place);
  nest.nodes.erase(nest.nodes.begin() + static_cast<std::ptrdiff_t>(place),
                   nest.nodes.begin() + static_cast<std::ptrdiff_t>(place + count));
  for (NestNode& node : nest.nodes)
    if (node.end > place) node.end -= count;
}
inline void drop(LoopNest& nest, NestNodeKind kind, int n = 0) { drop(nest, nth(nest, kind, n)); }

/// A node without children, in front of the one at `place`.
inline void insert(LoopNest& nest, std::size_t place, NestNode node) {
  for (NestNode& other : nest.nodes)
    if (other.end > place) ++other.end;
  node.end = static_cast<std::uint32_t>(place + 1);
  nest.nodes.insert(nest.nodes.begin() + static_cast<std::ptrdiff_t>(place), node);
}
inline void repeat(LoopNest& nest, NestNodeKind kind, int n = 0) {
  const std::size_t place = nth(nest, kind, n);
  insert(nest, place, nest.nodes[place]);
}

/// What stands in a node, without the node around it.
inline void open_up(LoopNest& nest, std::size_t place) {
  nest.nodes.erase(nest.nodes.begin() + static_cast<std::ptrdiff_t>(place));
  for (NestNode& node : nest.nodes)
    if (node.end > place) --node.end;
}

/// Two neighbours without children change places.
inline void swap_with_next(LoopNest& nest, std::size_t place) {
  std::swap(nest.nodes[place], nest.nodes[place + 1]);
  std::swap(nest.nodes[place].end, nest.nodes[place + 1].end);
}
inline void swap_with_next(LoopNest& nest, NestNodeKind kind, int n = 0) { swap_with_next(nest, nth(nest, kind, n)); }

/// A node without children, to the place in front of another one.
inline void move_to(LoopNest& nest, std::size_t from, std::size_t place) {
  const NestNode node = nest.nodes[from];
  drop(nest, from);
  insert(nest, place > from ? place - 1 : place, node);
}
inline void move_to(LoopNest& nest, NestNodeKind kind, int n, std::size_t place) {
  move_to(nest, nth(nest, kind, n), place);
}

}  // namespace sinter_test
