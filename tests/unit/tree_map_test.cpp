// tree::map over structs, containers and nested ones, and eval, which hands on what it computes.
#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
struct Layer {
  Tensor w, b;
  int heads = 1;
};
struct Frozen {
  Variable w, b;
};
struct Mixed {
  std::map<std::string, Tensor> named;
  std::optional<Tensor> maybe;
  Scalar rate;
  std::tuple<Tensor, Layer> rest;
};
}  // namespace

TEST_CASE("tree::map: a step of a list of layers, compiled") {
  using Model = std::vector<Layer>;
  auto loss = [](const Model& m, Tensor x) {
    for (const Layer& layer : m) x = tanh(matmul(x, layer.w) + layer.b);
    return sum(square(x));
  };
  auto step = jit::compile([&](Model m, Tensor x, Scalar rate) {
    return tree::map([&](Tensor p, Tensor g) { return p - rate * g; }, m, jit::grad(loss)(m, x));
  });
  Model m{{ones({2, 3}) * 0.5, zeros({3}), 4}, {ones({3, 1}) * 0.25, zeros({1}), 2}};
  Tensor x = tensor({{1.f, -0.5f}});
  const Model next = step(m, x, 0.1), gradient = jit::grad(loss)(m, x);
  REQUIRE(next.size() == 2);
  CHECK(next[0].heads == 4);
  CHECK(allclose(next[0].w, m[0].w - 0.1 * gradient[0].w));
  CHECK(allclose(next[1].b, m[1].b - 0.1 * gradient[1].b));
  CHECK(item<float>(loss(next, x)) < item<float>(loss(m, x)));
}

TEST_CASE("tree::map: maps, optionals, tuples; numbers stay") {
  const Mixed a{{{"x", ones({2})}}, Tensor(full({}, 2.0)), 3, {zeros({1}), {ones({1}), ones({1}), 7}}};
  const Mixed b = tree::map([](const Tensor& t) { return t + 1; }, a);
  CHECK(to_vector<float>(b.named.at("x")) == std::vector<float>{2, 2});
  CHECK(item<float>(*b.maybe) == 3);
  CHECK(b.rate.number() == 3);
  CHECK(item<float>(std::get<1>(b.rest).w) == 2);
  CHECK(std::get<1>(b.rest).heads == 7);
  CHECK(item<float>(a.named.at("x")(0)) == 1);  // the argument is as it was
  CHECK(item<float>(tree::map([](Tensor t) { return t * 2; }, tensor(2.f))) == 4);
}

TEST_CASE("tree::map: values of Variables beside Tensors, and objects of another form") {
  const Frozen variables{Variable(full({2}, 5.f)), Variable(full({1}, 6.f))};
  const std::pair<Tensor, Tensor> zero{zeros({2}), zeros({1})};
  const auto sum_of = tree::map([](Tensor a, Tensor b, Tensor c) { return a + b + c; }, zero, variables, zero);
  CHECK(to_vector<float>(sum_of.first) == std::vector<float>{5, 5});
  CHECK(item<float>(sum_of.second) == 6);
  const std::vector<Tensor> two{ones({1}), ones({1})}, three{ones({1}), ones({1}), ones({1})};
  CHECK(blame_of<UserError>([&] { tree::map([](Tensor a, Tensor b) { return a + b; }, two, three); }) ==
        blame("tree::map"));
  const auto five = [](Tensor a, Tensor b, Tensor c, Tensor d, Tensor e) { return a + b + c + d + e; };
  CHECK(item<float>(tree::map(five, two, two, two, two, two)[1]) == 5);
}

TEST_CASE("tree::map leaves extents symbolic") {
  struct Sized {
    Tensor w;
    Dim n;
  };
  auto doubled = jit::compile(
      [](Tensor a) { return tree::map([](const Tensor& t) { return Tensor(t * 2); }, Sized{a, a.size(0)}).w; },
      {.dynamic = jit::Dynamic::always});
  for (const std::int64_t n : {2, 3, 5, 7}) CHECK(item<float>(sum(doubled(ones({n})))) == static_cast<float>(2 * n));
  CHECK(doubled.stats().compiles == 1);
}

TEST_CASE("eval hands on what it computed") {
  static_assert(std::is_same_v<decltype(eval(std::declval<const Tensor>())), Tensor>);
  static_assert(std::is_same_v<decltype(eval(std::declval<Tensor>())), Tensor>);
  static_assert(std::is_same_v<decltype(eval(std::declval<Tensor&>())), const Tensor&>);
  static_assert(std::is_same_v<decltype(eval(std::declval<const std::vector<Tensor>>())), std::vector<Tensor>>);
  Tensor x = ones({3});
  Tensor y = eval(sum(x * 2));
  CHECK(y.is_ready());
  Tensor z = x + 1;
  const Tensor& same = eval(z);
  CHECK(&same == &z);
  CHECK(z.is_ready());
  const Layer layer = eval(Layer{x * 2, x * 3});
  CHECK(layer.w.is_ready());
  CHECK(layer.b.is_ready());
  const std::vector<Layer> layers{{x * 4, x * 5}};
  CHECK(eval(layers)[0].b.is_ready());
  const std::vector<Tensor> list = eval(std::vector<Tensor>{x * 6, x * 7});
  CHECK(list[1].is_ready());
  std::vector<Tensor> named{x * 8};
  CHECK(&eval(named) == &named);
  std::array<Tensor, 2> array{x * 9, x * 10};
  CHECK(eval(array)[1].is_ready());
  eval(std::span<const Tensor>(named));
}
