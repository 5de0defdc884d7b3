// Rows of complex numbers become lanes, and back, by pieces of 16 bytes: a vector takes one from each fourth row (each
// second one of f64). Placing pieces is what loads and stores do; what is left to exchange stays within each 16 bytes,
// of which processors do more at once than of exchanges across a vector.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// Of vectors of lanes L (fft_lanes.hpp). GCC 12 makes exchanges across vectors of what places pieces, of which a
/// processor does one at a time: there they are instructions. Clang chooses these itself.
template <class L>
struct Pieces {
  using T = typename L::Number;
  using Vector = typename L::Vector;
  using Piece [[gnu::vector_size(16)]] = T;
  using Anywhere [[gnu::may_alias, gnu::aligned(alignof(T))]] = Piece;
  /// Numbers of a piece, and vectors that exchange theirs; and pieces of a vector.
  static constexpr int size = 16 / static_cast<int>(sizeof(T)), count = L::count / size;
  /// Complex numbers of a piece.
  static constexpr std::int64_t numbers = size / 2;
  template <int n>
  using Sequence = std::make_integer_sequence<int, n>;

  /// The pieces at `from`, from + step, ... side by side.
  static SINTER_ALWAYS_INLINE void gather(Vector& to, const T* from, [[maybe_unused]] std::int64_t step) {
    if constexpr (count == 1) {
      to = piece_at(from);
    } else {
#if !defined(SINTER_NO_X86) && !defined(__clang__)
      asm("vmovups %1, %x0" : "=v"(to) : "m"(piece_at(from)));
      if constexpr (count == 2) {
        asm("vinsertf128 $1, %1, %0, %0" : "+x"(to) : "m"(piece_at(from + step)));
      } else {
        asm("vinsertf32x4 $1, %1, %0, %0" : "+v"(to) : "m"(piece_at(from + step)));
        asm("vinsertf32x4 $2, %1, %0, %0" : "+v"(to) : "m"(piece_at(from + 2 * step)));
        asm("vinsertf32x4 $3, %1, %0, %0" : "+v"(to) : "m"(piece_at(from + 3 * step)));
      }
#else
      Piece x[as_index(count)];
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i) x[i] = piece_at(from + i * step);
      if constexpr (count == 2) {
        join(to, x[0], x[1], Sequence<L::count>());
      } else {
        using Half [[gnu::vector_size(32)]] = T;
        Half low, high;
        join(low, x[0], x[1], Sequence<L::count / 2>());
        join(high, x[2], x[3], Sequence<L::count / 2>());
        join(to, low, high, Sequence<L::count>());
      }
#endif
    }
  }
  static SINTER_ALWAYS_INLINE void scatter(const Vector& from, T* to, [[maybe_unused]] std::int64_t step) {
    if constexpr (count == 1) {
      piece_at(to) = from;
    } else {
#if !defined(SINTER_NO_X86) && !defined(__clang__)
      asm("vmovups %x1, %0" : "=m"(piece_at(to)) : "v"(from));
      if constexpr (count == 2) {
        asm("vextractf128 $1, %1, %0" : "=m"(piece_at(to + step)) : "x"(from));
      } else {
        asm("vextractf32x4 $1, %1, %0" : "=m"(piece_at(to + step)) : "v"(from));
        asm("vextractf32x4 $2, %1, %0" : "=m"(piece_at(to + 2 * step)) : "v"(from));
        asm("vextractf32x4 $3, %1, %0" : "=m"(piece_at(to + 3 * step)) : "v"(from));
      }
#else
      put<0>(from, to, Sequence<size>());
      put<size>(from, to + step, Sequence<size>());
      if constexpr (count > 2) {
        put<2 * size>(from, to + 2 * step, Sequence<size>());
        put<3 * size>(from, to + 3 * step, Sequence<size>());
      }
#endif
    }
  }
  /// In each 16 bytes, number j of vector i and number i of vector j change places.
  static SINTER_ALWAYS_INLINE void turn(Vector* x) {
    if constexpr (size == 2) {
      take_turns<1>(x[0], x[1], Sequence<L::count>());
    } else {
      take_turns<1>(x[0], x[1], Sequence<L::count>());
      take_turns<1>(x[2], x[3], Sequence<L::count>());
      const Vector second = x[1];
      x[1] = x[2];
      x[2] = second;
      take_turns<2>(x[0], x[1], Sequence<L::count>());
      take_turns<2>(x[2], x[3], Sequence<L::count>());
    }
  }

 private:
  template <class To, class From, int... i>
  static SINTER_ALWAYS_INLINE void join(To& to, const From& low, const From& high, std::integer_sequence<int, i...>) {
    to = __builtin_shufflevector(low, high, i...);
  }
  template <int first, int... i>
  static SINTER_ALWAYS_INLINE void put(const Vector& from, T* to, std::integer_sequence<int, i...>) {
    piece_at(to) = __builtin_shufflevector(from, from, (first + i)...);
  }
  static SINTER_ALWAYS_INLINE const Anywhere& piece_at(const T* at) { return *reinterpret_cast<const Anywhere*>(at); }
  static SINTER_ALWAYS_INLINE Anywhere& piece_at(T* at) { return *reinterpret_cast<Anywhere*>(at); }
  /// The place in a and b, one behind the other, from which lane i of `low` is: from both in turns, `run` at a time.
  static constexpr int place(int i, int run, bool is_high) {
    const int within = i % size, pair = within / (2 * run), from_b = within / run % 2;
    return i - within + (is_high ? size / 2 : 0) + pair * run + within % run + (from_b != 0 ? L::count : 0);
  }
  template <int run, int... i>
  static SINTER_ALWAYS_INLINE void take_turns(Vector& a, Vector& b, std::integer_sequence<int, i...>) {
    const Vector low = __builtin_shufflevector(a, b, place(i, run, false)...);
    b = __builtin_shufflevector(a, b, place(i, run, true)...);
    a = low;
  }
};

/// Of L::count rows that begin `step` numbers apart, the first n complex numbers; `re` is the place of the real part.
/// A step that is known here is part of addresses: sixteen of them have no room in registers.
template <std::int64_t known_step, class L, class P>
SINTER_ALWAYS_INLINE void load_rows_by(P* to, const typename L::Number* row, std::int64_t step, std::int64_t n,
                                       int re) {
  using Turn = Pieces<L>;
  if constexpr (known_step != 0) step = known_step;
  for (std::int64_t j = 0; j < n; j += Turn::numbers) {
    if (j > n - Turn::numbers) j = n - Turn::numbers;  // what is left takes some of the numbers before along
    typename L::Vector x[Turn::size];
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < Turn::size; ++i) Turn::gather(x[i], row + i * step + 2 * j, Turn::size * step);
    Turn::turn(x);
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      auto* const parts = reinterpret_cast<typename L::Vector*>(to + j + i);
      parts[re] = x[2 * i];
      parts[1 - re] = x[2 * i + 1];
    }
  }
}
template <std::int64_t known_step, class L, class P>
SINTER_ALWAYS_INLINE void store_rows_by(typename L::Number* row, std::int64_t step, const P* from, std::int64_t n,
                                        int re, typename L::Number scale) {
  using Turn = Pieces<L>;
  if constexpr (known_step != 0) step = known_step;
  for (std::int64_t j = 0; j < n; j += Turn::numbers) {
    if (j > n - Turn::numbers) j = n - Turn::numbers;
    typename L::Vector x[Turn::size];
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < Turn::numbers; ++i) {
      const auto* const parts = reinterpret_cast<const typename L::Vector*>(from + j + i);
      x[2 * i] = parts[re] * scale;
      x[2 * i + 1] = parts[1 - re] * scale;
    }
    Turn::turn(x);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < Turn::size; ++i) Turn::scatter(x[i], row + i * step + 2 * j, Turn::size * step);
  }
}
template <class L, class P>
SINTER_ALWAYS_INLINE void load_rows(P* to, const typename L::Number* row, std::int64_t step, std::int64_t n, int re) {
  switch (step) {
    case 16: return load_rows_by<16, L>(to, row, step, n, re);
    case 32: return load_rows_by<32, L>(to, row, step, n, re);
    case 64: return load_rows_by<64, L>(to, row, step, n, re);
    case 128: return load_rows_by<128, L>(to, row, step, n, re);
    case 256: return load_rows_by<256, L>(to, row, step, n, re);
    case 512: return load_rows_by<512, L>(to, row, step, n, re);
    default: return load_rows_by<0, L>(to, row, step, n, re);
  }
}
template <class L, class P>
SINTER_ALWAYS_INLINE void store_rows(typename L::Number* row, std::int64_t step, const P* from, std::int64_t n, int re,
                                     typename L::Number scale) {
  switch (step) {
    case 16: return store_rows_by<16, L>(row, step, from, n, re, scale);
    case 32: return store_rows_by<32, L>(row, step, from, n, re, scale);
    case 64: return store_rows_by<64, L>(row, step, from, n, re, scale);
    case 128: return store_rows_by<128, L>(row, step, from, n, re, scale);
    case 256: return store_rows_by<256, L>(row, step, from, n, re, scale);
    case 512: return store_rows_by<512, L>(row, step, from, n, re, scale);
    default: return store_rows_by<0, L>(row, step, from, n, re, scale);
  }
}

}  // namespace fft_detail
SINTER_NAMESPACE_END
