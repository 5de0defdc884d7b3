// Rows in order where nobody asks for positions: keys alone are sorted. Several rows stand side by side in the lanes of
// vectors, and a bitonic network (Batcher 1968) runs over the vectors; a long row is sorted by its keys' digits (11
// bits each). Elements that are equal but not the same, zeros of both signs and NaN, are put back in the order of their
// positions, so that values do not depend on whether positions are read. Only .ipp files include it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/order_rows.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef SINTER_NO_X86
#include <immintrin.h>
#endif

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Signed numbers whose order is that of the elements, from which the elements come back but for NaN.
template <class T>
using ValueKey = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
template <class T>
inline constexpr bool has_value_keys = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                       std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

/// The key of bits, and the bits of a key: those of negative numbers are turned round.
template <class Key>
Key turned(Key bits) {
  constexpr Key rest = std::numeric_limits<Key>::max();
  return bits ^ ((bits >> (8 * sizeof(Key) - 1)) & rest);
}
template <class T>
ValueKey<T> value_key(T x) {
  using Key = ValueKey<T>;
  if constexpr (std::is_integral_v<T>) return x;
  else return is_not_a_number(x) ? std::numeric_limits<Key>::max() : turned(std::bit_cast<Key>(x));
}
template <class T>
T value_of_key(ValueKey<T> key) {
  if constexpr (std::is_integral_v<T>) return key;
  else return std::bit_cast<T>(turned(key));
}
/// Whether elements of this kind may be equal to others without being the same.
template <class T>
bool has_ties(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return is_not_a_number(x) || std::bit_cast<ValueKey<T>>(x) == std::numeric_limits<ValueKey<T>>::min();
}
template <class T>
bool row_has_ties(const RowView<T>& row) {
  unsigned found = 0;
  for (std::int64_t i = 0; i < row.length; ++i) found |= static_cast<unsigned>(has_ties(row.at(i)));
  return found != 0;
}
/// Zeros and NaN of a sorted row as they follow one another in the row that it was.
template <class T>
void restore_ties(const T* from, T* sorted, std::int64_t length, std::int64_t stride) {
  std::int64_t zero = 0, not_a_number = 0;
  while (zero < length && sorted[zero * stride] != 0) ++zero;
  while (not_a_number < length && !is_not_a_number(sorted[not_a_number * stride])) ++not_a_number;
  for (std::int64_t i = 0; i < length; ++i) {
    const T x = from[i * stride];
    if (x == 0) sorted[zero++ * stride] = x;
    else if (is_not_a_number(x)) sorted[not_a_number++ * stride] = x;
  }
}

// ---- side by side ---------------------------------------------------------------------------------------------------

#ifndef SINTER_NO_X86

/// Keys of as many rows as a vector has lanes.
template <class Key>
struct KeyLanes;

template <>
struct KeyLanes<std::int32_t> {
  using Vector = __m256i;
  static constexpr int count = 8;
  SINTER_AVX2 static void exchange(Vector& a, Vector& b) {
    const Vector low = _mm256_min_epi32(a, b);
    b = _mm256_max_epi32(a, b);
    a = low;
  }
  SINTER_AVX2 static Vector all_of(std::int32_t x) { return _mm256_set1_epi32(x); }
  SINTER_AVX2 static Vector sign(const Vector& x) { return _mm256_srai_epi32(x, 31); }
  SINTER_AVX2 static Vector is_equal(const Vector& a, const Vector& b) { return _mm256_cmpeq_epi32(a, b); }
  SINTER_AVX2 static Vector is_above(const Vector& a, const Vector& b) { return _mm256_cmpgt_epi32(a, b); }
  /// Bit i is set where lane i is not 0.
  SINTER_AVX2 static unsigned bits_of(const Vector& mask) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
  }
  /// Eight vectors as the rows of a square become its columns.
  SINTER_AVX2 static void transpose(Vector* v) {
    Vector pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
      pairs[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
      fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
      fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
      fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
      v[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
    }
  }
};

template <>
struct KeyLanes<std::int64_t> {
  using Vector = __m256i;
  static constexpr int count = 4;
  SINTER_AVX2 static void exchange(Vector& a, Vector& b) {
    const Vector is_greater = _mm256_cmpgt_epi64(a, b), low = _mm256_blendv_epi8(a, b, is_greater);
    b = _mm256_blendv_epi8(b, a, is_greater);
    a = low;
  }
  SINTER_AVX2 static Vector all_of(std::int64_t x) { return _mm256_set1_epi64x(x); }
  SINTER_AVX2 static Vector sign(const Vector& x) { return _mm256_cmpgt_epi64(_mm256_setzero_si256(), x); }
  SINTER_AVX2 static Vector is_equal(const Vector& a, const Vector& b) { return _mm256_cmpeq_epi64(a, b); }
  SINTER_AVX2 static Vector is_above(const Vector& a, const Vector& b) { return _mm256_cmpgt_epi64(a, b); }
  SINTER_AVX2 static unsigned bits_of(const Vector& mask) {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(mask)));
  }
  SINTER_AVX2 static void transpose(Vector* v) {
    const Vector a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
    const Vector c = _mm256_unpacklo_epi64(v[2], v[3]), d = _mm256_unpackhi_epi64(v[2], v[3]);
    v[0] = _mm256_permute2x128_si256(a, c, 0x20);
    v[1] = _mm256_permute2x128_si256(b, d, 0x20);
    v[2] = _mm256_permute2x128_si256(a, c, 0x31);
    v[3] = _mm256_permute2x128_si256(b, d, 0x31);
  }
};

/// Sorts the lanes of `count` vectors. Beyond them are, in thought, vectors of the greatest key: exchanges with those
/// change nothing and are left out.
template <class Key>
struct LaneSort {
  using Lanes = KeyLanes<Key>;
  using Vector = typename Lanes::Vector;

  /// Nineteen exchanges (Knuth, volume 3, 5.3.4).
  SINTER_AVX2 static void sort_8(Vector* x) {
    constexpr int pairs[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1}, {2, 3},
                                {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
    Vector v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) v[i] = x[i];
#pragma GCC unroll 19
    for (int i = 0; i < 19; ++i) Lanes::exchange(v[pairs[i][0]], v[pairs[i][1]]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = v[i];
  }
  /// Exchanges at distances 4 step, 2 step and step in one walk.
  SINTER_AVX2 static void merge_8(Vector* x, std::int64_t step) {
    for (std::int64_t at = 0; at < step; ++at) {
      Vector v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = x[at + i * step];
#pragma GCC unroll 3
      for (int distance = 4; distance > 0; distance /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i)
          if ((i & distance) == 0) Lanes::exchange(v[i], v[i + distance]);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) x[at + i * step] = v[i];
    }
  }
  SINTER_AVX2 static void merge_2(Vector* x, std::int64_t count, std::int64_t step) {
    for (std::int64_t begin = 0; begin < count; begin += 2 * step)
      for (std::int64_t at = begin; at < std::min(begin + step, count - step); ++at)
        Lanes::exchange(x[at], x[at + step]);
  }
  SINTER_AVX2 static void merge_blocks(Vector* x, std::int64_t count, std::int64_t step) {
    std::int64_t begin = 0;
    for (; begin + 8 * step <= count; begin += 8 * step) merge_8(x + begin, step);
    for (std::int64_t distance = 4 * step; begin < count && distance >= step; distance /= 2)
      merge_2(x + begin, count - begin, distance);
  }
  /// Two sorted halves of each block: the second is read from its end.
  SINTER_AVX2 static void flip(Vector* x, std::int64_t count, std::int64_t block) {
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t last = begin + block - 1;
      for (std::int64_t at = std::max(begin, begin + last + 1 - count); at < begin + block / 2; ++at)
        Lanes::exchange(x[at], x[begin + last - at]);
    }
  }
  /// `count` is a multiple of 8.
  SINTER_AVX2 static void sort(Vector* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 8) sort_8(x + i);
    for (std::int64_t block = 16; block < 2 * count; block *= 2) {
      flip(x, count, block);
      std::int64_t step = block / 4;
      for (; step >= 4; step /= 8) merge_blocks(x, count, step / 4);
      for (; step >= 1; step /= 2) merge_2(x, count, step);
    }
  }
};

/// Rows of T beside each other as vectors of keys.
template <class T>
struct LaneRows {
  using Key = ValueKey<T>;
  using Lanes = KeyLanes<Key>;
  using Vector = typename Lanes::Vector;
  static constexpr int count = Lanes::count;
  static constexpr Key last_key = std::numeric_limits<Key>::max();

  const T* rows[as_index(count)];  // where each begins; the last ones may be the same
  std::int64_t length, stride;
  bool are_adjacent;  // rows[i] is rows[0] + i
  Direction direction;

  /// The number of vectors.
  static std::int64_t padded(std::int64_t length) { return (length + 7) / 8 * 8; }

  SINTER_AVX2 static Vector turned_lanes(const Vector& bits) {
    return _mm256_xor_si256(bits, _mm256_and_si256(Lanes::sign(bits), Lanes::all_of(last_key)));
  }
  /// Keys of bits; a lane of `ties` is set where has_ties().
  SINTER_AVX2 Vector keys_of(const Vector& bits, Vector& ties) const {
    Vector key = bits;
    if constexpr (!std::is_integral_v<T>) {
      const Vector infinite = Lanes::all_of(std::bit_cast<Key>(std::numeric_limits<T>::infinity()));
      const Vector is_nan = Lanes::is_above(_mm256_and_si256(bits, Lanes::all_of(last_key)), infinite);
      const Vector is_minus_zero = Lanes::is_equal(bits, Lanes::all_of(std::numeric_limits<Key>::min()));
      ties = _mm256_or_si256(ties, _mm256_or_si256(is_nan, is_minus_zero));
      key = _mm256_blendv_epi8(turned_lanes(bits), Lanes::all_of(last_key), is_nan);
    }
    return direction == Direction::descending ? _mm256_xor_si256(key, Lanes::all_of(-1)) : key;
  }
  SINTER_AVX2 Vector bits_of(Vector key) const {
    if (direction == Direction::descending) key = _mm256_xor_si256(key, Lanes::all_of(-1));
    return std::is_integral_v<T> ? key : turned_lanes(key);
  }
  SINTER_AVX2 Vector gathered(std::int64_t i) const {
    alignas(32) T elements[as_index(count)];
    for (int lane = 0; lane < count; ++lane) elements[lane] = rows[lane][i * stride];
    return _mm256_load_si256(reinterpret_cast<const Vector*>(elements));
  }
  SINTER_AVX2 static Vector at(const T* from) { return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from)); }

  /// The keys, and a bit for each row that has ties.
  SINTER_AVX2 unsigned load(Vector* keys) const {
    Vector ties = _mm256_setzero_si256();
    std::int64_t i = 0;
    if (are_adjacent)
      for (; i < length; ++i) keys[i] = keys_of(at(rows[0] + i * stride), ties);
    else if (stride == 1)
      for (; i + count <= length; i += count) {
        Vector square[as_index(count)];
#pragma GCC unroll 8
        for (int lane = 0; lane < count; ++lane) square[lane] = keys_of(at(rows[lane] + i), ties);
        transpose_to(keys + i, square);
      }
    unsigned found = stride == 1 && !are_adjacent ? transposed_ties(ties, i) : Lanes::bits_of(ties);
    Vector more = _mm256_setzero_si256();
    for (; i < length; ++i) keys[i] = keys_of(gathered(i), more);
    for (; i < padded(length); ++i) keys[i] = Lanes::all_of(last_key);
    return found | Lanes::bits_of(more);
  }
  /// Of squares the lanes of `ties` are places in rows: any row may have them.
  SINTER_AVX2 unsigned transposed_ties(const Vector& ties, std::int64_t seen) const {
    if (Lanes::bits_of(ties) == 0) return 0;
    unsigned found = 0;
    for (int lane = 0; lane < count; ++lane)
      for (std::int64_t i = 0; i < seen; ++i)
        if (has_ties(rows[lane][i])) {
          found |= 1u << lane;
          break;
        }
    return found;
  }
  SINTER_AVX2 static void transpose_to(Vector* to, Vector* square) {
    Lanes::transpose(square);
#pragma GCC unroll 8
    for (int lane = 0; lane < count; ++lane) to[lane] = square[lane];
  }
  /// The elements of the first `used` rows to where `results` begin.
  SINTER_AVX2 void store(const Vector* keys, T* const* results, int used) const {
    std::int64_t i = 0;
    if (are_adjacent && used == count)
      for (; i < length; ++i) _mm256_storeu_si256(reinterpret_cast<Vector*>(results[0] + i * stride), bits_of(keys[i]));
    else if (stride == 1 && used == count)
      for (; i + count <= length; i += count) {
        Vector square[as_index(count)];
#pragma GCC unroll 8
        for (int lane = 0; lane < count; ++lane) square[lane] = bits_of(keys[i + lane]);
        Lanes::transpose(square);
#pragma GCC unroll 8
        for (int lane = 0; lane < count; ++lane)
          _mm256_storeu_si256(reinterpret_cast<Vector*>(results[lane] + i), square[lane]);
      }
    for (; i < length; ++i)
      for (int lane = 0; lane < used; ++lane) results[lane][i * stride] = element(keys, i, lane);
  }
  T element(const Vector* keys, std::int64_t i, int lane) const {
    Key key;
    std::memcpy(&key, reinterpret_cast<const char*>(keys + i) + static_cast<std::size_t>(lane) * sizeof(Key),
                sizeof(Key));
    return value_of_key<T>(direction == Direction::descending ? ~key : key);
  }
};

inline bool has_lanes() { return __builtin_cpu_supports("avx2") != 0; }
#endif

// ---- one long row ---------------------------------------------------------------------------------------------------

inline constexpr int value_digit_bits = 11, value_digits = 3;
using ValueCounts = std::array<std::uint32_t, std::size_t{1} << value_digit_bits>;
inline constexpr std::uint32_t same_digits = 0xFFFF'FFFFu;  // in place of the first count: all keys have this digit

inline std::uint32_t value_digit(std::uint32_t key, int digit) {
  return (key >> (value_digit_bits * digit)) & ((1u << value_digit_bits) - 1);
}
/// The key of an element of 4 bytes as an unsigned number.
template <class T>
std::uint32_t digit_key(T x, Direction direction) {
  const std::int32_t key = value_key(x);
  return static_cast<std::uint32_t>(direction == Direction::descending ? ~key : key) ^ 0x8000'0000u;
}
template <class T>
T value_of_digits(std::uint32_t digits, Direction direction) {
  const auto key = static_cast<std::int32_t>(digits ^ 0x8000'0000u);
  return value_of_key<T>(direction == Direction::descending ? ~key : key);
}

/// From counts to places, as place_digits().
inline bool place_values(std::span<ValueCounts> of_blocks, std::int64_t length) {
  std::uint32_t place = 0;
  for (std::size_t value = 0; value < std::tuple_size_v<ValueCounts>; ++value) {
    const std::uint32_t before = place;
    for (ValueCounts& counts : of_blocks) place += std::exchange(counts[value], place);
    if (place - before == static_cast<std::uint64_t>(length)) return false;
  }
  return true;
}
/// Keys of the row, and how many there are of each value of each digit. Whether there are ties.
template <class T>
bool keys_and_counts(const RowView<T>& row, std::uint32_t* keys, std::array<ValueCounts, value_digits>& counts) {
  unsigned tied = 0;
  for (ValueCounts& of_digit : counts) of_digit.fill(0);
  for (std::int64_t i = 0; i < row.length; ++i) {
    const T x = row.at(i);
    const std::uint32_t key = digit_key(x, row.direction);
    tied |= static_cast<unsigned>(has_ties(x));
    keys[i] = key;
    for (int digit = 0; digit < value_digits; ++digit) ++counts[as_index(digit)][value_digit(key, digit)];
  }
  return tied != 0;
}
/// Sorts a row of elements of 4 bytes into `out`, as far apart as in the row. `keys` and `other` are as long as it.
template <class T>
void sort_long_row_alone(const RowView<T>& row, T* out, std::uint32_t* keys, std::uint32_t* other) {
  std::array<ValueCounts, value_digits> counts;
  const bool is_tied = keys_and_counts(row, keys, counts);
  int last = value_digits;  // the last digit in which keys differ: its walk writes the result
  for (int digit = value_digits; digit-- > 0;)
    if (!place_values({&counts[as_index(digit)], 1}, row.length)) counts[as_index(digit)][0] = same_digits;
    else if (last == value_digits) last = digit;
  for (int digit = 0; digit < last && digit < value_digits; ++digit) {
    ValueCounts& places = counts[as_index(digit)];
    if (places[0] == same_digits) continue;
    for (std::int64_t i = 0; i < row.length; ++i) other[places[value_digit(keys[i], digit)]++] = keys[i];
    std::swap(keys, other);
  }
  if (last == value_digits)
    for (std::int64_t i = 0; i < row.length; ++i) out[i * row.stride] = value_of_digits<T>(keys[i], row.direction);
  else {
    ValueCounts& places = counts[as_index(last)];
    for (std::int64_t i = 0; i < row.length; ++i) {
      const std::uint32_t key = keys[i];
      out[places[value_digit(key, last)]++ * row.stride] = value_of_digits<T>(key, row.direction);
    }
  }
  if (is_tied) restore_ties(row.first, out, row.length, row.stride);
}
/// The same by all threads.
template <class T>
void sort_long_row_shared(const RowView<T>& row, T* out, std::uint32_t* keys, std::uint32_t* other,
                          const RowBlocks& blocks) {
  std::vector<ValueCounts> counts(as_index(blocks.count));
  blocks.for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) keys[i] = digit_key(row.at(i), row.direction);
  });
  for (int digit = 0; digit < value_digits; ++digit) {
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      ValueCounts& of_block = counts[as_index(block)];
      of_block.fill(0);
      for (std::int64_t i = begin; i < end; ++i) ++of_block[value_digit(keys[i], digit)];
    });
    if (!place_values(counts, row.length)) continue;
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      ValueCounts& places = counts[as_index(block)];
      for (std::int64_t i = begin; i < end; ++i) other[places[value_digit(keys[i], digit)]++] = keys[i];
    });
    std::swap(keys, other);
  }
  blocks.for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i * row.stride] = value_of_digits<T>(keys[i], row.direction);
  });
  if (row_has_ties(row)) restore_ties(row.first, out, row.length, row.stride);
}
template <class T>
void sort_long_row(const RowView<T>& row, T* out, std::uint32_t* keys, std::uint32_t* other, RowThreads threads) {
  const RowBlocks blocks = blocks_of(row.length, threads);
  if (blocks.count == 1) sort_long_row_alone(row, out, keys, other);
  else sort_long_row_shared(row, out, keys, other, blocks);
}

/// The element number `rank` of the order of a row without ties. `keys` is as long as the row.
template <class T>
T element_of_rank(const RowView<T>& row, std::int64_t rank, std::uint32_t* keys) {
  for (std::int64_t i = 0; i < row.length; ++i) keys[i] = digit_key(row.at(i), row.direction);
  std::int64_t length = row.length;
  for (int digit = value_digits - 1; digit >= 0; --digit) {
    ValueCounts counts{}, odd{};
    for (std::int64_t i = 0; i + 1 < length; i += 2) {
      ++counts[value_digit(keys[i], digit)];
      ++odd[value_digit(keys[i + 1], digit)];
    }
    if (length % 2 != 0) ++counts[value_digit(keys[length - 1], digit)];
    std::uint32_t wanted = 0;
    for (; rank >= static_cast<std::int64_t>(counts[wanted]) + odd[wanted]; ++wanted)
      rank -= static_cast<std::int64_t>(counts[wanted]) + odd[wanted];
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint32_t key = keys[i];
      keys[kept] = key;
      kept += value_digit(key, digit) == wanted ? 1 : 0;
    }
    length = kept;
  }
  return value_of_digits<T>(keys[0], row.direction);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
