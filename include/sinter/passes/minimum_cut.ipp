// Layers by breadth-first search, then paths along the layers; without recursion, since chains are as long as programs.
#pragma once

#include <sinter/passes/minimum_cut.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

SINTER_DECL void FlowNetwork::add_edge(std::int32_t from, std::int32_t to, std::int64_t capacity) {
  edges_.push_back({to, first_[as_index(from)], capacity});
  first_[as_index(from)] = static_cast<std::int32_t>(edges_.size()) - 1;
  edges_.push_back({from, first_[as_index(to)], 0});
  first_[as_index(to)] = static_cast<std::int32_t>(edges_.size()) - 1;
}

/// Distances from the source along edges with capacity left. Can the sink be reached?
SINTER_DECL bool FlowNetwork::layer() {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<std::int32_t> reached{source};
  for (std::size_t at = 0; at < reached.size(); ++at) {
    const auto vertex = as_index(reached[at]);
    for (std::int32_t e = first_[vertex]; e >= 0; e = edges_[as_index(e)].next) {
      const Edge& edge = edges_[as_index(e)];
      if (edge.capacity == 0 || level_[as_index(edge.to)] >= 0) continue;
      level_[as_index(edge.to)] = level_[vertex] + 1;
      reached.push_back(edge.to);
    }
  }
  return level_[sink] >= 0;
}

/// Flow along one more path of the layers; 0 if there is none.
SINTER_DECL std::int64_t FlowNetwork::push() {
  std::vector<std::int32_t> path;  // edges from the source
  std::int32_t vertex = source;
  while (vertex != sink) {
    std::int32_t& e = current_[as_index(vertex)];
    while (e >= 0 && (edges_[as_index(e)].capacity == 0 ||
                      level_[as_index(edges_[as_index(e)].to)] != level_[as_index(vertex)] + 1))
      e = edges_[as_index(e)].next;
    if (e >= 0) {
      path.push_back(e);
      vertex = edges_[as_index(e)].to;
    } else {
      if (path.empty()) return 0;
      vertex = edges_[as_index(path.back() ^ 1)].to;  // a dead end: one step back, and past that edge
      path.pop_back();
      std::int32_t& passed = current_[as_index(vertex)];
      passed = edges_[as_index(passed)].next;
    }
  }
  std::int64_t flow = unlimited;
  for (std::int32_t e : path) flow = std::min(flow, edges_[as_index(e)].capacity);
  if (flow == unlimited) return flow;  // not bounded: there is no finite cut
  for (std::int32_t e : path) {
    std::int64_t& capacity = edges_[as_index(e)].capacity;
    if (capacity < unlimited) capacity -= flow;
    std::int64_t& back = edges_[as_index(e ^ 1)].capacity;
    if (back < unlimited) back += flow;
  }
  return flow;
}

SINTER_DECL std::int64_t FlowNetwork::cut() {
  std::int64_t total = 0;
  while (layer()) {
    current_ = first_;
    while (const std::int64_t flow = push()) {
      if (flow == unlimited) return unlimited;
      total += flow;
    }
  }
  mark_sink_side();
  return total;
}

SINTER_DECL void FlowNetwork::mark_sink_side() {
  reaches_sink_.assign(first_.size(), 0);
  reaches_sink_[sink] = 1;
  std::vector<std::int32_t> reached{sink};
  for (std::size_t at = 0; at < reached.size(); ++at)
    for (std::int32_t e = first_[as_index(reached[at])]; e >= 0; e = edges_[as_index(e)].next) {
      const auto from = as_index(edges_[as_index(e)].to);
      if (edges_[as_index(e ^ 1)].capacity == 0 || reaches_sink_[from]) continue;
      reaches_sink_[from] = 1;
      reached.push_back(static_cast<std::int32_t>(from));
    }
}

SINTER_NAMESPACE_END
