// What programs of users met that no other test asks: second derivatives of products at zeros, errors that say what was
// written rather than what it is made of, and text as an argument of compiled functions.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <Eigen/Dense>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {

using Doubles = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The product of the elements at `rest` but for those at i and j.
double product_without(const Doubles& x, std::size_t count, std::size_t i, std::size_t j) {
  double product = 1;
  for (std::size_t k = 0; k < count; ++k)
    if (k != i && k != j) product *= x[k];
  return product;
}
/// Second derivatives of sum over the first `count` elements' products, weighted: count = size alone, or every count.
Doubles hessian_of_products(const Doubles& x, const Doubles& weights) {
  const std::size_t n = x.size();
  Doubles out(n * n, 0);
  for (std::size_t count = 1; count <= n; ++count)
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        if (i != j) out[i * n + j] += weights[count - 1] * product_without(x, count, i, j);
  return out;
}
const std::vector<Doubles> rows{{2, 5, 3, 7}, {2, 0, 3, 7}, {0, 5, 3, 7}, {2, 5, 3, 0},
                                {0, 0, 3, 7}, {2, 0, 3, 0}, {0, 5, 0, 0}, {0, 0, 0, 0}};

}  // namespace

TEST_CASE("second derivatives of products hold at zeros", "[gradients]") {
  for (const Doubles& row : rows) {
    CAPTURE(row);
    const Tensor x = copy_of(row);
    const auto whole = [](Tensor v) { return prod(v); };
    const Doubles expected = hessian_of_products(row, {0, 0, 0, 1});
    CHECK(near(doubles(jit::hessian(whole)(x)), expected));
    CHECK(near(doubles(jit::compile(jit::hessian(whole))(x)), expected));
    CHECK(near(doubles(jit::jacobian(jit::grad(whole))(x)), expected));
    const Doubles weights{0.5, -2, 3, 1.5};
    const auto running = [&](Tensor v) { return sum(cumprod(v, 0) * copy_of(weights)); };
    CHECK(near(doubles(jit::hessian(running)(x)), hessian_of_products(row, weights)));
    CHECK(near(doubles(jit::compile(jit::hessian(running))(x)), hessian_of_products(row, weights)));
    // Without the element itself, from the end: the weights of shorter products, and the order of elements, change.
    const auto before = [&](Tensor v) { return sum(cumprod(v, 0, {.exclusive = true}) * copy_of(weights)); };
    CHECK(near(doubles(jit::hessian(before)(x)), hessian_of_products(row, {-2, 3, 1.5, 0})));
    const auto reversed = [&](Tensor v) {
      return sum(flip(cumprod(flip(v, 0), 0, {.reverse = true}), 0) * copy_of(weights));
    };
    CHECK(near(doubles(jit::hessian(reversed)(x)), hessian_of_products(row, weights)));
  }
  // Rows side by side, as a batch, and along another axis.
  std::vector<Tensor> parts;
  Doubles expected;
  for (const Doubles& row : rows) {
    parts.push_back(copy_of(row));
    for (double element : hessian_of_products(row, {0, 0, 0, 1})) expected.push_back(element);
  }
  const auto of_row = jit::hessian([](Tensor v) { return prod(v); });
  CHECK(near(doubles(jit::vmap(of_row)(stack(parts, 0))), expected));
  const auto of_columns = jit::grad([](Tensor m) { return sum(prod(m, 0) * sum(m)); });
  const Tensor columns = stack(parts, 1), along = ones({4, 8}, {.dtype = DType::f64});
  const auto slope = [&](double step) { return of_columns(columns + step * along); };
  CHECK(near(doubles(jit::jvp(of_columns, columns, along).second), doubles((slope(1e-5) - slope(-1e-5)) / 2e-5), 1e-6));
}

TEST_CASE("first derivatives of products are 0 beside a zero, however large the rest", "[gradients]") {
  const Tensor large = tensor({1e200, 0.0, 1e200, 1e10});
  CHECK(doubles(jit::grad([](Tensor v) { return prod(v); })(large)) == Doubles{0, infinity, 0, 0});
  CHECK(doubles(jit::grad([](Tensor v) { return sum(cumprod(v, 0)); })(large)) == Doubles{1, infinity, 0, 0});
  const Tensor endless = tensor({infinity, 0.0, 2.0});
  const Doubles found = doubles(jit::grad([](Tensor v) { return prod(v); })(endless));
  CHECK((found[0] == 0 && found[1] == infinity && std::isnan(found[2])));
}

TEST_CASE("errors say what was written", "[errors]") {
  CHECK(has(message_of<ShapeError>([] { reshape(ones({6}), {4, -1}); }),
            "reshape: (6,) has 6 elements, the extents of (4, -1) but -1 multiply to 4"));
  CHECK(reshape(ones({6}), {3, -1}).shape() == Shape({3, 2}));
  CHECK(has(message_of<ShapeError>([] { stack({ones({2}), ones({3})}, 0); }),
            "stack: operand 0 is (2,), operand 1 is (3,)"));
  CHECK(has(message_of<ShapeError>([] { stack(std::vector<Tensor>{}, 0); }), "stack: no tensors were given"));
  CHECK(has(message_of<ShapeError>([] { conv2d(ones({1, 3, 8, 8}), ones({4, 2, 3, 3})); }),
            "x has 3 channels: weight.size(1), which is 2, must be as many, or fewer with .groups"));
  CHECK(has(message_of<ShapeError>([] { conv1d(ones({1, 4, 8}), ones({4, 4, 3}), {.groups = 2}); }),
            "x has 4 channels: weight.size(1), which is 4, must be as many divided by the groups"));
  Tensor u = ones({2, 3});
  CHECK(has(message_of<ShapeError>([&] { u.at(0) = ones({4}); }), "at: the value has shape (4,), the place (3,)"));
  CHECK(has(message_of<ShapeError>([&] { u.at(tensor({0, 1})) += ones({3, 3}); }),
            "at: the value has shape (3, 3), the place (2, 3)"));
  CHECK(floats(u) == std::vector<float>(6, 1));
  CHECK(has(message_of<DTypeError>([] { to_eigen<Eigen::Vector2d>(ones({2})); }),
            "to_eigen: the tensor has dtype f32, the Eigen type f64"));
}

TEST_CASE("text is an argument of compiled functions as it is written", "[jit]") {
  const auto f = jit::compile([](Tensor x, const std::string& activation, std::string name) {
    if (activation == "relu") x = relu(x);
    return name.empty() ? Tensor(-x) : x;
  });
  CHECK(floats(f(tensor({-1.f, 2.f}), "relu", "x")) == std::vector<float>{0, 2});
  CHECK(floats(f(tensor({-1.f, 2.f}), "none", "")) == std::vector<float>{1, -2});
  const char* pointer = "relu";
  CHECK(floats(f(tensor({-1.f, 2.f}), pointer, std::string("x"))) == std::vector<float>{0, 2});
  CHECK(f.stats().compiles == 2);
  const auto chosen = jit::compile([&](Tensor x) { return f(x, "relu", "x"); });
  CHECK(floats(chosen(tensor({-1.f, 2.f}))) == std::vector<float>{0, 2});
}
