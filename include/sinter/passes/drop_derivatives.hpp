// Replaces values with a derivative of their own (custom_derivative) by the values: nothing is differentiated any more.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct DropDerivatives {
  std::string_view name() const { return "drop_derivatives"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
