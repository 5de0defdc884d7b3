// Control flow in the graph: cond, switch_, while_loop, fori_loop, scan; inside compile and outside, nested, with
// captures.
#include "catch.hpp"

#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace sinter;

namespace {
using Floats = std::vector<float>;
Tensor numbers(int count) { return arange(count).to(DType::f32); }

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    std::string text = error.what();
    for (std::size_t at; (at = text.find("@cuda:0")) != std::string::npos;)
      text.erase(at, 7);  // these tests run on devices, too
    return text;
  }
  return "no error";
}
std::vector<std::string>& effect_log() {
  static std::vector<std::string> log;
  return log;
}
struct Note {
  static constexpr OpInfo info{.name = "test_note_in_loop", .arity = 2, .kind = OpKind::effect};
  static constexpr OpAttr<std::string> text{"text", 0};
  static constexpr auto attributes = attribute_list(text);
  static void infer(const InferArgs&, TypeList& out) { out.push_back(token_type()); }
  static void run_on_host(HostCall& call) {
    effect_log().push_back(call.attrs[text] + std::to_string(static_cast<int>(*call.in[0].as<float>())));
  }
};
void note_value(const Tensor& x, std::string text) {
  std::vector<Leaf> leaves{Leaf(x.impl())};
  Attrs attrs;
  attrs.set(Note::text, text);
  record_effect(op_info<Note>, leaves, std::move(attrs), {});
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("cond: one of two branches, by a value of the call") {
  auto f = [](Tensor x) {
    return jit::cond(sum(x) > 3, [](Tensor y) { return y * 2; }, [](Tensor y) { return y - 1; }, x);
  };
  auto compiled = jit::compile(f);
  for (int i = 0; i < 2; ++i) {
    CHECK(to_vector<float>(f(numbers(2))) == Floats{-1, 0});
    CHECK(to_vector<float>(f(numbers(4))) == Floats{0, 2, 4, 6});
    CHECK(to_vector<float>(compiled(numbers(2))) == Floats{-1, 0});
    CHECK(to_vector<float>(compiled(numbers(4))) == Floats{0, 2, 4, 6});
  }
  CHECK(compiled.stats().compiles <= 2);
}

TEST_CASE("cond: what the branches use from outside becomes an operand; numbers, tuples and structs pass") {
  struct State {
    Tensor value;
    Scalar step;
  };
  auto f = jit::compile([](Tensor x, Tensor flag, Scalar s) {
    Tensor twice = x * 2;
    auto [state, t] = jit::cond(
        flag > 0, [&](State at) { return std::tuple{State{at.value + twice, at.step + 1}, Tensor(x * s)}; },
        [&](State at) { return std::tuple{State{at.value, at.step}, twice}; }, State{x, 5});
    return std::tuple{state.value * state.step, t};
  });
  auto [a, b] = f(numbers(3), full({}, 1), 10);
  CHECK(to_vector<float>(a) == Floats{0, 18, 36});
  CHECK(to_vector<float>(b) == Floats{0, 10, 20});
  auto [c, d] = f(numbers(3), full({}, -1), 10);
  CHECK(to_vector<float>(c) == Floats{0, 5, 10});
  CHECK(to_vector<float>(d) == Floats{0, 2, 4});
}

TEST_CASE("cond: errors name the result, the line and the fix") {
  Tensor x = numbers(3);
  const std::string shapes =
      error_of([&] { jit::cond(sum(x) > 0, [](Tensor y) { return sum(y); }, [](Tensor y) { return y + 0; }, x); });
  CHECK(contains(shapes, "result 0 is f32[] from the first branch, and f32[3] from the second"));
  CHECK(contains(shapes, "control_test.cpp:"));
  CHECK(contains(error_of([&] {
                   jit::cond(sum(x) > 0, [](Tensor y) { return y.to(DType::i64); }, [](Tensor y) { return y + 0; }, x);
                 }),
                 "cast it"));
  const std::string many =
      error_of([&] { jit::cond(x > 0, [](Tensor y) { return y; }, [](Tensor y) { return y; }, x); });
  CHECK(contains(many, "bool[3]; one bool of shape () is required"));
  CHECK(contains(many, "any(condition)"));
  CHECK(contains(error_of([&] { jit::cond(sum(x), [](Tensor y) { return y; }, [](Tensor y) { return y; }, x); }),
                 "a bool is required"));
  Variable w(x);
  CHECK(contains(error_of([&] {
                   jit::while_loop(
                       [&](Tensor y) {
                         w.set(y);
                         return sum(y) < 0;
                       },
                       [](Tensor y) { return y; }, x);
                 }),
                 "the condition assigns a Variable"));
}

TEST_CASE("switch_: the index is clamped; branches are a tuple or a list") {
  auto f = [](Tensor x, Tensor index) {
    return jit::switch_(
        index, std::tuple{[](Tensor y) { return y; }, [](Tensor y) { return y * 10; }, [](Tensor y) { return -y; }}, x);
  };
  auto compiled = jit::compile(f);
  const Floats expected[] = {{0, 1, 2}, {0, 1, 2}, {0, 10, 20}, {0, -1, -2}, {0, -1, -2}};
  for (int i = -1; i < 4; ++i) {
    Tensor index = full({}, i, {.dtype = DType::i64});
    CHECK(to_vector<float>(f(numbers(3), index)) == expected[i + 1]);
    CHECK(to_vector<float>(compiled(numbers(3), index)) == expected[i + 1]);
  }
  Tensor (*const list[])(Tensor) = {[](Tensor y) { return Tensor(y + 1); }, [](Tensor y) { return Tensor(y + 2); }};
  CHECK(to_vector<float>(jit::switch_(1, {list[0], list[1]}, numbers(2))) == Floats{2, 3});
  CHECK(contains(error_of([&] { f(numbers(3), full({}, 1)); }), "an integer is required"));
}

TEST_CASE("while_loop: runs until the condition fails") {
  auto f = [](Tensor x) {
    return jit::while_loop([](Tensor y, Tensor) { return sum(y) < 100; },
                           [](Tensor y, Tensor n) { return std::tuple{y * 2, n + 1}; }, x,
                           zeros({}, {.dtype = DType::i64}));
  };
  auto compiled = jit::compile(f);
  for (int i = 0; i < 3; ++i) {
    auto [y, n] = compiled(numbers(4));
    CHECK(to_vector<float>(y) == Floats{0, 32, 64, 96});
    CHECK(item<std::int64_t>(n) == 5);
  }
  auto [y, n] = f(numbers(4));
  CHECK(to_vector<float>(y) == Floats{0, 32, 64, 96});
  CHECK(item<std::int64_t>(n) == 5);
  auto [z, m] = compiled(numbers(4) * 50);  // not one iteration
  CHECK(to_vector<float>(z) == Floats{0, 50, 100, 150});
  CHECK(item<std::int64_t>(m) == 0);
}

TEST_CASE("while_loop: carries keep their types") {
  const std::string text = error_of([] {
    jit::while_loop([](Tensor, Scalar k) { return Tensor(k) < 3; },
                    [](Tensor y, Scalar k) { return std::tuple{concat({y, y}, 0), k + 1}; }, numbers(2), 0);
  });
  CHECK(contains(text, "carry 0 changes its type: it starts as f32[2], and the body gives f32[4]"));
  CHECK(contains(text, "control_test.cpp:"));
  CHECK(contains(
      error_of([] { jit::while_loop([](Scalar k) { return Tensor(k) < 3; }, [](Scalar k) { return k * 0.5; }, 0); }),
      "start with a floating number"));
  CHECK(contains(
      error_of([] { jit::while_loop([](Tensor y) { return y < 3; }, [](Tensor y) { return y + 1; }, numbers(2)); }),
      "shape () is required"));
}

TEST_CASE("scan: carry and stacked outputs, forwards and backwards") {
  auto f = [](Tensor xs) {
    return jit::scan([](Tensor total, Tensor x) { return std::tuple{total + x, total * 10}; }, zeros({2}), xs);
  };
  Tensor xs = reshape(numbers(6), {3, 2});
  auto compiled = jit::compile(f);
  for (int i = 0; i < 2; ++i) {
    auto [total, ys] = i == 0 ? f(xs) : compiled(xs);
    CHECK(to_vector<float>(total) == Floats{6, 9});
    CHECK(to_vector<float>(ys) == Floats{0, 0, 0, 10, 20, 40});
  }
  auto [total, ys] =
      jit::scan([](Tensor t, Tensor x) { return std::pair{t + x, t}; }, zeros({2}), xs, {.reverse = true});
  CHECK(to_vector<float>(total) == Floats{6, 9});
  CHECK(to_vector<float>(ys) == Floats{6, 8, 4, 5, 0, 0});
  auto [power, none] = jit::scan([](Scalar s, std::tuple<>) { return std::tuple{s * 2, std::tuple{}}; }, 1,
                                 std::tuple{}, {.length = 10});
  CHECK(item<std::int64_t>(Tensor(power)) == 1024);
  auto [same, empty] = compiled(zeros({0, 2}));
  CHECK(to_vector<float>(same) == Floats{0, 0});
  CHECK(empty.numel() == 0);
}

TEST_CASE("scan: errors") {
  auto step = [](Tensor c, std::tuple<Tensor, Tensor> x) { return std::tuple{c, std::get<0>(x)}; };
  CHECK(contains(error_of([&] { jit::scan(step, zeros({}), std::tuple{zeros({2}), zeros({3})}); }),
                 "2 iterations are made"));
  CHECK(
      contains(error_of([&] { jit::scan(step, zeros({}), std::tuple{zeros({}), zeros({})}); }), "no axis to go along"));
  CHECK(contains(error_of([] { jit::fori_loop(3, 1, [](Scalar, Tensor x) { return x; }, zeros({})); }),
                 "trip count is negative"));
  CHECK(contains(error_of([] { jit::fori_loop(0, full({}, 2), [](Scalar, Tensor x) { return x; }, zeros({})); }),
                 "an integer is required"));
}

TEST_CASE("fori_loop: static, dynamic and run-time bounds") {
  auto body = [](Scalar k, Tensor x) { return x + k; };
  CHECK(to_vector<float>(jit::fori_loop(2, 5, body, zeros({2}))) == Floats{9, 9});
  auto counted =
      jit::compile([&](Tensor x) { return jit::fori_loop(0, x.size(0), body, x); }, {.dynamic = jit::Dynamic::always});
  CHECK(to_vector<float>(counted(zeros({3}))) == Floats{3, 3, 3});
  CHECK(to_vector<float>(counted(zeros({5}))) == Floats(5, 10));
  CHECK(counted.stats().compiles == 1);
  auto f = jit::compile([&](Tensor x, Scalar n) { return jit::fori_loop(0, n, body, x); });
  CHECK(to_vector<float>(f(zeros({2}), 4)) == Floats{6, 6});
  CHECK(to_vector<float>(f(zeros({2}), 10)) == Floats{45, 45});
  CHECK(to_vector<float>(f(zeros({2}), -1)) == Floats{0, 0});
}

TEST_CASE("control flow: 10,000 iterations, and none allocates") {
  auto f =
      jit::compile([](Tensor x) { return jit::fori_loop(0, 10000, [](Scalar, Tensor y) { return y * 0.5f + 1; }, x); });
  Tensor x = numbers(8);
  CHECK(to_vector<float>(f(x)) == Floats(8, 2));
  CHECK(to_vector<float>(f(x)) == Floats(8, 2));
}

TEST_CASE("control flow: effects in bodies run in order, once per iteration, in the branch taken") {
  using Log = std::vector<std::string>;
  auto f = [](Tensor x) {
    note_value(sum(x), "before ");
    Tensor y = jit::fori_loop(
        0, 2,
        [](Scalar, Tensor t) {
          note_value(sum(t), "iteration ");
          return jit::cond(
              sum(t) > 5,
              [](Tensor u) {
                note_value(sum(u), "large ");
                return u * 2;
              },
              [](Tensor u) { return u * 3; }, t);
        },
        x);
    note_value(sum(y), "after ");
    return sum(y * y);
  };
  const Log want{"before 3", "iteration 3", "iteration 9", "large 9", "after 18"};
  auto compiled = jit::compile(f);
  auto gradient = jit::compile([&](Tensor x) { return jit::grad(f)(x); });
  for (int i = 0; i < 2; ++i) {
    effect_log().clear();
    CHECK(item<float>(compiled(numbers(3))) == 180);
    CHECK(effect_log() == want);
    effect_log().clear();
    CHECK(to_vector<float>(gradient(numbers(3))) == Floats{0, 72, 144});
    CHECK(effect_log() == want);  // derivatives compute bodies again, but not their effects
  }
  effect_log().clear();
  Tensor outside = jit::while_loop([](Tensor t) { return sum(t) < 5; },
                                   [](Tensor t) {
                                     note_value(sum(t), "iteration ");
                                     return t * 2;
                                   },
                                   numbers(3));
  CHECK(effect_log() == Log{"iteration 3"});
  CHECK(to_vector<float>(outside) == Floats{0, 2, 4});
}

TEST_CASE("control flow: a body is one graph, so its values cannot be read while it is traced") {
  const std::string text =
      error_of([] { jit::fori_loop(0, 3, [](Scalar, Tensor x) { return x * item<float>(sum(x)); }, numbers(3)); });
  CHECK(contains(text, "a value is read inside a body of fori_loop"));
  CHECK(contains(text, "jit::cond"));
  CHECK(contains(text, "control_test.cpp:"));
  Tensor leaked;
  jit::fori_loop(0, 3, [&](Scalar, Tensor x) { return leaked = x + 1; }, numbers(3));
  CHECK(contains(error_of([&] { to_vector<float>(leaked * 2); }), "outside the trace it belongs to"));
}

TEST_CASE("control flow: a Variable may be the carry, and is updated after the call") {
  Variable w(numbers(3));
  auto f = jit::compile([&](Tensor x) { w.set(jit::fori_loop(0, 3, [&](Scalar, Tensor t) { return t + x * w; }, w)); });
  f(ones({3}));
  CHECK(to_vector<float>(w.value()) == Floats{0, 4, 8});
  f(ones({3}));
  CHECK(to_vector<float>(w.value()) == Floats{0, 16, 32});
}

TEST_CASE("control flow: Variables that bodies assign are carries of the loop") {
  Variable w(zeros({})), untouched(ones({}));
  auto f = [&](Tensor x) {
    Tensor y = jit::fori_loop(
        0, 4,
        [&](Scalar k, Tensor t) {
          w.set(w + k);
          jit::cond(
              w > 4,
              [&] {
                untouched.set(untouched * 2);
                return 0;
              },
              [&] { return 0; });
          return t + w;
        },
        x);
    return y * w;
  };
  auto compiled = jit::compile(f);
  CHECK(to_vector<float>(compiled(zeros({2}))) == Floats{60, 60});  // w is 0, 1, 3, 6
  CHECK(item<float>(w.value()) == 6);
  CHECK(item<float>(untouched.value()) == 2);
  CHECK(to_vector<float>(compiled(zeros({2}))) == Floats{408, 408});  // w is 6, 7, 9, 12
  CHECK(item<float>(w.value()) == 12);
  CHECK(item<float>(untouched.value()) == 32);
  w.set(zeros({}));
  CHECK(to_vector<float>(f(zeros({2}))) == Floats{60, 60});
  CHECK(item<float>(w.value()) == 6);
  jit::while_loop([&](Tensor t) { return t < 3; },
                  [&](Tensor t) {
                    w += t;
                    return t + 1;
                  },
                  zeros({}));
  CHECK(item<float>(w.value()) == 9);
  CHECK(error_of([&] {
          jit::fori_loop(
              0, 2,
              [&](Scalar, Tensor t) {
                w.set(ones({2}));
                return t;
              },
              zeros({}));
        }) != "no error");
}

TEST_CASE("control flow: random numbers in a body are new in each iteration, and the same as in a loop of C++") {
  auto walk = [](Tensor x) {
    return jit::scan(
               [](Tensor t, std::tuple<>) {
                 Tensor next = t + randn({3});
                 return std::tuple{next, next};
               },
               x, std::tuple{}, {.length = 4})
        .second;
  };
  manual_seed(7);
  Tensor x = zeros({3});
  Floats want;
  for (int k = 0; k < 4; ++k) {
    x = x + randn({3});
    for (float v : to_vector<float>(x)) want.push_back(v);
  }
  manual_seed(7);
  auto compiled = jit::compile(walk);
  auto is_expected = [&](const Floats& got) {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::abs(got[i] - want[i]) > 1e-5f) return false;
    return true;
  };
  CHECK(is_expected(to_vector<float>(compiled(zeros({3})))));
  CHECK_FALSE(is_expected(to_vector<float>(compiled(zeros({3})))));
  manual_seed(7);
  CHECK(is_expected(to_vector<float>(walk(zeros({3})))));
}

TEST_CASE("while_loop over Scalars: numbers as initial values, a comparison of Scalars as the condition") {
  auto f = [](Tensor x) {
    return jit::while_loop([](Tensor, Scalar k) { return k < 50; },
                           [](Tensor y, Scalar k) { return std::tuple{y * 0.5f, k + 1}; }, x, 0);
  };
  auto [y, k] = f(numbers(2) * 2);
  CHECK(k.number() == 50);
  CHECK(to_vector<float>(y)[1] == std::ldexp(1.0f, -49));
  auto compiled = jit::compile(f);
  auto [z, n] = compiled(numbers(2) * 2);
  CHECK(n.number() == 50);
  CHECK(to_vector<float>(z) == to_vector<float>(y));
  const std::string text = error_of([] {
    jit::fori_loop(
        0, 3,
        [](Scalar k, Tensor x) {
          if (k > 1) return Tensor(x + 1);
          return x;
        },
        numbers(2));
  });
  CHECK(contains(text, "a value is read inside a body of fori_loop"));
  CHECK(to_vector<float>(
            jit::cond(Scalar(3) < Scalar(2), [] { return ones({1}); }, [] { return zeros({1}); })) == Floats{0});
}

TEST_CASE("associative_scan: every extent, axis and direction, as a loop over the slices") {
  const auto add = [](Tensor older, Tensor newer) { return older + newer; };
  for (const int count : {0, 1, 2, 3, 4, 5, 7, 8, 31, 64, 65}) {
    INFO(count << " slices");
    const Tensor x = cast(arange(3 * count) % 11 - 4, DType::i64);
    const Tensor table = reshape(x, {3, count});
    for (const bool reverse : {false, true}) {
      const auto scanned = [&](Tensor t) { return jit::associative_scan(add, t, {.axis = 1, .reverse = reverse}); };
      const Tensor wanted = reverse ? flip(cumsum(flip(table, 1), 1), 1) : cumsum(table, 1);
      CHECK(array_equal(scanned(table), wanted));
      CHECK(array_equal(jit::compile(scanned)(table), wanted));
    }
  }
  const auto along_last = [&](Tensor t) { return jit::associative_scan(add, t, {.axis = -1}); };
  CHECK(array_equal(along_last(ones({2, 3, 9})), cumsum(ones({2, 3, 9}), 2)));
}

TEST_CASE("associative_scan: what does not commute, in tuples, with gradients, under vmap and for changed extents") {
  using Pair = std::tuple<Tensor, Tensor>;
  const auto recurrence = [](Tensor a, Tensor b) {
    const auto compose = [](const Pair& older, const Pair& newer) {
      const auto& [a0, b0] = older;
      const auto& [a1, b1] = newer;
      return Pair{a1 * a0, a1 * b0 + b1};
    };
    return std::get<1>(jit::associative_scan(compose, Pair{a, b}));
  };
  const auto loop = [](Tensor a, Tensor b) {
    return jit::scan(
               [](Tensor c, const Pair& x) {
                 const Tensor next = std::get<0>(x) * c + std::get<1>(x);
                 return std::tuple{next, next};
               },
               zeros({}, {.dtype = DType::f64}), Pair{a, b})
        .second;
  };
  const auto compiled = jit::compile(recurrence);
  for (const int count : {2, 17, 100}) {
    const Tensor a = cast(rand({count}), DType::f64), b = cast(randn({count}), DType::f64);
    CHECK(allclose(recurrence(a, b), loop(a, b), {.rtol = 1e-12}));
    CHECK(allclose(compiled(a, b), loop(a, b), {.rtol = 1e-12}));
    const auto slope = [&](auto f) { return jit::grad([f, b](Tensor t) { return sum(square(f(t, b))); })(a); };
    CHECK(allclose(slope(recurrence), slope(loop), {.rtol = 1e-10}));
  }
  const Tensor a = rand({4, 9}), b = randn({4, 9});
  const Tensor batch = jit::vmap(recurrence)(a, b);
  for (int i = 0; i < 4; ++i) CHECK(allclose(batch(i), recurrence(a(i), b(i))));
  const Tensor turns = randn({6, 3, 3});
  const Tensor products = jit::associative_scan([](Tensor older, Tensor newer) { return matmul(newer, older); }, turns);
  Tensor wanted = turns(0);
  for (int i = 1; i < 6; ++i) wanted = matmul(turns(i), wanted);
  CHECK(allclose(products(5), wanted, {.rtol = 1e-4, .atol = 1e-5}));
  // A slice keeps the order of the other axes.
  for (const int axis : {1, 2, -1}) {
    const auto multiply = [](Tensor older, Tensor newer) { return matmul(newer, older); };
    const Tensor along = jit::associative_scan(multiply, movedim(turns, 0, axis), {.axis = axis});
    CHECK(allclose(movedim(along, axis, 0), products, {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST_CASE("associative_scan: errors name the tensor and the fix") {
  const auto add = [](Tensor older, Tensor newer) { return older + newer; };
  using Pair = std::tuple<Tensor, Tensor>;
  CHECK(contains(error_of([&] { jit::associative_scan(add, ones({4}), {.axis = 1}); }), "axis 1 of tensor 0, f32[4]"));
  CHECK(contains(error_of([&] {
                   jit::associative_scan([](const Pair& p, const Pair&) { return p; }, Pair{ones({4}), ones({5})});
                 }),
                 "tensor 1 is f32[5], but the first one has 4 slices"));
  CHECK(contains(
      error_of([&] { jit::associative_scan([](Tensor p, Tensor q) { return cast(p + q, DType::f64); }, ones({4})); }),
      "the function gives f64 for tensor 0, which is f32"));
  CHECK(contains(
      error_of([&] { jit::associative_scan([](Tensor p, Tensor q) { return stack({p, q}, 0); }, ones({4, 2})); }),
      "a slice keeps its shape"));
}
