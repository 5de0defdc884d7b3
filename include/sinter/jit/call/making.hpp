// Parts of a compiled function's making that several files share: the graph of a trace, donors, logs. Internal.
#pragma once

#include <sinter/jit/call/function.hpp>
#include <sinter/jit/trace/trace.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

class Stopwatch {
 public:
  /// Milliseconds since the last lap.
  double lap_ms() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The graph of a finished trace, and where its inputs and outputs come from.
struct TracedGraph {
  Graph graph;
  CallEnd end;  // but for the plan
  std::vector<std::shared_ptr<VariableSlot>> captured;
  std::vector<Type> captured_types;
  std::shared_ptr<const void> result_shape;
  GuardSet guards;
  std::vector<std::uint8_t> on_tape;  // per result
};

/// The graph of a trace that read no value.
TracedGraph traced_graph(FunctionTrace& trace, const TracedResult& result, Location where);
/// Which inputs an output may take over: Variables that the call gives a new value anyway (2), before
/// donated arguments and what an earlier segment made (1). Notes which inputs are the assigned Variables.
std::vector<std::uint8_t> find_donors(CallEnd& end, std::span<const LeafSpec> leaves);
/// What SINTER_LOGS asks for about a new entry.
void log_entry(const Entry& entry, Location where);
/// The generated code of a plan.
std::string listings(const Plan& plan);
/// Calls of regions in the graph and, once for each body, in the bodies.
void count_regions(const Graph& graph, std::vector<const Graph*>& bodies, std::int64_t& calls);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
