// Many threads at once: compiling and calling the same and different functions, resetting caches, reading and writing
// Variables, lazy evaluation beside. Run under the thread sanitizer too; the reference back end lets it see every
// access.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {
constexpr int thread_total = 16;

/// Runs work(t) on 16 threads that begin together; gives the number of times it returned false or threw.
int failures_of(const std::function<bool(int)>& work) {
  std::atomic<int> ready{0}, failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_total; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < thread_total) std::this_thread::yield();
      try {
        if (!work(t)) ++failures;
      } catch (...) { ++failures; }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}
bool all_are(const Tensor& x, float value) {
  std::vector<float> data = to_vector<float>(x);
  return std::all_of(data.begin(), data.end(), [&](float v) { return v == value; });
}
bool all_are_equal(const Tensor& x) { return all_are(x, to_vector<float>(x).front()); }
}  // namespace

TEST_CASE("stress: threads compile and call the same and different functions while caches are reset", "[stress]") {
  auto shared = jit::compile([](Tensor x, Scalar s) { return sum(x * s) + x; });
  auto kept = jit::compile([](Tensor x) { return x + 1; }, {.mode = jit::Mode::reduce_overhead});
  CHECK(failures_of([&](int t) {
          bool ok = true;
          auto own = jit::compile([t](Tensor x) { return x * (t + 2); });
          Tensor held = kept(full({8}, static_cast<float>(t)));
          for (int i = 0; i < 12; ++i) {
            const int n = 2 + (i + t) % 3;
            Tensor x = full({n}, 2.f);
            ok &= all_are(shared(x, static_cast<float>(i)), static_cast<float>(2 * n * i + 2));
            ok &= all_are(own(x), static_cast<float>(2 * (t + 2)));
            ok &= all_are(kept(full({8}, 100.f)), 101);
            ok &= all_are(Tensor(exp(x * 0.f) + x), 3);  // lazy
            if (t == 0 && i % 4 == 3) jit::reset();
            if (t == 1 && i % 4 == 1) shared.reset();
          }
          return ok && all_are(held, static_cast<float>(t) + 1);
        }) == 0);
  CHECK(kept.stats().calls >= thread_total);
}

TEST_CASE("stress: Variables are read while others write them in place", "[stress]") {
  for (std::string backend : {"", "reference"}) {
    INFO("back end '" << backend << "'");
    Variable w(zeros({2048})), other(ones({2048}));
    auto step = jit::compile([=](Tensor g) { w += g, other -= g; }, {.backend = backend});
    auto read = jit::compile([=](Tensor x) { return x + w; }, {.backend = backend});
    Tensor one = ones({2048}), zero = zeros({2048});
    eval(one);
    eval(zero);
    CHECK(failures_of([&](int t) {
            bool ok = true;
            for (int i = 0; i < 20; ++i) {
              if (t < 2) step(one);
              else if (t == 2) w.set(full({2048}, static_cast<float>(i)));
              else if (t < 8) ok &= all_are_equal(read(zero));
              else if (t < 12) ok &= all_are_equal(w.value());
              else ok &= all_are_equal(Tensor(w + 1.f));
            }
            return ok;
          }) == 0);
    CHECK(all_are_equal(other));
    CHECK(to_vector<float>(other).front() <= 0);
  }
}

TEST_CASE("stress: one thread counts in a Variable, the others see it grow", "[stress]") {
  Variable counter(zeros({64}));
  auto step = jit::compile([](const Variable& v) { v += 1; });
  auto read = jit::compile([](const Variable& v, Tensor x) { return v + x; });
  Tensor zero = zeros({64});
  eval(zero);
  CHECK(failures_of([&](int t) {
          bool ok = true;
          float last = 0;
          for (int i = 0; i < 50; ++i) {
            if (t == 0) {
              step(counter);
              continue;
            }
            Tensor now = t % 2 == 0 ? read(counter, zero) : counter.value();
            float value = to_vector<float>(now).front();
            ok &= all_are(now, value) && value >= last;
            last = value;
          }
          return ok;
        }) == 0);
  CHECK(all_are(counter.value(), 50));
}

TEST_CASE("stress: results go to another thread and come back for reuse", "[stress]") {
  auto f = jit::compile([](Tensor x) { return x * 2; }, {.mode = jit::Mode::reduce_overhead});
  std::atomic<bool> is_done{false}, is_full{false};
  Tensor box;
  int wrong = 0;
  std::thread consumer([&] {
    float expected = 0;
    while (!is_done || is_full) {
      if (!is_full.load(std::memory_order_acquire)) {
        std::this_thread::yield();
        continue;
      }
      Tensor got = std::move(box);
      is_full.store(false, std::memory_order_release);
      wrong += !all_are(got, expected);
      expected += 2;
    }
  });
  for (int i = 0; i < 200; ++i) {
    Tensor y = f(full({256}, static_cast<float>(i)));
    while (is_full.load(std::memory_order_acquire)) std::this_thread::yield();
    box = std::move(y);
    is_full.store(true, std::memory_order_release);
  }
  while (is_full) std::this_thread::yield();
  is_done = true;
  consumer.join();
  CHECK(wrong == 0);
}
