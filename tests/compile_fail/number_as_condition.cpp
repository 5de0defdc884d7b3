// A run-time number is compared; it is no condition itself.
// expect-gcc: could not convert .* from .*Scalar.* to .bool.
// expect-clang: no viable conversion from '.*Scalar' to 'bool'
#include <sinter/sinter.hpp>

using namespace sinter;

int use(Scalar s) {
  if (s > 0) return 1;
#ifdef SINTER_COMPILE_FAIL
  if (s) return 2;
#endif
  return 0;
}
