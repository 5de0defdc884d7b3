// Ops alone: result types for static and symbolic extents, errors word for word, scalar bodies against the C library,
// and composites against formulas written out here. Gradients are in autodiff_test.cpp, back ends in tests/conformance.
#include "../catch.hpp"
#include "../graph_evaluator.hpp"

#include <sinter/graph/parse.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

using namespace sinter;
using oracle::Array;
using oracle::Extents;
using oracle::Number;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct InferRow {
  const char* inputs;     // types of %0, %1, ...
  const char* statement;  // the op
  const char* expected;   // its result
};

constexpr InferRow elementwise_infer_rows[] = {
    {"%0: f32[3, 4], %1: f32[4]", "add(%0, %1)", "f32[3, 4]"},
    {"%0: f32[s0, 1], %1: f32[1, s1]", "mul(%0, %1)", "f32[s0, s1]"},
    {"%0: f32[s0, 4], %1: f32[]", "maximum(%0, %1)", "f32[s0, 4]"},
    {"%0: f64[0, 4], %1: f64[1, 4]", "sub(%0, %1)", "f64[0, 4]"},
    {"%0: i64[4], %1: i64[4]", "floor_divide(%0, %1)", "i64[4]"},
    {"%0: i32[4], %1: i32[4]", "lt(%0, %1)", "bool[4]"},
    {"%0: bool[s0], %1: f32[s0], %2: f32[]", "where(%0, %1, %2)", "f32[s0]"},
    {"%0: i32[2]", "not(%0)", "i32[2]"},
    {"%0: f64[2]", "cast(%0) {dtype=bool}", "bool[2]"},
    {"%0: f32[s0], %1: f32[], %2: f32[]", "clamp(%0, %1, %2)", "f32[s0]"},
};

constexpr InferRow structured_infer_rows[] = {
    {"", "full {shape=[2, 3], value=1, dtype=f32}", "f32[2, 3]"},
    {"%0: f32[s0]", "full {shape=[2*s0 + 1], dtype=i64}", "i64[2*s0 + 1]"},
    {"", "iota {axes=[1], shape=[2, 3], dtype=i32}", "i32[2, 3]"},
    {"%0: f32[2, s0, 4]", "sum(%0) {axes=[0, 2]}", "f32[s0]"},
    {"%0: f32[2, s0, 4]", "amax(%0) {axes=[1], keepdim}", "f32[2, 1, 4]"},
    {"%0: f64[0, 4]", "sum(%0) {axes=[0]}", "f64[4]"},
    {"%0: i32[3]", "prod(%0) {axes=[-1]}", "i32[]"},
    {"%0: f32[s0, 4]", "mean(%0) {axes=[0, 1]}", "f32[]"},
    {"%0: f32[s0, 4]", "var(%0) {axes=[1]}", "f32[s0]"},
    {"%0: f32[s0, 4]", "argmax(%0) {axes=[1]}", "i64[s0]"},
    {"%0: f32[s0, 4]", "argmin(%0) {axes=[1], keepdim}", "i64[s0, 1]"},
    {"%0: f32[s0, 4]", "any(%0) {axes=[0]}", "bool[4]"},
    {"%0: f32[s0, 4]", "element_count(%0) {axes=[0, 1], dtype=f64}", "f64[]"},
    {"%0: f32[s0, 6]", "reshape(%0) {shape=[s0, 2, 3]}", "f32[s0, 2, 3]"},
    {"%0: f32[s0, 6]", "reshape(%0) {shape=[6*s0]}", "f32[6*s0]"},
    {"%0: f32[2, s0, 4]", "permute(%0) {axes=[2, 0, 1]}", "f32[4, 2, s0]"},
    {"%0: f32[s0, 1]", "expand(%0) {shape=[5, s0, s1]}", "f32[5, s0, s1]"},
    {"%0: f32[s0, 9]", "slice(%0) {starts=[1, 1], ends=[s0, 8], steps=[1, 3]}", "f32[s0 - 1, 3]"},
    {"%0: f32[2, s0, 8]", "windows(%0) {axes=[1, 2], sizes=[3, 2], strides=[1, 2]}", "f32[2, s0 - 2, 4, 3, 2]"},
    {"%0: f32[s0, 4], %1: f32[2, 4]", "update_slice(%0, %1) {starts=[1, 0], steps=[1, 1]}", "f32[s0, 4]"},
    {"%0: f32[s0, 4]", "pad(%0) {low=[1, 0], high=[2, 3]}", "f32[s0 + 3, 7]"},
    {"%0: f32[s0, 4], %1: f32[3, 4]", "concat(%0, %1) {axes=[0]}", "f32[s0 + 3, 4]"},
    {"%0: f32[s0, 8], %1: f32[8, s1]", "matmul(%0, %1)", "f32[s0, s1]"},
    {"%0: f32[2, s0, 8], %1: f32[2, 8, 3]", "matmul(%0, %1)", "f32[2, s0, 3]"},
    {"%0: f32[5, s0], %1: i64[2, 3]", "take(%0, %1) {axes=[0]}", "f32[2, 3, s0]"},
    {"%0: f32[s0, 5], %1: i32[]", "take(%0, %1) {axes=[1]}", "f32[s0]"},
    {"%0: i64[2, 3], %1: f32[2, 3, s0]", "scatter_add(%0, %1) {axes=[0], shape=[5, s0]}", "f32[5, s0]"},
    {"%0: i64[2, 7, s0], %1: f32[2, 5, s0], %2: f32[2, 7, s0]",
     "scatter(%1, %0, %2) {axes=[1], shared=1, inner=1, combine=add}", "f32[2, 5, s0]"},
    {"%0: i64[2, 7, s0], %1: f32[2, 5, s0]", "take(%1, %0) {axes=[1], shared=1, inner=1}", "f32[2, 7, s0]"},
    {"%0: i64[s0]", "one_hot(%0) {classes=10, dtype=f32}", "f32[s0, 10]"},
    {"%0: i64[], %1: i64[]", "random_bits(%0, %1) {shape=[2, 3]}", "i64[2, 3]"},
    {"%0: i64[], %1: i64[]", "random_normal(%0, %1) {shape=[4], dtype=f64}", "f64[4]"},
    {"%0: f32[s0, 4]", "softmax(%0) {axes=[1]}", "f32[s0, 4]"},
    {"%0: f32[s0, 4]", "logsumexp(%0) {axes=[1]}", "f32[s0]"},
    {"%0: f32[s0, 4], %1: f32[4], %2: f32[4]", "layer_norm(%0, %1, %2) {axes=[1], eps=1e-5}", "f32[s0, 4]"},
    {"%0: f32[s0, 4], %1: i64[s0]", "cross_entropy(%0, %1)", "f32[]"},
    {"%0: f32[s0, 4], %1: f32[4]", "mse_loss(%0, %1)", "f32[]"},
    {"%0: f32[s0, 3, 8, 9], %1: f32[5, 3, 3, 2]", "conv2d(%0, %1) {stride=[2, 1], padding=[1, 0]}", "f32[s0, 5, 4, 8]"},
    {"%0: f32[s0, 3, s1, 9]", "max_pool2d(%0) {window=[2, 3], stride=[1, 3]}", "f32[s0, 3, s1 - 1, 3]"},
    {"%0: f32[2, s0, 8], %1: f32[2, s1, 8], %2: f32[2, s1, 4]", "scaled_dot_product_attention(%0, %1, %2)",
     "f32[2, s0, 4]"},
};

void check_infer(std::span<const InferRow> rows) {
  for (const InferRow& row : rows) {
    const std::string text = "graph(" + std::string(row.inputs) + ") { %out = " + row.statement + "; return %out }";
    INFO(text);
    const Graph graph = parse_graph(text);
    CHECK(graph.type(graph.outputs()[0]).text() == row.expected);
    verify(graph);
  }
}

Type f32(const Shape& shape) { return {DType::f32, {}, shape}; }

/// The message of the error that adding the node throws, without its first word.
std::string message_of(const OpInfo& op, const std::vector<Type>& types, Attrs attrs = {}) {
  GraphBuilder builder;
  Location where;
  where.file = "/home/user/train.cpp";
  where.line = 41;
  std::vector<Value> inputs;
  for (const Type& type : types) inputs.push_back(builder.input(type));
  try {
    builder.add(op, inputs, std::move(attrs), where);
  } catch (const UserError& error) { return std::string(error.what()).substr(8); }
  return "no error";
}

std::vector<double> doubles(const Array& x) { return {x.data.begin(), x.data.end()}; }
Array array(Extents extents, std::vector<Number> data, DType dtype = DType::f64) {
  return {dtype, std::move(extents), std::move(data)};
}

/// The first output of a graph written as text.
Array run(const std::string& inputs, const std::string& statement, const std::vector<Array>& values) {
  INFO(statement);
  return oracle::evaluate(parse_graph("graph(" + inputs + ") { %out = " + statement + "; return %out }"), values)[0];
}

void check_near(const Array& x, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> got = doubles(x);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i);
    if (std::isnan(expected[i])) CHECK(std::isnan(got[i]));
    else CHECK(got[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

}  // namespace

TEST_CASE("ops infer their types") {
  check_infer(elementwise_infer_rows);
  check_infer(structured_infer_rows);
}

TEST_CASE("elementwise types follow the op's rule for mixed dtypes too") {
  const Attrs none;
  auto infer = [&](const OpInfo& op, std::vector<Type> in) {
    TypeList out;
    op.infer({in, none, op.name, {}}, out);
    return out[0].text();
  };
  CHECK(infer(op_info<ops::Add>, {{DType::i32, {}, {2}}, {DType::f32, {}, {}}}) == "f32[2]");
  CHECK(infer(op_info<ops::Div>, {{DType::i32, {}, {2}}, {DType::i64, {}, {}}}) == "f32[2]");
  CHECK(infer(op_info<ops::Exp>, {{DType::i64, {}, {2}}}) == "f32[2]");
  CHECK(infer(op_info<ops::Exp>, {{DType::f64, {}, {2}}}) == "f64[2]");
  CHECK(infer(op_info<ops::Eq>, {{DType::bool_, {}, {2}}, {DType::f64, {}, {1}}}) == "bool[2]");
}

TEST_CASE("shape errors say op, shapes, requirement, line and fix") {
  const Shape a{32, 64}, b{10, 64};
  CHECK(message_of(op_info<ops::Matmul>, {f32(a), f32(b)}) ==
        "ShapeError: matmul: inner sizes differ: a is (32, 64), b is (10, 64) [train.cpp:41]\n"
        "  a.size(1) = 64 must equal b.size(0) = 10; matmul(a, transpose(b, 0, 1)) would fit");
  CHECK(message_of(op_info<ops::Matmul>, {f32({64, 32}), f32({64, 10})}) ==
        "ShapeError: matmul: inner sizes differ: a is (64, 32), b is (64, 10) [train.cpp:41]\n"
        "  a.size(1) = 32 must equal b.size(0) = 64; matmul(transpose(a, 0, 1), b) would fit");
  CHECK(message_of(op_info<ops::Matmul>, {f32({2, 3, 4}), f32({5, 4, 3})}) ==
        "ShapeError: matmul: batch sizes differ: a is (2, 3, 4), b is (5, 4, 3) [train.cpp:41]\n  a.size(0) = 2 must "
        "equal b.size(0) = 5");
  CHECK(message_of(op_info<ops::Add>, {f32({3, 4}), f32({5})}) ==
        "ShapeError: add: shapes (3, 4) and (5,) do not broadcast [train.cpp:41]\n  axis 1: 4 must equal 5, or one of "
        "them must be 1");
  CHECK(message_of(op_info<ops::Reshape>, {f32({3, 4})}, {.shape = {5, 2}}) ==
        "ShapeError: reshape: (3, 4) has 12 elements, (5, 2) has 10 [train.cpp:41]");
  CHECK(message_of(op_info<ops::Expand>, {f32({3, 4})}, {.shape = {6, 4}}) ==
        "ShapeError: expand: (3, 4) does not stretch to (6, 4) [train.cpp:41]\n"
        "  aligned at the right, each extent must be 1 or equal the wanted one");
  CHECK(message_of(op_info<ops::Concat>, {f32({3, 4}), f32({3, 5})}, {.axes = {0}}) ==
        "ShapeError: concat: operand 0 is (3, 4), operand 1 is (3, 5) [train.cpp:41]\n  all extents but that of axis 0 "
        "must be equal");
  CHECK(message_of(op_info<ops::Amax>, {f32({0, 4})}, {.axes = {0}}) ==
        "ShapeError: amax: axis 0 of (0, 4) is empty and has no such element [train.cpp:41]");
  CHECK(message_of(op_info<ops::UpdateSlice>, {f32({4}), f32({3})},
                   Attrs{}.with(ops::UpdateSlice::starts, {2}).with(ops::UpdateSlice::steps, {1})) ==
        "ShapeError: update_slice: (3,) at (2,) does not fit axis 0 of (4,) [train.cpp:41]");
  CHECK(message_of(op_info<ops::Windows>, {f32({4})},
                   Attrs{.axes = {0}}.with(ops::Windows::sizes, {5}).with(ops::Windows::strides, {1})) ==
        "ShapeError: windows: a window of 5 does not fit axis 0 of (4,) [train.cpp:41]");
  CHECK(message_of(op_info<ops::CrossEntropy>, {f32({4, 3}), {DType::i64, {}, {5}}}) ==
        "ShapeError: cross_entropy: logits are (4, 3), target is (5,) [train.cpp:41]\n  logits must be (n, classes) "
        "and target (n,)");
  CHECK(message_of(op_info<ops::LayerNorm>, {f32({4, 3}), f32({3}), f32({4})}, {.axes = {1}}) ==
        "ShapeError: layer_norm: x is (4, 3), weight is (3,), bias is (4,) [train.cpp:41]\n  weight and bias must be "
        "(3,)");
  CHECK(message_of(op_info<ops::Conv2d>, {f32({1, 3, 8, 8}), f32({4, 2, 3, 3})},
                   Attrs{}.with(ops::Conv2d::stride, {1, 1}).with(ops::Conv2d::padding, {0, 0})) ==
        "ShapeError: conv2d: x is (1, 3, 8, 8), weight is (4, 2, 3, 3) [train.cpp:41]\n"
        "  x must be (n, channels, height, width) and weight (outputs, channels, kernel height, kernel width)");
  CHECK(message_of(op_info<ops::Full>, {},
                   {.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}, .has_dtype = true}) ==
        "ShapeError: Shape: the number of elements of (1099511627776, 1099511627776) overflows [train.cpp:41]");
}

TEST_CASE("axis and dtype errors") {
  CHECK(message_of(op_info<ops::Sum>, {f32({3, 4})}, {.axes = {2}}) ==
        "IndexError: sum: axis 2 is out of range for rank 2 [train.cpp:41]\n  valid axes: -2 to 1");
  CHECK(message_of(op_info<ops::Sum>, {f32({3, 4})}, {.axes = {1, -1}}) ==
        "IndexError: sum: axis -1 is named twice [train.cpp:41]");
  CHECK(message_of(op_info<ops::Permute>, {f32({3, 4})}, {.axes = {0, 0}}) ==
        "IndexError: permute: axis 0 is named twice [train.cpp:41]");
  CHECK(message_of(op_info<ops::Slice>, {f32({4})},
                   Attrs{}.with(ops::Slice::starts, {1}).with(ops::Slice::ends, {5}).with(ops::Slice::steps, {1})) ==
        "IndexError: slice: 1 to 5 is out of range for axis 0 of (4,) [train.cpp:41]");
  CHECK(message_of(op_info<ops::Sum>, {{DType::bool_, {}, {3}}}, {.axes = {0}}) ==
        "DTypeError: sum: the operand is bool[3], a number is required [train.cpp:41]\n  cast it first: cast(x, "
        "DType::i64)");
  CHECK(message_of(op_info<ops::Mean>, {{DType::i64, {}, {3}}}, {.axes = {0}}) ==
        "DTypeError: mean: operand 0 is i64[3], it must be floating [train.cpp:41]\n"
        "  cast it to a floating dtype first: cast(x, DType::f32)");
  CHECK(message_of(op_info<ops::Take>, {f32({3}), f32({2})}, {.axes = {0}}) ==
        "DTypeError: take: operand 1 is f32[2], it must be an integer [train.cpp:41]\n"
        "  cast it to an integer dtype first: cast(x, DType::i64)");
  CHECK(message_of(op_info<ops::Matmul>, {f32({3, 4}), {DType::f64, {}, {4, 3}}}) ==
        "DTypeError: matmul: operands have different dtypes: a is f32[3, 4], b is f64[4, 3] [train.cpp:41]\n"
        "  cast one of them: cast(x, DType::f64)");
}

TEST_CASE("errors leave the builder as it was") {
  GraphBuilder builder;
  const Value a = builder.input(f32({3, 4}));
  CHECK_THROWS_AS(builder.add(op_info<ops::Matmul>, {a, a}), ShapeError);
  const Value sum = builder.add(op_info<ops::Sum>, {a}, {.axes = {0}});
  verify(builder.finish({&sum, 1}));
}

TEST_CASE("every op is found by its name, and only by it") {
  CHECK(all_ops().size() > 80);
  for (const OpInfo* op : all_ops()) {
    INFO(op->name);
    CHECK(find_op(op->name) == op);
    CHECK(op->infer != nullptr);
    CHECK((op->kind == OpKind::elementwise) == (op->lower != nullptr));
    CHECK((op->kind == OpKind::composite) == (op->decompose != nullptr));
    CHECK((op->kind != OpKind::reduction || is_reduction(static_cast<Prim>(op->reduction))));
  }
  CHECK(find_op("") == nullptr);
  CHECK(find_op("ad") == nullptr);
  CHECK(find_op("zzz") == nullptr);
}

namespace {
struct ScalarRow {
  const char* op;
  double (*formula)(double);
  double low, high;
};
constexpr ScalarRow scalar_rows[] = {
    {"neg", [](double x) { return -x; }, -3, 3},
    {"abs", [](double x) { return std::fabs(x); }, -3, 3},
    {"sign", [](double x) { return x > 0   ? 1.0
                                   : x < 0 ? -1.0
                                           : x; }, -3, 3},
    {"square", [](double x) { return x * x; }, -3, 3},
    {"reciprocal", [](double x) { return 1 / x; }, 0.1, 3},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0, 3},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.1, 3},
    {"exp", [](double x) { return std::exp(x); }, -3, 3},
    {"log", [](double x) { return std::log(x); }, 0.1, 3},
    {"sin", [](double x) { return std::sin(x); }, -3, 3},
    {"cos", [](double x) { return std::cos(x); }, -3, 3},
    {"tanh", [](double x) { return std::tanh(x); }, -3, 3},
    {"erf", [](double x) { return std::erf(x); }, -3, 3},
    {"floor", [](double x) { return std::floor(x); }, -3, 3},
    {"ceil", [](double x) { return std::ceil(x); }, -3, 3},
    {"round", [](double x) { return std::nearbyint(x); }, -3, 3},
    {"trunc", [](double x) { return std::trunc(x); }, -3, 3},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -30, 30},
    {"relu", [](double x) { return x > 0 ? x : 0; }, -3, 3},
    {"gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }, -3, 3},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }, -30, 30},
    {"stop_gradient", [](double x) { return x; }, -3, 3},
};
}  // namespace

TEST_CASE("scalar bodies of ops of one operand") {
  for (const ScalarRow& row : scalar_rows) {
    INFO(row.op);
    Array x = Array::zeros(DType::f64, {25});
    std::vector<double> expected;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = row.low + (row.high - row.low) * static_cast<double>(i) / 24;
      expected.push_back(row.formula(static_cast<double>(x.data[i])));
    }
    check_near(run("%0: f64[25]", std::string(row.op) + "(%0)", {x}), expected);
  }
}

TEST_CASE("edges of scalar bodies") {
  const Array edges = array({4}, {nan_value, infinity, -infinity, 0});
  check_near(run("%0: f64[4]", "relu(%0)", {edges}), {nan_value, infinity, 0, 0});
  check_near(run("%0: f64[4]", "sign(%0)", {edges}), {nan_value, 1, -1, 0});
  check_near(run("%0: f64[2]", "sigmoid(%0)", {array({2}, {-infinity, infinity})}), {0, 1});
  check_near(run("%0: f64[4], %1: f64[]", "maximum(%0, %1)", {edges, array({}, {1})}), {nan_value, infinity, 1, 1});
  check_near(run("%0: f64[4]", "clamp(%0, -1, 2)", {edges}), {nan_value, 2, -1, 0});
}

TEST_CASE("integer arithmetic rounds down, its remainder has the divisor's sign") {
  const Array a = array({4}, {7, -7, 7, -7}, DType::i64), b = array({4}, {2, 2, -2, -2}, DType::i64);
  CHECK(doubles(run("%0: i64[4], %1: i64[4]", "floor_divide(%0, %1)", {a, b})) == std::vector<double>{3, -4, -4, 3});
  CHECK(doubles(run("%0: i64[4], %1: i64[4]", "rem(%0, %1)", {a, b})) == std::vector<double>{1, 1, -1, -1});
  CHECK(doubles(run("%0: i64[4], %1: i64[4]", "and(%0, %1)", {a, b})) == std::vector<double>{2, 0, 6, -8});
  CHECK(doubles(run("%0: i64[4]", "not(%0)", {a})) == std::vector<double>{-8, 6, -8, 6});
  const Array t = array({2}, {1, 0}, DType::bool_), u = array({2}, {1, 1}, DType::bool_);
  CHECK(doubles(run("%0: bool[2], %1: bool[2]", "xor(%0, %1)", {t, u})) == std::vector<double>{0, 1});
  CHECK(doubles(run("%0: bool[2]", "not(%0)", {t})) == std::vector<double>{0, 1});
}

TEST_CASE("statistics") {
  const Array x = array({2, 3}, {1, 5, 3, 2, 2, -4});
  check_near(run("%0: f64[2, 3]", "mean(%0) {axes=[1]}", {x}), {3, 0});
  check_near(run("%0: f64[s0, 3]", "mean(%0) {axes=[0], keepdim}", {x}), {1.5, 3.5, -0.5});
  check_near(run("%0: f64[s0, s1]", "mean(%0) {axes=[0, 1]}", {x}), {1.5});
  check_near(run("%0: f64[2, 3]", "var(%0) {axes=[1]}", {x}), {8.0 / 3, 8});
  check_near(run("%0: f64[2, 3]", "var(%0) {axes=[1], correction=1}", {x}), {4, 12});
  check_near(run("%0: f64[s0, 3]", "element_count(%0) {axes=[0, 1], dtype=i64}", {x}), {6});
  check_near(run("%0: f64[2, 3]", "argmax(%0) {axes=[1]}", {x}), {1, 0});
  check_near(run("%0: f64[2, 3]", "argmin(%0) {axes=[1], keepdim}", {x}), {0, 2});
  const Array gaps = array({2, 3}, {1, nan_value, nan_value, -infinity, -infinity, -infinity});
  check_near(run("%0: f64[2, 3]", "argmax(%0) {axes=[1]}", {gaps}), {1, 0});
  check_near(run("%0: f64[2, 3]", "argmin(%0) {axes=[1]}", {gaps}), {1, 0});
  const Array flags = array({3, 2}, {0, 0, 0, 7, 1, 2}, DType::i32);
  check_near(run("%0: i32[3, 2]", "any(%0) {axes=[1]}", {flags}), {0, 1, 1});
  check_near(run("%0: i32[3, 2]", "all(%0) {axes=[1]}", {flags}), {0, 0, 1});
  const Array nothing = array({0, 2}, {}, DType::i32);
  check_near(run("%0: i32[0, 2]", "any(%0) {axes=[0]}", {nothing}), {0, 0});
  check_near(run("%0: i32[0, 2]", "all(%0) {axes=[0]}", {nothing}), {1, 1});
}

TEST_CASE("joins and classes") {
  const Array x = array({2, 2}, {1, 2, 3, 4}), y = array({2, 1}, {8, 9});
  check_near(run("%0: f64[2, 2], %1: f64[2, 1]", "concat(%0, %1, %0) {axes=[1]}", {x, y}),
             {1, 2, 8, 1, 2, 3, 4, 9, 3, 4});
  check_near(run("%0: f64[s0, s1], %1: f64[s0, 1]", "concat(%0, %1) {axes=[1]}", {x, y}), {1, 2, 8, 3, 4, 9});
  check_near(run("%0: f64[2, 2]", "pad(%0) {low=[1, 0], high=[0, 1], value=-1}", {x}),
             {-1, -1, -1, 1, 2, -1, 3, 4, -1});
  check_near(run("%0: i64[3]", "one_hot(%0) {classes=3, dtype=f32}", {array({3}, {2, 0, 1}, DType::i64)}),
             {0, 0, 1, 1, 0, 0, 0, 1, 0});
}

TEST_CASE("softmax and its relatives do not overflow") {
  const Array x = array({2, 3}, {1000, 1001, 999, -2000, -2000, -infinity});
  const double total = 1 + std::exp(1) + std::exp(-1);
  check_near(run("%0: f64[2, 3]", "softmax(%0) {axes=[1]}", {x}),
             {1 / total, std::exp(1) / total, std::exp(-1) / total, 0.5, 0.5, 0});
  check_near(run("%0: f64[2, 3]", "log_softmax(%0) {axes=[1]}", {x}),
             {-std::log(total), 1 - std::log(total), -1 - std::log(total), -std::log(2), -std::log(2), -infinity});
  check_near(run("%0: f64[2, 3]", "logsumexp(%0) {axes=[1]}", {x}), {1000 + std::log(total), -2000 + std::log(2)});
  check_near(run("%0: f64[1, 2]", "logsumexp(%0) {axes=[1], keepdim}", {array({1, 2}, {-infinity, -infinity})}),
             {-infinity});
  check_near(run("%0: f64[0, 3]", "softmax(%0) {axes=[0]}", {array({0, 3}, {})}), {});
  const Array target = array({2}, {1, 0}, DType::i64);
  check_near(run("%0: f64[2, 3], %1: i64[2]", "cross_entropy(%0, %1)", {x, target}),
             {(std::log(total) - 1 + std::log(2)) / 2});
  check_near(run("%0: f64[s0, 3], %1: i64[s0]", "cross_entropy(%0, %1)", {x, target}),
             {(std::log(total) - 1 + std::log(2)) / 2});
  check_near(run("%0: f64[2, 2], %1: f64[2]", "mse_loss(%0, %1)", {array({2, 2}, {1, 2, 3, 4}), array({2}, {0, 1})}),
             {(1 + 1 + 9 + 9) / 4.0});
}

TEST_CASE("layer_norm keeps its accuracy with a large mean") {
  const Array x = array({1, 4}, {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4});
  const Array weight = array({4}, {1, 2, 1, 1}), bias = array({4}, {0, 0, 0.5, 0});
  const double s = std::sqrt(1.25 + 1e-5);
  check_near(
      run("%0: f64[1, 4], %1: f64[4], %2: f64[4]", "layer_norm(%0, %1, %2) {axes=[1], eps=1e-5}", {x, weight, bias}),
      {-1.5 / s, -1 / s, 0.5 / s + 0.5, 1.5 / s});
}

TEST_CASE("convolution and pooling") {
  Array x = Array::zeros(DType::f64, {1, 1, 3, 4}), w = array({1, 1, 2, 2}, {1, 10, 100, 1000});
  for (std::size_t i = 0; i < 12; ++i) x.data[i] = static_cast<Number>(i);
  check_near(run("%0: f64[1, 1, 3, 4], %1: f64[1, 1, 2, 2]", "conv2d(%0, %1) {stride=[1, 1], padding=[0, 0]}", {x, w}),
             {5410, 6521, 7632, 9854, 10965, 12076});
  check_near(run("%0: f64[1, 1, 3, 4], %1: f64[1, 1, 2, 2]", "conv2d(%0, %1) {stride=[2, 3], padding=[1, 1]}", {x, w}),
             {0, 3200, 8040, 12076});
  check_near(run("%0: f64[1, 1, 3, 4]", "max_pool2d(%0) {window=[2, 2], stride=[1, 2]}", {x}), {5, 7, 9, 11});
  check_near(run("%0: f64[1, 1, s0, 4]", "avg_pool2d(%0) {window=[2, 2], stride=[1, 2]}", {x}), {2.5, 4.5, 6.5, 8.5});
}

TEST_CASE("attention weighs values by the similarity of queries and keys") {
  const Array q = array({2, 1}, {1, 2}), k = array({2, 1}, {0, 1}), v = array({2, 1}, {10, 20});
  auto mean_of = [](double score) { return (10 + 20 * std::exp(score)) / (1 + std::exp(score)); };
  const std::string types = "%0: f64[2, 1], %1: f64[2, 1], %2: f64[2, 1]";
  check_near(run(types, "scaled_dot_product_attention(%0, %1, %2)", {q, k, v}), {mean_of(1), mean_of(2)});
  check_near(run("%0: f64[s0, s1], %1: f64[s0, s1], %2: f64[s0, s1]",
                 "scaled_dot_product_attention(%0, %1, %2) {scale=0.5, causal=equal_lengths}",
                 {array({2, 2}, {1, 0, 2, 0}), array({2, 2}, {0, 0, 1, 0}), array({2, 2}, {10, 10, 20, 20})}),
             {10, 10, mean_of(1), mean_of(1)});
  const Array mask = array({2, 2}, {1, 1, 0, 1}, DType::bool_);
  check_near(run(types + ", %3: bool[2, 2]", "scaled_dot_product_attention(%0, %1, %2, %3)", {q, k, v, mask}),
             {mean_of(1), 20});
}

TEST_CASE("random numbers have their distribution and do not repeat") {
  const Array key = array({}, {42}, DType::i64), counter = array({}, {7}, DType::i64);
  for (const char* dtype : {"f32", "f64"}) {
    INFO(dtype);
    const std::string attrs = std::string(" {shape=[20000], dtype=") + dtype + "}";
    const std::string types = "%0: i64[], %1: i64[]";
    const Array u = run(types, "random_uniform(%0, %1)" + attrs, {key, counter});
    double sum = 0, squares = 0;
    for (Number x : u.data) {
      REQUIRE((x >= 0 && x < 1));
      REQUIRE(x == (std::string(dtype) == "f32" ? static_cast<Number>(static_cast<float>(x))
                                                : static_cast<Number>(static_cast<double>(x))));
      sum += static_cast<double>(x);
      squares += static_cast<double>(x * x);
    }
    CHECK(sum / 20000 == Approx(0.5).margin(0.01));
    CHECK(squares / 20000 == Approx(1.0 / 3).margin(0.01));
    const Array n = run(types, "random_normal(%0, %1)" + attrs, {key, counter});
    double moments[4] = {};
    for (Number x : n.data)
      for (int m = 0; m < 4; ++m) moments[m] += static_cast<double>(std::pow(x, m + 1)) / 20000;
    CHECK(moments[0] == Approx(0).margin(0.03));
    CHECK(moments[1] == Approx(1).margin(0.04));
    CHECK(moments[2] == Approx(0).margin(0.1));
    CHECK(moments[3] == Approx(3).margin(0.25));
    const Array next = run(types, "random_uniform(%0, %1)" + attrs, {key, array({}, {8}, DType::i64)});
    int equal = 0;
    for (std::size_t i = 0; i < u.data.size(); ++i) equal += u.data[i] == next.data[i];
    CHECK(equal < 20);
  }
}

TEST_CASE("algebra on Vals promotes, and adds no node that changes nothing") {
  GraphBuilder builder;
  const Val x{&builder, builder.input(f32({2, 3})), {}}, i{&builder, builder.input({DType::i64, {}, {3}}), {}};
  CHECK((x + i).type().text() == "f32[2, 3]");
  CHECK((i / 2).dtype() == DType::f32);
  CHECK((i + 1).dtype() == DType::i64);
  CHECK(exp(i).dtype() == DType::f32);
  CHECK(reshape(x, {2, 3}).value == x.value);
  CHECK(permute(x, {0, 1}).value == x.value);
  CHECK(expand(x, {2, 3}).value == x.value);
  CHECK(cast(x, DType::f32).value == x.value);
  CHECK(pad(x, {0, 0}, {0, 0}, 0).value == x.value);
  CHECK(slice_axis(x, 1, 0, 3).value == x.value);
  CHECK(sum_to_shape(x, {1, 3}).type().text() == "f32[1, 3]");
  CHECK(sum_to_shape(x, {3}).type().text() == "f32[3]");
  CHECK(sum_to_shape(x, {}).type().text() == "f32[]");
  CHECK(mean(x, {0}, ReducedAxes::kept).type().text() == "f32[1, 3]");
}
