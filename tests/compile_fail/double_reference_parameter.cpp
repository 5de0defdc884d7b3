// The same by reference, and in a function pointer.
// expect: sinter: a float or double parameter would be frozen into the compiled function; declare it Scalar
#include <sinter/sinter.hpp>

using namespace sinter;

Tensor scaled(Tensor t, const double& s) { return t * s; }
Tensor shifted(Tensor t, Scalar s) { return t + s; }

void use() {
  auto right = jit::compile(shifted);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile(scaled);
#endif
}
