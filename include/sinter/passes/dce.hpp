// Dead code elimination: keeps what the outputs and the effects need. Inputs stay, because they are the signature.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN

struct Dce {
  bool drops_effects = false;  // for graphs that compute again what has been computed with its effects
  std::string_view name() const { return "dce"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
