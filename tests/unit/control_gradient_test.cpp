// Derivatives of control flow against finite differences and unrolled loops; nesting; effects and Variables in bodies.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace sinter;

namespace {
using Doubles = std::vector<double>;
const struct {  // on the default device of the moment
  operator TensorOptions() const { return {.dtype = DType::f64}; }
} f64;
Tensor some(const Shape& shape, int seed) {
  return sin(arange(shape.numel(), {.dtype = DType::f64}) * 1.7 + static_cast<double>(seed)).reshape(shape);
}

/// The gradient of f at x, by central differences.
template <class F>
Doubles differences(const F& f, const Tensor& x) {
  Doubles values = to_vector<double>(x), gradient;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double step = 1e-5;
    auto at = [&](double delta) {
      Doubles moved = values;
      moved[i] += delta;
      return item<double>(f(copy_of(moved, x.shape())));
    };
    gradient.push_back((at(step) - at(-step)) / (2 * step));
  }
  return gradient;
}
void check_close(const Doubles& got, const Doubles& want, double tolerance = 1e-7) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(tolerance));
}
template <class F>
void check_gradient(const F& f, const Tensor& x) {
  const Doubles want = differences(f, x);
  check_close(to_vector<double>(jit::grad(f)(x)), want);
  auto compiled = jit::compile(jit::grad(f));
  check_close(to_vector<double>(compiled(x)), want);
  check_close(to_vector<double>(compiled(x)), want);
}
}  // namespace

TEST_CASE("cond and switch_: the gradient is that of the branch taken") {
  Tensor w = some({4}, 3);
  auto f = [&](Tensor x) {
    Tensor y = jit::cond(sum(x) > 0, [&](Tensor a) { return sin(a) * w; }, [](Tensor a) { return a * a * a; }, x);
    return sum(y * y);
  };
  check_gradient(f, some({4}, 1));
  check_gradient(f, -some({4}, 1));
  auto g = [&](Tensor x) {
    auto [a, b] = jit::switch_(
        2,
        std::tuple{[](Tensor t) { return std::tuple{t, t}; }, [](Tensor t) { return std::tuple{t, t * 2}; },
                   [&](Tensor t) { return std::tuple{exp(t) * w, Tensor(w)}; }},
        x);
    return sum(a * b);
  };
  check_gradient(g, some({4}, 2));
}

TEST_CASE("scan: gradients by the initial carry, the xs and what the body captures") {
  Tensor xs = some({5, 3}, 1), w = some({3, 3}, 2), init = some({1, 3}, 3);
  auto run = [](Tensor i, Tensor matrix, Tensor slices) {
    auto [h, ys] = jit::scan(
        [&](Tensor c, Tensor x) {
          Tensor next = tanh(matmul(c, matrix) + x);
          return std::tuple{next, sum(next * next)};
        },
        i, slices);
    return sum(h) + sum(ys * ys);
  };
  check_gradient([&](Tensor t) { return run(t, w, xs); }, init);
  check_gradient([&](Tensor t) { return run(init, t, xs); }, w);
  check_gradient([&](Tensor t) { return run(init, w, t); }, xs);
  auto unrolled = [&](Tensor matrix) {
    Tensor c = init, total = zeros({}, f64);
    for (int k = 0; k < 5; ++k) {
      c = tanh(matmul(c, matrix) + xs(k));
      total = total + square(sum(c * c));
    }
    return sum(c) + total;
  };
  check_close(to_vector<double>(jit::grad([&](Tensor t) { return run(init, t, xs); })(w)),
              to_vector<double>(jit::grad(unrolled)(w)), 1e-12);
}

TEST_CASE("scan: in reverse, with integer carries, and with captured values that need no gradient") {
  Tensor xs = some({4, 2}, 1);
  auto f = [&](Tensor x) {
    auto [state, ys] = jit::scan(
        [&](std::tuple<Tensor, Scalar> c, std::tuple<Tensor, Tensor> slice) {
          auto [value, k] = c;
          auto [a, n] = slice;
          return std::tuple{std::tuple{value * a + x * k, k + 1}, value * n};
        },
        std::tuple{x, 1}, std::tuple{xs, arange(4)}, {.reverse = true});
    return sum(std::get<0>(state)) + sum(ys);
  };
  check_gradient(f, some({2}, 5));
}

TEST_CASE("fori_loop: differentiable with static bounds") {
  auto f = [](Tensor x) { return sum(jit::fori_loop(1, 4, [](Scalar k, Tensor c) { return sin(c) * k; }, x)); };
  check_gradient(f, some({3}, 1));
}

TEST_CASE("while_loop: no gradient in reverse mode, and none needed where it does not matter") {
  auto f = [](Tensor x) {
    return sum(jit::while_loop([](Tensor y) { return sum(y) < 10; }, [](Tensor y) { return y * 2; }, x));
  };
  try {
    jit::grad(f)(ones({2}));
    FAIL("an error was expected");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()).find("no gradient in reverse mode") != std::string::npos);
    CHECK(std::string(error.what()).find("fori_loop with fixed bounds") != std::string::npos);
  }
  auto g = [&](Tensor x) { return sum(x * x) * stop_gradient(f(x)); };
  CHECK(to_vector<float>(jit::grad(g)(ones({2}))) == std::vector<float>{32, 32});
}

TEST_CASE("control flow nests, and has second derivatives") {
  auto f = [](Tensor x) {
    Tensor y = jit::fori_loop(
        0, 3,
        [](Scalar k, Tensor c) {
          return jit::cond(
              sum(c) > 0.5, [&](Tensor t) { return sin(t) * (k + 1); },
              [](Tensor t) {
                return jit::scan([](Tensor s, Tensor e) { return std::tuple{s * e, std::tuple{}}; }, t, t).first + t;
              },
              c);
        },
        x);
    return sum(y * y);
  };
  check_gradient(f, some({3}, 1));
  check_gradient(f, some({3}, 4));
  auto second = [&](Tensor x) { return sum(square(jit::grad(f)(x))); };
  check_gradient(second, some({3}, 1));
}

TEST_CASE("a gradient inside a body, and Variables read there") {
  Variable w(some({3}, 2));
  auto descend = [&](Tensor x) {
    return jit::fori_loop(
        0, 20,
        [&](Scalar, Tensor at) { return at - 0.1 * jit::grad([&](Tensor t) { return sum(square(t - w)); })(at); }, x);
  };
  auto compiled = jit::compile(descend);
  Doubles want = to_vector<double>(w.value());
  for (double& v : want) v *= 1 - std::pow(0.8, 20);
  check_close(to_vector<double>(compiled(zeros({3}, f64))), want);
  check_close(to_vector<double>(descend(zeros({3}, f64))), want);
  w.set(w.value() * 2);
  for (double& v : want) v *= 2;
  check_close(to_vector<double>(compiled(zeros({3}, f64))), want);
}

TEST_CASE("dynamic extents in bodies, with gradients") {
  auto f = [](Tensor x) {
    auto [c, ys] = jit::scan([](Tensor total, Tensor row) { return std::tuple{total + row * row, total * row}; },
                             zeros({x.size(1)}, f64), x);
    return sum(c) + sum(ys);
  };
  auto compiled = jit::compile(jit::grad(f), {.dynamic = jit::Dynamic::always});
  for (const Shape& shape : {Shape{3, 2}, Shape{5, 4}, Shape{2, 7}}) {
    Tensor x = some(shape, 1);
    check_close(to_vector<double>(compiled(x)), differences(f, x));
  }
  CHECK(compiled.stats().compiles == 1);
}

TEST_CASE("only what is read of a loop is kept") {
  auto f = jit::compile([](Tensor x) {
    auto [c, ys] = jit::scan([](Tensor t, Tensor e) { return std::tuple{t + e, t * e}; }, zeros({3}), x);
    return c;
  });
  const std::string text = f.explain(ones({4, 3})).text();
  CHECK(text.find("scan") != std::string::npos);
  const std::string optimised = text.substr(text.rfind("= scan(") == std::string::npos ? 0 : text.rfind("= scan("));
  CHECK(optimised.find("f32[4, 3] = scan") == std::string::npos);
}

TEST_CASE("forward mode goes through control flow") {
  Tensor w = some({3, 3}, 2), xs = some({4, 3}, 3);
  auto f = [&](Tensor x) {
    auto [h, ys] = jit::scan(
        [&](Tensor c, Tensor e) {
          Tensor next =
              jit::cond(
                  sum(c) > 0, [&](Tensor t) { return tanh(matmul(t, w)); }, [](Tensor t) { return sin(t); }, c) +
              e;
          return std::tuple{next, sum(next)};
        },
        x, xs);
    return sum(h * h) + sum(ys * ys);
  };
  Tensor x = some({1, 3}, 1), v = some({1, 3}, 5);
  auto [value, tangent] = jit::jvp(f, x, v);
  const Doubles gradient = differences(f, x), direction = to_vector<double>(v);
  double want = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) want += gradient[i] * direction[i];
  CHECK(item<double>(tangent) == Approx(want).margin(1e-7));
  CHECK(item<double>(value) == Approx(item<double>(f(x))));
}

TEST_CASE("vmap goes through control flow, with a way of its own for each example") {
  auto check = [](auto f, const Tensor& x) {
    auto mapped = jit::vmap(f);
    const Doubles together = to_vector<double>(mapped(x)), compiled = to_vector<double>(jit::compile(mapped)(x));
    Doubles alone;
    for (int i = 0; i < 5; ++i)
      for (double v : to_vector<double>(f(Tensor(x(i))))) alone.push_back(v);
    check_close(together, alone, 1e-12);
    check_close(compiled, alone, 1e-12);
  };
  Tensor x = some({5, 3}, 1), w = some({3}, 2);
  check(
      [&](Tensor t) { return jit::cond(sum(t) > 0, [&](Tensor a) { return a * w; }, [](Tensor a) { return -a; }, t); },
      x);
  check(
      [&](Tensor t) {
        return jit::cond(sum(w) > 0, [&](Tensor a) { return a * w; }, [&](Tensor) { return w + 0; }, t);
      },
      x);
  check(
      [](Tensor t) {
        return jit::while_loop([](Tensor a) { return sum(a * a) < 50; }, [](Tensor a) { return a * 2; }, t);
      },
      x);
  check(
      [](Tensor t) {
        return std::get<0>(jit::while_loop([](Tensor, Tensor k) { return k < 3; },
                                           [](Tensor a, Tensor k) { return std::tuple{a * 2, k + 1}; }, t,
                                           zeros({}, f64)));
      },
      x);
  check(
      [&](Tensor t) {
        auto [c, ys] = jit::scan([&](Tensor total, Tensor e) { return std::tuple{total * 0.5 + e * w, total + e}; },
                                 zeros({3}, f64), t);
        return c + sum(ys, 0);
      },
      x);
  check([&](Tensor t) { return jit::fori_loop(0, 3, [&](Scalar k, Tensor a) { return a * w + k; }, t); }, x);
  check(
      [&](Tensor t) {
        return jit::grad([&](Tensor a) {
          return sum(jit::fori_loop(0, 3, [&](Scalar k, Tensor b) { return sin(b) * w + k; }, a));
        })(t);
      },
      x);
}

TEST_CASE("while_loop has derivatives in forward mode, alone and inside other control flow") {
  Tensor w = some({3}, 2), x = some({3}, 1), v = some({3}, 5);
  auto check = [&](auto f) {
    const Doubles gradient = differences(f, x), direction = to_vector<double>(v);
    double want = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) want += gradient[i] * direction[i];
    CHECK(item<double>(jit::jvp(f, x, v).second) == Approx(want).margin(1e-7));
    auto compiled = jit::compile([&](Tensor at, Tensor along) { return jit::jvp(f, at, along); });
    CHECK(item<double>(compiled(x, v).second) == Approx(want).margin(1e-7));
  };
  auto loop = [&](Tensor start, Tensor scale) {
    return std::get<0>(jit::while_loop([](Tensor, Tensor k) { return k < 4; },
                                       [&](Tensor t, Tensor k) { return std::tuple{sin(t) * scale + t, k + 1}; }, start,
                                       zeros({}, {.dtype = DType::i64})));
  };
  check([&](Tensor t) { return sum(square(loop(t, w))); });
  check([&](Tensor t) { return sum(square(loop(w, t))); });
  check([&](Tensor t) { return sum(square(loop(t, t * t))); });
  check([&](Tensor t) {
    return sum(jit::while_loop([](Tensor a) { return sum(a * a) < 50; }, [](Tensor a) { return a * 1.5; }, t));
  });
  check([&](Tensor t) {
    return sum(jit::fori_loop(
        0, 3,
        [&](Scalar, Tensor a) {
          return jit::cond(sum(a) > 0, [&](Tensor b) { return loop(b, w); }, [](Tensor b) { return b + 1; }, a);
        },
        t));
  });
  check([&](Tensor t) {
    return sum(jit::while_loop([](Tensor a) { return sum(a * a) < 50; }, [&](Tensor a) { return loop(a, w) * 2; }, t));
  });
}
