// print, check and callback: in order, once per call, under compile, grad and outside of both; errors leave all as it
// was.
#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <stdexcept>
#include <string>
#include <vector>

using namespace sinter;

namespace {

using Lines = std::vector<std::string>;

/// Collects what is printed while it lives.
class Printed {
 public:
  Printed() : before_(jit::set_print_sink([this](std::string_view line) { lines.emplace_back(line); })) {}
  ~Printed() { jit::set_print_sink(std::move(before_)); }
  Lines take() { return std::exchange(lines, {}); }
  Lines lines;

 private:
  jit::PrintSink before_;
};

Tensor numbers(int count) { return arange(count).to(DType::f32); }

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("print: values as NumPy shows them, once per call and in order") {
  Printed printed;
  auto f = jit::compile([](Tensor x, Scalar s) {
    jit::print("x = {}, sum {} {{}}", x, sum(x));
    Tensor y = x * s;
    jit::print("{}: y has {} elements, y[0] = {}, {} {} {}", "second", y.size(0), y(0), 1.5f, 3, true);
    jit::print("{}", s);
    return y;
  });
  f(numbers(3), 2);
  CHECK(printed.take() ==
        Lines{"x = [0., 1., 2.], sum 3.0 {}", "second: y has 3 elements, y[0] = 0.0, 1.5 3 True", "2"});
  f(numbers(3), 3);
  CHECK(printed.take() ==
        Lines{"x = [0., 1., 2.], sum 3.0 {}", "second: y has 3 elements, y[0] = 0.0, 1.5 3 True", "3"});
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("print: extents that are symbolic are printed, and no guard comes of it") {
  Printed printed;
  auto f = jit::compile([](Tensor x) {
    jit::print("{} of {}", x.size(0) * 2 + 1, x.shape()[0]);
    return x + 1;
  });
  for (int n : {3, 4, 5, 6}) f(numbers(n));
  CHECK(printed.take() == Lines{"7 of 3", "9 of 4", "11 of 5", "13 of 6"});
  CHECK(f.stats().compiles == 2);
}

TEST_CASE(
    "print: at once outside a trace, with the default sink after the others, nothing for a call that is only warmed "
    "up") {
  Printed printed;
  jit::print("now {}", numbers(2) + 1);
  CHECK(printed.take() == Lines{"now [1., 2.]"});
  auto f = jit::compile([](Tensor x) {
    jit::print("run");
    return x;
  });
  f.warm_up(numbers(2));
  static_cast<void>(f.explain(numbers(2)));
  CHECK(printed.take().empty());
  f(numbers(2));
  f(numbers(2));  // the purity check traces again, and prints nothing
  CHECK(printed.take() == Lines{"run", "run"});
}

TEST_CASE("print: formats that do not fit are errors where they are written") {
  Tensor x = numbers(2);
  CHECK(contains(message_of<UserError>([&] { jit::print("{} {}", x); }),
                 "has 2 places, and 1 values are given [effects_test.cpp:"));
  CHECK(contains(message_of<UserError>([&] { jit::print("loss", x); }), "has 0 places, and 1 values"));
  CHECK(contains(message_of<UserError>([&] { jit::print("{:.3f}", x); }), "write {} for a value"));
  CHECK(contains(message_of<UserError>([&] { jit::print("{", x); }), "brace"));
}

TEST_CASE("effects: under grad those of the forward pass run once, in compiled functions and outside") {
  Printed printed;
  auto loss = [](Tensor x) {
    jit::print("forward {}", sum(x));
    Tensor y = x * x;
    jit::print("square {}", sum(y));
    return sum(y);
  };
  CHECK(to_vector<float>(jit::grad(loss)(numbers(3))) == std::vector<float>{0, 2, 4});
  CHECK(printed.take() == Lines{"forward 3.0", "square 5.0"});
  auto compiled = jit::compile([&](Tensor x) {
    jit::print("before");
    auto [value, gradient] = jit::value_and_grad(loss)(x);
    jit::print("after {}", gradient);
    return gradient + value;
  });
  for (int call = 0; call < 3; ++call) {
    CHECK(to_vector<float>(compiled(numbers(3))) == std::vector<float>{5, 7, 9});
    CHECK(printed.take() == Lines{"before", "forward 3.0", "square 5.0", "after [0., 2., 4.]"});
  }
}

TEST_CASE("effects: order across nested compiled functions, with equal effects kept apart") {
  Printed printed;
  auto inner = jit::compile([](Tensor x) {
    jit::print("inner {}", x(0));
    return x * 2;
  });
  auto outer = jit::compile([&](Tensor x) {
    jit::print("outer");
    Tensor y = inner(inner(x));
    jit::print("outer");
    return y;
  });
  outer(numbers(2) + 1);
  CHECK(printed.take() == Lines{"outer", "inner 1.0", "inner 2.0", "outer"});
}

TEST_CASE("check: nothing while it holds; else an error with values, line and place") {
  auto f = jit::compile([](Tensor x, Scalar limit) {
    Tensor y = x * 2;
    jit::check(y < limit, "y must stay below {}, sum {}", limit, sum(y));
    return y + 1;
  });
  CHECK(to_vector<float>(f(numbers(3), 10.0)) == std::vector<float>{1, 3, 5});
  const std::string text = message_of<CheckError>([&] { f(numbers(3), 1.5); });
  CHECK(contains(text,
                 "sinter::CheckError: check: y must stay below 1.5, sum 6.0 (2 of 3 elements, the first at (1)) "
                 "[effects_test.cpp:"));
  CHECK(to_vector<float>(f(numbers(3), 10.0)) == std::vector<float>{1, 3, 5});
  CHECK(f.stats().compiles == 1);
  CHECK(contains(message_of<CheckError>([&] { jit::check(all(numbers(2) > 0.0f), "positive"); }), "check: positive ["));
  jit::check(numbers(2) >= 0.0f, "not negative");
  CHECK(contains(message_of<DTypeError>([&] { jit::check(numbers(2), "x"); }), "must be bool"));
  CHECK(contains(message_of<CheckError>([&] { jit::check(numbers(6).reshape({2, 3}) < 5.0f, "big"); }),
                 "(1 of 6 elements, the first at (1, 2))"));
}

TEST_CASE("check: a call that fails leaves Variables and lent memory as they were") {
  Variable w(full({2}, 1)), steps(full({}, 0));
  auto step = jit::compile([&](Tensor x) {
    w -= x;
    steps += 1;
    Tensor y = x * 3;
    jit::check(w.value() > 0, "w = {}", w);
    return y;
  });
  step(full({2}, 0.25));
  CHECK(to_vector<float>(w) == std::vector<float>{0.75, 0.75});
  CHECK_THROWS_AS(step(full({2}, 1)), CheckError);
  CHECK(to_vector<float>(w) == std::vector<float>{0.75, 0.75});
  CHECK(item<float>(steps) == 1);
  std::vector<float> place{7, 7};
  CHECK_THROWS_AS(step.into(borrow_mut(place.data(), {2}))(full({2}, 1)), CheckError);
  CHECK(place == std::vector<float>{7, 7});
  step.into(borrow_mut(place.data(), {2}))(full({2}, 0.25));
  CHECK(place == std::vector<float>{0.75, 0.75});
  CHECK(to_vector<float>(w) == std::vector<float>{0.5, 0.5});
  CHECK_THROWS_AS(jit::grad([&](Tensor x) {
                    w -= x;
                    jit::check(sum(x) < 0, "never");
                    return sum(x);
                  })(full({2}, 1)),
                  CheckError);
  CHECK(to_vector<float>(w) == std::vector<float>{0.5, 0.5});
}

TEST_CASE("callback: arguments as the function wants them, in order, for each call") {
  std::vector<double> log;
  auto f = jit::compile([&log](Tensor x) {
    jit::callback([&log](float total) { log.push_back(total); }, sum(x));
    Tensor y = x + 1;
    jit::callback([&log](const Tensor& a, std::vector<float> b,
                         std::int64_t n) { log.insert(log.end(), {item<double>(a(1)), b[1], double(n)}); },
                  x, y, 7);
    jit::callback([&log] { log.push_back(-1); });
    return y;
  });
  f(numbers(3));
  CHECK(log == std::vector<double>{3, 1, 2, 7, -1});
  f(numbers(3) * 2);
  CHECK(log == std::vector<double>{3, 1, 2, 7, -1, 6, 2, 3, 7, -1});
}

TEST_CASE("callback: declared results, their extents taken from arguments") {
  auto reversed = [](const Tensor& x) {
    auto values = to_vector<float>(x);
    return std::vector<float>(values.rbegin(), values.rend());
  };
  auto f = jit::compile([&](Tensor x) {
    Tensor back = jit::callback(reversed, jit::like(x), x * 2);
    Tensor count =
        jit::callback([](const Tensor& y) { return y.numel().value(); }, {.shape = {}, .dtype = DType::i64}, back);
    auto [low, high] = jit::callback([](const Tensor& y) { return std::pair(amin(y), amax(y)); },
                                     std::array<jit::ResultSpec, 2>{}, back);
    return back + count + low * 10 + high * 100;
  });
  CHECK(to_vector<float>(f(numbers(2))) == std::vector<float>{204, 202});
  CHECK(to_vector<float>(f(numbers(3))) == std::vector<float>{407, 405, 403});
  CHECK(to_vector<float>(f(numbers(4))) == std::vector<float>{610, 608, 606, 604});
  CHECK(f.stats().compiles == 2);
  CHECK(to_vector<float>(jit::callback(reversed, {.shape = {2}}, numbers(2))) == std::vector<float>{1, 0});
}

TEST_CASE("callback: what does not fit the declaration is an error with the line") {
  auto wrong = [](const Tensor& x) { return x(slice(1)); };
  auto f = jit::compile([&](Tensor x) { return jit::callback(wrong, jit::like(x), x) + 1; });
  CHECK(contains(message_of<UserError>([&] { f(numbers(3)); }),
                 "callback: result 0 is f32[2], declared was f32[3] [effects_test.cpp:"));
  CHECK(contains(message_of<UserError>([&] { jit::callback([](const Tensor&) {}, jit::like(numbers(2)), numbers(2)); }),
                 "gave 0 results, 1 were declared"));
  CHECK(contains(message_of<UserError>([&] {
                   jit::callback([](const Tensor& x) { return x; }, {.shape = {2}, .dtype = DType::i64}, numbers(2));
                 }),
                 "is f32[2], declared was i64[2]"));
}

TEST_CASE("callback: an exception comes out of the call as it is, and the function can be called again") {
  int calls = 0;
  Variable w(full({}, 1));
  auto f = jit::compile([&](Tensor x) {
    w += 1;
    jit::callback(
        [&calls](float total) {
          if (++calls % 2 == 0) throw std::out_of_range("total " + std::to_string(total));
        },
        sum(x));
    return x * 2;
  });
  for (int round = 0; round < 3; ++round) {
    CHECK(to_vector<float>(f(numbers(2))) == std::vector<float>{0, 2});
    CHECK_THROWS_AS(f(numbers(2)), std::out_of_range);
    CHECK(item<float>(w) == static_cast<float>(2 + round));
  }
  CHECK_THROWS_AS(jit::callback([] { throw std::runtime_error("now"); }), std::runtime_error);
}

TEST_CASE("callback: it may call compiled functions, the one that it is called from too, and evaluate tensors") {
  auto twice = jit::compile([](Tensor x) { return x * 2; });
  jit::Function<Tensor(Tensor)> self;
  auto f = jit::compile([&](Tensor x) {
    return jit::callback(
        [&](const Tensor& y) {
          if (item<float>(y(0)) > 10) return y;
          return self(Tensor(twice(y) + 0 * y));
        },
        jit::like(x), x);
  });
  self = f;
  CHECK(to_vector<float>(f(full({2}, 1))) == std::vector<float>{16, 16});
}

TEST_CASE("callback: pure ones are merged and removed, others never") {
  int pure = 0, effects = 0;
  auto count = [&pure](const Tensor& x) { return ++pure, x * 2; };
  auto f = jit::compile([&](Tensor x) {
    const jit::ResultSpec once{.shape = x.shape(), .pure = true};
    Tensor unused = jit::callback(count, once, x);
    Tensor ignored = jit::callback([&effects](const Tensor& y) { return ++effects, y; }, jit::like(x), x);
    return x + 1;
  });
  f(numbers(2));
  CHECK(pure == 0);
  CHECK(effects == 1);
  auto stateless = [](const Tensor& x) { return x * 2; };
  auto g = jit::compile([&](Tensor x) {
    const jit::ResultSpec result{.shape = x.shape(), .pure = true};
    return jit::callback(stateless, result, x) + jit::callback(stateless, result, x);
  });
  CHECK(to_vector<float>(g(numbers(2))) == std::vector<float>{0, 4});
  CHECK(g.stats().kernels == 2);
}

TEST_CASE("callback: differentiated by the derivative it is given, else an error that says so") {
  auto cube = [](const Tensor& x) { return Tensor(x * x * x); };
  auto with = [&](Tensor x) {
    return sum(jit::callback(cube,
                             {.shape = x.shape(),
                              .pure = true,
                              .vjp = [](auto in, const Tensor&,
                                        const Tensor& dout) { return std::vector<Tensor>{dout * 3 * in[0] * in[0]}; }},
                             x));
  };
  CHECK(to_vector<float>(jit::grad(with)(numbers(3))) == std::vector<float>{0, 3, 12});
  CHECK(to_vector<float>(jit::compile(jit::grad(with))(numbers(3))) == std::vector<float>{0, 3, 12});
  auto without = [&](Tensor x) { return sum(jit::callback(cube, jit::like(x), x)); };
  const std::string text = message_of<UserError>([&] { jit::grad(without)(numbers(3)); });
  CHECK(contains(text, "callback: it has no derivative"));
  CHECK(contains(text, "[effects_test.cpp:"));
  CHECK(to_vector<float>(jit::grad([&](Tensor x) {
          return sum(jit::callback(cube, jit::like(x), stop_gradient(x)) * x);
        })(numbers(3))) == std::vector<float>{0, 1, 8});
}

TEST_CASE("effects: once under every transform; one line for a whole batch") {
  Printed printed;
  auto body = [](Tensor x) {
    jit::print("sum {}", sum(x));
    return x * x;
  };
  Tensor x = numbers(3);
  const Lines once{"sum 3.0"};
  auto [value, pull] = jit::vjp(body, x);
  CHECK(to_vector<float>(pull(full({3}, 1))) == std::vector<float>{0, 2, 4});
  CHECK(printed.take() == once);
  CHECK(to_vector<float>(jit::jvp(body, x, full({3}, 1)).second) == std::vector<float>{0, 2, 4});
  CHECK(printed.take() == once);
  CHECK(to_vector<float>(sum(jit::jacobian(body)(x), 1)) == std::vector<float>{0, 2, 4});
  CHECK(printed.take() == once);
  auto [by_a, by_b] = jit::jacobian<0, 1>([&](Tensor a, Tensor b) { return body(a) * sum(b); })(x, x);
  CHECK(printed.take() == once);
  auto hessian = jit::compile(jit::hessian([&](Tensor a) { return sum(body(a)); }));
  CHECK(to_vector<float>(sum(hessian(x), 1)) == std::vector<float>{2, 2, 2});
  CHECK(printed.take() == once);
  Tensor batch = reshape(numbers(4), {2, 2});
  CHECK(to_vector<float>(jit::vmap(body)(batch)) == std::vector<float>{0, 1, 4, 9});
  CHECK(printed.take() == Lines{"sum [1., 5.]"});
  CHECK_THROWS_AS(jit::vmap([](Tensor a) {
                    jit::check(sum(a) < 4, "rows {}", a);
                    return a;
                  })(batch),
                  CheckError);
}

TEST_CASE("callback: under vmap it is called for each example, and its derivative is mapped too") {
  std::vector<float> seen;
  auto f = [&seen](Tensor x, Tensor factor) {
    Tensor y = jit::callback(
        [&seen](const Tensor& a, float k) {
          seen.push_back(item<float>(sum(a)));
          return Tensor(a * k);
        },
        {.shape = x.shape(),
         .vjp = [](auto in, const Tensor&,
                   const Tensor& dout) { return std::vector<Tensor>{dout * in[1], sum(dout * in[0])}; }},
        x, factor);
    return y + 1;
  };
  auto mapped = jit::vmap(f, {0, jit::no_axis});
  Tensor batch = reshape(numbers(6), {3, 2});
  for (int round = 0; round < 2; ++round) {
    seen.clear();
    Tensor out = round == 0 ? mapped(batch, full({}, 2)) : jit::compile(mapped)(batch, full({}, 2));
    CHECK(to_vector<float>(out) == std::vector<float>{1, 3, 5, 7, 9, 11});
    CHECK(seen == std::vector<float>{1, 5, 9});
  }
  auto loss = [&](Tensor x, Tensor factor) { return sum(mapped(x, factor) * x); };
  auto [by_x, by_factor] = jit::compile(jit::grad<0, 1>(loss))(batch, full({}, 2));
  CHECK(to_vector<float>(by_x) == std::vector<float>{1, 5, 9, 13, 17, 21});
  CHECK(item<float>(by_factor) == 55);
}

TEST_CASE("random numbers: each call draws new ones, in order, also under grad and when traced twice") {
  manual_seed(3);
  std::vector<float> plain;
  for (int i = 0; i < 6; ++i)
    for (float v : to_vector<float>(rand({2}))) plain.push_back(v);
  manual_seed(3);
  auto f = jit::compile([](Tensor x) {
    Tensor first = x + rand({2});
    return std::pair(first, rand({2}));
  });
  std::vector<float> compiled;
  for (int i = 0; i < 3; ++i) {
    auto [a, b] = f(zeros({2}));
    for (float v : to_vector<float>(a)) compiled.push_back(v);
    for (float v : to_vector<float>(b)) compiled.push_back(v);
  }
  CHECK(compiled == plain);
  manual_seed(3);
  auto g = jit::compile([](Tensor x) { return jit::value_and_grad([](Tensor y) { return sum(y * rand({2})); })(x); });
  for (int i = 0; i < 3; ++i) {
    auto [value, gradient] = g(full({2}, 1));
    CHECK(to_vector<float>(gradient) == std::vector<float>(plain.begin() + 2 * i, plain.begin() + 2 * i + 2));
    CHECK(item<float>(value) ==
          Approx(plain[static_cast<std::size_t>(2 * i)] + plain[static_cast<std::size_t>(2 * i + 1)]));
  }
}

TEST_CASE("effects: where a value that is read cuts the trace, those before and after the cut run once") {
  Printed printed;
  int calls = 0;
  auto f = jit::compile([&calls](Tensor x) -> Tensor {
    jit::print("before {}", sum(x));
    jit::callback([&calls] { ++calls; });
    if (item(sum(x)) > 2) {
      jit::print("large {}", amax(x));
      return x * 2;
    }
    jit::print("small");
    return x;
  });
  for (int round = 0; round < 4; ++round) {
    f(numbers(3));
    CHECK(printed.take() == Lines{"before 3.0", "large 2.0"});
    f(numbers(3) * 0.5);
    CHECK(printed.take() == Lines{"before 1.5", "small"});
    CHECK(calls == 2 * (round + 1));
  }
}
