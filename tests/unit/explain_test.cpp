// What a user is told about compiled functions: explain() and logs of functions that read values, the reasons for
// recompiling as data, and the lines of errors that operators throw.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

/// "explain_test.cpp:12".
std::string here(int line) { return "explain_test.cpp:" + std::to_string(line); }

}  // namespace

TEST_CASE("logs: a function that reads values shows guards, graphs, kernels and code of each segment") {
  auto f = jit::compile([](Tensor x) {
    Tensor y = exp(x) * 2;
    if (item(sum(y)) > 3) return Tensor(y + x);
    return Tensor(y - x);
  });
  const std::string function = here(__LINE__ - 5), line = here(__LINE__ - 3);
  LogCapture logged("guards,graphs,kernels,asm");
  f(vec({1, 2}));
  std::string text = logged.take();
  INFO(text);
  CHECK(has(text, "guards: " + function + ":\n  argument 0: f32[2] dense"));
  for (std::string topic : {"graphs", "kernels", "asm"}) {
    CHECK(
        has(text, topic + ": " + function + ": segment 1, up to where Predicate reads an outcome at " + line + ":\n"));
    CHECK(has(text, topic + ": " + function + ": segment 2, to the end of a call:\n"));
  }
  CHECK(occurrences(text, "traced graph:\n") == 2);
  CHECK(occurrences(text, "optimised graph:\n") == 2);
  CHECK(occurrences(text, "plan: ") == 2);
  CHECK(has(text, "exp(%0)"));
  CHECK(has(text, "code of "));
  f(vec({-1, -2}));  // what is new of the other path
  text = logged.take();
  CHECK(has(text, "segment 3, to the end of a call"));
  CHECK(has(text, "sub("));
  CHECK_FALSE(has(text, "segment 2"));
  f(vec({-1, -2}));
  CHECK(logged.take().empty());
}

TEST_CASE("logs: guards of a branch are said with the segment that asked") {
  auto f = jit::compile(
      [](Tensor x, Tensor y) {
        if (item(sum(x)) > 0) return Tensor(sum(x) + sum(y));
        return y.size(0) < x.size(0) ? Tensor(sum(x) * 2) : Tensor(sum(y) * 3);
      },
      {.dynamic = jit::Dynamic::always});
  f(vec({1, 2, 3}), vec({1, 2}));
  LogCapture logged("guards");
  f(vec({-1, -2, -3}), vec({1, 2}));
  const std::string text = logged.take();
  INFO(text);
  CHECK(has(text, "segment 3"));
  CHECK(has(text, "s1 < s0"));
  CHECK(has(text, "extent of axis 0 of argument 1"));
}

TEST_CASE("explain: a function that reads values, with its breaks, counts, graphs, kernels and code") {
  auto f = jit::compile([](Tensor x) {
    while (item(sum(x)) > 1) x = x * 0.5f;
    return x + item<int>(amax(x));
  });
  const std::string loop = here(__LINE__ - 3), exact = here(__LINE__ - 2);
  CHECK(has(f.explain(vec({0.25f})).text(),
            "Predicate reads an outcome at " + loop + ": 0 times\n"));  // compiled, not called
  f(vec({0.25f}));
  f(vec({0.25f}));
  f(vec({1.5f}));  // one round
  const std::string text = f.explain(vec({0.25f})).text();
  INFO(text);
  CHECK(has(text, "guards:\n  argument 0: f32[1] dense"));
  CHECK(has(text, "graph breaks:\n  Predicate reads an outcome at " + loop +
                      ": 4 times, at 2 places of the tree\n  item reads an exact value at " + exact +
                      ": 3 times, at 2 places of the tree\n"));
  CHECK(has(text, "trace tree: 6 segments, 3 calls\n"));
  CHECK(has(text, "false: 2 calls\n"));
  CHECK(has(text, "true: 1 call\n"));
  CHECK(has(text, "compile time of the first path: trace "));
  for (int segment = 1; segment <= 6; ++segment) CHECK(has(text, "\nsegment " + std::to_string(segment) + ", "));
  CHECK(occurrences(text, "optimised graph:\n") >= 3);
  CHECK(occurrences(text, "plan: ") == occurrences(text, "optimised graph:\n"));
  CHECK(occurrences(text, "code of ") >= 2);
  CHECK(occurrences(text, "the graph and the code of segment ") + occurrences(text, "optimised graph:\n") == 6);
  CHECK(f.stats().segments == 6);
  CHECK(f.stats().graph_breaks == 4);
}

TEST_CASE("explain: calls that went on lazily, and functions that are not traced, are told with their lines") {
  auto f = jit::compile([](Tensor x) { return x * item<int>(sum(x)); }, {.max_values = 2});
  const std::string line = here(__LINE__ - 1);
  for (float v : {1.f, 2.f, 3.f, 4.f, 4.f}) CHECK(item<float>(f(vec({v}))) == v * v);
  std::string text = f.explain(vec({1})).text();
  INFO(text);
  CHECK(has(text, "item reads an exact value at " + line + ": 5 times\n"));
  CHECK(has(text, "from here on lazily: 3 calls\n"));
  CHECK(f.stats().lazy_calls == 3);
  auto outside = jit::disable([](const Tensor& x) { return copy_of(to_vector<float>(x)); });
  auto g = jit::compile([&](Tensor x) { return outside(x * 2) + 1; });
  const std::string disabled = here(__LINE__ - 2), called = here(__LINE__ - 1);
  for (int i = 0; i < 3; ++i) g(vec({1, 2}));
  text = g.explain(vec({1, 2})).text();
  CHECK(has(text, "the function disabled at " + disabled + " is called at " + called + ": 3 times\n"));
  CHECK(has(text, "which gives f32[2]: 3 calls\n"));
}

TEST_CASE("explain: counts of threads, and of paths that are only warmed up") {
  auto f = jit::compile([](Tensor x) { return item(sum(x)) > 0 ? Tensor(x * 2) : Tensor(x * 3); });
  f.warm_up(vec({1}));
  f.warm_up(vec({-1}));
  CHECK(has(f.explain(vec({1})).text(), "trace tree: 3 segments, 0 calls\n"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) f(vec({t == 0 ? -1.f : 1.f}));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string text = f.explain(vec({1})).text();
  CHECK(has(text, "true: 30 calls\n"));
  CHECK(has(text, "false: 10 calls\n"));
}

TEST_CASE("recompile reasons: the guard of the version that comes closest, not the newest") {
  auto f = jit::compile([](Tensor x, int k) { return x * k; }, {.dynamic = jit::Dynamic::never});
  f(ones({4}), 2);
  f(ones({3, 5}, {.dtype = DType::f64}), 7);
  f(ones({4}), 3);  // only the value differs from the first version; from the second everything
  const std::vector<jit::RecompileReason> reasons = f.stats().recompile_reasons;
  REQUIRE(reasons.size() == 2);
  CHECK(reasons[0].guard == jit::GuardKind::dtype);
  CHECK(reasons[0].argument == "argument 0");
  CHECK(reasons[0].expected == "f32");
  CHECK(reasons[0].got == "f64");
  CHECK(reasons[1].guard == jit::GuardKind::fixed_value);
  CHECK(reasons[1].argument == "argument 1");
  CHECK(reasons[1].axis == -1);
  CHECK(reasons[1].expected == "2");
  CHECK(reasons[1].got == "3");
  CHECK(reasons[1].count == 1);
  CHECK(reasons[1].text == "guard 'value' failed: value of argument 1: expected 2, got 3");
  CHECK(has(reasons[1].remedy, "Scalar"));
  jit::StanceGuard guard(jit::Stance::fail_on_recompile);
  CHECK(has(message_of<RecompileError>([&] { f(ones({9}), 2); }),
            "guard 'extent' failed: extent of axis 0 of argument 0: expected 4, got 9"));
  CHECK(has(message_of<RecompileError>([&] { f(ones({3, 6}, {.dtype = DType::f64}), 7); }),
            "guard 'extent' failed: extent of axis 1 of argument 0: expected 5, got 6"));
}

TEST_CASE("recompile reasons: each once, with its count, its axis and the path of the argument") {
  struct Layer {
    Tensor weight;
    int power;
  };
  auto f = jit::compile([](Tensor x, const Layer& layer) { return x * sum(pow(layer.weight, layer.power)); },
                        {.dynamic = jit::Dynamic::never, .recompile_limit = 2});
  LogCapture quiet("");
  f(ones({4}), Layer{ones({2, 3}), 2});
  f(ones({4}), Layer{ones({2, 8}), 2});
  f(ones({4}), Layer{ones({2, 9}), 2});
  for (int i = 0; i < 3; ++i) f(ones({4}), Layer{ones({2, 7}), 2});  // past the limit
  const jit::Stats stats = f.stats();
  CHECK(stats.recompiles == 2);
  REQUIRE(stats.recompile_reasons.size() == 3);
  const jit::RecompileReason& last = stats.recompile_reasons[2];
  CHECK(last.guard == jit::GuardKind::extent);
  CHECK(last.argument == "argument 1.field0");
  CHECK(last.axis == 1);
  CHECK(last.got == "7");
  CHECK(last.count == 3);
  CHECK(stats.recompile_reasons[0].count == 1);
  f.reset();
  CHECK(f.stats().recompile_reasons.empty());
}

TEST_CASE("recompile reasons: relations, ranges and precision") {
  auto f = jit::compile([](Tensor x, Tensor y) { return x.size(0) < y.size(0) ? sum(x) : sum(y); },
                        {.dynamic = jit::Dynamic::always});
  f(ones({3}), ones({4}));
  f(ones({5}), ones({4}));
  REQUIRE(f.stats().recompile_reasons.size() == 1);
  const jit::RecompileReason relation = f.stats().recompile_reasons[0];
  CHECK(relation.guard == jit::GuardKind::relation);
  CHECK(relation.argument.empty());
  CHECK(relation.expected == "s0 < s1");
  CHECK(has(relation.got, "s0 = 5"));
  auto g = jit::compile([](Tensor x) { return matmul(x, x); });
  g(ones({2, 2}));
  set_matmul_precision(MatmulPrecision::tf32);
  g(ones({2, 2}));
  set_matmul_precision(MatmulPrecision::f32);
  REQUIRE(g.stats().recompile_reasons.size() == 1);
  CHECK(g.stats().recompile_reasons[0].guard == jit::GuardKind::precision);
  CHECK(g.stats().recompile_reasons[0].got == "tf32");
}

TEST_CASE("Function: warm_up, explain and reset as those of what compile() returns") {
  jit::Function<Tensor(Tensor, Scalar)> f = jit::compile([](Tensor x, Scalar s) { return exp(x) * s; });
  f.warm_up(vec({1, 2}), 0.5f);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().calls == 0);
  CHECK(has(f.explain(vec({1, 2}), 0.5f).text(), "optimised graph:"));
  f(vec({1, 2}), 0.5f);
  CHECK(f.stats().compiles == 1);
  f.reset();
  CHECK(f.stats().compiles == 0);
  f(vec({1, 2}), 0.5f);
  CHECK(f.stats().compiles == 1);
  jit::Function<Tensor(Tensor)> empty;
  CHECK_THROWS_AS(empty.warm_up(vec({1})), UserError);
  CHECK_THROWS_AS(empty.explain(vec({1})), UserError);
  CHECK_THROWS_AS(empty.reset(), UserError);
}

TEST_CASE("printing in a trace: the error has the line that prints, whatever is printed") {
  std::ostringstream out;
  Variable v(ones({2}));
  auto place_of = [&](auto body) {
    const std::string text = message_of<TraceError>([&] { jit::compile(body)(vec({1, 2})); });
    const std::string what = "print: a value is read while its function is traced [";
    const std::size_t at = text.find(what);
    return at == std::string::npos ? text : text.substr(at + what.size(), text.find(']', at) - at - what.size());
  };
  CHECK(place_of([&](Tensor x) { out << x; }) == here(__LINE__));
  CHECK(place_of([&](Tensor x) { out << x + 1; }) == here(__LINE__));
  CHECK(place_of([&](Tensor x) { out << "of " << exp(x)(0); }) == here(__LINE__));
  CHECK(place_of([&](Tensor) { out << v; }) == here(__LINE__));
  CHECK(place_of([&](Tensor x) { static_cast<void>(to_string(x)); }) == here(__LINE__));
  v.set(vec({1, 1}));
  auto f = jit::compile([&](Tensor x) { out << item(sum(x)); });  // a number may be read
  const std::string line = here(__LINE__ - 1);
  CHECK(has(f.explain(vec({1, 2})).text(), "reads an exact value at " + line));
  std::ostringstream now;
  now << vec({1, 2}) << v << item(sum(vec({1, 2}))) << vec({1}) + 1 << Tensor() << "\n";
  CHECK(now.str() == "[1., 2.]\n[1., 1.]\n3[2.]\n0.0\n");
}
