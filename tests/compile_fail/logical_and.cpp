// && would have to stop half-way: & is the operator of tensors.
// expect: (use of deleted function.*operator&&|overload resolution selected deleted operator '&&')
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x) {
  Tensor both = (x > 0) & (x < 1);
#ifdef SINTER_COMPILE_FAIL
  Tensor wrong = (x > 0) && (x < 1);
#endif
}
