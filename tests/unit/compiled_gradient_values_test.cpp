// Which values gradients are of: those that the call read, whatever is written afterwards; what is no part of them;
// host functions; memory that saved values hold.
#include "compiled_gradient_cases.hpp"

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

using namespace sinter;
using namespace sinter_test::gradient_cases;

TEST_CASE("gradient values: a write between forward and backward changes nothing") {
  Variable w(vec({3}), "w");
  w.requires_grad();
  const Tensor x = vec({1});
  auto compiled = jit::compile([&](Tensor t) { return sum(w * w * t); });
  auto kept = jit::compile([&](Tensor t) { return sum(w * w * t); }, {.mode = jit::Mode::reduce_overhead});
  auto region = jit::region([](const Variable& v, Tensor t) { return sum(v * v * t); });
  auto hidden = jit::compile([&](Tensor t) { return w * t; });
  auto reads = jit::compile([&](Tensor t) { return item(sum(t)) > 0 ? Tensor(sum(w * w * t)) : Tensor(sum(w)); });
  const std::pair<const char*, std::function<Tensor()>> losses[] = {
      {"compiled", [&] { return compiled(x); }},
      {"reduce_overhead", [&] { return kept(x); }},
      {"region", [&] { return region(w, x); }},
      {"compiled, then lazy", [&] { return Tensor(sum(hidden(x) * w)); }},
      {"a path", [&] { return reads(x); }},
      {"lazy", [&] { return Tensor(sum(w * w * x)); }},
      {"lazy, by way of the value",
       [&] {
         Tensor value = w.value();
         return Tensor(sum(value * value * x));
       }},
  };
  auto update = jit::compile([&] { w -= 1; });
  const std::pair<const char*, std::function<void()>> writes[] = {
      {"-=", [&] { w -= 1; }},
      {"set", [&] { w.set(w * 0); }},
      {"an element",
       [&] {
         Tensor value = w.value();
         value.at(0) = 7;
         w.set(value);
       }},
      {"a compiled update",
       [&] {
         update();
         update();
       }},
  };
  for (const auto& [kind, loss_of] : losses)
    for (const auto& [how, write] : writes)
      for (int when = 0; when < 3; ++when) {  // evaluated never, before the write, after it
        INFO(kind << ", " << how << ", " << when);
        w.set(vec({3}));
        if (when == 1) eval(w);
        w.zero_grad();
        Tensor loss = loss_of();
        if (when == 1) eval(loss);
        write();
        if (when == 2) CHECK(item<float>(loss) == 9);
        loss.backward();
        CHECK(floats(w.grad()) == std::vector<float>{6});
        CHECK(item<float>(loss) == 9);
      }
}

TEST_CASE("gradient values: a number that was read is a constant, compiled or not") {
  Variable w(vec({3}), "w");
  w.requires_grad();
  const auto body = [&](Tensor x) { return sum(w * item(sum(w * x)) * x); };
  const auto path = [&](Tensor x) {
    Scalar s = item(sum(w * x));
    return s > 0 ? Tensor(sum(w * s * x)) : Tensor(sum(w));
  };
  auto compiled = jit::compile(body);
  auto compiled_path = jit::compile(path);
  auto step = jit::compile([&](Tensor x) {
    w.zero_grad();
    body(x).backward();
    return w.grad();
  });
  const std::function<Tensor(Tensor)> ways[] = {body, path, compiled, compiled_path};
  for (const auto& f : ways)
    for (int i = 0; i < 2; ++i) {
      w.zero_grad();
      f(vec({2})).backward();
      CHECK(floats(w.grad()) == std::vector<float>{12});
    }
  CHECK(floats(step(vec({2}))) == std::vector<float>{12});
}

TEST_CASE("gradient values: loss and backward() in one function are the step with value_and_grad, in bits") {
  const Batch batch;
  Net net;
  auto whole = jit::compile([](const Net& n, Tensor x, Tensor y) {
    auto [loss, grads] = jit::value_and_grad(loss_of)(n, x, y);
    std::vector<Tensor> values{loss};
    for (const Variable& v : n.parameters()) values.push_back(grads[v]);
    return values;
  });
  const std::vector<Tensor> expected = whole(net, batch.x, batch.y);
  jit::requires_grad(net);
  auto taped = jit::compile([](const Net& n, Tensor x, Tensor y) {
    jit::zero_grad(n);
    Tensor loss = loss_of(n, x, y);
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(floats(taped(net, batch.x, batch.y)) == floats(expected[0]));
    for (std::size_t k = 0; k < 4; ++k) CHECK(floats(net.parameters()[k].grad()) == floats(expected[k + 1]));
  }
}

TEST_CASE("gradient values: callbacks with a derivative, once for each call") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  for (bool pure : {false, true}) {
    std::atomic<int> runs{0};
    const auto cube = [&](const Tensor& x) {
      jit::ResultSpec spec = jit::like(x);
      spec.pure = pure;
      spec.vjp = [](auto in, const Tensor&, const Tensor& dout) {
        return std::vector<Tensor>{dout * 3 * in[0] * in[0]};
      };
      return jit::callback(
          [&runs](const Tensor& v) {
            ++runs;
            return Tensor(v * v * v);
          },
          spec, x);
    };
    const auto body = [&](Tensor x) { return sum(cube(w * x) * w); };
    auto compiled = jit::compile(body);
    auto reads = jit::compile([&](Tensor x) {
      Tensor y = cube(w * x);
      return item(sum(y)) > 0 ? Tensor(sum(y * w)) : Tensor(sum(y));
    });
    const std::pair<const char*, std::function<Tensor(Tensor)>> ways[] = {
        {"lazy", body}, {"compiled", compiled}, {"a path", reads}};
    for (const auto& [kind, f] : ways)
      for (int i = 0; i < 3; ++i) {
        INFO(kind << (pure ? ", pure" : ""));
        w.zero_grad();
        const int before = runs;
        Tensor loss = f(vec({2, 0.5f}));
        loss.backward();
        CHECK(near_relative(doubles(w.grad()), {32, 4}, 1e-6));  // of x^3 w^4
        if (!pure) CHECK(runs == before + 1);
      }
  }
}

TEST_CASE("gradient values: hooks, with paths, disabled functions and gradients inside") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  int calls = 0;
  jit::GradientHook hook = w.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 2;
  });
  auto reads = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * x)) : Tensor(sum(w)); });
  auto times = jit::disable([](Tensor t) { return Tensor(t * 3); });
  auto disabled = jit::compile([&](Tensor x) { return sum(times(w * x)); });
  for (int i = 1; i < 4; ++i) {
    w.zero_grad();
    (reads(vec({1, 2})) + reads(vec({-1, 0})) + disabled(vec({1, 1}))).backward();
    CHECK(calls == i);
    CHECK(floats(w.grad()) == std::vector<float>{10, 12});
  }
  hook.remove();
}

TEST_CASE("gradient values: by inputs") {
  Variable x(vec({1, 2}), "x");  // an input that is to have a gradient is a Variable
  x.requires_grad();
  const Tensor weight = vec({3, 4});
  auto f = jit::compile([](Tensor in, Tensor w) { return sum(in * in * w); });
  auto layer = jit::compile([](Tensor in, Tensor w) { return item(sum(w)) > 0 ? Tensor(tanh(in * w)) : in; });
  for (int i = 0; i < 3; ++i) {
    x.zero_grad();
    f(x, weight).backward();
    CHECK(floats(x.grad()) == std::vector<float>{6, 16});
    x.zero_grad();
    f(layer(x, weight), weight).backward();
    std::vector<double> expected;
    for (const double w : {3.0, 4.0}) {
      const double t = std::tanh(w * (w - 2));
      expected.push_back(2 * w * t * (1 - t * t) * w);
    }
    CHECK(near_relative(doubles(x.grad()), expected, 2e-5));  // 1 - t^2 loses digits in f32
  }
  CHECK(f.stats().compiles <= 2);
  CHECK(layer.stats().eager_calls == 0);
}

TEST_CASE("gradient values: a donated argument is kept where the derivative needs it") {
  Variable w(vec({2, 3}), "w");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return x * w * x; });
  auto reads = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(x * w * x) : Tensor(w); });
  for (int i = 0; i < 4; ++i) {
    w.zero_grad();
    Tensor x = vec({5, 6}), again = vec({5, 6});
    eval(x);
    eval(again);
    Tensor y = f(std::move(x)), z = reads(std::move(again));
    sum(y + z).backward();
    CHECK(floats(w.grad()) == std::vector<float>{50, 72});
  }
}

TEST_CASE("gradient values: what a call keeps is freed by backward(), and with its results") {
  Variable w(ones({256, 256}) * 0.01);
  w.requires_grad();
  const Tensor x = ones({64, 256});
  auto f = jit::compile([&](Tensor in) { return sum(tanh(matmul(tanh(matmul(in, w)), w))); });
  auto reads = jit::compile([&](Tensor in) {
    Tensor loss = sum(tanh(matmul(tanh(matmul(in, w)), w)));
    return item(loss) < 1e9 ? loss : Tensor(loss * 2);
  });
  for (const std::function<Tensor(Tensor)>& call :
       {std::function<Tensor(Tensor)>(f), std::function<Tensor(Tensor)>(reads)}) {
    for (int i = 0; i < 2; ++i) {
      Tensor loss = call(x);
      loss.backward();
      eval(w.grad());
    }
    const std::int64_t kept = 2 * 64 * 256 * 4;
    release_cached_memory();
    const auto before = memory_stats().in_use;
    Tensor loss = call(x), other = call(x);
    const auto held = memory_stats().in_use - before;
    CHECK(held >= 2 * kept);
    CHECK(held < 3 * kept);
    loss.backward();
    eval(w.grad());
    CHECK(memory_stats().in_use - before < 2 * kept);
    other = Tensor();
    CHECK(memory_stats().in_use - before < kept / 2);
  }
  CHECK(f.stats().saved_bytes == 2 * 64 * 256 * 4);
  CHECK(reads.stats().saved_bytes == 2 * 64 * 256 * 4);
  CHECK(f.stats().backward_bytes > 0);
  CHECK(reads.stats().backward_bytes > 0);
  CHECK(has(f.explain(x).text(), "bytes between its kernels"));
}

TEST_CASE("gradient values: paths in several threads") {
  auto f = jit::compile(
      [](const Variable& v, Tensor x) { return item(sum(x)) > 2 ? Tensor(sum(v * v * x)) : Tensor(sum(v * x)); });
  std::vector<int> good(3, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Variable own(vec({static_cast<float>(t + 1), 1}));
      own.requires_grad();
      for (int i = 0; i < 20; ++i) {
        own.zero_grad();
        f(own, vec({1, 2})).backward();
        const bool is_first = floats(own.grad()) == std::vector<float>{2.f * static_cast<float>(t + 1), 4};
        own.zero_grad();
        f(own, vec({1, 0.5f})).backward();
        good[static_cast<std::size_t>(t)] += is_first && floats(own.grad()) == std::vector<float>{1, 0.5f};
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(good == std::vector<int>(3, 20));
}
