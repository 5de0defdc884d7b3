// What each setting of a scope does to the functions that are called in it; configure_test.cpp has the scopes themselves.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <functional>
#include <string_view>

using namespace sinter;

namespace {
/// Takes the lines of the log, and drops them.
struct Quiet {
  std::function<void(std::string_view, std::string_view)> before = Context::get().sink;
  Quiet() {
    Context::get().sink = [](std::string_view, std::string_view) {};
  }
  ~Quiet() { Context::get().sink = before; }
};
}  // namespace

TEST_CASE("scope: mode, precision, dynamic extents, breaks, recompilations, budget") {
  const Tensor x = ones({4, 4});
  auto f = jit::compile([](Tensor a) { return matmul(exp(a), a) + 1; });
  f(x);
  {
    auto scope = jit::scope("s", {.matmul_precision = MatmulPrecision::tf32});
    CHECK(has(f.explain(x).text(), "products of f32 matrices in tf32"));
    auto inner = jit::scope("exact", {.matmul_precision = MatmulPrecision::f32});
    CHECK_FALSE(has(f.explain(x).text(), "products of f32 matrices in tf32"));
  }
  {
    auto scope = jit::scope("s", {.mode = jit::Mode::reduce_overhead});
    const void* first = f(x).impl()->data();
    CHECK(f(x).impl()->data() == first);  // results keep their memory
  }
  auto g = jit::compile([](Tensor a) { return a * 2; });
  {
    auto scope = jit::scope("s", {.dynamic = jit::Dynamic::always});
    for (int n : {3, 4, 5}) g(ones({n}));
    CHECK(g.stats().compiles == 1);
  }
  {
    auto scope = jit::scope("s", {.dynamic = jit::Dynamic::never, .recompile_limit = 1});
    const Quiet quiet;
    for (int n : {3, 4, 5, 6}) g(ones({n}));
    CHECK(g.stats().compiles == 2);
    CHECK(g.stats().eager_calls == 2);
  }
  auto reads = jit::compile([](Tensor a) { return item(sum(a)) > 0 ? Tensor(a + 1) : Tensor(a - 1); });
  {
    auto scope = jit::scope("s", {.fullgraph = true});
    CHECK_THROWS_AS(reads(x), TraceError);
  }
  CHECK(floats(reads(x))[0] == 2);
}

TEST_CASE("scope: a budget, in the place of the function's own") {
  const auto loss = [](Tensor a, Tensor w) {
    Tensor h = a;
    for (int i = 0; i < 6; ++i) h = tanh(matmul(h, w));
    return sum(h * h);
  };
  auto f = jit::compile(jit::value_and_grad<1>(loss));
  const Tensor x = full({128, 16}, 0.25f), w = full({16, 16}, 0.125f);
  const auto [value, slope] = f(x, w);
  const std::int64_t peak = f.stats().peak_bytes;
  {
    auto scope = jit::scope("small", {.memory_budget = peak * 3 / 4});
    const auto [again, same] = f(x, w);
    CHECK(f.stats().peak_bytes <= peak * 3 / 4);
    CHECK(floats(again) == floats(value));
    CHECK(floats(same) == floats(slope));
    auto tight = jit::scope("tight", {.memory_budget = 100});
    CHECK_THROWS_WITH(f(x, w), Catch::Contains("memory_budget is 100 bytes") && Catch::Contains("give at least"));
  }
  CHECK(f.stats().peak_bytes == peak);
}
