// Matrix times vector, where each element of the matrix is used once and tiles gain nothing. Plain functions over
// intrinsics, the same for both instruction sets: memory is the limit. Each output is summed in the order that Kernel
// fixes.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// out[row] = sum over k of matrix[row][k] * vector[k], a row's elements being adjacent. Strides in bytes. Needs AVX2
/// and FMA.
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

/// out[column] = sum over k of vector[k] * matrix[k][column], columns (of matrix and out) being adjacent, at most
/// most_added_columns of them. Reads several rows of the matrix at once from left to right, which is what the processor
/// prefetches. Strides in bytes.
inline constexpr std::int64_t most_added_columns = 1024;
struct AddRows {
  DType dtype = DType::f32;
  const char* matrix = nullptr;
  std::int64_t columns = 0, k_stride = 0, k = 0;
  const char* vector = nullptr;
  std::int64_t vector_stride = 0;
  char* out = nullptr;
};
void add_rows(const AddRows& work);

/// Adds a row of sums of a group of k (product_sum_group), any but the first, to the sums of those before it. What
/// rounding loses is added up in `lost`, from the second group on, and enters with the last one.
struct AddGroup {
  DType dtype = DType::f32;
  void* total = nullptr;
  const void* group = nullptr;
  void* lost = nullptr;
  std::int64_t columns = 0, group_end = 0, k = 0;
};
void add_group(const AddGroup& work);

}  // namespace x86
SINTER_NAMESPACE_END
