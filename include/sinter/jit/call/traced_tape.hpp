// What of a trace is on the tape: its values, what stops gradients in it, and captured Tensors, which are constants of
// the trace and whose gradient would be lost. Knows no entries and no derivatives.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/tensor/impl.hpp>

#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class FunctionTrace;

namespace jit_detail {

/// Does a gradient flow through a traced value?
bool is_value_on_tape(const TensorImpl& value);
/// Is a result computed from what is on the tape?
bool is_on_tape(const TracedResult& result);
/// Of the values of a trace, which are `values` in its graph: those computed from what would be on the tape while that
/// was off (NoGradGuard).
std::vector<Value> stopped_values(std::span<TensorImpl* const> walked, std::span<const Value> values,
                                  FunctionTrace& trace);
/// Values that a trace recorded, and what they are in its graph.
struct WalkedValues {
  std::span<TensorImpl* const> objects;
  std::span<const Value> values;
};
/// Is a captured Tensor, which is a constant of the graph, on the tape?
bool captures_tape(const Graph& graph);
/// Throws where one is that a gradient of a result would flow to. `results`: in the graph.
void refuse_captured_on_tape(const Graph& graph, const TracedResult& result, std::span<const Value> results,
                             const WalkedValues& walked, Location where);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
