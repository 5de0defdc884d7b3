// Many small arrays of one length, one after the other in memory, become lanes of vectors, and back: by pieces of 16
// bytes (fft_pieces.hpp), and arrays of two or three numbers by what four (f64: two) of them have in such pieces.
// Elements that are written one by one and read as vectors would wait for each other.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/fft_pair.hpp>
#include <sinter/ops/fft_pieces.hpp>

#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// `width` arrays at once, of a vector register.
template <class T, int width>
struct SmallLoads {
  using L = fft_detail::Lanes<T, width>;
  using Pieces = fft_detail::Pieces<L>;
  using Vector = typename L::Vector;
  using Anywhere = typename L::Anywhere;
  using Places = std::make_integer_sequence<int, width>;
  static constexpr std::int64_t piece = Pieces::size;

  /// Places of a piece from a, or (from `piece` on) from b, in all pieces of a vector.
  template <int first, int second, int third, int fourth, int... i>
  static SINTER_ALWAYS_INLINE void take(Vector& to, const Vector& a, const Vector& b,
                                        std::integer_sequence<int, i...>) {
    constexpr int from[4] = {first, second, third, fourth}, n = static_cast<int>(piece);
    to = __builtin_shufflevector(a, b, (from[i % n] % n + i / n * n + from[i % n] / n * width)...);
  }
  /// Two numbers each: x holds the arrays' first numbers, then their second ones.
  static SINTER_ALWAYS_INLINE void take_pairs(Vector (&x)[4]) {
    if constexpr (piece == 2) return;  // a piece is an array: see load
    else {
      Vector first, second;
      take<0, 2, 4, 6>(first, x[0], x[1], Places());
      take<1, 3, 5, 7>(second, x[0], x[1], Places());
      x[0] = first;
      x[1] = second;
    }
  }
  static SINTER_ALWAYS_INLINE void join_pairs(Vector (&x)[4]) {
    if constexpr (piece == 2) return;
    else {
      Vector first, second;
      take<0, 4, 1, 5>(first, x[0], x[1], Places());
      take<2, 6, 3, 7>(second, x[0], x[1], Places());
      x[0] = first;
      x[1] = second;
    }
  }
  /// Three numbers each.
  static SINTER_ALWAYS_INLINE void take_triples(Vector (&x)[4]) {
    Vector a, b, c;
    if constexpr (piece == 2) {
      take<0, 3, 0, 0>(a, x[0], x[1], Places());
      take<1, 2, 0, 0>(b, x[0], x[2], Places());
      take<0, 3, 0, 0>(c, x[1], x[2], Places());
    } else {
      Vector t, u;
      take<2, 2, 5, 5>(t, x[1], x[2], Places());
      take<0, 3, 4, 6>(a, x[0], t, Places());
      take<1, 1, 4, 4>(t, x[0], x[1], Places());
      take<3, 3, 6, 6>(u, x[1], x[2], Places());
      take<0, 2, 4, 6>(b, t, u, Places());
      take<2, 2, 5, 5>(t, x[0], x[1], Places());
      take<0, 2, 4, 7>(c, t, x[2], Places());
    }
    x[0] = a;
    x[1] = b;
    x[2] = c;
  }
  static SINTER_ALWAYS_INLINE void join_triples(Vector (&x)[4]) {
    Vector first, second, third;
    if constexpr (piece == 2) {
      take<0, 2, 0, 0>(first, x[0], x[1], Places());   // a0 b0
      take<0, 3, 0, 0>(second, x[2], x[0], Places());  // c0 a1
      take<1, 3, 0, 0>(third, x[1], x[2], Places());   // b1 c1
    } else {
      Vector t, u;
      take<0, 0, 4, 4>(t, x[0], x[1], Places());  // a0 a0 b0 b0
      take<0, 0, 5, 5>(u, x[2], x[0], Places());  // c0 c0 a1 a1
      take<0, 2, 4, 6>(first, t, u, Places());    // a0 b0 c0 a1
      take<1, 1, 5, 5>(t, x[1], x[2], Places());  // b1 b1 c1 c1
      take<2, 2, 6, 6>(u, x[0], x[1], Places());  // a2 a2 b2 b2
      take<0, 2, 4, 6>(second, t, u, Places());   // b1 c1 a2 b2
      take<2, 2, 7, 7>(t, x[2], x[0], Places());  // c2 c2 a3 a3
      take<3, 3, 7, 7>(u, x[1], x[2], Places());  // b3 b3 c3 c3
      take<0, 2, 4, 6>(third, t, u, Places());    // c2 a3 b3 c3
    }
    x[0] = first;
    x[1] = second;
    x[2] = third;
  }

  /// Is there code for arrays of this size below?
  static constexpr bool is_short(std::int64_t size) { return size == 1 || size == 3 || (size == 2 && piece == 4); }
  /// Short arrays: number e of all of them is x[e].
  static SINTER_ALWAYS_INLINE void load_short(Vector (&x)[4], const T* from, std::int64_t size) {
    if (size == 1) {
      x[0] = *reinterpret_cast<const Anywhere*>(from);
      return;
    }
    for (std::int64_t i = 0; i < size; ++i) Pieces::gather(x[i], from + i * piece, piece * size);
    size == 2 ? take_pairs(x) : take_triples(x);
  }
  static SINTER_ALWAYS_INLINE void store_short(T* to, Vector (&x)[4], std::int64_t size) {
    if (size == 1) {
      *reinterpret_cast<Anywhere*>(to) = x[0];
      return;
    }
    size == 2 ? join_pairs(x) : join_triples(x);
    for (std::int64_t i = 0; i < size; ++i) Pieces::scatter(x[i], to + i * piece, piece * size);
  }
  /// Numbers e to e + piece - 1 of each array.
  static SINTER_ALWAYS_INLINE void load_piece(Vector (&x)[4], const T* from, std::int64_t size, std::int64_t e) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < piece; ++i) Pieces::gather(x[i], from + i * size + e, piece * size);
    Pieces::turn(x);
  }
  static SINTER_ALWAYS_INLINE void store_piece(T* to, Vector (&x)[4], std::int64_t size, std::int64_t e) {
    Pieces::turn(x);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < piece; ++i) Pieces::scatter(x[i], to + i * size + e, piece * size);
  }
};

}  // namespace ops_detail
SINTER_NAMESPACE_END
