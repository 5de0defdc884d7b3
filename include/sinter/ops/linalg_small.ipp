// Gaussian elimination with partial pivoting, Cholesky's factorisation and substitution over lanes. The same code is
// compiled for three widths of registers. Conditions are masks made by arithmetic on the bits of numbers: GCC takes
// comparisons of vectors apart, lane by lane, in functions whose target is set by an attribute.
#pragma once

#include <sinter/ops/linalg_small.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/processor.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/small_lanes.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Both types see each other's memory: a compiler that takes them for strangers reads pivots that were exchanged since.
template <class T>
struct SmallLanes;
template <>
struct SmallLanes<float> {
  typedef float Vector __attribute__((vector_size(64), may_alias));
  using Integer = std::int32_t;
  typedef Integer Mask __attribute__((vector_size(64), may_alias));
};
template <>
struct SmallLanes<double> {
  typedef double Vector __attribute__((vector_size(64), may_alias));
  using Integer = std::int64_t;
  typedef Integer Mask __attribute__((vector_size(64), may_alias));
};

/// Masks of lanes, all bits set or none. The bits of a number without its sign, as an integer, have the order of sizes;
/// NaN is larger than infinity. Results are parameters: functions that return wide vectors would have another calling
/// convention than their callers.
template <class T>
struct SmallMasks {
  using Vector = typename SmallLanes<T>::Vector;
  using Mask = typename SmallLanes<T>::Mask;
  using Integer = typename SmallLanes<T>::Integer;
  static constexpr int sign_place = 8 * static_cast<int>(sizeof(T)) - 1;
  static constexpr Integer size_bits = std::numeric_limits<Integer>::max();
  static constexpr Integer infinity_bits =
      sizeof(T) == 4 ? Integer{0x7f800000} : static_cast<Integer>(0x7ff0000000000000);

  static SINTER_ALWAYS_INLINE const Mask& bits_of(const Vector& x) { return reinterpret_cast<const Mask&>(x); }
  static SINTER_ALWAYS_INLINE const Vector& number_of(const Mask& bits) {
    return reinterpret_cast<const Vector&>(bits);
  }
  static SINTER_ALWAYS_INLINE void find_larger(Mask& out, const Vector& a, const Vector& b) {
    out = ((bits_of(b) & size_bits) - (bits_of(a) & size_bits)) >> sign_place;
  }
  static SINTER_ALWAYS_INLINE void find_zero(Mask& out, const Vector& x) {
    out = ((bits_of(x) & size_bits) - 1) >> sign_place;
  }
  static SINTER_ALWAYS_INLINE void find_not_positive(Mask& out, const Vector& x) {
    const Mask sign = bits_of(x) >> sign_place, size = bits_of(x) & size_bits;
    out = sign | ((size - 1) >> sign_place) | ((infinity_bits - size) >> sign_place);
  }
  static SINTER_ALWAYS_INLINE void exchange_where(const Mask& mask, Vector& a, Vector& b) {
    const Mask difference = (bits_of(a) ^ bits_of(b)) & mask;
    const Mask first = bits_of(a) ^ difference, second = bits_of(b) ^ difference;
    a = number_of(first);
    b = number_of(second);
  }
};

/// The matrices of all lanes, and the right sides beside them.
template <class T>
struct SmallBlock {
  using Vector = typename SmallLanes<T>::Vector;
  using Mask = typename SmallLanes<T>::Mask;
  static constexpr std::int64_t lanes = 64 / static_cast<std::int64_t>(sizeof(T));
  Vector at[most_small_rows][most_small_rows + most_small_columns];
  Mask info;
};

/// Where the elements of arrays [rows, columns] stand in a block, in vectors from its first one: found once for all.
class SmallPlaces {
 public:
  SmallPlaces(std::int64_t rows, std::int64_t columns, std::int64_t first_column, bool is_transposed) {
    constexpr std::int64_t row = most_small_rows + most_small_columns;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        places_[i * columns + j] =
            static_cast<std::int32_t>(first_column + (is_transposed ? j * row + i : i * row + j));
  }
  template <class Block>
  SINTER_ALWAYS_INLINE auto* of(Block& block, std::int64_t e) const {
    return &block.at[0][0] + places_[e];
  }

 private:
  std::int32_t places_[most_small_rows * most_small_columns];
};
/// Arrays of `size` numbers, of all lanes, by registers of `width` of them.
template <int width, class T>
SINTER_ALWAYS_INLINE void load_all_lanes(SmallBlock<T>& block, const T* from, std::int64_t size,
                                         const SmallPlaces& places) {
  using Loads = SmallLoads<T, width>;
  using Anywhere = typename Loads::Anywhere;
  for (std::int64_t part = 0; part < SmallBlock<T>::lanes / width; ++part, from += width * size) {
    typename Loads::Vector x[4];
    if (Loads::is_short(size)) {
      Loads::load_short(x, from, size);
      for (std::int64_t e = 0; e < size; ++e) reinterpret_cast<Anywhere*>(places.of(block, e))[part] = x[e];
      continue;
    }
    for (std::int64_t e = 0; e < size; e += Loads::piece) {
      e = std::min(e, size - Loads::piece);  // what is left takes some of the elements before along
      Loads::load_piece(x, from, size, e);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Loads::piece; ++i) reinterpret_cast<Anywhere*>(places.of(block, e + i))[part] = x[i];
    }
  }
}
template <int width, class T>
SINTER_ALWAYS_INLINE void store_all_lanes(const SmallBlock<T>& block, T* to, std::int64_t size,
                                          const SmallPlaces& places) {
  using Loads = SmallLoads<T, width>;
  using Anywhere = typename Loads::Anywhere;
  for (std::int64_t part = 0; part < SmallBlock<T>::lanes / width; ++part, to += width * size) {
    typename Loads::Vector x[4];
    if (Loads::is_short(size)) {
      for (std::int64_t e = 0; e < size; ++e) x[e] = reinterpret_cast<const Anywhere*>(places.of(block, e))[part];
      Loads::store_short(to, x, size);
      continue;
    }
    for (std::int64_t e = 0; e < size; e += Loads::piece) {
      e = std::min(e, size - Loads::piece);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < Loads::piece; ++i)
        x[i] = reinterpret_cast<const Anywhere*>(places.of(block, e + i))[part];
      Loads::store_piece(to, x, size, e);
    }
  }
}

/// The arrays of the lanes that are used; lanes behind the last one repeat it.
template <int width, class T>
SINTER_ALWAYS_INLINE void load_small(SmallBlock<T>& block, const T* from, std::int64_t used, std::int64_t size,
                                     const SmallPlaces& places) {
  constexpr std::int64_t lanes = SmallBlock<T>::lanes;
  if (used == lanes) return load_all_lanes<width>(block, from, size, places);
  for (std::int64_t e = 0; e < size; ++e) {
    T* const place = reinterpret_cast<T*>(places.of(block, e));
    for (std::int64_t lane = 0; lane < lanes; ++lane) place[lane] = from[std::min(lane, used - 1) * size + e];
  }
}
template <int width, class T>
SINTER_ALWAYS_INLINE void store_small(const SmallBlock<T>& block, T* to, std::int64_t used, std::int64_t size,
                                      const SmallPlaces& places) {
  if (used == SmallBlock<T>::lanes) return store_all_lanes<width>(block, to, size, places);
  for (std::int64_t e = 0; e < size; ++e) {
    const T* const place = reinterpret_cast<const T*>(places.of(block, e));
    for (std::int64_t lane = 0; lane < used; ++lane) to[lane * size + e] = place[lane];
  }
}

/// The first step at which a lane fails.
template <class T>
SINTER_ALWAYS_INLINE void note_small(SmallBlock<T>& block, const typename SmallBlock<T>::Mask& fails,
                                     std::int64_t step) {
  using Integer = typename SmallLanes<T>::Integer;
  const typename SmallBlock<T>::Mask is_first = (block.info - 1) >> SmallMasks<T>::sign_place;
  block.info |= fails & is_first & static_cast<Integer>(step + 1);
}

template <class T>
SINTER_ALWAYS_INLINE void note_first_failure(const SmallBlock<T>& block, std::int64_t first, std::int64_t used,
                                             std::atomic<std::int64_t>& least) {
  std::uint64_t parts[8], any = 0;
  std::memcpy(parts, &block.info, sizeof parts);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) any |= parts[i];
  if (any == 0) return;
  for (std::int64_t lane = 0; lane < used; ++lane) {
    if (block.info[lane] == 0) continue;
    const std::int64_t place = SmallFailure{first + lane, static_cast<std::int32_t>(block.info[lane])}.place();
    std::int64_t known = least.load(std::memory_order_relaxed);
    while (place < known && !least.compare_exchange_weak(known, place, std::memory_order_relaxed)) {}
    return;
  }
}

/// Upper triangles, and right sides to which the same was done. Gives the product of the pivots and the signs of the
/// exchanges. A column stays in registers while its rows are exchanged and subtracted; so n is known here.
template <int n, class T>
SINTER_ALWAYS_INLINE void eliminate_small_rows(SmallBlock<T>& block, std::int64_t width,
                                               typename SmallBlock<T>::Vector& determinant) {
  using Vector = typename SmallBlock<T>::Vector;
  using Masks = SmallMasks<T>;
  constexpr auto sign = std::numeric_limits<typename Masks::Integer>::min();
  constexpr std::size_t rows = static_cast<std::size_t>(n);
  determinant = Vector{} + T(1);
#pragma GCC unroll 8
  for (int j = 0; j < n; ++j) {
    typename Masks::Mask exchanges[rows];
    Vector factors[rows];
    Vector pivot = block.at[j][j];
#pragma GCC unroll 8
    for (int i = j + 1; i < n; ++i) {
      factors[i] = block.at[i][j];
      Masks::find_larger(exchanges[i], factors[i], pivot);
      Masks::exchange_where(exchanges[i], pivot, factors[i]);
      const typename Masks::Mask signed_bits = Masks::bits_of(determinant) ^ (exchanges[i] & sign);
      determinant = Masks::number_of(signed_bits);
    }
    block.at[j][j] = pivot;
    determinant *= pivot;
    typename Masks::Mask is_singular;
    Masks::find_zero(is_singular, pivot);
    note_small(block, is_singular, j);
#pragma GCC unroll 8
    for (int i = j + 1; i < n; ++i) {
      const Vector quotient = factors[i] / pivot;
      const typename Masks::Mask kept_bits = Masks::bits_of(quotient) & ~is_singular;
      factors[i] = Masks::number_of(kept_bits);
    }
    for (std::int64_t c = j + 1; c < width; ++c) {
      Vector top = block.at[j][c], column[rows];
#pragma GCC unroll 8
      for (int i = j + 1; i < n; ++i) {
        column[i] = block.at[i][c];
        Masks::exchange_where(exchanges[i], top, column[i]);
      }
      block.at[j][c] = top;
#pragma GCC unroll 8
      for (int i = j + 1; i < n; ++i) block.at[i][c] = column[i] - factors[i] * top;
    }
  }
}
template <class T>
SINTER_ALWAYS_INLINE void eliminate_small(SmallBlock<T>& block, std::int64_t n, std::int64_t width,
                                          typename SmallBlock<T>::Vector& determinant) {
  switch (n) {
    case 1: return eliminate_small_rows<1>(block, width, determinant);
    case 2: return eliminate_small_rows<2>(block, width, determinant);
    case 3: return eliminate_small_rows<3>(block, width, determinant);
    case 4: return eliminate_small_rows<4>(block, width, determinant);
    case 5: return eliminate_small_rows<5>(block, width, determinant);
    case 6: return eliminate_small_rows<6>(block, width, determinant);
    case 7: return eliminate_small_rows<7>(block, width, determinant);
    case 8: return eliminate_small_rows<8>(block, width, determinant);
    default: __builtin_unreachable();  // most_small_rows, which SmallSolve requires
  }
}

/// Right sides behind a triangle, from the first row to the last or the other way.
template <class T>
SINTER_ALWAYS_INLINE void substitute_small(SmallBlock<T>& block, std::int64_t n, std::int64_t columns, bool is_forward,
                                           bool is_unit) {
  for (std::int64_t done = 0; done < n; ++done) {
    const std::int64_t i = is_forward ? done : n - 1 - done;
    for (std::int64_t c = n; c < n + columns; ++c) {
      auto value = block.at[i][c];
      for (std::int64_t other = 0; other < done; ++other) {
        const std::int64_t j = is_forward ? other : n - 1 - other;
        value -= block.at[i][j] * block.at[j][c];
      }
      block.at[i][c] = is_unit ? value : value / block.at[i][i];
    }
  }
}

/// Lower triangles in place, zeros above them.
template <class T>
SINTER_ALWAYS_INLINE void factor_small(SmallBlock<T>& block, std::int64_t n) {
  using Vector = typename SmallBlock<T>::Vector;
  for (std::int64_t j = 0; j < n; ++j) {
    Vector square = block.at[j][j];
    for (std::int64_t k = 0; k < j; ++k) square -= block.at[j][k] * block.at[j][k];
    typename SmallBlock<T>::Mask fails;
    SmallMasks<T>::find_not_positive(fails, square);
    note_small(block, fails, j);
    Vector root = square;
    for (std::int64_t lane = 0; lane < block.lanes; ++lane)
      if (square[lane] > 0) root[lane] = std::sqrt(square[lane]);
    block.at[j][j] = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      Vector sum = block.at[i][j];
      for (std::int64_t k = 0; k < j; ++k) sum -= block.at[i][k] * block.at[j][k];
      block.at[i][j] = sum / block.at[j][j];
      block.at[j][i] = Vector{};
    }
  }
}

/// `width`: lanes of a register.
template <int width, class T>
SINTER_ALWAYS_INLINE void compute_small_block(const SmallMatrices<T>& w, const SmallPlaces& matrix,
                                              const SmallPlaces& right_side, std::int64_t first, std::int64_t used) {
  using Vector = typename SmallBlock<T>::Vector;
  SmallBlock<T> block;
  block.info = typename SmallBlock<T>::Mask{};
  const std::int64_t n = w.n, columns = w.use == SmallUse::inverse ? n : w.columns;
  load_small<width>(block, w.a + first * n * n, used, n * n, matrix);
  if (w.b != nullptr) load_small<width>(block, w.b + first * n * columns, used, n * columns, right_side);
  switch (w.use) {
    case SmallUse::inverse:
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) block.at[i][n + j] = Vector{} + T(i == j ? 1 : 0);
      [[fallthrough]];
    case SmallUse::solve:
    case SmallUse::determinant: {  // one call, since elimination is inlined for each number of rows
      const bool is_determinant = w.use == SmallUse::determinant;
      Vector determinant;
      eliminate_small(block, n, is_determinant ? n : n + columns, determinant);
      if (is_determinant) {
        for (std::int64_t lane = 0; lane < used; ++lane) w.out[first + lane] = determinant[lane];
        break;
      }
      substitute_small(block, n, columns, false, false);
      store_small<width>(block, w.out + first * n * columns, used, n * columns, right_side);
      break;
    }
    case SmallUse::cholesky:
      factor_small(block, n);
      store_small<width>(block, w.out + first * n * n, used, n * n, matrix);
      break;
    case SmallUse::triangular:
      substitute_small(block, n, columns, w.upper == w.transposed, w.unit);
      store_small<width>(block, w.out + first * n * columns, used, n * columns, right_side);
      break;
  }
  if (w.first_failure != nullptr) note_first_failure(block, first, used, *w.first_failure);
  if (w.info == nullptr) return;
  for (std::int64_t lane = 0; lane < used; ++lane) w.info[first + lane] = static_cast<std::int32_t>(block.info[lane]);
}
template <int width, class T>
SINTER_ALWAYS_INLINE void compute_small_blocks(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t lanes = SmallBlock<T>::lanes;
  const std::int64_t n = work.n, size = n * n;
  const SmallPlaces matrix(n, n, 0, work.transposed);
  const SmallPlaces right_side(n, work.use == SmallUse::inverse ? n : work.columns, n, false);
  for (std::int64_t i = begin; i < end; i += lanes) {
    // Lanes are read side by side, an order in which processors do not see a stream.
    for (std::int64_t at = (i + lanes) * size; at < std::min(i + 2 * lanes, end) * size; at += lanes)
      __builtin_prefetch(work.a + at);
    compute_small_block<width>(work, matrix, right_side, i, std::min(lanes, end - i));
  }
}

template <class T>
void compute_small_plain(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
  compute_small_blocks<static_cast<int>(16 / sizeof(T))>(work, begin, end);
}
#ifndef SINTER_NO_X86
template <class T>
__attribute__((target("avx2,fma"))) void compute_small_avx2(const SmallMatrices<T>& work, std::int64_t begin,
                                                            std::int64_t end) {
  compute_small_blocks<static_cast<int>(32 / sizeof(T))>(work, begin, end);
}
template <class T>
__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))) void compute_small_avx512(const SmallMatrices<T>& work,
                                                                                        std::int64_t begin,
                                                                                        std::int64_t end) {
  compute_small_blocks<static_cast<int>(64 / sizeof(T))>(work, begin, end);
}
#endif

/// Matrices [begin, end). The results are the same however a batch is divided.
template <class T>
void compute_small(const SmallMatrices<T>& work, std::int64_t begin, std::int64_t end) {
#ifndef SINTER_NO_X86
  if (base_detail::has_avx512()) return compute_small_avx512(work, begin, end);
  if (base_detail::has_avx2()) return compute_small_avx2(work, begin, end);
#endif
  compute_small_plain(work, begin, end);
}

template <class T>
void compute_small_batch(const SmallMatrices<T>& work, std::int64_t count) {
  constexpr std::int64_t together = 64;  // whole vectors of either dtype
  const double n = static_cast<double>(work.n), operations = n * n * (n + static_cast<double>(work.columns));
  parallel_for((count + together - 1) / together, together * (5 + operations / 8),
               [&](std::int64_t begin, std::int64_t end) {
                 compute_small(work, begin * together, std::min(count, end * together));
               });
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
