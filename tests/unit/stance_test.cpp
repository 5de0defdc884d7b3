// Stances and the recompile limit: what a call does when no compiled version fits, on which thread, and what is said.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

using namespace sinter;
using jit::Stance;
using jit::StanceGuard;

namespace {

/// Collects every line sent to the sink while it lives.
class SinkCapture {
 public:
  SinkCapture() : sink_(Context::get().sink) {
    Context::get().sink = [this](std::string_view topic, std::string_view line) {
      lines.push_back(std::string(topic) + ": " + std::string(line));
    };
  }
  ~SinkCapture() { Context::get().sink = sink_; }
  std::vector<std::string> lines;

 private:
  std::function<void(std::string_view, std::string_view)> sink_;
};

auto make_counted(int& runs) {
  return jit::compile([&runs](Tensor x, int k) {
    ++runs;
    return x * k;
  });
}

}  // namespace

TEST_CASE("stance: guards nest and restore, also past an exception") {
  CHECK(jit::current_stance() == Stance::default_);
  {
    StanceGuard outer(Stance::fail_on_recompile);
    CHECK(jit::current_stance() == Stance::fail_on_recompile);
    try {
      StanceGuard inner(Stance::force_eager);
      CHECK(jit::current_stance() == Stance::force_eager);
      throw std::runtime_error("x");
    } catch (const std::runtime_error&) {}
    CHECK(jit::current_stance() == Stance::fail_on_recompile);
  }
  CHECK(jit::current_stance() == Stance::default_);
  CHECK(jit::name(Stance::eager_then_compile) == "eager_then_compile");
}

TEST_CASE("stance: force_eager runs the function itself at each call") {
  int runs = 0;
  auto f = make_counted(runs);
  CHECK(floats(f(ones({2}), 3)) == std::vector<float>{3, 3});
  CHECK(runs == 1);
  {
    StanceGuard guard(Stance::force_eager);
    for (int i = 0; i < 3; ++i) CHECK(floats(f(ones({2}), 3)) == std::vector<float>{3, 3});
    float out[2];
    f.into(borrow_mut(out, {2}))(ones({2}), 5);
    CHECK(out[1] == 5);
    CHECK(has(f.explain(ones({2}), 3).text(), "uncompiled"));
  }
  CHECK(runs == 5);
  CHECK(f.stats().eager_calls == 4);
  CHECK(f.stats().calls == 1);
  CHECK(f.stats().compiles == 1);
  f(ones({2}), 3);
  CHECK(f.stats().calls == 2);
}

TEST_CASE("stance: eager_on_recompile uses what is compiled and compiles nothing") {
  int runs = 0;
  auto f = make_counted(runs);
  {
    StanceGuard guard(Stance::eager_on_recompile);
    CHECK(floats(f(ones({2}), 3)) == std::vector<float>{3, 3});
    CHECK(f.stats().compiles == 0);
    CHECK(f.stats().eager_calls == 1);
  }
  f(ones({2}), 3);
  StanceGuard guard(Stance::eager_on_recompile);
  f(ones({2}), 3);
  CHECK(floats(f(ones({2}), 4)) == std::vector<float>{4, 4});
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().calls == 2);
  CHECK(f.stats().eager_calls == 2);
}

TEST_CASE("stance: fail_on_recompile throws with the guard, and runs what fits") {
  auto f = jit::compile([](Tensor x, int k) { return x * k; });
  const int line = __LINE__ - 1;
  StanceGuard guard(Stance::fail_on_recompile);
  CHECK_NOTHROW(f(ones({2}), 3));  // the first version is no recompile
  std::string text = message_of<RecompileError>([&] { f(ones({2}), 4); });
  CHECK(has(text, "guard 'value' failed"));
  CHECK(has(text, "[stance_test.cpp:" + std::to_string(line) + "]"));
  CHECK(has(text, "expected 3, got 4"));
  CHECK(has(text, "Scalar"));
  text = message_of<RecompileError>([&] { f(ones({5}), 3); });
  CHECK(has(text, "expected 2, got 5"));
  CHECK(has(text, "mark_dynamic"));
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().eager_calls == 0);
  CHECK(floats(eval(ones({2}) + 1)) == std::vector<float>{2, 2});  // expressions are not compiled functions
}

TEST_CASE("stance: with Dynamic::always an extent of 1 has a first version of its own") {
  auto f = jit::compile([](Tensor x) { return x / x.size(0); }, {.dynamic = jit::Dynamic::always});
  StanceGuard guard(Stance::fail_on_recompile);
  for (int n : {4, 1, 7, 1}) CHECK(floats(f(ones({n})))[0] == Approx(1.f / static_cast<float>(n)));
  CHECK(f.stats().compiles == 2);
  CHECK_THROWS_AS(f(ones({3, 3})), RecompileError);  // near miss: another rank
}

TEST_CASE("stance: eager_then_compile knows at its first compilation what varies") {
  auto f = jit::compile([](Tensor x) { return x * 2; });
  StanceGuard guard(Stance::eager_then_compile);
  f(ones({2, 3}));
  CHECK(f.stats().compiles == 0);
  CHECK(f.stats().eager_calls == 1);
  for (int n : {4, 5, 2, 9}) CHECK(floats(f(ones({n, 3})))[0] == 2);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().eager_calls == 1);
  auto same = jit::compile([](Tensor x) { return x * 2; });  // near miss: nothing varies, nothing becomes dynamic
  same(ones({2, 3}));
  CHECK(has(same.explain(ones({2, 3})).text(), "f32[2, 3] dense"));
}

TEST_CASE("stance: belongs to a thread") {
  auto f = jit::compile([](Tensor x, int k) { return x + k; });
  f(ones({2}), 1);
  StanceGuard guard(Stance::fail_on_recompile);
  std::thread([&] {
    CHECK(jit::current_stance() == Stance::default_);
    CHECK(floats(f(ones({2}), 2)) == std::vector<float>{3, 3});
  }).join();
  CHECK(floats(f(ones({2}), 2)) == std::vector<float>{3, 3});
  CHECK_THROWS_AS(f(ones({2}), 3), RecompileError);
}

TEST_CASE("stance: a compiled function inside a trace takes no stance") {
  auto inner = jit::compile([](Tensor x, int k) { return x + k; });
  auto outer = jit::compile([inner](Tensor x) { return inner(x, 1) * inner(x, 2); });
  outer.warm_up(ones({2}));
  StanceGuard guard(Stance::fail_on_recompile);
  CHECK(floats(outer(ones({2}))) == std::vector<float>{6, 6});
  CHECK(floats(outer(ones({2}))) == std::vector<float>{6, 6});  // with the purity check
}

TEST_CASE("recompile limit: reported once, with the guard and the remedy, then uncompiled") {
  SinkCapture sink;
  auto f = jit::compile([](Tensor x, int k) { return x * k; }, {.recompile_limit = 2});
  for (int k = 0; k < 8; ++k) CHECK(floats(f(ones({2}), k))[0] == static_cast<float>(k));
  jit::Stats stats = f.stats();
  CHECK(stats.compiles == 3);
  CHECK(stats.recompiles == 2);
  CHECK(stats.eager_calls == 5);
  REQUIRE(sink.lines.size() == 1);
  CHECK(has(sink.lines[0], "recompiles: stance_test.cpp:"));
  CHECK(has(sink.lines[0], "the recompile limit of 2 is reached: guard 'value' failed 3 of 3 times"));
  CHECK(has(sink.lines[0], "expected 2, got 3"));
  CHECK(has(sink.lines[0], "Scalar"));
  f(ones({2}), 1);  // what is compiled is still used
  CHECK(f.stats().calls == 4);
  {
    StanceGuard guard(Stance::fail_on_recompile);
    CHECK_THROWS_AS(f(ones({2}), 9), RecompileError);
  }
  float out[2];
  f.into(borrow_mut(out, {2}))(ones({2}), 7);
  CHECK(out[0] == 7);
  f.reset();
  f(ones({2}), 9);
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("recompile limit: the guard that failed most is named, not the last") {
  SinkCapture sink;
  auto f = jit::compile([](Tensor x, int k) { return x * k; }, {.recompile_limit = 3});
  for (int k = 0; k < 3; ++k) f(ones({2}), k);
  f(ones({2, 2}), 2);
  f(ones({2, 2, 2}), 2);
  REQUIRE(sink.lines.size() == 1);
  CHECK(has(sink.lines[0], "guard 'value' failed 2 of 4 times") !=
        has(sink.lines[0], "guard 'rank' failed 2 of 4 times"));
}

TEST_CASE("recompile limit: the default allows nine versions; zero allows one; below zero is an error") {
  SinkCapture sink;
  auto f = jit::compile([](Tensor x, int k) { return x * k; });
  for (int k = 0; k < 9; ++k) f(ones({2}), k);
  CHECK(f.stats().compiles == 9);
  CHECK(sink.lines.empty());
  f(ones({2}), 9);
  CHECK(f.stats().compiles == 9);
  CHECK(sink.lines.size() == 1);
  auto once = jit::compile([](Tensor x, int k) { return x * k; }, {.recompile_limit = 0});
  once(ones({2}), 1);
  CHECK(floats(once(ones({2}), 2))[0] == 2);
  CHECK(once.stats().compiles == 1);
  std::string text = message_of<UserError>([] { jit::compile([](Tensor x) { return x; }, {.recompile_limit = -1}); });
  CHECK(has(text, "recompile_limit is -1 [stance_test.cpp:"));
}

TEST_CASE("stance: threads with stances of their own, a registered back end, and resets in between") {
  jit::register_backend("for threads", [](const Graph& graph, std::span<const Tensor>) {
    return jit::compile_graph(graph, "reference");
  });
  auto f = jit::compile([](Tensor x, int k) { return x * k; });
  auto g = jit::compile([](Tensor x) { return x + 1; }, {.backend = "for threads"});
  f.warm_up(ones({4}), 1);
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      StanceGuard guard(static_cast<Stance>(t % 5));
      for (int i = 0; i < 30; ++i) {
        try {
          const int k = 1 + i % 3, n = 3 + i % 4;
          wrong += floats(f(ones({n}), k)) != std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(k));
          wrong += floats(g(ones({n}))) != std::vector<float>(static_cast<std::size_t>(n), 2);
        } catch (const RecompileError&) { ++refused; }
        if (t == 0 && i % 10 == 9) f.reset();
      }
      wrong += jit::current_stance() != static_cast<Stance>(t % 5);
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("stance: SINTER_DISABLE comes before every stance") {
  auto f = jit::compile([](Tensor x) { return x + 1; });
  Context::get().is_disabled = true;
  StanceGuard guard(Stance::fail_on_recompile);
  Tensor y = f(ones({2}));
  Context::get().is_disabled = false;
  CHECK(floats(y) == std::vector<float>{2, 2});
  CHECK(f.stats().eager_calls == 1);
  CHECK(f.stats().compiles == 0);
}

TEST_CASE("stance: Variables and several results, uncompiled") {
  Variable w(ones({2}));
  auto f = jit::compile([w](Tensor x) {
    w += x;
    return std::tuple{w.value() * 2, 7, std::vector<Tensor>{x}};
  });
  StanceGuard guard(Stance::force_eager);
  auto [twice, seven, list] = f(ones({2}));
  CHECK(floats(twice) == std::vector<float>{4, 4});
  CHECK(seven == 7);
  CHECK(list.size() == 1);
  CHECK(floats(w) == std::vector<float>{2, 2});
  auto nothing = jit::compile([w] { w += 1; });
  nothing();
  CHECK(floats(w) == std::vector<float>{3, 3});
}
