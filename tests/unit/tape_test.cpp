// Tape style: requires_grad, backward, grad, zero_grad; outside and inside compile, across evaluation, beside the
// functional transforms; what is freed and when; errors.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

struct Net {
  Variable w{vec({0.5f, -1, 2, 0.25f}), "w"}, b{vec({0.1f, 0.2f}), "b"};
  Tensor operator()(const Tensor& x) const { return tanh(matmul(x, reshape(w, {2, 2})) + b); }
};
Tensor data() { return reshape(vec({1, 2, 3, 4, -1, 0.5f}), {3, 2}); }

}  // namespace

TEST_CASE("tape: gradients of a loss by Variables") {
  Variable w(vec({1, 2, 3})), b(vec({5}));
  w.requires_grad();
  b.requires_grad();
  CHECK(floats(w.grad()) == std::vector<float>{0, 0, 0});
  Tensor loss = sum(w * w * b);
  loss.backward();
  CHECK(floats(w.grad()) == std::vector<float>{10, 20, 30});
  CHECK(floats(b.grad()) == std::vector<float>{14});
  CHECK(item<float>(loss) == 70);
  sum(w * 2).backward();  // gradients add up
  CHECK(floats(w.grad()) == std::vector<float>{12, 22, 32});
  w.zero_grad();
  CHECK(floats(w.grad()) == std::vector<float>{0, 0, 0});
  CHECK(floats(b.grad()) == std::vector<float>{14});
}

TEST_CASE("tape: what was evaluated in between is still differentiated") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  Tensor y = exp(w) * 2;
  CHECK(floats(y)[0] == Approx(2 * std::exp(1)));
  Tensor z = sum(y * y);
  eval(z);
  Tensor loss = z * 0.5 + sum(w);
  CHECK(item<float>(loss) > 0);
  loss.backward();
  CHECK(floats(w.grad())[0] == Approx(4 * std::exp(2) + 1));
  CHECK(floats(w.grad())[1] == Approx(4 * std::exp(4) + 1));
}

TEST_CASE("tape: agrees with jit::grad on a network, and trains it") {
  Net net;
  jit::requires_grad(net);
  auto loss_of = [](const Net& n, const Tensor& x) { return mean(square(n(x) - 0.3)); };
  auto [value, grads] = jit::value_and_grad(loss_of)(net, data());
  Tensor loss = loss_of(net, data());
  loss.backward();
  CHECK(item<float>(loss) == Approx(item<float>(value)));
  for (std::size_t i = 0; i < 4; ++i) CHECK(floats(net.w.grad())[i] == Approx(floats(grads[net.w])[i]));
  for (std::size_t i = 0; i < 2; ++i) CHECK(floats(net.b.grad())[i] == Approx(floats(grads[net.b])[i]));
  float before = item<float>(loss), after = 0;
  for (int i = 0; i < 60; ++i) {
    jit::zero_grad(net);
    Tensor step_loss = loss_of(net, data());
    step_loss.backward();
    net.w -= 0.5 * net.w.grad();
    net.b -= 0.5 * net.b.grad();
    after = item<float>(step_loss);
  }
  CHECK(after < 0.6f * before);
}

TEST_CASE("tape: inside compile, a training step in one function") {
  Net eager, compiled;
  jit::requires_grad(eager);
  jit::requires_grad(compiled);
  auto step = [](const Net& n, Tensor x, Scalar rate) {
    jit::zero_grad(n);
    Tensor loss = mean(square(n(x) - 0.3));
    loss.backward();
    n.w -= rate * n.w.grad();
    n.b -= rate * n.b.grad();
    return loss;
  };
  auto f = jit::compile(step);
  for (int i = 0; i < 5; ++i) {
    const float a = item<float>(step(eager, data(), 0.3)), b = item<float>(f(compiled, data(), 0.3));
    CHECK(a == Approx(b));
  }
  CHECK(f.stats().compiles == 1);
  for (std::size_t i = 0; i < 4; ++i) CHECK(floats(eager.w)[i] == Approx(floats(compiled.w)[i]));
  for (std::size_t i = 0; i < 4; ++i) CHECK(floats(eager.w.grad())[i] == Approx(floats(compiled.w.grad())[i]));
  // Captured, and accumulating over calls.
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto accumulate = jit::compile([&](Tensor x) { sum(w * x).backward(); });
  for (int i = 1; i <= 3; ++i) {
    accumulate(vec({1, 10}));
    CHECK(floats(w.grad()) == std::vector<float>{static_cast<float>(i), static_cast<float>(10 * i)});
  }
}

TEST_CASE("tape: an assigned Variable starts anew, an old loss keeps the old value") {
  Variable w(vec({3}));
  w.requires_grad();
  Tensor old_loss = sum(w * w);
  w -= 1;  // not part of later gradients
  CHECK(floats(w) == std::vector<float>{2});
  sum(w * w).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4});
  old_loss.backward();
  CHECK(floats(w.grad()) == std::vector<float>{10});
  w.set(w * 10);
  w.zero_grad();
  sum(w * 7).backward();
  CHECK(floats(w.grad()) == std::vector<float>{7});
}

TEST_CASE("tape: other holders of the value are not on it") {
  Tensor x = vec({2});
  Variable w(x), v(x);
  w.requires_grad();
  sum(w * x * v).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4});
  v.requires_grad();
  w.zero_grad();
  sum(w * v * v).backward();  // two Variables of one value
  CHECK(floats(w.grad()) == std::vector<float>{4});
  CHECK(floats(v.grad()) == std::vector<float>{8});
  Variable untouched(vec({1}));
  untouched.requires_grad();
  sum(w).backward();
  CHECK(floats(untouched.grad()) == std::vector<float>{0});
}

TEST_CASE("tape: beside grad and vmap") {
  Variable w(vec({2, 3}));
  w.requires_grad();
  // A gradient as part of the loss: second derivatives.
  Tensor inner = jit::grad([](const Variable& v) { return sum(v * v * v); })(w);  // 3 w^2
  sum(inner).backward();
  CHECK(floats(w.grad()) == std::vector<float>{12, 18});
  w.zero_grad();
  Tensor each = jit::vmap([&](Tensor x) { return sum(w * x); })(reshape(vec({1, 2, 3, 4}), {2, 2}));
  sum(each).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 6});
  CHECK(floats(jit::grad([&](Tensor x) { return sum(x * w); })(vec({1, 1}))) == std::vector<float>{2, 3});
}

TEST_CASE("tape: stop_gradient and NoGradGuard") {
  Variable w(vec({2}));
  w.requires_grad();
  sum(stop_gradient(w) * w).backward();
  CHECK(floats(w.grad()) == std::vector<float>{2});
  Tensor constant;
  {
    jit::NoGradGuard guard;
    constant = w * 10;
  }
  w.zero_grad();
  sum(constant * w).backward();
  CHECK(floats(w.grad()) == std::vector<float>{20});
}

TEST_CASE("tape: memory goes when the graph is used up or dropped") {
  Variable w(ones({1000}));
  w.requires_grad();
  w.grad();
  sum(w * w).backward();
  eval(w.grad());
  w.zero_grad();
  eval(w.grad());
  release_cached_memory();
  const auto before = memory_stats().in_use;
  for (int i = 0; i < 20; ++i) {
    Tensor loss = sum(exp(w * 0.1));
    CHECK(item<float>(loss) > 0);
    if (i % 2) loss.backward();
    if (i % 2) eval(w.grad());
  }
  w.zero_grad();
  eval(w.grad());
  CHECK(memory_stats().in_use <= before + 8192);
  // A pending gradient refers to the Variable's value, not to the Variable: nothing leaks when both go.
  const auto live = memory_stats().in_use;
  for (int i = 0; i < 10; ++i) {
    Variable v(ones({1000}) * 2);
    v.requires_grad();
    sum(v * v * v).backward();  // its gradient is never evaluated
  }
  CHECK(memory_stats().in_use <= live + 8192);
}

TEST_CASE("tape: errors name the user's line") {
  Variable w(vec({1, 2}), "w"), plain(vec({1}), "plain");
  w.requires_grad();
  std::string text = message_of<ShapeError>([&] { (w * 2).backward(); });
  CHECK(has(text, "backward: the loss is f32[2]; a floating scalar is required [tape_test.cpp:"));
  CHECK(has(message_of<UserError>([&] { sum(plain * 2).backward(); }),
            "backward: the loss depends on no Variable that requires a gradient [tape_test.cpp:"));
  CHECK(has(message_of<UserError>([&] { plain.grad(); }),
            "grad: the Variable 'plain' requires no gradient [tape_test.cpp:"));
  CHECK_THROWS_AS(plain.zero_grad(), UserError);
  CHECK_THROWS_AS(Variable(tensor({1, 2})).requires_grad(), DTypeError);
  Tensor shared = w * w, loss = sum(shared);
  loss.backward();
  text = message_of<UserError>([&] { loss.backward(); });
  CHECK(has(text, "backward: the loss depends on no Variable that requires a gradient") == false);
  CHECK(has(text, "backward: a part of the graph was used up by an earlier backward() [tape_test.cpp:"));
  CHECK(has(message_of<UserError>([&] { sum(shared * 3).backward(); }), "used up by an earlier backward()"));
  CHECK(floats(w.grad()) == std::vector<float>{2, 4});
  Tensor again = sum(w * w * w);
  again.backward({.keeps_graph = true});
  again.backward();
  CHECK(floats(w.grad()) == std::vector<float>{2 + 6, 4 + 24});
}

TEST_CASE("tape: threads with Variables of their own and shared ones") {
  Variable shared(vec({1, 2}));
  shared.requires_grad();
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Variable own(vec({static_cast<float>(t + 1)}));
        own.requires_grad();
        Tensor loss = sum(own * own * shared);
        if (i % 2) eval(loss);
        loss.backward();
        good[static_cast<std::size_t>(t)] += floats(own.grad())[0] == 6.f * static_cast<float>(t + 1);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(good == std::vector<int>(4, 20));
}
