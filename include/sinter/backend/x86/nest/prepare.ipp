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

inline std::string why_not_generated(const ScalarFold& fold) {
  for (const ScalarProgram* program : {&fold.step, &fold.merge, &fold.finish})
    for (const Inst& inst : program->body) {
      if (inst.prim == Prim::argument || inst.prim == Prim::immediate) continue;
      const DType from = program->body[inst.args[as_index(arity(inst.prim) - 1)]].dtype;
      if (std::string reason = why_not_lowered(inst, from); !reason.empty()) return reason;
    }
  return {};
}

inline std::string why_not_generated(const Kernel& kernel) {
  if (kernel.kind == KernelKind::contraction) return "products are calls: their driver is another";
  if (kernel.accesses.size() > max_accesses) return "more than " + std::to_string(max_accesses) + " accesses";
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.is_reduced(a) && !(kernel.order(a) == standard_order(kernel.kind, a == kernel.rank() - 1)))
      return "reductions in the order: " + kernel.order(a).text();
  for (const ScalarFold& fold : kernel.folds)
    if (std::string reason = why_not_generated(fold); !reason.empty()) return reason;
  for (const Inst& inst : kernel.body) {
    if (is_reduction(inst.prim) || reads_memory(inst.prim) || inst.prim == Prim::immediate || inst.prim == Prim::index)
      continue;
    const int count = arity(inst.prim);
    const DType from = count > 0 ? kernel.body[inst.args[as_index(count - 1)]].dtype : inst.dtype;
    if (std::string reason = why_not_lowered(inst, from); !reason.empty()) return reason;
  }
  return {};
}

/// Indices of folds are narrow in registers and wide in memory.
inline bool stores_positions(const Kernel& kernel) {
  return !kernel.folds.empty() && std::any_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& store) {
    return kernel.body[store.value].dtype == DType::i64;
  });
}

inline bool needs_count(const Kernel& kernel) {
  const auto vector_axis = as_index(kernel.rank() - 1);
  return std::any_of(kernel.accesses.begin(), kernel.accesses.end(),
                     [&](const Access& access) {
                       const DType dtype = kernel.operands[access.operand].dtype;
                       return dtype == DType::bool_ || is_narrow(dtype) ||
                              access.stride[vector_axis] >= StrideClass::any;
                     }) ||
         stores_positions(kernel) || std::any_of(kernel.body.begin(), kernel.body.end(), [](const Inst& inst) {
           return inst.prim == Prim::gather;
         });
}

}  // namespace x86_detail

SINTER_DECL Machine machine_of(Isa isa) {
  return {.vector_bytes = vector_bytes(isa), .has_masks = isa == Isa::avx512, .cost = cost_of};
}

SINTER_DECL std::optional<PreparedNest> prepare_nest(const Kernel& given, const Schedule& schedule, Isa isa,
                                                     IndexWidth width, std::string& why) {
  why = x86_detail::why_not_generated(given);
  if (!why.empty()) return std::nullopt;
  PreparedNest prepared;
  if (std::optional<RowPieces> pieces = choose_pieces_by_row(given))
    prepared.pieces = std::make_shared<const RowPieces>(std::move(*pieces));
  const Kernel& kernel = prepared.pieces != nullptr ? prepared.pieces->kernel : given;
  std::optional<LoopNest> nest = build_nest(kernel, schedule, machine_of(isa), width, why);
  if (!nest) return std::nullopt;
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
