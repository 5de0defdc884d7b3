// Cholesky, LU, triangular and small systems of equations on a GPU, by cuSOLVER, cuBLAS and a kernel.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// cholesky, lu_factor, lu_permutation, triangular_solve, small_solve. Null: it is none of them, or the library is not
/// there.
std::unique_ptr<Launch> bind_factorisation(Gpu& gpu, const BoundOp& op, const StepContext& step);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
