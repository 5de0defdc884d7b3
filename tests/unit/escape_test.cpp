// disable() and allow_in_graph(): functions that are never traced, and functions that must be traced whole.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <stdexcept>
#include <string>

using namespace sinter;

TEST_CASE("disable: runs as it is, and compiled functions inside it, too") {
  auto compiled = jit::compile([](Tensor x) { return x * 2; });
  int runs = 0;
  auto f = jit::disable([&](const Tensor& x, int n) {
    ++runs;
    Tensor y = compiled(x);
    return item<float>(sum(y)) > 0 ? Tensor(y + n) : y;
  });
  for (int i = 0; i < 3; ++i) CHECK(floats(f(ones({2}), 1)) == std::vector<float>{3, 3});
  CHECK(runs == 3);
  CHECK(compiled.stats().compiles == 0);
  CHECK(jit::current_stance() == jit::Stance::default_);
  auto throws = jit::disable([](int) { throw std::runtime_error("inside"); });
  CHECK_THROWS_AS(throws(1), std::runtime_error);
  CHECK(jit::current_stance() == jit::Stance::default_);
}

TEST_CASE("disable: inside a trace, on what does not depend on it, gives constants") {
  Tensor table = ones({3});
  int runs = 0;
  auto scale = jit::disable([&](const Tensor& t, int power) {
    ++runs;
    CHECK_FALSE(jit::is_compiling());
    float total = item<float>(sum(t));   // reading is allowed: nothing is traced here
    return full({3}, total * static_cast<float>(power));
  });
  auto f = jit::compile([&](Tensor x) { return x * scale(table, 2); });
  CHECK(floats(f(ones({3}))) == std::vector<float>{6, 6, 6});
  CHECK(floats(f(ones({3}) * 2)) == std::vector<float>{12, 12, 12});
  CHECK(floats(f(ones({3}) * 3)) == std::vector<float>{18, 18, 18});
  CHECK(f.stats().compiles == 1);
  CHECK(runs == 2);   // the trace and the purity check
}

TEST_CASE("disable: a traced tensor that reaches it is an error with its line") {
  auto host = jit::disable([](const Tensor& t) { return item<float>(sum(t)); });
  const int line = __LINE__ - 1;
  auto f = jit::compile([&](Tensor x) { return x * host(x * 2); });
  std::string text = message_of<TraceError>([&] { f(ones({2})); });
  CHECK(has(text, "disable: a traced tensor reaches a function that is not to be traced [escape_test.cpp:" + std::to_string(line) + "]"));
  CHECK_FALSE(jit::is_compiling());
  auto list = jit::disable([](const std::vector<Tensor>& all) { return all.size(); });
  auto g = jit::compile([&](Tensor x) { return x * static_cast<int>(list(std::vector<Tensor>{x, x})); });
  CHECK_THROWS_AS(g(ones({2})), TraceError);
  auto captured = jit::compile([&](Tensor x) {
    auto sneaky = jit::disable([&] { return Tensor(x + 1); });   // not an argument, and still noticed
    return sneaky();
  });
  CHECK(has(message_of<TraceError>([&] { captured(ones({2})); }), "outside the trace it belongs to"));
  auto sizes = jit::disable([](Dim n) { return static_cast<int>(n); });
  auto h = jit::compile([&](Tensor x) { return x * sizes(x.size(0)); }, {.dynamic = jit::Dynamic::always});
  CHECK_THROWS_AS(h(ones({4})), TraceError);
  CHECK(host(ones({2})) == 2);
}

TEST_CASE("allow_in_graph: traced through, and reading in it is an error") {
  auto body = jit::allow_in_graph([](const Tensor& x, const Tensor& y) { return exp(x) + y; });
  auto f = jit::compile([&](Tensor x) { return body(x, x * 2) * 2; });
  CHECK(floats(f(zeros({2}))) == std::vector<float>{2, 2});
  CHECK(f.stats().kernels == 1);
  CHECK(floats(body(zeros({2}), ones({2}))) == std::vector<float>{2, 2});
  auto reading = jit::allow_in_graph([](const Tensor& x) { return x * item<float>(sum(x)); });
  const int line = __LINE__ - 1;
  auto g = jit::compile([&](Tensor x) { return reading(x); });
  std::string text = message_of<TraceError>([&] { g(ones({2})); });
  CHECK(has(text, "[escape_test.cpp:" + std::to_string(line) + "]"));
  CHECK(floats(reading(ones({2}))) == std::vector<float>{2, 2});   // outside a trace it may
  CHECK_FALSE(WholeGraph::is_required());
}
