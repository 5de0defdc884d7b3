// Runs the passes: checked, timed and observed.
#pragma once

#include <sinter/passes/pipeline.hpp>

#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/planted.hpp>
#include <sinter/passes/attention_kernels.ipp>
#include <sinter/passes/recognise_attention.ipp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

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

namespace passes_detail {
SINTER_DECL Graph run_recognise_attention(const Graph& graph, const PipelineOptions& options) {
  if (options.keep == nullptr) return graph;
  return recognise_attention(graph, options.keep);
}

SINTER_DECL Graph run_on_bodies(const Graph& graph, const PipelineOptions& options) {
  std::vector<std::pair<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>>> done;
  return map_bodies(graph, [&](const std::shared_ptr<const Graph>& body) {
    for (const auto& [before, after] : done)
      if (structurally_equal(*before, *body)) return after;
    return done.emplace_back(body, std::make_shared<const Graph>(run_pipeline(*body, options))).second;
  });
}
}  // namespace passes_detail

namespace passes_detail {
/// Nothing but leaves and calls: the passes that know ops have nothing to do.
inline bool is_only_calls(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op->kind == OpKind::leaf || node.op->is_call; });
}
}  // namespace passes_detail

SINTER_DECL Graph run_pipeline(const Graph& graph, const PipelineOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (options.checks) passes_detail::verify_after("tracing", graph);
  Graph current = graph;
  for (const PipelinePass& pass : pipeline) {
    if (pass.works_on_maths && passes_detail::is_only_calls(current)) continue;
    const auto start = Clock::now();
    {
      TimelineSpan span("pass", pass.name);
      current = pass.run(current, options);
      if (span.is_on()) span.fields().add("nodes", static_cast<long long>(current.nodes().size()));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.checks) passes_detail::verify_after(pass.name, current);
    if (options.observe) options.observe(pass.name, current, seconds);
  }
  if (const PipelinePass* planted = passes_detail::planted_pass.load(std::memory_order_relaxed))
    current = planted->run(current, options);
  return current;
}

SINTER_NAMESPACE_END
