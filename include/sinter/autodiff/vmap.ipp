// The untyped half of vmap: axes are checked and moved to the front, the graph is vectorised and recorded again.
#pragma once

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/autodiff/vectorise.hpp>
#include <sinter/autodiff/vmap.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/passes/dce.hpp>

#include <optional>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL LeafAxes::LeafAxes(int axis) : axes_{axis} {}
SINTER_DECL LeafAxes::LeafAxes(std::initializer_list<int> axes) : axes_(axes.begin(), axes.end()), is_list_(true) {}
SINTER_DECL MappedAxes::MappedAxes(int axis) : axes_{axis} {}
SINTER_DECL MappedAxes::MappedAxes(std::initializer_list<int> axes) : axes_(axes.begin(), axes.end()), is_list_(true) {}
SINTER_DECL MappedAxes::MappedAxes(std::initializer_list<LeafAxes> axes) : axes_(axes), is_list_(true) {}
SINTER_DECL MappedAxes::MappedAxes(std::vector<LeafAxes> axes) : axes_(std::move(axes)), is_list_(true) {}
SINTER_DECL std::size_t MappedAxes::size() const { return axes_.size(); }
SINTER_DECL const LeafAxes& MappedAxes::operator[](std::size_t i) const { return is_list_ ? axes_[i] : axes_[0]; }
SINTER_DECL void MappedAxes::add(int axis) { axes_.emplace_back(axis); }

namespace autodiff_detail {

/// A trace in which mapped parameters have lost an axis.
class MapTrace : public TransformTrace {
 public:
  explicit MapTrace(Location where) : TransformTrace("vmap"), where_(where) {}
  /// The examples of `value` along `axis`, one of them.
  Ref<TensorImpl> example(const Ref<TensorImpl>& value, int axis, std::size_t argument);
  Ref<TensorImpl> variable_example(const std::shared_ptr<VariableSlot>& slot, int axis, std::size_t argument);
  /// Ends the trace: results with the batch at `axes` (one per result), assignments handed out.
  static std::vector<Ref<TensorImpl>> finish(OpenTrace trace, std::span<const Ref<TensorImpl>> results,
                                             const IntVector& axes);

 private:
  Type without_axis(const Ref<TensorImpl>& value, int& axis, std::size_t argument);

  Location where_;
  std::optional<Dim> size_;
  std::size_t first_mapped_ = 0;  // argument that size_ came from
  std::vector<int> axes_;         // of each parameter
  std::vector<std::pair<std::shared_ptr<VariableSlot>, int>> mapped_variables_;
};

SINTER_DECL OpenTrace open_map(Location where) { return OpenTrace(new MapTrace(where)); }

SINTER_DECL void map_argument(TransformTrace& trace, tree::Part argument, const LeafAxes& axes, std::size_t number,
                              Location where) {
  struct Map final : tree::Editor {
    Map(MapTrace& open, const LeafAxes& along, std::size_t position) : trace(open), axes(along), argument(position) {}
    MapTrace& trace;
    const LeafAxes& axes;
    std::size_t argument, leaves = 0;
    /// Of the next tensor; more of them than axes are refused when all are counted.
    int next_axis() {
      const std::size_t leaf = leaves++;
      return axes.is_list() && leaf >= axes.size() ? no_axis : axes[leaf];
    }
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      if (const int axis = next_axis(); axis != no_axis) x = Tensor(trace.example(x.impl(), axis, argument));
    }
    void scalar(Scalar&) override {}
    void variable(const Variable& x) override {
      if (const int axis = next_axis(); axis != no_axis) trace.variable_example(x.slot(), axis, argument);
    }
  } map(static_cast<MapTrace&>(trace), axes, number);
  argument.edit(map);
  check_leaf_count(axes, map.leaves, "in_axes", number, where);
}

SINTER_DECL void check_axis_count(const MappedAxes& axes, std::size_t count, std::string_view what, Location where) {
  if (axes.size() == count) return;
  const std::string_view things = what == "in_axes" ? " arguments" : " results";
  throw UserError("vmap",
                  std::string(what) + " names " + std::to_string(axes.size()) + " axes, the function has " +
                      std::to_string(count) + std::string(things),
                  where, "give one axis for each (jit::no_axis: not mapped), or one number for all");
}

SINTER_DECL void check_leaf_count(const LeafAxes& axes, std::size_t leaves, std::string_view what, std::size_t part,
                                  Location where) {
  if (!axes.is_list() || axes.size() == leaves) return;
  throw UserError("vmap",
                  std::string(what) + " names " + std::to_string(axes.size()) + " axes for the tensors of " +
                      (what == "in_axes" ? "argument " : "result ") + std::to_string(part) + ", which holds " +
                      std::to_string(leaves),
                  where, "give one axis for each tensor (jit::no_axis: not mapped), or one number for all");
}

SINTER_DECL Type MapTrace::without_axis(const Ref<TensorImpl>& value, int& axis, std::size_t argument) {
  Type type = value->type;
  const int rank = type.shape.rank();
  const std::string name = "argument " + std::to_string(argument);
  if (axis < -rank || axis >= rank)
    throw IndexError("vmap", name + " is " + type.text() + " and has no axis " + std::to_string(axis), where_,
                     rank == 0 ? "pass jit::no_axis for what is the same in all examples"
                               : "axes of it are " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
  if (axis < 0) axis += rank;
  const Dim extent = type.shape[axis];
  if (!size_) {
    size_ = extent;
    first_mapped_ = argument;
  }
  if (!(*size_ == extent))
    throw ShapeError("vmap",
                     "mapped axes differ: " + name + " is " + type.text() + " with " + extent.text() +
                         " examples along axis " + std::to_string(axis) + ", argument " +
                         std::to_string(first_mapped_) + " has " + size_->text(),
                     where_, "map axes of one extent, or pass jit::no_axis for one of them");
  type.shape.erase(axis);
  return type;
}

SINTER_DECL Ref<TensorImpl> MapTrace::example(const Ref<TensorImpl>& value, int axis, std::size_t argument) {
  const Type type = without_axis(value, axis, argument);
  axes_.push_back(axis);
  return parameter(value, type);
}

SINTER_DECL Ref<TensorImpl> MapTrace::variable_example(const std::shared_ptr<VariableSlot>& slot, int axis,
                                                       std::size_t argument) {
  const Ref<TensorImpl> value = read_outside(slot);
  const Type type = without_axis(value, axis, argument);
  axes_.push_back(axis);
  mapped_variables_.emplace_back(slot, axis);
  return variable_parameter(slot, value, type);
}

/// The result with the batch at `axis`. `what` names it in errors.
inline Value placed_batch(const Batched& result, int axis, Dim size, const std::string& what, Location where) {
  const Val x = result.value;
  if (axis == no_axis) {
    if (!result.is_batched) return x.value;
    throw UserError("vmap", what + " differs between examples, but is to have no axis for them", where,
                    "give it an axis");
  }
  const int rank = x.rank() + (result.is_batched ? 0 : 1);
  if (axis < -rank || axis >= rank)
    throw IndexError("vmap",
                     "there is no axis " + std::to_string(axis) + " for the examples: with it " + what + " has rank " +
                         std::to_string(rank),
                     where);
  const Val stacked = result.is_batched ? x : expand(x, ops_detail::batched_shape(size, x.shape()));
  return ops_detail::move_axis(stacked, 0, axis < 0 ? axis + rank : axis).value;
}

SINTER_DECL std::vector<Ref<TensorImpl>> MapTrace::finish(OpenTrace open, std::span<const Ref<TensorImpl>> results,
                                                          const IntVector& axes) {
  auto* trace = static_cast<MapTrace*>(&*open);
  const Location where = trace->where_;
  if (!trace->size_)
    throw UserError("vmap", "no argument is mapped", where, "give an axis for at least one Tensor argument");
  const Dim size = *trace->size_;
  const std::vector<int> in_axes = std::move(trace->axes_);
  const auto mapped_variables = std::move(trace->mapped_variables_);
  const TracedCall call = TransformTrace::end(std::move(open), results);
  GraphBuilder builder(call.graph);
  std::vector<Batched> inputs;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Val x{&builder, builder.input(call.operands[i]->type), where};
    if (i < call.parameters) inputs.push_back(Batched(ops_detail::move_axis(x, in_axes[i], 0), true));
    else inputs.push_back(Batched(x, false));
  }
  const std::vector<Batched> outputs = vectorise(builder, call.graph, inputs, size);
  std::vector<Value> placed;
  for (std::size_t i = 0; i < call.results; ++i)
    placed.push_back(placed_batch(outputs[i], static_cast<int>(axes[i]), size, "result " + std::to_string(i), where));
  for (std::size_t i = 0; i < call.assigned.size(); ++i) {
    int axis = no_axis;
    for (const auto& [slot, mapped] : mapped_variables)
      if (slot == call.assigned[i]) axis = mapped;
    placed.push_back(placed_batch(outputs[call.results + i], axis, size,
                                  "the value assigned to Variable '" + call.assigned[i]->name + "'", where));
  }
  std::vector<Ref<TensorImpl>> values = replay(Dce{}(builder.finish(placed)), call.operands);
  for (std::size_t i = 0; i < call.assigned.size(); ++i) assign_outside(call.assigned[i], values[call.results + i]);
  values.resize(call.results);
  return values;
}

SINTER_DECL std::vector<Ref<TensorImpl>> finish_map(OpenTrace trace, const std::vector<Ref<TensorImpl>>& results,
                                                    const IntVector& axes) {
  return MapTrace::finish(std::move(trace), results, axes);
}

}  // namespace autodiff_detail
}  // namespace jit
SINTER_NAMESPACE_END
