// Nor has a generic one, which is found out when it is called.
// expect: sinter: a mutable lambda, or a function object whose operator\(\) is not const, changes state of its own
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([n = 2](auto t) { return t * n; });
  right(x);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([n = 0](auto t) mutable { return t * ++n; });
  wrong(x);
#endif
}
