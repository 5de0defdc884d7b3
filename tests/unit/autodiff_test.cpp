// Gradients and second derivatives of every op that has them, against central differences of the oracle's values; and
// what differentiate() refuses, prunes and leaves zero.
#include "../catch.hpp"
#include "../graph_evaluator.hpp"

#include <sinter/autodiff/reverse.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

using namespace sinter;
using oracle::Array;
using oracle::Extents;
using oracle::Number;

namespace {

using Vals = std::span<const Val>;

/// One function to differentiate. Elements of the inputs are spread over [low, high] without repeats.
struct GradientRow {
  const char* name;
  std::vector<Extents> inputs;
  Val (*function)(Vals);
  double low = -2, high = 2;
  std::int64_t dynamic = 0;  // inputs' extents of this value are symbolic in a second run
  bool second = true;        // second derivatives hold too
};

/// Numbers between low and high in an irregular order: the golden ratio's multiples modulo 1.
Array spread_values(const Extents& extents, double low, double high, int seed) {
  Array out = Array::zeros(DType::f64, extents);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    double whole, at = std::modf((static_cast<double>(i) + 1 + 17 * seed) * std::numbers::phi, &whole);
    out.data[i] = static_cast<Number>(low + (high - low) * at);
  }
  return out;
}

/// sum(y * w) with weights that have no symmetry, so that wrong places cannot cancel.
Val weighted_sum(Val y, double phase) {
  const Shape flat{y.shape().numel()};
  const Val position = cast(iota(y, flat, 0, DType::i64), DType::f64);
  return sum(reshape(y, flat) * sin(position * 1.7 + phase), {0});
}

Graph loss_graph(const GradientRow& row, bool is_dynamic) {
  GraphBuilder builder;
  std::vector<Val> inputs;
  for (const Extents& extents : row.inputs) {
    Shape shape;
    for (std::int64_t extent : extents)
      shape.push_back(is_dynamic && extent == row.dynamic ? Dim::symbol(0) : Dim(extent));
    inputs.push_back({&builder, builder.input({DType::f64, {}, shape}), {}});
  }
  if (is_dynamic) builder.symbols().resize(1);
  const Val loss = weighted_sum(row.function(inputs), 0.5);
  return builder.finish({&loss.value, 1});
}

std::vector<std::int32_t> all_inputs(const Graph& graph) {
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) positions.push_back(static_cast<std::int32_t>(i));
  return positions;
}

/// The weighted sum of the gradients of `forward`, as a function of the same inputs.
Graph gradient_sum(const Graph& forward) {
  const Graph gradient = differentiate(forward, all_inputs(forward));
  GraphBuilder builder(gradient);
  std::vector<Value> inputs;
  for (Value v : gradient.inputs()) inputs.push_back(builder.input(gradient.type(v)));
  const std::vector<Value> outputs = builder.inline_graph(gradient, inputs);
  Val total{};
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    const Val part = weighted_sum({&builder, outputs[i], {}}, static_cast<double>(i));
    total = total ? total + part : part;
  }
  return builder.finish({&total.value, 1});
}

/// Every element of every gradient against (f(x + h) - f(x - h)) / 2h.
void check_gradient(const Graph& forward, std::vector<Array> inputs) {
  verify(forward);
  const Graph gradient = differentiate(forward, all_inputs(forward));
  verify(gradient);
  const std::vector<Array> results = oracle::evaluate(gradient, inputs);
  CHECK(results[0].data == oracle::evaluate(forward, inputs)[0].data);
  constexpr Number h = 1e-5L;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    REQUIRE(results[k + 1].extents == inputs[k].extents);
    for (std::size_t i = 0; i < inputs[k].data.size(); ++i) {
      const Number x = inputs[k].data[i];
      inputs[k].data[i] = x + h;
      const Number above = oracle::evaluate(forward, inputs)[0].data[0];
      inputs[k].data[i] = x - h;
      const Number below = oracle::evaluate(forward, inputs)[0].data[0];
      inputs[k].data[i] = x;
      const double expected = static_cast<double>((above - below) / (2 * h));
      INFO("input " << k << ", element " << i << ": " << static_cast<double>(x));
      CHECK(static_cast<double>(results[k + 1].data[i]) == Approx(expected).epsilon(1e-6).margin(1e-7));
    }
  }
}

template <class Op>
Val unary(Vals in) {
  return apply(op_info<Op>, {in[0]});
}
template <class Op>
Val binary(Vals in) {
  return apply(op_info<Op>, {in[0], in[1]});
}
template <class Op>
Val reduce(Vals in) {
  return apply(op_info<Op>, {in[0]}, Attrs{.axes = {1}});
}
template <class Op>
Val reduce_kept(Vals in) {
  return apply(op_info<Op>, {in[0]}, Attrs{.axes = {0, 2}, .keepdim = true});
}

const std::vector<GradientRow>& elementwise_rows() {
  static const std::vector<GradientRow> rows{
      {"neg", {{5}}, unary<ops::Neg>},
      {"abs", {{5}}, unary<ops::Abs>},
      {"square", {{5}}, unary<ops::Square>},
      {"reciprocal", {{5}}, unary<ops::Reciprocal>, 0.5, 2},
      {"sqrt", {{5}}, unary<ops::Sqrt>, 0.5, 2},
      {"rsqrt", {{5}}, unary<ops::Rsqrt>, 0.5, 2},
      {"exp", {{5}}, unary<ops::Exp>},
      {"log", {{5}}, unary<ops::Log>, 0.5, 2},
      {"sin", {{5}}, unary<ops::Sin>},
      {"cos", {{5}}, unary<ops::Cos>},
      {"tanh", {{5}}, unary<ops::Tanh>},
      {"erf", {{5}}, unary<ops::Erf>},
      {"sigmoid", {{5}}, unary<ops::Sigmoid>},
      {"relu", {{6}}, unary<ops::Relu>},
      {"gelu", {{5}}, unary<ops::Gelu>},
      {"silu", {{5}}, unary<ops::Silu>},
      {"expm1", {{5}}, unary<ops::Expm1>},
      {"erfc", {{5}}, unary<ops::Erfc>},
      {"erfcx", {{5}}, unary<ops::Erfcx>},
      {"erfinv", {{5}}, unary<ops::Erfinv>, -0.7, 0.7},
      {"ndtri", {{5}}, unary<ops::Ndtri>, 0.1, 0.9},
      {"lgamma", {{5}}, unary<ops::Lgamma>, 0.5, 4},
      {"digamma", {{5}}, unary<ops::Digamma>, 0.5, 4},
      {"sinc", {{5}}, unary<ops::Sinc>},
      {"sinc near 0", {{5}}, unary<ops::Sinc>, -0.09, 0.09},
      {"i0", {{5}}, unary<ops::I0>},
      {"i1", {{5}}, unary<ops::I1>, 0.5, 3},
      {"i0e", {{5}}, unary<ops::I0e>, 0.5, 3},
      {"i1e", {{5}}, unary<ops::I1e>, 0.5, 3},
      {"exp2", {{5}}, unary<ops::Exp2>},
      {"log1p", {{5}}, unary<ops::Log1p>, -0.5, 2},
      {"log2", {{5}}, unary<ops::Log2>, 0.5, 2},
      {"log10", {{5}}, unary<ops::Log10>, 0.5, 2},
      {"tan", {{5}}, unary<ops::Tan>, -1, 1},
      {"asin", {{5}}, unary<ops::Asin>, -0.9, 0.9},
      {"acos", {{5}}, unary<ops::Acos>, -0.9, 0.9},
      {"atan", {{5}}, unary<ops::Atan>},
      {"sinh", {{5}}, unary<ops::Sinh>},
      {"cosh", {{5}}, unary<ops::Cosh>},
      {"asinh", {{5}}, unary<ops::Asinh>},
      {"acosh", {{5}}, unary<ops::Acosh>, 1.2, 3},
      {"atanh", {{5}}, unary<ops::Atanh>, -0.9, 0.9},
      {"cbrt", {{5}}, unary<ops::Cbrt>, 0.5, 2},
      {"logit", {{5}}, unary<ops::Logit>, 0.1, 0.9},
      {"softplus", {{5}}, unary<ops::Softplus>},
      {"logsigmoid", {{5}}, unary<ops::Logsigmoid>},
      {"mish", {{5}}, unary<ops::Mish>},
      {"softsign", {{5}}, unary<ops::Softsign>},
      {"hardsigmoid", {{5}}, unary<ops::Hardsigmoid>},
      {"hardswish", {{5}}, unary<ops::Hardswish>},
      {"tanhshrink", {{5}}, unary<ops::Tanhshrink>},
      {"gelu_tanh", {{5}}, unary<ops::GeluTanh>},
      {"cast", {{5}}, [](Vals in) { return cast(cast(square(in[0]), DType::f32), DType::f64); }},
      {"add", {{3, 4}, {4}}, binary<ops::Add>, -2, 2, 4},
      {"sub", {{3, 1}, {2, 3, 4}}, binary<ops::Sub>, -2, 2, 3},
      {"mul", {{3, 1}, {1, 4}}, binary<ops::Mul>, -2, 2, 4},
      {"mul of one value with itself", {{4}}, [](Vals in) { return in[0] * in[0] * in[0]; }},
      {"div", {{3, 4}, {}}, binary<ops::Div>, 0.5, 2},
      {"rem", {{6}, {6}}, binary<ops::Rem>, 0.5, 3},
      {"pow", {{3, 4}, {4}}, binary<ops::Pow>, 0.5, 2},
      {"hypot", {{3, 4}, {4}}, binary<ops::Hypot>, 0.5, 2},
      {"atan2", {{3, 4}, {4}}, binary<ops::Atan2>, -2, 2},
      {"logaddexp", {{3, 4}, {4}}, binary<ops::Logaddexp>, -2, 2},
      {"logaddexp2", {{3, 4}, {4}}, binary<ops::Logaddexp2>, -2, 2},
      {"xlogy", {{3, 4}, {4}}, binary<ops::Xlogy>, 0.5, 2},
      {"xlog1py", {{3, 4}, {4}}, binary<ops::Xlog1py>, 0.5, 2},
      {"fmod", {{3, 4}, {4}}, binary<ops::Fmod>, 0.6, 3},
      {"leaky_relu", {{3, 4}, {4}}, binary<ops::LeakyRelu>, -2, 2},
      {"lerp", {{3, 4}, {4}, {4}}, [](Vals in) { return apply(op_info<ops::Lerp>, {in[0], in[1], in[2]}); }},
      {"elu", {{6}}, [](Vals in) { return apply(op_info<ops::Elu>, {in[0], number(in[0], 0.7), number(in[0], 1.3)}); }},
      {"hardshrink", {{6}}, [](Vals in) { return apply(op_info<ops::Hardshrink>, {in[0], number(in[0], 0.5)}); }},
      {"softshrink", {{6}}, [](Vals in) { return apply(op_info<ops::Softshrink>, {in[0], number(in[0], 0.5)}); }},
      {"copysign", {{6}}, [](Vals in) { return apply(op_info<ops::Copysign>, {in[0], number(in[0], -1)}); }},
      {"ldexp", {{6}}, [](Vals in) { return apply(op_info<ops::Ldexp>, {in[0], number(in[0], -3)}); }},
      {"frexp_fraction", {{6}}, unary<ops::FrexpFraction>},
      {"maximum", {{6}, {6}}, binary<ops::Maximum>},
      {"minimum", {{6}, {2, 6}}, binary<ops::Minimum>},
      {"clamp", {{9}, {1}, {1}}, [](Vals in) { return apply(op_info<ops::Clamp>, {in[0], in[1] - 1, in[2] + 0.5}); }},
      {"where", {{2, 4}, {4}}, [](Vals in) { return where(gt(in[0], in[1]), square(in[0]), in[1] * 3); }},
      {"a constant is no part",
       {{4}},
       [](Vals in) { return in[0] * apply(op_info<ops::StopGradient>, {number(in[0], 2)}) + 1; }},
  };
  return rows;
}

/// 0, 0, 1, 1, ... along the last axis: indices with repeats.
Val halves(Val context, const Shape& shape) {
  const Val index = iota(context, shape, shape.rank() - 1, DType::i64);
  return floor_divide(index, number(index, 2));
}

const std::vector<GradientRow>& structured_rows() {
  static const std::vector<GradientRow> rows{
      {"sum", {{2, 3, 4}}, reduce<ops::Sum>, -2, 2, 4},
      {"sum, kept", {{2, 3, 4}}, reduce_kept<ops::Sum>, -2, 2, 2},
      {"prod", {{2, 3, 2}}, reduce<ops::Prod>, 0.5, 2, 2},
      {"prod, kept", {{2, 2, 3}}, reduce_kept<ops::Prod>, -2, 2},
      {"amax", {{2, 3, 4}}, [](Vals in) { return amax(square(in[0]), {1}); }, -2, 2, 3},
      {"amin, kept", {{2, 3, 4}}, reduce_kept<ops::Amin>, -2, 2, 4},
      {"mean", {{2, 3, 4}}, [](Vals in) { return mean(square(in[0]), {1}); }, -2, 2, 3},
      {"mean, kept", {{2, 3, 4}}, reduce_kept<ops::Mean>, -2, 2, 4},
      {"var",
       {{2, 5}},
       [](Vals in) { return apply(op_info<ops::Var>, {in[0]}, Attrs{.axes = {1}}.with(ops::Var::correction, 1)); },
       -2,
       2,
       5},
      {"reshape", {{2, 6}}, [](Vals in) { return square(reshape(in[0], {in[0].shape()[0], 3, 2})); }, -2, 2, 2},
      {"permute", {{2, 3, 4}}, [](Vals in) { return square(permute(in[0], {2, 0, 1})); }, -2, 2, 3},
      {"expand", {{3, 1}}, [](Vals in) { return square(expand(in[0], {2, in[0].shape()[0], 4})); }, -2, 2, 3},
      {"slice",
       {{5, 4}},
       [](Vals in) { return square(slice(in[0], {1, 0}, {5, in[0].shape()[1]}, {2, 1})); },
       -2,
       2,
       4},
      {"windows that touch", {{7, 5}}, [](Vals in) { return square(windows(in[0], {0, 1}, {2, 2}, {2, 2})); }},
      {"windows that overlap",
       {{6, 5}},
       [](Vals in) { return square(windows(in[0], {0, 1}, {3, 2}, {1, 1})); },
       -2,
       2,
       6},
      {"windows that overlap, with strides",
       {{8, 7}},
       [](Vals in) { return square(windows(in[0], {1, 0}, {3, 4}, {2, 3})); }},
      {"windows with gaps", {{8}}, [](Vals in) { return square(windows(in[0], {0}, {2}, {3})); }},
      {"windows of one", {{6}}, [](Vals in) { return square(windows(in[0], {0}, {1}, {2})); }},
      {"windows of mixed kinds",
       {{2, 6, 6}},
       [](Vals in) { return square(windows(in[0], {1, 2}, {2, 3}, {2, 1})); },
       -2,
       2,
       2},
      {"update_slice",
       {{5, 4}, {2, 4}},
       [](Vals in) { return square(update_slice(in[0], in[1], {1, 0}, {3, 1})); },
       -2,
       2,
       4},
      {"pad", {{2, 3}}, [](Vals in) { return square(pad(in[0], {1, 0}, {0, 2}, 1.5)); }, -2, 2, 3},
      {"concat",
       {{2, 3}, {2, 1}, {2, 3}},
       [](Vals in) { return square(apply(op_info<ops::Concat>, in, Attrs{.axes = {1}})); },
       -2,
       2,
       3},
      {"matmul", {{3, 4}, {4, 2}}, binary<ops::Matmul>, -2, 2, 4},
      {"matmul, batches", {{2, 3, 4}, {2, 4, 5}}, binary<ops::Matmul>, -2, 2, 2},
      {"matmul of one value with itself", {{3, 3}}, [](Vals in) { return matmul(in[0], transpose(in[0])); }, -2, 2, 3},
      {"take", {{5, 3}}, [](Vals in) { return square(take(in[0], halves(in[0], {2, 4}), 0)); }, -2, 2, 3},
      {"scatter_add",
       {{4, 3}},
       [](Vals in) { return square(scatter_add(halves(in[0], {4}), in[0], {6, in[0].shape()[1]}, 0)); },
       -2,
       2,
       3},
  };
  return rows;
}

/// Classes 0, 1, 2, 0, ... for the rows of x.
Val class_numbers(Val x, std::int64_t classes) {
  const Val index = iota(x, {x.shape()[0]}, 0, DType::i64);
  return apply(op_info<ops::Rem>, {index, number(index, static_cast<double>(classes))});
}

Val attention(Vals in) { return apply(op_info<ops::ScaledDotProductAttention>, in); }

const std::vector<GradientRow>& network_rows() {
  static const std::vector<GradientRow> rows{
      {"softmax", {{3, 4}}, reduce<ops::Softmax>, -2, 2, 4},
      {"log_softmax", {{3, 4}}, reduce<ops::LogSoftmax>, -2, 2, 3},
      {"logsumexp", {{3, 4}}, reduce<ops::Logsumexp>, -2, 2, 4},
      {"layer_norm",
       {{3, 5}, {5}, {5}},
       [](Vals in) { return apply(op_info<ops::LayerNorm>, in, Attrs{.axes = {1}}.with(ops::LayerNorm::eps, 1e-5)); },
       -2,
       2,
       5},
      {"layer_norm over two axes",
       {{3, 2, 2}, {2, 2}, {2, 2}},
       [](Vals in) {
         return apply(op_info<ops::LayerNorm>, in, Attrs{.axes = {1, 2}}.with(ops::LayerNorm::eps, 1e-5));
       },
       -2,
       2,
       3},
      {"cross_entropy",
       {{4, 3}},
       [](Vals in) { return apply(op_info<ops::CrossEntropy>, {in[0], class_numbers(in[0], 3)}); },
       -2,
       2,
       4},
      {"mse_loss", {{3, 4}, {4}}, binary<ops::MseLoss>, -2, 2, 4},
      {"conv2d",
       {{2, 2, 5, 4}, {3, 2, 3, 2}},
       [](Vals in) {
         return apply(op_info<ops::Conv2d>, in,
                      Attrs{}.with(ops::Conv2d::stride, {1, 1}).with(ops::Conv2d::padding, {0, 0}));
       },
       -1,
       1,
       5},
      {"conv2d with strides and padding",
       {{1, 2, 6, 5}, {2, 2, 3, 3}},
       [](Vals in) {
         return apply(op_info<ops::Conv2d>, in,
                      Attrs{}.with(ops::Conv2d::stride, {2, 3}).with(ops::Conv2d::padding, {1, 2}));
       },
       -1,
       1,
       1},
      {"conv2d padded past its kernel",
       {{1, 1, 3, 3}, {2, 1, 1, 2}},
       [](Vals in) {
         return apply(op_info<ops::Conv2d>, in,
                      Attrs{}.with(ops::Conv2d::stride, {1, 1}).with(ops::Conv2d::padding, {1, 3}));
       },
       -1,
       1},
      {"max_pool2d",
       {{2, 2, 5, 4}},
       [](Vals in) {
         return apply(op_info<ops::MaxPool2d>, in,
                      Attrs{}.with(ops::MaxPool2d::window, {2, 2}).with(ops::MaxPool2d::stride, {2, 2}));
       },
       -2,
       2},
      {"max_pool2d that overlaps",
       {{1, 2, 5, 5}},
       [](Vals in) {
         return apply(op_info<ops::MaxPool2d>, in,
                      Attrs{}.with(ops::MaxPool2d::window, {3, 2}).with(ops::MaxPool2d::stride, {2, 1}));
       }},
      {"avg_pool2d",
       {{2, 1, 4, 4}},
       [](Vals in) {
         return apply(op_info<ops::AvgPool2d>, in,
                      Attrs{}.with(ops::AvgPool2d::window, {2, 2}).with(ops::AvgPool2d::stride, {2, 2}));
       },
       -2,
       2,
       2},
      {"attention", {{2, 3, 4}, {2, 5, 4}, {2, 5, 2}}, attention, -1, 1, 4},
      {"attention, causal, with a mask",
       {{3, 2}, {3, 2}, {3, 2}, {3, 3}},
       [](Vals in) {
         return apply(
             op_info<ops::ScaledDotProductAttention>, in,
             Attrs{}
                 .with(ops::ScaledDotProductAttention::scale, 0.7)
                 .with(ops::ScaledDotProductAttention::causal, ops::ScaledDotProductAttention::Causal::equal_lengths));
       },
       -1,
       1},
  };
  return rows;
}

void check_rows(const std::vector<GradientRow>& rows) {
  for (const GradientRow& row : rows) {
    std::vector<Array> inputs;
    for (std::size_t k = 0; k < row.inputs.size(); ++k)
      inputs.push_back(spread_values(row.inputs[k], row.low, row.high, static_cast<int>(k)));
    for (bool is_dynamic : {false, true}) {
      if (is_dynamic && row.dynamic == 0) continue;
      INFO(row.name << (is_dynamic ? ", dynamic" : ""));
      const Graph forward = loss_graph(row, is_dynamic);
      check_gradient(forward, inputs);
      if (row.second) check_gradient(gradient_sum(forward), inputs);
    }
  }
}

Array scalar(double value) { return {DType::f64, {}, {static_cast<Number>(value)}}; }

/// Gradients by all inputs of the graph's first output.
std::vector<Array> gradients(std::string_view text, const std::vector<Array>& inputs) {
  const Graph graph = parse_graph(text);
  std::vector<Array> results = oracle::evaluate(differentiate(graph, all_inputs(graph)), inputs);
  results.erase(results.begin());
  return results;
}

int count_nodes(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) { return n.op->name == op; }));
}

}  // namespace

TEST_CASE("gradients of elementwise ops") { check_rows(elementwise_rows()); }
TEST_CASE("gradients of reductions, views, joins and products") { check_rows(structured_rows()); }
TEST_CASE("gradients of network layers") { check_rows(network_rows()); }

TEST_CASE("derivatives where the formula alone would fail") {
  SECTION("relu and abs at 0") {
    const auto g = gradients(
        "graph(%0: f64[3]) { %1 = relu(%0); %2 = abs(%0); %3 = add(%1, %2); %4 = sum(%3) {axes=[0]}; return %4 }",
        {{DType::f64, {3}, {-1, 0, 2}}});
    CHECK(g[0].data == std::vector<Number>{-1, 0, 2});
  }
  SECTION("pow at base 0 and at exponent 0") {
    const auto g = gradients("graph(%0: f64[3], %1: f64[3]) { %2 = pow(%0, %1); %3 = sum(%2) {axes=[0]}; return %3 }",
                             {{DType::f64, {3}, {0, 0, 2}}, {DType::f64, {3}, {0, 2, 0}}});
    CHECK(g[0].data == std::vector<Number>{0, 0, 0});
    CHECK(g[1].data[0] == 0);
    CHECK(g[1].data[1] == 0);
    CHECK(static_cast<double>(g[1].data[2]) == Approx(std::log(2)));
  }
  SECTION("prod with zeros") {
    const auto g = gradients("graph(%0: f64[3, 3]) { %1 = prod(%0) {axes=[1]}; %2 = sum(%1) {axes=[0]}; return %2 }",
                             {{DType::f64, {3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0}}});
    const std::vector<double> expected{12, 8, 6, 0, 8, 0, 0, 0, 0};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(static_cast<double>(g[0].data[i]) == Approx(expected[i]));
  }
  SECTION("equal extremes share") {
    const auto g =
        gradients("graph(%0: f64[4]) { %1 = amax(%0) {axes=[0]}; return %1 }", {{DType::f64, {4}, {3, 1, 3, 2}}});
    CHECK(g[0].data == std::vector<Number>{0.5, 0, 0.5, 0});
    const auto pair =
        gradients("graph(%0: f64[], %1: f64[]) { %2 = maximum(%0, %1); return %2 }", {scalar(2), scalar(2)});
    CHECK(pair[0].data[0] == 0.5);
    CHECK(pair[1].data[0] == 0.5);
  }
  SECTION("the branch not taken gives no NaN") {
    const auto g =
        gradients("graph(%0: f64[2]) { %1 = where(gt(%0, 0), log(%0), 0); %2 = sum(%1) {axes=[0]}; return %2 }",
                  {{DType::f64, {2}, {2, -1}}});
    CHECK(g[0].data == std::vector<Number>{0.5, 0});
  }
  SECTION("softmax of large logits") {
    const auto g = gradients(
        "graph(%0: f64[1, 2]) { %1 = full {shape=[1], dtype=i64, integer=1}; %2 = cross_entropy(%0, %1); return %2 }",
        {{DType::f64, {1, 2}, {1e6, -1e6}}});
    CHECK(g[0].data == std::vector<Number>{1, -1});
  }
}

TEST_CASE("third derivatives come from the same rules") {
  Graph graph = parse_graph("graph(%0: f64[]) { %1 = tanh(%0); %2 = mul(%1, %0); return %2 }");
  for (int order = 0; order < 3; ++order) {
    const Graph next = differentiate(graph, std::vector<std::int32_t>{0});
    GraphBuilder builder;
    const Value x = builder.input({DType::f64, {}, {}});
    const std::vector<Value> outputs = builder.inline_graph(next, {&x, 1});
    graph = builder.finish({&outputs[1], 1});
  }
  const double x = 0.3, t = std::tanh(x), s = 1 - t * t;  // f = x t; f' = t + x s; f'' = 2 s - 2 x t s
  const double expected = -4 * t * s - 2 * t * s - 2 * x * (s * s - 2 * t * t * s);
  CHECK(static_cast<double>(oracle::evaluate(graph, {scalar(x)})[0].data[0]) == Approx(expected));
}

TEST_CASE("differentiate keeps inputs and outputs, and gives zeros where nothing depends") {
  const Graph forward =
      parse_graph("graph(%0: f32[2], %1: f32[3], %2: i64[2]) { %3 = sum(%0) {axes=[0]}; %4 = exp(%1); return %4, %3 }");
  const Graph g = differentiate(forward, std::vector<std::int32_t>{1, 0}, 1);
  verify(g);
  REQUIRE(g.inputs().size() == 3);
  REQUIRE(g.outputs().size() == 4);
  CHECK(g.type(g.outputs()[0]).text() == "f32[3]");
  CHECK(g.type(g.outputs()[2]).text() == "f32[3]");
  CHECK(g.type(g.outputs()[3]).text() == "f32[2]");
  const auto results =
      oracle::evaluate(g, {{DType::f32, {2}, {1, 2}}, {DType::f32, {3}, {1, 2, 3}}, {DType::i64, {2}, {0, 0}}});
  CHECK(results[2].data == std::vector<Number>{0, 0, 0});
  CHECK(results[3].data == std::vector<Number>{1, 1});
}

TEST_CASE("derivatives that nobody wants are not built") {
  const Graph forward = parse_graph(
      "graph(%0: f32[2, 3], %1: f32[3, 4], %2: f32[4]) { %3 = mul(pow(matmul(%0, %1), 2), %2); %4 = sum(%3) {axes=[0, "
      "1]}; return %4 }");
  CHECK(count_nodes(differentiate(forward, std::vector<std::int32_t>{1}), "matmul") == 2);
  CHECK(count_nodes(differentiate(forward, std::vector<std::int32_t>{0, 1}), "matmul") == 3);
  CHECK(count_nodes(differentiate(forward, std::vector<std::int32_t>{2}), "matmul") == 1);
  CHECK(count_nodes(differentiate(forward, std::vector<std::int32_t>{0}), "log") == 0);
}

TEST_CASE("backward treats what it differentiates by as independent") {
  GraphBuilder builder;
  const Val x{&builder, builder.input({DType::f64, {}, {}}), {}};
  const Val y = square(x), z = x * y;
  const Val seed = number(x, 1);
  const Value wrt[] = {x.value, y.value};
  const auto g = backward(builder, {&z.value, 1}, {&seed.value, 1}, wrt);
  const auto results = oracle::evaluate(builder.finish(g), {scalar(3)});
  CHECK(results[0].data[0] == 9);  // y, not 3 x^2
  CHECK(results[1].data[0] == 3);
}

TEST_CASE("integers and stopped values carry no derivative") {
  const auto g = gradients(
      "graph(%0: f64[3]) { %1 = cast(%0) {dtype=i64}; %2 = cast(%1) {dtype=f64}; %3 = floor(%0);"
      " %4 = stop_gradient(%0); %5 = mul(%0, add(%2, add(%3, %4))); %6 = sum(%5) {axes=[0]}; return %6 }",
      {{DType::f64, {3}, {1.5, 2.5, -0.5}}});
  CHECK(g[0].data == std::vector<Number>{1 + 1 + 1.5, 2 + 2 + 2.5, 0 - 1 - 0.5});
}

TEST_CASE("the gradient of cross_entropy is softmax minus one-hot; its one gather checks the targets") {
  const Graph forward = parse_graph("graph(%0: f32[4, 10], %1: i64[4]) { %2 = cross_entropy(%0, %1); return %2 }");
  const Graph g = differentiate(forward, std::vector<std::int32_t>{0});
  CHECK(count_nodes(g, "softmax") == 1);
  CHECK(count_nodes(g, "take") == 1);
  for (const Node& node : g.nodes())
    if (node.op->name == "take") CHECK(node.types[0].text() == "i64[4]");
  CHECK(count_nodes(g, "scatter_add") == 0);
}

TEST_CASE("differentiate says what it cannot do") {
  const Graph vector = parse_graph("graph(%0: f32[2]) { %1 = exp(%0); return %1 }");
  CHECK_THROWS_WITH(differentiate(vector, std::vector<std::int32_t>{0}),
                    "sinter::ShapeError: grad: the function must return a scalar; use sum or mean: it returned f32[2]");
  CHECK_THROWS_AS(differentiate(vector, std::vector<std::int32_t>{0}), ShapeError);
  const Graph integer = parse_graph("graph(%0: i64[2]) { %1 = sum(%0) {axes=[0]}; return %1 }");
  CHECK_THROWS_AS(differentiate(integer, std::vector<std::int32_t>{}), DTypeError);
  const Graph mixed =
      parse_graph("graph(%0: i64[2]) { %1 = cast(%0) {dtype=f32}; %2 = sum(%1) {axes=[0]}; return %2 }");
  CHECK_THROWS_AS(differentiate(mixed, std::vector<std::int32_t>{0}), DTypeError);
}
