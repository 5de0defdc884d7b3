// Text of attention of few queries to many keys in f16 and bf16, a step of decoding: what counts is the rate at which
// keys and values are read. Blocks have a piece of the keys each, and their warps sixteen keys at a time, which go from
// memory by 16 bytes a lane straight to where `mma` wants them, the next ones as soon as their places are free: as left
// operands, for the right one has room for eight rows, and those are the queries of all heads that share the keys.
//
// A product's sum takes its positions in any order, so that a lane's 16 bytes of a key, features 8 t to 8 t + 7 of 32,
// are its positions of two products. Of values a lane has 8 features of four keys: rows r and r + 8 of product m are
// features 8 r + 2 m and 8 r + 2 m + 1 of 64, and words of two keys are put together from two rows.
#pragma once

#include <sinter/base/config.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline constexpr std::string_view few_text = R"(
#define FT (F / 8)
#define PART (F + 2)
static __device__ __forceinline__ Sixteen read_row(const X* from, int row, int count) {
  Sixteen x = {};
  if (row < count) read_stream(x.words, from);
  return x;
}
// A lane's part of sixteen keys, and of their values.
static __device__ __forceinline__ void read_keys(Sixteen (&to)[2][D / 32], const X* keys, int key, int count,
                                                 int lane) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int own = key + j * 8 + lane / 4;
#pragma unroll
    for (int d = 0; d < D / 32; ++d) to[j][d] = read_row(keys + (i64)own * D + d * 32 + lane % 4 * 8, own, count);
  }
}
static __device__ __forceinline__ void read_values(Sixteen (&to)[4][F / 64], const X* values, int key, int count,
                                                   int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int own = key + i / 2 * 8 + lane % 4 * 2 + i % 2;
#pragma unroll
    for (int f = 0; f < F / 64; ++f) to[i][f] = read_row(values + (i64)own * F + f * 64 + lane / 4 * 8, own, count);
  }
}
// One word of two rows' elements: the lower or the upper halves of theirs.
static __device__ __forceinline__ unsigned pair_of(unsigned x, unsigned y, int half) {
  return half == 0 ? (x & 0xffffu) | y << 16 : x >> 16 | (y & 0xffff0000u);
}
// Words of rows' pairs become words of columns' pairs: lane 4 r + c has columns 2 c and 2 c + 1 of row r of 8, and gets
// rows 2 c and 2 c + 1 of column r.
static __device__ __forceinline__ unsigned transposed(unsigned x, int lane) {
  const unsigned y = __shfl_sync(~0u, x, lane % 4 * 8 + lane / 8), z = __shfl_sync(~0u, x, lane % 4 * 8 + 4 + lane / 8);
  return pair_of(y, z, lane / 4 % 2);
}
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x / a.pieces, piece = blockIdx.x % a.pieces;
  const int tile = at % a.tiles, batch = at / a.tiles, rows = a.sharers * a.queries;
  const X* const keys = a.k + (i64)batch * a.keys * D;
  const X* const values = a.v + (i64)batch * a.keys * F;
  const int begin = piece * a.piece, most = visible(a, a.queries - 1);
  const int end = a.pieces > 1 && begin + a.piece < most ? begin + a.piece : most;
  Sixteen now[2][D / 32], now_values[4][F / 64];
  const int start = begin + warp * 16;
  if (start < end) {
    read_keys(now, keys, start, a.keys, lane);
    read_values(now_values, values, start, a.keys, lane);
  }
  unsigned right[D / 32][2][2];
#pragma unroll
  for (int d = 0; d < D / 32; ++d) {
    const int row = tile * 8 + lane / 4;
    const Sixteen x = read_row(a.q + ((i64)batch * rows + row) * D + d * 32 + lane % 4 * 8, row, rows);
#pragma unroll
    for (int i = 0; i < 4; ++i) right[d][i / 2][i % 2] = x.words[i];
  }
  int query[2];
  const M* mask[2] = {};
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const int row = tile * 8 + lane % 4 * 2 + c;
    query[c] = row < rows ? row % a.queries : a.queries;
    if (MASK) mask[c] = mask_of(a, batch * a.sharers + (row < rows ? row / a.queries : 0));
  }
  float sums[F / 64][4][4] = {}, base[2] = {NOTHING, NOTHING}, sum[2] = {};
#pragma unroll 1
  for (int key = start; key < end; key += WARPS * 16) {
    const int next_key = key + WARPS * 16;
    float w[4] = {}, shrink[2];
#pragma unroll
    for (int d = 0; d < D / 32; ++d)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned left[4] = {now[0][d].words[i * 2], now[1][d].words[i * 2],
                                  now[0][d].words[i * 2 + 1], now[1][d].words[i * 2 + 1]};
        multiply(w, left, right[d][i][0], right[d][i][1]);
      }
    if (next_key < end) read_keys(now, keys, next_key, a.keys, lane);
    if (MASK || !PLAIN || key + 16 > visible(a, 0)) {
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = shown(a, mask[i % 2], w[i], query[i % 2], key + i / 2 * 8 + lane / 4);
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float top = fmaxf(w[c], w[c + 2]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
      const float next = fmaxf(base[c], top * FACTOR), from = next == NOTHING ? 0.0f : next;
      shrink[c] = shrink_by(base[c], from);
      base[c] = next;
      w[c] = exp2_fast(above(a, w[c], from));
      w[c + 2] = exp2_fast(above(a, w[c + 2], from));
      sum[c] = fmaf(sum[c], shrink[c], w[c] + w[c + 2]);
    }
    const unsigned low = transposed(pack(w[0], w[1]), lane), high = transposed(pack(w[2], w[3]), lane);
#pragma unroll
    for (int f = 0; f < F / 64; ++f)
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const unsigned left[4] = {pair_of(now_values[0][f].words[m], now_values[1][f].words[m], 0),
                                  pair_of(now_values[0][f].words[m], now_values[1][f].words[m], 1),
                                  pair_of(now_values[2][f].words[m], now_values[3][f].words[m], 0),
                                  pair_of(now_values[2][f].words[m], now_values[3][f].words[m], 1)};
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[f][m][i] *= shrink[i % 2];
        multiply(sums[f][m], left, low, high);
      }
    if (next_key < end) read_values(now_values, values, next_key, a.keys, lane);
  }
  // The warps' parts, of each row: sums, base, sum.
  float* const parts = (float*)dynamic_shared();
#pragma unroll
  for (int c = 0; c < 2; ++c) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) sum[c] += __shfl_xor_sync(~0u, sum[c], step);
    if (query[c] == a.queries) continue;
    float* const part = parts + (warp * 8 + lane % 4 * 2 + c) * PART;
#pragma unroll
    for (int f = 0; f < F / 64; ++f)
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) part[f * 64 + lane / 4 * 8 + m * 2 + i] = sums[f][m][i * 2 + c];
    if (lane < 4) part[F] = base[c], part[F + 1] = sum[c];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * F; i += THREADS) {
    const int row = tile * 8 + i / F, f = i % F;
    if (row >= rows) break;
    const float* const part = parts + i / F * PART;
    float top = NOTHING, total = 0, value = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, part[w * 8 * PART + F]);
    const float from = top == NOTHING ? 0.0f : top;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float by = shrink_by(part[w * 8 * PART + F], from);
      total = fmaf(part[w * 8 * PART + F + 1], by, total);
      value = fmaf(part[w * 8 * PART + f], by, value);
    }
    const i64 all = (i64)batch * rows + row;
#if SPLIT
    float* const to = a.parts + ((all / a.queries * a.pieces + piece) * a.queries + row % a.queries) * PART;
    to[f] = value;
    if (f == 0) to[F] = top, to[F + 1] = total;
#else
    a.out[all * F + f] = value * (ZEROS && total == 0 ? 0.0f : 1.0f / total);
#if KEEPS_LEVELS
    if (f == 0) leave_level(a.levels + all * LEVELS, top, total);
#endif
#endif
  }
}
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
