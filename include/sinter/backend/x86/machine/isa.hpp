// The two instruction sets that the x86 generators write for, and what multiplies narrow numbers.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// avx2 stands for AVX2 + FMA + BMI2 + F16C; avx512 for F, DQ, BW, VL on top of that.
enum class Isa : std::uint8_t { avx2, avx512 };

/// What multiplies bf16: `fma` widens to f32 first. The others need Isa::avx512.
enum class ProductUnit : std::uint8_t { fma, avx512_bf16, amx };

constexpr int vector_bytes(Isa isa) { return isa == Isa::avx512 ? 64 : 32; }

/// Whether the machine this runs on has the instruction set.
inline bool host_has(Isa isa) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;  // not every compiler knows the name f16c
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
  const bool avx2 =
      f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (isa == Isa::avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  static_cast<void>(isa);
  return false;
#endif
}

}  // namespace x86
SINTER_NAMESPACE_END
