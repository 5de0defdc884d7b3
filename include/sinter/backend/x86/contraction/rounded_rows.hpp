// Rows of f32 rounded to bytes.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/number_kind.hpp>

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_quantized_detail {

/// Infinity where an element is infinite or NaN.
SINTER_AVX2 inline float largest_magnitude(const float* x, std::int64_t count) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const __m256 sign = _mm256_set1_ps(-0.F), limit = _mm256_set1_ps(infinity);
  __m256 largest = _mm256_setzero_ps(), is_finite = _mm256_cmp_ps(sign, sign, _CMP_EQ_OQ);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 magnitude = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i));
    largest = _mm256_max_ps(largest, magnitude);
    is_finite = _mm256_and_ps(is_finite, _mm256_cmp_ps(magnitude, limit, _CMP_LT_OQ));
  }
  if (_mm256_movemask_ps(is_finite) != 0xFF) return infinity;
  float lanes[8], result = 0;
  _mm256_storeu_ps(lanes, largest);
  for (const float lane : lanes) result = lane > result ? lane : result;
  for (; i < count; ++i) {
    if (!is_finite_number(x[i])) return infinity;
    result = std::abs(x[i]) > result ? std::abs(x[i]) : result;
  }
  return result;
}

/// x / scale, rounded to the nearest, ties to even, from -127 to 127.
SINTER_AVX2 inline void round_to_bytes(std::int8_t* to, const float* x, std::int64_t count, float scale) {
  const __m256 by = _mm256_set1_ps(scale), high = _mm256_set1_ps(127), low = _mm256_set1_ps(-127);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 number = _mm256_div_ps(_mm256_loadu_ps(x + i), by);
    const __m256i wide = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(number, high), low));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), _mm_packs_epi16(words, words));
  }
  for (; i < count; ++i) {
    const float number = std::nearbyint(x[i] / scale);
    to[i] = static_cast<std::int8_t>(number > 127 ? 127 : number < -127 ? -127 : number);
  }
}

SINTER_AVX2 inline std::int32_t sum_of_bytes(const std::int8_t* x, std::int64_t count) {
  __m256i sums = _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(words, ones));
  }
  std::int32_t lanes[8], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums);
  for (const std::int32_t lane : lanes) sum += lane;
  for (; i < count; ++i) sum += x[i];
  return sum;
}

}  // namespace x86_quantized_detail
}  // namespace x86
SINTER_NAMESPACE_END
