// Lazy evaluation: statements run when a value is needed, what is kept is computed, long chains stay small, hot graphs
// are fused, and threads may share pending values.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

/// Puts the process's settings back.
struct ContextGuard {
  Context saved = Context::get();
  ~ContextGuard() { Context::get() = saved; }
};

}  // namespace

TEST_CASE("lazy: nothing runs before it is needed") {
  Tensor x = vec({1, 2}), y = x + 1, z = y * 2;
  CHECK(x.is_ready());
  CHECK_FALSE(y.is_ready());
  CHECK_FALSE(z.is_ready());
  CHECK(z.shape() == Shape{2});
  CHECK(z.dtype() == DType::f32);
  CHECK_FALSE(z.is_ready());
  CHECK(floats(z) == std::vector<float>{4, 6});
  CHECK(z.is_ready());
}

TEST_CASE("lazy: intermediates that somebody holds are computed along") {
  std::int64_t evaluations = jit::lazy_stats().evaluations;
  Tensor x = vec({1, 2}), kept = x + 1;
  Tensor out;
  {
    Tensor dropped = kept * 2;
    out = dropped + kept;
  }
  auto named = out - 1;
  Tensor last = named * named;
  eval(last);
  CHECK(jit::lazy_stats().evaluations == evaluations + 1);
  CHECK(kept.is_ready());
  CHECK(out.is_ready());
  CHECK(floats(named) == std::vector<float>{5, 8});
  CHECK(floats(kept) == std::vector<float>{2, 3});
  CHECK(floats(last) == std::vector<float>{25, 64});
  CHECK(jit::lazy_stats().evaluations == evaluations + 1);  // nothing ran twice
}

TEST_CASE("lazy: results of one operation that are asked for one after the other are computed once") {
  static std::atomic<int> runs;
  runs = 0;
  const auto sum_and_difference = jit::custom_op<float, 2>({
      .name = "test_sum_and_difference",
      .shape = [](auto in) { return std::array{in[0], in[0]}; },
      .cpu =
          [](auto in, auto out) {
            ++runs;
            for (std::int64_t i = 0; i < in[0].numel; ++i) {
              out[0].data[i] = in[0].data[i] + in[1].data[i];
              out[1].data[i] = in[0].data[i] - in[1].data[i];
            }
          },
  });
  const Tensor x = vec({1, 2}), y = vec({10, 20});
  auto [sum_of, difference] = sum_and_difference(x, y);
  eval(sum_of);
  CHECK_FALSE(difference.is_ready());
  CHECK(floats(difference) == std::vector<float>{-9, -18});
  CHECK(floats(sum_of) == std::vector<float>{11, 22});
  CHECK(runs == 1);
  // Behind further operations, and through two operations of several results.
  auto [a, b] = sum_and_difference(x + 1, y);
  auto [c, d] = sum_and_difference(a * 2, x);
  eval(c);
  CHECK(floats(b * 10 + d) == std::vector<float>{-80 + 23, -170 + 44});
  CHECK(floats(a) == std::vector<float>{12, 23});
  CHECK(runs == 3);
  // What nobody can ask for any more is not kept, and of equal operations each has its own results.
  Tensor first = std::get<0>(sum_and_difference(x, y)), second = std::get<0>(sum_and_difference(x, x));
  CHECK(floats(first) == std::vector<float>{11, 22});
  CHECK(floats(second) == std::vector<float>{2, 4});
  CHECK(runs == 5);
  // The memory of a result goes with the last one who could ask for it.
  {
    auto [kept, dropped] = sum_and_difference(x, y);
    eval(kept);
    dropped = Tensor();
    CHECK(floats(kept + 1) == std::vector<float>{12, 23});
  }
  runs = 0;
  auto [left, right] = sum_and_difference(x, y);
  std::thread other([&, value = left] { eval(value); });
  CHECK(floats(right) == std::vector<float>{-9, -18});
  other.join();
  CHECK(floats(left) == std::vector<float>{11, 22});
  CHECK(runs <= 2);  // both threads may have begun before either had ended
}

TEST_CASE("lazy: results asked for one after the other have the same values, and gradients") {
  const Tensor a = reshape(sin(arange(16, {.dtype = DType::f64}) * 1.7), {4, 4}), symmetric = a + transpose(a, 0, 1);
  const auto [w, v] = linalg::eigh(symmetric);
  const auto [w_first, v_first] = linalg::eigh(symmetric);
  eval({w, v});
  eval(v_first);
  eval(w_first);
  CHECK(to_vector<double>(w) == to_vector<double>(w_first));
  CHECK(to_vector<double>(v) == to_vector<double>(v_first));

  const auto slopes = [&](bool one_by_one) {
    Variable x(symmetric);
    x.requires_grad();
    const auto [values, vectors] = linalg::eigh(x);
    if (one_by_one) {
      eval(values);
      eval(vectors);
    }
    sum(values * vectors * vectors * a).backward();
    return to_vector<double>(x.grad());
  };
  CHECK(near_relative(slopes(true), slopes(false), 1e-12));

  // Loops, whose results are asked for in either order.
  const auto running = [](Tensor total, Tensor next) { return std::pair(total + next, total * next); };
  for (const bool is_total_first : {true, false}) {
    auto [total, products] = jit::scan(running, zeros({}), vec({1, 2, 3}));
    if (is_total_first) eval(total);
    CHECK(floats(products) == std::vector<float>{0, 2, 9});
    CHECK(floats(total) == std::vector<float>{6});
  }
}

TEST_CASE("lazy: a value that an unevaluated statement still needs is kept") {
  Tensor x = vec({3});
  Tensor later;
  Tensor asked;
  {
    Tensor shared = exp(x) + 1;
    later = shared * 10;
    asked = shared * 2;
  }
  eval(asked);
  CHECK_FALSE(later.is_ready());
  CHECK(floats(later)[0] == Approx((std::exp(3.0) + 1) * 10));
  CHECK(floats(asked)[0] == Approx((std::exp(3.0) + 1) * 2));
}

TEST_CASE("lazy: eval of several values is one evaluation") {
  Tensor x = vec({1}), a = x + 1, b = x + 2, c = a * b;
  std::int64_t before = jit::lazy_stats().evaluations;
  eval({a, b, c});
  CHECK(jit::lazy_stats().evaluations == before + 1);
  CHECK(floats(c) == std::vector<float>{6});
  eval(c);
  eval({});
  CHECK(jit::lazy_stats().evaluations == before + 1);
}

TEST_CASE("lazy: evaluated values let go of their inputs") {
  Tensor x = vec({1, 2});
  TensorImpl* raw = x.impl().get();
  Tensor y = x + 1;
  CHECK(raw->use_count() == 2);
  eval(y);
  CHECK(raw->use_count() == 1);
}

TEST_CASE("lazy: 100000 statements in a row") {
  MemoryStats before = memory_stats();
  Tensor x = zeros({16});
  for (int i = 0; i < 100000; ++i) x = x + 1;
  CHECK(floats(x) == std::vector<float>(16, 100000));
  CHECK(memory_stats().in_use < before.in_use + (1 << 20));
  // Never asked for: freed without recursion.
  Tensor y = zeros({4});
  for (int i = 0; i < 100000; ++i) y += x(0);
  y = Tensor();
  // A chain in which every link is used twice must not be walked 2^n times.
  Tensor z = vec({1});
  for (int i = 0; i < 3000; ++i) z = z * 0.5f + z * 0.5f;
  CHECK(floats(z) == std::vector<float>{1});
}

TEST_CASE("lazy: many pending values held at once") {
  std::vector<Tensor> held;
  Tensor one = vec({1});
  for (int i = 0; i < 6000; ++i) held.push_back(one * i);
  for (int i = 0; i < 6000; i += 997) CHECK(item<float>(held[static_cast<std::size_t>(i)]) == static_cast<float>(i));
  Tensor total = vec({0});
  for (int i = 0; i < 5000; ++i) total += held[static_cast<std::size_t>(i)];
  CHECK(item<float>(total) == 4999.0f * 5000 / 2);
}

TEST_CASE("lazy: SINTER_EAGER evaluates each operation at once") {
  ContextGuard guard;
  Context::get().is_eager = true;
  Tensor x = vec({1, 2}), y = x + 1;
  CHECK(y.is_ready());
  CHECK(floats(y) == std::vector<float>{2, 3});
  Tensor z = matmul(reshape(y, {1, 2}), reshape(y, {2, 1}));
  CHECK(z.is_ready());
  CHECK(item<float>(z) == 13);
  CHECK_THROWS_AS(take(x, tensor({9})), IndexError);           // and so its errors come at once
  auto f = jit::compile([](Tensor t) { return exp(t) + t; });  // compiled functions are not affected
  CHECK(floats(f(vec({0}))) == std::vector<float>{1});
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("lazy: hot graphs are fused, SINTER_COMPILE fuses at once") {
  ContextGuard guard;
  Context::get().hot = 3;
  jit::clear_lazy_cache();
  auto run = [](float v) {
    Tensor x = full({64}, v);
    eval(x);
    Tensor y = exp(x * 0.5f) + x * x - 3;
    CHECK(floats(y)[7] == Approx(std::exp(v * 0.5f) + v * v - 3));
  };
  for (int i = 0; i < 3; ++i) run(1.5f);
  std::int64_t graphs = jit::lazy_stats().graphs;
  CHECK(jit::lazy_stats().fused == 0);
  for (int i = 0; i < 3; ++i) run(1.5f);
  CHECK(jit::lazy_stats().graphs == graphs);
  CHECK(jit::lazy_stats().fused >= 1);
  jit::clear_lazy_cache();
  Context::get().compiles_at_once = true;
  run(0.25f);
  CHECK(jit::lazy_stats().fused == jit::lazy_stats().graphs);
  CHECK(jit::lazy_stats().fused > 0);
}

TEST_CASE("lazy: large graphs are compiled at first sight") {
  jit::clear_lazy_cache();
  Tensor x = ones({1 << 19});
  eval(x);
  std::int64_t fused = jit::lazy_stats().fused;
  Tensor y = exp(x) + x * 2 + 1;
  eval(y);
  CHECK(jit::lazy_stats().fused == fused + 1);
  CHECK(item<float>(y(12345)) == Approx(std::exp(1.0) + 3));
}

TEST_CASE("lazy: pending values as arguments of compiled functions") {
  auto f = jit::compile([](Tensor x, Tensor y) { return x - y; });
  Tensor x = vec({5}), a = x * 2, b = a + 1;
  CHECK(floats(f(b, a)) == std::vector<float>{1});
  CHECK(a.is_ready());
  CHECK(b.is_ready());
}

TEST_CASE("lazy: an error leaves the rest usable") {
  Tensor table = vec({1, 2, 3}), good = table * 2;
  Tensor bad = take(good, tensor({7})) + 1;
  CHECK_THROWS_AS(eval(bad), IndexError);
  CHECK_THROWS_AS(floats(bad), IndexError);  // again, not a wrong value
  CHECK(floats(good) == std::vector<float>{2, 4, 6});
  CHECK(floats(good + 1) == std::vector<float>{3, 5, 7});
}

TEST_CASE("lazy: threads evaluate shared pending values") {
  std::atomic<int> wrong{0};
  for (int round = 0; round < 20; ++round) {
    Tensor x = full({256}, round), shared = exp(x * 0) + x, other = shared * 2;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        Tensor mine = t % 2 == 0 ? Tensor(shared + t) : Tensor(other - shared + t);
        float want = static_cast<float>(1 + round + t);
        for (float v : floats(mine)) wrong += v != want;
        wrong += item<float>(other(3)) != static_cast<float>(2 * (1 + round));
      });
    for (auto& thread : threads) thread.join();
    CHECK(shared.is_ready());
  }
  CHECK(wrong == 0);
}

TEST_CASE("lazy: values move between threads") {
  Tensor x = vec({1, 2});
  Tensor made;
  std::thread([&] { made = x * 3; }).join();
  CHECK(floats(made) == std::vector<float>{3, 6});
  std::thread([&] { CHECK(floats(made + 1) == std::vector<float>{4, 7}); }).join();
}

TEST_CASE("lazy: a compiled call while another thread is lazy") {
  auto f = jit::compile([](Tensor x) { return sum(x * x); });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Tensor x = full({100}, t + 1) + 0;
        wrong += item<float>(f(x)) != static_cast<float>(100 * (t + 1) * (t + 1));
        wrong += item<float>(sum(x + i)) != static_cast<float>(100 * (t + 1 + i));
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("lazy: the plans kept are bounded by what they hold") {
  jit::clear_lazy_cache();
  const Tensor x = full({200000}, 0.5f);
  eval(x);
  std::int64_t most = 0;
  for (int i = 0; i < 150; ++i) {  // each with another number, and with buffers of a megabyte
    Tensor total = sum(sin(exp(x)) + x * static_cast<float>(i));
    eval(total);
    most = std::max(most, jit::lazy_stats().bytes);
  }
  CHECK(jit::lazy_stats().graphs >= 150);
  CHECK(jit::lazy_stats().dropped > 0);
  CHECK(most > (std::int64_t{64} << 20));
  CHECK(most < (std::int64_t{136} << 20));
  jit::reset();
  CHECK(jit::lazy_stats().bytes == 0);
}

TEST_CASE("reset: versions that no call runs are gone, and what they held with them") {
  Variable v(ones({4}));
  const auto holders = v.slot().use_count();
  auto f = jit::compile([v](Tensor x) { return x * v; });
  auto reads = jit::compile([v](Tensor x) -> Tensor { return item(sum(x)) > 0 ? Tensor(x * v) : Tensor(x - v); });
  const auto before = v.slot().use_count();
  for (int round = 0; round < 3; ++round) {
    f(ones({4}));
    reads(ones({4}));
    reads(-ones({4}));
    CHECK(v.slot().use_count() > before);
    if (round == 1) jit::reset();
    f.reset();
    reads.reset();
    CHECK(v.slot().use_count() == before);
  }
  CHECK(before > holders);
  SECTION("but for one that is running") {
    std::function<void()> inside;
    auto g = jit::compile([v, &inside](Tensor x) {
      jit::callback([&inside](const Tensor&) { inside(); }, x);
      return x * v;
    });
    inside = [] {};
    g(ones({4}));
    inside = [&] {
      g.reset();
      CHECK(v.slot().use_count() > before + 1);
    };
    CHECK(to_vector<float>(g(full({4}, 3.f))) == std::vector<float>(4, 3.f));
    inside = [] {};
    g(ones({4}));
    g.reset();
    f.reset();
    CHECK(v.slot().use_count() == before + 1);  // g's function
  }
  SECTION("while other threads call") {
    std::atomic<bool> stops{false};
    std::atomic<int> wrong{0}, calls{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; ++t)
      callers.emplace_back([&, t] {
        const Tensor x = full({4}, static_cast<float>(t + 1));
        for (; !stops; ++calls) wrong += to_vector<float>(f(x)) != std::vector<float>(4, static_cast<float>(t + 1));
      });
    while (calls < 3000) f.reset();
    stops = true;
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
    f.reset();
    CHECK(v.slot().use_count() == before);
  }
}
