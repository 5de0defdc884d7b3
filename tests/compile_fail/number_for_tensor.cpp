// A number for a parameter that is a Tensor: its dtype would be a guess. Scalar takes numbers.
// expect: sinter: this argument is no Tensor, which the function's parameter is: a parameter that takes numbers is declared Scalar
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([](Tensor t, Scalar s) { return t * s; });
  right(x, 0.5);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([](Tensor t, Tensor s) { return t * s; });
  wrong(x, 0.5);
#endif
}
