// Texts of attention and its gradients in f32 on the ordinary units: blocks of warps, 8 lanes across the rows that they
// walk over and across features, 4 down their own rows, R of which each lane has. Weights pass through shared memory,
// to lanes of the same warp. Rows in shared memory are an odd number of 16 bytes apart.
#pragma once

#include <sinter/base/config.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline constexpr std::string_view plain_common_text = R"(
#define DS (DP + 16)
#define FS (FP + 16)
#define DT (DP / 128)
#define FT (FP / 128)
#define WS (BN * 4 + 32)
#define NT (BN / 8)
struct __align__(16) Four { float x, y, z, w; };
// w = a b^T of rows with `depth` elements in shared memory. A lane's rows of a are 4 apart, those of b 8. So many steps
// of four elements are written out.
template <int depth, int stride, int steps>
static __device__ __forceinline__ void multiply_rows(float (&w)[R][NT], const unsigned char* a,
                                                     const unsigned char* b) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j) w[i][j] = 0;
#pragma unroll (steps)
  for (int d = 0; d < (depth + 3) / 4; ++d) {
    Four right[NT];
#pragma unroll
    for (int j = 0; j < NT; ++j) right[j] = *(const Four*)(b + j * 8 * stride + d * 16);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const Four x = *(const Four*)(a + i * 4 * stride + d * 16);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        w[i][j] = fmaf(x.x, right[j].x, w[i][j]);
        w[i][j] = fmaf(x.y, right[j].y, w[i][j]);
        w[i][j] = fmaf(x.z, right[j].z, w[i][j]);
        w[i][j] = fmaf(x.w, right[j].w, w[i][j]);
      }
    }
  }
}
// sums += w b, of the lanes' rows of weights in shared memory and so many rows of b, a lane's features of which begin
// at b.
template <int N, int stride, int rows, int steps, int all>
static __device__ __forceinline__ void add_weighted(float (&sums)[R][all][4], const unsigned char* w,
                                                    const unsigned char* b) {
#pragma unroll (steps)
  for (int j = 0; j < rows; j += 4) {
    Four right[4][N];
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int f = 0; f < N; ++f) right[c][f] = *(const Four*)(b + (j + c) * stride + f * 128);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const Four x = *(const Four*)(w + i * 4 * WS + j * 4);
      const float by[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int f = 0; f < N; ++f) {
          sums[i][f][0] = fmaf(by[c], right[c][f].x, sums[i][f][0]);
          sums[i][f][1] = fmaf(by[c], right[c][f].y, sums[i][f][1]);
          sums[i][f][2] = fmaf(by[c], right[c][f].z, sums[i][f][2]);
          sums[i][f][3] = fmaf(by[c], right[c][f].w, sums[i][f][3]);
        }
    }
  }
}
// A lane's weights of a row to shared memory, for all lanes of the row.
static __device__ __forceinline__ void leave_weights(const float (&w)[NT], unsigned char* row, int across) {
#pragma unroll
  for (int j = 0; j < NT; ++j) *(float*)(row + (across + j * 8) * 4) = w[j];
}
static __device__ __forceinline__ float greatest_across(float x) {
#pragma unroll
  for (int step = 1; step < 8; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
static __device__ __forceinline__ float sum_across(float x) {
#pragma unroll
  for (int step = 1; step < 8; step *= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
// A lane's part of a row of `width` features.
template <int width, int all>
static __device__ __forceinline__ void write_row(const float (&c)[all][4], float by, X* to, int across) {
#pragma unroll
  for (int f = 0; f < (width + 31) / 32; ++f) {
    const int first = f * 32 + across * 4;
    if (width % 4 == 0) {
      if (first < width) *(Four*)(to + first) = Four{c[f][0] * by, c[f][1] * by, c[f][2] * by, c[f][3] * by};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (first + i < width) to[first + i] = c[f][i] * by;
    }
  }
}
)";

inline constexpr std::string_view plain_text = R"(
#define STEPS (D > 64 || F > 64 ? 2 : 1)
extern "C" __global__ void __launch_bounds__(THREADS) attention(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, across = lane % 8, down = threadIdx.x / 32 * 4 * R + lane / 8;
  const int at = blockIdx.x;
  const int tile = CAUSAL ? a.tiles - 1 - at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int end = visible(a, last - 1);
  unsigned char* const queries = dynamic_shared();
  unsigned char *const key_tile = queries + BM * DS, *const value_tile = key_tile + BN * DS,
                *const weights = value_tile + BN * FS;
  fetch<D, DP, DS, BM>(queries, a.q + (i64)batch * a.queries * D, first, a.queries);
  fetch<D, DP, DS, BN>(key_tile, keys, 0, a.keys);
  copy_async_commit();
  float sums[R][FT][4] = {}, base[R], sum[R] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) base[i] = NOTHING;
  unsigned char* const own = weights + down * WS;
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {
    copy_async_wait<0>();
    __syncthreads();
    fetch<F, FP, FS, BN>(value_tile, values, key, a.keys);
    copy_async_commit();
    float w[R][NT];
    multiply_rows<D, DS, STEPS>(w, queries + down * DS, key_tile + across * DS);
    if (MASK || !PLAIN || key + BN > visible(a, first)) {
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < NT; ++j) w[i][j] = shown(a, mask, w[i][j], first + down + i * 4, key + across + j * 8);
    }
#pragma unroll
    for (int i = 0; i < R; ++i) {
      float top = w[i][0];
#pragma unroll
      for (int j = 1; j < NT; ++j) top = fmaxf(top, w[i][j]);
      top = greatest_across(top);
      const float next = fmaxf(base[i], top * FACTOR), from = next == NOTHING ? 0.0f : next;
      const float shrink = shrink_by(base[i], from);
      base[i] = next;
      float more = 0;
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        w[i][j] = exp2_fast(above(a, w[i][j], from));
        more += w[i][j];
      }
      leave_weights(w[i], own + i * 4 * WS, across);
      sum[i] = fmaf(sum[i], shrink, more);
#pragma unroll
      for (int f = 0; f < FT; ++f)
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[i][f][c] *= shrink;
    }
    copy_async_wait<0>();
    __syncthreads();
    if (key + BN < end) {
      fetch<D, DP, DS, BN>(key_tile, keys, key + BN, a.keys);
      copy_async_commit();
    }
    add_weighted<FT, FS, BN, STEPS>(sums, own, value_tile + across * 16);
  }
  copy_async_wait<0>();
#pragma unroll
  for (int i = 0; i < R; ++i) {
    sum[i] = sum_across(sum[i]);
    const float by = ZEROS && sum[i] == 0 ? 0.0f : 1.0f / sum[i];
    const int query = first + down + i * 4;
    if (query >= a.queries) continue;
#if KEEPS_LEVELS
    if (across == 0) leave_level(a.levels + (batch * (i64)a.queries + query) * LEVELS, base[i], sum[i]);
#endif
    write_row<F>(sums[i], by, a.out + ((i64)batch * a.queries + query) * F, across);
  }
}
)";

/// As on tensor cores, query_gradient walks over keys and key_gradient over queries. The warps are two halves with the
/// same rows: one has scores, the other what weights are multiplied by, so that a lane has registers for a product of
/// eight by eight and for its sums.
inline constexpr std::string_view plain_gradient_text = R"(
#define STATS (APART ? 3 : 2)
static __device__ __forceinline__ float weight_of(const Arguments& a, float x, float level, float rest) {
  return exp2_fast(APART ? fmaf(x - level, LOG2_E, -rest) : above(a, x, level));
}
struct Lane { int across, down, half; };
static __device__ __forceinline__ Lane lane_of_half() {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  return {lane % 8, warp % (WARPS / 2) * 4 * R + lane / 8, warp / (WARPS / 2)};
}
#define STAGE (BN * (DS + FS))
#if OF_QUERIES
extern "C" __global__ void __launch_bounds__(THREADS, 1) query_gradient(const __grid_constant__ Arguments a) {
  const Lane lane = lane_of_half();
  const int across = lane.across, down = lane.down, half = lane.half, at = blockIdx.x;
  const int tile = CAUSAL ? a.tiles - 1 - at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
  const X *const dout = a.dout + (i64)batch * a.queries * F, *const result = a.result + (i64)batch * a.queries * F;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int end = visible(a, last - 1);
  unsigned char *const queries = dynamic_shared(), *const douts = queries + BM * DS, *const stages = douts + BM * FS,
                       *const own = stages + STAGES * STAGE + down * WS;
  fetch<D, DP, DS, BM>(queries, a.q + (i64)batch * a.queries * D, first, a.queries);
  fetch<F, FP, FS, BM>(douts, dout, first, a.queries);
  copy_async_commit();
  float level[R], rest[R], delta[R], w[R][NT];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int query = first + down + i * 4;
    float more = 0;
    for (int f = across; f < F && query < a.queries; f += 8)
      more = fmaf(dout[(i64)query * F + f], result[(i64)query * F + f], more);
    delta[i] = sum_across(more);
#if KEEPS_LEVELS
    const float* const own_level = a.levels + (batch * (i64)a.queries + query) * LEVELS;
    level[i] = query < a.queries ? own_level[0] : -NOTHING;
    rest[i] = APART && query < a.queries ? own_level[LEVELS - 1] : 0.0f;
#else
    level[i] = NOTHING;
#endif
  }
  const auto hide = [&](int key) {
    if (!MASK && PLAIN && key + BN <= visible(a, first)) return;
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < NT; ++j) w[i][j] = shown(a, mask, w[i][j], first + down + i * 4, key + across + j * 8);
  };
#if !KEEPS_LEVELS
  float sum[R] = {};
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {  // both halves alike
    __syncthreads();
    fetch<D, DP, DS, BN>(stages, keys, key, a.keys);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    multiply_rows<D, DS, 2>(w, queries + down * DS, stages + across * DS);
    hide(key);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      float top = w[i][0], more = 0;
#pragma unroll
      for (int j = 0; j < NT; ++j) top = fmaxf(top, w[i][j]);
      const float next = fmaxf(level[i], top * FACTOR), from = next == NOTHING ? 0.0f : next;
#pragma unroll
      for (int j = 0; j < NT; ++j) more += exp2_fast(above(a, w[i][j], from));
      sum[i] = fmaf(sum[i], shrink_by(level[i], from), more);
      level[i] = next;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < R; ++i) {
    // A lane has seen some of the keys.
    const float top = greatest_across(level[i]);
    float known[2] = {};
    leave_level(known, top, sum_across(sum[i] * shrink_by(level[i], top == NOTHING ? 0.0f : top)));
    level[i] = known[0];
    rest[i] = known[1];
  }
#endif
  fetch<D, DP, DS, BN>(stages, keys, 0, a.keys);
  fetch<F, FP, FS, BN>(stages + BN * DS, values, 0, a.keys);
  copy_async_commit();
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int query = first + down + i * 4;
    if (across != 0 || half != 0 || query >= a.queries) continue;
    float* const stats = a.stats + (batch * (i64)a.queries + query) * STATS;
    stats[0] = level[i];
    stats[1] = delta[i];
    if (APART) stats[2] = rest[i];
  }
  float sums[R][DT][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    if (STAGES == 2) stage ^= 1;
    const auto fetch_next = [&] {
      if (key + BN >= end) return;
      fetch<D, DP, DS, BN>(stages + stage * STAGE, keys, key + BN, a.keys);
      fetch<F, FP, FS, BN>(stages + stage * STAGE + BN * DS, values, key + BN, a.keys);
      copy_async_commit();
    };
    if (STAGES == 2) fetch_next();
    if (half == 0) {
      multiply_rows<D, DS, 2>(w, queries + down * DS, now + across * DS);
      hide(key);
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < NT; ++j) w[i][j] = weight_of(a, w[i][j], level[i], rest[i]);
    } else {
      multiply_rows<F, FS, 2>(w, douts + down * FS, now + BN * DS + across * FS);
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < NT; ++j) w[i][j] -= delta[i];
    }
    // Each half leaves the other one half of the keys, and has their products with the rest.
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < NT; ++j)
        if ((j < NT / 2) == (half == 1)) *(float*)(own + i * 4 * WS + (across + j * 8) * 4) = w[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < NT; ++j)
        if ((j < NT / 2) == (half == 0)) *(float*)(own + i * 4 * WS + (across + j * 8) * 4) *= w[i][j];
    __syncwarp();
    add_weighted<DT, DS, BN / 2, 2>(sums, own + half * (BN * 2), now + half * (BN / 2 * DS) + across * 16);
    if (STAGES == 1) {
      __syncthreads();
      fetch_next();
    }
  }
  copy_async_wait<0>();
  __syncthreads();
  // The second half's sums, where queries were.
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int f = 0; f < DT; ++f) {
      Four* const other = (Four*)(queries + (down + i * 4) * DS + f * 128 + across * 16);
      if (half == 1) *other = Four{sums[i][f][0], sums[i][f][1], sums[i][f][2], sums[i][f][3]};
    }
  __syncthreads();
  if (half == 1) return;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int query = first + down + i * 4;
#pragma unroll
    for (int f = 0; f < DT; ++f) {
      const Four other = *(const Four*)(queries + (down + i * 4) * DS + f * 128 + across * 16);
      sums[i][f][0] += other.x;
      sums[i][f][1] += other.y;
      sums[i][f][2] += other.z;
      sums[i][f][3] += other.w;
    }
    if (query < a.queries)
      write_row<D>(sums[i], a.plain_scale, a.dq + ((i64)batch * a.queries + query) * D, across);
  }
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1) key_gradient(const __grid_constant__ Arguments a) {
  const Lane lane = lane_of_half();
  const int across = lane.across, down = lane.down, half = lane.half, at = blockIdx.x;
  const int tile = CAUSAL ? at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM;
  const X *const queries = a.q + (i64)batch * a.queries * D, *const douts = a.dout + (i64)batch * a.queries * F;
  const float* const stats = a.stats + (i64)batch * a.queries * STATS;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int begin = CAUSAL && first > a.ahead ? (first - a.ahead) / BN * BN : 0;
  unsigned char *const keys = dynamic_shared(), *const values = keys + BM * DS, *const stages = values + BM * FS,
                       *const own_weights = stages + STAGES * STAGE + down * WS, *const own = own_weights + BM * WS;
  fetch<D, DP, DS, BM>(keys, a.k + (i64)(batch / a.sharers) * a.keys * D, first, a.keys);
  fetch<F, FP, FS, BM>(values, a.v + (i64)(batch / a.sharers) * a.keys * F, first, a.keys);
  fetch<D, DP, DS, BN>(stages, queries, begin, a.queries);
  fetch<F, FP, FS, BN>(stages + BN * DS, douts, begin, a.queries);
  copy_async_commit();
  // Of the first half by v, of the second by k.
  float sums[R][DT > FT ? DT : FT][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int query = begin; query < a.queries; query += BN) {
    float known[2][NT], w[R][NT];  // of the columns' queries: levels, or delta
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int own_query = query + across + j * 8;
      const bool is_there = own_query < a.queries;
      const float* const own_stats = stats + (i64)(is_there ? own_query : 0) * STATS;
      known[0][j] = is_there ? own_stats[half] : half == 0 ? -NOTHING : 0.0f;
      known[1][j] = APART && is_there ? own_stats[STATS - 1] : 0.0f;
    }
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char *const now = stages + stage * STAGE, *const now_douts = now + BN * DS;
    if (STAGES == 2) stage ^= 1;
    const auto fetch_next = [&] {
      if (query + BN >= a.queries) return;
      fetch<D, DP, DS, BN>(stages + stage * STAGE, queries, query + BN, a.queries);
      fetch<F, FP, FS, BN>(stages + stage * STAGE + BN * DS, douts, query + BN, a.queries);
      copy_async_commit();
    };
    if (STAGES == 2) fetch_next();
    if (half == 0) {
      multiply_rows<D, DS, 2>(w, keys + down * DS, now + across * DS);
      const bool is_masked = MASK || !PLAIN || first + BM > visible(a, query) || query + BN > a.queries;
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          if (is_masked) w[i][j] = shown(a, mask, w[i][j], query + across + j * 8, first + down + i * 4);
          w[i][j] = weight_of(a, w[i][j], known[0][j], known[1][j]);
        }
        leave_weights(w[i], own_weights + i * 4 * WS, across);
      }
    } else {
      multiply_rows<F, FS, 2>(w, values + down * FS, now_douts + across * FS);
    }
    __syncthreads();
    if (half == 0) {
      add_weighted<FT, FS, BN, 2>(sums, own_weights, now_douts + across * 16);
    } else {
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int j = 0; j < NT; ++j)
          w[i][j] = *(const float*)(own_weights + i * 4 * WS + (across + j * 8) * 4) * (w[i][j] - known[0][j]);
        leave_weights(w[i], own + i * 4 * WS, across);
      }
      __syncwarp();
      add_weighted<DT, DS, BN, 2>(sums, own, now + across * 16);
    }
    if (STAGES == 1) {
      __syncthreads();
      fetch_next();
    }
  }
  copy_async_wait<0>();
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int key = first + down + i * 4;
    if (key >= a.keys) continue;
    if (half == 0) write_row<F>(sums[i], 1.0f, a.dv + ((i64)batch * a.keys + key) * F, across);
    else write_row<D>(sums[i], a.plain_scale, a.dk + ((i64)batch * a.keys + key) * D, across);
  }
}
#endif
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
