// The untyped half of control flow: the trace of a body, what it captured, and the pending nodes it gives. The typed
// half (control.hpp) only takes values apart and puts results together.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::control_detail {

/// The leaves of what a user's function takes or gives.
struct BodyValues {
  std::vector<Ref<TensorImpl>> values;
  std::vector<std::int64_t> fixed;  // static parts: sizes of containers, integers, enums
};

/// A run-time number as a value: f64, i64 or bool of shape (), weak.
Ref<TensorImpl> scalar_value(const Scalar& x);

/// A body that was traced: what it gives, in terms of its placeholders and of values outside it.
struct TracedBody {
  std::uint64_t trace = 0;
  std::vector<Ref<TensorImpl>> parameters;
  BodyValues results;
  Ref<TensorImpl> last_effect;
};
/// Those of a node with any number of them.
class TracedBodies {
 public:
  TracedBodies();
  TracedBodies(TracedBodies&&) noexcept;
  ~TracedBodies();
  void clear();
  void add(TracedBody body);
  const std::vector<TracedBody>& list() const { return list_; }

 private:
  std::vector<TracedBody> list_;
};

/// Variables that the bodies of a node assign: they become carries (of a branch: operands and results) after those of
/// the user. Which ones is known only when a body was traced, so bodies are traced again until none is new.
struct AssignedVariables {
  std::vector<std::shared_ptr<VariableSlot>> slots;
  /// Their values now, in the enclosing trace.
  std::vector<Ref<TensorImpl>> values() const;
  /// Gives them their new values, outside.
  void assign(std::span<const Ref<TensorImpl>> values) const;
};

class BodyTrace;
/// The trace of one body, while it is open. Variables that it only reads are operands of the node.
class OpenBody {
 public:
  OpenBody(std::string_view op, Location where, AssignedVariables& assigned);
  OpenBody(const OpenBody&) = delete;
  OpenBody& operator=(const OpenBody&) = delete;
  ~OpenBody();
  /// Replaces the leaves of a value, or of the values that it is a slice of along their first axes, by placeholders.
  void insert_placeholders(tree::Part part, bool is_slice = false);
  /// Placeholders for the Variables known to be assigned, at this place among the parameters.
  void add_variables();
  /// The traced body; the new values of Variables come after the first `before` results.
  TracedBody finish(BodyValues results, std::size_t before) const;
  /// The traced condition of a loop, which must not assign Variables.
  TracedBody finish_condition(const In& outcome) const;

 private:
  BodyTrace* trace_;
};
BodyValues values_of_leaves(tree::View value);
/// Puts results into the leaves; `values` is moved after the last of them.
void fill_leaves(tree::Part part, const Ref<TensorImpl>*& values);

/// Traces the bodies of a node until no Variable is assigned that was not one of `assigned` before.
template <class Trace>
void trace_until_settled(AssignedVariables& assigned, const Trace& trace) {
  for (std::size_t known = ~std::size_t{0}; known != assigned.slots.size();) {
    known = assigned.slots.size();
    trace();
  }
}

/// switch_ and cond: the results of the branch that `index` picks.
std::vector<Ref<TensorImpl>> record_switch(std::string_view op, const In& index, const TracedBodies& branches,
                                           const BodyValues& args, const AssignedVariables& assigned);
/// The carries at the end. `condition` gives one value.
std::vector<Ref<TensorImpl>> record_while(Location where, TracedBody condition, TracedBody body, BodyValues init,
                                          const AssignedVariables& assigned);

struct ScanSpec {
  Dim length;
  bool is_reversed = false;
};
/// Carries at the end, then the stacked ys.
std::vector<Ref<TensorImpl>> record_scan(std::string_view op, Location where, TracedBody body, BodyValues init,
                                         const BodyValues& xs, const ScanSpec& scan, const AssignedVariables& assigned);
/// The common length of the first axes. Throws ShapeError where they differ or there is none.
Dim scan_length(std::span<const Ref<TensorImpl>> xs, std::int64_t given, Location where);
/// Iterations of a loop with these bounds. Throws UserError for a negative number.
Dim trip_count(Dim lower, Dim upper, Location where);

/// Throws unless a body gave the carries back in the structure of the first ones.
void check_carry_structure(std::string_view op, const BodyValues& given, const BodyValues& init, Location where);
/// A condition that a body gave, as a value. Throws unless it is one bool.
Ref<TensorImpl> condition_value(std::string_view op, const In& condition, Location where);

}  // namespace jit::control_detail
SINTER_NAMESPACE_END
