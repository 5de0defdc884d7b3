// Calls of Tensors alone take a short way (jit/call/quick_call.hpp). It must be left for whatever the long way asks,
// and nobody may see which of the two a call took.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <chrono>
#include <initializer_list>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

constexpr auto multiply_add = [](Tensor x, Tensor y, Tensor z) { return x * y + z; };

Tensor ready(Tensor x) {
  eval(x);
  return x;
}
Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

}  // namespace

TEST_CASE("quick calls: results are of this call, and nobody else's") {
  auto f = jit::compile(multiply_add);
  const Tensor x = vec({1, 2, 3}), y = vec({4, 5, 6}), z = vec({7, 8, 9});
  std::vector<Tensor> kept;
  for (int i = 0; i < 20; ++i) kept.push_back(f(x, y, z));
  std::set<const float*> places;
  for (const Tensor& each : kept) {
    CHECK(floats(each) == std::vector<float>{11, 18, 27});
    places.insert(each.data<float>().data());
  }
  CHECK(places.size() == kept.size());
  CHECK(f.stats().calls == 20);
  CHECK(f.stats().compiles == 1);
  CHECK(floats(f(x, x, x)) == std::vector<float>{2, 6, 12});  // one value in three places
  CHECK(floats(f(y, x, vec({0, 0, 0}))) == std::vector<float>{4, 10, 18});
}

TEST_CASE("quick calls: arguments of another kind are told apart") {
  auto f = jit::compile(multiply_add);
  const Tensor x = vec({1, 2}), y = vec({3, 4}), z = vec({5, 6});
  const std::vector<float> expected{8, 14};
  for (int i = 0; i < 5; ++i) CHECK(floats(f(x, y, z)) == expected);
  CHECK(floats(f(x, y, z + 1)) == std::vector<float>{9, 15});  // pending
  CHECK(floats(f(x, y, ready(tensor({{5.f, 0.f}, {6.f, 0.f}}))(all, 0))) == expected);
  CHECK(floats(f(x, y, vec({5}))) == std::vector<float>{8, 13});
  CHECK(f(x, y, tensor({5., 6.})).dtype() == DType::f64);
  CHECK(f(tensor({1, 2}), tensor({3, 4}), tensor({5, 6})).dtype() == DType::i32);
  CHECK(floats(f(vec({1, 2, 3}), vec({1, 2, 3}), vec({1, 2, 3}))) == std::vector<float>{2, 6, 12});
  CHECK(floats(f(x, y, z)) == expected);
  Tensor given = vec({1, 2});
  const float* place = given.data<float>().data();
  const Tensor taken = f(std::move(given), y, z);  // donated
  CHECK(floats(taken) == expected);
  CHECK(taken.data<float>().data() == place);
}

TEST_CASE("quick calls: what is on the tape stays on it") {
  auto f = jit::compile(multiply_add);
  const Variable w(vec({2, 3}));
  const Tensor x = vec({1, 2}), z = vec({5, 6});
  for (int i = 0; i < 5; ++i) CHECK(floats(f(x, x, z)) == std::vector<float>{6, 10});
  w.requires_grad();
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    const Tensor y = ready(w * 2);
    Tensor loss = sum(f(x, y, z));
    loss.backward();
    CHECK(floats(w.grad()) == std::vector<float>{2, 4});
    CHECK(floats(f(x, x, z)) == std::vector<float>{6, 10});
  }
  const Tensor y = ready(w * 2);
  const jit::NoGradGuard guard;
  CHECK(floats(f(x, y, z)) == std::vector<float>{9, 18});
}

TEST_CASE("quick calls: captured values are checked when it is due") {
  float factor = 2;
  auto f = jit::compile([&factor](Tensor x) { return x * factor; });
  const Tensor x = vec({1, 2});
  CHECK(floats(f(x)) == std::vector<float>{2, 4});
  factor = 3;
  CHECK(blame_of<TraceError>([&] { f(x); }).op == "compile");
  CHECK(blame_of<TraceError>([&] { f(x); }).op == "compile");  // and again
  factor = 2;
  CHECK(floats(f(x)) == std::vector<float>{2, 4});
}

TEST_CASE("quick calls: several results, frozen functions, stances, memory that is kept") {
  const auto both = [](Tensor x, Tensor y) { return std::tuple<Tensor, Tensor>(x + y, x * y); };
  auto f = jit::compile(both);
  auto keeping = jit::compile(both, {.mode = jit::Mode::reduce_overhead});
  const Tensor x = vec({1, 2}), y = vec({3, 4});
  const auto check = [&](auto& g) {
    const auto [added, multiplied] = g(x, y);
    CHECK(floats(added) == std::vector<float>{4, 6});
    CHECK(floats(multiplied) == std::vector<float>{3, 8});
  };
  for (int i = 0; i < 5; ++i) {
    check(f);
    check(keeping);
  }
  f.freeze();
  check(f);
  CHECK_THROWS_AS(f(x, tensor({3., 4.})), RecompileError);
  f.unfreeze();
  {
    const jit::StanceGuard eager(jit::Stance::force_eager);
    check(f);
  }
  f.reset();
  check(f);
  jit::reset();
  check(f);
  auto outer = jit::compile([&](Tensor a, Tensor b) {  // a part of the trace around it
    const auto [added, multiplied] = f(a, b);
    return added - multiplied;
  });
  CHECK(floats(outer(x, y)) == std::vector<float>{1, -2});
}

TEST_CASE("quick calls: an index that is out of range leaves the function as it was") {
  auto f = jit::compile([](Tensor x, Tensor i) { return take(x, i, 0) * 2; });
  const Tensor x = vec({1, 2, 3}), good = ready(tensor({2, 0})), bad = ready(tensor({2, 5}));
  for (int i = 0; i < 5; ++i) {
    CHECK(floats(f(x, good)) == std::vector<float>{6, 2});
    CHECK_THROWS_AS(f(x, bad), IndexError);
  }
  CHECK(floats(f(x, good)) == std::vector<float>{6, 2});
}

TEST_CASE("quick calls: from several threads, while versions are dropped") {
  auto f = jit::compile(multiply_add);
  std::atomic<bool> goes_on{true};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const auto value = static_cast<float>(t);
      const Tensor x = vec({value, 1}), y = vec({2, value}), z = vec({1, 1});
      const std::vector<float> expected{2 * value + 1, value + 1};
      while (goes_on) wrong += floats(f(x, y, z)) != expected;
    });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    f.reset();
  }
  goes_on = false;
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}
