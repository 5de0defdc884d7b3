// The texts. Loops over elements run over the whole grid, so that any number of blocks will do.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.hpp>

#include <sinter/base/fork.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace library_detail {

inline constexpr std::string_view kernel_prelude = R"(typedef long long i64;
typedef unsigned long long u64;
#define EACH(i, count) \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (count); i += (i64)gridDim.x * blockDim.x)
template <class T> struct alignas(2 * sizeof(T)) Pair { T re, im; };
)";

inline constexpr std::string_view matrix_kernel_text = R"(
static __device__ __forceinline__ void note(u64* failure, i64 matrix, int value) {
  atomicMin(failure, (u64)matrix << 32 | (unsigned)value);
}
template <class T> static __device__ __forceinline__ bool is_finite(T x) { return x - x == 0; }
template <class T> static __device__ void transpose(const T* in, T* out, i64 rows, i64 columns, i64 in_stride,
                                                    i64 in_batch, i64 out_stride, i64 out_batch, i64 batches) {
  __shared__ T tile[32][33];
  const i64 across = (columns + 31) / 32, down = (rows + 31) / 32, tiles = across * down;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (i64 at = blockIdx.x; at < tiles * batches; at += gridDim.x) {
    const i64 batch = at / tiles, rest = at % tiles, row = rest / across * 32, column = rest % across * 32;
    for (int j = y; j < 32; j += 8)
      if (row + j < rows && column + x < columns)
        tile[j][x] = in[batch * in_batch + (row + j) * in_stride + column + x];
    __syncthreads();
    for (int j = y; j < 32; j += 8)
      if (column + j < columns && row + x < rows)
        out[batch * out_batch + (column + j) * out_stride + row + x] = tile[x][j];
    __syncthreads();
  }
}
template <class T> static __device__ void copy_lower(const T* in, T* out, i64 n, i64 batches) {
  EACH(i, n * n * batches) {
    const i64 row = i / n % n, column = i % n;
    out[i] = column <= row ? in[i] : T(0);
  }
}
template <class T> static __device__ void copy_upper(const T* from, T* out, i64 rows, i64 columns, i64 stride,
                                                     i64 batch_stride, i64 batches) {
  EACH(i, rows * columns * batches) {
    const i64 batch = i / (rows * columns), row = i / columns % rows, column = i % columns;
    out[i] = row <= column ? from[batch * batch_stride + column * stride + row] : T(0);
  }
}
template <class T> static __device__ void copy_rows(const T* in, T* out, i64 count, i64 in_batch, i64 out_batch,
                                                    i64 batches) {
  EACH(i, count * batches) out[i / count * out_batch + i % count] = in[i / count * in_batch + i % count];
}
template <class T> static __device__ void check_lower(const T* a, i64 n, i64 batches, u64* failure) {
  EACH(i, n * n * batches) if (i % n <= i / n % n && !is_finite(a[i])) note(failure, i / (n * n), 0);
}
template <class T> static __device__ void check_all(const T* a, i64 size, i64 batches, u64* failure) {
  EACH(i, size * batches) if (!is_finite(a[i])) note(failure, i / size, 0);
}
template <class T> static __device__ void check_factor(const T* factor, i64 n, i64 batches, int* info) {
  const int none = 0x7fffffff, lane = threadIdx.x % 32;
  for (i64 i = (blockIdx.x * (i64)blockDim.x + threadIdx.x) / 32; i < batches; i += (i64)gridDim.x * blockDim.x / 32) {
    int order = none;
    for (i64 j = lane; j < n; j += 32)
      if (!(factor[(i * n + j) * n + j] > 0) && j < order) order = (int)j + 1;
    for (int step = 16; step > 0; step /= 2) {
      const int other = __shfl_xor_sync(~0u, order, step);
      order = other < order ? other : order;
    }
    if (lane == 0 && info[i] == 0 && order != none) info[i] = order;
  }
}
template <class T> static __device__ void addresses(T** places, T* first, i64 stride, i64 batches) {
  EACH(i, batches) places[i] = first + i * stride;
}
#define BOTH(name, parameters, arguments) \
  extern "C" __global__ void name##_f32 parameters(float) { name arguments; } \
  extern "C" __global__ void name##_f64 parameters(double) { name arguments; }
#define P(T) (const T* in, T* out, i64 rows, i64 columns, i64 in_stride, i64 in_batch, i64 out_stride, i64 out_batch, \
              i64 batches)
BOTH(transpose, P, (in, out, rows, columns, in_stride, in_batch, out_stride, out_batch, batches))
#undef P
#define P(T) (const T* in, T* out, i64 n, i64 batches)
BOTH(copy_lower, P, (in, out, n, batches))
#undef P
#define P(T) (const T* in, T* out, i64 rows, i64 columns, i64 stride, i64 batch_stride, i64 batches)
BOTH(copy_upper, P, (in, out, rows, columns, stride, batch_stride, batches))
#undef P
#define P(T) (const T* in, T* out, i64 count, i64 in_batch, i64 out_batch, i64 batches)
BOTH(copy_rows, P, (in, out, count, in_batch, out_batch, batches))
#undef P
#define P(T) (const T* a, i64 n, i64 batches, u64* failure)
BOTH(check_lower, P, (a, n, batches, failure))
BOTH(check_all, P, (a, n, batches, failure))
#undef P
#define P(T) (const T* factor, i64 n, i64 batches, int* info)
BOTH(check_factor, P, (factor, n, batches, info))
#undef P
#define P(T) (T** places, T* first, i64 stride, i64 batches)
BOTH(addresses, P, (places, first, stride, batches))
#undef P
extern "C" __global__ void first_failed(const int* info, i64 batches, u64* failure) {
  EACH(i, batches) if (info[i] != 0) note(failure, i, info[i]);
}
// Of matrices with a NaN a library gives any.
extern "C" __global__ void name_rows(int* pivots, i64 rows, i64 steps, i64 batches) {
  EACH(i, steps * batches) {
    const i64 own = i % steps + 1;
    if (pivots[i] < own || pivots[i] > rows) pivots[i] = (int)own;
  }
}
// The order of a matrix lies in shared memory where that has room: exchanges wait for each other.
extern "C" __global__ void permutation(const int* pivots, i64* order, i64 steps, i64 length, i64 batches, i64* fault,
                                       u64 tag) {
  __shared__ int kept[8192];
  const bool is_kept = length <= 8192;
  for (i64 batch = blockIdx.x; batch < batches; batch += gridDim.x) {
    i64* out = order + batch * length;
    for (i64 row = threadIdx.x; row < length; row += blockDim.x)
      if (is_kept) kept[row] = (int)row;
      else out[row] = row;
    __syncthreads();
    if (threadIdx.x == 0)
      for (i64 step = 0; step < steps && step < length; ++step) {
        const i64 other = (i64)pivots[batch * steps + step] - 1;
        if (other < 0 || other >= length) {
          if (atomicCAS((u64*)fault, 0ull, tag) == 0) { fault[1] = other + 1; fault[2] = length; fault[3] = 1; }
          break;
        }
        if (is_kept) {
          const int row = kept[step];
          kept[step] = kept[other];
          kept[other] = row;
        } else {
          const i64 row = out[step];
          out[step] = out[other];
          out[other] = row;
        }
      }
    __syncthreads();
    for (i64 row = threadIdx.x; is_kept && row < length; row += blockDim.x) out[row] = kept[row];
    __syncthreads();
  }
}
)";

inline constexpr std::string_view fourier_kernel_text = R"(
template <class T> static __device__ void scale(Pair<T>* x, i64 pairs, T factor) {
  EACH(i, pairs) { Pair<T> p = x[i]; p.re *= factor; p.im *= factor; x[i] = p; }
}
// The first number, and of even lengths the last one, are real.
template <class T> static __device__ __forceinline__ Pair<T> half(Pair<T> p, i64 k, i64 numbers, int is_even, T factor,
                                                                  T interior, T sign) {
  const bool is_end = k == 0 || (is_even && k == numbers - 1);
  const T by = is_end ? factor : factor * interior;
  p.re *= by;
  p.im = is_end ? T(0) : p.im * by * sign;
  return p;
}
template <class T> static __device__ void half_of_all(const Pair<T>* in, Pair<T>* out, i64 rows, i64 numbers,
                                                      int is_even, T factor, T interior, T sign) {
  EACH(i, rows * numbers) out[i] = half(in[i], i % numbers, numbers, is_even, factor, interior, sign);
}
template <class T> static __device__ void turn(const Pair<T>* in, Pair<T>* out, i64 rows, i64 columns, i64 batches) {
  __shared__ Pair<T> tile[16][17];
  const i64 across = (columns + 15) / 16, down = (rows + 15) / 16, tiles = across * down;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (i64 at = blockIdx.x; at < tiles * batches; at += gridDim.x) {
    const i64 batch = at / tiles, rest = at % tiles, row = rest / across * 16, column = rest % across * 16;
    if (row + y < rows && column + x < columns) tile[y][x] = in[(batch * rows + row + y) * columns + column + x];
    __syncthreads();
    if (column + y < columns && row + x < rows) out[(batch * columns + column + y) * rows + row + x] = tile[x][y];
    __syncthreads();
  }
}
#define BOTH(T, name) \
  extern "C" __global__ void scale_##name(Pair<T>* x, i64 pairs, T factor) { scale(x, pairs, factor); } \
  extern "C" __global__ void half_to_out_##name(Pair<T>* x, i64 rows, i64 numbers, int is_even, T factor, T interior, \
                                                T sign) { \
    half_of_all(x, x, rows, numbers, is_even, factor, interior, sign); \
  } \
  extern "C" __global__ void half_to_in_##name(const Pair<T>* in, Pair<T>* out, i64 rows, i64 numbers, int is_even, \
                                               T factor, T interior, T sign) { \
    half_of_all(in, out, rows, numbers, is_even, factor, interior, sign); \
  } \
  extern "C" __global__ void turn_##name(const Pair<T>* in, Pair<T>* out, i64 rows, i64 columns, i64 batches) { \
    turn(in, out, rows, columns, batches); \
  }
BOTH(float, f32)
BOTH(double, f64)
)";

/// Registers hold the matrix beside its right sides, or beside the identity; indices are constants once unrolled, and
/// rows are exchanged by selection.
inline constexpr std::string_view small_solve_text = R"(
extern "C" __global__ void __launch_bounds__(THREADS) small_solve(const T* a, const T* b, T* out, i64 count,
                                                                  u64* failure) {
  __shared__ T room[THREADS * STRIDE];
  const int t = threadIdx.x;
  for (i64 first = blockIdx.x * (i64)THREADS; first < count; first += (i64)gridDim.x * THREADS) {
    const int used = count - first < THREADS ? (int)(count - first) : THREADS;
    for (int i = t; i < used * N * N; i += THREADS) room[i / (N * N) * STRIDE + i % (N * N)] = a[first * N * N + i];
    __syncthreads();
    T m[N][N], x[N][C];
    if (t < used) {
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < N; ++j) m[i][j] = room[t * STRIDE + (TRANSPOSED ? j * N + i : i * N + j)];
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < C; ++j) x[i][j] = MADE == 0 ? b[(first + t) * N * C + i * C + j] : i == j ? T(1) : T(0);
    }
    T det = 1;
    int failed = 0;
    if (t < used) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        int pivot = k;
        T largest = m[k][k] < 0 ? -m[k][k] : m[k][k];
#pragma unroll
        for (int i = k + 1; i < N; ++i) {
          const T size = m[i][k] < 0 ? -m[i][k] : m[i][k];
          if (size > largest) { largest = size; pivot = i; }
        }
#pragma unroll
        for (int i = k + 1; i < N; ++i)
          if (i == pivot) {
#pragma unroll
            for (int j = 0; j < N; ++j) { const T kept = m[k][j]; m[k][j] = m[i][j]; m[i][j] = kept; }
#pragma unroll
            for (int j = 0; j < C; ++j) { const T kept = x[k][j]; x[k][j] = x[i][j]; x[i][j] = kept; }
            det = -det;
          }
        if (m[k][k] == 0 && failed == 0) failed = k + 1;
        det *= m[k][k];
#pragma unroll
        for (int i = k + 1; i < N; ++i) {
          const T factor = m[k][k] == 0 ? m[i][k] : m[i][k] / m[k][k];
#pragma unroll
          for (int j = k + 1; j < N; ++j) m[i][j] -= factor * m[k][j];
#pragma unroll
          for (int j = 0; j < C; ++j) x[i][j] -= factor * x[k][j];
        }
      }
      if (MADE != 2) {
#pragma unroll
        for (int i = N - 1; i >= 0; --i)
#pragma unroll
          for (int c = 0; c < C; ++c) {
#pragma unroll
            for (int j = i + 1; j < N; ++j) x[i][c] -= m[i][j] * x[j][c];
            x[i][c] /= m[i][i];
          }
      }
      if (failed != 0 && failure != nullptr) atomicMin(failure, (u64)(first + t) << 32 | (u64)failed);
    }
    __syncthreads();
    if (MADE == 2) {
      if (t < used) out[first + t] = det;
    } else if (N * C <= STRIDE) {
      if (t < used) {
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
          for (int j = 0; j < C; ++j) room[t * STRIDE + i * C + j] = x[i][j];
      }
      __syncthreads();
      for (int i = t; i < used * N * C; i += THREADS) out[first * N * C + i] = room[i / (N * C) * STRIDE + i % (N * C)];
      __syncthreads();
    } else if (t < used) {
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < C; ++j) out[(first + t) * N * C + i * C + j] = x[i][j];
    }
  }
}
)";

}  // namespace library_detail

SINTER_DECL const LibrarySource& matrix_kernels() {
  return process_object([] {
    auto* source = new LibrarySource;
    source->text = std::string(library_detail::kernel_prelude) + std::string(library_detail::matrix_kernel_text);
    for (const char* name : {"transpose", "copy_lower", "copy_upper", "copy_rows", "check_lower", "check_all",
                             "check_factor", "addresses"})
      for (const char* type : {"_f32", "_f64"}) source->entries.push_back(std::string(name) + type);
    source->entries.emplace_back("first_failed");
    source->entries.emplace_back("permutation");
    source->entries.emplace_back("name_rows");
    return source;
  });
}

SINTER_DECL const LibrarySource& fourier_kernels() {
  return process_object([] {
    auto* source = new LibrarySource;
    source->text = std::string(library_detail::kernel_prelude) + std::string(library_detail::fourier_kernel_text);
    for (const char* name : {"scale", "half_to_out", "half_to_in", "turn"})
      for (const char* type : {"_f32", "_f64"}) source->entries.push_back(std::string(name) + type);
    return source;
  });
}

SINTER_DECL int SmallSystem::threads() const { return is_double ? 64 : 128; }

SINTER_DECL LibrarySource small_solve_kernel(const SmallSystem& system) {
  const int columns = system.made == SmallSystem::Made::solution  ? system.columns
                      : system.made == SmallSystem::Made::inverse ? system.n
                                                                  : 1;
  const auto define = [](const char* name, const std::string& value) {
    return "#define " + std::string(name) + " " + value + "\n";
  };
  std::string text(library_detail::kernel_prelude);
  text += define("T", system.is_double ? "double" : "float") + define("N", std::to_string(system.n)) +
          define("C", std::to_string(columns)) + define("THREADS", std::to_string(system.threads())) +
          define("STRIDE", std::to_string(system.n * system.n | 1)) +  // odd: threads' matrices lie in different banks
          define("TRANSPOSED", system.transposed ? "1" : "0") +
          define("MADE", std::to_string(static_cast<int>(system.made)));
  return {text + std::string(library_detail::small_solve_text), {"small_solve"}};
}

}  // namespace cuda
SINTER_NAMESPACE_END
