// Graph: SSA nodes in topological order, the form that passes read and write. Immutable once built: a pass makes a new
// one with a GraphBuilder. Types carry symbolic Dims. Must not know kernels, back ends or how values were recorded.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// One result of one node.
struct Value {
  std::int32_t node = -1;
  std::int32_t result = 0;
  explicit operator bool() const { return node >= 0; }
  friend constexpr auto operator<=>(Value, Value) = default;
};
using Values = SmallVector<Value, 4>;

class Graph;

struct Node {
 private:
  SharedAttrs shared_;

 public:
  Node();
  Node(const Node& other);
  /// A copy with other operands.
  Node(const Node& other, std::span<const Value> operands);
  Node(const OpInfo& op_info, std::span<const Value> operands, SharedAttrs attributes, TypeList result_types,
       Location location);
  Node(Node&& other) noexcept;
  Node& operator=(const Node& other);
  Node& operator=(Node&& other) noexcept;
  ~Node();

  const SharedAttrs& shared_attrs() const { return shared_; }
  /// Changes the attributes: edit_attrs([&](Attrs& attrs) { attrs.axes = axes; }).
  template <class F>
  void edit_attrs(F&& change) {
    change(shared_.edit());
    Node changed(std::move(*this));
    *this = std::move(changed);
  }

  const Attrs& attrs;
  const OpInfo* op = nullptr;
  Values inputs;
  TypeList types;  // one per result
  Location where;  // the user's line
};

/// What is known of a symbol: where a call finds it, and the value it had while tracing.
struct SymbolInfo {
  std::int32_t input = -1;  // graph input whose shape has it
  std::int32_t axis = -1;
  std::int64_t hint = 0;
  std::int64_t min = 2, max = std::int64_t{1} << 60;
  friend bool operator==(const SymbolInfo&, const SymbolInfo&) = default;
};

/// Inputs are the nodes with op `input` (attrs.integer is the position); `inputs()` lists them by position.
class Graph {
 public:
  Graph();
  const std::vector<Node>& nodes() const { return *nodes_; }
  const Node& node(std::int32_t id) const { return (*nodes_)[as_index(id)]; }
  const Node& node(Value v) const { return node(v.node); }
  const Type& type(Value v) const { return node(v).types[as_index(v.result)]; }
  std::span<const Value> inputs() const { return inputs_; }
  std::span<const Value> outputs() const { return outputs_; }
  const std::vector<SymbolInfo>& symbols() const { return symbols_; }
  /// What an extent counts as where costs are weighed: symbols at their hints, or at `unknown_extent` where the graph
  /// knows none, as in sub-graphs whose trace has not ended. No size is computed with it.
  std::int64_t estimate(Dim extent) const;
  std::int64_t estimate_elements(const Shape& shape) const;
  static constexpr std::int64_t unknown_extent = 64;
  /// The same nodes with other symbols.
  Graph with_symbols(std::vector<SymbolInfo> symbols) const;
  /// Copies of one graph: a pass that changes nothing gives one.
  bool shares_nodes_with(const Graph& other) const { return nodes_ == other.nodes_; }

  /// Text form; parse() reads it back:
  ///   graph(%0: f32[4, s0], %1: f32[4]) {
  ///     %2: f32[4, s0] = exp(%0)
  ///     %3: f32[4] = sum(%2) {axes=[1]}
  ///     return %3
  ///   }
  /// Sub-graphs follow their node; `like %n` stands for those of node n.
  std::string text() const;
  Hash128 hash() const;
  friend bool structurally_equal(const Graph& a, const Graph& b);

 private:
  friend class GraphBuilder;
  std::shared_ptr<std::vector<Node>> nodes_;  // copies share them; only a builder writes
  std::vector<Value> inputs_, outputs_;
  std::vector<SymbolInfo> symbols_;
};

bool structurally_equal(const Graph& a, const Graph& b);
/// As structurally_equal, but functions of the user (payloads) need only be of one kind: the traced function may make
/// them each time it runs. The second is the later trace. Nodes are compared without their operands.
bool may_be_retrace(const Graph& a, const Graph& b);
bool may_be_retrace(const Node& a, const Node& b);
/// Either node may stand for the other, given equal operands.
bool structurally_equal(const Node& a, const Node& b);

/// Throws InternalError naming the node when something is inconsistent: order, arity, result types against the op's
/// rule.
void verify(const Graph& graph);
/// Reads the text form. Throws UserError with line and column. Result types are inferred and compared with those
/// written.
Graph parse_graph(std::string_view text);
/// Number of uses of each node's results, outputs included.
std::vector<std::int32_t> use_counts(const Graph& graph);

/// The graph with other sub-graphs: `change` gives the one to take a sub-graph's place, or the same. It is asked once
/// for each, and nodes that share attributes still do. Where all stay, so does the graph.
Graph map_bodies(const Graph& graph,
                 const std::function<std::shared_ptr<const Graph>(const std::shared_ptr<const Graph>&)>& change);

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
  /// Gives a call another body, which has the old one's outputs first and may have more after them.
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

SINTER_NAMESPACE_END
