// The other translation unit; see CMakeLists.txt.
#include <sinter/sinter.hpp>

sinter::Tensor doubled(const sinter::Tensor& x) {
  auto compiled = sinter::jit::compile([](sinter::Tensor a) { return a * 2; });
  return compiled(x);
}
