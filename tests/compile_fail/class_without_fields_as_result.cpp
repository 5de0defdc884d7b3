// The same for results.
// expect: sinter: this type cannot be taken apart; write SINTER_FIELDS\(member, \.\.\.\) in it, or pass its tensors
#include <sinter/sinter.hpp>

using namespace sinter;

class Answer {
 public:
  explicit Answer(Tensor v) : value_(v) {}
#ifdef SINTER_COMPILE_FAIL
#else
  SINTER_FIELDS(value_)
#endif

 private:
  Tensor value_;
};

void use(Tensor x) {
  auto f = jit::compile([](Tensor t) { return Answer(t + 1); });
  f(x);
}
