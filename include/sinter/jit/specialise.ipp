// Substitution, symbol by symbol.
#pragma once

#include <sinter/jit/specialise.hpp>

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

}  // namespace jit
SINTER_NAMESPACE_END
