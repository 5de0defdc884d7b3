// Kernels of quantised products: what is around a product of integers by the library, and few rows times a weight that
// stays packed. Text only.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// quantize_rows(const X* x, i8* q, float* scales, rows, depth), and dequantize(const i32* sums, const float* scales,
/// const S* column_scales, X* out, rows, columns) for columns that 4 divides. f32, f16 and bf16.
LibrarySource dynamic_product_kernels(DType activations, DType scales);

/// few_rows(const X* x, values, const S* scales, zero points, X* out, columns, depth, group): `rows` of x, at most 8,
/// are known to the text; 32 divides the group, and the group the depth.
struct PackedProduct {
  DType activations = DType::f32, scales = DType::f32;
  int bits = 4, rows = 1;
  bool has_zero_points = false;
  bool on_tensor_cores = false;  // where 128 divides the group and rows * parts() are at most 8; compute capability 8.0
  int tall = 1;                  // on tensor cores, in 16 columns: 1 or 2
  /// Numbers of bf16 that an activation is the sum of; f16 stays as it is.
  int parts() const { return activations == DType::f32 ? 3 : 1; }
  int warps() const { return on_tensor_cores ? 8 : 4; }  // of a block
  int columns() const {                                  // of a warp (of a block on tensor cores), as measured
    if (on_tensor_cores) return 16 * tall;
    return bits == 8 && rows <= 2 ? 2 : 4;
  }
};
LibrarySource few_rows_kernel(const PackedProduct& product);

}  // namespace cuda
SINTER_NAMESPACE_END
