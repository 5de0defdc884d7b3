// newaxis and ellipsis among the positions of x(...): NumPy's results, in values, gradients, vmap and compiled code.
#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <vector>

using namespace sinter;

namespace {
Tensor counted(const Shape& shape) { return reshape(arange(shape.numel()), shape); }
std::vector<std::int64_t> elements(const Tensor& x) { return to_vector<std::int64_t>(x); }
}  // namespace

TEST_CASE("newaxis: an axis of extent 1 wherever it stands") {
  Tensor x = counted({2, 3});
  CHECK(x(newaxis).shape() == Shape{1, 2, 3});
  CHECK(x(all, newaxis).shape() == Shape{2, 1, 3});
  CHECK(x(all, all, newaxis).shape() == Shape{2, 3, 1});
  CHECK(x(newaxis, newaxis, 1, slice(0, 2), newaxis).shape() == Shape{1, 1, 2, 1});
  CHECK(elements(x(newaxis, 1, slice(1, {}))) == std::vector<std::int64_t>{4, 5});
  CHECK(array_equal(x(all, newaxis) - x(newaxis), unsqueeze(x, 1) - unsqueeze(x, 0)));
  CHECK(tensor(3)(newaxis).shape() == Shape{1});
  CHECK((x + 1)(newaxis).shape() == Shape{1, 2, 3});
}

TEST_CASE("ellipsis: all axes that are left over") {
  Tensor x = counted({2, 3, 4});
  CHECK(array_equal(x(ellipsis, 0), x(all, all, 0)));
  CHECK(array_equal(x(1, ellipsis), x(1)));
  CHECK(array_equal(x(1, ellipsis, -1), x(1, all, -1)));
  CHECK(array_equal(x(ellipsis), x));
  CHECK(array_equal(x(0, 1, ellipsis, 2), x(0, 1, 2)));  // for no axis
  CHECK(x(ellipsis, newaxis).shape() == Shape{2, 3, 4, 1});
  CHECK(x(newaxis, ellipsis, newaxis, 0).shape() == Shape{1, 2, 3, 1});
  CHECK(x(x(all, all, 0) > 4, ellipsis).shape() == Shape{4, 4});  // a mask covers two axes
  CHECK(x(ellipsis, x(0, 0) > 1).shape() == Shape{2, 3, 2});
}

TEST_CASE("newaxis beside index tensors, masks and numbers of the call") {
  Tensor x = counted({3, 4}), i = tensor({2, 0}), pairs = tensor({{0, 1}, {2, 2}});
  CHECK(x(i, newaxis).shape() == Shape{2, 1, 4});
  CHECK(x(newaxis, i).shape() == Shape{1, 2, 4});
  CHECK(x(pairs, newaxis).shape() == Shape{2, 2, 1, 4});
  CHECK(x(pairs, pairs, newaxis).shape() == Shape{2, 2, 1});
  CHECK(array_equal(x(pairs, pairs, newaxis), unsqueeze(x(pairs, pairs), 2)));
  CHECK(x(x > 5, newaxis).shape() == Shape{6, 1});
  CHECK(x(x(all, 0) > 0, newaxis, 1).shape() == Shape{2, 1});
  auto f = jit::compile([](Tensor a, Scalar k, Tensor n) { return a(k, newaxis, n); });
  CHECK(f(x, 1, tensor(2)).shape() == Shape{1});
  CHECK(item<int>(f(x, 2, tensor(3))) == 11);
}

TEST_CASE("newaxis and ellipsis: what they refuse") {
  Tensor x = counted({2, 3, 4}), i = tensor({0, 1});
  CHECK_THROWS_AS(x(ellipsis, ellipsis), IndexError);
  CHECK_THROWS_AS(x(i, newaxis, i), IndexError);
  CHECK_THROWS_AS(x(0, 0, 0, ellipsis, 0), IndexError);
  CHECK_THROWS_AS(x.at(newaxis, 0) = 1, IndexError);
  CHECK_THROWS_AS(update(x, std::vector<Index>{newaxis}, 1), IndexError);
}

TEST_CASE("ellipsis: a place that is assigned to") {
  Tensor x = zeros({2, 2, 3});
  x.at(ellipsis, 1) = 1;
  x.at(1, ellipsis) += 2;
  Variable v(x, "v");
  v.at(ellipsis, 0) *= 3;
  CHECK(to_vector<float>(x) == std::vector<float>{0, 1, 0, 0, 1, 0, 2, 3, 2, 2, 3, 2});
  CHECK(to_vector<float>(v) == std::vector<float>{0, 1, 0, 0, 1, 0, 6, 3, 2, 6, 3, 2});
  CHECK(array_equal(update(x, std::vector<Index>{ellipsis, Index(0)}, 7)(ellipsis, 0), full({2, 2}, 7)));
}

TEST_CASE("newaxis and ellipsis in gradients, vmap and of sizes that change") {
  auto distances = [](Tensor a) { return sum(square(a(all, newaxis) - a(newaxis, ellipsis)), -1); };
  Tensor x = cast(counted({3, 2}), DType::f32);
  auto loss = [&](Tensor a) { return sum(distances(a)); };
  CHECK(to_vector<float>(jit::grad(loss)(x)) == std::vector<float>{-24, -24, 0, 0, 24, 24});
  Tensor batch = stack({x, x * 2});
  CHECK(array_equal(jit::vmap(distances)(batch), stack({distances(x), distances(x * 2)})));
  auto f = jit::compile(distances, {.dynamic = jit::Dynamic::always});
  for (int n : {2, 5, 7}) CHECK(f(ones({n, 3})).shape() == Shape{n, n});
  CHECK(f.stats().compiles == 1);
}
