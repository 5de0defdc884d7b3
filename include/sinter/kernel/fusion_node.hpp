// Fusion nodes: a graph as fusion and lowering see it. There is one fusion node per result of a live graph node, plus
// the copies that strides cannot do without (a reshape of a transposed value that a product reads, a base that
// update_slice may not overwrite, ...). They say how a value's elements depend on its operands' elements, and where in
// memory they would lie. Knows graphs, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/enum_set.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/kernel/index_map.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

enum class NodeKind : std::uint8_t {
  input,
  constant,  // in memory before the plan runs
  full,
  iota,   // made where they are used
  empty,  // memory that nobody has written
  reshape,
  permute,
  expand,
  slice,
  windows,  // views
  map,      // elementwise
  copy,     // the same elements, dense
  take,
  random,
  reduce,
  scan,
  contract,
  place,    // update_slice: value stored into a part of the base's buffer
  patch,    // update_slice that is not stored: operand 0 where it lies, elsewhere operand 1 (none: nobody reads there)
  scatter,  // values combined with elements of the base's buffer at indices; inputs are index and value
  host,     // run by the host, by the op's own function
  host_result,  // a further result of the host node that is its input
};
constexpr bool is_view(NodeKind kind) { return kind >= NodeKind::reshape && kind <= NodeKind::windows; }
constexpr bool is_generator(NodeKind kind) { return kind == NodeKind::full || kind == NodeKind::iota; }
/// In need of a kernel (or host function) of its own unless fused.
constexpr bool is_computed(NodeKind kind) { return kind >= NodeKind::map; }
constexpr bool is_host(NodeKind kind) { return kind >= NodeKind::host; }
/// Its walk writes a part of its elements only: nothing reads it there.
constexpr bool writes_part(NodeKind kind) { return kind == NodeKind::place || kind == NodeKind::scatter; }

struct FusionNode {
  NodeKind kind = NodeKind::map;
  DType dtype = DType::f32;
  bool is_inlined = false;       // recomputed by every consumer, never stored for them
  bool is_in_memory = false;     // somebody needs its elements in memory
  std::int32_t graph_node = -1;  // -1: a copy made here
  std::int32_t result = 0;       // of the graph node
  std::int32_t base = -1;        // place, scatter: the node whose buffer it takes over; -1: a fresh one
  std::int32_t uses = 0;         // by nodes and by outputs
  SmallVector<std::int32_t, 4> inputs;
  Shape shape;
};

/// Elements in memory: `owner` is the node that has the memory; element (i...) is at offset + sum of i * stride.
struct Layout {
  std::int32_t owner = -1;
  Dim offset;
  SmallVector<Dim, max_rank> strides;
};

namespace kernel_detail {
/// Is it the layout of pairs: with neighbours along the last axis, and an even number of elements between them?
bool holds_pairs(const Layout& layout);
}  // namespace kernel_detail

/// Where a group finds the elements of a value: flat element number in the owner's memory.
struct MemoryIndex {
  std::int32_t owner = -1;
  AxisIndex flat;
};

/// How a graph output is delivered.
struct OutputSource {
  std::int32_t node = -1;
  std::int32_t same_as = -1;  // an earlier output with the same value; -1: none
  bool is_alias = false;      // a view of an input or constant: no memory of its own
};

struct FusionGraphOptions {
  bool fuse = true;
  bool own_outputs = false;                         // outputs never share memory with inputs, constants or each other
  bool prologues = false;                           // elementwise values that only products read need not be in memory
  EnumSet<DType> narrow_products = {};              // as in Limits
  std::span<const std::vector<Dim>> input_strides;  // per input; empty: row-major
};

class FusionGraph {
 public:
  FusionGraph(const Graph& graph, const FusionGraphOptions& options);

  const Graph& graph() const { return *graph_; }
  const std::vector<FusionNode>& nodes() const { return nodes_; }
  std::vector<FusionNode>& nodes() { return nodes_; }
  const FusionNode& operator[](int node) const { return nodes_[as_index(node)]; }
  FusionNode& operator[](int node) { return nodes_[as_index(node)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  std::span<const OutputSource> outputs() const { return outputs_; }
  const Node* graph_node(int node) const {
    return (*this)[node].graph_node < 0 ? nullptr : &graph_->node((*this)[node].graph_node);
  }
  std::string_view name(int node) const;

  /// Through views to what they are views of.
  int base_of(int node) const;
  /// Where the elements lie if the base is in memory (computed nodes are stored row-major); null if strides cannot say.
  const Layout* layout_of(int node) const;
  /// Index map of a view's input from the view's, and back. Axes that a broadcast leaves open are unknown.
  std::optional<IndexMap> input_of_view(Space& space, int view, const IndexMap& map) const;
  std::optional<IndexMap> view_of_input(Space& space, int view, const IndexMap& map) const;
  /// Index map of operand `number` of a computed node. For a reduction `map` is that of its operand.
  IndexMap operand_map(int node, int number, const IndexMap& map) const;
  /// Index map of a computed node as far as operand `number` tells; nothing if the operand's elements are not walked
  /// along with the node's (the table of a take).
  std::optional<IndexMap> result_map(int node, int number, const IndexMap& operand) const;
  /// A reduction's result from its operand's map.
  IndexMap reduced_map(int node, const IndexMap& operand) const;
  /// The elements in memory of the value `node` at `map`.
  std::optional<MemoryIndex> locate(Space& space, int node, IndexMap map) const;

  /// Numbers to decide by: symbols stand for the values they had while tracing.
  std::int64_t estimate(Dim dim) const;
  std::int64_t estimate_elements(int node) const;
  /// Traffic of reading or writing the value once. A bool counts as four bytes: mixed widths slow vector code down.
  std::int64_t estimate_bytes(int node) const;

 private:
  void build(const FusionGraphOptions& options);
  void build_node(std::int32_t graph_node, const FusionGraphOptions& options, std::span<const std::int32_t> uses);
  void build_host(std::int32_t graph_node);
  int pairs_of(const Node& graph_node);
  void build_place(std::int32_t graph_node, std::span<const std::int32_t> uses);
  void build_patch(std::int32_t graph_node);
  void build_scatter(std::int32_t graph_node, std::span<const std::int32_t> uses);
  int buffer_to_change(Value base, std::span<const std::int32_t> uses);
  void build_outputs(const FusionGraphOptions& options);
  bool is_given(int node) const;
  int add(FusionNode node);
  int add_copy(int of);
  int copy_of(int node);
  int clone_view(int view, int input);
  bool can_read(int node) const;
  int make_readable(int node);
  bool is_walked(int node) const;
  void make_operands_readable(FusionNode& node);
  int before_barrier(int node);
  void find_rounded(const std::vector<bool>& live, std::span<const std::int32_t> uses);
  int before_widening(int node, DType narrow);
  void read_narrow_operands(FusionNode& product);
  void drop_unused_widenings();
  int make_memory(int node);
  int make_operand(int node);
  int make_dense(int node);
  int make_shiftable(int node);
  int node_of(Value v) const;
  bool may_inline_scalar(const FusionNode& node) const;
  void count_uses();

  const Graph* graph_;
  std::vector<FusionNode> nodes_;
  std::vector<std::int32_t> fusion_node_of_, copies_;
  std::vector<bool> is_patch_;     // of graph nodes
  std::vector<DType> rounded_to_;  // of graph nodes: what all readers of a product of f32 round it to; f32: none
  bool has_unused_widenings_ = false;
  std::vector<OutputSource> outputs_;
  FusionGraphOptions options_;
  mutable std::vector<Layout> layouts_;
  mutable std::vector<std::uint8_t> layout_state_;  // 0 unknown, 1 expressible, 2 not
};

SINTER_NAMESPACE_END
