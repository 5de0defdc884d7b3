// Dots go by groups of rows, one row per lane, so that k stays in order inside a lane: blocks are transposed in
// registers. Two groups (f32) or four (f64) at a time hide the latency of fma.
#pragma once

#include <sinter/backend/x86/contraction_vector.hpp>

#include <immintrin.h>

#include <algorithm>

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
  __attribute__((target("avx2,fma"))) static void broadcast(Vector& v, const float* from) { v = _mm256_broadcast_ss(from); }
  __attribute__((target("avx2,fma"))) static void fma(Vector& sum, const Vector& a, const Vector& b) { sum = _mm256_fmadd_ps(a, b, sum); }
  /// columns[i] = element i of each of the eight rows.
  __attribute__((target("avx2,fma"))) static void transpose(const float* const* rows, std::int64_t at, Vector* columns) {
#pragma GCC unroll 8
    for (int half = 0; half < 2; ++half) {
      Vector in[4];
#pragma GCC unroll 8
      for (int i = 0; i < 4; ++i)
        in[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[i] + at + 4 * half)), _mm_loadu_ps(rows[i + 4] + at + 4 * half), 1);
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
  __attribute__((target("avx2,fma"))) static void broadcast(Vector& v, const double* from) { v = _mm256_broadcast_sd(from); }
  __attribute__((target("avx2,fma"))) static void fma(Vector& sum, const Vector& a, const Vector& b) { sum = _mm256_fmadd_pd(a, b, sum); }
  __attribute__((target("avx2,fma"))) static void transpose(const double* const* rows, std::int64_t at, Vector* columns) {
#pragma GCC unroll 8
    for (int half = 0; half < 2; ++half) {
      const Vector even = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(rows[0] + at + 2 * half)), _mm_loadu_pd(rows[2] + at + 2 * half), 1);
      const Vector odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(rows[1] + at + 2 * half)), _mm_loadu_pd(rows[3] + at + 2 * half), 1);
      columns[2 * half] = _mm256_unpacklo_pd(even, odd);
      columns[2 * half + 1] = _mm256_unpackhi_pd(even, odd);
    }
  }
};

template <class T>
const T* element(const char* base, std::int64_t stride, std::int64_t index) {
  return reinterpret_cast<const T*>(base + stride * index);
}

template <class T>
__attribute__((target("avx2,fma"))) void dot_rows_of(const DotRows& w) {
  using L = Lanes<T>;
  constexpr int together = L::count * L::groups;
  for (std::int64_t first = 0; first < w.rows; first += together) {
    const T* rows[together];  // rows past the end repeat the last one; their sums are not stored
    for (int i = 0; i < together; ++i) rows[i] = element<T>(w.matrix, w.row_stride, std::min<std::int64_t>(first + i, w.rows - 1));
    typename L::Vector sums[L::groups];
    for (auto& sum : sums) L::zero(sum);
    std::int64_t k = 0;
    for (; k + L::count <= w.k; k += L::count) {
      typename L::Vector x[L::count], columns[L::count];
#pragma GCC unroll 8
      for (int i = 0; i < L::count; ++i) L::broadcast(x[i], element<T>(w.vector, w.vector_stride, k + i));
#pragma GCC unroll 8
      for (int group = 0; group < L::groups; ++group) {
        L::transpose(rows + group * L::count, k, columns);
#pragma GCC unroll 8
        for (int i = 0; i < L::count; ++i) L::fma(sums[group], columns[i], x[i]);
      }
    }
    T results[together];
#pragma GCC unroll 8
    for (int group = 0; group < L::groups; ++group) L::store(results + group * L::count, sums[group]);
    const auto used = static_cast<int>(std::min<std::int64_t>(together, w.rows - first));
    for (; k < w.k; ++k)
      for (int i = 0; i < used; ++i) {
        if constexpr (sizeof(T) == 4) results[i] = __builtin_fmaf(rows[i][k], *element<T>(w.vector, w.vector_stride, k), results[i]);
        else results[i] = __builtin_fma(rows[i][k], *element<T>(w.vector, w.vector_stride, k), results[i]);
      }
    for (int i = 0; i < used; ++i) *reinterpret_cast<T*>(w.out + (first + i) * w.out_stride) = results[i];
  }
}

/// Adds `Count` rows from `k` on to all columns.
template <class T, int Count>
__attribute__((target("avx2,fma"))) void add_some_rows(const AddRows& w, std::int64_t k) {
  using L = Lanes<T>;
  auto* out = reinterpret_cast<T*>(w.out);
  const T* rows[Count];
  typename L::Vector x[Count];
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    rows[i] = element<T>(w.matrix, w.k_stride, k + i);
    L::broadcast(x[i], element<T>(w.vector, w.vector_stride, k + i));
  }
  std::int64_t column = 0;
  for (; column + L::count <= w.columns; column += L::count) {
    typename L::Vector sum, b;
    if (k == 0) L::zero(sum);
    else L::load(sum, out + column);
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      L::load(b, rows[i] + column);
      L::fma(sum, x[i], b);
    }
    L::store(out + column, sum);
  }
  for (; column < w.columns; ++column) {
    T sum = k == 0 ? T(0) : out[column];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      const T factor = *element<T>(w.vector, w.vector_stride, k + i);
      if constexpr (sizeof(T) == 4) sum = __builtin_fmaf(factor, rows[i][column], sum);
      else sum = __builtin_fma(factor, rows[i][column], sum);
    }
    out[column] = sum;
  }
}

template <class T>
void add_rows_of(const AddRows& w) {
  if (w.k == 0) std::fill_n(reinterpret_cast<T*>(w.out), w.columns, T(0));
  std::int64_t k = 0;
  for (; k + 8 <= w.k; k += 8) add_some_rows<T, 8>(w, k);
  for (; k < w.k; ++k) add_some_rows<T, 1>(w, k);
}

}  // namespace x86_vector_detail

SINTER_DECL void dot_rows(const DotRows& work) {
  if (work.dtype == DType::f64) x86_vector_detail::dot_rows_of<double>(work);
  else x86_vector_detail::dot_rows_of<float>(work);
}

SINTER_DECL void add_rows(const AddRows& work) {
  if (work.dtype == DType::f64) x86_vector_detail::add_rows_of<double>(work);
  else x86_vector_detail::add_rows_of<float>(work);
}

}  // namespace x86
SINTER_NAMESPACE_END
