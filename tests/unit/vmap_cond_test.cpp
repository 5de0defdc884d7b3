// Gradients of a vmapped cond and switch_: each example has those of the branch that it takes.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <tuple>

using namespace sinter;

TEST_CASE("cond under vmap: what a branch gives for examples that do not take it reaches no gradient") {
  auto root = [](Tensor x, Tensor w) {
    return jit::cond(x > 0.0, [&] { return sqrt(x) * w; }, [&] { return x * x + w; });
  };
  // Each term of the branch not taken is NaN or infinite: roots and logarithms of what is not positive.
  auto logs = [](Tensor x, Tensor w) {
    return jit::cond(x > 0.0, [&] { return sum(log(x) * w); }, [&] { return sum(w / (x - 4.0)); });
  };
  const Tensor x = copy_of(std::vector<double>{4, -1, 0, 9}), w = full({}, 3, {.dtype = DType::f64}),
               many = copy_of(std::vector<double>{1, 2, 3});
  auto check = [&](auto f, const Tensor& weight) {
    auto over = [&](Tensor v, Tensor u) { return sum(jit::vmap(f, {0, jit::no_axis})(v, u)); };
    std::vector<double> by_x, by_w(static_cast<std::size_t>(static_cast<std::int64_t>(weight.numel())), 0);
    for (int i = 0; i < 4; ++i) {
      auto [dx, dw] = jit::grad<0, 1>(f)(x(i), weight);
      by_x.push_back(doubles(dx)[0]);
      for (std::size_t k = 0; k < by_w.size(); ++k) by_w[k] += doubles(dw)[k];
    }
    for (const char* backend : {"", "eager"}) {
      auto [dx, dw] = jit::compile([&](Tensor v, Tensor u) { return jit::grad<0, 1>(over)(v, u); },
                                   {.backend = backend})(x, weight);
      CHECK(near(doubles(dx), by_x));
      CHECK(near(doubles(dw), by_w));
      auto [ex, ew] =
          jit::compile([&](Tensor v, Tensor u) { return jit::vmap(jit::grad<0, 1>(f), {0, jit::no_axis})(v, u); },
                       {.backend = backend})(x, weight);
      CHECK(near(doubles(ex), by_x));
      CHECK(near(doubles(sum(reshape(ew, {4, -1}), 0)), by_w));
    }
    auto [value, tangent] = jit::jvp([&](Tensor v) { return jit::vmap(f, {0, jit::no_axis})(v, weight); }, x,
                                     ones({4}, {.dtype = DType::f64}));
    CHECK(near(doubles(tangent), by_x));
    const Tensor second =
        jit::grad([&](Tensor v) { return sum(square(jit::grad([&](Tensor u) { return over(u, weight); })(v))); })(x);
    for (double d : doubles(second)) CHECK(std::isfinite(d));
  };
  check(root, w);
  check(logs, many);
}

TEST_CASE("cond under vmap of vmap: weights that no example has of its own, and those that each row has") {
  auto root = [](Tensor x, Tensor w) {
    return jit::cond(x > 0.0, [&] { return sqrt(x) * w; }, [&] { return x * x * w; });
  };
  const Tensor x = copy_of(std::vector<double>{4, -1, 0, 9, -2, 1}, {2, 3}), w = copy_of(std::vector<double>{3, 5, 7});
  auto rows = [&](Tensor v, Tensor u) { return sum(jit::vmap(jit::vmap(root), {0, jit::no_axis})(v, u)); };
  auto [dx, dw] = jit::compile([&](Tensor v, Tensor u) { return jit::grad<0, 1>(rows)(v, u); })(x, w);
  CHECK(near(doubles(dx), {0.75, -10, 0, 0.5, -20, 3.5}));
  CHECK(near(doubles(dw), {5, 5, 1}));
}

TEST_CASE("switch_ under vmap: gradients of three branches are chosen by example") {
  auto f = [](Tensor index, Tensor x) {
    return jit::switch_(index,
                        std::tuple([&] { return log(x); }, [&] { return sqrt(x); }, [&] { return 1.0 / (x + 1.0); }));
  };
  const Tensor index = tensor({-1, 0, 1, 2, 7}), x = copy_of(std::vector<double>{2, 4, 4, -3, 1});
  auto gradient =
      jit::compile([&](Tensor i, Tensor v) { return jit::grad([&](Tensor u) { return sum(jit::vmap(f)(i, u)); })(v); });
  CHECK(near(doubles(gradient(index, x)), {0.5, 0.25, 0.25, -0.25, -0.25}));
  // Examples that do not take a branch may be outside of what it takes.
  CHECK(near(doubles(gradient(tensor({2, 2, 1, 2, 0}), copy_of(std::vector<double>{-4, 0, 4, -3, 1}))),
             {-1.0 / 9, -1, 0.25, -0.25, 1}));
}
