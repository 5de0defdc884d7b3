// The canonical order of nodes, and what walks it.
#pragma once

#include <sinter/graph/hash.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/builder.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

struct CanonicalOrder {
  std::vector<std::int32_t> order;   // node ids, operands first
  std::vector<std::int32_t> number;  // place of a node in `order`, -1: dead
};

inline CanonicalOrder canonical_order(const Graph& graph) {
  CanonicalOrder result;
  result.number.assign(graph.nodes().size(), -1);
  result.order.reserve(graph.nodes().size());
  struct Visit {
    std::int32_t node;
    std::size_t next;
  };
  std::vector<Visit> stack;
  auto walk = [&](std::int32_t root) {
    if (result.number[as_index(root)] >= 0) return;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      const std::int32_t id = stack.back().node;
      const Values& inputs = graph.node(id).inputs;
      if (stack.back().next < inputs.size()) {
        const std::int32_t operand = inputs[stack.back().next++].node;
        if (result.number[as_index(operand)] < 0) stack.push_back({operand, 0});
        continue;
      }
      stack.pop_back();
      if (result.number[as_index(id)] >= 0) continue;
      result.number[as_index(id)] = static_cast<std::int32_t>(result.order.size());
      result.order.push_back(id);
    }
  };
  for (Value v : graph.inputs()) walk(v.node);
  for (std::size_t id = 0; id < graph.nodes().size(); ++id)
    if (graph.nodes()[id].op->kind == OpKind::effect) walk(static_cast<std::int32_t>(id));
  for (Value v : graph.outputs()) walk(v.node);
  return result;
}

/// How far two graphs must agree.
enum class Likeness : std::uint8_t {
  same,     // either may stand for the other
  retrace,  // two traces of one program
};
bool graphs_alike(const Graph& a, const Graph& b, Likeness likeness);

inline bool payloads_alike(const Attrs& a, const Attrs& b, Likeness likeness) {
  return same_payload(a, b) ||
         (likeness == Likeness::retrace && a.payload && b.payload && b.payload->may_be_retrace_of(*a.payload));
}

inline bool same_node(const Node& a, const Node& b, Likeness likeness = Likeness::same) {
  if (a.op != b.op || a.inputs.size() != b.inputs.size() || a.types.size() != b.types.size() ||
      a.attrs.bodies.size() != b.attrs.bodies.size())
    return false;
  for (std::size_t i = 0; i < a.types.size(); ++i)
    if (!identical(a.types[i], b.types[i])) return false;
  if (&a.attrs == &b.attrs) return true;                                               // above all: both have none
  if (a.op == &input_op()) return a.attrs[input_position] == b.attrs[input_position];  // not its name
  if (!same_plain_fields(a.attrs, b.attrs) || !payloads_alike(a.attrs, b.attrs, likeness) ||
      !a.attrs.constant != !b.attrs.constant)
    return false;
  if (a.attrs.constant && !same_constant(*a.attrs.constant, *b.attrs.constant)) return false;
  for (std::size_t i = 0; i < a.attrs.bodies.size(); ++i)
    if (a.attrs.bodies[i] != b.attrs.bodies[i] && !graphs_alike(*a.attrs.bodies[i], *b.attrs.bodies[i], likeness))
      return false;
  return true;
}

inline bool same_symbol(const SymbolInfo& a, const SymbolInfo& b) {
  return a.input == b.input && a.axis == b.axis && a.min == b.min && a.max == b.max;
}

}  // namespace graph_detail

SINTER_DECL Hash128 Graph::hash() const {
  using namespace graph_detail;
  const CanonicalOrder canonical = canonical_order(*this);
  Hasher hasher;
  auto add_value = [&](Value v) {
    hasher.add(static_cast<std::uint64_t>(canonical.number[as_index(v.node)]) << 32 |
               static_cast<std::uint32_t>(v.result));
  };
  hasher.add(std::uint64_t{inputs_.size()}).add(std::uint64_t{outputs_.size()}).add(std::uint64_t{symbols_.size()});
  for (std::int32_t id : canonical.order) {
    const Node& n = node(id);
    hasher.add(n.op->name)
        .add(std::uint64_t{n.inputs.size()} << 32 | std::uint64_t{n.types.size()} << 16 |
             std::uint64_t{n.attrs.bodies.size()});
    for (Value v : n.inputs) add_value(v);
    for (const Type& t : n.types) hash_type(hasher, t);
    if (n.op == &input_op()) hasher.add(static_cast<std::uint64_t>(n.attrs[input_position]));
    else n.attrs.hash_into(hasher);
    for (const auto& body : n.attrs.bodies) hasher.add(body->hash());
  }
  for (Value v : outputs_) add_value(v);
  for (const SymbolInfo& s : symbols_)
    for (std::int64_t field : {std::int64_t{s.input}, std::int64_t{s.axis}, s.min, s.max})
      hasher.add(static_cast<std::uint64_t>(field));
  return hasher.finish();
}

namespace graph_detail {
/// Alike node by node in the order they stand in, as traces of one function mostly are: no other order need be looked
/// for.
inline bool alike_in_order(const Graph& a, const Graph& b, Likeness likeness) {
  if (a.nodes().size() != b.nodes().size() || !std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin()))
    return false;
  for (std::size_t i = 0; i < a.nodes().size(); ++i)
    if (a.nodes()[i].inputs != b.nodes()[i].inputs || !same_node(a.nodes()[i], b.nodes()[i], likeness)) return false;
  return true;
}

inline bool graphs_alike(const Graph& a, const Graph& b, Likeness likeness) {
  if (a.inputs().size() != b.inputs().size() || a.outputs().size() != b.outputs().size() ||
      a.symbols().size() != b.symbols().size())
    return false;
  for (std::size_t i = 0; i < a.symbols().size(); ++i)
    if (!same_symbol(a.symbols()[i], b.symbols()[i])) return false;
  if (alike_in_order(a, b, likeness)) return true;
  const CanonicalOrder left = canonical_order(a), right = canonical_order(b);
  if (left.order.size() != right.order.size()) return false;
  auto same_value = [&](Value x, Value y) {
    return x.result == y.result && left.number[as_index(x.node)] == right.number[as_index(y.node)];
  };
  for (std::size_t i = 0; i < left.order.size(); ++i) {
    const Node &x = a.node(left.order[i]), &y = b.node(right.order[i]);
    if (!same_node(x, y, likeness)) return false;
    for (std::size_t k = 0; k < x.inputs.size(); ++k)
      if (!same_value(x.inputs[k], y.inputs[k])) return false;
  }
  for (std::size_t i = 0; i < a.outputs().size(); ++i)
    if (!same_value(a.outputs()[i], b.outputs()[i])) return false;
  return true;
}
}  // namespace graph_detail

SINTER_DECL bool structurally_equal(const Graph& a, const Graph& b) {
  return graph_detail::graphs_alike(a, b, graph_detail::Likeness::same);
}
SINTER_DECL bool structurally_equal(const Node& a, const Node& b) { return graph_detail::same_node(a, b); }
SINTER_DECL bool may_be_retrace(const Graph& a, const Graph& b) {
  return graph_detail::graphs_alike(a, b, graph_detail::Likeness::retrace);
}
SINTER_DECL bool may_be_retrace(const Node& a, const Node& b) {
  return graph_detail::same_node(a, b, graph_detail::Likeness::retrace);
}

SINTER_NAMESPACE_END
