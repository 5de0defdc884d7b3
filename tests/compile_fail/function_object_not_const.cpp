// Nor has an object whose operator() may change it, here in a gradient.
// expect: sinter: a mutable lambda, or a function object whose operator\(\) is not const, changes state of its own
#include <sinter/sinter.hpp>

using namespace sinter;

struct Loss {
  Tensor operator()(Tensor t) const { return sum(t); }
};
struct CountingLoss {
  int calls = 0;
  Tensor operator()(Tensor t) { return sum(t) * ++calls; }
};

void use(Tensor x) {
  jit::grad(Loss{})(x);
#ifdef SINTER_COMPILE_FAIL
  jit::grad(CountingLoss{})(x);
#endif
}
