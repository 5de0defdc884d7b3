// grad and value_and_grad as functions of functions: parameters of any kind, inside and outside compile, on themselves,
// with random numbers and assignments inside.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }
Tensor vec64(std::initializer_list<double> values) { return copy_of(std::vector<double>(values)); }

struct Layer {
  Tensor weight, bias;
  int units = 0;
};
struct Net {
  Variable weight{tensor({2.f, 3.f}), "weight"}, bias{tensor({1.f}), "bias"};
  Tensor operator()(const Tensor& x) const { return x * weight + bias; }
};

}  // namespace

TEST_CASE("grad: a function of one tensor") {
  auto f = [](Tensor x) { return sum(x * x * x); };
  CHECK(floats(jit::grad(f)(vec({1, 2, -3}))) == std::vector<float>{3, 12, 27});
  auto [value, gradient] = jit::value_and_grad(f)(vec({1, 2}));
  CHECK(item<float>(value) == 9);
  CHECK(floats(gradient) == std::vector<float>{3, 12});
  CHECK(gradient.shape() == Shape{2});
  CHECK(jit::grad(f)(vec64({1})).dtype() == DType::f64);
  CHECK(floats(jit::grad(f)(vec({1}) + 1)) == std::vector<float>{12});  // an expression as the parameter
  CHECK(floats(jit::grad([](auto x) { return sum(exp(x)); })(vec({0}))) == std::vector<float>{1});
}

TEST_CASE("grad: several parameters, by position") {
  auto f = [](Tensor x, Tensor y, Tensor z) { return sum(x * y + z * z * x); };
  Tensor x = vec({2}), y = vec({3}), z = vec({5});
  auto [gy, gz] = jit::grad<1, 2>(f)(x, y, z);
  CHECK(floats(gy) == std::vector<float>{2});
  CHECK(floats(gz) == std::vector<float>{20});
  CHECK(floats(jit::grad<0>(f)(x, y, z)) == std::vector<float>{28});
  auto [value, both] = jit::value_and_grad<2, 0>(f)(x, y, z);
  CHECK(item<float>(value) == 56);
  CHECK(floats(std::get<0>(both)) == std::vector<float>{20});
  CHECK(floats(std::get<1>(both)) == std::vector<float>{28});
}

TEST_CASE("grad: by numbers") {
  auto f = [](Scalar s, Tensor x) { return sum(x * s * s); };
  Scalar g = jit::grad(f)(3.0, vec({1, 2}));
  CHECK(Tensor(g).rank() == 0);
  CHECK(item<double>(Tensor(g)) == Approx(18));
  auto compiled = jit::compile([&](Scalar s, Tensor x) { return Tensor(jit::grad(f)(s, x)); });
  for (double s : {1.0, 2.0, -4.0}) CHECK(item<double>(compiled(s, vec({1, 2}))) == Approx(6 * s));
  CHECK(compiled.stats().compiles == 1);
}

TEST_CASE("grad: structs and tuples keep their type") {
  auto loss = [](const Layer& l, Tensor x) { return sum(square(matmul(x, l.weight) + l.bias)) * l.units; };
  Layer layer{full({2, 1}, 0.5f), vec({1}), 3};
  Tensor x = reshape(vec({1, 2, 3, 4}), {2, 2});
  Layer g = jit::grad(loss)(layer, x);  // y = 2.5, 4.5
  CHECK(g.units == 3);
  CHECK(floats(g.weight) == std::vector<float>{3 * 2 * (2.5f * 1 + 4.5f * 3), 3 * 2 * (2.5f * 2 + 4.5f * 4)});
  CHECK(floats(g.bias) == std::vector<float>{3 * 2 * 7});
  using Pair = std::tuple<Tensor, std::vector<Tensor>>;
  Pair p = jit::grad([](const Pair& q) { return sum(std::get<0>(q) * std::get<1>(q)[0] + std::get<1>(q)[1]); })(
      Pair{vec({2}), {vec({3}), vec({4})}});
  CHECK(floats(std::get<0>(p)) == std::vector<float>{3});
  CHECK(floats(std::get<1>(p)[0]) == std::vector<float>{2});
  CHECK(floats(std::get<1>(p)[1]) == std::vector<float>{1});
  // Integer tensors pass through.
  struct Mixed {
    Tensor value, index;
  };
  Mixed m =
      jit::grad([](const Mixed& q) { return sum(take(q.value, q.index)); })(Mixed{vec({1, 2, 3}), tensor({0, 0, 2})});
  CHECK(floats(m.value) == std::vector<float>{2, 0, 1});
  CHECK(m.index.dtype() == DType::i32);
}

TEST_CASE("grad: by Variables") {
  Net net;
  auto loss = [](const Net& n, Tensor x) { return sum(n(x)); };
  auto [value, g] = jit::value_and_grad(loss)(net, vec({10, 20}));
  CHECK(item<float>(value) == 82);
  CHECK(floats(g[net.weight]) == std::vector<float>{10, 20});
  CHECK(floats(g[net.bias]) == std::vector<float>{2});
  CHECK(g.size() == 2);
  Variable stranger(vec({1}), "stranger");
  std::string text = message_of<UserError>([&, grads = g] { grads[stranger]; });
  CHECK(has(text, "no gradient by this variable 'stranger'"));
  Variable w(vec({3}));
  CHECK(floats(jit::grad([](const Variable& v) { return sum(v * v); })(w)) == std::vector<float>{6});
  // A Variable that is only captured is a constant.
  CHECK(floats(jit::grad([&](Tensor x) { return sum(x * w); })(vec({1}))) == std::vector<float>{3});
}

TEST_CASE("grad: what is not reached has gradient zero") {
  auto [gx, gy] = jit::grad<0, 1>([](Tensor x, Tensor y) {
    static_cast<void>(y);
    return sum(x);
  })(vec({1, 2}), vec({3, 4, 5}));
  CHECK(floats(gx) == std::vector<float>{1, 1});
  CHECK(floats(gy) == std::vector<float>{0, 0, 0});
  CHECK(floats(jit::grad([](Tensor x) { return sum(stop_gradient(x) * x); })(vec({3}))) == std::vector<float>{3});
  CHECK(floats(jit::grad([](Tensor x) { return sum(where(x > 0, x * 2, 0)); })(vec({1, -1}))) ==
        std::vector<float>{2, 0});
  CHECK(floats(jit::grad([](Tensor) { return full({}, 1.f); })(vec({1}))) == std::vector<float>{0});
}

TEST_CASE("grad: second and third derivatives") {
  auto f = [](Tensor x) { return sum(x * x * x * x); };
  auto first = [f](Tensor x) { return sum(jit::grad(f)(x)); };
  auto second = [first](Tensor x) { return sum(jit::grad(first)(x)); };
  Tensor x = vec64({1, 2});
  CHECK(to_vector<double>(jit::grad(first)(x)) == std::vector<double>{12, 48});
  CHECK(to_vector<double>(jit::grad(second)(x)) == std::vector<double>{24, 48});
  auto compiled = jit::compile([=](Tensor t) { return std::pair{jit::grad(first)(t), jit::grad(second)(t)}; });
  for (int i = 0; i < 3; ++i) {
    auto [a, b] = compiled(x + i);
    CHECK(to_vector<double>(a)[0] == Approx(12.0 * (1 + i) * (1 + i)));
    CHECK(to_vector<double>(b)[1] == Approx(24.0 * (2 + i)));
  }
  CHECK(compiled.stats().compiles == 1);
  auto tanh_second =
      jit::grad([](Tensor t) { return sum(jit::grad([](Tensor u) { return sum(tanh(u)); })(t)); })(vec64({0.5}));
  double t = std::tanh(0.5);
  CHECK(item<double>(tanh_second) == Approx(-2 * t * (1 - t * t)));
}

TEST_CASE("grad: mixed derivatives across nesting levels") {
  // d/dy of (d/dx x^2 y) at y: the inner parameter must not hide the outer one.
  auto outer = jit::grad([](Tensor y) {
    Tensor inner = jit::grad([&](Tensor x) { return sum(x * x * y); })(y * 3);
    return sum(inner);  // 2 * 3y * y = 6 y^2
  });
  CHECK(floats(outer(vec({2}))) == std::vector<float>{24});
}

TEST_CASE("grad: inside compile, sizes that change") {
  auto step = jit::compile([](Tensor w, Tensor x, Tensor y) {
    auto [loss, g] = jit::value_and_grad([&](Tensor v) { return mse_loss(matmul(x, v), y); })(w);
    return std::pair{loss, w - 0.1 * g};
  });
  for (int n : {4, 6, 8, 10}) {
    Tensor x = ones({n, 2}), w = vec({1, 1});
    auto [loss, next] = step(w, x, zeros({n}));
    CHECK(item<float>(loss) == Approx(4));
    CHECK(floats(next)[0] == Approx(1 - 0.1 * 4));
  }
  CHECK(step.stats().compiles == 2);
}

TEST_CASE("grad: around a compiled function") {
  auto f = jit::compile([](Tensor x, Scalar s) { return sum(sigmoid(x * s)); });
  Tensor g = jit::grad([&](Tensor x) { return f(x, 2.0); })(vec64({0}));
  CHECK(item<double>(g) == Approx(0.5));
  CHECK(f.stats().compiles == 0);
}

TEST_CASE("grad: random numbers inside") {
  manual_seed(3);
  std::vector<float> noise = floats(randn({4}));
  manual_seed(3);
  auto [value, g] = jit::value_and_grad([](Tensor x) { return sum(x * randn({4})); })(ones({4}));
  CHECK(floats(g) == noise);  // the gradient sees the numbers of the value
  std::vector<float> next = floats(randn({4}));
  manual_seed(3);
  randn({4});
  CHECK(floats(randn({4})) == next);  // and the counter went on by one
  manual_seed(5);
  auto compiled = jit::compile([](Tensor x) { return jit::grad([](Tensor t) { return sum(t * rand({3})); })(x); });
  std::vector<float> first = floats(compiled(ones({3}))), second = floats(compiled(ones({3}))),
                     third = floats(compiled(ones({3})));
  CHECK(first != second);
  CHECK(second != third);
  manual_seed(5);
  CHECK(floats(rand({3})) == first);
  CHECK(floats(rand({3})) == second);
  CHECK(floats(rand({3})) == third);
}

TEST_CASE("grad: the first random number of a thread may be drawn inside a trace") {
  std::vector<float> inside, outside;
  std::int64_t seed = 0;
  std::thread([&] {
    auto f = jit::compile([](Tensor x) { return x + rand({2}); });
    inside = floats(f(zeros({2})));
    outside = floats(rand({2}));
    seed = item<std::int64_t>(Generator::current().key.value());
  }).join();
  std::thread([&] {
    manual_seed(seed);
    CHECK(floats(rand({2})) == inside);
    CHECK(floats(rand({2})) == outside);
  }).join();
}

TEST_CASE("grad: assignments inside the differentiated function") {
  Variable steps(full({}, 0)), average(vec({0, 0}));
  auto loss = [&](Tensor x) {
    steps += 1;
    average = average * 0.5 + x * 0.5;
    return sum(x * x * average);  // d = 2 x avg + x^2 / 2
  };
  Tensor g = jit::grad(loss)(vec({1, 2}));
  CHECK(item<float>(steps) == 1);
  CHECK(floats(average) == std::vector<float>{0.5f, 1});
  CHECK(floats(g) == std::vector<float>{2 * 1 * 0.5f + 0.5f, 2 * 2 * 1 + 2});
  auto compiled = jit::compile([&](Tensor x) { return jit::grad(loss)(x); });
  for (int i = 0; i < 3; ++i) compiled(vec({1, 2}));
  CHECK(item<float>(steps) == 4);
  CHECK(floats(average)[0] == Approx(1 - std::pow(0.5, 4)));
  CHECK(compiled.stats().compiles == 1);
}

TEST_CASE("grad: a training step in one function") {
  Variable w(vec({0, 0}), "w"), b(vec({0}), "b");
  struct Model {
    Variable w, b;
  } model{w, b};
  auto step = jit::compile([](const Model& m, Tensor x, Tensor y, Scalar rate) {
    auto [loss, g] = jit::value_and_grad([&](const Model& p) { return mse_loss(matmul(x, p.w) + p.b, y); })(m);
    m.w -= rate * g[m.w];
    m.b -= rate * g[m.b];
    return loss;
  });
  Tensor x = reshape(vec({0, 0, 0, 1, 1, 0, 1, 1}), {4, 2}), y = vec({1, 3, 4, 6});  // y = 3a + 2b + 1
  float loss = 0;
  for (int i = 0; i < 800; ++i) loss = item<float>(step(model, x, y, i < 400 ? 0.3 : 0.1));
  CHECK(loss < 1e-6f);
  CHECK(floats(w)[0] == Approx(3).margin(1e-2));
  CHECK(floats(w)[1] == Approx(2).margin(1e-2));
  CHECK(floats(b)[0] == Approx(1).margin(1e-2));
  CHECK(step.stats().compiles == 1);
}

TEST_CASE("grad: errors") {
  std::string text = message_of<ShapeError>([] { jit::grad([](Tensor x) { return x * 2; })(ones({3})); });
  CHECK(has(text, "grad: the function returned f32[3]; a floating scalar is required [transforms_test.cpp:"));
  CHECK(has(text, "use sum or mean of it"));
  CHECK_THROWS_AS(jit::grad([](Tensor x) { return sum(x > 0); })(ones({3})), ShapeError);
  CHECK(item<float>(jit::grad([](Tensor x) { return x * item<float>(x); })(full({}, 2.f))) ==
        2.f);  // what was read is a constant
  CHECK_FALSE(jit::is_compiling());
  Tensor leaked;
  jit::grad([&](Tensor x) {
    leaked = x * 2;
    return sum(x);
  })(ones({2}));
  CHECK_THROWS_AS(eval(leaked), TraceError);
  Variable w(vec({1}));
  CHECK_THROWS_AS(jit::grad([&](Tensor x) {
                    w += 1;
                    return sum(matmul(x, x));
                  })(ones({2, 3})),
                  ShapeError);
  CHECK(floats(w) == std::vector<float>{1});  // a failed function assigns nothing
}
