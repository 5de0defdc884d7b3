// The two networks of the demo, and the training step they share.
#pragma once

#include <sinter/sinter.hpp>

#include <cmath>

/// 64 -> 128 -> 10.
struct Mlp {
  sinter::Variable w1{sinter::randn({64, 128}) * std::sqrt(2.f / 64), "w1"}, b1{sinter::zeros({128}), "b1"};
  sinter::Variable w2{sinter::randn({128, 10}) * std::sqrt(2.f / 128), "w2"}, b2{sinter::zeros({10}), "b2"};
  sinter::Tensor operator()(const sinter::Tensor& x) const { return matmul(relu(matmul(x, w1) + b1), w2) + b2; }
};

/// Two 3x3 convolutions with 8 and 16 channels, each halved by max pooling, and a linear layer.
struct Cnn {
  sinter::Variable c1{sinter::randn({8, 1, 3, 3}) * std::sqrt(2.f / 9), "c1"},
      c2{sinter::randn({16, 8, 3, 3}) * std::sqrt(2.f / 72), "c2"};
  sinter::Variable b1{sinter::zeros({8, 1, 1}), "b1"}, b2{sinter::zeros({16, 1, 1}), "b2"};
  sinter::Variable w{sinter::randn({64, 10}) * std::sqrt(1.f / 64), "w"}, b{sinter::zeros({10}), "b"};
  sinter::Tensor operator()(const sinter::Tensor& x) const {
    auto h = sinter::Tensor(x.reshape({x.size(0), 1, 8, 8}));
    h = max_pool2d(relu(conv2d(h, c1, {.padding = 1}) + b1), 2);
    h = max_pool2d(relu(conv2d(h, c2, {.padding = 1}) + b2), 2);
    return matmul(h.reshape({x.size(0), 64}), w) + b;
  }
};

/// Forward, backward and update, as one function of the batch.
template <class Net>
sinter::Tensor training_step(const Net& net, const sinter::Tensor& x, const sinter::Tensor& y,
                             const sinter::Scalar& learning_rate) {
  auto [loss, gradients] = sinter::jit::value_and_grad([&](const Net& n) { return cross_entropy(n(x), y); })(net);
  auto update = [&, &g = gradients](const sinter::Variable& v) { v -= learning_rate * g[v]; };
  if constexpr (requires { net.c1; }) {
    update(net.c1);
    update(net.c2);
    update(net.w);
    update(net.b);
  } else {
    update(net.w1);
    update(net.w2);
  }
  update(net.b1);
  update(net.b2);
  return loss;
}
