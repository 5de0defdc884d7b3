// Nor has the body of a loop.
// expect: sinter: a mutable lambda, or a function object whose operator\(\) is not const, changes state of its own
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  jit::scan([](Tensor c, Tensor t) { return std::pair(Tensor(c + t), c); }, zeros({}), x);
#ifdef SINTER_COMPILE_FAIL
  jit::scan([n = 0](Tensor c, Tensor t) mutable { return std::pair(Tensor(c + t * ++n), c); }, zeros({}), x);
#endif
}
