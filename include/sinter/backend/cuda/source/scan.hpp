// Kernels with scans, as their loop nest says: a thread for each column, which it walks in order (long and few ones go
// by strips and pieces: scan_columns.hpp); or a block of threads for each row, tile by tile, by shuffles inside warps,
// of which each scans some elements for each of its lanes; where rows are few and long, a block for each piece of them.
// Rows of a GPU are scanned in an order of their own, which follows from the extents, the kernel and the device, the
// same for any launch.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

void write_scan(Writer& writer, const LoopNest& nest);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
