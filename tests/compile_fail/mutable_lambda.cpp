// A compiled function has no state of its own.
// expect: sinter: a mutable lambda, or a function object whose operator\(\) is not const, changes state of its own
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  Variable count(Tensor(Scalar(0)));
  auto right = jit::compile([=](Tensor t) {
    count += 1;
    return t * count;
  });
  right(x);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([n = 0](Tensor t) mutable { return t * ++n; });
#endif
}
