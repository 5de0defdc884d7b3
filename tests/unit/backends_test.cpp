// Back ends by name: those for bisecting, registered ones, and what wrong ones are told.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/graph/parse.hpp>
#include <sinter/sinter.hpp>
#include <sinter/tuning.hpp>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <tuple>

using namespace sinter;

namespace {

bool is_listed(const std::string& name) {
  auto all = jit::list_backends();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

TEST_CASE("backends: all of them agree") {
  for (const char* name : {"reference", "eager", "aot_eager", "noop"}) CHECK(is_listed(name));
  Tensor x = reshape(arange(12), {3, 4}).to(DType::f32) / 5, w = reshape(arange(8), {4, 2}).to(DType::f32) - 3;
  auto body = [](Tensor a, Tensor b, Scalar s) {
    Tensor loss = sum(softmax(gelu(matmul(a, b)) * s, 1)(all, slice(0, 1)));
    Tensor gradient = jit::grad([&](Tensor t) { return sum(tanh(matmul(t, b)) * s); })(a);
    return std::pair{loss, gradient};
  };
  auto [loss, gradient] = jit::compile(body)(x, w, 0.5);
  for (const std::string& name : jit::list_backends()) {
    INFO(name);
    auto f = jit::compile(body, {.backend = name});
    for (int round = 0; round < 2; ++round) {
      auto [l, g] = f(x, w, 0.5);
      CHECK(item<float>(l) == Approx(item<float>(loss)));
      auto got = floats(g), want = floats(gradient);
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-6));
    }
    CHECK(f.stats().compiles == (name == "noop" ? 0 : 1));
    CHECK(f.stats().eager_calls == (name == "noop" ? 2 : 0));
  }
}

TEST_CASE("backends: eager keeps the traced operations, aot_eager runs the passes, both one by one") {
  auto body = [](Tensor x) { return (x * 1 + 0) * 2 + 1; };
  auto eager = jit::compile(body, {.backend = "eager"}), aot = jit::compile(body, {.backend = "aot_eager"}),
       fused = jit::compile(body, {.backend = "reference"});
  for (auto* f : {&eager}) CHECK(floats((*f)(ones({3})))[0] == 3);
  CHECK(floats(aot(ones({3})))[0] == 3);
  CHECK(floats(fused(ones({3})))[0] == 3);
  CHECK(eager.stats().kernels > aot.stats().kernels);  // nothing simplified x * 1 + 0 away
  CHECK(aot.stats().kernels > fused.stats().kernels);
  CHECK(fused.stats().kernels == 1);
  CHECK(has(eager.explain(ones({3})).text(), "[reference]") == has(aot.explain(ones({3})).text(), "[reference]"));
}

TEST_CASE("backends: those without passes run what has a derivative of its own, in regions and branches too") {
  const Tensor x = tensor({0.5f, -1.f, 2.f});
  auto block = [](Tensor v) { return Tensor(tanh(v) * v); };
  auto kept = jit::checkpoint(block);
  auto body = [&](Tensor v) {
    Tensor branch = jit::cond(sum(v) > 0, kept, block, v);
    return std::tuple{kept(v), jit::region(kept)(v), branch, jit::grad([&](Tensor u) { return sum(kept(u)); })(v)};
  };
  const auto [value, region, branch, gradient] = jit::compile(body)(x);
  for (const char* name : {"eager", "aot_eager", "reference", ""}) {
    INFO(name);
    for (const jit::Mode mode : {jit::Mode::default_, jit::Mode::background}) {
      if (mode == jit::Mode::background && *name != '\0') continue;
      auto f = jit::compile(body, {.mode = mode, .backend = name});
      const auto [v, r, b, g] = f(x);
      CHECK(allclose(v, value));
      CHECK(allclose(r, region));
      CHECK(allclose(b, branch));
      CHECK(allclose(g, gradient));
    }
  }
  jit::wait_for_background();
}

TEST_CASE("backends: a registered one gets the graph and the values, and serves the calls") {
  std::atomic<int> made{0}, ran{0};
  std::string seen;
  jit::register_backend("counting", [&](const Graph& graph, std::span<const Tensor> examples) {
    ++made;
    seen = graph.text();
    CHECK(examples.size() == graph.inputs().size());
    auto run = jit::compile_graph(graph);
    return [run, &ran](std::span<const Tensor> inputs) {
      ++ran;
      return run(inputs);
    };
  });
  CHECK(is_listed("counting"));
  Variable w(ones({3}));
  auto f = jit::compile(
      [w](Tensor x, Scalar s) {
        Tensor y = exp(x) * s + w;
        w += 1;
        return std::tuple{y, sum(y), 5};
      },
      {.backend = "counting"});
  auto [y, total, five] = f(zeros({3}), 2.0);
  CHECK(floats(y) == std::vector<float>{3, 3, 3});
  CHECK(item<float>(total) == 9);
  CHECK(five == 5);
  CHECK(floats(w) == std::vector<float>{2, 2, 2});
  CHECK(has(seen, "exp"));
  CHECK(item<float>(std::get<1>(f(zeros({3}), 1.0))) == 9);
  CHECK(made == 1);
  CHECK(ran == 2);
  CHECK(has(f.explain(zeros({3}), 1.0).text(), "a registered back end runs the graph"));
  float out[4], one[1];
  auto g = jit::compile([](Tensor x) { return std::pair{x * 2, sum(x)}; }, {.backend = "counting"});
  for (int n : {2, 3, 4}) {  // symbolic sizes reach it, too
    g.into(borrow_mut(out, {n}), borrow_mut(one, {}))(ones({n}));
    CHECK(out[n - 1] == 2);
    CHECK(one[0] == static_cast<float>(n));
  }
  CHECK(g.stats().compiles == 2);
  CHECK(has(message_of<UserError>([&] { g.into(borrow_mut(one, {}))(ones({2})); }), "1 places for 2 results"));
}

TEST_CASE("backends: what a registered one may not do") {
  auto refuse = [](const Graph&, std::span<const Tensor>) -> jit::GraphFunction {
    throw std::runtime_error("no graphs today");
  };
  jit::register_backend("refuses", refuse);
  CHECK(has(message_of<UserError>([&] { jit::register_backend("refuses", refuse); }),
            "there is a back end 'refuses' already [backends_test.cpp:"));
  CHECK(has(message_of<UserError>([&] { jit::register_backend("reference", refuse); }), "already"));
  CHECK(has(message_of<UserError>([&] { jit::register_backend("eager", refuse); }), "already"));
  CHECK(has(message_of<UserError>([&] { jit::register_backend("nothing", {}); }),
            "the function of back end 'nothing' is empty"));
  CHECK(has(message_of<UserError>([&] { jit::register_backend("", refuse); }), "the name is empty"));
  auto body = [](Tensor x) { return std::pair{x + 1, x * 2}; };
  auto refused = jit::compile(body, {.backend = "refuses"});
  CHECK(message_of<std::runtime_error>([&] { refused(ones({2})); }) == "no graphs today");
  CHECK(refused.stats().compiles == 0);
  jit::register_backend("empty", [](const Graph&, std::span<const Tensor>) { return jit::GraphFunction(); });
  CHECK(has(message_of<UserError>([&] { jit::compile(body, {.backend = "empty"})(ones({2})); }),
            "back end 'empty' returned an empty function"));
  jit::register_backend("too few", [](const Graph&, std::span<const Tensor>) {
    return [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0]}; };
  });
  CHECK(has(message_of<UserError>([&] { jit::compile(body, {.backend = "too few"})(ones({2})); }),
            "the back end gave 1 values for the 2 outputs"));
  jit::register_backend("wrong type", [](const Graph&, std::span<const Tensor>) {
    return [](std::span<const Tensor>) { return std::vector<Tensor>{ones({3}), ones({2})}; };
  });
  CHECK(has(message_of<UserError>([&] { jit::compile(body, {.backend = "wrong type"})(ones({2})); }),
            "gave f32[3] for output 0 of the graph, which is f32[2]"));
  jit::register_backend("whole graphs",
                        [](const Graph& graph, std::span<const Tensor>) { return jit::compile_graph(graph); });
  auto reads = jit::compile([](Tensor x) { return x * item<float>(sum(x)); }, {.backend = "whole graphs"});
  CHECK(has(message_of<TraceError>([&] { reads(ones({2})); }),
            "back end 'whole graphs' takes whole graphs [backends_test.cpp:"));
  for (const char* name : {"eager", "aot_eager", "reference", "noop"}) {  // those of this build cut it
    auto cut = jit::compile([](Tensor x) { return item<float>(sum(x)) > 0 ? Tensor(x * 2) : x; }, {.backend = name});
    for (int i = 0; i < 3; ++i) CHECK(floats(cut(ones({2})))[0] == 2);
    CHECK(floats(cut(zeros({2})))[0] == 0);
  }
  std::string text = message_of<UserError>([] { jit::compile([](Tensor x) { return x; }, {.backend = "tpu"}); });
  CHECK(has(text, "there is no back end 'tpu' [backends_test.cpp:"));
  for (const char* name : {"reference", "aot_eager", "refuses", "register_backend"}) CHECK(has(text, name));
}

TEST_CASE("backends: compile_graph checks what it is given") {
  Graph graph = parse_graph("graph(%0: f32[2, s0]) {\n  %1: f32[2, s0] = exp(%0)\n  return %1\n}");
  auto run = jit::compile_graph(graph, "reference");
  std::vector<Tensor> in{zeros({2, 5})};
  CHECK(floats(run(in)[0]) == std::vector<float>(10, 1));
  in[0] = zeros({3, 5});
  CHECK(
      has(message_of<ShapeError>([&] { run(in); }), "input 0 of the graph is f32[2, s0], the value has shape (3, 5)"));
  in[0] = zeros({2, 5}, {.dtype = DType::f64});
  CHECK_THROWS_AS(run(in), DTypeError);
  in.clear();
  CHECK(has(message_of<UserError>([&] { run(in); }), "0 values for the 1 inputs"));
  CHECK_THROWS_AS(jit::compile_graph(graph, "noop"), UserError);
}
