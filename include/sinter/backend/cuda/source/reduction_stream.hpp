// Rows that pass through teams of blocks (row_stream.hpp) in CUDA C: two launches, of which the first clears the words
// that blocks meet by.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

bool is_stream(const LoopNest& nest);
void write_row_stream(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
