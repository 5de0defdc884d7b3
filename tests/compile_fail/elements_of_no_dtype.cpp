// Elements of a type that is no dtype are named as such.
// expect: elements are float, double, float16, bfloat16, std::complex of float and double, integers of 8 to 64 bits or bool
#include <sinter/sinter.hpp>

#include <vector>

using namespace sinter;

void use(std::vector<float> data, std::vector<char16_t> samples) {
  Tensor x = copy_of(data, {4});
#ifdef SINTER_COMPILE_FAIL
  Tensor y = copy_of(samples, {4});
#endif
  static_cast<void>(samples);
}
