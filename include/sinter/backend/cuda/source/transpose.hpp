// Pointwise kernels that read some operand across: with unit stride along another axis than the last. A block takes a
// square of both axes; what is read across passes through shared memory, so that all memory is touched in whole lines.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <optional>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Nothing where nothing is read across: the kernel is an ordinary elementwise one.
std::optional<LoopNest> build_transpose_nest(const BoundKernel& bound);
void write_transpose(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
