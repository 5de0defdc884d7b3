// Lazy evaluation at many sizes: extents that follow from operands become symbols at the second size, numbers of the
// user stay what they are, and plans are made while other threads evaluate. The oracle is the same program with an
// empty cache.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {

Tensor ready(const In& x) {
  Tensor value(x.tensor());
  eval(value);
  return value;
}
Tensor ramp(std::vector<std::int64_t> shape, double first = 0.25) {
  const Shape extents(shape);
  return ready(reshape(sin(arange(extents.numel()).to(DType::f32) * 0.7f + static_cast<float>(first)), extents));
}

/// Evaluates `run` at each size and compares with a fresh cache; the number of graphs that all sizes together took.
std::int64_t graphs_for(const std::vector<std::int64_t>& sizes, const std::function<Tensor(std::int64_t)>& prepare,
                        const std::function<Tensor(const Tensor&)>& run) {
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> expected;
  for (std::int64_t n : sizes) {
    inputs.push_back(prepare(n));
    jit::clear_lazy_cache();
    expected.push_back(floats(run(inputs.back())));
  }
  jit::clear_lazy_cache();
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      INFO("size " << sizes[i]);
      Tensor y = run(inputs[i]);
      eval(y);
      const std::vector<float> got = floats(y);
      REQUIRE(got.size() == expected[i].size());
      double largest = 0;  // a graph that has become hot is fused, and may round otherwise
      for (std::size_t k = 0; k < got.size(); ++k)
        largest = std::max(largest, std::abs(double(got[k]) - expected[i][k]) / (1 + std::abs(expected[i][k])));
      CHECK(largest < 1e-5);
    }
  return jit::lazy_stats().graphs;
}

std::vector<std::int64_t> from_to(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = first; n <= last; ++n) sizes.push_back(n);
  return sizes;
}
Tensor by_itself(std::int64_t n) { return ramp({n, n}); }
Tensor six_wide(std::int64_t n) { return ramp({n, 6}); }
Tensor in_a_row(std::int64_t n) { return ramp({n}); }

}  // namespace

TEST_CASE("lazy sizes: one graph for the first size and one for all others") {
  const std::vector<std::int64_t> sizes = from_to(5, 32);
  const Tensor weight = ramp({6, 3}), row = ramp({6});
  CHECK(graphs_for(sizes, in_a_row, [](const Tensor& x) { return exp(x * 0.5f) + x; }) == 2);
  CHECK(graphs_for(sizes, six_wide, [&](const Tensor& x) { return Tensor(tanh(matmul(x, weight)) + 1); }) == 2);
  CHECK(graphs_for(sizes, six_wide, [&](const Tensor& x) { return Tensor(softmax(x, 1) * row - mean(x, {0})); }) == 2);
  CHECK(graphs_for(sizes, by_itself,
                   [](const Tensor& x) { return Tensor(matmul(x, transpose(x, 0, 1)) + sum(x, {1})); }) == 2);
  CHECK(graphs_for(sizes, six_wide, [](const Tensor& x) { return concat({x, x * 2}, 0); }) == 2);
  CHECK(graphs_for(sizes, six_wide, [](const Tensor& x) { return transpose(x, 0, 1) + 0; }) == 2);
  CHECK(graphs_for(sizes, six_wide, [](const Tensor& x) { return reshape(x * 2, {-1}) + 1; }) == 2);
  CHECK(graphs_for(sizes, by_itself, [](const Tensor& x) { return reshape(x * 2, {-1}) + 1; }) == 2);
  CHECK(graphs_for(sizes, in_a_row, [](const Tensor& x) { return x(slice(1, -1)) - x(slice(0, -2)); }) == 2);
  CHECK(graphs_for(sizes, six_wide, [](const Tensor& x) { return x(-1) * x(0) + sum(x); }) == 2);
  CHECK(jit::lazy_stats().dynamic == 1);
}

TEST_CASE("lazy sizes: two extents that vary on their own") {
  jit::clear_lazy_cache();
  const Tensor warm = ramp({2, 3});
  for (std::int64_t n = 4; n < 12; ++n)
    for (std::int64_t m = 3; m < 9; ++m) {
      const Tensor x = ramp({n, m}), y = ramp({m});
      const std::int64_t before = jit::lazy_stats().graphs;
      Tensor z = x * y + sum(x, {0});
      eval(z);
      if (n > 5) CHECK(jit::lazy_stats().graphs == before);
      CHECK(z.shape() == Shape{n, m});
      const std::vector<float> got = floats(z), a = floats(x), b = floats(y), c = floats(ready(sum(x, {0})));
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] ==
              Approx(a[i] * b[i % static_cast<std::size_t>(m)] + c[i % static_cast<std::size_t>(m)]).margin(1e-5));
    }
}

TEST_CASE("lazy sizes: strided values, whose strides are sizes of their own") {
  const auto part = [](std::int64_t n) { return ready(ramp({7, n + 3})(all, slice(0, n))); };
  CHECK(graphs_for(from_to(4, 20), part, [](const Tensor& x) { return exp(x) * 2; }) <= 3);
  const auto turned = [](std::int64_t n) { return ready(transpose(ramp({n, 5}), 0, 1)); };
  CHECK(graphs_for(from_to(4, 20), turned, [](const Tensor& x) { return exp(x) * 2; }) == 2);
}

TEST_CASE("lazy sizes: extents 0 and 1 have graphs of their own") {
  const std::vector<std::int64_t> sizes{4, 1, 7, 0, 9, 1, 2, 0, 12};
  const Tensor column = ramp({1, 6});
  CHECK(graphs_for(sizes, six_wide, [&](const Tensor& x) { return Tensor(exp(x) + column); }) <= 4);
  CHECK(graphs_for(sizes, in_a_row, [](const Tensor& x) { return Tensor(x * 2 + sum(x)); }) <= 4);
}

TEST_CASE("lazy sizes: numbers of the user stay in the key") {
  jit::clear_lazy_cache();
  const Tensor x = ramp({24}), y = ramp({2, 3, 4});
  auto graphs_of = [](auto run) {
    const std::int64_t before = jit::lazy_stats().graphs;
    run();
    return jit::lazy_stats().graphs - before;
  };
  CHECK(graphs_of([] {
          for (int n = 3; n < 8; ++n) CHECK(ready(full({n}, 0.5f)).size(0) == n);
        }) == 5);
  CHECK(graphs_of([] {
          for (int n = 3; n < 8; ++n) CHECK(floats(arange(n).to(DType::f32) + 1).back() == static_cast<float>(n));
        }) == 5);
  CHECK(graphs_of([&] {
          for (int n : {2, 3, 4, 6}) CHECK(ready(reshape(x + 1, {n, 24 / n})).shape() == Shape{n, 24 / n});
        }) == 4);
  CHECK(graphs_of([&] {
          for (int n = 3; n < 8; ++n) CHECK(ready(x(slice(1, n)) * 2).size(0) == n - 1);
        }) == 5);
  CHECK(graphs_of([&] {
          for (int k = 1; k < 4; ++k)
            CHECK(floats(y * static_cast<float>(k))[1] == floats(y)[1] * static_cast<float>(k));
        }) >= 3);
  CHECK(jit::lazy_stats().dynamic == 0);
}

TEST_CASE("lazy sizes: a number of the user that varies with an extent is never guessed wrong") {
  jit::clear_lazy_cache();
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const auto n = static_cast<std::int64_t>(6 + random() % 20);
    const auto k = static_cast<std::int64_t>(i % 3 == 0 ? n - 2 : 1 + random() % 5);
    const Tensor x = in_a_row(n);
    Tensor y = x(slice(0, k)) * 2 + full({k}, static_cast<float>(k));
    const std::vector<float> got = floats(y), from = floats(x);
    REQUIRE(got.size() == static_cast<std::size_t>(k));
    for (std::size_t j = 0; j < got.size(); ++j) CHECK(got[j] == Approx(from[j] * 2 + static_cast<float>(k)));
  }
}

TEST_CASE("lazy sizes: branches on sizes inside an operation are distinguished") {
  // Convolutions and windows ask whether an extent is long enough, broadcasting whether it is 1.
  const auto image = [](std::int64_t n) { return ramp({1, 2, n, n}); };
  const Tensor kernel = ramp({3, 2, 3, 3});
  CHECK(graphs_for(from_to(5, 14), image, [&](const Tensor& x) { return Tensor(conv2d(x, kernel) * 2); }) <= 3);
  CHECK(graphs_for(from_to(4, 14), six_wide,
                   [](const Tensor& x) { return Tensor(x + ramp({1, 6}) * sum(x, {0}, Keep::yes)); }) <= 3);
}

TEST_CASE("lazy sizes: hot graphs are fused for all sizes, large ones at once") {
  const Context saved = Context::get();
  Context::get().hot = 4;
  jit::clear_lazy_cache();
  for (std::int64_t n = 5; n < 15; ++n) CHECK(floats(exp(in_a_row(n)) * 2 + 1).size() == static_cast<std::size_t>(n));
  const jit::LazyStats stats = jit::lazy_stats();
  CHECK(stats.fused >= 1);
  Context::get() = saved;
  jit::clear_lazy_cache();
  const Tensor small = ramp({100}), other = ramp({120}), large = ramp({1 << 20});
  for (const Tensor& x : {small, other}) CHECK(ready(Tensor(exp(x) * 2)).shape() == x.shape());
  const std::int64_t fused = jit::lazy_stats().fused, graphs = jit::lazy_stats().graphs;
  Tensor y = exp(large) * 2;
  eval(y);
  CHECK(jit::lazy_stats().graphs == graphs);
  CHECK(jit::lazy_stats().fused == fused + 1);
  CHECK(item<float>(y(777)) == Approx(2 * std::exp(item<float>(large(777)))));
}

TEST_CASE("lazy sizes: other threads evaluate while a plan is made") {
  const Context saved = Context::get();
  jit::clear_lazy_cache();
  const Tensor x = ramp({17});
  std::atomic<int> evaluated{0};
  std::atomic<bool> is_inside{false};
  Context::get().compiles_at_once = true;
  Context::get().logs = "fusion";
  Context::get().sink = [&](std::string_view, std::string_view) {  // called while the plan is made
    if (is_inside.exchange(true)) return;
    std::thread([&] { evaluated += floats(x * 3 + 1).size() == 17; }).join();
    evaluated += jit::lazy_stats().evaluations >= 1;
  };
  const std::vector<float> got = floats(exp(x) - x);
  Context::get() = saved;
  CHECK(evaluated == 2);
  CHECK(got[0] == Approx(std::exp(floats(x)[0]) - floats(x)[0]));
}

TEST_CASE("lazy sizes: threads at many sizes, with a cache that is cleared meanwhile") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const std::int64_t n = 3 + (7 * t + i) % 23;
        const Tensor x = ready(full({n}, static_cast<float>(t + 1)));
        wrong += item<float>(sum(x * 2 + 1)) != static_cast<float>(n * (2 * (t + 1) + 1));
        if (t == 0 && i % 20 == 19) jit::clear_lazy_cache();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("lazy sizes: what is guessed of two sizes, and passes cannot confirm, costs a graph and no error") {
  const auto pooled = [](std::int64_t height, std::int64_t width, std::int64_t size) {
    const Tensor x = arange(height * width).to(DType::f32);
    return to_vector<float>(mean(x.reshape({height, width}).reshape({size, height / size, width}) * 2, 1));
  };
  for (const auto& [height, width, size] :
       {std::array{4, 5, 2}, std::array{3, 6, 3}, std::array{6, 7, 2}, std::array{8, 9, 4}, std::array{4, 5, 2}}) {
    const std::vector<float> got = pooled(height, width, size);
    REQUIRE(got.size() == static_cast<std::size_t>(size * width));
    const int rows = height / size;
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < width; ++j)
        CHECK(got[static_cast<std::size_t>(i * width + j)] ==
              static_cast<float>(2 * (i * rows * width + j) + (rows - 1) * width));
  }
}
