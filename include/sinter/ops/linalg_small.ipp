// Gaussian elimination with partial pivoting, Cholesky's factorisation and substitution over lanes. The same code is
// compiled for three widths of registers.
#pragma once

#include <sinter/ops/linalg_small.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>

#include <algorithm>
#include <cmath>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

template <class T>
struct SmallLanes;
template <>
struct SmallLanes<float> {
  typedef float Vector __attribute__((vector_size(64)));
  using Integer = std::int32_t;
  typedef Integer Mask __attribute__((vector_size(64)));
};
template <>
struct SmallLanes<double> {
  typedef double Vector __attribute__((vector_size(64)));
  using Integer = std::int64_t;
  typedef Integer Mask __attribute__((vector_size(64)));
};

/// The matrices of all lanes, and the right sides beside them.
template <class T>
struct SmallBlock {
  using Vector = typename SmallLanes<T>::Vector;
  using Mask = typename SmallLanes<T>::Mask;
  static constexpr std::int64_t lanes = 64 / static_cast<std::int64_t>(sizeof(T));
  Vector at[most_small_rows][most_small_rows + most_small_columns];
  Mask info;
};

/// Element (i, j) of each lane's matrix; lanes behind the last one repeat it.
template <class T>
SINTER_ALWAYS_INLINE void load_small(SmallBlock<T>& block, const T* from, std::int64_t used, std::int64_t rows,
                                     std::int64_t columns, std::int64_t first_column, bool is_transposed) {
  constexpr std::int64_t lanes = SmallBlock<T>::lanes, row = most_small_rows + most_small_columns;
  const std::int64_t i_stride = is_transposed ? 1 : columns, j_stride = is_transposed ? columns : 1;
  T* const to = reinterpret_cast<T*>(&block.at[0][first_column]);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const T* at = from + i * i_stride + j * j_stride;
      T* const place = to + (i * row + j) * lanes;
      if (used == lanes) {
#pragma GCC unroll 16
        for (std::int64_t lane = 0; lane < lanes; ++lane, at += rows * columns) place[lane] = *at;
        continue;
      }
      for (std::int64_t lane = 0; lane < lanes; ++lane) place[lane] = at[std::min(lane, used - 1) * rows * columns];
    }
}
template <class T>
SINTER_ALWAYS_INLINE void store_small(const SmallBlock<T>& block, T* to, std::int64_t used, std::int64_t rows,
                                      std::int64_t columns, std::int64_t first_column) {
  constexpr std::int64_t lanes = SmallBlock<T>::lanes, row = most_small_rows + most_small_columns;
  const T* const from = reinterpret_cast<const T*>(&block.at[0][first_column]);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      T* at = to + i * columns + j;
      const T* const place = from + (i * row + j) * lanes;
      if (used == lanes) {
#pragma GCC unroll 16
        for (std::int64_t lane = 0; lane < lanes; ++lane, at += rows * columns) *at = place[lane];
        continue;
      }
      for (std::int64_t lane = 0; lane < used; ++lane) at[lane * rows * columns] = place[lane];
    }
}

/// The first step at which a lane fails.
template <class T, class Failed>
SINTER_ALWAYS_INLINE void note_small(SmallBlock<T>& block, const Failed& fails, std::int64_t step) {
  const auto order = typename SmallBlock<T>::Mask{} + static_cast<typename SmallLanes<T>::Integer>(step + 1);
  block.info = (fails & (block.info == 0)) ? order : block.info;
}

/// Upper triangles, and right sides to which the same was done. Gives the product of the pivots and the signs of the
/// exchanges.
template <class T>
SINTER_ALWAYS_INLINE void eliminate_small(SmallBlock<T>& block, std::int64_t n, std::int64_t width,
                                          typename SmallBlock<T>::Vector& determinant) {
  using Vector = typename SmallBlock<T>::Vector;
  determinant = Vector{} + T(1);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j + 1; i < n; ++i) {
      const Vector one = block.at[j][j], other = block.at[i][j];
      const auto exchanges = (other < 0 ? -other : other) > (one < 0 ? -one : one);
      for (std::int64_t c = j; c < width; ++c) {
        const Vector upper = block.at[j][c], lower = block.at[i][c];
        block.at[j][c] = exchanges ? lower : upper;
        block.at[i][c] = exchanges ? upper : lower;
      }
      determinant = exchanges ? -determinant : determinant;
    }
    const Vector pivot = block.at[j][j];
    determinant *= pivot;
    note_small(block, pivot == 0, j);
    for (std::int64_t i = j + 1; i < n; ++i) {
      const Vector factor = pivot == 0 ? Vector{} : block.at[i][j] / pivot;
      for (std::int64_t c = j + 1; c < width; ++c) block.at[i][c] -= factor * block.at[j][c];
    }
  }
}

/// Right sides behind a triangle, from the first row to the last or the other way.
template <class T>
SINTER_ALWAYS_INLINE void substitute_small(SmallBlock<T>& block, std::int64_t n, std::int64_t columns, bool is_forward,
                                           bool is_unit) {
  for (std::int64_t done = 0; done < n; ++done) {
    const std::int64_t i = is_forward ? done : n - 1 - done;
    for (std::int64_t c = n; c < n + columns; ++c) {
      auto value = block.at[i][c];
      for (std::int64_t other = 0; other < done; ++other) {
        const std::int64_t j = is_forward ? other : n - 1 - other;
        value -= block.at[i][j] * block.at[j][c];
      }
      block.at[i][c] = is_unit ? value : value / block.at[i][i];
    }
  }
}

/// Lower triangles in place, zeros above them.
template <class T>
SINTER_ALWAYS_INLINE void factor_small(SmallBlock<T>& block, std::int64_t n) {
  using Vector = typename SmallBlock<T>::Vector;
  for (std::int64_t j = 0; j < n; ++j) {
    Vector square = block.at[j][j];
    for (std::int64_t k = 0; k < j; ++k) square -= block.at[j][k] * block.at[j][k];
    const auto is_positive = square > 0;
    note_small(block, ~is_positive, j);
    Vector root = square;
    for (std::int64_t lane = 0; lane < block.lanes; ++lane) root[lane] = std::sqrt(std::max(square[lane], T(0)));
    block.at[j][j] = is_positive ? root : square;
    for (std::int64_t i = j + 1; i < n; ++i) {
      Vector sum = block.at[i][j];
      for (std::int64_t k = 0; k < j; ++k) sum -= block.at[i][k] * block.at[j][k];
      block.at[i][j] = sum / block.at[j][j];
      block.at[j][i] = Vector{};
    }
  }
}

template <class T>
SINTER_ALWAYS_INLINE void compute_small_block(const SmallMatrices<T>& w, std::int64_t first, std::int64_t used) {
  using Vector = typename SmallBlock<T>::Vector;
  SmallBlock<T> block;
  block.info = typename SmallBlock<T>::Mask{};
  const std::int64_t n = w.n, columns = w.use == SmallUse::inverse ? n : w.columns;
  load_small(block, w.a + first * n * n, used, n, n, 0, w.transposed);
  if (w.b != nullptr) load_small(block, w.b + first * n * columns, used, n, columns, n, false);
  Vector determinant;
  switch (w.use) {
    case SmallUse::inverse:
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) block.at[i][n + j] = Vector{} + T(i == j ? 1 : 0);
      [[fallthrough]];
    case SmallUse::solve:
      eliminate_small(block, n, n + columns, determinant);
      substitute_small(block, n, columns, false, false);
      store_small(block, w.out + first * n * columns, used, n, columns, n);
      break;
    case SmallUse::determinant:
      eliminate_small(block, n, n, determinant);
      for (std::int64_t lane = 0; lane < used; ++lane) w.out[first + lane] = determinant[lane];
      break;
    case SmallUse::cholesky:
      factor_small(block, n);
      store_small(block, w.out + first * n * n, used, n, n, 0);
      break;
    case SmallUse::triangular:
      substitute_small(block, n, columns, w.upper == w.transposed, w.unit);
      store_small(block, w.out + first * n * columns, used, n, columns, n);
      break;
  }
  if (w.info == nullptr) return;
  for (std::int64_t lane = 0; lane < used; ++lane) w.info[first + lane] = static_cast<std::int32_t>(block.info[lane]);
}
template <class T>
SINTER_ALWAYS_INLINE void compute_small_blocks(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += SmallBlock<T>::lanes)
    compute_small_block(work, i, std::min(SmallBlock<T>::lanes, end - i));
}

template <class T>
void compute_small_plain(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
  compute_small_blocks(work, begin, end);
}
#ifndef SINTER_NO_X86
template <class T>
__attribute__((target("avx2,fma"))) void compute_small_avx2(const SmallMatrices<T>& work, std::int64_t begin,
                                                            std::int64_t end) {
  compute_small_blocks(work, begin, end);
}
template <class T>
__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))) void compute_small_avx512(const SmallMatrices<T>& work,
                                                                                        std::int64_t begin,
                                                                                        std::int64_t end) {
  compute_small_blocks(work, begin, end);
}
#endif

/// Matrices [begin, end). The results are the same however a batch is divided.
template <class T>
void compute_small(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
#ifndef SINTER_NO_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    const bool has_avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return has_avx512 ? compute_small_avx512(work, begin, end) : compute_small_avx2(work, begin, end);
  }
#endif
  compute_small_plain(work, begin, end);
}

template <class T>
void compute_small_batch(const SmallMatrices<T>& work, std::int64_t count) {
  constexpr std::int64_t together = 64;  // whole vectors of either dtype
  const double n = static_cast<double>(work.n), operations = n * n * (n + static_cast<double>(work.columns));
  parallel_for((count + together - 1) / together, together * (5 + operations / 8),
               [&](std::int64_t begin, std::int64_t end) {
                 compute_small(work, begin * together, std::min(count, end * together));
               });
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
