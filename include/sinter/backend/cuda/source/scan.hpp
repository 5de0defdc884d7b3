// Kernels with scans: a thread for each column, which it walks in order, or strips and pieces of it
// (scan_columns.hpp); or a block of threads for each row, tile by tile, by shuffles inside warps, of which each scans
// some elements for each of its lanes; where rows are few and long, a block for each piece of them. Rows of a GPU are
// scanned in an order of their own, which follows from the extents, the kernel and the device, the same for any launch.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

void write_scan(Writer& writer);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
