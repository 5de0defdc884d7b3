typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
static __device__ __forceinline__ int divided(int n, int magic, int shift) { return (int)((__umulhi((unsigned)n, (unsigned)magic) + (unsigned)n) >> shift); }

struct Arguments {
  const float* p0;
  const float* p1;
  const float* p2;
  float* p3;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I hct;
  I mct;
  I hrt;
  I mrt;
  I ct;
  I rt;
  I e2;
  I s0_0;
  I e0;
  I s1_2;
  I e1;
  I s3_0;
};

extern "C" __global__ void __launch_bounds__(256) sinter_product(const __grid_constant__ Arguments a) {
  const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
  const int tx = warp % 2 * 8 + lane % 8, ty = warp / 2 * 4 + lane / 8;
  const I block = (I)blockIdx.x;
  const I tile_row = divided(block, a.mct, a.hct);
  const I tile_batch = divided(tile_row, a.mrt, a.hrt);
  const I first_column = (block - tile_row * a.ct) * 64;
  const I first_row = (tile_row - tile_batch * a.rt) * 64;
  const I begin = 0, end = a.e2;
  __shared__ __align__(16) float left_tile[4352];
  float* const right_tile = left_tile + 2176;
  const int left_depth = (int)(threadIdx.x % 4) * 4, left_place = (int)(threadIdx.x / 4);
  __align__(16) float left_next[1][4];
  const float* const left_from = a.p0 + 0;
  const int right_depth = (int)(threadIdx.x / 16), right_place = (int)(threadIdx.x % 16) * 4;
  __align__(16) float right_next[1][4];
  const float* const right_from = a.p1 + 0;
  float sum[4][4] = {};
  int buffer = 0;
  I t = begin;
#pragma unroll
  for (int i = 0; i < 1; ++i) {
    const I k = t + left_depth;
    const I x = first_row + left_place + i * 64;
    Pack<float, 4> p = {};
    if (k < end && x < a.e0) p = *(const Pack<float, 4>*)(left_from + x * a.s0_0 + k);
#pragma unroll
    for (int j = 0; j < 4; ++j) left_next[i][j] = p.v[j];
  }
#pragma unroll
  for (int i = 0; i < 1; ++i) {
    const I k = t + right_depth + i * 16;
    const I x = first_column + right_place;
    Pack<float, 4> p = {};
    if (k < end && x < a.e1) p = *(const Pack<float, 4>*)(right_from + x + k * a.s1_2);
#pragma unroll
    for (int j = 0; j < 4; ++j) right_next[i][j] = p.v[j];
  }
#pragma unroll 1
  for (;;) {
#pragma unroll
    for (int i = 0; i < 1; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) (left_tile + (buffer * 16 + left_depth + j) * 68)[left_place + i * 64] = left_next[i][j];
    }
#pragma unroll
    for (int i = 0; i < 1; ++i) {
      *(Pack<float, 4>*)((right_tile + (buffer * 16 + right_depth + i * 16) * 68) + right_place) = *(const Pack<float, 4>*)right_next[i];
    }
    __syncthreads();
    t += 16;
    if (t < end) {
#pragma unroll
      for (int i = 0; i < 1; ++i) {
        const I k = t + left_depth;
        const I x = first_row + left_place + i * 64;
        Pack<float, 4> p = {};
        if (k < end && x < a.e0) p = *(const Pack<float, 4>*)(left_from + x * a.s0_0 + k);
#pragma unroll
        for (int j = 0; j < 4; ++j) left_next[i][j] = p.v[j];
      }
#pragma unroll
      for (int i = 0; i < 1; ++i) {
        const I k = t + right_depth + i * 16;
        const I x = first_column + right_place;
        Pack<float, 4> p = {};
        if (k < end && x < a.e1) p = *(const Pack<float, 4>*)(right_from + x + k * a.s1_2);
#pragma unroll
        for (int j = 0; j < 4; ++j) right_next[i][j] = p.v[j];
      }
    }
    const float* const left_now = (left_tile + (buffer * 16 + 0) * 68) + ty * 4;
    const float* const right_now = (right_tile + (buffer * 16 + 0) * 68) + tx * 4;
#pragma unroll 8
    for (int k = 0; k < 16; ++k) {
      __align__(16) float left[4], right[4];
#pragma unroll
      for (int i = 0; i < 1; ++i) *(Pack<float, 4>*)(left + 4 * i) = *(const Pack<float, 4>*)(left_now + k * 68 + i * 64);
#pragma unroll
      for (int i = 0; i < 1; ++i) *(Pack<float, 4>*)(right + 4 * i) = *(const Pack<float, 4>*)(right_now + k * 68 + i * 64);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
      }
    }
    if (t >= end) break;
    buffer ^= 1;
  }
#pragma unroll 1
  for (int g = 0; g < 1; ++g) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 1; ++j) {
        Pack<float, 4> p;
#pragma unroll
        for (int c = 0; c < 4; ++c) p.v[c] = sum[i][j * 4 + c];
        *(Pack<float, 4>*)(left_tile + (ty * 4 + i) * 68 + j * 64 + tx * 4) = p;
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int q = (int)threadIdx.x; q < 1024; q += 256) {
      const I x0 = first_row + g * 64 + q / 16, x1 = first_column + q % 16 * 4;
      const Pack<float, 4> sums = *(const Pack<float, 4>*)(left_tile + q / 16 * 68 + q % 16 * 4);
      if (x0 < a.e0 && x1 < a.e1) {
        float v3[4];
        const Pack<float, 4> t3 = *(const Pack<float, 4>*)(a.p2 + x1);
#pragma unroll
        for (int j = 0; j < 4; ++j) v3[j] = t3.v[j];
        float s0[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v4 = sums.v[j] + v3[j];
          const float v6 = v4 * 0.707106769f;
          const float v7 = erff(v6);
          const float v9 = v7 + 1.0f;
          const float v11 = v4 * 0.5f;
          const float v12 = v9 * v11;
          s0[j] = v12;
        }
         {
          Pack<float, 4> t;
#pragma unroll
          for (int j = 0; j < 4; ++j) t.v[j] = s0[j];
          *(Pack<float, 4>*)(a.p3 + x0 * a.s3_0 + x1) = t;
        }
      }
    }
  }
}
