// disable() outside of traces (inside: disable_test.cpp), and allow_in_graph(): functions that must be traced whole.
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
  CHECK(floats(reading(ones({2}))) == std::vector<float>{2, 2});  // outside a trace it may
  CHECK_FALSE(WholeGraph::is_required());
  auto host = jit::disable([](const Tensor& x) { return x; });
  auto calling =
      jit::compile([&](Tensor x) { return jit::allow_in_graph([&](const Tensor& y) { return host(y); })(x); });
  CHECK(has(message_of<TraceError>([&] { calling(ones({2})); }), "allow_in_graph"));
}
