// std::vector<bool> has no memory to take over.
// expect: (no matching function for call to .*adopt|constraints not satisfied)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(std::vector<float> data, std::vector<bool> flags) {
  Tensor x = adopt(std::move(data), {4});
#ifdef SINTER_COMPILE_FAIL
  Tensor y = adopt(std::move(flags), {4});
#endif
  static_cast<void>(flags);
}
