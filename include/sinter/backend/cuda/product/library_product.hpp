// A product of matrices by cuBLASLt, as a call in a launch list, with what the library can do to the result in the same
// pass. Knows no kernels.
#pragma once

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// result[b, i, j] = scale * sum over k of left[b, i, k] * right[b, j, k] + sign * residual[b, i, j] + bias[b, j];
/// strides in elements. Of an operand, one of `stride` and `depth_stride` is 1. Result and residual have unit stride
/// along columns.
struct LibraryProduct {
  struct Operand {
    std::uint16_t operand = 0;
    std::int64_t byte_offset = 0;
    std::int64_t stride = 0;  // along its own axis
    std::int64_t depth_stride = 0;
    std::int64_t batch_stride = 0;
  };
  struct Matrix {
    int operand = -1;  // result: -1: at the start of the workspace; bias and residual: there is none
    std::int64_t byte_offset = 0;
    std::int64_t stride = 0;  // from row to row; a bias has none
    std::int64_t batch_stride = 0;
  };
  /// In the order of the formula: another order rounds differently. Scales other than 1 and -1 come alone.
  struct Epilogue {
    double scale = 1, sign = 1;
    Matrix residual, bias;
    bool is_empty() const { return scale == 1 && residual.operand < 0 && bias.operand < 0; }
  };
  DType dtype = DType::f32;  // what is added up: f32, f64, or i32 of i8
  /// Of both operands, and of the result: f16 or bf16 with a result of f32 or their own, i8 with one of i32, or f8 with
  /// one of f32, f16 or bf16, where the right operand may be of the other f8. Unset: all are of `dtype`.
  struct Narrow {
    DType operands = DType::bf16, result = DType::bf16;
    std::optional<DType> right{};
  };
  std::optional<Narrow> narrow{};
  MatmulPrecision precision = MatmulPrecision::f32;  // tf32 is computed as tf32, tf32x3 in full precision
  std::int64_t batches = 1, rows = 0, columns = 0, depth = 0;
  Operand left, right;
  Matrix result;
  Epilogue epilogue;
  int left_scale = -1, right_scale = -1;  // of f8: operands that hold an f32 each, which the product is multiplied by
  bool are_scales_vectors = false;        // those of each row of the left operand, and of each column of the right one
  std::size_t scratch_place = 0;          // in the workspace, for the library
  std::size_t alignment = 16;             // of operands; less is found out when run
};

std::unique_ptr<LibraryCall> make_library_product(const LibraryProduct& product);
/// What the library makes once for the calling thread's device and for products of this kind, which note_cublaslt_use()
/// was given. Without it, the first product does it.
void start_cublaslt(const std::string& kind);

}  // namespace cuda
SINTER_NAMESPACE_END
