// Calls that are enqueued as CUDA graphs (reduce_overhead).
#include "catch.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <thread>
#include <vector>

using namespace sinter;
using sinter_test::Network;
using sinter_test::training_step;

namespace {
bool is_missing() { return !cuda::is_available(); }
jit::Options as_one() { return {.mode = jit::Mode::reduce_overhead}; }

/// Relative to the largest value.
float difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = to_vector<float>(a), y = to_vector<float>(b);
  REQUIRE(x.size() == y.size());
  float largest = 0, scale = 1e-30f;
  for (std::size_t i = 0; i < x.size(); ++i)
    scale = std::max(scale, std::abs(y[i])),
    largest = std::max(largest, std::isfinite(x[i]) ? std::abs(x[i] - y[i]) : INFINITY);
  return largest / scale;
}
}  // namespace

TEST_CASE("a training step as a graph with branches computes the bits that its kernels compute one by one") {
  if (is_missing()) SINTER_SKIP("no GPU");
  manual_seed(1);
  const Network one = sinter_test::network(64, 32, 10, 0.1f);
  manual_seed(1);
  const Network each = sinter_test::network(64, 32, 10, 0.1f);
  for (const Network* n : {&one, &each})
    eval(n->w1.value()), eval(n->w2.value()), eval(n->b1.value()), eval(n->b2.value());
  auto grouped = jit::compile(training_step(), as_one());
  auto plain = jit::compile(training_step());
  std::vector<Tensor> losses, wanted;
  for (int i = 0; i < 60; ++i) {  // nothing waits between calls; sizes, numbers and addresses change
    const Tensor x = randn({i % 5 == 4 ? 48 : 32, 64}), y = randn({i % 5 == 4 ? 48 : 32, 10});
    eval(x);
    eval(y);
    losses.push_back(grouped(one, x, y, 0.01 * (i % 3)));
    wanted.push_back(plain(each, x, y, 0.01 * (i % 3)));
    if (i % 7 == 0) {
      losses.back().impl();
      wanted.back().impl();
    }
  }
  for (std::size_t i = 0; i < losses.size(); ++i) {
    INFO("step " << i);
    CHECK(item<float>(losses[i]) == item<float>(wanted[i]));
  }
  CHECK(to_vector<float>(one.w1.value()) == to_vector<float>(each.w1.value()));
  CHECK(to_vector<float>(one.w2.value()) == to_vector<float>(each.w2.value()));
  CHECK(to_vector<float>(one.b1.value()) == to_vector<float>(each.b1.value()));
}

TEST_CASE("a graph with library products, whose operands move") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto body = [](Tensor x, Tensor w, Tensor b) {
    return std::pair(gelu(matmul(x, w) + b), sum(matmul(w, x), 0));
  };  // 2 products of 4 GFLOP
  auto grouped = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  constexpr std::int64_t n = 1280;
  std::vector<Tensor> xs, held;
  for (int i = 0; i < 3; ++i) xs.push_back(randn({n, n})), eval(xs.back());
  const Tensor w = randn({n, n}), b = randn({n});
  eval(w);
  eval(b);
  for (int i = 0; i < 14; ++i) {
    const Tensor& x = xs[static_cast<std::size_t>(i % 3)];
    auto [y, s] = grouped(x, w, b);
    auto [want_y, want_s] = plain(x, w, b);
    if (i % 4 == 1) held.push_back(y);
    INFO("call " << i);
    CHECK(difference(y, want_y) < 1e-6f);
    CHECK(difference(s, want_s) < 1e-6f);
  }
  const Tensor flat = randn({n * n + 1});
  const Tensor moved = reshape(flat(slice(1, n * n + 1)), {n, n});  // at an address that is a multiple of 4 alone
  eval(moved);
  for (int i = 0; i < 3; ++i) CHECK(difference(grouped(moved, w, b).first, plain(moved, w, b).first) < 1e-5f);
  CHECK(difference(held[0], plain(xs[1], w, b).first) < 1e-6f);
}

TEST_CASE("two threads record and launch graphs of one function while a third allocates and frees") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto body = [](Tensor x, Tensor w) { return sum(exp(matmul(x, w) * 1e-3f), 1) + sum(matmul(w, x), 0); };
  auto grouped = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  constexpr std::int64_t n = 1100;
  std::vector<Tensor> xs;
  for (int i = 0; i < 4; ++i) xs.push_back(randn({n, n})), eval(xs.back());
  const Tensor w = randn({n, n});
  eval(w);
  std::vector<std::vector<float>> wanted;
  for (const Tensor& x : xs) wanted.push_back(to_vector<float>(plain(x, w)));
  cuda::synchronize();
  std::vector<int> wrong(2);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 24; ++i) {
        const std::size_t k = (i + t) % xs.size();
        const std::vector<float> y = to_vector<float>(grouped(xs[k], w));
        for (std::size_t j = 0; j < y.size(); ++j)
          wrong[t] += std::abs(y[j] - wanted[k][j]) > 1e-3f * std::max(1.f, std::abs(wanted[k][j]));
      }
    });
  threads.emplace_back([] {
    for (int i = 0; i < 40; ++i) {
      eval(ones({(1 << 16) + 4096 * i}));
      if (i % 10 == 9) release_cached_memory(Device::cuda(0));
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>{0, 0});
}

TEST_CASE("addresses of other alignment, and results that alternate, in a graph") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto body = [](Tensor x, Scalar s) {
    const Tensor h = softmax(x * s, 1);
    return std::pair(sum(h * x, 0), h);
  };
  auto grouped = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  const Tensor flat = randn({64 * 65 + 3});
  eval(flat);
  std::vector<Tensor> held;
  for (int i = 0; i < 20; ++i) {
    const Tensor x = reshape(flat(slice(i % 4, i % 4 + 64 * 65)), {64, 65});
    auto [a, h] = grouped(x, 1.f + static_cast<float>(i % 2));
    auto [b, g] = plain(x, 1.f + static_cast<float>(i % 2));
    held.push_back(h);
    if (held.size() > 3) held.erase(held.begin());
    CHECK(to_vector<float>(a) == to_vector<float>(b));
    CHECK(to_vector<float>(h) == to_vector<float>(g));
  }
}

TEST_CASE("loops and steps of the host beside graphs") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto loop = [](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 50,
        [&](Scalar k, Tensor y) {
          const Tensor h = matmul(y, w) + k;
          return h / (1 + sum(abs(h)));
        },
        x);
  };
  auto grouped = jit::compile(loop, as_one());
  auto plain = jit::compile(loop);
  const Tensor w = randn({16, 16});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = randn({8, 16});
    CHECK(to_vector<float>(grouped(x, w)) == to_vector<float>(plain(x, w)));
  }
  auto tripled = jit::custom_op({.name = "tripled_by_the_host",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 3 * in[0].data[i];
                                     }});
  auto cut = [=](Tensor x) {
    const Tensor a = matmul(x, x), b = tripled(exp(matmul(a, x)));
    return matmul(matmul(b, a), x);
  };
  auto in_pieces = jit::compile(cut, as_one());
  auto whole = jit::compile(cut);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = randn({16, 16}) * 0.1f;
    CHECK(to_vector<float>(in_pieces(x)) == to_vector<float>(whole(x)));
  }
}
