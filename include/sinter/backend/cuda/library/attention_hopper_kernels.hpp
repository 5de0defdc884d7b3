// Text of attention on Hopper: products of four warps at once (`wgmma`), which read keys and values from shared memory
// themselves. What is different from the other text is the order of shared memory: pieces of 128 bytes with the swizzle
// that the instruction knows.
#pragma once

#include <sinter/backend/cuda/library/attention_kernels.hpp>

#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline constexpr std::string_view hopper_text = R"(
static __device__ __forceinline__ unsigned pack(float low, float high) {
#if IS_BRAIN
  return pack_bf16(low, high);
#else
  return pack_f16(low, high);
#endif
}
// Rows of `width` elements in pieces of 128 bytes, as the instruction reads them: vector c of row r at c ^ r % 8.
template <int width, int rows>
static __device__ __forceinline__ void fetch_turned(unsigned char* to, const X* from, int first, int count) {
  constexpr int chunks = width / 8;
#pragma unroll
  for (int i = threadIdx.x; i < rows * chunks; i += THREADS) {
    const int row = i / chunks, chunk = i % chunks;
    const bool is_inside = first + row < count;
    const X* const at = is_inside ? from + (i64)(first + row) * width + chunk * 8 : from;
    copy_async<16>(to + chunk / 8 * (rows * 128) + row * 128 + (chunk % 8 ^ row % 8) * 16, at, is_inside);
  }
}
#define NT (BN / 8)
#define STAGE (BN * (D + F) * 2)
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x;
  const int tile = CAUSAL ? a.tiles - 1 - at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, own = first + warp * 16, last = first + BM < a.queries ? first + BM : a.queries;
  const X* const keys = a.k + (i64)batch * a.keys * D;
  const X* const values = a.v + (i64)batch * a.keys * F;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int end = visible(a, last - 1);
  unsigned char* queries = dynamic_shared();
  queries += (1024 - (unsigned)__cvta_generic_to_shared(queries) % 1024) % 1024;
  unsigned char* const stages = queries + BM * D * 2;
  fetch_turned<D, BM>(queries, a.q + (i64)batch * a.queries * D, first, a.queries);
  fetch_turned<D, BN>(stages, keys, 0, a.keys);
  fetch_turned<F, BN>(stages + BN * D * 2, values, 0, a.keys);
  copy_async_commit();
  float sums[F / 64][8][4] = {}, base[2] = {NOTHING, NOTHING}, sum[2] = {};
  int stage = 0;
  const unsigned char* const left = queries + warp / 4 * 64 * 128;
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {
    copy_async_wait<0>();
    group_sees_shared();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    stage ^= 1;
    if (key + BN < end) {
      fetch_turned<D, BN>(stages + stage * STAGE, keys, key + BN, a.keys);
      fetch_turned<F, BN>(stages + stage * STAGE + BN * D * 2, values, key + BN, a.keys);
      copy_async_commit();
    }
    float w[NT][4];
    group_fence();
#pragma unroll
    for (int d = 0; d < D / 16; ++d)
      multiply_shared(w, left + d / 4 * (BM * 128) + d % 4 * 32, now + d / 4 * (BN * 128) + d % 4 * 32, d > 0);
    group_wait();
    if (MASK || !PLAIN || key + BN > visible(a, first)) {
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          w[n][i] = shown(a, mask, w[n][i], own + i / 2 * 8 + lane / 4, key + n * 8 + lane % 4 * 2 + i % 2);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = w[0][h * 2];
#pragma unroll
      for (int n = 0; n < NT; ++n) top = fmaxf(top, fmaxf(w[n][h * 2], w[n][h * 2 + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float next = fmaxf(base[h], top * FACTOR), from = next == NOTHING ? 0.0f : next;
      const float shrink = exp2_fast(base[h] - from);
      base[h] = next;
      float more = 0;
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = h * 2; i < h * 2 + 2; ++i) {
          w[n][i] = exp2_fast(fmaf(w[n][i], FACTOR, -from));
          more += w[n][i];
        }
      sum[h] = fmaf(sum[h], shrink, more);
#pragma unroll
      for (int f = 0; f < F / 64; ++f)
#pragma unroll
        for (int n = 0; n < 8; ++n) sums[f][n][h * 2] *= shrink, sums[f][n][h * 2 + 1] *= shrink;
    }
    unsigned weights[NT / 2][4];
#pragma unroll
    for (int k = 0; k < NT; k += 2)
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[k / 2][i] = pack(w[k + i / 2][i % 2 * 2], w[k + i / 2][i % 2 * 2 + 1]);
    group_fence();
#pragma unroll
    for (int k = 0; k < NT / 2; ++k)
#pragma unroll
      for (int f = 0; f < F / 64; ++f)
        multiply_kept(sums[f], weights[k], now + BN * D * 2 + f * (BN * 128) + k * 2048);
    group_wait();
  }
  copy_async_wait<0>();
  X* const out = a.out + (i64)batch * a.queries * F;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    const float by = ZEROS && sum[h] == 0 ? 0.0f : 1.0f / sum[h];
    const int query = own + h * 8 + lane / 4;
    if (query >= a.queries) continue;
#pragma unroll
    for (int f = 0; f < F / 64; ++f)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        *(unsigned*)(out + (i64)query * F + f * 64 + n * 8 + lane % 4 * 2) =
            pack(sums[f][n][h * 2] * by, sums[f][n][h * 2 + 1] * by);
  }
}
)";

inline constexpr std::string_view group_text =
    "static __device__ __forceinline__ void group_fence() { asm volatile(\"wgmma.fence.sync.aligned;\" : : : "
    "\"memory\"); }\n"
    "static __device__ __forceinline__ void group_wait() { asm volatile(\"wgmma.commit_group.sync.aligned; "
    "wgmma.wait_group.sync.aligned 0;\" : : : \"memory\"); }\n"
    "static __device__ __forceinline__ void group_sees_shared() { asm volatile(\"fence.proxy.async;\" : : : "
    "\"memory\"); }\n";

/// The matrix that begins there, for the instruction: rows of 128 bytes, eight after 1024 bytes, swizzled.
inline std::string described(const std::string& at) {
  return "(unsigned long long)(((unsigned)__cvta_generic_to_shared(" + at +
         ") & 0x3ffffu) >> 4) | 64ull << 32 | 64ull << 16 | 1ull << 62";
}

/// c [64 rows of four warps, columns] += a b^T of 16 positions, in one line. `shared`: a lies in shared memory, `adds`
/// says whether c counts, and b is given by rows; else a is in registers, and b is given by its positions.
inline std::string group_product(int columns, bool shared, DType dtype) {
  const std::string type = dtype == DType::bf16 ? "bf16" : "f16";
  const int registers = columns / 2;
  std::string sums, outs;
  for (int i = 0; i < registers; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    sums += comma + "%" + std::to_string(i);
    outs += comma + "\"+f\"(c[" + std::to_string(i / 4) + "][" + std::to_string(i % 4) + "])";
  }
  const auto operand = [&](int i) { return "%" + std::to_string(registers + i); };
  const std::string name = shared ? "multiply_shared" : "multiply_kept",
                    left = shared ? operand(0)
                                  : "{" + operand(0) + ", " + operand(1) + ", " + operand(2) + ", " + operand(3) + "}",
                    right = operand(shared ? 1 : 4);
  std::string line = "static __device__ __forceinline__ void " + name + "(float (&c)[" + std::to_string(columns / 8) +
                     "][4], " + (shared ? "const unsigned char* a" : "const unsigned (&a)[4]") +
                     ", const unsigned char* b" + (shared ? ", int adds" : "") + ") { ";
  if (shared) line += "const unsigned long long left = " + described("a") + "; ";
  line += "const unsigned long long right = " + described("b") + "; asm volatile(\"{ .reg .pred p; setp.ne.b32 p, " +
          (shared ? operand(2) : "1") + ", 0; wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) +
          "k16.f32." + type + "." + type + " {" + sums + "}, " + left + ", " + right + ", p, 1, 1, " +
          (shared ? "0, 0" : "1") + "; }\" : " + outs + " : ";
  line += shared ? "\"l\"(left), \"l\"(right), \"r\"(adds)"
                 : "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(right)";
  return line + "); }\n";
}

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
