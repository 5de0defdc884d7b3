// When a kernel may write a result over an operand, and which results are updates of which. A part of the memory
// planner.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/lowering.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

inline bool reads(const Kernel& kernel, InstId value, std::size_t access) {
  const std::vector<bool> under = instructions_under(kernel.body, value);
  for (std::size_t i = 0; i < under.size(); ++i)
    if (under[i] && kernel.body[i].prim == Prim::load && kernel.body[i].access == access) return true;
  return false;
}

/// Is every reduction of the kernel in what store `s` stores, the only one? Then all of them are done when it begins,
/// and who reads a row again afterwards reads the element that is stored next (a nest's verifier holds it to that).
inline bool is_last_pass(const Kernel& kernel, const Store& s) {
  if (kernel.stores.size() != 1 || kernel.kind == KernelKind::contraction) return false;
  const std::vector<bool> under = instructions_under(kernel.body, s.value);
  for (std::size_t i = 0; i < under.size(); ++i)
    if (is_reduction(kernel.body[i].prim) && !under[i]) return false;
  return true;
}

/// Does what store `s` stores depend on what is read of operand `operand`?
inline bool updates(const LoweredKernel& lowered, const Store& s, std::size_t operand) {
  for (std::size_t i = 0; i < lowered.kernel.accesses.size(); ++i)
    if (lowered.kernel.accesses[i].operand == operand && reads(lowered.kernel, s.value, i)) return true;
  return false;
}

/// Do store `s` and some load of operand `operand` touch the same element at each point, and does nothing else of the
/// kernel read that operand? Then the store may go to the operand's own memory.
inline bool may_overwrite(const LoweredKernel& lowered, const Store& s, std::size_t operand) {
  const Kernel& kernel = lowered.kernel;
  if (size_of(kernel.operands[operand].dtype) != size_of(kernel.operands[kernel.accesses[s.access].operand].dtype))
    return false;
  std::size_t found = kernel.accesses.size();
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    if (kernel.accesses[i].operand != operand) continue;
    if (found != kernel.accesses.size()) return false;
    found = i;
  }
  if (found == kernel.accesses.size()) return false;
  const auto &read = lowered.geometry.accesses[found], &write = lowered.geometry.accesses[s.access];
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (!identical(read.stride[a], write.stride[a])) return false;
  if (!identical(read.offset, write.offset)) return false;
  if (s.index != no_inst) return false;
  if (kernel.kind != KernelKind::pointwise && !kernel.has_scan() && !is_last_pass(kernel, s)) {
    // Rows are read several times; only what is used once per row may be overwritten there.
    std::uint32_t reduced = 0, walked = 0;
    for (int a = 0; a < kernel.rank(); ++a) {
      if (kernel.is_reduced(a)) reduced |= 1u << a;
      if (!is_number(read.stride[as_index(a)], 0)) walked |= 1u << a;
    }
    if ((walked & reduced) != 0 || (varying_axes(kernel)[s.value] & reduced) != 0) return false;
  }
  for (const Inst& inst : kernel.body) {
    if (inst.prim == Prim::gather && inst.access == found) return false;
    // A device's threads beyond the last row repeat it while others store it: nothing they read may address memory.
    const bool addresses = inst.prim == Prim::gather || inst.prim == Prim::guarded_load;
    if (addresses && kernel.kind != KernelKind::pointwise && reads(kernel, inst.args[0], found)) return false;
    if (inst.prim == Prim::contract && (reads(kernel, inst.args[0], found) || reads(kernel, inst.args[1], found)))
      return false;
  }
  return true;
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
