// A training loop in PyTorch's style: the forward pass is compiled, loss.backward() runs the backward part that was
// planned with it, and optimiser, scheduler, hooks and evaluation are ordinary C++. docs/gradients.md has the Python
// original.
#include <cmath>
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>
using namespace sinter;

struct Linear {
  Variable weight, bias;
  SINTER_FIELDS(weight, bias)
  Linear(int in, int out, double scale)
      : weight(sin(arange(in * out).to(DType::f32) * 1.7f).reshape({in, out}) * scale), bias(zeros({out})) {}
  Tensor operator()(const Tensor& x) const { return matmul(x, weight) + bias; }
};

struct Model {
  Linear hidden{1, 16, 1}, output{16, 1, 0.3};
  SINTER_FIELDS(hidden, output)
  Tensor operator()(const Tensor& x) const { return output(tanh(hidden(x))); }
};

int main() {
  const Tensor x = (arange(64).to(DType::f32) / 32 - 1).reshape({64, 1}), y = sin(x * 3);
  Model model;
  jit::requires_grad(model);

  auto predict = jit::compile([](const Model& m, Tensor inputs) { return m(inputs); });
  auto step = jit::compile([](const std::vector<Variable>& weights, const std::vector<Tensor>& gradients, Scalar rate) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * gradients[i];
  });

  std::vector<Variable> weights;
  for (const jit::Parameter& p : jit::parameters(model)) {
    weights.push_back(p.variable);
    std::printf("%s %s\n", p.name.c_str(), p.variable.shape().text().c_str());
  }
  int seen = 0;
  jit::GradientHook hook = model.hidden.weight.register_hook([&](const Tensor&) { ++seen; });

  double rate = 0.5;
  for (int epoch = 0; epoch < 300; ++epoch) {
    jit::zero_grad(model);
    Tensor loss = mean(square(predict(model, x) - y));  // compiled prediction, lazy loss
    loss.backward();
    jit::clip_grad_norm(model, 1.0);
    std::vector<Tensor> gradients;
    for (const Variable& w : weights) gradients.push_back(w.grad());
    step(weights, gradients, rate);
    if (epoch % 100 == 99) {
      rate *= 0.5;  // the scheduler; a run-time number compiles nothing again
      jit::NoGradGuard no_grad;
      std::printf("epoch %3d: loss below 0.1: %s\n", epoch + 1,
                  item<float>(mean(square(predict(model, x) - y))) < 0.1f ? "yes" : "no");
    }
  }
  hook.remove();
  std::printf("%d gradients seen, prediction compiled %d times, update %d\n", seen,
              static_cast<int>(predict.stats().compiles), static_cast<int>(step.stats().compiles));
}
