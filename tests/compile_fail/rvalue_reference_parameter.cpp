// Arguments are not moved into a compiled function.
// expect: sinter: a compiled function takes its arguments by value or const reference; return the new value instead
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([](Tensor t) { return t + 1; });
  right(x);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([](Tensor&& t) { return t + 1; });
#endif
}
