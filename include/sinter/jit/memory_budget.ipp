// Rounds of measuring and lowering.
#pragma once

#include <sinter/jit/memory_budget.hpp>

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
inline constexpr std::int64_t gentle = 8;         // what comes again behind the peak makes the next one: small parts at a time
inline constexpr std::size_t most_growth = 8;   // times the nodes of the graph

inline std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t kibi = 1024;
  if (bytes < 16 * kibi) return std::to_string(bytes) + " bytes";
  return std::to_string(bytes) + " bytes (" + std::to_string((bytes + kibi - 1) / kibi) + " KiB)";
}
}  // namespace jit_detail

namespace jit_detail {
/// The search on one form of a graph. `lowest` becomes the lowest peak that it met.
inline bool search_under(std::int64_t budget, const PlanOptions& wanted, Location where, Graph& graph, std::int64_t& lowest) {
  MemoryTimeline timeline = timeline_of(graph, wanted);
  const std::size_t most_nodes = most_growth * graph.nodes().size() + 64;
  for (int round = 0, without_gain = 0; round < most_rounds && without_gain < most_rounds_without_gain; ++round) {
    lowest = std::min(lowest, timeline.bytes);
    if (timeline.bytes <= budget) return true;
    const std::int64_t excess = std::min(timeline.bytes - budget, timeline.bytes / gentle);
    const Graph next = Rematerialise{.excess = std::max<std::int64_t>(excess, 1), .products = Products::recomputed, .timeline = &timeline}(graph);
    if (&next.nodes() == &graph.nodes() || next.nodes().size() > most_nodes) return false;
    graph = next;
    timeline = timeline_of(graph, wanted);
    without_gain = timeline.bytes < lowest ? 0 : without_gain + 1;
    if (is_logged("memory"))
      note("memory", where.text() + ": round " + std::to_string(round + 1) + ": " + bytes_text(timeline.bytes) + " of " + bytes_text(budget) + ", most behind step " +
                         std::to_string(timeline.peak) + "; " + std::to_string(graph.nodes().size()) + " nodes");
  }
  return false;
}
}  // namespace jit_detail

SINTER_DECL Graph fit_memory(const Graph& graph, std::int64_t budget, const PlanOptions& wanted, Location where) {
  using namespace jit_detail;
  if (budget == 0) return graph;
  if (const Device device = wanted.backends.front()->device(); device != Device::cpu())
    throw UserError("compile", "memory_budget holds for plans on the cpu, this function's tensors are on " + device.text(), where,
                    "use jit::checkpoint where memory is short");
  const std::int64_t unchanged = timeline_of(graph, wanted).bytes;
  std::int64_t lowest = unchanged;
  Graph found = graph;
  if (search_under(budget, wanted, where, found, lowest)) return found;
  // Bodies hold memory of their own, and calls are large pieces to keep or to run again.
  found = Cse{}(inline_calls(graph));
  if (found.nodes().size() != graph.nodes().size() && search_under(budget, wanted, where, found, lowest)) return found;
  throw UserError("compile",
                  "memory_budget is " + bytes_text(budget) + ", the plan of this function holds " + bytes_text(unchanged) + " and not less than " + bytes_text(lowest) +
                      " with everything recomputed that may be",
                  where, "give at least " + std::to_string(lowest) + ", or make the batch smaller; arguments, results and Variables are not counted");
}

}  // namespace jit
SINTER_NAMESPACE_END
