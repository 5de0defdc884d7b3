// Rematerialisation: values that are held over the point of a program where most memory is held are computed again
// after it, where a minimum cut (keep_or_recompute.hpp) finds that cheaper than holding them. In a training step that
// point lies between forward and backward part, so that the two are planned together. What is computed again stands
// behind a barrier: nobody merges it with the first computation, and it does not run early. Bits stay: random numbers
// come from the same counters, and products that contract with a sum stay with it. Runs last, on primitive operations;
// knows no kernels, but is told when they run.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/keep_or_recompute.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// When a plan computes the nodes of its graph, and what it holds between its steps.
struct MemoryTimeline {
  std::vector<std::int32_t> step;       // per node; -1: computed where it is used, or not at all
  std::vector<std::uint8_t> is_stored;  // per node: its results have memory
  std::int32_t peak = -1;               // the step at which most is held
  std::int64_t bytes = 0;               // held then
  std::int64_t traffic = 0;             // bytes that all steps together read and write
};
/// Every node a step of its own. Results of the graph count nothing: whoever asked for them holds them.
MemoryTimeline timeline_of(const Graph& graph);

struct Rematerialise {
  /// What it costs to hold a byte over the peak; more of it means more recomputation.
  std::int64_t price = 2 * cost_of_byte;
  /// Bytes that must go at the peak. Above 0 the price is the smallest that reaches it, or the one that comes nearest;
  /// values that are used late go first.
  std::int64_t excess = 0;
  Products products = Products::kept;
  /// What is read across the ends of this many equal parts of the early steps is kept: chains of recomputation, whose
  /// links are all there at once, are no longer than a part.
  int parts = 1;
  /// Null: timeline_of(graph).
  const MemoryTimeline* timeline = nullptr;

  std::string_view name() const { return "rematerialise"; }
  Graph operator()(const Graph& graph) const;
};

SINTER_NAMESPACE_END
