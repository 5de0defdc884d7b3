// Nor has the body of a counted loop.
// expect: sinter: the body of a fori_loop takes the number of the iteration
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  jit::fori_loop(0, 3, [](Scalar i, Tensor t) { return t * i; }, x);
#ifdef SINTER_COMPILE_FAIL
  jit::fori_loop(0, 3, [n = 0](Scalar, Tensor t) mutable { return t * ++n; }, x);
#endif
}
