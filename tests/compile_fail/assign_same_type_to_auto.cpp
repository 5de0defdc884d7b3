// The same where both expressions happen to have one type.
// expect: sinter: `auto` names an unfinished expression; declare the variable as Tensor
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor a, Tensor b) {
  auto sum = a + b;
  Tensor x = sum;
#ifdef SINTER_COMPILE_FAIL
  sum = b + a;
#endif
}
