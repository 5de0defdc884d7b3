// Replaces composite ops by what they are made of, until none is left. What wants a composite whole (a kernel of its
// own) says so in `keep`.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <functional>
#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Decompose {
  std::function<bool(const Graph& graph, const Node& node)> keep = nullptr;  // null: nothing is kept
  /// Within a trace extents may be equal by a guard only, as s1 and 8; a composite whose parts would then have another
  /// type is kept. Afterwards equal extents are the same, and another type is a fault.
  enum class Symbols : std::uint8_t { solved, unsolved };
  Symbols symbols = Symbols::solved;

  std::string_view name() const { return "decompose"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
