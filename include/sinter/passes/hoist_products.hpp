// Products of a scan that need nothing of its carries: of each slice with a matrix that all iterations share. They
// become one product of all slices, in front of the loop, as the input gates of recurrent layers want it. For devices,
// on which many small products in a row leave most units idle. Must not know which device.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN

struct HoistProducts {
  /// What the results of all iterations may take: bytes, and as a multiple of the slices.
  std::int64_t most_bytes = std::int64_t{1} << 30, most_growth = 8;
  std::string_view name() const { return "hoist-products"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
