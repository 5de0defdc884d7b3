// Neither is a comparison of tensors.
// expect-gcc: could not convert .* from .*Expr.* to .bool.
// expect-clang: (not contextually convertible to 'bool'|deleted)
#include <sinter/sinter.hpp>

using namespace sinter;

int use(Tensor x) {
  if (item<bool>(all(x > 0))) return 1;
#ifdef SINTER_COMPILE_FAIL
  if (x > 0) return 2;
#endif
  return 0;
}
