// The graph that backward() walks through compiled functions: hooks, second derivatives, what is saved and freed, errors,
// effects, threads, compiled regions.
#include "compiled_gradient_cases.hpp"

#include <cmath>
#include <map>
#include <stdexcept>
#include <thread>

using namespace sinter;
using namespace sinter_test::gradient_cases;

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
  f.into(borrow_mut(memory.data(), {2}))(vec({5, 6}));
  CHECK(memory == std::vector<float>{5, 12});
  CHECK(f.stats().compiles == 2);  // the version for places keeps nothing for a gradient
  CHECK(f.stats().recompiles == 0);
  f.warm_up(vec({1, 1}));  // both
  f.freeze();
  f.into(borrow_mut(memory.data(), {2}))(vec({7, 8}));
  f(vec({1, 1}));
  CHECK(memory == std::vector<float>{7, 16});
  // A backward() inside is computed all the same.
  auto step = jit::compile([&](Tensor x) {
    w.zero_grad();
    sum(w * w * x).backward();
    return Tensor(w.grad() * 1);
  });
  step.into(borrow_mut(memory.data(), {2}))(vec({1, 1}));
  CHECK(memory == std::vector<float>{2, 4});
  // Nor does a disabled function in between hinder it.
  auto twice = jit::disable([](const Tensor& t) { return Tensor(t * 2); });
  auto through = jit::compile([&](Tensor x) { return Tensor(twice(w * x) + 1); });
  for (int i = 0; i < 2; ++i) through.into(borrow_mut(memory.data(), {2}))(vec({1, 1}));
  CHECK(memory == std::vector<float>{3, 5});
  CHECK(through.stats().eager_calls == 0);
  w.zero_grad();
  sum(through(vec({1, 1}))).backward();
  CHECK(floats(w.grad()) == std::vector<float>{2, 2});
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
  CHECK(near_relative(doubles(w.grad()), {std::exp(0.25), 4 * std::exp(4.0)}, 1e-5));
  auto loop =
      jit::compile([&](Tensor x) { return sum(jit::fori_loop(0, 3, [&](Scalar, Tensor s) { return s * w; }, x)); });
  w.zero_grad();
  loop(vec({1, 1})).backward();
  CHECK(near_relative(doubles(w.grad()), {3 * 0.25, 3 * 4}, 1e-6));
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
    CHECK(near_relative(found[2 * i], doubles(blocks[i].w.grad()), 1e-6));
    CHECK(near_relative(found[2 * i + 1], doubles(blocks[i].b.grad()), 1e-6));
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
            "unflatten: the vector is f32[5], the object has 6 elements [compiled_gradient_graph_test.cpp:"));
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
  CHECK(near_relative(doubles(v.grad()), {0.6, 0}, 1e-6));
  CHECK(near_relative(doubles(u.grad()), {0.8}, 1e-6));
  CHECK_THROWS_AS(jit::clip_grad_norm(model, -1), UserError);
  auto clip = jit::compile([&](const std::vector<Variable>& m) { return jit::clip_grad_norm(m, 0.5); });
  CHECK(item<float>(clip(model)) == Approx(1));
  CHECK(near_relative(doubles(u.grad()), {0.4}, 1e-5));
}
