// A training loop in PyTorch's style: the loss is compiled, loss.backward() runs the backward part that was planned with
// it; optimiser, scheduler, hooks and evaluation are ordinary C++. training_loop.py is the Python original, and
// training_loop.py.txt what that printed: this program prints the same lines, and then how often it compiled.
#include <cmath>
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>
using namespace sinter;

struct Linear {
  Variable weight, bias;
  SINTER_FIELDS(weight, bias)
  Linear(int in, int out, double scale)
      : weight(sin(arange(in * out).to(DType::f64) * 1.7).reshape({in, out}) * scale),
        bias(zeros({out}, {.dtype = DType::f64})) {}
  Tensor operator()(const Tensor& x) const { return matmul(x, weight) + bias; }
};

struct Model {
  Linear hidden{1, 16, 1}, output{16, 1, 0.3};
  SINTER_FIELDS(hidden, output)
  Tensor operator()(const Tensor& x) const { return output(tanh(hidden(x))); }
};

/// As torch.optim.SGD with momentum. The update of all parameters is one compiled function.
class Sgd {
 public:
  template <class M>
  Sgd(const M& model, double rate, double momentum) : rate_(rate), momentum_(momentum) {
    for (const jit::Parameter& p : jit::parameters(model)) {
      weights_.push_back(p.variable);
      velocities_.emplace_back(zeros_like(p.variable));
    }
  }
  double rate() const { return rate_; }
  void set_rate(double rate) { rate_ = rate; }
  void step() const {
    std::vector<Tensor> gradients;
    for (const Variable& w : weights_) gradients.push_back(w.grad());
    update_(weights_, velocities_, gradients, rate_, momentum_);
  }
  int compiles() const { return static_cast<int>(update_.stats().compiles); }

 private:
  std::vector<Variable> weights_, velocities_;
  double rate_, momentum_;
  jit::Function<void(std::vector<Variable>, std::vector<Variable>, std::vector<Tensor>, Scalar, Scalar)> update_ =
      jit::compile([](const std::vector<Variable>& weights, const std::vector<Variable>& velocities,
                      const std::vector<Tensor>& gradients, Scalar rate, Scalar momentum) {
        for (std::size_t i = 0; i < weights.size(); ++i) {
          velocities[i].set(momentum * velocities[i] + gradients[i]);
          weights[i] -= rate * velocities[i];
        }
      });
};

/// As torch.optim.lr_scheduler.StepLR. The rate is a number at run time: it compiles nothing again.
class StepRate {
 public:
  StepRate(Sgd& optimiser, int every, double factor) : optimiser_(optimiser), every_(every), factor_(factor) {}
  void step() {
    if (++steps_ % every_ == 0) optimiser_.set_rate(optimiser_.rate() * factor_);
  }

 private:
  Sgd& optimiser_;
  int every_, steps_ = 0;
  double factor_;
};

int main() {
  const Tensor x = (arange(64).to(DType::f64) / 32 - 1).reshape({64, 1}), y = sin(x * 3);
  const Tensor held_out = (arange(50).to(DType::f64) / 25 - 0.99).reshape({50, 1});
  Model model;
  jit::requires_grad(model);
  auto loss_of =
      jit::compile([](const Model& m, Tensor inputs, Tensor wanted) { return mean(square(m(inputs) - wanted)); });
  Sgd optimiser(model, 0.2, 0.9);
  StepRate scheduler(optimiser, 100, 0.5);

  for (const jit::Parameter& p : jit::parameters(model))
    std::printf("%s %s\n", p.name.c_str(), p.variable.shape().text().c_str());
  int seen = 0;
  jit::GradientHook hook = model.hidden.weight.register_hook([&](const Tensor& gradient) {
    ++seen;
    return gradient * 0.5;
  });

  for (int epoch = 1; epoch <= 300; ++epoch) {
    jit::zero_grad(model);
    Tensor loss = loss_of(model, x, y);
    loss.backward();
    Tensor norm = jit::clip_grad_norm(model, 1.0);
    optimiser.step();
    scheduler.step();
    if (epoch % 50 == 0) {
      jit::NoGradGuard no_grad;
      Tensor error = loss_of(model, held_out, sin(held_out * 3));
      std::printf("epoch %3d: loss %.6f, held out %.6f, norm %.6f, next rate %.3f\n", epoch, item<double>(loss),
                  item<double>(error), item<double>(norm), optimiser.rate());
    }
  }
  hook.remove();
  std::printf("%d gradients seen\n", seen);
  std::printf("the loss was compiled %d times, the update %d\n", static_cast<int>(loss_of.stats().compiles),
              optimiser.compiles());
}
