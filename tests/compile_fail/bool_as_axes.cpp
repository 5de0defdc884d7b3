// sum(x, true) is no axis; keepdim is a word of its own.
// expect: (use of deleted function.*Axes\(bool\)|invokes a deleted function|call to deleted constructor)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  Tensor right = sum(x, 1, keepdim);
#ifdef SINTER_COMPILE_FAIL
  Tensor wrong = sum(x, true);
#endif
}
