// Replaces composite ops by what they are made of, until none is left. What wants a composite whole (a kernel of its own)
// says so in `keep`.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Decompose {
  bool (*keep)(const Node& node) = nullptr;   // null: nothing is kept

  std::string_view name() const { return "decompose"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
