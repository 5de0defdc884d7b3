// Finding things in a nest.
#pragma once

#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::size_t LoopNest::find(VariantKind kind) const {
  for (std::size_t place = 0; place < nodes.size(); place = nodes[place].end)
    if (variants[nodes[place].first] == kind) return place;
  return nodes.size();
}

SINTER_NAMESPACE_END
