// Runs the stages: checked, timed and observed.
#pragma once

#include <sinter/passes/pipeline.hpp>

#include <chrono>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {
inline void verify_after(std::string_view pass, const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    throw InternalError("the graph is broken after " + std::string(pass) + ": " + error.what() + "\n" + graph.text());
  }
}
}  // namespace passes_detail

SINTER_DECL Graph run_pipeline(const Graph& graph, const PipelineOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (options.checks) passes_detail::verify_after("tracing", graph);
  Graph current = graph;
  for (const Stage& stage : pipeline) {
    const auto start = Clock::now();
    current = stage.run(current, options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.checks) passes_detail::verify_after(stage.name, current);
    if (options.observe) options.observe(stage.name, current, seconds);
  }
  return current;
}

SINTER_NAMESPACE_END
