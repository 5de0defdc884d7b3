// Whoever knows the operation binds it.
#pragma once

#include <sinter/backend/cuda/library/library_op.hpp>

#include <sinter/backend/cuda/library/factorisation.hpp>
#include <sinter/backend/cuda/library/fourier.hpp>
#include <sinter/backend/cuda/library/order.hpp>
#include <sinter/backend/cuda/library/orthogonal.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

SINTER_DECL std::unique_ptr<Launch> bind_library_op(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  for (const Type& type : op.types)
    for (Dim extent : type.shape)
      if (extent.value() == 0) return nullptr;  // the host knows what little there is to do
  if (std::unique_ptr<Launch> launch = bind_fourier(gpu, op, step)) return launch;
  if (std::unique_ptr<Launch> launch = bind_factorisation(gpu, op, step)) return launch;
  if (std::unique_ptr<Launch> launch = bind_order(gpu, op, step)) return launch;
  return bind_orthogonal(gpu, op, step);
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
