// A member function needs its object.
// expect: sinter: a pointer to a member function has no object to be called on
#include <sinter/sinter.hpp>

using namespace sinter;

struct Model {
  Tensor weight;
  Tensor forward(Tensor t) const { return t * weight; }
};

void use(Tensor x) {
  const Model model{x};
  auto right = jit::compile([model](Tensor t) { return model.forward(t); });
  right(x);
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile(&Model::forward);
#endif
}
