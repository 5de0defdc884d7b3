// Traces, plans, and records a rank's program: each operation on the shares that the plan chose, and the collectives
// between them.
#pragma once

#include <sinter/dist/partition.hpp>

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/dist/laid_out.hpp>
#include <sinter/dist/partition_gradient.hpp>
#include <sinter/dist/partition_plan.hpp>
#include <sinter/dist/partition_rules.hpp>
#include <sinter/dist/partition_search.hpp>
#include <sinter/dist/rank_state.hpp>
#include <sinter/dist/uneven.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

SINTER_DECL void check_rank_of(const Mesh& mesh, Location where) {
  const dist_detail::RankState& state = dist_detail::current_rank();
  if (state.size() != mesh.size())
    throw UserError("partition",
                    "the mesh " + mesh.text() + " has " + std::to_string(mesh.size()) + " ranks, the program " +
                        std::to_string(state.size()),
                    where, "call it on each rank of dist::run(mesh, ...)");
  if (partitioned_mesh() != nullptr)
    throw UserError("partition", "a partitioned function is called in another one", where,
                    "call the function itself: it is divided with what is around it");
}

/// Records the operations of one rank.
class PartRecorder {
 public:
  PartRecorder(const PartitionPlan& plan, std::span<const Ref<TensorImpl>> operands)
      : plan_(plan), operands_(operands), values_(plan.nodes.size()) {}
  std::vector<Ref<TensorImpl>> run();

 private:
  void record(std::size_t id);
  const Ref<TensorImpl>& laid_out(Value value, const Shares& to, Location where);
  Tensor moved(const In& x, const Move& move, const Shape& whole, Shares& now) const;
  Tensor moved_parts(const In& x, const Move& move, const Axis& over, const Shape& now) const;
  static Tensor reduced(const In& x, const Move& move, const Axis& over);
  void sum_together(const std::vector<std::size_t>& outputs);

  const PartitionPlan& plan_;
  std::span<const Ref<TensorImpl>> operands_;
  std::vector<std::vector<Ref<TensorImpl>>> values_;              // by node and result, as the plan lays them out
  std::map<std::pair<Value, Shares>, Ref<TensorImpl>> others_{};  // the same in other layouts
};

/// NCCL has no numbers of 8 and 16 bits but u8, i8, f16 and bf16, and its extrema pass NaN over: what is NaN on a rank
/// is counted beside them.
inline Tensor PartRecorder::reduced(const In& x, const Move& move, const Axis& over) {
  const auto reduce_to = [&](const Tensor& of, Reduce reduce) {
    return move.kind == CollectiveKind::all_reduce ? all_reduce(In(of, x.where), reduce, over)
                                                   : reduce_scatter(In(of, x.where), move.axis, reduce, over);
  };
  const Tensor value(x.tensor());
  call_context().use(ContextKey::ranks);
  const auto& engine = dist_detail::current_rank().engine;
  if (engine == nullptr || !engine->takes_device_memory() || value.device() == Device::cpu())
    return reduce_to(value, move.reduce);
  const DType dtype = value.dtype();
  if (row(dtype).nccl < 0) {
    const Tensor wide = sinter::cast(In(value, x.where), computed_in(dtype));
    return sinter::cast(In(reduced(In(wide, x.where), move, over), x.where), dtype);
  }
  const Tensor sum_or_extreme = reduce_to(value, move.reduce);
  if (!is_floating(dtype) || move.reduce == Reduce::sum) return sum_or_extreme;
  const Tensor has_nan = reduce_to(sinter::cast(In(Tensor(value != value), x.where), DType::i32), Reduce::maximum);
  return where(has_nan > 0, std::numeric_limits<double>::quiet_NaN(), sum_or_extreme);
}

/// `together`: what the ranks of the group have of the value without being divided over it.
inline Tensor PartRecorder::moved_parts(const In& x, const Move& move, const Axis& over, const Shape& together) const {
  const auto extent_of = [&](int axis) -> std::int64_t {  // 0: all have equal parts
    const Dim extent = together[axis];
    if (!extent.is_static() || extent.value() % plan_.mesh.size(over) == 0) return 0;
    return extent.value();
  };
  switch (move.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: return reduced(x, move, over);
    case CollectiveKind::all_gather: return all_gather(x, move.axis, over, extent_of(move.axis));
    case CollectiveKind::all_to_all:
      if (extent_of(move.axis) == 0 && extent_of(move.split_axis) == 0)
        return all_to_all(x, move.split_axis, move.axis, over);
      return dist_detail::exchange_uneven(x, move.split_axis, move.axis, over, together[move.axis].value());
    default: return shard(x, {move.axis, over});
  }
}

/// One step of a value whose shares are `now`.
inline Tensor PartRecorder::moved(const In& x, const Move& move, const Shape& whole_shape, Shares& now) const {
  Shares together = now;
  for (const std::size_t axis : move.mesh_axes) together[axis] = whole;
  Tensor made = moved_parts(x, move, axis_of(move, plan_.mesh), own_part_of_shape(whole_shape, together, plan_.mesh));
  for (const std::size_t axis : move.mesh_axes) now[axis] = share_after(move);
  return made;
}

inline const Ref<TensorImpl>& PartRecorder::laid_out(Value value, const Shares& to, Location where) {
  const Ref<TensorImpl>& own = values_[as_index(value.node)][as_index(value.result)];
  if (plan_.of(value) == to) return own;
  Ref<TensorImpl>& known = others_[{value, to}];
  if (known) return known;
  Tensor now(own);
  Shares shares = plan_.of(value);
  for (const Move& move : moves_between(plan_.of(value), to))
    now = moved(In(now, where), move, plan_.graph.type(value).shape, shares);
  return known = now.impl();
}

/// What is made for a rank's part lies end to end, and is taken apart.
inline std::vector<Ref<TensorImpl>> attention_gradients(std::vector<Leaf>& leaves, const Attrs& attrs, Location where) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < 3; ++i) shapes.push_back(leaves[i].value->type.shape);
  const Tensor packed(record_op(op_info<ops::ScaledDotProductAttentionGradient>, leaves, attrs, where));
  std::vector<Ref<TensorImpl>> gradients;
  Dim next = 0;
  for (const Shape& shape : shapes) {
    const Dim end = next + shape.numel();
    gradients.push_back(sinter::reshape(In(packed(slice(next, end)), where), shape).impl());
    next = end;
  }
  return gradients;
}

inline void PartRecorder::record(std::size_t id) {
  const Node& node = plan_.graph.nodes()[id];
  const NodeShares& shares = plan_.nodes[id];
  std::vector<Ref<TensorImpl>>& results = values_[id];
  if (node.op == &op_info<ops::Input>) return results.push_back(operands_[as_index(node.attrs[input_position])]);
  if (node.op == &op_info<ops::Constant>) return results.push_back(node.attrs.constant);
  const bool is_effect = node.op->kind == OpKind::effect;
  std::vector<Leaf> leaves;
  std::vector<Shape> in;
  for (std::size_t i = 0; i + is_effect < node.inputs.size(); ++i) {
    const Ref<TensorImpl>& operand = laid_out(node.inputs[i], shares.in[i], node.where);
    in.push_back(operand->type.shape);
    leaves.emplace_back(operand);
  }
  if (node.op == &op_info<ops::LaidOut>) return results.push_back(laid_out(node.inputs[0], shares.in[0], node.where));
  if (is_effect) {
    results = record_effect(*node.op, leaves, node.attrs, node.where);
    return;
  }
  if (node.op == &op_info<ops::AttentionGradients>) {
    results = attention_gradients(leaves, node.attrs, node.where);
    return;
  }
  if (node.types.size() > 1) {
    results = record_shared_results(*node.op, leaves, node.shared_attrs(), node.where);
    return;
  }
  const Shape out = own_part_of_shape(node.types[0].shape, shares.out[0], plan_.mesh);
  const bool is_divided = std::any_of(shares.out[0].begin(), shares.out[0].end(), is_part);
  results.push_back(record_shared(
      *node.op, leaves, is_divided ? SharedAttrs(attributes_of_part(node, in, out)) : node.shared_attrs(), node.where));
  ensure(results[0]->type.shape.rank() == out.rank(), "a part has another rank than its whole");
  for (int i = 0; i < out.rank(); ++i)
    ensure(
        !out[i].is_static() || !results[0]->type.shape[i].is_static() || identical(out[i], results[0]->type.shape[i]),
        "a part has another shape than its whole gives");
}

/// One all_reduce of outputs that are laid end to end. Each element is the same sum as alone.
inline void PartRecorder::sum_together(const std::vector<std::size_t>& outputs) {
  std::vector<Tensor> rows;
  Location where;
  for (const std::size_t i : outputs) {
    const Value value = plan_.graph.outputs()[i];
    where = plan_.graph.node(value).where;
    const Tensor own(values_[as_index(value.node)][as_index(value.result)]);
    rows.push_back(sinter::reshape(In(own, where), Shape{own.numel()}));
  }
  const Value first = plan_.graph.outputs()[outputs[0]];
  const Move move = moves_between(plan_.of(first), plan_.outputs[outputs[0]])[0];
  const Tensor sum =
      reduced(In(concat(std::span<const Tensor>(rows), 0, where), where), move, axis_of(move, plan_.mesh));
  Dim next = 0;
  for (const std::size_t i : outputs) {
    const Value value = plan_.graph.outputs()[i];
    const Shape shape = values_[as_index(value.node)][as_index(value.result)]->type.shape;
    const Dim end = next + shape.numel();
    others_[{value, plan_.outputs[i]}] = sinter::reshape(In(sum(slice(next, end)), where), shape).impl();
    next = end;
  }
}

inline std::vector<Ref<TensorImpl>> PartRecorder::run() {
  for (std::size_t id = 0; id < values_.size(); ++id) record(id);
  for (const std::vector<std::size_t>& group : joined_outputs(plan_)) sum_together(group);
  std::vector<Ref<TensorImpl>> outputs;
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const Value value = plan_.graph.outputs()[i];
    outputs.push_back(laid_out(value, plan_.outputs[i], plan_.graph.node(value).where));
  }
  return outputs;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_parts(const PartitionPlan& plan,
                                                      std::span<const Ref<TensorImpl>> operands, Location where) {
  std::vector<Ref<TensorImpl>> parts;  // whose gradients go another way
  for (const Ref<TensorImpl>& operand : operands) parts.push_back(without_gradient(operand, where));
  return PartRecorder(plan, parts).run();
}

// ---- a call ---------------------------------------------------------------------------------------------------------

/// Throws where the layouts, one for each argument or result, are of something without Tensors, or might be meant for
/// each Tensor.
inline void check_layout_of_each(const std::vector<Layout>& layouts, const std::vector<std::size_t>& counts,
                                 std::size_t total, const char* what, Location where) {
  const auto differs = [&](const Layout& layout) {
    return !std::equal(layout.placements.begin(), layout.placements.end(), layouts[0].placements.begin(),
                       layouts[0].placements.end(), [](const Placement& a, const Placement& b) {
                         return a.axis == b.axis && a.over.names == b.over.names && a.extent == b.extent;
                       });
  };
  const bool has_one_each = std::all_of(counts.begin(), counts.end(), [](std::size_t count) { return count == 1; });
  if (!has_one_each && layouts.size() == total && std::any_of(layouts.begin(), layouts.end(), differs))
    throw UserError("partition",
                    "ambiguous: " + std::to_string(total) + " layouts for " + std::to_string(total) + " " + what +
                        " with " + std::to_string(total) + " tensors, one for each of which is not clear",
                    where, "make each tensor an argument or a result of its own, or capture what has none");
  for (std::size_t part = 0; part < counts.size(); ++part)
    if (counts[part] == 0 && !layouts[part].placements.empty())
      throw UserError("partition",
                      "number " + std::to_string(part) + " of the " + what + " has a layout, but no tensors", where,
                      "give it {}: Variables and numbers are whole on all ranks");
}

/// The layout of each of so many tensors, which are in parts; null: no layouts were given.
inline std::vector<const Layout*> layout_of_each(const std::vector<Layout>& layouts,
                                                 const std::vector<std::size_t>& counts, const char* what,
                                                 Location where) {
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  std::vector<const Layout*> each(total, nullptr);
  if (layouts.empty()) return each;
  if (layouts.size() == counts.size()) {
    check_layout_of_each(layouts, counts, total, what, where);
    std::size_t at = 0;
    for (std::size_t part = 0; part < counts.size(); ++part)
      for (std::size_t i = 0; i < counts[part]; ++i) each[at++] = &layouts[part];
    return each;
  }
  if (layouts.size() != total)
    throw UserError("partition",
                    std::to_string(layouts.size()) + " layouts for " + std::to_string(counts.size()) + " " + what +
                        " with " + std::to_string(total) + " tensors",
                    where, "give one for each, or one for each tensor; {} is a tensor that every rank has");
  for (std::size_t i = 0; i < total; ++i) each[i] = &layouts[i];
  return each;
}

struct PartitionedCall::State {
  State(const Mesh& on, const PartitionOptions& with, Location line)
      : mesh(on), options(with), where(line), scope(on), trace(OpenTrace("partition")) {}
  using OpenTrace = jit::autodiff_detail::OpenTrace;
  using TracedCall = jit::autodiff_detail::TracedCall;

  Shares whole_shares() const { return Shares(mesh.axes().size(), whole); }
  void set_extent(Type& type, const Type& part, const Shares& shares, const Placement& placement) const;
  Ref<TensorImpl> placeholder(const Ref<TensorImpl>& part, const Layout& layout);
  TracedCall end(std::span<const Ref<TensorImpl>> results);
  std::vector<Shares> outputs(const TracedCall& call, const std::vector<std::size_t>& counts) const;
  DividedFunction divided(const TracedCall& call, const std::vector<std::size_t>& counts) const;

  Mesh mesh;
  const PartitionOptions& options;
  Location where;
  std::optional<PartitionScope> scope;
  std::optional<OpenTrace> trace;
  std::vector<Shares> inputs{};  // of the placeholders
};

/// The whole has the extent that the layout says; the part must be this rank's.
inline void PartitionedCall::State::set_extent(Type& type, const Type& part, const Shares& shares,
                                               const Placement& placement) const {
  if (placement.extent == 0) return;
  const int axis = normalise_axis(placement.axis, type.shape.rank(), "partition", where);
  type.shape.set(axis, placement.extent);
  const Dim own = own_part_of_shape(type.shape, shares, mesh)[axis];
  if (part.shape[axis] == own) return;
  throw ShapeError("partition",
                   "an argument is " + part.text() + " on rank " + std::to_string(rank_in(mesh)) +
                       ", where its layout has " + std::to_string(own.value()) + " of " +
                       std::to_string(placement.extent) + " along axis " + std::to_string(axis),
                   where, "dist::shard makes such parts: they differ by one at most, the first are larger");
}

inline Ref<TensorImpl> PartitionedCall::State::placeholder(const Ref<TensorImpl>& part, const Layout& layout) {
  Type type = part->type;
  Shares shares = shares_of(layout, mesh, type.shape.rank(), whole, "partition", where);
  if (shares == whole_shares()) return part;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (is_part(shares[i])) type.shape.set(shares[i], type.shape[shares[i]] * Dim(mesh.axes()[i].size));
  for (const Placement& placement : layout.placements) set_extent(type, part->type, shares, placement);
  inputs.push_back(std::move(shares));
  return (*trace)->parameter(part, type);
}

inline PartitionedCall::State::TracedCall PartitionedCall::State::end(std::span<const Ref<TensorImpl>> results) {
  TracedCall call = jit::autodiff_detail::TransformTrace::end(*std::exchange(trace, std::nullopt), results);
  scope.reset();
  return call;
}

/// How the outputs of the graph must lie. Throws where the layouts of the results are not of them.
inline std::vector<Shares> PartitionedCall::State::outputs(const TracedCall& call,
                                                           const std::vector<std::size_t>& counts) const {
  std::vector<Shares> out;
  const auto layouts = layout_of_each(options.outputs, counts, "results", where);
  for (std::size_t i = 0; i < call.graph.outputs().size(); ++i) {
    const Type& type = call.graph.type(call.graph.outputs()[i]);
    const bool has_layout = i < layouts.size() && layouts[i] != nullptr;  // values of Variables are whole
    out.push_back(has_layout ? shares_of(*layouts[i], mesh, type.shape.rank(), whole, "partition", where)
                             : whole_shares());
    check_parts(type, out.back(), mesh, "partition", where);
  }
  return out;
}

inline DividedFunction PartitionedCall::State::divided(const TracedCall& call,
                                                       const std::vector<std::size_t>& counts) const {
  DividedFunction function{call.graph, mesh, inputs, outputs(call, counts), options.costs, where};
  function.inputs.resize(call.operands.size(), whole_shares());
  return function;
}

SINTER_DECL PartitionedCall::PartitionedCall(const Mesh& mesh, const PartitionOptions& options, Location where)
    : state_(std::make_unique<State>(mesh, options, where)) {}
SINTER_DECL PartitionedCall::~PartitionedCall() = default;

SINTER_DECL void PartitionedCall::open(const std::vector<tree::Part>& arguments) {
  struct Opener final : tree::Editor {
    explicit Opener(State& of) : state(of) {}
    State& state;
    const std::vector<const Layout*>* layouts = nullptr;  // null: tensors are counted
    std::size_t tensors = 0;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      const std::size_t at = tensors++;
      if (layouts != nullptr && (*layouts)[at] != nullptr) x = Tensor(state.placeholder(x.impl(), *(*layouts)[at]));
    }
    void scalar(Scalar&) override {}
    void variable(const Variable&) override {}
  } opener(*state_);
  std::vector<std::size_t> counts;
  for (const tree::Part& argument : arguments) {
    const std::size_t before = opener.tensors;
    argument.edit(opener);
    counts.push_back(opener.tensors - before);
  }
  const auto layouts = layout_of_each(state_->options.inputs, counts, "arguments", state_->where);
  opener.layouts = &layouts;
  opener.tensors = 0;
  for (const tree::Part& argument : arguments) argument.edit(opener);
}

SINTER_DECL std::vector<Ref<TensorImpl>> PartitionedCall::run(const std::vector<Ref<TensorImpl>>& results,
                                                              const std::vector<std::size_t>& counts) {
  const State::TracedCall call = state_->end(results);
  std::vector<Ref<TensorImpl>> values;
  if (state_->mesh.size() == 1) {
    static_cast<void>(state_->outputs(call, counts));  // a mistake in them is one on every mesh
    values = jit::autodiff_detail::replay_call(call, call.graph);
  } else {
    values = record_divided(state_->divided(call, counts), call.operands);
    for (std::size_t i = 0; i < call.assigned.size(); ++i)
      jit::autodiff_detail::assign_outside(call.assigned[i], values[call.results + i]);
  }
  values.resize(call.results);
  return values;
}

SINTER_DECL PartitionReport PartitionedCall::explain(const std::vector<Ref<TensorImpl>>& results,
                                                     const std::vector<std::size_t>& counts) {
  const State::TracedCall call = state_->end(results);
  const DividedFunction function = state_->divided(call, counts);
  const PartitionPlan plan = plan_partition(prepare_partition(function.graph), function.mesh, function.inputs,
                                            function.outputs, function.costs);
  return report_of(plan, function.costs);
}

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
