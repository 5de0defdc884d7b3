// The loop generator: every primitive on every dtype and tail length against plain C++, the documented order of
// reductions bit by bit, both instruction sets and any number of threads alike, gathers, strides and in-place operands.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include "sums_in_order.hpp"
#include "x86_loop_cases.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/ops/philox.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sys/mman.h>

using namespace sinter_test;

namespace {

/// out[i] = expected(x[i], y[i], z[i]) for lengths 1 to 70, on each instruction set.
template <class In, class Out>
void check_map(const std::string& what,
               const std::function<ScalarValue(ScalarBuilder&, ScalarValue, ScalarValue, ScalarValue)>& build,
               const std::function<Out(In, In, In)>& expected) {
  constexpr DType in = dtype_of<In>(), out = dtype_of<Out>();
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::pointwise, {{parallel, 1}});
    const auto x = m.operand(in, 1), y = m.operand(in, 1), z = m.operand(in, 1), result = m.operand(out, 1, true);
    m.store(result, build(m.s, m.load(x), m.load(y), m.load(z)));
    m.finish();
    std::string why;
    auto executable = x86::make_loop_executable(m.kernel, {}, isa, &why);
    INFO(what << " of " << name(in) << " on isa " << static_cast<int>(isa) << ": " << why);
    REQUIRE(executable != nullptr);
    for (std::int64_t n = 1; n <= 70; ++n) {
      m.geometry.extent[0] = n;
      Buffer a(in, n), b(in, n), c(in, n), r(out, n);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto u = static_cast<std::uint64_t>(i + n * 71);
        a.as<In>()[i] = sample<In>(u, 1), b.as<In>()[i] = sample<In>(u, 2), c.as<In>()[i] = sample<In>(u, 3);
      }
      void* operands[] = {a.bytes.data(), b.bytes.data(), c.bytes.data(), r.bytes.data()};
      executable->bind(m.geometry)->run(operands);
      REQUIRE(r.guard_holds());
      for (std::int64_t i = 0; i < n; ++i) {
        const In p = a.as<In>()[i], q = b.as<In>()[i], t = c.as<In>()[i];
        INFO("n " << n << " element " << i << ": x " << p << " y " << q << " z " << t << " got " << r.as<Out>()[i]
                  << " expected " << expected(p, q, t));
        REQUIRE(same(r.as<Out>()[i], expected(p, q, t)));
      }
    }
  }
}

template <class T>
void check_binary(Prim prim, const std::function<T(T, T)>& expected) {
  check_map<T, T>(
      std::string(name(prim)),
      [prim](ScalarBuilder& s, ScalarValue x, ScalarValue y, ScalarValue) { return s.binary(prim, x, y); },
      [&](T x, T y, T) { return expected(x, y); });
}
template <class T>
void check_unary(Prim prim, const std::function<T(T)>& expected) {
  check_map<T, T>(
      std::string(name(prim)),
      [prim](ScalarBuilder& s, ScalarValue x, ScalarValue, ScalarValue) { return s.unary(prim, x); },
      [&](T x, T, T) { return expected(x); });
}
template <class T>
void check_comparisons() {
  auto one = [](Prim prim, const std::function<bool(T, T)>& expected) {
    check_map<T, bool>(
        std::string(name(prim)),
        [prim](ScalarBuilder& s, ScalarValue x, ScalarValue y, ScalarValue) { return s.binary(prim, x, y); },
        [&](T x, T y, T) { return expected(x, y); });
  };
  one(Prim::eq, [](T x, T y) { return x == y; });
  one(Prim::ne, [](T x, T y) { return x != y; });
  one(Prim::lt, [](T x, T y) { return x < y; });
  one(Prim::le, [](T x, T y) { return x <= y; });
  check_map<T, T>(
      "select",
      [](ScalarBuilder& s, ScalarValue x, ScalarValue y, ScalarValue z) { return s.select(s.lt(x, y), z, x); },
      [](T x, T y, T z) { return x < y ? z : x; });
}

template <class T>
void check_float_primitives() {
  check_binary<T>(Prim::add, [](T x, T y) { return x + y; });
  check_binary<T>(Prim::sub, [](T x, T y) { return x - y; });
  check_binary<T>(Prim::mul, [](T x, T y) { return x * y; });
  check_binary<T>(Prim::div, [](T x, T y) { return x / y; });
  check_binary<T>(Prim::min, [](T x, T y) { return std::isnan(x) ? x : std::isnan(y) ? y : std::min(x, y); });
  check_binary<T>(Prim::max, [](T x, T y) { return std::isnan(x) ? x : std::isnan(y) ? y : std::max(x, y); });
  check_binary<T>(Prim::rem, [](T x, T y) {
    T r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  });
  check_unary<T>(Prim::neg, [](T x) { return -x; });
  check_unary<T>(Prim::abs, [](T x) { return std::fabs(x); });
  check_unary<T>(Prim::floor, [](T x) { return std::floor(x); });
  check_unary<T>(Prim::ceil, [](T x) { return std::ceil(x); });
  check_unary<T>(Prim::round, [](T x) { return std::nearbyint(x); });
  check_unary<T>(Prim::trunc, [](T x) { return std::trunc(x); });
  check_unary<T>(Prim::sqrt, [](T x) { return std::sqrt(x); });
  check_unary<T>(Prim::rsqrt, [](T x) { return T(1) / std::sqrt(x); });
  check_map<T, T>(
      "fma", [](ScalarBuilder& s, ScalarValue x, ScalarValue y, ScalarValue z) { return s.fma(x, y, z); },
      [](T x, T y, T z) { return std::fma(x, y, z); });
  check_map<T, T>(
      "max with a constant",
      [](ScalarBuilder& s, ScalarValue x, ScalarValue, ScalarValue) { return s.max(x, s.imm(0.5, x)); },
      [](T x, T, T) { return std::isnan(x) ? x : std::max(x, T(0.5)); });
  check_map<T, T>(
      "min with a NaN",
      [](ScalarBuilder& s, ScalarValue x, ScalarValue, ScalarValue) { return s.min(s.imm(std::nan(""), x), x); },
      [](T, T, T) { return std::numeric_limits<T>::quiet_NaN(); });
  check_comparisons<T>();
}

template <class T>
T floor_rem(T x, T y) {
  if (y == 0 || y == -1) return 0;
  T r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

template <class T>
void check_integer_primitives() {
  using U = std::make_unsigned_t<T>;
  auto wrap = [](auto f) { return [f](T x, T y) { return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y))); }; };
  check_binary<T>(Prim::add, wrap([](U x, U y) { return x + y; }));
  check_binary<T>(Prim::sub, wrap([](U x, U y) { return x - y; }));
  check_binary<T>(Prim::mul, wrap([](U x, U y) { return x * y; }));
  check_binary<T>(Prim::div, [](T x, T y) {
    return y == 0 ? T(0) : y == -1 ? static_cast<T>(U(0) - static_cast<U>(x)) : static_cast<T>(x / y);
  });
  check_binary<T>(Prim::rem, floor_rem<T>);
  check_binary<T>(Prim::min, [](T x, T y) { return std::min(x, y); });
  check_binary<T>(Prim::max, [](T x, T y) { return std::max(x, y); });
  check_binary<T>(Prim::and_, [](T x, T y) { return static_cast<T>(x & y); });
  check_binary<T>(Prim::or_, [](T x, T y) { return static_cast<T>(x | y); });
  check_binary<T>(Prim::xor_, [](T x, T y) { return static_cast<T>(x ^ y); });
  check_unary<T>(Prim::neg, [](T x) { return static_cast<T>(U(0) - static_cast<U>(x)); });
  check_unary<T>(Prim::abs, [](T x) { return x < 0 ? static_cast<T>(U(0) - static_cast<U>(x)) : x; });
  check_unary<T>(Prim::not_, [](T x) { return static_cast<T>(~x); });
  check_comparisons<T>();
}

/// Floats outside the integer's range saturate, NaN gives 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    const double limit = std::ldexp(1.0, sizeof(To) * 8 - 1);
    if (std::isnan(x)) return 0;
    if (static_cast<double>(x) >= limit) return std::numeric_limits<To>::max();
    return static_cast<double>(x) < -limit ? std::numeric_limits<To>::min() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void check_convert() {
  if constexpr (!std::is_same_v<From, To>)
    check_map<From, To>(
        "convert to " + std::string(name(dtype_of<To>())),
        [](ScalarBuilder& s, ScalarValue x, ScalarValue, ScalarValue) { return s.convert(x, dtype_of<To>()); },
        [](From x, From, From) { return converted<To>(x); });
}
template <class From>
void check_converts() {
  check_convert<From, bool>(), check_convert<From, std::int32_t>(), check_convert<From, std::int64_t>(),
      check_convert<From, float>(), check_convert<From, double>();
}

template <class T>
void check_row_sum(std::int64_t rows, std::int64_t columns) {
  const DType dtype = dtype_of<T>();
  const std::vector<T> x = noise<T>(rows * columns);
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::row, {{parallel, rows}, {reduced, columns}});
    const auto in = m.operand(dtype, 3), sum = m.operand(dtype, 1, true), most = m.operand(dtype, 1, true);
    const ScalarValue v = m.load(in);
    m.store(sum, m.s.reduce(Prim::reduce_add, v));
    m.store(most, m.s.reduce(Prim::reduce_max, v));
    m.finish();
    std::vector<T> sums(static_cast<std::size_t>(rows)), maxima(static_cast<std::size_t>(rows));
    run(m, isa, {const_cast<T*>(x.data()), sums.data(), maxima.data()});
    for (std::int64_t r = 0; r < rows; ++r) {
      INFO("isa " << static_cast<int>(isa) << " rows " << rows << " columns " << columns << " row " << r);
      const T* row = x.data() + r * columns;
      REQUIRE(sums[static_cast<std::size_t>(r)] == row_in_order<T>(row, columns, 1, T(0), std::plus<T>()));
      REQUIRE(maxima[static_cast<std::size_t>(r)] == row_in_order<T>(row, columns, 1,
                                                                     -std::numeric_limits<T>::infinity(),
                                                                     [](T a, T b) { return std::max(a, b); }));
    }
  }
}

template <class T>
void check_column_sum(std::int64_t rows, std::int64_t columns) {
  const std::vector<T> x = noise<T>(rows * columns);
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::column, {{reduced, rows}, {parallel, columns}});
    const auto in = m.operand(dtype_of<T>(), 3), sum = m.operand(dtype_of<T>(), 2, true);
    m.store(sum, m.s.reduce(Prim::reduce_add, m.load(in)));
    m.finish();
    std::vector<T> sums(static_cast<std::size_t>(columns));
    run(m, isa, {const_cast<T*>(x.data()), sums.data()});
    for (std::int64_t c = 0; c < columns; ++c) {
      INFO("isa " << static_cast<int>(isa) << " rows " << rows << " column " << c << " of " << columns);
      REQUIRE(sums[static_cast<std::size_t>(c)] ==
              column_in_order<T>(x.data() + c, rows, columns, T(0), std::plus<T>()));
    }
  }
}

}  // namespace

TEST_CASE("x86 loops: primitives of f32") { check_float_primitives<float>(); }
TEST_CASE("x86 loops: primitives of f64") { check_float_primitives<double>(); }
TEST_CASE("x86 loops: primitives of i32") { check_integer_primitives<std::int32_t>(); }
TEST_CASE("x86 loops: primitives of i64") { check_integer_primitives<std::int64_t>(); }

TEST_CASE("x86 loops: primitives of bool") {
  check_binary<bool>(Prim::and_, [](bool x, bool y) { return x && y; });
  check_binary<bool>(Prim::or_, [](bool x, bool y) { return x || y; });
  check_binary<bool>(Prim::xor_, [](bool x, bool y) { return x != y; });
  check_binary<bool>(Prim::eq, [](bool x, bool y) { return x == y; });
  check_binary<bool>(Prim::ne, [](bool x, bool y) { return x != y; });
  check_binary<bool>(Prim::lt, [](bool x, bool y) { return x < y; });
  check_binary<bool>(Prim::le, [](bool x, bool y) { return x <= y; });
  check_unary<bool>(Prim::not_, [](bool x) { return !x; });
  check_map<bool, bool>(
      "select", [](ScalarBuilder& s, ScalarValue x, ScalarValue y, ScalarValue z) { return s.select(x, y, z); },
      [](bool x, bool y, bool z) { return x ? y : z; });
}

TEST_CASE("x86 loops: conversions") {
  check_converts<bool>(), check_converts<std::int32_t>(), check_converts<std::int64_t>(), check_converts<float>(),
      check_converts<double>();
}

TEST_CASE("x86 loops: random bits are Philox's") {
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::pointwise, {{parallel, 37}});
    const auto out = m.operand(DType::i64, 1, true);
    m.store(out, m.s.random_bits(m.s.imm_int(0x123456789ABCDEF, DType::i64), m.s.imm_int(0x77777777777, DType::i64),
                                 m.s.index(0)));
    m.finish();
    std::vector<std::int64_t> bits(37);
    run(m, isa, {bits.data()});
    for (std::int64_t i = 0; i < 37; ++i)
      REQUIRE(bits[static_cast<std::size_t>(i)] == philox_bits(0x123456789ABCDEF, 0x77777777777, i));
  }
}

TEST_CASE("x86 loops: rows reduce in the documented order") {
  for (std::int64_t columns :
       {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 100, 128, 1000, 4095, 4096, 4097, 8192, 12289, 40000}) {
    check_row_sum<float>(3, columns);
    check_row_sum<double>(2, columns);
  }
}

TEST_CASE("x86 loops: columns reduce in the documented order") {
  for (std::int64_t columns : {1, 3, 16, 17, 64, 100, 130})
    for (std::int64_t rows : {0, 1, 7, 100, 128, 129, 700})
      check_column_sum<float>(rows, columns), check_column_sum<double>(rows, columns);
  check_column_sum<float>(4097, 70);
  check_column_sum<float>(20000, 5);
  check_column_sum<double>(12289, 33);
}

TEST_CASE("x86 loops: two reduced axes") {
  constexpr std::int64_t outer = 135, far = 260, near = 19;  // more than a block of rows, twice
  const std::vector<float> x = noise<float>(outer * far * near);
  for (x86::Isa isa : isas()) {
    Maker row(KernelKind::row, {{parallel, outer}, {reduced, far}, {reduced, near}});
    const auto in = row.operand(DType::f32, 7), sum = row.operand(DType::f32, 1, true);
    row.store(sum, row.s.reduce(Prim::reduce_add, row.load(in)));
    row.finish();
    std::vector<float> sums(outer);
    run(row, isa, {const_cast<float*>(x.data()), sums.data()});
    for (std::int64_t o = 0; o < outer; ++o) {
      std::vector<float> inner;
      for (std::int64_t f = 0; f < far; ++f)
        inner.push_back(
            row_in_order<float>(&x[static_cast<std::size_t>((o * far + f) * near)], near, 1, 0.f, std::plus<float>()));
      REQUIRE(sums[static_cast<std::size_t>(o)] ==
              column_in_order<float>(inner.data(), far, 1, 0.f, std::plus<float>()));
    }
    Maker column(KernelKind::column, {{reduced, outer}, {reduced, far}, {parallel, near}});
    const auto cin = column.operand(DType::f32, 7), csum = column.operand(DType::f32, 4, true);
    column.store(csum, column.s.reduce(Prim::reduce_add, column.load(cin)));
    column.finish();
    std::vector<float> totals(near);
    run(column, isa, {const_cast<float*>(x.data()), totals.data()});
    for (std::int64_t c = 0; c < near; ++c) {
      std::vector<float> inner;
      for (std::int64_t o = 0; o < outer; ++o)
        inner.push_back(column_in_order<float>(&x[static_cast<std::size_t>(o * far * near + c)], far, near, 0.f,
                                               std::plus<float>()));
      REQUIRE(totals[static_cast<std::size_t>(c)] ==
              column_in_order<float>(inner.data(), outer, 1, 0.f, std::plus<float>()));
    }
  }
}

TEST_CASE("x86 loops: softmax of rows, out of place and in place, on both instruction sets alike") {
  std::vector<std::vector<float>> results;
  for (std::int64_t columns : {1, 10, 64, 1000, 5000}) {
    results.clear();
    for (x86::Isa isa : isas())
      for (bool in_place : {false, true}) {
        Maker m(KernelKind::row, {{parallel, 4}, {reduced, columns}});
        const auto in = m.operand(DType::f32, 3, in_place);
        const auto out = in_place ? in : m.operand(DType::f32, 3, true);
        const ScalarValue x = m.load(in);
        const ScalarValue e = m.s.exp(m.s.sub(x, m.s.reduce(Prim::reduce_max, x)));
        m.store(out, m.s.div(e, m.s.reduce(Prim::reduce_add, e)));
        m.finish();
        std::vector<float> data = noise<float>(4 * columns), result(data.size());
        for (float& v : data) v *= 5;
        const std::vector<float> before = data;
        if (in_place) run(m, isa, {data.data()}), result = data;
        else run(m, isa, {data.data(), result.data()});
        for (std::int64_t r = 0; r < 4; ++r) {
          double most = -1e30, sum = 0;
          for (std::int64_t c = 0; c < columns; ++c)
            most = std::max(most, static_cast<double>(before[static_cast<std::size_t>(r * columns + c)]));
          for (std::int64_t c = 0; c < columns; ++c)
            sum += std::exp(before[static_cast<std::size_t>(r * columns + c)] - most);
          for (std::int64_t c = 0; c < columns; ++c) {
            const auto at = static_cast<std::size_t>(r * columns + c);
            REQUIRE(result[at] == Approx(std::exp(before[at] - most) / sum).epsilon(2e-6));
          }
        }
        results.push_back(result);
      }
    for (const auto& result : results)
      REQUIRE(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("x86 loops: results do not depend on the number of threads") {
  constexpr std::int64_t n = 3'000'001;
  const std::vector<float> x = noise<float>(n);
  const int before = thread_count();
  for (x86::Isa isa : isas()) {
    std::vector<float> mapped[3];
    float sums[3] = {};
    int at = 0;
    for (int threads : {1, 2, 5}) {
      set_thread_count(threads);
      Maker m(KernelKind::row, {{reduced, n}});
      const auto in = m.operand(DType::f32, 1), out = m.operand(DType::f32, 0, true);
      const ScalarValue v = m.load(in);
      m.store(out, m.s.mul(m.s.reduce(Prim::reduce_add, m.s.mul(v, v)), m.s.imm(0.5, v)));
      m.finish();
      run(m, isa, {const_cast<float*>(x.data()), &sums[at]});
      Maker p(KernelKind::pointwise, {{parallel, n}});
      const auto pin = p.operand(DType::f32, 1), pout = p.operand(DType::f32, 1, true);
      p.store(pout, p.s.add(p.load(pin), p.s.convert(p.s.index(0), DType::f32)));
      p.finish();
      mapped[at].resize(n);
      run(p, isa, {const_cast<float*>(x.data()), mapped[at].data()});
      ++at;
    }
    std::vector<float> squares = x;
    for (float& v : squares) v *= v;
    REQUIRE(sums[0] == 0.5f * row_in_order<float>(squares.data(), n, 1, 0.f, std::plus<float>()));
    REQUIRE(sums[1] == sums[0]);
    REQUIRE(sums[2] == sums[0]);
    REQUIRE(mapped[1] == mapped[0]);
    REQUIRE(mapped[2] == mapped[0]);
    for (std::int64_t i = 0; i < n; i += 997)
      REQUIRE(mapped[0][static_cast<std::size_t>(i)] == x[static_cast<std::size_t>(i)] + static_cast<float>(i));
  }
  set_thread_count(before);
}

TEST_CASE("x86 loops: a NaN anywhere in a row is its minimum and maximum") {
  for (x86::Isa isa : isas())
    for (std::int64_t columns : {1, 17, 64, 100, 200, 4500}) {
      Maker m(KernelKind::row, {{parallel, 1}, {reduced, columns}});
      const auto in = m.operand(DType::f32, 3), least = m.operand(DType::f32, 1, true),
                 most = m.operand(DType::f32, 1, true);
      m.store(least, m.s.reduce(Prim::reduce_min, m.load(in)));
      m.store(most, m.s.reduce(Prim::reduce_max, m.load(in)));
      m.finish();
      auto launch = x86::make_loop_executable(m.kernel, {}, isa)->bind(m.geometry);
      std::vector<float> x = noise<float>(columns);
      float low = 0, high = 0;
      void* operands[] = {x.data(), &low, &high};
      for (std::int64_t at = 0; at < columns; at += at < 220 ? 1 : 97) {
        const float kept = x[static_cast<std::size_t>(at)];
        x[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
        launch->run(operands);
        INFO("columns " << columns << " NaN at " << at);
        REQUIRE(std::isnan(low));
        REQUIRE(std::isnan(high));
        x[static_cast<std::size_t>(at)] = kept;
      }
      launch->run(operands);
      REQUIRE(low == *std::min_element(x.begin(), x.end()));
      REQUIRE(high == *std::max_element(x.begin(), x.end()));
    }
}

TEST_CASE("x86 loops: outputs larger than the caches, aligned and not") {
  constexpr std::int64_t n = 6'500'003;  // 26 MB of f32: stored past the caches where aligned
  std::vector<float> x(n), out(n + 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 8191);
  const auto address = reinterpret_cast<std::uintptr_t>(out.data());
  float* aligned = out.data() + (64 - address % 64) % 64 / sizeof(float);
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::pointwise, {{parallel, n}});
    const auto in = m.operand(DType::f32, 1), result = m.operand(DType::f32, 1, true);
    m.store(result, m.s.add(m.load(in), m.s.imm(1, DType::f32)));
    m.finish();
    auto launch = x86::make_loop_executable(m.kernel, {}, isa)->bind(m.geometry);
    for (float* to : {aligned, aligned + 1}) {
      std::fill(out.begin(), out.end(), -1.f);
      void* operands[] = {x.data(), to};
      launch->run(operands);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < n; ++i) wrong += to[i] != x[static_cast<std::size_t>(i)] + 1;
      REQUIRE(wrong == 0);
      REQUIRE(to[n] == -1);
    }
  }
}

TEST_CASE("x86 loops: strided operands, broadcast and many axes") {
  constexpr std::int64_t a = 3, b = 5, c = 4, d = 19;
  const std::vector<float> x = noise<float>(a * b * c * d), bias = noise<float>(d);
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::pointwise, {{parallel, a}, {parallel, b}, {parallel, c}, {parallel, d}});
    const auto in = m.operand(DType::f32, 15), add = m.operand(DType::f32, 8), out = m.operand(DType::f32, 15, true);
    // The input is read transposed: its innermost axis is a.
    m.kernel.accesses[in].stride = {StrideClass::any, StrideClass::any, StrideClass::any, StrideClass::any};
    m.geometry.accesses[in].stride = {1, a * c * d, a * d, a};
    m.store(out, m.s.add(m.load(in), m.load(add)));
    m.finish();
    Buffer result(DType::f32, a * b * c * d);
    run(m, isa, {const_cast<float*>(x.data()), const_cast<float*>(bias.data()), result.bytes.data()});
    REQUIRE(result.guard_holds());
    for (std::int64_t i = 0, at = 0; i < a; ++i)
      for (std::int64_t j = 0; j < b; ++j)
        for (std::int64_t k = 0; k < c; ++k)
          for (std::int64_t l = 0; l < d; ++l, ++at)
            REQUIRE(result.as<float>()[at] ==
                    x[static_cast<std::size_t>(i + a * (l + d * (k + c * j)))] + bias[static_cast<std::size_t>(l)]);
  }
}

namespace {
/// Memory after which no page may be touched.
class PageEnd {
 public:
  explicit PageEnd(std::size_t bytes) : bytes_(bytes) {
    REQUIRE(bytes <= page);
    start_ = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start_ != MAP_FAILED);
    REQUIRE(::mprotect(static_cast<char*>(start_) + page, page, PROT_NONE) == 0);
  }
  PageEnd(const PageEnd&) = delete;
  PageEnd& operator=(const PageEnd&) = delete;
  ~PageEnd() { ::munmap(start_, 2 * page); }
  void* data() const { return static_cast<char*>(start_) + page - bytes_; }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t bytes_;
  void* start_;
};

template <class T>
void check_elements_apart(std::int64_t apart) {
  for (x86::Isa isa : isas())
    for (std::int64_t n = 1; n < 70; ++n) {
      const std::int64_t all = (n - 1) * apart + 1;
      Maker m(KernelKind::pointwise, {{parallel, n}});
      const auto in = m.operand(dtype_of<T>(), 1), out = m.operand(dtype_of<T>(), 1, true);
      m.kernel.accesses[in].stride[0] = StrideClass::any;
      m.geometry.accesses[in].stride[0] = apart;
      const ScalarValue x = m.load(in);
      m.store(out, m.s.add(x, is_floating(dtype_of<T>()) ? m.s.imm(1, x) : m.s.imm_int(1, dtype_of<T>())));
      m.finish();
      const PageEnd memory(static_cast<std::size_t>(all) * sizeof(T));
      for (std::int64_t i = 0; i < all; ++i) static_cast<T*>(memory.data())[i] = static_cast<T>(i);
      Buffer result(dtype_of<T>(), n);
      run(m, isa, {memory.data(), result.bytes.data()});
      INFO(n << " of " << name(dtype_of<T>()) << ", " << apart << " apart, isa " << static_cast<int>(isa));
      REQUIRE(result.guard_holds());
      for (std::int64_t i = 0; i < n; ++i) REQUIRE(result.as<T>()[i] == static_cast<T>(i * apart + 1));
    }
}
}  // namespace

TEST_CASE("x86 loops: elements that lie apart, up to the end of memory") {
  for (std::int64_t apart : {2, 3}) {
    check_elements_apart<float>(apart);
    check_elements_apart<double>(apart);
    check_elements_apart<std::int32_t>(apart);
    check_elements_apart<std::int64_t>(apart);
  }
}

TEST_CASE("x86 loops: where a guarded load of narrow elements does not hold, its fill has all its digits") {
  constexpr std::int64_t count = 41, readable = 23;
  std::vector<std::int8_t> x(2 * readable);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int8_t>(5 * i);
  for (x86::Isa isa : isas())
    for (std::int64_t stride : {1, 2})
      for (Usually usually : {Usually::unknown, Usually::holds, Usually::fails}) {
        Maker m(KernelKind::pointwise, {{parallel, count}});
        const auto in = m.operand(DType::i8, 1), fill = m.operand(DType::i32, 1), out = m.operand(DType::i32, 1, true);
        m.kernel.accesses[in].stride[0] = stride == 1 ? StrideClass::unit : StrideClass::any;
        m.geometry.accesses[in].stride[0] = stride;
        const ScalarValue holds = m.s.lt(m.s.index(0), m.s.imm_int(readable, DType::i64));
        m.store(out, m.s.guarded_load(in, DType::i8, holds, m.load(fill), usually));
        m.finish();
        std::vector<std::int32_t> fills(count), found(count);
        for (std::size_t i = 0; i < count; ++i) fills[i] = static_cast<std::int32_t>(100000 * i + 77);
        run(m, isa, {x.data(), fills.data(), found.data()});
        for (std::int64_t i = 0; i < count; ++i)
          REQUIRE(found[static_cast<std::size_t>(i)] ==
                  (i < readable ? x[static_cast<std::size_t>(i * stride)] : fills[static_cast<std::size_t>(i)]));
      }
}

TEST_CASE("x86 loops: gather by row and by element; an index out of range is an error") {
  constexpr std::int64_t rows = 6, width = 21, table_rows = 9;
  const std::vector<float> table = noise<float>(table_rows * width);
  for (x86::Isa isa : isas()) {
    for (bool by_element : {false, true}) {
      Maker m(KernelKind::pointwise, {{parallel, rows}, {parallel, width}});
      const auto ids = m.operand(DType::i64, by_element ? 3u : 1u), values = m.operand(DType::f32, 2),
                 out = m.operand(DType::f32, 3, true);
      m.geometry.accesses[values].gather_extent = table_rows;
      m.geometry.accesses[values].gather_stride = width;
      m.store(out, m.s.gather(values, DType::f32, m.load(ids)));
      m.finish();
      std::vector<std::int64_t> index(static_cast<std::size_t>(rows * width));
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i * 5 % table_rows);
      std::vector<float> result(index.size());
      run(m, isa, {index.data(), const_cast<float*>(table.data()), result.data()});
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c) {
          const std::int64_t at = index[static_cast<std::size_t>(by_element ? r * width + c : r)];
          REQUIRE(result[static_cast<std::size_t>(r * width + c)] == table[static_cast<std::size_t>(at * width + c)]);
        }
      auto executable = x86::make_loop_executable(m.kernel, {}, isa);
      auto launch = executable->bind(m.geometry);
      void* operands[] = {index.data(), const_cast<float*>(table.data()), result.data()};
      for (std::int64_t bad : {std::int64_t{-1}, table_rows}) {
        index[3] = bad;
        REQUIRE_THROWS_AS(launch->run(operands), IndexError);
      }
      index[3] = 0;
      REQUIRE_NOTHROW(launch->run(operands));
    }
  }
}

TEST_CASE("x86 loops: what is declined says why") {
  for (x86::Isa isa : isas()) {
    Maker m(KernelKind::pointwise, {{parallel, 4}});
    const auto in = m.operand(DType::i32, 1), out = m.operand(DType::i32, 1, true);
    m.store(out, m.s.exp(m.load(in)));
    m.finish();
    std::string why;
    REQUIRE(x86::make_loop_executable(m.kernel, {}, isa, &why) == nullptr);
    REQUIRE(why.find("exp of i32") != std::string::npos);
  }
}

#endif
