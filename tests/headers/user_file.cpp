// A user's file that touches what the reference names: it must compile without a warning under strict flags, as C++20
// and C++23, and work when it is compiled without RTTI. Includes Sinter first, so that nothing is lent to its headers.
#include <sinter/sinter.hpp>

#if defined(__STDCPP_FLOAT16_T__) && defined(__STDCPP_BFLOAT16_T__)  // C++23 with GCC 13
#define USER_HAS_STANDARD_HALVES
#include <stdfloat>
#endif

#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

struct Layer {
  Tensor w, b;
  Tensor operator()(const Tensor& x) const { return relu(matmul(x, w) + b); }
};

class Model {
 public:
  Model() = default;
  SINTER_FIELDS(layers_, scale_, names_)
  Tensor operator()(Tensor x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x * scale_;
  }

 private:
  std::vector<Layer> layers_{{eye(3), zeros({3})}, {eye(3), ones({3})}};
  Scalar scale_ = 2;
  std::map<std::string, Tensor> names_;
};

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void expressions() {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  Tensor y = x;
  y += 1;
  y *= x - 0.5;
  y.at(0, slice(0, 1)) = 7;
  y = where(x > 2, sqrt(abs(y)), -x) + pow(x, 2) % 3 + clamp(x, 0, 3) + cast(x > 1, DType::f32);
  y = softmax(y, 1) + layer_norm(x, {2}, ones({2}), zeros({2})) + concat({x, x}, 0)(slice(0, 2), all) + roll(x, 1, 0);
  auto [left, right] = split<2>(x, 1);
  auto image = conv2d(ones({1, 2, 4, 4}), ones({3, 2, 3, 3}), {.padding = 1});
  Tensor picked = x(tensor({1, 0}), -1) + take(x, tensor({0}))(0, all);
  expect(item<int>(sum(picked)) == 9, "indexing");
  expect(to_vector<double>(sum(left, 0, keepdim) + right(0, all)).size() == 1 && image.rank() == 4, "parts");
  expect(mean(y).dtype() == DType::f32 && arange(0, 4, 2).numel() == 2 && y.size(-1) == 2, "facts");
  manual_seed(1);
  expect(item<bool>(all(rand({8}) < 1)), "random numbers");
  std::ostringstream text;
  text << x << Shape{2, 3};
  expect(!text.str().empty(), "text");
}

void memory_of_others() {
  std::vector<float> numbers{1, 2, 3, 4};
  Eigen::MatrixXf matrix = Eigen::MatrixXf::Ones(2, 2);
  std::array<float, 4> place{};
  auto owner = std::make_shared<std::vector<double>>(4, 1.0);
  auto f = jit::compile([](Tensor a, Tensor b) { return a * 2 + b; });
  f.into(borrow_mut(place.data(), {2, 2}))(borrow(numbers, {2, 2}), matrix);
  f.into(matrix)(copy_of(numbers, {2, 2}), from_blob(owner, owner->data(), {2, 2}, DType::f64).to(DType::f32));
  Tensor taken = adopt(std::move(numbers), {2, 2});
  copy_to(borrow_mut(place.data(), {2, 2}), taken);
  expect(to_eigen<Eigen::MatrixXf>(taken)(1, 1) == 4 && matrix(1, 1) == 9 && place[3] == 4, "memory of others");
}

#ifdef USER_HAS_STANDARD_HALVES
template <class Half>
void standard_half(DType dtype) {
  const std::vector<Half> numbers{Half(1.5f), Half(-2.f)};
  const Tensor x = copy_of(numbers, {2});
  expect(x.dtype() == dtype && to_vector<Half>(x * 2)[1] == Half(-4.f), "standard halves, copied");
  std::vector<Half> results(2);
  jit::compile([](Tensor a) { return a + 1; }).into(borrow_mut(results, {2}))(borrow(numbers, {2}));
  expect(results[0] == Half(2.5f) && item<Half>(x(0)) == numbers[0], "standard halves, lent");
}
#endif

void compiled() {
  auto f = jit::compile(
      [](const Model& m, Tensor x, Scalar s, int n) { return std::pair(m(x) * s, std::vector<Tensor>{x * n}); },
      {.fullgraph = true});
  const auto [y, list] = f(Model(), ones({2, 3}), 0.5f, 3);
  expect(item<float>(sum(y)) == 12 && item<float>(sum(list[0])) == 18, "structs");
  jit::Function<Tensor(Tensor)> named = jit::compile([](Tensor x) { return item(sum(x)) > 1 ? x : -x; });
  expect(item<float>(sum(named(ones({4})) + named(-ones({4})))) == 8 && named.stats().calls == 2, "reading values");
  Variable v(ones({2}), "v");
  auto step = jit::compile([v](Tensor x) {
    v -= 0.5 * x;
    return sum(v);
  });
  expect(item<float>(step(ones({2}))) == 1, "variables");
  expect(!f.explain(Model(), ones({2, 3}), 0.5f, 3).text().empty(), "explain");
  jit::StanceGuard eager(jit::Stance::force_eager);
  expect(f(Model(), ones({1, 3}), 1, 1).first.size(0) == 1, "stances");
}

void control_flow() {
  auto f = jit::compile([](Tensor x, Scalar n) {
    auto [a, turns] = jit::while_loop([](Tensor y, Scalar) { return sum(y) < 100; },
                                      [](Tensor y, Scalar k) { return std::tuple{y * 2, k + 1}; }, x, 0);
    Tensor b = jit::cond(sum(a) > n, [](Tensor y) { return y + 1; }, [](Tensor y) { return y - 1; }, a);
    b = jit::fori_loop(0, 3, [](Scalar k, Tensor y) { return y + k; }, b);
    b = jit::switch_(turns, std::tuple{[](Tensor y) { return y; }, [](Tensor y) { return y * 2; }}, b);
    return jit::scan([](Tensor carry, Tensor y) { return std::tuple{carry + y, carry * y}; }, zeros({}), b);
  });
  expect(f(ones({2}), 3).second.numel() == 2, "control flow");
}

void derivatives() {
  auto loss = [](const Layer& layer, Tensor x) { return sum(square(layer(x))); };
  const Layer layer{eye(2), ones({2})};
  const auto [value, gradient] = jit::compile(jit::value_and_grad(loss))(layer, ones({1, 2}));
  expect(item<float>(value) == 8 && item<float>(sum(gradient.b)) == 8, "value_and_grad");
  auto cube = [](Tensor x) { return sum(x * x * x); };
  expect(item<float>(sum(jit::hessian(cube)(ones({2})))) == 12, "hessian");
  expect(
      jit::vmap([](Tensor x, Tensor y) { return sum(x * y); }, {0, jit::no_axis})(ones({3, 2}), ones({2})).size(0) == 3,
      "vmap");
  expect(jit::jvp(cube, std::tuple{ones({2})}, std::tuple{ones({2})}).second.numel() == 1, "jvp");
  Variable w(ones({2}), "w");
  w.requires_grad();
  sum(jit::checkpoint([](Tensor x) { return exp(x); })(w * 0)).backward();
  expect(w.grad().numel() == 2, "tape");
}

void host_functions() {
  int calls = 0;
  auto doubled = jit::custom_op({
      .name = "doubled",
      .shape = [](auto in) { return in[0]; },
      .cpu =
          [](auto in, auto out) {
            for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 2 * in[0].data[i];
          },
      .vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{2 * dout}; },
  });
  auto raised = jit::disable([&calls](const Tensor& x, int by) {
    ++calls;
    return x + by;
  });
  auto block = jit::region([](Tensor x) { return tanh(x) * 2; });
  auto f = jit::compile([=, &calls](Tensor x) {
    jit::check(x >= 0, "negative: {}", x);
    jit::callback([&calls](const Tensor&) { ++calls; }, x);
    Tensor y = jit::callback([](std::vector<float> in) { return in[0]; },
                             jit::ResultSpec{.shape = {}, .dtype = DType::f32, .pure = true}, x);
    return raised(doubled(block(x)), 1) + y;
  });
  for (int i = 0; i < 3; ++i) f(zeros({2}));
  expect(item<float>(sum(f(zeros({2})))) == 2, "host functions");
  expect(calls == 8, "each effect runs once in each call");
  expect(item<float>(sum(jit::grad([=](Tensor x) { return sum(doubled(x)); })(ones({2})))) == 4,
         "derivative of a custom op");
}

void errors() {
  try {
    eval(matmul(ones({2, 3}), ones({2, 3})));
    expect(false, "an error is thrown");
  } catch (const ShapeError& error) {
    expect(std::string(error.what()).find("matmul") != std::string::npos, "the error says where");
  }
  try {
    jit::compile([](Tensor x) {
      jit::check(x > 0, "must be positive");
      return x;
    })(zeros({1}));
    expect(false, "a check fails");
  } catch (const UserError&) {}
}

}  // namespace

int main() {
  expressions();
  memory_of_others();
#ifdef USER_HAS_STANDARD_HALVES
  standard_half<std::float16_t>(DType::f16);
  standard_half<std::bfloat16_t>(DType::bf16);
#else
  std::printf("no std::float16_t here\n");
#endif
  compiled();
  control_flow();
  derivatives();
  host_functions();
  errors();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
