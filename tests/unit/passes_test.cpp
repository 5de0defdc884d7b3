// Passes and the pipeline. The rewrite rules have rows of their own in rules_test.cpp.
#include "pass_checks.hpp"

#include <ctime>
#include <set>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {
constexpr const char* f = "%x: f32[3], %y: f32[3]";
}

TEST_CASE("dce keeps what outputs need, and the inputs", "[passes]") {
  const Graph made = Dce{}(parse_graph(graph_text(f, "%dead = exp(%y); %a = neg(%x); return %a")));
  CHECK(made.nodes().size() == 3);
  CHECK(made.inputs().size() == 2);
  check_equal(made, parse_graph(graph_text(f, "neg(%x)")));
  expect_unchanged(Dce{}, f, "return neg(%x), exp(%y)");
}

TEST_CASE("cse merges what computes the same", "[passes]") {
  expect_pass(Cse{}, f, "add(exp(%x), exp(%x))", "%a = exp(%x); return add(%a, %a)");
  expect_pass(Cse{}, f, "div(add(%x, %y), add(%y, %x))", "%a = add(%x, %y); return div(%a, %a)");
  expect_pass(Cse{}, f, "return mul(%x, 2), add(%y, 2)",
              "%c = full {value=2, dtype=f32}; return mul(%x, %c), add(%y, %c)");
  expect_pass(Cse{}, "%x: f32[3]",
              "%a: f32[2] = constant {data=[1, 2]}; %b: f32[2] = constant {data=[1, 2]}; return %a, %b",
              "%a: f32[2] = constant {data=[1, 2]}; return %a, %a");
  expect_pass(Cse{}, "%k: i64[], %n: i64[]", "return random_bits(%k, %n) {shape=[4]}, random_bits(%k, %n) {shape=[4]}",
              "%r = random_bits(%k, %n) {shape=[4]}; return %r, %r");
}

TEST_CASE("cse leaves what only looks the same", "[passes]") {
  expect_unchanged(Cse{}, f, "return exp(%x), exp(%y)");
  expect_unchanged(Cse{}, f, "add(sub(%x, %y), sub(%y, %x))");
  expect_unchanged(Cse{}, f, "return mul(%x, 0.0), mul(%x, -0.0)");
  expect_unchanged(Cse{}, f, "return sum(%x) {axes=[0]}, sum(%x) {axes=[0], keepdim}");
  expect_unchanged(Cse{}, "%a: f32[3], %b: f32[3]", "return %a, %b");  // inputs of one type
  expect_unchanged(Cse{}, f, "return empty {shape=[3], dtype=f32}, empty {shape=[3], dtype=f32}");
  expect_unchanged(Cse{}, f, "%a: f32[2] = constant {data=[1, 2]}; %b: f32[2] = constant {data=[1, 3]}; return %a, %b");
  expect_unchanged(Cse{}, "%k: i64[], %n: i64[]",
                   "return random_bits(%k, %n) {shape=[4]}, random_bits(%n, %k) {shape=[4]}");
}

TEST_CASE("check first: of scatters into several inputs the indices are checked by steps of their own", "[passes]") {
  constexpr const char* two = "%a: f32[8, 4], %b: f32[8, 4], %c: f32[9, 4], %i: i64[2], %v: f32[2, 4]";
  // one check for both: the index and the extent are the same
  expect_pass(CheckFirst{}, two, "return scatter(%a, %i, %v) {axes=[0]}, scatter(%b, %i, %v) {axes=[0]}",
              R"(%0 = reshape(%i) {shape=[2, 1]}; %1 = expand(%0) {shape=[2, 8]}; %4 = take(%1, %i) {axes=[1], shared=1}
                 return scatter(%a, %4, %v) {axes=[0], in_range}, scatter(%b, %4, %v) {axes=[0], in_range})");
  // what is read there is in range, too
  expect_pass(
      CheckFirst{}, two,
      R"(%u = scatter(%a, %i, %v) {axes=[0]}; return %u, scatter(%b, %i, %v) {axes=[0]}, take(%u, %i) {axes=[0]})",
      R"(%0 = reshape(%i) {shape=[2, 1]}; %1 = expand(%0) {shape=[2, 8]}
                 %4 = take(%1, %i) {axes=[1], shared=1}; %u = scatter(%a, %4, %v) {axes=[0], in_range}
                 return %u, scatter(%b, %4, %v) {axes=[0], in_range}, take(%u, %4) {axes=[0], in_range})");
  // axes of other extents need checks of their own
  const Graph apart = CheckFirst{}(parse_graph(graph_text(
      two, "return scatter(%a, %i, %v) {axes=[0]}, scatter(reshape(%c) {shape=[9, 4]}, %i, %v) {axes=[0]}")));
  CHECK(std::count_if(apart.nodes().begin(), apart.nodes().end(),
                      [](const Node& node) { return node.op == &op_info<ops::Take>; }) == 2);
  // near misses: one alone fails before it writes, one is in range already, one changes what is computed
  expect_unchanged(CheckFirst{}, two, "return scatter(%a, %i, %v) {axes=[0]}, add(%b, %b)");
  expect_unchanged(CheckFirst{}, two,
                   "return scatter(%a, %i, %v) {axes=[0]}, scatter(%b, %i, %v) {axes=[0], in_range}");
  expect_unchanged(CheckFirst{}, two, "return scatter(%a, %i, %v) {axes=[0]}, scatter(neg(%b), %i, %v) {axes=[0]}");
}

TEST_CASE("decompose leaves no composite, and keeps what is wanted whole", "[passes]") {
  const Graph softmax = parse_graph(graph_text("%x: f32[4, s0]", "softmax(%x) {axes=[1]}"));
  const Graph made = Decompose{}(softmax);
  CHECK_NOTHROW(verify(made));
  for (const Node& node : made.nodes()) CHECK(node.op->kind != OpKind::composite);
  check_equal(Decompose{[](const Graph&, const Node& node) { return node.op == &op_info<ops::Softmax>; }}(softmax),
              softmax);
  expect_unchanged(Decompose{}, f, "exp(%x)");
}

TEST_CASE("folding leaves what back ends may answer differently", "[passes]") {
  const char* i = "%x: i32[3]";
  expect_unchanged(Fold{}, i, "%z = full {dtype=i32}; return add(%x, rem(%z, %z))");
  expect_unchanged(Fold{}, i, "add(%x, cast(full {value=1e20, dtype=f32}) {dtype=i32})");
  expect_unchanged(Fold{}, i, "add(%x, cast(full {value=nan, dtype=f32}) {dtype=i32})");
  expect_pass(Fold{}, i, "add(%x, cast(full {value=-2.7, dtype=f32}) {dtype=i32})", "add(%x, -2)");
  expect_pass(Fold{}, i, "add(%x, mul(full {integer=2147483647, dtype=i32}, full {integer=2, dtype=i32}))",
              "add(%x, -2)");  // wraps
  expect_pass(Fold{}, f, "add(%x, add(full {value=16777216, dtype=f32}, full {value=1, dtype=f32}))",
              "add(%x, 16777216)");  // rounds as f32
}

TEST_CASE("rewriting reaches the end of long chains", "[passes]") {
  std::string nodes = "%a0 = neg(%x); ";
  for (int i = 1; i < 300; ++i) nodes += "%a" + std::to_string(i) + " = neg(%a" + std::to_string(i - 1) + "); ";
  expect_pass(Simplify{}, "%x: f32[3]", nodes + "return %a299", "%x");
  expect_pass(Simplify{}, "%x: f32[3]", nodes + "return %a298", "neg(%x)");
}

TEST_CASE("every pass of the pipeline has a name of its own and a reason", "[passes]") {
  std::set<std::string_view> names;
  for (const PipelinePass& pass : pipeline) {
    CHECK(names.insert(pass.name).second);
    CHECK_FALSE(pass.reason.empty());
  }
}

TEST_CASE("the pipeline reaches a fixed point, checked at every step", "[passes]") {
  PipelineOptions options;
  options.checks = true;
  std::vector<std::string> seen;
  options.observe = [&](std::string_view name, const Graph&, double seconds) {
    seen.emplace_back(name);
    CHECK(seconds >= 0);
  };
  const char* programs[] = {
      "return div(exp(%x), exp(%x)), square(%y), gt(%x, %y)",
      ("%s = softmax(%x) {axes=[0]}; "
       "return mul(%s, 1), layer_norm(reshape(%x) {shape=[1, 3]}, %y, %y) {axes=[1], eps=1e-5}"),
      "return sub(add(%x, %y), add(%y, %x)), pow(%x, 2), mul(%x, %x), stop_gradient(mul(2, %y))",
      "return pad(%x) {low=[1], high=[2]}, mean(%x) {axes=[0]}, gelu(%y), concat(%x, %y) {axes=[0]}",
  };
  for (const char* program : programs) {
    seen.clear();
    const Graph made = run_pipeline(parse_graph(graph_text(f, program)), options);
    CHECK(seen.size() == std::size(pipeline));
    INFO(made.text());
    CHECK(structurally_equal(run_pipeline(made, options), made));
    CHECK(Dce{}(made).nodes().size() == made.nodes().size());
    for (const Node& node : made.nodes()) CHECK(node.op->kind != OpKind::composite);
  }
}

TEST_CASE("the pipeline names the pass that broke the graph", "[passes]") {
  const Graph graph = parse_graph("graph(%x: f32[3], %y: f32[4]) { return exp(%x) }");
  GraphBuilder builder;
  for (Value v : graph.inputs()) builder.input(graph.type(v));
  const Value copy = builder.copy(graph.node(2), graph.inputs().subspan(1));
  PipelineOptions options;
  options.checks = true;
  CHECK_THROWS_WITH(run_pipeline(builder.finish(std::span(&copy, 1)), options),
                    Catch::Contains("broken after tracing"));
}

TEST_CASE("the pipeline takes time in proportion to the nodes", "[passes]") {
  auto chain = [](int nodes) {
    std::string text = "graph(%x: f32[s0, 64], %y: f32[64]) { %a0 = add(%x, %y); ";
    const char* steps[] = {"add(%, %y)", "exp(%)", "mul(%, 2)", "sub(%, 1)", "square(%)", "add(neg(%), %y)"};
    for (int i = 1; i < nodes; ++i) {
      std::string step = steps[i % 6];
      step.replace(step.find("%"), 1, "%a" + std::to_string(i - 1));
      text += "%a" + std::to_string(i) + " = " + step + "; ";
    }
    return parse_graph(text + "return %a" + std::to_string(nodes - 1) + " }");
  };
  auto seconds = [](const Graph& graph) {
    double best = 1;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();  // of this process alone: the machine may be busy
      run_pipeline(graph);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double small = seconds(chain(500)), large = seconds(chain(8000));
  INFO("500 nodes: " << small * 1e3 << " ms, 8000 nodes: " << large * 1e3 << " ms");
  CHECK(large < small * 16 * 8);  // 16 times the nodes (256 if it were quadratic); the rest is room for shared caches
}
