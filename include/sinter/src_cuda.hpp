// Every definition of the CUDA back end. Included by sinter.hpp when header-only, else by one translation unit: see
// src.hpp.
#pragma once
// backend/cuda
#include <sinter/backend/cuda/cuda.ipp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/api.ipp>
#include <sinter/backend/cuda/backend.ipp>
#include <sinter/backend/cuda/choice.ipp>
#include <sinter/backend/cuda/cublaslt_api.ipp>
#include <sinter/backend/cuda/device.ipp>
#include <sinter/backend/cuda/driver.ipp>
#include <sinter/backend/cuda/group.ipp>
#include <sinter/backend/cuda/library_product.ipp>
#include <sinter/backend/cuda/pool.ipp>
#include <sinter/backend/cuda/source.ipp>
#include <sinter/backend/cuda/source_factor.ipp>
#include <sinter/backend/cuda/source_nest.ipp>
#include <sinter/backend/cuda/source_pointwise.ipp>
#include <sinter/backend/cuda/source_product.ipp>
#include <sinter/backend/cuda/source_reduction.ipp>
#include <sinter/backend/cuda/source_scalar.ipp>
#include <sinter/backend/cuda/source_scatter.ipp>
#include <sinter/backend/cuda/source_tensor.ipp>
#include <sinter/backend/cuda/source_transpose.ipp>
#include <sinter/backend/cuda/source_writer.ipp>
#endif
