// The choice of shares, one axis of the mesh after another: exact on trees, by dynamic programming from the inputs on;
// where values have several readers the choice is then improved node by node until no change saves anything.
#pragma once

#include <sinter/dist/partition_search.hpp>

#include <sinter/base/index.hpp>
#include <sinter/dist/laid_out.hpp>
#include <sinter/dist/partition_rules.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

SINTER_DECL NodeWork work_of(const Graph& graph, const NodeOnAxis& n) {
  const OpInfo* op = n.node.op;
  NodeWork work;
  if (op->kind == OpKind::leaf || op->kind == OpKind::view || op == &op_info<ops::LaidOut> || n.out.empty())
    return work;
  const auto elements = [&](const Shape& shape) { return static_cast<double>(graph.estimate_elements(shape)); };
  const auto extent = [&](Dim dim) { return static_cast<double>(graph.estimate(dim)); };
  const double results = elements(n.out[0]);
  double operands = 0;
  for (const Shape& shape : n.in) operands += elements(shape);
  // Elementwise values mostly stay in registers.
  const double moved = op->kind == OpKind::elementwise ? 0.25 * results : results + operands;
  work.bytes = moved * static_cast<double>(size_of(n.node.types[0].dtype));
  work.operations = op->kind == OpKind::reduction ? operands : results;
  if (op == &op_info<ops::Matmul>) work.operations = 2 * results * extent(n.in[0][n.in[0].rank() - 1]);
  if (op == &op_info<ops::Convolution>)
    work.operations = 2 * results * elements(n.in[1]) / std::max(1.0, extent(n.in[1][0]));
  if (op == &op_info<ops::ConvolutionWeightGradient>)
    work.operations = 2 * results * elements(n.in[1]) / std::max(1.0, extent(n.in[1][0]));
  if (op == &op_info<ops::ScaledDotProductAttention>)
    work.operations = 4 * results * extent(n.in[1][n.in[1].rank() - 2]);
  if (op == &op_info<ops::ScaledDotProductAttentionGradient> || op == &op_info<ops::AttentionGradients>)
    work.operations = 10 * elements(n.in[0]) * extent(n.in[1][n.in[1].rank() - 2]);
  return work;
}

SINTER_DECL double sent_bytes(double bytes, Share from, Share to, int size) {
  const double n = size, most = (n - 1) / n;
  if (from == to || from == whole) return 0;
  if (is_summand(from)) return (to == whole ? 2 : 1) * bytes * most;
  return to == whole ? bytes * most : bytes / n * most;
}

/// Where the search begins: with what is best if each value had one reader, or with what each operation would do with
/// its operands as they come. Neither is always better.
enum class Start : std::uint8_t { look_ahead, follow };

/// The choice along one axis of the mesh.
class AxisSearch {
 public:
  AxisSearch(const PartitionPlan& plan, std::size_t axis, const std::vector<Shares>& inputs, const MachineCosts& costs);
  /// The chosen shares, into the plan.
  void run(PartitionPlan& plan, Start start);

 private:
  struct Reader {
    std::int32_t node = -1;  // -1: an output of the graph
    std::size_t operand = 0;
  };
  struct Place {
    std::vector<Choice> choices;
    std::vector<double> work;    // of each choice
    std::vector<double> so_far;  // of each choice: the least that the node and what it is made of cost
    std::vector<double> bytes;   // of each result, along this axis whole
    std::vector<std::vector<Reader>> readers;
    std::size_t chosen = 0;
  };
  Place& place(std::int32_t node) { return places_[as_index(node)]; }
  Share share_of(Value value) {
    return place(value.node).choices[place(value.node).chosen].out[as_index(value.result)];
  }
  Share wanted_by(const Reader& reader) {
    if (reader.node < 0) return outputs_[reader.operand];
    return place(reader.node).choices[place(reader.node).chosen].in[reader.operand];
  }
  double cost(Value value, Share from, Share to);
  double cost_of_readers(Value value, Share from);
  double cost_of_operand(std::int32_t node, std::size_t operand, Share to);
  void add_place(const PartitionPlan& plan, std::int32_t id, const std::vector<Shares>& inputs);
  void sum_up(std::int32_t id);
  void choose_with_readers(std::int32_t id);
  void choose_with_operands(std::int32_t id);
  bool improve(std::int32_t id);

  const Graph& graph_;
  const Mesh& mesh_;
  std::size_t axis_;
  int size_;
  MachineCosts costs_;
  std::vector<Place> places_;
  std::vector<Share> outputs_;
};

inline double AxisSearch::cost(Value value, Share from, Share to) {
  if (from == to) return 0;
  if (is_summand(to)) return std::numeric_limits<double>::infinity();
  const double bytes = place(value.node).bytes[as_index(value.result)];
  // A part that is taken of what is there costs little, a collective a little in itself: fewer are better.
  if (from == whole) return 1e-3 * bytes / costs_.link_bytes_per_second;
  return (sent_bytes(bytes, from, to, size_) + 64) / costs_.link_bytes_per_second;
}

/// Readers that want the same share it.
inline double AxisSearch::cost_of_readers(Value value, Share from) {
  SmallVector<Share, 8> seen;
  double total = 0;
  for (const Reader& reader : place(value.node).readers[as_index(value.result)]) {
    const Share to = wanted_by(reader);
    if (std::find(seen.begin(), seen.end(), to) != seen.end()) continue;
    seen.push_back(to);
    total += cost(value, from, to);
  }
  return total;
}

/// What it costs that this operand lies so, where others have what they want already.
inline double AxisSearch::cost_of_operand(std::int32_t node, std::size_t operand, Share to) {
  const Value value = graph_.node(node).inputs[operand];
  for (const Reader& reader : place(value.node).readers[as_index(value.result)])
    if ((reader.node != node || reader.operand < operand) && wanted_by(reader) == to) return 0;
  return cost(value, share_of(value), to);
}

/// Bit i: not all ranks have the same of axis i.
inline std::uint32_t uneven_axes(const Shape& shape, const Shares& shares, const Mesh& mesh) {
  std::uint32_t axes = 0;
  Shape part = shape;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!is_part(shares[i])) continue;
    const Dim extent = part[shares[i]];
    if (extent.is_static() && extent.value() % mesh.axes()[i].size != 0) axes |= std::uint32_t{1} << shares[i];
    Shares only(shares.size(), whole);
    only[i] = shares[i];
    part = part_of_shape(part, only, mesh);
  }
  return axes;
}

inline void AxisSearch::add_place(const PartitionPlan& plan, std::int32_t id, const std::vector<Shares>& inputs) {
  const Node& node = graph_.node(id);
  const NodeShares& before = plan.nodes[as_index(id)];
  NodeOnAxis on{graph_, node, {}, {}, size_};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& shape = graph_.type(node.inputs[i]).shape;
    on.in.push_back(part_of_shape(shape, before.in[i], mesh_));
    on.uneven_in.push_back(uneven_axes(shape, before.in[i], mesh_));
  }
  Place& made = place(id);
  for (std::size_t i = 0; i < node.types.size(); ++i) {
    on.out.push_back(part_of_shape(node.types[i].shape, before.out[i], mesh_));
    on.uneven_out.push_back(uneven_axes(node.types[i].shape, before.out[i], mesh_));
    made.bytes.push_back(static_cast<double>(graph_.estimate_elements(on.out[i]) * size_of(node.types[i].dtype)));
  }
  made.readers.resize(node.types.size());
  const Shares* stated = annotation_of(node);
  ensure(stated == nullptr || stated->size() == mesh_.axes().size(), "a value is laid out on another mesh");
  if (node.op == &op_info<ops::Input>) {
    made.choices.push_back({{}, {inputs[as_index(node.attrs[input_position])][axis_]}});
  } else if (stated != nullptr && (*stated)[axis_] != unstated) {
    made.choices.push_back({{(*stated)[axis_]}, {(*stated)[axis_]}});
  } else {
    made.choices = choices_of(on);
  }
  const double work = work_of(graph_, on).seconds(costs_);
  for (const Choice& choice : made.choices) made.work.push_back(choice.divides() ? work / size_ : work);
}

inline AxisSearch::AxisSearch(const PartitionPlan& plan, std::size_t axis, const std::vector<Shares>& inputs,
                              const MachineCosts& costs)
    : graph_(plan.graph),
      mesh_(plan.mesh),
      axis_(axis),
      size_(plan.mesh.axes()[axis].size),
      costs_(costs),
      places_(plan.graph.nodes().size()) {
  const auto count = static_cast<std::int32_t>(places_.size());
  for (std::int32_t id = 0; id < count; ++id) {
    add_place(plan, id, inputs);
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      place(node.inputs[i].node).readers[as_index(node.inputs[i].result)].push_back({id, i});
  }
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Value value = graph_.outputs()[i];
    outputs_.push_back(plan.outputs[i][axis]);
    place(value.node).readers[as_index(value.result)].push_back({-1, i});
  }
}

/// From the inputs on. What a node with several readers costs is divided between them.
inline void AxisSearch::sum_up(std::int32_t id) {
  Place& own = place(id);
  for (std::size_t c = 0; c < own.choices.size(); ++c) {
    double total = own.work[c];
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value value = node.inputs[i];
      const Place& from = place(value.node);
      double uses = 0, least = std::numeric_limits<double>::infinity();
      for (const auto& readers : from.readers) uses += static_cast<double>(readers.size());
      for (std::size_t k = 0; k < from.choices.size(); ++k)
        least = std::min(least, from.so_far[k] / uses +
                                    cost(value, from.choices[k].out[as_index(value.result)], own.choices[c].in[i]));
      total += least;
    }
    own.so_far.push_back(total);
  }
}

/// Back from the outputs: the readers have chosen.
inline void AxisSearch::choose_with_readers(std::int32_t id) {
  Place& own = place(id);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < own.choices.size(); ++c) {
    double total = own.so_far[c];
    for (std::size_t r = 0; r < own.readers.size(); ++r)
      total += cost_of_readers({id, static_cast<std::int32_t>(r)}, own.choices[c].out[r]);
    if (total < least) {
      least = total;
      own.chosen = c;
    }
  }
}

/// On from the inputs: the operands have chosen.
inline void AxisSearch::choose_with_operands(std::int32_t id) {
  Place& own = place(id);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < own.choices.size(); ++c) {
    double total = own.work[c];
    for (std::size_t i = 0; i < own.choices[c].in.size(); ++i) {
      const Value value = graph_.node(id).inputs[i];
      total += cost(value, share_of(value), own.choices[c].in[i]);
    }
    if (total < least) {
      least = total;
      own.chosen = c;
    }
  }
}

inline bool AxisSearch::improve(std::int32_t id) {
  Place& own = place(id);
  const std::size_t before = own.chosen;
  const auto total_of = [&](std::size_t c) {
    own.chosen = c;
    double total = own.work[c];
    for (std::size_t i = 0; i < own.choices[c].in.size(); ++i) total += cost_of_operand(id, i, own.choices[c].in[i]);
    for (std::size_t r = 0; r < own.readers.size(); ++r)
      total += cost_of_readers({id, static_cast<std::int32_t>(r)}, own.choices[c].out[r]);
    return total;
  };
  std::size_t best = before;
  double least = total_of(before);
  for (std::size_t c = 0; c < own.choices.size(); ++c)
    if (const double total = total_of(c); total < least * (1 - 1e-9)) {
      least = total;
      best = c;
    }
  own.chosen = best;
  return best != before;
}

inline void AxisSearch::run(PartitionPlan& plan, Start start) {
  const auto count = static_cast<std::int32_t>(places_.size());
  if (start == Start::follow) {
    for (std::int32_t id = 0; id < count; ++id) choose_with_operands(id);
  } else {
    for (std::int32_t id = 0; id < count; ++id) sum_up(id);
    for (std::int32_t id = count; id-- > 0;) choose_with_readers(id);
  }
  bool has_changed = true;
  for (int round = 0; has_changed && round < 10; ++round) {
    has_changed = false;
    for (std::int32_t id = 0; id < count; ++id) has_changed |= improve(id);
    for (std::int32_t id = count; id-- > 0;) has_changed |= improve(id);
  }
  for (std::int32_t id = 0; id < count; ++id) {
    const Choice& choice = place(id).choices[place(id).chosen];
    for (std::size_t i = 0; i < choice.in.size(); ++i) plan.nodes[as_index(id)].in[i][axis_] = choice.in[i];
    for (std::size_t i = 0; i < choice.out.size(); ++i) plan.nodes[as_index(id)].out[i][axis_] = choice.out[i];
  }
}

/// Does anybody say that something is divided along this axis? Else nothing is: its ranks do the same.
inline bool is_axis_used(const Graph& graph, std::size_t axis, const std::vector<Shares>& inputs,
                         const std::vector<Shares>& outputs) {
  const auto is_divided = [axis](const Shares& shares) { return is_part(shares[axis]); };
  return std::any_of(inputs.begin(), inputs.end(), is_divided) ||
         std::any_of(outputs.begin(), outputs.end(), is_divided) ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
           const Shares* stated = annotation_of(node);
           return stated != nullptr && is_divided(*stated);
         });
}

inline PartitionPlan plan_from(Start start, const PartitionPlan& empty, const std::vector<Shares>& inputs,
                               const MachineCosts& costs) {
  PartitionPlan plan = empty;
  for (std::size_t axis = 0; axis < plan.mesh.axes().size(); ++axis)
    if (plan.mesh.axes()[axis].size > 1 && is_axis_used(plan.graph, axis, inputs, plan.outputs))
      AxisSearch(plan, axis, inputs, costs).run(plan, start);
  return plan;
}

SINTER_DECL PartitionPlan plan_partition(const Graph& graph, const Mesh& mesh, const std::vector<Shares>& inputs,
                                         const std::vector<Shares>& outputs, const MachineCosts& costs) {
  PartitionPlan empty{graph, mesh, {}, outputs};
  const Shares all_whole(mesh.axes().size(), whole);
  for (const Node& node : graph.nodes())
    empty.nodes.push_back(
        {std::vector<Shares>(node.inputs.size(), all_whole), std::vector<Shares>(node.types.size(), all_whole)});
  PartitionPlan plan = plan_from(Start::look_ahead, empty, inputs, costs);
  PartitionPlan other = plan_from(Start::follow, empty, inputs, costs);
  return seconds_of(other, costs) < seconds_of(plan, costs) ? std::move(other) : std::move(plan);
}

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
