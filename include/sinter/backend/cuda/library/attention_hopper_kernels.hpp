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

// What both directions share: how operands lie in shared memory, and how groups of four warps wait for each other.
inline constexpr std::string_view group_common_text = R"(
#define NT (BN / 8)
static __device__ __forceinline__ unsigned pack(float low, float high) {
#if IS_BRAIN
  return pack_bf16(low, high);
#else
  return pack_f16(low, high);
#endif
}
// Where there is a mask, keys lie in another order, so that a lane's scores are of keys that follow each other, 8 in
// each 32: row 8 n + 2 t + c of a tile is key 8 t + 2 n + c, for n and t below 4. Values lie as their keys do.
#define MIXES_KEYS (MASK != 0)
static __device__ __forceinline__ constexpr int key_of_row(int row) {
  return row / 32 * 32 + row % 8 / 2 * 8 + row % 32 / 8 * 2 + row % 2;
}
// Rows of queries' gradients by keys are keys: with a mask, a lane's two are neighbours of 16.
static __device__ __forceinline__ constexpr int key_of_pair(int row) {
  return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
}
enum Order { as_given, keys_mixed, keys_paired };
template <Order order> static __device__ __forceinline__ constexpr int place_in_order(int row) {
  return !MIXES_KEYS || order == as_given ? row : order == keys_mixed ? key_of_row(row) : key_of_pair(row);
}
// Rows of `width` elements in pieces of 128 bytes, as the instruction reads them: vector c of row r at c ^ r % 8.
// Pieces lie `pitch` rows apart. By the 128 threads of a group, each with the same vector of every 128 / chunks rows.
template <int width, int rows, int pitch, Order order = as_given>
static __device__ __forceinline__ void fetch_turned(unsigned char* to, const X* from, int first, int count,
                                                    int thread) {
  constexpr int chunks = width / 8, step = 128 / chunks;
  const int row = thread / chunks, chunk = thread % chunks;
  to += chunk / 8 * (pitch * 128) + row * 128 + (chunk % 8 ^ row % 8) * 16;
  first += place_in_order<order>(row);  // no bit of `row` and of a multiple of `step` is the same
  from += (i64)first * width + chunk * 8;
#pragma unroll
  for (int i = 0; i < rows / step; ++i) {
    const int further = place_in_order<order>(i * step);
    copy_async<16>(to + i * step * 128, from + further * width, first + further < count);
  }
}
// A lane's part of its rows.
static __device__ __forceinline__ int key_of_score(int n, int i, int lane) {
  return MIXES_KEYS ? n / 4 * 32 + lane % 4 * 8 + n % 4 * 2 + i % 2 : n * 8 + lane % 4 * 2 + i % 2;
}
#if MASK == 0
struct Seen {};
static __device__ __forceinline__ bool look(const Arguments&, const M*, Seen&, int, int, int, int) { return false; }
#else
// What the mask says of a lane's two queries, and of its keys of a tile.
struct Seen { unsigned words[2][BN / 32][2 * sizeof(M)]; };
static __device__ __forceinline__ M seen_of(const Seen& seen, int n, int i) {
  const unsigned(&own)[2 * sizeof(M)] = seen.words[i / 2][n / 4];
#if MASK == 1
  return (own[n % 4 / 2] & 0xffu << (n % 2 * 16 + i % 2 * 8)) != 0;
#else
  return ((const M*)own)[n % 4 * 2 + i % 2];
#endif
}
// Fetched before scores are there. `own` is the first query, `group` that of all lanes. False: the tile crosses a
// border, or rows cannot be read by eight.
static __device__ __forceinline__ bool look(const Arguments& a, const M* mask, Seen& seen, int own, int key, int group,
                                            int lane) {
  struct __align__(8 * sizeof(M)) Eight { unsigned words[2 * sizeof(M)]; };
  if (key + BN > visible(a, group) || a.mask_key != 1) return false;
  if (a.mask_row % 8 != 0 || (i64)mask % sizeof(Eight) != 0) return false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = own + h * 8 < a.queries ? own + h * 8 : a.queries - 1;
    const M* const row = mask + query * a.mask_row + key + lane % 4 * 8;
#pragma unroll
    for (int n = 0; n < BN / 32; ++n) {
      const Eight x = *(const Eight*)(row + n * 32);
#pragma unroll
      for (int i = 0; i < 2 * sizeof(M); ++i) seen.words[h][n][i] = x.words[i];
    }
  }
  return true;
}
#endif
// What is not seen becomes nothing.
static __device__ __forceinline__ void hide(const Arguments& a, const M* mask, const Seen& seen, bool has_looked,
                                            float (&w)[NT][4], int own, int key, int group, int lane) {
  if (!MASK && PLAIN && key + BN <= visible(a, group)) return;
#if MASK
  if (has_looked) {
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) w[n][i] = with_mask(a, seen_of(seen, n, i), w[n][i]);
    return;
  }
#endif
#if MASK == 0 && PLAIN
  // Of a lane's keys of the tile, from its first one on. Queries beyond the last are nobody's.
  const int seen_by[2] = {visible(a, own) - key - lane % 4 * 2, visible(a, own + 8) - key - lane % 4 * 2};
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (n * 8 + i % 2 >= seen_by[i / 2]) w[n][i] = NOTHING;
#else
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      w[n][i] = shown(a, mask, w[n][i], own + i / 2 * 8, key + key_of_score(n, i, lane));
#endif
}
// A block's tile of rows and its threads: groups of four warps with 64 rows each, and a last one that fetches.
struct Block { int lane, group, thread, tile, batch; };
enum class Latest { first, last };  // tiles with the most work begin first
static __device__ __forceinline__ Block block_of(const Arguments& a, Latest order) {
  const int at = blockIdx.x;
  Block b;
  b.lane = threadIdx.x % 32;
  b.group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  b.thread = threadIdx.x % 128;
  b.tile = !CAUSAL ? at % a.tiles : order == Latest::first ? a.tiles - 1 - at / a.batches : at / a.batches;
  b.batch = CAUSAL ? at % a.batches : at / a.tiles;
  return b;
}
// The block's shared memory from a multiple of 1024 on, with `count` barriers for each stage: every other one is for
// the threads that fetch, the rest for the warps that compute, or as many of them as are `readers`.
static __device__ __forceinline__ unsigned char* begin_block(int barriers_at, int count, int readers = GROUPS * 4) {
  unsigned char* at = dynamic_shared();
  at += (1024 - (unsigned)__cvta_generic_to_shared(at) % 1024) % 1024;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES * count; ++i) barrier_begin(at + barriers_at + i * 8, i % 2 == 0 ? 128 : readers);
  __syncthreads();
  return at;
}
// Registers that a product in flight writes are what the product made them only after this.
template <int N> static __device__ __forceinline__ void settle(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) settle_one(c[n][i]);
}
// Four lanes with a word of each of four blocks: afterwards each lane has a block's four words.
static __device__ __forceinline__ void turn_words(unsigned (&x)[4], int lane) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned other = __shfl_xor_sync(~0u, lane & 1 ? x[i] : x[i + 1], 1);
    if (lane & 1) x[i] = other;
    else x[i + 1] = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned other = __shfl_xor_sync(~0u, lane & 2 ? x[i] : x[i + 2], 2);
    if (lane & 2) x[i] = other;
    else x[i + 2] = other;
  }
}
// Rows of results of a group, a lane's first one at `row` and the second `apart` after it, to rows of 8 N elements.
template <int apart, int N>
static __device__ __forceinline__ void write_turned(const float (&c)[N][4], const float (&by)[2], X* to, int row,
                                                    int count, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int n = 0; n < N; n += 4) {
      Sixteen x;
#pragma unroll
      for (int i = 0; i < 4; ++i) x.words[i] = pack(c[n + i][h * 2] * by[h], c[n + i][h * 2 + 1] * by[h]);
      turn_words(x.words, lane);
      if (row + h * apart < count) *(Sixteen*)(to + (i64)(row + h * apart) * (N * 8) + (n + lane % 4) * 8) = x;
    }
}
)";

inline constexpr std::string_view soften_text = R"(
// Scores become weights; what was summed up before counts `shrink` times.
static __device__ __forceinline__ void soften(const Arguments& a, float (&w)[NT][4], float (&base)[2], float (&sum)[2],
                                              float (&shrink)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = w[0][h * 2];
#pragma unroll
    for (int n = 0; n < NT; ++n) top = fmaxf(top, fmaxf(w[n][h * 2], w[n][h * 2 + 1]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    const float next = fmaxf(base[h], top * FACTOR), from = next == NOTHING ? 0.0f : next;
    shrink[h] = shrink_by(base[h], from);
    base[h] = next;
    float more[2] = {};
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = h * 2; i < h * 2 + 2; ++i) {
        w[n][i] = exp2_fast(above(a, w[n][i], from));
        more[i % 2] += w[n][i];
      }
    sum[h] = fmaf(sum[h], shrink[h], more[0] + more[1]);
  }
}
)";

inline constexpr std::string_view hopper_text = R"(
#define KEY_BYTES (BN * D * 2)
#define VALUE_BYTES (BN * F * 2)
// Both begin products that are in flight until they are waited for.
static __device__ __forceinline__ void begin_scores(float (&w)[NT][4], unsigned queries, unsigned keys) {
  group_fence();
  multiply_first(w, queries, keys);
#pragma unroll
  for (int d = 1; d < D / 16; ++d)
    multiply_more(w, queries + d / 4 * (BM * 8) + d % 4 * 2, keys + d / 4 * (BN * 8) + d % 4 * 2);
  group_commit();
}
static __device__ __forceinline__ void begin_sums(float (&sums)[F / 8][4], const unsigned (&weights)[NT / 2][4],
                                                  unsigned values) {
  group_fence();
#pragma unroll
  for (int k = 0; k < NT / 2; ++k) multiply_kept(sums, weights[k], values + k * 128);
  group_commit();
}
static __device__ __forceinline__ void pack_weights(unsigned (&weights)[NT / 2][4], const float (&w)[NT][4]) {
#pragma unroll
  for (int k = 0; k < NT; k += 2)
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[k / 2][i] = pack(w[k + i / 2][i % 2 * 2], w[k + i / 2][i % 2 * 2 + 1]);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1) attention(const __grid_constant__ Arguments a) {
  const Block block = block_of(a, Latest::first);
  const int lane = block.lane, group = block.group, thread = block.thread, tile = block.tile, batch = block.batch;
  const int first = tile * BM, last = first + BM < a.queries ? first + BM : a.queries;
  const int end = visible(a, last - 1), steps = (end + BN - 1) / BN;
  constexpr int keys_begin = BM * D * 2, values_begin = keys_begin + STAGES * KEY_BYTES;
  constexpr int barriers_begin = values_begin + STAGES * VALUE_BYTES;
  // Barriers, of each stage: keys are there, keys are read, values are there, values are read.
  unsigned char* const queries = begin_block(barriers_begin, 4);
  unsigned char *const keys_at = queries + keys_begin, *const values_at = queries + values_begin;
  unsigned char* const barriers = queries + barriers_begin;
  if (group == GROUPS) {  // fetches for the others
    give_registers();
    const X* const keys = a.k + (i64)(batch / a.sharers) * a.keys * D;
    const X* const values = a.v + (i64)(batch / a.sharers) * a.keys * F;
    int stage = 0, turn = 1;
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      unsigned char* const own = barriers + stage * 32;
      barrier_wait(own + 8, turn);
      fetch_turned<D, BN, BN, keys_mixed>(keys_at + stage * KEY_BYTES, keys, t * BN, a.keys, thread);
      copy_async_arrive(own);
      barrier_wait(own + 24, turn);
      fetch_turned<F, BN, BN, keys_mixed>(values_at + stage * VALUE_BYTES, values, t * BN, a.keys, thread);
      copy_async_arrive(own + 16);
      if (++stage == STAGES) stage = 0, turn ^= 1;
    }
    copy_async_commit();
    copy_async_wait<0>();
  } else {
    take_registers();
    const int own = first + group * 64 + thread / 32 * 16 + lane / 4;
    const M* const mask = MASK ? mask_of(a, batch) : nullptr;
    fetch_turned<D, 64, BM>(queries + group * 8192, a.q + (i64)batch * a.queries * D, first + group * 64, a.queries,
                            thread);
    copy_async_commit();
    copy_async_wait<0>();
    group_sees_shared();
    meet(1 + group, 128);
    const unsigned left = place_of(queries + group * 8192, 64), keys_place = place_of(keys_at, 64);
    const unsigned values_place = place_of(values_at, BN * 8);
    float w[NT][4], sums[F / 8][4] = {}, base[2] = {NOTHING, NOTHING}, sum[2] = {}, shrink[2];
    unsigned weights[NT / 2][4];
    if (group == GROUPS - 1) call_next(1 + GROUPS, 256);
    int stage = 0, turn = 0;
    if (steps > 0) {
      Seen seen;
      const bool has_looked = MASK && look(a, mask, seen, own, 0, first + group * 64, lane);
      barrier_wait(barriers, 0);
      group_sees_shared();
      begin_scores(w, left, keys_place);
      group_wait_for<0>();
      settle(w);
      if (lane == 0) barrier_arrive(barriers + 8);
      hide(a, mask, seen, has_looked, w, own, 0, first + group * 64, lane);
      soften(a, w, base, sum, shrink);
      pack_weights(weights, w);
    }
#pragma unroll 1
    for (int t = 1; t < steps; ++t) {
      unsigned char* const before = barriers + stage * 32;
      const unsigned values_before = values_place + stage * (VALUE_BYTES / 16);
      const int turn_before = turn;
      if (++stage == STAGES) stage = 0, turn ^= 1;
      unsigned char* const now = barriers + stage * 32;
      Seen seen;
      const bool has_looked = MASK && look(a, mask, seen, own, t * BN, first + group * 64, lane);
      barrier_wait(now, turn);
      meet(1 + GROUPS + group, 256);
      group_sees_shared();
      begin_scores(w, left, keys_place + stage * (KEY_BYTES / 16));
      barrier_wait(before + 16, turn_before);
      group_sees_shared();
      begin_sums(sums, weights, values_before);
      call_next(1 + GROUPS + (group + 1) % GROUPS, 256);
      group_wait_for<1>();
      settle(w);
      if (lane == 0) barrier_arrive(now + 8);
      hide(a, mask, seen, has_looked, w, own, t * BN, first + group * 64, lane);
      soften(a, w, base, sum, shrink);
      group_wait_for<0>();
      settle(sums);
      if (lane == 0) barrier_arrive(before + 24);
#pragma unroll
      for (int f = 0; f < F / 8; ++f)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[f][i] *= shrink[i / 2];
      pack_weights(weights, w);
    }
    if (steps > 0) {
      barrier_wait(barriers + stage * 32 + 16, turn);
      group_sees_shared();
      begin_sums(sums, weights, values_place + stage * (VALUE_BYTES / 16));
      group_wait_for<0>();
      settle(sums);
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
    write_turned<8>(sums, by, a.out + (i64)batch * a.queries * F, own, a.queries, lane);
  }
}
)";

// One line each, as in source/scalar.ipp. `meet` and `call_next`: named barriers; the second does not wait.
inline constexpr std::string_view group_text =
    "static __device__ __forceinline__ void group_fence() { asm volatile(\"wgmma.fence.sync.aligned;\" : : : "
    "\"memory\"); }\n"
    "static __device__ __forceinline__ void group_commit() { asm volatile(\"wgmma.commit_group.sync.aligned;\" : : : "
    "\"memory\"); }\n"
    "template <int pending> static __device__ __forceinline__ void group_wait_for() { asm "
    "volatile(\"wgmma.wait_group.sync.aligned %0;\" : : \"n\"(pending) : \"memory\"); }\n"
    "static __device__ __forceinline__ void group_sees_shared() { asm volatile(\"fence.proxy.async.shared::cta;\" : : "
    ": \"memory\"); }\n"
    "static __device__ __forceinline__ void settle_one(float& x) { asm volatile(\"\" : \"+f\"(x) : : \"memory\"); }\n"
    "static __device__ __forceinline__ void barrier_begin(unsigned char* at, int count) { asm "
    "volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" : : \"r\"((unsigned)__cvta_generic_to_shared(at)), "
    "\"r\"(count) : \"memory\"); }\n"
    "static __device__ __forceinline__ void barrier_arrive(unsigned char* at) { asm "
    "volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" : : \"r\"((unsigned)__cvta_generic_to_shared(at)) : "
    "\"memory\"); }\n"
    "static __device__ __forceinline__ void copy_async_arrive(unsigned char* at) { asm "
    "volatile(\"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\" : : "
    "\"r\"((unsigned)__cvta_generic_to_shared(at)) : \"memory\"); }\n"
    "static __device__ __forceinline__ void barrier_wait(unsigned char* at, int turn) { asm volatile(\"{ .reg .pred "
    "p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }\" : : "
    "\"r\"((unsigned)__cvta_generic_to_shared(at)), \"r\"(turn) : \"memory\"); }\n"
    "static __device__ __forceinline__ void meet(int which, int threads) { asm volatile(\"bar.sync %0, %1;\" : : "
    "\"r\"(which), \"r\"(threads) : \"memory\"); }\n"
    "static __device__ __forceinline__ void call_next(int which, int threads) { asm volatile(\"bar.arrive %0, %1;\" : "
    ": \"r\"(which), \"r\"(threads) : \"memory\"); }\n"
    "static __device__ __forceinline__ void give_registers() { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" : "
    ": \"n\"(GIVEN)); }\n"
    "static __device__ __forceinline__ void take_registers() { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" : "
    ": \"n\"(TAKEN)); }\n"
    "static __device__ __forceinline__ unsigned place_of(const unsigned char* at, int apart) { unsigned x; asm(\"{ "
    ".reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }\" : \"=r\"(x) : \"l\"(at)); return (x & "
    "0x3ffffu) >> 4 | (unsigned)apart << 16; }\n";

/// What a product of groups does: begins a sum of two operands in shared memory, goes on with it, or begins or goes on
/// with one of a left operand in registers and a right one that is given by its positions.
enum class GroupProduct : std::uint8_t { first, more, kept_first, kept };

/// c [64 rows of four warps, columns] += a b^T of 16 positions, in one line. Operands in shared memory are places there
/// in units of 16 bytes, and how far 64 columns that lie across are apart: rows of 128 bytes, eight after 1024 bytes,
/// swizzled.
inline std::string group_product(int columns, GroupProduct kind, DType dtype) {
  const std::string type = dtype == DType::bf16 ? "bf16" : "f16";
  const int registers = columns / 2;
  const bool is_first = kind == GroupProduct::first || kind == GroupProduct::kept_first;
  const bool is_kept = kind == GroupProduct::kept || kind == GroupProduct::kept_first;
  std::string sums, outs;
  for (int i = 0; i < registers; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    sums += comma + "%" + std::to_string(i);
    outs +=
        comma + (is_first ? "\"=f\"(c[" : "\"+f\"(c[") + std::to_string(i / 4) + "][" + std::to_string(i % 4) + "])";
  }
  const auto operand = [&](int i) { return "%" + std::to_string(registers + i); };
  constexpr const char* names[] = {"multiply_first", "multiply_more", "multiply_kept_first", "multiply_kept"};
  const std::string name = names[static_cast<int>(kind)];
  std::string line = "static __device__ __forceinline__ void " + name + "(float (&c)[" + std::to_string(columns / 8) +
                     "][4], " + (is_kept ? "const unsigned (&a)[4]" : "unsigned a") +
                     ", unsigned b) { asm volatile(\"{ .reg .pred p; .reg .b64 l, r; setp.ne.b32 p, " +
                     (is_first ? "0" : "1") + ", 0; ";
  if (!is_kept) line += "mov.b64 l, {" + operand(0) + ", 0x40000040}; ";
  line += "mov.b64 r, {" + operand(is_kept ? 4 : 1) + ", 0x40000040}; wgmma.mma_async.sync.aligned.m64n" +
          std::to_string(columns) + "k16.f32." + type + "." + type + " {" + sums + "}, " +
          (is_kept ? "{" + operand(0) + ", " + operand(1) + ", " + operand(2) + ", " + operand(3) + "}" : "l") +
          ", r, p, 1, 1, " + (is_kept ? "1" : "0, 0") + "; }\" : " + outs + " : ";
  line += is_kept ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b)" : "\"r\"(a), \"r\"(b)";
  return line + "); }\n";
}

}  // namespace attention_detail
}  // namespace cuda
SINTER_NAMESPACE_END
