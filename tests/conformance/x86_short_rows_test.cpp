// Rows that fit one vector, which have a variant of their own: every reduction of every dtype against the documented
// order, bit by bit, for every length around the width of a vector and every remainder of rows; and comparisons of
// indices with 64-bit numbers, which run on i32.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include "sums_in_order.hpp"
#include "x86_loop_cases.hpp"

#include <sinter/ops/scalar_meaning.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

using namespace sinter_test;

namespace {

template <class T>
T combined(Prim prim, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return prim == Prim::reduce_mul || prim == Prim::reduce_min ? a && b : a || b;
  else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (prim == Prim::reduce_add) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (prim == Prim::reduce_mul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    if (prim == Prim::reduce_add) return a + b;
    if (prim == Prim::reduce_mul) return a * b;
    return prim == Prim::reduce_min ? scalar_meaning::minimum(a, b) : scalar_meaning::maximum(a, b);
  }
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return prim == Prim::reduce_min ? (a < b ? a : b) : (a > b ? a : b);
}

template <class T>
T neutral_of(Prim prim) {
  if (prim == Prim::reduce_add) return T(0);
  if (prim == Prim::reduce_mul) return T(1);
  if constexpr (std::is_floating_point_v<T>)
    return prim == Prim::reduce_min ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
  return prim == Prim::reduce_min ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
}

/// Equal bits; any NaN equals any other.
template <class T>
bool same_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return std::isnan(b);
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Equal bits in all elements; which NaN it is depends on the instruction set.
template <class T>
bool same_elements(Buffer& a, Buffer& b, std::int64_t count) {
  return std::equal(a.as<T>(), a.as<T>() + count, b.as<T>(), same_bits<T>);
}

/// sum[row] = reduction of x; again[row] = reduction of (x op sum), a second pass; mapped = x op again.
template <class T>
void check_short_rows(Prim prim, std::uint64_t salt) {
  constexpr DType dtype = dtype_of<T>();
  const Prim map = std::is_same_v<T, bool> ? Prim::xor_ : std::is_floating_point_v<T> ? Prim::min : Prim::add;
  const auto op = [&](T a, T b) { return combined<T>(prim, a, b); };
  const auto mapped = [&](T a, T b) -> T {
    if constexpr (std::is_same_v<T, bool>) return a != b;
    else return std::is_floating_point_v<T> ? combined<T>(Prim::reduce_min, a, b) : combined<T>(Prim::reduce_add, a, b);
  };
  for (std::int64_t n = 1; n <= 20; ++n)
    for (std::int64_t rows = 1; rows <= 9; ++rows) {
      Buffer x(dtype, rows * n), out(dtype, rows * n);
      for (std::int64_t i = 0; i < rows * n; ++i)
        x.as<T>()[i] = sample<T>(static_cast<std::uint64_t>(i + 211 * n + 17 * rows), salt);
      if (salt % 2 == 0 && std::is_floating_point_v<T>)  // rows of negative zeros, and without NaN
        for (std::int64_t i = 0; i < rows * n; ++i)
          if (x.as<T>()[i] != x.as<T>()[i] || i / n % 2 == 0) x.as<T>()[i] = static_cast<T>(-0.0);
      std::vector<Buffer> first, second, maps;
      for (x86::Isa isa : isas()) {
        Maker m(KernelKind::row, {{parallel, rows}, {reduced, n}});
        const auto in = m.operand(dtype, 3), a = m.operand(dtype, 1, true), b = m.operand(dtype, 1, true),
                   c = m.operand(dtype, 3, true);
        const ScalarValue v = m.load(in), total = m.s.reduce(prim, v),
                          again = m.s.reduce(prim, m.s.binary(map, v, total));
        m.store(a, total);
        m.store(b, again);
        m.store(c, m.s.binary(map, v, again));
        m.finish();
        Buffer& one = first.emplace_back(dtype, rows);
        Buffer& two = second.emplace_back(dtype, rows);
        Buffer& three = maps.emplace_back(dtype, rows * n);
        run(m, isa, {x.bytes.data(), one.bytes.data(), two.bytes.data(), three.bytes.data()});
        INFO(name(prim) << " of " << name(dtype) << " isa " << static_cast<int>(isa) << " rows " << rows << " columns "
                        << n);
        REQUIRE((one.guard_holds() && two.guard_holds() && three.guard_holds()));
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* row = x.as<T>() + r * n;
          const T expected = sinter_test::row_in_order<T>(row, n, 1, neutral_of<T>(prim), op);
          Buffer moved(dtype, n);
          for (std::int64_t i = 0; i < n; ++i) moved.as<T>()[i] = mapped(row[i], expected);
          const T next = sinter_test::row_in_order<T>(moved.as<T>(), n, 1, neutral_of<T>(prim), op);
          INFO("row " << r);
          REQUIRE(same_bits(one.as<T>()[r], expected));
          REQUIRE(same_bits(two.as<T>()[r], next));
          for (std::int64_t i = 0; i < n; ++i) REQUIRE(same_bits(three.as<T>()[r * n + i], mapped(row[i], next)));
        }
      }
      for (std::size_t i = 1; i < first.size(); ++i)
        REQUIRE((same_elements<T>(first[i], first[0], rows) && same_elements<T>(second[i], second[0], rows) &&
                 same_elements<T>(maps[i], maps[0], rows * n)));
    }
}

template <class T>
void check_short_rows_of() {
  for (Prim prim : {Prim::reduce_add, Prim::reduce_mul, Prim::reduce_min, Prim::reduce_max})
    for (std::uint64_t salt : {1u, 2u, 3u}) check_short_rows<T>(prim, salt);
}

constexpr std::int64_t far_away = std::int64_t{1} << 32;
constexpr std::int64_t targets[] = {0,
                                    3,
                                    far_away + 3,
                                    -1,
                                    -far_away,
                                    -far_away + 3,
                                    std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min(),
                                    std::int64_t{1} << 31,
                                    7,
                                    12,
                                    15,
                                    1,
                                    16};

bool holds(Prim prim, std::int64_t a, std::int64_t b) {
  return prim == Prim::eq ? a == b : prim == Prim::ne ? a != b : prim == Prim::lt ? a < b : a <= b;
}

}  // namespace

TEST_CASE("x86 loops: short rows of floats") { check_short_rows_of<float>(), check_short_rows_of<double>(); }
TEST_CASE("x86 loops: short rows of integers and bool") {
  check_short_rows_of<std::int32_t>(), check_short_rows_of<std::int64_t>(), check_short_rows_of<bool>();
}

TEST_CASE("x86 loops: indices compared with 64-bit numbers") {
  constexpr std::int64_t rows = std::size(targets);
  for (x86::Isa isa : isas())
    for (Prim prim : {Prim::eq, Prim::ne, Prim::lt, Prim::le})
      for (bool is_flipped : {false, true})
        for (std::int64_t n : {1, 2, 7, 8, 9, 10, 15, 16, 17, 31, 70, 300})
          for (KernelKind kind : {KernelKind::row, KernelKind::pointwise}) {
            const bool is_row = kind == KernelKind::row;
            Maker m(kind, {{parallel, rows}, {is_row ? reduced : parallel, n}});
            const auto number = m.operand(DType::i64, 1), hit = m.operand(DType::f32, 3, true),
                       below = m.operand(DType::f32, 3, true);
            const ScalarValue index = m.s.index(1), value = m.load(number), one = m.s.imm(1, DType::f32),
                              zero = m.s.imm(0, DType::f32);
            ScalarValue chosen =
                m.s.select(is_flipped ? m.s.binary(prim, value, index) : m.s.binary(prim, index, value), one, zero);
            if (is_row) {
              const auto count = m.operand(DType::f32, 1, true);
              m.store(count, m.s.reduce(Prim::reduce_add, chosen));
            }
            m.store(hit, chosen);
            // The axis of rows against the axis of columns, an immediate beyond i32, and an index as a number.
            const ScalarValue triangle = m.s.select(m.s.le(index, m.s.index(0)), m.s.convert(index, DType::f32), zero);
            m.store(below, m.s.select(m.s.lt(index, m.s.imm(5e9, DType::i64)), triangle, one));
            m.finish();
            std::vector<std::int64_t> given(std::begin(targets), std::end(targets));
            std::vector<float> hits(static_cast<std::size_t>(rows * n)), triangles(hits.size()),
                counts(static_cast<std::size_t>(rows));
            std::vector<void*> operands = {given.data(), hits.data(), triangles.data()};
            if (is_row) operands.push_back(counts.data());
            run(m, isa, operands);
            for (std::int64_t r = 0; r < rows; ++r) {
              float count = 0;
              for (std::int64_t c = 0; c < n; ++c) {
                const bool expected = is_flipped ? holds(prim, targets[r], c) : holds(prim, c, targets[r]);
                INFO("isa " << static_cast<int>(isa) << " " << name(prim) << " flipped " << is_flipped << " n " << n
                            << " row " << r << " column " << c);
                REQUIRE(hits[static_cast<std::size_t>(r * n + c)] == (expected ? 1.f : 0.f));
                REQUIRE(triangles[static_cast<std::size_t>(r * n + c)] == (c <= r ? static_cast<float>(c) : 0.f));
                count += expected ? 1.f : 0.f;
              }
              if (is_row) REQUIRE(counts[static_cast<std::size_t>(r)] == count);
            }
          }
}

TEST_CASE("x86 loops: division by a number of the row rounds correctly") {
  constexpr std::int64_t rows = 300, n = 1003;
  std::vector<float> by(rows), x(rows * n), quotients(x.size()), sums(rows);
  std::uint64_t state = 1;
  const auto bits = [&] {
    return static_cast<std::uint32_t>((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 32);
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    float& divisor = by[static_cast<std::size_t>(r)];
    if (r % 4 != 0)
      divisor = std::ldexp(1.f + static_cast<float>(bits() >> 9) * 0x1p-23f,
                           static_cast<int>(bits() % 70) - 35);  // around the quick range
    else divisor = r % 40 == 0 ? sample<float>(static_cast<std::uint64_t>(r / 40), 3) : std::bit_cast<float>(bits());
    if (r % 7 == 1)
      divisor = std::nextafter(std::ldexp(1.f, static_cast<int>(bits() % 66) - 33), bits() % 2 ? 0.f : 1e30f);
    for (std::int64_t c = 0; c < n; ++c) {
      float& value = x[static_cast<std::size_t>(r * n + c)];
      if (c < 32 || c % 31 == 0) value = sample<float>(static_cast<std::uint64_t>(r * n + c), 5);
      else if (r % 3 == 0) value = std::bit_cast<float>(bits());
      else
        value = std::ldexp(1.f + static_cast<float>(bits() >> 9) * 0x1p-23f, static_cast<int>(bits() % 190) - 95) *
                (r % 2 ? 1.f : -1.f);
    }
  }
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::row, {{parallel, rows}, {reduced, n}});
    const auto in = m.operand(DType::f32, 3), divisor = m.operand(DType::f32, 1), out = m.operand(DType::f32, 3, true),
               sum = m.operand(DType::f32, 1, true);
    const ScalarValue v = m.load(in);
    m.store(out, m.s.div(v, m.load(divisor)));
    m.store(sum, m.s.reduce(Prim::reduce_add, v));
    m.finish();
    run(m, isa, {x.data(), by.data(), quotients.data(), sums.data()});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float expected = x[i] / by[i / n];
      if (same_bits(quotients[i], expected)) continue;
      INFO("isa " << static_cast<int>(isa) << ": " << x[i] << " / " << by[i / n] << " is " << expected << ", not "
                  << quotients[i]);
      REQUIRE(same_bits(quotients[i], expected));
    }
  }
}

#endif
