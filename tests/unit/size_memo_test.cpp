// A thread remembers the sizes it used last with a dynamic version: repeated, changing and wrong sizes, layouts,
// Variables.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

using namespace sinter;

TEST_CASE("dynamic versions: sizes that repeat, change and do not fit") {
  auto f = jit::compile([](Tensor x, Tensor y) { return x * 2 + y; }, {.dynamic = jit::Dynamic::always});
  for (int n : {4, 4, 4, 5, 5, 4, 5, 6, 6, 6, 4})
    CHECK(floats(f(ones({n, 3}), full({n, 3}, n))) ==
          std::vector<float>(static_cast<std::size_t>(3 * n), 2.f + static_cast<float>(n)));
  CHECK(f.stats().compiles == 1);
  CHECK_THROWS_AS(f(ones({4, 3}), ones({5, 3})), ShapeError);
  CHECK_THROWS_AS(f(ones({4, 3}), ones({4, 2})), ShapeError);
  CHECK(floats(f(ones({4, 3}), ones({4, 3})))[0] == 3);
  // The same extents in another layout, dtype and rank are other versions, and right.
  Tensor turned = transpose(reshape(arange(12).to(DType::f32), {3, 4}), 0, 1);
  eval(turned);
  for (int i = 0; i < 3; ++i) CHECK(floats(f(turned, ones({4, 3})))[1] == 9);
  CHECK(f(ones({4, 3}, {.dtype = DType::f64}), ones({4, 3})).dtype() == DType::f64);
  CHECK(floats(f(ones({4}), ones({4}))) == std::vector<float>(4, 3.f));
  CHECK(floats(f(ones({4, 3}), ones({4, 3}))) == std::vector<float>(12, 3.f));
}

TEST_CASE("dynamic versions: Variables that are the same one, and a warm-up") {
  auto f =
      jit::compile([](Variable a, Variable b, Tensor x) { return (a + b) * x; }, {.dynamic = jit::Dynamic::always});
  Variable a(ones({3})), b(full({3}, 2));
  f.warm_up(a, b, ones({3}));
  for (int i = 0; i < 3; ++i) CHECK(floats(f(a, b, ones({3}))) == std::vector<float>(3, 3.f));
  CHECK(floats(f(a, a, ones({3}))) == std::vector<float>(3, 2.f));
  CHECK(f.stats().compiles == 2);
  CHECK(floats(f(a, b, full({3}, 2))) == std::vector<float>(3, 6.f));
}
