// Which steps run side by side: those that are ready at the same time, where that pays. A part of the memory planner,
// which checks what their arena costs.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel_key.hpp>
#include <sinter/kernel/memory_plan.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// What the choice needs to know of each fusion group.
class LaunchGrouping {
 public:
  LaunchGrouping(const FusionGraph& nodes, const Fusion& fusion, std::span<const LoweredKernel> kernels,
                 StepGrouping grouping)
      : small_bytes_(grouping == StepGrouping::equal_code ? -1 : 4 << 20) {
    std::unordered_map<std::string, std::int32_t> keys;
    for (std::size_t g = 0; g < kernels.size(); ++g) {
      Step& step = steps_.emplace_back();
      const LoweredKernel& lowered = kernels[g];
      const bool is_alone = fusion.groups[g].is_host || lowered.kernel.kind == KernelKind::scatter ||
                            may_fail(nodes, fusion.groups[g], lowered.kernel);
      if (is_alone) continue;
      const auto number = static_cast<std::int32_t>(keys.size());
      step.code = keys.emplace(KeyWriter().add(lowered.kernel).bytes(), number).first->second;
      for (const OperandRef& operand : lowered.operands)
        if (operand.node >= 0) step.bytes += nodes.estimate_bytes(operand.node);
      ++count_;
    }
    last_with_code_.resize(keys.size());
  }
  /// Whether there is anything to group.
  bool is_possible() const { return count_ >= 2; }
  bool may_group(std::size_t g) const { return steps_[g].code >= 0; }
  std::int64_t bytes(std::size_t g) const { return steps_[g].bytes; }
  /// The same code, or both so small that one more parallel loop costs more than what it saves.
  bool fit(std::size_t a, std::size_t b) const {
    if (!may_group(a) || !may_group(b)) return false;
    return steps_[a].code == steps_[b].code || (steps_[a].bytes <= small_bytes_ && steps_[b].bytes <= small_bytes_);
  }
  void forget_last() {
    std::fill(last_with_code_.begin(), last_with_code_.end(), 0);
    last_small_ = 0;
  }
  /// Counts the steps that nobody waits for.
  void note_last(std::size_t g) {
    if (!may_group(g)) return;
    ++last_with_code_[as_index(steps_[g].code)];
    last_small_ += steps_[g].bytes <= small_bytes_;
  }
  /// Of a step that nobody waits for: whether it fits another one such.
  bool has_mate(std::size_t g) const {
    return may_group(g) &&
           (last_with_code_[as_index(steps_[g].code)] >= 2 || (steps_[g].bytes <= small_bytes_ && last_small_ >= 2));
  }

 private:
  struct Step {
    std::int32_t code = -1;  // -1: runs alone
    std::int64_t bytes = 0;  // of its operands, at the hints
  };
  std::int64_t small_bytes_;  // kernels of other code that touch no more fit each other, too
  std::vector<Step> steps_;
  std::vector<std::int32_t> last_with_code_;
  std::int32_t count_ = 0, last_small_ = 0;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
