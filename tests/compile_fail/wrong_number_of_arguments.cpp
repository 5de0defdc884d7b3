// A compiled function takes as many arguments as the function.
// expect: (no match for call to|no matching function for call to object)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto f = jit::compile([](Tensor a, Tensor b) { return a + b; });
  f(x, x);
#ifdef SINTER_COMPILE_FAIL
  f(x);
#endif
}
