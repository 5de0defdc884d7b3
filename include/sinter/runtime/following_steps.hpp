// Neighbouring steps of a plan that one launch can stand for: an operation computed whole and the pointwise kernel that
// alone reads its result. Knows plans; knows no frames.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/dependences.hpp>
#include <sinter/runtime/following_kernel.hpp>
#include <sinter/runtime/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline bool is_written_by(const PlanStep& step, std::size_t operand) {
  return step.host ? operand >= step.host_inputs() : step.kernel.operands[operand].written;
}
inline bool has_operand(const PlanStep& step, const BufferRef& buffer, bool is_written) {
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    if (step.operands[i] == buffer && is_written_by(step, i) == is_written) return true;
  return false;
}
/// Whether what is in the buffer is read by a step from `first` on before it is written anew.
inline bool is_read_from(const Plan& plan, std::size_t first, const BufferRef& buffer) {
  for (const PlanStep& step : plan.steps().subspan(first)) {
    if (has_operand(step, buffer, false)) return true;
    if (has_operand(step, buffer, true)) return false;
  }
  return false;
}

/// The operand of step `number + 1` that is the only result of the step before, if nobody else reads that.
inline std::optional<std::uint16_t> operand_followed(const Plan& plan, std::size_t number) {
  const PlanStep &step = plan.steps()[number], &next = plan.steps()[number + 1];
  if (!step.host || step.operands.size() != step.host_inputs() + 1) return std::nullopt;
  const bool is_plain = !next.host && !next.runs_on_host && !next.may_fail && !next.is_plain_copy;
  if (!is_plain || next.kernel.kind != KernelKind::pointwise) return std::nullopt;
  const BufferRef result = step.operands[step.operands.size() - 1];
  if (result.kind != BufferKind::arena) return std::nullopt;
  std::optional<std::uint16_t> found;
  for (std::size_t i = 0; i < next.operands.size(); ++i) {
    if (next.operands[i] != result || is_written_by(next, i)) continue;
    if (found) return std::nullopt;
    found = static_cast<std::uint16_t>(i);
  }
  if (!found) return std::nullopt;
  const bool is_lost = has_operand(next, result, true) || !is_read_from(plan, number + 2, result);
  return is_lost ? found : std::nullopt;
}

/// One launch for the step, whose launch is given, and the next one. Null: they stay apart. `use_of` says where inputs,
/// outputs and pieces of the arena lie.
template <class UseOf>
std::unique_ptr<Launch> followed_launch(const Plan& plan, std::size_t number, Launch& launch,
                                        std::span<const std::int64_t> symbols, const UseOf& use_of) {
  const FollowableLaunch* const followable = as_followable(launch);
  const PlanOrigin* const origin = plan.origin();
  if (followable == nullptr || origin == nullptr || !origin->options.fuse || !origin->options.epilogues) return nullptr;
  const std::optional<std::uint16_t> operand = operand_followed(plan, number);
  if (!operand) return nullptr;
  const PlanStep &step = plan.steps()[number], &next = plan.steps()[number + 1];
  const auto has_place = [](const BufferRef& buffer) {
    return buffer.kind == BufferKind::input || buffer.kind == BufferKind::output || buffer.kind == BufferKind::arena;
  };
  // The kernel's results may have been given the memory of what the operation was the last one to read.
  for (std::size_t i = 0; i < next.operands.size(); ++i) {
    if (!is_written_by(next, i)) continue;
    // A thread may be refused memory in the midst of the launch: what is the caller's must be untouched until then.
    const BufferRef& to = next.operands[i];
    if (to.kind == BufferKind::output && plan.outputs()[plan.output_number(as_index(to.index))].donor >= 0)
      return nullptr;
    const MemoryUse written = use_of(to, true);
    for (std::size_t k = 0; k < step.host_inputs(); ++k) {
      if (!has_place(step.operands[k])) continue;
      const MemoryUse read = use_of(step.operands[k], false);
      if (read.space == written.space && read.begin < written.end && written.begin < read.end) return nullptr;
    }
  }
  return followable->followed_by({next.kernel, bind(next.geometry, symbols), *operand});
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
