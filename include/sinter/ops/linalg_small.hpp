// Many small matrices at once: one in each lane of a vector, which takes whole batches at the speed of memory. Rows are
// exchanged lane by lane, by selection. Knows addresses and extents only.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstdint>
#include <limits>

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
  // Of each matrix 0, or the first pivot (the order of the first minor) that is 0 (not positive), from 1.
  std::int32_t* info = nullptr;
  // Instead of all of them the first one that is not 0: SmallFailure::place of it, or what is there.
  std::atomic<std::int64_t>* first_failure = nullptr;
  std::int64_t n = 0, columns = 0;                       // at most most_small_rows, most_small_columns
  bool transposed = false, upper = false, unit = false;  // a^T x = b; triangular: which part, and ones on the diagonal
};
/// A matrix and its pivot as one number, so that the least one is the first matrix that failed.
struct SmallFailure {
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t matrix = 0;
  std::int32_t pivot = 0;
  std::int64_t place() const { return matrix * (most_small_rows + 1) + pivot; }
  static SmallFailure at(std::int64_t place) {
    return {place / (most_small_rows + 1), static_cast<std::int32_t>(place % (most_small_rows + 1))};
  }
};
/// Matrices 0 to before `count`, on threads. f32 and f64.
template <class T>
void compute_small_batch(const SmallMatrices<T>& work, std::int64_t count);

}  // namespace ops_detail
SINTER_NAMESPACE_END
