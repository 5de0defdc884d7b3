// Op tables: cumsum and its family, along every axis, from both ends, with and without the element itself.
#include "op_table.hpp"

#include <sinter/base/threads.hpp>

using namespace sinter_test;

namespace {

struct CumulativeCall {
  const char* name;
  Tensor (*call)(const In&, int, CumulativeOptions);
  double (*step)(double, double);
  Domain domain;
  Derivative derivative = Derivative::none;
};

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? oracle::not_a_number : std::max(a, b); }
double smaller(double a, double b) { return -larger(-a, -b); }

const CumulativeCall calls[] = {
    {"cumsum", cumsum, [](double a, double b) { return a + b; }, {-2, 2}, Derivative::second},
    {"cumprod", cumprod, [](double a, double b) { return a * b; }, {0.6, 1.6}, Derivative::second},
    {"cummax", cummax, larger, {-9, 9}, Derivative::piecewise},
    {"cummin", cummin, smaller, {-9, 9}, Derivative::piecewise},
};
bool is_sum(const CumulativeCall& op) { return op.call == cumsum; }
bool is_product(const CumulativeCall& op) { return op.call == cumprod; }

/// What stands before the first element.
double nothing(const CumulativeCall& op, DType dtype) {
  if (is_sum(op) || is_product(op)) return is_product(op) ? 1 : 0;
  const bool is_max = op.call == cummax;
  switch (dtype) {
    case DType::i32:
      return is_max ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
    case DType::i64: return is_max ? -0x1p63 : 0x1p62 * 2 - 1;
    case DType::u64: return is_max ? 0 : 0x1p64;
    case DType::bool_: return is_max ? 0 : 1;
    default: return is_max ? -oracle::infinite : oracle::infinite;
  }
}

Array accumulated(const CumulativeCall& op, const Array& x, std::size_t axis, CumulativeOptions options) {
  Array out{(is_sum(op) || is_product(op)) && !is_floating(x.dtype) && x.dtype != DType::u64 ? DType::i64 : x.dtype,
            x.extents, x.data, x.data};
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < x.extents.size(); ++i) stride *= x.extents[i];
  const std::int64_t length = x.extents[axis];
  for (std::int64_t first = 0; first < oracle::count(x.extents); ++first) {
    if (first / stride % length != 0) continue;
    double value = nothing(op, x.dtype), size = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(first + (options.reverse ? length - 1 - i : i) * stride);
      const double before = value;
      value = op.step(before, x.data[at]);
      size = is_sum(op) ? size + std::abs(x.data[at]) : std::abs(value) * static_cast<double>(i + 1);
      out.data[at] = options.exclusive ? before : value;
      out.scale[at] = is_sum(op) || is_product(op) ? std::max(size, 1.0) : 0;
    }
  }
  return out;
}

Row cumulative(const CumulativeCall& op, DType dtype, const Extents& extents, int axis, CumulativeOptions options) {
  Row row;
  row.name = std::string(op.name) + " " + std::string(name(dtype)) + Shape(extents).text() + " along " +
             std::to_string(axis) + (options.exclusive ? ", exclusive" : "") + (options.reverse ? ", reversed" : "");
  row.run = [call = op.call, axis, options](const Inputs& in) { return call(in[0], axis, options); };
  const auto counted =
      axis < 0 ? static_cast<std::size_t>(axis + static_cast<int>(extents.size())) : static_cast<std::size_t>(axis);
  row.want = [&op, counted, options](const Arrays& in) { return accumulated(op, in[0], counted, options); };
  Domain domain = op.domain;
  if (is_product(op) && !is_floating(dtype)) domain = dtype == DType::bool_ ? Domain{-4, 1} : Domain{-1, 1};
  row.inputs = {{extents, dtype, domain}};
  if (is_sum(op) || is_product(op)) row.tolerance = {16, 17, 0};
  if (dtype == DType::f64) row.derivative = op.derivative;
  return row;
}

constexpr CumulativeOptions every_option[] = {
    {}, {.exclusive = true}, {.reverse = true}, {.exclusive = true, .reverse = true}};
constexpr DType every_dtype[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u64, DType::bool_};

}  // namespace

TEST_CASE("op table: cumulative functions along every axis") {
  for (const CumulativeCall& op : calls)
    for (const DType dtype : every_dtype)
      for (const int axis : {0, 1, -1})
        for (const CumulativeOptions options : every_option) {
          if (dtype == DType::i64 && options.exclusive && !is_sum(op) && !is_product(op)) continue;  // beyond a double
          Row row = cumulative(op, dtype, {n, 3, 4}, axis, options);
          if (options.exclusive && !is_sum(op) && !is_product(op))
            row.derivative = Derivative::none;  // differences of infinities
          check_row(row);
        }
}

TEST_CASE("op table: cumulative functions of longer and odder shapes") {
  for (const CumulativeCall& op : calls)
    for (const DType dtype : every_dtype)
      for (const auto& [extents, axis] : {std::pair{Extents{1}, 0},
                                          {Extents{5, 1, 67}, 1},
                                          {Extents{1000}, 0},
                                          {Extents{3, 700}, 1},
                                          {Extents{700, 3}, 0},
                                          {Extents{70, 41}, 0},
                                          {Extents{2, n}, 1}})
        for (const CumulativeOptions options : {CumulativeOptions{}, {.exclusive = true, .reverse = true}}) {
          if (options.exclusive && !is_sum(op) && !is_product(op) && dtype == DType::i64) continue;
          if (is_product(op) && is_floating(dtype) && extents.size() == 1) continue;  // too small a number
          Row row = cumulative(op, dtype, extents, axis, options);
          row.derivative = Derivative::none;
          row.strided = Strided::distinct;
          check_row(row);
        }
  for (const DType dtype : {DType::f32, DType::f64})  // several blocks
    for (const auto& [extents, axis] : {std::pair{Extents{20011}, 0}, {Extents{9001, 3}, 0}, {Extents{2, 8193}, 1}})
      for (const CumulativeOptions options : every_option) {
        Row row = cumulative(calls[0], dtype, extents, axis, options);
        row.derivative = Derivative::none;
        row.strided = Strided::none;
        check_row(row);
      }
}

TEST_CASE("cumulative functions: NaN wins and stays, infinities, zeros have signs") {
  const double nan = oracle::not_a_number, infinite = oracle::infinite;
  const Array x{
      DType::f32, {4, 5}, {1, nan, 9, -9, 0, -infinite, 3, infinite, 1, 2, 0, -0.0, 0, -0.0, 1, 3, 1, 2, 3, 0}};
  for (const CumulativeCall& op : calls)
    for (const int axis : {0, 1})
      for (const CumulativeOptions options : every_option) {
        const Row row = cumulative(op, DType::f32, x.extents, axis, options);
        check_value(row, {x}, Placement::dense, "special values");
      }
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor zeros = run_in(mode, [](const Inputs& in) { return cumsum(in[0], 0); }, {full({3}, -0.0)});
    for (const float zero : to_vector<float>(zeros)) CHECK(!std::signbit(zero));  // added to 0
    const Tensor lesser = run_in(mode, [](const Inputs& in) { return cummin(in[0], 0); },
                                 {copy_of(std::vector<float>{0.0f, -0.0f, 0.0f})});
    CHECK(std::signbit(to_vector<float>(lesser)[2]));
  }
}

TEST_CASE("cumprod: the gradient where elements are zero") {
  const Tensor x = copy_of(std::vector<double>{2, 0, 3, 4, 0, 5, 1, 2, 3, 0, 0, 7}, {2, 6});
  for (const CumulativeOptions options : every_option) {
    const auto loss = [options](const Tensor& v) {
      return sum(cumprod(v, 1, options) * cast(arange(6) + 1, DType::f64));
    };
    const std::vector<double> found = to_vector<double>(jit::grad(loss)(x));
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::vector<double> up = to_vector<double>(x);
      std::vector<double> down = up;
      up[i] += 0.5;
      down[i] -= 0.5;  // the product is linear in each element
      const double wanted = item<double>(loss(copy_of(up, {2, 6}))) - item<double>(loss(copy_of(down, {2, 6})));
      INFO(i << ": " << found[i] << ", " << wanted);
      CHECK(std::abs(found[i] - wanted) <= 1e-9 * (1 + std::abs(wanted)));
    }
  }
}

TEST_CASE("cummax: the last of equal elements gets the gradient, and a NaN keeps it") {
  const auto gradient = [](std::vector<double> x, CumulativeOptions options = {}) {
    const Tensor given = copy_of(x);
    return to_vector<double>(jit::grad([&](const Tensor& v) { return sum(cummax(v, 0, options)); })(given));
  };
  CHECK(gradient({1, 3, 3, 2, 4}) == std::vector<double>{1, 1, 2, 0, 1});
  CHECK(gradient({1, 3, 3, 2, 4}, {.exclusive = true}) == std::vector<double>{1, 1, 2, 0, 0});
  CHECK(gradient({1, 3, 3, 2, 0}, {.reverse = true}) == std::vector<double>{0, 2, 1, 1, 1});
  CHECK(gradient({1, oracle::not_a_number, 3, 9}) == std::vector<double>{1, 3, 0, 0});
}

TEST_CASE("cumulative functions: any number of threads gives the same bits") {
  const int threads = thread_count();
  for (const auto& [extents, axis] : {std::pair{Extents{300, 5001}, 1}, {Extents{5001, 300}, 0}, {Extents{200003}, 0}})
    for (const CumulativeOptions options : every_option) {
      const Tensor x = dense_tensor(make_inputs({{extents, DType::f32, {-2, 2}}}, default_n)[0]);
      const auto f = jit::compile([axis, options](Tensor v) { return cumsum(v * 3, axis, options); });
      std::vector<float> first;
      for (const int count : {1, 2, 3, 16}) {
        set_thread_count(count);
        const std::vector<float> found = to_vector<float>(f(x));
        if (first.empty()) first = found;
        CHECK(found == first);
      }
    }
  set_thread_count(threads);
}

TEST_CASE("cumulative functions: what they refuse") {
  CHECK_THROWS_AS(cumsum(Tensor(1.0f), 0), IndexError);
  CHECK_THROWS_AS(cumsum(ones({3}), 1), IndexError);
  CHECK(cumsum(zeros({0}), 0).shape() == Shape{0});
  CHECK(cummax(zeros({0, 3}), 0).shape() == Shape({0, 3}));
}

namespace {

/// fn(x[i], x[i + 1], where) for neighbours along an axis, which gets one shorter.
template <class Fn>
Array of_neighbours(const Array& x, std::size_t axis, DType dtype, Fn&& fn) {
  Extents extents = x.extents;
  --extents[axis];
  Array out{dtype, extents, {}, {}};
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < x.extents.size(); ++i) stride *= x.extents[i];
  const std::int64_t length = x.extents[axis];
  for (std::int64_t i = 0; i < oracle::count(x.extents); ++i) {
    if (i / stride % length == length - 1) continue;
    const double a = x.data[static_cast<std::size_t>(i)], b = x.data[static_cast<std::size_t>(i + stride)];
    out.data.push_back(fn(a, b, i / stride % length));
    out.scale.push_back(std::abs(a) + std::abs(b));
  }
  return out;
}

}  // namespace

TEST_CASE("op table: differences of neighbours") {
  for (const DType dtype : every_dtype)
    for (const std::size_t axis : {0, 1}) {
      Row row;
      row.name = "diff " + std::string(name(dtype)) + " along " + std::to_string(axis);
      row.run = [axis](const Inputs& in) { return diff(in[0], static_cast<int>(axis)); };
      row.want = [axis, dtype](const Arrays& in) {
        return of_neighbours(in[0], axis, dtype, [dtype](double a, double b, std::int64_t) {
          return dtype == DType::bool_ ? static_cast<double>(a != b) : b - a;
        });
      };
      row.inputs = {{{5, 7}, dtype, {-4, 4}}};
      row.tolerance = {1, 1, 0};
      row.empty = Empty::untested;
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
  CHECK(to_vector<int>(diff(tensor({1, 4, 9, 16, 25}), 0, 2)) == std::vector<int>{2, 2, 2});
  CHECK(to_vector<int>(diff(tensor({1, 4}), 0, 0)) == std::vector<int>{1, 4});
  CHECK(diff(tensor({1, 4}), 0, 5).shape() == Shape{0});
  CHECK_THROWS_AS(diff(tensor({1, 4}), 0, -1), UserError);
  CHECK_THROWS_AS(diff(Tensor(1.0f)), IndexError);
}

TEST_CASE("trapezoids: steps of one width, places of one axis and of each value") {
  const Tensor y = tensor({{1.0, 3.0, 2.0, 5.0}, {0.0, -1.0, 4.0, 4.0}}), x = tensor({0.0, 1.0, 3.0, 3.5});
  const auto near = [](const Tensor& got, std::vector<double> wanted) {
    const std::vector<double> values = to_vector<double>(got);
    REQUIRE(values.size() == wanted.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(wanted[i]));
  };
  near(trapezoid(y), {8, 5});
  near(trapezoid(y, 0.5), {4, 2.5});
  near(trapezoid(y, 2, 0), {1, 2, 6, 9});
  near(trapezoid(y, x), {8.75, 4.5});
  near(trapezoid(y, tensor({0.0, 2.0}), 0), {1, 2, 6, 9});
  near(trapezoid(y, tensor({{0.0, 1.0, 3.0, 3.5}, {0.0, 1.0, 2.0, 3.0}})), {8.75, 5});
  near(cumulative_trapezoid(y), {2, 4.5, 8, -0.5, 1, 5});
  near(cumulative_trapezoid(y, x), {2, 7, 8.75, -0.5, 2.5, 4.5});
  near(trapezoid(tensor({7.0})), {0});
  const auto integral = jit::compile([](Tensor y, Tensor x) { return trapezoid(y, x); });
  near(integral(y, x), {8.75, 4.5});
  near(jit::grad([x](Tensor y) { return sum(trapezoid(y, x)); })(y), {0.5, 1.5, 1.25, 0.25, 0.5, 1.5, 1.25, 0.25});
  near(trapezoid(tensor({1, 2})), {1.5});  // of integers in f32
  CHECK_THROWS_AS(trapezoid(y, tensor({0.0, 1.0})), ShapeError);
  near(trapezoid(zeros({2, 0})), {0, 0});
  CHECK(cumulative_trapezoid(zeros({2, 0})).shape() == Shape{2, 0});
}
