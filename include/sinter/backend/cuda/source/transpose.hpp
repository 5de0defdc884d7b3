// Pointwise kernels that read some operand across: with unit stride along another axis than the last. A block takes a
// square of both axes; what is read across passes through shared memory, so that all memory is touched in whole lines.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// False: nothing is read across; write_pointwise takes it.
bool write_transpose(Writer& writer);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
