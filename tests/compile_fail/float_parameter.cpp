// A float parameter of a compiled function would be a constant of the trace.
// expect: sinter: a float or double parameter would be frozen into the compiled function; declare it Scalar
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([](Tensor t, Scalar s) { return t * s; });
  right(x, 0.5f);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([](Tensor t, float s) { return t * s; });
#endif
}
