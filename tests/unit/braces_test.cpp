// Braces where a number may stand as well: `{}` is the options or the empty list, `{0}` a list of one, never the number.
#include "catch.hpp"
#include "checks.hpp"

#include <type_traits>
#include <vector>

using namespace sinter;

namespace {

Tensor square() { return tensor({{3.f, 1.f}, {2.f, 8.f}}); }
std::vector<std::int64_t> extents(const std::vector<Tensor>& parts, int axis) {
  std::vector<std::int64_t> found;
  for (const Tensor& part : parts) found.push_back(part.shape()[axis].value());
  return found;
}

}  // namespace

TEST_CASE("braces: options beside an axis", "[lists]") {
  const Tensor x = square(), counts = tensor({1, 2});
  CHECK(doubles(repeat_interleave(x, tensor({1, 0, 2, 1}), {})) == std::vector<double>{3, 2, 2, 8});
  CHECK(doubles(repeat_interleave(x, tensor({1, 0, 2, 1}), {4})) == std::vector<double>{3, 2, 2, 8});
  CHECK(doubles(repeat_interleave(x, counts, 0, {})) == std::vector<double>{3, 1, 2, 8, 2, 8});
  CHECK(doubles(repeat_interleave(x, counts, 1u)) == std::vector<double>{3, 1, 1, 2, 8, 8});
  CHECK(doubles(diff(x)) == std::vector<double>{-2, 6});
  CHECK(doubles(diff(x, {})) == std::vector<double>{-2, 6});
  CHECK(doubles(diff(x, {0})) == std::vector<double>{-1, 7});
  CHECK(doubles(diff(x, 0)) == std::vector<double>{-1, 7});
  CHECK(diff(x, {0, 2}).shape() == Shape{0, 2});
  CHECK_THROWS_AS(diff(x, 0, -1), UserError);
}

TEST_CASE("braces: a list of axes beside one axis", "[lists]") {
  const Tensor x = square();
  STATIC_REQUIRE(std::is_same_v<decltype(median(x, {0})), Tensor>);
  STATIC_REQUIRE(std::is_same_v<decltype(median(x, 0)), Ordered>);
  CHECK(item<float>(median(x, {})) == 2);
  CHECK(doubles(median(x, {0})) == std::vector<double>{2, 1});
  CHECK(item<float>(median(x, {0, 1})) == 2);
  CHECK(median(x, {}, keepdim).shape() == Shape{1, 1});
  CHECK(doubles(median(x, 1).values) == std::vector<double>{1, 2});
  CHECK(item<float>(nanmedian(x, {})) == 2);
  CHECK(doubles(nanmedian(x, {0})) == std::vector<double>{2, 1});
  CHECK(item<float>(nanmedian(x, {0, 1})) == 2);
  CHECK(doubles(nanmedian(x, -1).indices) == std::vector<double>{1, 0});
  CHECK(logsumexp(x, {}).rank() == 0);
  CHECK(logsumexp(x, {0}).shape() == Shape{2});
  CHECK(logsumexp(x, {0, 1}, keepdim).shape() == Shape{1, 1});
  CHECK(doubles(logsumexp(x, {0})) == doubles(logsumexp(x, 0)));
}

TEST_CASE("braces: options beside a number of bins", "[lists]") {
  const Tensor numbers = tensor({0, 2, 2}), x = square();
  CHECK(doubles(bincount(numbers, {})) == std::vector<double>{1, 0, 2});
  CHECK(doubles(bincount(numbers, {4})) == std::vector<double>{1, 0, 2, 0});
  CHECK(doubles(bincount(numbers, 4u)) == std::vector<double>{1, 0, 2, 0});
  CHECK(doubles(bincount(numbers, numbers.size(0))) == std::vector<double>{1, 0, 2});
  CHECK(doubles(histogram(x, 2, {}).counts) == std::vector<double>{3, 1});
  CHECK(doubles(histogram(x, tensor({0.f, 2.f, 9.f}), {}).counts) == std::vector<double>{1, 3});
  CHECK(doubles(histogramdd(x, {1, 2}, {}).counts) == std::vector<double>{1, 1});
  CHECK(doubles(histogramdd(x, {1, 2}, {{0, 2.5}, {0, 9}})) == std::vector<double>{0, 1});
}

TEST_CASE("braces: positions beside a number of parts", "[lists]") {
  const Tensor x = ones({4, 4, 4});
  CHECK(extents(tensor_split(x, {}), 0) == std::vector<std::int64_t>{4});
  CHECK(extents(tensor_split(x, {1}), 0) == std::vector<std::int64_t>{1, 3});
  CHECK(extents(tensor_split(x, {1, 3}, 2), 2) == std::vector<std::int64_t>{1, 2, 1});
  CHECK(extents(tensor_split(x, 3), 0) == std::vector<std::int64_t>{2, 1, 1});
  CHECK(extents(hsplit(x, {1}), 1) == std::vector<std::int64_t>{1, 3});
  CHECK(extents(hsplit(x, {}), 1) == std::vector<std::int64_t>{4});
  CHECK(extents(hsplit(x, 2), 1) == std::vector<std::int64_t>{2, 2});
  CHECK(extents(vsplit(x, {1}), 0) == std::vector<std::int64_t>{1, 3});
  CHECK(extents(vsplit(x, {}), 0) == std::vector<std::int64_t>{4});
  CHECK(extents(vsplit(x, 4), 0) == std::vector<std::int64_t>{1, 1, 1, 1});
  CHECK(extents(dsplit(x, {1, 2}), 2) == std::vector<std::int64_t>{1, 1, 2});
  CHECK(extents(dsplit(x, {}), 2) == std::vector<std::int64_t>{4});
  CHECK(extents(dsplit(x, 1), 2) == std::vector<std::int64_t>{4});
}

TEST_CASE("braces: options beside an extent, and a value beside a mode", "[lists]") {
  CHECK(doubles(arange(3, {})) == std::vector<double>{0, 1, 2});
  CHECK(arange(3, {DType::f64}).dtype() == DType::f64);
  CHECK(doubles(arange(1, 4, 2, {})) == std::vector<double>{1, 3});
  CHECK(doubles(arange(1, ones({4}).size(0))) == std::vector<double>{1, 2, 3});
  CHECK(arange(0, 1, 0.5).shape() == Shape{2});
  CHECK(eye(3, {}).shape() == Shape{3, 3});
  CHECK(eye(3, {DType::f64}).dtype() == DType::f64);
  CHECK(eye(3, 2).shape() == Shape{3, 2});
  CHECK(eye(2, ones({3}).size(0), 0, {}).shape() == Shape{2, 3});
  const Tensor x = tensor({1.f, 2.f});
  const std::vector<std::pair<int, int>> widths{{1, 0}};
  CHECK(doubles(pad(x, {{1, 0}}, {})) == std::vector<double>{0, 1, 2});
  CHECK(doubles(pad(x, {{1, 0}}, 5)) == std::vector<double>{5, 1, 2});
  CHECK(doubles(pad(x, {{1, 0}}, PadMode::replicate)) == std::vector<double>{1, 1, 2});
  CHECK(doubles(pad(x, widths, PadMode::circular)) == std::vector<double>{2, 1, 2});
  CHECK(doubles(pad(x, widths, {})) == std::vector<double>{0, 1, 2});
  CHECK(doubles(pad(x, 1)) == std::vector<double>{0, 1, 2, 0});
  CHECK(doubles(pad(x, 1, 5)) == std::vector<double>{5, 1, 2, 5});
  CHECK(doubles(pad(x, 1, PadMode::reflect)) == std::vector<double>{2, 1, 2, 1});
  CHECK(pad(square(), 2).shape() == Shape{6, 6});
  STATIC_REQUIRE(std::is_same_v<decltype(var(x, 0, {})), Tensor>);
}

TEST_CASE("braces: defaults of transforms", "[lists]") {
  const Tensor x = tensor({1.f, 2.f}), w = tensor({3.f, 5.f});
  const auto loss = [](Tensor a, Tensor b) { return sum(a * a * b); };
  CHECK(doubles(jit::grad(loss, {})(x, w)) == doubles(jit::grad(loss)(x, w)));
  STATIC_REQUIRE(std::is_same_v<decltype(jit::grad(loss, {})(x, w)), Tensor>);
  const auto [value, slope] = jit::value_and_grad(loss, {})(x, w);
  CHECK(item<float>(value) == 23);
  CHECK(doubles(slope) == std::vector<double>{6, 20});
  CHECK(doubles(jit::grad(loss, {1})(x, w)[0]) == std::vector<double>{1, 4});  // a list, as before
  CHECK_THROWS_AS(jit::grad(loss, std::vector<int>{})(x, w), DTypeError);      // a list of none is still an error
  const auto squared = [](Tensor a) { return sum(a * a); };
  CHECK(doubles(jit::vmap(squared, {})(square())) == doubles(jit::vmap(squared)(square())));
  CHECK(doubles(jit::vmap(squared, {}, {})(square())) == std::vector<double>{10, 68});
  CHECK(doubles(jit::vmap(squared, {1})(square())) == std::vector<double>{13, 65});
}
