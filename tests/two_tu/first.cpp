// One of two translation units that include the whole header-only library; see CMakeLists.txt.
#include <sinter/sinter.hpp>

#include <cstdio>

sinter::Tensor doubled(const sinter::Tensor& x);  // second.cpp

int main() {
  using namespace sinter;
  Tensor x = copy_of(std::vector<float>{1, 2, 3}, {3});
  Tensor y = doubled(x) + x;
  auto compiled = jit::compile([](Tensor a, Tensor b) { return a + b; });
  const std::vector<float> got = to_vector<float>(compiled(y, x));
  const std::vector<float> want{4, 8, 12};
  if (got != want) {
    std::printf("got %g %g %g, want 4 8 12\n", got[0], got[1], got[2]);
    return 1;
  }
  return 0;
}
