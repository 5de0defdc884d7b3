// A place in a temporary would be lost.
// expect: (passing .* as .this. argument|discards qualifiers|is a private|'this' argument to member function 'at' is an rvalue)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Tensor x, Tensor y) {
  Tensor product = x * y;
  product.at(0) = 1;
#ifdef SINTER_COMPILE_FAIL
  matmul(x, y).at(0) = 1;
#endif
}
