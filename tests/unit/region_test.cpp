// Regions, marked and found: the same values as without them, one body for many calls, gradients, Variables, symbolic
// extents, near misses.
#include "catch.hpp"

#include <sinter/passes/outline.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {

struct Layer {
  Tensor w, b;
};
Tensor apply_layer(const Tensor& x, const Layer& layer) { return gelu(matmul(layer_norm(x, {8}, ones({8}), zeros({8})), layer.w) + layer.b) + x; }

std::vector<Layer> layers(int count) {
  std::vector<Layer> list;
  for (int i = 0; i < count; ++i) {
    list.push_back({randn({8, 8}) * 0.3f, randn({8})});
    eval({list.back().w, list.back().b});
  }
  return list;
}
auto deep = [](Tensor x, const std::vector<Layer>& list) {
  for (const Layer& layer : list) x = apply_layer(x, layer);
  return x;
};

void check_close(const Tensor& actual, const Tensor& expected, double tolerance = 1e-5) {
  REQUIRE(actual.shape() == expected.shape());
  const auto a = to_vector<float>(actual), e = to_vector<float>(expected);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(e[i]).margin(tolerance).epsilon(tolerance));
}

int calls_in(const Graph& graph) {
  int calls = 0;
  for (const Node& node : graph.nodes()) calls += node.op->is_call;
  return calls;
}

std::string repeated(const std::string& layer, int count) {
  std::string text = "graph(%x: f32[4, 8], %w: f32[8, 8]) { %0: f32[4, 8] = tanh(%x) ";
  for (int i = 0; i < count; ++i) {
    std::string line = layer;
    for (std::size_t at = 0; (at = line.find("IN")) != std::string::npos;) line.replace(at, 2, "%" + std::to_string(i));
    for (std::size_t at = 0; (at = line.find("OUT")) != std::string::npos;) line.replace(at, 3, "%" + std::to_string(i + 1));
    text += line;
  }
  return text + "return %" + std::to_string(count) + " }";
}

}  // namespace

TEST_CASE("outline: repeated blocks become calls of one body", "[region]") {
  const std::string layer = "OUT: f32[4, 8] = add(tanh(mul(add(matmul(IN, %w), 1), 2)), IN) ";
  const Graph graph = parse_graph(repeated(layer, 6));
  const Graph outlined = Outline{}(graph);
  CHECK(calls_in(outlined) >= 5);
  verify(outlined);
  CHECK(structurally_equal(inline_calls(outlined), graph));
  const Graph again = parse_graph(outlined.text());   // bodies are printed once
  CHECK(structurally_equal(again, outlined));
  const Node* first = nullptr;
  for (const Node& node : outlined.nodes())
    if (node.op->is_call) {
      if (first == nullptr) first = &node;
      CHECK(node.attrs.bodies[0] == first->attrs.bodies[0]);
    }
}

TEST_CASE("outline: near misses stay as they are", "[region]") {
  const std::string layer = "OUT: f32[4, 8] = add(tanh(mul(add(matmul(IN, %w), 1), 2)), IN) ";
  SECTION("two repeats are too few") { CHECK(calls_in(Outline{}(parse_graph(repeated(layer, 2)))) == 0); }
  SECTION("a chain of maps is one kernel and must not be cut") {
    CHECK(calls_in(Outline{}(parse_graph(repeated("OUT: f32[4, 8] = add(tanh(mul(add(exp(IN), 1), 2)), IN) ", 10)))) == 0);
  }
  SECTION("blocks that differ in a number") {
    std::string text = repeated(layer, 6);
    for (std::size_t at = 0, i = 0; (at = text.find(", 2))", at)) != std::string::npos; at += 4, ++i) text.replace(at, 5, ", " + std::to_string(i + 3) + "))");
    CHECK(calls_in(Outline{}(parse_graph(text))) == 0);
  }
}

TEST_CASE("region: unmarked layers are found, compiled once, and right", "[region]") {
  auto list = layers(12);
  Tensor x = randn({4, 8});
  auto f = jit::compile(deep);
  check_close(f(x, list), deep(x, list));
  check_close(f(x, list), deep(x, list));
  CHECK(f.explain(x, list).text().find("region") != std::string::npos);
  SECTION("at symbolic extents too") {
    for (int rows : {5, 7, 9}) {
      Tensor y = randn({rows, 8});
      check_close(f(y, list), deep(y, list));
    }
    CHECK(f.stats().compiles == 2);
  }
}

TEST_CASE("region: all layers share the two halves of a derivative, the first one too", "[region]") {
  // The first layer's input needs no gradient. With many layers it takes the body of the others; with few it has its own.
  const auto loss = [](Tensor x, const std::vector<Layer>& list) { return sum(square(deep(x, list))); };
  auto block = jit::region([](Tensor x, const Layer& layer) { return apply_layer(x, layer); });
  const auto marked_loss = [&](Tensor x, const std::vector<Layer>& list) {
    for (const Layer& layer : list) x = block(x, layer);
    return sum(square(x));
  };
  const Tensor x = randn({4, 8});
  for (const int count : {4, 12}) {
    const auto list = layers(count);
    auto found = jit::compile([&](Tensor y, const std::vector<Layer>& ps) { return jit::grad<1>(loss)(y, ps); });
    auto marked = jit::compile([&](Tensor y, const std::vector<Layer>& ps) { return jit::grad<1>(marked_loss)(y, ps); });
    auto whole = jit::compile([&](Tensor y, const std::vector<Layer>& ps) { return jit::grad<1>(loss)(y, ps); });
    const auto a = found(x, list), b = marked(x, list);
    Context::get().outlines = false;
    const auto c = whole(x, list);
    Context::get().outlines = true;
    CHECK(whole.stats().regions == 0);
    CHECK(marked.stats().regions == (count == 12 ? 2 : 3));   // of three: the forward body saves the same for both derivatives
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_close(a[i].w, c[i].w, 1e-3);
      check_close(a[i].b, c[i].b, 1e-3);
      check_close(b[i].w, c[i].w, 1e-3);
      check_close(b[i].b, c[i].b, 1e-3);
    }
  }
}

TEST_CASE("region: without outlining calls are written out", "[region]") {
  const auto list = layers(6);
  const Tensor x = randn({4, 8});
  auto block = jit::region([](Tensor y, const Layer& layer) { return apply_layer(y, layer); });
  auto marked = jit::compile([&](Tensor y, const std::vector<Layer>& ps) {
    for (const Layer& layer : ps) y = block(y, layer);
    return y;
  });
  Context::get().outlines = false;
  const Tensor y = marked(x, list);
  Context::get().outlines = true;
  CHECK(marked.stats().region_calls == 0);
  check_close(y, deep(x, list));
}

TEST_CASE("region: gradients through found and marked layers", "[region]") {
  auto list = layers(6);
  Tensor x = randn({4, 8});
  auto block = jit::region([](Tensor x, const Layer& layer) { return apply_layer(x, layer); });
  auto loss = [](Tensor x, const std::vector<Layer>& list) { return sum(square(deep(x, list))); };
  auto marked_loss = [&](Tensor x, const std::vector<Layer>& list) {
    for (const Layer& layer : list) x = block(x, layer);
    return sum(square(x));
  };
  auto reference = jit::grad<0, 1>([](Tensor x, const std::vector<Layer>& list) {
    // Unlike layers: nothing to find.
    for (std::size_t i = 0; i < list.size(); ++i) x = apply_layer(x, list[i]) + static_cast<float>(i) * 0.f * x;
    return sum(square(x));
  })(x, list);
  for (int call = 0; call < 2; ++call) {
    auto found = jit::compile([&](Tensor x, const std::vector<Layer>& list) { return jit::grad<0, 1>(loss)(x, list); });
    auto marked = jit::compile([&](Tensor x, const std::vector<Layer>& list) { return jit::grad<0, 1>(marked_loss)(x, list); });
    auto a = found(x, list), b = marked(x, list);
    check_close(std::get<0>(a), std::get<0>(reference), 1e-3);
    check_close(std::get<0>(b), std::get<0>(reference), 1e-3);
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_close(std::get<1>(a)[i].w, std::get<1>(reference)[i].w, 1e-3);
      check_close(std::get<1>(b)[i].b, std::get<1>(reference)[i].b, 1e-3);
    }
  }
}

TEST_CASE("region: second derivatives", "[region]") {
  auto block = jit::region([](Tensor x) { return sin(x) * x; });
  auto f = [&](Tensor x) { return sum(block(block(x))); };
  auto plain = [](Tensor x) {
    for (int i = 0; i < 2; ++i) x = sin(x) * x;
    return sum(x);
  };
  auto second = [](auto f) { return jit::compile([f](Tensor x) { return jit::grad([f](Tensor y) { return sum(jit::grad(f)(y)); })(x); }); };
  Tensor x = randn({5});
  check_close(second(f)(x), second(plain)(x), 1e-4);
}

TEST_CASE("region: marked blocks are traced once for each kind of arguments", "[region]") {
  int traced = 0;
  auto block = jit::region([&traced](Tensor x, Tensor w, Scalar s) {
    ++traced;
    return std::pair{matmul(x, w) * s, sum(x)};
  }, "block");
  auto f = jit::compile([&](Tensor x, Tensor w, Scalar s) {
    auto [a, sum_a] = block(x, w, s);
    auto [b, sum_b] = block(a, w, 2.f);
    auto [c, sum_c] = block(b(slice(0, 2)), w, s);   // another shape: another body
    return std::tuple{c, sum_a + sum_b + sum_c};
  });
  Tensor x = randn({4, 3}), w = randn({3, 3});
  auto [c, total] = f(x, w, 0.5f);
  CHECK(traced == 2);
  Tensor a = matmul(x, w) * 0.5f, b = matmul(a, w) * 2.f;
  check_close(c, matmul(b(slice(0, 2)), w) * 0.5f);
  check_close(total, sum(x) + sum(a) + sum(b(slice(0, 2))));
}

TEST_CASE("region: Variables, given and captured, are read and written at each call", "[region]") {
  Variable count(zeros({})), scale(full({}, 2.f));
  auto block = jit::region([&](Tensor x, Variable bias) {
    count += 1;
    bias += 1;
    return x * scale + bias;
  });
  Variable first(full({2}, 10.f)), second(full({2}, 100.f));
  auto f = jit::compile([&](Tensor x, Variable a, Variable b) { return block(block(x, a), b); });
  check_close(f(ones({2}), first, second), full({2}, (2 + 11) * 2 + 101.f));
  check_close(f(ones({2}), first, second), full({2}, (2 + 12) * 2 + 102.f));
  CHECK(item<float>(count.value()) == 4);
  CHECK(item<float>(first.value()(0)) == 12);
  scale.set(full({}, 0.f));
  check_close(f(ones({2}), first, second), full({2}, 103.f));
}

TEST_CASE("region: random numbers differ from call to call", "[region]") {
  auto noise = jit::region([](Tensor x) { return x + rand({4}); });
  auto f = jit::compile([&](Tensor x) { return std::pair{noise(x), noise(x)}; });
  auto [a, b] = f(zeros({4}));
  CHECK(to_vector<float>(a) != to_vector<float>(b));
}

TEST_CASE("region: outside of a trace it is a compiled function; regions nest", "[region]") {
  auto inner = jit::region([](Tensor x, Tensor w) { return tanh(matmul(x, w)); });
  auto outer = jit::region([&](Tensor x, Tensor w) { return inner(inner(x, w), w); });
  Tensor x = randn({2, 3}), w = randn({3, 3});
  Tensor expected = tanh(matmul(tanh(matmul(x, w)), w));
  check_close(outer(x, w), expected);
  CHECK(outer.stats().compiles == 1);
  auto f = jit::compile([&](Tensor x, Tensor w) { return outer(outer(x, w), w); });
  check_close(f(x, w), outer(outer(x, w), w));
}

namespace {
struct Dense {
  Variable w;
  Tensor operator()(Tensor x) const { return tanh(matmul(x, w)); }
};
}  // namespace

TEST_CASE("region: compile_regions compiles the block, not the model", "[region]") {
  std::vector<Dense> model;
  for (int i = 0; i < 5; ++i) model.push_back({Variable(randn({3, 3}))});
  auto regions = jit::compile_regions(model);
  Tensor x = randn({2, 3}), expected = x;
  for (const Dense& block : model) expected = block(expected);
  check_close(regions(x), expected);
  CHECK(regions.stats().compiles == 1);
  CHECK(regions.stats().calls == 5);
  model[1].w.set(zeros({3, 3}));
  check_close(regions[1](x), zeros({2, 3}));
}

TEST_CASE("region: stats count bodies and calls", "[region]") {
  auto list = layers(9);
  auto f = jit::compile(deep);
  f.warm_up(randn({4, 8}), list);
  CHECK(f.stats().regions == 1);
  CHECK(f.stats().region_calls >= 8);
  auto none = jit::compile([](Tensor x) { return exp(x) + 1; });
  none.warm_up(randn({4}));
  CHECK(none.stats().regions == 0);
}

TEST_CASE("region: an error inside names the user's line and leaves everything usable", "[region]") {
  auto block = jit::region([](Tensor x, Tensor w) { return matmul(x, w); });
  auto f = jit::compile([&](Tensor x, Tensor w) { return block(x, w); });
  CHECK_THROWS_WITH(f(ones({2, 3}), ones({4, 3})), Catch::Contains("matmul") && Catch::Contains("region_test.cpp"));
  check_close(f(ones({2, 3}), ones({3, 2})), full({2, 2}, 3.f));
}
