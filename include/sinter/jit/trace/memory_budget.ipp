// Rounds of measuring and lowering.
#pragma once

#include <sinter/jit/trace/memory_budget.hpp>

#include <sinter/base/context.hpp>
#include <sinter/passes/cse.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/passes/rematerialise.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline constexpr int most_rounds = 64, most_rounds_without_gain = 6;
inline constexpr std::size_t most_growth = 8;  // times the nodes of the graph

inline std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t kibi = 1024;
  if (bytes < 16 * kibi) return std::to_string(bytes) + " bytes";
  return std::to_string(bytes) + " bytes (" + std::to_string((bytes + kibi - 1) / kibi) + " KiB)";
}
}  // namespace jit_detail

namespace jit_detail {
/// How a search goes about it: how much of the peak it takes away in one round at most (what comes again after the
/// peak makes the next one), and Rematerialise::parts.
struct Approach {
  std::int64_t share;  // 1 / share of the peak
  int parts;
};
inline constexpr Approach approaches[] = {{8, 1}, {8, 2}, {8, 4}, {4, 3}, {2, 1}, {2, 6}, {1, 1}, {4, 12}};

/// Lowers the peak from `graph` on until it is under `budget`. `lowest` becomes the lowest peak met.
inline bool search_under(std::int64_t budget, const Approach& approach, const PlanOptions& wanted, Location where,
                         Graph& graph, MemoryTimeline timeline, std::int64_t& lowest) {
  const std::size_t most_nodes = most_growth * graph.nodes().size() + 64;
  std::int64_t best = timeline.bytes;
  for (int round = 0, without_gain = 0; round < most_rounds && without_gain < most_rounds_without_gain; ++round) {
    if (timeline.bytes <= budget) return true;
    Rematerialise pass{
        .excess = std::max<std::int64_t>(1, std::min(timeline.bytes - budget, timeline.bytes / approach.share)),
        .products = Products::recomputed,
        .parts = approach.parts,
        .timeline = &timeline};
    Graph next = pass(graph);
    if (&next.nodes() == &graph.nodes() && approach.parts > 1) {
      pass.parts = 1;
      next = pass(graph);
    }
    if (&next.nodes() == &graph.nodes() || next.nodes().size() > most_nodes) return false;
    graph = next;
    timeline = timeline_of(graph, wanted);
    without_gain = timeline.bytes < best ? 0 : without_gain + 1;
    best = std::min(best, timeline.bytes);
    lowest = std::min(lowest, best);
    if (is_logged("memory"))
      note("memory", where.text() + ": round " + std::to_string(round + 1) + " in " + std::to_string(approach.parts) +
                         " parts: " + bytes_text(timeline.bytes) + " of " + bytes_text(budget) + ", most after step " +
                         std::to_string(timeline.peak) + "; " + std::to_string(graph.nodes().size()) + " nodes");
  }
  return timeline.bytes <= budget;
}

inline bool search(std::int64_t budget, const PlanOptions& wanted, Location where, Graph& graph,
                   const MemoryTimeline& timeline, std::int64_t& lowest) {
  for (const Approach& approach : approaches) {
    Graph found = graph;
    if (!search_under(budget, approach, wanted, where, found, timeline, lowest)) continue;
    graph = found;
    return true;
  }
  return false;
}
}  // namespace jit_detail

SINTER_DECL Graph fit_memory(const Graph& graph, std::int64_t budget, const PlanOptions& wanted, Location where) {
  using namespace jit_detail;
  if (budget == 0) return graph;
  if (const Device device = wanted.backends.front()->device(); device != Device::cpu())
    throw UserError("compile",
                    "memory_budget holds for plans on the cpu, this function's tensors are on " + device.text(), where,
                    "use jit::checkpoint where memory is short");
  const MemoryTimeline timeline = timeline_of(graph, wanted);
  std::int64_t lowest = timeline.bytes;
  Graph found = graph;
  if (search(budget, wanted, where, found, timeline, lowest)) return found;
  // Bodies hold memory of their own, and calls are large pieces to keep or to run again.
  found = Cse{}(inline_calls(graph));
  if (found.nodes().size() != graph.nodes().size()) {
    const MemoryTimeline inlined = timeline_of(found, wanted);
    lowest = std::min(lowest, inlined.bytes);
    if (search(budget, wanted, where, found, inlined, lowest)) return found;
  }
  throw UserError("compile",
                  "memory_budget is " + bytes_text(budget) + ", the plan of this function holds " +
                      bytes_text(timeline.bytes) + " and not less than " + bytes_text(lowest) +
                      " with everything recomputed that may be",
                  where,
                  "give at least " + std::to_string(lowest) +
                      ", or make the batch smaller; arguments, results and Variables are not counted");
}

}  // namespace jit
SINTER_NAMESPACE_END
