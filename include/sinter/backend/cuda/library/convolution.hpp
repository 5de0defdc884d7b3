// Convolutions whole, and their gradients, by cuDNN where it can be opened.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/dtype.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Kernels around cuDNN's, for one dtype: `swap_leading`, `turn_channels`, and the plain sums `convolve`,
/// `weight_gradient` and `image_gradient`.
LibrarySource convolution_kernels(DType dtype);

namespace cuda_detail {

/// The entries of convolution_kernels.
enum ConvolutionEntry : std::size_t {
  swap_leading_entry,
  turn_channels_entry,
  convolve_entry,
  weight_gradient_entry,
  image_gradient_entry
};
/// turn_channels(in, out, rows, columns, batches) is for a block for each of so many squares.
constexpr std::int64_t turned_tiles(std::int64_t batches, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t side = 64;
  return batches * ((rows + side - 1) / side) * ((columns + side - 1) / side);
}

/// Null: what the convolution decomposes into is computed.
Intrinsic convolution_intrinsic(Gpu& gpu, const Graph& graph, const Node& node);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
