// What tests of calls on devices share: a small network with its training step, numbers to compute with, and how far
// they differ.
#pragma once

#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sinter_test {

struct Network {
  sinter::Variable w1, b1, w2, b2;
};
inline Network network(std::int64_t in, std::int64_t hidden, std::int64_t out, float scale) {
  using namespace sinter;
  return {Variable(randn({in, hidden}) * scale, "w1"), Variable(zeros({hidden}), "b1"),
          Variable(randn({hidden, out}) * scale, "w2"), Variable(zeros({out}), "b2")};
}

inline auto training_step() {
  using namespace sinter;
  return [](const Network& n, Tensor in, Tensor target, Scalar rate) {
    auto [loss, gradients] = jit::value_and_grad([&](const Network& m) {
      Tensor error = matmul(relu(matmul(in, m.w1) + m.b1), m.w2) + m.b2 - target;
      return mean(error * error);
    })(n);
    auto update = [&, &g = gradients](const Variable& v) { v -= rate * g[v]; };
    update(n.w1);
    update(n.b1);
    update(n.w2);
    update(n.b2);
    return loss;
  };
}

/// Numbers in [-1, 1), the same for the same seed, on the CPU.
inline sinter::Tensor noise(const std::vector<std::int64_t>& shape, int seed) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 7919 + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return sinter::copy_of(values, sinter::Shape(std::vector<sinter::Dim>(shape.begin(), shape.end())))
      .to(sinter::Device::cpu());
}

/// NaN is no different from NaN, and infinitely so from a number.
inline double largest_difference(const sinter::Tensor& a, const sinter::Tensor& b) {
  const auto values = [](const sinter::Tensor& t) {
    return sinter::to_vector<double>(sinter::cast(t.to(sinter::Device::cpu()), sinter::DType::f64));
  };
  const std::vector<double> x = values(a), y = values(b);
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool are_same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    const double difference = are_same ? 0 : std::abs(x[i] - y[i]);
    largest = std::max(largest, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return largest;
}

}  // namespace sinter_test
