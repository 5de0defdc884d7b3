// Conventions of values (docs/numerics.md), the same bits however a function runs: on every back end, compiled, folded
// and read on the host.
#include "op_table.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using oracle::infinite;
using oracle::not_a_number;

/// Equal, with the signs of zeros; NaN is NaN.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  else return a == b;
}

template <class T>
Tensor tensor_of(const std::vector<double>& values) {
  std::vector<T> data;
  for (double v : values) data.push_back(static_cast<T>(v));
  return copy_of(data);
}

/// 17 copies of the inputs, so that whole vectors, tails and the short way are all seen.
std::vector<double> repeated(const std::vector<double>& values) {
  std::vector<double> all;
  for (int i = 0; i < 17; ++i) all.insert(all.end(), values.begin(), values.end());
  return all;
}

template <class R>
void check_result(const std::string& what, const Tensor& got, const std::vector<R>& want) {
  const std::vector<R> values = to_vector<R>(got);
  REQUIRE(values.size() % want.size() == 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO(what << ", element " << i % want.size() << " is " << values[i] << ", should be " << want[i % want.size()]);
    if (!same(values[i], want[i % want.size()])) CHECK(same(values[i], want[i % want.size()]));
  }
}

/// On tensors in every mode, and on constants, which are folded.
template <class T, class R>
void check_unary(const char* what, Tensor (*f)(const Tensor&), const std::vector<double>& x,
                 const std::vector<R>& want) {
  for (const Mode& mode : modes())
    check_result(std::string(what) + ", " + mode.name,
                 run_in(mode, [f](const Inputs& in) { return f(in[0]); }, {tensor_of<T>(repeated(x))}), want);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto folded = jit::compile([f, v = x[i]](Tensor) { return f(full({3}, v, {.dtype = dtype_of<T>()})); });
    check_result<R>(std::string(what) + ", folded", folded(Tensor(zeros({1}))), {want[i]});
  }
}
template <class T, class R>
void check_binary(const char* what, Tensor (*f)(const Tensor&, const Tensor&), const std::vector<double>& a,
                  const std::vector<double>& b, const std::vector<R>& want) {
  for (const Mode& mode : modes())
    check_result(std::string(what) + ", " + mode.name,
                 run_in(mode, [f](const Inputs& in) { return f(in[0], in[1]); },
                        {tensor_of<T>(repeated(a)), tensor_of<T>(repeated(b))}),
                 want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const DType dtype = dtype_of<T>();
    const auto folded = jit::compile(
        [=, x = a[i], y = b[i]](Tensor) { return f(full({3}, x, {.dtype = dtype}), full({3}, y, {.dtype = dtype})); });
    check_result<R>(std::string(what) + ", folded", folded(Tensor(zeros({1}))), {want[i]});
    for (const Mode& mode : modes()) {  // one side a constant of the code
      const auto left = [=, x = a[i]](const Inputs& in) { return f(full({3}, x, {.dtype = dtype}), in[0]); };
      const auto right = [=, y = b[i]](const Inputs& in) { return f(in[0], full({3}, y, {.dtype = dtype})); };
      const Tensor first = tensor_of<T>({a[i], a[i], a[i]}), second = tensor_of<T>({b[i], b[i], b[i]});
      check_result<R>(std::string(what) + ", constant first, " + mode.name, run_in(mode, left, {second}), {want[i]});
      check_result<R>(std::string(what) + ", constant second, " + mode.name, run_in(mode, right, {first}), {want[i]});
    }
  }
}

template <class T>
void check_conversions() {
  constexpr std::int32_t low = std::numeric_limits<std::int32_t>::min(),
                         high = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                         highest = std::numeric_limits<std::int64_t>::max();
  const std::vector<double> x{not_a_number, -not_a_number, infinite,      -infinite, 3e9,  -3e9,   1e19,
                              -1e19,        2147483520,    -2147483648.0, 1.9,       -1.9, 0x1p62, -0.0};
  check_unary<T, std::int32_t>("to i32", [](const Tensor& t) { return Tensor(cast(t, DType::i32)); }, x,
                               {0, 0, high, low, high, low, high, low, 2147483520, low, 1, -1, high, 0});
  check_unary<T, std::int64_t>("to i64", [](const Tensor& t) { return Tensor(cast(t, DType::i64)); }, x,
                               {0, 0, highest, lowest, 3000000000, -3000000000, highest, lowest, 2147483520, low, 1, -1,
                                std::int64_t{1} << 62, 0});
  check_unary<T, bool>("to bool", [](const Tensor& t) { return Tensor(cast(t, DType::bool_)); }, x,
                       {true, true, true, true, true, true, true, true, true, true, true, true, true, false});
}

template <class T>
void check_extrema() {
  const std::vector<double> a{0.0, -0.0, 0.0, -0.0, not_a_number, 1, not_a_number, -1, infinite};
  const std::vector<double> b{-0.0, 0.0, 0.0, -0.0, 1, not_a_number, not_a_number, 2, -infinite};
  check_binary<T, T>("maximum", [](const Tensor& x, const Tensor& y) { return Tensor(maximum(x, y)); }, a, b,
                     {0, 0, 0, T(-0.0), T(not_a_number), T(not_a_number), T(not_a_number), 2, T(infinite)});
  check_binary<T, T>(
      "minimum", [](const Tensor& x, const Tensor& y) { return Tensor(minimum(x, y)); }, a, b,
      {T(-0.0), T(-0.0), 0, T(-0.0), T(not_a_number), T(not_a_number), T(not_a_number), -1, T(-infinite)});
  const std::vector<double> around{-0.0, 0.0, -1, 2, not_a_number};
  check_unary<T, T>("relu", [](const Tensor& x) { return Tensor(relu(x)); }, around, {0, 0, 0, 2, T(not_a_number)});
  check_unary<T, T>("clamp", [](const Tensor& x) { return Tensor(clamp(x, 0.0, 1.0)); }, around,
                    {0, 0, 0, 1, T(not_a_number)});
}

/// Zeros of both signs anywhere in a row, a column and a whole tensor.
template <class T>
void check_extrema_of_rows() {
  for (int columns : {2, 7, 16, 40, 300}) {
    for (int place = 0; place < columns; place += 1 + columns / 9) {
      std::vector<T> data(static_cast<std::size_t>(3 * columns), T(-0.0)), negated;
      for (int row = 0; row < 3; ++row) data[static_cast<std::size_t>(row * columns + place)] = 0;
      for (T v : data) negated.push_back(-v);
      for (const Mode& mode : modes())
        for (int axis : {0, 1}) {
          const Tensor x = copy_of(data, {3, columns}), y = copy_of(negated, {3, columns});
          const std::string what =
              std::string(mode.name) + ", axis " + std::to_string(axis) + ", " + std::to_string(columns) + " columns";
          const auto laid = [&](const Tensor& t) { return axis == 0 ? transpose(t, 0, 1) : t; };
          check_result<T>("amax, " + what,
                          run_in(mode, [axis](const Inputs& in) { return Tensor(amax(in[0], {axis})); }, {laid(x)}),
                          {T(0)});
          check_result<T>("amin, " + what,
                          run_in(mode, [axis](const Inputs& in) { return Tensor(amin(in[0], {axis})); }, {laid(y)}),
                          {T(-0.0)});
        }
    }
  }
}

template <class T>
void check_remainders() {
  check_binary<T, T>("remainder", [](const Tensor& x, const Tensor& y) { return Tensor(x % y); },
                     {0, -0.0, 7, -7, -7, 0, 5, -5, 5, -5, 1, -1, infinite, 1, not_a_number, 1},
                     {-3.5, 3.5, -3.5, 3.5, -3.5, 3.5, 3, 3, -3, -3, infinite, infinite, 2, 0, 1, not_a_number},
                     {0, T(-0.0), 0, T(-0.0), T(-0.0), 0, 2, 1, -1, -2, 1, T(infinite), T(not_a_number),
                      T(not_a_number), T(not_a_number), T(not_a_number)});
}

}  // namespace

TEST_CASE("conventions: floats to integers saturate, NaN gives 0", "[conventions]") {
  check_conversions<float>();
  check_conversions<double>();
  CHECK(item<std::int32_t>(copy_of(std::vector<float>{3e9f})) == std::numeric_limits<std::int32_t>::max());
  CHECK(item<std::int64_t>(copy_of(std::vector<double>{not_a_number})) == 0);
  CHECK(item<bool>(copy_of(std::vector<double>{not_a_number})));
  CHECK(to_vector<std::int32_t>(copy_of(std::vector<float>{-3e9f, 1.5f})) ==
        std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 1});
  CHECK_THROWS_AS(full({2}, infinite, {.dtype = DType::i32}),
                  UserError);  // a number that was written is no value to convert
  CHECK_THROWS_AS(pad(copy_of(std::vector<std::int32_t>{1}), {{1, 0}}, -infinite), UserError);
}
TEST_CASE("conventions: -0 is less than +0, NaN wins", "[conventions]") {
  check_extrema<float>();
  check_extrema<double>();
}
TEST_CASE("conventions: extrema of rows do not depend on the order", "[conventions]") {
  check_extrema_of_rows<float>();
  check_extrema_of_rows<double>();
}
TEST_CASE("conventions: a remainder has the divisor's sign, a zero the dividend's", "[conventions]") {
  check_remainders<float>();
  check_remainders<double>();
  check_binary<std::int32_t, std::int32_t>("remainder of i32",
                                           [](const Tensor& x, const Tensor& y) { return Tensor(x % y); },
                                           {-2147483648.0, 5, -5, 5}, {-1, -3, 3, 2}, {0, -1, 1, 1});
}

TEST_CASE("conventions: values and slopes far from 0 keep their digits", "[conventions]") {
  const std::vector<double> x{-90, -95, -13, -12.9, -5, -100, 20, 90};
  const auto near = [](double got, double want, double ulps) {
    return oracle::error_in_ulps(static_cast<float>(got), want) <= ulps;
  };
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto run = [&](Tensor (*f)(const Tensor&)) {
      return to_vector<double>(run_in(mode, [f](const Inputs& in) { return f(in[0]); }, {tensor_of<float>(x)}));
    };
    const auto slope = [&](Tensor (*f)(const Tensor&)) {
      return to_vector<double>(
          run_in(mode, [f](const Inputs& in) { return jit::grad([f](Tensor t) { return sum(f(t)); })(in[0]); },
                 {tensor_of<float>(x)}));
    };
    const auto gelus = run([](const Tensor& t) { return Tensor(gelu(t)); }),
               sigmoids = run([](const Tensor& t) { return Tensor(sigmoid(t)); });
    const auto silus = run([](const Tensor& t) { return Tensor(silu(t)); });
    const auto gelu_slopes = slope([](const Tensor& t) { return Tensor(gelu(t)); }),
               silu_slopes = slope([](const Tensor& t) { return Tensor(silu(t)); });
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = static_cast<double>(static_cast<float>(x[i])), s = 1 / (1 + std::exp(-v)),
                   density = std::exp(-v * v / 2) * 0.3989422804014327;
      INFO("x = " << v);
      CHECK(near(gelus[i], oracle::gelu(v), 4));
      CHECK(near(sigmoids[i], s, 3));
      CHECK(near(silus[i], v * s, 4));
      CHECK(near(gelu_slopes[i], std::erfc(-v / std::numbers::sqrt2) / 2 + v * density, 5));
      CHECK(near(silu_slopes[i], s * (1 + v / (1 + std::exp(v))), 5));
    }
    const auto limits = to_vector<float>(run_in(
        mode, [](const Inputs& in) { return Tensor(gelu(in[0]) + silu(in[0])); }, {tensor_of<float>({-infinite})}));
    CHECK(limits[0] == 0);
  }
}

TEST_CASE("conventions: the derivative of a quotient is no NaN where its parts overflow", "[conventions]") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto slopes = run_in(mode,
                               [](const Inputs& in) {
                                 const Inputs g = jit::grad([](const Inputs& x) { return sum(x[0] / x[1]); })(in);
                                 return stack({g[0], g[1]}, 0);
                               },
                               {tensor_of<float>({0, 1}), tensor_of<float>({1e-45, 2})});
    check_result<float>("by a and b", slopes, {std::numeric_limits<float>::infinity(), 0.5f, -0.0f, -0.25f});
    const auto of_zero =
        run_in(mode,
               [](const Inputs& in) {
                 return jit::grad([](Tensor x) { return sum(0.0f * reciprocal(x) + 0.0f * rsqrt(abs(x))); })(in[0]);
               },
               {tensor_of<float>({1e-30})});
    CHECK(item<float>(of_zero) == 0);
  }
}
