// A node is a vertex that is cut off the source when it is computed again; each of its results is a vertex after it,
// cut off the node when it is kept. What a node computed again reads must be there again: that edge has no limit.
#pragma once

#include <sinter/passes/keep_or_recompute.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/minimum_cut.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

static_assert(cost_unlimited == FlowNetwork::unlimited);

/// Costs of one element, measured against streams from and to the second-level cache.
inline constexpr std::int64_t cheap_element = 3, dear_element = 40, gathered_element = 16, random_element = 160,
                              product_element = 6;

inline std::int64_t call_cost(const Graph& body, Products products) {
  std::int64_t total = 0;
  for (const Node& node : body.nodes()) {
    if (node.op == &op_info<ops::Input> || node.op == &op_info<ops::Constant>) continue;
    const std::int64_t cost = recompute_cost(body, node, products);
    if (cost == cost_unlimited) return cost;
    total += cost;
  }
  return total;
}

SINTER_DECL std::span<const Value> again_operands(const Node& node) {
  return std::span(node.inputs.begin(), node.inputs.end())
      .first(node.op == &op_info<ops::Barrier> ? 1 : node.inputs.size());
}

/// Vertices of the network: the node, then its results.
class CutNetwork {
 public:
  explicit CutNetwork(const KeepOrRecompute& question)
      : question_(question), first_(question.graph.nodes().size(), -1) {
    const auto& nodes = question.graph.nodes();
    for (std::size_t id = 0; id < nodes.size(); ++id)
      if (question.is_early[id] && nodes[id].op->kind != OpKind::leaf) add(static_cast<std::int32_t>(id));
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      if (question.is_late[id]) ask(nodes[id], FlowNetwork::sink);
      else if (first_[id] >= 0) ask(nodes[id], first_[id]);
    }
  }
  bool cut() { return network_.cut() < cost_unlimited; }
  bool is_recomputed(std::int32_t node) const { return network_.is_sink_side(first_[as_index(node)]); }

 private:
  void add(std::int32_t id) {
    const std::int32_t vertex = first_[as_index(id)] = network_.add_vertex();
    network_.add_edge(FlowNetwork::source, vertex, question_.recompute_cost(id));
    for (std::size_t r = 0; r < question_.graph.node(id).types.size(); ++r)
      network_.add_edge(vertex, network_.add_vertex(), question_.keep_cost({id, static_cast<std::int32_t>(r)}));
  }
  void ask(const Node& node, std::int32_t vertex) {
    for (Value v : again_operands(node))
      if (const std::int32_t maker = first_[as_index(v.node)]; maker >= 0)
        network_.add_edge(maker + 1 + v.result, vertex, cost_unlimited);
  }

  const KeepOrRecompute& question_;
  FlowNetwork network_;
  std::vector<std::int32_t> first_;
};

}  // namespace passes_detail

SINTER_DECL std::int64_t bytes_of(const Graph& graph, Value v) {
  return graph.estimate_elements(graph.type(v).shape) * size_of(graph.type(v).dtype);
}

SINTER_DECL std::int64_t recompute_cost(const Graph& graph, const Node& node, Products products) {
  using namespace passes_detail;
  const OpInfo& op = *node.op;
  if (op.kind == OpKind::view || op.kind == OpKind::leaf) return 0;
  if (op.kind == OpKind::effect || op.kind == OpKind::composite || node.types.empty()) return cost_unlimited;
  if (op.is_call) return products == Products::recomputed ? call_cost(*node.attrs.bodies[0], products) : cost_unlimited;
  if (op.run_on_host != nullptr || !node.attrs.bodies.empty()) return cost_unlimited;
  const std::int64_t elements = graph.estimate_elements(node.types[0].shape);
  if (op.kind == OpKind::elementwise) return elements * (op.is_cheap ? cheap_element : dear_element);
  if (op.kind == OpKind::reduction) return graph.estimate_elements(graph.type(node.inputs[0]).shape) * cheap_element;
  if (op.is_random) return elements * random_element;
  if (node.op == &op_info<ops::Take>) return elements * gathered_element;
  if (node.op == &op_info<ops::Empty>) return cost_unlimited;
  if (node.op == &op_info<ops::Matmul>) {
    if (products == Products::kept) return cost_unlimited;
    const Shape& left = graph.type(node.inputs[0]).shape;
    return elements * graph.estimate(left[left.rank() - 1]) * product_element;
  }
  return node.inputs.empty() ? 0 : cost_unlimited;  // literals
}

SINTER_DECL std::vector<Choice> choose_kept(const KeepOrRecompute& question) {
  const auto& nodes = question.graph.nodes();
  passes_detail::CutNetwork network(question);
  const bool has_cut = network.cut();
  std::vector<Choice> choices(nodes.size(), Choice::unneeded);
  std::vector<std::uint8_t> is_needed(nodes.size());
  const auto need = [&](const Node& node) {
    for (Value v : passes_detail::again_operands(node)) is_needed[as_index(v.node)] = 1;
  };
  for (std::size_t id = 0; id < nodes.size(); ++id)
    if (question.is_late[id]) need(nodes[id]);
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (!is_needed[id] || !question.is_early[id]) continue;
    const auto node = static_cast<std::int32_t>(id);
    const bool is_leaf = nodes[id].op->kind == OpKind::leaf;
    const bool again = !is_leaf && (has_cut ? network.is_recomputed(node) : question.recompute_cost(node) == 0);
    choices[id] = again ? Choice::recomputed : Choice::kept;
    if (again) need(nodes[id]);
  }
  return choices;
}

SINTER_NAMESPACE_END
