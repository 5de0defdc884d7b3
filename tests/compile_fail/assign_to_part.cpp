// x(...) gives a value; x.at(...) is the place.
// expect: (passing .* as .this. argument discards|no match for|no viable overloaded '='|use of deleted function|cannot be assigned)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x, Tensor y) {
  x.at(all, 0) = y;
#ifdef SINTER_COMPILE_FAIL
  x(all, 0) = y;
#endif
}
