// Hash table of the nodes kept so far; buckets are chained through an array, so that a lookup allocates nothing.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/passes/commutative.hpp>
#include <sinter/passes/cse.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {

class CseTable {
 public:
  CseTable(GraphBuilder& builder, std::size_t nodes) : builder_(builder), first_(std::bit_ceil(2 * nodes + 2), -1) {
    next_.reserve(nodes);
  }

  /// The node that computes the same as `node` on `inputs`, or a copy of it.
  std::int32_t find_or_copy(const Node& node, const Values& inputs) {
    Values key = inputs;
    if (is_commutative(*node.op)) std::sort(key.begin(), key.end());
    const std::size_t bucket = hash(node, key) & (first_.size() - 1);
    for (std::int32_t id = first_[bucket]; id >= 0; id = next_[as_index(id)])
      if (computes_same(builder_.graph().node(id), node, key)) return id;
    const std::int32_t id = copy(node, inputs);
    next_[as_index(id)] = first_[bucket];
    first_[bucket] = id;
    return id;
  }
  std::int32_t copy(const Node& node, const Values& inputs) {
    next_.push_back(-1);
    return builder_.copy(node, inputs).node;
  }

 private:
  static std::size_t hash(const Node& node, const Values& key) {
    Hasher hasher;
    hasher.add(reinterpret_cast<std::uintptr_t>(node.op)).add(std::uint64_t{node.attrs.bodies.size()});
    for (Value v : key) hasher.add(static_cast<std::uint64_t>(v.node) << 32 | static_cast<std::uint32_t>(v.result));
    node.attrs.hash_into(hasher);
    return as_index(hasher.finish().low);
  }
  static bool computes_same(const Node& kept, const Node& node, const Values& key) {
    if (!structurally_equal(kept, node)) return false;
    if (!is_commutative(*node.op)) return kept.inputs == key;
    Values sorted = kept.inputs;
    std::sort(sorted.begin(), sorted.end());
    return sorted == key;
  }

  GraphBuilder& builder_;
  std::vector<std::int32_t> first_, next_;  // by bucket, by node
};

}  // namespace passes_detail

SINTER_DECL Graph Cse::operator()(const Graph& graph) const {
  const auto& nodes = graph.nodes();
  GraphBuilder builder(graph);
  builder.reserve(nodes.size());
  passes_detail::CseTable table(builder, nodes.size());
  std::vector<std::int32_t> moved(nodes.size(), -1);
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back({moved[as_index(v.node)], v.result});
    const bool stays =
        node.op->kind == OpKind::effect || node.op == &op_info<ops::Input> || node.op == &op_info<ops::Empty>;
    moved[id] = stays ? table.copy(node, inputs) : table.find_or_copy(node, inputs);
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back({moved[as_index(v.node)], v.result});
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
