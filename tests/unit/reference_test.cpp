// The reference back end: hand-made kernels against plain loops, the edges of each primitive, and Philox against the
// published known answers.
#include "../catch.hpp"

#include <sinter/backend/reference/reference.hpp>
#include <sinter/ops/philox.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

using namespace sinter;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Puts a kernel and its numbers together: add operands, write the body through `s`, run.
struct Maker {
  Kernel kernel;
  BoundGeometry geometry;
  ScalarBuilder s;
  std::vector<void*> operands;

  Maker(KernelKind kind, std::initializer_list<AxisRole> roles, std::vector<std::int64_t> extents) {
    kernel.kind = kind;
    kernel.axes = roles;
    std::copy(extents.begin(), extents.end(), geometry.extent.begin());
  }
  template <class T>
  std::uint16_t operand(std::vector<T>& data, bool is_written) {
    kernel.operands.push_back({dtype_of<T>(), is_written});
    operands.push_back(data.data());
    return static_cast<std::uint16_t>(operands.size() - 1);
  }
  std::uint16_t access(std::uint16_t operand, const std::vector<std::int64_t>& strides, std::int64_t offset = 0) {
    Access access{operand, {}};
    BoundGeometry::AccessNumbers numbers;
    numbers.offset = offset;
    for (std::size_t a = 0; a < strides.size(); ++a) {
      numbers.stride[a] = strides[a];
      access.stride[a] = strides[a] == 0 ? StrideClass::zero : strides[a] == 1 ? StrideClass::unit : StrideClass::any;
    }
    kernel.accesses.push_back(access);
    geometry.accesses.push_back(numbers);
    return static_cast<std::uint16_t>(kernel.accesses.size() - 1);
  }
  template <class T>
  ScalarValue load(std::vector<T>& data, const std::vector<std::int64_t>& strides, std::int64_t offset = 0) {
    return s.load(access(operand(data, false), strides, offset), dtype_of<T>());
  }
  template <class T>
  ScalarValue gather(std::vector<T>& table, const std::vector<std::int64_t>& strides, std::int64_t extent,
                     std::int64_t stride, ScalarValue index) {
    const std::uint16_t a = access(operand(table, false), strides);
    geometry.accesses[a].gather_extent = extent;
    geometry.accesses[a].gather_stride = stride;
    return s.gather(a, dtype_of<T>(), index);
  }
  template <class T>
  void store(ScalarValue value, std::vector<T>& out, const std::vector<std::int64_t>& strides,
             std::int64_t offset = 0) {
    kernel.stores.push_back({access(operand(out, true), strides, offset), value.id});
  }
  void run() {
    kernel.body = s.body();
    ReferenceBackend backend;
    backend.compile(kernel, backend.schedules(kernel).front())->bind(geometry)->run(operands.data());
  }
};

constexpr AxisRole P = AxisRole::parallel, R = AxisRole::reduced;

std::vector<float> ramp(std::int64_t count, float scale = 0.37f, int period = 23) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 7) % period - period / 2) * scale;
  return values;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return {};
}

/// out[i] = f(a[i]) through a kernel.
template <class To = void, class T, class Make>
auto map(std::vector<T> a, Make&& make) {
  using Result = std::conditional_t<std::is_void_v<To>, T, To>;
  std::vector<Result> out(a.size());
  Maker k(KernelKind::pointwise, {P}, {static_cast<std::int64_t>(a.size())});
  k.store(make(k.s, k.load(a, {1})), out, {1});
  k.run();
  return out;
}
template <class T>
std::vector<T> map_2(Prim prim, std::vector<T> a, std::vector<T> b) {
  std::vector<T> out(a.size());
  Maker k(KernelKind::pointwise, {P}, {static_cast<std::int64_t>(a.size())});
  const ScalarValue x = k.load(a, {1}), y = k.load(b, {1});
  k.store(k.s.binary(prim, x, y), out, {1});
  k.run();
  return out;
}

}  // namespace

TEST_CASE("philox: known answers of Random123") {
  STATIC_REQUIRE(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  STATIC_REQUIRE(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
                 PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  STATIC_REQUIRE(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
                 PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  // The key and both counter words, low half first: the third vector again.
  STATIC_REQUIRE(philox_bits(0x299f31d0a4093822, 0x0370734413198a2e, static_cast<std::int64_t>(0x85a308d3243f6a88)) ==
                 0xd16cfe09);
}

TEST_CASE("reference: random bits are Philox of the element index") {
  std::vector<std::int64_t> key{42}, counter{7}, out(600);
  Maker k(KernelKind::pointwise, {P, P}, {2, 300});
  const ScalarValue element = k.s.add(k.s.mul(k.s.index(0), k.s.imm_int(300, DType::i64)), k.s.index(1));
  const ScalarValue key_value = k.load(key, {0, 0}), counter_value = k.load(counter, {0, 0});
  k.store(k.s.random_bits(key_value, counter_value, element), out, {300, 1});
  k.run();
  for (std::int64_t i = 0; i < 600; ++i) REQUIRE(out[static_cast<std::size_t>(i)] == philox_bits(42, 7, i));
}

TEST_CASE("reference: pointwise with broadcast, transposed, reversed and offset operands") {
  constexpr std::int64_t rows = 37, columns = 300;
  std::vector<float> a = ramp(rows * columns), row = ramp(columns, 0.1f), transposed = ramp(rows * columns, 0.2f, 31);
  std::vector<float> out(rows * columns + 5, -1), reversed(rows * columns);
  Maker k(KernelKind::pointwise, {P, P}, {rows, columns});
  const ScalarValue x = k.load(a, {columns, 1}), y = k.load(row, {0, 1}), z = k.load(transposed, {1, rows});
  k.store(k.s.fma(x, y, z), out, {columns, 1}, 5);
  k.store(k.s.sub(x, z), reversed, {-columns, -1}, rows * columns - 1);
  k.run();
  for (std::size_t i = 0; i < 5; ++i) REQUIRE(out[i] == -1);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(i * columns + j);
      const float t = transposed[static_cast<std::size_t>(j * rows + i)];
      REQUIRE(out[at + 5] == std::fma(a[at], row[static_cast<std::size_t>(j)], t));
      REQUIRE(reversed[reversed.size() - 1 - at] == a[at] - t);
    }
  }
}

TEST_CASE("reference: in place, with a converted and a boolean result beside it") {
  std::vector<float> x = ramp(1000);
  const std::vector<float> before = x;
  std::vector<double> wide(1000);
  Maker k(KernelKind::pointwise, {P}, {1000});
  const std::uint16_t both = k.access(k.operand(x, true), {1});
  const ScalarValue value = k.s.load(both, DType::f32);
  k.kernel.stores.push_back({both, k.s.mul(value, value).id});
  k.store(k.s.convert(k.s.lt(value, k.s.imm(0, value)), DType::f64), wide, {1});
  k.run();
  for (std::size_t i = 0; i < 1000; ++i) {
    REQUIRE(x[i] == before[i] * before[i]);
    REQUIRE(wide[i] == (before[i] < 0 ? 1 : 0));
  }
}

TEST_CASE("reference: integers wrap, and division is defined everywhere") {
  constexpr std::int32_t low = std::numeric_limits<std::int32_t>::min(),
                         high = std::numeric_limits<std::int32_t>::max();
  using V = std::vector<std::int32_t>;
  CHECK(map_2<std::int32_t>(Prim::add, {high, 1}, {1, 2}) == V{low, 3});
  CHECK(map_2<std::int32_t>(Prim::sub, {low, 1}, {1, 2}) == V{high, -1});
  CHECK(map_2<std::int32_t>(Prim::mul, {1 << 30, -3}, {4, 5}) == V{0, -15});
  CHECK(map_2<std::int32_t>(Prim::div, {7, -7, 7, -7, 5, low}, {2, 2, -2, -2, 0, -1}) == V{3, -3, -3, 3, 0, low});
  CHECK(map_2<std::int32_t>(Prim::rem, {7, -7, 7, -7, 5, low}, {3, 3, -3, -3, 0, -1}) == V{1, 2, -2, -1, 0, 0});
  CHECK(map_2<std::int32_t>(Prim::pow, {3, -1, 2, 5}, {4, -3, -1, 0}) == V{81, -1, 0, 1});
  CHECK(map_2<std::int32_t>(Prim::xor_, {6, -1}, {3, 1}) == V{5, -2});
  CHECK(map_2<std::int64_t>(Prim::mul, {std::numeric_limits<std::int64_t>::min()}, {-1}) ==
        std::vector{std::numeric_limits<std::int64_t>::min()});
  CHECK(map(V{low, -3, 4}, [](ScalarBuilder& s, ScalarValue x) { return s.abs(x); }) == V{low, 3, 4});
  CHECK(map(V{0, -1}, [](ScalarBuilder& s, ScalarValue x) { return s.not_(x); }) == V{-1, 0});
}

TEST_CASE("reference: floating edges") {
  using V = std::vector<float>;
  const V least = map_2<float>(Prim::min, {not_a_number, 1, 2, -infinity}, {1, not_a_number, 3, 0}),
          most = map_2<float>(Prim::max, {not_a_number, 1, 2, -infinity}, {1, not_a_number, 3, 0});
  CHECK((std::isnan(least[0]) && std::isnan(least[1]) && least[2] == 2 && least[3] == -infinity));
  CHECK((std::isnan(most[0]) && std::isnan(most[1]) && most[2] == 3 && most[3] == 0));
  CHECK(map(V{0.5f, 1.5f, 2.5f, -0.5f, -1.5f}, [](ScalarBuilder& s, ScalarValue x) { return s.round(x); }) ==
        V{0, 2, 2, 0, -2});
  CHECK(map_2<float>(Prim::rem, {7, -7, 7, -7}, {3, 3, -3, -3}) == V{1, 2, -2, -1});
  CHECK(map(V{1, 4, infinity}, [](ScalarBuilder& s, ScalarValue x) { return s.rsqrt(x); }) == V{1, 0.5f, 0});
  const V logs = map(V{0, -1, 1, infinity}, [](ScalarBuilder& s, ScalarValue x) { return s.log(x); });
  CHECK((logs[0] == -infinity && std::isnan(logs[1]) && logs[2] == 0 && logs[3] == infinity));
}

TEST_CASE("reference: conversion saturates, truncates and takes NaN to 0") {
  const std::vector<double> x{1.9, -1.9, 3e9, -3e9, 1e30, -1e30, std::numeric_limits<double>::quiet_NaN()};
  const auto to = [](DType dtype) { return [dtype](ScalarBuilder& s, ScalarValue v) { return s.convert(v, dtype); }; };
  constexpr auto low32 = std::numeric_limits<std::int32_t>::min(), high32 = std::numeric_limits<std::int32_t>::max();
  constexpr auto low64 = std::numeric_limits<std::int64_t>::min(), high64 = std::numeric_limits<std::int64_t>::max();
  CHECK(map<std::int32_t>(x, to(DType::i32)) == std::vector<std::int32_t>{1, -1, high32, low32, high32, low32, 0});
  CHECK(map<std::int64_t>(x, to(DType::i64)) ==
        std::vector<std::int64_t>{1, -1, 3000000000, -3000000000, high64, low64, 0});
  CHECK(map<float>(std::vector<std::int64_t>{(1 << 24) + 1, -5}, to(DType::f32)) == std::vector<float>{1 << 24, -5});
  CHECK(map<std::int32_t>(std::vector<std::int64_t>{(std::int64_t{1} << 32) + 7}, to(DType::i32)) ==
        std::vector<std::int32_t>{7});
}

TEST_CASE("reference: softmax walks the row three times, for short and long rows") {
  for (std::int64_t columns : {1, 5, 47, 48, 256, 257, 1000}) {
    constexpr std::int64_t rows = 9;
    std::vector<float> x = ramp(rows * columns, 0.9f), y(x.size()), sums(rows);
    Maker k(KernelKind::row, {P, R}, {rows, columns});
    const ScalarValue v = k.load(x, {columns, 1});
    const ScalarValue e = k.s.exp(k.s.sub(v, k.s.reduce(Prim::reduce_max, v))), sum = k.s.reduce(Prim::reduce_add, e);
    k.store(k.s.div(e, sum), y, {columns, 1});
    k.store(sum, sums, {1, 0});
    k.run();
    for (std::int64_t i = 0; i < rows; ++i) {
      double most = -1e30, total = 0;
      const auto at = [&](std::int64_t j) { return static_cast<std::size_t>(i * columns + j); };
      for (std::int64_t j = 0; j < columns; ++j) most = std::max<double>(most, x[at(j)]);
      for (std::int64_t j = 0; j < columns; ++j) total += std::exp(x[at(j)] - most);
      INFO("columns " << columns << " row " << i);
      REQUIRE(sums[static_cast<std::size_t>(i)] == Approx(total).epsilon(1e-6));
      for (std::int64_t j = 0; j < columns; ++j)
        REQUIRE(y[at(j)] == Approx(std::exp(x[at(j)] - most) / total).epsilon(1e-5));
    }
  }
}

TEST_CASE("reference: reductions of every kind, of nothing too") {
  for (std::int64_t count : {0, 1, 300, 5000}) {
    std::vector<float> x = ramp(count, 0.001f);
    for (float& v : x) v += 1;
    std::vector<float> out(4, -7);
    Maker k(KernelKind::row, {R}, {count});
    const ScalarValue v = k.load(x, {1});
    std::int64_t place = 0;
    const std::uint16_t result = k.operand(out, true);
    for (Prim prim : {Prim::reduce_add, Prim::reduce_mul, Prim::reduce_min, Prim::reduce_max})
      k.kernel.stores.push_back({k.access(result, {0}, place++), k.s.reduce(prim, v).id});
    k.run();
    double sum = 0, product = 1;
    float least = infinity, most = -infinity;
    for (float value : x) {
      sum += value;
      product *= value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    CHECK(out == std::vector<float>{static_cast<float>(sum), static_cast<float>(product), least, most});
  }
}

TEST_CASE("reference: a sum over two axes enters the values of both") {
  constexpr std::int64_t planes = 3, rows = 4, columns = 70;
  std::vector<double> x(planes * rows * columns), y(x.size());
  std::iota(x.begin(), x.end(), 1);
  Maker k(KernelKind::row, {P, R, R}, {planes, rows, columns});
  const ScalarValue v = k.load(x, {rows * columns, columns, 1});
  k.store(k.s.div(v, k.s.reduce(Prim::reduce_add, v)), y, {rows * columns, columns, 1});
  k.run();
  for (std::size_t plane = 0; plane < planes; ++plane) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(plane * rows * columns);
    const double sum = std::accumulate(begin, begin + rows * columns, 0.0);
    for (std::size_t i = plane * rows * columns; i < (plane + 1) * rows * columns; ++i) REQUIRE(y[i] == x[i] / sum);
  }
}

TEST_CASE("reference: columns, with the mean taken off in place") {
  for (std::int64_t columns : {3, 300}) {
    constexpr std::int64_t rows = 50;
    std::vector<float> x = ramp(rows * columns), before = x, mean(static_cast<std::size_t>(columns));
    Maker k(KernelKind::column, {R, P}, {rows, columns});
    const std::uint16_t both = k.access(k.operand(x, true), {columns, 1});
    const ScalarValue v = k.s.load(both, DType::f32),
                      m = k.s.mul(k.s.reduce(Prim::reduce_add, v), k.s.imm(1.0 / rows, DType::f32));
    k.kernel.stores.push_back({both, k.s.sub(v, m).id});
    k.store(m, mean, {0, 1});
    k.run();
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < rows; ++i) sum += before[static_cast<std::size_t>(i * columns + j)];
      REQUIRE(mean[static_cast<std::size_t>(j)] == Approx(sum / rows).margin(1e-6));
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto at = static_cast<std::size_t>(i * columns + j);
        REQUIRE(x[at] == before[at] - mean[static_cast<std::size_t>(j)]);
      }
    }
  }
}

TEST_CASE("reference: empty extents write nothing") {
  std::vector<float> x = ramp(8), out(8, 3);
  Maker k(KernelKind::row, {P, R}, {0, 8});
  k.store(k.s.reduce(Prim::reduce_add, k.load(x, {8, 1})), out, {1, 0});
  k.run();
  CHECK(out == std::vector<float>(8, 3));
}

TEST_CASE("reference: contraction with bias and relu, over tile borders, transposed and batched") {
  constexpr std::int64_t batches = 2, m = 65, n = 131, depth = 70;
  std::vector<float> a = ramp(batches * m * depth), b = ramp(n * depth, 0.11f, 29), bias = ramp(n),
                     out(batches * m * n);
  Maker k(KernelKind::contraction, {P, P, P, R}, {batches, m, n, depth});
  const ScalarValue left = k.load(a, {m * depth, depth, 0, 1}), right = k.load(b, {0, 0, depth, 1});  // b is (n, k)
  const ScalarValue sum = k.s.add(k.s.contract(left, right), k.load(bias, {0, 0, 1, 0}));
  k.store(k.s.max(sum, k.s.imm(0, sum)), out, {m * n, n, 1, 0});
  k.run();
  for (std::int64_t i = 0; i < batches * m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t p = 0; p < depth; ++p)
        total += static_cast<double>(a[static_cast<std::size_t>(i * depth + p)]) *
                 b[static_cast<std::size_t>(j * depth + p)];
      const float expected = static_cast<float>(total) + bias[static_cast<std::size_t>(j)];
      REQUIRE(out[static_cast<std::size_t>(i * n + j)] == std::max(expected, 0.0f));
    }
  }
}

TEST_CASE("reference: contraction with operands that are computed first") {
  constexpr std::int64_t m = 65, n = 19, depth = 70;
  std::vector<float> a = ramp(m * depth), scale = ramp(depth, 0.3f, 11), shift = ramp(m),
                     b = ramp(n * depth, 0.11f, 29), out(m * n);
  std::vector<std::int32_t> mask(n * depth);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0;
  Maker k(KernelKind::contraction, {P, P, R}, {m, n, depth});
  const ScalarValue left = k.s.fma(k.load(a, {depth, 0, 1}), k.load(scale, {0, 0, 1}), k.load(shift, {1, 0, 0}));
  const ScalarValue right = k.s.mul(k.load(b, {0, depth, 1}), k.s.convert(k.load(mask, {0, depth, 1}), DType::f32));
  k.store(k.s.contract(left, right), out, {n, 1, 0});
  k.run();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t p = 0; p < depth; ++p) {
        const float operand = std::fma(a[static_cast<std::size_t>(i * depth + p)], scale[static_cast<std::size_t>(p)],
                                       shift[static_cast<std::size_t>(i)]);
        total += static_cast<double>(operand) * (b[static_cast<std::size_t>(j * depth + p)] *
                                                 static_cast<float>(mask[static_cast<std::size_t>(j * depth + p)]));
      }
      REQUIRE(out[static_cast<std::size_t>(i * n + j)] == Approx(total).epsilon(1e-6).margin(1e-6));
    }
  }
}

TEST_CASE("reference: integer contraction wraps, and one over nothing is zero") {
  for (std::int64_t depth : {0, 100}) {
    std::vector<std::int32_t> a(static_cast<std::size_t>(3 * depth), 1 << 20),
        b(static_cast<std::size_t>(depth * 2), (1 << 10) + 1), out(6, -1);
    Maker k(KernelKind::contraction, {P, P, R}, {3, 2, depth});
    const ScalarValue left = k.load(a, {depth, 0, 1}), right = k.load(b, {0, 1, 2});
    k.store(k.s.contract(left, right), out, {2, 1, 0});
    k.run();
    const auto expected = static_cast<std::int32_t>(static_cast<std::uint32_t>(depth * ((1LL << 30) + (1LL << 20))));
    CHECK(out == std::vector<std::int32_t>(6, expected));
  }
}

TEST_CASE("reference: gather, and its error when an index is out of range") {
  constexpr std::int64_t rows = 6, columns = 10, count = 4;
  std::vector<float> table = ramp(rows * columns), out(count * columns);
  std::vector<std::int32_t> index{5, 0, 3, 3};
  Maker k(KernelKind::pointwise, {P, P}, {count, columns});
  k.store(k.gather(table, {0, 1}, rows, columns, k.load(index, {1, 0})), out, {columns, 1});
  k.kernel.body = k.s.body();
  ReferenceBackend backend;
  const auto launch =
      backend.compile(k.kernel, {})->bind(k.geometry);  // the executable is gone: the launch needs it no more
  const auto check = [&] {
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        REQUIRE(out[i * columns + j] == table[static_cast<std::size_t>(index[i]) * columns + j]);
  };
  launch->run(k.operands.data());
  check();
  for (std::int32_t bad : {6, -1}) {
    index[2] = bad;
    CHECK_THROWS_AS(launch->run(k.operands.data()), IndexError);
    CHECK(error_of([&] { launch->run(k.operands.data()); }) ==
          "sinter::IndexError: gather: index " + std::to_string(bad) + " is out of range for an axis of extent 6");
  }
  index[2] = 1;
  launch->run(k.operands.data());
  check();
}

TEST_CASE("reference: `index` along lanes, rows and reduced axes") {
  constexpr std::int64_t rows = 3, columns = 100;
  std::vector<std::int64_t> argmax(rows), out(rows * columns);
  std::vector<float> x(rows * columns, 1);
  x[17] = 2;
  x[columns + 99] = 2;
  x[2 * columns] = 2;
  Maker k(KernelKind::row, {P, R}, {rows, columns});
  const ScalarValue v = k.load(x, {columns, 1}), none = k.s.imm_int(columns, DType::i64);
  const ScalarValue is_most = k.s.eq(v, k.s.reduce(Prim::reduce_max, v));
  k.store(k.s.reduce(Prim::reduce_min, k.s.select(is_most, k.s.index(1), none)), argmax, {1, 0});
  k.store(k.s.add(k.s.mul(k.s.index(0), k.s.imm_int(1000, DType::i64)), k.s.index(1)), out, {columns, 1});
  k.run();
  CHECK(argmax == std::vector<std::int64_t>{17, 99, 0});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    REQUIRE(out[static_cast<std::size_t>(i)] == i / columns * 1000 + i % columns);
}

TEST_CASE("reference: a value that is constant along the row is stored once, or all along it") {
  std::vector<float> x = ramp(3 * 60), once(3), all(3 * 60);
  Maker k(KernelKind::row, {P, R}, {3, 60});
  const ScalarValue most = k.s.reduce(Prim::reduce_max, k.load(x, {60, 1}));
  k.store(most, once, {1, 0});
  k.store(most, all, {60, 1});
  k.run();
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == once[i / 60]);
}

TEST_CASE("reference: what it says of itself") {
  const auto backend = make_reference_backend();
  CHECK(backend->name() == "reference");
  CHECK(backend->limits().random);
  std::vector<float> x = ramp(4), y(4);
  Maker k(KernelKind::row, {R}, {4});
  k.store(k.s.sub(k.load(x, {1}), k.s.reduce(Prim::reduce_max, k.s.load(0, DType::f32))), y, {1});
  k.kernel.body = k.s.body();
  CHECK(backend->compile(k.kernel, {})->listing().find("pass 1: outer %1 inner %0 %2\n") != std::string::npos);
  k.kernel.body[1].args[0] = 2;
  CHECK_THROWS_AS(backend->compile(k.kernel, {}), InternalError);
}
