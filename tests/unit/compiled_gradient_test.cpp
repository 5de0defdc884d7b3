// Gradients through what compiled functions returned: loss = f(model, x); loss.backward(). Kinds of functions,
// arguments and results; what is guarded; sizes that vary.
#include "compiled_gradient_cases.hpp"

#include <cmath>

using namespace sinter;
using namespace sinter_test::gradient_cases;

TEST_CASE("compiled gradient: the loss of a model, in every kind of function") {
  const Batch batch;
  Net reference;
  jit::requires_grad(reference);
  loss_of(reference, batch.x, batch.y).backward();
  const auto expected = grads_of(reference);

  const auto compiled = jit::compile([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); });
  const jit::Function<Tensor(Net, Tensor, Tensor)> function = compiled;
  const auto region = jit::region([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); });
  const auto unfused = jit::compile([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); }, {.fuse = false});
  const auto eager =
      jit::compile([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); }, {.backend = "eager"});
  const auto kept = jit::compile([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); },
                                 {.mode = jit::Mode::reduce_overhead});
  const auto dynamic = jit::compile([](const Net& n, Tensor x, Tensor y) { return loss_of(n, x, y); },
                                    {.dynamic = jit::Dynamic::always});
  const auto broken = jit::compile([](const Net& n, Tensor x, Tensor y) {
    Tensor loss = loss_of(n, x, y);
    return item(loss) > 1e6 ? Tensor(loss * 0) : loss;
  });
  const auto disabled = jit::compile([](const Net& n, Tensor x, Tensor y) {
    return jit::disable([](Tensor p, Tensor t) { return Tensor(mean(square(p - t))); })(n(x), y);
  });
  const std::pair<const char*, std::function<Tensor(const Net&)>> kinds[] = {
      {"compile", [&](const Net& n) { return compiled(n, batch.x, batch.y); }},
      {"Function", [&](const Net& n) { return function(n, batch.x, batch.y); }},
      {"region", [&](const Net& n) { return region(n, batch.x, batch.y); }},
      {"unfused", [&](const Net& n) { return unfused(n, batch.x, batch.y); }},
      {"eager", [&](const Net& n) { return eager(n, batch.x, batch.y); }},
      {"reduce_overhead", [&](const Net& n) { return kept(n, batch.x, batch.y); }},
      {"dynamic", [&](const Net& n) { return dynamic(n, batch.x, batch.y); }},
      {"graph break", [&](const Net& n) { return broken(n, batch.x, batch.y); }},
      {"disabled part", [&](const Net& n) { return disabled(n, batch.x, batch.y); }},
  };
  for (const auto& [name, call] : kinds) {
    INFO(name);
    Net net;
    jit::requires_grad(net);
    for (int i = 0; i < 4; ++i) {
      jit::zero_grad(net);
      Tensor loss = call(net);
      CHECK(item<float>(loss) == Approx(item<float>(loss_of(reference, batch.x, batch.y))));
      loss.backward();
      CHECK(near_all(grads_of(net), expected, 1e-6));
    }
  }
  CHECK(compiled.stats().compiles == 1);
  CHECK(dynamic.stats().compiles == 1);
}

TEST_CASE("compiled gradient: agrees with the step in one function, and trains") {
  const Batch batch;
  Net whole, parts;
  jit::requires_grad(parts);
  auto step = jit::compile([](const Net& n, Tensor x, Tensor y) {
    auto [loss, grads] = jit::value_and_grad([&](const Net& m) { return loss_of(m, x, y); })(n);
    std::vector<Tensor> all;
    for (const Variable& v : n.parameters()) all.push_back(grads[v]);
    for (const Variable& v : n.parameters()) v -= 0.1 * grads[v];
    return std::pair(loss, all);
  });
  auto forward = jit::compile(loss_of);
  float first = 0, last = 0;
  for (int i = 0; i < 12; ++i) {
    const auto [loss, grads] = step(whole, batch.x, batch.y);
    jit::zero_grad(parts);
    Tensor value = forward(parts, batch.x, batch.y);
    value.backward();
    const auto found = grads_of(parts);
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(near_relative(found[k], doubles(grads[k]), 1e-6));
    for (const Variable& v : parts.parameters()) v -= 0.1 * v.grad();
    last = item<float>(value);
    if (i == 0) first = last;
    CHECK(last == Approx(item<float>(loss)));
  }
  CHECK(last < 0.8f * first);
  CHECK(forward.stats().compiles == 1);
}

TEST_CASE("compiled gradient: what a gradient flows through") {
  Variable w(vec({1, 2, 3}), "w");
  w.requires_grad();
  const Tensor x = vec({2, -1, 0.5f});
  const auto grad = [&](const std::function<Tensor()>& loss) {
    w.zero_grad();
    loss().backward();
    return floats(w.grad());
  };
  auto times = jit::compile([&](Tensor v) { return w * v; });
  auto square_of = jit::compile([](Tensor v) { return v * v; });
  auto total = jit::compile([](Tensor v) { return sum(v * 3); });
  auto both = jit::compile([&](Tensor v) { return std::pair(Tensor(w * v), Tensor(exp(w) * 0.5)); });
  auto mixed =
      jit::compile([&](Tensor v) { return std::tuple(Tensor(w * v), argmax(w, 0), Tensor(v + 1), item(sum(v))); });
  auto argument = jit::compile([](const Variable& p, Tensor v) { return sum(p * v * v); });
  auto list = jit::compile([](const std::vector<Variable>& p, Tensor v) { return sum(p[0] * p[1] * v); });
  auto itself = jit::compile([&](Tensor) { return w.value(); });

  SECTION("a lazy loss of a compiled prediction") {
    for (int i = 0; i < 12; ++i)
      CHECK(near_relative(doubles(copy_of(grad([&] { return sum(square(times(x) - 1)); }))), {4, 6, 0.5}, 1e-6));
  }
  SECTION("compiled functions in a chain, with lazy code between") {
    CHECK(grad([&] { return total(square_of(times(x))); }) == std::vector<float>{24, 12, 4.5f});
    CHECK(grad([&] { return total(square_of(times(x) + 1) * 2); }) == std::vector<float>{72, 12, 15});
    CHECK(grad([&] { return sum(times(times(x))); }) == std::vector<float>{4, -4, 3});
  }
  SECTION("one result used twice, and by two functions") {
    CHECK(grad([&] {
            Tensor y = times(x);
            return sum(y * y) + total(y) + sum(square_of(y));
          }) == std::vector<float>{22, 5, 4.5f});
  }
  SECTION("some of several results") {
    CHECK(grad([&] { return sum(both(x).first); }) == std::vector<float>{2, -1, 0.5f});
    CHECK(near_relative(doubles(copy_of(grad([&] { return sum(both(x).second); }))),
                        {0.5 * std::exp(1), 0.5 * std::exp(2), 0.5 * std::exp(3)}, 1e-6));
    auto [a, b] = both(x);
    CHECK(near_relative(doubles(copy_of(grad([&] { return sum(a * b); }))),
                        {std::exp(1) * 2, -1.5 * std::exp(2), std::exp(3)}, 1e-5));
  }
  SECTION("results of which only some have a gradient") {
    CHECK(grad([&] { return sum(std::get<0>(mixed(x))); }) == std::vector<float>{2, -1, 0.5f});
    CHECK(has(message_of<UserError>([&] { sum(std::get<2>(mixed(x))).backward(); }), "depends on no Variable"));
  }
  SECTION("Variables as arguments, twice the same one, and the Variable itself") {
    CHECK(grad([&] { return argument(w, x); }) == std::vector<float>{4, 1, 0.25f});
    CHECK(grad([&] { return list(std::vector<Variable>{w, w}, x); }) == std::vector<float>{4, -4, 3});
    Variable other(ones({3}));
    CHECK(grad([&] { return list(std::vector<Variable>{w, other}, x); }) == std::vector<float>{2, -1, 0.5f});
    CHECK(grad([&] { return sum(itself(x) * x); }) == std::vector<float>{2, -1, 0.5f});
  }
  SECTION("an argument that is on the tape") {
    CHECK(grad([&] { return total(w * x); }) == std::vector<float>{6, -3, 1.5f});
    CHECK(grad([&] { return total(Tensor(w)); }) == std::vector<float>{3, 3, 3});
    CHECK(grad([&] { return sum(jit::detach(times(x)) * w); }) == std::vector<float>{2, -2, 1.5f});
    CHECK(grad([&] { return total(jit::detach(w * x)) + sum(w); }) == std::vector<float>{1, 1, 1});
  }
  SECTION("an evaluated expression") {
    CHECK(grad([&] { return sum(eval(w * x)); }) == std::vector<float>{2, -1, 0.5f});
  }
  SECTION("lent memory and strided views") {
    std::vector<float> memory{2, -1, 0.5f};
    Tensor loss = sum(times(borrow(memory.data(), {3})));
    memory = {0, 0, 0};  // the value of the call counts
    CHECK(grad([&] { return loss; }) == std::vector<float>{2, -1, 0.5f});
    const Tensor wide = reshape(vec({2, 9, -1, 9, 0.5f, 9}), {3, 2});
    CHECK(grad([&] { return sum(times(wide(all, 0))); }) == std::vector<float>{2, -1, 0.5f});
  }
  SECTION("numbers at run time") {
    auto scaled = jit::compile([&](Tensor v, Scalar s) { return sum(w * v * s); });
    for (float s : {1.f, 2.f, 5.f})
      CHECK(grad([&] { return scaled(x, s); }) == std::vector<float>{2 * s, -s, 0.5f * s});
    CHECK(scaled.stats().compiles == 1);
  }
}

TEST_CASE("compiled gradient: dtypes, empty and large values") {
  for (DType dtype : {DType::f64, DType::f32}) {
    Variable w(cast(vec({1, 2, 3}), dtype));
    w.requires_grad();
    auto f = jit::compile([&](Tensor x) { return sum(w * w * x); });
    f(cast(vec({1, 2, 3}), dtype)).backward();
    CHECK(w.grad().dtype() == dtype);
    CHECK(doubles(w.grad()) == std::vector<double>{2, 8, 18});
  }
  Variable none(zeros({0, 3})), scalar(full({}, 2));
  none.requires_grad();
  scalar.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(none * 2) + scalar * scalar * sum(x); });
  f(ones({0})).backward();
  CHECK(none.grad().shape() == Shape{0, 3});
  CHECK(item<float>(scalar.grad()) == 0);
  f(ones({1})).backward();
  CHECK(item<float>(scalar.grad()) == 4);
  // NaN and infinity go where lazy code sends them.
  Variable v(vec({0, 1, -1}));
  v.requires_grad();
  auto root = jit::compile([&](Tensor x) { return sum(sqrt(v) * x); });
  root(ones({3})).backward();
  const auto found = floats(v.grad());
  CHECK(std::isinf(found[0]));
  CHECK(found[1] == 0.5f);
  CHECK(std::isnan(found[2]));
}

TEST_CASE("compiled gradient: accumulation, a second backward, and writes in between") {
  Variable w(vec({3}), "w");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * w * x); });
  const Tensor x = vec({1});
  f(x).backward();
  f(x).backward();
  CHECK(floats(w.grad()) == std::vector<float>{12});
  w.zero_grad();
  Tensor loss = f(x);
  loss.backward({.keeps_graph = true});
  loss.backward();
  CHECK(floats(w.grad()) == std::vector<float>{12});
  CHECK(has(message_of<UserError>([&] { loss.backward(); }),
            "backward: a part of the graph was used up by an earlier backward() [compiled_gradient_test.cpp:"));
  CHECK(floats(w.grad()) == std::vector<float>{12});
  w.zero_grad();
  Tensor old = f(x);
  w -= 1;  // the value that the call read counts
  f(x).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4});
  old.backward();
  CHECK(floats(w.grad()) == std::vector<float>{10});
  w.zero_grad();
  Tensor before = f(x);
  auto update = jit::compile([&] { w -= 1; });  // in place, where nobody could tell
  update();
  update();
  before.backward();
  CHECK(floats(w.grad()) == std::vector<float>{4});
  CHECK(floats(w) == std::vector<float>{0});
}

TEST_CASE("compiled gradient: a function that also assigns Variables") {
  Variable w(vec({2, 3})), seen(vec({0, 0}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) {
    Tensor y = w * x;
    seen.set(seen * 0.5 + jit::detach(y));
    return sum(y * y);
  });
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    f(vec({1, 2})).backward();
    CHECK(floats(w.grad()) == std::vector<float>{4, 24});
  }
  CHECK(floats(seen) == std::vector<float>{3.5f, 10.5f});
  auto bump = jit::compile([&](Tensor x) {
    Tensor loss = sum(w * w * x);
    w.set(w * 10);
    return loss;
  });
  w.zero_grad();
  Tensor loss = bump(vec({1, 1}));
  CHECK(floats(w) == std::vector<float>{20, 30});
  loss.backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 6});
}

TEST_CASE("compiled gradient: grad mode and requires_grad are guards") {
  Variable w(vec({1, 2})), v(vec({3, 4}));
  auto f = jit::compile([&](Tensor x) { return sum(w * v * x); });
  const Tensor x = vec({1, 1});
  CHECK(has(message_of<UserError>([&] { f(x).backward(); }), "depends on no Variable that requires a gradient"));
  CHECK(f.stats().compiles == 1);
  w.requires_grad();
  f(x).backward();
  CHECK(floats(w.grad()) == std::vector<float>{3, 4});
  CHECK(f.stats().compiles == 2);
  {
    jit::NoGradGuard guard;
    CHECK(item<float>(f(x)) == 11);
    CHECK(has(message_of<UserError>([&] { f(x).backward(); }), "depends on no Variable"));
  }
  CHECK(f.stats().compiles == 2);  // the version from before requires_grad()
  v.requires_grad();
  w.zero_grad();
  f(x).backward();
  CHECK(floats(w.grad()) == std::vector<float>{3, 4});
  CHECK(floats(v.grad()) == std::vector<float>{1, 2});
  CHECK(f.stats().compiles == 3);
  const auto reasons = f.stats().recompile_reasons;
  REQUIRE(reasons.size() >= 1);
  CHECK(reasons[0].guard == jit::GuardKind::gradient);
  CHECK(has(reasons[0].text, "guard 'gradient' failed"));
  // An argument on the tape, and one that is not.
  auto g = jit::compile([](Tensor t) { return sum(t * t); });
  g(x);
  g(w * x).backward();
  g(x);
  g(w * x);
  CHECK(g.stats().compiles == 2);
}

TEST_CASE("compiled gradient: gradients inside of the function stay its own") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto step = jit::compile([&](Tensor x) {
    w.zero_grad();
    Tensor loss = sum(w * w * x);
    loss.backward();
    w -= 0.25 * w.grad();
    return loss;
  });
  Tensor loss = step(vec({1, 1}));
  CHECK(floats(w) == std::vector<float>{0.5f, 1});
  CHECK_THROWS_AS(loss.backward(), UserError);
  CHECK(floats(w.grad()) == std::vector<float>{2, 4});
  CHECK(has(message_of<UserError>([&] { step(w * 1); }), "that is on the tape outside of this function"));
  CHECK(floats(w) == std::vector<float>{0.5f, 1});
  // NoGradGuard inside cuts where it stands.
  auto half = jit::compile([&](Tensor x) {
    Tensor constant;
    {
      jit::NoGradGuard guard;
      constant = w * x;
    }
    return sum(constant * w);
  });
  w.zero_grad();
  half(vec({2, 3})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{1, 3});
}

TEST_CASE("compiled gradient: sizes that vary compile nothing again") {
  Net net;
  jit::requires_grad(net);
  auto f = jit::compile(loss_of, {.dynamic = jit::Dynamic::always});
  std::vector<Tensor> losses;
  std::vector<std::vector<double>> sums;
  for (int rows : {4, 7, 2, 9, 4}) losses.push_back(f(net, spread({rows, 3}, rows), spread({rows, 2}, 1)));
  CHECK(f.stats().compiles == 1);
  for (std::size_t i = losses.size(); i-- > 0;) {  // each with the sizes of its own call
    jit::zero_grad(net);
    losses[i].backward();
    const auto found = grads_of(net);
    const int rows = std::vector<int>{4, 7, 2, 9, 4}[i];
    jit::zero_grad(net);
    loss_of(net, spread({rows, 3}, rows), spread({rows, 2}, 1)).backward();
    CHECK(near_all(found, grads_of(net), 1e-6));
  }
  auto automatic = jit::compile(loss_of);
  for (int rows : {4, 7, 2, 9}) {
    jit::zero_grad(net);
    automatic(net, spread({rows, 3}, rows), spread({rows, 2}, 1)).backward();
    const auto found = grads_of(net);
    jit::zero_grad(net);
    loss_of(net, spread({rows, 3}, rows), spread({rows, 2}, 1)).backward();
    CHECK(near_all(found, grads_of(net), 1e-6));
  }
  CHECK(automatic.stats().compiles == 2);
}
