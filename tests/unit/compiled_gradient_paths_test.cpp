// Gradients through functions that read values: each path has a derivative of its own, compiled with it.
#include "compiled_gradient_cases.hpp"

#include <cmath>
#include <vector>

using namespace sinter;
using namespace sinter_test::gradient_cases;

TEST_CASE("gradient paths: a path each, compiled once, forward and backward") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  int traces = 0;
  auto f = jit::compile([&](Tensor x) {
    ++traces;
    Tensor y = w * x;
    if (item(sum(y)) > 5) return sum(y * y);
    return sum(exp(y) * 2);
  });
  const auto grad = [&](const Tensor& x) {
    w.zero_grad();
    f(x).backward();
    return doubles(w.grad());
  };
  for (int i = 0; i < 4; ++i) {
    CHECK(near_relative(grad(vec({3, 4})), {18, 64}, 1e-6));
    CHECK(near_relative(grad(vec({0.5f, 1})), {std::exp(0.5), 2 * std::exp(2.0)}, 1e-6));
  }
  const jit::Stats stats = f.stats();
  CHECK(stats.compiles == 1);
  CHECK(stats.eager_calls == 0);
  CHECK(stats.segments == 3);
  CHECK(stats.retraces == 1);
  CHECK(has(f.explain(vec({3, 4})).text(), "for its gradient"));
  const int before = traces;
  {
    jit::NoGradGuard no_grad;
    CHECK(item<float>(f(vec({3, 4}))) == 73);
    CHECK(has(message_of<UserError>([&] { f(vec({3, 4})).backward(); }), "depends on no Variable"));
  }
  CHECK(f.stats().compiles == 2);
  CHECK(traces > before);
  CHECK(f.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: agree with lazy code and with the step in one function") {
  const Batch batch;
  Net reference;
  jit::requires_grad(reference);
  loss_of(reference, batch.x, batch.y).backward();
  const auto expected = grads_of(reference);
  const auto body = [](const Net& n, Tensor x, Tensor y) {
    Tensor hidden = gelu(n.first(x));
    Tensor scale = amax(abs(hidden));
    if (item(scale) > 1e6) hidden = hidden / scale;
    Tensor out = n.second(hidden);
    Tensor loss = mean(square(out - y));
    return item(loss) > 1e6 ? Tensor(loss * 0) : loss;
  };
  for (const char* backend : {"", "reference", "aot_eager", "eager"})
    for (jit::Dynamic dynamic : {jit::Dynamic::automatic, jit::Dynamic::always}) {
      INFO(backend);
      Net net;
      jit::requires_grad(net);
      auto f = jit::compile(body, {.backend = backend, .dynamic = dynamic});
      for (int i = 0; i < 4; ++i) {
        jit::zero_grad(net);
        Tensor loss = f(net, batch.x, batch.y);
        CHECK(item<float>(loss) == Approx(item<float>(loss_of(reference, batch.x, batch.y))));
        loss.backward();
        CHECK(near_all(grads_of(net), expected, 2e-6));
      }
      CHECK(f.stats().eager_calls == 0);
      CHECK(f.stats().compiles == 1);
      CHECK(f.stats().saved_bytes > 0);
      CHECK(f.stats().backward_bytes > 0);
    }
}

TEST_CASE("gradient paths: loops, Scalars, sizes that vary, several results") {
  Variable w(vec({0.5f, 0.25f}), "w");
  w.requires_grad();
  auto grow = jit::compile([&](Tensor x) {
    Tensor y = x;
    while (item(sum(y)) < 10) y = y * (1 + w);
    return sum(y);
  });
  auto lazily = [&](Tensor y) {
    while (item<float>(sum(y)) < 10) y = y * (1 + w);
    return Tensor(sum(y));
  };
  for (float start : {1.f, 3.f, 0.5f, 1.f, 20.f}) {
    w.zero_grad();
    if (start < 20) lazily(vec({start, 1})).backward();
    const auto expected = doubles(w.grad());
    w.zero_grad();
    Tensor loss = grow(vec({start, 1}));
    if (start < 20) loss.backward();
    else CHECK_THROWS_AS(loss.backward(), UserError);  // no round, no gradient
    CHECK(near_relative(doubles(w.grad()), expected, 2e-6));
  }
  CHECK(grow.stats().eager_calls == 0);

  auto sized = jit::compile(
      [&](Tensor x, Scalar s) {
        Tensor y = sum(w) * x * s;
        const bool is_big(item(amax(y)) > 3);
        return std::pair(is_big ? Tensor(sum(y)) : Tensor(sum(y * y)), Tensor(x + 1));
      },
      {.dynamic = jit::Dynamic::always});
  for (int n : {2, 5, 3}) {
    for (double s : {1.0, 7.0}) {
      w.zero_grad();
      const Tensor x = arange(n).to(DType::f32);
      auto [loss, other] = sized(x, s);
      loss.backward();
      const double total = n * (n - 1) / 2.0, squares = (n - 1) * n * (2 * n - 1) / 6.0;
      const bool is_big = 0.75 * (n - 1) * s > 3;
      const double expected = is_big ? total * s : 2 * 0.75 * squares * s * s;
      CHECK(near_relative(doubles(w.grad()), {expected, expected}, 1e-5));
      CHECK(floats(other)[0] == 1);
    }
  }
  CHECK(sized.stats().eager_calls == 0);
  CHECK(sized.stats().compiles == 1);
}

TEST_CASE("gradient paths: effects happen once, also in the first call of a path") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  int early = 0, late = 0;
  auto f = jit::compile([&](Tensor x) {
    Tensor y = w * x;
    jit::callback([&early](float) { ++early; }, sum(y));
    const bool is_big(item(sum(y)) > 5);
    Tensor loss = is_big ? Tensor(sum(y * y)) : Tensor(sum(y * 3));
    jit::callback([&late](float) { ++late; }, loss);
    return loss;
  });
  int calls = 0;
  for (int i = 0; i < 3; ++i)
    for (float size : {3.f, 0.25f}) {
      w.zero_grad();
      Tensor loss = f(vec({size, size}));
      ++calls;
      CHECK(early == calls);
      CHECK(late == calls);
      loss.backward();
      CHECK(early == calls);
      CHECK(floats(w.grad())[1] == (size > 1 ? 4 * size * size : 3 * size));
    }
  CHECK(f.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: a host function with a derivative before and after a read") {
  Variable w(vec({2, 3}));
  w.requires_grad();
  int runs = 0;
  auto cube = jit::custom_vjp(
      [&](Tensor t) {
        return jit::callback(
            [&runs](const Tensor& v) {
              ++runs;
              return Tensor(v * v * v);
            },
            jit::like(t), t);
      },
      [](Tensor t, Tensor, Tensor dy) { return Tensor(3 * t * t * dy); });
  auto f = jit::compile([&](Tensor x) {
    Tensor y = cube(w * x);
    return item(sum(y)) > 0 ? Tensor(sum(cube(y))) : Tensor(sum(y));
  });
  for (int i = 1; i < 4; ++i) {
    w.zero_grad();
    f(vec({1, 0.5f})).backward();
    CHECK(near_relative(doubles(w.grad()), {9 * 256.0, 9 * std::pow(1.5, 8) * 0.5}, 1e-5));  // (w x)^9
    CHECK(runs == 2 * i);
  }
  w.zero_grad();
  f(vec({-1, 0.5f})).backward();
  CHECK(near_relative(doubles(w.grad()), {-12, 1.5 * 2.25}, 1e-5));
  CHECK(f.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: Variables that a path meets later, and grad mode") {
  Variable w(vec({1, 2})), v(vec({3, 4}));
  v.requires_grad();
  auto f = jit::compile([&](Tensor x) {
    if (item(sum(x)) > 0) return sum(v * x);  // met after the read
    return sum(w * x);
  });
  for (int i = 0; i < 2; ++i) {
    v.zero_grad();
    f(vec({1, 2})).backward();
    CHECK(floats(v.grad()) == std::vector<float>{1, 2});
    CHECK_THROWS_AS(f(vec({-1, 0})).backward(), UserError);
    jit::NoGradGuard no_grad;
    Tensor loss = f(vec({1, 2}));
    CHECK(item<float>(loss) == 11);
    CHECK_THROWS_AS(loss.backward(), UserError);
  }
  w.requires_grad();
  f(vec({-1, 0})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{-1, 0});
  f(vec({-1, 0})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{-2, 0});
  CHECK(f.stats().eager_calls == 0);
  // NoGradGuard inside, around a part of one path.
  auto half = jit::compile([&](Tensor x) {
    Tensor constant;
    {
      jit::NoGradGuard guard;
      constant = w * x;
    }
    return item(sum(constant)) > 0 ? Tensor(sum(constant * w)) : Tensor(sum(w));
  });
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    half(vec({2, 3})).backward();
    CHECK(floats(w.grad()) == std::vector<float>{2, 6});
    w.zero_grad();
    Tensor penalty = half(vec({2, 3}));
    penalty.backward({.creates_graph = true});
    CHECK(floats(w.grad()) == std::vector<float>{2, 6});
  }
}

TEST_CASE("gradient paths: what was computed while the tape was off is asked for no derivative") {
  const auto slope = jit::grad([](Tensor t) { return sum(igamma(stop_gradient(abs(t) + 1), t * t)); });
  Variable x(vec({0.5f, 2}));
  x.requires_grad();
  auto f = jit::compile([&](Tensor scale) {
    Tensor a;
    {
      jit::NoGradGuard guard;
      a = abs(x) + 1;
    }
    Tensor y = sum(igamma(a, x * x)) * scale;  // by `a` it has no derivative
    if (item(y) > 0) return y;
    return Tensor(y * 2);
  });
  for (const float scale : {1.f, -1.f, 2.f}) {
    x.zero_grad();
    f(full({}, scale)).backward();
    CHECK(near(doubles(x.grad()), doubles(slope(vec({0.5f, 2})) * (scale > 0 ? scale : 2 * scale)), 1e-6));
  }
  CHECK(f.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: a result of several, beside one that was read") {
  Variable w(ones({4}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) -> Tensor {
    auto [values, places] = topk(x * w, 2);
    if (item<std::int64_t>(sum(places)) > 3) return values;
    return values * 2;
  });
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    const Tensor last = f(vec({1, 2, 3, 4}));
    CHECK(floats(last) == std::vector<float>{4, 3});
    sum(last).backward();
    sum(f(vec({7, 6, 5, 4}))).backward();
    CHECK(floats(w.grad()) == std::vector<float>{14, 12, 3, 4});
  }
}

TEST_CASE("gradient paths: arguments on the tape, writes in between, Variables that are assigned") {
  Variable w(vec({3, 1})), seen(vec({0, 0}));
  w.requires_grad();
  auto f = jit::compile([&](const Variable& p, Tensor x) {
    Tensor y = p * x;
    seen.set(seen + jit::detach(y));
    if (item(sum(x)) > 0) p.set(p * 10);
    return sum(y * y * p);
  });
  for (int i = 0; i < 3; ++i) {
    w.set(vec({3, 1}));
    w.zero_grad();
    Tensor loss = f(w, vec({1, 2}));
    CHECK(floats(w) == std::vector<float>{30, 10});
    w -= 5;
    loss.backward();  // of 10 w (w x)^2 at the value that the call read
    CHECK(floats(w.grad()) == std::vector<float>{270, 120});
  }
  CHECK(floats(seen) == std::vector<float>{9, 6});
  auto g = jit::compile([](Tensor t) { return item(sum(t)) > 0 ? Tensor(t * t) : t; });
  for (int i = 0; i < 3; ++i) {
    w.set(vec({3, 1}));
    w.zero_grad();
    sum(g(g(w * 2))).backward();
    CHECK(floats(w.grad()) == std::vector<float>{4 * 216 * 2, 4 * 8 * 2});
    w.zero_grad();
    sum(g(w * -2) * w).backward();  // an argument comes back as it is
    CHECK(floats(w.grad()) == std::vector<float>{-12, -4});
  }
  CHECK(g.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: regions, several results of an operation, second derivatives") {
  Variable w(vec({1, 3, 2}));
  w.requires_grad();
  auto block = jit::region([](Tensor t, const Variable& p) { return Tensor(tanh(t * p) * exp(p)); });
  const auto body = [&](Tensor x) {
    Tensor y = block(x, w);
    auto [values, indices] = topk(y, 2);
    Tensor loss = sum(values * values);
    if (item(loss) > 1e9) return loss;
    return Tensor(sum(block(y, w)) + loss + prod(w));
  };
  w.zero_grad();
  body(vec({0.1f, 0.2f, 0.3f})).backward();
  const auto expected = doubles(w.grad());
  auto f = jit::compile(body);
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    f(vec({0.1f, 0.2f, 0.3f})).backward();
    CHECK(near_relative(doubles(w.grad()), expected, 1e-5));
  }
  auto cube = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * w * w * x)) : Tensor(sum(x)); });
  for (int i = 0; i < 2; ++i) {
    w.zero_grad();
    cube(ones({3})).backward({.creates_graph = true});
    Tensor penalty = sum(w.grad());
    w.zero_grad();
    penalty.backward();
    CHECK(near_relative(doubles(w.grad()), {6, 18, 12}, 1e-5));
  }
}

TEST_CASE("gradient paths: past the bound of the tree, and frozen") {
  Variable w(vec({2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * w) * item<float>(x); }, {.max_values = 2});
  for (int i = 1; i < 7; ++i) {
    w.zero_grad();
    f(full({}, i)).backward();
    CHECK(floats(w.grad()) == std::vector<float>{4.f * static_cast<float>(i)});
  }
  CHECK(f.stats().lazy_calls > 0);
  CHECK(f.stats().eager_calls == 0);
  auto g = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(sum(w * x)) : Tensor(sum(w)); });
  g.warm_up(vec({1}));
  g.warm_up(vec({-1}));
  g.freeze();
  w.zero_grad();
  g(vec({5})).backward();
  g(vec({-5})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{6});
}

TEST_CASE("gradient paths: into given memory there is no gradient, and calls after it have one") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(w * x) : Tensor(w * w); });
  std::vector<float> memory(2);
  for (int i = 0; i < 2; ++i)
    for (float sign : {1.f, -1.f}) {
      f.into(borrow_mut(memory.data(), {2}))(vec({sign, sign}));
      CHECK(memory == (sign > 0 ? std::vector<float>{1, 2} : std::vector<float>{1, 4}));
      w.zero_grad();
      sum(f(vec({sign, sign}))).backward();
      CHECK(floats(w.grad()) == (sign > 0 ? std::vector<float>{1, 1} : std::vector<float>{2, 4}));
    }
  CHECK(f.stats().compiles == 2);  // the version for places keeps nothing for a gradient
  CHECK(f.stats().eager_calls == 0);
  // Paths with and without a gradient in any order, with the tape on and off.
  auto g = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(w * x) : Tensor(x * 2); });
  for (int i = 0; i < 16; ++i) {
    const float sign = i % 2 == 0 ? 1.f : -1.f;
    const Tensor x = vec({sign, sign});
    if (i % 3 != 0) g.into(borrow_mut(memory.data(), {2}))(vec({-sign, -sign}));
    w.zero_grad();
    Tensor result = g(x);
    if (sign > 0) sum(result).backward();
    CHECK(floats(w.grad()) == (sign > 0 ? std::vector<float>{1, 1} : std::vector<float>{0, 0}));
    if (i % 5 == 0) g.into(borrow_mut(memory.data(), {2}))(x);
    jit::NoGradGuard guard;
    if (i % 3 == 0) g.into(borrow_mut(memory.data(), {2}))(x);
    g(-x);
  }
  CHECK(g.stats().compiles <= 3);
  CHECK(g.stats().eager_calls == 0);
}

TEST_CASE("gradient paths: memory is kept for a call's backward alone, and not given to another") {
  Variable w(ones({1000}));
  w.requires_grad();
  auto f = jit::compile(
      [&](Tensor x) {
        Tensor y = exp(w * x);
        return item(sum(y)) > 0 ? Tensor(sum(y * y)) : Tensor(sum(y));
      },
      {.mode = jit::Mode::reduce_overhead});
  const Tensor x = ones({1000}) * 0.5;
  std::vector<Tensor> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(f(eval(x * i)));
  for (int i = 0; i < 6; ++i) {
    w.zero_grad();
    losses[static_cast<std::size_t>(i)].backward();
    CHECK(floats(w.grad())[0] == Approx(i * std::exp(1.0 * i)));
  }
  losses.clear();
  const auto step = [&](bool uses) {
    Tensor loss = f(x);
    if (uses) loss.backward();
    if (uses) eval(w.grad());
    w.zero_grad();
  };
  step(true);
  step(false);
  release_cached_memory();
  const auto before = memory_stats().in_use;
  for (int i = 0; i < 20; ++i) {
    step(i % 2 == 0);
    CHECK(memory_stats().in_use <= before + 16384);
  }
}

TEST_CASE("gradient paths: through a disabled function, what it captured as well") {
  Variable w(vec({1, 2})), hidden(vec({3, 5}));
  w.requires_grad();
  auto square_of = jit::disable([](Tensor t) { return Tensor(t * t); });
  auto with_hidden = jit::disable([&](Tensor t) { return Tensor(hidden * t); });
  auto f = jit::compile([&](Tensor x) { return sum(square_of(w * x)) + sum(with_hidden(x)); });
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    f(vec({1, 3})).backward();
    CHECK(floats(w.grad()) == std::vector<float>{2, 36});
  }
  hidden.requires_grad();
  w.zero_grad();
  for (int i = 0; i < 2; ++i) f(vec({1, 3})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 72});
  CHECK(floats(hidden.grad()) == std::vector<float>{2, 6});
  // A function that reaches no tape but by what the disabled one captured.
  auto g = jit::compile([&](Tensor x) { return sum(with_hidden(x) * 2); });
  hidden.zero_grad();
  for (int i = 0; i < 2; ++i) g(vec({1, 3})).backward();
  CHECK(floats(hidden.grad()) == std::vector<float>{4, 12});
  Variable late(vec({1}));
  auto with_late = jit::disable([&](Tensor t) { return Tensor(late * t); });
  auto h = jit::compile([&](Tensor x) { return sum(with_late(x) * Tensor(w)(slice(0, 1))); });
  w.zero_grad();
  for (int i = 0; i < 2; ++i) h(vec({4})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{8, 0});
  late.requires_grad();  // nothing but a call of the disabled function can tell
  h(vec({4})).backward();
  h(vec({4})).backward();
  CHECK(floats(late.grad()) == std::vector<float>{8});
  CHECK(floats(w.grad()) == std::vector<float>{16, 0});
  jit::NoGradGuard no_grad;
  CHECK(item<float>(h(vec({4}))) == 4);
}
