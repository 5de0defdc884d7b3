#pragma once
#include <sinter/backend/cuda/source_writer.hpp>
SINTER_NAMESPACE_BEGIN
namespace cuda_detail {
SINTER_DECL bool write_product(Writer&) { return false; }
}
SINTER_NAMESPACE_END
