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
  int columns() const { return bits == 8 && rows <= 2 ? 2 : 4; }  // of a warp, as measured
};
LibrarySource few_rows_kernel(const PackedProduct& product);

}  // namespace cuda
SINTER_NAMESPACE_END
