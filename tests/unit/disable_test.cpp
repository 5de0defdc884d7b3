// disable() inside compiled functions: the graph is broken, the function runs on values once in each call, and what it
// gives comes back.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <stdexcept>
#include <string>

using namespace sinter;

namespace {
std::string line(int number) { return "[disable_test.cpp:" + std::to_string(number) + "]"; }
}  // namespace

TEST_CASE("disable: in a compiled function it runs once in each call, and its results come back") {
  std::vector<float> seen;
  auto clip = jit::disable([&](const Tensor& x, int power) {
    CHECK_FALSE(jit::is_compiling());
    seen.push_back(item<float>(sum(x)));  // reading is allowed: nothing is traced here
    std::vector<float> values = to_vector<float>(x);
    for (float& v : values) v = v > 3 ? 3 : v;
    return Tensor(copy_of(values, {static_cast<std::int64_t>(values.size())}) * power);
  });
  const int at = __LINE__ + 1;
  auto f = jit::compile([&](Tensor x, Scalar s) { return exp(x * 0) + clip(x + 1, 2) * s + x; });
  for (int i = 0; i < 5; ++i)
    CHECK(floats(f(full({2}, i), 10)) == std::vector<float>(2, 1 + std::min(i + 1, 3) * 20.f + i));
  CHECK(seen == std::vector<float>{2, 4, 6, 8, 10});
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().graph_breaks == 1);
  CHECK(f.stats().segments == 2);
  CHECK(f.stats().lazy_calls == 0);
  const std::string text = f.explain(full({2}, 1), 10).text();
  CHECK(has(text, "calls the function disabled at disable_test.cpp:" + std::to_string(at - 8) +
                      ", at disable_test.cpp:" + std::to_string(at)));
  CHECK(has(text, "which gives f32[2]"));
}

TEST_CASE("disable: without operands it runs in each call, too") {
  int ticks = 0;
  auto tick = jit::disable([&] { return Scalar(static_cast<double>(++ticks)); });
  auto f = jit::compile([&](Tensor x) { return x * tick() + tick(); });
  for (int i = 0; i < 4; ++i)
    CHECK(floats(f(ones({2}))) == std::vector<float>(2, static_cast<float>(2 * i + 1 + 2 * i + 2)));
  CHECK(ticks == 8);
  CHECK(f.stats().segments == 3);
  int pings = 0;
  auto ping = jit::disable([&](const Tensor& x) { pings += item<int>(amax(x)); });
  auto g = jit::compile([&](Tensor x) {
    ping(x);
    return x + 1;
  });
  for (int i = 0; i < 3; ++i) CHECK(floats(g(full({2}, 3))) == std::vector<float>{4, 4});
  CHECK(pings == 9);
}

TEST_CASE("disable: structures, numbers and views of arguments and results") {
  struct Batch {
    Tensor x;
    std::vector<Tensor> more;
    int n;
  };
  int runs = 0;
  auto swap = jit::disable([&](const Batch& b, Scalar s) {
    ++runs;
    return std::pair{Batch{b.more[0], {b.x}, b.n + 1}, s + 1};
  });
  auto f = jit::compile([&](Tensor x, Tensor y, Scalar s) {
    auto [b, t] = swap(Batch{transpose(x, 0, 1), {y}, 2}, s * 2);
    return std::tuple{b.x * t, b.more[0] + b.n};
  });
  const Tensor x = reshape(arange(4).to(DType::f32), {2, 2});
  for (int i = 0; i < 4; ++i) {
    auto [a, b] = f(x, full({2}, i), 3);
    CHECK(floats(a) == std::vector<float>(2, i * 7.f));
    CHECK(floats(b) == std::vector<float>{3, 5, 4, 6});
  }
  CHECK(runs == 4);
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("disable: C++ values that come back are guarded, and a new one retraces without running anything again") {
  int runs = 0;
  auto count = jit::disable([&](const Tensor& x) {
    ++runs;
    return item<int>(sum(x));
  });
  int names = 0;
  auto name = jit::disable([&](int n) {
    ++names;
    return std::string(n % 2 ? "odd" : "even");
  });
  auto f = jit::compile([&](Tensor x) { return name(count(x)) == "odd" ? Tensor(x * 10) : x; });
  for (float v : {1.f, 2.f, 1.f, 2.f, 3.f, 1.f}) CHECK(floats(f(full({1}, v)))[0] == (v == 2 ? 2 : v * 10));
  CHECK(runs == 6);
  CHECK(names == 6);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().retraces == 2);
}

TEST_CASE("disable: shapes that come back: an extent of an argument stays symbolic, others are guarded") {
  int runs = 0;
  auto keep = jit::disable([&](const Tensor& x) {
    ++runs;
    return Tensor(x * 2);
  });
  auto f = jit::compile([&](Tensor x) { return keep(x) + x; }, {.dynamic = jit::Dynamic::always});
  for (int n : {3, 4, 5, 6}) CHECK(floats(f(ones({n}))) == std::vector<float>(static_cast<std::size_t>(n), 3.f));
  CHECK(runs == 4);
  CHECK(f.stats().retraces == 0);
  auto positive = jit::disable([](const Tensor& x) {
    std::vector<float> kept;
    for (float v : to_vector<float>(x))
      if (v > 0) kept.push_back(v);
    return copy_of(kept, {static_cast<std::int64_t>(kept.size())});
  });
  auto g = jit::compile([&](Tensor x) { return sum(positive(x)) + positive(x).size(0); });
  CHECK(item<float>(g(tensor({1.f, -1.f, 2.f}))) == 5);
  CHECK(item<float>(g(tensor({1.f, 5.f, -2.f}))) == 8);
  CHECK(g.stats().retraces == 0);
  CHECK(item<float>(g(tensor({1.f, 5.f, 2.f}))) == 11);
  CHECK(item<float>(g(tensor({-1.f, -5.f, -2.f}))) == 0);
  CHECK(g.stats().retraces == 2);
  CHECK(g.stats().compiles == 1);
}

TEST_CASE("disable: between reads, in loops, and past the tree's bound") {
  int runs = 0;
  auto halve = jit::disable([&](const Tensor& x) {
    ++runs;
    return Tensor(x * 0.5f);
  });
  for (std::int64_t bound : {256, 3}) {
    auto f = jit::compile(
        [&](Tensor x) {
          Tensor y = x * 2;
          while (item(amax(x)) > 1) x = halve(x);
          return x + y * 0;
        },
        {.max_breaks = bound});
    runs = 0;
    int expected = 0;
    for (float v : {8.f, 4.f, 8.f, 16.f, 8.f, 0.5f}) {
      float left = v;
      while (left > 1) {
        left /= 2;
        ++expected;
      }
      CHECK(floats(f(full({2}, v))) == std::vector<float>(2, left));
      CHECK(runs == expected);
    }
    CHECK((f.stats().lazy_calls == 0) == (bound == 256));
  }
}

TEST_CASE("disable: a compiled function that it calls, recursion, exceptions, threads' stances") {
  int runs = 0;
  auto inner = jit::compile([](Tensor x) { return x + 1; });
  auto risky = jit::disable([&](const Tensor& x) {
    ++runs;
    if (item<float>(sum(x)) > 100) throw std::runtime_error("too large");
    return inner(x);
  });
  Variable total(zeros({2}));
  auto f = jit::compile([&](Tensor x) {
    Tensor y = risky(x);
    total += y;
    return y;
  });
  for (int i = 0; i < 3; ++i) CHECK(floats(f(ones({2}))) == std::vector<float>{2, 2});
  CHECK_THROWS_AS(f(full({2}, 1000)), std::runtime_error);
  CHECK(floats(total.value()) == std::vector<float>{6, 6});
  CHECK(runs == 4);
  CHECK(inner.stats().compiles == 0);
  CHECK(jit::current_stance() == jit::Stance::default_);
  auto fails = jit::compile([&](Tensor x) { return risky(x * 1000); });  // in the first trace
  CHECK_THROWS_AS(fails(ones({2})), std::runtime_error);
  CHECK(floats(fails(zeros({2}))) == std::vector<float>{1, 1});
}

TEST_CASE("disable: Variables that the call has changed or read are not used without its knowledge") {
  Variable w(ones({2}), "w"), other(ones({2}), "other");
  auto reads = jit::disable([&](const Tensor& x) { return Tensor(x + w.value()); });
  auto assigns = jit::disable([&](const Tensor& x) { w.set(x); });
  auto f = jit::compile([&](Tensor x) {
    w += x;
    return reads(x);
  });
  const int at = __LINE__ - 2;
  std::string text = message_of<TraceError>([&] { f(ones({2})); });
  CHECK(has(text,
            "the function reads Variable 'w', which the compiled call has given a new value that is written back when "
            "it ends " +
                line(at)));
  CHECK(floats(w.value()) == std::vector<float>{1, 1});
  auto g = jit::compile([&](Tensor x) {
    Tensor y = w * x;
    assigns(x);
    return y;
  });
  CHECK(has(message_of<TraceError>([&] { g(ones({2})); }), "assigns Variable 'w', which the compiled call has read"));
  auto fine = jit::compile([&](Tensor x) {  // read only, and assigned before it is used
    Tensor y = reads(x);
    assigns(x * 5);
    return y + w;
  });
  for (int i = 0; i < 3; ++i) CHECK(floats(fine(ones({2}))) == std::vector<float>(2, i == 0 ? 7.f : 11.f));
}

TEST_CASE("disable: what cannot be, and where") {
  auto host = jit::disable([](const Tensor& t) { return t; });
  auto whole = jit::compile([&](Tensor x) { return host(x * 2); }, {.fullgraph = true});
  const int at = __LINE__ - 1;
  std::string text = message_of<TraceError>([&] { whole(ones({2})); });
  CHECK(has(text,
            "disable: a function that is not to be traced is called, which would cut the graph, and Options::fullgraph "
            "is set " +
                line(at)));
  CHECK(has(text, "jit::callback"));
  CHECK_FALSE(jit::is_compiling());
  auto gradient = jit::compile([&](Tensor x) { return jit::grad([&](Tensor v) { return sum(host(v)); })(x); });
  CHECK(has(message_of<TraceError>([&] { gradient(ones({2})); }), "has no derivative"));
  auto beside = jit::compile(
      [&](Tensor x) { return jit::grad([&](Tensor v) { return sum(v * host(x)); })(x); });  // a constant of it
  for (int i = 1; i < 4; ++i) CHECK(floats(beside(full({2}, i))) == std::vector<float>(2, static_cast<float>(i)));
  auto branch = jit::compile([&](Tensor x) {
    return jit::cond(sum(x) > 0, [&](Tensor v) { return host(v); }, [](Tensor v) { return v; }, x);
  });
  CHECK(has(message_of<TraceError>([&] { branch(ones({2})); }), "inside 'cond'"));
  auto changes = jit::disable([](const Tensor& t, std::vector<float>& out) { out = to_vector<float>(t); });
  std::vector<float> out;
  changes(ones({1}), out);
  CHECK(out == std::vector<float>{1});
  auto f = jit::compile([&](Tensor x) {
    changes(x, out);
    return x;
  });
  CHECK(has(message_of<TraceError>([&] { f(ones({2})); }), "capture by reference what the function changes"));
  auto variable = jit::disable([] { return Variable(ones({1})); });
  auto g = jit::compile([&](Tensor x) { return x * variable(); });
  CHECK(has(message_of<TraceError>([&] { g(ones({1})); }), "holds Variables"));
  auto captured = jit::compile([&](Tensor x) {
    auto capturing = jit::disable([&] { return Tensor(x + 1); });  // not an argument, and still noticed
    return capturing();
  });
  CHECK(has(message_of<TraceError>([&] { captured(ones({2})); }), "outside the trace it belongs to"));
}

TEST_CASE("disable: near misses: static extents, constants, and another function at the same place") {
  auto sizes = jit::disable([](Dim n) { return Scalar(n * 2); });
  auto h = jit::compile([&](Tensor x) { return x * sizes(x.size(0)); }, {.dynamic = jit::Dynamic::always});
  for (int n : {4, 5, 6}) CHECK(floats(h(ones({n})))[0] == 2 * static_cast<float>(n));
  CHECK(h.stats().compiles == 1);
  Tensor table = ones({3});
  int factor = 2;
  auto scale = jit::disable([&](const Tensor& t, int power) { return Tensor(t * power); });
  auto f = jit::compile([&](Tensor x) { return x * scale(table, factor); });
  CHECK(floats(f(ones({3}))) == std::vector<float>{2, 2, 2});
  factor = 3;  // a C++ value is one of the trace, here too
  CHECK(has(message_of<TraceError>([&] { f(ones({3})); }), "captured value changed at disable"));
  factor = 2;
  CHECK(floats(f(ones({3}))) == std::vector<float>{2, 2, 2});
  jit::StanceGuard guard(jit::Stance::force_eager);
  CHECK(floats(f(ones({3}))) == std::vector<float>{2, 2, 2});
}
