// A loop that starts with a number carries a Scalar.
// expect: the condition of a while_loop does not take the carries
#include <sinter/sinter.hpp>

using namespace sinter;

void use() {
  jit::while_loop([](Scalar i) { return i < 3; }, [](Scalar i) { return i + 1; }, 0);
#ifdef SINTER_COMPILE_FAIL
  jit::while_loop([](Tensor i) { return i < 3; }, [](Tensor i) { return i + 1; }, 0);
#endif
}
