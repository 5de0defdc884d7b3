// Gradients through what a compiled function returned: the derivative of an entry, planned together with its forward
// part, the guards on what is on the tape, and the node that stands on the tape for a call. Knows no tape but by its
// nodes: backward() finds the node there and asks its rule.
#pragma once

#include <sinter/autodiff/call.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/jit/partition.hpp>
#include <sinter/runtime/plan.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct Entry;

namespace jit_detail {
class BackgroundState;

/// The hooks that a backward() inside the function went through: part of its code.
struct HookGuard {
  std::shared_ptr<VariableSlot> gradient;
  std::uint64_t revision;  // hooks_revision()
};
/// Are they what they were?
bool hooks_hold(std::span<const HookGuard> hooks);

/// What was on the tape when a function was traced: of the arguments by leaf, of the captured Variables in order. All
/// empty where nothing was.
struct TapeGuard {
  std::vector<std::uint8_t> leaves, captured;
  std::vector<HookGuard> hooks;
  bool is_needed = false;   // something was
  bool serves_off = false;  // the tape was off, and captured Tensors are on it: no version for when it is on
  /// Is there more to compare than that nothing is on the tape?
  bool is_checked() const { return is_needed || serves_off || !hooks.empty(); }
};
/// Would what is computed from an argument, a value, or what a Variable holds be on the tape, if that is on?
bool is_on_tape(const ArgLeaf& leaf);
bool is_on_tape(const TensorImpl& value);
bool is_on_tape(const VariableSlot& slot);
TapeGuard tape_guard_of(std::span<const ArgLeaf> args, std::span<const std::shared_ptr<VariableSlot>> captured);
/// Is on the tape now what was when the entry was traced?
bool tape_fits(const Entry& entry, const ArgList& args);

/// How the plans of an entry are made.
struct PlanChoices {
  std::string backend;
  FusionChoices fuse = {};
  bool as_one = false, allow_fallback = false;
  MatmulPrecision precision = MatmulPrecision::f32;
  std::vector<std::uint8_t> is_number{};                  // per input: a C++ number of the caller
  BackendFunction compile{};                              // in place of a plan
  bool in_background = false, suppresses_errors = false;  // Mode::background
  bool is_tuned = false;                                  // Mode::max_autotune
  double tune_seconds = 0;
  Location where{};
};

/// The derivative of an entry's code, or of a path of a trace tree. Its plan is made when a backward() first asks for
/// it, by whoever asks; the forward part gives what it needs as further results.
class CallGradient : public std::enable_shared_from_this<CallGradient> {
 public:
  /// `program`: the traced graph, symbols solved, whose first outputs are the results. Where it has no derivative,
  /// forward() is the program, and the error comes with the first backward().
  CallGradient(Graph program, std::span<const std::uint8_t> wanted, std::vector<std::uint8_t> on_tape,
               PlanChoices choices);
  /// Of a path: the nodes of forward() are those of `program`, with their ids, and more after them; its outputs are the
  /// results, then what is saved. No gradient flows through `stops`.
  CallGradient(Graph program, std::span<const std::uint8_t> wanted, std::vector<std::uint8_t> on_tape,
               PlanChoices choices, std::span<const Value> stops);

  /// Nothing that is on the tape reaches a result.
  bool is_empty() const { return !failure_ && derivative_.backward == nullptr; }
  /// The program with what is saved between the results and what Variables become.
  const Graph& forward() const { return *forward_; }
  std::size_t saved_count() const { return saved_count_; }
  /// Of what a backward() needs: where it is among the results and saved values.
  std::span<const std::uint32_t> saved() const { return derivative_.saved; }
  bool is_on_tape(std::size_t result) const { return on_tape_[result] != 0; }
  bool is_wanted(std::size_t input) const { return wanted_[input] != 0; }
  std::size_t results() const { return on_tape_.size(); }
  /// In a call with these sizes.
  Type result_type(std::size_t result, std::span<const std::int64_t> symbols) const;
  /// Throws what differentiating threw.
  Partition partition() const;
  /// At the sizes that the program was traced with: what a call leaves for its backward(), results apart, and what the
  /// backward part holds between its kernels, once it is compiled.
  std::int64_t saved_bytes() const;
  std::int64_t backward_bytes() const;
  std::string text() const;
  /// For explain(): the backward graph, and its plan once it is compiled. Null: there is none.
  const Graph* backward() const { return derivative_.backward.get(); }
  std::shared_ptr<const Plan> compiled_plan() const;

 private:
  friend class CallGradientRule;
  friend class TapeAttrs;
  /// The plan of the backward part.
  struct Code {
    std::shared_ptr<const Plan> plan;
    std::vector<std::uint8_t> takes_float;  // per input of the plan: a number that it takes as f32
  };
  const Code& code() const;
  Code code_by(const std::string& backend) const;
  const Code& publish(Code made) const;
  void make_in_background() const;
  /// What PlanChoices::compile gave; the first call's inputs are its examples.
  const GraphFunction& function(std::span<const Tensor> inputs) const;
  void put_saved_before_assigned();

  Graph program_;
  std::vector<std::uint8_t> wanted_;   // per input
  std::vector<std::uint8_t> on_tape_;  // per result
  PlanChoices choices_;
  CallDerivative derivative_;
  std::exception_ptr failure_;
  std::shared_ptr<const Graph> forward_;
  std::size_t saved_count_ = 0;
  mutable ForkSafeMutex mutex_;                             // of the rest
  mutable std::vector<std::unique_ptr<const Code>> codes_;  // one; in Mode::background first what runs uncompiled
  mutable std::shared_ptr<BackgroundState> background_;
  mutable std::atomic<const Code*> published_{nullptr};
  mutable std::shared_ptr<const GraphFunction> function_;
};
/// The same graph with no gradient through these values.
Graph with_stops(const Graph& graph, std::span<const Value> stops);
/// Null: nothing that is on the tape reaches a result.
std::shared_ptr<const CallGradient> make_gradient(Graph program, std::span<const std::uint8_t> wanted,
                                                  std::vector<std::uint8_t> on_tape, PlanChoices choices);

/// What the nodes of an entry's calls have in common, for the sizes used last.
class TapeAttrs {
 public:
  SharedAttrs of(const std::shared_ptr<const CallGradient>& gradient, std::span<const std::int64_t> symbols);

 private:
  ForkSafeMutex mutex_;
  SharedAttrs attrs_;
  SmallVector<std::int64_t, 8> symbols_;
  bool is_made_ = false;
};

/// What stands on the tape for what a call reads. `values`: by input, of those that are no arguments.
std::vector<Leaf> inputs_on_tape(const CallGradient& gradient, std::span<const PlanInput> inputs,
                                 std::span<TensorImpl* const> values, const ArgList& args);

/// The results of one call on the tape. What can fail is done before the code runs.
class TapedCall {
 public:
  /// `inputs`: by inputs_on_tape().
  TapedCall(const CallGradient& gradient, SharedAttrs attrs, std::vector<Leaf> inputs, Location where);
  /// `values`: what the code gave, with what it saved after the results.
  void deliver(std::span<Ref<TensorImpl>> values, Ref<TensorImpl>* results) noexcept;

 private:
  const CallGradient& gradient_;
  Ref<PendingNode> node_;
  std::vector<Ref<TensorImpl>> made_;  // per result; null: not on the tape
  std::size_t inputs_;
};

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
