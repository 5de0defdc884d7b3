// The type of a compiled function says how many arguments it takes.
// expect: sinter: the compiled function does not take as many arguments
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  jit::Function<Tensor(Tensor, Tensor)> right = jit::compile([](Tensor a, Tensor b) { return a * b; });
  right(x, x);
#ifdef SINTER_COMPILE_FAIL
  jit::Function<Tensor(Tensor)> wrong = jit::compile([](Tensor a, Tensor b) { return a * b; });
#endif
}
