// Kernels with reductions other than products, as their loop nest says. A walk goes over the reduced points in tiles:
// all loads of a tile, then its values, which feed accumulators; lanes then put theirs together in a fixed tree.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

void write_reduction(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
