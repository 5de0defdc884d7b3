// What explain() knows of a call beside its text: the graphs and plans that it runs, which the page, the pictures and
// the comparison of two explanations are made of. Plain data, shared with the compiled version.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/plan.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// One plan: of a function, of a segment of a trace tree, or of a backward pass.
struct ExplainedPart {
  std::string title;
  Graph traced, optimised;
  std::shared_ptr<const Plan> plan;  // null: nothing is compiled yet, or a registered back end runs the graph
  std::int64_t calls = -1;           // that came to a segment; -1: not counted
};

struct Explained {
  std::string line;    // of compile()
  std::string guards;  // a line for each
  std::string breaks;  // a line for each place where the function is cut
  std::string times;
  std::vector<ExplainedPart> parts;
  std::vector<std::int64_t> symbols;  // in this call
};

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
