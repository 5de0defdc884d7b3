// Text of attention's gradients of f32 on Hopper, in full precision by products of parts (attention_parts_kernels.hpp),
// where the forward pass has left the levels of rows. A block has 64 rows, of queries or of keys, and two groups of
// warps that walk over every other tile each: with the parts of rows there is room for no more. Their sums are added at
// the end. Groups do not wait for each other: turns, as in the forward pass, cost 0 to 9 %.
#pragma once

#include <sinter/backend/cuda/library/attention_hopper_gradients.hpp>
#include <sinter/backend/cuda/library/attention_parts_kernels.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline constexpr std::string_view parts_gradient_text = R"(
#define DEPTH_BYTES (BN * D * 2 * PARTS)
#define VALUE_BYTES (BN * F * 2 * PARTS)
#define STAGE_BYTES (DEPTH_BYTES + VALUE_BYTES)
#define VALUES_BEGIN (BM * D * 2 * PARTS)
#define STAGES_BEGIN (VALUES_BEGIN + BM * F * 2 * PARTS)
// c += w b of BN rows of b's parts, 64 columns at a time, which are added in f32: the instruction truncates.
template <int N>
static __device__ __forceinline__ void add_sums(float (&c)[N][4], const unsigned (&w)[PARTS][NT / 2][4], unsigned b) {
#pragma unroll
  for (int n = 0; n < N; n += 8) {
    float more[8][4];
    begin_sums<N * 8>(more, w, b + n * BN);
    group_wait_for<0>();
    settle(more);
#pragma unroll
    for (int m = 0; m < 8; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[n + m][i] += more[m][i];
  }
}
// A group's sums to shared memory, and from there to the other group's.
template <int N>
static __device__ __forceinline__ void leave_sums(const float (&c)[N][4], unsigned char* to, int thread) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) ((float*)to)[(n * 4 + i) * 128 + thread] = c[n][i];
}
template <int N>
static __device__ __forceinline__ void take_sums(float (&c)[N][4], const unsigned char* from, int thread) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] += ((const float*)from)[(n * 4 + i) * 128 + thread];
}
#if OF_QUERIES
extern "C" __global__ void __launch_bounds__(THREADS, 1) query_gradient(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::first);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const int steps = (visible(a, last - 1) + 2 * BN - 1) / (2 * BN);  // of both groups
  constexpr int barriers_begin = STAGES_BEGIN + GROUPS * STAGE_BYTES;
  // Barriers, of each group: keys are there, keys are read, values are there, values are read.
  unsigned char* const shared = begin_block(barriers_begin, 4, 4);
  if (group == GROUPS) {  // fetches for the others: first what they are done with first
    give_registers();
    const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
    const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int turn = t % 2;
#pragma unroll 1
      for (int g = 0; g < GROUPS; ++g) {
        unsigned char *const barrier = shared + barriers_begin + g * 32 + 16,
                             *const to = shared + STAGES_BEGIN + g * STAGE_BYTES + DEPTH_BYTES;
        fetch_parts<F, BN, BN, keys_mixed>(to, values, (t * GROUPS + g) * BN, a.keys, thread,
                                           [=] { barrier_wait(barrier + 8, turn ^ 1); });
        group_sees_shared();
        barrier_arrive(barrier);
      }
#pragma unroll 1
      for (int g = 0; g < GROUPS; ++g) {
        unsigned char *const barrier = shared + barriers_begin + g * 32,
                             *const to = shared + STAGES_BEGIN + g * STAGE_BYTES;
        fetch_parts<D, BN, BN, keys_mixed>(to, keys, (t * GROUPS + g) * BN, a.keys, thread,
                                           [=] { barrier_wait(barrier + 8, turn ^ 1); });
        group_sees_shared();
        barrier_arrive(barrier);
      }
    }
  } else {
    take_registers();
    const int own = first + thread / 32 * 16 + lane / 4;
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    const X *const dout = a.dout + (i64)batch * a.queries * F, *const result = a.result + (i64)batch * a.queries * F;
    if (group == 0)
      fetch_parts<D, BM, BM, as_given>(shared, a.q + (i64)batch * a.queries * D, first, a.queries, thread, [] {});
    else fetch_parts<F, BM, BM, as_given>(shared + VALUES_BEGIN, dout, first, a.queries, thread, [] {});
    group_sees_shared();
    float level[2], delta[2], rest[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = own + h * 8 < a.queries ? own + h * 8 : 0;
      const float* const known = a.levels + ((i64)batch * a.queries + query) * LEVELS;
      level[h] = known[0];
      if (APART) rest[h] = known[LEVELS - 1];
      float more = 0;
#pragma unroll
      for (int f = lane % 4 * 4; f < F; f += 16) {
        const Four x = *(const Four*)(dout + (i64)query * F + f), y = *(const Four*)(result + (i64)query * F + f);
        more = fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, more))));
      }
      delta[h] = sum_of_four(more);
      if (group == 0 && lane % 4 == 0 && own + h * 8 < a.queries)
        leave_stats(a, (i64)batch * a.queries + query, level[h], delta[h], rest[h]);
    }
    meet(1, 256);
    unsigned char *const stage = shared + STAGES_BEGIN + group * STAGE_BYTES,
                         *const barrier = shared + barriers_begin + group * 32;
    const unsigned left = place_of(shared, 64), left_dout = place_of(shared + VALUES_BEGIN, 64);
    const unsigned keys_place = place_of(stage, BN * 8), values_place = place_of(stage + DEPTH_BYTES, BN * 8);
    float sums[D / 8][4] = {};
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int turn = t % 2, key = (t * GROUPS + group) * BN;
      unsigned ds[PARTS][NT / 2][4];
      {
        float w[NT][4], dw[NT][4];
        Seen seen;
        const bool has_looked = MASK && look(a, mask, seen, own, key, first, lane);
        barrier_wait(barrier, turn);
        barrier_wait(barrier + 16, turn);
        begin_rows<D>(w, left, keys_place);
        begin_rows<F>(dw, left_dout, values_place);
        group_wait_for<1>();
        settle(w);
        hide(a, mask, seen, has_looked, w, own, key, first, lane);
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] = weight_of(a, w[n][i], level[i / 2], rest[i / 2]);
        group_wait_for<0>();
        settle(dw);
        if (lane == 0) barrier_arrive(barrier + 24);
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] *= dw[n][i] - delta[i / 2];
        split_weights(ds, w);
      }
      add_sums(sums, ds, keys_place);
      if (lane == 0) barrier_arrive(barrier + 8);
    }
    meet(1, 256);
    if (group == 1) leave_sums(sums, shared, thread);
    meet(1, 256);
    if (group == 1) return;
    take_sums(sums, shared, thread);
    const float by[2] = {a.plain_scale, a.plain_scale};
    write_pairs<8>(sums, by, a.dq + (i64)batch * a.queries * D, own, a.queries, lane);
  }
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1) key_gradient(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::last);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, begin = CAUSAL && first > a.ahead ? (first - a.ahead) / BN * BN : 0;
  const int steps = begin < a.queries ? (a.queries - begin + 2 * BN - 1) / (2 * BN) : 0;  // of both groups
  constexpr int stats_begin = STAGES_BEGIN + GROUPS * STAGE_BYTES, stats_bytes = BN * STATS * 4;
  constexpr int barriers_begin = stats_begin + GROUPS * stats_bytes;
  // Barriers, of each group: queries are there, queries are read.
  unsigned char* const shared = begin_block(barriers_begin, 2, 4);
  if (group == GROUPS) {
    give_registers();
    const float* const stats = a.stats + (i64)batch * a.queries * STATS;
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int turn = t % 2;
#pragma unroll 1
      for (int g = 0; g < GROUPS; ++g) {
        const int query = begin + (t * GROUPS + g) * BN;
        unsigned char *const barrier = shared + barriers_begin + g * 16,
                             *const to = shared + STAGES_BEGIN + g * STAGE_BYTES;
        fetch_parts<D, BN, BN, as_given>(to, a.q + (i64)batch * a.queries * D, query, a.queries, thread,
                                         [=] { barrier_wait(barrier + 8, turn ^ 1); });
        fetch_parts<F, BN, BN, as_given>(to + DEPTH_BYTES, a.dout + (i64)batch * a.queries * F, query, a.queries,
                                         thread, [] {});
        for (int i = thread; i < BN * STATS; i += 128)
          ((float*)(shared + stats_begin + g * stats_bytes))[i] =
              query + i / STATS < a.queries ? stats[(i64)query * STATS + i] : 0.0f;
        group_sees_shared();
        barrier_arrive(barrier);
      }
    }
  } else {
    take_registers();
    const int own = first + thread / 32 * 16 + lane / 4 * (MIXES_KEYS ? 2 : 1);
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    if (group == 0)
      fetch_parts<D, BM, BM, keys_paired>(shared, a.k + (i64)(batch / a.sharers) * a.keys * D, first, a.keys, thread,
                                          [] {});
    else
      fetch_parts<F, BM, BM, keys_paired>(shared + VALUES_BEGIN, a.v + (i64)(batch / a.sharers) * a.keys * F, first,
                                          a.keys, thread, [] {});
    group_sees_shared();
    meet(1, 256);
    unsigned char *const stage = shared + STAGES_BEGIN + group * STAGE_BYTES,
                         *const barrier = shared + barriers_begin + group * 16;
    const unsigned char* const stats = shared + stats_begin + group * stats_bytes + lane % 4 * 2 * (STATS * 4);
    const unsigned left = place_of(shared, 64), left_value = place_of(shared + VALUES_BEGIN, 64);
    const unsigned queries_place = place_of(stage, BN * 8), douts_place = place_of(stage + DEPTH_BYTES, BN * 8);
    float dk[D / 8][4] = {}, dv[F / 8][4] = {};
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      const int query = begin + (t * GROUPS + group) * BN;
      unsigned weights[PARTS][NT / 2][4];
      float w[NT][4];
      {
        float dw[NT][4];
        Across seen;
        const bool has_looked = look_across(a, mask, seen, query, own, first, lane);
        barrier_wait(barrier, t % 2);
        begin_rows<D>(w, left, queries_place);
        begin_rows<F>(dw, left_value, douts_place);
        group_wait_for<1>();
        settle(w);
        hide_across(a, mask, seen, has_looked, w, query, own, first, lane);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const unsigned char* const own_stats = stats + n * (STATS * 32);
          const Sixteen all = *(const Sixteen*)own_stats;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            w[n][i] = weight_of(a, w[n][i], stat_of(all, own_stats, i % 2, 0),
                                APART ? stat_of(all, own_stats, i % 2, 2) : 0.0f);
        }
        split_weights(weights, w);
        group_wait_for<0>();
        settle(dw);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const unsigned char* const own_stats = stats + n * (STATS * 32);
          const Sixteen all = *(const Sixteen*)own_stats;
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] *= dw[n][i] - stat_of(all, own_stats, i % 2, 1);
        }
      }
      add_sums(dv, weights, douts_place);
      split_weights(weights, w);  // here, where registers are free
      add_sums(dk, weights, queries_place);
      if (lane == 0) barrier_arrive(barrier + 8);
    }
    meet(1, 256);
    // Each group leaves the other one half of its sums.
    if (group == 0) leave_sums(dv, shared + D * 256, thread);
    else leave_sums(dk, shared, thread);
    meet(1, 256);
    const float by[2] = {a.plain_scale, a.plain_scale}, one[2] = {1, 1};
    if (group == 0) {
      take_sums(dk, shared, thread);
      write_pairs<KEYS_APART>(dk, by, a.dk + (i64)batch * a.keys * D, own, a.keys, lane);
    } else {
      take_sums(dv, shared + D * 256, thread);
      write_pairs<KEYS_APART>(dv, one, a.dv + (i64)batch * a.keys * F, own, a.keys, lane);
    }
  }
}
#endif
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
