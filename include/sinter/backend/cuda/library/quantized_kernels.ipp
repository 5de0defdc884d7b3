// Texts of the kernels of quantised products: rows to i8 and sums of integers back, and few rows times a packed weight.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.ipp>
#include <sinter/backend/cuda/library/quantized_kernels.hpp>

#include <string>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace library_detail {

/// Numbers of f32, f16 or bf16 in memory, as float.
inline constexpr std::string_view number_text = R"(
struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };
static __device__ __forceinline__ float wide(float x) { return x; }
static __device__ __forceinline__ float wide(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
static __device__ __forceinline__ float wide(Brain x) { return __uint_as_float((unsigned)x.bits << 16); }
static __device__ __forceinline__ void narrow(float x, float& to) { to = x; }
static __device__ __forceinline__ void narrow(float x, Half& to) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
static __device__ __forceinline__ void narrow(float x, Brain& to) {
  const unsigned bits = __float_as_uint(x);
  to.bits = x != x ? 0x7fc0 : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
)";

/// Integers have no NaN: a row that is not finite has the scale NaN.
inline constexpr std::string_view dynamic_text = R"(
extern "C" __global__ void __launch_bounds__(256) quantize_rows(const X* x, signed char* q, float* scales, i64 rows,
                                                                i64 depth) {
  __shared__ float parts[8];
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const X* from = x + row * depth;
    float largest = 0;
    for (i64 i = threadIdx.x; i < depth; i += 256) {
      const float size = fabsf(wide(from[i]));
      largest = size > largest || size != size ? size : largest;
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(~0u, largest, step);
      largest = other > largest || other != other ? other : largest;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int i = 0; i < 8; ++i) largest = parts[i] > largest || parts[i] != parts[i] ? parts[i] : largest;
    const bool is_finite = largest - largest == 0;
    const float step = largest / 127, safe = step > 0 ? step : 1;
    for (i64 i = threadIdx.x; i < depth; i += 256)
      q[row * depth + i] = is_finite ? (signed char)fmaxf(fminf(rintf(wide(from[i]) / safe), 127), -127) : 0;
    if (threadIdx.x == 0) scales[row] = is_finite ? safe : __int_as_float(0x7fc00000);
    __syncthreads();
  }
}
extern "C" __global__ void dequantize(const int* sums, const float* scales, const S* columns_scales, X* out, i64 rows,
                                      i64 columns) {
  EACH(i, rows * columns / 4) {
    const i64 row = 4 * i / columns, column = 4 * i % columns;
    const int4 sum = ((const int4*)sums)[i];
    const float by = scales[row];
    const int all[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
      narrow((float)all[j] * wide(columns_scales[column + j]) * by, out[4 * i + j]);
  }
}
)";

/// A warp takes COLS columns of the weight, which are rows in memory; a lane 16 bytes of each at a time, the next of
/// them loaded ahead. What they are multiplied by stands in shared memory, for the four warps of a block, such that
/// lanes read neighbours. An integer q becomes a float without a conversion: the bits 0x4b000000 + q are the number
/// 2^23 + q.
inline constexpr std::string_view few_rows_text = R"(
#define CHUNK (128 / BITS)
static __device__ __forceinline__ float magic(unsigned bits) { return __uint_as_float(bits | 0x4b000000u); }
extern "C" __global__ void __launch_bounds__(128) few_rows(const X* x, const unsigned char* values, const S* scales,
                                                           const unsigned char* zeros, X* out, i64 columns, i64 depth,
                                                           i64 group) {
  __shared__ float factors[ROWS][CHUNK][33];
  const i64 groups = depth / group, chunks = depth / CHUNK, row_bytes = depth * BITS / 8;
  const int lane = threadIdx.x % 32;
  for (i64 block = blockIdx.x; block * 4 * COLS < columns; block += gridDim.x) {
    i64 column[COLS];
#pragma unroll
    for (int c = 0; c < COLS; ++c) {
      column[c] = (block * 4 + threadIdx.x / 32) * COLS + c;
      if (column[c] >= columns) column[c] = columns - 1;
    }
    float sum[ROWS][COLS] = {};
    uint4 packed[COLS], next[COLS];
#pragma unroll
    for (int c = 0; c < COLS; ++c)
      next[c] = lane < chunks ? ((const uint4*)(values + column[c] * row_bytes))[lane] : uint4{0, 0, 0, 0};
    for (i64 tile = 0; tile < chunks; tile += 32) {
      const i64 chunk = tile + lane;
      const bool is_inside = chunk < chunks;
      const i64 g = is_inside ? chunk * CHUNK / group : 0;
      float scale[COLS], zero[COLS];
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        packed[c] = next[c];
        if (chunk + 32 < chunks) next[c] = ((const uint4*)(values + column[c] * row_bytes))[chunk + 32];
        scale[c] = is_inside ? wide(scales[column[c] * groups + g]) : 0;
        const unsigned own = HAS_ZEROS && is_inside ? zeros[column[c] * groups + g] : 0;
        zero[c] = magic(BITS == 4 ? (HAS_ZEROS ? own : 8u) : own ^ 128u);
      }
      __syncthreads();
      for (int i = threadIdx.x; i < 32 * CHUNK; i += 128)
        if (tile * CHUNK + i < depth) {
#pragma unroll
          for (int r = 0; r < ROWS; ++r) factors[r][i % CHUNK][i / CHUNK] = wide(x[r * depth + tile * CHUNK + i]);
        }
      __syncthreads();
      if (!is_inside) continue;
      float part[ROWS][COLS] = {};
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) {
        float factor[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) factor[r] = factors[r][i][lane];
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
          const int place = i * BITS / 32, shift = i * BITS % 32;
          const uint4 all = packed[c];
          const unsigned word = place == 0 ? all.x : place == 1 ? all.y : place == 2 ? all.z : all.w;
          const float q = magic(BITS == 4 ? word >> shift & 15u : (word >> shift & 255u) ^ 128u) - zero[c];
#pragma unroll
          for (int r = 0; r < ROWS; ++r) part[r][c] = fmaf(factor[r], q, part[r][c]);
        }
      }
#pragma unroll
      for (int c = 0; c < COLS; ++c)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sum[r][c] = fmaf(part[r][c], scale[c], sum[r][c]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        float total = sum[r][c];
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
        if (lane == 0) narrow(total, out[r * columns + column[c]]);
      }
  }
}
)";

/// Weights on tensor cores: pair_of makes two neighbours of a word's numbers, less their zero point, exact in f16 or
/// bf16. A word of 4 bits has the elements (i, i + 4) in pairs, two words of 8 bits (0, 2), (1, 3), (4, 6) and (5, 7).
/// What is put together from bits: 1024 + q and 1024 + 16 q in f16, 128 + b in bf16, of whose 7 bits a byte's sign is
/// no part: it makes 2 or 4, and b - 128 sign is exact.
inline constexpr std::string_view weight_pairs_text = R"(
#define AND_OR 0xea
#define AND_XOR 0x6a
#define NOT_AND_OR 0xae
// (a & mask) | c, (a & mask) ^ c, (~a & mask) | c in one instruction, where the compiler takes two.
template <unsigned mask, int table> static __device__ __forceinline__ unsigned bits_of(unsigned a, unsigned c) {
  unsigned y;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(y) : "r"(a), "n"(mask), "r"(c), "n"(table));
  return y;
}
static __device__ __forceinline__ unsigned component(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
static __device__ __forceinline__ unsigned both(unsigned half) { return half | half << 16; }
#if IS_HALF && BITS == 4
struct Zero { unsigned low, high; };
static __device__ __forceinline__ unsigned pair_of(const uint4* v, int eight, int i, Zero minus) {
  const unsigned word = component(v[0], eight) >> i / 2 * 8;
  unsigned pair;
  if (i % 2 == 0)
    asm("sub.rn.f16x2 %0, %1, %2;"
        : "=r"(pair) : "r"(bits_of<0x000f000fu, AND_OR>(word, 0x64006400u)), "r"(minus.low));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(pair) : "r"(bits_of<0x00f000f0u, AND_OR>(word, 0x64006400u)), "r"(0x2c002c00u), "r"(minus.high));
  return pair;
}
static __device__ __forceinline__ Zero zero_point(unsigned zero) {
  unsigned short high;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(-64.0f - (float)zero));
  return {both(0x6400u + zero), both(high)};
}
#elif IS_HALF
typedef unsigned Zero;
static __device__ __forceinline__ unsigned pair_of(const uint4* v, int eight, int i, Zero minus) {
  const unsigned word = component(v[eight / 2], eight % 2 * 2 + i / 2) >> i % 2 * 8;
  unsigned pair;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(bits_of<0x00ff00ffu, AND_XOR>(word, 0x64806480u)), "r"(minus));
  return pair;
}
static __device__ __forceinline__ Zero zero_point(unsigned zero) { return both(0x6400u + (zero ^ 128u)); }
#elif BITS == 4
typedef unsigned Zero;
static __device__ __forceinline__ unsigned pair_of(const uint4* v, int eight, int i, Zero minus) {
  const unsigned bits = bits_of<0x000f000fu, NOT_AND_OR>(component(v[0], eight) >> 4 * i, 0xc300c300u);  // q - 143
  unsigned pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(bits), "r"(0x3f803f80u), "r"(minus));
  return pair;
}
// 143 - zero is exact in bf16 for all zero points of 8 bits.
static __device__ __forceinline__ Zero zero_point(unsigned zero) {
  return both(__float_as_uint((float)(143 - (int)zero)) >> 16);
}
#else
typedef unsigned Zero;
static __device__ __forceinline__ unsigned pair_of(const uint4* v, int eight, int i, Zero minus) {
  const unsigned word = component(v[eight / 2], eight % 2 * 2 + i / 2) >> i % 2 * 8;
  const unsigned sign = bits_of<0x00800080u, AND_OR>(word, 0x40004000u);
  unsigned pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(pair) : "r"(sign), "r"(0xc280c280u), "r"(bits_of<0x007f007fu, AND_OR>(word, 0x43004300u)));
  if (HAS_ZEROS) asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(pair) : "r"(0x3f803f80u), "r"(minus));
  return pair;
}
static __device__ __forceinline__ Zero zero_point(unsigned zero) {
  return both(__float_as_uint(-(float)(signed char)zero) >> 16);
}
#endif
)";

/// The same on tensor cores: 16 TALL columns of the weight, as the rows of one operand, times the rows of x, each in
/// PARTS numbers that add up to it (f32 in 3 of bf16; f16 and bf16 are themselves), as the columns of the other. Sums
/// are of f32. A warp takes TILES times 128 elements of the depth at a time.
inline constexpr std::string_view tensor_rows_text = R"(
#define N (ROWS * PARTS)
#define VECTORS (BITS / 4)
#if IS_HALF
#define OPERANDS "f16.f16"
#else
#define OPERANDS "bf16.bf16"
#endif
static __device__ __forceinline__ void multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                                unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." OPERANDS ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
extern "C" __global__ void __launch_bounds__(32 * WARPS, TALL) few_rows(const X* x, const unsigned char* values,
                                                                  const S* scales, const unsigned char* zeros, X* out,
                                                                  i64 columns, i64 depth, i64 group) {
  __shared__ uint4 factors[WARPS][TILES][4][4 * N];
  __shared__ float sums[WARPS][16 * TALL][N];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
  const i64 groups = depth / group, tiles = depth / 128, row_bytes = depth * BITS / 8;
  for (i64 block = blockIdx.x; block * 16 * TALL < columns; block += gridDim.x) {
    i64 column[TALL][2];
#pragma unroll
    for (int m = 0; m < TALL; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        column[m][h] = block * 16 * TALL + m * 16 + h * 8 + row;
        if (column[m][h] >= columns) column[m][h] = columns - 1;
      }
    float total[TALL][4] = {};
    for (i64 first = warp * TILES; first < tiles; first += WARPS * TILES) {
      uint4 packed[TILES][TALL][2][VECTORS];
      float scale[TILES][TALL][2];
      Zero zero[TILES][TALL][2];
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const i64 at = first + tile < tiles ? first + tile : tiles - 1;
        const i64 g = at * 128 / group;
#pragma unroll
        for (int m = 0; m < TALL; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const uint4* from = (const uint4*)(values + column[m][h] * row_bytes + at * 16 * BITS) + quarter * VECTORS;
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) packed[tile][m][h][v] = __ldcs(from + v);
          }
#pragma unroll
        for (int m = 0; m < TALL; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            scale[tile][m][h] = wide(scales[column[m][h] * groups + g]);
            zero[tile][m][h] = zero_point(HAS_ZEROS ? zeros[column[m][h] * groups + g] : BITS == 4 ? 8u : 0u);
          }
      }
      __syncwarp();
#pragma unroll
      for (int j = lane; j < TILES * 16; j += 32) {
        const i64 k = first * 128 + j * 8;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#if IS_HALF
          unsigned part[8];
#pragma unroll
          for (int e = 0; e < 8; ++e) part[e] = k < depth ? x[r * depth + k + e].bits : 0;
          uint4 all;
          if (BITS == 4)
            all = {part[0] | part[4] << 16, part[1] | part[5] << 16, part[2] | part[6] << 16, part[3] | part[7] << 16};
          else
            all = {part[0] | part[2] << 16, part[1] | part[3] << 16, part[4] | part[6] << 16, part[5] | part[7] << 16};
          factors[warp][j / 16][j % 4][r * 4 + j % 16 / 4] = all;
#else
          unsigned part[PARTS][8];
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            float rest = k < depth ? wide(x[r * depth + k + e]) : 0;
#pragma unroll
            for (int p = 0; p < PARTS; ++p) {
              unsigned bits = __float_as_uint(rest) & 0xffff0000u;
              if (rest != rest) bits = 0x7fc00000u;
              part[p][e] = bits;
              rest = fabsf(rest) <= 3.4028234e38f ? rest - __uint_as_float(bits) : 0;
            }
          }
#pragma unroll
          for (int p = 0; p < PARTS; ++p) {
            uint4 all;
            if (BITS == 4)
              all = {part[p][0] >> 16 | part[p][4], part[p][1] >> 16 | part[p][5], part[p][2] >> 16 | part[p][6],
                     part[p][3] >> 16 | part[p][7]};
            else
              all = {part[p][0] >> 16 | part[p][2], part[p][1] >> 16 | part[p][3], part[p][4] >> 16 | part[p][6],
                     part[p][5] >> 16 | part[p][7]};
            factors[warp][j / 16][j % 4][(r * PARTS + p) * 4 + j % 16 / 4] = all;
          }
#endif
        }
      }
      __syncwarp();
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        if (first + tile >= tiles) break;
        float c[TALL][4] = {};
#pragma unroll
        for (int eight = 0; eight < 4; ++eight) {
          const uint4 b = factors[warp][tile][eight][lane % (4 * N)];  // nobody reads sums of further columns
#pragma unroll
          for (int m = 0; m < TALL; ++m) {
            unsigned a[2][4];
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
              for (int i = 0; i < 4; ++i) a[h][i] = pair_of(packed[tile][m][h], eight, i, zero[tile][m][h]);
            multiply(c[m], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
            multiply(c[m], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
          }
        }
#pragma unroll
        for (int m = 0; m < TALL; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) total[m][i] = fmaf(c[m][i], scale[tile][m][i / 2], total[m][i]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < TALL; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (quarter * 2 + i % 2 < N) sums[warp][m * 16 + i / 2 * 8 + row][quarter * 2 + i % 2] = total[m][i];
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * TALL * ROWS; i += 32 * WARPS) {
      const i64 to = block * 16 * TALL + i / ROWS;
      float sum = 0;
      for (int p = 0; p < PARTS; ++p)
        for (int w = 0; w < WARPS; ++w) sum += sums[w][i / ROWS][i % ROWS * PARTS + p];
      if (to < columns) narrow(sum, out[i % ROWS * columns + to]);
    }
    __syncthreads();
  }
}
)";

inline std::string type_text(DType dtype) {
  return dtype == DType::f16 ? "Half" : dtype == DType::bf16 ? "Brain" : "float";
}
inline std::string define_text(const char* name, const std::string& value) {
  return "#define " + std::string(name) + " " + value + "\n";
}

}  // namespace library_detail

SINTER_DECL LibrarySource dynamic_product_kernels(DType activations, DType scales) {
  using namespace library_detail;
  return {std::string(kernel_prelude) + std::string(number_text) + define_text("X", type_text(activations)) +
              define_text("S", type_text(scales)) + std::string(dynamic_text),
          {"quantize_rows", "dequantize"}};
}

SINTER_DECL LibrarySource few_rows_kernel(const PackedProduct& product) {
  using namespace library_detail;
  std::string text =
      std::string(kernel_prelude) + std::string(number_text) + define_text("X", type_text(product.activations)) +
      define_text("S", type_text(product.scales)) + define_text("BITS", std::to_string(product.bits)) +
      define_text("ROWS", std::to_string(product.rows)) + define_text("HAS_ZEROS", product.has_zero_points ? "1" : "0");
  if (product.on_tensor_cores)
    text += define_text("PARTS", std::to_string(product.parts())) + define_text("TALL", std::to_string(product.tall)) +
            define_text("WARPS", std::to_string(product.warps())) + define_text("TILES", "2") +
            define_text("IS_HALF", product.activations == DType::f16 ? "1" : "0") + std::string(weight_pairs_text) +
            std::string(tensor_rows_text);
  else text += define_text("COLS", std::to_string(product.columns())) + std::string(few_rows_text);
  return {std::move(text), {"few_rows"}};
}

}  // namespace cuda
SINTER_NAMESPACE_END
