// Texts of attention's gradients. Weights are computed again from the scores; two kernels, so that
// every sum has an order of its own and nothing is added by atomics.
//
// query_gradient: a block has queries. It walks over the keys once for `level`, the exponent by which weights are
// exponentials of their scores, unless the forward pass has left it, and once for the sums; level and delta, the sum of
// dout * out of a row, stay in `stats` for the other kernel, with an added mask also the logarithm of the sum of
// weights. key_gradient: a block has keys and walks over the queries; scores lie across, so that weights leave the
// instruction as the next products want them.
#pragma once

#include <sinter/backend/cuda/library/attention_gradient_kernels.hpp>

#include <sinter/backend/cuda/library/attention_hopper_gradients.hpp>
#include <sinter/backend/cuda/library/attention_kernels.ipp>
#include <sinter/backend/cuda/library/attention_parts_gradients.hpp>
#include <sinter/backend/cuda/library/attention_plain_texts.hpp>
#include <sinter/ops/attention.hpp>

#include <algorithm>
#include <initializer_list>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace attention_detail {

inline constexpr std::string_view gradient_text = R"(
#define DS (DP + 16)
#define FS (FP + 16)
#define NT (BN / 8)
#define DT (DP / E / 8)
#define FT (FP / E / 8)
#define STAGE (BN * (DS + FS))
#define STATS (APART ? 3 : 2)
static __device__ __forceinline__ float weight_of(const Arguments& a, float x, float level, float rest) {
  return exp2_fast(APART ? fmaf(x - level, LOG2_E, -rest) : above(a, x, level));
}
static __device__ __forceinline__ void clear(float (&c)[MT][NT][4]) {
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
}
#if OF_QUERIES
extern "C" __global__ void __launch_bounds__(THREADS) query_gradient(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x;
  const int tile = CAUSAL ? a.tiles - 1 - at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, own = first + warp * MT * 16, last = first + BM < a.queries ? first + BM : a.queries;
  const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
  const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
  const X *const dout = a.dout + (i64)batch * a.queries * F, *const result = a.result + (i64)batch * a.queries * F;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int end = visible(a, last - 1);
  unsigned char *const queries = dynamic_shared(), *const douts = queries + BM * DS, *const stages = douts + BM * FS;
  fetch<D, DP, DS, BM>(queries, a.q + (i64)batch * a.queries * D, first, a.queries);
  fetch<F, FP, FS, BM>(douts, dout, first, a.queries);
#if !KEEPS_LEVELS
  fetch<D, DP, DS, BN>(stages, keys, 0, a.keys);
#endif
  copy_async_commit();
  float level[MT][2], rest[MT][2], delta[MT][2], w[MT][NT][4];
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = own + m * 16 + h * 8 + lane / 4;
      float more = 0;
      for (int f = lane % 4; f < F && query < a.queries; f += 4)
        more = fmaf((float)dout[(i64)query * F + f], (float)result[(i64)query * F + f], more);
      more += __shfl_xor_sync(~0u, more, 1);
      delta[m][h] = more + __shfl_xor_sync(~0u, more, 2);
#if KEEPS_LEVELS
      const float* const own_level = a.levels + (batch * (i64)a.queries + query) * LEVELS;
      level[m][h] = query < a.queries ? own_level[0] : -NOTHING;
      rest[m][h] = APART && query < a.queries ? own_level[LEVELS - 1] : 0.0f;
#else
      level[m][h] = NOTHING;
#endif
    }
  unsigned char* const rows = queries + warp * MT * 16 * DS;
  const unsigned char* const left = rows + left_place(lane, DS);
  int stage = 0;
#if !KEEPS_LEVELS
  float sum[MT][2] = {};
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    stage ^= 1;
    if (key + BN < end) {
      fetch<D, DP, DS, BN>(stages + stage * STAGE, keys, key + BN, a.keys);
      copy_async_commit();
    }
    clear(w);
    multiply_rows<MT, NT, DP, DS, DS>(w, left, now + right_place(lane, DS));
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
        const float next = fmaxf(level[m][h], top * FACTOR), from = next == NOTHING ? 0.0f : next;
        float more = 0;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = h * 2; i < h * 2 + 2; ++i) more += exp2_fast(above(a, w[m][n][i], from));
        sum[m][h] = fmaf(sum[m][h], shrink_by(level[m][h], from), more);
        level[m][h] = next;
      }
  }
#endif
  copy_async_wait<0>();
  __syncthreads();
  fetch<D, DP, DS, BN>(stages, keys, 0, a.keys);
  fetch<F, FP, FS, BN>(stages + BN * DS, values, 0, a.keys);
  copy_async_commit();
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#if !KEEPS_LEVELS
      // A lane has seen some of the keys.
      float top = fmaxf(level[m][h], __shfl_xor_sync(~0u, level[m][h], 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      float more = sum[m][h] * shrink_by(level[m][h], top == NOTHING ? 0.0f : top), own_level[2] = {};
      more += __shfl_xor_sync(~0u, more, 1);
      more += __shfl_xor_sync(~0u, more, 2);
      leave_level(own_level, top, more);
      level[m][h] = own_level[0];
      rest[m][h] = own_level[1];
#endif
      const i64 query = own + m * 16 + h * 8 + lane / 4;
      if (lane % 4 == 0 && query < a.queries) {
        float* const stats = a.stats + (batch * (i64)a.queries + query) * STATS;
        stats[0] = level[m][h];
        stats[1] = delta[m][h];
        if (APART) stats[2] = rest[m][h];
      }
    }
  const unsigned char* const left_dout = douts + warp * MT * 16 * FS + left_place(lane, FS);
  float sums[MT][DT][4] = {};
  stage = 0;
#pragma unroll 1
  for (int key = 0; key < end; key += BN) {
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    stage ^= 1;
    if (key + BN < end) {
      fetch<D, DP, DS, BN>(stages + stage * STAGE, keys, key + BN, a.keys);
      fetch<F, FP, FS, BN>(stages + stage * STAGE + BN * DS, values, key + BN, a.keys);
      copy_async_commit();
    }
    float dw[MT][NT][4];
    clear(w);
    clear(dw);
    multiply_rows<MT, NT, DP, DS, DS>(w, left, now + right_place(lane, DS));
    multiply_rows<MT, NT, FP, FS, FS>(dw, left_dout, now + BN * DS + right_place(lane, FS));
    const bool is_masked = MASK || !PLAIN || key + BN > visible(a, first);
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float x = w[m][n][i];
          if (is_masked)
            x = shown(a, mask, x, own + m * 16 + i / 2 * 8 + lane / 4, key + n * 8 + lane % 4 * 2 + i % 2);
          w[m][n][i] = weight_of(a, x, level[m][i / 2], rest[m][i / 2]) * (dw[m][n][i] - delta[m][i / 2]);
        }
    multiply_weights<MT, NT, DT, DS>(sums, w, now, lane);
  }
  copy_async_wait<0>();
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < DT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] *= a.plain_scale;
  write_rows<MT, DT, D, DS>(sums, rows, a.dq + (i64)batch * a.queries * D, own, a.queries, lane);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) key_gradient(const __grid_constant__ Arguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x;
  const int tile = CAUSAL ? at / a.batches : at % a.tiles, batch = CAUSAL ? at % a.batches : at / a.tiles;
  const int first = tile * BM, own = first + warp * MT * 16;
  const X *const queries = a.q + (i64)batch * a.queries * D, *const douts = a.dout + (i64)batch * a.queries * F;
  const float* const stats = a.stats + (i64)batch * a.queries * STATS;
  const M* const mask = MASK ? mask_of(a, batch) : nullptr;
  const int begin = CAUSAL && first > a.ahead ? (first - a.ahead) / BN * BN : 0;
  unsigned char *const keys = dynamic_shared(), *const values = keys + BM * DS, *const stages = values + BM * FS;
  fetch<D, DP, DS, BM>(keys, a.k + (i64)(batch / a.sharers) * a.keys * D, first, a.keys);
  fetch<F, FP, FS, BM>(values, a.v + (i64)(batch / a.sharers) * a.keys * F, first, a.keys);
  fetch<D, DP, DS, BN>(stages, queries, begin, a.queries);
  fetch<F, FP, FS, BN>(stages + BN * DS, douts, begin, a.queries);
  copy_async_commit();
  if (begin >= a.queries) {  // no query sees these keys: what arrives must not land on what is written below
    copy_async_wait<0>();
    __syncthreads();
  }
  float dk[MT][DT][4] = {}, dv[MT][FT][4] = {};
  unsigned char *const key_rows = keys + warp * MT * 16 * DS, *const value_rows = values + warp * MT * 16 * FS;
  int stage = 0;
#pragma unroll 1
  for (int query = begin; query < a.queries; query += BN) {
    copy_async_wait<0>();
    __syncthreads();
    const unsigned char* const now = stages + stage * STAGE;
    stage ^= 1;
    if (query + BN < a.queries) {
      fetch<D, DP, DS, BN>(stages + stage * STAGE, queries, query + BN, a.queries);
      fetch<F, FP, FS, BN>(stages + stage * STAGE + BN * DS, douts, query + BN, a.queries);
      copy_async_commit();
    }
    float w[MT][NT][4], dw[MT][NT][4];
    clear(w);
    clear(dw);
    multiply_rows<MT, NT, DP, DS, DS>(w, key_rows + left_place(lane, DS), now + right_place(lane, DS));
    multiply_rows<MT, NT, FP, FS, FS>(dw, value_rows + left_place(lane, FS), now + BN * DS + right_place(lane, FS));
    const bool is_masked =
        MASK || !PLAIN || first + BM > visible(a, query) || query + BN > a.queries;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int own_query = query + n * 8 + lane % 4 * 2 + c;
        float level = -NOTHING, delta = 0, rest = 0;
        if (own_query < a.queries) {
          const float* const own_stats = stats + (i64)own_query * STATS;
          level = own_stats[0];
          delta = own_stats[1];
          if (APART) rest = own_stats[2];
        }
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
          for (int i = c; i < 4; i += 2) {
            float x = w[m][n][i];
            if (is_masked) x = shown(a, mask, x, own_query, own + m * 16 + i / 2 * 8 + lane / 4);
            const float weight = weight_of(a, x, level, rest);
            w[m][n][i] = weight;
            dw[m][n][i] = weight * (dw[m][n][i] - delta);
          }
      }
    multiply_weights<MT, NT, FT, FS>(dv, w, now + BN * DS, lane);
    multiply_weights<MT, NT, DT, DS>(dk, dw, now, lane);
  }
  copy_async_wait<0>();
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < DT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) dk[m][n][i] *= a.plain_scale;
  write_rows<MT, DT, D, DS>(dk, key_rows, a.dk + (i64)batch * a.keys * D, own, a.keys, lane);
  write_rows<MT, FT, F, FS>(dv, value_rows, a.dv + (i64)batch * a.keys * F, own, a.keys, lane);
}
#endif
)";

}  // namespace attention_detail

SINTER_DECL AttentionGradientPlan::AttentionGradientPlan(const AttentionProblem& problem, int capability,
                                                         std::size_t shared_bytes)
    : problem_(problem), capability_(capability) {
  const int most = std::max(problem.features, problem.value_features);
  const auto take = [&](std::initializer_list<Tile> chosen) {
    std::copy(chosen.begin(), chosen.end(), tiles_.begin());
    count_ = chosen.size();
  };
  const auto fits = [&] {
    return std::all_of(tiles().begin(), tiles().end(),
                       [&](const Tile& tile) { return this->shared_bytes(tile) <= shared_bytes; });
  };
  // As measured on an H200: as many rows of a warp as registers hold sums for.
  if (!is_plain() && attention_detail::is_for_groups(problem, capability)) {
    const bool is_masked = problem.mask != AttentionMask::none;  // a mask takes registers
    const Tile levels =
        most > 64 ? Tile{Part::levels, 1, is_masked ? 64 : 128, 3, 3} : Tile{Part::levels, 1, 64, is_masked ? 3 : 4, 3};
    const bool is_small = most <= 64 && !is_masked;
    // Walks over hidden keys are short: dq of 128 features takes 0.9 of the time with a third stage there, elsewhere
    // 1.04.
    Tile queries =
        is_small ? Tile{Part::queries, 1, 48, 4, 3}
                 : Tile{Part::queries, 1, most > 64 && is_masked ? 64 : 96, 2, problem.is_causal && !is_masked ? 3 : 2};
    Tile keys{Part::keys, 1, is_small ? 96 : 64, 2, 3};
    if (is_small) queries.together = keys.together = 2;
    if (problem.keeps_levels) take({queries, keys});
    else take({levels, queries, keys});
    is_open_ = fits();
    if (is_open_) return;
  }
  if (is_plain() && problem.keeps_levels && attention_detail::is_for_groups(problem, capability)) {
    const int step = most <= 64 ? 64 : 32;
    take({{Part::queries, 1, step, 2, 2}, {Part::keys, 1, step, 2, 2}});
    for (std::size_t i = 0; i < count_; ++i) tiles_[i].is_in_parts = true;
    is_open_ = fits();
    if (is_open_) return;
  }
  if (is_plain()) {
    const int step = most <= 64 ? 64 : 32;
    take({{Part::queries, 8, step, 0, 2, 4}, {Part::keys, 8, step, 0, 2, 4}});
    for (std::size_t i = 0; i < count_; ++i)
      if (this->shared_bytes(tiles_[i]) > shared_bytes) tiles_[i].stages = 1;
    while (tiles_[0].row_blocks > 1 && !fits())  // of both, as rows show in no digits
      for (std::size_t i = 0; i < count_; ++i) tiles_[i].row_blocks /= 2;
  } else if (most <= 64) take({{Part::queries, 2, 64}, {Part::keys, 2, 32}});
  else take({{Part::queries, 2, 32}, {Part::keys, 1, 64}});
  for (std::size_t i = 0; i < count_; ++i)
    while (tiles_[i].step > 16 && this->shared_bytes(tiles_[i]) > shared_bytes) tiles_[i].step /= 2;
  is_open_ = most <= ops::ScaledDotProductAttentionGradient::most_features && fits();
}

SINTER_DECL std::size_t AttentionGradientPlan::shared_bytes(const Tile& tile) const {
  if (tile.groups > 0) {
    constexpr int for_alignment = 1024, for_stats = 16;
    const int for_barriers = tile.is_in_parts ? 32 : 16;
    const int row =
        (problem_.features + (tile.part == Part::levels ? 0 : problem_.value_features)) * (tile.is_in_parts ? 6 : 2);
    return as_index(tile.rows() * row + tile.stages * (tile.step * (row + for_stats) + for_barriers) + for_alignment);
  }
  const int row = attention_detail::padded_bytes(problem_.features * element(), row_step()) +
                  attention_detail::padded_bytes(problem_.value_features * element(), row_step()) + 32;
  if (is_plain())
    return as_index((tile.rows() + tile.stages * tile.step) * row +
                    (tile.part == Part::keys ? 2 : 1) * tile.rows() * (tile.step * 4 + 32));
  return as_index((tile.rows() + 2 * tile.step) * row);
}

SINTER_DECL LibrarySource AttentionGradientPlan::source(const Tile& tile) const {
  using namespace attention_detail;
  std::string text = problem_text(problem_, row_step()) + define_number("WARPS", tile.threads() / 32) +
                     define_number("BM", tile.rows()) + define_number("BN", tile.step);
  constexpr const char* names[] = {"row_levels", "query_gradient", "key_gradient"};
  if (tile.groups > 0) {
    text += define_number("PART", static_cast<int>(tile.part)) + define_number("TOGETHER", tile.together) +
            groups_text(tile.groups, tile.stages, tile.is_in_parts ? Fetched::parts : Fetched::whole);
    text += common_text;
    text += group_text;
    const DType operands = tile.is_in_parts ? DType::bf16 : problem_.dtype;
    for (const GroupProduct kind : {GroupProduct::first, GroupProduct::more})
      text += group_product(tile.step, kind, operands);
    if (tile.is_in_parts) {
      constexpr int columns = 64;  // at a time
      for (const GroupProduct kind : {GroupProduct::kept_first, GroupProduct::kept})
        text += group_product(columns, kind, operands);
      text += define_number("OF_QUERIES", tile.part == Part::queries ? 1 : 0);
    } else text += group_product(problem_.features, GroupProduct::kept, problem_.dtype);
    if (!tile.is_in_parts && problem_.value_features != problem_.features)
      text += group_product(problem_.value_features, GroupProduct::kept, problem_.dtype);
    text += group_common_text;
    text += group_gradient_text;
    if (tile.is_in_parts) text += parts_common_text;
    text += tile.is_in_parts ? parts_gradient_text : hopper_gradient_text;
  } else {
    text += define_number(is_plain() ? "R" : "MT", tile.row_blocks) +
            define_number("OF_QUERIES", tile.part == Part::queries ? 1 : 0);
    if (is_plain()) text += define_number("STAGES", tile.stages);
    text += common_text;
    text += is_plain() ? plain_common_text : fragment_text;
    text += is_plain() ? plain_gradient_text : gradient_text;
  }
  return {cuda_source_detail::helpers(text, capability_) + std::string(machine_text) + text,
          {names[static_cast<int>(tile.part)]}};
}

SINTER_DECL AttentionArguments AttentionGradientPlan::arguments(const Tile& tile) const {
  AttentionArguments a = attention_detail::arguments_of(problem_);
  const std::int64_t rows = tile.part == Part::keys ? problem_.keys : problem_.queries;
  a.tiles = static_cast<std::int32_t>((rows + tile.rows() - 1) / tile.rows());
  return a;
}

}  // namespace cuda
SINTER_NAMESPACE_END
