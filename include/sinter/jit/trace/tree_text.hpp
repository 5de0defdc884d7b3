// A trace tree in words, for explain() and SINTER_LOGS: where the function is cut and why, the segments and their
// order, and what each of them compiles to. tree_text.ipp also defines TraceTree::text(). Decides nothing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/jit/call/guards.hpp>
#include <sinter/jit/observe/explained.hpp>
#include <sinter/jit/trace/trace_tree.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// "item reads an exact value at train.cpp:41": why a trace is cut behind a segment.
std::string cut_text(std::string_view op, bool is_outcome, const EagerCall* eager, Location where);
/// What SINTER_LOGS asks for about new segments of a function at `where`.
void log_segments(std::span<const std::shared_ptr<const TreeNode>> nodes, const GuardSet& guards, Location where);
/// All segments of the tree, as far as there is one, a segment before those behind it.
std::vector<std::shared_ptr<const TreeNode>> nodes_of(const TraceTree& tree);
/// Its breaks and segments, with the backward passes of its paths.
void add_segments(Explained& explained, const TraceTree& tree);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
