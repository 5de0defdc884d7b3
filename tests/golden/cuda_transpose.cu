typedef int I;
static __device__ __forceinline__ int divided(int n, int magic, int shift) { return (int)((__umulhi((unsigned)n, (unsigned)magic) + (unsigned)n) >> shift); }

struct Arguments {
  const float* p0;
  float* p1;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I hrt;
  I mrt;
  I hct;
  I mct;
  I rt;
  I ct;
  I e1;
  I e0;
  I s0_1;
  I s1_0;
};

extern "C" __global__ void __launch_bounds__(256) sinter_transpose(const __grid_constant__ Arguments a) {
  const int tx = (int)threadIdx.x % 32, ty = (int)threadIdx.x / 32;
  const I block = (I)blockIdx.x;
  const I rest = divided(block, a.mrt, a.hrt);
  const I batch = divided(rest, a.mct, a.hct);
  const I first_row = (block - rest * a.rt) * 32;
  const I first_column = (rest - batch * a.ct) * 32;
  __shared__ float square0[32][33];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I x0 = first_row + tx, x1 = first_column + ty + i * 8;
    if (x0 < a.e0 && x1 < a.e1) {
      square0[ty + i * 8][tx] = a.p0[x0 + x1 * a.s0_1];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const I x0 = first_row + ty + i * 8, x1 = first_column + tx;
    if (x0 < a.e0 && x1 < a.e1) {
      const float v0 = square0[tx][ty + i * 8];
      const float v1 = expf(v0);
      a.p1[x0 * a.s1_0 + x1] = v1;
    }
  }
}
