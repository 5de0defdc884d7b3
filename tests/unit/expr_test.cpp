// Expressions: their types are their structure, they own their leaves, and a named one is recorded once. Values of
// operators, slices and updates against plain loops; errors that name the user's line.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/graph/pending_node.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <functional>

using namespace sinter;

namespace {

Tensor row(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }
std::vector<std::int64_t> integers(const In& x) { return to_vector<std::int64_t>(x); }

}  // namespace

TEST_CASE("expr: the type is the structure") {
  Tensor a, b;
  using Sum = decltype(a + b);
  static_assert(std::is_same_v<Sum, Expr<ops::Add, Leaf, Leaf>>);
  static_assert(std::is_same_v<decltype(a + b * 2), Expr<ops::Add, Leaf, Expr<ops::Mul, Leaf, Leaf>>>);
  static_assert(std::is_same_v<decltype(exp(-(a - 1))), Expr<ops::Exp, Expr<ops::Neg, Expr<ops::Sub, Leaf, Leaf>>>>);
  static_assert(std::is_same_v<decltype(2.0 / a), Expr<ops::Div, Leaf, Leaf>>);
  static_assert(decltype(exp(-(a - 1)))::leaf_count == 2);
  auto named = a + b;
  static_assert(std::is_same_v<decltype(named * 2), Expr<ops::Mul, Leaf, Leaf>>);  // a name is a leaf
  static_assert(std::is_same_v<decltype(std::move(named) * 2), Expr<ops::Mul, Sum, Leaf>>);
  static_assert(std::is_same_v<decltype(matmul(a, b)), Tensor>);
  static_assert(std::is_same_v<decltype(sum(a + b)), Tensor>);
  CHECK(&decltype(a + b)::structure() == &decltype(b + a)::structure());
  CHECK_FALSE(&decltype(a + b)::structure() == &decltype(a - b)::structure());
  CHECK(decltype(a + b * 2)::structure().steps.size() == 5);
}

TEST_CASE("expr: a named expression is recorded once") {
  Tensor a = row({1, 2}), b = row({3, 4});
  auto e = a + b;
  CHECK_FALSE(e.is_recorded());
  Tensor x = e * 2, y = e * 3;
  CHECK(e.is_recorded());
  CHECK(x.impl()->pending_node->leaves()[0].value == y.impl()->pending_node->leaves()[0].value);
  Tensor first = e, second = e;
  CHECK(is_same(first, second));
  CHECK(floats(x) == std::vector<float>{8, 12});
  CHECK(floats(y) == std::vector<float>{12, 18});
  CHECK(floats(e) == std::vector<float>{4, 6});
  auto noise = rand({4}) + 0;
  CHECK(floats(noise) == floats(noise));
  CHECK(floats(noise - noise) == std::vector<float>(4, 0));
}

TEST_CASE("expr: `auto` is safe after its operands died") {
  auto make = [] {
    Tensor a = row({1, 2, 3}), b = row({10, 20, 30});
    return a + b * 2;
  };
  auto e = make();
  CHECK(floats(e) == std::vector<float>{21, 42, 63});
  auto copy = e;
  CHECK(floats(copy) == std::vector<float>{21, 42, 63});
  auto nested = [&] {
    auto inner = make() - 1;
    auto outer = inner * inner;
    return outer;
  }();
  CHECK(floats(nested) == std::vector<float>{400, 41 * 41, 62 * 62});
  Tensor a = row({1});
  auto later = a + 1;
  a = row({100});  // gives the handle another value
  CHECK(floats(later) == std::vector<float>{2});
}

TEST_CASE("expr: temporaries are moved into the statement") {
  Tensor a = row({1, 2});
  Tensor b = std::move(a) + 1;
  CHECK(item<float>(a) == 0);  // what a moved-from handle is
  CHECK(floats(b) == std::vector<float>{2, 3});
  TensorImpl* raw = b.impl().get();
  auto e = std::move(b) * 2;
  CHECK(raw->use_count() == 1);
  CHECK(floats(std::move(e)) == std::vector<float>{4, 6});
  Tensor c = row({5});
  c = std::move(c) + 1;
  CHECK(floats(c) == std::vector<float>{6});
}

TEST_CASE("expr: compound assignment rebinds and keeps the dtype") {
  Tensor x = row({1, 2}), same = x;
  x += 1;
  x *= row({2, 3});
  x -= 0.5;
  x /= 2;
  CHECK(floats(x) == std::vector<float>{1.75f, 4.25f});
  CHECK(floats(same) == std::vector<float>{1, 2});
  Tensor n = arange(3);
  n += 1;
  CHECK(n.dtype() == DType::i64);
  CHECK(integers(n) == std::vector<std::int64_t>{1, 2, 3});
  n *= 2.5;  // computed in f32, stored in the dtype of n
  CHECK(n.dtype() == DType::i64);
  CHECK(integers(n) == std::vector<std::int64_t>{2, 5, 7});
  Tensor d = copy_of(std::vector<double>{1, 2});
  d += row({0.5f, 0.5f});
  CHECK(d.dtype() == DType::f64);
  Tensor s = row({1, 2});
  s += s * s;
  CHECK(floats(s) == std::vector<float>{2, 6});
}

TEST_CASE("expr: promotion of tensors and numbers") {
  using enum DType;
  auto dtype = [](const Tensor& t) { return t.dtype(); };
  Tensor b = row({1}) > 0, i = arange(1, {.dtype = i32}), l = arange(1), f = row({1}), d = full({1}, 1, {.dtype = f64});
  CHECK(dtype(b + b) == bool_);
  CHECK(dtype(b + i) == i32);
  CHECK(dtype(i + l) == i64);
  CHECK(dtype(l + f) == f32);
  CHECK(dtype(f + d) == f64);
  CHECK(dtype(f + 1.0) == f32);
  CHECK(dtype(f + 1) == f32);
  CHECK(dtype(2 * i) == i32);
  CHECK(dtype(i + 0.5) == f32);
  CHECK(dtype(b + 1) == i64);
  CHECK(dtype(b * 1.0) == f32);
  CHECK(dtype(d + 1.0f) == f64);
  CHECK(dtype(exp(i)) == f32);
  CHECK(dtype(exp(d)) == f64);
  CHECK(dtype(i / i) == f32);
  CHECK(dtype(i < 2.5) == bool_);
  CHECK(dtype(where(b, i, l)) == i64);
  CHECK(dtype(where(b, f, 0)) == f32);
  CHECK(dtype(where(b, i, 0.5)) == f32);
  CHECK(dtype(maximum(i, 1.5)) == f32);
  CHECK(dtype(i & i) == i32);
  CHECK(dtype(b | b) == bool_);
  CHECK(dtype(sum(i)) == i64);
  CHECK(dtype(sum(b)) == i64);
  CHECK(dtype(mean(l)) == f32);
  CHECK(dtype(argmax(f, 0)) == i64);
  CHECK(floats(i < 2.5) == std::vector<float>{1});
  CHECK(to_vector<double>(full({1}, 0.1, {.dtype = f64}) * 3.0) ==
        std::vector<double>{0.1 * 3.0});  // never rounded to f32
  CHECK(to_vector<double>(full({1}, 1, {.dtype = f64}) / 3)[0] == 1.0 / 3);
  std::int64_t big = (std::int64_t{1} << 53) + 1;
  CHECK(integers(full({1}, big, {.dtype = i64}) + 2)[0] == big + 2);
  CHECK(integers(arange(1) + big)[0] == big);
}

TEST_CASE("expr: operators against plain arithmetic") {
  std::vector<float> a{-2.5f, -1, 0, 0.5f, 3}, b{2, -3, 1, 0.25f, -2};
  Tensor x = copy_of(a), y = copy_of(b);
  auto check = [&](const Tensor& got, const std::function<double(double, double)>& want) {
    std::vector<double> values = to_vector<double>(got);
    REQUIRE(values.size() == a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO("element " << i);
      CHECK(values[i] == Approx(want(a[i], b[i])));
    }
  };
  check(x + y, [](double p, double q) { return p + q; });
  check(x - y, [](double p, double q) { return p - q; });
  check(x * y, [](double p, double q) { return p * q; });
  check(x / y, [](double p, double q) { return p / q; });
  check(x % y, [](double p, double q) { return p - std::floor(p / q) * q; });
  check(1 - x, [](double p, double) { return 1 - p; });
  check(2 / y, [](double, double q) { return 2 / q; });
  check(-x, [](double p, double) { return -p; });
  check(x < y, [](double p, double q) { return p < q; });
  check(x <= 0, [](double p, double) { return p <= 0; });
  check(0 < x, [](double p, double) { return 0 < p; });
  check(x >= y, [](double p, double q) { return p >= q; });
  check(x == 0, [](double p, double) { return p == 0; });
  check(x != y, [](double p, double q) { return p != q; });
  check((x > 0) & (y > 0), [](double p, double q) { return p > 0 && q > 0; });
  check((x > 0) | (y > 0), [](double p, double q) { return p > 0 || q > 0; });
  check((x > 0) ^ (y > 0), [](double p, double q) { return (p > 0) != (q > 0); });
  check(!(x > 0), [](double p, double) { return !(p > 0); });
  check(where(x > y, x, y), [](double p, double q) { return std::max(p, q); });
  check(maximum(x, 0), [](double p, double) { return std::max(p, 0.0); });
  check(minimum(0.5, x), [](double p, double) { return std::min(p, 0.5); });
  check(clamp(x, -1, 1), [](double p, double) { return std::clamp(p, -1.0, 1.0); });
  check(abs(x), [](double p, double) { return std::abs(p); });
  check(square(x), [](double p, double) { return p * p; });
  check(pow(abs(x) + 1, y), [](double p, double q) { return std::pow(std::abs(p) + 1, q); });
  check(relu(x), [](double p, double) { return std::max(p, 0.0); });
  check(sigmoid(x), [](double p, double) { return 1 / (1 + std::exp(-p)); });
  check(tanh(x), [](double p, double) { return std::tanh(p); });
  check(exp(x * y), [](double p, double q) { return std::exp(p * q); });
  check(silu(x), [](double p, double) { return p / (1 + std::exp(-p)); });
  check(gelu(x), [](double p, double) { return 0.5 * p * (1 + std::erf(p / std::sqrt(2.0))); });
  check(floor(x), [](double p, double) { return std::floor(p); });
  check(ceil(x), [](double p, double) { return std::ceil(p); });
  check(trunc(x), [](double p, double) { return std::trunc(p); });
  check(round(x), [](double p, double) { return std::nearbyint(p); });
  check(sign(x), [](double p, double) { return p > 0 ? 1 : p < 0 ? -1 : 0; });
  CHECK(integers(arange(5) % 3) == std::vector<std::int64_t>{0, 1, 2, 0, 1});
  CHECK(integers(!(arange(2) == 1)) == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("expr: broadcasting against plain loops") {
  Tensor column = reshape(arange(3), {3, 1}), line = reshape(arange(4), {1, 4});
  std::vector<std::int64_t> got = integers(column * 10 + line), want;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) want.push_back(i * 10 + j);
  CHECK(got == want);
  Tensor cube = reshape(arange(24), {2, 3, 4});
  CHECK(integers(cube - line)[5] == 5 - 1);
  CHECK(integers(cube + arange(4))[23] == 23 + 3);
  CHECK(Tensor(cube + full({}, 1)).shape() == Shape{2, 3, 4});
  CHECK(Tensor(zeros({0, 3}) + ones({1, 3})).shape() == Shape{0, 3});
  CHECK(floats(zeros({0, 3}) + ones({1, 3})).empty());
  Tensor chain = (column + line) * (line - column) + cube(0);
  got = integers(chain);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) CHECK(got[static_cast<std::size_t>(i * 4 + j)] == (i + j) * (j - i) + i * 4 + j);
}

TEST_CASE("expr: slices against plain loops") {
  constexpr int n = 4, m = 5, k = 6;
  Tensor x = reshape(arange(n * m * k), {n, m, k});
  auto at = [](int i, int j, int l) { return static_cast<std::int64_t>((i * m + j) * k + l); };
  CHECK(integers(x(2, 3, 4)) == std::vector<std::int64_t>{at(2, 3, 4)});
  CHECK(x(2, 3, 4).rank() == 0);
  CHECK(integers(x(-1, -2, -3)) == std::vector<std::int64_t>{at(3, 3, 3)});
  CHECK(x(1).shape() == Shape{m, k});
  CHECK(x(all, 1).shape() == Shape{n, k});
  CHECK(x(all, all, slice(1, 5, 2)).shape() == Shape{n, m, 2});
  struct Part {
    int start, stop, step;
  };
  for (Part p : {Part{0, 5, 1}, {1, 4, 1}, {0, 5, 2}, {1, 5, 3}, {-3, -1, 1}, {2, 100, 2}, {3, 2, 1}, {5, 9, 1}}) {
    INFO("slice " << p.start << ":" << p.stop << ":" << p.step);
    Tensor part = x(1, slice(p.start, p.stop, p.step), slice(1));
    std::vector<std::int64_t> want;
    int first = p.start < 0 ? p.start + m : p.start, last = p.stop < 0 ? p.stop + m : std::min(p.stop, m);
    for (int j = first; j < last; j += p.step)
      for (int l = 1; l < k; ++l) want.push_back(at(1, j, l));
    CHECK(integers(part) == want);
  }
  CHECK(integers(x(arange(2) + 1, 0, 0)) == std::vector<std::int64_t>{at(1, 0, 0), at(2, 0, 0)});  // gathers
  Tensor gathered = x(all, reshape(arange(4), {2, 2}), 0);
  CHECK(gathered.shape() == Shape{n, 2, 2});
  CHECK(integers(gathered)[5] == at(1, 1, 0));
  Tensor size_of_axis = x(slice(x.size(0) - 1), 0, 0);
  CHECK(integers(size_of_axis) == std::vector<std::int64_t>{at(3, 0, 0)});
}

TEST_CASE("expr: updates against plain loops") {
  Tensor u = reshape(arange(12), {3, 4});
  std::vector<std::int64_t> want(12);
  for (int i = 0; i < 12; ++i) want[static_cast<std::size_t>(i)] = i;
  auto check = [&] { CHECK(integers(u) == want); };
  u.at(1, 2) = 50;
  want[6] = 50;
  check();
  u.at(all, 0) = arange(3) * 100;
  for (std::size_t i = 0; i < 3; ++i) want[i * 4] = static_cast<std::int64_t>(i) * 100;
  check();
  u.at(slice(0, 3, 2), slice(1, 3)) += 7;
  for (std::size_t i : {0, 2})
    for (std::size_t j : {1, 2}) want[i * 4 + j] += 7;
  check();
  u.at(-1) *= 2;
  for (std::size_t j = 0; j < 4; ++j) want[8 + j] *= 2;
  check();
  u.at(0, -1) -= 1;
  want[3] -= 1;
  check();
  u.at(all, slice(2, 2)) = 5;  // an empty part
  check();
  Tensor f = ones({2, 2});
  f.at(0, 0) /= 4;
  f.at(1) = f(0) + 1;
  CHECK(floats(f) == std::vector<float>{0.25f, 1, 1.25f, 2});
  CHECK(f.dtype() == DType::f32);
  Tensor d = ones({2}, {.dtype = DType::f64});
  d.at(0) += 0.1;
  CHECK(to_vector<double>(d) == std::vector<double>{1.1, 1});
  Tensor i = zeros({2}, {.dtype = DType::i32});
  i.at(1) += 3;
  CHECK(i.dtype() == DType::i32);
  CHECK(integers(i) == std::vector<std::int64_t>{0, 3});
  Tensor g = zeros({2, 3});
  g.at(all) = row({1, 2, 3});  // broadcast into the part
  CHECK(floats(g) == std::vector<float>{1, 2, 3, 1, 2, 3});
  Tensor swap = row({1, 2});
  Tensor first = swap(0);
  swap.at(0) = swap(1);
  swap.at(1) = first;
  CHECK(floats(swap) == std::vector<float>{2, 1});
}

TEST_CASE("expr: joining and splitting") {
  Tensor a = reshape(arange(4), {2, 2}), b = a + 10;
  CHECK(integers(concat({a, b}, 0)) == std::vector<std::int64_t>{0, 1, 2, 3, 10, 11, 12, 13});
  CHECK(integers(concat({a, b}, -1)) == std::vector<std::int64_t>{0, 1, 10, 11, 2, 3, 12, 13});
  CHECK(stack({a, b}, 1).shape() == Shape{2, 2, 2});
  CHECK(integers(stack({a, b}, 1)) == std::vector<std::int64_t>{0, 1, 10, 11, 2, 3, 12, 13});
  auto [left, right] = split<2>(a, 1);
  CHECK(integers(left) == std::vector<std::int64_t>{0, 2});
  CHECK(integers(right) == std::vector<std::int64_t>{1, 3});
  CHECK(integers(pad(a, {{1, 0}, {0, 1}}, 9)) == std::vector<std::int64_t>{9, 9, 9, 0, 1, 9, 2, 3, 9});
  CHECK(integers(roll(arange(5), 2, 0)) == std::vector<std::int64_t>{3, 4, 0, 1, 2});
  CHECK(integers(roll(arange(5), -1, 0)) == std::vector<std::int64_t>{1, 2, 3, 4, 0});
  CHECK(concat({ones({1}), arange(1)}, 0).dtype() == DType::f32);
}

TEST_CASE("expr: run-time numbers outside a trace are numbers") {
  Scalar a = 3, b = 0.5f;
  CHECK((a + b).number() == 3.5);
  CHECK((a * 2).number() == 6);
  CHECK((1 / a).number() == Approx(1.0 / 3));
  CHECK((-b).number() == -0.5);
  CHECK(exp(Scalar(0)).number() == 1);
  CHECK(floats(row({2}) * b) == std::vector<float>{1});
  CHECK(Tensor(row({2}) * b).dtype() == DType::f32);
  CHECK(item<int>(arange(3)(2) * a) == 6);
}

// Each line below that throws is compared with the line in the message, so keep statement and `line` on one line.
TEST_CASE("expr: errors name this file and line") {
  Tensor a = ones({2, 3}), b = ones({2, 4}), i = arange(3);
#define BLAME(statement) CHECK(blame_of([&] { statement; }).place == sinter::Location::current().text())
  BLAME(eval(a + b));
  BLAME(Tensor c = a * b);
  BLAME(eval(1 + (a - b)));
  BLAME(eval(exp(a) / b));
  BLAME(eval(a < b));
  BLAME(eval(a & a));
  BLAME(eval(maximum(a, b)));
  BLAME(eval(where(a, a, a)));
  BLAME(eval(where(a > 0, a, b)));
  BLAME(a += b);
  BLAME(eval(sum(a, 2)));
  BLAME(eval(sum(a, {0, 0})));
  BLAME(eval(softmax(a, 5)));
  BLAME(eval(argmax(a, -3)));
  BLAME(eval(reshape(a, {4})));
  BLAME(eval(reshape(a, {-1, -1})));
  BLAME(eval(a.reshape({5})));
  BLAME(eval(a.sum(3)));
  BLAME(eval(transpose(a, 0, 2)));
  BLAME(eval(permute(a, {0, 0})));
  BLAME(eval(expand(a, {3, 3})));
  BLAME(eval(squeeze(a, 0)));
  BLAME(eval(matmul(a, b)));
  BLAME(eval(matmul(i > 0, i > 0)));
  BLAME(eval(concat({a, b}, 0)));
  BLAME(eval(split(a, 2, 1)[0]));
  BLAME(eval(pad(a, {{1, 1}})));
  BLAME(eval(a(2)));
  BLAME(eval(a(0, 0, 0)));
  BLAME(eval(a(all, slice(0, 2, 0))));
  BLAME(a.at(5) = 1);
  BLAME(a.at(all, 0) = ones({7}));
  BLAME(a.at(0) += ones({7}));
  BLAME(eval(layer_norm(a, {4}, ones({4}), ones({4}))));
  BLAME(eval(cross_entropy(a, ones({2}))));
  BLAME(eval(mse_loss(a, b)));
  BLAME(eval(conv2d(a, a)));
  BLAME(eval(take(a, a)));
  BLAME(item<float>(a));
  BLAME(a.data<double>());
  BLAME(eval(zeros({-1})));
  BLAME(eval(full({-1, 2}, 3)));
  BLAME(eval(rand({-2})));
  BLAME(eval(arange(0, 4, 0)));
  BLAME(eval(a == b));
  BLAME(eval(a + 1 != b));
  BLAME(eval(a == b * 2));
  BLAME(eval(exp(a) != exp(b)));
#undef BLAME
}

TEST_CASE("expr: == and != take every pair of operands") {
  Tensor a = row({1, 2});
  const Tensor same = row({1, 2});
  Variable v(row({1, 2}));
  Scalar two = 2;
  auto named = a * 1;
  const std::vector<float> equal = {1, 1}, second = {0, 1};
  const auto numbers = [](const Tensor& t) { return floats(t.to(DType::f32)); };
  CHECK(numbers(a == same) == equal);
  CHECK(numbers(same == Tensor(a)) == equal);
  CHECK(numbers(a == v) == equal);
  CHECK(numbers(v == v) == equal);
  CHECK(numbers(v + 0 == v) == equal);
  CHECK(numbers(a == a * 1) == equal);
  CHECK(numbers(a * 1 == a) == equal);
  CHECK(numbers(a * 1 == same * 1) == equal);
  CHECK(numbers(named == named) == equal);
  CHECK(numbers(named == a) == equal);
  CHECK(numbers(v == named) == equal);
  CHECK(numbers(a == two) == second);
  CHECK(numbers(two == a * 1) == second);
  CHECK(numbers(2 == named) == second);
  CHECK(numbers(named == a.size(0)) == second);
  CHECK(numbers((a == 2) == (2 == a)) == equal);
  CHECK(numbers((a != 1) != (1 == named)) == equal);
  CHECK(bool(two == two));
  CHECK(bool(2 == two));
  CHECK(bool(Scalar(2) == a.size(0)));
  CHECK(bool(a.size(0) == two));
  CHECK(bool(3.5 != two));
  CHECK(bool(two != Scalar(1)));
}

TEST_CASE("expr: errors name the op, the values and the fix") {
  Tensor a = ones({32, 64}), b = ones({10, 64});
  std::string text = message_of([&] { eval(matmul(a, b)); });
  CHECK(text.find("sinter::ShapeError: matmul: inner sizes differ: a is (32, 64), b is (10, 64)") == 0);
  CHECK(text.find("a.size(1) = 64 must equal b.size(0) = 10; matmul(a, transpose(b, 0, 1)) would fit") !=
        std::string::npos);
  CHECK(message_of([&] { eval(a + b); }).find("add: shapes (32, 64) and (10, 64) do not broadcast") !=
        std::string::npos);
  CHECK(message_of([&] { eval(where(a, a, a)); }).find("compare it: where(x != 0, a, b)") != std::string::npos);
  // After an error everything is as it was.
  Tensor x = row({1, 2});
  CHECK_THROWS_AS(x += ones({3}), ShapeError);
  CHECK(floats(x) == std::vector<float>{1, 2});
  CHECK_THROWS_AS(x.at(7) = 1, IndexError);
  CHECK(floats(x + 1) == std::vector<float>{2, 3});
}

TEST_CASE("expr: an index that is only known when it runs") {
  Tensor table = row({1, 2, 3});
  CHECK_THROWS_AS(eval(take(table, tensor({0, 3}))), IndexError);
  CHECK_THROWS_AS(eval(take(table, tensor({-1}))), IndexError);
  CHECK(floats(take(table, tensor({2, 0}))) == std::vector<float>{3, 1});
}

TEST_CASE("expr: large expressions") {
  Tensor x = row({0.5f});
  auto e = x + 1 + x * 2 + x * x + (x - 1) * (x + 2) + exp(x) / (1 + exp(x)) + x + x + x + x + x + x + x + x + x + x;
  double v = 0.5;
  CHECK(floats(e)[0] == Approx(v + 1 + v * 2 + v * v + (v - 1) * (v + 2) + std::exp(v) / (1 + std::exp(v)) + 10 * v));
  static_assert(decltype(e)::leaf_count > 16);
}
