// lower(): the stages of a compilation as values, and costs counted by hand.
#include "catch.hpp"

#include <sinter/graphs.hpp>
#include <sinter/passes/planted.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}
}  // namespace

TEST_CASE("lower() gives graph, passes, kernels, schedules, code and costs") {
  const auto f = jit::compile([](Tensor x, Tensor w) { return tanh(matmul(x, w) + 1) * 1; });
  const auto lowered = f.lower(jit::spec({16, 32}), jit::spec({32, 8}));
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().calls == 0);
  CHECK_THAT(lowered.graph().text(), Catch::Contains("matmul") && Catch::Contains("tanh"));
  const auto passes = lowered.passes();
  REQUIRE_FALSE(passes.empty());
  CHECK_THAT(passes.front().graph.text(), Catch::Contains("tanh"));
  CHECK_THAT(passes.back().graph.text(), !Catch::Contains(" mul("));
  const auto kernels = lowered.kernels();
  REQUIRE(kernels.size() == 1);
  const jit::KernelStage& kernel = kernels[0];
  CHECK(kernel.runs == 1);
  CHECK_THAT(kernel.text, Catch::Contains("contract"));
  CHECK_FALSE(kernel.schedules.empty());
  CHECK(kernel.cost.flops == 2.0 * 16 * 32 * 8 + 16 * 8);  // products, and the sums with 1
  CHECK(kernel.cost.special == 16 * 8);
  CHECK(kernel.cost.bytes_read == 4.0 * (16 * 32 + 32 * 8));
  CHECK(kernel.cost.bytes_written == 4.0 * 16 * 8);
  CHECK_FALSE(kernel.cost.is_incomplete);
  CHECK(lowered.cost().flops == kernel.cost.flops);
  CHECK(lowered.cost().intensity() == Approx((8320.0 + 128) / 3584));
  CHECK(lowered.cost().seconds({.flops = 8320, .special = 128, .bytes = 1}) == 3584);
  CHECK(lowered.cost().seconds({.flops = 8320, .special = 128, .bytes = 1e9}) == 2);
  CHECK_THAT(lowered.schedules(), Catch::Contains(kernel.name + " [" + kernel.backend + "]: "));
  CHECK_THAT(lowered.code(), Catch::Contains("code of " + kernel.name));
  const std::string text = lowered.text();
  for (const char* part : {"graph:", "simplify:", "kernels:", ", 1 run: 8320 flops, 128 special, 3072 bytes read",
                           "together: ", "code of "})
    CHECK_THAT(text, Catch::Contains(part));
}

TEST_CASE("what lower().compile() gives has nothing left to do at its first call") {
  const auto f = jit::compile([](Tensor x, Scalar s) { return sum(exp(x) * s, -1); });
  const auto ready = f.lower(jit::spec({3, 5}), 2.0f).compile();
  jit::StanceGuard strict(jit::Stance::fail_on_recompile);
  const CodeCacheStats before = code_cache_stats();
  const std::vector<float> y = to_vector<float>(ready(zeros({3, 5}), 4.0f));
  CHECK(y == std::vector<float>{20, 20, 20});
  CHECK(f.stats().compiles == 1);
  CHECK(code_cache_stats().generated == before.generated);
  CHECK(f.stats().calls == 1);
}

TEST_CASE("lower() of other dtypes, sizes and containers") {
  const auto f = jit::compile([](const std::vector<Tensor>& parts) { return parts[0] + parts[1]; });
  CHECK(f.lower(std::vector<Tensor>{jit::spec({2}, DType::f64), jit::spec({2}, DType::f64)}).cost().bytes() == 48);
  const auto empty = f.lower(std::vector<Tensor>{jit::spec({0}), jit::spec({0})});
  CHECK(empty.cost().bytes() == 0);
  CHECK(empty.cost().intensity() == 0);
  CHECK(empty.compile()(std::vector<Tensor>{zeros({0}), zeros({0})}).numel() == 0);
  const auto rows = jit::compile([](Tensor x) { return softmax(x, -1); });
  CHECK(rows.lower(jit::spec({4, 100})).cost().special == 400);  // one exponential each
  const Variable w(ones({8}));
  const auto captures = jit::compile([w](Tensor x) { return x * w; });
  CHECK(captures.lower(jit::spec({8})).cost().bytes() == 96);
  // Strided operands: what is touched counts.
  const auto part = jit::compile([](Tensor x) { return x(all, slice(0, 10)) * 2; });
  CHECK(part.lower(jit::spec({10, 1000})).cost().bytes_read == 400);
}

TEST_CASE("costs of dynamic sizes are those of the call") {
  const auto f = jit::compile([](Tensor x) { return x + 1; }, {.dynamic = jit::Dynamic::always});
  CHECK(f.lower(jit::spec({100})).cost().flops == 100);
  CHECK(f.lower(jit::spec({7})).cost().flops == 7);
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("kernels of regions and loops count by their runs") {
  const auto layer = jit::region([](Tensor x, Tensor w) { return tanh(matmul(x, w)); });
  const auto f = jit::compile([layer](Tensor x, Tensor w) {
    for (int i = 0; i < 5; ++i) x = layer(x, w);
    return x;
  });
  const auto lowered = f.lower(jit::spec({4, 4}), jit::spec({4, 4}));
  CHECK(lowered.cost().flops == 5 * 2 * 64);
  CHECK(lowered.cost().special == 5 * 16);
  CHECK_FALSE(lowered.cost().is_incomplete);
  CHECK(lowered.kernels()[0].runs == 5);

  const auto loop =
      jit::compile([](Tensor x) { return jit::fori_loop(0, 10, [](auto, Tensor y) { return Tensor(sin(y)); }, x); });
  CHECK(loop.lower(jit::spec({4})).cost().is_incomplete);
}

TEST_CASE("lower() says why it shows nothing") {
  const auto reads = jit::compile([](Tensor x) {
    if (item(sum(x)) > 0) return x * 2;
    return x * 3;
  });
  CHECK_THAT(
      message_of([&] { reads.lower(ones({2})); }),
      Catch::Contains("lower: the function reads values: each path through it is compiled when a call takes it") &&
          Catch::Contains("lower_test.cpp") && Catch::Contains("choose with where() or jit::cond instead"));
  const auto plain = jit::compile([](Tensor x) { return x * 2; }, {.backend = "noop"});
  CHECK_THAT(message_of([&] { plain.lower(ones({2})); }),
             Catch::Contains("lower: this call runs the function uncompiled"));
}

TEST_CASE("the graph of lower() is a text that parses back and runs") {
  const auto f = jit::compile([](Tensor x, Tensor w) { return softmax(matmul(x, w) * 0.5f, -1); });
  const std::string text = f.lower(jit::spec({4, 3}), jit::spec({3, 5})).graph().text();
  const jit::GraphFunction again = jit::compile_graph(parse_graph(text));
  const Tensor x = rand({4, 3}), w = rand({3, 5});
  const std::vector<Tensor> inputs{x, w};
  CHECK(to_vector<float>(again(inputs)[0]) == to_vector<float>(f(x, w)));
}

TEST_CASE("stages after a suppressed error are those of the back end that made the code") {
  struct Planted {
    PipelinePass pass{"planted",
                      [](const Graph& graph, const PipelineOptions&) -> Graph {
                        for (const Node& node : graph.nodes())
                          if (node.op->name == "tanh") throw InternalError("the planted pass takes no tanh");
                        return graph;
                      },
                      "a test", true};
    Planted() {
      jit::reset();
      passes_detail::planted_pass = &pass;
    }
    ~Planted() {
      passes_detail::planted_pass = nullptr;
      jit::reset();
    }
  };
  const Planted planted;
  const auto f = jit::compile([](Tensor x) { return tanh(x) + 1; }, {.suppress_errors = true});
  const auto lowered = f.lower(jit::spec({4}));
  CHECK(lowered.passes().empty());  // operations as they are
  CHECK_THAT(lowered.text(), Catch::Contains("tanh"));
}
