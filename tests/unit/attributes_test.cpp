// Attributes of ops have the names and types that the op declares: what graphs print, and what texts may say.
#include "../catch.hpp"
#include "pass_checks.hpp"

#include <sinter/expr/capture.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr const char* inputs =
    "%x: f32[3, 4], %i: i64[3], %n: i64[], %p: f32[1, 2, 5, 5], %w: f32[3, 2, 2, 2], %q: f32[2, 4, 4], %v: f32[4]";

std::string text_of(const std::string& node) { return "graph(" + std::string(inputs) + ") { return " + node + " }"; }
std::string fault_in(const std::string& node) {
  try {
    parse_graph(text_of(node));
  } catch (const UserError& error) { return error.what(); }
  return "no fault";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The graph of what was recorded.
std::string recorded(const Tensor& made) {
  const Ref<TensorImpl> outputs[] = {made.impl()};
  return capture(outputs, {}, {}).finish().text();
}

/// As the op prints them: every attribute that is not at its default, in the order of the declaration.
constexpr std::string_view canonical[] = {
    "softmax(%0) {axes=[1], empty_rows=zeros}",
    "logsumexp(%0) {axes=[1], keepdim}",
    "var(%0) {axes=[1], keepdim, correction=1}",
    "layer_norm(%0, %6, %6) {axes=[1], eps=1e-05}",
    "extent(%0) {extent=3}",
    "element_count(%0) {axes=[0], dtype=f32}",
    "slice(%0) {starts=[0, 1], ends=[2, 4], steps=[1, 2]}",
    "windows(%0) {axes=[1], sizes=[2], strides=[1]}",
    "update_slice(%0, %0) {starts=[0, 0], steps=[1, 1]}",
    "pad(%0) {low=[1, 0], high=[0, 2], value=-0.5}",
    "take(%0, %1) {axes=[1], shared=1}",
    "scatter(%0, %1, %0) {axes=[0], combine=add}",
    "scatter_add(%1, %0) {axes=[0], shape=[9, 4]}",
    "one_hot(%1) {classes=5, dtype=f64}",
    "full {shape=[3], value=2, dtype=f32}",
    "full {integer=-2, dtype=i64}",
    "iota {axes=[1], shape=[4, 3], dtype=i64}",
    "random_normal(%2, %2) {shape=[6], dtype=f64}",
    "conv2d(%3, %4) {stride=[1, 2], padding=[0, 1]}",
    "max_pool2d(%3) {window=[2, 3], stride=[1, 2]}",
    "cross_entropy(%0, %1) {reduction=none, ignore_index=0, label_smoothing=0.125}",
    "cross_entropy(%0, %1) {ignore_index=-9223372036854775808}",
    "scaled_dot_product_attention(%5, %5, %5) {causal=to_end, scale=0.5}",
    "scaled_dot_product_attention(%5, %5, %5) {causal=equal_lengths}",
    "region(%6) {name=\"block\"} body=graph",
    "switch(%2, %6) branch=graph",
    "while_loop(%6) {carries=1} condition=graph",
    "scan(%6, %0) {length=3, carries=1, scanned=1, reversed, saved=[0]} body=graph",
    "custom_derivative(%6, %6) {results=1, parameters=1, differentiated=[0]} gradient=graph",
};
/// What stands for the sub-graphs of those that have them.
std::string with_bodies(std::string node) {
  const auto put = [&](std::string_view op, const std::string& bodies) {
    if (node.starts_with(op)) node.replace(node.rfind("graph"), 5, bodies);
  };
  const std::string one = "graph(%0: f32[4]) { return exp(%0) }",
                    less = "graph(%0: f32[4]) { return lt(sum(%0) {axes=[0]}, 3) }",
                    next = "graph(%0: f32[4]) { return neg(%0), lt(sum(%0) {axes=[0]}, 3) }";
  put("region", one);
  put("switch", one + " branch=" + one);
  put("while_loop", less + " body=" + next);
  put("scan", "graph(%0: f32[4], %1: f32[4]) { return add(%0, %1), exp(%1) }");
  put("custom_derivative", "graph(%0: f32[4], %1: f32[4], %2: f32[4]) { return %2 }");
  for (std::size_t at; (at = node.find('%')) < node.find("graph") && at != std::string::npos;)
    node.replace(at, 2, "@" + std::string(1, "xinpwqv"[node[at + 1] - '0']));
  for (std::size_t at; (at = node.find('@')) != std::string::npos;) node[at] = '%';
  return node;
}

}  // namespace

TEST_CASE("attributes print by the names that their op declares, and read back", "[graph]") {
  for (std::string_view row : canonical) {
    const std::string node = with_bodies(std::string(row));
    INFO(node);
    const Graph graph = parse_graph(text_of(node));
    verify(graph);
    const std::string text = graph.text();
    CHECK(contains(text, " = " + std::string(row)));
    const Graph again = parse_graph(text);
    CHECK(again.text() == text);
    CHECK(structurally_equal(again, graph));
    CHECK(again.hash() == graph.hash());
  }
}

TEST_CASE("every attribute takes part in equality and hash", "[graph]") {
  const char* pairs[][2] = {
      {"softmax(%x) {axes=[1]}", "softmax(%x) {axes=[1], empty_rows=zeros}"},
      {"layer_norm(%x, %v, %v) {axes=[1]}", "layer_norm(%x, %v, %v) {axes=[1], eps=-0}"},
      {"cross_entropy(%x, %i)", "cross_entropy(%x, %i) {ignore_index=-99}"},
      {"cross_entropy(%x, %i) {reduction=mean}", "cross_entropy(%x, %i) {reduction=sum}"},
      {"scaled_dot_product_attention(%q, %q, %q)", "scaled_dot_product_attention(%q, %q, %q) {causal=from_start}"},
      {"conv2d(%p, %w) {stride=[1, 1], padding=[0, 1]}", "conv2d(%p, %w) {stride=[1, 1], padding=[1, 0]}"},
      {"pad(%v) {low=[1], high=[2]}", "pad(%v) {low=[2], high=[1]}"},
      {"slice(%v) {starts=[0], ends=[2], steps=[1]}", "slice(%v) {starts=[2], ends=[4], steps=[1]}"},
      {"region(%v) {name=\"a\"} body=graph(%0: f32[4]) { return %0 }",
       "region(%v) {name=\"b\"} body=graph(%0: f32[4]) { return %0 }"},
  };
  for (const auto& [a, b] : pairs) {
    INFO(a << "; " << b);
    const Graph left = parse_graph(text_of(a)), right = parse_graph(text_of(b));
    CHECK_FALSE(structurally_equal(left, right));
    CHECK_FALSE(left.hash() == right.hash());
  }
  // What is said to be at its default is at its default.
  check_equal(parse_graph(text_of("cross_entropy(%x, %i) {reduction=mean, ignore_index=-100, label_smoothing=0}")),
              parse_graph(text_of("cross_entropy(%x, %i)")));
}

TEST_CASE("a text that gives an op what it has not, or in another form, is refused with its place", "[graph]") {
  CHECK(contains(fault_in("softmax(%x) {axes=[1], keepdim}"),
                 "column 149: softmax has no attribute 'keepdim'; it has axes, empty_rows"));
  CHECK(contains(fault_in("exp(%x) {axes=[1]}"), "exp has no attribute 'axes'"));
  CHECK(
      contains(fault_in("conv2d(%p, %w) {steps=[1, 1, 0, 0]}"), "conv2d has no attribute 'steps'; it has stride, pad"));
  CHECK(contains(fault_in("sum(%x) {axes=1}"), "'axes' of sum is a list of whole numbers: [0, 1]"));
  CHECK(contains(fault_in("sum(%x) {axes}"), "'axes' of sum is a list of whole numbers"));
  CHECK(contains(fault_in("sum(%x) {axes=[0], keepdim=1}"), "'keepdim' of sum is written by its name alone"));
  CHECK(contains(fault_in("sum(%x) {axes=[0], axes=[1]}"), "'axes' is given twice"));
  CHECK(contains(fault_in("take(%x, %i) {axes=[0], shared=0.5}"), "'shared' of take is a whole number"));
  CHECK(contains(fault_in("take(%x, %i) {axes=[0], shared=[1]}"), "'shared' of take is a whole number"));
  CHECK(contains(fault_in("layer_norm(%x, %v, %v) {axes=[1], eps=small}"), "'eps' of layer_norm is a number"));
  CHECK(contains(fault_in("one_hot(%i) {classes=[5], dtype=f32}"), "'classes' of one_hot is an extent: 4 or s0"));
  CHECK(contains(fault_in("one_hot(%i) {classes=-5, dtype=f32}"), "an extent is negative"));
  CHECK(contains(fault_in("cast(%x) {dtype=3}"), "'dtype' of cast is a dtype"));
  CHECK(contains(fault_in("reshape(%x) {shape=12}"), "'shape' of reshape is a list of extents: [4, s0]"));
  CHECK(contains(fault_in("scaled_dot_product_attention(%q, %q, %q) {causal=sideways}"),
                 "'causal' of scaled_dot_product_attention is one of no, equal_lengths, from_start, to_end"));
  CHECK(contains(fault_in("scaled_dot_product_attention(%q, %q, %q) {causal=2}"), "is one of no, equal_lengths"));
  CHECK(contains(fault_in("region(%v) {name=block} body=graph(%0: f32[4]) { return %0 }"),
                 "'name' of region is a string in quotes"));
  CHECK(contains(fault_in("while_loop(%v) {carries=1} body=graph(%0: f32[4]) { return %0 }"),
                 "this sub-graph of while_loop is 'condition', not 'body'"));
  CHECK(contains(fault_in("exp(%x) graph(%0: f32[4]) { return %0 }"), "exp has no sub-graphs"));
}

TEST_CASE("the verifier refuses attributes that an op does not declare", "[graph]") {
  const auto graph_with = [](const OpInfo& op, Attrs attrs) {
    GraphBuilder builder;
    const Value x = builder.input({DType::f32, {}, {3, 4}});
    const Value made = builder.add(op, {x}, std::move(attrs));
    return builder.finish({&made, 1});
  };
  CHECK_NOTHROW(verify(graph_with(op_info<ops::Softmax>, {.axes = {1}})));
  CHECK_THROWS_WITH(verify(graph_with(op_info<ops::Softmax>, {.axes = {1}, .keepdim = true})),
                    Catch::Contains("softmax: has an attribute that the op does not declare"));
  CHECK_THROWS_WITH(verify(graph_with(op_info<ops::Exp>, Attrs{}.with(ops::LayerNorm::eps, 1))),
                    Catch::Contains("exp: has an attribute that the op does not declare"));
  CHECK_THROWS_WITH(
      verify(graph_with(op_info<ops::Softmax>,
                        Attrs{.axes = {1}}.with(ops::Softmax::empty_rows, static_cast<ops::Softmax::EmptyRows>(2)))),
      Catch::Contains("'empty_rows' has a value that has no name"));
}

TEST_CASE("what functions record says what it is", "[graph]") {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4}), image = ones({1, 2, 5, 5}), rows = ones({3, 4}),
               classes = zeros({3}, {.dtype = DType::i64});
  const auto causal = [&](Causal which, const Tensor& keys) {
    return recorded(scaled_dot_product_attention(q, keys, keys, {.causal = which}));
  };
  CHECK(contains(causal(Causal::to_end, k), " {causal=to_end}\n"));
  CHECK(contains(causal(Causal::from_start, k), " {causal=from_start}\n"));
  CHECK(contains(causal(true, q), " {causal=equal_lengths}\n"));
  CHECK_FALSE(contains(causal(false, q), "causal"));
  CHECK(contains(recorded(conv2d(image, ones({3, 2, 2, 2}), {.stride = 2, .padding = 1})),
                 " {stride=[2, 2], padding=[1, 1]}\n"));
  CHECK(contains(recorded(max_pool2d(image, 3)), " {window=[3, 3], stride=[3, 3]}\n"));
  CHECK(contains(recorded(cross_entropy(rows, classes, {.reduction = LossReduction::sum})), " {reduction=sum}\n"));
  CHECK(contains(recorded(cross_entropy(rows, classes, {.ignore_index = 0, .label_smoothing = 0.25})),
                 " {ignore_index=0, label_smoothing=0.25}\n"));
  CHECK(contains(recorded(one_hot(classes, 5)), "{classes=5, dtype="));
  CHECK(contains(recorded(pad(classes, {{1, 2}}, 3)), " {low=[1], high=[2], value=3}\n"));
}

TEST_CASE("places of attributes are told apart when an op is described", "[graph]") {
  constexpr OpAttr<std::int64_t> a{"a", 0}, b{"b", 1, 7}, same_name{"a", 1};
  constexpr OpAttr<double> same_place{"c", 0, 0.5};
  constexpr OpAttr<IntVector> other_sort{"d", 0};
  constexpr auto apart = attribute_list(a, b, other_sort);
  constexpr auto named_twice = attribute_list(a, same_name);
  constexpr auto placed_twice = attribute_list(a, same_place);
  STATIC_REQUIRE(graph_detail::are_apart(apart));
  STATIC_REQUIRE_FALSE(graph_detail::are_apart(named_twice));
  STATIC_REQUIRE_FALSE(graph_detail::are_apart(placed_twice));
  Attrs attrs;
  CHECK(attrs[a] == 0);
  CHECK(attrs[b] == 7);
  CHECK(attrs[same_place] == 0.5);
  attrs.set(b, 0);
  CHECK(attrs[b] == 0);
  attrs.set(b, 7);
  CHECK(identical(attrs, Attrs{}));
}
