// Const access to one handle from several threads: reading elements, recording a named expression, finding lines. What
// the thread sanitizer sees here, it sees for every reader.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
/// Calls `work(number of the thread)` on three threads that start together; true if all calls return true.
template <class F>
bool on_threads(F&& work) {
  std::atomic<int> ready{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < 3) std::this_thread::yield();
      try {
        wrong += !work(t);
      } catch (...) { ++wrong; }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong == 0;
}
}  // namespace

TEST_CASE("const access: elements of a strided value", "[threads]") {
  for (int round = 0; round < 50; ++round) {
    const Tensor x = eval(reshape(arange(6, {.dtype = DType::f32}), {2, 3}) + 0);
    const Tensor strided = x.t();
    eval(strided);
    std::array<const float*, 3> first{};
    CHECK(on_threads([&](int t) {
      const std::span<const float> elements = strided.data<float>();
      first[static_cast<std::size_t>(t)] = elements.data();
      return std::vector<float>(elements.begin(), elements.end()) == std::vector<float>{0, 3, 1, 4, 2, 5};
    }));
    CHECK((first[0] == first[1] && first[1] == first[2]));  // one copy, as long as the handle keeps its value
  }
}

TEST_CASE("const access: elements of a strided value stay when copies of the handle come and go") {
  Tensor strided = reshape(arange(6, {.dtype = DType::f32}), {2, 3}).t();
  const std::span<const float> elements = strided.data<float>();
  {
    const Tensor copy = strided;
    CHECK(copy.data<float>().data() == elements.data());
  }
  const Tensor sum_of_it = eval(strided + 1);
  CHECK(std::vector<float>(elements.begin(), elements.end()) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(to_vector<float>(sum_of_it) == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_AS(strided.data<double>(), DTypeError);
}

TEST_CASE("const access: marks and a copy of the elements live side by side") {
  Tensor x = reshape(arange(6, {.dtype = DType::f32}), {2, 3}).t();
  jit::mark_dynamic(x, 0);
  CHECK(x.data<float>()[1] == 3);
  auto f = jit::compile([](Tensor a) { return a * 2; });
  CHECK(to_vector<float>(f(x)) == std::vector<float>{0, 6, 2, 8, 4, 10});
  CHECK(x.data<float>()[1] == 3);
}

TEST_CASE("const access: a pending value", "[threads]") {
  for (int round = 0; round < 50; ++round) {
    const Tensor a = full({64}, round);
    const Tensor x = a * 2 + 1, y = sum(x);
    CHECK(on_threads([&](int t) {
      if (t == 0) return x.data<float>()[5] == 2 * round + 1;
      if (t == 1) return item<float>(In(y, Location())) == 64 * (2 * round + 1);
      return static_cast<double>(Scalar(item(y)).number(Location())) == 64 * (2 * round + 1);
    }));
  }
}

TEST_CASE("const access: a named expression is recorded once", "[threads]") {
  for (int round = 0; round < 50; ++round) {
    const Tensor a = full({16}, round), b = full({16}, 2);
    const auto e = a * b + 1;
    CHECK(on_threads([&](int t) {
      if (t == 0) return item<float>(sum(e * e)) == 16.f * (2 * round + 1) * (2 * round + 1);
      if (t == 1) {
        const auto copy = e;
        return item<float>(sum(copy)) == 16.f * (2 * round + 1);
      }
      const Tensor value = e;
      return to_vector<float>(value)[7] == 2.f * round + 1;
    }));
    CHECK(is_same(Tensor(e), Tensor(e)));
  }
}

TEST_CASE("a named expression that a compiled function captures belongs to each trace anew") {
  const Tensor a = full({4}, 3);
  auto e = a * 2;
  auto f = jit::compile([&](Tensor x) { return x + e * e; });
  CHECK(to_vector<float>(f(ones({4}))) == std::vector<float>(4, 37));
  CHECK(to_vector<float>(f(ones({4}))) == std::vector<float>(4, 37));
  CHECK(item<float>(sum(f(full({2, 4}, 1)))) == 8 * 37);  // another trace
  CHECK(to_vector<float>(Tensor(e)) == std::vector<float>(4, 6));
  CHECK(to_vector<float>(f(ones({4}))) == std::vector<float>(4, 37));
  const auto moved = std::move(e) + 1;
  CHECK(to_vector<float>(Tensor(moved)) == std::vector<float>(4, 7));
}
