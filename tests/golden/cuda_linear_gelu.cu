typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
static __device__ __forceinline__ int divided(int n, int magic, int shift) { return (int)((__umulhi((unsigned)n, (unsigned)magic) + (unsigned)n) >> shift); }
static __device__ __forceinline__ float bounded_gauss(float a) {
  const float half = -0.5f * a, product = half * a, power = expf(product);
  return fmaf(power, fmaf(half, a, -product), power);
}
static __device__ __forceinline__ float gauss_of(float x) {
  return x != x ? x : bounded_gauss(fminf(fabsf(x), 15.0f));
}
static __device__ __forceinline__ double gauss_of(double x) {
  const double a = fabs(x) < 39.0 ? fabs(x) : 39.0, half = -0.5 * a, product = half * a;
  const double power = exp(product);
  return x != x ? x : fma(power, fma(half, a, -product), power);
}
static __device__ __forceinline__ float about_reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ float plain_quotient(float a, float b) {
  const float r = about_reciprocal(b), q = a * r;
  return fmaf(fmaf(-q, b, a), r, q);
}
static __device__ __forceinline__ float normal_tail(float u) {
  const float c[] = {
      0.18882129f, -0.07598708f, 0.024196023f, -0.005828823f, 0.0009438896f, -5.88329e-05f, -1.3789819e-05f,
      3.072555e-06f, 1.9616664e-07f, -5.9806034e-08f
  };
  float sum = c[9];
#pragma unroll
  for (int i = 8; i >= 0; --i) sum = fmaf(sum, u - 2.0f, c[i]);
  return sum;
}
static __device__ __forceinline__ double normal_tail(double u) {
  const double c[] = {
      0.11243234107996752, -0.030078757024269386, 0.007414871421400444, -0.0016757609406718086,
      0.00034475127369549164, -6.391448512141667e-05, 1.0518800136811728e-05, -1.5002183489525782e-06,
      1.7751052666781037e-07, -1.577975595209943e-08, 7.129061209944667e-10, 5.982335044883662e-11,
      -1.5490263871244672e-11, 1.1628616611412204e-12, 6.255998925375528e-14, -2.1654445895246112e-14,
      1.2254748699446428e-15, 2.194220245660333e-16, -3.9140861314846504e-17, -2.7004655754639313e-18,
      5.529306374573129e-19, 4.958789593375845e-20
  };
  double sum = c[21];
#pragma unroll
  for (int i = 20; i >= 0; --i) sum = fma(sum, u - 3.5, c[i]);
  return sum;
}
static __device__ __forceinline__ float gelu_of(float x) {
  const float a = fminf(fabsf(x), 15.0f), u = plain_quotient(a, fmaf(a, 0.25f, 1.0f));
  return fmaf(-(u * normal_tail(u)), bounded_gauss(a), x < 0 ? -0.0f : x);
}
static __device__ __forceinline__ double gelu_of(double x) {
  const double a = fabs(x) < 39.0 ? fabs(x) : 39.0, divisor = fma(a, 0.16666666666666666, 1.0), u = a / divisor;
  return fma(-(u * normal_tail(u)), gauss_of(a), x < 0 ? -0.0 : x);
}

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
          const float v5 = gelu_of(v4);
          s0[j] = v5;
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
