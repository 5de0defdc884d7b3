// The passes in order. Each carries the reason for its place.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/context.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/passes/attention_kernels.hpp>
#include <sinter/passes/canonicalise.hpp>
#include <sinter/passes/check_first.hpp>
#include <sinter/passes/complex.hpp>
#include <sinter/passes/cse.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/passes/drop_derivatives.hpp>
#include <sinter/passes/fold.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/passes/prune.hpp>
#include <sinter/passes/recognise_attention.hpp>
#include <sinter/passes/simplify.hpp>

#include <functional>
#include <string_view>

SINTER_NAMESPACE_BEGIN

struct PipelineOptions {
  /// Composites that stay whole because a kernel of their own waits for them; null: none.
  std::function<bool(const Graph& graph, const Node& node)> keep = nullptr;
  /// Verifies the graph before the first pass and after each.
  bool checks = Context::get().checks;
  /// Called with each graph after a pass: the pass that made it and the seconds that it took.
  std::function<void(std::string_view pass, const Graph& graph, double seconds)> observe;
};

struct PipelinePass {
  std::string_view name;
  Graph (*run)(const Graph& graph, const PipelineOptions& options);
  std::string_view reason;
  bool works_on_maths = true;  // has nothing to do where there are only calls
};

namespace passes_detail {
template <class Pass>
Graph run_pass(const Graph& graph, const PipelineOptions&) {
  return Pass{}(graph);
}
/// Sub-graphs go through the same passes. One that several nodes share is still shared afterwards.
Graph run_on_bodies(const Graph& graph, const PipelineOptions& options);
/// Where the operation would be taken apart again, the graph stays as it is.
Graph run_recognise_attention(const Graph& graph, const PipelineOptions& options);
inline Graph run_outline(const Graph& graph, const PipelineOptions&) {
  return Context::get().outlines ? Outline{}(graph) : inline_calls(graph);
}
inline Graph run_attention_for_kernels(const Graph& graph, const PipelineOptions& options) {
  return AttentionForKernels{options.keep}(graph);
}
inline Graph run_decompose(const Graph& graph, const PipelineOptions& options) {
  return Decompose{options.keep}(graph);
}
}  // namespace passes_detail

inline constexpr PipelinePass pipeline[] = {
    {"drop derivatives", passes_detail::run_pass<DropDerivatives>,
     "all derivatives have been taken; what only they asked for dies in the next pass"},
    {"dce", passes_detail::run_pass<Dce>,
     "a trace and its gradient leave dead nodes; no later pass spends time on them", false},
    {"prune", passes_detail::run_pass<Prune>,
     "what nobody reads of a loop or branch goes before its sub-graph is worked on"},
    {"complex to pairs", passes_detail::run_pass<ComplexToPairs>,
     "no pass or kernel but this one knows complex numbers, and all that follow find real operations that fuse"},
    {"attention for kernels", passes_detail::run_attention_for_kernels,
     "a gradient stands beside its attention until blocks of them become bodies"},
    {"outline", passes_detail::run_outline,
     "what repeats is found while the user's operations are whole; every later pass works on one block", false},
    {"bodies", passes_detail::run_on_bodies, "sub-graphs are graphs; whoever comes next sees them finished", false},
    {"recognise attention", passes_detail::run_recognise_attention,
     "only while softmax is an operation can it be told from what it is made of"},
    {"decompose", passes_detail::run_decompose, "composites hide structure that every later pass wants to see"},
    {"canonicalise", passes_detail::run_pass<Canonicalise>,
     "decompositions and users spell one thing in many ways; equal values must look equal before cse"},
    {"fold", passes_detail::run_pass<Fold>,
     "literals made by decompositions and gradients shrink before they are compared"},
    {"cse", passes_detail::run_pass<Cse>,
     "rules such as x - x and where(c, a, a) see equal operands only once they are one value"},
    {"simplify", passes_detail::run_pass<Simplify>, "on canonical, merged values each rule needs a single pattern"},
    {"check first", passes_detail::run_pass<CheckFirst>,
     "only now are the indices of all scatters as simple as they become; equal checks are merged by the next pass"},
    {"cse again", passes_detail::run_pass<Cse>,
     "simplified nodes may have become equal, and literals made on the way repeat"},
};

/// The graph after all passes. Throws InternalError, naming the pass, when checks are on and a pass broke the graph.
Graph run_pipeline(const Graph& graph, const PipelineOptions& options = {});

SINTER_NAMESPACE_END
