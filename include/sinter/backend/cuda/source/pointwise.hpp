// Pointwise kernels: a thread takes what stands inside the grid loops of their nest, at one or several places; all
// loads come before the first store, so that several are in flight.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

void write_pointwise(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
