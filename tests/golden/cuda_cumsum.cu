typedef int I;

struct Arguments {
  const float* p0;
  float* p1;
  unsigned char* workspace;
  long long* fault;
  unsigned long long tag;
  I length;
  I s0_0;
  I s1_0;
};

extern "C" __global__ void __launch_bounds__(256) sinter_scan_rows(const __grid_constant__ Arguments a) {
  const int lane = (int)threadIdx.x;
  const I item = (I)blockIdx.x;
  const I begin = 0, end = a.length;
  const I x0 = item;
  float carry1 = 0.0f;
  __shared__ float totals1[16];
  int half = 0;
  for (I t = begin; t < end; t += 1024) {
    float tree1[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const I at = t + lane / 32 * 128 + j * 32 + lane % 32;
      const I e = at < end ? at : end - 1;
      const I x1 = e;
      const float v0 = a.p0[x0 * a.s0_0 + x1];
      tree1[j] = v0;
    }
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float other = __shfl_up_sync(0xffffffffu, tree1[j], d);
        if (lane % 32 >= d) tree1[j] = other + tree1[j];
      }
    }
    float sum1 = __shfl_sync(0xffffffffu, tree1[0], 31);
#pragma unroll
    for (int j = 1; j < 4; ++j) {
      const float own = __shfl_sync(0xffffffffu, tree1[j], 31);
      tree1[j] = sum1 + tree1[j];
      sum1 = sum1 + own;
    }
    if (lane % 32 == 0) totals1[half + lane / 32] = sum1;
    __syncthreads();
    float before1 = carry1;
    for (int k = 0; k < 8; ++k) {
      if (k < lane / 32) before1 = before1 + totals1[half + k];
      carry1 = carry1 + totals1[half + k];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      tree1[j] = before1 + tree1[j];
    }
    half ^= 8;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const I at = t + lane / 32 * 128 + j * 32 + lane % 32;
      const I e = at < end ? at : end - 1;
      const I x1 = e;
      const float v0 = a.p0[x0 * a.s0_0 + x1];
      if (at < end) {
        a.p1[x0 * a.s1_0 + x1] = tree1[j];
      }
    }
  }
}
