// A kernel held against the limits of a back end.
#pragma once

#include <sinter/kernel/limits.hpp>

#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::string why_not_taken(const Limits& limits, const ScalarFold& fold) {
  for (const ScalarProgram* program : {&fold.step, &fold.merge, &fold.finish})
    for (const Inst& inst : program->body) {
      const bool is_in_all = inst.prim == Prim::argument || inst.prim == Prim::immediate;
      if (!is_in_all && !limits.primitives.has(inst.prim)) return "it has no " + std::string(name(inst.prim));
      if (!limits.dtypes.has(inst.dtype)) return "it has no " + std::string(name(inst.dtype));
    }
  return {};
}

SINTER_DECL std::string why_not_taken(const Limits& limits, const Kernel& kernel) {
  if (!limits.kinds.has(kernel.kind)) return "it takes no kernels of kind " + std::string(name(kernel.kind));
  if (kernel.accesses.size() > as_index(limits.max_accesses))
    return std::to_string(kernel.accesses.size()) + " accesses, it takes " + std::to_string(limits.max_accesses);
  for (const Operand& operand : kernel.operands)
    if (!limits.dtypes.has(operand.dtype)) return "it has no " + std::string(name(operand.dtype));
  for (const ScalarFold& fold : kernel.folds)
    if (std::string why = why_not_taken(limits, fold); !why.empty()) return why;
  for (const Inst& inst : kernel.body) {
    const bool is_in_all = inst.prim == Prim::load || inst.prim == Prim::immediate;
    if (!is_in_all && !limits.primitives.has(inst.prim)) return "it has no " + std::string(name(inst.prim));
    if (!limits.dtypes.has(inst.dtype)) return "it has no " + std::string(name(inst.dtype));
    if (inst.prim == Prim::contract && !limits.product_dtypes.has(inst.dtype))
      return "it has no products of " + std::string(name(inst.dtype));
  }
  return {};
}

SINTER_NAMESPACE_END
