// How factorisations are computed on the host: in blocks, by Eigen's products and decompositions, matrices of a batch
// side by side on threads. Results never depend on the number of threads.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/host_call.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Matrix `number` of a batch of these extents, for errors: "matrix (1, 2) of (3, 4)", or "the matrix".
std::string matrix_text(std::int64_t number, const Shape& shape);

}  // namespace ops_detail
SINTER_NAMESPACE_END
