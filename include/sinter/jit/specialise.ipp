// Substitution, symbol by symbol.
#pragma once

#include <sinter/jit/specialise.hpp>

#include <sinter/ops/registry.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL std::vector<Dim> solve_equalities(std::span<const DimGuard> guards, std::size_t symbols) {
  std::vector<Dim> solution(symbols);
  for (std::size_t i = 0; i < symbols; ++i) solution[i] = Dim::symbol(static_cast<SymbolId>(i));
  auto mentions = [](Dim expression, std::int64_t symbol) {
    std::vector<SymbolId> used;
    expression.collect_symbols(used);
    return std::find(used.begin(), used.end(), static_cast<SymbolId>(symbol)) != used.end();
  };
  for (const DimGuard& guard : guards) {
    if (guard.relation == DimRelation::less || !guard.outcome) continue;
    Dim a = guard.lhs.substitute(solution), b = guard.rhs.substitute(solution);
    if (identical(a, b)) continue;
    if (b.as_symbol() > a.as_symbol()) std::swap(a, b);
    if (a.as_symbol() < 0 || mentions(b, a.as_symbol())) continue;
    std::vector<Dim> step(symbols);
    for (std::size_t i = 0; i < symbols; ++i) step[i] = Dim::symbol(static_cast<SymbolId>(i));
    step[static_cast<std::size_t>(a.as_symbol())] = b;
    for (Dim& dim : solution) dim = dim.substitute(step);
  }
  return solution;
}

SINTER_DECL Graph substitute_symbols(const Graph& graph, std::span<const Dim> replacement) {
  bool is_identity = true;
  for (std::size_t i = 0; i < replacement.size(); ++i) is_identity &= identical(replacement[i], Dim::symbol(static_cast<SymbolId>(i)));
  if (is_identity) return graph;
  GraphBuilder builder(graph);
  std::vector<Value> outputs;
  for (const Node& node : graph.nodes()) {
    Node changed = node;
    for (Type& type : changed.types) type.shape = type.shape.substitute(replacement);
    changed.attrs.shape = changed.attrs.shape.substitute(replacement);
    changed.attrs.limits = changed.attrs.limits.substitute(replacement);
    builder.copy(changed, changed.inputs);   // one node each, in order: ids stay
  }
  return builder.finish(graph.outputs());
}

SINTER_DECL Graph narrow_numbers(const Graph& graph, std::span<const std::uint8_t> is_number, std::vector<std::uint8_t>& is_narrowed) {
  is_narrowed.assign(is_number.begin(), is_number.end());
  std::vector<std::int32_t> input_of(graph.nodes().size(), -1);   // node to input position, for numbers
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    is_narrowed[i] &= graph.type(graph.inputs()[i]).dtype == DType::f64;
    input_of[static_cast<std::size_t>(graph.inputs()[i].node)] = static_cast<std::int32_t>(i);
  }
  auto position_of = [&](Value v) { return input_of[static_cast<std::size_t>(v.node)]; };
  auto is_f32_cast = [](const Node& node) { return node.op == &op_info<ops::Cast> && node.attrs.dtype == DType::f32; };
  for (const Node& node : graph.nodes())
    for (Value v : node.inputs)
      if (position_of(v) >= 0 && !is_f32_cast(node)) is_narrowed[static_cast<std::size_t>(position_of(v))] = 0;
  for (Value v : graph.outputs())
    if (position_of(v) >= 0) is_narrowed[static_cast<std::size_t>(position_of(v))] = 0;
  if (std::find(is_narrowed.begin(), is_narrowed.end(), 1) == is_narrowed.end()) return graph;

  auto narrows = [&](Value v) { return position_of(v) >= 0 && is_narrowed[static_cast<std::size_t>(position_of(v))] != 0; };
  GraphBuilder builder(graph);
  std::vector<Value> made(graph.nodes().size());
  auto now = [&](Value v) { return Value{made[static_cast<std::size_t>(v.node)].node, v.result + made[static_cast<std::size_t>(v.node)].result}; };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (!node.inputs.empty() && narrows(node.inputs[0])) {
      made[id] = now(node.inputs[0]);   // the cast
      continue;
    }
    Node copied = node;
    if (narrows(Value{static_cast<std::int32_t>(id), 0})) copied.types[0].dtype = DType::f32;
    for (Value& v : copied.inputs) v = now(v);
    made[id] = builder.copy(copied, copied.inputs);
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(now(v));
  return builder.finish(outputs);
}

}  // namespace jit
SINTER_NAMESPACE_END
