// Convolutions whole, and their gradients by the weight, by cuDNN where it can be opened.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/dtype.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Kernels around cuDNN's, for one dtype: `swap_leading`, and the plain sums `convolve` and `weight_gradient`.
LibrarySource convolution_kernels(DType dtype);

namespace cuda_detail {

/// Null: what the convolution decomposes into is computed.
Intrinsic convolution_intrinsic(Gpu& gpu, const Graph& graph, const Node& node);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
