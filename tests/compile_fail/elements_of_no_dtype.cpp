// Elements of a type that is no dtype are named as such.
// expect: elements are float, double, std::int32_t, std::int64_t or bool
#include <sinter/sinter.hpp>

#include <vector>

using namespace sinter;

void use(std::vector<float> data, std::vector<short> samples) {
  Tensor x = copy_of(data, {4});
#ifdef SINTER_COMPILE_FAIL
  Tensor y = copy_of(samples, {4});
#endif
  static_cast<void>(samples);
}
