// The trace that every transform of functions shares: the function runs on placeholders, what it recorded is captured
// as a graph, the transform rewrites the graph, and the result is recorded again on the real operands in the enclosing
// trace, or lazily. Knows no transform.
#pragma once

#include <sinter/autodiff/trace.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/pending_node.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

/// A function as a graph, and what it is called with.
struct TracedCall {
  Graph graph;                            // outputs: results, then the values assigned to Variables
  std::vector<Ref<TensorImpl>> operands;  // of the graph's inputs; the parameters come first
  std::size_t parameters = 0, results = 0;
  std::vector<std::shared_ptr<VariableSlot>> assigned;
};

/// Parameters are placeholders; assignments to Variables inside are handed to the outside after the replay.
class TransformTrace : public Trace {
 public:
  explicit TransformTrace(std::string_view name) : Trace(name) {}
  /// Stands for `value`, seen as one of type `type`.
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value, const Type& type);
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value) { return parameter(value, value->type); }
  /// What reading the Variable gives from here on.
  Ref<TensorImpl> variable_parameter(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value,
                                     const Type& type);
  /// The Variable's value in the enclosing trace, or now.
  Ref<TensorImpl> read_outside(const std::shared_ptr<VariableSlot>& slot) const;
  std::size_t parameters() const { return placeholders_.size(); }
  const Ref<TensorImpl>& parameter_value(std::size_t i) const { return values_[i]; }

  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;
  /// Computed outside, from the values behind the parameters: the transform is that of the side taken. Refused where a
  /// parameter stands for many values (vmap).
  std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) override;
  /// In the enclosing trace, or now; refused where an operand belongs to this trace, for the function has no
  /// derivative.
  EagerResults call_eagerly(const std::shared_ptr<const EagerCall>& call,
                            std::span<const Ref<TensorImpl>> operands) override;

  /// Captures what gives `results`, and ends the trace.
  static TracedCall end(OpenTrace trace, std::span<const Ref<TensorImpl>> results);

 private:
  std::vector<Ref<TensorImpl>> placeholders_, values_;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Ref<TensorImpl>>> read_, assigned_;
  std::unordered_map<const TensorImpl*, std::pair<Ref<TensorImpl>, Ref<TensorImpl>>>
      outside_;  // read before: itself, and the same outside
};

/// Records `graph` on the call's operands and `more`, and hands out what Variables were assigned.
std::vector<Ref<TensorImpl>> replay_call(const TracedCall& call, const Graph& graph,
                                         std::span<const Ref<TensorImpl>> more = {});
/// `value` as a derivative of something of type `type`: the shape is checked, the dtype made equal.
Ref<TensorImpl> checked_derivative(Ref<TensorImpl> value, const Type& type, std::string_view op,
                                   const std::string& what, Location where);
/// Gives a Variable its value after a replay: in the enclosing trace, or now.
void assign_outside(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value);

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
