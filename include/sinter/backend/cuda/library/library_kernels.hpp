// Small kernels around library calls: between row-major and column-major matrices, addresses of batches, triangles,
// scales of transforms, and elimination for small systems. Text only; knows no driver.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// CUDA C and its kernels' names.
struct LibrarySource {
  std::string text;
  std::vector<std::string> entries;
};

/// Kernels for elements of T exist for f32, then f64: the entry for f64 is the next one.
enum class MatrixKernel : std::uint8_t {
  transpose = 0,      // (const T* in, T* out, rows, columns, in_stride, in_batch, out_stride, out_batch, batches)
  copy_lower = 2,     // (const T* in, T* out, n, batches): zeros above the diagonal
  copy_upper = 4,     // (const T* in, T* out, rows, columns, stride, batch_stride, batches): of column-major matrices
  copy_rows = 6,      // (const T* in, T* out, count, in_batch, out_batch, batches)
  check_lower = 8,    // (const T* a, n, batches, unsigned long long* failure): elements that are not finite
  check_all = 10,     // (const T* a, size, batches, unsigned long long* failure)
  check_factor = 12,  // (const T* factor, n, batches, int* info): a NaN on the diagonal is not positive; a warp each
  addresses = 14,     // (T** places, T* first, batch_stride, batches)
  first_failed = 16,  // (const int* info, batches, unsigned long long* failure)
  permutation = 17,   // (const int* pivots, long long* order, steps, length, batches, long long* fault, tag)
  name_rows = 18,     // (int* pivots, rows, steps, batches): a pivot that names no row below names its own
};
const LibrarySource& matrix_kernels();

enum class FourierKernel : std::uint8_t {
  scale = 0,        // (T* x, pairs, factor)
  half_to_out = 2,  // (T* x, rows, numbers, is_even, factor, interior, sign): what follows a transform of real rows
  half_to_in = 4,   // (const T* in, T* out, rows, numbers, is_even, factor, interior, sign): before one to real rows
  turn = 6,         // (const T* in, T* out, rows, columns, batches): transposed matrices of pairs
};
const LibrarySource& fourier_kernels();

/// One kernel that eliminates: small_solve(const T* a, const T* b, T* out, long long count, unsigned long long*
/// failure), one thread for each matrix.
struct SmallSystem {
  enum class Made : std::uint8_t { solution, inverse, determinant };
  Made made = Made::solution;
  bool is_double = false, transposed = false;
  int n = 1, columns = 1;
  int threads() const;  // of a block
};
LibrarySource small_solve_kernel(const SmallSystem& system);

}  // namespace cuda
SINTER_NAMESPACE_END
