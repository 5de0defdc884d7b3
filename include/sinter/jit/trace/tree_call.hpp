// TreeCall: one call that follows a trace tree: runs a segment, reads its outcome, goes to the child, up to a leaf or
// to an outcome that was not seen. Holds what is carried between segments. Allocates the carried values and nothing
// else, and those from the thread's caches.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/jit/call/value_table.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/jit/trace/trace_tree.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
struct EndingCall;
}  // namespace jit_detail

class TreeCall {
 public:
  TreeCall(const TraceTree::Version& version, const ArgList& args, std::span<const std::int64_t> symbols)
      : version_(version),
        node_(version.root.get()),
        args_(args),
        symbols_(symbols),
        table_(as_index(version.places)) {}

  /// Runs the segments up to a leaf, which is not run yet (true), or to an outcome without a child (false).
  bool run();
  /// What a disabled function gave is on the tape, and was not when the path was traced: the tree does not serve.
  bool leaves_tree() const { return leaves_tree_; }
  /// Runs the leaf and delivers what it makes.
  void run_leaf(EntryThread* thread, Mode mode, Location where, Ref<TensorImpl>* results, Targets targets);
  /// After run(): makes what calls of this thread that come to this leaf need besides what run() made. The leaf itself
  /// is not run.
  void prepare(EntryThread* thread, Mode mode) const;

  const TreeNode& node() const { return *node_; }
  std::span<const TreeNode* const> nodes() const { return nodes_; }
  std::span<const std::uint64_t> outcomes() const { return outcomes_; }
  const Ref<TensorImpl>& carried(std::int32_t place) { return table_[as_index(place)]; }
  /// The value that a captured Variable has in this call, or null if it was not needed yet.
  TensorImpl* seen(const VariableSlot* slot) const;
  /// A trace that follows this call: its outcomes and what eager functions gave.
  void replay(ReadPolicy& policy) const;

 private:
  void place_inputs(CallPlaces& places);
  /// The value of an input that is no argument.
  TensorImpl* value_of(const PlanInput& input);
  void run_leaf_on_tape(const jit_detail::EndingCall& call, Ref<TensorImpl>* results);
  std::uint64_t run_segment();
  /// Runs the function after the segment on its first outputs.
  void run_eager_call(std::span<const Ref<TensorImpl>> made);
  TensorImpl* variable(const std::shared_ptr<VariableSlot>& slot);

  const TraceTree::Version& version_;
  const TreeNode* node_;
  const ArgList& args_;
  std::span<const std::int64_t> symbols_;
  jit_detail::ValueTable<16> table_;
  struct SeenVariable {
    const VariableSlot* slot;
    TensorImpl* value;  // alive while the call reads Variables, or in `laid_out_`
  };
  SmallVector<SeenVariable, 8> variables_;  // captured ones, as this call sees them
  std::vector<Ref<TensorImpl>> laid_out_;   // values that had to be laid out anew
  SmallVector<const TreeNode*, 16> nodes_;
  SmallVector<std::uint64_t, 16> outcomes_;
  std::vector<std::shared_ptr<const EagerResults>> eager_results_;  // by cut, as far as eager functions were called
  bool leaves_tree_ = false;
};

}  // namespace jit
SINTER_NAMESPACE_END
