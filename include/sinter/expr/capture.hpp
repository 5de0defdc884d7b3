// From pending nodes to a Graph and back. capture() walks recorded statements and builds the graph that makes given
// values; replay() records the nodes of a graph again on other operands. Expressions are opened into their ops here,
// and the dtype of every number is settled.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/pending_node.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// What becomes of ready values that the walk meets.
enum class ReadyLeaf : std::uint8_t { constant, input };

struct Capture {
  GraphBuilder builder;
  std::vector<Ref<TensorImpl>> inputs;  // value of each graph input, in order
  std::vector<Value> outputs;           // of the values asked for, in order
  std::vector<Ref<TensorImpl>> kept;    // intermediates that somebody outside the walked nodes still holds
  std::vector<Value> kept_values;
  /// A result of a walked node that the walk did not meet, though somebody may still ask for it.
  struct Sibling {
    Ref<PendingNode> pending_node;
    std::uint16_t result;
    Value value;
  };
  std::vector<Sibling> siblings;
  std::vector<std::int32_t> ends;   // number of nodes after each of the outputs, in order
  std::vector<TensorImpl*> walked;  // recorded values that were opened, operands first, if asked for
  std::vector<Value> walked_values;
  Graph finish() { return builder.finish(outputs); }
};

struct CaptureOptions {
  std::uint64_t trace = 0;  // only pending nodes of this trace are walked; other values are leaves
  ReadyLeaf ready = ReadyLeaf::input;
  bool finds_kept = false;        // fill `kept` and `siblings`
  Ref<TensorImpl> last_effect{};  // token of the last effect that the graph is to hold, or null
  bool along_tape = false;    // walk instead what is on the tape, evaluated or not, of any trace; all of it is `kept`
  bool lists_walked = false;  // fill `walked`
  std::function<bool(const TensorImpl&)> is_leaf{};  // recorded values at which the walk stops
  bool stops_gradients = false;  // what was recorded under a NoGradGuard inside the trace becomes stop_gradient of it
};

/// Graph that computes `outputs`. `known` become the inputs 0, 1, ...; further leaves become inputs after them, or
/// constants. Pending values of no trace that are met as leaves become inputs, which the caller evaluates; so do those
/// that were computed together with another result of their node.
Capture capture(std::span<const Ref<TensorImpl>> outputs, std::span<const Ref<TensorImpl>> known,
                const CaptureOptions& options);

/// Records all nodes of `graph` on `inputs`; gives its outputs. Effects come after those of the trace that records.
std::vector<Ref<TensorImpl>> replay(const Graph& graph, std::span<const Ref<TensorImpl>> inputs);

SINTER_NAMESPACE_END
