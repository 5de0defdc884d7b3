// Pointwise kernels: a thread takes `width` neighbours along the last axis, at `steps` places; all loads come before
// the first store, so that several are in flight.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The width at which most accesses go by whole vectors; 1 where none does.
int best_width(Writer& writer, int axis, bool may_have_tail);

void write_pointwise(Writer& writer);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
