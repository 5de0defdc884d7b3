// A number reaches a function as a Scalar, which becomes no Tensor by itself.
// expect: sinter: the function does not take these arguments
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([](auto t, Scalar s) { return t * s; });
  right(x, 2);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([](auto t, Tensor s) { return t * s; });
  wrong(x, 2);
#endif
}
