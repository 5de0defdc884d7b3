// Dots go by groups of rows, one row per lane, so that k stays in order inside a lane: squares are transposed in
// registers. Two groups (f32) or four (f64) at a time hide the latency of fma. A single row has its blocks of k in the
// lanes.
#pragma once

#include <sinter/backend/x86/contraction/vector.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_vector_detail {

/// Eight lanes of f32 or four of f64, with the few operations that are needed.
template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vector = __m256;
  static constexpr int count = 8, groups = 2;
  __attribute__((target("avx2,fma"))) static void zero(Vector& v) { v = _mm256_setzero_ps(); }
  __attribute__((target("avx2,fma"))) static void load(Vector& v, const float* from) { v = _mm256_loadu_ps(from); }
  __attribute__((target("avx2,fma"))) static void store(float* to, const Vector& v) { _mm256_storeu_ps(to, v); }
  __attribute__((target("avx2,fma"))) static void broadcast(Vector& v, const float* from) {
    v = _mm256_broadcast_ss(from);
  }
  __attribute__((target("avx2,fma"))) static void fma(Vector& sum, const Vector& a, const Vector& b) {
    sum = _mm256_fmadd_ps(a, b, sum);
  }
  /// columns[i] = element i of each of the eight rows.
  __attribute__((target("avx2,fma"))) static void transpose(const float* const* rows, std::int64_t at,
                                                            Vector* columns) {
#pragma GCC unroll 8
    for (int half = 0; half < 2; ++half) {
      Vector in[4];
#pragma GCC unroll 8
      for (int i = 0; i < 4; ++i)
        in[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[i] + at + 4 * half)),
                                     _mm_loadu_ps(rows[i + 4] + at + 4 * half), 1);
      const Vector ab0 = _mm256_unpacklo_ps(in[0], in[1]), ab1 = _mm256_unpackhi_ps(in[0], in[1]);
      const Vector cd0 = _mm256_unpacklo_ps(in[2], in[3]), cd1 = _mm256_unpackhi_ps(in[2], in[3]);
      columns[4 * half] = _mm256_shuffle_ps(ab0, cd0, 0x44);
      columns[4 * half + 1] = _mm256_shuffle_ps(ab0, cd0, 0xEE);
      columns[4 * half + 2] = _mm256_shuffle_ps(ab1, cd1, 0x44);
      columns[4 * half + 3] = _mm256_shuffle_ps(ab1, cd1, 0xEE);
    }
  }
};

template <>
struct Lanes<double> {
  using Vector = __m256d;
  static constexpr int count = 4, groups = 4;
  __attribute__((target("avx2,fma"))) static void zero(Vector& v) { v = _mm256_setzero_pd(); }
  __attribute__((target("avx2,fma"))) static void load(Vector& v, const double* from) { v = _mm256_loadu_pd(from); }
  __attribute__((target("avx2,fma"))) static void store(double* to, const Vector& v) { _mm256_storeu_pd(to, v); }
  __attribute__((target("avx2,fma"))) static void broadcast(Vector& v, const double* from) {
    v = _mm256_broadcast_sd(from);
  }
  __attribute__((target("avx2,fma"))) static void fma(Vector& sum, const Vector& a, const Vector& b) {
    sum = _mm256_fmadd_pd(a, b, sum);
  }
  __attribute__((target("avx2,fma"))) static void transpose(const double* const* rows, std::int64_t at,
                                                            Vector* columns) {
#pragma GCC unroll 8
    for (int half = 0; half < 2; ++half) {
      const Vector even = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(rows[0] + at + 2 * half)),
                                               _mm_loadu_pd(rows[2] + at + 2 * half), 1);
      const Vector odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(rows[1] + at + 2 * half)),
                                              _mm_loadu_pd(rows[3] + at + 2 * half), 1);
      columns[2 * half] = _mm256_unpacklo_pd(even, odd);
      columns[2 * half + 1] = _mm256_unpackhi_pd(even, odd);
    }
  }
};

template <class T>
const T* element(const char* base, std::int64_t stride, std::int64_t index) {
  return reinterpret_cast<const T*>(base + stride * index);
}

__attribute__((target("avx2,fma"))) inline float multiply_add(float a, float b, float sum) {
  return __builtin_fmaf(a, b, sum);
}
__attribute__((target("avx2,fma"))) inline double multiply_add(double a, double b, double sum) {
  return __builtin_fma(a, b, sum);
}

/// Knuth's two-sum, The Art of Computer Programming, section 4.2.2.
template <class T>
__attribute__((target("avx2,fma"))) void add_group_of(T* total, const T* group, T* lost, std::int64_t columns,
                                                      std::int64_t group_end, std::int64_t k) {
  if (group_end <= 2 * product_sum_group) std::fill_n(lost, columns, T(0));
  for (std::int64_t i = 0; i < columns; ++i) {
    const T sum = total[i] + group[i], added = sum - total[i];
    lost[i] += (total[i] - (sum - added)) + (group[i] - added);
    total[i] = sum;
  }
  if (group_end < k) return;
  // What was lost is NaN where the sum is not finite.
  for (std::int64_t i = 0; i < columns; ++i) total[i] = lost[i] == lost[i] ? total[i] + lost[i] : total[i];
}

/// Sums of blocks of k on their way to the sum of all: in groups, as Kernel says. `Count` of them, side by side.
template <class T, int Count>
struct Totals {
  T group[as_index(Count)] = {};
  T all[as_index(Count)] = {};
  T lost[as_index(Count)] = {};
  /// Takes the sums of the block that begins at `k`.
  __attribute__((target("avx2,fma"))) void take(const T* block, std::int64_t k, std::int64_t k_extent) {
    const std::int64_t next = k + product_sum_block;
    const bool starts_group = k % product_sum_group == 0,
               ends_group = next >= k_extent || next % product_sum_group == 0;
    for (int i = 0; i < Count; ++i) group[i] = starts_group ? block[i] : group[i] + block[i];
    if (!ends_group) return;
    if (k < product_sum_group) std::copy_n(group, Count, all);
    else add_group_of(all, group, lost, Count, std::min(next, k_extent), k_extent);
  }
};

/// A row for each lane. Lanes that are not used repeat the last row.
template <class T>
struct LaneRows {
  static constexpr int count = Lanes<T>::count * Lanes<T>::groups;
  const T* row[as_index(count)];
  int used = count;
};

/// sums[i] = sum over k in [begin, end) of row i times the vector, in order.
template <class T>
__attribute__((target("avx2,fma"))) void dot_block(const DotRows& w, const LaneRows<T>& matrix, std::int64_t begin,
                                                   std::int64_t end, T* results) {
  using L = Lanes<T>;
  typename L::Vector sums[L::groups];
  for (auto& sum : sums) L::zero(sum);
  std::int64_t k = begin;
  for (; k + L::count <= end; k += L::count) {
    typename L::Vector x[L::count], columns[L::count];
#pragma GCC unroll 8
    for (int i = 0; i < L::count; ++i) L::broadcast(x[i], element<T>(w.vector, w.vector_stride, k + i));
#pragma GCC unroll 8
    for (int group = 0; group < L::groups; ++group) {
      L::transpose(matrix.row + group * L::count, k, columns);
#pragma GCC unroll 8
      for (int i = 0; i < L::count; ++i) L::fma(sums[group], columns[i], x[i]);
    }
  }
#pragma GCC unroll 8
  for (int group = 0; group < L::groups; ++group) L::store(results + group * L::count, sums[group]);
  for (; k < end; ++k)
    for (int i = 0; i < matrix.used; ++i)
      results[i] = multiply_add(matrix.row[i][k], *element<T>(w.vector, w.vector_stride, k), results[i]);
}

template <class T>
__attribute__((target("avx2,fma"))) void dot_rows_of(const DotRows& w) {
  constexpr int together = LaneRows<T>::count;
  for (std::int64_t first = 0; first < w.rows; first += together) {
    LaneRows<T> matrix;
    for (int i = 0; i < together; ++i)
      matrix.row[i] = element<T>(w.matrix, w.row_stride, std::min<std::int64_t>(first + i, w.rows - 1));
    matrix.used = static_cast<int>(std::min<std::int64_t>(together, w.rows - first));
    Totals<T, together> totals;
    T sums[as_index(together)];
    std::int64_t k = 0;
    do {
      dot_block<T>(w, matrix, k, std::min(k + product_sum_block, w.k), sums);
      totals.take(sums, k, w.k);
      k += product_sum_block;
    } while (k < w.k);
    for (int i = 0; i < matrix.used; ++i) *reinterpret_cast<T*>(w.out + (first + i) * w.out_stride) = totals.all[i];
  }
}

/// sums[i] = the product of whole blocks i of two vectors, each in order.
template <class T>
__attribute__((target("avx2,fma"))) void dot_blocks(const LaneRows<T>& left, const LaneRows<T>& right, T* results) {
  using L = Lanes<T>;
  typename L::Vector sums[L::groups];
  for (auto& sum : sums) L::zero(sum);
  for (std::int64_t k = 0; k < product_sum_block; k += L::count) {
    typename L::Vector x[L::count], y[L::count];
#pragma GCC unroll 8
    for (int group = 0; group < L::groups; ++group) {
      L::transpose(left.row + group * L::count, k, x);
      L::transpose(right.row + group * L::count, k, y);
#pragma GCC unroll 8
      for (int i = 0; i < L::count; ++i) L::fma(sums[group], x[i], y[i]);
    }
  }
#pragma GCC unroll 8
  for (int group = 0; group < L::groups; ++group) L::store(results + group * L::count, sums[group]);
}

/// One row: its blocks are what lies side by side in the lanes.
template <class T>
__attribute__((target("avx2,fma"))) void dot_of(const DotRows& w) {
  constexpr int together = LaneRows<T>::count;
  const auto *left = reinterpret_cast<const T*>(w.matrix), *right = reinterpret_cast<const T*>(w.vector);
  const std::int64_t whole = w.k / product_sum_block;
  Totals<T, 1> totals;
  for (std::int64_t first = 0; first < whole; first += together) {
    LaneRows<T> a, b;
    for (int i = 0; i < together; ++i) {
      const std::int64_t at = std::min(first + i, whole - 1) * product_sum_block;
      a.row[i] = left + at;
      b.row[i] = right + at;
    }
    T sums[as_index(together)];
    dot_blocks<T>(a, b, sums);
    for (int i = 0; i < together && first + i < whole; ++i) totals.take(sums + i, (first + i) * product_sum_block, w.k);
  }
  if (w.k == 0 || w.k % product_sum_block != 0) {
    T sum = 0;
    for (std::int64_t k = whole * product_sum_block; k < w.k; ++k) sum = multiply_add(left[k], right[k], sum);
    totals.take(&sum, whole * product_sum_block, w.k);
  }
  *reinterpret_cast<T*>(w.out) = totals.all[0];
}

/// Adds `Count` rows from `k` on to all columns of `out`, which starts from zero there if `starts`.
template <class T, int Count>
__attribute__((target("avx2,fma"))) void add_some_rows(const AddRows& w, std::int64_t k, T* out, bool starts) {
  using L = Lanes<T>;
  const T* rows[as_index(Count)];
  typename L::Vector x[as_index(Count)];
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    rows[i] = element<T>(w.matrix, w.k_stride, k + i);
    L::broadcast(x[i], element<T>(w.vector, w.vector_stride, k + i));
  }
  std::int64_t column = 0;
  for (; column + L::count <= w.columns; column += L::count) {
    typename L::Vector sum, b;
    if (starts) L::zero(sum);
    else L::load(sum, out + column);
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      L::load(b, rows[i] + column);
      L::fma(sum, x[i], b);
    }
    L::store(out + column, sum);
  }
  for (; column < w.columns; ++column) {
    T sum = starts ? T(0) : out[column];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i)
      sum = multiply_add(*element<T>(w.vector, w.vector_stride, k + i), rows[i][column], sum);
    out[column] = sum;
  }
}

/// Rows [begin, end), a block, into `out`.
template <class T>
void add_block(const AddRows& w, std::int64_t begin, std::int64_t end, T* out) {
  if (begin == end) std::fill_n(out, w.columns, T(0));
  std::int64_t k = begin;
  for (; k + 8 <= end; k += 8) add_some_rows<T, 8>(w, k, out, k == begin);
  for (; k < end; ++k) add_some_rows<T, 1>(w, k, out, k == begin);
}

template <class T>
__attribute__((target("avx2,fma"))) void add_columns(T* to, const T* from, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) to[i] += from[i];
}

template <class T>
void add_rows_of(const AddRows& w) {
  ensure(w.columns <= most_added_columns, "add_rows: too many columns at once");
  alignas(64) T block[most_added_columns], group[most_added_columns], lost[most_added_columns];
  T* const out = reinterpret_cast<T*>(w.out);
  std::int64_t k = 0;
  do {
    const std::int64_t end = std::min(k + product_sum_block, w.k);
    T* const total = k < product_sum_group ? out : group;
    if (k % product_sum_group == 0) {
      add_block(w, k, end, total);
    } else {
      add_block(w, k, end, block);
      add_columns(total, block, w.columns);
    }
    if (total == group && (end == w.k || end % product_sum_group == 0))
      add_group_of(out, group, lost, w.columns, end, w.k);
    k = end;
  } while (k < w.k);
}

}  // namespace x86_vector_detail

SINTER_DECL void dot_rows(const DotRows& work) {
  using namespace x86_vector_detail;
  const bool is_f64 = work.dtype == DType::f64;
  if (work.rows == 1 && work.vector_stride == size_of(work.dtype))
    return is_f64 ? dot_of<double>(work) : dot_of<float>(work);
  if (is_f64) dot_rows_of<double>(work);
  else dot_rows_of<float>(work);
}

SINTER_DECL void add_rows(const AddRows& work) {
  if (work.dtype == DType::f64) x86_vector_detail::add_rows_of<double>(work);
  else x86_vector_detail::add_rows_of<float>(work);
}

SINTER_DECL void add_group(const AddGroup& w) {
  using x86_vector_detail::add_group_of;
  const auto add = [&](auto* total) {
    using T = std::remove_pointer_t<decltype(total)>;
    add_group_of(total, static_cast<const T*>(w.group), static_cast<T*>(w.lost), w.columns, w.group_end, w.k);
  };
  if (w.dtype == DType::f64) add(static_cast<double*>(w.total));
  else add(static_cast<float*>(w.total));
}

}  // namespace x86
SINTER_NAMESPACE_END
