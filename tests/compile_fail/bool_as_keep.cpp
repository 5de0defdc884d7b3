// Nor is a bool a Keep.
// expect: (cannot convert|could not convert|no matching function|no known conversion)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  Tensor right = sum(x, 1, Keep::yes);
#ifdef SINTER_COMPILE_FAIL
  Tensor wrong = sum(x, 1, true);
#endif
}
