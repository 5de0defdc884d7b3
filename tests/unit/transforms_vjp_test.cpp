// vjp, jvp, jacobian and hessian: against finite differences in f64, inside compile and with each other, with structs,
// several results and symbolic extents; and their errors.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <functional>

using namespace sinter;

namespace {

Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }

/// Near enough for central differences.
bool is_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-6) {
  return near(a, b, tolerance);
}

/// The matrix of derivatives by central differences, one row for each element of the result.
template <class F>
std::vector<double> differences(const F& f, const Tensor& x, double step = 1e-5) {
  const std::vector<double> at = doubles(x);
  const std::size_t rows = doubles(f(x)).size();
  std::vector<double> matrix(rows * at.size());
  for (std::size_t j = 0; j < at.size(); ++j) {
    auto moved = [&](double by) {
      std::vector<double> values = at;
      values[j] += by;
      return doubles(f(reshape(copy_of(values), x.shape())));
    };
    const std::vector<double> above = moved(step), below = moved(-step);
    for (std::size_t i = 0; i < rows; ++i) matrix[i * at.size() + j] = (above[i] - below[i]) / (2 * step);
  }
  return matrix;
}

Tensor weight() { return reshape(vec64({0.3, -0.2, 0.5, 0.7, 0.1, -0.4}), {3, 2}); }
auto layer = [](Tensor x) { return Tensor(tanh(matmul(x, weight())) * 2); };
auto energy = [](Tensor x) { return sum(exp(sin(x)) * x) + prod(x) * 0.1; };

struct Model {
  Tensor weight, bias;
  int units = 0;
};
struct Outcome {
  Tensor value, logits;
};

}  // namespace

TEST_CASE("vjp: the pullback multiplies by the matrix of derivatives") {
  Tensor x = vec64({0.5, -1, 2});
  auto [y, pullback] = jit::vjp(layer, x);
  CHECK(is_close(doubles(y), doubles(layer(x))));
  const std::vector<double> matrix = differences(layer, x);  // [2, 3]
  CHECK(is_close(doubles(pullback(vec64({1, 0}))), {matrix[0], matrix[1], matrix[2]}));
  CHECK(is_close(doubles(pullback(vec64({0, 1}))), {matrix[3], matrix[4], matrix[5]}));
  CHECK(is_close(doubles(pullback(y * 0 + 1)), {matrix[0] + matrix[3], matrix[1] + matrix[4], matrix[2] + matrix[5]}));
  auto [z, scalar_pullback] = jit::vjp([](Tensor t) { return sum(t * t); }, x);
  CHECK(is_close(doubles(scalar_pullback(1)), {1, -2, 4}));  // a number for a scalar result
  CHECK(item<double>(z) == 5.25);
}

TEST_CASE("vjp: several arguments and results, structs") {
  auto f = [](const Model& m, Tensor x) {
    Tensor logits = matmul(x, m.weight) + m.bias;
    return Outcome{sum(square(logits)) * m.units, logits};
  };
  Model m{weight(), vec64({1, 2}), 3};
  Tensor x = reshape(vec64({1, 2, 3}), {1, 3});
  auto [out, pullback] = jit::vjp(f, m, x);
  auto [dm, dx] = pullback(Outcome{ones({}, {.dtype = DType::f64}), zeros({1, 2}, {.dtype = DType::f64})});
  auto loss = [&](const Model& p, Tensor t) { return f(p, t).value; };
  auto [gm, gx] = jit::grad<0, 1>(loss)(m, x);
  CHECK(dm.units == 3);
  CHECK(is_close(doubles(dm.weight), doubles(gm.weight)));
  CHECK(is_close(doubles(dm.bias), doubles(gm.bias)));
  CHECK(is_close(doubles(dx), doubles(gx)));
  // The other result.
  auto [dm2, dx2] = pullback(Outcome{zeros({}, {.dtype = DType::f64}), ones({1, 2}, {.dtype = DType::f64})});
  CHECK(is_close(doubles(dm2.bias), {1, 1}));
  CHECK(is_close(doubles(dx2), {0.1, 1.2, -0.3}));
}

TEST_CASE("vjp: Variables come as Grads, integers are passed over") {
  struct Net {
    Variable w;
  } net{Variable(vec64({2, 3}), "w")};
  auto [y, pullback] =
      jit::vjp([](const Net& n, Tensor index) { return take(n.w * n.w, index); }, net, tensor({1, 1, 0}));
  auto [g, index] = pullback(vec64({1, 10, 100}));
  CHECK(is_close(doubles(g[net.w]), {400, 66}));
  CHECK(index.dtype() == DType::i32);
  CHECK(is_close(doubles(y), {9, 9, 4}));
}

TEST_CASE("jvp: against differences along a direction") {
  Tensor x = vec64({0.5, -1, 2}), t = vec64({1, 0.5, -2});
  const std::vector<double> matrix = differences(layer, x);
  auto [y, dy] = jit::jvp(layer, x, t);
  CHECK(is_close(doubles(y), doubles(layer(x))));
  CHECK(is_close(doubles(dy),
                 {matrix[0] + 0.5 * matrix[1] - 2 * matrix[2], matrix[3] + 0.5 * matrix[4] - 2 * matrix[5]}));
  // Several arguments, a Scalar among them, and a number for its tangent.
  auto f = [](Tensor a, Scalar s) { return std::pair{Tensor(a * s * s), sum(a)}; };
  auto [value, tangent] = jit::jvp(f, std::tuple{x, 3.0}, std::tuple{t, 1.0});
  CHECK(is_close(doubles(tangent.first), {9 + 6 * 0.5, 4.5 - 6, -18 + 12}));
  CHECK(is_close(doubles(tangent.second), {-0.5}));
  CHECK(is_close(doubles(value.second), {1.5}));
}

TEST_CASE("jvp: what does not depend has a derivative of zero") {
  auto [y, dy] =
      jit::jvp([](Tensor x) { return std::tuple{Tensor(stop_gradient(x) * 2), Tensor(x > 0), Tensor(floor(x))}; },
               vec64({1, -2}), vec64({1, 1}));
  CHECK(is_close(doubles(std::get<0>(dy)), {0, 0}));
  CHECK(std::get<1>(dy).dtype() == DType::bool_);
  CHECK(is_close(doubles(std::get<2>(dy)), {0, 0}));
}

TEST_CASE("jvp: many kinds of operations") {
  const std::pair<const char*, std::function<Tensor(Tensor)>> functions[] = {
      {"softmax", [](Tensor x) { return softmax(reshape(x, {2, 3}), 1); }},
      {"log_softmax", [](Tensor x) { return log_softmax(reshape(x, {2, 3}), 0); }},
      {"layer_norm", [](Tensor x) { return layer_norm(reshape(x, {2, 3}), {3}, vec64({1, 2, 3}), vec64({0, 1, 2})); }},
      {"amax", [](Tensor x) { return amax(reshape(x, {2, 3}), 1); }},
      {"prod", [](Tensor x) { return prod(reshape(x, {2, 3}), 0); }},
      {"var", [](Tensor x) { return var(reshape(x, {2, 3}), 1); }},
      {"where", [](Tensor x) { return where(x > 0, x * x, exp(x)); }},
      {"take", [](Tensor x) { return take(x, tensor({0, 0, 4})) * 2; }},
      {"concat and slice", [](Tensor x) { return concat({x(slice(1, 4)), Tensor(x * x)}, 0); }},
      {"update",
       [](Tensor x) {
         Tensor u = x * 3;
         u.at(slice(0, 2)) = x(slice(3, 5)) * x(slice(2, 4));
         return u;
       }},
      {"matmul", [](Tensor x) { return matmul(reshape(x, {2, 3}), reshape(x, {3, 2})); }},
      {"conv2d", [](Tensor x) { return conv2d(reshape(x, {1, 1, 2, 3}), reshape(x, {1, 1, 2, 3}), {.padding = 1}); }},
      {"max_pool2d", [](Tensor x) { return max_pool2d(reshape(x, {1, 1, 2, 3}), 2, 1); }},
      {"gelu, silu", [](Tensor x) { return gelu(x) + silu(x) * sigmoid(x); }},
      {"cross_entropy", [](Tensor x) { return cross_entropy(reshape(x, {2, 3}), tensor({2, 0})); }},
      {"attention",
       [](Tensor x) {
         Tensor q = reshape(x, {1, 1, 3, 2});
         return scaled_dot_product_attention(q, q * 2, q * q, {.causal = true});
       }},
      {"pow, maximum", [](Tensor x) { return maximum(pow(abs(x) + 1, x), x * x); }},
  };
  const Tensor x = vec64({0.3, -0.7, 1.1, 0.9, -1.3, 0.4});
  const std::vector<double> t{1, -0.5, 0.25, 2, 0.7, -1};
  for (const auto& [name, f] : functions) {
    INFO(name);
    const std::vector<double> matrix = differences(f, x);
    std::vector<double> wanted(matrix.size() / 6, 0);
    for (std::size_t i = 0; i < matrix.size(); ++i) wanted[i / 6] += matrix[i] * t[i % 6];
    CHECK(is_close(doubles(jit::jvp(f, x, copy_of(t)).second), wanted, 1e-5));
    CHECK(is_close(doubles(jit::jacobian(f)(x)), matrix, 1e-5));
  }
}

TEST_CASE("jacobian: by rows and by columns, the same matrix") {
  Tensor x = vec64({0.5, -1, 2});
  auto wide = [](Tensor t) { return concat({Tensor(t * t), Tensor(sin(t)), Tensor(t * sum(t))}, 0); };
  Tensor tall = jit::jacobian(wide)(x), flat = jit::jacobian(layer)(x);
  CHECK(tall.shape() == Shape{9, 3});
  CHECK(is_close(doubles(tall), differences(wide, x)));
  CHECK(flat.shape() == Shape{2, 3});
  CHECK(is_close(doubles(flat), differences(layer, x)));
  CHECK(jit::jacobian([](Tensor t) { return reshape(t, {1, 3}); })(x).shape() == Shape{1, 3, 3});
  auto [ja, jb] = jit::jacobian<0, 1>([](Tensor a, Tensor b) { return a * sum(b); })(x, vec64({1, 2}));
  CHECK(ja.shape() == Shape{3, 3});
  CHECK(is_close(doubles(jb), {0.5, 0.5, -1, -1, 2, 2}));
  // A result that does not depend on the parameter.
  CHECK(is_close(doubles(jit::jacobian([](Tensor) { return vec64({1, 2}); })(x)), {0, 0, 0, 0, 0, 0}));
}

TEST_CASE("hessian: second derivatives of a function and of a small network") {
  Tensor x = vec64({0.5, -1, 2});
  auto gradient = [](Tensor t) { return jit::grad(energy)(t); };
  CHECK(is_close(doubles(jit::hessian(energy)(x)), differences(gradient, x), 1e-5));
  auto mlp = [](Tensor w, Tensor input) {
    Tensor hidden = tanh(matmul(input, reshape(w, {3, 2})));
    return mean(square(sum(hidden, 1) - 0.3));
  };
  Tensor input = reshape(vec64({1, 2, 3, -1, 0.5, 0.2}), {2, 3}), w = reshape(weight(), {6});
  Tensor h = jit::hessian(mlp)(w, input);
  CHECK(h.shape() == Shape{6, 6});
  CHECK(is_close(doubles(h), differences([&](Tensor v) { return jit::grad(mlp)(v, input); }, w), 1e-5));
  auto compiled = jit::compile([=](Tensor v, Tensor data) { return jit::hessian(mlp)(v, data); });
  for (int i = 0; i < 3; ++i) CHECK(is_close(doubles(compiled(w, input)), doubles(h)));
  CHECK(compiled.stats().compiles == 1);
}

TEST_CASE("derivatives of derivatives, inside and outside compile") {
  Tensor x = vec64({0.5, -1, 2}), t = vec64({1, -1, 0.5});
  auto gradient = [](Tensor v) { return jit::grad(energy)(v); };
  const std::vector<double> h = differences(gradient, x);
  std::vector<double> product(3, 0);
  for (std::size_t i = 0; i < 9; ++i) product[i / 3] += h[i] * doubles(t)[i % 3];
  auto forward_over_reverse = [=](Tensor v, Tensor d) { return jit::jvp(gradient, v, d).second; };
  auto reverse_over_forward = [](Tensor v, Tensor d) {
    return jit::grad([&](Tensor u) { return jit::jvp(energy, u, d).second; })(v);
  };
  auto reverse_over_reverse = [=](Tensor v, Tensor d) { return jit::vjp(gradient, v).second(d); };
  auto forward_over_forward = [](Tensor v, Tensor d) {
    return jit::jvp([&](Tensor u) { return jit::jvp(energy, u, d).second; }, v, d).second;
  };
  CHECK(is_close(doubles(forward_over_reverse(x, t)), product, 1e-5));
  CHECK(is_close(doubles(reverse_over_forward(x, t)), product, 1e-5));
  CHECK(is_close(doubles(reverse_over_reverse(x, t)), product, 1e-5));
  CHECK(is_close(doubles(forward_over_forward(x, t)), {product[0] - product[1] + 0.5 * product[2]}, 1e-5));
  CHECK(is_close(doubles(jit::compile(forward_over_reverse)(x, t)), product, 1e-5));
  CHECK(is_close(doubles(jit::compile(reverse_over_forward)(x, t)), product, 1e-5));
  CHECK(is_close(doubles(jit::compile(reverse_over_reverse)(x, t)), product, 1e-5));
  CHECK(
      is_close(doubles(jit::compile(forward_over_forward)(x, t)), {product[0] - product[1] + 0.5 * product[2]}, 1e-5));
}

TEST_CASE("derivatives with extents that change") {
  auto f = jit::compile([](Tensor x, Tensor t) {
    auto [y, dy] = jit::jvp([](Tensor v) { return softmax(v * v, 0) * mean(v); }, x, t);
    auto [z, pullback] = jit::vjp([](Tensor v) { return Tensor(v * sum(v)); }, x);
    return std::tuple{dy, pullback(t), jit::jacobian([](Tensor v) { return sin(v) * 2; })(x)};
  });
  for (int n : {3, 4, 5, 7}) {
    Tensor x = cast(arange(n), DType::f64) * 0.3 - 0.4, t = ones({n}, {.dtype = DType::f64});
    auto [dy, pulled, jacobian] = f(x, t);
    const auto m = differences([](Tensor v) { return softmax(v * v, 0) * mean(v); }, x);
    std::vector<double> wanted(static_cast<std::size_t>(n), 0);
    for (std::size_t i = 0; i < m.size(); ++i) wanted[i / static_cast<std::size_t>(n)] += m[i];
    CHECK(is_close(doubles(dy), wanted, 1e-5));
    CHECK(is_close(doubles(pulled), doubles(t * sum(x) * 2)));  // sum(x) t + sum(x t)
    CHECK(is_close(doubles(jacobian), differences([](Tensor v) { return sin(v) * 2; }, x), 1e-5));
  }
  CHECK(f.stats().compiles == 2);
}

TEST_CASE("nothing of the reverse pass stays after jvp") {
  auto f =
      jit::compile([](Tensor x, Tensor t) { return jit::jvp([](Tensor v) { return exp(v) * sin(v); }, x, t).second; });
  const std::string text = f.explain(ones({8}), ones({8})).text();
  const std::string optimised = text.substr(text.find("optimised graph:"));
  CHECK_FALSE(has(optimised.substr(0, optimised.find("plan:")), "full"));
  f(ones({8}), ones({8}));
  CHECK(f.stats().kernels == 1);
}

TEST_CASE("value_and_grad: what follows the loss is passed through") {
  auto [value, g] = jit::value_and_grad([](Tensor x) { return std::pair{sum(x * x), Tensor(x + 1)}; })(vec64({1, 2}));
  CHECK(item<double>(value.first) == 5);
  CHECK(is_close(doubles(value.second), {2, 3}));
  CHECK(is_close(doubles(g), {2, 4}));
  CHECK(is_close(doubles(jit::grad([](Tensor x) { return std::tuple{sum(x), x, 3}; })(vec64({1, 2}))), {1, 1}));
}

TEST_CASE("derivatives: errors name the user's line") {
  Tensor x = vec64({1, 2, 3});
  auto parts = jit::vjp([](Tensor v) { return std::vector<Tensor>{v, v * 2}; }, x).second;
  CHECK(has(message_of<UserError>([&] { parts({vec64({1, 2})}); }), "vjp: 1 gradients for 2 results"));
  CHECK(has(message_of<UserError>([&] { parts({}); }), "vjp: 0 gradients for 2 results"));
  CHECK(has(message_of<UserError>([&] { parts({vec64({1, 2}), vec64({1, 2}), vec64({1, 2})}); }),
            "give each result a gradient of its shape"));
  std::string text = message_of<ShapeError>([&] { jit::vjp(layer, x).second(vec64({1, 2, 3})); });
  CHECK(has(text, "vjp: the gradient is f64[3], it must have the shape of f64[2] [transforms_vjp_test.cpp:"));
  text = message_of<ShapeError>([&] { jit::jvp(layer, x, vec64({1, 2})); });
  CHECK(has(text, "jvp: tangent 0 is f64[2], it must have the shape of f64[3] [transforms_vjp_test.cpp:"));
  CHECK(has(message_of<DTypeError>([&] { jit::vjp(layer, x).second(tensor({1, 2})); }),
            "the gradient is i32[2], it must be floating as f64[2] is"));
  CHECK(has(message_of<DTypeError>([] { jit::grad([](Tensor t) { return sum(t); })(tensor({1, 2})); }),
            "grad: the parameters hold nothing floating to differentiate by [transforms_vjp_test.cpp:"));
  CHECK_THROWS_AS(jit::jacobian([](Tensor t) { return t > 0; })(x), DTypeError);
  CHECK(has(message_of<ShapeError>([] { jit::jacobian([](Tensor t) { return t * 2; })(ones({1, 1, 1, 1, 2})); }),
            "together more than 8 axes"));
  CHECK_THROWS_AS(jit::jvp(layer, x, tensor({1, 2, 3})), UserError);
  // A pullback belongs to the trace it was made in.
  std::function<Tensor(Tensor)> kept;
  auto f = jit::compile([&](Tensor v) {
    auto [y, pullback] = jit::vjp([](Tensor u) { return exp(u); }, v);
    kept = [pullback](Tensor d) { return pullback(d); };
    return y;
  });
  f(x);
  CHECK_THROWS_AS(kept(x), TraceError);
}
