// Results that hold a Dim follow the extents of each call; the eager back end runs composite operations inside of loop
// bodies.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <utility>

using namespace sinter;

namespace {
struct Sized {
  Tensor values;
  Dim count;
};
std::string text(const Dim& dim) { return dim.text(); }
}  // namespace

TEST_CASE("a Dim in a result is that of the call, whatever sizes came before") {
  auto alone = jit::compile([](Tensor x) { return x.size(0); });
  auto pair = jit::compile([](Tensor x) { return std::pair(x * 2, x.size(0) * 2 + 1); });
  auto in_struct = jit::compile([](Tensor x) { return Sized{x * 2, x.size(0)}; }, {.dynamic = jit::Dynamic::always});
  auto after_read = jit::compile([](Tensor x) { return Sized{item<float>(sum(x)) > 0 ? x * 2 : x, x.size(0)}; });
  for (int n : {3, 4, 5, 6, 4, 3}) {
    const Tensor x = ones({n});
    CHECK(text(alone(x)) == std::to_string(n));
    CHECK(text(pair(x).second) == std::to_string(2 * n + 1));
    CHECK(text(in_struct(x).count) == std::to_string(n));
    CHECK(text(after_read(x).count) == std::to_string(n));
    CHECK(floats(in_struct(x).values) == std::vector<float>(static_cast<std::size_t>(n), 2));
  }
  CHECK(alone.stats().compiles == 2);  // no size is guarded because it is returned
  CHECK(in_struct.stats().compiles == 1);
  auto gradient = jit::compile([](Tensor x) {
    return jit::value_and_grad([](Tensor y) { return std::pair(Tensor(sum(y * y)), y.size(0)); })(x).first.second;
  });
  for (int n : {3, 4, 5}) CHECK(text(gradient(ones({n}))) == std::to_string(n));
}

TEST_CASE("the eager back end takes composites inside of bodies") {
  const Tensor x = arange(5).to(DType::f32);
  for (const char* backend : {"", "eager", "aot_eager"}) {
    auto rolled =
        jit::compile([](Tensor v) { return jit::fori_loop(0, 3, [](auto, Tensor c) { return roll(c, 1, 0); }, v); },
                     {.backend = backend});
    CHECK(floats(rolled(x)) == std::vector<float>{2, 3, 4, 0, 1});
    auto nested = jit::compile(
        [](Tensor v) {
          return jit::fori_loop(
              0, 2,
              [](auto, Tensor c) {
                return jit::cond(sum(c) > 0.0, [&] { return softmax(c, 0); }, [&] { return pad(c, {{0, 0}}); });
              },
              v);
        },
        {.backend = backend});
    CHECK(near(doubles(nested(x)), doubles(softmax(softmax(x, 0), 0)), 1e-6));
    auto region =
        jit::compile([](Tensor v) { return jit::region([](Tensor u) { return concat({softmax(u, 0), u}, 0); })(v); },
                     {.backend = backend});
    CHECK(floats(region(x))[9] == 4);
  }
}

TEST_CASE("dims: an extent that is 1 is stretched, also where its symbol is a quotient of another one") {
  const Tensor a = arange(7).to(DType::f32), x = arange(4).to(DType::f32) + 1, y = arange(7).to(DType::f32) * 10;
  auto body = [](Tensor a, Tensor x, Tensor y) {
    Tensor products = a(slice({}, {}, 2)) * x;           // (extent of a + 1) / 2 is that of x
    Tensor column = softmax(unfold(x, 0, 3, 2).t(), 0);  // [3, 1] for 3 and 4 elements of x
    return std::tuple{products, Tensor(column + y), sum(column + y, -1)};
  };
  const auto [products, sums, rows] = body(a, x, y);
  for (const bool fuse : {true, false}) {
    auto f = jit::compile(body, {.dynamic = jit::Dynamic::always, .fuse = fuse});
    const auto [p, q, r] = f(a, x, y);
    CHECK(allclose(p, products));
    CHECK(allclose(q, sums));
    CHECK(allclose(r, rows));
    const Tensor b = arange(9).to(DType::f32), z = arange(5).to(DType::f32);
    CHECK(allclose(std::get<0>(f(b, z, ones({2}))), std::get<0>(body(b, z, ones({2})))));  // two columns beside two
  }
}
