// The outcome of a run-time number is not known while tracing.
// expect-gcc: (could not convert|no match for .operator>.)
// expect-clang: (not contextually convertible|invalid operands to binary expression)
#include <sinter/sinter.hpp>

using namespace sinter;

int use(Scalar s) {
  if (s.is_number() && s.number() > 0) return 1;
#ifdef SINTER_COMPILE_FAIL
  if (s > 0) return 2;
#endif
  return 0;
}
