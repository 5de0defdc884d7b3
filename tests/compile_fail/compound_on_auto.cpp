// `+=` on an unfinished expression.
// expect: sinter: `auto` names an unfinished expression; declare the variable as Tensor
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor a, Tensor b) {
  auto sum = a + b;
  Tensor x = sum;
  x += b;
#ifdef SINTER_COMPILE_FAIL
  sum += b;
#endif
}
