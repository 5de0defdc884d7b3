// How factorisations are computed on the host: in blocks, by Eigen's products and decompositions, matrices of a batch
// side by side on threads. Results never depend on the number of threads.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/ops/linalg.hpp>

#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Matrix `number` of a batch of these extents, for errors: "matrix (1, 2) of (3, 4)", or "the matrix".
std::string matrix_text(std::int64_t number, const Shape& shape);

/// Errors of matrix `matrix` of a batch, `shape` is that of the operand; devices throw the same ones. Numbers of pivots
/// and minors count from 1.
[[noreturn]] void throw_singular(FactorUse use, std::int64_t matrix, std::int32_t pivot, const Shape& shape,
                                 Location where);
[[noreturn]] void throw_not_positive_definite(FactorUse use, std::int64_t matrix, std::int32_t order,
                                              const Shape& shape, Location where);
enum class NoResult : std::uint8_t { not_converged, not_finite };
[[noreturn]] void throw_no_result(std::string_view op, std::int64_t matrix, NoResult reason, const Shape& shape,
                                  Location where);

}  // namespace ops_detail
SINTER_NAMESPACE_END
