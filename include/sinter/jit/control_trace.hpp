// The untyped half of control flow: the trace of a body, what it captured, and the records of the nodes. The typed half
// (control.hpp) only takes values apart and puts results together.
#pragma once

#include <sinter/expr/capture.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/graph/record.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::control_detail {

/// The leaves of what a user's function takes or gives.
struct BodyValues {
  std::vector<Ref<TensorImpl>> values;
  std::vector<std::int64_t> fixed;   // static parts: sizes of containers, integers, enums
};

/// A run-time number as a value: f64, i64 or bool of shape (), weak.
Ref<TensorImpl> scalar_value(const Scalar& x);

/// A body that was traced: what it gives, in terms of its stand-ins and of values outside it.
struct TracedBody {
  std::uint64_t trace = 0;
  std::vector<Ref<TensorImpl>> parameters;
  BodyValues results;
  Ref<TensorImpl> last_effect;
};

/// The trace of one body. Variables are read as operands of the node; assigning one is an error.
class BodyTrace : public Trace {
 public:
  BodyTrace(std::string_view op, Location where) : Trace(op), where_(where) {}
  /// Stands for `value`, or for a slice of it along its first axis.
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value, bool is_slice);
  TracedBody finish(BodyValues results) const { return {id(), parameters_, std::move(results), last_effect()}; }

  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;

 private:
  Location where_;
  std::vector<Ref<TensorImpl>> parameters_;
};

/// switch_ and cond: the results of the branch that `index` picks.
std::vector<Ref<TensorImpl>> record_switch(std::string_view op, const In& index, std::vector<TracedBody> branches, std::span<const Ref<TensorImpl>> args);
/// The carries at the end. `condition` gives one value.
std::vector<Ref<TensorImpl>> record_while(Location where, TracedBody condition, TracedBody body, const BodyValues& init);

struct ScanRecord {
  Dim length;
  bool is_reversed = false;
};
/// Carries at the end, then the stacked ys.
std::vector<Ref<TensorImpl>> record_scan(std::string_view op, Location where, TracedBody body, const BodyValues& init, std::span<const Ref<TensorImpl>> xs, const ScanRecord& scan);
/// The common length of the first axes. Throws ShapeError where they differ or there is none.
Dim scan_length(std::span<const Ref<TensorImpl>> xs, std::int64_t given, Location where);
/// Turns of a loop with these bounds. Throws UserError for a negative number.
Dim trip_count(Dim lower, Dim upper, Location where);

/// Throws unless a body gave the carries back in the structure of the first ones.
void check_carry_structure(std::string_view op, const BodyValues& given, const BodyValues& init, Location where);
/// A condition that a body gave, as a value. Throws unless it is one bool.
Ref<TensorImpl> condition_value(std::string_view op, const In& condition, Location where);

}  // namespace jit::control_detail
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/jit/control_trace.ipp>
#endif
