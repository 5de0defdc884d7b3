// Texts of the kernels that order rows. Entries are a key over a position, so that all differ and equal keys keep
// their order; keys are those of ops/order_keys.hpp, in as many bits as elements have. Values are made from keys, but
// for zeros and NaN, which are fetched: many elements have one key there.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.ipp>
#include <sinter/backend/cuda/library/order_kernels.hpp>
#include <sinter/backend/cuda/library/quantized_kernels.ipp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace library_detail {

inline constexpr std::string_view order_key_text = R"(
#if BITS == 8
typedef unsigned char X;
#elif BITS == 16
typedef unsigned short X;
#elif BITS == 32
typedef unsigned X;
#else
typedef u64 X;
#endif
#if BITS == 64
typedef u64 Key;
#else
typedef unsigned Key;
#endif
#define TOP ((X)((X)1 << (BITS - 1)))
#define ONES ((X)~(X)0)
struct Arguments {
  const void *in, *from;
  void *to, *values;
  i64* indices;
  unsigned *counts, *totals;
  i64 rows, in_length, stride, length, tiles, count, rank;
  int pick, is_descending, shift, is_or_equal;
};
static __device__ __forceinline__ X key_of(X x) {
#if KIND == 0
  return x;
#elif KIND == 1
  return (X)(x ^ TOP);
#else
  const X size = (X)(x & (X)~TOP);
  return size > (X)LARGEST ? ONES : size == 0 ? TOP : (x & TOP) != 0 ? (X)~x : (X)(x | TOP);
#endif
}
static __device__ __forceinline__ bool has_one_value(X key) { return KIND != 2 || (key != TOP && key != ONES); }
static __device__ __forceinline__ X value_of(X key) {
#if KIND == 0
  return key;
#elif KIND == 1
  return (X)(key ^ TOP);
#else
  return (key & TOP) != 0 ? (X)(key ^ TOP) : (X)~key;
#endif
}
#if BITS == 64
struct alignas(16) Entry { u64 key; unsigned at, unused; };
static __device__ __forceinline__ Entry entry_of(Key key, unsigned at) { return Entry{key, at, 0}; }
static __device__ __forceinline__ Entry chosen(bool holds, const Entry& a, const Entry& b) {
  const u64 key = holds ? a.key : b.key;
  return Entry{key, holds ? a.at : b.at, 0};
}
static __device__ __forceinline__ Key key_in(const Entry& e) { return e.key; }
static __device__ __forceinline__ unsigned at_in(const Entry& e) { return e.at; }
static __device__ __forceinline__ bool less(const Entry& a, const Entry& b) {
  return a.key < b.key || (a.key == b.key && a.at < b.at);
}
static __device__ __forceinline__ Entry from_lane(const Entry& e, int mask) {
  const u64 key = __shfl_xor_sync(~0u, e.key, mask);
  return Entry{key, __shfl_xor_sync(~0u, e.at, mask), 0};
}
#define LAST Entry{~0ull, ~0u, 0}
#else
#if IS_NARROW
typedef unsigned Entry;
#define HALF 16
#define LAST (~0u)
#else
typedef u64 Entry;
#define HALF 32
#define LAST (~0ull)
#endif
static __device__ __forceinline__ Entry entry_of(Key key, unsigned at) { return (Entry)key << HALF | at; }
static __device__ __forceinline__ Entry chosen(bool holds, Entry a, Entry b) { return holds ? a : b; }
static __device__ __forceinline__ Key key_in(Entry e) { return (Key)(e >> HALF); }
static __device__ __forceinline__ unsigned at_in(Entry e) { return (unsigned)(e & (((Entry)1 << HALF) - 1)); }
static __device__ __forceinline__ bool less(Entry a, Entry b) { return a < b; }
static __device__ __forceinline__ Entry from_lane(Entry e, int mask) { return __shfl_xor_sync(~0u, e, mask); }
#endif
static __device__ __forceinline__ i64 base_of(const Arguments& a, i64 row, i64 length) {
  return a.stride == 1 ? row * length : row / a.stride * a.stride * length + row % a.stride;
}
static __device__ __forceinline__ X flip_of(const Arguments& a) { return a.is_descending != 0 ? ONES : (X)0; }
static __device__ __forceinline__ void put(const Arguments& a, i64 base, i64 place, const Entry& e) {
  const unsigned at = at_in(e);
  if (a.indices != 0) a.indices[place] = at;
  if (a.values == 0) return;
  const X key = (X)((X)key_in(e) ^ flip_of(a));
  ((X*)a.values)[place] =
      a.pick != 1 && has_one_value(key) ? value_of(key) : ((const X*)a.in)[base + (i64)at * a.stride];
}
// How many keys of a sorted row come before `key`.
static __device__ i64 count_less(const Entry* row, i64 length, Key key) {
  i64 first = 0;
  while (length > 0) {
    const i64 half = length / 2;
    const bool is_less = key_in(row[PLACE(first + half)]) < key;
    first = is_less ? first + half + 1 : first;
    length = is_less ? length - half - 1 : half;
  }
  return first;
}
// Which element of a sorted row is wanted; `lanes` threads know it afterwards. All threads of the block come here.
static __device__ i64 picked(const Arguments& a, const Entry* row, i64 length, int lane, int lanes, u64* best) {
  if (a.pick == 2) return a.rank;
  if (a.pick != 5) {
    const i64 numbers = KIND == 2 ? count_less(row, length, (Key)ONES) : length;
    return numbers == 0 || (a.pick == 3 && numbers < length) ? numbers : (numbers - 1) / 2;
  }
  u64 longest = 0;
  for (i64 i = lane; i < length; i += lanes) {
    const Key key = key_in(row[PLACE(i)]);
    if (i + 1 < length && key_in(row[PLACE(i + 1)]) == key) continue;
    const u64 run = (u64)(i + 1 - count_less(row, i, key)) << 32 | (unsigned)~(unsigned)i;
    longest = run > longest ? run : longest;
  }
  best[threadIdx.x] = longest;
  for (int step = lanes / 2; step > 0; step /= 2) {
    __syncthreads();
    if (lane < step && best[threadIdx.x + step] > best[threadIdx.x]) best[threadIdx.x] = best[threadIdx.x + step];
  }
  __syncthreads();
  return (unsigned)~(unsigned)best[threadIdx.x - lane];
}
)";

/// A thread holds eight neighbours of its row. The network is the bitonic one in which all comparisons go one way: the
/// first of each round is with the mirrored place (Knuth 1998, 5.3.4). Partners are in the thread, in its warp, or else
/// in shared memory.
inline constexpr std::string_view row_sort_text = R"(
#define EACH_OF(e) _Pragma("unroll") for (int e = 0; e < 8; ++e)
#define LANES (WIDTH / 8)
#define THREADS (LANES < 128 ? 128 : LANES)
#define GROUPS (THREADS / LANES)
static __device__ __forceinline__ void order(Entry& a, Entry& b) {
  const Entry first = a, second = b;
  const bool is_turned = less(second, first);
  a = chosen(is_turned, second, first);
  b = chosen(is_turned, first, second);
}
template <int mask> static __device__ __forceinline__ void order_own(Entry (&v)[8]) {
  EACH_OF(e) if ((e ^ mask) > e) order(v[e], v[e ^ mask]);
}
template <bool mirrored> static __device__ __forceinline__ void order_with(Entry (&v)[8], int mask, Entry* shared) {
  const bool keeps_less = (threadIdx.x & (unsigned)(mask & ~(mask >> 1))) == 0;
  Entry other[8];
  if (mask < 32) {
    EACH_OF(e) other[e] = from_lane(v[mirrored ? 7 - e : e], mask);
  } else {
    __syncthreads();
    EACH_OF(e) shared[e * THREADS + threadIdx.x] = v[e];
    __syncthreads();
    EACH_OF(e) other[e] = shared[(mirrored ? 7 - e : e) * THREADS + (threadIdx.x ^ (unsigned)mask)];
  }
  EACH_OF(e) v[e] = chosen(less(other[e], v[e]) == keeps_less, other[e], v[e]);
}
static __device__ __forceinline__ void sort_entries(Entry (&v)[8], Entry* shared) {
  order_own<1>(v);
  order_own<3>(v);
  order_own<1>(v);
  order_own<7>(v);
  order_own<2>(v);
  order_own<1>(v);
#pragma unroll 1
  for (int lanes = 2; lanes <= LANES; lanes *= 2) {
    order_with<true>(v, lanes - 1, shared);
#pragma unroll 1
    for (int mask = lanes / 4; mask > 0; mask /= 2) order_with<false>(v, mask, shared);
    order_own<4>(v);
    order_own<2>(v);
    order_own<1>(v);
  }
}
extern "C" __global__ void __launch_bounds__(THREADS) order_rows(Arguments a) {
  __shared__ Entry shared[THREADS * 9];
  __shared__ u64 best[THREADS];
  const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  Entry* const own = shared + group * LANES * 9;
  const X* const in = (const X*)a.in;
  const X flip = flip_of(a);
  const i64 items = a.rows * a.tiles;
  for (i64 block = blockIdx.x; block * GROUPS < items; block += gridDim.x) {
    const i64 item = block * GROUPS + group, row = a.tiles == 1 ? item : item / a.tiles,
              begin = (item - row * a.tiles) * WIDTH, base = base_of(a, row, a.in_length);
    const i64 rest = item < items ? a.length - begin : 0;
    const int length = rest < WIDTH ? (int)rest : WIDTH;
    Entry v[8];
    EACH_OF(e) {
      const int i = e * LANES + lane;
      if (i >= length) v[e] = LAST;
      else if (a.from != 0) v[e] = ((const Entry*)a.from)[row * a.length + begin + i];
      else v[e] = entry_of((X)(key_of(in[base + (begin + i) * a.stride]) ^ flip), (unsigned)(begin + i));
    }
    for (int round = 0;; ++round) {
      sort_entries(v, shared);
      __syncthreads();
      EACH_OF(e) own[PLACE(lane * 8 + e)] = v[e];
      __syncthreads();
      if (a.pick != 1 || round == 1) break;
      EACH_OF(e) {
        const int i = e * LANES + lane;
        const unsigned at = at_in(own[PLACE(i)]);
        v[e] = i < a.count ? entry_of(at, at) : LAST;
      }
    }
    const i64 first = a.pick >= 2 ? picked(a, own, length, lane, LANES, best) : 0,
              place = base_of(a, row, a.count);
    EACH_OF(e) {
      const int i = e * LANES + lane;
      if (i < a.count && item < items) {
        const Entry entry = own[PLACE(first + i)];
        if (a.to != 0) ((Entry*)a.to)[item * a.count + i] = entry;
        else put(a, base, place + i * a.stride, entry);
      }
    }
  }
}
)";

/// From the least digit on (Knuth 1998, 5.2.5). A block counts a tile's digits; sums of counts say where each tile's
/// elements of each digit go; a block ranks its tile again, warp by warp, and writes it digit by digit.
inline constexpr std::string_view digit_sort_text = R"(
#define ITEMS (BITS == 64 ? 8 : 16)
#define TILE (ITEMS * 256)
static __device__ __forceinline__ unsigned digit_of(const Entry& e, int shift) {
  return (unsigned)(key_in(e) >> shift) & 255u;
}
// Of a tile from `begin` on, elements `first`, `first + step` and so on; LAST beyond its length.
static __device__ __forceinline__ void read_items(const Arguments& a, i64 row, i64 base, i64 begin, int length,
                                                  int first, int step, Entry (&e)[ITEMS]) {
  if (a.from != 0) {
    const Entry* const from = (const Entry*)a.from + row * a.length + begin;
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      e[j] = LAST;
      if (first + j * step < length) e[j] = from[first + j * step];
    }
    return;
  }
  const X* const in = (const X*)a.in + base + begin * a.stride;
  const X flip = flip_of(a);
  X x[ITEMS];
  if (a.stride == 1) {
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) x[j] = first + j * step < length ? in[first + j * step] : (X)0;
  } else {
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) x[j] = first + j * step < length ? in[(first + j * step) * a.stride] : (X)0;
  }
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const int i = first + j * step;
    e[j] = chosen(i < length, entry_of((X)(key_of(x[j]) ^ flip), (unsigned)(begin + i)), LAST);
  }
}
// The sum of what the threads before have, and of all.
static __device__ unsigned sum_before(unsigned value, unsigned& total, unsigned* parts) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned below = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += below;
  }
  __syncthreads();
  if (lane == 31) parts[warp] = sum;
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (int i = 0; i < 8; ++i) {
    if (i < warp) before += parts[i];
    total += parts[i];
  }
  return before + sum - value;
}
extern "C" __global__ void __launch_bounds__(256) count_digits(Arguments a) {
  __shared__ unsigned counts[8][256];
  for (i64 block = blockIdx.x; block < a.rows * a.tiles; block += gridDim.x) {
    const i64 row = block / a.tiles, tile = block - row * a.tiles, base = base_of(a, row, a.in_length);
    for (int w = 0; w < 8; ++w) counts[w][threadIdx.x] = 0;
    __syncthreads();
    const i64 rest = a.length - tile * TILE;
    const int length = rest < TILE ? (int)rest : TILE;
    Entry e[ITEMS];
    read_items(a, row, base, tile * TILE, length, threadIdx.x, 256, e);
#pragma unroll
    for (int j = 0; j < ITEMS; ++j)
      if (j * 256 + threadIdx.x < length) atomicAdd(&counts[threadIdx.x / 32][digit_of(e[j], a.shift)], 1u);
    __syncthreads();
    unsigned sum = 0;
    for (int w = 0; w < 8; ++w) sum += counts[w][threadIdx.x];
    a.counts[(row * 256 + threadIdx.x) * a.tiles + tile] = sum;
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(256) sum_counts(Arguments a) {
  __shared__ unsigned parts[8];
  if (a.tiles <= 32) {
    EACH(i, a.rows * 256) {
      unsigned sum = 0;
      for (i64 tile = 0; tile < a.tiles; ++tile) {
        const unsigned count = a.counts[i * a.tiles + tile];
        a.counts[i * a.tiles + tile] = sum;
        sum += count;
      }
      a.totals[i] = sum;
    }
    return;
  }
  for (i64 block = blockIdx.x; block < a.rows * 256; block += gridDim.x) {
    unsigned before = 0;
    for (i64 start = 0; start < a.tiles; start += 256) {
      const i64 i = block * a.tiles + start + threadIdx.x;
      const bool is_inside = start + threadIdx.x < a.tiles;
      unsigned total;
      const unsigned sum = sum_before(is_inside ? a.counts[i] : 0, total, parts);
      if (is_inside) a.counts[i] = before + sum;
      before += total;
    }
    if (threadIdx.x == 0) a.totals[block] = before;
  }
}
extern "C" __global__ void __launch_bounds__(256, 3) move_by_digit(Arguments a) {
  __shared__ Entry staged[TILE];
  __shared__ unsigned places[8][256], starts[256], parts[8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 block = blockIdx.x; block < a.rows * a.tiles; block += gridDim.x) {
    const i64 row = block / a.tiles, tile = block - row * a.tiles, base = base_of(a, row, a.in_length);
    const i64 rest = a.length - tile * TILE;
    const int length = rest < TILE ? (int)rest : TILE;
    for (int w = 0; w < 8; ++w) places[w][threadIdx.x] = 0;
    __syncthreads();
    Entry e[ITEMS];
    unsigned rank[ITEMS];  // the lanes of the same digit at first
    read_items(a, row, base, tile * TILE, length, warp * (TILE / 8) + lane, 32, e);
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) rank[j] = __match_any_sync(~0u, digit_of(e[j], a.shift));
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      const unsigned digit = digit_of(e[j], a.shift);
      const int before = __popc(rank[j] & ((1u << lane) - 1));
      const unsigned old = places[warp][digit];
      __syncwarp();
      if (before == 0) places[warp][digit] = old + __popc(rank[j]);
      __syncwarp();
      rank[j] = old + before;
    }
    __syncthreads();
    unsigned sum = 0, total;
    for (int w = 0; w < 8; ++w) {
      const unsigned count = places[w][threadIdx.x];
      places[w][threadIdx.x] = sum;
      sum += count;
    }
    const unsigned own = sum_before(sum, total, parts);
    const unsigned in_row = sum_before(a.totals[row * 256 + threadIdx.x], total, parts);
    for (int w = 0; w < 8; ++w) places[w][threadIdx.x] += own;
    starts[threadIdx.x] = in_row + a.counts[(row * 256 + threadIdx.x) * a.tiles + tile] - own;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) staged[places[warp][digit_of(e[j], a.shift)] + rank[j]] = e[j];
    __syncthreads();
    const i64 place = base_of(a, row, a.count);
    for (int i = threadIdx.x; i < length; i += 256) {
      const Entry entry = staged[i];
      const unsigned to = starts[digit_of(entry, a.shift)] + i;
      if (a.to != 0) ((Entry*)a.to)[row * a.length + to] = entry;
      else if (to < a.count) put(a, base, place + to * a.stride, entry);
    }
  }
}
extern "C" __global__ void __launch_bounds__(256) pick(Arguments a) {
  __shared__ u64 best[256];
  for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const Entry* const entries = (const Entry*)a.from + row * a.length;
    const i64 first = picked(a, entries, a.length, threadIdx.x, 256, best);
    if (threadIdx.x == 0) put(a, base_of(a, row, a.in_length), row, entries[first]);
    __syncthreads();
  }
}
// `count` numbers for each row of `length` sorted ones; 0: all have one row.
extern "C" __global__ void searchsorted(Arguments a) {
  EACH(i, a.rows) {
    const X* const row = (const X*)a.in + (a.count == 0 ? 0 : i / a.count * a.length);
    const X key = key_of(((const X*)a.from)[i]);
    i64 first = 0, length = a.length;
    while (length > 0) {
      const i64 half = length / 2;
      const X middle = key_of(row[first + half]);
      const bool is_before = middle < key || (a.is_or_equal != 0 && middle == key);
      first = is_before ? first + half + 1 : first;
      length = is_before ? length - half - 1 : half;
    }
    a.indices[i] = first;
  }
}
)";

/// Unsigned, signed, floating; and of floats the bits of infinity, or of the largest number where there is none.
struct OrderKeyKind {
  int kind = 0;
  std::string largest = "0";
};
inline OrderKeyKind order_key_kind(DType dtype) {
  const DTypeRow& format = row(dtype);
  if (!is_floating(dtype)) return {format.is_signed ? 1 : 0};
  const std::uint64_t all = (std::uint64_t{1} << (format.exponent_bits + format.fraction_bits)) - 1;
  const std::uint64_t largest = format.has_infinity ? all >> format.fraction_bits << format.fraction_bits : all - 1;
  return {2, std::to_string(largest) + (format.size == 8 ? "ull" : "u")};
}
inline std::string order_text(DType dtype, bool is_narrow, const char* place) {
  const OrderKeyKind kind = order_key_kind(dtype);
  return std::string(kernel_prelude) + define_text("BITS", std::to_string(8 * row(dtype).size)) +
         define_text("KIND", std::to_string(kind.kind)) + define_text("LARGEST", kind.largest) +
         define_text("IS_NARROW", is_narrow ? "1" : "0") + define_text("PLACE(i)", place) + std::string(order_key_text);
}

}  // namespace library_detail

SINTER_DECL int RowSort::longest(DType dtype) { return row(dtype).size == 8 ? 2048 : 4096; }
SINTER_DECL int RowSort::threads() const { return std::max(128, width / 8); }
SINTER_DECL int RowSort::rows_of_block() const { return threads() * 8 / width; }

SINTER_DECL LibrarySource row_sort_kernel(const RowSort& sort) {
  using namespace library_detail;
  return {order_text(sort.dtype, sort.is_narrow, "((i) + (i) / 8)") + define_text("WIDTH", std::to_string(sort.width)) +
              std::string(row_sort_text),
          {"order_rows"}};
}
SINTER_DECL LibrarySource digit_sort_kernels(DType dtype) {
  using namespace library_detail;
  return {order_text(dtype, false, "(i)") + std::string(digit_sort_text),
          {"count_digits", "sum_counts", "move_by_digit", "pick", "searchsorted"}};
}
SINTER_DECL bool has_order_kernels(DType dtype) { return !is_complex(dtype); }

SINTER_DECL OrderPlan::OrderPlan(const OrderProblem& problem) : problem_(problem) {
  const std::int64_t longest = RowSort::longest(problem.dtype);
  constexpr std::int64_t most = (std::int64_t{1} << 32) - 1;
  if (!has_order_kernels(problem.dtype) || problem.length > most) return;
  const auto power = [](std::int64_t x) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(x)));
  };
  // Narrow tiles are sorted with fewer comparisons for each element, and leave more of them to the next round.
  const std::int64_t width = std::max<std::int64_t>(256, power(std::min(problem.count, longest) * 8));
  if (!picks_one() && problem.count <= longest / 4 && problem.length > std::min(8 * width, longest)) {
    way_ = Way::tournament;
    row_sort_ = {problem.dtype, static_cast<int>(std::min(width, longest)), false};
  } else if (problem.length <= longest) {
    way_ = Way::rows;
    row_sort_ = {problem.dtype, static_cast<int>(std::max<std::int64_t>(8, power(problem.length))), key_bits() <= 16};
  } else if (problem.pick != OrderedPick::first_by_position) way_ = Way::digits;
}
SINTER_DECL std::size_t OrderPlan::buffer_bytes() const {
  const std::int64_t of_row = way_ == Way::tournament
                                  ? (problem_.length + row_sort_.width - 1) / row_sort_.width * problem_.count
                                  : problem_.length;
  return aligned(static_cast<std::size_t>(problem_.rows * of_row) * entry_bytes());
}
SINTER_DECL std::size_t OrderPlan::workspace_bytes() const {
  if (way_ == Way::rows || way_ == Way::none) return 0;
  if (way_ == Way::tournament) return 2 * buffer_bytes();
  return 2 * buffer_bytes() + static_cast<std::size_t>(problem_.rows * digit_values * (tiles() + 1)) * 4;
}
SINTER_DECL OrderArguments OrderPlan::arguments(const void* in, void* values, std::int64_t* indices) const {
  OrderArguments a;
  a.in = in;
  a.values = values;
  a.indices = indices;
  a.rows = problem_.rows;
  a.in_length = a.length = problem_.length;
  a.stride = problem_.stride;
  a.tiles = way_ == Way::digits ? tiles() : 1;
  a.count = problem_.count;
  a.rank = problem_.rank;
  a.pick = static_cast<std::int32_t>(problem_.pick);
  a.is_descending = problem_.is_descending ? 1 : 0;
  return a;
}

}  // namespace cuda
SINTER_NAMESPACE_END
