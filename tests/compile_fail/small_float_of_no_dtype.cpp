// A float of 8 bits whose format no dtype has is no element, though another one of as many bits is.
// expect: elements are float, double, float16, bfloat16, std::complex of float and double, integers of 8 to 64 bits or bool
#include <sinter/sinter.hpp>

#include <cstdint>
#include <vector>

using namespace sinter;

void use(std::vector<float8_e5m2> data, std::vector<small_float<std::uint8_t, 5, 2, false>> others) {
  Tensor x = copy_of(data, {4});
#ifdef SINTER_COMPILE_FAIL
  Tensor y = copy_of(others, {4});
#endif
  static_cast<void>(others);
}
