// What the generator takes.
#pragma once

#include <sinter/backend/x86/nest/prepare.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

inline std::string why_not_generated(const Kernel& kernel) {
  if (kernel.accesses.size() > max_accesses) return "more than " + std::to_string(max_accesses) + " accesses";
  for (const Inst& inst : kernel.body) {
    if (is_reduction(inst.prim) || inst.prim == Prim::gather || inst.prim == Prim::load ||
        inst.prim == Prim::immediate || inst.prim == Prim::index)
      continue;
    const int count = arity(inst.prim);
    const DType from = count > 0 ? kernel.body[inst.args[as_index(count - 1)]].dtype : inst.dtype;
    if (std::string reason = why_not_lowered(inst, from); !reason.empty()) return reason;
  }
  return {};
}

inline bool needs_count(const Kernel& kernel) {
  const auto vector_axis = as_index(kernel.rank() - 1);
  return std::any_of(kernel.accesses.begin(), kernel.accesses.end(),
                     [&](const Access& access) {
                       return kernel.operands[access.operand].dtype == DType::bool_ ||
                              access.stride[vector_axis] == StrideClass::any;
                     }) ||
         std::any_of(kernel.body.begin(), kernel.body.end(),
                     [](const Inst& inst) { return inst.prim == Prim::gather; });
}

}  // namespace x86_detail

SINTER_DECL Machine machine_of(Isa isa) {
  return {.vector_bytes = vector_bytes(isa), .has_masks = isa == Isa::avx512, .cost = cost_of};
}

SINTER_DECL std::optional<PreparedNest> prepare_nest(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                     IndexWidth width, std::string& why) {
  why = x86_detail::why_not_generated(kernel);
  if (!why.empty()) return std::nullopt;
  std::optional<LoopNest> nest = build_nest(kernel, schedule, machine_of(isa), width, why);
  if (!nest) return std::nullopt;
  PreparedNest prepared;
  prepared.nest = std::move(*nest);
  prepared.isa = isa;
  prepared.needs_count = x86_detail::needs_count(kernel);
  for (const Buffer& buffer : prepared.nest.buffers) prepared.tiles += buffer.space == BufferSpace::tile;
  prepared.is_checked.resize(kernel.body.size());
  for (const NestNode& node : prepared.nest.nodes)
    if (node.kind == NestNodeKind::check) prepared.is_checked[node.first] = 1;
  return prepared;
}

}  // namespace x86
SINTER_NAMESPACE_END
