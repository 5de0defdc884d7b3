// checkpoint and custom_vjp: values, gradients to second order, forward mode, vmap, compile, what is kept; and errors.
#include "../checks.hpp"
#include "pass_checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
std::string optimised_graph(const jit::Explanation& e) {
  const std::string text = e.text().substr(e.text().find("optimised graph:"));
  return text.substr(0, text.find("plan:"));
}

Tensor weight() { return reshape(vec64({0.3, -0.2, 0.5, 0.7, 0.1, -0.4, 0.2, 0.9, -0.6}), {3, 3}); }
auto block = [](Tensor x, Tensor w) { return tanh(matmul(x, w)) + sin(x); };

/// Clips the gradient on its way back.
auto clipped() {
  return jit::custom_vjp([](Tensor x) { return x * 1; }, [](Tensor, Tensor, Tensor d) { return clamp(d, -1, 1); });
}
/// log(1 + e^x) with a derivative that does not overflow.
auto softplus() {
  return jit::custom_vjp([](Tensor x) { return log(1 + exp(x)); },
                         [](Tensor x, Tensor, Tensor d) { return d * sigmoid(x); });
}

}  // namespace

TEST_CASE("checkpoint: the same values and derivatives") {
  Tensor x = vec64({0.5, -1, 2}), w = weight();
  auto plain = [](Tensor v, Tensor m) { return sum(block(block(v, m), m)); };
  auto saved = [](Tensor v, Tensor m) { return sum(jit::checkpoint(block)(jit::checkpoint(block)(v, m), m)); };
  CHECK(doubles(saved(x, w)) == doubles(plain(x, w)));
  auto [px, pw] = jit::grad<0, 1>(plain)(x, w);
  auto [sx, sw] = jit::grad<0, 1>(saved)(x, w);
  CHECK(near(doubles(sx), doubles(px)));
  CHECK(near(doubles(sw), doubles(pw)));
  auto compiled = jit::compile([=](Tensor v, Tensor m) { return jit::grad<0, 1>(saved)(v, m); });
  auto [cx, cw] = compiled(x, w);
  CHECK(near(doubles(cx), doubles(px)));
  CHECK(near(doubles(cw), doubles(pw)));
  CHECK(near(doubles(jit::hessian(saved)(x, w)), doubles(jit::hessian(plain)(x, w))));
  CHECK(near(doubles(jit::jvp([&](Tensor v) { return saved(v, w); }, x, x).second),
             doubles(jit::jvp([&](Tensor v) { return plain(v, w); }, x, x).second)));
  Tensor batch = reshape(vec64({1, 2, 3, -1, 0, 0.5}), {2, 3});
  CHECK(near(doubles(jit::vmap(jit::grad(saved), {0, jit::no_axis})(batch, w)),
             doubles(jit::vmap(jit::grad(plain), {0, jit::no_axis})(batch, w))));
  auto by_weight = [](const auto& f) {
    return [f](Tensor m, Tensor b) {
      return jit::grad([&](Tensor v) { return sum(jit::vmap(f, {0, jit::no_axis})(b, v)); })(m);
    };
  };
  CHECK(near(doubles(by_weight(saved)(w, batch)), doubles(by_weight(plain)(w, batch))));
}

TEST_CASE("checkpoint: computes again in the backward pass") {
  auto f = [](const auto& inner) {
    return jit::compile([inner](Tensor x) { return jit::grad([&](Tensor v) { return sum(square(inner(v))); })(x); });
  };
  auto inner = [](Tensor v) { return exp(sin(v)); };
  const std::string plain = optimised_graph(f(inner).explain(ones({64}))),
                    again = optimised_graph(f(jit::checkpoint(inner)).explain(ones({64})));
  CHECK(count(plain, "= sin(") == 1);
  CHECK(count(again, "= sin(") == 2);
  CHECK(count(again, "barrier(") == 1);
  CHECK_FALSE(has(again, "custom_derivative"));
  // No derivative, nothing computed twice.
  auto forward = jit::compile([inner](Tensor x) { return jit::checkpoint(inner)(x); });
  CHECK(count(optimised_graph(forward.explain(ones({64}))), "= sin(") == 1);
  CHECK_FALSE(has(optimised_graph(forward.explain(ones({64}))), "barrier("));
}

TEST_CASE("checkpoint: less memory, as stats() says") {
  auto deep = [](const auto& inner) {
    return jit::compile([inner](Tensor x, Tensor w) {
      return jit::grad<1>([&](Tensor v, Tensor m) {
        for (int i = 0; i < 6; ++i) v = inner(v, m);
        return mean(v * v);
      })(x, w);
    });
  };
  auto wide = [](Tensor v, Tensor m) {
    return Tensor(gelu(layer_norm(matmul(v, m), {32}, ones({32}), zeros({32}))) + v);
  };
  auto plain = deep(wide);
  auto saved = deep(jit::checkpoint(wide));
  Tensor x = ones({64, 32}) * 0.1, w = full({32, 32}, 0.02f);
  Tensor a = plain(x, w), b = saved(x, w);
  for (std::size_t i = 0; i < 4; ++i) CHECK(floats(a)[i] == Approx(floats(b)[i]).margin(1e-5));
  INFO("plain " << plain.stats().peak_bytes << ", checkpoint " << saved.stats().peak_bytes);
  CHECK(saved.stats().peak_bytes > 0);
  CHECK(saved.stats().peak_bytes < plain.stats().peak_bytes * 4 / 5);
}

TEST_CASE("checkpoint: captured values, several results, random numbers, structs, changing extents") {
  Variable w(vec({2, 3}));
  auto f = [&](Tensor x) { return jit::checkpoint([&](Tensor v) { return std::pair{Tensor(v * w * w), sum(v)}; })(x); };
  Tensor loss_gradient = jit::grad([&](const Variable& v) {
    static_cast<void>(v);
    auto [a, b] = f(vec({1, 10}));
    return sum(a) * b;
  })(w);
  CHECK(floats(loss_gradient) == std::vector<float>{4 * 11, 60 * 11});
  manual_seed(5);
  Tensor noise = rand({3});
  manual_seed(5);
  CHECK(floats(jit::grad([](Tensor x) { return sum(jit::checkpoint([](Tensor v) { return v * rand({3}); })(x)); })(
            ones({3}))) == floats(noise));
  struct State {
    Tensor value, index;
  };
  State g = jit::grad([](const State& s) {
    return sum(jit::checkpoint([](const State& t) { return take(exp(t.value), t.index); })(s));
  })(State{zeros({3}), tensor({0, 0, 2})});
  CHECK(floats(g.value) == std::vector<float>{2, 0, 1});
  auto compiled = jit::compile([](Tensor x) {
    return jit::grad([](Tensor v) { return sum(jit::checkpoint([](Tensor u) { return softmax(u * u, 0); })(v) * v); })(
        x);
  });
  for (int n : {3, 4, 6}) {
    Tensor x = cast(arange(n), DType::f64) * 0.2;
    CHECK(near(doubles(compiled(x)), doubles(jit::grad([](Tensor v) { return sum(softmax(v * v, 0) * v); })(x)), 1e-6));
  }
  CHECK(compiled.stats().compiles == 2);
}

TEST_CASE("custom_vjp: the given derivative is taken") {
  Tensor x = vec64({-2, 0.5, 1});
  CHECK(near(doubles(jit::grad([](Tensor v) { return sum(clipped()(v) * vec64({5, 0.5, -7})); })(x)), {1, 0.5, -1}));
  CHECK(near(doubles(clipped()(x)), {-2, 0.5, 1}));
  Tensor large = vec64({800, -800});
  CHECK(near(doubles(jit::grad([](Tensor v) { return sum(softplus()(v)); })(large)), {1, 0}));
  auto second = jit::grad([](Tensor v) { return sum(jit::grad([](Tensor u) { return sum(softplus()(u)); })(v)); });
  const double s = 1 / (1 + std::exp(-0.5));
  CHECK(near(doubles(second(vec64({0.5}))), {s * (1 - s)}));
  CHECK(near(doubles(jit::jvp([](Tensor v) { return softplus()(v); }, x, x).second), doubles(x * sigmoid(x))));
  CHECK(near(doubles(jit::jacobian([](Tensor v) { return softplus()(v); })(large)), {1, 0, 0, 0}));
  auto compiled =
      jit::compile([](Tensor v) { return jit::value_and_grad([](Tensor u) { return sum(softplus()(u)); })(v); });
  CHECK(near(doubles(compiled(x).second), doubles(sigmoid(x))));
  CHECK(near(doubles(jit::vmap(jit::grad([](Tensor v) { return softplus()(v) * 2; }))(x)), doubles(sigmoid(x) * 2)));
}

TEST_CASE("custom_vjp: several arguments and results, numbers, integers") {
  auto f = jit::custom_vjp(
      [](Tensor a, Tensor index, Scalar s) { return std::pair{take(a, index) * s, sum(a)}; },
      [](Tensor a, Tensor index, Scalar s, const std::pair<Tensor, Tensor>&, const std::pair<Tensor, Tensor>& d) {
        return std::tuple{Tensor(a * 0 + 100 * s), index, sum(d.first) + d.second};  // gradients of its own invention
      });
  Tensor a = vec({1, 2, 3}), index = tensor({2, 0});
  auto loss = [&](Tensor v, Scalar s) {
    auto [p, q] = f(v, index, s);
    return sum(p) * 3 + q;
  };
  CHECK(floats(std::get<0>(f(a, index, 2.0))) == std::vector<float>{6, 2});
  auto [ga, gs] = jit::grad<0, 1>(loss)(a, 2.0);
  CHECK(floats(ga) == std::vector<float>{200, 200, 200});
  CHECK(item<float>(cast(Tensor(gs), DType::f32)) == 7);  // 3 + 3 + 1
  // The argument is the same for all examples: its gradients add up.
  Tensor both = jit::grad([&](Tensor v) {
    return sum(jit::vmap([&](Tensor row) { return softplus()(v) * row; })(reshape(vec({1, 2, 3, 4, 5, 6}), {2, 3})));
  })(zeros({3}));
  CHECK(floats(both) == std::vector<float>{2.5f, 3.5f, 4.5f});
}

TEST_CASE("drop_derivatives: after it only the values are left") {
  using namespace sinter_test;
  GraphBuilder body_builder;
  const Type type{DType::f32, Device::cpu(), {4}};
  const Value x = body_builder.input(type);
  static_cast<void>(body_builder.input(type));
  static_cast<void>(body_builder.input(type));
  auto body = std::make_shared<const Graph>(body_builder.finish({&x, 1}));
  GraphBuilder builder;
  const Value a = builder.input(type), e = builder.add(op_info<ops::Exp>, {a});
  Attrs attrs;
  attrs.set(ops::CustomDerivative::results, 1);
  attrs.set(ops::CustomDerivative::parameters, 1);
  attrs.set(ops::CustomDerivative::differentiated, {0});
  attrs.bodies.push_back(body);
  const Value custom = builder.add(op_info<ops::CustomDerivative>, {e, a}, attrs);
  const Value out = builder.add(op_info<ops::Neg>, {custom});
  const Graph graph = builder.finish({&out, 1});
  CHECK_NOTHROW(verify(graph));
  CHECK(structurally_equal(parse_graph(graph.text()), graph));
  check_equal(DropDerivatives{}(graph), parse_graph("graph(%0: f32[4]) { return neg(exp(%0)) }"));
  expect_unchanged(DropDerivatives{}, "%0: f32[4]", "neg(stop_gradient(%0))");
}

TEST_CASE("checkpoint: second derivatives of many layers are those without it") {
  const auto block = [](Tensor x, Tensor w) { return tanh(x * w) + x; };
  const auto deep = [&](bool keeps, Tensor w, Tensor x) {
    for (int layer = 0; layer < 4; ++layer) x = keeps ? Tensor(block(x, w)) : jit::checkpoint(block)(x, w);
    return sum(square(x));
  };
  const auto second = [&](bool keeps) {
    return [&deep, keeps](Tensor w, Tensor x) {
      const auto slopes = [&](Tensor v, Tensor u) {
        auto [by_v, by_u] = jit::grad<0, 1>([&](Tensor p, Tensor q) { return deep(keeps, p, q); })(v, u);
        return sum(by_v * tensor({1.0, -2.0})) + sum(by_u * tensor({0.5, 3.0}));
      };
      return jit::grad<0, 1>(slopes)(w, x);
    };
  };
  const Tensor w = vec64({0.5, -0.75}), x = vec64({0.25, 1.5});
  const auto [by_w, by_x] = second(true)(w, x);
  const auto check = [&](const auto& found) {
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(doubles(std::get<0>(found))[i] == Approx(doubles(by_w)[i]));
      CHECK(doubles(std::get<1>(found))[i] == Approx(doubles(by_x)[i]));
    }
  };
  check(second(false)(w, x));
  check(jit::compile(second(false))(w, x));
}

TEST_CASE("checkpoint and custom_vjp: errors name the user's line") {
  Tensor x = vec64({1, 2});
  std::string text = message_of<ShapeError>(
      [&] { jit::custom_vjp([](Tensor v) { return v * 2; }, [](Tensor, Tensor, Tensor d) { return sum(d); })(x); });
  CHECK(has(text, "custom_vjp: gradient 0 is f64[], it must have the shape of f64[2] [transforms_custom_test.cpp:"));
  text = message_of<UserError>([&] {
    jit::custom_vjp([](Tensor a, Tensor b) { return a * b; }, [](Tensor, Tensor, Tensor, Tensor d) { return d; })(x, x);
  });
  CHECK(has(text, "custom_vjp: the backward function gave 1 floating gradients for 2 floating arguments"));
  text = message_of<UserError>([&] {
    jit::grad([](Tensor v) {
      return sum(jit::custom_vjp([&](Tensor a) { return a * v; }, [](Tensor, Tensor, Tensor d) { return d; })(v));
    })(x);
  });
  CHECK(has(text,
            "custom_vjp: the function captures f64[2], which is being differentiated [transforms_custom_test.cpp:"));
  Variable counter(vec({0}), "counter");
  CHECK(has(message_of<UserError>([&] {
              jit::custom_vjp([](Tensor v) { return v * 1; },
                              [&](Tensor, Tensor, Tensor d) {
                                counter += 1;
                                return d;
                              })(x);
            }),
            "the backward function assigns Variable 'counter'"));
  CHECK_FALSE(jit::is_compiling());
}
