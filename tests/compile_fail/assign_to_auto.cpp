// `auto` names an unfinished expression, which cannot be given another one.
// expect: sinter: `auto` names an unfinished expression; declare the variable as Tensor
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor a, Tensor b) {
  auto sum = a + b;
  Tensor x = sum * 2;
#ifdef SINTER_COMPILE_FAIL
  sum = a - b;
#endif
}
