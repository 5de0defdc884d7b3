// The functions of the normal distribution in CUDA C: the same formulas as the x86 back end's (math.ipp), since CUDA's
// library has none that keeps its digits down to where the result underflows.
#pragma once

#include <sinter/base/config.hpp>

#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// The rounding of -a^2/2, which the exponential would enlarge a^2/2 times, is put back to first order.
inline constexpr std::string_view gauss_text =
    "static __device__ __forceinline__ float bounded_gauss(float a) {\n"
    "  const float half = -0.5f * a, product = half * a, power = expf(product);\n"
    "  return fmaf(power, fmaf(half, a, -product), power);\n"
    "}\n"
    "static __device__ __forceinline__ float gauss_of(float x) {\n"
    "  return x != x ? x : bounded_gauss(fminf(fabsf(x), 15.0f));\n"
    "}\n"
    "static __device__ __forceinline__ double gauss_of(double x) {\n"
    "  const double a = fabs(x) < 39.0 ? fabs(x) : 39.0, half = -0.5 * a, product = half * a;\n"
    "  const double power = exp(product);\n"
    "  return x != x ? x : fma(power, fma(half, a, -product), power);\n"
    "}\n";
// Of what is neither very large nor very small. Quotients are it with one step of Newton's.
inline constexpr std::string_view about_reciprocal_text =
    "static __device__ __forceinline__ float about_reciprocal(float x) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : "
    "\"=f\"(y) : \"f\"(x)); return y; }\n";
inline constexpr std::string_view plain_quotient_text =
    "static __device__ __forceinline__ float plain_quotient(float a, float b) {\n"
    "  const float r = about_reciprocal(b), q = a * r;\n"
    "  return fmaf(fmaf(-q, b, a), r, q);\n"
    "}\n";
// Phi(-a) e^(a^2/2) (1 + a/4), in f64 a/6, in u = a / (1 + a/4): the coefficients that tools/minimax.py makes.
inline constexpr std::string_view normal_tail_text =
    "static __device__ __forceinline__ float normal_tail(float u) {\n"
    "  const float c[] = {\n"
    "      0.18882129f, -0.07598708f, 0.024196023f, -0.005828823f, 0.0009438896f, -5.88329e-05f, -1.3789819e-05f,\n"
    "      3.072555e-06f, 1.9616664e-07f, -5.9806034e-08f\n"
    "  };\n"
    "  float sum = c[9];\n"
    "#pragma unroll\n"
    "  for (int i = 8; i >= 0; --i) sum = fmaf(sum, u - 2.0f, c[i]);\n"
    "  return sum;\n"
    "}\n"
    "static __device__ __forceinline__ double normal_tail(double u) {\n"
    "  const double c[] = {\n"
    "      0.11243234107996752, -0.030078757024269386, 0.007414871421400444, -0.0016757609406718086,\n"
    "      0.00034475127369549164, -6.391448512141667e-05, 1.0518800136811728e-05, -1.5002183489525782e-06,\n"
    "      1.7751052666781037e-07, -1.577975595209943e-08, 7.129061209944667e-10, 5.982335044883662e-11,\n"
    "      -1.5490263871244672e-11, 1.1628616611412204e-12, 6.255998925375528e-14, -2.1654445895246112e-14,\n"
    "      1.2254748699446428e-15, 2.194220245660333e-16, -3.9140861314846504e-17, -2.7004655754639313e-18,\n"
    "      5.529306374573129e-19, 4.958789593375845e-20\n"
    "  };\n"
    "  double sum = c[21];\n"
    "#pragma unroll\n"
    "  for (int i = 20; i >= 0; --i) sum = fma(sum, u - 3.5, c[i]);\n"
    "  return sum;\n"
    "}\n";
// x Phi(x) = max(x, 0) - a Phi(-a) with a = |x|; its derivative is d where x <= 0, else 1 - d. Nothing cancels, unlike
// with erf. NaN is the last addend: a case of its own would be a branch, which keeps neighbours' work apart.
inline constexpr std::string_view gelu_text =
    "static __device__ __forceinline__ float gelu_of(float x) {\n"
    "  const float a = fminf(fabsf(x), 15.0f), u = plain_quotient(a, fmaf(a, 0.25f, 1.0f));\n"
    "  return fmaf(-(u * normal_tail(u)), bounded_gauss(a), x < 0 ? -0.0f : x);\n"
    "}\n"
    "static __device__ __forceinline__ double gelu_of(double x) {\n"
    "  const double a = fabs(x) < 39.0 ? fabs(x) : 39.0, divisor = fma(a, 0.16666666666666666, 1.0), u = a / divisor;\n"
    "  return fma(-(u * normal_tail(u)), gauss_of(a), x < 0 ? -0.0 : x);\n"
    "}\n";
inline constexpr std::string_view gelu_slope_text =
    "static __device__ __forceinline__ float gelu_slope_of(float x) {\n"
    "  const float a = fminf(fabsf(x), 15.0f), divisor = fmaf(a, 0.25f, 1.0f), u = plain_quotient(a, divisor);\n"
    "  const float tail = plain_quotient(normal_tail(u), divisor);\n"
    "  const float d = bounded_gauss(a) * fmaf(a, -0.3989422804014326779f, tail);\n"
    "  return x != x ? x : x > 0 ? 1 - d : d;\n"
    "}\n"
    "static __device__ __forceinline__ double gelu_slope_of(double x) {\n"
    "  const double a = fabs(x) < 39.0 ? fabs(x) : 39.0, divisor = fma(a, 0.16666666666666666, 1.0), u = a / divisor;\n"
    "  const double d = gauss_of(a) * fma(a, -0.3989422804014326779, normal_tail(u) / divisor);\n"
    "  return x != x ? x : x > 0 ? 1 - d : d;\n"
    "}\n";
// For what is rounded to f16, bf16 or less at once: the same formula, with 1 + 0.309 a as the divisor, to a relative
// error of 1.1e-5, a fortieth of f16's last place. 18 instructions, where gelu_of has 44. The exponential is 2^8 times
// as large, and the polynomial as small, so that what is subnormal in bf16 is not flushed to zero.
inline constexpr std::string_view rounded_gelu_text =
    "static __device__ __forceinline__ float power_of_2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : "
    "\"=f\"(y) : \"f\"(x)); return y; }\n"
    "static __device__ __forceinline__ float rounded_gelu(float x) {\n"
    "  const float a = fminf(fabsf(x), 15.0f), u = a * about_reciprocal(fmaf(a, 0.309f, 1.0f));\n"
    "  float tail = fmaf(8.2153355e-7f, u, -6.7075352e-6f);\n"
    "  tail = fmaf(tail, u, -5.5468774e-7f), tail = fmaf(tail, u, 1.9874853e-4f);\n"
    "  tail = fmaf(tail, u, -9.54615e-4f), tail = fmaf(tail, u, 1.9531178e-3f);\n"
    "  return fmaf(-(u * tail), power_of_2(fmaf(-0.72134752f * a, a, 8.0f)), x < 0 ? -0.0f : x);\n"
    "}\n";

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
