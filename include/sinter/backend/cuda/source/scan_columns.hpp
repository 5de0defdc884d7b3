// Scans along columns that are long and too few to occupy a device with a thread for each: 32 neighbouring columns are
// a block's, whose warps take strips of a tile, one below the other, and pieces of the columns are different blocks'.
// Knows one kernel with its numbers.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// False, and nothing is written: the columns are short, or so many that a thread for each is as fast, or a scan
/// depends on another one. The order of sums follows from the extents and the device. Sums of floats have what rounding
/// lost beside them throughout, as those of whole columns do.
bool write_column_pieces(Writer& writer);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
