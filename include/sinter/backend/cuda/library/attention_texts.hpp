// Texts of attention on tensor cores, and what all texts of attention share.
//
// Of each query are kept `base`, the greatest exponent so far, `sum`, that of the weights 2^(score - base), and the
// weighted sum of values; what was summed up before is scaled when base grows. Exponents are of 2; with an added mask,
// whose lowest numbers have no multiples, of e. Hidden scores are -infinity, and a
// base of -infinity counts as 0 where it is subtracted. Tiles of keys and values are fetched one ahead.
//
// On tensor cores scores leave the instruction as it wants weights for the next product: of f16 and bf16 two blocks of
// 8 keys make a left fragment; of TF32 one does, if keys 2 t and 2 t + 1 stand for positions t and t + 4. Rows in
// shared memory are an odd number of 16 bytes apart, so that what `ldmatrix` reads at once lies in different banks.
#pragma once

#include <sinter/base/config.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

// What the language has no name for, one line each as in source/scalar.ipp.
inline constexpr std::string_view machine_text =
    "static __device__ __forceinline__ float exp2_fast(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : "
    "\"=f\"(y) : \"f\"(x)); return y; }\n"
    "static __device__ __forceinline__ unsigned pack_f16(float low, float high) { unsigned y; "
    "asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(high), \"f\"(low)); return y; }\n"
    "static __device__ __forceinline__ unsigned pack_bf16(float low, float high) { unsigned y; "
    "asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(high), \"f\"(low)); return y; }\n"
    "static __device__ __forceinline__ void read_stream(unsigned (&r)[4], const void* from) { "
    "asm volatile(\"ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(r[0]), "
    "\"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"l\"(from)); }\n"
    "static __device__ __forceinline__ void read_words(unsigned (&r)[4], const void* row) { "
    "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(r[0]), \"=r\"(r[1]), "
    "\"=r\"(r[2]), \"=r\"(r[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\"); }\n"
    "static __device__ __forceinline__ void read_words_across(unsigned (&r)[4], const void* row) { "
    "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(r[0]), "
    "\"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\"); }\n"
    "static __device__ __forceinline__ void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b, unsigned d) { "
    "asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a[0]), \"r\"(a[1]), "
    "\"r\"(a[2]), \"r\"(a[3]), \"r\"(b), \"r\"(d)); }\n"
    "static __device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b, unsigned d) { "
    "asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a[0]), \"r\"(a[1]), "
    "\"r\"(a[2]), \"r\"(a[3]), \"r\"(b), \"r\"(d)); }\n";

/// What all texts of this file begin with. E: bytes of an element; a score counts where `shown` says so.
inline constexpr std::string_view common_text = R"(
#define THREADS (WARPS * 32)
#define NOTHING __int_as_float(0xff800000)
struct Arguments {
  const X *q, *k, *v;
  const M* mask;
  X* out;
  float* parts;
  const X *dout, *result;
  X *dq, *dk, *dv;
  float *stats, *levels;
  i64 mask_stride[6], mask_row;
  int mask_extent[6], mask_key, batches, queries, keys, tiles, pieces, piece, ahead, sharers;
  float scale, plain_scale;
};
// Rows [first, first + rows) of `width` elements, of which there are `count`, to rows of `padded` bytes; zeros beyond.
template <int width, int padded, int stride, int rows>
static __device__ __forceinline__ void fetch(unsigned char* to, const X* from, int first, int count) {
  if (width * E % 16 == 0) {
    constexpr int chunks = padded / 16;
#pragma unroll
    for (int i = threadIdx.x; i < rows * chunks; i += THREADS) {
      const int row = i / chunks, chunk = i % chunks;
      const bool is_inside = first + row < count && chunk * 16 < width * E;
      const X* const at = is_inside ? from + (i64)(first + row) * width + chunk * (16 / E) : from;
      copy_async<16>(to + row * stride + chunk * 16, at, is_inside);
    }
    return;
  }
  constexpr int columns = padded / E;
  for (int i = threadIdx.x; i < rows * columns; i += THREADS) {
    const int row = i / columns, column = i % columns;
    X x;
    x = 0.0f;
    if (first + row < count && column < width) x = from[(i64)(first + row) * width + column];
    ((X*)(to + row * stride))[column] = x;
  }
}
static __device__ __forceinline__ const M* mask_of(const Arguments& a, int batch) {
  const M* mask = a.mask;
  for (int i = 0; i < 6; ++i) {
    mask += batch % a.mask_extent[i] * a.mask_stride[i];
    batch /= a.mask_extent[i];
  }
  return mask;
}
// How many of the first keys a query sees.
static __device__ __forceinline__ int visible(const Arguments& a, int query) {
  const int all = query + a.ahead + 1;
  return !CAUSAL || all > a.keys ? a.keys : all < 0 ? 0 : all;
}
// Scores count as exponents of 2, but for a factor of `FACTOR`, which is left to the exponential where it is positive.
// Where a mask is added they count as exponents of e: the lowest finite number hides all but a row of such, and as an
// exponent of 2 it would be infinite.
#define APART (MASK == 2)
#define LOG2_E 1.44269504f
static __device__ __forceinline__ float with_mask(const Arguments& a, M seen, float score) {
#if MASK == 2
  return fmaf(score, a.plain_scale, (float)seen);
#else
  if (!PLAIN) score *= a.scale;
  return seen ? score : NOTHING;
#endif
}
// What 2^ is taken of, for a weight whose base is `from`.
static __device__ __forceinline__ float above(const Arguments& a, float score, float from) {
  return APART ? (score - from) * LOG2_E : fmaf(score, PLAIN ? a.scale : 1.0f, -from);
}
static __device__ __forceinline__ float shrink_by(float base, float from) {
  return exp2_fast(APART ? (base - from) * LOG2_E : base - from);
}
// Leaves the level of a query, whose weights have this base and this sum. Where an added mask is large, the sum's
// logarithm would vanish beside it: then it is kept apart.
static __device__ __forceinline__ void leave_level(float* to, float base, float sum) {
  const bool sees_nothing = sum == 0;
  const float rest = sees_nothing ? 0.0f : log2f(sum);
  to[0] = sees_nothing ? (ZEROS ? -NOTHING : __int_as_float(0x7fc00000)) : APART ? base : base + rest;
  if (APART) to[1] = rest;
}
#define LEVELS (APART ? 2 : 1)
static __device__ __forceinline__ float shown(const Arguments& a, const M* mask, float score, int query, int key) {
  if (key >= visible(a, query) || query >= a.queries) return NOTHING;
#if MASK
  return with_mask(a, mask[query * a.mask_row + (i64)key * a.mask_key], score);
#else
  return PLAIN ? score : score * a.scale;
#endif
}
#define FACTOR (PLAIN ? a.scale : 1.0f)
)";

inline constexpr std::string_view fragment_text = R"(
static __device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if E == 4
  const float left[4] = {__uint_as_float(a[0]), __uint_as_float(a[1]), __uint_as_float(a[2]), __uint_as_float(a[3])};
  const float right[2] = {__uint_as_float(b0), __uint_as_float(b1)};
  mma_tf32(c, left, right);
#elif IS_BRAIN
  mma_bf16(c, a, b0, b1);
#else
  mma_f16(c, a, b0, b1);
#endif
}
static __device__ __forceinline__ unsigned pack(float low, float high) {
#if IS_BRAIN
  return pack_bf16(low, high);
#else
  return pack_f16(low, high);
#endif
}
static __device__ __forceinline__ unsigned as_operand(float x) { return __float_as_uint(to_tf32(x)); }
static __device__ __forceinline__ void read_fragment(unsigned (&r)[4], const unsigned char* row) {
  read_words(r, row);
#if E == 4
#pragma unroll
  for (int i = 0; i < 4; ++i) r[i] = as_operand(__uint_as_float(r[i]));
#endif
}
// c[MB][NB][4] += a b^T of rows in shared memory, DEPTH bytes of each; `left` and `right` are a lane's addresses.
template <int MB, int NB, int DEPTH, int left_stride, int right_stride>
static __device__ __forceinline__ void multiply_rows(float (&c)[MB][NB][4], const unsigned char* left,
                                                     const unsigned char* right) {
#pragma unroll
  for (int d = 0; d < DEPTH; d += 32) {
    unsigned a[MB][4];
#pragma unroll
    for (int m = 0; m < MB; ++m) read_fragment(a[m], left + m * 16 * left_stride + d);
#pragma unroll
    for (int n = 0; n < NB; n += 2) {
      unsigned b[4];
      read_fragment(b, right + n * 8 * right_stride + d);
#pragma unroll
      for (int m = 0; m < MB; ++m) {
        multiply(c[m][n], a[m], b[0], b[1]);
        multiply(c[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
// c[MB][NB][4] += w b, where w are results of an instruction, of KB blocks of 8 positions, which are rows of b.
template <int MB, int KB, int NB, int stride>
static __device__ __forceinline__ void multiply_weights(float (&c)[MB][NB][4], const float (&w)[MB][KB][4],
                                                        const unsigned char* b, int lane) {
#if E == 4
  const unsigned char* const right = b + lane % 4 * 2 * stride + lane / 4 * 4;
#pragma unroll
  for (int k = 0; k < KB; ++k) {
    unsigned a[MB][4];
#pragma unroll
    for (int m = 0; m < MB; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[m][i] = as_operand(w[m][k][i % 2 * 2 + i / 2]);
#pragma unroll
    for (int n = 0; n < NB; ++n) {
      const unsigned char* const at = right + k * 8 * stride + n * 32;
      const unsigned b0 = as_operand(*(const float*)at), b1 = as_operand(*(const float*)(at + stride));
#pragma unroll
      for (int m = 0; m < MB; ++m) multiply(c[m][n], a[m], b0, b1);
    }
  }
#else
  const unsigned char* const right = b + lane % 16 * stride + lane / 16 * 16;
#pragma unroll
  for (int k = 0; k < KB; k += 2) {
    unsigned a[MB][4];
#pragma unroll
    for (int m = 0; m < MB; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[m][i] = pack(w[m][k + i / 2][i % 2 * 2], w[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < NB; n += 2) {
      unsigned r[4];
      read_words_across(r, right + k * 8 * stride + n * 16);
#pragma unroll
      for (int m = 0; m < MB; ++m) {
        multiply(c[m][n], a[m], r[0], r[1]);
        multiply(c[m][n + 1], a[m], r[2], r[3]);
      }
    }
  }
#endif
}
// Where a lane reads for `ldmatrix`: rows of a left operand, and of a right one that is given by rows.
static __device__ __forceinline__ int left_place(int lane, int stride) { return lane % 16 * stride + lane / 16 * 16; }
static __device__ __forceinline__ int right_place(int lane, int stride) {
  return (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 16;
}
// A warp's rows of results, through its rows in shared memory, to rows [first, ...) of `width` elements.
template <int MB, int NB, int width, int stride>
static __device__ __forceinline__ void write_rows(const float (&c)[MB][NB][4], unsigned char* own, X* to, int first,
                                                  int count, int lane) {
  __syncwarp();
#pragma unroll
  for (int m = 0; m < MB; ++m)
#pragma unroll
    for (int n = 0; n < NB; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        unsigned char* const at = own + (m * 16 + h * 8 + lane / 4) * stride + (n * 8 + lane % 4 * 2) * E;
#if E == 4
        ((float*)at)[0] = c[m][n][h * 2];
        ((float*)at)[1] = c[m][n][h * 2 + 1];
#else
        *(unsigned*)at = pack(c[m][n][h * 2], c[m][n][h * 2 + 1]);
#endif
      }
  __syncwarp();
  if (width * E % 16 == 0) {
    constexpr int chunks = width * E / 16;
    for (int i = lane; i < MB * 16 * chunks; i += 32) {
      const int row = i / chunks, chunk = i % chunks;
      if (first + row < count)
        *(Sixteen*)(to + (i64)(first + row) * width + chunk * (16 / E)) =
            *(const Sixteen*)(own + row * stride + chunk * 16);
    }
    return;
  }
  for (int i = lane; i < MB * 16 * width; i += 32) {
    const int row = i / width, column = i % width;
    if (first + row < count) to[(i64)(first + row) * width + column] = ((const X*)(own + row * stride))[column];
  }
}
)";

inline constexpr std::string_view tensor_text = R"(
#define DS (DP + 16)
#define FS (FP + 16)
#define QS (DS > FS ? DS : FS)
#define NT (BN / 8)
#define FT (FP / E / 8)
#define STAGE (BN * (DS + FS))
extern "C" __global__ void __launch_bounds__(THREADS) attention(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x / a.pieces, piece = blockIdx.x % a.pieces;
  const int tile = CAUSAL ? a.tiles - 1 - at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, own = first + warp * MT * 16, last = first + BM < a.queries ? first + BM : a.queries;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int begin = piece * a.piece, most = visible(a, last - 1);
  const int end = a.pieces > 1 && begin + a.piece < most ? begin + a.piece : most;
  unsigned char* const queries = dynamic_shared();
  unsigned char* const stages = queries + BM * QS;
  fetch<D, DP, QS, BM>(queries, a.q + (i64)batch * a.queries * D, first, a.queries);
  fetch<D, DP, DS, BN>(stages, keys, begin, a.keys);
  fetch<F, FP, FS, BN>(stages + BN * DS, values, begin, a.keys);
  copy_async_commit();
  float sums[MT][FT][4] = {}, base[MT][2], sum[MT][2] = {};
#pragma unroll
  for (int m = 0; m < MT; ++m) base[m][0] = base[m][1] = NOTHING;
  unsigned char* const rows = queries + warp * MT * 16 * QS;
  const unsigned char* const left = rows + left_place(lane, QS);
  copy_async_wait<0>();
  __syncthreads();
#if KEEPS_QUERIES
  unsigned kept[DP / 32][MT][4];
#pragma unroll
  for (int d = 0; d < DP / 32; ++d)
#pragma unroll
    for (int m = 0; m < MT; ++m) read_fragment(kept[d][m], left + m * 16 * QS + d * 32);
#endif
  int stage = 0;
#pragma unroll 1
  for (int key = begin; key < end; key += BN) {
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    stage ^= 1;
    if (key + BN < end) {
      fetch<D, DP, DS, BN>(stages + stage * STAGE, keys, key + BN, a.keys);
      fetch<F, FP, FS, BN>(stages + stage * STAGE + BN * DS, values, key + BN, a.keys);
      copy_async_commit();
    }
    float w[MT][NT][4] = {};
#if KEEPS_QUERIES
    const unsigned char* const right = now + right_place(lane, DS);
#pragma unroll
    for (int d = 0; d < DP / 32; ++d)
#pragma unroll
      for (int n = 0; n < NT; n += 2) {
        unsigned b[4];
        read_fragment(b, right + n * 8 * DS + d * 32);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          multiply(w[m][n], kept[d][m], b[0], b[1]);
          multiply(w[m][n + 1], kept[d][m], b[2], b[3]);
        }
      }
#else
    multiply_rows<MT, NT, DP, QS, DS>(w, left, now + right_place(lane, DS));
#endif
    if (MASK || !PLAIN || key + BN > visible(a, first)) {
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            w[m][n][i] =
                shown(a, mask, w[m][n][i], own + m * 16 + i / 2 * 8 + lane / 4, key + n * 8 + lane % 4 * 2 + i % 2);
    }
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float top = w[m][0][h * 2];
#pragma unroll
        for (int n = 0; n < NT; ++n) top = fmaxf(top, fmaxf(w[m][n][h * 2], w[m][n][h * 2 + 1]));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        const float next = fmaxf(base[m][h], top * FACTOR), from = next == NOTHING ? 0.0f : next;
        const float shrink = shrink_by(base[m][h], from);
        base[m][h] = next;
        float more = 0;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = h * 2; i < h * 2 + 2; ++i) {
            w[m][n][i] = exp2_fast(above(a, w[m][n][i], from));
            more += w[m][n][i];
          }
        sum[m][h] = fmaf(sum[m][h], shrink, more);
#pragma unroll
        for (int f = 0; f < FT; ++f) sums[m][f][h * 2] *= shrink, sums[m][f][h * 2 + 1] *= shrink;
      }
    multiply_weights<MT, NT, FT, FS>(sums, w, now + BN * DS, lane);
  }
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[m][h] += __shfl_xor_sync(~0u, sum[m][h], 1);
      sum[m][h] += __shfl_xor_sync(~0u, sum[m][h], 2);
    }
#if SPLIT
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = own + m * 16 + h * 8 + lane / 4;
      if (query >= a.queries) continue;
      float* const part = a.parts + (((i64)batch * a.pieces + piece) * a.queries + query) * (FT * 8 + 2);
#pragma unroll
      for (int f = 0; f < FT; ++f) {
        part[f * 8 + lane % 4 * 2] = sums[m][f][h * 2];
        part[f * 8 + lane % 4 * 2 + 1] = sums[m][f][h * 2 + 1];
      }
      if (lane % 4 == 0) part[FT * 8] = base[m][h], part[FT * 8 + 1] = sum[m][h];
    }
#else
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float by = ZEROS && sum[m][h] == 0 ? 0.0f : 1.0f / sum[m][h];
#if KEEPS_LEVELS
      const int query = own + m * 16 + h * 8 + lane / 4;
      if (lane % 4 == 0 && query < a.queries)
        leave_level(a.levels + (batch * (i64)a.queries + query) * LEVELS, base[m][h], sum[m][h]);
#endif
#pragma unroll
      for (int f = 0; f < FT; ++f) sums[m][f][h * 2] *= by, sums[m][f][h * 2 + 1] *= by;
    }
  write_rows<MT, FT, F, QS>(sums, rows, a.out + (i64)batch * a.queries * F, own, a.queries, lane);
#endif
}
)";

/// What pieces of the keys left, of which there are 64 at most: a lane knows of two of them what they count.
inline constexpr std::string_view merge_text = R"(
extern "C" __global__ void __launch_bounds__(128) merge(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32;
  const i64 batch = blockIdx.x / a.queries, query = blockIdx.x % a.queries;
  const i64 apart = (i64)a.queries * (FT * 8 + 2);
  const float* const part = a.parts + (batch * a.pieces * a.queries + query) * (FT * 8 + 2);
  float by[2], sums[2], top = NOTHING, total = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool is_there = i * 32 + lane < a.pieces;
    by[i] = is_there ? part[(i * 32 + lane) * apart + FT * 8] : NOTHING;
    sums[i] = is_there ? part[(i * 32 + lane) * apart + FT * 8 + 1] : 0.0f;
    top = fmaxf(top, by[i]);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
  const float from = top == NOTHING ? 0.0f : top;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    by[i] = shrink_by(by[i], from);
    total = fmaf(sums[i], by[i], total);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) total += __shfl_xor_sync(~0u, total, step);
#if KEEPS_LEVELS
  if (threadIdx.x == 0) leave_level(a.levels + (i64)blockIdx.x * LEVELS, top, total);
#endif
  for (int f = threadIdx.x; f - lane < F; f += 128) {
    float value = 0;
#pragma unroll 16
    for (int i = 0; i < a.pieces; ++i) {
      const float own = f < F ? part[i * apart + f] : 0.0f;
      value = fmaf(own, __shfl_sync(~0u, i < 32 ? by[0] : by[1], i % 32), value);
    }
    if (f < F) a.out[(batch * a.queries + query) * F + f] = value * (ZEROS && total == 0 ? 0.0f : 1.0f / total);
  }
}
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
