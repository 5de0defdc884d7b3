// What the user is told when a kernel met an index out of range.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

/// Whether `id` is a u64, converted to the dtype of an index or not.
inline bool is_from_u64(const Kernel& kernel, InstId id) {
  for (;;) {
    const Inst& inst = kernel.body[id];
    if (inst.dtype == DType::u64) return true;
    if (inst.prim == Prim::load || inst.prim == Prim::gather)
      return kernel.operands[kernel.accesses[inst.access].operand].dtype == DType::u64;
    if (inst.prim != Prim::convert) return false;
    id = inst.args[0];
  }
}
/// Whether all positions that the kernel is given are u64, which it computes as i64.
inline bool has_unsigned_positions(const Kernel& kernel) {
  bool is_any = false;
  const auto is_other = [&](InstId index) {
    is_any = true;
    return !is_from_u64(kernel, index);
  };
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::gather && is_other(inst.args[0])) return false;
  for (const Store& store : kernel.stores)
    if (store.index != no_inst && is_other(store.index)) return false;
  return is_any;
}

/// What a kernel found, with the line of the take in it. Of several in one kernel the first is named, and the others'
/// lines.
[[noreturn]] SINTER_NOINLINE inline void throw_index_error(const PlanStep& step, const GatherError& error) {
  std::vector<Location> lines;
  for (const Location& where : step.takes)
    if (where.file != nullptr &&
        std::none_of(lines.begin(), lines.end(), [&](const Location& l) { return l.text() == where.text(); }))
      lines.push_back(where);
  std::string fix = "indices go from 0 to " + std::to_string(error.extent - 1);
  if (error.extent <= 0) fix = "an axis without elements has no valid index";
  for (std::size_t i = 1; i < lines.size(); ++i)
    fix += (i == 1 ? "; the same kernel also takes at " : ", ") + lines[i].text();
  const std::string text = error.index < 0 && has_unsigned_positions(step.kernel)
                               ? "index " + std::to_string(static_cast<std::uint64_t>(error.index)) +
                                     " is out of range for an axis of extent " + std::to_string(error.extent)
                               : GatherError::text_of(error.index, error.extent);
  throw IndexError(step.taker, text, lines.empty() ? Location() : lines.front(), fix);
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
