// Graph: SSA nodes in topological order, the form that passes read and write. Immutable once built: a pass makes a new
// one with a GraphBuilder (builder.hpp). Types carry symbolic Dims. Must not know kernels, back ends or how values were
// recorded.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

/// Inputs are the nodes with op `input` (attrs[input_position] is the position); `inputs()` lists them by position.
class Graph {
 public:
  Graph();
  const std::vector<Node>& nodes() const { return *nodes_; }
  const Node& node(std::int32_t id) const { return (*nodes_)[as_index(id)]; }
  const Node& node(Value v) const { return node(v.node); }
  const Type& type(Value v) const { return node(v).types[as_index(v.result)]; }
  std::span<const Value> inputs() const;
  std::span<const Value> outputs() const;
  const std::vector<SymbolInfo>& symbols() const { return symbols_; }
  /// What an extent counts as where costs are weighed: symbols at their hints, or at `unknown_extent` where the graph
  /// knows none, as in sub-graphs whose trace has not ended. No size is computed with it.
  std::int64_t estimate(Dim extent) const;
  std::int64_t estimate_elements(const Shape& shape) const;
  static constexpr std::int64_t unknown_extent = 64;
  /// The same nodes with other symbols.
  Graph with_symbols(std::vector<SymbolInfo> symbols) const;
  /// Copies of one graph: a pass that changes nothing gives one.
  bool shares_nodes_with(const Graph& other) const { return nodes_.get() == other.nodes_.get(); }

  /// Text form; parse_graph() reads it back:
  ///   graph(%0: f32[4, s0], %1: f32[4]) {
  ///     %2: f32[4, s0] = exp(%0)
  ///     %3: f32[4] = sum(%2) {axes=[1]}
  ///     return %3
  ///   }
  /// Sub-graphs follow their node; `like %n` stands for those of node n.
  std::string text() const;  // print.ipp
  Hash128 hash() const;      // hash.ipp

 private:
  friend class GraphBuilder;
  std::shared_ptr<std::vector<Node>> nodes_;  // copies share them; only a builder writes
  std::vector<Value> inputs_, outputs_;
  std::vector<SymbolInfo> symbols_;
};

/// Number of uses of each node's results, outputs included.
std::vector<std::int32_t> use_counts(const Graph& graph);

SINTER_NAMESPACE_END
