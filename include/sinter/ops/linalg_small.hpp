// Many small matrices at once: one in each lane of a vector, which takes whole batches at the speed of memory. Rows are
// exchanged lane by lane, by selection. Knows addresses and extents only.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline constexpr std::int64_t most_small_rows = 8, most_small_columns = 16;

/// What is made of matrices a [n, n] and right sides b [n, columns], one after the other in memory.
enum class SmallUse : std::uint8_t { solve, inverse, determinant, cholesky, triangular };
template <class T>
struct SmallMatrices {
  SmallUse use = SmallUse::solve;
  const T* a = nullptr;
  const T* b = nullptr;  // solve, triangular
  T* out = nullptr;
  std::int32_t* info =
      nullptr;  // 0, or the first pivot (the order of the first minor) that is 0 (not positive), from 1
  std::int64_t n = 0, columns = 0;                       // at most most_small_rows, most_small_columns
  bool transposed = false, upper = false, unit = false;  // a^T x = b; triangular: which part, and ones on the diagonal
};
/// Matrices 0 to before `count`, on threads. f32 and f64.
template <class T>
void compute_small_batch(const SmallMatrices<T>& work, std::int64_t count);

}  // namespace ops_detail
SINTER_NAMESPACE_END
