// Text of attention of f32 on Hopper, in full precision by tensor cores: a number is the sum of three of bf16, exactly
// from 2^-109 on, and of the nine products of two numbers' parts the three smallest, some 2^-24 of the whole, are left
// out. Sums begin with the small products, and what a tile of keys adds up to is added to the rest in f32, since the
// instruction truncates its sums.
//
// Parts lie in shared memory as operands of bf16 do, one after the other; queries as long as the block lives, keys and
// values tile by tile. The last group reads numbers, splits them and leaves the parts. Keys of a tile are read by all
// before the next ones can come: the groups have products with them in turns, first all with keys, then all with
// values, so that the others are fetched meanwhile.
#pragma once

#include <sinter/backend/cuda/library/attention_hopper_kernels.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

/// Splitting numbers, and what is done with their parts.
inline constexpr std::string_view parts_common_text = R"(
#define PARTS 3
struct __align__(16) Four { float x, y, z, w; };
// Words of two neighbours' parts, the greatest first. Infinities and NaN become NaN.
static __device__ __forceinline__ void split_pair(unsigned (&to)[PARTS], float x, float y) {
#pragma unroll
  for (int i = 0; i < PARTS; ++i) {
    const unsigned low = __float_as_uint(x), high = __float_as_uint(y) & 0xffff0000u;
    to[i] = low >> 16 | high;
    x -= __uint_as_float(low & 0xffff0000u);
    y -= __uint_as_float(high);
  }
}
// As fetch_turned, of numbers that are split; parts lie `pitch` rows of `width` one after the other. `ready` is called
// before the first of them is left, when some have been read.
template <int width, int rows, int pitch, Order order, class Ready>
static __device__ __forceinline__ void fetch_parts(unsigned char* to, const X* from, int first, int count, int thread,
                                                   Ready ready) {
  constexpr int chunks = width / 8, step = 128 / chunks, all = rows / step, at_once = all < 4 ? all : 4;
  const int row = thread / chunks, chunk = thread % chunks;
  to += chunk / 8 * (pitch * 128) + row * 128 + (chunk % 8 ^ row % 8) * 16;
  first += place_in_order<order>(row);  // no bit of `row` and of a multiple of `step` is the same
  from += (i64)first * width + chunk * 8;
#pragma unroll
  for (int i = 0; i < all; i += at_once) {
    Four x[at_once][2];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const int further = place_in_order<order>((i + j) * step);
      const bool is_there = first + further < count;
#pragma unroll
      for (int h = 0; h < 2; ++h) x[j][h] = is_there ? *(const Four*)(from + further * width + h * 4) : Four{};
    }
    if (i == 0) ready();
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      unsigned words[4][PARTS];
      split_pair(words[0], x[j][0].x, x[j][0].y);
      split_pair(words[1], x[j][0].z, x[j][0].w);
      split_pair(words[2], x[j][1].x, x[j][1].y);
      split_pair(words[3], x[j][1].z, x[j][1].w);
#pragma unroll
      for (int p = 0; p < PARTS; ++p)
        *(Sixteen*)(to + p * (pitch * width * 2) + (i + j) * step * 128) =
            Sixteen{words[0][p], words[1][p], words[2][p], words[3][p]};
    }
  }
}
// The parts whose products count, the smallest first.
#define PRODUCTS 6
static __device__ __forceinline__ constexpr int left_part(int product) {
  return product == 1 ? 2 : product == 2 || product == 4 ? 1 : 0;
}
static __device__ __forceinline__ constexpr int right_part(int product) {
  return product == 0 ? 2 : product == 2 || product == 3 ? 1 : 0;
}
// c = a b^T of `depth` elements: of BM rows of parts, and of BN. In flight afterwards.
template <int depth> static __device__ __forceinline__ void begin_rows(float (&c)[NT][4], unsigned a, unsigned b) {
  group_fence();
#pragma unroll
  for (int p = 0; p < PRODUCTS; ++p)
#pragma unroll
    for (int d = 0; d < depth / 16; ++d) {
      const unsigned left = a + left_part(p) * (BM * depth / 8) + d / 4 * (BM * 8) + d % 4 * 2;
      const unsigned right = b + right_part(p) * (BN * depth / 8) + d / 4 * (BN * 8) + d % 4 * 2;
      if (p == 0 && d == 0) multiply_first(c, left, right);
      else multiply_more(c, left, right);
    }
  group_commit();
}
// c = w b of BN rows of b's parts, of `width` elements. In flight afterwards.
template <int width, int N>
static __device__ __forceinline__ void begin_sums(float (&c)[N][4], const unsigned (&w)[PARTS][NT / 2][4], unsigned b) {
  group_fence();
#pragma unroll
  for (int p = 0; p < PRODUCTS; ++p)
#pragma unroll
    for (int k = 0; k < NT / 2; ++k) {
      const unsigned right = b + right_part(p) * (BN * width / 8) + k * 128;
      if (p == 0 && k == 0) multiply_kept_first(c, w[left_part(p)][k], right);
      else multiply_kept(c, w[left_part(p)][k], right);
    }
  group_commit();
}
// Results of a product as left operands of the next.
static __device__ __forceinline__ void split_weights(unsigned (&weights)[PARTS][NT / 2][4], const float (&w)[NT][4]) {
#pragma unroll
  for (int k = 0; k < NT; k += 2)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned words[PARTS];
      split_pair(words, w[k + i / 2][i % 2 * 2], w[k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int p = 0; p < PARTS; ++p) weights[p][k / 2][i] = words[p];
    }
}
// Rows of results of a group, a lane's first one at `row` and the second `apart` after it.
template <int apart, int N>
static __device__ __forceinline__ void write_pairs(const float (&c)[N][4], const float (&by)[2], X* to, int row,
                                                   int count, int lane) {
  struct __align__(8) Pair { float x, y; };
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (row + h * apart < count)
        *(Pair*)(to + (i64)(row + h * apart) * (N * 8) + n * 8 + lane % 4 * 2) =
            Pair{c[n][h * 2] * by[h], c[n][h * 2 + 1] * by[h]};
}
)";

inline constexpr std::string_view parts_text = R"(
// Groups of warps begin their products in turns.
static __device__ __forceinline__ void take_turn(int group) { meet(1 + GROUPS + group, 256); }
static __device__ __forceinline__ void pass_turn(int group) { call_next(1 + GROUPS + (group + 1) % GROUPS, 256); }
#define KEY_BYTES (BN * D * 2 * PARTS)
#define VALUE_BYTES (BN * F * 2 * PARTS)
extern "C" __global__ void __launch_bounds__(THREADS, 1) attention(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::first);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const int end = visible(a, last - 1), steps = (end + BN - 1) / BN;
  constexpr int keys_begin = BM * D * 2 * PARTS, values_begin = keys_begin + KEY_BYTES;
  constexpr int barriers_begin = values_begin + VALUE_BYTES;
  // Barriers: keys are there, keys are read, values are there, values are read.
  unsigned char* const queries = begin_block(barriers_begin, 4);
  unsigned char *const keys_at = queries + keys_begin, *const values_at = queries + values_begin;
  unsigned char* const barriers = queries + barriers_begin;
  if (group == GROUPS) {  // fetches for the others
    give_registers();
    const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
    const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int turn = t % 2;
      fetch_parts<D, BN, BN, keys_mixed>(keys_at, keys, t * BN, a.keys, thread,
                                         [=] { barrier_wait(barriers + 8, turn ^ 1); });
      group_sees_shared();
      barrier_arrive(barriers);
      fetch_parts<F, BN, BN, keys_mixed>(values_at, values, t * BN, a.keys, thread,
                                         [=] { barrier_wait(barriers + 24, turn ^ 1); });
      group_sees_shared();
      barrier_arrive(barriers + 16);
    }
  } else {
    take_registers();
    const int own = first + group * 64 + thread / 32 * 16 + lane / 4;
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    fetch_parts<D, 64, BM, as_given>(queries + group * 8192, a.q + (i64)batch * a.queries * D, first + group * 64,
                                     a.queries, thread, [] {});
    group_sees_shared();
    meet(1 + group, 128);
    const unsigned left = place_of(queries + group * 8192, 64), keys_place = place_of(keys_at, 64);
    const unsigned values_place = place_of(values_at, BN * 8);
    float sums[F / 8][4] = {}, base[2] = {NOTHING, NOTHING}, sum[2] = {};
    if (group == GROUPS - 1) pass_turn(group);
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int turn = t % 2;
      unsigned weights[PARTS][NT / 2][4];
      float shrink[2];
      {
        float w[NT][4];
        Seen seen;
        const bool has_looked = MASK && look(a, mask, seen, own, t * BN, first + group * 64, lane);
        barrier_wait(barriers, turn);
        take_turn(group);
        begin_rows<D>(w, left, keys_place);
        pass_turn(group);
        group_wait_for<0>();
        settle(w);
        if (lane == 0) barrier_arrive(barriers + 8);
        hide(a, mask, seen, has_looked, w, own, t * BN, first + group * 64, lane);
        soften(a, w, base, sum, shrink);
        split_weights(weights, w);
      }
      float more[F / 8][4];
      barrier_wait(barriers + 16, turn);
      take_turn(group);
      begin_sums<F>(more, weights, values_place);
      pass_turn(group);
      group_wait_for<0>();
      settle(more);
      if (lane == 0) barrier_arrive(barriers + 24);
#pragma unroll
      for (int f = 0; f < F / 8; ++f)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[f][i] = fmaf(sums[f][i], shrink[i / 2], more[f][i]);
    }
    float by[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
      by[h] = ZEROS && sum[h] == 0 ? 0.0f : 1.0f / sum[h];
#if KEEPS_LEVELS
      if (lane % 4 == 0 && own + h * 8 < a.queries)
        leave_level(a.levels + ((i64)batch * a.queries + own + h * 8) * LEVELS, base[h], sum[h]);
#endif
    }
    write_pairs<8>(sums, by, a.out + (i64)batch * a.queries * F, own, a.queries, lane);
  }
}
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
