// Finding things in a nest.
#pragma once

#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::size_t LoopNest::find(VariantKind kind) const {
  for (std::size_t place = 0; place < nodes.size(); place = nodes[place].end)
    if (variants[nodes[place].first] == kind) return place;
  return nodes.size();
}

SINTER_DECL OnlineSum online_sum(const Kernel& kernel, std::span<const InstId> reductions) {
  const std::vector<Inst>& body = kernel.body;
  const InstId sum = reductions.back();
  if (body[sum].prim != Prim::reduce_add || !is_floating(body[sum].dtype)) return {};
  const Inst& exponential = body[body[sum].args[0]];
  if (exponential.prim != Prim::exp || body[exponential.args[0]].prim != Prim::sub) return {};
  const Inst& shifted = body[exponential.args[0]];
  for (const InstId greatest : reductions.first(reductions.size() - 1))
    if (body[greatest].prim == Prim::reduce_max && body[greatest].args[0] == shifted.args[0])
      return {shifted.args[0], greatest, shifted.args[1], sum};
  return {};
}

SINTER_NAMESPACE_END
