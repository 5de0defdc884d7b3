// Frozen functions: what a miss does, what is counted, and that nothing is traced, compiled or given to workers.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <string>
#include <thread>

using namespace sinter;

namespace {
Tensor ready(Tensor x) {
  eval(x);
  return x;
}
template <class F>
std::string error_of(F&& run) {
  try {
    run();
  } catch (const RecompileError& error) { return error.what(); }
  return "";
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("freeze: a miss throws with the guard that failed, and nothing is compiled; unfreeze compiles again") {
  auto f = jit::compile([](Tensor x) { return x * 2; });
  CHECK_THROWS_AS(f.freeze(), UserError);  // nothing is compiled yet
  CHECK(!f.is_frozen());
  const Tensor x = ready(ones({4})), y = ready(ones({5}));
  f.warm_up(x);
  f.freeze();
  CHECK(f.is_frozen());
  for (int i = 0; i < 2000; ++i) f(x);
  CHECK(item<float>(sum(f(x))) == 8);
  const std::string text = error_of([&] { f(y); });
  CHECK(holds(text, "the function is frozen: guard 'extent' failed"));
  CHECK(holds(text, "unfreeze()"));
  float out[5];
  CHECK(holds(error_of([&] { f.into(borrow_mut(out, {5}))(y); }), "frozen"));
  CHECK(holds(error_of([&] { f.warm_up(y); }), "frozen"));
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().frozen_misses == 3);
  CHECK(f.stats().eager_calls == 0);
  f.unfreeze();
  CHECK(item<float>(sum(f(y))) == 10);
  CHECK(f.stats().compiles == 2);
  f.freeze();
  f.reset();  // nothing is left to be frozen
  CHECK(!f.is_frozen());
  CHECK(item<float>(sum(f(y))) == 10);
}

TEST_CASE("freeze: or a miss runs uncompiled, counted") {
  auto f = jit::compile([](Tensor x, Scalar a) { return std::pair{x * a, sum(x)}; });
  const Tensor x = ready(ones({4})), y = ready(ones({5}));
  f.warm_up(x, 1.f);
  f.freeze(jit::OnMiss::runs_uncompiled);
  CHECK(item<float>(f(y, 3.f).second) == 5);
  float out[5], total[1];
  f.into(borrow_mut(out, {5}), borrow_mut(total, {}))(y, 3.f);
  CHECK(out[4] == 3);
  CHECK(f.stats().frozen_misses == 2);
  CHECK(f.stats().eager_calls == 2);
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("freeze: functions that read values, on paths that were and were not warmed up") {
  auto f = jit::compile([](Tensor x) -> Tensor {
    if (item(sum(x)) > 0) return x + 1;
    return x - 1;
  });
  const Tensor up = ready(ones({4})), down = ready(ones({4}) * -1);
  f.warm_up(up);
  f.freeze();
  CHECK(item<float>(f(up)(0)) == 2);
  CHECK(holds(error_of([&] { f(down); }), "was not seen before, and the function is frozen"));
  f.freeze(jit::OnMiss::runs_uncompiled);
  CHECK(item<float>(f(down)(0)) == -2);
  CHECK(f.stats().frozen_misses == 2);
  f.unfreeze();
  f.warm_up(down);
  f.freeze();
  CHECK(item<float>(f(down)(0)) == -2);
  CHECK(item<float>(f(up)(0)) == 2);
}

TEST_CASE("freeze: warm_up runs what decides the path, all of it where it is new, and assigns nothing") {
  int before = 0, after = 0;
  Variable count(zeros({}));
  auto f = jit::compile([&, count](Tensor x) -> Tensor {
    jit::callback([&before](Tensor) { ++before; }, x);
    count += 1;
    const bool is_up = bool(item(sum(x)) > 0);
    jit::callback([&after](Tensor) { ++after; }, x);
    return is_up ? Tensor(x + 1) : Tensor(x - 1);
  });
  const Tensor up = ready(ones({4})), down = ready(ones({4}) * -1);
  f.warm_up(up);
  CHECK(after == 1);
  f.warm_up(down);
  CHECK(after == 2);
  const int seen = before;
  f.warm_up(up);
  f.warm_up(down);
  CHECK(before == seen + 2);
  CHECK(after == 2);
  CHECK(item<float>(count.value()) == 0);
  f.freeze();
  CHECK(item<float>(f(up)(0)) == 2);
  CHECK(item<float>(f(down)(0)) == -2);
  CHECK(before == seen + 4);
  CHECK(after == 4);
  CHECK(item<float>(count.value()) == 2);
}

TEST_CASE("freeze: purity is not checked, through copies and jit::Function; structs; other threads") {
  int traces = 0;
  struct State {
    Tensor a, b;
  };
  auto f = jit::compile([&traces](State s, Scalar k) {
    ++traces;
    return State{s.a * k, s.b + s.a};
  });
  const State s{ready(ones({4})), ready(ones({4}))};
  f(s, 2.f);
  jit::Function<State(State, Scalar)> g = f;
  g.freeze();
  CHECK(f.is_frozen());
  const int before = traces;
  for (int i = 0; i < 1100; ++i) f(s, 2.f);
  std::thread([&] { CHECK(item<float>(g(s, 3.f).a(0)) == 3); }).join();
  CHECK(traces == before);
  g.unfreeze();
  CHECK(!g.is_frozen());
}

TEST_CASE("freeze: work that is split otherwise has the same bits") {
  auto f = jit::compile([](Tensor x) { return sum(exp(x) * x) + sum(matmul(x, x)); });
  const Tensor x = ready(rand({300, 300}));
  const float split = item<float>(f(x));
  f.freeze();
  CHECK(item<float>(f(x)) == split);
}
