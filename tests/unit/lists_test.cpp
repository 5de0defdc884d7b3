// Lists and numbers that are known only at run time: axes, widths, argument numbers, positions; host memory in every
// shape that users have it in.
#include "catch.hpp"
#include "checks.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

struct Layer {
  Tensor w, b;
};

}  // namespace

TEST_CASE("lists: axes come from vectors, spans and arrays", "[lists]") {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  const std::vector<int> axes{0, 2};
  const std::array<std::int64_t, 2> wide{0, 2};
  const unsigned small[] = {0, 2};
  const std::vector<double> expected = doubles(sum(x, {0, 2}));
  CHECK(doubles(sum(x, axes)) == expected);
  CHECK(doubles(sum(x, std::span<const int>(axes))) == expected);
  CHECK(doubles(sum(x, wide)) == expected);
  CHECK(doubles(sum(x, small)) == expected);
  CHECK(doubles(x.sum(axes, keepdim)) == expected);
  CHECK(permute(x, std::vector<int>{2, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK(sum(x, std::vector<int>{}).rank() == 0);
  CHECK(all(x >= 0, axes).shape() == Shape{3});
  CHECK_THROWS_AS(sum(x, std::vector<int>{0, 3}), IndexError);
  CHECK_FALSE(std::is_convertible_v<std::vector<bool>, Axes>);
  CHECK_FALSE(std::is_convertible_v<std::vector<float>, Axes>);
}

TEST_CASE("lists: shapes", "[lists]") {
  const std::vector<int> extents{2, 3};
  CHECK(zeros(extents).shape() == Shape{2, 3});
  CHECK(reshape(zeros({6}), std::span<const int>(extents)).shape() == Shape{2, 3});
  CHECK(ones(std::array<long, 2>{4, 1}).shape() == Shape{4, 1});
  CHECK(Shape(std::vector<std::int64_t>{5}) == Shape{5});
  CHECK_THROWS_AS(zeros(std::vector<int>(9, 1)), ShapeError);
}

TEST_CASE("lists: eval takes a list of tensors", "[lists]") {
  const std::vector<Tensor> pending{ones({2}) + 1, ones({3}) * 2};
  eval(pending);
  CHECK(pending[0].is_ready());
  CHECK(pending[1].is_ready());
  eval(std::span(pending).first(1));
}

TEST_CASE("lists: pad widths", "[lists]") {
  const std::vector<std::pair<int, int>> widths{{1, 0}, {0, 2}};
  CHECK(doubles(pad(ones({1, 1}), widths)) == doubles(pad(ones({1, 1}), {{1, 0}, {0, 2}})));
  CHECK(pad(ones({1, 1}), std::span(widths), 7.0).shape() == Shape{2, 3});
  CHECK_THROWS_AS(pad(ones({1}), widths), ShapeError);
}

TEST_CASE("lists: arange takes extents", "[lists]") {
  CHECK(doubles(arange(2, 5)) == std::vector<double>{2, 3, 4});
  CHECK(doubles(arange(5, 2, -2)) == std::vector<double>{5, 3});
  CHECK(doubles(arange(5, 2)).empty());
  CHECK(doubles(arange(0, 7, 3, {.dtype = DType::f32})) == std::vector<double>{0, 3, 6});
  CHECK_THROWS_AS(arange(0, 3, 0), ShapeError);
  auto f = jit::compile([](Tensor x) { return arange(1, x.size(0), 2) + arange(x.size(0) - 1, 0, -2); },
                        {.dynamic = jit::Dynamic::always});
  for (int n : {7, 9, 31}) {
    std::vector<double> expected;
    for (int i = 1, j = n - 1; i < n; i += 2, j -= 2) expected.push_back(i + j);
    CHECK(doubles(f(ones({n}))) == expected);
  }
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("floor_divide rounds down, and keeps integers", "[lists]") {
  const Tensor i = floor_divide(tensor({7, -7, 7, -7}), tensor({2, 2, -2, 0}));
  CHECK(i.dtype() == DType::i32);
  CHECK(doubles(i) == std::vector<double>{3, -4, -4, 0});
  CHECK(floats(floor_divide(tensor({7.f, -7.f}), 2)) == std::vector<float>{3, -4});
  // 0.1 is a little more than a tenth, and the quotient rounds up.
  const Tensor x = tensor({1.0, -1.0, 6.0, 0.3});
  CHECK(doubles(floor_divide(x, 0.1)) == std::vector<double>{9, -10, 59, 2});
  CHECK(doubles(floor_divide(x, 0.1) * 0.1 + x % 0.1 - x < 1e-15) == std::vector<double>{1, 1, 1, 1});
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(doubles(floor_divide(tensor({1.0, -1.0, 0.0}), inf)) == std::vector<double>{0, -1, 0});
  CHECK(doubles(floor_divide(tensor({1.0, -1.0}), 0.0)) == std::vector<double>{inf, -inf});
  CHECK(std::isnan(item<double>(floor_divide(tensor({inf}), 2)(0))));
}

TEST_CASE("floor_divide: what the remainder leaves does not overflow", "[lists]") {
  const auto quotient = [](Tensor a, Tensor b) { return floor_divide(a, b); };
  const auto remainder_of = [](Tensor a, Tensor b) { return sum(a % b); };
  const auto check = [&](const Tensor& a, const Tensor& b) {
    const std::vector<double> want{-2, -2, 1, 1, -1, -1};
    CHECK(doubles(quotient(a, b)) == want);
    CHECK(doubles(jit::compile(quotient)(a, b)) == want);
    CHECK(doubles(jit::compile(quotient, {.backend = "reference"})(a, b)) == want);
    CHECK(doubles(-jit::grad<1>(remainder_of)(a, b)) == want);
  };
  check(tensor({3e38f, -3e38f, 3e38f, -3e38f, 1e-30f, -2e38f}), tensor({-2e38f, 2e38f, 2e38f, -2e38f, -3e38f, 3e38f}));
  check(tensor({1.7e308, -1.7e308, 1.7e308, -1.7e308, 1e-300, -1e308}),
        tensor({-1e308, 1e308, 1e308, -1e308, -1.7e308, 1.7e308}));
}

TEST_CASE("lists: an index that is known at run time", "[lists]") {
  const Tensor x = reshape(arange(12), {3, 4});
  const Tensor row = tensor<std::int64_t>({0})(0) + 2;
  CHECK(doubles(x(row)) == std::vector<double>{8, 9, 10, 11});
  CHECK(doubles(x(all, tensor({3})(0))) == std::vector<double>{3, 7, 11});
  CHECK(doubles(x(Scalar(-1), slice(0, 2))) == std::vector<double>{8, 9});
  CHECK(doubles(x(Variable(row), row)) == std::vector<double>{10});
  CHECK(doubles(x(tensor({-1, 0}))(all, 0)) == std::vector<double>{8, 0});
  CHECK_THROWS_AS(x(Scalar(3)), IndexError);
  CHECK_THROWS_AS(x(Scalar(1.5)), DTypeError);
  CHECK_THROWS_AS(x(Scalar(true)), DTypeError);
  CHECK_THROWS_AS(eval(x(tensor({-4})(0))), IndexError);
  auto f = jit::compile([](Tensor x, Scalar i, Tensor j) { return std::tuple{x(i), x(all, j), x(i, j)}; });
  for (int i : {0, 2, -1, -3}) {
    const auto [r, column, one] = f(x, i, tensor({i})(0));
    const int at = (i + 3) % 3, column_at = (i + 4) % 4;
    CHECK(doubles(r)[1] == at * 4 + 1);
    CHECK(doubles(column)[2] == 8 + column_at);
    CHECK(item<int>(one) == at * 4 + column_at);
  }
  CHECK(f.stats().compiles == 1);
  CHECK_THROWS_AS(f(x, 3, tensor({0})(0)), IndexError);
}

TEST_CASE("lists: assignment at an index that is known at run time", "[lists]") {
  auto write = jit::compile([](Tensor cache, Tensor row, Scalar at) {
    cache.at(at) = row;
    cache.at(all, at) += 10;
    return cache;
  });
  for (int i : {0, 2, -1}) {
    Tensor expected = zeros({3, 3});
    expected.at(i) = tensor({1.f, 2.f, 3.f});
    expected.at(all, i) += 10;
    CHECK(floats(write(zeros({3, 3}), tensor({1.f, 2.f, 3.f}), i)) == floats(expected));
    Tensor lazy = zeros({3, 3});
    lazy.at(tensor({i})(0)) = tensor({1.f, 2.f, 3.f});
    lazy.at(slice(0, 3), tensor({i})(0)) += 10;
    CHECK(floats(lazy) == floats(expected));
  }
  CHECK(write.stats().compiles == 1);
  Tensor u = zeros({2, 3});
  u.at(1, tensor({2})(0)) = 5;
  CHECK(floats(u) == std::vector<float>{0, 0, 0, 0, 0, 5});
  CHECK_THROWS_AS(eval(write(zeros({3, 3}), ones({3}), 3)), IndexError);
  u.at(tensor({0, 1})) = 1;
  CHECK(floats(u) == std::vector<float>(6, 1));
  // Its derivative: nothing flows to what was replaced.
  auto [by_cache, by_row] = jit::grad<0, 1>([](Tensor cache, Tensor row, Tensor at) {
    cache.at(at) = row;
    return sum(cache * cache);
  })(full({2, 2}, 3), tensor({1.f, 2.f}), tensor({1})(0));
  CHECK(floats(by_cache) == std::vector<float>{6, 6, 0, 0});
  CHECK(floats(by_row) == std::vector<float>{2, 4});
}

TEST_CASE("lists: gradients by arguments that are chosen at run time", "[lists]") {
  auto f = [](Tensor a, Tensor b, Scalar c) { return sum(a * b * b) * c; };
  const Tensor a = tensor({1.f, 2.f}), b = tensor({3.f, 5.f});
  const std::vector<int> wrt{1, 0};
  const std::vector<Tensor> g = jit::grad(f, wrt)(a, b, 2.0);
  REQUIRE(g.size() == 2);
  CHECK(floats(g[0]) == floats(jit::grad<1>(f)(a, b, 2.0)));
  CHECK(floats(g[1]) == floats(jit::grad<0>(f)(a, b, 2.0)));
  const auto [value, by_last] = jit::value_and_grad(f, {-1})(a, b, 2.0);
  CHECK(item<float>(value) == 118);
  CHECK(item<float>(by_last[0]) == 59);
  auto compiled = jit::compile([&](Tensor x, Tensor y) { return jit::grad(f, wrt)(x, y, 1.0); });
  CHECK(floats(compiled(a, b)[1]) == std::vector<float>{9, 25});
  const Variable v(a);
  CHECK(floats(jit::grad([](const Variable& x) { return sum(x * x); }, {0})(v)[0]) == std::vector<float>{2, 4});
  CHECK_THROWS_AS(jit::grad(f, {3})(a, b, 1.0), IndexError);
  CHECK_THROWS_AS(jit::grad(f, {0, -3})(a, b, 1.0), IndexError);
  CHECK_THROWS_AS(jit::grad([](Tensor x) { return sum(x); }, {0})(arange(3)), DTypeError);
  CHECK_THROWS_AS(jit::grad([](const Layer& l) { return sum(l.w); }, {0})(Layer{a, b}), UserError);
}

TEST_CASE("lists: vmap over containers, by one axis or one for each tensor", "[lists]") {
  auto f = [](const std::vector<Tensor>& xs, Tensor y) { return matmul(xs[0], xs[1]) + y; };
  const Tensor a = randn({5, 2, 3}), b = randn({3, 4}), many = randn({3, 4, 5}), y = randn({5});
  const Tensor shared = jit::vmap(f, {{0, jit::no_axis}, 0})(std::vector<Tensor>{a, b}, y);
  const Tensor last = jit::vmap(f, {{0, -1}, 0})(std::vector<Tensor>{a, many}, y);
  const Tensor same = jit::vmap(f)(std::vector<Tensor>{a, permute(many, {2, 0, 1})}, y);
  for (int i = 0; i < 5; ++i) {
    CHECK(near(doubles(shared(i)), doubles(f({a(i), b}, y(i))), 1e-5));
    CHECK(near(doubles(last(i)), doubles(f({a(i), many(all, all, i)}, y(i))), 1e-5));
    CHECK(floats(same(i)) == floats(last(i)));
  }
  // Axes that are known at run time, a struct, and results that are one.
  std::vector<jit::LeafAxes> axes;
  axes.emplace_back(std::vector<int>{1, 0});
  axes.emplace_back(jit::no_axis);
  auto step = [](const Layer& l, Scalar s) { return std::pair{Layer{l.w * s, l.b}, l.w + l.b}; };
  const Layer layer{randn({3, 4}), randn({4, 3})};
  const auto [moved, total] = jit::vmap(step, axes, {{1, 0}, 1})(layer, 2.0);
  CHECK(floats(moved.w) == floats(layer.w * 2));
  CHECK(floats(moved.b) == floats(layer.b));
  CHECK(floats(total) == floats(layer.w + layer.b.t()));
  const std::vector<int> per_argument{0, jit::no_axis};
  CHECK(jit::vmap([](Tensor p, Tensor q) { return p * q; }, per_argument)(ones({5}), ones({2})).shape() == Shape{5, 2});
  CHECK_THROWS_AS(jit::vmap(f, {{0, 0, 0}, 0})(std::vector<Tensor>{a, many}, y), UserError);
  CHECK_THROWS_AS(jit::vmap(f, {jit::LeafAxes{0}, 0})(std::vector<Tensor>{a, many}, y), UserError);
  CHECK_THROWS_AS(jit::vmap(step, {0, jit::no_axis}, {{0, 0, 0}, 0})(Layer{ones({2, 2}), ones({2, 2})}, 1.0),
                  UserError);
}

TEST_CASE("lists: host memory in every form", "[lists]") {
  double numbers[] = {1, 2, 3, 4};
  const double* first = numbers;
  std::vector<double> vector(numbers, numbers + 4);
  const std::vector<double> expected(numbers, numbers + 4);
  for (const Tensor& x :
       {copy_of(first, {2, 2}), copy_of(&numbers[0], {2, 2}), copy_of(numbers, {2, 2}), copy_of(vector, {2, 2}),
        copy_of(std::span<double>(numbers), {2, 2}), copy_of(std::span<const double>(numbers), {2, 2}),
        copy_of(std::span(vector).first(4), {2, 2}), copy_of(std::array<double, 4>{1, 2, 3, 4}, {2, 2}),
        copy_of(borrow(numbers, {2, 2})), copy_of(borrow(std::span<double>(vector), {2, 2})),
        copy_of(borrow(first, {2, 2}))}) {
    CHECK(x.shape() == Shape{2, 2});
    CHECK(x.dtype() == DType::f64);
    CHECK(doubles(x) == expected);
  }
  CHECK(copy_of(numbers).shape() == Shape{4});
  CHECK(doubles(copy_of(numbers, {2})) == std::vector<double>{1, 2});  // a buffer may be longer
  CHECK_THROWS_AS(copy_of(numbers, {5}), ShapeError);
  CHECK_THROWS_AS(copy_of(vector, {3}), ShapeError);
  CHECK(copy_of(std::span<double>(numbers)).shape() == Shape{4});
  CHECK(copy_of(std::array<float, 1>{5}, {}).rank() == 0);
  CHECK(copy_of(std::array<bool, 2>{true, false}).dtype() == DType::bool_);
  CHECK(doubles(copy_of(std::vector<bool>{true, false, true})) == std::vector<double>{1, 0, 1});
  CHECK(copy_of(std::vector<bool>(4, true), {2, 2}).shape() == Shape{2, 2});
  CHECK(copy_of(std::vector<int>{1}).dtype() == DType::i32);
  CHECK(copy_of(std::vector<long>{1}).dtype() == DType::i64);
  CHECK(copy_of(std::vector<long long>{1}).dtype() == DType::i64);
  auto twice = jit::compile([](Tensor x) { return x * 2; });
  std::vector<double> results(4);
  twice.into(borrow_mut(results, {4}))(borrow(vector, {4}));
  CHECK(results == std::vector<double>{2, 4, 6, 8});
  twice.into(borrow_mut(std::span(results), {4}))(copy_of(results));
  CHECK(results == std::vector<double>{4, 8, 12, 16});
  copy_to(borrow_mut(numbers, {2, 2}), copy_of(vector, {2, 2}) * 3);
  CHECK(numbers[3] == 12);
}

TEST_CASE("lists: an error names the function that was called", "[lists]") {
  std::vector<float> two{1, 2};
  CHECK(blame_of<ShapeError>([&] { copy_of(two, {3}); }) == blame("copy_of"));
  CHECK(blame_of<ShapeError>([&] { copy_of(std::vector<bool>{true}, {3}); }) == blame("copy_of"));
  CHECK(blame_of<ShapeError>([&] { borrow(two, {3}); }) == blame("borrow"));
  CHECK(blame_of<ShapeError>([&] { borrow_mut(two, {3}); }) == blame("borrow_mut"));
  CHECK(blame_of<ShapeError>([&] { adopt(std::vector<float>{1, 2}, {3}); }) == blame("adopt"));
}

TEST_CASE("lists: a region takes static numbers", "[lists][region]") {
  auto block = jit::region([](Tensor x, int power, bool is_negated) {
    Tensor y = x;
    for (int i = 1; i < power; ++i) y = y * x;
    return is_negated ? Tensor(-y) : y;
  });
  auto model =
      jit::compile([=](Tensor x, Scalar s) { return block(block(block(x * s, 2, false), 2, false), 3, true); });
  const Tensor x = tensor({1.f, 2.f});
  CHECK(floats(model(x, 1)) == std::vector<float>{-1, -4096});
  CHECK(model.stats().regions == 2);
  CHECK(model.stats().region_calls == 3);
  CHECK(floats(block(x, 3, true)) == std::vector<float>{-1, -8});
  enum class Kind { sum, mean };
  auto reduce = jit::region([](auto x, Kind kind) { return kind == Kind::sum ? sum(x, 0) : mean(x, 0); });
  auto both = jit::compile([=](Tensor v) { return std::pair{reduce(v, Kind::sum), reduce(v, Kind::mean)}; });
  CHECK(item<float>(both(x).first) == 3);
  CHECK(item<float>(both(x).second) == 1.5f);
}

TEST_CASE("lists: transforms take static numbers", "[lists]") {
  auto power = [](Tensor x, int n) {
    Tensor y = x;
    for (int i = 1; i < n; ++i) y = y * x;
    return sum(y);
  };
  const Tensor x = tensor({1.f, 2.f});
  CHECK(floats(jit::grad(power)(x, 3)) == std::vector<float>{3, 12});
  CHECK(floats(jit::value_and_grad(power, {0})(x, 2).second[0]) == std::vector<float>{2, 4});
  CHECK(floats(jit::hessian(power)(x, 2)) == std::vector<float>{2, 0, 0, 2});
  CHECK(floats(jit::vmap(power, {0, jit::no_axis})(x, 3)) == std::vector<float>{1, 8});
  CHECK(floats(jit::vmap(jit::grad(power), {0, jit::no_axis})(reshape(x, {2, 1}), 2)) == std::vector<float>{2, 4});
  CHECK(item<float>(jit::jvp(power, std::tuple{x, 2}, std::tuple{ones({2}), 0}).second) == 6);
  auto [value, pullback] = jit::vjp(power, x, 2);
  CHECK(floats(std::get<0>(pullback(ones({})))) == std::vector<float>{2, 4});
  CHECK(floats(jit::grad([&](Tensor v) { return jit::checkpoint(power)(v, 3); })(x)) == std::vector<float>{3, 12});
  auto compiled = jit::compile(jit::grad(power));
  CHECK(floats(compiled(x, 2)) == std::vector<float>{2, 4});
  CHECK(floats(compiled(x, 3)) == std::vector<float>{3, 12});
  CHECK(compiled.stats().compiles == 2);
  CHECK(floats(jit::grad([](Tensor v, Scalar s) { return sum(v) * s; })(x, 3)) == std::vector<float>{3, 3});
}
