typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
template <class T> static __device__ __forceinline__ bool has_sign(T) { return false; }
static __device__ __forceinline__ bool has_sign(float a) { return copysignf(1.0f, a) < 0; }
static __device__ __forceinline__ bool has_sign(double a) { return copysign(1.0, a) < 0; }
template <class T> static __device__ __forceinline__ T greater(T a, T b) { return a > b || a != a || (a == b && has_sign(b)) ? a : b; }
template <> __device__ __forceinline__ float greater(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }

struct Arguments {
  const float* p0;
  float* p1;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I items;
  I length;
  I s0_0;
  I s1_0;
};

extern "C" __global__ void __launch_bounds__(128) sinter_rows(const __grid_constant__ Arguments a) {
  const int lane = (int)(threadIdx.x % 64), group = (int)(threadIdx.x / 64);
  const I wanted = (I)blockIdx.x * 2 + group;
  const bool is_live = wanted < a.items;
  const I item = is_live ? wanted : a.items - 1;
  const I x0 = item;
  const I begin = 0, end = a.length;
  const I t = 0;
  float v3[16];
  float sum1 = __int_as_float(0xff800000);
  float v0[16];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 64 + lane) * 4;
     {
      const I x1 = e;
      const Pack<float, 4> t0 = *(const Pack<float, 4>*)(a.p0 + x0 * a.s0_0 + x1);
#pragma unroll
      for (int j = 0; j < 4; ++j) v0[i * 4 + j] = t0.v[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 64 + lane) * 4;
     {
      const I x1 = e;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum1 = greater<float>(sum1, v0[i * 4 + j]);
      }
    }
  }
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sum1, m);
    sum1 = greater<float>(sum1, other);
  }
  __shared__ float shared1[4];
  if (threadIdx.x % 32 == 0) shared1[threadIdx.x / 32] = sum1;
  __syncthreads();
  float v1 = shared1[group * 2 + (int)(threadIdx.x % 2)];
#pragma unroll
  for (int m = 1; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v1, m);
    v1 = greater<float>(v1, other);
  }
  float sum4 = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 64 + lane) * 4;
     {
      const I x1 = e;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v2 = v0[i * 4 + j] - v1;
        v3[i * 4 + j] = expf(v2);
        sum4 = sum4 + v3[i * 4 + j];
      }
    }
  }
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sum4, m);
    sum4 = sum4 + other;
  }
  __shared__ float shared4[4];
  if (threadIdx.x % 32 == 0) shared4[threadIdx.x / 32] = sum4;
  __syncthreads();
  float v4 = shared4[group * 2 + (int)(threadIdx.x % 2)];
#pragma unroll
  for (int m = 1; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v4, m);
    v4 = v4 + other;
  }
  const float v6 = 1.0f / v4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 64 + lane) * 4;
     {
      const I x1 = e;
      float s0[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v7 = v3[i * 4 + j] * v6;
        s0[j] = v7;
      }
      if (is_live) {
         {
          Pack<float, 4> t;
#pragma unroll
          for (int j = 0; j < 4; ++j) t.v[j] = s0[j];
          *(Pack<float, 4>*)(a.p1 + x0 * a.s1_0 + x1) = t;
        }
      }
    }
  }
}
