// The table of cuBLASLt's functions, with the types of the toolkit's headers. Only .ipp files of this folder include
// it.
#pragma once

#include <sinter/backend/cuda/device/driver.hpp>

#include <sinter/backend/cuda/device/api.ipp>

#include <cublasLt.h>

SINTER_NAMESPACE_BEGIN
namespace cuda {

#define SINTER_CUDA_CUBLASLT_FUNCTIONS(X)                                                                          \
  X(cublasLtCreate)                                                                                                \
  X(cublasLtGetVersion)                                                                                            \
  X(cublasLtMatmul)                                                                                                \
  X(cublasLtMatmulAlgoCheck)                                                                                       \
  X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy)                       \
      X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)               \
          X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) \
              X(cublasLtMatmulPreferenceSetAttribute)

struct CublasLtApi {
#define SINTER_CUDA_MEMBER(name) decltype(&::name) call_##name = nullptr;
  SINTER_CUDA_CUBLASLT_FUNCTIONS(SINTER_CUDA_MEMBER)
#undef SINTER_CUDA_MEMBER
};

}  // namespace cuda
SINTER_NAMESPACE_END
