// Every definition of the texts of CUDA kernels: what the CUDA back end writes for NVRTC. Included by sinter.hpp when
// header-only, else by one translation unit, which is compiled for size: see src.hpp.
#pragma once
#ifdef SINTER_CUDA
// backend/cuda
#include <sinter/backend/cuda/source/bound_kernel.ipp>
#include <sinter/backend/cuda/source/gemm_operand.ipp>
#include <sinter/backend/cuda/source/gpu_nest.ipp>
#include <sinter/backend/cuda/source/gpu_shape.ipp>
#include <sinter/backend/cuda/source/library.ipp>
#include <sinter/backend/cuda/source/merge.ipp>
#include <sinter/backend/cuda/source/pointwise.ipp>
#include <sinter/backend/cuda/source/product.ipp>
#include <sinter/backend/cuda/source/reduction.ipp>
#include <sinter/backend/cuda/source/reduction_fold.ipp>
#include <sinter/backend/cuda/source/reduction_stream.ipp>
#include <sinter/backend/cuda/source/reduction_sum.ipp>
#include <sinter/backend/cuda/source/row_stream.ipp>
#include <sinter/backend/cuda/source/scalar.ipp>
#include <sinter/backend/cuda/source/scan.ipp>
#include <sinter/backend/cuda/source/scan_columns.ipp>
#include <sinter/backend/cuda/source/scatter.ipp>
#include <sinter/backend/cuda/source/scatter_bins.ipp>
#include <sinter/backend/cuda/source/scatter_nest.ipp>
#include <sinter/backend/cuda/source/scatter_sorted.ipp>
#include <sinter/backend/cuda/source/source.ipp>
#include <sinter/backend/cuda/source/tensor.ipp>
#include <sinter/backend/cuda/source/transpose.ipp>
#include <sinter/backend/cuda/source/wgmma.ipp>
#include <sinter/backend/cuda/source/writer.ipp>
#endif
