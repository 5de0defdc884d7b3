// Text of attention's gradients on Hopper, by products of groups of four warps (`wgmma`): three kernels, or two where
// the forward pass has left the levels of rows, so that every sum has an order of its own. A block's last group fetches
// what the others walk over; these compute, 64 rows each.
//
// row_levels: the exponent of 2 by which weights are exponentials of their scores, and delta, the sum of dout * out of
// a row, for the others. query_gradient: rows are queries, the walk is over the keys. key_gradient: rows are keys, the
// walk is over the queries, so that weights and their gradients leave the instruction as left operands of the next one.
// Products are in flight while what came before them is computed with: groups of them end in the order they began.
#pragma once

#include <sinter/backend/cuda/library/attention_hopper_kernels.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

/// What kernels of gradients by groups of warps share: what is known of queries, and what hides scores that lie across.
inline constexpr std::string_view group_gradient_text = R"(
#define STATS (APART ? 4 : 2)
static __device__ __forceinline__ float weight_of(const Arguments& a, float x, float level, float rest) {
  return exp2_fast(APART ? fmaf(x - level, LOG2_E, -rest) : above(a, x, level));
}
// What is known of a tile's query: 0 the level, 1 delta, 2 the rest. `all` has the first two of two neighbours.
static __device__ __forceinline__ float stat_of(const Sixteen& all, const unsigned char* stats, int query, int which) {
  if (!APART) return __uint_as_float(all.words[query * 2 + which]);
  return ((const float*)stats)[query * STATS + which];
}
static __device__ __forceinline__ void leave_stats(const Arguments& a, i64 row, float level, float delta, float rest) {
  float* const stats = a.stats + row * STATS;
  stats[0] = level;
  stats[1] = delta;
  if (APART) stats[2] = rest;
}
static __device__ __forceinline__ float sum_of_four(float sum) {
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}
// A lane's two keys are neighbours where there is a mask, else eight apart.
#define KEYS_APART (MIXES_KEYS ? 1 : 8)
#if MASK == 0
struct Across {};
static __device__ __forceinline__ bool look_across(const Arguments&, const M*, Across&, int, int, int, int) {
  return false;
}
#else
// What the mask says of a lane's two keys, the first of which is `own`, and of its queries of a tile: fetched before
// scores are there. `group` is the first key of all lanes. False: the tile crosses a border, or keys do not lie in
// pairs.
struct __align__(2 * sizeof(M)) Two { M x[2]; };
struct Across { Two pairs[NT][2]; };
static __device__ __forceinline__ bool look_across(const Arguments& a, const M* mask, Across& seen, int query, int own,
                                                   int group, int lane) {
  if (group + 64 > visible(a, query) || query + BN > a.queries || a.mask_key != 1) return false;
  if (a.mask_row % 2 != 0 || (i64)mask % sizeof(Two) != 0) return false;
  const M* const at = mask + (query + lane % 4 * 2) * a.mask_row + own;
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) seen.pairs[n][c] = *(const Two*)(at + (n * 8 + c) * a.mask_row);
  return true;
}
#endif
// What is not seen becomes nothing.
static __device__ __forceinline__ void hide_across(const Arguments& a, const M* mask, const Across& seen,
                                                   bool has_looked, float (&w)[NT][4], int query, int own, int group,
                                                   int lane) {
  if (!MASK && PLAIN && group + 64 <= visible(a, query) && query + BN <= a.queries) return;
#if MASK
  if (has_looked) {
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) w[n][i] = with_mask(a, seen.pairs[n][i % 2].x[i / 2], w[n][i]);
    return;
  }
#endif
#if MASK == 0 && PLAIN
  // Of a lane's queries of the tile, from its first one on: how many there are, and which is the first to see its keys.
  const int count = a.queries - query - lane % 4 * 2, sees = CAUSAL ? own - a.ahead - query - lane % 4 * 2 : 0;
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (n * 8 + i % 2 >= count || (CAUSAL && n * 8 + i % 2 < sees + i / 2 * KEYS_APART)) w[n][i] = NOTHING;
#else
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      w[n][i] = shown(a, mask, w[n][i], query + n * 8 + lane % 4 * 2 + i % 2, own + i / 2 * KEYS_APART);
#endif
}
)";

inline constexpr std::string_view hopper_gradient_text = R"(
#define DEPTH_BYTES (BN * D * 2)
#define VALUE_BYTES (BN * F * 2)
// c = a b^T of `depth` elements; rows of a lie in pieces of BM rows, those of b of BN. In flight afterwards.
template <int depth>
static __device__ __forceinline__ void begin_rows(float (&c)[NT][4], unsigned a, unsigned b) {
  group_fence();
  multiply_first(c, a, b);
#pragma unroll
  for (int d = 1; d < depth / 16; ++d)
    multiply_more(c, a + d / 4 * (BM * 8) + d % 4 * 2, b + d / 4 * (BN * 8) + d % 4 * 2);
  group_commit();
}
// c += w b, of BN rows of b. In flight afterwards.
template <int N>
static __device__ __forceinline__ void begin_sums(float (&c)[N][4], const unsigned (&w)[NT / 2][4], unsigned b) {
  group_fence();
#pragma unroll
  for (int k = 0; k < NT / 2; ++k) multiply_kept(c, w[k], b + k * 128);
  group_commit();
}
static __device__ __forceinline__ void pack_weights(unsigned (&weights)[NT / 2][4], const float (&w)[NT][4]) {
#pragma unroll
  for (int k = 0; k < NT; k += 2)
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[k / 2][i] = pack(w[k + i / 2][i % 2 * 2], w[k + i / 2][i % 2 * 2 + 1]);
}
// The group that fetches: `fetch` begins the copies of step t to a stage.
template <class Fetch>
static __device__ __forceinline__ void fetch_steps(unsigned char* barriers, int steps, Fetch fetch) {
  give_registers();
  int stage = 0, turn = 0;
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    barrier_wait(barriers + stage * 16 + 8, turn ^ 1);
    fetch(stage, t);
    copy_async_arrive(barriers + stage * 16);
    if (++stage == STAGES) stage = 0, turn ^= 1;
  }
  copy_async_commit();
  copy_async_wait<0>();
}
// What was asked for by this group is there.
static __device__ __forceinline__ void meet_group(int group) {
  copy_async_wait<0>();
  group_sees_shared();
  meet(1 + group, 128);
}
// The sum of dout * out of a row, of which four lanes have a part each.
static __device__ __forceinline__ float sum_of_products(const Sixteen& x, const Sixteen& y, float sum) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf((float)((const X*)x.words)[i], (float)((const X*)y.words)[i], sum);
  return sum;
}
// A step's scores, once its stage is there. In flight afterwards.
static __device__ __forceinline__ void begin_scores(float (&w)[NT][4], unsigned left, unsigned char* barrier, int turn,
                                                    unsigned stage) {
  barrier_wait(barrier, turn);
  group_sees_shared();
  begin_rows<D>(w, left, stage);
}
// A step's sums are done, while as many products as are `pending` are in flight: its stage is free.
template <int pending, class... Sums>
static __device__ __forceinline__ void end_step(unsigned char* barrier, int lane, Sums&... sums) {
  group_wait_for<pending>();
  (settle(sums), ...);
  if (lane == 0) barrier_arrive(barrier + 8);
}
#if PART == 0
extern "C" __global__ void __launch_bounds__(THREADS, 1) row_levels(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::first);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const int steps = (visible(a, last - 1) + BN - 1) / BN;
  constexpr int keys_begin = BM * D * 2, barriers_begin = keys_begin + STAGES * DEPTH_BYTES;
  unsigned char* const shared = begin_block(barriers_begin, 2);
  unsigned char* const barriers = shared + barriers_begin;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  if (group == GROUPS) {
    fetch_steps(barriers, steps, [=](int stage, int t) {
      fetch_turned<D, BN, BN, keys_mixed>(shared + keys_begin + stage * DEPTH_BYTES, keys, t * BN, a.keys, thread);
    });
  } else {
    take_registers();
    const int own = first + group * 64 + thread / 32 * 16 + lane / 4;
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    fetch_turned<D, 64, BM>(shared + group * 8192, a.q + (i64)batch * a.queries * D, first + group * 64, a.queries,
                            thread);
    copy_async_commit();
    float delta[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const i64 row = (i64)batch * a.queries + (own + h * 8 < a.queries ? own + h * 8 : 0);
      float sum_of_row = 0;
#pragma unroll
      for (int f = lane % 4 * 8; f < F; f += 32)
        sum_of_row = sum_of_products(*(const Sixteen*)(a.dout + row * F + f), *(const Sixteen*)(a.result + row * F + f),
                                     sum_of_row);
      delta[h] = sum_of_four(sum_of_row);
    }
    meet_group(group);
    int stage = 0, turn = 0;
    const unsigned left = place_of(shared + group * 8192, 64), keys_place = place_of(shared + keys_begin, 64);
    float w[NT][4], level[2] = {NOTHING, NOTHING}, sum[2] = {};
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      Seen seen;
      const bool has_looked = MASK && look(a, mask, seen, own, t * BN, first + group * 64, lane);
      barrier_wait(barriers + stage * 16, turn);
      group_sees_shared();
      begin_rows<D>(w, left, keys_place + stage * (DEPTH_BYTES / 16));
      group_wait_for<0>();
      settle(w);
      if (lane == 0) barrier_arrive(barriers + stage * 16 + 8);
      if (++stage == STAGES) stage = 0, turn ^= 1;
      hide(a, mask, seen, has_looked, w, own, t * BN, first + group * 64, lane);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float top = w[0][h * 2], more[2] = {};
#pragma unroll
        for (int n = 0; n < NT; ++n) top = fmaxf(top, fmaxf(w[n][h * 2], w[n][h * 2 + 1]));
        const float next = fmaxf(level[h], top * FACTOR), from = next == NOTHING ? 0.0f : next;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) more[i] += exp2_fast(above(a, w[n][h * 2 + i], from));
        sum[h] = fmaf(sum[h], shrink_by(level[h], from), more[0] + more[1]);
        level[h] = next;
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // A lane has seen some of the keys.
      float top = fmaxf(level[h], __shfl_xor_sync(~0u, level[h], 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      float more = sum[h] * shrink_by(level[h], top == NOTHING ? 0.0f : top), known[2];
      more += __shfl_xor_sync(~0u, more, 1);
      more += __shfl_xor_sync(~0u, more, 2);
      leave_level(known, top, more);
      if (lane % 4 == 0 && own + h * 8 < a.queries)
        leave_stats(a, (i64)batch * a.queries + own + h * 8, known[0], delta[h], APART ? known[1] : 0.0f);
    }
  }
}
#elif PART == 1
extern "C" __global__ void __launch_bounds__(THREADS, 1) query_gradient(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::first);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const int steps = (visible(a, last - 1) + BN - 1) / BN;
  constexpr int douts_begin = BM * D * 2, stages_begin = douts_begin + BM * F * 2;
  constexpr int stage_bytes = DEPTH_BYTES + VALUE_BYTES, barriers_begin = stages_begin + STAGES * stage_bytes;
  unsigned char* const shared = begin_block(barriers_begin, 2);
  unsigned char* const barriers = shared + barriers_begin;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
  if (group == GROUPS) {
    fetch_steps(barriers, steps, [=](int stage, int t) {
      unsigned char* const to = shared + stages_begin + stage * stage_bytes;
      fetch_turned<D, BN, BN, keys_mixed>(to, keys, t * BN, a.keys, thread);
      fetch_turned<F, BN, BN, keys_mixed>(to + DEPTH_BYTES, values, t * BN, a.keys, thread);
    });
  } else {
    take_registers();
    const int own = first + group * 64 + thread / 32 * 16 + lane / 4;
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    fetch_turned<D, 64, BM>(shared + group * 8192, a.q + (i64)batch * a.queries * D, first + group * 64, a.queries,
                            thread);
    fetch_turned<F, 64, BM>(shared + douts_begin + group * 8192, a.dout + (i64)batch * a.queries * F,
                            first + group * 64, a.queries, thread);
    copy_async_commit();
    float level[2], delta[2], rest[2] = {};
#if KEEPS_LEVELS
    Sixteen result[2][F / 32];  // of a lane, on the way while rows of dout are
#endif
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const i64 row = (i64)batch * a.queries + (own + h * 8 < a.queries ? own + h * 8 : 0);
#if KEEPS_LEVELS
      level[h] = a.levels[row * LEVELS];
      if (APART) rest[h] = a.levels[row * LEVELS + LEVELS - 1];
#pragma unroll
      for (int f = 0; f < F / 32; ++f) result[h][f] = *(const Sixteen*)(a.result + row * F + f * 32 + lane % 4 * 8);
#else
      level[h] = a.stats[row * STATS];
      delta[h] = a.stats[row * STATS + 1];
      if (APART) rest[h] = a.stats[row * STATS + 2];
#endif
    }
    meet_group(group);
    int stage = 0, turn = 0;
    const unsigned left = place_of(shared + group * 8192, 64), left_dout = left + douts_begin / 16;
    const unsigned stages_place = place_of(shared + stages_begin, BN * 8);
    float sums[D / 8][4] = {}, w[NT][4];
    unsigned ds[NT / 2][4];
#if KEEPS_LEVELS
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = thread / 32 * 16 + lane / 4 + h * 8;
      const unsigned char* const dout = shared + douts_begin + group * 8192 + row * 128;
      float sum = 0;
#pragma unroll
      for (int f = 0; f < F / 32; ++f) {
        const Sixteen x = *(const Sixteen*)(dout + f / 2 * (BM * 128) + ((f % 2 * 4 + lane % 4) ^ row % 8) * 16);
        sum = sum_of_products(x, result[h][f], sum);
      }
      delta[h] = sum_of_four(sum);
      if (lane % 4 == 0 && own + h * 8 < a.queries)
        leave_stats(a, (i64)batch * a.queries + own + h * 8, level[h], delta[h], rest[h]);
    }
#endif
    int t = 0;
#pragma unroll 1
    while (t < steps) {
      begin_scores(w, left, barriers + stage * 16, turn, stages_place + stage * (stage_bytes / 16));
#pragma unroll
      for (int step = 1;; ++step) {
        const unsigned now = stages_place + stage * (stage_bytes / 16);
        unsigned char* const barrier = barriers + stage * 16;
        Seen seen;
        const bool has_looked = MASK && look(a, mask, seen, own, t * BN, first + group * 64, lane);
        float dw[NT][4];
        begin_rows<F>(dw, left_dout, now + DEPTH_BYTES / 16);
        group_wait_for<1>();
        settle(w);
        hide(a, mask, seen, has_looked, w, own, t * BN, first + group * 64, lane);
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] = weight_of(a, w[n][i], level[i / 2], rest[i / 2]);
        group_wait_for<0>();
        settle(dw);
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] *= dw[n][i] - delta[i / 2];
        pack_weights(ds, w);
        begin_sums(sums, ds, now);
        if (++stage == STAGES) stage = 0, turn ^= 1;
        if (++t == steps || step == TOGETHER) break;
        // The next step's scores, so that the units have work while this group begins it.
        begin_scores(w, left, barriers + stage * 16, turn, stages_place + stage * (stage_bytes / 16));
        end_step<1>(barrier, lane, sums);
      }
      end_step<0>(barriers + (stage == 0 ? STAGES - 1 : stage - 1) * 16, lane, sums);
    }
    const float by[2] = {a.plain_scale, a.plain_scale};
    write_turned<8>(sums, by, a.dq + (i64)batch * a.queries * D, own, a.queries, lane);
  }
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1) key_gradient(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::last);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, begin = CAUSAL && first > a.ahead ? (first - a.ahead) / BN * BN : 0;
  const int steps = begin < a.queries ? (a.queries - begin + BN - 1) / BN : 0;
  constexpr int values_begin = BM * D * 2, stages_begin = values_begin + BM * F * 2;
  constexpr int stage_bytes = DEPTH_BYTES + VALUE_BYTES, stats_begin = stages_begin + STAGES * stage_bytes;
  constexpr int barriers_begin = stats_begin + STAGES * BN * STATS * 4;
  unsigned char* const shared = begin_block(barriers_begin, 2);
  unsigned char* const barriers = shared + barriers_begin;
  if (group == GROUPS) {
    fetch_steps(barriers, steps, [=](int stage, int t) {
      unsigned char* const to = shared + stages_begin + stage * stage_bytes;
      const int query = begin + t * BN;
      fetch_turned<D, BN, BN>(to, a.q + (i64)batch * a.queries * D, query, a.queries, thread);
      fetch_turned<F, BN, BN>(to + DEPTH_BYTES, a.dout + (i64)batch * a.queries * F, query, a.queries, thread);
      if (thread < BN)
        copy_async<STATS * 4>(shared + stats_begin + (stage * BN + thread) * (STATS * 4),
                              a.stats + ((i64)batch * a.queries + query + thread) * STATS,
                              query + thread < a.queries);
    });
  } else {
    take_registers();
    const int own = first + group * 64 + thread / 32 * 16 + lane / 4 * (MIXES_KEYS ? 2 : 1);
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
    const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
    fetch_turned<D, 64, BM, keys_paired>(shared + group * 8192, keys, first + group * 64, a.keys, thread);
    fetch_turned<F, 64, BM, keys_paired>(shared + values_begin + group * 8192, values, first + group * 64, a.keys,
                                         thread);
    copy_async_commit();
    meet_group(group);
    int stage = 0, turn = 0;
    const unsigned left = place_of(shared + group * 8192, 64), left_value = left + values_begin / 16;
    const unsigned stages_place = place_of(shared + stages_begin, BN * 8);
    float dk[D / 8][4] = {}, dv[F / 8][4] = {};
    float w[NT][4];
    unsigned weights[NT / 2][4], ds[NT / 2][4];
    int t = 0;
#pragma unroll 1
    while (t < steps) {
      begin_scores(w, left, barriers + stage * 16, turn, stages_place + stage * (stage_bytes / 16));
#pragma unroll
      for (int step = 1;; ++step) {
        const unsigned now = stages_place + stage * (stage_bytes / 16);
        unsigned char* const barrier = barriers + stage * 16;
        const unsigned char* const stats = shared + stats_begin + (stage * BN + lane % 4 * 2) * (STATS * 4);
        const int query = begin + t * BN;
        Across seen;
        const bool has_looked = look_across(a, mask, seen, query, own, first + group * 64, lane);
        float dw[NT][4];
        begin_rows<F>(dw, left_value, now + DEPTH_BYTES / 16);
        group_wait_for<1>();
        settle(w);
        hide_across(a, mask, seen, has_looked, w, query, own, first + group * 64, lane);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const unsigned char* const own_stats = stats + n * (STATS * 32);
          const Sixteen all = *(const Sixteen*)own_stats;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            w[n][i] = weight_of(a, w[n][i], stat_of(all, own_stats, i % 2, 0),
                                APART ? stat_of(all, own_stats, i % 2, 2) : 0.0f);
        }
        pack_weights(weights, w);
        begin_sums(dv, weights, now + DEPTH_BYTES / 16);
        group_wait_for<1>();
        settle(dw);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const unsigned char* const own_stats = stats + n * (STATS * 32);
          const Sixteen all = *(const Sixteen*)own_stats;
#pragma unroll
          for (int i = 0; i < 4; ++i) w[n][i] *= dw[n][i] - stat_of(all, own_stats, i % 2, 1);
        }
        pack_weights(ds, w);
        begin_sums(dk, ds, now);
        if (++stage == STAGES) stage = 0, turn ^= 1;
        if (++t == steps || step == TOGETHER) break;
        // The next step's scores, so that the units have work while this group begins it.
        begin_scores(w, left, barriers + stage * 16, turn, stages_place + stage * (stage_bytes / 16));
        end_step<1>(barrier, lane, dk, dv);
      }
      end_step<0>(barriers + (stage == 0 ? STAGES - 1 : stage - 1) * 16, lane, dk, dv);
    }
    const float by[2] = {a.plain_scale, a.plain_scale}, one[2] = {1, 1};
    write_turned<KEYS_APART>(dk, by, a.dk + (i64)batch * a.keys * D, own, a.keys, lane);
    write_turned<KEYS_APART>(dv, one, a.dv + (i64)batch * a.keys * F, own, a.keys, lane);
  }
}
#endif
)";

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
