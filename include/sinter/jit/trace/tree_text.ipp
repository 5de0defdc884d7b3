// Segments, breaks and counts as lines of text.
#pragma once

#include <sinter/jit/trace/tree_text.hpp>

#include <sinter/base/context.hpp>
#include <sinter/jit/call/guard_text.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/trace/path_gradient.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline std::string count_text(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

inline std::string arrival_text(const EagerArrival& arrival) {
  std::string text;
  for (const Type& type : arrival.types) text += (text.empty() ? "" : ", ") + type.text();
  if (arrival.fixed.size() + (arrival.object != nullptr) > 0)
    text += text.empty() ? "these C++ values" : " and these C++ values";
  return text.empty() ? "nothing" : text;
}
inline std::string outcome_text(DType dtype, std::uint64_t outcome) {
  return visit_dtype(dtype, [&](auto element) -> std::string {
    std::memcpy(&element, &outcome, sizeof element);
    if constexpr (std::same_as<decltype(element), bool>) return element ? "true" : "false";
    else return std::to_string(element);
  });
}
SINTER_DECL std::string cut_text(std::string_view op, bool is_outcome, const EagerCall* eager, Location where) {
  const std::string place = where.text();
  const std::string what = eager != nullptr
                               ? "the function disabled at " + eager->disabled_at.text() + " is called"
                               : std::string(op) + " reads " + (is_outcome ? "an outcome" : "an exact value");
  return what + (place.empty() ? "" : " at " + place);
}
inline std::string cut_text(const TreeNode& node) {
  return cut_text(node.traced->op, node.reads_outcome(), node.traced->eager_call.get(), node.traced->where);
}

inline void write_node(std::string& text, const TreeNode& node, const std::string& indent) {
  text += indent + "segment " + std::to_string(node.number) + ": " +
          count_text(static_cast<std::int64_t>(node.code->plan->kernel_count()), "kernel");
  for (const PlanStep& step : node.code->plan->steps())
    text += (&step == &node.code->plan->steps().front() ? " (" : ", ") + step.name;
  if (!node.code->plan->steps().empty()) text += ")";
  if (!node.stores.empty()) text += ", carries " + count_text(static_cast<std::int64_t>(node.live.size()), "value");
  text += "\n";
  for (const DimGuard& guard : node.traced->dims) text += indent + "  needs " + relation_text(guard) + "\n";
  if (node.leaf) {
    text += indent + "returns " + count_text(static_cast<std::int64_t>(node.leaf->results), "value");
    if (!node.leaf->assignments.empty())
      text += " and assigns " + count_text(static_cast<std::int64_t>(node.leaf->assignments.size()), "Variable");
    text += "\n";
    if (node.leaf->tape != nullptr)
      text += indent + "keeps " + count_text(static_cast<std::int64_t>(node.leaf->tape->saved.size()), "more value") +
              " for its gradient, " + std::to_string(node.leaf->tape->gradient->saved_bytes()) + " bytes\n";
    return;
  }
  const std::string place = node.traced->where.text(), inner = node.children.size() > 1 ? indent + "  " : indent;
  const EagerCall* eager = node.traced->eager_call.get();
  if (eager != nullptr)
    text += indent + "calls the function disabled at " + eager->disabled_at.text() +
            (place.empty() ? "" : ", at " + place) + "\n";
  else
    text += indent + "reads " +
            (node.reads_outcome() ? "an outcome" : "an exact " + std::string(sinter::name(node.traced->dtype))) +
            (place.empty() ? "" : " at " + place) + "\n";
  for (const TreeNode::Child& child : node.children) {
    text += indent +
            (eager != nullptr ? "which gives " + arrival_text(*child.node->traced->arrival)
                              : outcome_text(node.traced->dtype, child.outcome)) +
            ": " + count_text(child.node->calls(), "call") + "\n";
    write_node(text, *child.node, inner);
  }
  if (const std::int64_t lazy = node.traced->lazy_calls.total(); lazy > 0)
    text += indent + "from here on lazily: " + count_text(lazy, "call") + "\n";
}

/// One line for each place where the function is cut.
inline std::string breaks_text(const std::vector<std::shared_ptr<const TreeNode>>& nodes) {
  struct Break {
    std::int64_t places = 0, calls = 0;
  };
  std::vector<std::pair<std::string, Break>> breaks;  // in the order in which calls come to them
  for (const auto& node : nodes) {
    if (node->leaf) continue;
    const std::string what = cut_text(*node);
    auto found = std::find_if(breaks.begin(), breaks.end(), [&](const auto& known) { return known.first == what; });
    if (found == breaks.end()) found = breaks.insert(breaks.end(), {what, {}});
    ++found->second.places;
    found->second.calls += node->calls();
  }
  std::string text;
  for (const auto& [what, found] : breaks)
    text += "  " + what + ": " + count_text(found.calls, "time") +
            (found.places > 1 ? ", at " + std::to_string(found.places) + " places of the tree" : "") + "\n";
  return text;
}

inline void collect_nodes(const std::shared_ptr<const TreeNode>& node,
                          std::vector<std::shared_ptr<const TreeNode>>& nodes) {
  nodes.push_back(node);
  for (const TreeNode::Child& child : node->children) collect_nodes(child.node, nodes);
}
SINTER_DECL std::vector<std::shared_ptr<const TreeNode>> nodes_of(const TraceTree& tree) {
  std::vector<std::shared_ptr<const TreeNode>> nodes;
  if (const TraceTree::Version* version = tree.current()) collect_nodes(version->root, nodes);
  return nodes;
}

/// "segment 2, up to where item reads an exact value at train.cpp:41".
inline std::string title_of(const TreeNode& node) {
  return "segment " + std::to_string(node.number) +
         (node.leaf ? ", to the end of a call" : ", up to where " + cut_text(node));
}
SINTER_DECL void add_segments(Explained& explained, const TraceTree& tree) {
  const auto nodes = nodes_of(tree);
  explained.breaks = breaks_text(nodes);
  for (const auto& node : nodes) {
    const SegmentCode& code = *node->code;
    explained.parts.push_back({title_of(*node), code.key, code.optimised, code.plan, node->calls()});
    if (!node->leaf || node->leaf->tape == nullptr) continue;
    const CallGradient& gradient = *node->leaf->tape->gradient;
    if (gradient.backward() != nullptr)
      explained.parts.push_back({"backward of the path that ends with segment " + std::to_string(node->number),
                                 *gradient.backward(), *gradient.backward(), gradient.compiled_plan()});
  }
}
inline std::string graphs_text(const SegmentCode& code) {
  return "traced graph:\n" + code.key.text() + "\noptimised graph:\n" + code.optimised.text() + "\n";
}

SINTER_DECL void log_segments(std::span<const std::shared_ptr<const TreeNode>> nodes, const GuardSet& guards,
                              Location where) {
  for (const auto& node : nodes) {
    const std::string place = where.text() + ": " + title_of(*node) + ":\n";
    if (is_logged("guards") && node->number > 1) {  // those of the first are the function's
      std::string text;
      for (const DimGuard& guard : node->traced->dims)
        text += "  " + relation_text(guard) + " (" + mentioned_symbols(guards, guard, {}) + ")\n";
      for (const VariableUse& use : node->traced->variables) text += "  a captured Variable: " + use.type.text() + "\n";
      if (!text.empty()) sinter::note("guards", place + text);
    }
    if (is_logged("graphs")) sinter::note("graphs", place + graphs_text(*node->code));
    if (is_logged("kernels")) sinter::note("kernels", place + node->code->plan->text());
    if (is_logged("asm")) sinter::note("asm", place + listings(*node->code->plan));
  }
}
}  // namespace jit_detail

SINTER_DECL std::string TraceTree::text() const {
  const auto nodes = jit_detail::nodes_of(*this);
  if (nodes.empty())
    return "trace tree: no segment is compiled (Options::max_breaks): calls go on lazily from the first break\n";
  std::string text = "graph breaks:\n" + jit_detail::breaks_text(nodes) +
                     "trace tree: " + jit_detail::count_text(static_cast<std::int64_t>(nodes.size()), "segment") +
                     ", " + jit_detail::count_text(nodes.front()->calls(), "call") + "\n";
  jit_detail::write_node(text, *nodes.front(), "  ");
  std::map<const SegmentCode*, std::int32_t> shown;
  for (const auto& node : nodes) {
    text += jit_detail::title_of(*node) + ":\n";
    const auto [first, is_new] = shown.emplace(node->code.get(), node->number);
    if (is_new)
      text += jit_detail::graphs_text(*node->code) + node->code->plan->text() + "\n" +
              jit_detail::listings(*node->code->plan);
    else text += "  the graph and the code of segment " + std::to_string(first->second) + "\n";
  }
  return text;
}

}  // namespace jit
SINTER_NAMESPACE_END
