// Ops of the user's own: values, derivatives, several results, decompositions, dynamic extents, and every mistake.
#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

using namespace sinter;

namespace {

Tensor numbers(int count) { return arange(count).to(DType::f32); }

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::vector<float> values(const In& x) { return to_vector<float>(x); }

auto make_cube() {
  return jit::custom_op({.name = "cube",
                         .shape = [](auto in) { return in[0]; },
                         .cpu =
                             [](auto in, auto out) {
                               for (std::int64_t i = 0; i < out.numel; ++i)
                                 out.data[i] = in[0].data[i] * in[0].data[i] * in[0].data[i];
                             },
                         .vjp = [](auto in, const Tensor&,
                                   const Tensor& dout) { return std::vector<Tensor>{dout * 3 * in[0] * in[0]}; }});
}

}  // namespace

TEST_CASE("custom op: lazily, compiled with kernels around it, and with extents that change") {
  auto cube = make_cube();
  CHECK(values(cube(numbers(4) + 1)) == std::vector<float>{1, 8, 27, 64});
  CHECK(item<float>(cube(2)) == 8);
  auto f = jit::compile([cube](Tensor x) { return cube(x * 2) + cube(transpose(x, 0, 1)); });
  for (int n : {2, 3, 4, 5}) {
    Tensor x = reshape(numbers(n * n), {n, n});
    std::vector<float> want;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        want.push_back(static_cast<float>(std::pow(2 * (i * n + j), 3) + std::pow(j * n + i, 3)));
    CHECK(values(f(x)) == want);
  }
  CHECK(f.stats().compiles == 2);
  CHECK(contains(f.explain(reshape(numbers(4), {2, 2})).text(), "payload=\"cube\""));
}

TEST_CASE("custom op: its derivative becomes part of the graph, to any order") {
  auto cube = make_cube();
  auto loss = [cube](Tensor x) { return sum(cube(x) * x); };
  CHECK(values(jit::grad(loss)(numbers(3))) == std::vector<float>{0, 4, 32});
  CHECK(values(jit::compile(jit::grad(loss))(numbers(3))) == std::vector<float>{0, 4, 32});
  auto slope = [loss](Tensor x) { return sum(jit::grad(loss)(x)); };
  CHECK(values(jit::compile(jit::grad(slope))(numbers(3))) == std::vector<float>{0, 12, 48});
  auto f = jit::compile(jit::grad([cube](Tensor x, Tensor y) { return sum(cube(x + y)); }));
  for (int n : {2, 3, 4})
    CHECK(values(f(full({n}, 1), full({n}, 1))) == std::vector<float>(static_cast<std::size_t>(n), 12));
}

TEST_CASE("custom op: several results, of several dtypes") {
  auto sort = jit::custom_op<void, 2>(
      {.name = "sort_with_places",
       .shape = [](auto in) { return std::array{in[0], in[0]}; },
       .dtype = [](auto in) { return std::array{in[0], DType::i64}; },
       .cpu =
           [](auto in, auto out) {
             const float* from = in[0].template as<float>();
             auto* sorted = out[0].template as<float>();
             auto* places = out[1].template as<std::int64_t>();
             for (std::int64_t i = 0; i < in[0].numel; ++i) places[i] = i;
             std::sort(places, places + in[0].numel,
                       [&](auto a, auto b) { return from[a] != from[b] ? from[a] < from[b] : a < b; });
             for (std::int64_t i = 0; i < in[0].numel; ++i) sorted[i] = from[places[i]];
           },
       .vjp =
           [](auto in, auto out, auto dout) {
             auto places = reshape(out[1], Shape{in[0].size(0), 1}) ==
                           reshape(arange(in[0].size(0), {.dtype = DType::i64}), Shape{1, in[0].size(0)});
             return std::vector<Tensor>{matmul(dout[0], Tensor(places).to(DType::f32))};
           }});
  auto f = jit::compile([sort](Tensor x) {
    auto [sorted, places] = sort(x);
    return std::pair(Tensor(sorted * 2), places);
  });
  auto [sorted, places] = f(tensor({3.f, 1.f, 2.f}));
  CHECK(values(sorted) == std::vector<float>{2, 4, 6});
  CHECK(to_vector<std::int64_t>(places) == std::vector<std::int64_t>{1, 2, 0});
  auto loss = [sort](Tensor x) { return sum(sort(x)[0] * tensor({1.f, 10.f, 100.f})); };
  CHECK(values(jit::grad(loss)(tensor({3.f, 1.f, 2.f}))) == std::vector<float>{100, 1, 10});
}

TEST_CASE("custom op: one with a decomposition fuses; with a derivative of its own it keeps that") {
  auto softplus = jit::custom_op({.name = "my_softplus",
                                  .shape = [](auto in) { return in[0]; },
                                  .decompose = [](auto in) { return log(1 + exp(in[0])); }});
  auto f = jit::compile([softplus](Tensor x) { return softplus(x * 2) + 1; });
  CHECK(values(f(zeros({2})))[0] == Approx(1 + std::log(2.0)));
  CHECK(f.stats().kernels == 1);
  CHECK(values(jit::grad([softplus](Tensor x) { return sum(softplus(x)); })(zeros({2}))) ==
        std::vector<float>{0.5, 0.5});

  auto marked = jit::custom_op<float, 2>(
      {.name = "marked",
       .shape = [](auto in) { return std::array{in[0], in[0]}; },
       .vjp = [](auto, auto, auto dout) { return std::vector<Tensor>{dout[0] * 100 + dout[1] * 7}; },
       .decompose = [](auto in) { return std::array<Tensor, 2>{in[0] * 2, in[0] * 3}; }});
  auto both = jit::compile([marked](Tensor x) {
    auto [a, b] = marked(x + 1);
    return a * b;
  });
  CHECK(values(both(numbers(3))) == std::vector<float>{6, 24, 54});
  CHECK(both.stats().kernels == 1);
  auto gradient = jit::compile(jit::grad([marked](Tensor x) {
    auto [a, b] = marked(x);
    return sum(a + 2 * b);
  }));
  CHECK(values(gradient(numbers(3))) == std::vector<float>{114, 114, 114});
  CHECK(values(marked(numbers(3))[1]) == std::vector<float>{0, 3, 6});
  for (int n : {4, 5}) CHECK(values(gradient(numbers(n))) == std::vector<float>(static_cast<std::size_t>(n), 114));
}

TEST_CASE("custom op: pure ones are merged and dropped, others run once for each call and in order") {
  static std::atomic<int> runs;
  runs = 0;
  const auto count = [](auto in, auto out) {
    ++runs;
    std::copy_n(in[0].data, out.numel, out.data);
  };
  auto pure = jit::custom_op({.name = "counted", .shape = [](auto in) { return in[0]; }, .cpu = count});
  auto f = jit::compile([pure](Tensor x) {
    Tensor unused = pure(x + 1);
    return pure(x) + pure(x);
  });
  f(numbers(3));
  CHECK(runs == 1);
  auto effect =
      jit::custom_op({.name = "counted_effect", .shape = [](auto in) { return in[0]; }, .cpu = count, .pure = false});
  auto g = jit::compile([effect](Tensor x) {
    Tensor unused = effect(x + 1);
    return effect(x) + effect(x);
  });
  runs = 0;
  CHECK(values(g(numbers(2))) == std::vector<float>{0, 2});
  CHECK(runs == 3);
  CHECK(values(effect(numbers(2))) == std::vector<float>{0, 1});
  CHECK(runs == 4);
}

TEST_CASE("custom op: made anew in each trace it is the same op") {
  auto f = jit::compile([](Tensor x) { return make_cube()(x); });
  for (int i = 0; i < 3; ++i) CHECK(values(f(full({1}, 2))) == std::vector<float>{8});
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("custom op: mapped over a batch, before and after its derivative, with extents that change") {
  auto weighted = jit::custom_op<float, 2>(
      {.name = "sum_and_dot",
       .shape = [](auto) { return std::array{Shape{}, Shape{}}; },
       .cpu =
           [](auto in, auto out) {
             *out[0].data = *out[1].data = 0;
             for (std::int64_t i = 0; i < in[0].numel; ++i)
               *out[0].data += in[0].data[i], *out[1].data += in[0].data[i] * in[1].data[i];
           },
       .vjp = [](auto in, auto,
                 auto dout) { return std::vector<Tensor>{dout[0] + dout[1] * in[1], dout[1] * in[0]}; }});
  auto f = [weighted](Tensor x, Tensor w) {
    auto [total, dot] = weighted(x, w);
    return total * 10 + dot;
  };
  auto mapped = jit::compile(jit::vmap(f, {0, jit::no_axis}));
  auto loss =
      jit::compile(jit::grad<0, 1>([f](Tensor x, Tensor w) { return sum(jit::vmap(f, {0, jit::no_axis})(x, w)); }));
  auto each = jit::compile(jit::vmap(jit::grad(f), {0, jit::no_axis}));
  Tensor w = numbers(2) + 1;
  for (int n : {2, 3, 4}) {
    Tensor x = reshape(numbers(2 * n), {n, 2});
    std::vector<float> want, first, second{0, 0};
    for (int i = 0; i < n; ++i) {
      const auto a = static_cast<float>(2 * i), b = a + 1;
      want.push_back(10 * (a + b) + a + 2 * b);
      first.insert(first.end(), {11, 12});
      second[0] += a;
      second[1] += b;
    }
    CHECK(values(mapped(x, w)) == want);
    auto [by_x, by_w] = loss(x, w);
    CHECK(values(by_x) == first);
    CHECK(values(by_w) == second);
    CHECK(values(each(x, w)) == first);
  }
  auto softplus =
      jit::custom_op({.name = "mapped_softplus",
                      .shape = [](auto in) { return in[0]; },
                      .vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * 5}; },
                      .decompose = [](auto in) { return log(1 + exp(in[0])); }});
  CHECK(values(jit::vmap([softplus](Tensor x) { return softplus(x); })(zeros({2, 2})))[3] == Approx(std::log(2.0)));
}

TEST_CASE("custom op: a rule for batches takes the place of calls for each example, with extents that change") {
  static int calls = 0;
  const auto cpu = [](auto in, auto out) {
    ++calls;
    for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = in[0].data[i] * in[1].data[i];
  };
  const auto shape = [](auto in) { return in[0]; };
  auto product =
      jit::custom_op({.name = "batched_product",
                      .shape = shape,
                      .cpu = cpu,
                      .vjp =
                          [](auto in, const Tensor&, const Tensor& dout) {
                            return std::vector<Tensor>{dout * in[1] * 3, dout * in[0]};  // 3: told apart
                          },
                      .batch =
                          [](auto in, auto batched, Dim size) {
                            Tensor y = batched[1] ? in[1] : expand(unsqueeze(in[1], 0), {size, in[1].size(0)});
                            Tensor x = batched[0] ? in[0] : expand(unsqueeze(in[0], 0), {size, in[0].size(0)});
                            return Tensor(x * y);
                          }});
  auto mapped = jit::compile(jit::vmap([product](Tensor x, Tensor y) { return product(x, y); }, {0, jit::no_axis}));
  auto gradients = jit::compile(jit::grad<0, 1>([product](Tensor x, Tensor y) {
    return sum(jit::vmap([product](Tensor a, Tensor b) { return product(a, b); }, {0, jit::no_axis})(x, y));
  }));
  auto each = jit::vmap(jit::grad([product](Tensor x, Tensor y) { return sum(product(x, y)); }), {0, jit::no_axis});
  const Tensor y = numbers(2) + 1;  // 1, 2
  for (int n : {2, 3, 5, 1, 0}) {
    const Tensor x = reshape(numbers(2 * n), {n, 2});
    std::vector<float> want, by_x, by_y{0, 0};
    for (int i = 0; i < 2 * n; ++i) {
      const auto factor = static_cast<float>(i % 2 + 1);
      want.push_back(static_cast<float>(i) * factor);
      by_x.push_back(3 * factor);
      by_y[static_cast<std::size_t>(i % 2)] += static_cast<float>(i);
    }
    calls = 0;
    CHECK(values(mapped(x, y)) == want);
    CHECK(values(jit::vmap([product](Tensor a, Tensor b) { return product(a, b); }, {0, jit::no_axis})(x, y)) == want);
    CHECK(calls == 0);
    const auto [dx, dy] = gradients(x, y);
    CHECK(values(dx) == by_x);
    CHECK(values(dy) == by_y);
    CHECK(values(each(x, y)) == by_x);
  }
  CHECK(mapped.stats().compiles <= 4);  // sizes become symbols
  const auto twice = jit::vmap(jit::vmap([product](Tensor a, Tensor b) { return product(a, b); }));
  CHECK(values(twice(full({2, 3, 2}, 2), full({2, 3, 2}, 4))) == std::vector<float>(12, 8));
  CHECK(values(product(numbers(2), y)) == std::vector<float>{0, 2});  // a near miss: without vmap the function runs
  CHECK(calls > 0);
}

TEST_CASE("custom op: a derivative of its own is kept under vmap, and under vmap of vmap") {
  const auto vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * 10}; };
  auto ruled = jit::custom_op({.name = "nested_ruled",
                               .shape = [](auto in) { return in[0]; },
                               .cpu =
                                   [](auto in, auto out) {
                                     for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = in[0].data[i] / 2;
                                   },
                               .vjp = vjp,
                               .batch = [](auto in, auto, Dim) { return Tensor(in[0] * 0.5); }});
  auto composed = jit::custom_op({.name = "nested_composed",
                                  .shape = [](auto in) { return in[0]; },
                                  .vjp = vjp,
                                  .decompose = [](auto in) { return in[0] * 0.5; }});
  const auto check = [](auto op) {
    const auto one = [op](Tensor x) { return op(x); };
    const auto once = jit::vmap(one);
    const auto twice = jit::vmap(once);
    const auto thrice = jit::vmap(twice);
    const Tensor x = reshape(numbers(12), {2, 3, 2, 1});
    CHECK(values(twice(x)) == values(x * 0.5));
    CHECK(values(thrice(x)) == values(x * 0.5));
    CHECK(values(jit::grad([&](Tensor a) { return sum(one(a)); })(x)) == std::vector<float>(12, 10));
    CHECK(values(jit::grad([&](Tensor a) { return sum(once(a)); })(x)) == std::vector<float>(12, 10));
    CHECK(values(jit::grad([&](Tensor a) { return sum(twice(a)); })(x)) == std::vector<float>(12, 10));
    CHECK(values(jit::grad([&](Tensor a) { return sum(thrice(a)); })(x)) == std::vector<float>(12, 10));
    CHECK(values(jit::vmap(jit::grad([&](Tensor a) { return sum(once(a)); }))(x)) == std::vector<float>(12, 10));
    auto compiled = jit::compile(jit::grad([twice](Tensor a) { return sum(twice(a)); }));
    for (int n : {2, 3, 4}) {
      const auto want = std::vector<float>(static_cast<std::size_t>(6 * n), 10);
      CHECK(values(compiled(reshape(numbers(6 * n), {n, 3, 2}))) == want);
    }
  };
  check(ruled);
  check(composed);
  auto scaled = jit::custom_op<float, 2>(
      {.name = "nested_scaled",
       .shape = [](auto in) { return std::array{in[0], in[1]}; },
       .vjp = [](auto in, auto, auto dout) { return std::vector<Tensor>{dout[0] * 100 * in[0], dout[1] * 7}; },
       .decompose = [](auto in) { return std::array<Tensor, 2>{in[0] * in[1], in[1] * 2}; }});
  const auto both = [scaled](Tensor x, Tensor y) {  // y has no batch, and so has the second result
    auto [a, b] = scaled(x, y);
    return a + b;
  };
  const auto [dx, dy] = jit::grad<0, 1>([&](Tensor x, Tensor y) {
    return sum(jit::vmap(both, {0, jit::no_axis})(x, y));
  })(reshape(numbers(6), {3, 2}), numbers(2));
  CHECK(values(dx) == std::vector<float>{0, 100, 200, 300, 400, 500});
  CHECK(values(dy) == std::vector<float>{21, 21});
}

TEST_CASE("custom op: rules for batches with two results, and mistakes in them") {
  const auto shape = [](auto in) { return in[0]; };
  const auto cpu = [](auto in, auto out) { std::copy(in[0].begin(), in[0].end(), out.data); };
  auto two = jit::custom_op<float, 2>(
      {.name = "batched_two",
       .shape = [](auto in) { return std::array{in[0], Shape{}}; },
       .cpu = [](auto, auto) { throw std::runtime_error("not called"); },
       .batch = [](auto in, auto, Dim) { return std::array{Tensor(in[0] * 2), Tensor(sum(in[0], 1))}; }});
  const auto [doubled, total] = jit::vmap([two](Tensor x) {
    auto [a, b] = two(x);
    return std::pair(a, b);
  })(ones({3, 2}));
  CHECK(values(doubled) == std::vector<float>(6, 2));
  CHECK(values(total) == std::vector<float>(3, 2));
  auto wrong = jit::custom_op({.name = "batched_wrongly", .shape = shape, .cpu = cpu, .batch = [](auto in, auto, Dim) {
                                 return Tensor(sum(in[0], 0));
                               }});
  const std::string text =
      message_of<ShapeError>([&] { values(jit::vmap([wrong](Tensor x) { return wrong(x); })(ones({3, 2}))); });
  CHECK(contains(text,
                 "batched_wrongly: its rule for batches gives f32[2] for result 0, the batch of its results is "
                 "f32[3, 2] [custom_op_test.cpp:"));
  CHECK(contains(message_of<UserError>([&] {
                   jit::custom_op({.name = "batched_effect",
                                   .shape = shape,
                                   .cpu = cpu,
                                   .batch = [](auto in, auto, Dim) { return in[0]; },
                                   .pure = false});
                 }),
                 "'batched_effect' has a rule for batches and effects"));
  CHECK(contains(message_of<UserError>([&] {
                   jit::custom_op({.name = "batched_parts",
                                   .shape = shape,
                                   .decompose = [](auto in) { return exp(in[0]); },
                                   .batch = [](auto in, auto, Dim) { return in[0]; }});
                 }),
                 "'batched_parts' has a rule for batches and a decomposition"));
}

TEST_CASE("custom op: mistakes in its making") {
  const auto shape = [](auto in) { return in[0]; };
  const auto cpu = [](auto, auto) {};
  CHECK(contains(message_of<UserError>([&] { jit::custom_op({.name = "", .shape = shape, .cpu = cpu}); }),
                 "custom_op: the op has no name [custom_op_test.cpp:"));
  CHECK(contains(message_of<UserError>([&] { jit::custom_op({.name = "matmul", .shape = shape, .cpu = cpu}); }),
                 "'matmul' is that of a built-in op"));
  CHECK(contains(message_of<UserError>([&] { jit::custom_op({.name = "rule_less", .cpu = cpu}); }),
                 "'rule_less' has no shape rule"));
  CHECK(contains(message_of<UserError>([&] { jit::custom_op({.name = "idle", .shape = shape}); }),
                 "no function that computes it"));
  CHECK(contains(
      message_of<UserError>([&] {
        jit::custom_op(
            {.name = "both", .shape = shape, .cpu = cpu, .decompose = [](auto in) { return in[0]; }, .pure = false});
      }),
      "has effects and a decomposition"));
  {
    auto first = jit::custom_op({.name = "taken", .shape = shape, .cpu = cpu});
    CHECK(contains(message_of<UserError>(
                       [&] { jit::custom_op({.name = "taken", .shape = shape, .cpu = [](auto, auto) { return; }}); }),
                   "'taken' is taken by another op, made at custom_op_test.cpp:"));
  }
  jit::custom_op({.name = "taken", .shape = shape, .cpu = [](auto, auto) { return; }});
}

TEST_CASE("custom op: mistakes in its use have the line of the call") {
  auto pair_sum = jit::custom_op({.name = "pair_sum",
                                  .shape = [](auto in) { return in[0]; },
                                  .cpu =
                                      [](auto in, auto out) {
                                        for (std::int64_t i = 0; i < out.numel; ++i)
                                          out.data[i] = in[0].data[i] + in[1].data[i];
                                      }});
  CHECK(values(pair_sum(numbers(2), numbers(2))) == std::vector<float>{0, 2});
  CHECK(contains(message_of<DTypeError>([&] { pair_sum(numbers(2), arange(2)); }),
                 "pair_sum: operand 1 is i64[2], the op takes f32 [custom_op_test.cpp:"));
  const std::string text =
      message_of<UserError>([&] { jit::grad([&](Tensor x) { return sum(pair_sum(x, x)); })(numbers(2)); });
  CHECK(contains(text, "pair_sum: it has no derivative, and a gradient is asked for [custom_op_test.cpp:"));
  CHECK(contains(text, ".vjp"));

  auto bad_shape = jit::custom_op(
      {.name = "bad_shape", .shape = [](auto in) { return Shape{in[0][0] - 5}; }, .cpu = [](auto, auto) {}});
  CHECK(contains(message_of<ShapeError>([&] { bad_shape(numbers(2)); }),
                 "bad_shape: its shape rule gives (-3,) for result 0"));
  auto bad_parts = jit::custom_op(
      {.name = "bad_parts", .shape = [](auto in) { return in[0]; }, .decompose = [](auto in) { return sum(in[0]); }});
  CHECK(contains(message_of<ShapeError>([&] { bad_parts(numbers(2)); }),
                 "bad_parts: its decomposition gives f32[] for result 0, its rule f32[2]"));
  auto bad_slope =
      jit::custom_op({.name = "bad_slope",
                      .shape = [](auto in) { return in[0]; },
                      .cpu = [](auto, auto) {},
                      .vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{sum(dout)}; }});
  CHECK(contains(message_of<ShapeError>([&] { jit::grad([&](Tensor x) { return sum(bad_slope(x)); })(numbers(2)); }),
                 "bad_slope: its derivative by operand 0 is f32[], the operand f32[2]"));
  CHECK(contains(message_of<UserError>([&] { jit::grad([&](Tensor x) { return sum(bad_slope(x, x)); })(numbers(2)); }),
                 "gave 1 gradients for 2 operands"));
  Variable w(numbers(2));
  auto reads =
      jit::custom_op({.name = "reads",
                      .shape = [](auto in) { return in[0]; },
                      .cpu = [](auto, auto) {},
                      .vjp = [w](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * w}; }});
  CHECK(contains(message_of<TraceError>([&] { jit::grad([&](Tensor x) { return sum(reads(x)); })(numbers(2)); }),
                 "reads a Variable"));
}

TEST_CASE("custom op: what its function throws comes out of the call, lazily and compiled, and nothing is lost") {
  static bool fails = false;
  auto picky = jit::custom_op({.name = "picky",
                               .shape = [](auto in) { return in[0]; },
                               .cpu =
                                   [](auto in, auto out) {
                                     if (fails) throw std::domain_error("not today");
                                     std::copy_n(in[0].data, out.numel, out.data);
                                   }});
  auto f = jit::compile([picky](Tensor x) { return picky(x * 2) + 1; });
  Tensor lazy = picky(numbers(2) + 1) * 2;
  fails = true;
  CHECK_THROWS_AS(f(numbers(2)), std::domain_error);
  CHECK_THROWS_AS(values(lazy), std::domain_error);
  fails = false;
  CHECK(values(f(numbers(2))) == std::vector<float>{1, 3});
  CHECK(values(lazy) == std::vector<float>{2, 4});
}

TEST_CASE("custom op: no operands, constants in the derivative, no gradient for one operand") {
  auto ones_op = jit::custom_op({.name = "three_ones",
                                 .shape = [](auto) { return Shape{3}; },
                                 .cpu = [](auto, auto out) { std::fill_n(out.data, out.numel, 1.f); }});
  CHECK(values(ones_op()) == std::vector<float>{1, 1, 1});
  CHECK(values(jit::compile([ones_op](Tensor x) { return ones_op() * x; })(numbers(3))) == std::vector<float>{0, 1, 2});
  Tensor scale = numbers(3) + 1;
  auto scaled =
      jit::custom_op({.name = "scaled",
                      .shape = [](auto in) { return in[0]; },
                      .cpu =
                          [](auto in, auto out) {
                            for (std::int64_t i = 0; i < out.numel; ++i)
                              out.data[i] = in[0].data[i] * static_cast<float>(i + 1);
                          },
                      .vjp = [scale](auto, const Tensor&,
                                     const Tensor& dout) { return std::vector<Tensor>{dout * scale, Tensor()}; }});
  auto gradients = jit::grad<0, 1>([scaled](Tensor x, Tensor y) { return sum(scaled(x, y)); })(numbers(3), numbers(3));
  CHECK(values(std::get<0>(gradients)) == std::vector<float>{1, 2, 3});
  CHECK(values(std::get<1>(gradients)) == std::vector<float>{0, 0, 0});
}

TEST_CASE("custom op: blocks of elements on several threads") {
  std::atomic<int> blocks{0};
  auto shifted =
      jit::custom_op({.name = "shifted_by_blocks",
                      .shape = [](auto in) { return in[0]; },
                      .vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * 2}; },
                      .cpu_blocks =
                          [&](auto in, auto out, std::int64_t begin, std::int64_t end) {
                            ++blocks;
                            for (std::int64_t i = begin; i < end; ++i)
                              out.data[i] = 2 * in[0].data[i] + static_cast<float>(i);
                          }});
  const auto wanted = [](int count) {
    std::vector<float> all;
    for (int i = 0; i < count; ++i) all.push_back(static_cast<float>(3 * i));
    return all;
  };
  for (int count : {0, 1, 7, 300'000}) CHECK(values(shifted(numbers(count))) == wanted(count));
  auto f = jit::compile([shifted](Tensor x) { return shifted(x * 1) + 0; }, {.dynamic = jit::Dynamic::always});
  for (int count : {5, 300'000}) CHECK(values(f(numbers(count))) == wanted(count));
  CHECK(values(jit::grad([shifted](Tensor x) { return sum(shifted(x)); })(numbers(3))) == std::vector<float>(3, 2));
  CHECK(values(jit::vmap(shifted)(ones({2, 3}))) == std::vector<float>{2, 3, 4, 2, 3, 4});
  auto fails = jit::custom_op(
      {.name = "blocks_that_fail",
       .shape = [](auto in) { return in[0]; },
       .cpu_blocks = [](auto, auto, std::int64_t, std::int64_t) { throw std::runtime_error("no block"); }});
  CHECK_THROWS_WITH(values(fails(numbers(300'000))), "no block");
}

TEST_CASE("custom op: CUDA source beside a function for the CPU, and mistakes") {
  auto doubled = jit::custom_op({.name = "doubled_by_source",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu_blocks =
                                     [](auto in, auto out, std::int64_t begin, std::int64_t end) {
                                       std::transform(in[0].data + begin, in[0].data + end, out.data + begin,
                                                      [](float x) { return 2 * x; });
                                     },
                                 .cuda_source = "extern \"C\" __global__ void doubled_by_source(const float* x, float* "
                                                "y, long long n) {}"});
  CHECK(values(doubled(numbers(3))) == std::vector<float>{0, 2, 4});
  CHECK(contains(message_of<UserError>([] {
                   jit::custom_op({.name = "two_sources",
                                   .shape = [](auto in) { return in[0]; },
                                   .cuda = [](auto, auto, void*) {},
                                   .cuda_source = "x"});
                 }),
                 "'two_sources' has a function for CUDA and CUDA source"));
  CHECK(contains(message_of<UserError>([] {
                   jit::custom_op(
                       {.name = "no-identifier", .shape = [](auto in) { return in[0]; }, .cuda_source = "x"});
                 }),
                 "'no-identifier' is no identifier of C"));
  CHECK(contains(message_of<UserError>([] {
                   jit::custom_op({.name = "blocks_too",
                                   .shape = [](auto in) { return in[0]; },
                                   .cpu = [](auto, auto) {},
                                   .cpu_blocks = [](auto, auto, std::int64_t, std::int64_t) {}});
                 }),
                 "'blocks_too' has a function for the CPU and one for blocks"));
  CHECK(contains(message_of<UserError>([] {
                   jit::custom_op({.name = "launch_only",
                                   .shape = [](auto in) { return in[0]; },
                                   .cpu = [](auto, auto) {},
                                   .cuda_launch = [](auto, auto) { return jit::CudaLaunch{}; }});
                 }),
                 "'launch_only' has a launch and no CUDA source"));
  auto gpu_only = jit::custom_op(
      {.name = "gpu_only_source", .shape = [](auto in) { return in[0]; }, .cuda_source = "__global__ void f() {}"});
  CHECK(contains(message_of<UserError>([&] { values(gpu_only(numbers(2))); }), "it has no function for the CPU"));
}
