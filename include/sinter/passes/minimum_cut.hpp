// Minimum cut of a flow network with integral capacities (Dinic 1970: blocking flows on layered networks). Knows
// numbers only: what vertices and capacities mean is known to whoever builds the network.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN

class FlowNetwork {
 public:
  /// More than any sum of finite capacities may reach.
  static constexpr std::int64_t unlimited = std::int64_t{1} << 60;
  static constexpr std::int32_t source = 0, sink = 1;

  FlowNetwork() : first_(2, -1) {}
  std::int32_t add_vertex() {
    first_.push_back(-1);
    return static_cast<std::int32_t>(first_.size()) - 1;
  }
  void add_edge(std::int32_t from, std::int32_t to, std::int64_t capacity);

  /// Capacity of a smallest set of edges without which the sink cannot be reached; unlimited if every such set has an
  /// unlimited edge.
  std::int64_t cut();
  /// After cut(): on the sink's side of the smallest cut that is nearest to the sink.
  bool is_sink_side(std::int32_t vertex) const { return reaches_sink_[as_index(vertex)] != 0; }

 private:
  struct Edge {
    std::int32_t to, next;
    std::int64_t capacity;  // what is left of it; the edge back is at number ^ 1
  };
  bool layer();
  void mark_sink_side();
  std::int64_t push();

  std::vector<Edge> edges_;
  std::vector<std::int32_t> first_, level_, current_;  // per vertex
  std::vector<std::uint8_t> reaches_sink_;             // by edges with capacity left
};

SINTER_NAMESPACE_END
