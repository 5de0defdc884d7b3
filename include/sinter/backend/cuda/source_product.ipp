// Products in tiles: not yet taken here; write_reduction computes a contraction as a sum along rows.
#pragma once

#include <sinter/backend/cuda/source_writer.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_detail {

SINTER_DECL bool write_product(Writer&) { return false; }

}  // namespace cuda_detail
SINTER_NAMESPACE_END
