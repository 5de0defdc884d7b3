// Matrix times vector, where each element of the matrix is used once and tiles gain nothing. Plain functions over
// intrinsics, the same for both instruction sets: memory is the limit. Each output is a chain of fma in order of k.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// out[row] = sum over k of matrix[row][k] * vector[k], a row's elements being adjacent. Strides in bytes. Needs AVX2 and FMA.
struct DotRows {
  DType dtype = DType::f32;
  const char* matrix = nullptr;
  std::int64_t rows = 0, row_stride = 0, k = 0;
  const char* vector = nullptr;
  std::int64_t vector_stride = 0;
  char* out = nullptr;
  std::int64_t out_stride = 0;
};
void dot_rows(const DotRows& work);

/// out[column] = sum over k of vector[k] * matrix[k][column], columns (of matrix and out) being adjacent. Reads several
/// rows of the matrix at once from left to right, which is what the processor prefetches. Strides in bytes.
struct AddRows {
  DType dtype = DType::f32;
  const char* matrix = nullptr;
  std::int64_t columns = 0, k_stride = 0, k = 0;
  const char* vector = nullptr;
  std::int64_t vector_stride = 0;
  char* out = nullptr;
};
void add_rows(const AddRows& work);

}  // namespace x86
SINTER_NAMESPACE_END
