// Gradients through what compiled functions returned: loss = f(model, x); loss.backward(). Kinds of functions, arguments
// and results; what is guarded, saved, freed and accumulated; hooks; second derivatives; errors.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <map>
#include <stdexcept>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

/// Values that are spread, and the same for the same seed.
Tensor spread(const Shape& shape, int seed) {
  const std::int64_t count = shape.numel().value();
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<float>(i + 1) * 0.7f + static_cast<float>(seed)));
  return reshape(copy_of(values), shape);
}

struct Layer {
  Variable w, b;
  SINTER_FIELDS(w, b)
  Layer(int in, int out, int seed) : w(spread({in, out}, seed) * 0.5, "w"), b(spread({out}, seed + 1), "b") {}
  Tensor operator()(const Tensor& x) const { return matmul(x, w) + b; }
};
struct Net {
  Layer first{3, 8, 1}, second{8, 2, 5};
  Tensor operator()(const Tensor& x) const { return second(gelu(first(x))); }
  std::vector<Variable> parameters() const { return {first.w, first.b, second.w, second.b}; }
};
Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) { return mean(square(net(x) - y)); }

std::vector<std::vector<double>> grads_of(const Net& net) {
  std::vector<std::vector<double>> grads;
  for (const Variable& v : net.parameters()) grads.push_back(doubles(v.grad()));
  return grads;
}
bool near_all(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!near(a[i], b[i], tolerance)) return false;
  return a.size() == b.size();
}

struct Batch {
  Tensor x = spread({5, 3}, 2), y = spread({5, 2}, 3);
};

}  // namespace

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
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(near(found[k], doubles(grads[k]), 1e-6));
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
      CHECK(near(doubles(copy_of(grad([&] { return sum(square(times(x) - 1)); }))), {4, 6, 0.5}, 1e-6));
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
    CHECK(near(doubles(copy_of(grad([&] { return sum(both(x).second); }))),
               {0.5 * std::exp(1), 0.5 * std::exp(2), 0.5 * std::exp(3)}, 1e-6));
    auto [a, b] = both(x);
    CHECK(near(doubles(copy_of(grad([&] { return sum(a * b); }))), {std::exp(1) * 2, -1.5 * std::exp(2), std::exp(3)},
               1e-5));
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

TEST_CASE("compiled gradient: hooks see and change gradients") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * w * x); });
  int calls = 0;
  jit::GradientHook watch = w.register_hook([&](const Tensor& g) {
    ++calls;
    CHECK(g.shape() == Shape{2});
  });
  jit::GradientHook half = w.register_hook([](const Tensor& g) { return g * 0.5; });
  (f(vec({1, 1})) + sum(w)).backward();  // once, with the sum of both
  CHECK(calls == 1);
  CHECK(floats(w.grad()) == std::vector<float>{1.5f, 2.5f});
  half.remove();
  half.remove();
  w.zero_grad();
  f(vec({1, 1})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{2, 4});
  CHECK(calls == 2);
  watch.remove();
  jit::GradientHook wrong = w.register_hook([](const Tensor& g) { return sum(g); });
  Tensor loss = f(vec({1, 1}));
  CHECK(has(message_of<ShapeError>([&] { loss.backward(); }), "register_hook: what a hook returned is f32[]"));
  wrong.remove();
  CHECK(floats(w.grad()) == std::vector<float>{2, 4});
  loss.backward();  // nothing was used up
  CHECK(floats(w.grad()) == std::vector<float>{4, 8});
  jit::GradientHook thrower = w.register_hook([](const Tensor&) { throw std::runtime_error("hook"); });
  CHECK_THROWS_AS(f(vec({1, 1})).backward(), std::runtime_error);
  CHECK(floats(w.grad()) == std::vector<float>{4, 8});
  Variable plain(vec({1}), "plain");
  CHECK(has(message_of<UserError>([&] { plain.register_hook([](const Tensor&) {}); }),
            "register_hook: the Variable 'plain' requires no gradient"));
}

TEST_CASE("compiled gradient: second derivatives with creates_graph") {
  Variable w(vec({2, 3}));
  w.requires_grad();
  auto cube = jit::compile([&](Tensor x) { return sum(w * w * w * x); });
  Tensor loss = cube(vec({1, 1}));
  loss.backward({.creates_graph = true});
  CHECK(floats(w.grad()) == std::vector<float>{12, 27});
  Tensor penalty = sum(w.grad() * vec({1, 10}));
  w.zero_grad();
  penalty.backward();
  CHECK(floats(w.grad()) == std::vector<float>{12, 180});
  // Of a lazy loss as well.
  w.zero_grad();
  sum(w * w * w).backward({.creates_graph = true});
  Tensor second = sum(w.grad());
  w.zero_grad();
  second.backward();
  CHECK(floats(w.grad()) == std::vector<float>{12, 18});
}

TEST_CASE("compiled gradient: saved values are freed with the graph, and never reused before") {
  Variable w(ones({1000}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(exp(w * x)); }, {.mode = jit::Mode::reduce_overhead});
  const Tensor x = ones({1000}) * 0.5;
  std::vector<Tensor> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(f(eval(x * i)));
  for (int i = 0; i < 6; ++i) {
    w.zero_grad();
    losses[static_cast<std::size_t>(i)].backward();
    CHECK(floats(w.grad())[0] == Approx(0.5 * i * std::exp(0.5 * i)));
  }
  losses.clear();
  auto step = [&](bool uses) {
    Tensor loss = f(x);
    if (uses) loss.backward();
    if (uses) eval(w.grad());
    w.zero_grad();
    return loss;
  };
  step(true);
  step(false);
  release_cached_memory();
  const auto before = memory_stats().in_use;
  for (int i = 0; i < 20; ++i) {
    step(i % 2 == 0);
    CHECK(memory_stats().in_use <= before + 16384);
  }
  Tensor held = step(true);  // the loss alone holds nothing more
  CHECK(memory_stats().in_use <= before + 16384);
}

TEST_CASE("compiled gradient: errors leave everything as it was") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) {
    jit::check(x > 0, "x is {}", x);
    Tensor loss = sum(w * x);
    w.set(w * 2);
    return loss;
  });
  CHECK_THROWS_AS(f(vec({1, -1})), CheckError);
  CHECK(floats(w) == std::vector<float>{1, 2});
  f(vec({1, 1})).backward();
  CHECK(floats(w) == std::vector<float>{2, 4});
  CHECK(floats(w.grad()) == std::vector<float>{1, 1});
  // No derivative: the call works, backward() says why.
  auto opaque = jit::compile(
      [&](Tensor x) { return sum(jit::callback([](const Tensor& t) { return Tensor(t * 2); }, jit::like(x), w * x)); });
  Tensor value = opaque(vec({1, 1}));
  CHECK(item<float>(value) == 12);
  CHECK(has(message_of<UserError>([&] { value.backward(); }), "it has no derivative"));
  CHECK(floats(w.grad()) == std::vector<float>{1, 1});
  auto twice = jit::compile([&](Tensor x) { return w * x; });
  CHECK(has(message_of<ShapeError>([&] { twice(vec({1, 1})).backward(); }),
            "backward: the loss is f32[2]; a floating scalar is required"));
}

TEST_CASE("compiled gradient: into given memory there is none") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return w * x; });
  std::vector<float> memory(2);
  f.into(borrow_mut(memory.data(), {2}))(vec({3, 4}));
  CHECK(memory == std::vector<float>{3, 8});
  sum(f(vec({1, 1}))).backward();
  CHECK(floats(w.grad()) == std::vector<float>{1, 1});
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("compiled gradient: effects happen once") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  int calls = 0;
  auto f = jit::compile([&](Tensor x) {
    Tensor loss = sum(w * w * x);
    jit::callback([&calls](float) { ++calls; }, loss);
    return loss;
  });
  for (int i = 0; i < 3; ++i) f(vec({1, 1})).backward();
  CHECK(calls == 3);
  CHECK(floats(w.grad()) == std::vector<float>{6, 12});
}

TEST_CASE("compiled gradient: random numbers are those of the call") {
  Variable w(ones({64}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return w * x * (rand({64}) > 0.5); });
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    Tensor y = f(full({64}, 2));
    sum(y).backward();
    CHECK(floats(w.grad()) == floats(y));
  }
}

TEST_CASE("compiled gradient: derivatives of one's own") {
  Variable w(vec({0.5f, 2}));
  w.requires_grad();
  auto clip =
      jit::custom_vjp([](Tensor x) { return x * 1; }, [](Tensor, Tensor, Tensor dy) { return clamp(dy, -1, 1); });
  auto f = jit::compile([&](Tensor x) { return sum(clip(w.value()) * x); });
  f(vec({5, 0.5f})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{1, 0.5f});
  auto saved = jit::checkpoint([](Tensor x) { return exp(x * x); });
  auto g = jit::compile([&](Tensor x) { return sum(saved(w.value()) * x); });
  w.zero_grad();
  g(vec({1, 1})).backward();
  CHECK(near(doubles(w.grad()), {std::exp(0.25), 4 * std::exp(4.0)}, 1e-5));
  auto loop =
      jit::compile([&](Tensor x) { return sum(jit::fori_loop(0, 3, [&](Scalar, Tensor s) { return s * w; }, x)); });
  w.zero_grad();
  loop(vec({1, 1})).backward();
  CHECK(near(doubles(w.grad()), {3 * 0.25, 3 * 4}, 1e-6));
}

TEST_CASE("compiled gradient: threads") {
  auto f = jit::compile([](const Variable& v, Tensor x) { return sum(v * v * x); });
  Variable shared(vec({1, 2}));
  shared.requires_grad();
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Variable own(vec({static_cast<float>(t), 1}));
      own.requires_grad();
      for (int i = 0; i < 25; ++i) {
        own.zero_grad();
        Tensor loss = f(own, vec({1, 2})), other = f(shared, vec({1, 1}));
        loss.backward();
        good[static_cast<std::size_t>(t)] +=
            floats(own.grad()) == std::vector<float>{2.f * static_cast<float>(t), 4} && item<float>(other) == 5;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(good == std::vector<int>(4, 25));
}

TEST_CASE("compiled gradient: compiled regions of a model") {
  std::vector<Layer> blocks;
  for (int i = 0; i < 3; ++i) blocks.emplace_back(3, 3, i);
  for (const Layer& block : blocks) jit::requires_grad(std::vector<Variable>{block.w, block.b});
  auto regions = jit::compile_regions(blocks);
  const Tensor x = spread({4, 3}, 9);
  mean(square(regions(x))).backward();
  std::vector<std::vector<double>> found;
  for (const Layer& block : blocks) {
    found.push_back(doubles(block.w.grad()));
    found.push_back(doubles(block.b.grad()));
    block.w.zero_grad();
    block.b.zero_grad();
  }
  Tensor y = x;
  for (const Layer& block : blocks) y = block(y);
  mean(square(y)).backward();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(near(found[2 * i], doubles(blocks[i].w.grad()), 1e-6));
    CHECK(near(found[2 * i + 1], doubles(blocks[i].b.grad()), 1e-6));
  }
  CHECK(regions.stats().compiles == 2);  // the first input needs no gradient, those after it do
}

TEST_CASE("parameters: names, one vector and back, the norm of gradients") {
  Net net;
  const auto found = jit::parameters(net);
  REQUIRE(found.size() == 4);
  CHECK(found[0].name == "field0.w");  // plain structs number their fields
  CHECK(found[3].name == "field1.b");
  CHECK(found[2].variable.slot() == net.second.w.slot());
  CHECK(jit::parameters(std::vector<Layer>{net.first, net.first}).size() == 2);
  CHECK(jit::parameters(std::map<std::string, Variable>{{"out", net.first.b}})[0].name == "[\"out\"]");
  CHECK(jit::parameters(net.first)[0].name == "w");
  CHECK(jit::parameters(ones({2})).empty());

  struct Tensors {
    Tensor a;
    std::vector<Tensor> more;
  };
  const Tensors tensors{reshape(vec({1, 2, 3, 4}), {2, 2}), {vec({5}), full({}, 6), zeros({0})}};
  const Tensor flat = jit::flatten(tensors);
  CHECK(floats(flat) == std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensors back = jit::unflatten(tensors, flat * 2);
  CHECK(floats(back.a) == std::vector<float>{2, 4, 6, 8});
  CHECK(back.a.shape() == Shape{2, 2});
  CHECK(back.more[1].rank() == 0);
  CHECK(item<float>(back.more[1]) == 12);
  CHECK(back.more[2].shape() == Shape{0});
  CHECK(jit::flatten(net).size(0).value() == 3 * 8 + 8 + 8 * 2 + 2);
  auto halved = jit::compile([](const Tensors& t) { return jit::unflatten(t, jit::flatten(t) * 0.5); });
  CHECK(floats(halved(tensors).a) == std::vector<float>{0.5f, 1, 1.5f, 2});
  const auto total = [](const Tensor& v, const Tensors& like) {
    const Tensors t = jit::unflatten(like, v);
    return Tensor(sum(t.a * t.a) + sum(t.more[0]));
  };
  CHECK(floats(jit::grad([&](Tensor v) { return total(v, tensors); })(flat)) == std::vector<float>{2, 4, 6, 8, 1, 0});
  CHECK(has(message_of<ShapeError>([&] { jit::unflatten(tensors, ones({5})); }),
            "unflatten: the vector is f32[5], the object has 6 elements [compiled_gradient_test.cpp:"));
  CHECK(has(message_of<DTypeError>([&] { jit::flatten(std::vector<Tensor>{ones({1}), arange(2)}); }),
            "flatten: the object holds f32"));
  CHECK_THROWS_AS(jit::flatten(std::vector<Tensor>{}), UserError);

  CHECK(
      has(message_of<UserError>([&] { jit::clip_grad_norm(net, 1); }), "no Variable of the model requires a gradient"));
  Variable v(vec({0, 0})), u(vec({0}));
  const std::vector<Variable> model{v, u};
  jit::requires_grad(model);
  (sum(v * vec({3, 0})) + sum(u * 4)).backward();
  CHECK(item<float>(jit::clip_grad_norm(model, 10)) == 5);
  CHECK(floats(v.grad()) == std::vector<float>{3, 0});
  CHECK(item<float>(jit::clip_grad_norm(model, 1)) == 5);
  CHECK(near(doubles(v.grad()), {0.6, 0}, 1e-6));
  CHECK(near(doubles(u.grad()), {0.8}, 1e-6));
  CHECK_THROWS_AS(jit::clip_grad_norm(model, -1), UserError);
  auto clip = jit::compile([&](const std::vector<Variable>& m) { return jit::clip_grad_norm(m, 0.5); });
  CHECK(item<float>(clip(model)) == Approx(1));
  CHECK(near(doubles(u.grad()), {0.4}, 1e-5));
}
