// Every definition of the CUDA back end. Included by sinter.hpp when header-only, else by one translation unit: see
// src.hpp.
#pragma once
// backend/cuda
#include <sinter/backend/cuda/cuda.ipp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/backend.ipp>
#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/device.ipp>
#include <sinter/backend/cuda/device/driver.ipp>
#include <sinter/backend/cuda/device/group.ipp>
#include <sinter/backend/cuda/device/pool.ipp>
#include <sinter/backend/cuda/product/choice.ipp>
#include <sinter/backend/cuda/product/cublaslt_api.ipp>
#include <sinter/backend/cuda/product/library_product.ipp>
#include <sinter/backend/cuda/source/gemm_operand.ipp>
#include <sinter/backend/cuda/source/nest.ipp>
#include <sinter/backend/cuda/source/pointwise.ipp>
#include <sinter/backend/cuda/source/product.ipp>
#include <sinter/backend/cuda/source/reduction.ipp>
#include <sinter/backend/cuda/source/scalar.ipp>
#include <sinter/backend/cuda/source/scatter.ipp>
#include <sinter/backend/cuda/source/source.ipp>
#include <sinter/backend/cuda/source/tensor.ipp>
#include <sinter/backend/cuda/source/transpose.ipp>
#include <sinter/backend/cuda/source/writer.ipp>
#endif
