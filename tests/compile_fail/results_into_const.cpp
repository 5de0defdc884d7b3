// Memory that results are written to is not const.
// expect: results cannot go into const memory
#include <sinter/sinter.hpp>

#include <vector>

using namespace sinter;

void use(std::vector<float>& data, const std::vector<float>& constant) {
  BorrowedMut x = borrow_mut(data, {4});
#ifdef SINTER_COMPILE_FAIL
  BorrowedMut y = borrow_mut(constant, {4});
#endif
  static_cast<void>(constant);
}
