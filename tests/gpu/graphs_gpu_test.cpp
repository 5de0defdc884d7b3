// Calls that are enqueued as CUDA graphs (reduce_overhead).
#include "catch.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <thread>
#include <tuple>
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

TEST_CASE("while loops that the device goes on with by itself: odd and even lengths, other addresses, products") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const auto loop = [](Tensor x, Tensor limit) {
    auto [i, y] = jit::while_loop([&](Tensor n, Tensor) { return n < limit; },
                                  [](Tensor n, Tensor v) {
                                    const Tensor w = tanh(matmul(v, v) * 0.2f) + 0.01f;
                                    return std::tuple(Tensor(n + 1), Tensor(w + sum(w, 0) * 0.1f));
                                  },
                                  limit * 0, x);
    return y * 2 + i.to(DType::f32);
  };
  auto grouped = jit::compile(loop, as_one());
  auto plain = jit::compile(loop);
  std::vector<Tensor> held;  // so that addresses differ
  for (const std::int64_t length : {0, 1, 7, 8, 9, 10, 11, 12, 51, 200, 201}) {
    const Tensor x = randn({24, 24}), limit = full({}, length, {.dtype = DType::i64});
    INFO(length);
    const Tensor y = grouped(x, limit);
    CHECK(to_vector<float>(y) == to_vector<float>(plain(x, limit)));
    held.push_back(y);
  }
}

TEST_CASE("an LSTM of 512 steps as few graphs, whose inputs move, computes the bits of its kernels one by one") {
  if (is_missing()) SINTER_SKIP("no GPU");
  constexpr std::int64_t hidden = 32;
  auto lstm = [](Tensor xs, Tensor wx, Tensor wh, Tensor b, Tensor h0) {
    auto [state, ys] = jit::scan(
        [&](std::tuple<Tensor, Tensor> carried, Tensor x) {
          auto [h, c] = carried;
          const Tensor g = matmul(x, wx) + matmul(h, wh) + b;
          const auto gate = [&](std::int64_t k) { return g(all, slice(k * hidden, (k + 1) * hidden)); };
          const Tensor next = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
          const Tensor out = sigmoid(gate(3)) * tanh(next);
          return std::tuple{std::tuple{out, next}, out};
        },
        std::tuple{h0, h0}, xs);
    return ys;
  };
  auto grouped = jit::compile(lstm, as_one());
  auto plain = jit::compile(lstm);
  const Tensor wx = randn({16, 4 * hidden}) * 0.1f, wh = randn({hidden, 4 * hidden}) * 0.1f, b = randn({4 * hidden});
  const Tensor h0 = zeros({3, hidden});
  std::vector<Tensor> held;
  for (int i = 0; i < 6; ++i) {
    const Tensor xs = randn({i == 4 ? 300 : 512, 3, 16});
    held.push_back(grouped(xs, wx, wh, b, h0));
    CHECK(to_vector<float>(held.back()) == to_vector<float>(plain(xs, wx, wh, b, h0)));
  }
}

TEST_CASE("updates of many parameters as one launch have the bits of one launch for each, whatever their alignment") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const auto step = [](const std::vector<Tensor>& w, const std::vector<Tensor>& g, Scalar rate) {
    std::vector<Tensor> updated;
    for (std::size_t i = 0; i < w.size(); ++i)
      updated.push_back(w[i] * (1 - rate * 0.01f) - rate * g[i] / (sqrt(g[i] * g[i]) + 1e-8f));
    return updated;
  };
  const Tensor flat = randn({1 << 16});
  eval(flat);
  std::vector<Tensor> w, g, moved;
  for (std::int64_t i = 0; i < 60; ++i) {
    w.push_back(randn({i % 2 == 0 ? 128 * (i + 1) : 100 * i + 3}));
    g.push_back(randn(w.back().shape()));
    moved.push_back(flat(slice(i % 3, i % 3 + w.back().numel())));  // at addresses that are multiples of 4 alone
  }
  eval(w);
  eval(g);
  eval(moved);
  auto apart = jit::compile(step, {.horizontal_fusion = false});
  for (const jit::Options& options : {jit::Options{}, as_one()}) {
    auto together = jit::compile(step, options);
    for (int round = 0; round < 3; ++round)
      for (const std::vector<Tensor>* gradients : {&g, &moved}) {
        const float rate = 0.1f * static_cast<float>(round + 1);
        const std::vector<Tensor> found = together(w, *gradients, rate), wanted = apart(w, *gradients, rate);
        for (std::size_t i = 0; i < w.size(); ++i) CHECK(to_vector<float>(found[i]) == to_vector<float>(wanted[i]));
      }
    CHECK(together.stats().launches < 60);
  }
}
