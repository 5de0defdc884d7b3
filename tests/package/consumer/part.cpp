// What a user's project does with Sinter; main.cpp does not include it, so that this can be a shared library.
#include <sinter/sinter.hpp>

#include <vector>

std::vector<float> added(const std::vector<float>& left, const std::vector<float>& right) {
  using namespace sinter;
  auto add = jit::compile([](Tensor a, Tensor b) { return a + b; });
  return to_vector<float>(add(copy_of(left, {3}), copy_of(right, {3})));
}
