typedef int I;
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
static __device__ __forceinline__ int divided(int n, int magic, int shift) { return (int)((__umulhi((unsigned)n, (unsigned)magic) + (unsigned)n) >> shift); }
static __device__ __forceinline__ unsigned char* dynamic_shared() { extern __shared__ __align__(128) unsigned char dynamic_memory[]; return dynamic_memory; }
template <int bytes> static __device__ __forceinline__ void copy_async(void* to, const void* from, bool is_inside) { const unsigned place = (unsigned)__cvta_generic_to_shared(to); if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(place), "l"(from), "r"(is_inside ? 16 : 0) : "memory"); else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" : : "r"(place), "l"(from), "n"(bytes), "r"(is_inside ? bytes : 0) : "memory"); }
static __device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int pending> static __device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory"); }
static __device__ __forceinline__ void read_matrices(float (&r)[4], const float* row) { unsigned a, b, c, d; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); r[0] = __uint_as_float(a), r[1] = __uint_as_float(b), r[2] = __uint_as_float(c), r[3] = __uint_as_float(d); }
static __device__ __forceinline__ void mma_tf32(float (&c)[4], const float (&a)[4], const float (&b)[2]) { asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1]))); }
static __device__ __forceinline__ float to_tf32(float x) { unsigned bits; asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x)); return __uint_as_float(bits); }
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
  I e0;
  I s0_0;
  I e1;
  I s1_2;
  I s3_0;
};

extern "C" __global__ void __launch_bounds__(256) sinter_product(const __grid_constant__ Arguments a) {
  const I block = (I)blockIdx.x;
  const I tile_row = divided(block, a.mct, a.hct);
  const I tile_batch = divided(tile_row, a.mrt, a.hrt);
  const I first_column = (block - tile_row * a.ct) * 128;
  const I first_row = (tile_row - tile_batch * a.rt) * 128;
  const I begin = 0, end = a.e2;
  const int lane = (int)(threadIdx.x % 32), lane_row = lane / 4, lane_depth = lane % 4, warp = (int)(threadIdx.x / 32);
  const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  float* const left_tile = (float*)dynamic_shared();
  const int left_depth = (int)(threadIdx.x % 8) * 4, left_place = (int)(threadIdx.x / 8);
  const float* const left_from = a.p0 + 0;
  const int right_depth = (int)(threadIdx.x / 32), right_place = (int)(threadIdx.x % 32) * 4;
  const float* const right_from = a.p1 + 0;
  int left_lane[1];
#pragma unroll
  for (int v = 0; v < 1; ++v) left_lane[v] = (warp_row + lane % 8 + lane / 8 % 2 * 8) * 32 + (lane / 16 ^ lane % 8) * 4;
  int right_lane[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) right_lane[v] = 4096 + lane_depth * 128 + warp_column + ((v * 2 + lane_row / 4) ^ lane_depth * 2) * 4 + lane_row % 4;
  float sum[4][4][4] = {};
  int stage = 0;
#pragma unroll 1
  for (I done = begin - 96; done < end; done += 32) {
    const bool has_tile = done >= begin;
    if (has_tile) {
      copy_async_wait<2>();
      __syncthreads();
    }
    const I t = done + 96;
    float* const filled = left_tile + stage * 8192;
    if (t < end) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const I k = t + left_depth, x = first_row + left_place + i * 32;
        copy_async<16>(filled + (left_place + i * 32) * 32 + ((left_depth) / 4 ^ (left_place + i * 32) % 8) * 4 + (left_depth) % 4, left_from + x * a.s0_0 + k, k < end && x < a.e0);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const I k = t + right_depth + i * 8, x = first_column + right_place;
        copy_async<16>(filled + 4096 + (right_depth + i * 8) * 128 + ((right_place) / 4 ^ (right_depth + i * 8) % 4 * 2) * 4 + (right_place) % 4, right_from + x + k * a.s1_2, k < end && x < a.e1);
      }
    }
    copy_async_commit();
    stage = stage + 1 == 4 ? 0 : stage + 1;
    const float* const now = left_tile + stage * 8192;
    if (has_tile) {
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        float left[4][4], right[4][2];
#pragma unroll
        for (int b = 0; b < 4; ++b) read_matrices(left[b], now + (left_lane[0] ^ d * 8) + b * 512);
#pragma unroll
        for (int b = 0; b < 4; ++b) {
#pragma unroll
          for (int r = 0; r < 4; ++r) left[b][r] = to_tf32(left[b][r]);
        }
#pragma unroll
        for (int b = 0; b < 4; ++b) {
#pragma unroll
          for (int r = 0; r < 2; ++r) right[b][r] = *(now + right_lane[b % 4] + b / 4 * 32 + (d * 8 + r * 4) * 128);
        }
#pragma unroll
        for (int b = 0; b < 4; ++b) {
#pragma unroll
          for (int r = 0; r < 2; ++r) right[b][r] = to_tf32(right[b][r]);
        }
#pragma unroll
        for (int b = 0; b < 4; ++b) {
#pragma unroll
          for (int c = 0; c < 4; ++c) mma_tf32(sum[b][c], left[b], right[c]);
        }
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int b = 0; b < 4; ++b) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Pack<float, 2> p = {{sum[b][c][i * 2], sum[b][c][i * 2 + 1]}};
        *(Pack<float, 2>*)(left_tile + (warp_row + b * 16 + i * 8 + lane_row) * 132 + warp_column + c * 8 + lane_depth * 2) = p;
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int q = (int)threadIdx.x; q < 4096; q += 256) {
    const I x0 = first_row + q / 32, x1 = first_column + q % 32 * 4;
    const Pack<float, 4> sums = *(const Pack<float, 4>*)(left_tile + q / 32 * 132 + q % 32 * 4);
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
