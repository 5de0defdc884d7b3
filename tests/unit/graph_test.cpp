// Graphs: text both ways, verifier, canonical hash and equality, builder, inlining.
#include "pass_checks.hpp"

#include <cstring>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

void expect_round_trip(const std::string& text) {
  const Graph graph = parse_graph(text);
  CHECK_NOTHROW(verify(graph));
  const Graph again = parse_graph(graph.text());
  INFO(graph.text());
  CHECK(structurally_equal(graph, again));
  CHECK(graph.hash() == again.hash());
  CHECK(again.text() == graph.text());
}

/// The message of the error that parsing throws.
std::string fault_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const UserError& error) { return error.what(); }
  return "no error";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

template <class T>
Ref<TensorImpl> tensor_of(const Shape& shape, DType dtype, const std::vector<T>& data) {
  auto storage = Storage::allocate(data.size() * sizeof(T));
  std::memcpy(storage->data(), data.data(), data.size() * sizeof(T));
  return TensorImpl::make_ready(Type{dtype, {}, shape}, std::move(storage));
}

void check_different(std::string_view inputs, std::string_view a, std::string_view b) {
  const Graph left = parse_graph(graph_text(inputs, a)), right = parse_graph(graph_text(inputs, b));
  INFO(left.text() << right.text());
  CHECK_FALSE(structurally_equal(left, right));
  CHECK_FALSE(left.hash() == right.hash());
}

}  // namespace

TEST_CASE("a graph prints as documented", "[graph]") {
  const std::string text =
      "graph(%0: f32[4, s0], %1: f32[4]) {\n"
      "  %2: f32[4, s0] = exp(%0)\n"
      "  %3: f32[4] = sum(%2) {axes=[1]}\n"
      "  return %3\n"
      "}\n";
  CHECK(parse_graph(text).text() == text);
}

TEST_CASE("numbers of a text keep their sign and their range", "[graph]") {
  const auto constant = [](const char* data) {
    return parse_graph("graph() { %c: f32[2] = constant {data=[" + std::string(data) + "]}; return %c }");
  };
  check_equal(constant("-0, 1"), constant("-0.0, 1"));
  CHECK_FALSE(structurally_equal(constant("-0, 1"), constant("0, 1")));
  check_equal(constant("1, 18446744073709551616"), constant("1, 1.8446744073709552e19"));
  const Graph sum = parse_graph("graph(%x: f32[2]) { return add(%x, -0) }");
  CHECK(std::signbit(sum.node(1).attrs.value));
  CHECK(has(fault_of("graph() { %c: i64[1] = constant {data=[9223372036854775808]}; return %c }"), "not whole"));
  CHECK(has(fault_of("graph() { %c: i32[1] = constant {data=[2147483648]}; return %c }"), "out of the range of i32"));
}

TEST_CASE("text goes both ways", "[graph]") {
  expect_round_trip("graph() { return }");
  expect_round_trip("graph(%x: f32[2]) { return %x, %x }");
  expect_round_trip("graph(%x: f64[4*s0 - floordiv(s1, 2) + 1, mod(s0*s1, 3)], %y: bool[]) { return %y }");
  expect_round_trip(
      "graph(%x: f32[s0] {name=\"we\\\"ird\\\\ \\nname\"}) { symbol s0 {hint=12, min=4, max=64} return neg(%x) }");
  expect_round_trip("graph(%x: f32[s0], %y: f32[s0]) { symbol s0 {input=1} return add(%x, %y) }");
  expect_round_trip(
      "graph(%x: f32[4, 6]) { return slice(%x) {starts=[0, 2], ends=[4, 6], steps=[1, 3]}, sum(%x) {axes=[0], "
      "keepdim} }");
  expect_round_trip(
      "graph(%x: f32[3]) { return mul(%x, 0.1), mul(%x, inf), mul(%x, -inf), mul(%x, nan), mul(%x, -0.0), mul(%x, "
      "1e-45) }");
  expect_round_trip("graph(%x: i64[3]) { return add(%x, 9223372036854775807), add(%x, -9223372036854775808) }");
  expect_round_trip(
      "graph() { %c: f32[2, 2] = constant {data=[1, -2.5, nan, inf]}; %d: bool[2] = constant {data=[true, false]}; "
      "return %c, %d }");
  expect_round_trip(
      "graph() { %c: f32[3] = constant {data=[-0, 0, -0.0]}; %d: f64[2] = constant {data=[-0, 18446744073709551616]}; "
      "return %c, %d }");
  expect_round_trip(
      "graph(%x: f32[2]) { %c: f32[2] = constant {data=[-nan, nan]}; return mul(%x, %c), mul(%x, -nan) }");
  expect_round_trip("graph() { %c: i64[2] = constant {data=[-9223372036854775808, -0]}; return %c }");
  expect_round_trip("graph(%a: f32[5, 3, 4], %b: f32[5, 4, 2]) { return matmul(%a, %b) }");
}

TEST_CASE("the short forms of the text", "[graph]") {
  const Graph nested = parse_graph("graph(%x: f32[3]) { return mul(exp(%x), 2) # twice\n }");
  const Graph plain = parse_graph(
      "graph(%0: f32[3]) {\n %1: f32[3] = exp(%0)\n %2: f32[] = full {value=2, dtype=f32}\n %3 = mul(%1, %2)\n return "
      "%3\n}");
  CHECK(structurally_equal(nested, plain));
}

TEST_CASE("faults of the text have line and column", "[graph]") {
  CHECK(
      has(fault_of("graph(%x: f32[4]) {\n  %y = add(%x, %z)\n  return %y\n}"), "line 2, column 16: %z is not defined"));
  CHECK(has(fault_of("graph(%x: f32[4]) {\n  %y: f32[5] = exp(%x)\n  return %y\n}"),
            "line 2, column 16: the type is f32[4], not f32[5]"));
  CHECK(has(fault_of("graph(%x: f32[4]) { return exq(%x) }"), "there is no op 'exq'"));
  CHECK(has(fault_of("graph(%x: f32[4]) { return exp(%x, %x) }"), "exp takes 1 operands, not 2"));
  CHECK(has(fault_of("graph(%x: f32[4], %x: f32[4]) { return %x }"), "%x is defined twice"));
  CHECK(has(fault_of("graph(%x: f31[4]) { return %x }"), "'f31' is no dtype"));
  CHECK(has(fault_of("graph(%x: f32[-4]) { return %x }"), "an extent is negative"));
  CHECK(has(fault_of("graph(%x: f32[1, 1, 1, 1, 1, 1, 1, 1, 1]) { return %x }"), "the rank is above 8"));
  CHECK(has(fault_of("graph(%x: f32[4]) { return %x.1 }"), "%x has no result 1"));
  CHECK(has(fault_of("graph(%x: f32[4]) { return %x } more"), "expected the end of the text"));
  CHECK(has(fault_of("graph(%x: f32[4], %y: f32[5]) { return add(%x, %y) }"), "do not broadcast"));
  CHECK(has(fault_of("graph(%x: f32[4], %y: i32[4]) { return add(%x, %y) }"), "one dtype"));
  CHECK(has(fault_of("graph() { return 1 }"), "a number alone is no output"));
  CHECK(has(fault_of("graph() { %c: f32[3] = constant {data=[1]} return %c }"), "does not have 1 elements"));
  CHECK(has(fault_of("graph(%x: f32[9999999999999999999]) { return %x }"), "out of range"));
  CHECK(has(fault_of("graph(%x: f32[4000000000*4000000000]) { return %x }"), "too large"));
  CHECK(has(fault_of("graph(%x: f32[s99999]) { return %x }"), "is no symbol"));
  std::string deep = "%x";
  for (int i = 0; i < 5000; ++i) deep = "neg(" + deep + ")";
  CHECK(has(fault_of("graph(%x: f32[4]) { return " + deep + " }"), "nested too deeply"));
}

TEST_CASE("large constants are not written out", "[graph]") {
  GraphBuilder builder;
  const Value data = builder.constant(tensor_of(Shape{2000}, DType::f32, std::vector<float>(2000, 1.f)));
  const Graph graph = builder.finish(std::span(&data, 1));
  CHECK(has(graph.text(), "f32[2000] = constant\n"));
  CHECK(has(fault_of(graph.text()), "left out of the text"));
}

TEST_CASE("hash and equality are canonical", "[graph]") {
  const char* inputs = "%x: f32[3], %y: f32[3]";
  auto graph = [&](const char* body) { return parse_graph(graph_text(inputs, body)); };
  // Order of unrelated nodes, dead nodes, labels and names of inputs take no part.
  check_equal(graph("%a = exp(%x); %b = neg(%y); return add(%a, %b)"),
              graph("%q = neg(%y); %dead = abs(%y); %p = exp(%x); return add(%p, %q)"));
  check_equal(parse_graph("graph(%x: f32[3] {name=\"a\"}) { return neg(%x) }"),
              parse_graph("graph(%x: f32[3] {name=\"b\"}) { return neg(%x) }"));
  check_equal(parse_graph("graph(%x: f32[s0]) { symbol s0 {hint=5} return neg(%x) }"),
              parse_graph("graph(%x: f32[s0]) { return neg(%x) }"));
  // Everything else does.
  check_different(inputs, "add(%x, %y)", "add(%y, %x)");
  check_different(inputs, "add(%x, %y)", "sub(%x, %y)");
  check_different(inputs, "exp(%x)", "exp(%y)");
  check_different(inputs, "return %x", "return %x, %x");
  check_different(inputs, "%a = exp(%x); return add(%a, %a)", "add(exp(%x), exp(%x))");
  check_different(inputs, "sum(%x) {axes=[0]}", "sum(%x) {axes=[0], keepdim}");
  check_different(inputs, "mul(%x, 0.0)", "mul(%x, -0.0)");
  check_different(inputs, "cast(%x) {dtype=f64}", "cast(%x) {dtype=i64}");
  check_different("%x: f32[s0, s1]", "neg(%x)", "abs(%x)");
  CHECK_FALSE(structurally_equal(parse_graph("graph(%x: f32[s0, s1]) { return %x }"),
                                 parse_graph("graph(%x: f32[s1, s0]) { return %x }")));
  CHECK_FALSE(structurally_equal(parse_graph("graph(%x: f32[4]) { return %x }"),
                                 parse_graph("graph(%x: f32[s0]) { return %x }")));
  CHECK_FALSE(structurally_equal(parse_graph("graph(%x: f32[s0]) { symbol s0 {max=9} return %x }"),
                                 parse_graph("graph(%x: f32[s0]) { return %x }")));
}

TEST_CASE("constants compare by content when small, by memory when large", "[graph]") {
  auto graph_of = [](Ref<TensorImpl> data) {
    GraphBuilder builder;
    const Value value = builder.constant(std::move(data));
    return builder.finish(std::span(&value, 1));
  };
  const auto small = [](float last) { return tensor_of<float>(Shape{2}, DType::f32, {1.f, last}); };
  check_equal(graph_of(small(2)), graph_of(small(2)));
  CHECK_FALSE(structurally_equal(graph_of(small(2)), graph_of(small(3))));
  CHECK_FALSE(graph_of(small(0.f)).hash() == graph_of(small(-0.f)).hash());
  const auto large = tensor_of(Shape{2000}, DType::f32, std::vector<float>(2000, 1.f));
  const auto view = TensorImpl::make_ready(large->type, large->storage);
  const auto copy = tensor_of(Shape{2000}, DType::f32, std::vector<float>(2000, 1.f));
  check_equal(graph_of(large), graph_of(view));
  CHECK_FALSE(structurally_equal(graph_of(large), graph_of(copy)));
  CHECK(graph_of(large).hash() == graph_of(copy).hash());  // the hash tells only their types
  Strides transposed{1, 2};
  const auto dense = tensor_of<float>(Shape{2, 2}, DType::f32, {1, 3, 2, 4});
  const auto strided = TensorImpl::make_ready(
      dense->type, tensor_of<float>(Shape{2, 2}, DType::f32, {1, 2, 3, 4})->storage, 0, &transposed);
  check_equal(graph_of(dense), graph_of(strided));
}

TEST_CASE("the builder infers and checks", "[graph]") {
  GraphBuilder builder;
  const Value x = builder.input(Type{DType::f32, {}, Shape{2, 3}}, "x"),
              y = builder.input(Type{DType::i32, {}, Shape{2, 3}});
  CHECK(builder.type(builder.add(op_info<ops::Exp>, {x})).text() == "f32[2, 3]");
  CHECK(builder.type(builder.add(op_info<ops::Lt>, {x, x})).text() == "bool[2, 3]");
  CHECK_THROWS_AS(builder.add(op_info<ops::Add>, {x, y}), DTypeError);
  CHECK_THROWS_AS(builder.add(op_info<ops::And>, {x, x}), DTypeError);
  CHECK_THROWS_AS(builder.add(op_info<ops::Where>, {x, x, x}), DTypeError);
  CHECK_THROWS_AS(builder.add(op_info<ops::Add>, {x}), InternalError);
  CHECK_THROWS_AS(builder.add(op_info<ops::Neg>, {Value{99, 0}}), InternalError);
  CHECK_THROWS_AS(builder.add(op_info<ops::Neg>, {Value{0, 1}}), InternalError);
  CHECK_THROWS_AS(builder.add(op_info<ops::Neg>, {Value{}}), InternalError);
  const Graph graph = builder.finish(std::span(&x, 1));
  CHECK(graph.inputs().size() == 2);
  CHECK(graph.node(graph.inputs()[0]).attrs[input_name] == "x");
}

TEST_CASE("use counts take outputs in", "[graph]") {
  const Graph graph = parse_graph("graph(%0: f32[3]) { %1 = exp(%0); %2 = add(%1, %0); return %2, %2 }");
  CHECK(use_counts(graph) == std::vector<std::int32_t>{2, 1, 2});
}

TEST_CASE("a graph is inlined at its types, or at others", "[graph]") {
  const Graph inner = parse_graph("graph(%x: f32[s0], %y: f32[]) { return add(exp(%x), %y), %y }");
  GraphBuilder builder(inner);
  const Value same[] = {builder.input(inner.type(inner.inputs()[0])), builder.input(inner.type(inner.inputs()[1]))};
  check_equal(builder.finish(builder.inline_graph(inner, same)), inner);
  GraphBuilder other;
  const Value wide[] = {other.input(Type{DType::f32, {}, Shape{5}}), other.input(Type{DType::f32, {}, Shape{}})};
  check_equal(other.finish(other.inline_graph(inner, wide)),
              parse_graph("graph(%x: f32[5], %y: f32[]) { return add(exp(%x), %y), %y }"));
}

TEST_CASE("the verifier names what is wrong", "[graph]") {
  // Copied nodes keep their types, so a graph can be broken through the builder.
  const Graph graph = parse_graph("graph(%x: f32[3], %y: f32[4], %z: f64[3]) { return exp(%x) }");
  auto broken = [&](std::size_t operand) {
    GraphBuilder builder;
    Value inputs[3];
    for (std::size_t i = 0; i < 3; ++i) inputs[i] = builder.input(graph.type(graph.inputs()[i]));
    const Value copy = builder.copy(graph.node(3), std::span(&inputs[operand], 1));
    return builder.finish(std::span(&copy, 1));
  };
  CHECK_NOTHROW(verify(broken(0)));
  CHECK_THROWS_WITH(verify(broken(1)), Catch::Contains("%3 = exp: result 0 is f32[3], its rule gives f32[4]"));
  CHECK_THROWS_AS(verify(broken(2)), InternalError);
}

TEST_CASE("sub-graphs print, parse, hash and compare", "[graph]") {
  const Graph body = parse_graph("graph(%0: f32[3]) { return neg(%0) }"),
              other = parse_graph("graph(%0: f32[3]) { return abs(%0) }");
  auto with_body = [](const Graph& inner) {
    GraphBuilder builder;
    const Value x = builder.input(Type{DType::f32, {}, Shape{3}});
    Attrs attrs;
    attrs.bodies.push_back(std::make_shared<const Graph>(inner));
    const Value y = builder.add(op_info<ops::Region>, {x}, std::move(attrs));
    return builder.finish(std::span(&y, 1));
  };
  check_equal(parse_graph(with_body(body).text()), with_body(body));
  CHECK_FALSE(structurally_equal(with_body(body), with_body(other)));
  CHECK_FALSE(with_body(body).hash() == with_body(other).hash());
}
