// The three passes over memory that take the time of a symmetric eigenproblem, over vectors of any width. Knows
// addresses and extents only. Sums have 64 bytes of places whatever the width; with and without fma digits differ.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Rows of matrices are padded with zeros to whole blocks of so many elements.
template <class T>
inline constexpr std::int64_t symmetric_block = 64 / static_cast<std::int64_t>(sizeof(T));
/// Columns of a panel: it holds all rows of them, one after the other.
template <class T>
inline constexpr std::int64_t panel_columns = 2 * symmetric_block<T>;

/// a -= v w^T + w v^T and product = a next, for the rows and columns from block `first` on, of which the lower triangle
/// and the blocks of the diagonal are there.
template <class T>
struct RankTwoUpdate {
  T* a;
  std::int64_t stride, first, blocks;
  const T *v, *w, *next;
  T* product;
};

/// Sweeps of plane rotations that begin at the same row, applied to rows in one pass: a row that one sweep is done with
/// is the next one's. Rotation i of a sweep takes rows start + i step and start + (i + 1) step.
template <class T>
struct RotationGroup {
  static constexpr int most_sweeps = 4;
  std::int64_t start = 0, length = 0;
  int step = 1, sweeps = 0;
  std::size_t at = 0;  // cos and sin of each rotation, sweep by sweep
};

template <class T, int bytes>
struct SymmetricLanes {
  typedef T Vector __attribute__((vector_size(bytes), may_alias));
  static constexpr std::int64_t lanes = bytes / static_cast<int>(sizeof(T)), block = symmetric_block<T>;
  static constexpr int parts = 64 / bytes, rows = 4;

  static SINTER_ALWAYS_INLINE Vector& at(T* memory) { return *reinterpret_cast<Vector*>(memory); }
  static SINTER_ALWAYS_INLINE const Vector& at(const T* memory) { return *reinterpret_cast<const Vector*>(memory); }

  /// The sum of a block, halves first.
  static SINTER_ALWAYS_INLINE T sum_of(const Vector (&sums)[parts]) {
    alignas(64) T s[as_index(block)];
#pragma GCC unroll 4
    for (int part = 0; part < parts; ++part) at(s + part * lanes) = sums[part];
#pragma GCC unroll 4
    for (std::int64_t half = block / 2; half >= 1; half /= 2)
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < half; ++i) s[i] += s[i + half];
    return s[0];
  }

  /// Four rows of one block of columns; `product` is null in the block of the diagonal, which holds both triangles.
  template <bool has_product>
  static SINTER_ALWAYS_INLINE void update_block(const RankTwoUpdate<T>& u, std::int64_t row, std::int64_t column,
                                                Vector (&sums)[rows][parts]) {
#pragma GCC unroll 4
    for (int part = 0; part < parts; ++part) {
      const std::int64_t j = column + part * lanes;
      const Vector v = at(u.v + j), w = at(u.w + j), next = at(u.next + j);
      Vector product{};
      if constexpr (has_product) product = at(u.product + j);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) {
        Vector& place = at(u.a + (row + i) * u.stride + j);
        const Vector x = place - u.v[row + i] * w - u.w[row + i] * v;
        place = x;
        sums[i][part] += x * next;
        if constexpr (has_product) product += x * u.next[row + i];
      }
      if constexpr (has_product) at(u.product + j) = product;
    }
  }
  static SINTER_ALWAYS_INLINE void update(const RankTwoUpdate<T>& u) {
    for (std::int64_t i = u.first * block; i < u.blocks * block; ++i) u.product[i] = 0;
    for (std::int64_t row = u.first * block; row < u.blocks * block; row += rows) {
      const std::int64_t diagonal = row / block * block;
      Vector sums[rows][parts]{};
      for (std::int64_t column = u.first * block; column < diagonal; column += block)
        update_block<true>(u, row, column, sums);
      update_block<false>(u, row, diagonal, sums);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) u.product[row + i] += sum_of(sums[i]);
    }
  }

  /// x -= scale (x . v) v for four rows x, from column `first` on.
  static SINTER_ALWAYS_INLINE void reflect(T* x, std::int64_t stride, const T* v, T scale, std::int64_t first,
                                           std::int64_t end) {
    Vector sums[rows][parts]{};
    for (std::int64_t column = first; column < end; column += block)
#pragma GCC unroll 4
      for (int part = 0; part < parts; ++part) {
        const std::int64_t j = column + part * lanes;
        const Vector factor = at(v + j);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sums[i][part] += at(x + i * stride + j) * factor;
      }
    T scales[rows];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) scales[i] = scale * sum_of(sums[i]);
    for (std::int64_t j = first; j < end; j += lanes) {
      const Vector factor = at(v + j);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) at(x + i * stride + j) -= scales[i] * factor;
    }
  }

  static constexpr int across = 2;  // vectors
  struct Row {
    Vector x[across];
  };
  static SINTER_ALWAYS_INLINE Row row_at(const T* memory) { return {{at(memory), at(memory + lanes)}}; }
  static SINTER_ALWAYS_INLINE void put_row(T* memory, const Row& row) {
    at(memory) = row.x[0];
    at(memory + lanes) = row.x[1];
  }
  /// The row that comes in is `row`; becomes the one that goes out.
  static SINTER_ALWAYS_INLINE void rotate(Row& row, Row& held, const T* rotation) {
    const T c = rotation[0], s = rotation[1];
#pragma GCC unroll 2
    for (int i = 0; i < across; ++i) {
      const Vector in = row.x[i], before = held.x[i];
      row.x[i] = before * c + in * s;
      held.x[i] = in * c - before * s;
    }
  }
  template <int sweeps>
  static SINTER_ALWAYS_INLINE void rotate_rows(T* columns, const RotationGroup<T>& group, const T* rotations) {
    const std::int64_t step = group.step * panel_columns<T>, length = group.length;
    T *in = columns + group.start * panel_columns<T>, *out = in;
    const T* next[sweeps];
    Row held[sweeps];
    for (int k = 0; k < sweeps; ++k) next[k] = rotations + group.at + as_index(2 * length * k);
#pragma GCC unroll 4
    for (int filled = 0; filled < sweeps; ++filled, in += step) {
      Row row = row_at(in);
#pragma GCC unroll 4
      for (int k = 0; k < filled; ++k, next[k - 1] += 2) rotate(row, held[k], next[k]);
      held[filled] = row;
    }
    for (std::int64_t i = sweeps; i <= length; ++i, in += step, out += step) {
      Row row = row_at(in);
#pragma GCC unroll 4
      for (int k = 0; k < sweeps; ++k, next[k - 1] += 2) rotate(row, held[k], next[k]);
      put_row(out, row);
    }
#pragma GCC unroll 4
    for (int first = 0; first < sweeps; ++first, out += step) {
      Row row = held[first];
#pragma GCC unroll 4
      for (int k = first + 1; k < sweeps; ++k, next[k - 1] += 2) rotate(row, held[k], next[k]);
      put_row(out, row);
    }
  }
  static SINTER_ALWAYS_INLINE void rotate_panel(T* panel, const RotationGroup<T>* groups, std::size_t count,
                                                const T* rotations) {
    for (const RotationGroup<T>* group = groups; group != groups + count; ++group)
      for (std::int64_t column = 0; column < panel_columns<T>; column += across * lanes) {
        switch (group->sweeps) {
          case 1: rotate_rows<1>(panel + column, *group, rotations); break;
          case 2: rotate_rows<2>(panel + column, *group, rotations); break;
          case 3: rotate_rows<3>(panel + column, *group, rotations); break;
          default: rotate_rows<4>(panel + column, *group, rotations); break;
        }
      }
  }
};

/// Which functions a processor runs.
template <class T>
struct SymmetricMachine {
  void (*update)(const RankTwoUpdate<T>& u);
  void (*reflect)(T* x, std::int64_t stride, const T* v, T scale, std::int64_t first, std::int64_t end);
  void (*rotate_panel)(T* panel, const RotationGroup<T>* groups, std::size_t count, const T* rotations);
};

template <class T>
struct PlainSymmetric {
  using L = SymmetricLanes<T, 16>;
  static void update(const RankTwoUpdate<T>& u) { L::update(u); }
  static void reflect(T* x, std::int64_t stride, const T* v, T scale, std::int64_t first, std::int64_t end) {
    L::reflect(x, stride, v, scale, first, end);
  }
  static void rotate_panel(T* panel, const RotationGroup<T>* groups, std::size_t count, const T* rotations) {
    L::rotate_panel(panel, groups, count, rotations);
  }
};
#ifndef SINTER_NO_X86
#define SINTER_SYMMETRIC_AVX2 __attribute__((target("avx2,fma")))
#define SINTER_SYMMETRIC_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))
template <class T>
struct Avx2Symmetric {
  using L = SymmetricLanes<T, 32>;
  SINTER_SYMMETRIC_AVX2 static void update(const RankTwoUpdate<T>& u) { L::update(u); }
  SINTER_SYMMETRIC_AVX2 static void reflect(T* x, std::int64_t stride, const T* v, T scale, std::int64_t first,
                                            std::int64_t end) {
    L::reflect(x, stride, v, scale, first, end);
  }
  SINTER_SYMMETRIC_AVX2 static void rotate_panel(T* panel, const RotationGroup<T>* groups, std::size_t count,
                                                 const T* rotations) {
    L::rotate_panel(panel, groups, count, rotations);
  }
};
template <class T>
struct Avx512Symmetric {
  using L = SymmetricLanes<T, 64>;
  SINTER_SYMMETRIC_AVX512 static void update(const RankTwoUpdate<T>& u) { L::update(u); }
  SINTER_SYMMETRIC_AVX512 static void reflect(T* x, std::int64_t stride, const T* v, T scale, std::int64_t first,
                                              std::int64_t end) {
    L::reflect(x, stride, v, scale, first, end);
  }
  SINTER_SYMMETRIC_AVX512 static void rotate_panel(T* panel, const RotationGroup<T>* groups, std::size_t count,
                                                   const T* rotations) {
    L::rotate_panel(panel, groups, count, rotations);
  }
};
#undef SINTER_SYMMETRIC_AVX2
#undef SINTER_SYMMETRIC_AVX512
#endif
template <class T, template <class> class Machine>
SymmetricMachine<T> symmetric_machine() {
  return {&Machine<T>::update, &Machine<T>::reflect, &Machine<T>::rotate_panel};
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
