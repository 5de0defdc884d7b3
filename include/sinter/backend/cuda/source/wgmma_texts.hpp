// CUDA C of a product by `wgmma` (sm_90a) that all kernels of this form share: barriers in shared memory, copies by the
// bulk copy engine, and the two roles of a block's warps up to where sums are complete. Knows no operands' strides and
// no epilogues: wgmma.ipp writes macros before it and the rest after it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// Names: a stage is a place for one step's tiles of both operands; `filled` and `read` are barriers of each stage,
// `turn` is the parity of the round that is waited for; a cluster is CLUSTER blocks that share tiles of the right
// operand.
inline constexpr std::string_view wgmma_machine_text = R"(
#define DEVICE static __device__ __forceinline__
DEVICE unsigned place_in_shared(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
DEVICE void group_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
DEVICE void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int pending> DEVICE void group_wait_for() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}
DEVICE void settle_one(float& x) { asm volatile("" : "+f"(x) : : "memory"); }
DEVICE void barrier_begin(unsigned at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(at), "r"(count) : "memory");
}
DEVICE void barriers_are_there() { asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); }
DEVICE void barrier_expect(unsigned at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(at), "r"(bytes) : "memory");
}
DEVICE void barrier_wait(unsigned at, int turn) {
  asm volatile(
      "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }"
      : : "r"(at), "r"(turn) : "memory");
}
DEVICE void barrier_arrive_at(unsigned at, int block) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
      : : "r"(at), "r"(block) : "memory");
}
DEVICE void cluster_meets() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" : : : "memory"); }
DEVICE int place_in_cluster() {
  unsigned x;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(x));
  return (int)x;
}
DEVICE void meet(int which, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(which), "r"(threads) : "memory");
}
DEVICE void call_next(int which, int threads) {
  asm volatile("bar.arrive %0, %1;" : : "r"(which), "r"(threads) : "memory");
}
DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
)";

// Tiles go in bands of BAND columns of tiles, so that what runs at a time shares what the second-level cache holds.
// Of the four lanes of a row, each has two neighbouring columns of each block of 8; turned, each has a block's 8.
inline constexpr std::string_view wgmma_common_text = R"(
#define LEFT_BYTES (TILE_ROWS * 128)
#define RIGHT_BYTES (TILE_COLUMNS * 128)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define BLOCKS (TILE_COLUMNS / 8)
struct Tile { int batch, row, column; };
DEVICE Tile tile_of(int item, int row_tiles, int column_tiles, int rank) {
  const int each = row_tiles * column_tiles, batch = item / each, at = item - batch * each;
  const int band = at / (row_tiles * BAND), first = band * BAND, inside = at - first * row_tiles;
  const int width = column_tiles - first < BAND ? column_tiles - first : BAND;
  return {batch, (inside / width * CLUSTER + rank) * TILE_ROWS, (first + inside % width) * TILE_COLUMNS};
}
DEVICE void turn_words(float (&x)[4], int lane) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float other = __shfl_xor_sync(~0u, lane & 1 ? x[i] : x[i + 1], 1);
    if (lane & 1) x[i] = other;
    else x[i + 1] = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float other = __shfl_xor_sync(~0u, lane & 2 ? x[i] : x[i + 2], 2);
    if (lane & 2) x[i] = other;
    else x[i + 2] = other;
  }
}
// Columns 8 * (lane % 4) + 0 ... 7 of the first 32, of rows 0, 8, 64, 72; then the other columns move up.
DEVICE void take_columns(float (&taken)[4][8], float (&sum)[2][BLOCKS][4], int lane) {
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    float low[4], high[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) low[i] = sum[p / 2][i][p % 2 * 2], high[i] = sum[p / 2][i][p % 2 * 2 + 1];
    turn_words(low, lane), turn_words(high, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) taken[p][i * 2] = low[i], taken[p][i * 2 + 1] = high[i];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c + 4 < BLOCKS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[r][c][i] = sum[r][c + 4][i];
}
)";

// The start of a kernel: barriers; `item` is a tile, or one for each block of the cluster.
inline constexpr std::string_view wgmma_begin_text = R"(
  const int lane = threadIdx.x % 32, group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  const int rank = CLUSTER == 1 ? 0 : place_in_cluster();
  unsigned stages = place_in_shared(dynamic_shared());
  stages += (1024 - stages % 1024) % 1024;
  const unsigned filled = stages + STAGES * STAGE_BYTES, read = filled + STAGES * 8;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_begin(filled + i * 8, 1), barrier_begin(read + i * 8, 4 * CLUSTER);
    barriers_are_there();
  }
  if (CLUSTER == 1) __syncthreads();
  else cluster_meets();
  const int ahead = (int)gridDim.x / CLUSTER, steps = (depth + STEP - 1) / STEP;
)";

// Two groups take tiles in turns: one computes what follows its product while the other's is under way. A group waits
// for a stage only when the other has seen all of its own, since a barrier tells neighbouring rounds apart, no others.
inline constexpr std::string_view wgmma_group_text = R"(
    take_registers();
    const unsigned left = (stages & 0x3ffff) >> 4 | 1u << 16;
    const unsigned right = (stages + LEFT_BYTES & 0x3ffff) >> 4 | (unsigned)RIGHT_APART << 16;
    int stage = 0, turn = 0, number = 0;
    float sum[2][BLOCKS][4];
    if (group == 1) call_next(1, 256);
#pragma unroll 1
    for (int item = (int)blockIdx.x / CLUSTER; item < items; item += ahead) {
      if ((number++ & 1) != group) {
        const int next = stage + steps;
        turn ^= next / STAGES & 1;
        stage = next % STAGES;
        continue;
      }
      meet(1 + group, 256);
      int before = 0;
#pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        barrier_wait(filled + stage * 8, turn);
        const unsigned left_now = left + stage * (STAGE_BYTES / 16), right_now = right + stage * (STAGE_BYTES / 16);
        group_fence();
#pragma unroll
        for (int d = 0; d < 4; ++d)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            multiply(sum[r], left_now + r * 512 + d * LEFT_STEP, right_now + d * RIGHT_STEP, k + d);
        group_commit();
        if (k > 0) {
          group_wait_for<1>();
          if (lane < CLUSTER) barrier_arrive_at(read + before * 8, lane);
        }
        before = stage;
        if (++stage == STAGES) stage = 0, turn ^= 1;
      }
      call_next(2 - group, 256);
      group_wait_for<0>();
      if (lane < CLUSTER) barrier_arrive_at(read + before * 8, lane);
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < BLOCKS; ++c)
#pragma unroll
          for (int i = 0; i < 4; ++i) settle_one(sum[r][c][i]);
      const Tile tile = tile_of(item, row_tiles, column_tiles, rank);
      const int first_row = tile.row + (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
      const int first_column = tile.column + lane % 4 * 8;
)";

/// `fetch`: copies a box of a tensor of `rank` axes to shared memory, of this block or at this place of every block of
/// the cluster; whoever waits for the barrier there is told the bytes.
inline std::string wgmma_fetch_text(int rank, int cluster) {
  std::string parameters, places, inputs;
  for (int i = 0; i < rank; ++i) {
    const std::string x = "x" + std::to_string(i), comma = i == 0 ? "" : ", ";
    parameters += ", int " + x;
    places += comma + "%" + std::to_string(i + 3);
    inputs += ", \"r\"(" + x + ")";
  }
  const bool is_shared = cluster > 1;
  return "DEVICE void " + std::string(is_shared ? "fetch_for_cluster" : "fetch") +
         "(unsigned to, const TensorMap& map, unsigned barrier" + parameters +
         ") { asm volatile(\"cp.async.bulk.tensor." + std::to_string(rank) +
         "d.shared::cluster.global.mbarrier::complete_tx::bytes" + (is_shared ? ".multicast::cluster" : "") +
         " [%0], [%1, {" + places + "}], [%2]" + (is_shared ? ", %" + std::to_string(rank + 3) : "") +
         ";\" : : \"r\"(to), \"l\"(&map), \"r\"(barrier)" + inputs +
         (is_shared ? ", \"h\"((short)" + std::to_string((1 << cluster) - 1) + ")" : "") + " : \"memory\"); }\n";
}

/// Which way an operand lies: positions along the reduced axis side by side, or those along its own axis.
enum class WgmmaOrder : std::uint8_t { along_depth, across };

/// `multiply`: sums [64 rows, columns] += a b^T over 32 bytes of the reduced axis, or = where `adds` is 0. Operands are
/// places in shared memory in units of 16 bytes, and in the upper half how far apart 64 columns lie that are `across`:
/// rows of 128 bytes, eight after 1024 bytes, swizzled.
inline std::string wgmma_multiply_text(int columns, DType dtype, WgmmaOrder left, WgmmaOrder right) {
  const int registers = columns / 2;
  std::string sums, outs;
  for (int i = 0; i < registers; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    sums += comma + "%" + std::to_string(i);
    outs += comma + "\"+f\"(c[" + std::to_string(i / 4) + "][" + std::to_string(i % 4) + "])";
  }
  const auto operand = [&](int i) { return "%" + std::to_string(registers + i); };
  const bool is_tf32 = dtype == DType::f32;
  const std::string type = is_tf32 ? "tf32" : dtype == DType::bf16 ? "bf16" : "f16";
  const auto order = [](WgmmaOrder o) { return o == WgmmaOrder::across ? ", 1" : ", 0"; };
  return "DEVICE void multiply(float (&c)[" + std::to_string(columns / 8) +
         "][4], unsigned a, unsigned b, int adds) { asm volatile(\"{ .reg .pred p; .reg .b64 l, r; setp.ne.b32 p, " +
         operand(2) + ", 0; mov.b64 l, {" + operand(0) + ", 0x40000040}; mov.b64 r, {" + operand(1) +
         ", 0x40000040}; wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + (is_tf32 ? "k8" : "k16") +
         ".f32." + type + "." + type + " {" + sums + "}, l, r, p, 1, 1" +
         (is_tf32 ? std::string() : std::string(order(left)) + order(right)) + "; }\" : " + outs +
         " : \"r\"(a), \"r\"(b), \"r\"(adds)); }\n";
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
