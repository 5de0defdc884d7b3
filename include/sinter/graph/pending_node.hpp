// PendingNode: one statement that has been written but not run. Holds the operation (or the structure of an expression)
// and its leaves; results point back at it. Pending nodes refer to values, never to Variables, so nothing here can form
// a cycle.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/graph/trace.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/leaf.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct VariableSlot;  // tensor/tensor.hpp

class PendingNode : public RefCounted<PendingNode> {
 public:
  const OpInfo* op = nullptr;                // a single operation, or
  const ExprStructure* structure = nullptr;  // a whole expression
  SharedAttrs attrs;                         // of `op`
  Location where;
  std::uint64_t trace = 0;
  std::uint16_t results = 1;
  std::uint16_t leaf_count = 0;
  std::uint32_t mark = 0;    // scratch of graph walks (under the walker's lock or inside its trace)
  bool is_off_tape = false;  // recorded under a NoGradGuard that was opened inside its trace
  bool is_spent = false;     // a compiled call whose saved values a backward() has used up; leaves are gone
  /// Results that were computed together with one that was asked for, by number; null where there is none. Under
  /// evaluation_mutex().
  std::unique_ptr<std::vector<Ref<TensorImpl>>> computed;

  bool has_computed(std::size_t result) const { return computed != nullptr && (*computed)[result]; }
  void keep_computed(std::size_t result, Ref<TensorImpl> value);

  std::span<Leaf> leaves() { return {reinterpret_cast<Leaf*>(this + 1), leaf_count}; }
  std::span<const Leaf> leaves() const { return {reinterpret_cast<const Leaf*>(this + 1), leaf_count}; }

  /// One block holds the node and its leaves, which are moved from.
  static Ref<PendingNode> make(std::span<Leaf> leaves);
  static void destroy(PendingNode* pending_node) noexcept;  // iterative: a long chain must not overflow the stack

 private:
  PendingNode() = default;
  ~PendingNode() = default;
};

/// Records an operation on complex operands, or one that makes complex numbers from nothing, as real operations on
/// their parts. Throws DTypeError for one that has no meaning for complex numbers. Defined by the expr layer.
Ref<TensorImpl> record_complex(const OpInfo& op, std::span<Leaf> leaves, const SharedAttrs& attrs, Location where);

/// Records one operation; types are inferred and checked now, nothing runs. Leaves are moved from.
Ref<TensorImpl> record_shared(const OpInfo& op, std::span<Leaf> leaves, SharedAttrs attrs, Location where);
inline Ref<TensorImpl> record_op(const OpInfo& op, std::span<Leaf> leaves, Attrs attrs, Location where) {
  return record_shared(op, leaves, std::move(attrs), where);
}
inline Ref<TensorImpl> record_shared(const OpInfo& op, std::initializer_list<Leaf> leaves, SharedAttrs attrs,
                                     Location where) {
  std::array<Leaf, 4> moved;
  if (leaves.size() <= moved.size()) {
    std::copy(leaves.begin(), leaves.end(), moved.begin());
    return record_shared(op, std::span<Leaf>(moved.data(), leaves.size()), std::move(attrs), where);
  }
  std::vector<Leaf> many(leaves);
  return record_shared(op, std::span<Leaf>(many), std::move(attrs), where);
}
inline Ref<TensorImpl> record_op(const OpInfo& op, std::initializer_list<Leaf> leaves, Attrs attrs, Location where) {
  return record_shared(op, leaves, std::move(attrs), where);
}
/// As record_op, for ops with several results: a value for each.
std::vector<Ref<TensorImpl>> record_shared_results(const OpInfo& op, std::span<Leaf> leaves, SharedAttrs attrs,
                                                   Location where);
inline std::vector<Ref<TensorImpl>> record_results(const OpInfo& op, std::span<Leaf> leaves, Attrs attrs,
                                                   Location where) {
  return record_shared_results(op, leaves, std::move(attrs), where);
}
/// Records an effect after those that this trace has recorded before: the token of the last one becomes its last
/// operand, and its own last result, which is not among the values given back, is the token for the next. Outside a
/// trace it runs at once.
std::vector<Ref<TensorImpl>> record_effect(const OpInfo& op, std::span<Leaf> leaves, Attrs attrs, Location where);
/// Runs a host operation without sub-graphs now, outside all traces; operands are evaluated. Gives results of these
/// types. Defined by the expr layer.
std::vector<Ref<TensorImpl>> run_host_op(const OpInfo& op, std::span<const Leaf> operands, const TypeList& types,
                                         const Attrs& attrs, Location where);
/// The type of tokens.
inline Type token_type() { return {DType::bool_, Device::cpu(), {}}; }
/// The same value as an object of its own, of the trace that `value` belongs to.
Ref<TensorImpl> record_alias(const Ref<TensorImpl>& value);

/// `value` as a Variable holds it. One that requires a gradient begins a tape of its own where it is read: its value is
/// off the tape, so that it keeps nothing alive that it was computed from.
Ref<TensorImpl> value_to_store(const VariableSlot& slot, Ref<TensorImpl> value);

/// How much weight an operand has for the dtype of a result: a number (also a Scalar) less than a tensor of rank 0,
/// and that less than one with axes. What has less weight only lifts the class: it never widens within it.
enum class PromotionRank : std::uint8_t { number, single, tensor };
inline PromotionRank promotion_rank(bool is_weak, int rank) {
  return is_weak ? PromotionRank::number : rank == 0 ? PromotionRank::single : PromotionRank::tensor;
}

/// Dtype of an elementwise op's result, from the operands' dtypes and ranks. Throws DTypeError.
DType elementwise_dtype(const OpInfo& op, std::span<const DType> dtypes, std::span<const PromotionRank> ranks,
                        const Attrs& attrs, Location where);
/// Throws DTypeError if an elementwise op without a meaning for bool would give one.
void check_takes_bool(const OpInfo& op, DType result, Location where);
/// Throws DTypeError where the op computes and the operand is f8e4m3 or f8e5m2.
void check_takes_f8(const OpInfo& op, DType operand, const Attrs& attrs, Location where);

/// Makes the values ready: runs what they need. Defined by the jit layer. No-op for ready values.
/// Throws TraceError (naming `what` and the line) for values of a trace.
void evaluate(std::span<TensorImpl* const> values, std::string_view what, Location where);

/// Lazy evaluation holds it: whoever follows pending nodes of ready values (on a tape) must, too. Defined by the jit
/// layer.
ForkSafeMutex& evaluation_mutex();
/// `value` as a leaf of the tape whose gradient goes to the gradient slot of `slot`: an object of its own, as others
/// may hold the value for other purposes. Defined by autodiff.
Ref<TensorImpl> tape_leaf(const Ref<TensorImpl>& value, const std::shared_ptr<VariableSlot>& slot);
/// Marks a placeholder whose value is on the tape outside of its trace. Defined by autodiff.
void put_on_tape(TensorImpl& placeholder);
/// The bits of a value of one element, in its own dtype, for `op` at `where`. Ready values are read, pending ones are
/// evaluated, and of a traced one its trace is asked.
std::uint64_t read_bits(const Ref<TensorImpl>& value, std::string_view op, Location where);
/// The bits of a ready value of one element, wherever it is.
std::uint64_t element_bits(const TensorImpl& value);
/// Where the statement that gives a value was written, as far as its pending nodes know.
Location written_at(const TensorImpl& value);
/// The line of the statement that gives a pending value, or `otherwise`.
Location line_of(const TensorImpl& value, Location otherwise);

SINTER_NAMESPACE_END
