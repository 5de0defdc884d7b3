// What the tape sees of compiled functions and of bodies: guards against gradients inside them, captured values,
// results that outlive a backward(), hooks of compiled steps, gradients that are switched off and on, threads.
#include "compiled_gradient_cases.hpp"

#include <string>
#include <thread>
#include <utility>

using namespace sinter;
using namespace sinter_test::gradient_cases;

namespace {

/// t^2 as a constant, times t: the gradient of its sum is t^2, and 3 t^2 where the guard is not seen.
Tensor guarded(const Tensor& t) {
  Tensor constant;
  {
    jit::NoGradGuard guard;
    constant = t * t;
  }
  return constant * t;
}

}  // namespace

TEST_CASE("gradient tape: NoGradGuard in bodies") {
  Variable w(vec({2, 3}), "w");
  w.requires_grad();
  const Tensor x = vec({1, 2});
  const auto region = jit::region([](Tensor t) { return Tensor(sum(guarded(t))); });
  const auto kept = jit::checkpoint([](Tensor t) { return Tensor(sum(guarded(t))); });
  const auto taken = [](const Tensor& t) {
    return jit::cond(sum(t) > 0, [](Tensor u) { return Tensor(sum(guarded(u))); }, [](Tensor u) { return sum(u); }, t);
  };
  const auto captures = [](const Tensor& t) {
    return jit::cond(sum(t) > 0, [&] { return Tensor(sum(guarded(t))); }, [&] { return Tensor(sum(t)); });
  };
  const auto loops = [](const Tensor& t) {
    return jit::fori_loop(0, 1, [&](Scalar, Tensor s) { return Tensor(s + sum(guarded(t))); }, zeros({}));
  };
  const auto scans = [](const Tensor& t) {
    auto [carry, ys] = jit::scan([](Tensor c, Tensor e) { return std::tuple{c + guarded(e), c}; }, zeros({}), t);
    return carry;
  };
  const std::vector<std::pair<const char*, std::function<Tensor(Tensor)>>> functions{
      {"region", region},
      {"checkpoint", kept},
      {"cond", taken},
      {"captures", captures},
      {"loop", loops},
      {"scan", scans},
      {"none", [](Tensor t) { return Tensor(sum(guarded(t))); }}};
  for (const auto& [name, function] : functions) {
    INFO(name);
    const std::vector<float> expected{4, 72};  // x (w x)^2
    const auto gradient = [&](const auto& f) {
      w.zero_grad();
      f(x).backward();
      return floats(w.grad());
    };
    auto compiled = jit::compile([&, f = function](Tensor t) { return f(w * t); });
    CHECK(gradient([&, f = function](Tensor t) { return f(w * t); }) == expected);
    CHECK(gradient(compiled) == expected);
    CHECK(gradient(compiled) == expected);
    auto by_argument = jit::compile(function);
    CHECK(gradient([&](const Tensor& t) { return by_argument(w * t); }) == expected);
    CHECK(floats(jit::grad(function)(vec({2, 6}))) == std::vector<float>{4, 36});
    CHECK(floats(jit::compile(jit::grad(function))(vec({2, 6}))) == std::vector<float>{4, 36});
    jit::NoGradGuard around;  // of the caller: what is asked for by name is given
    CHECK(floats(jit::grad(function)(vec({2, 6}))) == std::vector<float>{4, 36});
    CHECK(floats(jit::grad([](Tensor t) { return sum(t * t * t); })(vec({2, 6}))) == std::vector<float>{12, 108});
  }
  // A number that is read is a constant as well, in bodies and for jit::grad.
  const auto reads = [](Tensor t) { return Tensor(sum(t) * item(sum(t * t))); };
  CHECK(floats(jit::grad(reads)(vec({1, 2}))) == std::vector<float>{5, 5});
  CHECK(floats(jit::compile(jit::grad(reads))(vec({1, 2}))) == std::vector<float>{5, 5});
  CHECK(floats(jit::grad(jit::region(reads))(vec({1, 2}))) == std::vector<float>{5, 5});
  CHECK(floats(jit::grad(jit::checkpoint(reads))(vec({1, 2}))) == std::vector<float>{5, 5});
  const auto each = jit::vmap(guarded);
  CHECK(floats(jit::grad([&](Tensor t) { return sum(each(t)); })(vec({2, 6}))) == std::vector<float>{4, 36});
}

TEST_CASE("gradient tape: captured values that are on it") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  const Tensor x = vec({1, 1});
  const Tensor h = w * 2;
  const int line = __LINE__ - 1;
  auto f = jit::compile([&](Tensor t) { return sum(h * w * t); });
  const std::string message = message_of<TraceError>([&] { f(x); });
  CHECK(has(message, "a captured Tensor, f32[2], computed at compiled_gradient_tape_test.cpp:" + std::to_string(line) +
                         ", is on the tape, and captured Tensors are constants of a compiled function"));
  CHECK(has(message, "pass it as an argument"));
  CHECK_THROWS_AS(jit::compile([&](Tensor) { return h; })(x), TraceError);
  CHECK_THROWS_AS(jit::compile([&](Tensor t) { return item(sum(t)) > 0 ? Tensor(sum(h * t)) : Tensor(sum(t)); })(x),
                  TraceError);
  const Tensor itself = w;
  CHECK_THROWS_AS(jit::compile([&](Tensor t) { return sum(itself * t); })(x), TraceError);
  const auto region = jit::region([&](Tensor t) { return Tensor(sum(h * t)); });
  CHECK_THROWS_AS(jit::compile([&](Tensor t) { return region(w * t); })(x), TraceError);
  {  // no gradient is wanted here, and the version made here serves no call that wants one
    jit::NoGradGuard guard;
    CHECK(item<float>(f(x)) == 10);
  }
  CHECK_THROWS_AS(f(x), TraceError);
  // Constants of the gradient, and values that are read alone.
  auto constant = jit::compile([&](Tensor t) {
    Tensor factor;
    {
      jit::NoGradGuard guard;
      factor = h * 2;
    }
    return sum(factor * jit::detach(h) * w * t) * (item(sum(h)) > 0 ? 1.f : 2.f);
  });
  w.zero_grad();
  constant(x).backward();
  CHECK(floats(w.grad()) == std::vector<float>{8, 32});
  auto passed = jit::compile([&](Tensor t, Tensor k) { return sum(k * w * t); });
  w.zero_grad();
  passed(x, h).backward();
  CHECK(floats(w.grad()) == std::vector<float>{4, 8});  // of 2 w^2
}

TEST_CASE("gradient tape: Variables that require no gradient and hold a value on it") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  const Tensor x = vec({1, 1});
  Variable s(zeros({2}), "s");
  const auto plain = [&](const Tensor& t) { return Tensor(sum(s * w * t)); };
  auto captured = jit::compile([&](Tensor t) { return sum(s * w * t); });
  auto given = jit::compile([&](const Variable& v, Tensor t) { return sum(v * w * t); });
  auto reads = jit::compile([&](Tensor t) { return item(sum(t)) > 0 ? Tensor(sum(s * w * t)) : Tensor(sum(s)); });
  captured(x);  // s holds a constant yet
  const std::vector<std::function<Tensor(Tensor)>> calls{plain, captured, [&](Tensor t) { return given(s, t); }, reads};
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < calls.size(); ++i) {
      INFO(i);
      s.set(w * 3);
      w.zero_grad();
      calls[i](x).backward();
      CHECK(floats(w.grad()) == std::vector<float>{6, 12});  // of 3 w^2
      s.set(vec({3, 6}));
      w.zero_grad();
      calls[i](x).backward();
      CHECK(floats(w.grad()) == std::vector<float>{3, 6});
    }
  CHECK(captured.stats().compiles == 2);
}

TEST_CASE("gradient tape: a result kept beside the loss keeps nothing that backward() has used up") {
  Variable w(ones({4000}), "w");
  w.requires_grad();
  const Tensor x = eval(ones({4000}) * 0.5);
  auto f = jit::compile([&](Tensor t) {
    Tensor inner = exp(w * t);
    return std::pair(Tensor(mean(inner * inner)), Tensor(mean(inner)));
  });
  std::vector<Tensor> kept;
  const auto step = [&] {
    auto [loss, prediction] = f(x);
    w.zero_grad();
    loss.backward();
    eval(w.grad());
    kept.push_back(prediction);
  };
  step();
  step();
  release_cached_memory();
  const auto before = memory_stats().in_use;
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory_stats().in_use <= before + 16384);
  CHECK(item<float>(kept[5]) == Approx(std::exp(0.5)));
  CHECK(has(message_of<UserError>([&] { kept[5].backward(); }),
            "a part of the graph was used up by an earlier backward()"));
  CHECK(has(message_of<UserError>([&] { (kept[5] * 2).backward(); }),
            "a part of the graph was used up by an earlier backward()"));
  // The other way of walking it, and with the graph kept.
  auto [loss, prediction] = f(x);
  (loss * 2).backward();
  CHECK_THROWS_AS(prediction.backward(), UserError);
  auto [again, other] = f(x);
  again.backward({.keeps_graph = true});
  w.zero_grad();
  other.backward();
  CHECK(floats(w.grad())[0] == Approx(0.5 * std::exp(0.5) / 4000));
  CHECK_THROWS_AS(again.backward(), UserError);
  auto [first, second] = f(x);
  w.zero_grad();
  (first + second).backward();  // of both at once
  CHECK(floats(w.grad())[0] == Approx((std::exp(1.0) + 0.5 * std::exp(0.5)) / 4000));
}

TEST_CASE("gradient tape: hooks of a backward() inside a compiled function are part of its code") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  auto step = jit::compile([&](Tensor x) {
    w.zero_grad();
    Tensor loss = sum(w * x);
    loss.backward();
    return Tensor(w.grad() * 1);
  });
  auto reads = jit::compile([&](Tensor x) {
    w.zero_grad();
    if (item(sum(x)) > 0) sum(w * x).backward();
    return Tensor(w.grad() * 1);
  });
  const Tensor x = vec({3, 4});
  CHECK(floats(step(x)) == std::vector<float>{3, 4});
  CHECK(floats(reads(x)) == std::vector<float>{3, 4});
  CHECK(floats(reads(-x)) == std::vector<float>{0, 0});
  jit::GradientHook twice = w.register_hook([](const Tensor& g) { return g * 2; });
  for (int i = 0; i < 5; ++i) {
    CHECK(floats(step(x)) == std::vector<float>{6, 8});
    CHECK(floats(reads(x)) == std::vector<float>{6, 8});
  }
  CHECK(step.stats().compiles == 2);
  REQUIRE(step.stats().recompile_reasons.size() == 1);
  CHECK(has(step.stats().recompile_reasons[0].text, "a hook was registered or removed"));
  twice.remove();
  for (int i = 0; i < 5; ++i) {
    CHECK(floats(step(x)) == std::vector<float>{3, 4});
    CHECK(floats(reads(x)) == std::vector<float>{3, 4});
  }
  CHECK(step.stats().compiles == 2);  // the first one again
  step.freeze();
  jit::GradientHook last = w.register_hook([](const Tensor& g) { return g * 3; });
  CHECK(has(message_of<RecompileError>([&] { step(x); }), "a hook was registered or removed"));
}

TEST_CASE("gradient tape: gradients are switched off and on") {
  Variable w(vec({1, 2}), "w"), v(vec({3, 4}), "v");
  w.requires_grad();
  v.requires_grad();
  const Tensor x = vec({1, 1});
  auto f = jit::compile([&](Tensor t) { return sum(w * v * t); });
  int seen = 0;
  jit::GradientHook hook = w.register_hook([&](const Tensor&) { ++seen; });
  f(x).backward();
  for (int round = 0; round < 3; ++round) {
    w.requires_grad(false);
    CHECK(has(message_of<UserError>([&] { w.grad(); }), "the Variable 'w' requires no gradient"));
    v.zero_grad();
    f(x).backward();
    CHECK(floats(v.grad()) == std::vector<float>{1, 2});
    w.requires_grad();
    w.requires_grad();
    CHECK(floats(w.grad()) == std::vector<float>{0, 0});  // dropped
    f(x).backward();
    CHECK(floats(w.grad()) == std::vector<float>{3, 4});
  }
  CHECK(f.stats().compiles == 2);
  CHECK(seen == 4);
  w.requires_grad(false);
  hook.remove();
  // A loss from before: nothing is added to what requires no gradient any more.
  w.requires_grad();
  Tensor compiled = f(x), lazy = sum(w * v);
  w.requires_grad(false);
  v.zero_grad();
  compiled.backward();
  lazy.backward();
  CHECK(floats(v.grad()) == std::vector<float>{2, 4});
  w.requires_grad();
  CHECK(floats(w.grad()) == std::vector<float>{0, 0});
  Variable whole(arange(3));
  CHECK_THROWS_AS(whole.requires_grad(), DTypeError);
  whole.requires_grad(false);
}

TEST_CASE("gradient tape: layers are frozen, and two models trained in turns") {
  const Batch batch;
  Net net;
  jit::requires_grad(net);
  jit::requires_grad(net.first, false);
  jit::zero_grad(net);  // of those that require one
  auto f = jit::compile(loss_of);
  const std::vector<float> before = floats(net.first.w);
  f(net, batch.x, batch.y).backward();
  CHECK_THROWS_AS(net.first.w.grad(), UserError);
  const std::vector<double> of_second = doubles(net.second.w.grad());
  Net entire;
  jit::requires_grad(entire);
  loss_of(entire, batch.x, batch.y).backward();
  CHECK(near_relative(of_second, doubles(entire.second.w.grad()), 1e-6));

  Variable g(vec({1}), "g"), d(vec({2}), "d");
  auto loss = jit::compile([&](Tensor z) { return sum(g * d * d * z); });
  g.requires_grad();
  d.requires_grad();
  for (int turn = 0; turn < 6; ++turn) {
    const bool of_d = turn % 2 == 0;
    d.requires_grad(of_d);
    g.requires_grad(!of_d);
    loss(vec({1})).backward();
    if (of_d) CHECK(floats(d.grad()) == std::vector<float>{4});
    else CHECK(floats(g.grad()) == std::vector<float>{4});
  }
  CHECK(loss.stats().compiles == 2);
}

TEST_CASE("gradient tape: the norm of gradients of narrow and mixed dtypes") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Variable w(cast(vec({300, 400}), dtype), "w");
    w.requires_grad();
    sum(w * w).backward();
    const Tensor norm = jit::clip_grad_norm(std::vector<Variable>{w}, 2);
    CHECK(norm.dtype() == DType::f32);
    CHECK(item<float>(norm) == 1000);  // its square is no f16
    CHECK(w.grad().dtype() == dtype);
    CHECK(near(doubles(w.grad()), {1.2, 1.6}, 5e-3));
  }
  Variable narrow(cast(vec({3}), DType::bf16)), single(full({}, 4)), wide(full({1}, 12, {.dtype = DType::f64}));
  const std::vector<Variable> model{narrow, single, wide};
  jit::requires_grad(model);
  (sum(narrow * narrow).to(DType::f64) * 0.5 + sum(single * single).to(DType::f64) * 0.5 + sum(wide * wide) * 0.5)
      .backward();
  const Tensor norm = jit::clip_grad_norm(model, 6.5);
  CHECK(norm.dtype() == DType::f64);
  CHECK(item<double>(norm) == 13);
  CHECK(narrow.grad().dtype() == DType::bf16);
  CHECK(single.grad().dtype() == DType::f32);
  CHECK(wide.grad().dtype() == DType::f64);
  CHECK(near(doubles(wide.grad()), {6}, 1e-6));
  CHECK(near(doubles(single.grad()), {2}, 1e-6));
  CHECK(near(doubles(narrow.grad()), {1.5}, 1e-2));
}

TEST_CASE("gradient tape: threads add to one gradient, and none is lost") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * x); });
  f(vec({1, 1}));
  constexpr int threads = 4, rounds = 200;
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&, i] {
      const Tensor x = vec({1, static_cast<float>(1 << i)});
      for (int k = 0; k < rounds; ++k) {
        if (k % 2 == 0) f(x).backward();
        else sum(w * x).backward();
        if (k % 16 == 0) eval(w.grad());
      }
    });
  for (std::thread& thread : running) thread.join();
  CHECK(floats(w.grad()) == std::vector<float>{threads * rounds, 15 * rounds});
}

TEST_CASE("gradient tape: narrow Variables in a compiled backward") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Variable w(cast(vec({0.5f, -1, 2}), dtype), "w");
    w.requires_grad();
    const Tensor x = cast(vec({1, 2, 4}), dtype);
    auto f = jit::compile([&](Tensor t) { return sum(w * w * t); });
    f(x).backward();
    CHECK(w.grad().dtype() == dtype);
    CHECK(floats(w.grad().to(DType::f32)) == std::vector<float>{1, -4, 16});
    f(x).backward();
    CHECK(floats(w.grad().to(DType::f32)) == std::vector<float>{2, -8, 32});
    auto mixed = jit::compile([&](Tensor t) { return mean(tanh(w.to(DType::f32)) * t); });
    w.zero_grad();
    mixed(vec({3, 3, 3})).backward();
    CHECK(w.grad().dtype() == dtype);
    CHECK(near(doubles(w.grad()),
               {1 - std::pow(std::tanh(0.5), 2), 1 - std::pow(std::tanh(1.0), 2), 1 - std::pow(std::tanh(2.0), 2)},
               1e-2));
  }
}

TEST_CASE("gradient tape: vmap of a compiled function") {
  Variable w(vec({1, 2}), "w");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * w * x); });
  const auto each = jit::vmap([&](Tensor x) { return Tensor(f(x)); });
  sum(each(reshape(vec({1, 2, 3, 4}), {2, 2}))).backward();
  CHECK(floats(w.grad()) == std::vector<float>{8, 24});
  auto compiled = jit::compile([&](Tensor xs) { return sum(each(xs)); });
  w.zero_grad();
  compiled(reshape(vec({1, 2, 3, 4}), {2, 2})).backward();
  CHECK(floats(w.grad()) == std::vector<float>{8, 24});
}

TEST_CASE("gradient tape: an update keeps nothing that it was computed from") {
  Variable w(vec({1, 2}), "w"), other(zeros({2}), "other");
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return sum(w * w * x); });
  const Tensor x = vec({1, 1});
  const auto keeps = [&](const Variable& v) {
    eval(v);
    const Ref<TensorImpl> value = v.slot()->value();
    return value->pending_node != nullptr || value->tape != TapeState::none;
  };
  for (int way = 0; way < 4; ++way) {
    INFO(way);
    f(x).backward();
    if (way == 0) w -= 0.001 * w.grad();
    else if (way == 1) w.set(w * 0.99 - 0.001 * w.grad());
    else if (way == 2) w = w - 0.001 * w;
    else w.set(eval(w * 0.5));
    CHECK_FALSE(keeps(w));
    w.zero_grad();
    f(x).backward();
    CHECK(floats(w.grad())[0] == Approx(2 * floats(w)[0]));
    w.zero_grad();
  }
  // Other Variables hold what they are given with its tape, as a Tensor does: a moving average belongs under a guard.
  other.set(0.9 * other + 0.1 * w);
  CHECK(keeps(other));
  jit::NoGradGuard guard;
  other.set(0.9 * other + 0.1 * w);
  CHECK_FALSE(keeps(other));
}
