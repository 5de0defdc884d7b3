// Substitution, symbol by symbol.
#pragma once

#include <sinter/jit/call/specialise.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline std::vector<Dim> identity_symbols(std::size_t count) {
  std::vector<Dim> symbols;
  for (std::size_t i = 0; i < count; ++i) symbols.push_back(Dim::symbol(static_cast<SymbolId>(i)));
  return symbols;
}

inline bool is_true_equality(const DimGuard& guard) { return guard.relation != DimRelation::less && guard.outcome; }

/// That a symbol is a number.
inline bool is_number_of_symbol(const DimGuard& guard) {
  return (guard.lhs.as_symbol() >= 0 && guard.rhs.is_static()) || (guard.rhs.as_symbol() >= 0 && guard.lhs.is_static());
}

/// a == b solved for one of its symbols, the youngest that allows it: (symbol, expression).
inline std::optional<std::pair<SymbolId, Dim>> solve_for_symbol(Dim a, Dim b, std::size_t symbols) {
  const Dim difference = a - b;
  std::vector<SymbolId> used;
  difference.collect_symbols(used);
  std::sort(used.rbegin(), used.rend());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (SymbolId id : used) {
    std::vector<Dim> at = identity_symbols(symbols);
    at[id] = 2;
    const Dim at_two = difference.substitute(at);
    at[id] = 3;
    const Dim slope = difference.substitute(at) - at_two, rest = at_two - slope * Dim(2);
    const bool is_linear =
        slope.is_static() && slope.value() != 0 && identical(difference, rest + slope * Dim::symbol(id));
    if (!is_linear) continue;
    const Dim solved = rest * Dim(-1) / slope;
    if (identical(solved * slope, rest * Dim(-1))) return std::pair{id, solved};
  }
  return {};
}

/// Finds the equalities that hold as soon as an extent is a multiple, and turns them into divisors.
inline void find_divisors(GuardSet& guards, std::span<const ArgLeaf> args) {
  auto scaled = [&](SymbolId changed, std::int64_t divisor) {
    std::vector<Dim> scale = identity_symbols(guards.symbols.size());
    for (std::size_t i = 0; i < scale.size(); ++i) scale[i] *= Dim(i == changed ? divisor : guards.symbols[i].divisor);
    return scale;
  };
  auto becomes_divisor = [&](const DimGuard& guard) {
    if (!is_true_equality(guard)) return false;
    std::vector<std::pair<SymbolId, std::int64_t>> candidates;
    guard.lhs.collect_divisors(candidates);
    guard.rhs.collect_divisors(candidates);
    for (auto [id, k] : candidates) {
      SymbolSource& source = guards.symbols[id];
      const std::int64_t divisor = std::lcm(source.divisor, k);
      const std::int64_t value = value_of(source, args);
      if (source.is_stride || value % divisor != 0 || value / divisor < 2) continue;  // symbols stand for 2 and more
      const std::vector<Dim> scale = scaled(id, divisor);
      if (!identical(guard.lhs.substitute(scale), guard.rhs.substitute(scale))) continue;
      source.divisor = divisor;
      guards.has_divisors = true;
      return true;
    }
    return false;
  };
  std::erase_if(guards.dims, becomes_divisor);
}
}  // namespace jit_detail

SINTER_DECL std::vector<Dim> solve_symbols(GuardSet& guards, std::span<const ArgLeaf> args, Divide divide) {
  const std::size_t count = guards.symbols.size();
  if (divide == Divide::yes) jit_detail::find_divisors(guards, args);
  std::vector<Dim> solution = jit_detail::identity_symbols(count);
  for (std::size_t i = 0; i < count; ++i) solution[i] *= Dim(guards.symbols[i].divisor);
  auto apply = [&](const DimGuard& guard) {
    auto solved = jit_detail::solve_for_symbol(guard.lhs.substitute(solution), guard.rhs.substitute(solution), count);
    if (!solved) return;
    std::vector<Dim> step = jit_detail::identity_symbols(count);
    step[solved->first] = solved->second;
    for (Dim& dim : solution) dim = dim.substitute(step);
  };
  // Numbers first: an extent that is 1 must be seen to be 1, or it is not stretched, and a symbol that was replaced by
  // a quotient can no longer be solved for.
  for (const DimGuard& guard : guards.dims)
    if (jit_detail::is_true_equality(guard) && jit_detail::is_number_of_symbol(guard)) apply(guard);
  for (DimGuard& guard : guards.dims) {
    if (!jit_detail::is_true_equality(guard) || jit_detail::is_number_of_symbol(guard)) continue;
    if (guard.lhs.as_symbol() >= 0 && guard.rhs.as_symbol() >= 0) {
      guard.left = static_cast<std::int32_t>(guard.lhs.as_symbol());
      guard.right = static_cast<std::int32_t>(guard.rhs.as_symbol());
    }
    apply(guard);
  }
  return solution;
}

SINTER_DECL Graph share_symbols(const Graph& graph) {
  return map_bodies(graph, [&](const std::shared_ptr<const Graph>& body) {
    const bool has_them = body->symbols() == graph.symbols();
    const Graph shared = share_symbols(has_them ? *body : body->with_symbols(graph.symbols()));
    return has_them && shared.shares_nodes_with(*body) ? body : std::make_shared<const Graph>(shared);
  });
}

namespace jit_detail {
inline bool has_symbols(const Attrs& attrs) {
  bool is_static = true;
  for_each_shape(attrs, [&](const Shape& shape) { is_static = is_static && shape.is_static(); });
  return !is_static ||
         std::any_of(attrs.types.begin(), attrs.types.end(), [](const Type& type) { return !type.shape.is_static(); });
}
}  // namespace jit_detail

SINTER_DECL Graph substitute_symbols(const Graph& graph, std::span<const Dim> replacement,
                                     std::span<const SymbolSource> sources) {
  bool is_identity = true;
  for (std::size_t i = 0; i < replacement.size(); ++i)
    is_identity &= identical(replacement[i], Dim::symbol(static_cast<SymbolId>(i)));
  if (is_identity) return graph;
  GraphBuilder builder(graph);
  builder.reserve(graph.nodes().size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SymbolInfo& symbol = builder.symbols()[i];
    if (sources[i].divisor == 1) continue;
    symbol.hint /= sources[i].divisor;
    symbol.min = (sources[i].least() + sources[i].divisor - 1) / sources[i].divisor;
    symbol.max /= sources[i].divisor;
    symbol.input = symbol.axis = -1;  // no axis is the symbol itself
  }
  const Graph with_bodies = map_bodies(graph, [&](const std::shared_ptr<const Graph>& body) {
    return std::make_shared<const Graph>(substitute_symbols(*body, replacement, sources));
  });
  for (const Node& node : with_bodies.nodes()) {
    Node changed = node;
    for (Type& type : changed.types) type.shape = type.shape.substitute(replacement);
    if (jit_detail::has_symbols(node.attrs))
      changed.edit_attrs([&](Attrs& attrs) {
        for_each_shape(attrs, [&](Shape& shape) { shape = shape.substitute(replacement); });
        for (Type& type : attrs.types) type.shape = type.shape.substitute(replacement);
      });
    builder.copy(changed, changed.inputs);  // one node each, in order: ids stay
  }
  return builder.finish(graph.outputs());
}

SINTER_DECL Graph narrow_numbers(const Graph& graph, std::span<const std::uint8_t> is_number,
                                 std::vector<std::uint8_t>& is_narrowed) {
  is_narrowed.assign(is_number.begin(), is_number.end());
  std::vector<std::int32_t> input_of(graph.nodes().size(), -1);  // node to input position, for numbers
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    is_narrowed[i] &= graph.type(graph.inputs()[i]).dtype == DType::f64;
    input_of[as_index(graph.inputs()[i].node)] = static_cast<std::int32_t>(i);
  }
  auto position_of = [&](Value v) { return input_of[as_index(v.node)]; };
  auto is_f32_cast = [](const Node& node) { return node.op == &op_info<ops::Cast> && node.attrs.dtype == DType::f32; };
  for (const Node& node : graph.nodes())
    for (Value v : node.inputs)
      if (position_of(v) >= 0 && !is_f32_cast(node)) is_narrowed[as_index(position_of(v))] = 0;
  for (Value v : graph.outputs())
    if (position_of(v) >= 0) is_narrowed[as_index(position_of(v))] = 0;
  if (std::find(is_narrowed.begin(), is_narrowed.end(), 1) == is_narrowed.end()) return graph;

  auto narrows = [&](Value v) { return position_of(v) >= 0 && is_narrowed[as_index(position_of(v))] != 0; };
  GraphBuilder builder(graph);
  std::vector<Value> made(graph.nodes().size());
  auto now = [&](Value v) { return Value{made[as_index(v.node)].node, v.result + made[as_index(v.node)].result}; };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (!node.inputs.empty() && narrows(node.inputs[0])) {
      made[id] = now(node.inputs[0]);  // the cast
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
