// The derivative of a path, and the values that its first call keeps for it.
#pragma once

#include <sinter/jit/trace/path_gradient.hpp>

#include <sinter/autodiff/cut.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/call/traced_tape.hpp>
#include <sinter/jit/lazy/lazy_run.hpp>
#include <sinter/jit/trace/live_values.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <map>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

/// Where the inputs of a path come from, as inputs of a plan.
inline std::vector<PlanInput> plan_inputs(const TracedPath& path) {
  std::vector<PlanInput> inputs;
  for (const TracedPath::Input& input : path.inputs) {
    if (input.leaf >= 0) inputs.push_back({.source = PlanInput::Source::leaf, .index = input.leaf});
    else if (input.slot) inputs.push_back({.source = PlanInput::Source::captured, .slot = input.slot});
    else inputs.push_back({.source = PlanInput::Source::eager, .index = input.cut, .result = input.result});
  }
  return inputs;
}
/// Which of them a gradient is wanted of.
inline std::vector<std::uint8_t> wanted_inputs(const TracedPath& path, std::span<const ArgLeaf> args) {
  std::vector<std::uint8_t> wanted;
  for (std::size_t i = 0; i < path.inputs.size(); ++i) {
    const TracedPath::Input& input = path.inputs[i];
    const bool is_on =
        input.leaf >= 0 ? is_on_tape(args[as_index(input.leaf)]) : input.slot && is_on_tape(*input.slot->here());
    wanted.push_back(is_tape_on() && is_on && is_differentiable(path.graph.type(path.graph.inputs()[i]).dtype));
  }
  return wanted;
}

/// The path as a program that gives the results, its symbols solved; ids stay.
inline Graph program_of(const TracedPath& path, FunctionTrace& trace) {
  GuardSet guards;
  guards.symbols = trace.guards().symbols;
  for (const auto& segment : path.segments)
    guards.dims.insert(guards.dims.end(), segment->dims.begin(), segment->dims.end());
  GraphBuilder builder(path.graph);
  for (const Node& node : path.graph.nodes()) builder.copy(node, node.inputs);
  builder.symbols().clear();
  for (SymbolId id = 0; id < guards.symbols.size(); ++id) {
    const SymbolSource& source = guards.symbols[id];
    SymbolInfo info;
    info.hint = trace.hints()[id];
    info.min = source.min;
    info.max = source.max;
    info.axis = source.is_stride ? -1 : source.axis;
    for (std::size_t i = 0; i < path.inputs.size(); ++i)
      if (!source.is_stride && path.inputs[i].leaf == source.leaf) info.input = static_cast<std::int32_t>(i);
    builder.symbols().push_back(info);
  }
  const std::span<const Value> results(path.segments.back()->outputs.data(), path.leaf->results);
  const std::vector<Dim> solution = solve_symbols(guards, {}, Divide::no);
  return substitute_symbols(share_symbols(builder.finish(results)), solution, guards.symbols);
}

SINTER_DECL bool wants_tape(const TracedPath& path, const TracedResult& result, std::span<const ArgLeaf> args) {
  const std::vector<std::uint8_t> wanted = wanted_inputs(path, args);
  return is_on_tape(result) &&
         std::any_of(wanted.begin(), wanted.end(), [](std::uint8_t is_wanted) { return is_wanted != 0; });
}

SINTER_DECL void add_tape(TracedPath& path, FunctionTrace& trace, const TracedResult& result,
                          std::span<const ArgLeaf> args, PlanChoices choices) {
  if (!wants_tape(path, result, args)) return;
  std::vector<std::uint8_t> on_tape;
  for (const auto& value : result.values) on_tape.push_back(is_value_on_tape(*value));
  const std::vector<std::uint8_t> wanted = wanted_inputs(path, args);
  for (const TracedPath::Input& input : path.inputs)
    choices.is_number.push_back(input.leaf >= 0 && args[as_index(input.leaf)].kind == LeafKind::scalar);
  const std::vector<Value> stops = stopped_values(path.walked, path.walked_values, trace);
  auto tape = std::make_shared<PathTape>();
  auto gradient = std::make_shared<const CallGradient>(program_of(path, trace), wanted, std::move(on_tape),
                                                       std::move(choices), stops);
  if (gradient->is_empty()) return;
  const Graph& forward = gradient->forward();
  const std::span<const Value> outputs = forward.outputs();
  tape->saved.assign(outputs.begin() + static_cast<std::ptrdiff_t>(gradient->results()), outputs.end());
  GraphBuilder builder(path.graph);
  for (const Node& node : path.graph.nodes()) builder.copy(node, node.inputs);
  for (std::size_t id = path.graph.nodes().size(); id < forward.nodes().size(); ++id)
    builder.copy(forward.nodes()[id], forward.nodes()[id].inputs);
  path.graph = builder.finish(path.graph.outputs());
  tape->inputs = plan_inputs(path);
  tape->gradient = std::move(gradient);
  path.leaf->tape = std::move(tape);
}

}  // namespace jit_detail

SINTER_DECL void FunctionTrace::finish_tape(const TracedPath& path, FinishedCall& call) {
  const PathTape& tape = *path.leaf->tape;
  call.tape = path.leaf->tape;
  std::map<Value, Ref<TensorImpl>> traced;
  for (std::size_t i = 0; i < path.inputs.size(); ++i) {
    const TracedPath::Input& input = path.inputs[i];
    Ref<TensorImpl> placeholder;
    if (input.leaf >= 0) placeholder = placeholders_[as_index(input.leaf)];
    else if (input.cut >= 0) placeholder = reads_[as_index(input.cut)].placeholders[as_index(input.result)];
    for (const VariableRead& read : variables_)
      if (input.slot && read.slot == input.slot) placeholder = read.placeholder;
    call.tape_inputs.push_back(own_value(placeholder));
    traced.emplace(path.graph.inputs()[i], std::move(placeholder));
  }
  std::map<std::int32_t, PendingNode*> nodes;
  for (std::size_t i = 0; i < path.walked.size(); ++i) {
    traced.emplace(path.walked_values[i], Ref<TensorImpl>::share(path.walked[i]));
    nodes.emplace(path.walked_values[i].node, path.walked[i]->pending_node);
  }
  for (const Value v : tape.saved)  // results that no statement used have no object yet
    if (const auto node = nodes.find(v.node); node != nodes.end() && !traced.contains(v))
      traced.emplace(v, other_result(*node->second, v, path.graph.type(v)));
  std::vector<Ref<TensorImpl>> known;
  std::vector<Value> others;  // in the graph alone
  for (const Value v : tape.saved) {
    if (const auto value = traced.find(v); value != traced.end()) known.push_back(value->second);
    else others.push_back(v);
  }
  live_->compute(known, last_effect(), hints_);
  std::vector<Ref<TensorImpl>> computed;
  if (!others.empty()) computed = values_from(path.graph, others, traced);
  std::size_t next = 0;
  for (const Value v : tape.saved) {
    const auto value = traced.find(v);
    call.saved.push_back(value != traced.end() ? own_value(value->second) : computed[next++]);
  }
}

SINTER_DECL std::vector<Ref<TensorImpl>> FunctionTrace::values_from(const Graph& graph, std::span<const Value> wanted,
                                                                    const std::map<Value, Ref<TensorImpl>>& traced) {
  const CutGraph rest = cut_graph(graph, wanted, {}, [&](Value v) { return traced.contains(v); });
  std::vector<Ref<TensorImpl>> given;
  for (Value v : rest.inputs) given.push_back(traced.at(v));
  live_->compute(given, last_effect(), hints_);
  for (Ref<TensorImpl>& value : given) value = own_value(value);
  std::vector<Dim> numbers;
  for (std::int64_t symbol : hints_) numbers.emplace_back(symbol);
  TracePause pause;
  return run_lazily(substitute_symbols(share_symbols(rest.graph), numbers, {}), given, policy_.precision,
                    policy_.fallback);
}

SINTER_DECL Ref<TensorImpl> FunctionTrace::other_result(PendingNode& node, Value v, const Type& type) {
  Ref<TensorImpl> made = TensorImpl::make(type);
  made->trace = id();
  made->result = static_cast<std::uint16_t>(v.result);
  made->state.store(TensorState::pending, std::memory_order_relaxed);
  made->pending_node = Ref<PendingNode>::share(&node).detach();
  return made;
}

}  // namespace jit
SINTER_NAMESPACE_END
