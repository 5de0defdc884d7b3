// A tensor is no truth value.
// expect-gcc: could not convert .* from .*Tensor.* to .bool.
// expect-clang: (not contextually convertible to 'bool'|deleted)
#include <sinter/sinter.hpp>

using namespace sinter;

int use(Tensor x) {
  if (item<bool>(any(x > 0))) return 1;
#ifdef SINTER_COMPILE_FAIL
  if (x) return 2;
#endif
  return 0;
}
