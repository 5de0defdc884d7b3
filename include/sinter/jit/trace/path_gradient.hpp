// PathTape: what a path of a trace tree needs so that its results are on the tape: its derivative, where the path's
// inputs come from, and which of its values are kept for backward(). Made once for each path, of the path's graph
// alone.
#pragma once

#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/call_gradient.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/jit/trace/trace_path.hpp>

#include <cstdint>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct PathTape {
  std::shared_ptr<const jit_detail::CallGradient> gradient;
  mutable jit_detail::TapeAttrs attrs;
  std::vector<PlanInput> inputs;  // of the path
  std::vector<Value> saved;       // in the path's graph: what the last segment gives after the results
};

namespace jit_detail {

/// Is a result of the path on the tape, by an input of which a gradient is wanted?
bool wants_tape(const TracedPath& path, const TracedResult& result, std::span<const ArgLeaf> args);
/// Gives the end of the path a tape where a result of it is on one; then the path's graph has more nodes at its end,
/// which compute what is saved.
void add_tape(TracedPath& path, FunctionTrace& trace, const TracedResult& result, std::span<const ArgLeaf> args,
              PlanChoices choices);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
