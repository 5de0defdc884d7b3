// Elements go in steps of 32. Of 4 bits a step is 16 bytes; those with even places are their low halves, so x is put
// into the same order before: of each step the even elements, then the odd ones. A sum has 16 lanes in the order of k,
// scaled group by group, and joined at the end, lanes 8 apart first. Plain functions over intrinsics, as in vector.ipp:
// memory is the limit.
#pragma once

#include <sinter/backend/x86/contraction/quantized.hpp>

#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/integer.ipp>
#include <sinter/backend/x86/contraction/pack.hpp>
#include <sinter/backend/x86/contraction/quantized_tiles.hpp>
#include <sinter/backend/x86/contraction/rounded_rows.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/quantized.hpp>
#include <sinter/runtime/lasting_operands.hpp>
#include <sinter/tensor/half.hpp>

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_quantized_detail {

inline constexpr std::int64_t step = 32;              // elements
inline constexpr std::int64_t most_rows_at_once = 8;  // more are a product of panels
inline constexpr int max_block = 4;                   // rows of x for which a step is decoded once

/// A weight in memory.
struct PackedWeight {
  const std::uint8_t* values = nullptr;
  const void* scales = nullptr;
  const std::uint8_t* zero_points = nullptr;  // null: none
  DType scale_dtype = DType::f32;
  int bits = 8;
  std::int64_t n = 0, groups = 0, group = 0;

  std::int64_t padded() const { return groups * group; }
  std::int64_t row_bytes() const { return padded() * bits / 8; }
  std::int64_t group_bytes() const { return group * bits / 8; }
  /// Null where they are of another dtype.
  const float* f32_scales() const { return scale_dtype == DType::f32 ? static_cast<const float*>(scales) : nullptr; }
  int zero_point(std::int64_t column, std::int64_t at) const {
    if (zero_points == nullptr) return bits == 4 ? 8 : 0;
    const std::uint8_t byte = zero_points[column * groups + at];
    return bits == 4 ? byte : std::bit_cast<std::int8_t>(byte);
  }
};

__attribute__((target("avx2,fma,f16c"))) inline float half_to_float(std::uint16_t bits) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}
__attribute__((target("avx2,fma,f16c"))) inline float scale_at(const PackedWeight& w, std::int64_t index) {
  if (w.scale_dtype == DType::f32) return static_cast<const float*>(w.scales)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(w.scales)[index];
  if (w.scale_dtype == DType::f16) return half_to_float(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rows of x in the order of steps, zeros behind k.
struct Rows {
  const float* x = nullptr;
  std::int64_t stride = 0;  // elements
  float* out = nullptr;
  std::int64_t out_stride = 0;
};

/// out[row][column] for `Count` rows and columns [begin, end).
template <int Count, int bits>
__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))) void dots_avx512(const PackedWeight& w,
                                                                                             const Rows& rows,
                                                                                             std::int64_t begin,
                                                                                             std::int64_t end) {
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512 centred = _mm512_sub_ps(table, _mm512_set1_ps(8));
  __m512i zero = _mm512_setzero_si512();
  const float* const scales = w.f32_scales();
  const std::uint8_t* at = w.values + begin * w.row_bytes();
  for (std::int64_t column = begin; column < end; ++column) {
    __m512 total[as_index(Count)];
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) total[r] = _mm512_setzero_ps();
    const float* x = rows.x;
    for (std::int64_t group = 0; group < w.groups; ++group, x += w.group) {
      if (w.zero_points != nullptr) {
        const int zero_point = w.zero_point(column, group);
        centred = _mm512_sub_ps(table, _mm512_set1_ps(static_cast<float>(zero_point)));
        zero = _mm512_set1_epi32(zero_point);
      }
      __m512 even[as_index(Count)], odd[as_index(Count)];
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r) even[r] = odd[r] = _mm512_setzero_ps();
      for (std::int64_t k = 0; k < w.group; k += step, at += step * bits / 8) {
        _mm_prefetch(reinterpret_cast<const char*>(at + 1024), _MM_HINT_T0);
        __m512 first, second;
        if constexpr (bits == 4) {
          const __m512i v = _mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
          first = _mm512_maskz_permutexvar_ps(0xFFFF, v, centred);
          second = _mm512_maskz_permutexvar_ps(0xFFFF, _mm512_maskz_srli_epi32(0xFFFF, v, 4), centred);
        } else {
          const auto* from = reinterpret_cast<const __m128i*>(at);
          const __m512i low = _mm512_maskz_cvtepi8_epi32(0xFFFF, _mm_loadu_si128(from)),
                        high = _mm512_maskz_cvtepi8_epi32(0xFFFF, _mm_loadu_si128(from + 1));
          first = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_sub_epi32(low, zero));
          second = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_sub_epi32(high, zero));
        }
#pragma GCC unroll 4
        for (int r = 0; r < Count; ++r) {
          even[r] = _mm512_fmadd_ps(first, _mm512_loadu_ps(x + r * rows.stride + k), even[r]);
          odd[r] = _mm512_fmadd_ps(second, _mm512_loadu_ps(x + r * rows.stride + k + 16), odd[r]);
        }
      }
      const std::int64_t index = column * w.groups + group;
      const __m512 scale = _mm512_set1_ps(scales != nullptr ? scales[index] : scale_at(w, index));
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r) total[r] = _mm512_fmadd_ps(_mm512_add_ps(even[r], odd[r]), scale, total[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) {
      float lane[16];
      _mm512_storeu_ps(lane, total[r]);
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
      rows.out[r * rows.out_stride + column] = lane[0];
    }
  }
}

/// The same lanes, eight at a time.
template <int Count, int bits>
__attribute__((target("avx2,fma,f16c"))) void dots_avx2(const PackedWeight& w, const Rows& rows, std::int64_t begin,
                                                        std::int64_t end) {
  const std::uint8_t* at = w.values + begin * w.row_bytes();
  for (std::int64_t column = begin; column < end; ++column) {
    __m256 total[as_index(Count)][2];
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
    const float* x = rows.x;
    for (std::int64_t group = 0; group < w.groups; ++group, x += w.group) {
      const __m256i zero = _mm256_set1_epi32(w.zero_point(column, group));
      __m256 sum[as_index(Count)][4];  // even, even, odd, odd
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r)
#pragma GCC unroll 4
        for (__m256& part : sum[r]) part = _mm256_setzero_ps();
      for (std::int64_t k = 0; k < w.group; k += step, at += step * bits / 8) {
#pragma GCC unroll 4
        for (int part = 0; part < 4; ++part) {
          __m256i q;
          if constexpr (bits == 4) {
            const __m256i v =
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 8 * (part % 2))));
            q = part < 2 ? _mm256_and_si256(v, _mm256_set1_epi32(15)) : _mm256_srli_epi32(v, 4);
          } else {
            q = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 8 * part)));
          }
          const __m256 value = _mm256_cvtepi32_ps(_mm256_sub_epi32(q, zero));
#pragma GCC unroll 4
          for (int r = 0; r < Count; ++r)
            sum[r][part] = _mm256_fmadd_ps(value, _mm256_loadu_ps(x + r * rows.stride + k + 8 * part), sum[r][part]);
        }
      }
      const __m256 scale = _mm256_set1_ps(scale_at(w, column * w.groups + group));
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < 2; ++i)
          total[r][i] = _mm256_fmadd_ps(_mm256_add_ps(sum[r][i], sum[r][i + 2]), scale, total[r][i]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) {
      float lane[8];
      _mm256_storeu_ps(lane, _mm256_add_ps(total[r][0], total[r][1]));
      for (int half = 4; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
      rows.out[r * rows.out_stride + column] = lane[0];
    }
  }
}

template <int bits>
void dots_of(const PackedWeight& w, const Rows& rows, std::int64_t count, std::int64_t begin, std::int64_t end,
             Isa isa) {
  if (isa == Isa::avx2) {
    if (count >= 2) return dots_avx2<2, bits>(w, rows, begin, end);
    return dots_avx2<1, bits>(w, rows, begin, end);
  }
  switch (count) {
    case 1: return dots_avx512<1, bits>(w, rows, begin, end);
    case 2: return dots_avx512<2, bits>(w, rows, begin, end);
    case 3: return dots_avx512<3, bits>(w, rows, begin, end);
    default: return dots_avx512<4, bits>(w, rows, begin, end);
  }
}

/// Element `from` of a row, and those behind it, as the dots read them.
template <class T>
void put_in_steps(T* to, const T* from, std::int64_t k, std::int64_t padded, int bits) {
  if (bits == 8) {
    std::copy_n(from, k, to);
    std::fill_n(to + k, padded - k, T(0));
    return;
  }
  for (std::int64_t at = 0; at < padded; at += step)
    for (std::int64_t i = 0; i < step / 2; ++i) {
      const std::int64_t even = at + 2 * i;
      to[at + i] = even < k ? from[even] : T(0);
      to[at + i + step / 2] = even + 1 < k ? from[even + 1] : T(0);
    }
}

// ---- rows rounded to i8

/// Some groups of a column, and i8 rows beside them.
struct IntegerGroups {
  const std::uint8_t* values;
  const std::int8_t* x;
  std::int64_t x_stride, steps, groups;  // steps of one group
  std::int32_t* sums;                    // [groups][max_block]
};
__attribute__((target("avx2"))) inline std::int32_t sum_of_lanes(const __m256i& sum) {
  const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  const __m128i pair = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32(pair, 0xB1)));
}
/// The products of each group by each row; values of 8 bits have 128 added, which makes them unsigned.
template <int Count, int bits>
__attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni"))) void integer_dots_vnni(const IntegerGroups& w) {
  const std::uint8_t* at = w.values;
  const std::int8_t* x = w.x;
  for (std::int64_t group = 0; group < w.groups; ++group) {
    __m256i sum[as_index(Count)];
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) sum[r] = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < w.steps; ++i, at += step * bits / 8, x += step) {
      __m256i q;
      if constexpr (bits == 4) {
        const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), low = _mm_set1_epi8(15);
        q = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_and_si128(v, low)),
                                    _mm_and_si128(_mm_srli_epi16(v, 4), low), 1);
      } else {
        q = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), _mm256_set1_epi8(-128));
      }
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r)
        sum[r] =
            _mm256_dpbusd_epi32(sum[r], q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + r * w.x_stride)));
    }
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) w.sums[group * max_block + r] = sum_of_lanes(sum[r]);
  }
}
/// The same by products of 16 bits.
template <int Count, int bits>
SINTER_AVX2 void integer_dots_avx2(const IntegerGroups& w) {
  const std::uint8_t* at = w.values;
  const std::int8_t* x = w.x;
  for (std::int64_t group = 0; group < w.groups; ++group) {
    __m256i sum[as_index(Count)];
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) sum[r] = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < w.steps; ++i, at += step * bits / 8, x += step) {
      __m128i q[2];
      if constexpr (bits == 4) {
        const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), low = _mm_set1_epi8(15);
        q[0] = _mm_and_si128(v, low);
        q[1] = _mm_and_si128(_mm_srli_epi16(v, 4), low);
      } else {
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          q[half] =
              _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * half)), _mm_set1_epi8(-128));
      }
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * w.x_stride + 16 * half));
          sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(_mm256_cvtepu8_epi16(q[half]), _mm256_cvtepi8_epi16(y)));
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) w.sums[group * max_block + r] = sum_of_lanes(sum[r]);
  }
}
using IntegerDots = void (*)(const IntegerGroups&);
template <int bits>
IntegerDots integer_dots(std::int64_t rows, bool has_vnni) {
  switch (rows) {
    case 1: return has_vnni ? integer_dots_vnni<1, bits> : integer_dots_avx2<1, bits>;
    case 2: return has_vnni ? integer_dots_vnni<2, bits> : integer_dots_avx2<2, bits>;
    case 3: return has_vnni ? integer_dots_vnni<3, bits> : integer_dots_avx2<3, bits>;
    default: return has_vnni ? integer_dots_vnni<4, bits> : integer_dots_avx2<4, bits>;
  }
}

/// Memory of this thread for a row.
inline std::int8_t* rounded_bytes(std::int64_t count) {
  std::vector<std::int8_t>& bytes = thread_object([] { return new std::vector<std::int8_t>; });
  if (std::ssize(bytes) < count) bytes.resize(as_index(count));
  return bytes.data();
}

/// Rows of integers, as the dots read them, with their scales and the sums of their groups.
struct IntegerRows {
  std::vector<std::int8_t> x;
  std::vector<float> scale;
  std::vector<std::int32_t> group_sum;
};
/// Nothing in a row of zeros; a row that has a NaN or an infinity has only NaN. `rounded` is memory for k elements.
inline void round_row(IntegerRows& rows, const PackedWeight& w, std::int64_t row, const float* x, std::int64_t k,
                      std::int8_t* rounded) {
  const float largest = largest_magnitude(x, k);
  const bool is_finite = is_finite_number(largest);
  const float quotient = largest / 127, scale = quotient > 0 ? quotient : 1;
  rows.scale[as_index(row)] = is_finite ? scale : std::nanf("");
  if (is_finite) round_to_bytes(rounded, x, k, scale);
  else std::fill_n(rounded, k, std::int8_t{0});
  for (std::int64_t group = 0; group < w.groups; ++group) {
    const std::int64_t begin = std::min(k, group * w.group), end = std::min(k, begin + w.group);
    rows.group_sum[as_index(row * w.groups + group)] = sum_of_bytes(rounded + begin, end - begin);
  }
  put_in_steps(rows.x.data() + row * w.padded(), rounded, k, w.padded(), w.bits);
}

/// Four rows at most, from `row` on, by columns [begin, end).
__attribute__((target("avx2,fma,f16c"))) inline void integer_columns(const PackedWeight& w, const IntegerRows& rows,
                                                                     IntegerDots dots, std::int64_t row,
                                                                     std::int64_t count, std::int64_t begin,
                                                                     std::int64_t end, float* out) {
  constexpr std::int64_t groups_at_once = 64;
  const std::int32_t offset = w.bits == 8 ? 128 : 0;
  for (std::int64_t column = begin; column < end; ++column) {
    float total[max_block] = {};
    for (std::int64_t first = 0; first < w.groups; first += groups_at_once) {
      const std::int64_t groups = std::min(groups_at_once, w.groups - first);
      std::int32_t sums[groups_at_once * max_block];
      dots({w.values + column * w.row_bytes() + first * w.group_bytes(),
            rows.x.data() + row * w.padded() + first * w.group, w.padded(), w.group / step, groups, sums});
      for (std::int64_t at = 0; at < groups; ++at) {
        const std::int64_t group = first + at;
        const float scale = scale_at(w, column * w.groups + group);
        const std::int32_t zero = offset + w.zero_point(column, group);
        for (std::int64_t r = 0; r < count; ++r) {
          const std::int32_t exact =
              sums[at * max_block + r] - zero * rows.group_sum[as_index((row + r) * w.groups + group)];
          total[r] = __builtin_fmaf(static_cast<float>(exact), scale, total[r]);
        }
      }
    }
    for (std::int64_t r = 0; r < count; ++r) out[r * w.n + column] = total[r] * rows.scale[as_index(row + r)];
  }
}

// ---- many rows

/// Elements [k, k_end) of a column as f32.
__attribute__((target("avx2,fma,f16c"))) inline void dequantise(const PackedWeight& w, std::int64_t column,
                                                                std::int64_t k, std::int64_t k_end, float* to) {
  const std::uint8_t* row = w.values + column * w.row_bytes();
  while (k < k_end) {
    const std::int64_t group = k / w.group, end = std::min(k_end, (group + 1) * w.group);
    const float scale = scale_at(w, column * w.groups + group);
    const int zero_point = w.zero_point(column, group);
    const __m256i zero = _mm256_set1_epi32(zero_point);
    const __m256 scales = _mm256_set1_ps(scale);
    const auto one = [&] {
      const int q = w.bits == 8 ? std::bit_cast<std::int8_t>(row[k]) : row[k / 2] >> 4 * (k % 2) & 15;
      *to++ = static_cast<float>(q - zero_point) * scale;
      ++k;
    };
    while (k < end && k % 8 != 0) one();
    for (; k + 8 <= end; k += 8, to += 8) {
      __m256i q;
      if (w.bits == 8) {
        q = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + k)));
      } else {
        std::int32_t word;
        std::memcpy(&word, row + k / 2, sizeof word);
        q = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
                             _mm256_set1_epi32(15));
      }
      _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(q, zero)), scales));
    }
    while (k < end) one();
  }
}

/// The weight as panels of f32: columns one after the other, then transposed.
class DequantisedColumns final : public PanelSource {
 public:
  PackedWeight weight;
  void bind(std::int64_t, std::int64_t width, std::int64_t rows) override {
    width_ = width;
    rows_ = rows;
  }
  void prepare() const override { buffer(width_ * rows_); }
  void make_panel(const PanelRequest& request) const override {
    const std::int64_t rows = request.k_end - request.k;
    float* const columns = buffer(request.columns * rows);
    for (std::int64_t i = 0; i < request.columns; ++i)
      dequantise(weight, request.column + i, request.k, request.k_end, columns + i * rows);
    pack_panel(request.to, reinterpret_cast<const std::byte*>(columns), rows, request.columns, request.width,
               sizeof(float), rows * std::int64_t{sizeof(float)}, sizeof(float));
  }

 private:
  static float* buffer(std::int64_t elements) {
    constexpr std::int64_t slack = 16;  // packing reads whole vectors
    std::vector<float>& columns = thread_object([] { return new std::vector<float>; });
    if (std::ssize(columns) < elements + slack) columns.resize(as_index(elements + slack));
    return columns.data();
  }
  std::int64_t width_ = 0, rows_ = 0;
};

/// C [m, n] = A [m, k] by a B whose panels are made.
inline Kernel plain_product() {
  using enum StrideClass;
  Kernel kernel;
  kernel.kind = KernelKind::contraction;
  kernel.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, true}};
  kernel.accesses.resize(3);
  for (AxisRole role : {AxisRole::parallel, AxisRole::parallel, AxisRole::reduced}) kernel.axes.push_back(role);
  const StrideClass strides[3][3] = {{any, zero, unit}, {zero, unit, any}, {any, unit, zero}};
  for (std::size_t i = 0; i < 3; ++i) {
    kernel.accesses[i].operand = static_cast<std::uint16_t>(i);
    for (std::size_t axis = 0; axis < 3; ++axis) kernel.accesses[i].stride[axis] = strides[i][axis];
    Inst load{.prim = Prim::load, .dtype = DType::f32};
    load.access = static_cast<std::uint16_t>(i);
    if (i < 2) kernel.body.push_back(load);
  }
  kernel.body.push_back({.prim = Prim::contract, .dtype = DType::f32, .args = {0, 1, no_inst}});
  kernel.stores = {{.access = 2, .value = 2}};
  return kernel;
}

class QuantizedLaunch final : public Launch {
 public:
  QuantizedLaunch(const Attrs& attrs, std::span<const Type> types, Isa isa, bool has_tiles) : isa_(isa) {
    using Op = ops::QuantizedMatmul;
    m_ = types[0].shape[0].value();
    k_ = types[0].shape[1].value();
    weight_.scale_dtype = types[2].dtype;
    weight_.bits = attrs[Op::bits] == WeightBits::four ? 4 : 8;
    weight_.group = attrs[Op::group];
    weight_.n = types[2].shape[0].value();
    weight_.groups = types[2].shape[1].value();
    has_zero_points_ = types[3].shape[1].value() > 0;
    is_dynamic_ = attrs[Op::activations] == ActivationUse::dynamic_i8;
    if (m_ == 0 || weight_.n == 0 || k_ == 0) return;
    if (is_dynamic_) {
      integers_.x.resize(as_index(m_ * weight_.padded()));
      integers_.scale.resize(as_index(m_));
      integers_.group_sum.resize(as_index(m_ * weight_.groups));
      constexpr std::int64_t weight_operands = 2 | 4 | 8, least_kept = 12, least_made = 32, tile_step = 64;
      const bool is_kept = (attrs[lasting_operands] & weight_operands) == weight_operands;
      if (has_tiles && weight_.group % tile_step == 0 && m_ >= (is_kept ? least_kept : least_made))
        tiles_.emplace(weight_, m_, is_kept);
      has_vnni_ = isa == Isa::avx512 && __builtin_cpu_supports("avx512vnni");
    } else if (m_ <= most_rows_at_once) {
      x_.resize(as_index(m_ * weight_.padded()));
    } else {
      BoundGeometry geometry;
      geometry.extent = {m_, weight_.n, k_};
      geometry.accesses.resize(3);
      geometry.accesses[0].stride = {k_, 0, 1};
      geometry.accesses[1].stride = {0, 1, 1};  // the source's
      geometry.accesses[2].stride = {weight_.n, 1, 0};
      product_ = make_product_launch(plain_product(), geometry, columns_, isa);
    }
  }
  void prepare() override {
    if (product_) product_->prepare();
    if (tiles_) tiles_->prepare();
    if (is_dynamic_) rounded_bytes(k_);
  }

  void run(void* const* operands) override {
    weight_.values = static_cast<const std::uint8_t*>(operands[1]);
    weight_.scales = operands[2];
    weight_.zero_points = has_zero_points_ ? static_cast<const std::uint8_t*>(operands[3]) : nullptr;
    const auto* x = static_cast<const float*>(operands[0]);
    auto* out = static_cast<float*>(operands[4]);
    if (k_ == 0) {
      std::fill_n(out, m_ * weight_.n, 0.F);
    } else if (m_ == 0 || weight_.n == 0) {
      return;
    } else if (is_dynamic_) {
      run_integers(x, out);
    } else if (product_) {
      columns_.weight = weight_;
      void* const places[] = {operands[0], operands[1], operands[4]};
      product_->run(places);
    } else {
      run_dots(x, out);
    }
  }

 private:
  static constexpr std::int64_t columns_per_task = 16;
  /// Ranges of columns, on threads.
  template <class F>
  void by_columns(double rows, const F& f) const {
    constexpr double bytes_per_nanosecond = 10, steps_per_nanosecond = 0.5;
    const double bytes = static_cast<double>(columns_per_task * weight_.row_bytes());
    const double steps = static_cast<double>(columns_per_task * weight_.padded() / step) * rows;
    const std::int64_t tasks = (weight_.n + columns_per_task - 1) / columns_per_task;
    parallel_for(tasks, bytes / bytes_per_nanosecond + steps / steps_per_nanosecond,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t task = begin; task < end; ++task)
                     f(task * columns_per_task, std::min(weight_.n, (task + 1) * columns_per_task));
                 });
  }
  void run_dots(const float* x, float* out) {
    constexpr std::int64_t l1_bytes = 40 << 10;  // rows that leave the first cache cost more than decoding again
    const std::int64_t padded = weight_.padded(), most = isa_ == Isa::avx512 ? max_block : 2;
    const std::int64_t block = std::clamp<std::int64_t>(l1_bytes / (padded * std::int64_t{sizeof(float)}), 1, most);
    for (std::int64_t row = 0; row < m_; ++row)
      put_in_steps(x_.data() + row * padded, x + row * k_, k_, padded, weight_.bits);
    by_columns(static_cast<double>(m_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < m_; row += block) {
        const Rows rows{x_.data() + row * padded, padded, out + row * weight_.n, weight_.n};
        const std::int64_t count = std::min(block, m_ - row);
        if (weight_.bits == 4) dots_of<4>(weight_, rows, count, begin, end, isa_);
        else dots_of<8>(weight_, rows, count, begin, end, isa_);
      }
    });
  }
  void run_integers(const float* x, float* out) {
    constexpr double elements_per_nanosecond = 2;
    parallel_for(m_, static_cast<double>(k_) / elements_per_nanosecond, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        round_row(integers_, weight_, row, x + row * k_, k_, rounded_bytes(k_));
    });
    if (tiles_)
      return tiles_->run(weight_, {integers_.x.data(), integers_.scale.data(), integers_.group_sum.data()}, out);
    by_columns(static_cast<double>(m_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < m_; row += max_block) {
        const std::int64_t count = std::min<std::int64_t>(max_block, m_ - row);
        const IntegerDots dots =
            weight_.bits == 4 ? integer_dots<4>(count, has_vnni_) : integer_dots<8>(count, has_vnni_);
        integer_columns(weight_, integers_, dots, row, count, begin, end, out + row * weight_.n);
      }
    });
  }

  Isa isa_;
  PackedWeight weight_;
  std::int64_t m_ = 0, k_ = 0;
  bool has_zero_points_ = false, is_dynamic_ = false, has_vnni_ = false;
  std::vector<float> x_;
  IntegerRows integers_;
  std::optional<TiledProduct> tiles_;
  DequantisedColumns columns_;
  std::unique_ptr<Launch> product_;
};

template <Isa isa, bool has_tiles>
std::unique_ptr<Launch> launch_quantized(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<QuantizedLaunch>(attrs, types, isa, has_tiles);
}

}  // namespace x86_quantized_detail

SINTER_DECL Intrinsic quantized_intrinsic(const Graph& graph, const Node& node, Isa isa, ProductUnit unit) {
  using Quantized = ops::QuantizedMatmul;
  if (node.op != &op_info<Quantized> || node.types[0].dtype != DType::f32) return nullptr;
  const Type scales = graph.type(node.inputs[2]);
  const bool takes_scales = scales.dtype == DType::f32 || scales.dtype == DType::f16 || scales.dtype == DType::bf16;
  if (!takes_scales || node.attrs[Quantized::group] % x86_quantized_detail::step != 0) return nullptr;
  // Products of one group of i8 stay below 2^31.
  constexpr std::int64_t longest_integer_group = 1 << 15;
  const bool is_dynamic = node.attrs[Quantized::activations] == ActivationUse::dynamic_i8;
  if (is_dynamic && node.attrs[Quantized::group] > longest_integer_group) return nullptr;
  using namespace x86_quantized_detail;
  if (isa != Isa::avx512) return launch_quantized<Isa::avx2, false>;
  const bool has_tiles = is_dynamic && unit == ProductUnit::amx && x86_integer_detail::has_integer_tiles();
  return has_tiles ? launch_quantized<Isa::avx512, true> : launch_quantized<Isa::avx512, false>;
}

}  // namespace x86
SINTER_NAMESPACE_END
