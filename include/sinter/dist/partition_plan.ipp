// From shares to collectives, the graph that is divided, and the plan in words.
#pragma once

#include <sinter/dist/partition_plan.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/dist/partition_rules.hpp>
#include <sinter/dist/partition_search.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/dist/uneven.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/call_context.hpp>
#include <sinter/passes/cse.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/decompose.hpp>
#include <sinter/passes/drop_derivatives.hpp>
#include <sinter/passes/outline.hpp>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist {
namespace partition_detail {

SINTER_DECL Shape part_of_shape(const Shape& shape, const Shares& shares, const Mesh& mesh, int rank) {
  Shape part = shape;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!is_part(shares[i])) continue;
    const MeshAxis& axis = mesh.axes()[i];
    const Dim extent = part[shares[i]];
    part.set(shares[i], extent.is_static()
                            ? Dim(dist_detail::part_extent(extent.value(), axis.size, mesh.index(rank, axis.name)))
                            : extent / Dim(axis.size));
  }
  return part;
}
SINTER_DECL int rank_in(const Mesh& mesh) {
  return mesh.size() == dist_detail::current_rank().size() ? dist_detail::current_rank().rank() : 0;
}
SINTER_DECL Shape own_part_of_shape(const Shape& shape, const Shares& shares, const Mesh& mesh) {
  const Shape part = part_of_shape(shape, shares, mesh, rank_in(mesh));
  Shape whole_again = part;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (is_part(shares[i])) whole_again.set(shares[i], whole_again[shares[i]] * Dim(mesh.axes()[i].size));
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis].is_static() && !(whole_again[axis] == shape[axis])) call_context().use(ContextKey::rank);
  return part;
}

SINTER_DECL Axis axis_of(const Move& move, const Mesh& mesh) {
  Axis over;
  for (const std::size_t axis : move.mesh_axes) over.names.push_back(mesh.axes()[axis].name);
  return over;
}

/// Changes the shares of a value one axis of the mesh at a time. Where two of them divide one axis of the tensor, the
/// later one divides the parts of the earlier one: it must be whole before the earlier one changes.
class MoveList {
 public:
  MoveList(const Shares& from, const Shares& to) : now_(from), wanted_(to) {}
  std::vector<Move> make();

 private:
  /// May this axis begin to divide `share` now: do the ones before it that divide it stay, and do none after it?
  bool is_free(std::size_t axis, Share share) const {
    for (std::size_t i = 0; i < now_.size(); ++i)
      if (i < axis ? (now_[i] == share) != (wanted_[i] == share) : i > axis && now_[i] == share) return false;
    return true;
  }
  bool is_divided_inside(std::size_t axis) const {
    return std::find(now_.begin() + static_cast<std::ptrdiff_t>(axis) + 1, now_.end(), now_[axis]) != now_.end();
  }
  void add(CollectiveKind kind, std::size_t axis, Share becomes, Move move) {
    move.kind = kind;
    move.mesh_axes = {axis};
    now_[axis] = becomes;
    Move* last = moves_.empty() ? nullptr : &moves_.back();
    const bool joins = last != nullptr && last->kind == kind && last->axis == move.axis &&
                       last->reduce == move.reduce &&
                       (kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather);
    if (!joins) return moves_.push_back(std::move(move));
    last->mesh_axes.push_back(axis);
    std::sort(last->mesh_axes.begin(), last->mesh_axes.end());
  }
  void reduce(std::size_t axis) {
    const Share kind = now_[axis], wanted = wanted_[axis];
    Move move{.reduce = kind == summand ? Reduce::sum : kind == largest ? Reduce::maximum : Reduce::minimum};
    if (!is_part(wanted) || !is_free(axis, wanted))
      return add(CollectiveKind::all_reduce, axis, whole, std::move(move));
    move.axis = wanted;
    add(CollectiveKind::reduce_scatter, axis, wanted, std::move(move));
  }
  void gather(std::size_t axis) {
    for (std::size_t inner = now_.size(); inner-- > axis + 1;)
      if (now_[inner] == now_[axis]) gather(inner);
    add(CollectiveKind::all_gather, axis, whole, {.axis = now_[axis]});
  }
  void exchange(std::size_t axis) {
    const Share wanted = wanted_[axis];
    if (is_divided_inside(axis) || !is_free(axis, wanted)) return gather(axis);
    add(CollectiveKind::all_to_all, axis, wanted, {.axis = now_[axis], .split_axis = wanted});
  }

  Shares now_;
  const Shares& wanted_;
  std::vector<Move> moves_{};
};

inline std::vector<Move> MoveList::make() {
  const std::size_t axes = now_.size();
  for (std::size_t i = 0; i < axes; ++i)
    if (is_summand(now_[i]) && now_[i] != wanted_[i]) reduce(i);
  for (std::size_t i = 0; i < axes; ++i)
    if (is_part(now_[i]) && is_part(wanted_[i]) && now_[i] != wanted_[i]) exchange(i);
  for (std::size_t i = axes; i-- > 0;)
    if (is_part(now_[i]) && wanted_[i] == whole) gather(i);
  for (std::size_t i = 0; i < axes; ++i) {
    if (now_[i] != whole || !is_part(wanted_[i])) continue;
    for (std::size_t inner = axes; inner-- > i + 1;)
      if (now_[inner] == wanted_[i]) gather(inner);
    add(CollectiveKind::shard, i, wanted_[i], {.axis = wanted_[i]});
  }
  ensure(now_ == wanted_, "a value cannot be laid out as it is wanted");
  return std::move(moves_);
}

SINTER_DECL std::vector<Move> moves_between(const Shares& from, const Shares& to) {
  if (from == to) return {};
  return MoveList(from, to).make();
}

SINTER_DECL Share share_after(const Move& move) {
  switch (move.kind) {
    case CollectiveKind::shard:
    case CollectiveKind::reduce_scatter: return static_cast<Share>(move.axis);
    case CollectiveKind::all_to_all: return static_cast<Share>(move.split_axis);
    default: return whole;
  }
}

/// Outputs that go together.
struct OutputGroup {
  std::vector<std::size_t> members, mesh_axes;
  DType dtype;
  Device device;
  std::int64_t bytes = 0;
};
inline void add_to_group(std::vector<OutputGroup>& groups, std::size_t output, const Move& move, const Type& type,
                         std::int64_t bytes) {
  constexpr std::int64_t most_of_one = 1 << 20, most_of_all = 25 << 20;  // larger ones gain nothing by being copied
  if (bytes > most_of_one || is_complex(type.dtype)) return;
  const auto fits = [&](const OutputGroup& group) {
    return group.mesh_axes == move.mesh_axes && group.dtype == type.dtype && group.device == type.device &&
           group.bytes + bytes <= most_of_all;
  };
  auto group = std::find_if(groups.begin(), groups.end(), fits);
  if (group == groups.end()) group = groups.insert(group, {{}, move.mesh_axes, type.dtype, type.device, 0});
  group->members.push_back(output);
  group->bytes += bytes;
}

SINTER_DECL std::vector<std::vector<std::size_t>> joined_outputs(const PartitionPlan& plan) {
  std::set<std::pair<Value, Shares>> seen;  // what operations want is there before the outputs are
  for (std::size_t id = 0; id < plan.nodes.size(); ++id)
    for (std::size_t i = 0; i < plan.nodes[id].in.size(); ++i)
      seen.emplace(plan.graph.nodes()[id].inputs[i], plan.nodes[id].in[i]);
  std::vector<OutputGroup> groups;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const Value value = plan.graph.outputs()[i];
    if (!seen.emplace(value, plan.outputs[i]).second) continue;
    const std::vector<Move> moves = moves_between(plan.of(value), plan.outputs[i]);
    if (moves.size() != 1 || moves[0].kind != CollectiveKind::all_reduce || moves[0].reduce != Reduce::sum) continue;
    const Type& type = plan.graph.type(value);
    const Shape part = part_of_shape(type.shape, plan.of(value), plan.mesh);
    add_to_group(groups, i, moves[0], type, plan.graph.estimate_elements(part) * size_of(type.dtype));
  }
  std::vector<std::vector<std::size_t>> joined;
  for (OutputGroup& group : groups)
    if (group.members.size() > 1) joined.push_back(std::move(group.members));
  return joined;
}

/// The graph with sums of half precision computed in f32 and rounded then, so that parts of them neither overflow nor
/// lose digits. Products are that already.
inline Graph widen_sums(const Graph& graph) {
  const auto is_narrow_sum = [](const Node& node) {
    const OpInfo* op = node.op;
    return (op == &op_info<ops::Sum> || op == &op_info<ops::Convolution> ||
            op == &op_info<ops::ConvolutionWeightGradient> || op == &op_info<ops::ScatterAdd>) &&
           is_half(node.types[0].dtype);
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_narrow_sum)) return graph;
  GraphBuilder builder(graph);
  std::vector<std::int32_t> moved;
  for (const Node& node : graph.nodes()) {
    Values inputs;
    for (const Value v : node.inputs) inputs.push_back({moved[as_index(v.node)], v.result});
    if (!is_narrow_sum(node)) {
      moved.push_back(builder.copy(node, inputs).node);
      continue;
    }
    const DType dtype = node.types[0].dtype;
    for (Value& v : inputs)
      if (is_half(builder.type(v).dtype))
        v = builder.add(op_info<ops::Cast>, {v}, {.dtype = computed_in(dtype), .has_dtype = true}, node.where);
    const Value wide = builder.add(*node.op, inputs, node.attrs, node.where);
    moved.push_back(builder.add(op_info<ops::Narrow>, {wide}, {.dtype = dtype, .has_dtype = true}, node.where).node);
  }
  std::vector<Value> outputs;
  for (const Value v : graph.outputs()) outputs.push_back({moved[as_index(v.node)], v.result});
  return builder.finish(outputs);
}

SINTER_DECL Graph prepare_partition(const Graph& graph) {
  const Decompose decompose{[](const Graph&, const Node& node) { return is_divided_whole(node); },
                            Decompose::Symbols::unsolved};
  const Graph inlined = Dce{}(inline_calls(DropDerivatives{}(graph)));
  return Dce{}(Cse{}(widen_sums(decompose(Dce{}(split_attention_gradients(inlined))))));
}

// ---- in words -------------------------------------------------------------------------------------------------------

inline std::string value_text(const PartitionPlan& plan, Value value) {
  const bool has_more = plan.graph.node(value).types.size() > 1;
  return "%" + std::to_string(value.node) + (has_more ? "." + std::to_string(value.result) : "") + " " +
         plan.graph.type(value).text();
}
inline std::string line_text(Location where) { return where.line == 0 ? "" : " [" + where.text() + "]"; }
inline std::string names_text(const Axis& axis) {
  std::string text;
  for (const std::string& name : axis.names) text += (text.empty() ? "" : ", ") + name;
  return text;
}
inline std::string move_text(const PartitionPlan& plan, const Move& move, Value value, std::size_t more = 0) {
  std::string text(name(move.kind));
  if (move.kind == CollectiveKind::all_reduce) text += "(" + std::string(name(move.reduce)) + ")";
  if (move.kind == CollectiveKind::reduce_scatter)
    text += "(" + std::string(name(move.reduce)) + ", axis " + std::to_string(move.axis) + ")";
  if (move.kind == CollectiveKind::all_gather || move.kind == CollectiveKind::shard)
    text += "(axis " + std::to_string(move.axis) + ")";
  if (move.kind == CollectiveKind::all_to_all)
    text += "(axis " + std::to_string(move.split_axis) + " to " + std::to_string(move.axis) + ")";
  const std::string others = more == 0 ? "" : " and " + std::to_string(more) + " more";
  return text + " of " + value_text(plan, value) + others + " over '" + names_text(axis_of(move, plan.mesh)) + "'";
}
inline std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

/// Walks a plan in the order in which it runs.
class PlanWalk {
 public:
  explicit PlanWalk(const PartitionPlan& plan) : plan_(plan) {}
  virtual ~PlanWalk() = default;
  PlanWalk(const PlanWalk&) = delete;
  PlanWalk& operator=(const PlanWalk&) = delete;
  void walk();

 protected:
  virtual void see_node(std::int32_t id, const NodeWork& work) = 0;
  /// `sent`: bytes, by each rank; `more`: values that are moved with it.
  virtual void see_move(Value value, const Move& move, std::int64_t sent, std::size_t more) = 0;
  const PartitionPlan& plan_;
  const Node* reader_ = nullptr;  // of the value that is moved; null: it is a result

 private:
  void walk_moves(Value value, const Shares& to);
  void walk_joined(const std::vector<std::size_t>& outputs);
  std::int64_t sent_by(Value value, const Move& move, const Shares& from) const;
  NodeWork work_of_part(std::int32_t id) const;
  std::set<std::pair<Value, Shares>> moved_{};
};

inline std::int64_t PlanWalk::sent_by(Value value, const Move& move, const Shares& from) const {
  if (is_local(move.kind)) return 0;
  const int size = plan_.mesh.size(axis_of(move, plan_.mesh));
  const Type& type = plan_.graph.type(value);
  const Shape part = part_of_shape(type.shape, from, plan_.mesh);
  double bytes = static_cast<double>(plan_.graph.estimate_elements(part) * size_of(type.dtype));
  const Share before = from[move.mesh_axes[0]];
  if (is_part(before)) bytes *= size;
  return static_cast<std::int64_t>(sent_bytes(bytes, before, share_after(move), size) + 0.5);
}

inline void PlanWalk::walk_moves(Value value, const Shares& to) {
  if (plan_.of(value) == to || !moved_.emplace(value, to).second) return;
  Shares now = plan_.of(value);
  for (const Move& move : moves_between(now, to)) {
    see_move(value, move, sent_by(value, move, now), 0);
    for (const std::size_t axis : move.mesh_axes) now[axis] = share_after(move);
  }
}

inline void PlanWalk::walk_joined(const std::vector<std::size_t>& outputs) {
  const Value first = plan_.graph.outputs()[outputs[0]];
  const Move move = moves_between(plan_.of(first), plan_.outputs[outputs[0]])[0];
  std::int64_t sent = 0;
  for (const std::size_t i : outputs) {
    const Value value = plan_.graph.outputs()[i];
    sent += sent_by(value, move, plan_.of(value));
    moved_.emplace(value, plan_.outputs[i]);
  }
  see_move(first, move, sent, outputs.size() - 1);
}

inline NodeWork PlanWalk::work_of_part(std::int32_t id) const {
  const Node& node = plan_.graph.node(id);
  const NodeShares& shares = plan_.nodes[as_index(id)];
  NodeOnAxis on{plan_.graph, node, {}, {}, 1};
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    on.in.push_back(part_of_shape(plan_.graph.type(node.inputs[i]).shape, shares.in[i], plan_.mesh));
  for (std::size_t i = 0; i < node.types.size(); ++i)
    on.out.push_back(part_of_shape(node.types[i].shape, shares.out[i], plan_.mesh));
  return work_of(plan_.graph, on);
}

inline void PlanWalk::walk() {
  for (std::size_t id = 0; id < plan_.nodes.size(); ++id) {
    const Node& node = plan_.graph.nodes()[id];
    reader_ = &node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) walk_moves(node.inputs[i], plan_.nodes[id].in[i]);
    see_node(static_cast<std::int32_t>(id), work_of_part(static_cast<std::int32_t>(id)));
  }
  reader_ = nullptr;
  for (const std::vector<std::size_t>& outputs : joined_outputs(plan_)) walk_joined(outputs);
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) walk_moves(plan_.graph.outputs()[i], plan_.outputs[i]);
}

SINTER_DECL double seconds_of(const PartitionPlan& plan, const MachineCosts& costs) {
  struct Sum final : PlanWalk {
    Sum(const PartitionPlan& of, const MachineCosts& with) : PlanWalk(of), costs_(with) {}
    void see_node(std::int32_t, const NodeWork& work) override { seconds += work.seconds(costs_); }
    void see_move(Value, const Move& move, std::int64_t sent, std::size_t) override {
      if (!is_local(move.kind)) seconds += (static_cast<double>(sent) + 64) / costs_.link_bytes_per_second;
    }
    double seconds = 0;
    const MachineCosts& costs_;
  } sum(plan, costs);
  sum.walk();
  return sum.seconds;
}

class ReportWriter final : public PlanWalk {
 public:
  ReportWriter(const PartitionPlan& plan, const MachineCosts& costs) : PlanWalk(plan), costs_(costs) {}
  PartitionReport write();

 private:
  void see_node(std::int32_t id, const NodeWork& work) override;
  void see_move(Value value, const Move& move, std::int64_t sent, std::size_t more) override;

  const MachineCosts& costs_;
  PartitionReport report_{};
};

inline void ReportWriter::see_move(Value value, const Move& move, std::int64_t sent, std::size_t more) {
  std::string text = move_text(plan_, move, value, more);
  if (is_local(move.kind)) {
    report_.text += "    " + text + "\n";
    return;
  }
  report_.bytes += sent;
  report_.link_seconds += costs_.link_seconds + static_cast<double>(sent) / costs_.link_bytes_per_second;
  const std::string axis = names_text(axis_of(move, plan_.mesh));
  const auto link = std::find_if(report_.links.begin(), report_.links.end(),
                                 [&](const PartitionReport::Link& known) { return known.axis == axis; });
  if (link == report_.links.end()) report_.links.push_back({axis, sent});
  else link->bytes += sent;
  report_.text += "    " + text + ": " + std::to_string(sent) + " bytes\n";
  report_.collectives.push_back({std::move(text), sent, plan_.graph.node(value).where});
}

inline void ReportWriter::see_node(std::int32_t id, const NodeWork& work) {
  const Node& node = plan_.graph.node(id);
  for (std::size_t i = 0; i < node.types.size(); ++i)
    report_.text += "  " + value_text(plan_, {id, static_cast<std::int32_t>(i)}) + " = " + std::string(node.op->name) +
                    "  " + text_of(plan_.nodes[as_index(id)].out[i], plan_.mesh) + line_text(node.where) + "\n";
  report_.work_seconds += work.seconds(costs_);
}

inline PartitionReport ReportWriter::write() {
  report_.text = "partition over the mesh " + plan_.mesh.text() + "\n";
  walk();
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
    report_.text += "  result " + std::to_string(i) + ": %" + std::to_string(plan_.graph.outputs()[i].node) + "  " +
                    text_of(plan_.outputs[i], plan_.mesh) + "\n";
  const std::size_t count = report_.collectives.size();
  report_.text += std::to_string(count) + (count == 1 ? " collective, " : " collectives, ") +
                  std::to_string(report_.bytes) + " bytes from each rank";
  for (const PartitionReport::Link& link : report_.links)
    report_.text += ", over '" + link.axis + "' " + std::to_string(link.bytes);
  report_.text += "\npredicted: " + microseconds(report_.work_seconds) + " of work, " +
                  microseconds(report_.link_seconds) + " of communication\n";
  return std::move(report_);
}

SINTER_DECL PartitionReport report_of(const PartitionPlan& plan, const MachineCosts& costs) {
  return ReportWriter(plan, costs).write();
}

SINTER_DECL void log_plan(const PartitionPlan& plan) {
  if (!is_logged("dist", LogLevel::info)) return;
  struct Log final : PlanWalk {
    using PlanWalk::PlanWalk;
    void see_node(std::int32_t, const NodeWork&) override {}
    void see_move(Value value, const Move& move, std::int64_t, std::size_t more) override {
      if (is_local(move.kind)) return;
      const Node& at = reader_ != nullptr ? *reader_ : plan_.graph.node(value);
      const std::string why =
          reader_ == nullptr ? "a result"
                             : std::string(at.op->name) + (has_partition_rule(*at.op) ? "" : ", which takes no parts");
      note("dist", LogLevel::info,
           "partition: " + move_text(plan_, move, value, more) + " for " + why + line_text(at.where));
    }
  };
  Log(plan).walk();
}

}  // namespace partition_detail

}  // namespace dist
SINTER_NAMESPACE_END
