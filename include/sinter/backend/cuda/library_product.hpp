// A product of matrices by cuBLASLt, as a call in a launch list: full precision of the dtype, or TF32 where that is allowed.
// Knows no kernels.
#pragma once

#include <sinter/backend/cuda/driver.hpp>
#include <sinter/backend/cuda/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// result[b, i, j] = sum over k of left[b, i, k] * right[b, j, k]; strides in elements. Of a factor, one of `stride` and
/// `depth_stride` is 1. The result has unit stride along columns.
struct LibraryProduct {
  struct Factor {
    std::uint16_t operand = 0;
    std::int64_t byte_offset = 0;
    std::int64_t stride = 0;         // along its own axis
    std::int64_t depth_stride = 0;
    std::int64_t batch_stride = 0;
  };
  DType dtype = DType::f32;          // f32 or f64
  MatmulPrecision precision = MatmulPrecision::f32;   // tf32 is taken at its word, tf32x3 is computed in full
  std::int64_t batches = 1, rows = 0, columns = 0, depth = 0;
  Factor left, right;
  int result_operand = -1;           // -1: at the start of the workspace
  std::int64_t result_byte_offset = 0, result_stride = 0, result_batch_stride = 0;
  std::size_t scratch_place = 0, scratch_bytes = 0;   // in the workspace, for the library
};

/// Can cuBLASLt be opened here? `why` receives what was tried.
bool has_cublaslt(std::string* why = nullptr);
std::unique_ptr<LibraryCall> make_library_product(const LibraryProduct& product);

}  // namespace cuda
SINTER_NAMESPACE_END
