// Calls with places of functions whose results would be on the tape: they have versions of their own, which are not
// taken for others, and which count as first ones of their kind.
#include "compiled_gradient_cases.hpp"

#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using namespace sinter_test::gradient_cases;

namespace {

struct Places {
  std::vector<float> memory = std::vector<float>(2);
  BorrowedMut borrowed() { return borrow_mut(memory.data(), {2}); }
};

}  // namespace

TEST_CASE("places and gradients: what went into memory does not run uncompiled where no gradient is wanted") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto scaled = jit::disable([&](const Tensor& t) { return Tensor(w * t); });
  auto f = jit::compile([&](Tensor x) { return Tensor(scaled(x) + 1); });
  Places places;
  const Tensor x = vec({3, 4});
  f.into(places.borrowed())(x);
  CHECK(places.memory == std::vector<float>{4, 9});
  const jit::NoGradGuard guard;
  const auto before = f.stats().eager_calls;
  for (int i = 0; i < 3; ++i) CHECK(floats(f(x)) == std::vector<float>{4, 9});
  CHECK(f.stats().eager_calls == before);
}

TEST_CASE("places and gradients: a thread warms up a frozen function that has a version for places alone") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return w * x; });
  Places places;
  const Tensor x = vec({3, 4});
  f.into(places.borrowed())(x);
  f.freeze();
  std::string problem;
  std::thread([&] {
    try {
      f.warm_up(x);
      f.into(places.borrowed())(x);
    } catch (const Error& error) { problem = error.what(); }
  }).join();
  CHECK(problem == "");
  CHECK(places.memory == std::vector<float>{3, 8});
  CHECK_THROWS_AS(f.warm_up(vec({1, 2, 3})), RecompileError);
}

TEST_CASE("places and gradients: a version for each kind of arguments is no recompile") {
  Variable w(ones({2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) { return w * x; }, {.dynamic = jit::Dynamic::never});
  for (std::int64_t n = 2; n <= 8; ++n) f.warm_up(zeros({n, 2}));
  CHECK(f.stats().recompiles == 6);
  CHECK(f.stats().compiles == 14);
}

TEST_CASE("places and gradients: a hook that the function itself registers is part of its code") {
  Variable w(vec({1, 2}));
  w.requires_grad();
  auto f = jit::compile([&](Tensor x) {
    w.zero_grad();
    auto hook = w.register_hook([](const Tensor& g) { return g * 2; });
    Tensor loss = sum(w * x);
    loss.backward();
    hook.remove();
    return Tensor(w.grad() * 1);
  });
  for (int i = 0; i < 20; ++i) CHECK(floats(f(vec({3, 4}))) == std::vector<float>{6, 8});
  CHECK(f.stats().recompiles == 0);
}
