// Regions, marked and found: the same values as without them, one body for many calls, gradients, Variables, symbolic
// extents, near misses.
#include "catch.hpp"

#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {

struct Layer {
  Tensor w, b;
};
Tensor apply_layer(const Tensor& x, const Layer& layer) {
  return gelu(matmul(layer_norm(x, {8}, ones({8}), zeros({8})), layer.w) + layer.b) + x;
}

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
    for (std::size_t at = 0; (at = line.find("OUT")) != std::string::npos;)
      line.replace(at, 3, "%" + std::to_string(i + 1));
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
  const Graph again = parse_graph(outlined.text());  // bodies are printed once
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
    CHECK(calls_in(Outline{}(parse_graph(repeated("OUT: f32[4, 8] = add(tanh(mul(add(exp(IN), 1), 2)), IN) ", 10)))) ==
          0);
  }
  SECTION("blocks that differ in a number") {
    std::string text = repeated(layer, 6);
    for (std::size_t at = 0, i = 0; (at = text.find(", 2))", at)) != std::string::npos; at += 4, ++i)
      text.replace(at, 5, ", " + std::to_string(i + 3) + "))");
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
  // The first layer's input needs no gradient. With many layers it takes the body of the others; with few it has its
  // own.
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
    auto marked =
        jit::compile([&](Tensor y, const std::vector<Layer>& ps) { return jit::grad<1>(marked_loss)(y, ps); });
    auto whole = jit::compile([&](Tensor y, const std::vector<Layer>& ps) { return jit::grad<1>(loss)(y, ps); });
    const auto a = found(x, list), b = marked(x, list);
    Context::get().outlines = false;
    const auto c = whole(x, list);
    Context::get().outlines = true;
    CHECK(whole.stats().regions == 0);
    CHECK(marked.stats().regions ==
          (count == 12 ? 2 : 3));  // of three: the forward body saves the same for both derivatives
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
    auto marked =
        jit::compile([&](Tensor x, const std::vector<Layer>& list) { return jit::grad<0, 1>(marked_loss)(x, list); });
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
  auto second = [](auto f) {
    return jit::compile([f](Tensor x) { return jit::grad([f](Tensor y) { return sum(jit::grad(f)(y)); })(x); });
  };
  Tensor x = randn({5});
  check_close(second(f)(x), second(plain)(x), 1e-4);
}

TEST_CASE("region: calls of one kind share a body; a function without captures is not run at each", "[region]") {
  static int traced = 0;
  traced = 0;
  auto block = jit::region(
      [](Tensor x, Tensor w, Scalar s) {
        ++traced;
        return std::pair{matmul(x, w) * s, sum(x)};
      },
      "block");
  auto f = jit::compile([&](Tensor x, Tensor w, Scalar s) {
    auto [a, sum_a] = block(x, w, s);
    auto [b, sum_b] = block(a, w, 2.f);
    auto [c, sum_c] = block(b(slice(0, 2)), w, s);  // another shape: another body
    return std::tuple{c, sum_a + sum_b + sum_c};
  });
  Tensor x = randn({4, 3}), w = randn({3, 3});
  auto [c, total] = f(x, w, 0.5f);
  CHECK(traced == 3);
  CHECK(f.stats().regions == 2);
  Tensor a = matmul(x, w) * 0.5f, b = matmul(a, w) * 2.f;
  check_close(c, matmul(b(slice(0, 2)), w) * 0.5f);
  check_close(total, sum(x) + sum(a) + sum(b(slice(0, 2))));
  traced = 0;
  auto deep_block = jit::compile([&](Tensor y, Tensor v) {
    for (int i = 0; i < 40; ++i) y = block(y, v, 0.5f).first;
    return y;
  });
  deep_block(x, w);
  CHECK(traced == 3);  // calls 1, 2 and 16
  CHECK(deep_block.stats().regions == 1);
}

TEST_CASE("region: what a function captures may change between two calls", "[region]") {
  const Tensor x = ones({3});
  SECTION("a tensor") {
    Tensor w;
    auto block = jit::region([&w](Tensor y) { return y * w; });
    auto f = jit::compile([&](Tensor y, Tensor first, Tensor second) {
      w = first;
      y = block(y);
      w = second;
      return block(block(y));
    });
    check_close(f(x, full({3}, 2.f), full({3}, 5.f)), full({3}, 50.f));
    CHECK(f.stats().regions == 1);  // the tensor is an operand
  }
  SECTION("a ready tensor") {
    Tensor w = full({3}, 2.f);
    auto block = jit::region([&w](Tensor y) { return y * w; });
    const Tensor two = w, five = full({3}, 5.f);
    auto f = jit::compile([&](Tensor y) {
      w = two;
      y = block(y);
      w = five;
      return block(block(y));
    });
    check_close(f(x), full({3}, 50.f));
    check_close(f(x), full({3}, 50.f));
  }
  SECTION("a number") {
    float scale = 0;
    auto block = jit::region([&scale](Tensor y) { return y * scale; });
    auto f = jit::compile([&](Tensor y) {
      for (float s : {2.f, 3.f, 2.f, 5.f}) {
        scale = s;
        y = block(y);
      }
      return y;
    });
    check_close(f(x), full({3}, 60.f));
    check_close(f(x), full({3}, 60.f));
    CHECK(f.stats().regions == 3);
  }
  SECTION("which Variable") {
    Variable a(full({3}, 2.f)), b(full({3}, 5.f));
    const Variable* w = &a;
    auto block = jit::region([&w](Tensor y) { return y * *w; });
    auto f = jit::compile([&](Tensor y) {
      w = &a;
      y = block(y);
      w = &b;
      return block(y);
    });
    check_close(f(x), full({3}, 10.f));
  }
}

namespace {
int global_step = 0;
}
TEST_CASE("region: what a function without captures reads is checked at calls 2, 16, 128, ...", "[region]") {
  auto block = jit::region([](Tensor y) { return y + global_step; });
  const auto model = [&](int change_at) {
    return jit::compile([&block, change_at](Tensor y) {
      for (int i = 1; i <= 16; ++i) {
        global_step = i >= change_at ? i : 1;
        y = block(y);
      }
      return y;
    });
  };
  check_close(model(2)(zeros({2})), full({2}, 136.f));  // seen at the second call: run at each from there on
  CHECK_THROWS_WITH(model(6)(zeros({2})),
                    Catch::Contains("changed between two calls") && Catch::Contains("region_test.cpp"));
  check_close(model(17)(zeros({2})), full({2}, 16.f));
}

TEST_CASE("region: a value read inside decides each call for itself", "[region]") {
  auto block = jit::region([](Tensor x) -> Tensor {
    if (item(sum(x)) > 0) return x * 2;
    return x - 1;
  });
  auto f = jit::compile([&](Tensor x, Tensor y) { return block(x) + block(y) * 10; });
  const Tensor up = ones({2}), down = full({2}, -1.f);
  for (int round = 0; round < 3; ++round) {
    check_close(f(up, down), full({2}, 2.f - 20));
    check_close(f(down, up), full({2}, -2.f + 20));
    check_close(f(up, up), full({2}, 22.f));
  }
  SECTION("in a nested region, after a derivative") {
    auto outer = jit::region([&](Tensor x) { return block(x) * 3; });
    auto g = jit::compile([&](Tensor x, Tensor y) {
      return jit::grad([&](Tensor a, Tensor b) { return sum(outer(a) + outer(b)); })(x, y);
    });
    check_close(g(up, down), full({2}, 6.f));
    check_close(g(down, up), full({2}, 3.f));
  }
  SECTION("of a value from outside") {
    auto gate = jit::region([](Tensor x, Tensor level) -> Tensor {
      const Scalar known = item(level);
      return known > 0 ? x : -x;
    });
    auto g = jit::compile([&](Tensor x, Tensor level) { return gate(x, level) + gate(x, -level) * 10; });
    check_close(g(up, full({}, 1.f)), full({2}, -9.f));
    check_close(g(up, full({}, -1.f)), full({2}, 9.f));
  }
  SECTION("fullgraph refuses it") {
    auto whole = jit::compile([&](Tensor x) { return block(x); }, {.fullgraph = true});
    CHECK_THROWS_AS(whole(up), TraceError);
  }
}

TEST_CASE("region: a captured Variable that is also an argument", "[region]") {
  Variable v(zeros({})), w(zeros({}));
  SECTION("captured by the function") {
    auto block = jit::region([v](const Variable& a) {
      a += 1;
      v += 10;
      return a + v;
    });
    auto f = jit::compile([&](Tensor x, const Variable& p, const Variable& q) {
      x = x + block(p) * 1000;
      return x + block(q);
    });
    check_close(f(zeros({}), w, v), full({}, 11 * 1000.f + 42));  // v: 10, then 11, then 21, twice
    CHECK(item<float>(v.value()) == 21);
    CHECK(item<float>(w.value()) == 1);
  }
  SECTION("of a function without captures") {
    static const Variable global(zeros({}));
    auto block = jit::region([](const Variable& a) {
      a += 1;
      global += 10;
      return a + global;
    });
    for (int order = 0; order < 3; ++order) {
      auto f = jit::compile([&](Tensor x, const Variable& p, const Variable& q, const Variable& r) {
        for (const Variable* each : {&p, &q, &r}) x = x * 100 + block(*each);
        return x;
      });
      const Variable first(zeros({})), second(zeros({}));
      global.set(zeros({}));
      const Variable* given[] = {&first, &second, &second};
      given[order] = &global;
      float expected = 0, is[3] = {}, g = 0;
      for (int i = 0; i < 3; ++i) {
        const int at = given[i] == &first ? 0 : given[i] == &second ? 1 : 2;
        float& a = at == 2 ? g : is[at];
        a += 1;
        g += 10;
        expected = expected * 100 + a + g;
      }
      check_close(f(zeros({}), *given[0], *given[1], *given[2]), full({}, expected));
      CHECK(item<float>(global.value()) == g);
    }
  }
}

TEST_CASE("region: gradients at symbolic extents", "[region]") {
  auto block = jit::region([](Tensor x) { return tanh(x); });
  auto f = jit::compile(jit::grad([=](Tensor x) { return sum(block(x)); }), {.dynamic = jit::Dynamic::always});
  for (int n : {3, 5, 7}) {
    const Tensor x = randn({n});
    check_close(f(x), 1 - square(tanh(x)));
  }
  SECTION("of a composite whose operands have an extent that equals a symbol's") {
    const Tensor scale = randn({4}), shift = randn({4});
    const auto norm = [=](Tensor x) { return layer_norm(x, {x.size(1)}, scale, shift); };
    auto marked = jit::region(norm);
    const auto slope = [](auto body) { return jit::grad([body](Tensor x) { return sum(square(body(x))); }); };
    auto g = jit::compile(slope(marked), {.dynamic = jit::Dynamic::always});
    for (int n : {3, 5}) {
      const Tensor x = randn({n, 4});
      check_close(g(x), slope(norm)(x), 1e-4);
    }
  }
  SECTION("of layers that were found") {
    const auto list = layers(8);
    const auto loss = [](Tensor x, const std::vector<Layer>& ps) { return mean(square(deep(x, ps))); };
    auto step = jit::compile([&](Tensor x, const std::vector<Layer>& ps) { return jit::grad<1>(loss)(x, ps); });
    for (int n : {4, 6, 9, 13}) {
      const Tensor x = randn({n, 8});
      const auto got = step(x, list), want = jit::grad<1>(loss)(x, list);
      for (std::size_t i = 0; i < list.size(); ++i) check_close(got[i].w, want[i].w, 1e-3);
    }
    CHECK(step.stats().compiles == 2);
  }
  SECTION("in loops and branches") {
    auto g =
        jit::compile(jit::grad([=](Tensor x) {
                       const Tensor y = jit::fori_loop(0, 3, [=](Scalar, Tensor h) { return block(h) + h; }, x);
                       return sum(jit::cond(
                           sum(y) > 0, [=](Tensor h) { return block(h); }, [=](Tensor h) { return block(h * 2); }, y));
                     }),
                     {.dynamic = jit::Dynamic::always});
    for (int n : {3, 5}) {
      const Tensor x = abs(randn({n})) + 0.1f;
      const auto plain = [](Tensor y) {
        for (int i = 0; i < 3; ++i) y = tanh(y) + y;
        return sum(tanh(y));
      };
      check_close(g(x), jit::grad(plain)(x));
    }
  }
  SECTION("with a read after it, at other sizes than the first path was traced at") {
    const auto twice = [=](Tensor x) -> Tensor {
      const Tensor slope = jit::grad([=](Tensor y) { return sum(block(block(y) * y)); })(x);
      if (item(sum(x)) > 0) return slope;
      return -slope;
    };
    auto g = jit::compile(twice, {.dynamic = jit::Dynamic::always});
    for (int n : {3, 500, 7})
      for (float sign : {1.f, -1.f}) check_close(g(full({n}, sign)), twice(full({n}, sign)));
  }
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

TEST_CASE("region: random numbers are those drawn uncompiled, in calls that do not run the function too", "[region]") {
  const auto noise = jit::region([](Tensor x) { return tanh(x + randn({x.size(0)}) * rand({x.size(0)})); });
  for (const bool reads : {false, true}) {
    const auto f = [&](Tensor x) {
      for (int i = 0; i < 4; ++i) {
        x = noise(x);
        if (reads && item(sum(x)) > 0) x = x - rand({4});
      }
      return x + noise(-x);
    };
    const auto compiled = jit::compile(f);
    for (int seed = 0; seed < 4; ++seed) {
      manual_seed(seed);
      const Tensor actual = concat({compiled(zeros({4})), rand({2})}, 0);
      eval(actual);
      manual_seed(seed);
      check_close(actual, concat({f(zeros({4})), rand({2})}, 0));
    }
  }
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

TEST_CASE("region: one that updates a Variable, before and between reads", "[region]") {
  Variable v(ones({2})), w(ones({2}));
  static const Variable* global = nullptr;
  global = &v;
  const auto bare = [](const Tensor& x, const Variable&) { return *global += tanh(sum(x, 0)), x * 1; };
  const auto held = [v](const Tensor& x, const Variable&) { return v += tanh(sum(x, 0)), x * 1; };
  const auto check = [&](auto first, auto second) {
    const auto f = [=](Tensor x, const Variable& a, const Variable& b) {
      if (item(sum(x)) > 0.5) x = tanh(x);
      else b += tanh(sum(x, 0));
      for (int i = 0; i < 4; ++i) x = second(first(x, a), b);
      x = item(sum(x)) > -0.1 ? Tensor(x * 2) : tanh(x);
      return sum(x, 0) + v;
    };
    const auto compiled = jit::compile(f);
    const Variable* pairs[][2] = {{&v, &w}, {&v, &v}, {&w, &w}};
    for (double start : {1., -1., .01, -2., 1.})
      for (const auto& pair : pairs) {
        const auto run = [&](const auto& call) {
          v.set(ones({2})), w.set(ones({2}));
          std::vector<float> result = to_vector<float>(call(full({3, 2}, start), *pair[0], *pair[1]));
          for (const Variable& variable : {v, w})
            for (float x : to_vector<float>(variable)) result.push_back(x);
          return result;
        };
        INFO(start);
        const std::vector<float> found = run(compiled), wanted = run(f);
        for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found.at(i) == Approx(wanted[i]).margin(1e-5));
      }
  };
  check(jit::region(bare), held);
  check(jit::region(bare), jit::region(held));
  check(held, jit::region(held));
}

TEST_CASE("region: a body has more constants than who calls it", "[region]") {
  const Tensor outside = randn({8}), w = randn({8, 8}), b = randn({8}), c = randn({8});
  eval({outside, w, b, c});
  const auto body = [&](const Tensor& x) -> Tensor { return tanh((matmul(x, w) + b) * c); };
  auto block = jit::region([&](Tensor x) { return body(x); });
  const auto whole = [&](Tensor y, auto& layer) {
    for (int i = 0; i < 4; ++i) y = layer(y);
    return Tensor(y * outside);
  };
  auto f = jit::compile([&](Tensor x) { return whole(x, block); });
  const Tensor input = randn({4, 8});
  check_close(f(input), whole(input, body));
}
