// What all ways of calling a compiled function have in common: which entry serves a call (C++ types, captured Variables
// that are arguments, too), where results may go, that a failed call leaves no trace, and that no lock is held around
// user code.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

struct Apples {
  Tensor u;
  int k;
};
struct Pears {
  Tensor u;
  int k;
};
struct Overloaded {
  Tensor operator()(const Apples& a) const { return a.u + a.k; }
  std::tuple<Tensor, Tensor> operator()(const Pears& a) const { return {a.u * a.k, a.u - a.k}; }
};
enum class Colour { red = 1 };
enum class Shape3 { cube = 1 };

/// Functions of one Tensor and what they do besides: nothing, or read a value.
Tensor plain_sum(Tensor x, Tensor held) { return x + held; }
Tensor reading_sum(Tensor x, Tensor held) {
  if (item(sum(x)) > -1e9) return x + held;
  return x - held;
}

}  // namespace

TEST_CASE("call path: entries are known by the C++ types of arguments and result") {
  auto f = jit::compile(Overloaded{});
  Tensor u = vec({1, 2});
  for (int i = 0; i < 3; ++i) {
    CHECK(floats(f(Apples{u, 3})) == std::vector<float>{4, 5});
    auto [times, minus] = f(Pears{u, 3});
    CHECK(floats(times) == std::vector<float>{3, 6});
    CHECK(floats(minus) == std::vector<float>{-2, -1});
  }
  CHECK(f.stats().compiles == 2);
  CHECK(f.stats().recompiles == 0);  // the first one of each
}

TEST_CASE("call path: enums, strings and lists of equal values are different arguments") {
  auto f = jit::compile([](Tensor x, auto kind) {
    if constexpr (std::same_as<decltype(kind), Colour>) return x + 1;
    else if constexpr (std::same_as<decltype(kind), Shape3>) return x + 2;
    else if constexpr (std::same_as<decltype(kind), std::string>) return x + 3;
    else return x + 4;
  });
  Tensor x = zeros({1});
  for (int i = 0; i < 3; ++i) {
    CHECK(item<float>(f(x, Colour::red)) == 1);
    CHECK(item<float>(f(x, Shape3::cube)) == 2);
    CHECK(item<float>(f(x, std::string("a"))) == 3);
    CHECK(item<float>(f(x, std::vector<int>{97})) == 4);
  }
}

TEST_CASE("call path: a captured Variable that is also the argument is one Variable") {
  Variable v(zeros({1})), w(zeros({1}));
  const auto both_grow = [v](const Variable& a) {
    a += 1;
    v += 10;
    return a + v;
  };
  const auto both_grow_and_read = [v](const Variable& a) {
    a += 1;
    if (item(sum(a.value())) > 1000) a += 1;
    v += 10;
    return a + v;
  };
  SECTION("plain") {
    auto f = jit::compile(both_grow);
    for (int i = 1; i <= 3; ++i) CHECK(item<float>(f(w)) == static_cast<float>(11 * i));
    CHECK(item<float>(f(v)) == 82);  // 30 + 1 + 10, twice
    CHECK(item<float>(v.value()) == 41);
    CHECK(item<float>(f(w)) == 4 + 51);
    CHECK(item<float>(f(v)) == 2 * 62);
    CHECK(item<float>(w.value()) == 4);
  }
  SECTION("the argument first") {
    auto f = jit::compile(both_grow);
    CHECK(item<float>(f(v)) == 22);
    CHECK(item<float>(f(w)) == 1 + 21);
    CHECK(item<float>(f(w)) == 2 + 31);
    CHECK(item<float>(f(v)) == 2 * 42);
    CHECK(f.stats().compiles == 2);
  }
  SECTION("in a trace tree") {
    auto f = jit::compile(both_grow_and_read);
    for (int i = 1; i <= 3; ++i) CHECK(item<float>(f(w)) == static_cast<float>(11 * i));
    CHECK(item<float>(f(v)) == 82);
    CHECK(item<float>(f(w)) == 4 + 51);
    CHECK(item<float>(f(v)) == 2 * 62);
  }
  SECTION("in a trace tree, the argument first") {
    auto f = jit::compile(both_grow_and_read);
    CHECK(item<float>(f(v)) == 22);
    CHECK(item<float>(f(w)) == 1 + 21);
    CHECK(item<float>(f(w)) == 2 + 31);
    CHECK(item<float>(f(v)) == 2 * 42);
  }
}

TEST_CASE("call path: which Variables a function holds shows only where the arguments differ") {
  Variable v(zeros({1})), w(zeros({1})), p(zeros({1})), q(zeros({1}));
  const auto is_right = [&](auto&& f, const Variable& a, const Variable& b) {
    const Variable* all[] = {&v, &w, &p, &q};
    float after[4];
    for (int i = 0; i < 4; ++i) after[i] = item<float>(all[i]->value());
    const auto at = [&](const Variable& x) -> float& {
      for (int i = 0; i < 4; ++i)
        if (all[i]->slot() == x.slot()) return after[i];
      throw std::logic_error("none of them");
    };
    at(a) += 1;
    at(v) += 10;
    CHECK(item<float>(f(a, b)) == at(a) + at(v) + at(b));
    for (int i = 0; i < 4; ++i) CHECK(item<float>(all[i]->value()) == after[i]);
  };
  SECTION("plain") {
    auto f = jit::compile([v](const Variable& a, const Variable& b) {
      a += 1;
      v += 10;
      return a + v + b;
    });
    for (const auto& [a, b] :
         {std::pair(v, q), {v, p}, {w, p}, {p, w}, {w, v}, {p, v}, {p, w}, {v, v}, {p, p}, {q, q}, {w, p}})
      is_right(f, a, b);
  }
  SECTION("held after a read") {
    auto f = jit::compile([v](const Variable& a, const Variable& b) {
      a += 1;
      if (item(sum(a.value())) > 1e6f) return Tensor(a + b);
      v += 10;
      return Tensor(a + v + b);
    });
    for (const auto& [a, b] : {std::pair(w, q), {q, p}, {v, v}, {v, w}, {w, v}, {w, p}, {p, v}, {v, p}, {p, p}})
      is_right(f, a, b);
  }
}

TEST_CASE("call path: other Variables as arguments compile nothing new") {
  Variable scale(full({2}, 3));
  auto f = jit::compile([scale](const Variable& a, Tensor x) {
    a += x;
    return a * scale.value();
  });
  std::vector<Variable> many;
  for (int i = 0; i < 20; ++i) many.emplace_back(full({2}, i));
  for (int i = 0; i < 20; ++i)
    CHECK(floats(f(many[static_cast<std::size_t>(i)], ones({2})))[0] == static_cast<float>(3 * (i + 1)));
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("call path: results go over nothing that the function holds, however it is called") {
  const std::string backend = "holds nothing";
  static const bool is_registered = [&] {
    jit::register_backend(backend,
                          [](const Graph& graph, std::span<const Tensor>) { return jit::compile_graph(graph); });
    return true;
  }();
  CHECK(is_registered);
  Tensor held = ones({4});
  Variable variable(ones({4}));
  eval(held);
  eval(variable);
  Tensor x = full({4}, 2);
  eval(x);
  auto* held_memory = const_cast<float*>(held.data<float>().data());
  auto* variable_memory = const_cast<float*>(variable.value().data<float>().data());
  auto* argument_memory = const_cast<float*>(x.data<float>().data());
  const auto refused = [&](auto&& f) {
    for (int round = 0; round < 3; ++round) {
      CHECK_THROWS_AS(f.into(borrow_mut(held_memory, {4}))(x), UserError);
      CHECK_THROWS_AS(f.into(borrow_mut(variable_memory, {4}))(x), UserError);
      CHECK_THROWS_AS(f.into(borrow_mut(argument_memory, {4}))(x), UserError);
      float out[4], few[3];
      CHECK_THROWS_AS(f.into(borrow_mut(few, {3}))(x), ShapeError);
      f.into(borrow_mut(out, {4}))(x);
      CHECK(out[3] == 4);
    }
    CHECK(floats(held) == std::vector<float>(4, 1));
    CHECK(floats(variable) == std::vector<float>(4, 1));
    CHECK(floats(x) == std::vector<float>(4, 2));
  };
  const auto body = [=](Tensor a) { return plain_sum(a, held) + variable.value(); };
  const auto reading = [=](Tensor a) { return reading_sum(a, held) + variable.value(); };
  SECTION("plain") { refused(jit::compile(body)); }
  SECTION("a trace tree") { refused(jit::compile(reading)); }
  SECTION("a trace tree without room") { refused(jit::compile(reading, {.max_breaks = 0})); }
  SECTION("a registered back end") { refused(jit::compile(body, {.backend = backend})); }
  SECTION("no back end") { refused(jit::compile(reading, {.backend = "noop"})); }
  SECTION("uncompiled by stance") {
    jit::StanceGuard eager(jit::Stance::force_eager);
    refused(jit::compile(body));
    refused(jit::compile(reading));
  }
  SECTION("uncompiled, a compiled function inside") {
    auto inner = jit::compile(body);
    inner(x);
    refused(jit::compile([inner](Tensor a) { return inner(a); }, {.backend = "noop"}));
  }
  SECTION("past the recompile limit") {
    auto f = jit::compile(body, {.dynamic = jit::Dynamic::never, .recompile_limit = 0});
    f(ones({1}));
    refused(f);
  }
}

TEST_CASE("call path: a place may be given for what a Variable becomes, too") {
  Variable v(zeros({3})), w(zeros({3}));
  float out[3] = {}, more[3] = {};
  SECTION("one value") {
    auto f = jit::compile([v](Tensor x) {
      const Tensor y = x + 1;
      v.set(y);
      return y;
    });
    for (int i = 0; i < 3; ++i) {
      f.into(borrow_mut(out, {3}))(full({3}, i));
      CHECK(out[2] == static_cast<float>(i + 1));
      CHECK(floats(v) == std::vector<float>(3, static_cast<float>(i + 1)));
    }
  }
  SECTION("several times") {
    auto f = jit::compile([=](Tensor x) {
      const Tensor y = x + 1;
      v.set(y);
      w.set(y);
      return std::tuple{y, y};
    });
    for (int i = 0; i < 3; ++i) {
      f.into(borrow_mut(out, {3}), borrow_mut(more, {3}))(full({3}, i));
      const std::vector<float> wanted(3, static_cast<float>(i + 1));
      CHECK(std::vector<float>(out, out + 3) == wanted);
      CHECK(std::vector<float>(more, more + 3) == wanted);
      CHECK(floats(v) == wanted);
      CHECK(floats(w) == wanted);
    }
  }
}

TEST_CASE("call path: a path that another call took holds values, too") {
  Tensor held = ones({4});
  eval(held);
  auto* memory = const_cast<float*>(held.data<float>().data());
  auto f = jit::compile([held](Tensor x) -> Tensor {
    if (item(sum(x)) > 0) return x + held;
    return x * 2;
  });
  f(ones({4}));
  CHECK_THROWS_AS(f.into(borrow_mut(memory, {4}))(-ones({4})), UserError);
  f(-ones({4}));
  CHECK_THROWS_AS(f.into(borrow_mut(memory, {4}))(-ones({4})), UserError);
  CHECK(floats(f(ones({4}))) == std::vector<float>(4, 2));
}

TEST_CASE("call path: an uncompiled call that fails leaves Variables as they were") {
  Variable v(zeros({1})), w(zeros({1}));
  auto f = jit::compile([=](Scalar limit, bool fails) {
    v += 1;
    w += v;
    if (fails) throw std::runtime_error("half way");
    return v + limit;
  });
  jit::StanceGuard eager(jit::Stance::force_eager);
  f(1.f, false);
  CHECK_THROWS_AS(f(1.f, true), std::runtime_error);
  CHECK(item<float>(v.value()) == 1);
  CHECK(item<float>(w.value()) == 1);
  float out[1], wrong[2];
  CHECK_THROWS_AS(f.into(borrow_mut(wrong, {2}))(1.f, false), ShapeError);
  CHECK(item<float>(v.value()) == 1);
  f.into(borrow_mut(out, {1}))(1.f, false);
  CHECK(out[0] == 3);
  CHECK(item<float>(w.value()) == 3);
}

TEST_CASE("call path: functions that read values take memory over, keep results' and write to places") {
  const auto body = [](Tensor u, Scalar a) -> Tensor {
    if (item(sum(u)) > 1e6f) return u * 2;
    return u + a * u;
  };
  SECTION("a donated argument") {
    auto step = jit::compile(body);
    Tensor u = ones({32});
    eval(u);
    step(u, 1.f);
    const void* before = u.data<float>().data();
    for (int i = 0; i < 4; ++i) u = step(std::move(u), 1.f);
    CHECK(u.data<float>().data() == before);
    CHECK(floats(u) == std::vector<float>(32, 16));
  }
  SECTION("a Variable in its own memory") {
    Variable w(ones({64}));
    eval(w);
    auto step = jit::compile([=](Tensor g) {
      if (item(sum(g)) > 0) w -= 0.25f * g;
      else w += g;
    });
    Tensor g = ones({64});
    for (int i = 0; i < 2; ++i) step(g);
    const void* before = w.value().data<float>().data();
    for (int i = 0; i < 2; ++i) step(g);
    CHECK(w.value().data<float>().data() == before);
    CHECK(floats(w) == std::vector<float>(64, 0));
    Tensor seen = w.value();
    step(g);
    CHECK(floats(seen) == std::vector<float>(64, 0));
    CHECK(floats(w) == std::vector<float>(64, -0.25f));
  }
  SECTION("memory of results is kept") {
    auto f = jit::compile(body, {.mode = jit::Mode::reduce_overhead});
    Tensor u = ones({32});
    for (int i = 0; i < 3; ++i) f(u, 1.f);
    const void* first = f(u, 1.f).data<float>().data();
    CHECK(f(u, 1.f).data<float>().data() == first);
    Tensor held = f(u, 1.f), other = f(u, 3.f);
    CHECK(floats(held) == std::vector<float>(32, 2));
    CHECK(floats(other) == std::vector<float>(32, 4));
  }
}

TEST_CASE("call path: a tree may hold no segment at all") {
  auto f = jit::compile(
      [](Tensor x) -> Tensor {
        if (item(sum(x)) > 0) return x + 1;
        return x - 1;
      },
      {.max_breaks = 0});
  for (int i = 0; i < 4; ++i) {
    CHECK(item<float>(f(vec({1}))) == 2);
    CHECK(item<float>(f(vec({-1}))) == -2);
  }
  f.warm_up(vec({1}));
  CHECK(f.stats().segments == 0);
}

TEST_CASE("call path: a symbol may be the extent of any number of leaves") {
  auto f = jit::compile([](const std::string& text, Tensor x) { return x * static_cast<float>(text.size()); },
                        {.dynamic = jit::Dynamic::always});
  const std::string text(40000, 'x');
  for (int n : {3, 4, 5}) CHECK(floats(f(text, ones({n}))) == std::vector<float>(static_cast<std::size_t>(n), 40000));
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("call path: user code may compile, reset and ask while a function is compiled") {
  SECTION("compiled functions and regions made inside, and a reset") {
    auto f = jit::compile([](Tensor x) {
      auto inner = jit::compile([](Tensor y) { return y + 1; });
      auto block = jit::region([](Tensor y) { return y * 2; });
      jit::reset();
      return block(inner(x));
    });
    for (int i = 0; i < 3; ++i) CHECK(item<float>(f(vec({1}))) == 4);
  }
  SECTION("statistics inside a disabled function") {
    struct Holder {
      std::function<jit::Stats()> stats;
    };
    auto holder = std::make_shared<Holder>();
    auto ask = jit::disable([holder](Tensor x) {
      static_cast<void>(holder->stats());
      return x + 1;
    });
    auto f = jit::compile([ask](Tensor x) { return ask(x * 2); });
    holder->stats = [f] { return f.stats(); };
    for (int i = 0; i < 3; ++i) CHECK(item<float>(f(vec({1}))) == 3);
    holder->stats = nullptr;
  }
  SECTION("a thread that the traced function waits for calls the same function") {
    std::atomic<int> depth{0};
    std::function<Tensor(Tensor)> again;
    auto f = jit::compile([&](Tensor x) {
      if (depth.fetch_add(1) == 0) {
        float from_other = 0;
        std::thread([&] { from_other = item<float>(again(vec({1}))); }).join();
        CHECK(from_other == 2);
      }
      return x * 2;
    });
    again = [&](Tensor x) { return f(x); };
    CHECK(item<float>(f(vec({1}))) == 2);
    CHECK(f.stats().compiles == 1);
  }
  SECTION("two threads whose functions call each other's") {
    std::function<Tensor(Tensor)> call_a, call_b;
    auto slow = [](Tensor x) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return x;
    };
    auto a = jit::compile([&](Tensor x) {
      return slow(x) + std::async(std::launch::async, [&] { return item<float>(call_b(vec({1}))); }).get();
    });
    auto b = jit::compile([&](Tensor x) { return slow(x) * 2; });
    call_a = [&](Tensor x) { return a(x); };
    call_b = [&](Tensor x) { return b(x); };
    float from_a = 0, from_b = 0;
    std::thread first([&] { from_a = item<float>(call_a(vec({1}))); });
    std::thread second([&] { from_b = item<float>(call_b(vec({1}))); });
    first.join();
    second.join();
    CHECK(from_a == 3);
    CHECK(from_b == 2);
  }
}

TEST_CASE("call path: a captured value that changes late is found, too") {
  const auto changed_at = [](auto&& f, auto&& change, int call) {
    int n = 1;
    for (; n <= 2000; ++n) {
      if (n == call) change();
      try {
        f(ones({2}));
      } catch (const TraceError& error) {
        CHECK(has(error.what(), "captured value changed at"));
        break;
      }
    }
    return n;
  };
  float k = 1;
  // On a busy machine the first trace may take so long that later ones are left out: then once more.
  const auto found_at = [&](auto&& make, auto&& change, int call) {
    int n = 2001;
    for (int attempt = 0; attempt < 10 && n > 2000; ++attempt) n = changed_at(make(), change, call);
    return n;
  };
  const auto change = [&] { k += 1; };
  SECTION("plain") {
    CHECK(found_at([&] { return jit::compile([&k](Tensor x) { return x * k; }); }, change, 3) == 4);
    CHECK(found_at([&] { return jit::compile([&k](Tensor x) { return x * k; }); }, change, 20) == 32);
    CHECK(found_at([&] { return jit::compile([&k](Tensor x) { return x * k; }); }, change, 600) == 1024);
  }
  SECTION("a trace tree") {
    const auto body = [&k](Tensor x) -> Tensor {
      if (item(sum(x)) > 0) return x * k;
      return x;
    };
    CHECK(found_at([&] { return jit::compile(body); }, change, 3) == 4);
    CHECK(found_at([&] { return jit::compile(body); }, change, 20) == 32);
  }
  SECTION("never after warm_up") {
    auto f = jit::compile([&k](Tensor x) { return x * k; });
    f.warm_up(ones({2}));
    CHECK(changed_at(f, change, 3) == 2001);
  }
  SECTION("effects do not run in a check") {
    int runs = 0;
    auto f = jit::compile([&](Tensor x) {
      jit::callback([&runs](Tensor) { ++runs; }, x);
      return x * 2;
    });
    for (int i = 0; i < 40; ++i) f(ones({2}));
    CHECK(runs == 40);
  }
}

TEST_CASE("call path: a captured Variable that is read for nothing is no fact of the code") {
  const Variable captured(ones({3})), u(full({3}, 2.0f)), w(full({3}, 3.0f));
  auto doubled = jit::region([captured](Tensor x) {
    const Tensor unused = x + captured;
    return x * 2;
  });
  auto f = jit::compile([doubled](const Variable& a, const Variable& b, Tensor x) { return doubled(x) + a - b; });
  const Tensor x = ones({3});
  CHECK(item<float>(f(captured, u, x)(0)) == 1);
  CHECK(item<float>(f(u, captured, x)(0)) == 3);
  for (int call = 0; call < 40; ++call) CHECK(item<float>(f(u, w, x)(0)) == 1);  // purity is checked in some of them
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("call path: first calls of several threads are no recompile, whoever is first") {
  for (int round = 0; round < 60; ++round) {
    auto f = jit::compile([](Tensor x) { return x * 2; }, {.dynamic = jit::Dynamic::always});
    std::atomic<int> ready = 0, failed = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, f, t] {
        jit::StanceGuard stance(jit::Stance::fail_on_recompile);
        const Tensor x = ones({2 + t, 3});
        eval(x);
        for (++ready; ready < 4;) std::this_thread::yield();
        try {
          f(x);
        } catch (const RecompileError&) { ++failed; }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
    CHECK(f.stats().compiles == 1);
  }
}
