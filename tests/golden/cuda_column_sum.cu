typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };

struct Arguments {
  const float* p0;
  float* p1;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I items;
  I length;
  I chunk;
  I s0_0;
  I outputs;
  I w1;
  I splits;
};

extern "C" __global__ void __launch_bounds__(512) sinter_columns(const __grid_constant__ Arguments a) {
  const int group = (int)(threadIdx.x % 32), lane = (int)(threadIdx.x / 32);
  const I wanted = (I)blockIdx.x * 32 + group;
  const bool is_live = wanted < a.items;
  const I item = is_live ? wanted : a.items - 1;
  const I x1 = (item) * 4;
  const I begin = (I)blockIdx.y * a.chunk;
  const I end = begin + a.chunk < a.length ? begin + a.chunk : a.length;
  float sum1[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) sum1[j] = 0.0f;
#pragma unroll 1
  for (I t = begin; t < end; t += 64) {
    float v0[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const I e = t + i * 16 + lane;
       {
        const I x0 = e;
        const Pack<float, 4> t0 = *(const Pack<float, 4>*)(a.p0 + x0 * a.s0_0 + x1);
#pragma unroll
        for (int j = 0; j < 4; ++j) v0[i * 4 + j] = t0.v[j];
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const I e = t + i * 16 + lane;
       {
        const I x0 = e;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum1[j] = sum1[j] + v0[i * 4 + j];
        }
      }
    }
  }
  float v1[4];
  __shared__ __align__(16) unsigned char scratch[16384];
   {
    float* const mine = (float*)scratch + threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j) mine[j * 512] = sum1[j];
#pragma unroll 1
    for (int half = 8; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) mine[j * 512] = mine[j * 512] + mine[j * 512 + half * 32];
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j) v1[j] = ((float*)scratch + group)[j * 512];
  }
  if (lane == 0 && is_live) {
#pragma unroll
    for (int j = 0; j < 4; ++j) ((float*)(a.workspace + a.w1))[(I)blockIdx.y * a.outputs + item * 4 + j] = v1[j];
  }
}

extern "C" __global__ void __launch_bounds__(128) sinter_finish(const __grid_constant__ Arguments a) {
  const int lane = (int)(threadIdx.x % 32);
  const I wanted = (I)blockIdx.x * 4 + (int)(threadIdx.x / 32);
  const bool is_live = wanted < a.outputs;
  const I item = is_live ? wanted : a.outputs - 1;
  const I x1 = item;
  float sum1 = 0.0f;
#pragma unroll 1
  for (I s = lane; s < a.splits; s += 64) {
    float piece[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) piece[i] = s + i * 32 < a.splits ? ((float*)(a.workspace + a.w1))[(s + i * 32) * a.outputs + item] : 0.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) sum1 = sum1 + piece[i];
  }
#pragma unroll 1
  for (int m = 16; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sum1, m);
    sum1 = sum1 + other;
  }
  const float v1 = sum1;
  __syncwarp();
  if (lane == 0 && is_live) {
    a.p1[x1] = v1;
  }
}
