// Nodes, whose attributes are bound to a reference, and what a graph counts.
#pragma once

#include <sinter/graph/graph.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Node::Node() : attrs(*shared_) {}
SINTER_DECL Node::Node(const Node& other) : Node(other, other.inputs) {}
SINTER_DECL Node::Node(const Node& other, std::span<const Value> operands)
    : shared_(other.shared_), attrs(*shared_), op(other.op), inputs(operands), types(other.types), where(other.where) {}
SINTER_DECL Node::Node(const OpInfo& op_info, std::span<const Value> operands, SharedAttrs attributes,
                       TypeList result_types, Location location)
    : shared_(std::move(attributes)),
      attrs(*shared_),
      op(&op_info),
      inputs(operands),
      types(std::move(result_types)),
      where(location) {}
SINTER_DECL Node::Node(Node&& other) noexcept
    : shared_(std::move(other.shared_)),
      attrs(*shared_),
      op(other.op),
      inputs(std::move(other.inputs)),
      types(std::move(other.types)),
      where(other.where) {}
SINTER_DECL Node& Node::operator=(const Node& other) { return *this = Node(other); }
SINTER_DECL Node& Node::operator=(Node&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);  // a reference is bound once
  return *std::construct_at(this, std::move(other));
}
SINTER_DECL Node::~Node() = default;

SINTER_DECL Graph::Graph() : nodes_(std::make_shared<std::vector<Node>>()) {}
SINTER_DECL std::span<const Value> Graph::inputs() const { return inputs_; }
SINTER_DECL std::span<const Value> Graph::outputs() const { return outputs_; }

SINTER_DECL std::int64_t Graph::estimate(Dim extent) const {
  if (extent.is_static()) return extent.value();
  SmallVector<std::int64_t, 8> hints;
  for (const SymbolInfo& symbol : symbols_) hints.push_back(std::max<std::int64_t>(symbol.hint, 2));
  return extent.estimate({hints.data(), hints.size()}, unknown_extent);
}

SINTER_DECL std::int64_t Graph::estimate_elements(const Shape& shape) const {
  std::int64_t count = 1;
  for (Dim extent : shape) count *= estimate(extent);
  return count;
}

SINTER_DECL Graph Graph::with_symbols(std::vector<SymbolInfo> symbols) const {
  Graph changed = *this;
  changed.symbols_ = std::move(symbols);
  return changed;
}

SINTER_DECL std::vector<std::int32_t> use_counts(const Graph& graph) {
  std::vector<std::int32_t> counts(graph.nodes().size(), 0);
  for (const Node& node : graph.nodes())
    for (Value v : node.inputs) ++counts[as_index(v.node)];
  for (Value v : graph.outputs()) ++counts[as_index(v.node)];
  return counts;
}

SINTER_NAMESPACE_END
