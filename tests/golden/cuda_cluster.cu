typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
static __device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" : : : "memory"); }
static __device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait;" : : : "memory"); }
template <class T> static __device__ __forceinline__ void put_in_block(int block, T* place, T value) { unsigned long long there; asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(block)); *(T*)there = value; }

struct Arguments {
  const float* p0;
  const float* p1;
  float* p2;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I items;
  I length;
  I s0_0;
  I s1_0;
  I s2_0;
};

extern "C" __global__ void __launch_bounds__(1024, 1) __cluster_dims__(4, 1, 1) sinter_rows(const __grid_constant__ Arguments a) {
  const int group = 0, rank = (int)(blockIdx.x % 4), lane = rank * 1024 + (int)threadIdx.x;
  cluster_arrive();
  const I wanted = (I)blockIdx.x / 4;
  const bool is_live = wanted < a.items;
  const I item = is_live ? wanted : a.items - 1;
  const I x0 = item;
  const I begin = 0, end = a.length;
  const I t = 0;
  float sum3 = 0.0f;
  float v0[16];
  float v1[16];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 4096 + lane) * 4;
     {
      const I x1 = e;
      const Pack<float, 4> t0 = *(const Pack<float, 4>*)(a.p0 + x0 * a.s0_0 + x1);
#pragma unroll
      for (int j = 0; j < 4; ++j) v0[i * 4 + j] = t0.v[j];
      const Pack<float, 4> t1 = *(const Pack<float, 4>*)(a.p1 + x0 * a.s1_0 + x1);
#pragma unroll
      for (int j = 0; j < 4; ++j) v1[i * 4 + j] = t1.v[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 4096 + lane) * 4;
     {
      const I x1 = e;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v2 = v0[i * 4 + j] * v1[i * 4 + j];
        sum3 = sum3 + v2;
      }
    }
  }
  cluster_wait();
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sum3, m);
    sum3 = sum3 + other;
  }
  __shared__ float shared3[32];
  if (threadIdx.x % 32 == 0) shared3[threadIdx.x / 32] = sum3;
  __syncthreads();
  float v3 = shared3[group * 32 + (int)(threadIdx.x % 32)];
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v3, m);
    v3 = v3 + other;
  }
  __shared__ float met3[4];
  if (threadIdx.x < 4) put_in_block((int)threadIdx.x, met3 + rank, v3);
  cluster_arrive();
  cluster_wait();
  v3 = met3[threadIdx.x % 4];
#pragma unroll
  for (int m = 2; m > 0; m /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v3, m);
    v3 = v3 + other;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I e = t + (i * 4096 + lane) * 4;
     {
      const I x1 = e;
      float s0[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v4 = v0[i * 4 + j] - v3;
        s0[j] = v4;
      }
      if (is_live) {
         {
          Pack<float, 4> t;
#pragma unroll
          for (int j = 0; j < 4; ++j) t.v[j] = s0[j];
          *(Pack<float, 4>*)(a.p2 + x0 * a.s2_0 + x1) = t;
        }
      }
    }
  }
}
