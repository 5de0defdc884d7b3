// Coordinates along the last axis, and other elements that alternate in memory: what generated code makes of whole
// vectors of them, beside plain loops. All numbers are small integers, so that every order and every back end gives the
// same bits; numbers of rows lie around multiples of a vector's lanes.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <functional>

using namespace sinter;

namespace {

using Fields = std::vector<Tensor>;
using Numbers = std::vector<double>;

constexpr std::int64_t row_counts[] = {1, 3, 4, 5, 15, 16, 17, 31, 33, 64, 100, 259, 1000};

/// Integers from -9 to 9.
Tensor numbers(const Shape& shape, DType dtype, int salt) {
  std::int64_t count = 1;
  for (int a = 0; a < shape.rank(); ++a) count *= shape[a].value();
  Tensor x = reshape((arange(count) * 7919 + salt * 104729) % 19 - 9, shape).to(dtype);
  eval(x);
  return x;
}

Numbers as_numbers(const Tensor& x) {
  const Tensor wide = x.to(DType::f64);
  const auto values = wide.data<double>();
  return Numbers(values.begin(), values.end());
}

void expect_equal(const Tensor& got, const Numbers& expected, const std::string& what) {
  INFO(what);
  REQUIRE(as_numbers(got) == expected);
}

using Step = std::function<Tensor(const Fields&)>;

/// Compiled, beside the same step without fusion by the reference back end.
void check(const std::string& what, const Fields& in, const Step& step) {
  auto compiled = jit::compile([&](const Fields& f) { return step(f); });
  auto reference = jit::compile([&](const Fields& f) { return step(f); }, {.backend = "reference"});
  expect_equal(compiled(in), as_numbers(reference(in)), what);
}

Tensor column(const Tensor& x, std::int64_t c) { return x(all, c); }

}  // namespace

TEST_CASE("coordinates along the last axis: reductions and maps, every dtype and number of rows") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (std::int64_t k = 2; k <= 9; ++k)
      for (const std::int64_t n : row_counts) {
        const std::string at = std::string(name(dtype)) + " " + std::to_string(n) + "x" + std::to_string(k);
        const Tensor x = numbers({n, k}, dtype, 1), y = numbers({n, k}, dtype, 2), s = numbers({n, 1}, dtype, 3),
                     t = numbers({1, k}, dtype, 4);
        check("dot " + at, {x, y}, [](const Fields& f) { return sum(f[0] * f[1], 1); });
        check("least " + at, {x, y}, [](const Fields& f) { return amin(f[0] - f[1], 1); });
        check("move " + at, {x, y, s, t}, [](const Fields& f) { return f[0] + f[1] * f[2] - f[3]; });
        check("less the largest " + at, {x, s},
              [](const Fields& f) { return f[0] * f[1] - amax(f[0] + f[1], 1, Keep::yes); });
      }
}

TEST_CASE("coordinates along the last axis: columns taken and joined again") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::f16, DType::u8})
    for (std::int64_t k = 2; k <= 5; ++k)
      for (const std::int64_t n : row_counts) {
        const std::string at = std::string(name(dtype)) + " " + std::to_string(n) + "x" + std::to_string(k);
        const Tensor x =
            dtype == DType::u8 ? Tensor(abs(numbers({n, k}, DType::i32, 1)).to(dtype)) : numbers({n, k}, dtype, 1);
        check("one column " + at, {x}, [](const Fields& f) { return column(f[0], 1) + column(f[0], 1); });
        check("first and last " + at, {x}, [k](const Fields& f) { return column(f[0], 0) * column(f[0], k - 1); });
        check("joined " + at, {x}, [k](const Fields& f) {
          std::vector<Tensor> parts;
          for (std::int64_t c = 0; c < k; ++c)
            parts.push_back(column(f[0], k - 1 - c) + column(f[0], c) * column(f[0], 0));
          return stack(parts, 1);
        });
        check("one column written " + at, {x}, [k](const Fields& f) {
          Tensor y = f[0] + f[0];
          y.at(all, k - 1) = column(f[0], 0);
          y.at(all, 0) = column(f[0], 1);
          return y;
        });
      }
}

TEST_CASE("coordinates along the last axis: parts of wider rows, pairs, matrices, rows by indices") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : row_counts) {
      const std::string at = std::string(name(dtype)) + " " + std::to_string(n);
      const Tensor wide = numbers({n, 7}, dtype, 1), four = numbers({n, 4}, dtype, 2), x = numbers({n, 3}, dtype, 3),
                   m = numbers({n, 3, 3}, dtype, 4), few = numbers({5, 3}, dtype, 5);
      check("part of four " + at, {four, x}, [](const Fields& f) { return sum(f[0](all, slice(0, 3)) * f[1], 1); });
      check("last of four " + at, {four, x}, [](const Fields& f) { return f[0](all, slice(1, 4)) - f[1]; });
      check("part of seven " + at, {wide, x}, [](const Fields& f) { return amax(f[0](all, slice(2, 5)) + f[1], 1); });
      check("pairs " + at, {x, few}, [n](const Fields& f) {
        const Tensor d = reshape(f[0], {n, 1, 3}) - reshape(f[1], {1, 5, 3});
        return sum(d * d, 2);
      });
      check("pairs the other way " + at, {x, few}, [n](const Fields& f) {
        const Tensor d = reshape(f[1], {5, 1, 3}) - reshape(f[0], {1, n, 3});
        return sum(d * d, 2);
      });
      check("matrices " + at, {m, x}, [n](const Fields& f) { return sum(f[0] * reshape(f[1], {n, 1, 3}), 2); });
      check("transposed " + at, {numbers({3, n}, dtype, 6), x},
            [](const Fields& f) { return sum(transpose(f[0], 0, 1) * f[1], 1); });
      check("cross " + at, {x, numbers({n, 3}, dtype, 7)}, [](const Fields& f) { return cross(f[0], f[1]); });
      check("largest, as bool " + at, {x}, [](const Fields& f) { return any(f[0] > 3, 1); });
      check("place " + at, {x}, [](const Fields& f) { return where(f[0] > 0, f[0], arange(3).to(f[0].dtype())); });
      const Tensor indices = (arange(2 * n) * 5) % n;
      check("by indices " + at, {x, indices},
            [](const Fields& f) { return sum(take(f[0], f[1], 0) * take(f[0], (f[1] + 0), 0), 1); });
      const Tensor many = numbers({6, n, 3}, dtype, 8);
      check("sums of columns over the first axis " + at, {many},
            [](const Fields& f) { return sum(f[0](all, all, 0) * f[0](all, all, 2), 0); });
      check("place of the largest of a column " + at, {many},
            [](const Fields& f) { return argmax(f[0](all, all, 1), 0); });
      check("sum of products of columns " + at, {x},
            [](const Fields& f) { return sum(column(f[0], 0) * column(f[0], 2), 0); });
    }
}

TEST_CASE("coordinates along the last axis: sums of negative zeros are zero, NaN is kept") {
  const std::int64_t n = 40;
  const Tensor x = where(reshape(arange(3 * n), {n, 3}) == 30, std::nanf(""), full({n, 3}, -0.0f));
  eval(x);
  auto sums = jit::compile([](const Tensor& t) { return sum(t, 1); });
  auto least = jit::compile([](const Tensor& t) { return amin(t, 1); });
  const Tensor s = sums(x), l = least(x);
  for (std::int64_t i = 0; i < n; ++i) {
    const float total = s.data<float>()[static_cast<std::size_t>(i)],
                low = l.data<float>()[static_cast<std::size_t>(i)];
    CHECK((i == 10 ? std::isnan(total) && std::isnan(low) : total == 0 && !std::signbit(total) && std::signbit(low)));
  }
}
