// What the tests of gradients through compiled functions share: a small model, its loss, and its gradients.
#pragma once

#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace sinter_test::gradient_cases {
using namespace sinter;

inline Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

/// Values that are spread, and the same for the same seed.
inline Tensor spread(const Shape& shape, int seed) {
  const std::int64_t count = shape.numel().value();
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<float>(i + 1) * 0.7f + static_cast<float>(seed)));
  return reshape(copy_of(values), shape);
}

struct Layer {
  Variable w, b;
  SINTER_FIELDS(w, b)
  Layer(int in, int out, int seed) : w(spread({in, out}, seed) * 0.5, "w"), b(spread({out}, seed + 1), "b") {}
  Tensor operator()(const Tensor& x) const { return matmul(x, w) + b; }
};
struct Net {
  Layer first{3, 8, 1}, second{8, 2, 5};
  Tensor operator()(const Tensor& x) const { return second(gelu(first(x))); }
  std::vector<Variable> parameters() const { return {first.w, first.b, second.w, second.b}; }
};
inline Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) { return mean(square(net(x) - y)); }

inline std::vector<std::vector<double>> grads_of(const Net& net) {
  std::vector<std::vector<double>> grads;
  for (const Variable& v : net.parameters()) grads.push_back(doubles(v.grad()));
  return grads;
}
/// Each list, relative to its largest expected element.
inline bool near_all(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b,
                     double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!near_relative(a[i], b[i], tolerance)) return false;
  return a.size() == b.size();
}

struct Batch {
  Tensor x = spread({5, 3}, 2), y = spread({5, 2}, 3);
};

}  // namespace sinter_test::gradient_cases
