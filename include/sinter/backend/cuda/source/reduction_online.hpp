// The two reductions of a softmax that one walk can do: where a kernel has them. Knows kernels; writes nothing.
#pragma once

#include <sinter/backend/cuda/source/nest.hpp>
#include <sinter/base/config.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// sum(exp(value - shift)), the only reduction of the second walk, where the first finds max(value) and the shift is
/// mostly that: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
struct Online {
  InstId value = no_inst, greatest = no_inst, shift = no_inst, sum = no_inst;
};

inline Online find_online(const Nest& nest) {
  const std::vector<InstId> sums = nest.depths() >= 2 ? nest.reductions_of(1) : std::vector<InstId>{};
  if (sums.size() != 1 || nest.inst(sums[0]).prim != Prim::reduce_add || !is_floating(nest.inst(sums[0]).dtype))
    return {};
  const Inst& exponential = nest.inst(nest.inst(sums[0]).args[0]);
  if (exponential.prim != Prim::exp) return {};
  const Inst& shifted = nest.inst(exponential.args[0]);
  if (shifted.prim != Prim::sub) return {};
  if (nest.is_inner(shifted.args[1]) || nest.depth(shifted.args[1]) != 1) return {};
  for (InstId greatest : nest.reductions_of(0))
    if (nest.inst(greatest).prim == Prim::reduce_max && nest.inst(greatest).args[0] == shifted.args[0])
      return {shifted.args[0], greatest, shifted.args[1], sums[0]};
  return {};
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
