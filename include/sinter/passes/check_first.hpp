// Checks indices ahead: of several scatters into inputs each may then write into the memory of its input.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct CheckFirst {
  std::string_view name() const { return "check_first"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
