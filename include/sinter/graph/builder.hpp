// GraphBuilder: makes a graph node by node, inferring and checking types. Everything that makes or changes graphs goes
// through it. A mistake of the caller's program (shapes, dtypes) is a UserError from the op's own rule; a mistake of
// the code that builds (arity, unknown values) is an InternalError.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/op_info.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Builds a graph node by node, inferring types.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Starts with the symbols of `like`.
  explicit GraphBuilder(const Graph& like);

  Value input(const Type& type, std::string name = {}, Location where = {});
  Value constant(Ref<TensorImpl> data, Location where = {});
  Value add(const OpInfo& op, std::span<const Value> inputs, Attrs attrs = {}, Location where = {});
  Value add(const OpInfo& op, std::initializer_list<Value> inputs, Attrs attrs = {}, Location where = {});
  /// As add, with attributes that another node, pending or of a graph, has.
  Value add_shared(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs, Location where);
  /// Adds a node whose types are known: of a value that was recorded, or of an equal node.
  Value add_typed(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs, TypeList types, Location where);
  /// Copies a node of another graph, with its inputs replaced and its types kept (no inference).
  Value copy(const Node& node, std::span<const Value> inputs);
  /// Gives a call another body, which has the old one's outputs first and may have more behind them.
  void extend_call(std::int32_t node, std::shared_ptr<const Graph> body);
  /// Inlines `graph` with its inputs replaced; gives its outputs. Types are inferred again where an input's type
  /// differs.
  std::vector<Value> inline_graph(const Graph& graph, std::span<const Value> inputs);

  void reserve(std::size_t nodes);
  /// References into the graph last until the next node is added.
  const Type& type(Value v) const { return graph_.type(v); }
  const Node& node(Value v) const { return graph_.node(v); }
  const Graph& graph() const { return graph_; }
  std::vector<SymbolInfo>& symbols() { return graph_.symbols_; }
  Graph finish(std::span<const Value> outputs);

 private:
  Graph graph_;
};

/// The graph with other sub-graphs: `change` gives the one to take a sub-graph's place, or the same. It is asked once
/// for each, and nodes that share attributes still do. Where all stay, so does the graph.
Graph map_bodies(const Graph& graph,
                 const std::function<std::shared_ptr<const Graph>(const std::shared_ptr<const Graph>&)>& change);

namespace graph_detail {
/// Result types by the op's own rule, which also checks the operands.
TypeList infer_types(const OpInfo& op, std::span<const Type> in, const Attrs& attrs, Location where);
}  // namespace graph_detail

SINTER_NAMESPACE_END
