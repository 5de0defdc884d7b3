// Sinter in ten lines: a function of tensors, compiled at its first call.
#include <iostream>
#include <sinter/sinter.hpp>
using namespace sinter;

int main() {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}), w = tensor({{0.5f}, {-1.f}});
  auto f = jit::compile([](Tensor x, Tensor w, Scalar s) { return relu(matmul(x, w) + 2) * s; });
  std::cout << f(x, w, 2.f) << f(x, w, 10.f) << "compiled " << f.stats().compiles << " time\n";
}
